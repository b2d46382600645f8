"""What is said of counts and of classes in order, judged: against scikit-learn, slow loops, and honest predictions."""

import math

import numpy as np
import pytest
from scipy import stats
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.metrics import mean_poisson_deviance

from leadline import metrics
from leadline.judged import UNKNOWN, OfClasses, OfCounts, OfNumbers, OfRanks, inside, one_rate, ranks_away, rps
from leadline.likelihoods.poisson import PoissonMixture
from leadline.studies.others import say_counts
from tests.tolerances import CLOSED_FORM, STANDARD_ERRORS

FLOAT64 = CLOSED_FORM["float64"]
N = 4000


def honest(rate, n=N, seed=0):
    """Counts with such rates, and what one says of them who knows these."""
    rng = np.random.default_rng(seed)
    mean = np.broadcast_to(rate, n).astype(float)
    y = rng.poisson(mean).astype(float)
    mixture = PoissonMixture(np.ones(1), mean[None, :, None], np.sqrt(mean)[None, :, None])
    return OfCounts.of_units(mixture.said_of(y[:, None]), y, 1.0), mean


@pytest.mark.parametrize("rate", [0.05, 0.8, 4.0, 300.0])
@pytest.mark.parametrize("coverage", [0.5, 0.9, 0.95])
def test_honest_intervals_hold_as_many_counts_as_they_should(rate, coverage):
    """However few counts there are to choose from; the whole interval holds more."""
    said, mean = honest(rate)
    held = inside(said, coverage)
    assert abs(held.mean() - coverage) < STANDARD_ERRORS * held.std() / np.sqrt(N)
    low, high = stats.poisson.ppf([[0.5 - coverage / 2], [0.5 + coverage / 2]], mean)
    within = (low <= said.y) & (said.y <= high)
    np.testing.assert_array_equal(said.level <= coverage, within)
    assert within.mean() >= held.mean()
    assert np.all((held > 0) <= within)


def test_intervals_of_numbers_hold_a_row_or_not():
    below = np.array([0.01, 0.2, 0.5, 0.98])
    columns = np.column_stack([np.zeros(4), np.zeros(4), np.zeros(4), below, below])
    said = OfNumbers.of_units(columns, np.zeros(4), 1.0)
    np.testing.assert_allclose(said.level, np.abs(2 * below - 1), rtol=FLOAT64)
    np.testing.assert_array_equal(inside(said, 0.9), [0, 1, 1, 0])


def test_the_deviance_is_scikit_learns_and_the_measures_are_those_of_counts():
    said, mean = honest(np.linspace(0.1, 9, N))
    got = metrics.measured(said)
    assert got["deviance"] == pytest.approx(mean_poisson_deviance(said.y, mean), rel=FLOAT64)
    assert got["ll_mixture"] == pytest.approx(stats.poisson(mean).logpmf(said.y).mean(), rel=FLOAT64)
    assert got["rmse"] == pytest.approx(np.sqrt(np.mean((said.y - mean) ** 2)), rel=FLOAT64)
    assert "ll_gaussian" not in got
    assert set(metrics.standard_errors(said)) == set(got)
    of_one = one_rate(said.y)
    assert of_one["deviance"] == pytest.approx(mean_poisson_deviance(said.y, np.full(N, said.y.mean())), rel=FLOAT64)
    assert of_one["ll_mixture"] == pytest.approx(stats.poisson(said.y.mean()).logpmf(said.y).mean(), rel=FLOAT64)
    assert metrics.MEASURES["ll_mixture"].guess({"one_rate": of_one, "target_std": 3.0})[0] == of_one["ll_mixture"]
    below_zero = said._replace(error=said.error + 100)
    assert metrics.measured(below_zero)["deviance"] == math.inf


def test_ranks_against_a_slow_loop():
    rng = np.random.default_rng(0)
    p, y = rng.dirichlet(np.ones(4), size=30), rng.integers(4, size=30)
    away, score = [], []
    for row, right in zip(p, y, strict=True):
        away.append(abs(int(np.argmax(row)) - right))
        score.append(sum((row[: k + 1].sum() - (right <= k)) ** 2 for k in range(4)))
    said = OfRanks(p, y)
    assert ranks_away(said) == pytest.approx(np.mean(away), rel=FLOAT64)
    assert rps(said) == pytest.approx(np.mean(score), rel=FLOAT64)
    got, usual = metrics.measured(said), metrics.measured(OfClasses(p, y))
    assert set(got) - set(usual) == {"ranks_away", "rps"}
    assert {name: got[name] for name in usual} == usual
    unknown = OfRanks(np.vstack([p, p[:1]]), np.append(y, UNKNOWN))
    assert (ranks_away(unknown), rps(unknown)) == (ranks_away(said), rps(said))
    assert set(metrics.standard_errors(said)) >= {"ranks_away", "rps"}


class Knows(RegressorMixin, BaseEstimator):
    """Predicts a column of x."""

    def fit(self, x, y):
        return self

    def predict(self, x):
        return x[:, 0]


def test_of_others_counts_are_rounded_gaussians():
    """Their masses sum to one, and their cdf is the Gaussian's half a count further."""
    rng = np.random.default_rng(0)
    x = rng.normal(4, 2, size=(200, 1))
    y = np.maximum(np.round(x[:, 0] + rng.normal(size=200)), 0)
    deviation = np.sqrt(np.mean((y - x[:, 0]) ** 2))
    counts = np.arange(60.0)
    for mean in (-1.5, 0.2, 6.3):
        said = say_counts(Knows(), np.full((60, 1), mean), counts, x, y)
        normal = stats.norm(mean, deviation)
        np.testing.assert_allclose(said.at, normal.cdf(counts + 0.5), rtol=FLOAT64)
        np.testing.assert_allclose(said.below[1:], said.at[:-1], rtol=FLOAT64)
        assert said.below[0] == 0
        assert np.exp(said.log_mixture).sum() == pytest.approx(1, rel=1e-7)
        far = normal.sf(counts - 0.5) - normal.sf(counts + 0.5)
        np.testing.assert_allclose(np.exp(said.log_mixture[20:25]), far[20:25], rtol=1e-6)
        np.testing.assert_array_equal(said.error, counts - mean)
