"""How much to believe each restart, and how wide to predict: closed forms, and copies held out together."""

import numpy as np
import pytest
from scipy import stats

from leadline.inference.calibration import (
    BELIEF,
    Calibration,
    HeldOut,
    best_spread,
    calibrate,
    no_calibration,
    share_of_restarts,
    stacked,
    weighed_depths,
)
from leadline.likelihoods.mixture import ClassMixture, GaussianMixture, softened
from leadline.training.data import held_out
from tests.tolerances import CLOSED_FORM, MANY_SUMS


def two_restarts(n_rows=5, n_targets=2):
    """Two restarts of two components each."""
    rng = np.random.default_rng(0)
    shape = (4, n_rows, n_targets)
    share = np.array([0.1, 0.4, 0.2, 0.3])
    return GaussianMixture(share, rng.normal(size=shape), rng.uniform(0.5, 2.0, size=shape))


def test_a_restart_that_explains_every_row_has_them_all():
    """Its rows and its belief, over all rows and all belief."""
    log_density = np.array([np.zeros(20), np.full(20, -1000.0), np.full(20, -1000.0)])
    assert stacked(log_density, np.ones(20)) == pytest.approx(
        np.array([20 + BELIEF, BELIEF, BELIEF]) / (20 + 3 * BELIEF)
    )


def test_shares_maximise_the_likelihood_of_the_rows_beside_the_belief():
    rng = np.random.default_rng(1)
    log_density, weight = rng.normal(size=(3, 40)), rng.uniform(0.5, 2, size=40)
    share = stacked(log_density, weight)

    def value(share):
        return weight @ np.log(share @ np.exp(log_density)) + BELIEF * np.log(share).sum()

    assert share.sum() == pytest.approx(1)
    for _ in range(50):
        step = rng.normal(size=3) * 1e-3
        assert value(share) >= value(share + step - step.mean())


def test_a_row_of_weight_two_is_two_rows():
    rng = np.random.default_rng(2)
    log_density = rng.normal(size=(2, 6))
    twice = stacked(np.repeat(log_density, 2, axis=1), np.ones(12))
    assert stacked(log_density, np.full(6, 2.0)) == pytest.approx(twice, rel=CLOSED_FORM["float64"])


def test_a_depth_that_explains_every_row_has_them_all():
    """Beside the belief: q(L) of its kind, as so many rows. Two kinds of two restarts."""
    q = np.array([[0.5, 0.5, 0.0], [0.2, 0.6, 0.2], [0.7, 0.3, 0.0], [0.4, 0.2, 0.4]])
    kind = np.array([0, 1, 0, 1])
    log_density = np.full((2, 3, 20), -1000.0)
    log_density[0, 1] = 0.0
    found = weighed_depths(log_density, np.ones(20), q, kind)
    first, one = BELIEF * np.array([0.6, 0.4]), 20 + BELIEF * 0.4  # its mean q(L); what the second depth now has
    factor = np.array([1.0, one / first[1], 0.0])  # but for one over all rows and all belief
    for restart in (0, 2):
        expected = q[restart] * factor
        np.testing.assert_allclose(found[restart], expected / expected.sum(), rtol=1e-6)
    np.testing.assert_allclose(found[1::2], q[1::2], rtol=1e-6)  # it explains nothing: its depths stay as they were


def test_rows_that_all_depths_explain_alike_leave_them_alone():
    rng = np.random.default_rng(10)
    q, kind = rng.dirichlet(np.ones(4), size=6), np.arange(6) % 3
    log_density = np.broadcast_to(rng.normal(size=(1, 1, 30)), (3, 4, 30))
    np.testing.assert_allclose(weighed_depths(log_density, rng.uniform(size=30), q, kind), q, rtol=MANY_SUMS)


def test_the_spread_of_one_gaussian_is_that_of_the_residuals():
    """The maximum of -n ln s - sum z^2 / 2 s^2 - b (ln s + 1 / 2 s^2) is at s^2 = (sum z^2 + b) / (n + b)."""
    rng = np.random.default_rng(3)
    y = 2.5 * rng.normal(size=(60, 1))
    one = GaussianMixture(np.ones(1), np.zeros((1, 60, 1)), np.ones((1, 60, 1)))
    expected = np.sqrt((np.sum(y**2) + 4) / (60 + 4))
    assert best_spread([(one, y, np.ones(60))], 4.0) == pytest.approx(expected, rel=2e-3)  # the search ends at 1e-3


def test_a_calibrated_mixture_has_the_shares_and_the_spread():
    mixture = two_restarts()
    calibration = Calibration(np.array([0.9, 0.1]), np.array([2.0, 0.5]))
    calibrated = calibration.of(mixture)
    by_restart = calibrated.share.reshape(2, 2).sum(axis=1)
    assert by_restart == pytest.approx([0.9 * 2 * 0.5, 0.1 * 2 * 0.5])  # both restarts have half of the mixture
    reweighed = Calibration(calibration.share, np.ones(2)).of(mixture)
    mean, variance = reweighed.moments()
    np.testing.assert_allclose(calibrated.moments()[0], mean, rtol=MANY_SUMS, atol=1e-12)
    np.testing.assert_allclose(calibrated.moments()[1], variance * np.array([4.0, 0.25]), rtol=MANY_SUMS)
    level = reweighed.quantile(0.9)
    np.testing.assert_allclose(calibrated.quantile(0.9), mean + np.array([2.0, 0.5]) * (level - mean), rtol=1e-9)


