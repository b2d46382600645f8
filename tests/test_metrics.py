"""Metrics against loops and answers known by hand."""

import json

import numpy as np
import pytest
from scipy import stats
from sklearn.calibration import calibration_curve
from sklearn.metrics import (
    accuracy_score,
    average_precision_score,
    brier_score_loss,
    confusion_matrix,
    log_loss,
    mean_absolute_error,
    r2_score,
    roc_auc_score,
)

from leadline import metrics
from tests.tolerances import CLOSED_FORM, STANDARD_ERRORS

P = np.array([[0.9, 0.1], [0.4, 0.6], [0.55, 0.45], [1.0, 0.0]])
Y = np.array([0, 1, 1, 0])


def test_known_answers():
    assert metrics.accuracy(P, Y) == 75.0
    assert metrics.nll(P, Y) == pytest.approx(-np.mean(np.log([0.9, 0.6, 0.45, 1.0])))
    assert metrics.brier(P, Y) == pytest.approx(np.mean([0.02, 0.32, 2 * 0.55**2, 0.0]))
    # 0.6 (right) and 0.55 (wrong) share the bin (8/15, 9/15]: one of two right, at a confidence of 1.15 for both.
    assert metrics.ece(P, Y) == pytest.approx((0.1 + abs(1 - 1.15) + 0.0) / 4)


def test_likelihood_and_brier_score_are_scikit_learns():
    rng = np.random.default_rng(2)
    p = rng.dirichlet([0.5, 1.0], 300)
    y = rng.integers(2, size=300)
    assert metrics.nll(p, y) == pytest.approx(log_loss(y, p))
    # Ours sums over the classes, as Brier did; scikit-learn looks at one of two.
    assert metrics.brier(p, y) == pytest.approx(2 * brier_score_loss(y, p[:, 1]))
    p = rng.dirichlet([0.5, 1.0, 2.0, 0.7], 300)
    y = rng.integers(4, size=300)
    assert metrics.nll(p, y) == pytest.approx(log_loss(y, p))
    assert metrics.accuracy(p, y) == pytest.approx(100 * accuracy_score(y, p.argmax(1)))


def test_reliability_is_scikit_learns_calibration_curve():
    """For two classes, of the top one: fraction right and mean confidence, bin by bin."""
    rng = np.random.default_rng(3)
    p = rng.dirichlet([0.6, 0.6], 2000)
    y = (rng.uniform(size=2000) < 0.5 + 0.7 * (p[:, 1] - 0.5)).astype(int)
    rows, confidence, right = metrics.reliability(p, y)
    fraction, mean = calibration_curve(p.argmax(1) == y, p.max(1), n_bins=15)
    some = rows > 0
    np.testing.assert_allclose(right[some], fraction)
    np.testing.assert_allclose(confidence[some], mean)
    assert rows.sum() == 2000
    assert np.all(rows[:7] == 0)  # the top of two probabilities is never below a half
    assert np.all(np.isnan(right[:7]))


def test_calibration_error_is_the_loop_over_bins():
    rng = np.random.default_rng(0)
    p = rng.dirichlet([0.5, 0.5, 0.5], 500)
    y = rng.integers(3, size=500)
    total = 0.0
    for k in range(15):
        inside = (p.max(1) > k / 15) & (p.max(1) <= (k + 1) / 15)
        if inside.any():
            gap = np.mean(p[inside].argmax(1) == y[inside]) - np.mean(p[inside].max(1))
            total += inside.mean() * abs(gap)
    assert metrics.ece(p, y) == pytest.approx(total)


def test_honest_probabilities_are_calibrated():
    rng = np.random.default_rng(1)
    p = rng.dirichlet([1.0, 1.0], 100_000)
    y = (rng.uniform(size=100_000) < p[:, 1]).astype(int)
    assert metrics.ece(p, y) < 0.01


def test_a_certain_mistake_is_costly_but_finite():
    assert 50 < metrics.nll(np.array([[1.0, 0.0]], np.float32), np.array([1])) < np.inf


