"""The unbounded network against plain networks; what every block must keep, and what dense ones are."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from leadline import InvalidArgumentError, UnboundedNetwork
from leadline.backend.loops import row
from tests.jaxprs import equations
from tests.tolerances import CLOSED_FORM

of_every_block = pytest.mark.parametrize("block", ["dense", "residual"])

KEY, NOISE_KEY = jax.random.key(0), jax.random.key(9)
X = jax.random.normal(jax.random.key(1), (6, 3))


def network(capacity=4, **settings):
    return UnboundedNetwork(3, 2, width=5, capacity=capacity, initial_scale=0.3, key=KEY, **settings)


@eqx.filter_jit
def depths(net, highest, noise):
    return net.depths(X, highest=jnp.asarray(highest), key=NOISE_KEY, draw=noise)


def without_noise(net):
    """The same network with (almost) no weight noise."""
    raws = lambda n: [  # noqa: E731
        getattr(layer, name)
        for block in (n.first, n.deeper)
        for layer in (block.layer, block.head)
        for name in ("weight_raw", "bias_raw")
    ]
    return eqx.tree_at(raws, net, [jnp.full_like(raw, -40.0) for raw in raws(net)])


def plain_network(net, depth, x):
    """Input layer, `depth` hidden layers, the head of that depth; the weights' means, in NumPy."""
    blocks = [net.first, *[row(net.deeper, jnp.array(i)) for i in range(depth)]]
    hidden = np.asarray(x)
    for block in blocks:
        hidden = hidden @ np.asarray(block.layer.weight_mean).T + np.asarray(block.layer.bias_mean)
        hidden = np.maximum(0.1 * hidden, hidden)
    return hidden @ np.asarray(blocks[-1].head.weight_mean).T + np.asarray(blocks[-1].head.bias_mean)


@pytest.mark.parametrize("noise", ["local", "weights"])
def test_every_depth_is_a_plain_network_and_a_wrong_depth_is_not(noise):
    net = without_noise(network())
    outputs, _ = depths(net, 4, noise)
    plain = np.stack([plain_network(net, depth, X) for depth in range(5)])
    np.testing.assert_allclose(outputs, plain, rtol=CLOSED_FORM["float32"], atol=CLOSED_FORM["float32"])
    for depth in range(4):
        assert np.abs(np.asarray(outputs[depth]) - plain[depth + 1]).max() > 0.01


@of_every_block
def test_only_the_depths_asked_for_are_evaluated(block):
    net = network(block=block)
    every, every_kl = depths(net, 4, "local")
    some, some_kl = depths(net, 2, "local")
    for all_rows, rows in ((every, some), (every_kl, some_kl)):
        np.testing.assert_array_equal(rows[:3], all_rows[:3])
        assert np.all(np.asarray(rows)[[3, 4]] == 0)


@pytest.mark.parametrize(
    ("prior", "block"), [("fixed", "dense"), ("unit", "dense"), ("weight", "dense"), ("unit", "residual")]
)
def test_a_packed_network_is_the_same_network(prior, block):
    net = network(prior=prior, block=block)
    packed = net.pack()
    assert len(jax.tree.leaves(packed)) == 4  # a layer, a head; the stacks of the others
    assert packed.capacity == net.capacity
    back = packed.unpack()
    assert jax.tree.structure(back) == jax.tree.structure(net)
    for one, other in zip(jax.tree.leaves(back), jax.tree.leaves(net), strict=True):
        np.testing.assert_array_equal(one, other)
    for noise in ("local", "weights"):
        for one, other in zip(depths(packed, 3, noise), depths(net, 3, noise), strict=True):
            np.testing.assert_array_equal(one, other)


@of_every_block
def test_a_larger_capacity_changes_no_output_no_draw_and_no_kl(block):
    small, large = network(capacity=4, block=block), network(capacity=16, block=block)
    for noise in ("local", "weights"):
        a = depths(small, 4, noise)
        b = depths(large, 4, noise)
        for one, other in zip(a, b, strict=True):
            np.testing.assert_array_equal(one, other[:5])


@of_every_block
def test_kl_at_a_depth_is_the_sum_over_its_path(block):
    net = network(block=block)
    _, kl = depths(net, 4, "local")
    for depth in range(5):
        blocks = [net.first, *[row(net.deeper, jnp.array(i)) for i in range(depth)]]
        expected = sum(float(block.layer.kl()) for block in blocks) + float(blocks[-1].head.kl())
        assert float(kl[depth]) == pytest.approx(expected, rel=CLOSED_FORM["float32"])


@pytest.mark.parametrize("name", ["width", "capacity", "n_inputs"])
def test_wrong_sizes_get_one_sentence(name):
    arguments = {"n_inputs": 3, "n_outputs": 2, "width": 4, "capacity": 4, "key": KEY, name: 0}
    with pytest.raises(InvalidArgumentError, match=f"`{name}` must be a whole number of at least 1, got 0."):
        UnboundedNetwork(**arguments)


@of_every_block
@pytest.mark.parametrize("noise", ["local", "weights"])
def test_the_reverse_pass_draws_nothing_again(noise, block):
    """What is named `KEPT` is kept: the reverse loop has no hash and no inverse distribution function."""
    net = network(block=block).pack()

    def loss(net):
        outputs, kl = net.depths(X, highest=jnp.array(3), key=NOISE_KEY, draw=noise)
        return jnp.sum(outputs**2) + jnp.sum(kl)

    loops = [eqn for eqn in equations(jax.make_jaxpr(jax.grad(loss))(net).jaxpr) if eqn.primitive.name == "while"]
    forward, reverse = ({inner.primitive.name for inner in equations(loop.params["body_jaxpr"])} for loop in loops)
    assert {"shift_left", "erf_inv", "dot_general"} <= forward
    assert "dot_general" in reverse
    assert not {"shift_left", "erf_inv"} & reverse
