"""What follows a training: Progress, lines of JSON, TensorBoard, MLflow."""

import copy
import io
import json
import os
import pickle
import signal
import warnings

import numpy as np
import pytest
from rich.console import Console

import leadline
from leadline import DepthClassifier, DepthRegressor, InvalidArgumentError
from leadline.callbacks import DEPTH_EVERY, JsonLines, MLflow, TensorBoard, lines
from leadline.files.lines import NotWrittenWarning
from leadline.files.ours import is_ours
from leadline.training.bursts import PHASES, Progress
from leadline.training.progress import ProgressLine
from tests.tolerances import CLOSED_FORM

RNG = np.random.default_rng(0)
X = RNG.normal(size=(60, 2))
Y = (X[:, 0] > 0).astype(int)
SMALL = {"width": 4, "n_restarts": 3, "max_iter": 300, "random_state": 0}


def classifier(callback=None, **changes):
    return DepthClassifier(**{**SMALL, "callback": callback, **changes})


def read(path):
    return [json.loads(line) for line in path.read_text().splitlines()]


class Bursts(list):
    """Takes the epochs of a call at once."""

    def burst(self, epochs):
        self.append(epochs)


@pytest.fixture(scope="module")
def followed(tmp_path_factory):
    """A fit and what its callbacks, a list of them, were told."""
    path, seen, bursts = tmp_path_factory.mktemp("followed") / "metrics.jsonl", [], Bursts()
    est = classifier([seen.append, JsonLines(path), bursts]).fit(X, Y)
    return est, seen, read(path), bursts


# Progress


def test_every_callback_of_a_list_hears_of_every_epoch(followed):
    est, seen, said, bursts = followed
    assert [now.epoch for now in seen] == list(range(1, est.n_iter_ + 1))
    assert [now.epoch for burst in bursts for now in burst] == [now.epoch for now in seen]
    assert len(bursts) < est.n_iter_
    assert len(said) == 3 * est.n_iter_
    assert bursts[-1][-1].epoch == est.n_iter_


def test_progress_has_what_every_restart_says(followed):
    est, seen, *_ = followed
    for name, column in est.history_.items():
        np.testing.assert_array_equal([now.restarts[name] for now in seen], column)
    temperature = seen[0].restarts["temperature"]
    np.testing.assert_allclose(temperature, est.restart_temperatures_, rtol=CLOSED_FORM["float32"])
    assert [now.nll for now in seen] == pytest.approx(est.history_["validation_nll"].mean(axis=1))
    seconds = [now.seconds for now in seen]
    assert all(np.diff(seconds) > 0)
    assert 0 < seconds[0] < seconds[-1] <= est.fit_seconds_


def test_the_phases_are_those_of_the_schedules(followed):
    """First without the weight KL; then 0.9 of the rest it comes in, and from 0.5 of it the rate falls."""
    est, seen, *_ = followed
    phases = [now.phase for now in seen]
    n_learning = phases.count("learning")
    assert list(dict.fromkeys(phases)) == ["learning", "warm-up", "annealing"]
    length = est.n_iter_ - n_learning
    assert phases.count("warm-up") == pytest.approx(length / 2, abs=1)
    assert set(phases) <= set(PHASES)


@pytest.mark.parametrize(
    ("recipe", "phases"),
    [("leadline", ["warm-up", "annealing"]), ("published", ["training"]), ("written", ["training"])],
)
def test_a_length_that_is_given_has_no_phase_of_learning(recipe, phases):
    seen = []
    classifier(seen.append, recipe=recipe, early_stopping=False, max_iter=10).fit(X, Y)
    assert list(dict.fromkeys(now.phase for now in seen)) == phases


