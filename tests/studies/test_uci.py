"""The UCI benchmark on a made-up set: tables, splits, what is done is not done again."""

import dataclasses

import numpy as np
import pytest
from scipy import stats

from leadline import InvalidArgumentError, Settings
from leadline.datasets import load_uci
from leadline.depth import FAMILIES
from leadline.files.records import read_rows
from leadline.likelihoods.mixture import GaussianMixture
from leadline.studies.evaluate import run_fits
from leadline.studies.sweep import Trainer
from leadline.studies.uci import UciSettings, uci_problem
from tests.cli.test_spirals import leadline
from tests.tolerances import MANY_SUMS, TRAJECTORY

SPLITS = 3


@pytest.fixture(scope="module")
def sets(tmp_path_factory):
    """Two sets of 60 rows, y = 50 (x0 + noise) + 1000, one column of which is constant."""
    path = tmp_path_factory.mktemp("uci")
    for i, name in enumerate(("line", "other")):
        folder = path / name
        folder.mkdir()
        rng = np.random.default_rng(i)
        x = rng.normal(size=(60, 2))
        data = np.column_stack([x, np.full(60, 3.0), 50 * (x[:, 0] + 0.1 * rng.normal(size=60)) + 1000])
        files = {"data": data, "index_features": [0, 1, 2], "index_target": [3], "n_splits": [SPLITS]}
        for split in range(SPLITS):
            order = rng.permutation(60)
            files |= {f"index_train_{split}": order[:50], f"index_test_{split}": order[50:]}
        for file, numbers in files.items():
            np.savetxt(folder / f"{file}.txt", numbers)
    return path


def run_splits(sets, splits):
    """The records of some splits of a set, trained side by side."""
    fits = [Settings(epochs=600, own_length=True, seed=1 + split) for split in splits]
    problems = [uci_problem(sets, "line", split) for split in splits]
    return [fit.record.to_json() for fit in run_fits(problems, fits, brief=True)]


@pytest.fixture(scope="module")
def rows(sets):
    return run_splits(sets, range(SPLITS))


def test_a_row_says_how_good_the_prediction_is_in_the_units_of_the_target(rows, sets):
    for row, split in zip(rows, range(SPLITS), strict=True):
        assert (row["name"], row["split"], row["depth"], row["n_test"]) == ("line", split, "normal", 10)
        y = load_uci(sets, "line", split)["test"][1]
        assert row["rmse"] < 0.5 * y.std()  # the noise has 5, the target 50
        guessing = stats.norm(y.mean(), y.std()).logpdf(y).mean()
        assert row["ll_mixture"] > guessing
        assert row["ll_gaussian"] > guessing
        assert 0 <= row["coverage_50"] <= row["coverage_90"] <= row["coverage_95"] <= 1
    assert np.mean([row["coverage_90"] for row in rows]) > 0.7


def test_a_split_gives_the_same_alone_and_never_sees_its_test_part(rows, sets, tmp_path):
    """The other splits train on the rows that this one is tested on; and if those rows change, only the test does."""
    alone = run_splits(sets, [1])[0]
    for name in ("rmse", "ll_mixture", "validation_ll", "depth_mean"):
        assert alone[name] == pytest.approx(rows[1][name], rel=TRAJECTORY)
    changed = tmp_path / "line"
    changed.mkdir()
    for file in (sets / "line").iterdir():
        (changed / file.name).write_text(file.read_text())
    data = np.loadtxt(changed / "data.txt")
    data[np.loadtxt(changed / "index_test_1.txt").astype(int), 3] += 500
    np.savetxt(changed / "data.txt", data)
    other = run_splits(tmp_path, [1])[0]
    assert (other["validation_ll"], other["depth_mean"]) == (alone["validation_ll"], alone["depth_mean"])
    assert other["rmse"] > 400


