"""The Gaussian linear layer against plain formulas."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

from leadline import GaussianLinear, InvalidArgumentError
from leadline.backend.numerics import softplus_inverse
from leadline.backend.random import normal
from tests.tolerances import CLOSED_FORM, GRADIENT, STANDARD_ERRORS

KEY = jax.random.key(0)


@pytest.fixture
def layer():
    return GaussianLinear(3, 2, key=jax.random.key(1), initial_scale=0.6, prior_scale=1.3)


def _moments(layer, x):
    """Mean and variance of W x + b for independent Gaussian weights."""
    mean = x @ layer.weight_mean.T + layer.bias_mean
    variance = x**2 @ (jax.nn.softplus(layer.weight_raw) ** 2).T + jax.nn.softplus(layer.bias_raw) ** 2
    return np.asarray(mean), np.asarray(variance)


@pytest.mark.parametrize("noise", ["local", "weights"])
def test_outputs_have_the_right_mean_and_variance(layer, noise):
    x = jax.random.normal(KEY, (4, 3))
    n = 20_000
    draws = jax.vmap(lambda key: layer(x.T, key=key, draw=noise).T)(jax.random.split(KEY, n))
    mean, variance = _moments(layer, x)
    assert np.all(np.abs(draws.mean(0) - mean) <= STANDARD_ERRORS * np.sqrt(variance / n))
    assert np.all(np.abs(draws.var(0) - variance) <= STANDARD_ERRORS * variance * np.sqrt(2 / n))


def test_local_noise_is_independent_between_rows_and_sampled_weights_are_shared(layer):
    x = jnp.tile(jax.random.normal(KEY, (1, 3)), (2, 1))
    local, shared = (np.asarray(layer(x.T, key=KEY, draw=noise).T) for noise in ("local", "weights"))
    assert np.all(local[0] != local[1])
    np.testing.assert_array_equal(shared[0], shared[1])


def test_kl_is_the_closed_form(precision):
    """Against scipy's integral of q ln q / p, weight by weight."""
    layer = GaussianLinear(3, 2, key=jax.random.key(1), initial_scale=0.6, prior_scale=1.3)
    total = 0.0
    for mean, raw in ((layer.weight_mean, layer.weight_raw), (layer.bias_mean, layer.bias_raw)):
        for m, s in zip(np.ravel(mean), np.ravel(jax.nn.softplus(raw)), strict=True):
            q, p = stats.norm(float(m), float(s)), stats.norm(0, 1.3)
            cross = np.log(1.3 * np.sqrt(2 * np.pi)) + (float(s) ** 2 + float(m) ** 2) / (2 * 1.3**2)
            assert q.expect(lambda w, p=p: -p.logpdf(w)) == pytest.approx(cross, rel=1e-6)
            total += cross - q.entropy()
    assert float(layer.kl()) == pytest.approx(total, rel=CLOSED_FORM[precision])


def test_a_prior_per_unit_has_the_product_of_two_scales(precision):
    """KL against N(0, (1.3 exp(u_i + v_j))^2) for weights and N(0, (1.3 exp(v_j))^2) for biases, weight by weight."""
    layer = GaussianLinear(3, 2, key=jax.random.key(1), initial_scale=0.6, prior_scale=1.3, prior="unit")
    u, v = np.array([0.3, -0.2, 0.9]), np.array([-0.5, 0.4])
    layer = eqx.tree_at(lambda m: (m.log_input_scale, m.log_output_scale), layer, (jnp.array(u), jnp.array(v)))
    weight_scale, bias_scale = layer.prior_scales()
    np.testing.assert_allclose(weight_scale, 1.3 * np.exp(u[None] + v[:, None]), rtol=CLOSED_FORM[precision])
    np.testing.assert_allclose(bias_scale, 1.3 * np.exp(v), rtol=CLOSED_FORM[precision])
    total = _slow_kl(layer.weight_mean, layer.weight_raw, weight_scale)
    total += _slow_kl(layer.bias_mean, layer.bias_raw, bias_scale)
    assert float(layer.kl()) == pytest.approx(total, rel=CLOSED_FORM[precision])


def test_a_prior_per_weight_is_the_best_scale_for_each(precision):
    """Its KL is the lowest that any scales give: against a search over the scale of every weight."""
    layer = GaussianLinear(3, 2, key=jax.random.key(1), initial_scale=0.6, prior="weight")
    weight_scale, bias_scale = layer.prior_scales()
    total = _slow_kl(layer.weight_mean, layer.weight_raw, weight_scale)
    total += _slow_kl(layer.bias_mean, layer.bias_raw, bias_scale)
    assert float(layer.kl()) == pytest.approx(total, rel=CLOSED_FORM[precision])
    for factor in (0.9, 1.1):
        assert _slow_kl(layer.weight_mean, layer.weight_raw, factor * weight_scale) > _slow_kl(
            layer.weight_mean, layer.weight_raw, weight_scale
        )