def test_numbers_are_told_in_the_units_of_the_history(tmp_path):
    seen = []
    callbacks = [seen.append, JsonLines(tmp_path / "m.jsonl")]
    est = DepthRegressor(**SMALL, callback=callbacks).fit(X, 1000 * X[:, 0] + RNG.normal(size=60))
    for name in ("free_energy", "expected_nll", "validation_nll"):
        np.testing.assert_array_equal([now.restarts[name] for now in seen], est.history_[name])
        said = np.array([line[name] for line in read(tmp_path / "m.jsonl")]).reshape(-1, 3)
        np.testing.assert_allclose(said, est.history_[name], rtol=CLOSED_FORM["float32"])


def test_one_of_several_callbacks_can_end_the_training(followed):
    est = classifier([lambda now: None, lambda now: now.epoch >= 3, lambda now: False]).fit(X, Y)
    assert est.n_iter_ < followed[0].n_iter_


@pytest.mark.parametrize("wrong", ["print", 3, [print, "print"], {"a": print}])
def test_what_cannot_be_called_is_refused(wrong):
    with pytest.raises(InvalidArgumentError, match=r"^`callback` must be a callable, or a list of callables, got "):
        classifier(wrong).fit(X, Y)


# The live line


def test_the_line_names_the_phase_and_never_looks_like_divergence():
    """Restarts that are far too sure, and the rise when what was learned by heart goes, are no reason to worry."""
    console = Console(record=True, force_terminal=False, file=io.StringIO(), width=200)
    said = []
    with ProgressLine(console=console) as line:
        line.show = lambda plain, **now: said.append(plain)
        for epoch, (phase, nll) in enumerate([("learning", 0.08), ("learning", 0.3), ("warm-up", 27.0)], 1):
            each = np.array([nll, nll, 40 * nll])
            now = Progress(epoch, None, 1e5, each.mean(), 1.0, 0.5, (0, 3), phase, 1.0, {"validation_nll": each})
            line(now)
    assert [text.split() for text in said] == [
        f"epoch {i + 1} {phase} NLL 0.080 at best depth 1.00 ± 0.50 in 0..3".split()
        for i, phase in enumerate(["learning", "learning", "warm-up"])
    ]


# Lines of JSON


def test_there_is_a_line_for_every_epoch_and_restart(followed):
    est, _, said, _ = followed
    assert [(line["epoch"], line["restart"]) for line in said] == [
        (epoch, restart) for epoch in range(1, est.n_iter_ + 1) for restart in range(3)
    ]
    for name, column in est.history_.items():
        found = np.array([line[name] for line in said]).reshape(column.shape)
        np.testing.assert_allclose(found, column, rtol=CLOSED_FORM["float32"])
    terms = ("expected_nll", "depth_kl", "weight_kl")
    assert said[-1]["free_energy"] == pytest.approx(sum(said[-1][name] for name in terms), rel=CLOSED_FORM["float32"])
    of_last = {"epochs", "depth_pmf"}
    assert {*said[0]} - of_last == {"epoch", "restart", "phase", "temperature", "seconds", *est.history_}


def test_some_lines_have_the_belief_about_the_depth(followed):
    est, _, said, bursts = followed
    ends = {burst.first + len(burst) - 1: burst for burst in bursts}
    those = [line for line in said if "depth_pmf" in line]
    assert all(line["epochs"] == ends[line["epoch"]].end for line in those)
    assert (those[0]["epoch"], those[-1]["epoch"]) == (1, est.n_iter_)
    told = [line["seconds"] for line in those[:-3:3]]
    assert min(np.diff(told), default=1.0) >= DEPTH_EVERY - 1e-3  # as they are rounded
    for line in those:
        depth, pmf = np.arange(len(line["depth_pmf"])), np.array(line["depth_pmf"])
        mean = depth @ pmf
        # Masses in five digits, so their mean and deviation to about as many.
        assert pmf.sum() == pytest.approx(1, abs=1e-4)
        assert line["depth_mean"] == pytest.approx(mean, abs=1e-3)
        assert line["depth_std"] == pytest.approx(np.sqrt((depth - mean) ** 2 @ pmf), abs=2e-3)
        assert line["depth_support"] == [pmf.nonzero()[0].min(), len(pmf) - 1]
    masses = np.array([np.pad(line["depth_pmf"], (0, 64 - len(line["depth_pmf"]))) for line in those[-3:]])
    shares = est.restart_shares_
    np.testing.assert_allclose((shares @ masses)[: len(est.depth_pmf_)], est.depth_pmf_, atol=1e-4)


