"""History and uncertainty as frames, quantiles, and rows given to decide."""

import dataclasses

import numpy as np
import pandas as pd
import pytest

import leadline
from leadline import RECIPES, DepthClassifier, DepthRegressor, InvalidArgumentError
from leadline.inference.restarts import Restarts
from tests.tolerances import CLOSED_FORM

RNG = np.random.default_rng(0)
X = RNG.normal(size=(80, 2))
Y = np.where(X[:, 0] + 0.3 * RNG.normal(size=80) > 0, "yes", "no")
NUMBERS = 10 * X[:, 0] + RNG.normal(size=80)
TRAIN, REST = slice(0, 60), slice(60, 80)
SMALL = {"width": 4, "n_restarts": 3, "max_iter": 60, "random_state": 0}
FLOAT = CLOSED_FORM["float64"]


@pytest.fixture(scope="module")
def clf():
    return DepthClassifier(**SMALL).fit(X[TRAIN], Y[TRAIN])


@pytest.fixture(scope="module")
def reg():
    return DepthRegressor(**SMALL).fit(X[TRAIN], NUMBERS[TRAIN])


@pytest.fixture(scope="module")
def several():
    return DepthRegressor(**SMALL).fit(X[TRAIN], np.column_stack([NUMBERS, -NUMBERS])[TRAIN])


# Frames


@pytest.mark.parametrize("loaded", [False, True])
def test_the_history_has_a_row_for_every_epoch_and_restart(clf, loaded, tmp_path):
    clf.save(tmp_path / "m.safetensors")
    history = (leadline.load(tmp_path / "m.safetensors") if loaded else clf).history_
    frame = history.to_frame()
    assert isinstance(history, dict)
    assert len(frame) == 3 * clf.n_iter_
    of_one = frame[frame.restart == 1]
    assert of_one.epoch.tolist() == list(range(1, clf.n_iter_ + 1))
    for name in ("free_energy", "validation_nll", "expected_nll", "depth_kl", "weight_kl", "depth_mean", "depth_std"):
        np.testing.assert_array_equal(of_one[name], clf.history_[name][:, 1])
    support = of_one[["depth_support_lowest", "depth_support_highest"]]
    np.testing.assert_array_equal(support, clf.history_["depth_support"][:, 1])
    assert len(frame.columns) == 2 + 7 + 2


def test_the_uncertainty_keeps_the_index_of_the_rows(clf, reg, several):
    frame = pd.DataFrame(X[REST], index=[f"row {i}" for i in range(20)], columns=["a", "b"])
    of_frames = DepthClassifier(**SMALL).fit(pd.DataFrame(X[TRAIN], columns=["a", "b"]), Y[TRAIN])
    said = of_frames.uncertainty(frame).to_frame()
    assert said.columns.tolist() == ["noise", "weights", "depth", "total"]
    assert said.index.tolist() == frame.index.tolist()
    np.testing.assert_array_equal(said.noise + said.weights + said.depth, said.total)
    parts = reg.uncertainty(X[REST])
    assert parts.to_frame().index.tolist() == list(range(20))
    np.testing.assert_array_equal(parts.to_frame().weights, parts.weights)
    assert reg.uncertainty(X[REST].tolist()).to_frame().index.tolist() == list(range(20))
    each = several.uncertainty(X[REST])
    np.testing.assert_array_equal(each.to_frame()["depth_1"], each.depth[:, 1])
    assert len(each.to_frame().columns) == 8


# Quantiles


def test_quantiles_are_where_the_distribution_has_that_much_below(reg):
    levels = [0.05, 0.5, 0.95]
    quantiles = reg.predict(X[REST], quantiles=levels)
    assert quantiles.shape == (20, 3)
    for i, level in enumerate(levels):
        np.testing.assert_allclose(reg.predict_cdf(X[REST], quantiles[:, i]), level, rtol=1e-5)
    np.testing.assert_array_equal(quantiles[:, [0, 2]], reg.predict_interval(X[REST], 0.9))


def test_quantiles_of_several_targets_have_an_axis_more(several):
    quantiles = several.predict(X[REST], quantiles=np.array([0.25, 0.75]))
    assert quantiles.shape == (20, 2, 2)
    np.testing.assert_array_equal(quantiles, several.predict_interval(X[REST], 0.5))


@pytest.mark.parametrize("wrong", [0.5, [0.0], [1.0, 0.5], [], ["a"], [[0.5]], "half", [np.nan], True])
def test_wrong_quantiles_get_one_sentence(reg, wrong):
    with pytest.raises(InvalidArgumentError, match=r"^`quantiles` must be a list of numbers between 0 and 1, got "):
        reg.predict(X, quantiles=wrong)


def test_quantiles_and_a_deviation_are_not_asked_for_together(reg):
    with pytest.raises(InvalidArgumentError, match=r"^`quantiles` must be None where `return_std` is asked for"):
        reg.predict(X, return_std=True, quantiles=[0.5])


# Rows given to decide


@pytest.mark.parametrize("pair", [(X[REST], Y[REST]), [(X[REST], Y[REST])], [X[REST], Y[REST]]])
def test_given_rows_decide_instead_of_those_held_out(clf, pair):
    est = DepthClassifier(**SMALL).fit(X[TRAIN], Y[TRAIN], eval_set=pair)
    other = DepthClassifier(**SMALL).fit(X[TRAIN], Y[TRAIN], eval_set=(X[REST][::2], Y[REST][::2]))
    assert not np.array_equal(est.history_["validation_nll"], other.history_["validation_nll"])
    assert not np.array_equal(est.history_["validation_nll"], clf.history_["validation_nll"])
    assert est.held_out_nll_ is not None
    assert est.held_out_nll_ != other.held_out_nll_
    assert est.restart_shares_.sum() == pytest.approx(1)