def test_the_measures_of_a_regression_are_plain_means():
    said = np.array([3.0, -4.0]), np.array([-1.0, -2.0]), np.array([-1.5, -2.5]), np.array([0.5, 0.93])
    got = metrics.measured(metrics.OfNumbers(*said))
    assert got == pytest.approx(
        {"rmse": 12.5**0.5, "mae": 3.5, "ll_mixture": -1.5, "ll_gaussian": -2.0}
        | {"coverage_50": 0.5, "coverage_90": 0.5, "coverage_95": 1.0}
    )


def test_a_class_without_a_probability_is_wrong():
    y = np.array([0, metrics.UNKNOWN, 1, metrics.UNKNOWN])
    assert metrics.accuracy(P, y) == 25.0
    assert metrics.nll(P, y) == np.inf
    assert metrics.brier(P, y) == pytest.approx(np.mean([0.02, 1 + 0.16 + 0.36, 2 * 0.55**2, 2.0]))
    with np.errstate(divide="ignore"):
        np.testing.assert_array_equal(metrics.log_probability(P, y), np.log([0.9, 0, 0.45, 0]))
    assert metrics.ece(P, y) == pytest.approx((0.1 + 0.6 + abs(0 - 0.55) + 1.0) / 4)


@pytest.mark.parametrize("n_classes", [2, 5])
def test_areas_are_scikit_learns(n_classes):
    """With ties: the probabilities have one digit."""
    rng = np.random.default_rng(4)
    p = rng.dirichlet(np.ones(n_classes), 400)
    y = np.array([rng.choice(n_classes, p=row) for row in p])
    p = p.round(1)
    roc, pr = metrics.areas(p, y)
    for k in range(n_classes):
        assert roc[k] == pytest.approx(roc_auc_score(y == k, p[:, k]), rel=CLOSED_FORM["float64"])
        assert pr[k] == pytest.approx(average_precision_score(y == k, p[:, k]), rel=CLOSED_FORM["float64"])
    got = metrics.measured(metrics.OfClasses(p, y))
    some = slice(1, 2) if n_classes == 2 else slice(None)
    assert (got["roc_auc"], got["pr_auc"]) == pytest.approx((roc[some].mean(), pr[some].mean()))
    np.testing.assert_array_equal(metrics.confusion(p, y), confusion_matrix(y, p.argmax(axis=1)))


def test_the_area_under_roc_is_how_often_a_right_row_is_ahead():
    p, y = np.array([0.9, 0.4, 0.4, 0.1]), np.array([1, 1, 0, 0])
    roc, _ = metrics.areas(np.stack([1 - p, p], axis=1), y)
    assert roc.tolist() == [0.875, 0.875]  # of four pairs three in order, one even
    false, right = metrics.roc_curve(p, y == 1)
    assert (false.tolist(), right.tolist()) == ([0, 0, 1, 2], [0, 1, 2, 2])


def test_what_has_no_meaning_is_absent():
    p = np.array([[0.7, 0.2, 0.1], [0.1, 0.8, 0.1]])
    roc, pr = metrics.areas(p, np.array([0, 1]))
    assert np.isnan([roc[2], pr[2]]).all()
    got = metrics.measured(metrics.OfClasses(p, np.array([0, 1])))
    assert got["roc_auc"] == 1.0  # of the two that are there
    alone = metrics.measured(metrics.OfClasses(p[:, :2] / p[:, :2].sum(axis=1, keepdims=True), np.array([1, 1])))
    assert {"roc_auc", "pr_auc"}.isdisjoint(alone)
    assert "nll" in alone
    numbers = [np.array([1.0, 2.0])] * 4
    assert "r2" not in metrics.measured(metrics.OfNumbers(*numbers))
    assert "r2" not in metrics.measured(metrics.OfNumbers(*numbers, np.array([3.0, 3.0])))


def test_rows_of_an_unknown_class_are_of_none():
    y = np.array([0, metrics.UNKNOWN, 1, metrics.UNKNOWN])
    assert metrics.confusion(P, y).tolist() == [[1, 0], [1, 0]]
    assert metrics.areas(P, y)[0].tolist() == pytest.approx(
        [roc_auc_score(y == 0, P[:, 0]), roc_auc_score(y == 1, P[:, 1])]
    )


