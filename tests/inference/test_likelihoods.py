"""The parts of the uncertainty under other likelihoods, of untrained networks that disagree, against slow loops."""

import numpy as np
import pytest
from scipy import stats

from leadline.inference.predict import depth_masses, mixture, sample_outputs
from leadline.inference.restarts import Restarts
from leadline.inference.uncertainty import uncertainty
from leadline.likelihoods import NegativeBinomialLikelihood, OrdinalLikelihood
from leadline.likelihoods.counting import MOST_SHIFT
from tests.inference.test_uncertainty import KEYS, N_SAMPLES, WIDE, X, make_models
from tests.tolerances import MANY_SUMS

ROWS = X[:4]


@pytest.fixture(scope="module", params=[NegativeBinomialLikelihood(), OrdinalLikelihood(3)], ids=lambda one: one.name)
def models(request):
    return make_models(request.param, WIDE)


def expectations(models, of_output):
    """For every row, by slow loops over runs and draws: of every depth its mass, and E[f | L] for f of an output."""
    outputs, q = sample_outputs(models, ROWS, n_samples=N_SAMPLES, key=KEYS), depth_masses(models)
    each = []
    for row in range(len(ROWS)):
        by_depth = []
        for depth in range(q.shape[1]):
            mass, total = 0.0, 0.0
            for run in range(q.shape[0]):
                for sample in range(N_SAMPLES):
                    share = q[run, depth] / (q.shape[0] * N_SAMPLES)
                    if share > 0:
                        mass += share
                        total = total + share * of_output(run, float(outputs[run, sample, depth, row, 0]))
            if mass > 0:
                by_depth.append((mass, total / mass))
        each.append(by_depth)
    return each


def slow_variances(models):
    """Noise, weights and depth of counts."""
    rate, dispersion = (np.asarray(a, float)[:, 0] for a in (models.likelihood.log_rate, models.likelihood.dispersion))

    def of_output(run, output):  # E[y], E[y]^2 and Var[y]
        mean = np.exp(rate[run] + MOST_SHIFT * np.tanh(output / MOST_SHIFT))
        return np.array([mean, mean**2, mean + dispersion[run] * mean**2])

    for by_depth in expectations(models, of_output):
        mean = sum(mass * one[0] for mass, one in by_depth)
        noise = sum(mass * one[2] for mass, one in by_depth)
        weights = sum(mass * (one[1] - one[0] ** 2) for mass, one in by_depth)
        yield noise, weights, sum(mass * (one[0] - mean) ** 2 for mass, one in by_depth)


def slow_entropies(models):
    """Noise, weights and depth of classes in order."""
    thresholds = np.asarray(models.likelihood.thresholds, float)

    def of_output(run, output):  # the probabilities, and their entropy
        p = np.diff([0.0, *(1 / (1 + np.exp(output - thresholds[run]))), 1.0])
        return np.append(p, stats.entropy(p))

    for by_depth in expectations(models, of_output):
        noise = sum(mass * one[-1] for mass, one in by_depth)
        given_depth = sum(mass * stats.entropy(one[:-1]) for mass, one in by_depth)
        total = stats.entropy(sum(mass * one[:-1] for mass, one in by_depth))
        yield noise, given_depth - noise, total - given_depth


def test_each_part_of_the_uncertainty_is_a_slow_loop_and_they_sum_to_the_total(models):
    parts = uncertainty(models, ROWS, n_samples=N_SAMPLES, key=KEYS)
    got = np.stack([part.ravel() for part in (parts.noise, parts.weights, parts.depth)], axis=1)
    if isinstance(models.likelihood, NegativeBinomialLikelihood):
        _, variance = mixture(models, ROWS, n_samples=N_SAMPLES, key=KEYS).moments()
        np.testing.assert_allclose(parts.total, variance, rtol=MANY_SUMS)
        expected = [*slow_variances(models)]
    else:
        expected = [*slow_entropies(models)]
        np.testing.assert_allclose(parts.total, np.sum(expected, axis=1), rtol=MANY_SUMS)
    np.testing.assert_allclose(got, expected, rtol=1e-3, atol=1e-6)  # of differences


def test_single_draws_are_of_the_likelihood_too(models):
    """What a partial dependence rests on: of classes in order not the softmax of one number."""
    share, draws = Restarts(models, 0, 2 * N_SAMPLES).means_of_draws(ROWS, np.arange(len(ROWS)))
    assert share.sum() == pytest.approx(1, rel=MANY_SUMS)
    if isinstance(models.likelihood, OrdinalLikelihood):
        assert draws.shape[2] == 3
        together = Restarts(models, 0, 2 * N_SAMPLES).moments(ROWS)
    else:
        together = Restarts(models, 0, 2 * N_SAMPLES).mixture(ROWS).moments()[0]
    np.testing.assert_allclose(np.tensordot(share, draws, axes=1), together, rtol=MANY_SUMS)
