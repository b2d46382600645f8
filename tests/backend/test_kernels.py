"""The kernels for a GPU, interpreted here, against the loops that a CPU runs."""

import dataclasses
import logging
from contextlib import ExitStack
from functools import partial
from types import SimpleNamespace

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from leadline import (
    RECIPES,
    CategoricalLikelihood,
    NormalDepth,
    PoissonDepth,
    UnboundedNetwork,
    init_models,
)
from leadline.backend import kernels
from leadline.backend.device import Backend, backend, pretending
from leadline.datasets import spiral_parts
from leadline.training import optimiser
from leadline.training.epochs import train_step
from leadline.training.state import init_state
from leadline.training.storage import first_capacity
from tests.jaxprs import equations
from tests.tolerances import CLOSED_FORM, GRADIENT, TRAJECTORY
from tests.training_of import train_on

GPU = Backend("gpu", has_kernels=True, interprets_kernels=True)


@pytest.fixture
def like_a_gpu():
    """Call it to have the kernels take over from the loops."""
    with ExitStack() as stack:
        yield lambda gpu=GPU: stack.enter_context(pretending(gpu))


# Inputs, outputs, width and rows: powers of two that fill the tiles, sizes that neither are nor do, many inputs.
SIZES = {"even": (2, 2, 16, 64), "odd": (3, 5, 7, 70), "inputs": (18, 2, 5, 20)}


@pytest.mark.parametrize(
    ("size", "noise"),
    [
        pytest.param("even", "local", marks=pytest.mark.slow),
        ("odd", "weights"),
        ("inputs", "local"),
        pytest.param("even", "weights", marks=pytest.mark.slow),
        pytest.param("odd", "local", marks=pytest.mark.slow),
        pytest.param("inputs", "weights", marks=pytest.mark.slow),
    ],
)
def test_the_walk_is_the_loop(size, noise, like_a_gpu):
    """Outputs, KL and gradients of two networks that go to other depths, by all weights and by the data."""
    n_inputs, n_outputs, width, n_rows = SIZES[size]
    keys = jax.random.split(jax.random.key(1), 2)
    x = jax.random.normal(jax.random.key(2), (2, n_rows, n_inputs))
    highest = jnp.array([0, 2])
    build = partial(UnboundedNetwork, n_inputs, n_outputs, width=width, capacity=3, initial_scale=0.4)
    networks = jax.vmap(lambda key: build(key=key).pack())(keys)

    def values(network, x, key, highest):
        return network.depths(x, highest=highest, key=key, draw=noise)

    def loss(network, x, key, highest):
        outputs, kl = values(network, x, key, highest)
        return jnp.sum(jnp.sin(jnp.arange(outputs.size)).reshape(outputs.shape) * outputs) + 0.01 * jnp.sum(kl**2)

    both = lambda *args: (jax.vmap(values)(*args), jax.vmap(jax.grad(loss, (0, 1)))(*args))  # noqa: E731
    expected, expected_gradients = jax.jit(both)(networks, x, keys, highest)
    like_a_gpu()
    program = jax.jit(lambda *args: both(*args)).trace(networks, x, keys, highest)
    assert {"walk_forward", "walk_reverse"} <= {
        eqn.params["jaxpr"].debug_info.func_name
        for eqn in equations(program.jaxpr)
        if eqn.primitive.name == "pallas_call"
    }
    got, gradients = program.lower().compile()(networks, x, keys, highest)
    for a, b in zip(jax.tree.leaves(got), jax.tree.leaves(expected), strict=True):
        np.testing.assert_allclose(a, b, rtol=CLOSED_FORM["float32"], atol=CLOSED_FORM["float32"] * np.abs(b).max())
        assert np.all(np.asarray(a)[0, 1:] == 0)  # the first network has no hidden layer in use
        assert np.all(np.asarray(a)[1, 3:] == 0)
    for a, b in zip(jax.tree.leaves(gradients), jax.tree.leaves(expected_gradients), strict=True):
        np.testing.assert_allclose(a, b, rtol=GRADIENT, atol=GRADIENT * np.abs(b).max())


def test_rows_are_updated_in_place_and_only_the_active_ones():
    """Two runs, three rows of more than one block; Adam against Optax."""
    n = kernels.BLOCK + 37
    rng = np.random.default_rng(0)
    gradient, mu, nu, params = jnp.asarray(rng.normal(size=(4, 2, 3, n)), jnp.float32)
    state = optax.ScaleByAdamState(jnp.array([[4, 0, 9]] * 2), mu, nu**2)
    active = jnp.array([[True, False, True], [False, True, False]])
    step = jax.jit(jax.vmap(optimiser._step_rows, (None, 0, 0, 0, 0)))
    new, new_state = step(jnp.array(0.01), active, gradient, state, params)
    expected, expected_state = jax.vmap(jax.vmap(partial(optimiser._step, optimiser.ADAM, 0.01)))(
        gradient, state, params
    )
    for got, stepped, old in (
        (new, expected, params),
        (new_state.mu, expected_state.mu, state.mu),
        (new_state.nu, expected_state.nu, state.nu),
        (new_state.count, expected_state.count, state.count),
    ):
        np.testing.assert_allclose(got[active], stepped[active], rtol=CLOSED_FORM["float32"], atol=1e-7)
        np.testing.assert_array_equal(got[~active], old[~active])