def test_the_densities_are_those_of_the_mixture_written_out():
    """Two components, by hand."""
    mean, scale = np.array([[0.0], [2.0]]), np.array([[1.0], [0.5]])
    mixture = GaussianMixture(np.array([0.25, 0.75]), mean[..., None], scale[..., None])
    error, density, gaussian, *ends = mixture.said_of(np.array([[0.3]])).T
    centre = 0.25 * 0 + 0.75 * 2
    variance = 0.25 * (1 + 0) + 0.75 * (0.25 + 4) - centre**2
    assert error[0] == pytest.approx(0.3 - centre)
    parts = [0.25 * stats.norm.pdf(0.3, 0, 1), 0.75 * stats.norm.pdf(0.3, 2, 0.5)]
    assert density[0] == pytest.approx(np.log(sum(parts)))
    assert gaussian[0] == pytest.approx(stats.norm.logpdf(0.3, centre, np.sqrt(variance)))
    below = 0.25 * stats.norm.cdf(0.3, 0, 1) + 0.75 * stats.norm.cdf(0.3, 2, 0.5)
    assert np.ravel(ends) == pytest.approx([below, below], rel=MANY_SUMS)


def test_tables_fill_and_nothing_is_trained_twice(sets, tmp_path, monkeypatch):
    settings = UciSettings(sets, names=("line", "other"), depths=("normal", 1), splits=(0, 2), epochs=3)
    assert len(settings.sweep().missing(tmp_path)) == 4
    told = []
    assert settings.sweep().run(tmp_path, lambda *now: told.append(now))
    assert told[-1][0] == 1
    assert settings.sweep().missing(tmp_path) == []
    with pytest.raises(InvalidArgumentError, match=r"has runs with --epochs 3, got --epochs 4; .* or the same"):
        dataclasses.replace(settings, epochs=4).sweep().missing(tmp_path)
    for depth in ("normal", "1"):
        table = read_rows(tmp_path / f"{depth}.csv")
        assert [(row["name"], row["split"]) for row in table] == [(n, s) for n in ("line", "other") for s in "02"]
    assert [float(row["depth_mean"]) for row in read_rows(tmp_path / "1.csv")] == pytest.approx([1.0] * 4)
    trained = []
    whole = Trainer._train
    monkeypatch.setattr(Trainer, "_train", lambda self, chunk, *how: trained.extend(chunk) or whole(self, chunk, *how))
    more = UciSettings(sets, names=("line",), depths=("normal",), epochs=3)
    assert more.sweep().run(tmp_path)
    assert [(job.table, job.key[1:]) for job in trained] == [("normal", ("line", 1))]
    assert [row["split"] for row in read_rows(tmp_path / "normal.csv")] == ["0", "1", "2", "0", "2"]


def test_the_command_goes_on_where_it_was(sets, tmp_path):
    given = ("benchmark", "uci", "--data", str(sets), "--out", str(tmp_path), "--names", "line", "--depth", "0")
    given = (*given, "--splits", "0:2", "--epochs", "2")
    first = leadline(*given)
    assert "2 runs, 0 of them done already" in first.stdout
    assert "wrote 0.csv" in first.stdout
    before = (tmp_path / "0.csv").read_bytes()
    assert "2 of them done already, 0 to train" in leadline(*given).stdout
    assert (tmp_path / "0.csv").read_bytes() == before


def test_wrong_arguments_get_one_sentence(sets):
    wrong = {
        f"`depth` must be one of {', '.join(FAMILIES)} or a whole number, got 'deep'": {"depths": ("deep",)},
        "`splits` must be at most 2, got 3": {"splits": (3,)},
        "`names` must have at least one entry, and none twice": {"names": ("line", "line")},
        "`name` must be one of line, other with a data.txt, got 'boston'": {"names": ("boston",)},
    }
    for message, change in wrong.items():
        with pytest.raises(InvalidArgumentError) as error:
            UciSettings(sets, **{"names": ("line",), **change})
        assert message in str(error.value)