def test_another_training_takes_the_place_of_the_lines(tmp_path):
    path = tmp_path / "metrics.jsonl"
    follower = JsonLines(path)
    classifier(follower).fit(X, Y)
    est = classifier(follower, early_stopping=False, max_iter=7).fit(X, Y)
    assert len(read(path)) == 3 * est.n_iter_
    assert is_ours(path)


def test_a_training_that_goes_on_has_no_line_twice(tmp_path):
    path, place = tmp_path / "metrics.jsonl", tmp_path / "checkpoints"
    press = lambda now: now.epoch == 20 and signal.raise_signal(signal.SIGINT)  # noqa: E731
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    with pytest.raises(KeyboardInterrupt):
        classifier([press, JsonLines(path)], checkpoint_dir=place).fit(X, Y)
    signal.signal(signal.SIGINT, before)
    done = len(read(path)) // 3
    with path.open("a") as file:  # as of a process that was killed after its last checkpoint, while it wrote
        for line in [{**read(path)[-1], "epoch": done + 1, "restart": k} for k in range(3)]:
            file.write(json.dumps(line) + "\n")
        file.write('{"restart": 0, "epo')
    seen = []
    est = classifier([lambda now: seen.append(now.epoch), JsonLines(path)], checkpoint_dir=place).fit(X, Y)
    assert seen[0] == done + 1
    assert [line["epoch"] for line in read(path)[::3]] == list(range(1, est.n_iter_ + 1))
    assert all(np.diff([line["seconds"] for line in read(path)[::3]]) >= 0)


def test_a_training_that_goes_back_has_no_line_twice(followed, tmp_path):
    """As after a divergence: the epochs after the last good one come again."""
    *_, bursts = followed
    path = tmp_path / "metrics.jsonl"
    follower = JsonLines(path)
    for burst in [*bursts[:6], *bursts[4:7]]:
        follower.burst(burst)
    of_calls = {"depth_pmf": None, "epochs": None}
    expected = map(json.loads, "".join(map(lines, bursts[:7])).splitlines())
    assert [{**line, **of_calls} for line in read(path)] == [{**line, **of_calls} for line in expected]


@pytest.mark.parametrize("name", ["metrics.json", "metrics.txt", ""])
def test_a_file_of_another_kind_is_refused(tmp_path, name):
    with pytest.raises(InvalidArgumentError, match=r"^`path` must be a file that ends in .jsonl, got "):
        JsonLines(tmp_path / name)
    with pytest.raises(InvalidArgumentError, match=r"^`path` must be a file that ends in .jsonl, got 3"):
        JsonLines(3)


def test_a_file_of_somebody_else_s_stays(tmp_path):
    path = tmp_path / "metrics.jsonl"
    path.write_text('{"epoch": 1, "loss": 0.1}\n')
    with pytest.raises(InvalidArgumentError, match="what is there is not Leadline's"):
        JsonLines(path)
    path.unlink()
    follower = JsonLines(path)
    path.write_text("mine\n")  # meanwhile
    with pytest.warns(NotWrittenWarning, match="Training goes on without"):
        classifier(follower).fit(X, Y)
    assert path.read_text() == "mine\n"


