"""Whole epochs by the engine and by the compiled program: the same draws, so number by number."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import leadline.training.loop as loop
from leadline import RECIPES, CategoricalDepth, CategoricalLikelihood, NormalDepth, Problem, Settings, Watch, train
from leadline.backend.device import Backend, n_threads, pretending
from leadline.likelihoods import EitherNoiseLikelihood, GaussianLikelihood, HeteroscedasticLikelihood
from leadline.training import epochs, native

XLA = Backend("cpu")


class Begun(Exception):  # noqa: N818
    """What a training would begin with."""


def beginning(monkeypatch, problem, settings):
    """The plan and the state of a training before its first step."""

    def stop(plan, state, n_epochs):
        raise Begun(plan, state)

    with monkeypatch.context() as patched:
        patched.setattr(loop, "train_epochs", stop)
        patched.setattr(loop, "train_epochs_lightly", stop)
        with pretending(XLA), pytest.raises(Begun) as begun:
            train(problem, settings)
    return begun.value.args


def problem_of(likelihood, n_rows=90):
    rng = np.random.default_rng(0)
    x = rng.normal(size=(n_rows, 3))
    y = (
        rng.integers(2, size=n_rows)
        if likelihood.kind == "classes"
        else rng.normal(size=(n_rows, likelihood.n_targets))
    )
    weight = rng.uniform(0.5, 2.0, size=n_rows)
    return Problem((x, y), 0.2, likelihood, weight)


def recipe(name, **changes):
    return dataclasses.replace(RECIPES[name], initial_scale=0.1, n_restarts=2, batch_size=32, **changes)


WIDE = (NormalDepth(), NormalDepth(2.5, 1.0, 0.025, 0.975))
FLAT = (CategoricalDepth(3), CategoricalDepth(3))
CASES = {
    "classes, per unit": (CategoricalLikelihood(2), "normal", recipe("leadline", warm_up=0.2)),
    "published": (CategoricalLikelihood(2), "poisson", recipe("published")),
    "written": (CategoricalLikelihood(2), FLAT, recipe("written")),
    "numbers, per weight, one depth": (GaussianLikelihood(2), 2, recipe("leadline", prior="weight", warm_up=0.1)),
    "noise by input, the best": (HeteroscedasticLikelihood(2), WIDE, recipe("written")),
    "either noise, of two kinds": (
        EitherNoiseLikelihood(1),
        "normal",
        recipe("table", kinds=((1.0, 0.5), (0.5, 1.5, "constant")), warm_up=0.1),
    ),
    "noise by input": (HeteroscedasticLikelihood(1), WIDE, recipe("leadline", warm_up=0.1)),
}


SLOW = ("written", "numbers, per weight, one depth", "noise by input, the best")


@pytest.mark.parametrize("case", [pytest.param(case, marks=[pytest.mark.slow] * (case in SLOW)) for case in CASES])
def test_three_epochs_are_those_of_the_compiled_program(monkeypatch, case):
    likelihood, depth, how = CASES[case]
    given = Settings(recipe=how, depth=depth, width=5, epochs=8)
    plan, state = beginning(monkeypatch, problem_of(likelihood), given)
    assert native.suits(state.model, plan.recipe)
    with pretending(XLA):
        theirs, their_history = epochs.train_epochs_lightly(plan, jax.tree.map(jnp.copy, state), jnp.array(3))
    ours, history = native.train_epochs(plan, state, 3)
    assert int(ours.epoch) == 3
    places = jax.tree_util.tree_leaves_with_path(theirs)
    for (place, expected), got in zip(places, jax.tree.leaves(ours), strict=True):
        if jnp.issubdtype(expected.dtype, jax.dtypes.prng_key):
            continue
        expected = np.asarray(expected)
        # Adam divides by the size of a gradient: one that is nearly zero has a direction of no digits.
        largest = np.abs(expected[np.isfinite(expected)]).max(initial=0)
        np.testing.assert_allclose(
            got, expected, rtol=2e-3, atol=2e-3 * largest + 1e-6, err_msg=jax.tree_util.keystr(place)
        )
    for name in vars(history):
        expected = np.asarray(getattr(their_history, name))[:3]
        np.testing.assert_allclose(getattr(history, name), expected, rtol=2e-3, atol=1e-4, err_msg=name)


def test_it_leaves_the_state_that_it_was_given_as_it_was(monkeypatch):
    """A way back and the second pass where q(L) outgrows its layers begin from it."""
    likelihood, depth, how = CASES["noise by input, the best"]
    plan, begun = beginning(monkeypatch, problem_of(likelihood), Settings(recipe=how, depth=depth, width=5, epochs=40))
    state, _ = native.train_epochs(plan, begun, 2)
    leaves = [np.array(leaf) for leaf in jax.tree.leaves((state.model, state.best, state.optimiser))]
    later, _ = native.train_epochs(plan, state, 2)
    for before, after in zip(leaves, jax.tree.leaves((state.model, state.best, state.optimiser)), strict=True):
        np.testing.assert_array_equal(after, before)
    assert np.all(later.model.likelihood.opening > state.model.likelihood.opening)


def deepening(n_restarts=3):
    """A training whose q(L) outgrows the eight layers that are stored at first."""
    rng = np.random.default_rng(1)
    x = rng.normal(size=(60, 2))
    start = (NormalDepth(12.0, 1.0), NormalDepth(6.2, 0.5, 0.025, 0.975))
    how = dataclasses.replace(RECIPES["leadline"], depth_learning_rate=0.05, n_restarts=n_restarts)
    return Problem((x, (x[:, 0] > 0).astype(int)), 0.2, CategoricalLikelihood(2)), Settings(
        recipe=how, depth=start, epochs=120, width=4
    )


def test_bits_depend_on_no_thread_and_no_call(monkeypatch):
    problem, given = deepening()

    def digest():
        trained = train(problem, given)
        assert trained.model.capacity > 8
        return b"".join(np.asarray(leaf).tobytes() for leaf in jax.tree.leaves(trained.model))

    first = digest()
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    assert n_threads() == 1
    monkeypatch.setattr("leadline.training.run._next_call", lambda n_epochs, seconds: 7)
    assert digest() == first


def test_a_run_is_the_same_beside_others():
    """Where one run outgrows the layers in the middle of an epoch, the others wait for it there."""
    problem, given = deepening(n_restarts=3)
    alone = train(problem, dataclasses.replace(given, n_restarts=1))
    beside = train(problem, given)
    for a, b in zip(jax.tree.leaves(alone.model), jax.tree.leaves(beside.model), strict=True):
        a, b = np.asarray(a)[0], np.asarray(b)[0]
        np.testing.assert_array_equal(a, b[: len(a)] if a.ndim else b)  # those that went deeper store more layers


def test_it_compiles_nothing():
    """Tables of other sizes need no program of their own; there is none."""
    counted = []
    jax.monitoring.register_event_duration_secs_listener(
        lambda name, *_, **__: counted.append(name) if name.endswith("backend_compile_duration") else None
    )
    ways = (
        *((CategoricalLikelihood(2), 90, "normal", 0.15), (CategoricalLikelihood(2), 70, "categorical", "auto")),
        *((GaussianLikelihood(1), 50, "poisson", 1.0), (HeteroscedasticLikelihood(1), 60, 2, 0.4)),
        (HeteroscedasticLikelihood(2), 60, "normal", 0.4),
    )
    for likelihood, n_rows, depth, temperature in ways:
        given = Settings(epochs=5, n_restarts=2, depth=depth, temperature=temperature)
        trained = train(problem_of(likelihood, n_rows), given, watch=Watch())
        trained.restarts().moments(np.zeros((4, 3)))
        trained.restarts().uncertainty(np.zeros((4, 3)))
    assert counted == []
