"""Products of matrices in bfloat16: what is rounded, and what is not."""

import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
import pytest

from leadline import (
    CategoricalLikelihood,
    DepthClassifier,
    GaussianLinear,
    InvalidArgumentError,
    Problem,
    Settings,
    UnboundedNetwork,
    train,
)
from leadline.backend.device import Backend, pretending
from leadline.backend.numerics import computing_in, product
from leadline.backend.random import normal
from tests.tolerances import BFLOAT16, CLOSED_FORM, MANY_SUMS

KEY = jax.random.key(0)
X = np.random.default_rng(0).normal(size=(64, 3)).astype(np.float32)
Y = (X[:, 0] * X[:, 1] > 0).astype(int)
CLASSES = CategoricalLikelihood(2)
DEPTH, PRODUCTS = 3, 5
"""Of a network of that depth: the first layer, three more, and a head."""


def test_factors_are_rounded_and_sums_are_not():
    a, b = (np.asarray(jax.random.normal(key, (50, 50))) for key in jax.random.split(KEY))
    rounded = [np.asarray(factor.astype(ml_dtypes.bfloat16), np.float64) for factor in (a, b)]
    with computing_in("bfloat16"):
        got = product(a, jnp.asarray(b))
    assert got.dtype == jnp.float32
    np.testing.assert_allclose(got, rounded[0] @ rounded[1], rtol=CLOSED_FORM["float32"], atol=1e-4)
    assert np.abs(got - a @ b).max() > 0.01
    with computing_in("float32"):
        np.testing.assert_allclose(product(a, jnp.asarray(b)), a @ b, rtol=CLOSED_FORM["float32"], atol=1e-4)


@pytest.fixture(scope="module", params=["dense", "residual"])
def network(request):
    return UnboundedNetwork(3, 2, width=16, capacity=4, block=request.param, initial_scale=0.1, key=KEY)


def costs(network, draw="local"):
    def cost(network):
        output, kl = network.depths(jnp.asarray(X), highest=DEPTH, key=KEY, draw=draw)
        return jnp.sum(CLASSES.log_prob(output[DEPTH], jnp.asarray(Y))), (output, kl)

    return jax.value_and_grad(cost, has_aux=True), network


def rounded(a):
    return np.asarray(np.asarray(a).astype(ml_dtypes.bfloat16), np.float64)


def test_a_layer_and_its_reverse_pass_round_the_factors_alone():
    """Against the formulas with rounded factors: W x + b + sqrt(V x^2 + v) noise, and its slopes for sum(c out)."""
    layer = GaussianLinear(5, 4, key=KEY, initial_scale=0.3)
    x, c = (jax.random.normal(key, (n, 7)) for key, n in zip(jax.random.split(KEY), (5, 4), strict=True))

    def total(layer, x):
        out = layer(x, key=KEY, draw="local")
        return jnp.sum(c * out), out

    with computing_in("bfloat16"):
        (_, got), (slope, d_x) = jax.value_and_grad(total, argnums=(0, 1), has_aux=True)(layer, x)
    scales = [jax.nn.softplus(raw) for raw in (layer.weight_raw, layer.bias_raw)]
    variance, noise = scales[0] ** 2, np.asarray(normal(KEY, (4, 7), x.dtype), np.float64)
    mean = rounded(layer.weight_mean) @ rounded(x) + layer.bias_mean[:, None]
    std = np.sqrt(rounded(variance) @ rounded(x**2) + scales[1][:, None] ** 2)
    d_variance = np.asarray(c * noise / (2 * std), np.float32)
    close = {"rtol": MANY_SUMS, "atol": MANY_SUMS}
    np.testing.assert_allclose(got, mean + std * noise, **close)
    np.testing.assert_allclose(slope.weight_mean, rounded(c) @ rounded(x).T, **close)
    np.testing.assert_allclose(slope.bias_mean, c.sum(axis=1), **close)
    expected = rounded(layer.weight_mean).T @ rounded(c) + 2 * x * (rounded(variance).T @ rounded(d_variance))
    np.testing.assert_allclose(d_x, expected, rtol=BFLOAT16, atol=MANY_SUMS)  # d_variance may round the other way


@pytest.mark.parametrize("draw", ["local", "weights"])
def test_outputs_are_close_and_the_kl_is_the_same(network, draw):
    function, given = costs(network, draw)

    def both(precision):
        with computing_in(precision):
            (_, (output, kl)), _ = jax.jit(function)(given)
        return np.asarray(output), kl

    (output, kl), (less, same_kl) = both("float32"), both("bfloat16")
    np.testing.assert_array_equal(same_kl, kl)
    assert 0 < np.linalg.norm(less - output) < PRODUCTS * BFLOAT16 * np.linalg.norm(output)


def test_every_product_of_a_step_is_one_of_bfloat16_on_a_gpu(network):
    """Forward and back, in the program for a GPU (which needs none to be written)."""
    function, given = costs(network)
    with computing_in("bfloat16"):
        program = jax.jit(function).trace(given).lower(lowering_platforms=("cuda",)).as_text()
    products = [line for line in program.splitlines() if "stablehlo.dot_general" in line]
    assert len(products) >= 12  # mean and variance, of layer and head, there and twice on the way back
    for line in products:
        assert "lhs_precision_type = bf16, rhs_precision_type = bf16, accumulation_type = f32" in line


@pytest.mark.slow
def test_a_training_in_bfloat16_learns_about_the_same():
    problem = Problem((X, Y), (X, Y), CLASSES)
    fits = [Settings(depth=1, width=8, n_restarts=2, epochs=150, precision=one) for one in ("float32", "bfloat16")]
    single, rounded = (train(problem, one) for one in fits)
    assert jax.tree.leaves(rounded.model)[0].dtype == jnp.float32
    nll = [np.asarray(one.history["validation_nll"])[-1].mean() for one in (single, rounded)]
    assert nll[0] != nll[1]
    assert nll[1] < 0.5
    assert nll[1] == pytest.approx(nll[0], abs=0.1)


def test_another_precision_is_one_sentence():
    with pytest.raises(InvalidArgumentError, match="`precision` must be one of float32, bfloat16, got 'float16'"):
        Settings(precision="float16").resolved(CLASSES)
    estimator = DepthClassifier(precision="float16")
    with pytest.raises(InvalidArgumentError, match="`precision` must be one of"):
        estimator.fit(X, Y)


def test_kernels_which_know_no_bfloat16_are_left_aside():
    gpu = Backend("gpu", has_kernels=True)
    with pretending(gpu):
        assert gpu.kernels_fit(3, 8, 2)
        with computing_in("bfloat16"):
            assert not gpu.kernels_fit(3, 8, 2)
