"""More layers for a training loop of one's own."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from leadline import (
    CategoricalLikelihood,
    FixedDepth,
    InvalidArgumentError,
    Model,
    NormalDepth,
    free_energy,
    grow,
    run_model,
)
from leadline.backend.compilation import jit_lightly
from leadline.network.unbounded import UnboundedNetwork
from leadline.training.drawing import _init_models_quickly as init_models
from tests.tolerances import CLOSED_FORM

CLASSES = CategoricalLikelihood(2)
X = np.random.default_rng(0).normal(size=(8, 3)).astype(np.float32)
Y = (X[:, 0] > 0).astype(np.int32)
KEYS = jax.random.split(jax.random.key(0), 2)
DEEP = (FixedDepth(5), FixedDepth(5))


def untrained(depth, capacity):
    return init_models(3, CLASSES, depth=depth, width=4, capacity=capacity, key=KEYS)


def assert_same(a, b, **tolerance):
    assert jax.tree.structure(a) == jax.tree.structure(b)
    for one, other in zip(jax.tree.leaves(a), jax.tree.leaves(b), strict=True):
        np.testing.assert_allclose(one, other, **tolerance)


def stored(models, n):
    return jax.tree.map(lambda a: a[:, :n], models.network.deeper)


def test_new_layers_are_those_that_a_larger_capacity_would_have_had():
    """Also where what is stored has been trained meanwhile, which stays as it is."""
    small, large = (untrained(DEEP, capacity) for capacity in (2, 8))
    moved = eqx.tree_at(lambda m: m.network.deeper.layer.bias_mean, small, replace_fn=lambda a: a + 1)
    grown = grow(moved, key=KEYS)
    assert_same(stored(grown, 2), stored(moved, 2), rtol=0)
    expected = eqx.tree_at(lambda m: m.network.deeper.layer.bias_mean, large, replace_fn=lambda a: a.at[:, :2].add(1))
    rounding = CLOSED_FORM["float32"]  # of other programs
    assert_same(grown, expected, rtol=rounding, atol=rounding)


def test_one_run_grows_as_it_does_beside_others():
    small = untrained(DEEP, 2)
    rounding = CLOSED_FORM["float32"]
    assert_same(
        grow(run_model(small, 1), key=KEYS[1]), run_model(grow(small, key=KEYS), 1), rtol=rounding, atol=rounding
    )


def test_what_fits_stays_and_more_can_be_asked_for():
    models = untrained(DEEP, 8)
    assert grow(models, key=KEYS) is models
    assert grow(models, key=KEYS, capacity=9).capacity == 16


@pytest.mark.usefixtures("as_users_have_it")
def test_what_cannot_grow_is_one_sentence():
    models = untrained(DEEP, 2)
    for wrong in (KEYS[0], KEYS[:1]):
        with pytest.raises(InvalidArgumentError, match=r"`key` must be one for each of the runs \(2,\), .* got shape"):
            grow(models, key=wrong)
    with pytest.raises(InvalidArgumentError, match="`weights` must be those that the network was drawn with"):
        grow(models, key=KEYS, recipe="written")  # whose priors are fixed
    with pytest.raises(InvalidArgumentError, match="`models` must be numbers: call `grow` between compiled steps"):
        eqx.filter_jit(grow)(models, key=KEYS)
    endless = eqx.tree_at(lambda m: m.depth_posterior, run_model(models, 0), NormalDepth())
    with pytest.raises(InvalidArgumentError, match=r"`models` must have a q\(L\) that ends"):
        grow(endless, key=KEYS[0])


# The free energy beyond the stored layers


def beyond(depth):
    network = UnboundedNetwork(3, 2, width=4, capacity=2, initial_scale=0.1, key=KEYS[0])
    return Model(network, CLASSES, depth, NormalDepth())


@jit_lightly
def compiled(model):
    def total(model):
        return free_energy(model, X, Y, key=KEYS[0]).total

    return eqx.filter_value_and_grad(total)(model)


@pytest.mark.parametrize(
    "depth",
    [NormalDepth(2.5, 0.5, 0.025, 0.975), NormalDepth(300.0, 1.0, 0.025, 0.975)],
    ids=["in part", "beyond what is looked at"],
)
def test_it_is_nan_when_compiled_and_an_error_when_not(depth):
    value, slope = compiled(beyond(depth))
    assert np.isnan(value)
    with pytest.raises(InvalidArgumentError, match=r"`leadline\.grow` stores more"):
        free_energy(beyond(depth), X, Y, key=KEYS[0])
    if float(depth.mean()) < 3:  # a loop that does not look at the value cannot go on from there
        assert np.isnan(slope.network.first.layer.weight_mean).all()
        assert np.isnan([slope.depth_posterior.loc, slope.depth_posterior.raw_scale]).all()


@pytest.mark.slow
def test_it_is_a_number_again_once_the_model_has_grown():
    depth = NormalDepth(2.5, 0.5, 0.025, 0.975)
    weights = {"initial_scale": 0.1}
    model = beyond(depth)
    grown = eqx.tree_at(lambda m: m.network, model, model.network.grow(4, key=KEYS[0], **weights))
    whole = UnboundedNetwork(3, 2, width=4, capacity=4, key=KEYS[0], **weights)
    value, slope = compiled(grown)
    expected, _ = compiled(eqx.tree_at(lambda m: m.network, model, whole))
    assert float(value) == float(expected)
    assert np.isfinite(jnp.concatenate([a.ravel() for a in jax.tree.leaves(slope)])).all()


def test_going_less_deep_than_asked_for_leaves_nothing_out_in_silence():
    within = beyond(FixedDepth(2))
    down_to = jit_lightly(lambda highest: free_energy(within, X, Y, key=KEYS[0], highest=highest).total)
    assert np.isnan(down_to(jnp.array(1)))
    assert np.isfinite(down_to(jnp.array(2)))
    with pytest.raises(InvalidArgumentError, match="`highest` must be at least 2, the deepest with mass, got 1"):
        free_energy(within, X, Y, key=KEYS[0], highest=1)