@pytest.mark.parametrize("there", ["link", "pipe", "directory"])
def test_only_a_file_is_written_into(tmp_path, there, followed):
    path, mine = tmp_path / "metrics.jsonl", tmp_path / "mine"
    follower = JsonLines(path)
    mine.write_text("")
    {"link": lambda: path.symlink_to(mine), "pipe": lambda: os.mkfifo(path), "directory": path.mkdir}[there]()
    with pytest.warns(NotWrittenWarning):
        follower.burst(followed[-1][0])
    assert mine.read_text() == ""


def test_what_cannot_be_written_is_said_once_and_is_no_reason_to_stop(tmp_path):
    (tmp_path / "file").write_text("")
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        est = classifier(JsonLines(tmp_path / "file" / "metrics.jsonl")).fit(X, Y)
    assert [one.category for one in said] == [NotWrittenWarning]
    assert est.n_iter_ > 100


@pytest.mark.parametrize("make", [lambda at: JsonLines(at / "a.jsonl"), lambda at: TensorBoard(at / "b")])
def test_an_estimator_with_a_follower_can_be_copied_and_pickled(tmp_path, make):
    est = copy.deepcopy(classifier(make(tmp_path))).fit(X, Y)
    back = pickle.loads(pickle.dumps(est))
    np.testing.assert_array_equal(back.predict_proba(X), est.predict_proba(X))
    est.save(tmp_path / "m.safetensors")
    assert leadline.load(tmp_path / "m.safetensors").callback is None


# TensorBoard and MLflow


def test_tensorboard_reads_what_was_written(followed, tmp_path):
    with warnings.catch_warnings(action="ignore"):  # of what it imports
        accumulators = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator")
    est = classifier(TensorBoard(tmp_path, every=5)).fit(X, Y)
    events = accumulators.EventAccumulator(str(tmp_path)).Reload()
    steps = [1, *range(5, est.n_iter_, 5), est.n_iter_]
    for tag, column in (
        ("validation_nll", est.history_["validation_nll"].mean(axis=1)),
        ("restart_2/depth_mean", est.history_["depth_mean"][:, 2]),
    ):
        found = events.Scalars(tag)
        assert [one.step for one in found] == list(dict.fromkeys(steps))
        expected = column[[one.step - 1 for one in found]]
        np.testing.assert_allclose([one.value for one in found], expected, rtol=CLOSED_FORM["float32"])
    assert len(events.Tags()["scalars"]) == 7 * 4


def test_mlflow_has_what_was_logged(tmp_path, monkeypatch):
    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")
    monkeypatch.setenv("MLFLOW_DISABLE_TELEMETRY", "true")
    with warnings.catch_warnings(action="ignore"):
        mlflow = pytest.importorskip("mlflow")
        uri = (tmp_path / "runs").as_uri()
        est = classifier(MLflow(uri, "depths", "first", every=50)).fit(X, Y)
        client = mlflow.MlflowClient(uri)
        [run] = client.search_runs([client.get_experiment_by_name("depths").experiment_id])
        found = client.get_metric_history(run.info.run_id, "restart_1/free_energy")
    assert (run.info.run_name, run.info.status) == ("first", "FINISHED")
    assert [one.step for one in found] == [1, *range(50, est.n_iter_, 50), est.n_iter_]
    expected = est.history_["free_energy"][[one.step - 1 for one in found], 1]
    np.testing.assert_allclose([one.value for one in found], expected, rtol=CLOSED_FORM["float32"])


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: TensorBoard(3), "`log_dir` must be a directory, got 3."),
        (lambda: TensorBoard("logs", every=0), "`every` must be a whole number of at least 1, got 0."),
        (lambda: MLflow(every=2.5), "`every` must be a whole number of at least 1, got 2.5."),
    ],
)
def test_wrong_arguments_of_followers_get_one_sentence(make, message):
    with pytest.raises(InvalidArgumentError) as error:
        make()
    assert str(error.value) == message


def test_what_is_not_installed_is_named(monkeypatch):
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(ImportError, match=r'mlflow is not installed; `pip install "leadline\[mlflow\]"` brings it'):
        MLflow()
