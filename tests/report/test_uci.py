"""The comparison with the published tables, from rows made up so that the answers are known."""

import numpy as np
import pytest

from leadline.files.records import write_rows
from leadline.report import uci
from leadline.report.uci import chosen_depths, means_and_errors, published, read_tables, wins


def row(name, split, depth, ll, validation_ll=0.0, **more):
    numbers = {"rmse": 3.0, "ll_mixture": ll, "ll_gaussian": ll - 0.1, "coverage_50": 0.5, "coverage_90": 0.9}
    numbers |= {"coverage_95": 0.95, "depth_mean": 1.5, "validation_ll": validation_ll, "n_test": 10, "epochs": 7}
    numbers |= {"seconds": 2.0, "compile_seconds": 4.0, "device": "cpu", "version": "0"}
    return {"name": name, "split": split, "depth": depth, "max_epochs": "", **numbers, **more}


@pytest.fixture
def out(tmp_path):
    """Two splits of a set: learned depth -2.0 and -2.4; depth 1 is best on the first split's validation, 4 on the
    second's, with -2.1 and -2.2 on the test rows; all others -9."""
    learned = [
        row("bostonHousing", 0, "normal", -2.0, n_test=30, coverage_90=1.0, depth_mean=1.3),
        row("bostonHousing", 1, "normal", -2.4, depth_mean=1.7),
    ]
    write_rows(tmp_path / "normal.csv", learned)
    for depth in range(6):
        first = row("bostonHousing", 0, depth, *((-2.1, 1.0) if depth == 1 else (-9.0, 0.0)))
        second = row("bostonHousing", 1, depth, *((-2.2, 1.0) if depth == 4 else (-9.0, 0.0)))
        write_rows(tmp_path / f"{depth}.csv", [first, second])
    return tmp_path


def test_the_published_tables_are_whole():
    for measure in ("ll", "rmse"):
        assert published(measure)["value"].shape == (9, len(uci.METHODS))
        assert published(measure)["value"].notna().all(axis=None)
    assert published("ll").loc["yacht"].xs("MCD18", level="method").to_dict() == {"value": -1.25, "spread": 0.01}
    assert published("rmse").loc["kin8nm"].xs("DUN", level="method").to_dict() == {"value": 0.076, "spread": 0.005}
    assert np.isnan(published("ll").at["bostonHousing", ("spread", "PBP")])


def test_means_and_errors(out):
    means, errors = means_and_errors(read_tables(out))
    assert means.at[("normal", "bostonHousing"), "ll_mixture"] == pytest.approx(-2.2)
    assert errors.at[("normal", "bostonHousing"), "ll_mixture"] == pytest.approx(0.2)  # (0.4 / sqrt 2) / sqrt 2


def test_the_grid_is_chosen_split_by_split_and_compared_in_pairs(out):
    assert chosen_depths(read_tables(out).xs("bostonHousing", level="name")).tolist() == ["1", "4"]
    text = uci.write_comparison(out).read_text()
    # Differences +0.1 and -0.2: mean -0.05, standard error 0.15; a sixth of the time.
    assert "| bostonHousing | 0 1 0 0 1 0 | -2.150 | -0.050 ± 0.150 | -0.3 | 0.17 | 0.17 |" in text
    # The coverage of 30 and 10 rows: (30 * 1.0 + 10 * 0.9) / 40.
    assert "| bostonHousing | normal | 50.0 | 97.5 | 95.0 | 1.50 | 0.28 | 7 | 2 |" in text


def test_only_the_same_splits_are_compared_in_pairs(out):
    """Two splits of the Poisson, as many as of the grid, and others."""
    rows = [row("bostonHousing", split, "poisson", -1.0) for split in (5, 6)]
    write_rows(out / "poisson.csv", rows)
    [line] = [line for line in uci.write_comparison(out).read_text().splitlines() if "| 0 1 0 0 1 0 |" in line]
    assert line.endswith("| -0.050 ± 0.150 | -0.3 | 0.17 | 0.17 |  |  |  |  |")


def test_likelihoods_are_compared_by_their_kind(tmp_path):
    """Published for boston: MCD18 -2.40 and DE -2.41 by the mixture, Ens5 -2.454 and MFVI -2.573 by the Gaussian."""

    def won(mixture, gaussian):
        lls = [(mixture + error, gaussian + error) for error in (-0.01, 0.01)]
        rows = [row("bostonHousing", split, "normal", ll, ll_gaussian=other) for split, (ll, other) in enumerate(lls)]
        write_rows(tmp_path / "normal.csv", rows)
        likelihood, rmse, best = wins(read_tables(tmp_path), "normal")
        return likelihood.loc["bostonHousing"], rmse.loc["bostonHousing"], best["bostonHousing"]

    likelihood, _, _ = won(-2.3, -2.6)
    assert likelihood["MCD18"]
    assert not likelihood["MFVI"]
    likelihood, rmse, _ = won(-2.3, -2.5)
    assert likelihood["MFVI"]
    assert rmse["DUN"]
    assert not rmse["Ens5"]
    assert won(-2.405, -2.46)[2]  # both within the standard error, 0.01
    assert not won(-2.42, -2.46)[2]
    assert not won(-2.3, -2.47)[2]


def test_without_learned_depths_there_is_nothing_to_compare(tmp_path):
    assert uci.write_comparison(tmp_path) is None


def test_a_table_of_somebody_else_s_is_passed_over(out):
    before = read_tables(out)
    (out / "poisson.csv").write_text("a,b\n1,2\n")
    assert read_tables(out).index.equals(before.index.drop("poisson", errors="ignore"))
