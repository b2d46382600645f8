"""Pruning: a network with units that do nothing, and what must be left of it."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from leadline import (
    CategoricalLikelihood,
    FixedDepth,
    HeteroscedasticLikelihood,
    InvalidArgumentError,
    Model,
    NormalDepth,
    UnboundedNetwork,
    effective_width,
    evaluate_free_energy,
    init_models,
    predict,
    prune,
)
from leadline.backend.numerics import softplus_inverse
from tests.network.test_residual import plain_network as plain_residual
from tests.network.test_unbounded import plain_network, without_noise
from tests.tolerances import CLOSED_FORM, MANY_SUMS

WIDTH, CAPACITY = 6, 4
KEYS = jax.random.split(jax.random.key(5), 2)
X = np.random.default_rng(0).normal(size=(50, 3))
Y = np.arange(50) % 2
# q(L) on the depths 1 .. 3 of 4 that are stored.
POSTERIOR = NormalDepth(2.4, 0.5, 0.025, 0.975)
# The units that work, layer by layer: not the same places, not the same number.
USED = [[0, 2, 5], [1, 3], [0, 1, 4], [2, 3, 5], [0, 1, 2, 3, 4, 5]]


def dull(layer, inputs, n_in):
    """Weights from all but the given inputs: mean nearly 0, and a noise of 1e-4 that nothing notices."""
    out = jnp.array([i not in inputs for i in range(n_in)])
    mean = jnp.where(out, 1e-6, layer.weight_mean)
    raw = jnp.where(out, softplus_inverse(jnp.array(1e-4)), layer.weight_raw)
    return eqx.tree_at(lambda m: (m.weight_mean, m.weight_raw), layer, (mean, raw))


@pytest.fixture(scope="module")
def models():
    """Two restarts, with a prior per unit so that all of a layer's arrays must be cut."""

    def one(key):
        network = UnboundedNetwork(3, 2, width=WIDTH, capacity=CAPACITY, initial_scale=0.02, prior="unit", key=key)
        network = eqx.tree_at(lambda n: n.first.head, network, dull(network.first.head, USED[0], WIDTH))
        for name, levels in (("layer", USED[:-1]), ("head", USED[1:])):
            stack = getattr(network.deeper, name)
            rows = [dull(jax.tree.map(lambda a, i=i: a[i], stack), used, WIDTH) for i, used in enumerate(levels)]
            stacked = jax.tree.map(lambda *a: jnp.stack(a), *rows)
            network = eqx.tree_at(lambda n, name=name: getattr(n.deeper, name), network, stacked)
        return Model(network, CategoricalLikelihood(2), POSTERIOR, NormalDepth(0.0, 1.15))

    return jax.tree.map(lambda *a: jnp.stack(a), *[one(key) for key in KEYS])


def one_run(models, i=0):
    return jax.tree.map(lambda a: a[i], models)


def test_effective_width_counts_the_units_that_work(models):
    for run in range(2):
        assert effective_width(one_run(models, run)) == [3, 2, 3, 3]


# Residual blocks: one state goes through all layers, so that a unit is one of all of them.


@pytest.fixture(scope="module")
def residual():
    """Two restarts whose states have three units that work; a fourth is written and read at depth 2 alone. What comes
    into the others is next to nothing."""

    def quiet(layer, units, n_out):
        """Next to nothing into the others."""
        out = jnp.array([i not in units for i in range(n_out)])
        means = jnp.where(out[:, None], 1e-6, layer.weight_mean), jnp.where(out, 1e-6, layer.bias_mean)
        raws = [
            jnp.where(where, softplus_inverse(jnp.array(1e-4)), raw)
            for where, raw in ((out[:, None], layer.weight_raw), (out, layer.bias_raw))
        ]
        return eqx.tree_at(lambda m: (m.weight_mean, m.bias_mean, m.weight_raw, m.bias_raw), layer, (*means, *raws))

    def one(key):
        given = {"block": "residual", "width": WIDTH, "capacity": CAPACITY, "initial_scale": 0.01, "key": key}
        network = UnboundedNetwork(3, 2, prior="unit", **given)
        network = eqx.tree_at(lambda n: n.first.layer, network, quiet(network.first.layer, [0, 2, 5], WIDTH))
        kept = [[0, 2, 3, 5] if i == 1 else [0, 2, 5] for i in range(CAPACITY)]
        rows = [quiet(jax.tree.map(lambda a, i=i: a[i], network.deeper.layer), kept[i], WIDTH) for i in range(CAPACITY)]
        stacked = jax.tree.map(lambda *a: jnp.stack(a), *rows)
        network = eqx.tree_at(lambda n: n.deeper.layer, network, stacked)
        return Model(network, CategoricalLikelihood(2), POSTERIOR, NormalDepth(0.0, 1.15))

    return jax.tree.map(lambda *a: jnp.stack(a), *[one(key) for key in KEYS])


