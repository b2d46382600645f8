"""Mixtures of Gaussians against scipy and a slow loop."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from leadline.likelihoods.mixture import GaussianMixture
from tests.tolerances import CLOSED_FORM

FLOAT64 = CLOSED_FORM["float64"]
# Four components, four rows, one target; one component has no share.
SHARE = np.array([0.2, 0.5, 0.3, 0.0])
MEAN = np.random.default_rng(0).normal(size=(4, 4, 1))
SCALE = np.array([0.1, 1.0, 2.5, 0.7])[:, None, None] * np.array([1.0, 2.0, 0.5, 1.0])[:, None]
MIXTURE = GaussianMixture(SHARE, MEAN, SCALE)
Y = np.array([[-2.0], [0.0], [0.3], [4.0]])


@pytest.mark.parametrize(("mean", "scale"), [(0.0, 1.0), (-3.0, 0.02), (1e3, 40.0)])
def test_one_component_is_scipys_normal(mean, scale):
    normal = stats.norm(mean, scale)
    y = mean + scale * np.linspace(-30, 30, 13)[:, None]
    mixture = GaussianMixture(np.ones(1), np.full((1, 13, 1), mean), np.full((1, 13, 1), scale))
    np.testing.assert_allclose(mixture.cdf(y), normal.cdf(y), rtol=FLOAT64)
    np.testing.assert_allclose(mixture.log_density(y), normal.logpdf(y)[:, 0], rtol=FLOAT64)
    np.testing.assert_allclose(mixture.moments(), np.broadcast_to([[[mean]], [[scale**2]]], (2, 13, 1)), rtol=FLOAT64)
    for level in (1e-9, 0.025, 0.5, 0.9):
        np.testing.assert_allclose(mixture.quantile(level), normal.ppf(level), rtol=FLOAT64)


def test_several_components_are_a_slow_loop_over_them():
    means, variances = MIXTURE.moments()
    for i, y in enumerate(Y[:, 0]):
        cdf = density = first = second = 0.0
        for share, mean, scale in zip(SHARE, MEAN[:, i, 0], SCALE[:, i, 0], strict=True):
            cdf += share * stats.norm.cdf(y, mean, scale)
            density += share * stats.norm.pdf(y, mean, scale)
            first += share * mean
            second += share * (mean**2 + scale**2)
        assert MIXTURE.cdf(Y)[i, 0] == pytest.approx(cdf, rel=FLOAT64)
        assert MIXTURE.log_density(Y)[i] == pytest.approx(np.log(density), rel=FLOAT64)
        assert (means[i, 0], variances[i, 0]) == pytest.approx((first, second - first**2), rel=FLOAT64)


def test_the_density_is_the_derivative_of_the_cdf_and_far_tails_keep_their_digits():
    step = 1e-5
    slope = (MIXTURE.cdf(Y + step) - MIXTURE.cdf(Y - step)) / (2 * step)
    np.testing.assert_allclose(np.exp(MIXTURE.log_density(Y)), slope[:, 0], rtol=1e-6)  # of the difference quotient
    # There the widest component is alone, and its density underflows.
    far = np.full((4, 1), 500.0)
    expected = np.log(0.3) + stats.norm.logpdf(far, MEAN[2], SCALE[2])
    np.testing.assert_allclose(MIXTURE.log_density(far), expected[:, 0], rtol=FLOAT64)


def test_of_several_targets_each_has_its_cdf_and_all_have_one_density():
    """Within a component they are independent, in the mixture they are not."""
    both = GaussianMixture(SHARE, np.concatenate([MEAN, MEAN + 1], axis=2), np.concatenate([SCALE, 2 * SCALE], axis=2))
    second = GaussianMixture(SHARE, MEAN + 1, 2 * SCALE)
    y = np.concatenate([Y, Y + 1], axis=1)
    for i, alone in enumerate((MIXTURE, second)):
        np.testing.assert_allclose(both.cdf(y)[:, [i]], alone.cdf(y[:, [i]]), rtol=FLOAT64)
        np.testing.assert_allclose(both.quantile(0.3)[:, [i]], alone.quantile(0.3), rtol=FLOAT64)
    density = stats.norm.pdf(y, both.mean, both.scale).prod(axis=2)
    np.testing.assert_allclose(both.log_density(y), np.log(SHARE @ density), rtol=FLOAT64)


@given(
    components=st.lists(st.tuples(st.floats(0.01, 1), st.floats(-50, 50), st.floats(0.05, 20)), min_size=1, max_size=6),
    level=st.floats(1e-6, 1 - 1e-6),
)
def test_the_quantile_inverts_the_cdf(components, level):
    """To twelve digits of the bracket, times the density where the mixture is steepest there."""
    share, mean, scale = (np.array(column) for column in zip(*components, strict=True))
    mixture = GaussianMixture(share / share.sum(), mean[:, None, None], scale[:, None, None])
    y = mixture.quantile(level)
    ends = stats.norm.ppf(level, mean, scale)
    assert ends.min() <= y[0, 0] <= ends.max()
    error = 1e-12 * max(np.ptp(ends), np.abs(y[0, 0])) * np.max(0.4 / scale)
    assert mixture.cdf(y)[0, 0] == pytest.approx(level, abs=error + 1e-15)


def test_a_larger_level_has_a_larger_quantile():
    quantiles = np.stack([MIXTURE.quantile(level) for level in np.linspace(0.01, 0.99, 25)])
    assert np.all(np.diff(quantiles, axis=0) > 0)
