"""Metrics against loops and answers known by hand."""

import numpy as np
import pytest

from leadline import metrics

P = np.array([[0.9, 0.1], [0.4, 0.6], [0.55, 0.45], [1.0, 0.0]])
Y = np.array([0, 1, 1, 0])


def test_known_answers():
    assert metrics.accuracy(P, Y) == 75.0
    assert metrics.nll(P, Y) == pytest.approx(-np.mean(np.log([0.9, 0.6, 0.45, 1.0])))
    assert metrics.brier(P, Y) == pytest.approx(np.mean([0.02, 0.32, 2 * 0.55**2, 0.0]))
    # 0.6 (right) and 0.55 (wrong) share the bin (8/15, 9/15]: one of two right, at a confidence of 1.15 for both.
    assert metrics.ece(P, Y) == pytest.approx((0.1 + abs(1 - 1.15) + 0.0) / 4)


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