def test_effective_width_of_a_state_counts_what_was_written_and_is_read_yet(residual):
    for run in range(2):
        assert effective_width(one_run(residual, run)) == [3, 3, 4, 4]


def test_a_state_loses_the_same_units_in_all_layers(residual):
    small = prune(residual, X, Y, tolerance=0.003, key=KEYS)
    assert (small.width, small.depth) == (4, 3)
    assert small.difference < 0.003
    for depth in range(4):
        large, less = (without_noise(one_run(m).network) for m in (residual, small.model))
        before, after = (plain_residual(net, depth, X, n_units=WIDTH) for net in (large, less))
        np.testing.assert_allclose(after, before, rtol=MANY_SUMS, atol=1e-4)


@pytest.mark.usefixtures("as_users_have_it")
def test_a_batch_of_runs_has_no_single_width(models):
    with pytest.raises(InvalidArgumentError, match="`model` must be one run's model, got a batch of runs"):
        effective_width(models)


def test_what_does_nothing_is_gone_and_predictions_stay(models):
    small = prune(models, X, Y, tolerance=0.003, key=KEYS)
    assert (small.width, small.depth) == (3, 3)
    assert (small.model.network.width, small.model.capacity) == (3, 3)
    assert 0 < small.difference < 0.003
    # Without noise the smaller network is the larger one, at every depth.
    for depth in range(4):
        large, less = (without_noise(one_run(m).network) for m in (models, small.model))
        np.testing.assert_allclose(
            plain_network(less, depth, X), plain_network(large, depth, X), rtol=MANY_SUMS, atol=1e-4
        )
    before, after = (evaluate_free_energy(m, X, Y, key=KEYS) for m in (models, small.model))
    change = float(jnp.mean(after.expected_nll + after.weight_kl - before.expected_nll - before.weight_kl))
    assert small.free_energy_change == pytest.approx(change, rel=CLOSED_FORM["float32"])
    assert change < 0  # the dull weights' KL is saved


def test_a_tolerance_decides(models):
    """Where more may change, fewer units stay; where nothing may, all that matter do."""
    widths = [prune(models, X, Y, tolerance=t, n_samples=20, key=KEYS).width for t in (1e-9, 1.0)]
    assert widths[0] > 3
    assert widths[1] == 1


def test_the_most_probable_depth_can_be_all_that_is_left(models):
    small = prune(models, X, Y, tolerance=0.003, most_probable_depth=True, key=KEYS)
    assert isinstance(small.model.depth_posterior, FixedDepth)
    assert small.model.depth_posterior.depth.tolist() == [2, 2]
    assert (small.width, small.depth) == (3, 2)
    network = without_noise(one_run(small.model).network)
    quiet = eqx.tree_at(lambda m: m.network, one_run(small.model), network)
    logits = plain_network(one_run(models).network, 2, X)
    expected = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
    got = predict(jax.tree.map(lambda a: a[None], quiet), X, n_samples=1, key=KEYS[:1])[0]
    np.testing.assert_allclose(got, expected, rtol=1e-3, atol=1e-4)


@pytest.mark.usefixtures("as_users_have_it")
def test_a_tolerance_must_be_positive(models):
    with pytest.raises(InvalidArgumentError, match="`tolerance` must be positive and finite, got 0"):
        prune(models, X, Y, tolerance=0, key=KEYS)


def test_the_difference_of_two_predictions_of_numbers_is_in_deviations_and_sees_both_moments():
    """Mean 1 and deviation 2, against a mean of 1.5, and against a deviation of 3."""
    models = init_models(
        2, HeteroscedasticLikelihood(1, scale=0.1), width=4, key=jax.random.split(jax.random.key(0), 1)
    )
    moments = lambda mean, deviation: np.array([[[mean], [mean**2 + deviation**2]]])  # noqa: E731
    change, spread = models.likelihood.change, np.ones(1)
    assert change(moments(1.0, 2.0), moments(1.5, 2.0), spread) == pytest.approx(0.25)
    assert change(moments(1.0, 2.0), moments(1.0, 3.0), spread) == pytest.approx(0.5)
    assert change(moments(1.0, 2.0), moments(1.0, 2.0), spread) == 0
    assert change(moments(1.0, 2.0), moments(1.5, 2.0), 2 * spread) == pytest.approx(0.125)
    assert change(moments(1.0, 2.0), moments(1.0, 3.0), 2 * spread) == pytest.approx(0.5)