@pytest.mark.parametrize("noise", ["local", "weights"])
def test_they_can_be_compiled_for_a_gpu(noise, like_a_gpu):
    """As far as Triton's language, which needs no GPU."""
    like_a_gpu(Backend("gpu", has_kernels=True))
    network = UnboundedNetwork(2, 3, width=8, capacity=2, key=jax.random.key(0)).pack()
    x, key = jnp.zeros((5, 2)), jax.random.key(1)

    def loss(network, highest):
        return jnp.sum(network.depths(x, highest=highest, key=key, draw=noise)[0])

    def step(network, highest):
        gradient = jax.grad(loss)(network, highest).deeper.layer
        state = jax.vmap(optimiser.ADAM.init)(gradient)
        return optimiser._step_rows(0.1, jnp.array([True, False]), gradient, state, network.deeper.layer)

    lowered = jax.jit(step).trace(network, jnp.array(1)).lower(lowering_platforms=("cuda",)).as_text()
    for name in ("walk_forward", "walk_reverse", "sum_of_tiles", "update_in_place"):
        assert name in lowered


@pytest.mark.parametrize("recipe", [pytest.param("published", marks=pytest.mark.slow), "written"])
def test_training_is_the_same(recipe, like_a_gpu, caplog):
    """Twelve steps of two runs whose depths outgrow the capacity within an epoch; one program for each capacity."""
    recipe = dataclasses.replace(
        RECIPES[recipe],
        name="diving",
        temperature=0.01 * RECIPES[recipe].temperature,
        depth_learning_rate=0.3,
        initial_scale=0.05,
    )
    depth = (PoissonDepth(500.0), PoissonDepth(10.0, 0.95))
    parts = spiral_parts(3, 1, n=96)
    settings = {"recipe": recipe, "depth": depth, "epochs": 4, "n_restarts": 1, "width": 4, "batch_size": 32}
    run = lambda: train_on(parts["train"], parts["validation"], CategoricalLikelihood(2), **settings, seeds=[1, 2])  # noqa: E731
    expected = run()
    jax.clear_caches()
    like_a_gpu()
    with caplog.at_level(logging.WARNING), jax.log_compiles():
        got = run()
    assert got.model.capacity == expected.model.capacity == 32
    assert sum("Finished XLA compilation" in r and "train_epochs" in r for r in caplog.messages) == 2
    for name, column in expected.history.items():
        np.testing.assert_allclose(got.history[name], column, rtol=TRAJECTORY, atol=TRAJECTORY)
    for a, b in zip(*(jax.tree.leaves(training.model) for training in (got, expected)), strict=True):
        np.testing.assert_allclose(a, b, rtol=TRAJECTORY, atol=TRAJECTORY)


def test_more_depth_than_is_stored_is_never_walked(like_a_gpu):
    """A step that is not taken, because q(L) has outgrown the capacity, must not write beyond its arrays."""
    like_a_gpu()
    network = UnboundedNetwork(2, 2, width=4, capacity=2, key=jax.random.key(0)).pack()
    x, key = jax.random.normal(jax.random.key(1), (5, 2)), jax.random.key(2)
    depths = jax.jit(lambda highest: network.depths(x, highest=highest, key=key, draw="local"))
    for a, b in zip(depths(5), depths(2), strict=True):
        np.testing.assert_array_equal(a, b)
    program = str(jax.make_jaxpr(lambda highest: network.depths(x, highest=highest, key=key, draw="local"))(5))
    assert program.index("min ") < program.index("pallas_call")


@pytest.mark.parametrize("gpu", [False, True])
def test_a_step_that_is_not_taken_changes_nothing(gpu, like_a_gpu):
    """`go` false: parameters, moments and counts keep their bits."""
    if gpu:
        like_a_gpu()
    keys = jnp.stack([jax.random.key(0)])
    recipe = RECIPES["leadline"]
    depth = (NormalDepth(0.0, 1.15), NormalDepth(1.0, 1.0, 0.025, 0.975))
    models = init_models(2, CategoricalLikelihood(2), depth=depth, recipe=recipe, width=4, capacity=4, key=keys)
    state = init_state(models, keys, jnp.ones(1))
    x = jax.random.normal(keys[0], (1, 8, 2))
    arguments = (x, (x[..., 0] > 0).astype(jnp.int32), jnp.ones((1, 8)), jnp.full(1, 30.0), keys, jnp.array(0.3))
    rates = (jnp.array(0.005), jnp.array(0.002))
    step = jax.jit(lambda s, go: train_step(s, *arguments, rates, recipe.compiled(), go))
    moved, still = (step(state, jnp.array(go)) for go in (True, False))
    for a, b in zip(*(jax.tree.leaves((s.model, s.optimiser)) for s in (still, state)), strict=True):
        np.testing.assert_array_equal(a, b)
    assert any(np.any(a != c) for a, c in zip(*(jax.tree.leaves(s.model) for s in (still, moved)), strict=True))


def test_large_networks_and_double_precision_are_left_to_xla(like_a_gpu):
    assert not backend().kernels_fit(2, 8, 2)  # no GPU
    like_a_gpu()
    assert GPU.kernels_fit(2, 64, 2)
    assert not GPU.kernels_fit(2, 65, 2)
    assert not GPU.kernels_fit(65, 8, 2)
    assert (first_capacity(2, 64, 2), first_capacity(2, 65, 2)) == (16, 8)
    with jax.enable_x64(True):
        assert not GPU.kernels_fit(2, 8, 2)


def test_they_can_be_turned_off(monkeypatch):
    """On a card that they are written for; an older one, and one of another maker, never have them."""
    card = SimpleNamespace(compute_capability="9.0")
    monkeypatch.setattr(jax, "default_backend", lambda: "gpu")
    monkeypatch.setattr(jax, "devices", lambda *_: [card])
    assert backend().has_kernels
    monkeypatch.setenv("LEADLINE_KERNELS", "0")
    assert not backend().has_kernels
    monkeypatch.delenv("LEADLINE_KERNELS")
    for capability in ("7.5", "gfx942"):
        card.compute_capability = capability
        assert not backend().has_kernels