def test_the_measures_of_numbers_are_scikit_learns():
    rng = np.random.default_rng(5)
    y, mean = rng.normal(3, 2, 100), rng.normal(3, 1, 100)
    got = metrics.measured(metrics.OfNumbers(y - mean, y, y, np.abs(y), y))
    assert got["r2"] == pytest.approx(r2_score(y, mean), rel=CLOSED_FORM["float64"])
    assert got["mae"] == pytest.approx(mean_absolute_error(y, mean), rel=CLOSED_FORM["float64"])


@pytest.mark.parametrize("n", [40, 5000])
def test_standard_errors_are_the_closed_form_where_there_is_one(n):
    rng = np.random.default_rng(6)
    p = rng.dirichlet([1.0, 1.0], n)
    y = (rng.uniform(size=n) < p[:, 1]).astype(int)
    said = metrics.OfClasses(p, y)
    errors, share = metrics.standard_errors(said), metrics.accuracy(*said) / 100
    within = STANDARD_ERRORS / np.sqrt(2 * metrics.RESAMPLES)  # what a deviation of so many scatters by
    assert errors["accuracy"] == pytest.approx(100 * np.sqrt(share * (1 - share) / n), rel=within)
    assert errors["nll"] == pytest.approx(np.std(metrics.log_probability(*said)) / np.sqrt(n), rel=within)
    right, wrong = p[y == 1, 1], p[y == 0, 1]
    ahead = (right[:, None] > wrong).astype(float)  # DeLong's
    closed = np.var(ahead.mean(axis=1), ddof=1) / len(right) + np.var(ahead.mean(axis=0), ddof=1) / len(wrong)
    assert errors["roc_auc"] == pytest.approx(np.sqrt(closed), rel=1.5 * within)
    assert metrics.standard_errors(said) == errors


def test_where_all_draws_agree_there_is_no_standard_error():
    p = np.tile([0.9, 0.1], (20, 1))
    assert metrics.standard_errors(metrics.OfClasses(p, np.zeros(20, int))) == {}
    assert metrics.standard_errors(metrics.OfClasses(p[:1], np.zeros(1, int))) == {}
    y = np.zeros(20, int)
    y[0] = metrics.UNKNOWN
    errors = metrics.standard_errors(metrics.OfClasses(p, y))
    assert "nll" not in errors  # infinite
    assert json.dumps(errors, allow_nan=False)


def test_the_band_of_chance_is_the_binomial_interval():
    rows, confidence = np.array([1, 5, 40, 1000, 0]), np.array([0.3, 0.9, 1.0, 0.7, np.nan])
    low, high = metrics.chance_band(rows, confidence)
    for i in range(4):
        ends = np.array(stats.binom.interval(0.95, rows[i], confidence[i])) / rows[i]
        assert (low[i], high[i]) == pytest.approx(tuple(ends))
    many = metrics.chance_band(np.array([10**6]), np.array([0.2]))
    np.testing.assert_allclose(many, np.array([stats.binom.interval(0.95, 10**6, 0.2)]).T / 10**6, rtol=1e-4)
    assert np.all(low[:4] <= confidence[:4])
    assert np.all(confidence[:4] <= high[:4])


def test_honest_probabilities_keep_to_the_band():
    rng, inside, n_bins = np.random.default_rng(7), 0, 0
    for _ in range(200):
        p = rng.dirichlet([1.0, 1.0], 300)
        y = (rng.uniform(size=300) < p[:, 1]).astype(int)
        rows, confidence, right = metrics.reliability(p, y)
        low, high = metrics.chance_band(rows, confidence)
        some = rows > 0
        inside += np.sum((low <= right + 1e-12) & (right <= high + 1e-12) & some)
        n_bins += some.sum()
    assert 0.95 - STANDARD_ERRORS * np.sqrt(0.05 * 0.95 / n_bins) <= inside / n_bins < 0.985


def test_a_log_likelihood_is_shown_as_the_nll():
    measure = metrics.MEASURES["ll_mixture"]
    assert (measure.label, measure.show(-2.871), measure.show(0.5)) == ("NLL", "2.87", "\N{MINUS SIGN}0.500")
    assert measure.show_error(0.0612) == "0.061"
    assert metrics.MEASURES["accuracy"].show_error(1.234) == "1.2 %"
