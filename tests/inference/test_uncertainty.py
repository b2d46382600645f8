"""The parts of the uncertainty against a slow loop over restarts, weight samples and depths."""

import dataclasses

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from leadline import (
    RECIPES,
    CategoricalLikelihood,
    FixedDepth,
    GaussianLikelihood,
    NormalDepth,
    predict,
    uncertainty,
)
from leadline.backend.numerics import softplus_inverse
from leadline.inference.predict import depth_masses, sample_outputs
from leadline.inference.uncertainty import moments_by_depth, uncertainty_by_depth
from leadline.training.drawing import _init_models_quickly as init_models  # compiled as a whole, not step by step
from tests.network.test_unbounded import without_noise
from tests.tolerances import CLOSED_FORM, MANY_SUMS

KEYS = jax.random.split(jax.random.key(5), 2)
X = np.random.default_rng(0).normal(size=(7, 2))
N_SAMPLES = 5
WIDE = (NormalDepth(0.0, 1.15), NormalDepth(1.5, 0.9, 0.025, 0.975))
# Weights so noisy, means so large that every part counts.
RECIPE = dataclasses.replace(RECIPES["written"], initial_scale=0.4, initial_means="he")
NOISE_SCALES = jnp.array([[0.3, 0.8], [0.5, 0.6]])


def make_models(likelihood, depth=WIDE):
    """Two restarts; where q(L) is wide, they differ in it, and in the noise that they have learned."""
    models = init_models(2, likelihood, depth=depth, recipe=RECIPE, width=5, capacity=8, key=KEYS)
    if depth is WIDE:
        models = eqx.tree_at(lambda m: m.depth_posterior.loc, models, jnp.array([1.2, 2.6]))
    if isinstance(likelihood, GaussianLikelihood):
        models = eqx.tree_at(lambda m: m.likelihood.raw_scale, models, softplus_inverse(NOISE_SCALES))
    return models


def softmax(output):
    exponentials = np.exp(output - output.max())
    return exponentials / exponentials.sum()


def entropy(p):
    return -sum(q * np.log(q) for q in p if q > 0)


def slow_entropies(outputs, q, row):
    """noise = E[H(y | theta, L)], weights = E_L[H(y | L)] - noise, depth = H(y) - E_L[H(y | L)]."""
    n_runs, n_samples, n_depths = outputs.shape[:3]
    noise, given_depth, total = 0.0, 0.0, np.zeros(outputs.shape[-1])
    for depth in range(n_depths):
        mass, mean = 0.0, np.zeros(outputs.shape[-1])
        for run in range(n_runs):
            for sample in range(n_samples):
                share = q[run, depth] / (n_runs * n_samples)
                p = softmax(outputs[run, sample, depth, row].astype(float))
                mass += share
                mean += share * p
                noise += share * entropy(p)
        if mass > 0:
            given_depth += mass * entropy(mean / mass)
            total += mean
    return noise, given_depth - noise, entropy(total) - given_depth


def slow_variances(outputs, q, row, scales):
    """noise = E[sigma^2], weights = E_L Var_theta E[y | theta, L], depth = Var_L E[y | L]."""
    n_runs, n_samples, n_depths = outputs.shape[:3]
    noise, weights = 0.0, 0.0
    masses, means = [], []
    for depth in range(n_depths):
        shares, values = [], []
        for run in range(n_runs):
            for sample in range(n_samples):
                shares.append(q[run, depth] / (n_runs * n_samples))
                values.append(outputs[run, sample, depth, row].astype(float))
                noise = noise + shares[-1] * scales[run] ** 2
        mass = sum(shares)
        if mass > 0:
            mean = sum(s * v for s, v in zip(shares, values, strict=True)) / mass
            weights = weights + sum(s * (v - mean) ** 2 for s, v in zip(shares, values, strict=True))
            masses.append(mass)
            means.append(mean)
    centre = sum(m * v for m, v in zip(masses, means, strict=True))
    return noise, weights, sum(m * (v - centre) ** 2 for m, v in zip(masses, means, strict=True))


def all_parts(parts):
    return np.stack([parts.noise, parts.weights, parts.depth])


def test_classes_have_the_entropies_of_a_slow_loop():
    models = make_models(CategoricalLikelihood(3))
    q = depth_masses(models)
    assert np.all((q > 0.01).sum(axis=1) >= 3)  # spread over depths
    assert np.abs(q[0] - q[1]).max() > 0.1
    parts = uncertainty(models, X, n_samples=N_SAMPLES, key=KEYS)
    outputs = sample_outputs(models, X, n_samples=N_SAMPLES, key=KEYS)
    assert outputs.shape == (2, N_SAMPLES, 9, 7, 3)
    expected = np.array([slow_entropies(outputs, q, row) for row in range(len(X))]).T
    np.testing.assert_allclose(all_parts(parts), expected, atol=CLOSED_FORM["float32"], rtol=MANY_SUMS)
    assert np.all(all_parts(parts) >= 0)
    assert np.all(expected.max(axis=1) > 0.01)  # there is something to compare

    p = predict(models, X, n_samples=N_SAMPLES, key=KEYS).mean(0).astype(float)
    np.testing.assert_allclose(parts.total, [entropy(row) for row in p], rtol=MANY_SUMS)