def test_given_rows_decide_the_length():
    """On rows whose classes are chance, there is nothing to learn for long."""
    long = {**SMALL, "max_iter": 2000}
    chance = RNG.permutation(Y[REST])
    sensible = DepthClassifier(**long).fit(X[TRAIN], Y[TRAIN], eval_set=(X[REST], Y[REST]))
    misled = DepthClassifier(**long).fit(X[TRAIN], Y[TRAIN], eval_set=(X[REST], chance))
    assert misled.n_iter_ != sensible.n_iter_
    assert misled.spread_[0] > 1.5 * sensible.spread_[0]  # and how sure all may be


def test_all_rows_are_trained_on_where_others_decide():
    """The expected NLL of the rows given is scaled to all of X: none is held out."""
    seen = []
    DepthRegressor(**SMALL, callback=seen.append).fit(X[TRAIN], NUMBERS[TRAIN], eval_set=(X[REST], NUMBERS[REST]))
    now = seen[-1].restarts
    per_row = now["expected_nll"] / 60  # scaled to the rows that each is trained on
    np.testing.assert_allclose(per_row, now["validation_nll"], rtol=0.2)  # one is of a prediction, one of draws
    est = DepthRegressor(**SMALL).fit(X[TRAIN], NUMBERS[TRAIN], eval_set=(X[REST], NUMBERS[REST]))
    np.testing.assert_allclose(est.history_["validation_nll"], [now.restarts["validation_nll"] for now in seen])


def test_given_rows_count_once_however_many_restarts_there_are():
    """A kind of 1 or of 3 restarts that are alike learns the same from them."""
    recipe = dataclasses.replace(RECIPES["table"], name="alike")
    spreads = []
    for n_restarts in (3, 9):
        given = {**SMALL, "n_restarts": n_restarts, "recipe": recipe, "learning_rate_init": 0.0}
        est = DepthClassifier(**given).fit(X[TRAIN], Y[TRAIN], eval_set=(X[REST], Y[REST]))
        spreads.append(est.spread_[0])
    assert spreads[0] == pytest.approx(spreads[1], rel=0.2)


def test_without_early_stopping_given_rows_calibrate_alone():
    seen = []
    given = {**SMALL, "early_stopping": False}
    pair = (X[REST], NUMBERS[REST])
    est = DepthRegressor(**given, callback=seen.append).fit(X[TRAIN], NUMBERS[TRAIN], eval_set=pair)
    assert est.n_iter_ == 60
    assert "learning" not in {now.phase for now in seen}  # for rows to say how long: the length was given
    assert est.held_out_nll_ is not None
    assert DepthRegressor(**given).fit(X[TRAIN], NUMBERS[TRAIN]).held_out_nll_ is None


def test_restarts_are_calibrated_by_the_rows_that_they_held_out(monkeypatch):
    """Two of every kind: the first of each held out the same rows, and the second others."""
    given, calibrated = [], Restarts.calibrated

    def spy(self, parts, kind):
        given.extend(parts)
        return calibrated(self, parts, kind)

    monkeypatch.setattr(Restarts, "calibrated", spy)
    held, trained = [], DepthClassifier._take

    def keep(self, problem, one):
        held.append((problem.train[0], one.validation_rows))
        trained(self, problem, one)

    monkeypatch.setattr(DepthClassifier, "_take", keep)
    DepthClassifier(**{**SMALL, "n_restarts": 6}).fit(X[TRAIN], Y[TRAIN])
    [(x, rows)] = held
    assert [part.runs for part in given] == [slice(0, 3), slice(3, 6)]
    for part in given:
        for run in range(part.runs.start, part.runs.stop):
            np.testing.assert_array_equal(part.x, x[rows[run]])
    assert not np.array_equal(given[0].x, given[1].x)


def test_given_rows_of_a_frame_are_encoded_as_those_trained_on():
    frame = pd.DataFrame({"a": X[:, 0], "colour": np.where(X[:, 1] > 0, "red", "blue")})
    est = DepthClassifier(**SMALL).fit(frame[TRAIN], Y[TRAIN], eval_set=(frame[REST][["colour", "a"]], Y[REST]))
    same = DepthClassifier(**SMALL).fit(frame[TRAIN], Y[TRAIN], eval_set=(frame[REST], Y[REST]))
    np.testing.assert_array_equal(est.predict_proba(frame), same.predict_proba(frame))


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (X, "`eval_set` must be a pair (X, y), got"),
        ((X[REST],), "`eval_set` must be a pair (X, y), got"),
        (pd.DataFrame(X), "`eval_set` must be a pair (X, y), got"),
        ("validation", "`eval_set` must be a pair (X, y), got 'validation'."),
        ((X[REST], np.full(20, "maybe")), "`eval_set` must hold the classes ['no', 'yes'], got 'maybe'."),
        ((X[REST], Y[:3]), "`eval_set` must "),
    ],
)
def test_wrong_rows_get_one_sentence(wrong, message):
    with pytest.raises(InvalidArgumentError) as error:
        DepthClassifier(**SMALL).fit(X[TRAIN], Y[TRAIN], eval_set=wrong)
    assert str(error.value).startswith(message)
    assert len(str(error.value)) < 120
