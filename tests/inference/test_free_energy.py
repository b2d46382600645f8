"""The free energy against a slow loop that anyone can check."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from leadline import (
    CategoricalLikelihood,
    FixedDepth,
    GaussianLikelihood,
    Model,
    NormalDepth,
    PoissonDepth,
    UnboundedNetwork,
    evaluate_free_energy,
)
from leadline import free_energy as eager_free_energy
from leadline.backend.loops import row
from leadline.backend.random import normal
from leadline.inference.free_energy import weight_kl_by_layer
from tests.network.test_unbounded import without_noise
from tests.tolerances import CLOSED_FORM, MANY_SUMS, STANDARD_ERRORS

free_energy = eqx.filter_jit(eager_free_energy)

FLOAT32 = CLOSED_FORM["float32"]
KEY, NOISE_KEY = jax.random.key(0), jax.random.key(9)
X = jax.random.normal(jax.random.key(1), (6, 3))
Y = jnp.array([0, 1, 1, 0, 1, 0])

POSTERIORS = {
    "real": NormalDepth(1.7, 0.9, 0.025, 0.975),
    "integer": NormalDepth(1.7, 0.9, 0.025, 0.975, "integer"),
    "poisson": PoissonDepth(1.2, 0.95),
}


def make_model(posterior, likelihood=None, capacity=8):
    likelihood = likelihood or CategoricalLikelihood(2)
    network = UnboundedNetwork(3, likelihood.n_outputs, width=5, capacity=capacity, initial_scale=0.3, key=KEY)
    return Model(network, likelihood, posterior, NormalDepth(0.0, 1.15))


def blocks(model, depth):
    return [model.network.first, *[row(model.network.deeper, jnp.array(i)) for i in range(depth)]]


def softplus(x):
    return np.log1p(np.exp(np.asarray(x, np.float64)))


def slow_kl(layer):
    """KL[N(m, s^2) || N(0, 1)], weight by weight."""
    total = 0.0
    for mean, raw in ((layer.weight_mean, layer.weight_raw), (layer.bias_mean, layer.bias_raw)):
        for m, s in zip(np.ravel(np.asarray(mean, np.float64)), np.ravel(softplus(raw)), strict=True):
            total += 0.5 * (s**2 + m**2 - 1) - np.log(s)
    return total


def slow_layer(layer, x, key, noise):
    """One layer with the library's own draws, everything else in NumPy."""
    mean_w, mean_b = np.asarray(layer.weight_mean, np.float64), np.asarray(layer.bias_mean, np.float64)
    scale_w, scale_b = softplus(layer.weight_raw), softplus(layer.bias_raw)
    if noise == "weights":
        draw = np.asarray(normal(key, (mean_w.shape[0], mean_w.shape[1] + 1), jnp.dtype("float32")), np.float64)
        return x @ (mean_w + scale_w * draw[:, :-1]).T + mean_b + scale_b * draw[:, -1]
    draw = np.asarray(normal(key, (mean_w.shape[0], len(x)), jnp.dtype("float32")), np.float64).T
    return x @ mean_w.T + mean_b + np.sqrt(x**2 @ (scale_w**2).T + scale_b**2) * draw


def slow_free_energy(model, noise):
    """Eq. 8 and 9, term by term: a loop over depths, and for every depth a loop over its layers."""
    q = np.asarray(model.depth_posterior.pmf(9), np.float64)
    p = np.asarray(model.depth_prior.pmf(9), np.float64)
    expected_nll = depth_kl = weight_kl = 0.0
    for depth in range(9):
        if q[depth] == 0:
            continue
        hidden, kl = np.asarray(X, np.float64), 0.0
        for level, block in enumerate(blocks(model, depth)):
            layer_key, head_key = (jax.random.fold_in(NOISE_KEY, 2 * level + k) for k in range(2))
            hidden = slow_layer(block.layer, hidden, layer_key, noise)
            hidden = np.maximum(0.1 * hidden, hidden)
            kl += slow_kl(block.layer)
        output = slow_layer(block.head, hidden, head_key, noise)
        kl += slow_kl(block.head)
        nll = 0.0
        for n in range(len(X)):
            exponentials = np.exp(output[n] - output[n].max())
            nll -= np.log(exponentials[int(Y[n])] / exponentials.sum())
        expected_nll += q[depth] * nll
        depth_kl += q[depth] * np.log(q[depth] / p[depth])
        weight_kl += q[depth] * kl
    return expected_nll, depth_kl, weight_kl


@pytest.mark.parametrize("noise", ["local", "weights"])
@pytest.mark.parametrize("posterior", POSTERIORS)
def test_free_energy_is_the_slow_loop(posterior, noise):
    model = make_model(POSTERIORS[posterior])
    terms = free_energy(model, X, Y, key=NOISE_KEY, draw=noise)
    expected = slow_free_energy(model, noise)
    got = (terms.expected_nll, terms.depth_kl, terms.weight_kl)
    np.testing.assert_allclose([float(term) for term in got], expected, rtol=FLOAT32)
    assert float(terms.total) == pytest.approx(sum(expected), rel=FLOAT32)
    assert float(terms.tempered(0.0)) == pytest.approx(expected[0] + expected[1], rel=FLOAT32)