def test_numbers_have_the_variances_of_a_slow_loop():
    models = make_models(GaussianLikelihood(2))
    q, scales = depth_masses(models), np.asarray(NOISE_SCALES, float)
    parts = uncertainty(models, X, n_samples=N_SAMPLES, key=KEYS)
    outputs = sample_outputs(models, X, n_samples=N_SAMPLES, key=KEYS)
    expected = np.stack([slow_variances(outputs, q, row, scales) for row in range(len(X))], axis=1)
    assert all_parts(parts).shape == (3, 7, 2)
    np.testing.assert_allclose(all_parts(parts), expected, atol=MANY_SUMS, rtol=MANY_SUMS)
    assert np.all(all_parts(parts) >= 0)
    assert np.all(expected.max(axis=(1, 2)) > 0.05)

    mean, square = np.moveaxis(predict(models, X, n_samples=N_SAMPLES, key=KEYS).mean(0).astype(float), 1, 0)
    np.testing.assert_allclose(parts.total, square - mean**2, rtol=MANY_SUMS)


@pytest.mark.parametrize("likelihood", [CategoricalLikelihood(3), GaussianLikelihood(2)])
def test_a_fixed_depth_has_no_uncertainty_of_depth(likelihood):
    models = make_models(likelihood, depth=(FixedDepth(2), FixedDepth(2)))
    parts = uncertainty(models, X, n_samples=N_SAMPLES, key=KEYS)
    np.testing.assert_allclose(parts.depth, 0, atol=CLOSED_FORM["float64"])
    assert np.all(parts.weights > 0.01)


def test_equal_networks_without_noise_have_no_uncertainty_of_weights():
    """And what two restarts without noise disagree on counts as weights."""
    models = make_models(GaussianLikelihood(2))
    quiet = eqx.tree_at(lambda m: m.network, models, without_noise(models.network))
    apart = uncertainty(quiet, X, n_samples=N_SAMPLES, key=KEYS)
    equal = uncertainty(jax.tree.map(lambda a: a[jnp.array([0, 0])], quiet), X, n_samples=N_SAMPLES, key=KEYS)
    np.testing.assert_allclose(equal.weights, 0, atol=MANY_SUMS)
    assert equal.depth.max() > 0.1
    assert apart.weights.max() > 0.1


def test_rows_may_be_many():
    """Cut into pieces; every row sees the same draws."""
    models = make_models(CategoricalLikelihood(3))
    x = np.random.default_rng(1).normal(size=(1030, 2))
    many, few = (uncertainty(models, rows, n_samples=N_SAMPLES, key=KEYS) for rows in (x, x[-7:]))
    assert many.total.shape == (1030,)
    np.testing.assert_allclose(all_parts(many)[:, -7:], all_parts(few), rtol=MANY_SUMS, atol=CLOSED_FORM["float32"])


def test_what_each_depth_says_alone():
    """Against the same networks with all mass at that depth; and weighed by q(L), it is the prediction of all."""
    models = make_models(CategoricalLikelihood(3))
    moments, noise = moments_by_depth(models, X, n_samples=N_SAMPLES, key=KEYS)
    q = depth_masses(models)
    together = np.einsum("rd,rd...->r...", q, moments)
    np.testing.assert_allclose(together, predict(models, X, n_samples=N_SAMPLES, key=KEYS), atol=MANY_SUMS)
    for depth in range(3):
        one = FixedDepth(depth)
        both = jax.tree.map(lambda a: jnp.stack([a, a]), (one, one))
        alone = eqx.tree_at(lambda m: (m.depth_prior, m.depth_posterior), models, both)
        expected = predict(alone, X, n_samples=N_SAMPLES, key=KEYS)
        np.testing.assert_allclose(moments[:, depth], expected, atol=MANY_SUMS)
        parts = uncertainty(alone, X, n_samples=N_SAMPLES, key=KEYS)
        np.testing.assert_allclose(noise[:, depth].mean(axis=0), parts.noise, atol=MANY_SUMS)
    whole = uncertainty(models, X, n_samples=N_SAMPLES, key=KEYS)
    again = uncertainty_by_depth(models, moments, noise)
    for name in ("noise", "weights", "depth"):
        np.testing.assert_array_equal(getattr(again, name), getattr(whole, name))
