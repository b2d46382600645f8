"""Residual blocks against plain formulas, and what they are for: depth."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from leadline import UnboundedNetwork
from leadline.backend.loops import row
from leadline.network.blocks.residual import Residual
from tests.network.test_unbounded import without_noise
from tests.tolerances import MANY_SUMS

KEY, NOISE_KEY = jax.random.key(0), jax.random.key(9)


def network(n_inputs=3, capacity=4, **settings):
    given = {"width": 5, "block": "residual", "initial_scale": 0.3, "key": KEY} | settings
    return UnboundedNetwork(n_inputs, 2, capacity=capacity, **given)


@eqx.filter_jit
def depths(net, x, highest, noise="local"):
    return net.depths(x, highest=jnp.asarray(highest), key=NOISE_KEY, draw=noise)


def plain_network(net, depth, x, n_units=5):
    """Affine in; then so many steps, each of which adds to the state; the head of that depth. In NumPy, by rows."""

    def seen(state):
        state = state / np.sqrt(np.sum(state**2, axis=1, keepdims=True) / n_units + 1e-6)
        return np.maximum(0.1 * state, state)

    def affine(layer, rows):
        return rows @ np.asarray(layer.weight_mean).T + np.asarray(layer.bias_mean)

    blocks = [net.first, *[row(net.deeper, jnp.array(i)) for i in range(depth)]]
    state = affine(blocks[0].layer, np.asarray(x))
    for block in blocks[1:]:
        state = state + affine(block.layer, seen(state))
    return affine(blocks[-1].head, seen(state))


@pytest.mark.parametrize("noise", ["local", "weights"])
@pytest.mark.parametrize("n_inputs", [3, 5])
def test_every_depth_is_a_plain_network_and_a_wrong_depth_is_not(n_inputs, noise):
    """Also where there are as many inputs as units: the first layer adds to nothing even then."""
    x = jax.random.normal(jax.random.key(1), (6, n_inputs))
    net = without_noise(network(n_inputs))
    outputs, _ = depths(net, x, 4, noise)
    plain = np.stack([plain_network(net, depth, x) for depth in range(5)])
    np.testing.assert_allclose(outputs, plain, rtol=MANY_SUMS, atol=MANY_SUMS)
    for depth in range(4):
        assert np.abs(np.asarray(outputs[depth]) - plain[depth + 1]).max() > 0.01


def test_a_state_of_zeros_is_read_as_zeros():
    net = network()
    silent = eqx.tree_at(lambda n: n.first.layer.weight_mean, net, jnp.zeros((5, 3)))
    silent = without_noise(eqx.tree_at(lambda n: n.first.layer.bias_mean, silent, jnp.zeros(5)))

    def loss(net):
        outputs, _ = depths(net, jnp.ones((1, 3)), 0)
        return jnp.sum(outputs[0]), outputs[0, 0]

    (_, output), slope = jax.value_and_grad(loss, has_aux=True)(silent)
    np.testing.assert_allclose(output, silent.first.head.bias_mean, rtol=MANY_SUMS)
    assert all(np.isfinite(a).all() for a in jax.tree.leaves(slope))


@pytest.mark.parametrize(
    ("block", "least", "most"), [("residual", 0.1, 10), pytest.param("dense", 0, 1e-3, marks=pytest.mark.slow)]
)
def test_a_slope_comes_back_through_fifty_layers(block, least, most):
    """How much the loss at depth 50 moves with the first hidden layer, beside the last: of dense blocks nothing."""
    net = without_noise(network(block=block, capacity=50, width=32, initial_means="glorot"))
    x = jax.random.normal(jax.random.key(1), (64, 3))
    slope = jax.grad(lambda net: jnp.sum(depths(net, x, 50)[0][50] ** 2))(net)
    size = jnp.linalg.norm(slope.deeper.layer.weight_mean, axis=(1, 2))
    assert least <= float(size[0] / size[-1]) <= most


def test_the_cost_follows_the_depth_asked_for():
    """Of sixty-four layers in store those are walked that are asked for."""
    turns = []

    class Counted(Residual):
        def step(self, state, *, key, draw):
            jax.debug.callback(lambda: turns.append(1))
            return super().step(state, key=key, draw=draw)

    given = {"n_in": 5, "width": 5, "n_outputs": 2, "initial_scale": 0.3}
    net = network(5, capacity=64)
    first = Counted(**given, key=KEY)
    deeper = eqx.filter_vmap(lambda key: Counted(**given, key=key))(jax.random.split(KEY, 64))
    net = eqx.tree_at(lambda n: (n.first, n.deeper), net, (first, deeper))
    x = jax.random.normal(jax.random.key(1), (6, 5))
    found = []
    for depth in (10, 20, 40):
        turns.clear()
        jax.block_until_ready(depths(net, x, depth))
        jax.effects_barrier()
        found.append(len(turns))
    assert found == [11, 21, 41]