def test_every_kl_term_counts_exactly_once():
    """Raise one layer's KL at a time: F must rise by that much times the probability that the layer is used."""
    model = make_model(POSTERIORS["real"])
    q = np.asarray(model.depth_posterior.pmf(9), np.float64)
    weight_kl = eqx.filter_jit(lambda model: free_energy(model, X, Y, key=NOISE_KEY).weight_kl)
    before = float(weight_kl(model))
    highest = int(model.support()[1])
    assert highest == 3
    for level in range(9):
        for name, probability in (("layer", q[level:].sum()), ("head", q[level])):

            def place(m, level=level, name=name):
                return getattr(m.network.first if level == 0 else m.network.deeper, name).bias_mean

            bias = place(model)
            at = (0,) if level == 0 else (level - 1, 0)
            shifted = bias.at[at].set(40.0)
            rise = 0.5 * (40.0**2 - float(bias[at]) ** 2)
            after = float(weight_kl(eqx.tree_at(place, model, shifted)))
            assert after - before == pytest.approx(probability * rise, rel=MANY_SUMS, abs=MANY_SUMS * before), (
                level,
                name,
            )


def test_shares_by_layer_sum_to_the_weight_kl():
    model = make_model(POSTERIORS["integer"])
    shares = eqx.filter_jit(weight_kl_by_layer)(model)
    total = free_energy(model, X, Y, key=NOISE_KEY).weight_kl
    assert float(shares["layers"].sum() + shares["heads"].sum()) == pytest.approx(float(total), rel=FLOAT32)


def test_a_point_mass_is_an_ordinary_network_and_a_wrong_depth_is_not():
    def terms(depth):
        model = make_model(FixedDepth(depth))
        model = eqx.tree_at(lambda m: m.depth_prior, model, FixedDepth(depth))
        return model, free_energy(eqx.tree_at(lambda m: m.network, model, without_noise(model.network)), X, Y, key=KEY)

    model, at_two = terms(2)
    from tests.network.test_unbounded import plain_network

    output = plain_network(model.network, 2, X)
    log_prob = output - np.log(np.exp(output).sum(axis=1, keepdims=True))
    nll = -log_prob[np.arange(6), np.asarray(Y)].sum()
    assert float(at_two.expected_nll) == pytest.approx(nll, rel=FLOAT32)
    assert float(at_two.depth_kl) == 0
    assert abs(float(terms(1)[1].expected_nll) - nll) > 0.01


def test_batches_are_unbiased_and_padding_does_not_count():
    model = make_model(POSTERIORS["real"])
    model = eqx.tree_at(lambda m: m.network, model, without_noise(model.network))
    whole = free_energy(model, X, Y, key=KEY)
    halves = [free_energy(model, X[part], Y[part], key=KEY, n_data=6) for part in (slice(3), slice(3, 6))]
    assert float(sum(half.total for half in halves)) / 2 == pytest.approx(float(whole.total), rel=FLOAT32)
    padded_x, padded_y = jnp.concatenate([X, 7 * jnp.ones((2, 3))]), jnp.append(Y, jnp.array([0, 0]))
    weight = jnp.array([1.0] * 6 + [0.0] * 2)
    padded = free_energy(model, padded_x, padded_y, key=KEY, n_data=6, row_weight=weight)
    assert float(padded.total) == pytest.approx(float(whole.total), rel=FLOAT32)


def test_gaussian_noise_is_learned_through_the_free_energy():
    """The gradient for the noise scale against a finite difference."""
    y = jax.random.normal(KEY, (6, 1))
    model = make_model(POSTERIORS["real"], GaussianLikelihood(1, scale=0.8))

    @jax.jit
    def total(raw):
        moved = eqx.tree_at(lambda m: m.likelihood.raw_scale, model, raw)
        return free_energy(moved, X, y, key=NOISE_KEY).total

    raw = model.likelihood.raw_scale
    difference = float(total(raw + 1e-2) - total(raw - 1e-2)) / 2e-2
    assert float(jax.grad(total)(raw)[0]) == pytest.approx(difference, rel=1e-2)
    assert abs(difference) > 0.1


def test_evaluation_is_the_mean_over_weight_samples():
    model = make_model(POSTERIORS["real"])
    models = jax.tree.map(lambda a: a[None], model)
    terms = evaluate_free_energy(models, np.asarray(X), np.asarray(Y), n_samples=400, key=jnp.stack([KEY]))
    draws = jax.vmap(lambda key: free_energy(model, X, Y, key=key, draw="weights").expected_nll)(
        jax.random.split(NOISE_KEY, 400)
    )
    error = float(draws.std()) * np.sqrt(2 / 400)
    assert abs(float(terms.expected_nll[0]) - float(draws.mean())) <= STANDARD_ERRORS * error
    assert float(terms.weight_kl[0]) == pytest.approx(float(free_energy(model, X, Y, key=KEY).weight_kl), rel=FLOAT32)
