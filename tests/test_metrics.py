"""Metrics against loops and answers known by hand."""

import numpy as np
import pytest
from sklearn.calibration import calibration_curve
from sklearn.metrics import accuracy_score, brier_score_loss, log_loss

from leadline import metrics

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
        {"rmse": 12.5**0.5, "ll_mixture": -1.5, "ll_gaussian": -2.0}
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