def _slow_kl(mean, raw, prior_scale):
    m, s, p = np.asarray(mean, float), np.log1p(np.exp(np.asarray(raw, float))), np.asarray(prior_scale, float)
    return float(np.sum(np.log(p / s) + (s**2 + m**2) / (2 * p**2) - 0.5))


def test_kl_vanishes_at_the_prior():
    layer = GaussianLinear(2, 2, key=KEY, prior_scale=1.3)
    raw = softplus_inverse(jnp.array(1.3))
    layer = eqx.tree_at(
        lambda m: (m.weight_mean, m.weight_raw, m.bias_mean, m.bias_raw),
        layer,
        (jnp.zeros((2, 2)), jnp.full((2, 2), raw), jnp.zeros(2), jnp.full(2, raw)),
    )
    assert float(layer.kl()) == pytest.approx(0, abs=CLOSED_FORM["float32"])


def test_written_out_reverse_pass_is_the_gradient(layer):
    """The local layer's own reverse pass against automatic differentiation of the same formula."""
    x, target = jax.random.normal(KEY, (2, 5, 3))[0], jax.random.normal(KEY, (5, 2))

    def plain(layer, x):
        mean = x @ layer.weight_mean.T + layer.bias_mean
        variance = x**2 @ (jax.nn.softplus(layer.weight_raw) ** 2).T + jax.nn.softplus(layer.bias_raw) ** 2
        return mean + jnp.sqrt(variance) * normal(KEY, mean.T.shape, mean.dtype).T

    def loss(function):
        return lambda layer, x: jnp.sum((function(layer, x) - target) ** 3)

    own = jax.grad(loss(lambda layer, x: layer(x.T, key=KEY, draw="local").T), (0, 1))(layer, x)
    automatic = jax.grad(loss(plain), (0, 1))(layer, x)
    for a, b in zip(jax.tree.leaves(own), jax.tree.leaves(automatic), strict=True):
        np.testing.assert_allclose(a, b, rtol=GRADIENT, atol=GRADIENT)


@pytest.mark.parametrize(("initial_means", "fan"), [("glorot", 300), ("he", 200)])
def test_initial_spread(initial_means, fan):
    """Means ~ sqrt(2 / fan) N(0, 1), raw scales ~ softplus^-1(1) + sqrt(2 / (in + out)) N(0, 1); biases likewise."""
    layer = GaussianLinear(200, 100, key=KEY, initial_means=initial_means)
    centre = np.log(np.expm1(1.0))
    for mean, raw in ((layer.weight_mean, layer.weight_raw), (layer.bias_mean, layer.bias_raw)):
        n = mean.size
        for values, location, spread in ((mean, 0.0, np.sqrt(2 / fan)), (raw, centre, np.sqrt(2 / 300))):
            assert abs(float(values.mean()) - location) <= STANDARD_ERRORS * spread / np.sqrt(n)
            assert abs(float(values.std()) - spread) <= STANDARD_ERRORS * spread / np.sqrt(2 * n)


def test_without_any_noise_the_mean_is_left():
    """Scales so small that their squares are 0: no NaN, forward or back."""
    layer = GaussianLinear(3, 2, key=jax.random.key(1))
    layer = eqx.tree_at(lambda m: (m.weight_raw, m.bias_raw), layer, (jnp.full((2, 3), -100.0), jnp.full(2, -100.0)))
    x = jax.random.normal(KEY, (3, 5))
    expected = layer.weight_mean @ x + layer.bias_mean[:, None]
    np.testing.assert_allclose(layer(x, key=KEY, draw="local"), expected, rtol=CLOSED_FORM["float32"])
    gradient = jax.grad(lambda layer: jnp.sum(layer(x, key=KEY, draw="local") ** 2))(layer)
    assert all(np.all(np.isfinite(a)) for a in jax.tree.leaves(gradient))


def test_rows_for_columns_get_one_sentence(layer):
    with pytest.raises(InvalidArgumentError) as error:
        layer(jnp.ones((5, 3)), key=KEY, draw="local")
    assert str(error.value) == "`x` must have 3 rows, and a column per data point, got shape (5, 3)."