def test_no_calibration_changes_nothing():
    mixture = two_restarts()
    same = no_calibration(2, 2).of(mixture)
    np.testing.assert_allclose(same.share, mixture.share, rtol=CLOSED_FORM["float64"])
    np.testing.assert_allclose(same.mean, mixture.mean, rtol=MANY_SUMS, atol=1e-12)
    np.testing.assert_array_equal(same.scale, mixture.scale)


def test_rows_kept_apart_mend_a_network_gone_astray_and_intervals_too_narrow():
    """The first restart is right but half as wide as it should be, the second is far off. 400 rows; the 90 % intervals
    of the calibrated mixture hold 90 % of 4000 other rows, within four standard errors (0.005) and the spread's own
    (0.035 of it, 0.015 of the coverage)."""
    rng = np.random.default_rng(4)
    mixture = lambda n: GaussianMixture(  # noqa: E731
        np.full(2, 0.5), np.stack([np.zeros((n, 1)), np.full((n, 1), 30.0)]), np.full((2, n, 1), 0.5)
    )
    parts = [HeldOut(mixture(200), np.arange(2), rng.normal(size=(200, 1)), np.ones(200)) for _ in range(2)]
    found = calibrate(parts, np.arange(2), 1)
    assert found.share == pytest.approx([401 / 402, 1 / 402], rel=1e-6)
    inside = Calibration(np.array([1.0, 0.0]), found.spread).of(mixture(4000)).cdf(rng.normal(size=(4000, 1)))
    assert np.mean(np.abs(2 * inside - 1) <= 0.9) == pytest.approx(0.9, abs=0.02 + 0.03)
    assert stats.norm.ppf(0.95) * 0.5 * found.spread[0] == pytest.approx(stats.norm.ppf(0.95), rel=0.15)


def test_restarts_of_a_kind_have_its_share_in_equal_parts():
    share = share_of_restarts(np.array([0.6, 0.3, 0.1]), np.array([0, 1, 2, 0, 1]))
    assert share == pytest.approx([0.3, 0.15, 0.1, 0.3, 0.15])


def test_a_kind_is_judged_by_all_its_restarts_together():
    """Two restarts of the first kind, one of the second; the shares inside a kind are its own."""
    rng = np.random.default_rng(7)
    p = rng.dirichlet(np.ones(3), size=(3, 5))
    y = np.array([0, 1, 2, 0, 1])
    part = HeldOut(ClassMixture(np.full(3, 1 / 3), p), np.array([0, 1, 0]), y[:, None], np.ones(5))
    right = p[:, np.arange(5), y]
    np.testing.assert_allclose(part.log_density(), np.log([(right[0] + right[2]) / 2, right[1]]), rtol=1e-12)


def test_softening_divides_the_logits():
    logits = np.random.default_rng(8).normal(size=(4, 3))
    softmax = lambda z: np.exp(z) / np.exp(z).sum(axis=-1, keepdims=True)  # noqa: E731
    np.testing.assert_allclose(softened(softmax(logits), 2.5), softmax(logits / 2.5), rtol=1e-9)
    assert np.all(np.isfinite(softened(np.array([[1.0, 0.0]]), 8.0)))


def test_rows_held_out_soften_classes_that_are_too_sure():
    """The right logits, three times as large. 2,000 rows; the standard error of the spread is about 0.1."""
    rng = np.random.default_rng(9)
    logits = rng.normal(size=(2000, 3))
    p = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
    y = (p.cumsum(axis=1) > rng.uniform(size=(2000, 1))).argmax(axis=1)
    sure = ClassMixture(np.ones(1), softened(p, 1 / 3)[None])
    found = calibrate([HeldOut(sure, np.zeros(1, int), y[:, None], np.ones(2000))], np.zeros(1, int), 1)
    assert found.share == pytest.approx([1.0])
    assert found.spread == pytest.approx([3.0], abs=0.4)


def test_copies_are_held_out_together():
    """Forty distinct rows, five times each. A part of 20 is four whole groups, wherever the cut falls on a fifth."""
    x = np.repeat(np.arange(40.0), 5)[np.random.default_rng(5).permutation(200)][:, None]
    for part in held_out(x, None, 4, 0.1, seed=0):
        assert len(part) == 20
        values, copies = np.unique(x[part], return_counts=True)
        assert len(values) == 4
        assert (copies == 5).all()


def test_rows_without_copies_are_held_out_as_ever():
    x = np.random.default_rng(6).normal(size=(50, 3))
    parts = held_out(x, None, 5, 0.2, seed=1)
    assert sorted(np.concatenate(parts).tolist()) == list(range(50))
