"""Training: growth, streams, selection, compilation, interruption."""

import dataclasses
import logging
import signal
from functools import partial

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from leadline import (
    RECIPES,
    CategoricalDepth,
    CategoricalLikelihood,
    DepthDistribution,
    FixedDepth,
    GaussianLikelihood,
    HeteroscedasticLikelihood,
    InvalidArgumentError,
    NormalDepth,
    PoissonDepth,
    Problem,
    Settings,
    TrainingDivergedError,
    init_models,
    predict,
    train,
    uncertainty,
)
from leadline.backend.device import Backend, pretending
from leadline.datasets import spiral_parts
from leadline.depth import FAMILIES
from leadline.inference.recipes import TEMPERATURES
from leadline.training import drawing, loop
from leadline.training import run as calls
from leadline.training.data import check_tables, make_data, make_part
from leadline.training.epochs import Plan, train_epochs, train_epochs_lightly
from leadline.training.pace import Clock
from leadline.training.run import TrainingSlowedWarning
from leadline.training.state import grow, init_state, shelve
from leadline.training.storage import Storage
from tests.tolerances import CLOSED_FORM, MANY_SUMS, TRAJECTORY
from tests.training_of import train_on

LIKELIHOOD = CategoricalLikelihood(2)
KEYS = jnp.stack([jax.random.key(seed) for seed in (3, 4)])
PARTS = spiral_parts(5, seed=0, n=96)
# A prior far down and a fast q(L): the depth grows by layers within a few epochs.
DIVING = (PoissonDepth(500.0), PoissonDepth(3.0, 0.95))
DIVING_RECIPE = dataclasses.replace(
    RECIPES["written"], temperature=0.0, learning_rate=0.0005, depth_learning_rate=0.1, initial_scale=0.05
)

DATA = {"data": PARTS["train"], "validation": PARTS["validation"], "likelihood": LIKELIHOOD}
small_train = partial(train_on, **DATA, recipe="written", width=4, batch_size=32)


def assert_same_bits(a, b):
    for one, other in zip(jax.tree.leaves(a), jax.tree.leaves(b), strict=True):
        if jnp.issubdtype(one.dtype, jax.dtypes.prng_key):
            one, other = jax.random.key_data(one), jax.random.key_data(other)
        np.testing.assert_array_equal(one, other)


def make_task(recipe, n_runs, epochs):
    """So many epochs on PARTS, validated after each."""
    tables = [check_tables(name, *PARTS[name], LIKELIHOOD) for name in ("train", "validation")]
    n, m = (x.shape[1] for x, _, _ in tables)
    return Plan(
        data=make_data("data", *tables),
        table=jnp.zeros(n_runs, jnp.int32),
        train=make_part(np.tile(np.arange(n), (n_runs, 1)), n),
        validation=make_part(np.tile(n + np.arange(m), (n_runs, 1)), m),
        clock=jax.tree.map(lambda a: jnp.broadcast_to(a, n_runs), Clock(0, epochs, epochs)),
        validate_every=jnp.array(1),
        learning_rate=jnp.array(recipe.learning_rate),
        depth_learning_rate=jnp.array(recipe.depth_learning_rate),
        recipe=recipe.compiled(),
        batch_size=32,
    )


def start(recipe, depth, capacity):
    models = init_models(2, LIKELIHOOD, depth=depth, recipe=recipe, width=4, capacity=capacity, key=KEYS)
    return init_state(models, KEYS, jnp.array([0.5, 1.0]))


@pytest.mark.parametrize(
    ("recipe", "depth"), [pytest.param("written", "normal", marks=pytest.mark.slow), ("published", "poisson")]
)
def test_training_after_growth_equals_training_without_it_to_the_bit(recipe, depth):
    recipe = RECIPES[recipe]
    fixed = make_task(recipe, 2, 10)
    _, fresh = shelve(start(recipe, depth, 16), 8)
    grown = grow(start(recipe, depth, 8), fresh)
    assert grown.capacity == 16
    without, history = train_epochs(fixed, start(recipe, depth, 8), jnp.array(2))
    after, grown_history = train_epochs(fixed, grown, jnp.array(2))

    kept, added = shelve(after, 8)
    assert_same_bits(kept, without)
    assert_same_bits(grown_history, history)
    assert_same_bits(added, fresh)  # layers below the support have not moved
    assert int(without.optimiser.first["layer"].count[0]) == 2 * 3


@pretending(Backend("cpu"))
def test_capacity_follows_the_depth_and_changes_nothing(caplog):
    """A depth that runs away: the capacity doubles twice, with one compilation each, to the bits of a large start."""
    capacities, epochs = [], 60
    with caplog.at_level(logging.WARNING), jax.log_compiles():
        result = small_train(
            depth=DIVING,
            recipe=DIVING_RECIPE,
            epochs=epochs,
            seeds=[3],
            on_call=lambda state: capacities.append(state.capacity),
        )
    compiled = [r for r in caplog.messages if "Finished XLA compilation" in r and "train_epochs" in r]
    assert sorted(set(capacities)) == [8, 16, 32]
    assert len(compiled) == 3
    assert len(capacities) > 3
    assert result.history["depth_support"][-1, 0, 1] > 16

    key = jnp.stack([jax.random.key(3)])
    # Compiled as training compiles it: rounding differs from the same operations one by one.
    draw = drawing._init_models_quickly
    models = draw(2, LIKELIHOOD, depth=DIVING, recipe=DIVING_RECIPE, width=4, capacity=32, key=key)
    state = init_state(models, jax.vmap(lambda key: jax.random.fold_in(key, 1))(key), jnp.zeros(1))
    state, history = train_epochs_lightly(make_task(DIVING_RECIPE, 1, epochs), state, jnp.array(epochs))
    assert_same_bits(result.model, state.best.unpack())
    np.testing.assert_array_equal(result.history["depth_mean"], history.depth_mean[:epochs])


def test_deep_layers_wait_on_the_shelf_when_the_depth_comes_back(monkeypatch):
    monkeypatch.setattr(calls, "SECONDS_PER_CALL", 0.02)  # layers move between calls: have many
    capacities = []
    rising = (PoissonDepth(0.1), PoissonDepth(6.0, 0.95))
    result = small_train(
        depth=rising,
        recipe=DIVING_RECIPE,
        epochs=80,
        seeds=[3],
        on_call=lambda state: capacities.append(state.capacity),
    )
    assert capacities[0] == 16
    assert capacities[-1] == 8
    assert result.model.capacity == 16  # nothing is thrown away


def test_a_model_that_is_the_best_while_layers_are_on_the_shelf_has_them_as_they_are():
    """When a call ends, and so when layers are shelved, must not show."""
    state = start(RECIPES["written"], "normal", 32)
    moved = jax.tree.map(lambda a: a + 1, state.model.network.deeper)
    state = eqx.tree_at(lambda s: s.model.network.deeper, state, moved)
    old = state.best.network.deeper.layer.numbers
    storage = Storage(partial(start, RECIPES["written"], "normal"))
    small = storage.fit(state)
    waiting = slice(small.capacity, 32)
    assert small.capacity < 32
    improved = eqx.tree_at(lambda s: s.best_free_energy, small, jnp.array([1.0, jnp.inf]))
    best = storage.all_of(improved).best.network.deeper.layer.numbers
    np.testing.assert_array_equal(best[0, waiting], old[0, waiting] + 1)
    np.testing.assert_array_equal(best[1, waiting], old[1, waiting])


@pretending(Backend("cpu"))
def test_similar_data_and_other_lengths_do_not_compile_again(caplog):
    recipe = dataclasses.replace(RECIPES["written"], warm_up_power=1.23)  # not compiled by another test
    run = partial(train_on, likelihood=LIKELIHOOD, width=4, batch_size=32, depth="categorical", seeds=[0])
    x, y = PARTS["train"]

    def compilations(n_rows, epochs, **changes):
        caplog.clear()
        changed = dataclasses.replace(recipe, **changes)
        with caplog.at_level(logging.WARNING), jax.log_compiles():
            run(data=(x[:n_rows], y[:n_rows]), validation=PARTS["validation"], epochs=epochs, recipe=changed)
        return sum("Finished XLA compilation" in r and "train_epochs" in r for r in caplog.messages)

    assert compilations(96, 2) == 1
    assert compilations(96, 5) == 0
    assert compilations(91, 3) == 0
    assert compilations(96, 2, learning_rate=0.01, depth_learning_rate=0.01, temperature=0.5, initial_scale=0.1) == 0


class TwoDepths(DepthDistribution):
    """Depths 0 and 1, by the log of their odds."""

    log_odds: jax.Array

    def log_masses(self, n):
        masses = jax.nn.log_sigmoid(jnp.stack([self.log_odds, -self.log_odds]))
        return jnp.concatenate([masses, jnp.full(n - 2, -jnp.inf)])


@pretending(Backend("cpu"))
def test_a_family_of_ones_own_compiles_once_though_its_numbers_are_weakly_typed(caplog):
    depth = TwoDepths(jnp.array(0.0)), TwoDepths(jnp.array(0.3))
    assert depth[0].log_odds.weak_type
    with caplog.at_level(logging.WARNING), jax.log_compiles():
        small_train(depth=depth, epochs=16, seeds=[0])
    assert sum("Finished XLA compilation" in r and "train_epochs" in r for r in caplog.messages) == 1


def test_a_run_does_not_depend_on_its_neighbours():
    """Same data, seeds 1 and 2 together against seed 2 alone: 48 steps, to the rounding of another batch shape."""
    together = small_train(epochs=16, seeds=[1, 2])
    alone = small_train(epochs=16, seeds=[2])
    for name in ("expected_nll", "depth_kl", "weight_kl", "depth_mean"):
        np.testing.assert_allclose(together.history[name][:, 1], alone.history[name][:, 0], rtol=TRAJECTORY)
        assert np.abs(together.history[name][-1, 0] - alone.history[name][-1, 0]) > 0
    np.testing.assert_array_equal(together.history["depth_support"][:, 1], alone.history["depth_support"][:, 0])


def test_restarts_are_other_networks_on_the_same_data():
    """The first is the seed's own run; the second has other weights and other noise."""
    both = small_train(epochs=16, seeds=[1], n_restarts=2)
    alone = small_train(epochs=16, seeds=[1])
    np.testing.assert_allclose(both.history["free_energy"][:, 0], alone.history["free_energy"][:, 0], rtol=TRAJECTORY)
    assert np.all(both.history["free_energy"][:, 1] != both.history["free_energy"][:, 0])
    assert both.model.depth_posterior.loc.shape == (2,)
    assert both.n_restarts == 2


def test_restarts_begin_at_depths_of_their_own():
    """The same for every seed and temperature; of the families, only a normal q(L) has a loc."""
    recipe = dataclasses.replace(
        RECIPES["leadline"], initial_depth=(1.0, 0.5), deepest_start=4.0, depth_learning_rate=0.0
    )
    begun = []

    def first(state):
        begun.append(state.model.unpack())
        return True

    for depth in ("normal", ["normal", "poisson"]):
        small_train(recipe=recipe, depth=depth, temperature="auto", n_restarts=2, epochs=1, seeds=[1, 2], on_call=first)
    all_normal, mixed = (models.depth_posterior for models in begun)
    runs = [1.0, 4.0] * len(TEMPERATURES)
    np.testing.assert_array_equal(all_normal.loc, runs * 2)
    np.testing.assert_array_equal(mixed.families[0].loc[: len(runs)], runs)
    assert not np.asarray(mixed.which)[: len(runs)].any()
    assert np.asarray(mixed.which)[len(runs) :].all()


def test_every_restart_has_a_stream_of_its_own():
    data = [jax.random.key_data(key).tolist() for key in loop.restart_keys(3, 5)]
    assert data[0] == jax.random.key_data(jax.random.key(3)).tolist()
    assert len({tuple(key) for key in data}) == 5


def test_the_best_temperature_is_kept_for_every_seed():
    """Against the same networks trained at one temperature, and against a likelihood computed from `predict`."""
    recipe = dataclasses.replace(RECIPES["written"], initial_scale=0.05)
    auto = small_train(recipe=recipe, temperature="auto", epochs=16, seeds=[1, 2])
    assert tuple(auto.validation_nll) == TEMPERATURES
    table = np.stack(list(auto.validation_nll.values()))
    assert table.shape == (len(TEMPERATURES), 2)
    assert len(np.unique(table)) == table.size  # the temperature makes a difference
    np.testing.assert_array_equal(auto.temperature, np.array(TEMPERATURES)[table.argmin(axis=0)])
    assert auto.model.depth_posterior.loc.shape == (2,)
    assert auto.history["free_energy"].shape == (16, 2)

    fixed = small_train(recipe=recipe, temperature=float(auto.temperature[1]), epochs=16, seeds=[1, 2])
    assert fixed.validation_nll == {}
    for name in ("free_energy", "depth_mean"):
        np.testing.assert_allclose(auto.history[name][:, 1], fixed.history[name][:, 1], rtol=TRAJECTORY)
    x, y = PARTS["validation"]
    probability = predict(auto.model, x, n_samples=100, key=KEYS)[1][np.arange(len(y)), y]
    # Both are means over 100 draws; the temperatures differ by more.
    assert table.min(axis=0)[1] == pytest.approx(-np.log(probability).mean(), abs=0.01)


def test_a_frozen_depth_wakes_up_if_the_recipe_says_so():
    """From all mass at depth 0, on data that need no depth but gain by it. The paper's recipes stay there for ever."""
    single = (NormalDepth(0.0, 1.15), NormalDepth(0.0, 0.05, 0.025, 0.975))
    asleep = small_train(depth=single, epochs=20, seeds=[1])
    np.testing.assert_array_equal(asleep.history["depth_support"][:, 0], 0)
    np.testing.assert_array_equal(asleep.history["depth_mean"], 0.0)

    fast = dataclasses.replace(
        RECIPES["leadline"], temperature=0.01, learning_rate=0.02, depth_learning_rate=0.02, n_restarts=1
    )
    awake = small_train(depth=single, recipe=fast, epochs=200, seeds=[1])
    assert np.all(awake.history["depth_support"][:, 0, 1] >= 1)
    assert awake.history["depth_mean"][-1, 0] > 0.9


def test_the_same_seed_gives_the_same_bits_and_another_does_not():
    one, again, other = (small_train(epochs=5, seeds=[seed]) for seed in (7, 7, 8))
    assert_same_bits(one.model, again.model)
    np.testing.assert_array_equal(one.history["free_energy"], again.history["free_energy"])
    assert np.all(one.history["free_energy"] != other.history["free_energy"])


def test_the_validation_part_is_looked_at_now_and_then_where_nothing_depends_on_it(monkeypatch):
    monkeypatch.setattr(loop, "N_VALIDATIONS", 4)
    keep_last = dataclasses.replace(RECIPES["written"], keep="last")
    seldom = small_train(recipe=keep_last, epochs=12, seeds=[0]).history
    changes = np.flatnonzero(np.diff(seldom["expected_nll"][:, 0])) + 1
    np.testing.assert_array_equal(changes, [3, 6, 9, 11])  # and the last
    always = small_train(epochs=12, seeds=[0]).history
    assert np.all(np.diff(always["expected_nll"][:, 0]) != 0)
    np.testing.assert_array_equal(seldom["depth_mean"], always["depth_mean"])  # it changes no step
    np.testing.assert_allclose(seldom["expected_nll"][::3], always["expected_nll"][::3], rtol=TRAJECTORY)


def test_the_kept_model_is_the_best_or_the_last():
    """With a rate so large that training wanders, the lowest validation free energy is not at the end."""
    wild = dataclasses.replace(RECIPES["written"], learning_rate=0.3)
    states = []
    copy = partial(jax.tree.map, jnp.copy)  # the state itself is given away to the next call
    best = small_train(recipe=wild, epochs=30, seeds=[1, 2], on_call=lambda state: states.append(copy(state)))
    lowest = best.history["free_energy"].min(axis=0)
    np.testing.assert_allclose(states[-1].best_free_energy, lowest, rtol=CLOSED_FORM["float32"])
    early = best.history["free_energy"].argmin(axis=0) < 29
    assert np.any(early)
    moved = best.model.depth_posterior.loc != states[-1].model.depth_posterior.loc
    np.testing.assert_array_equal(moved, early)


def test_interruption_keeps_what_was_trained():
    states = []

    def interrupt(state):
        states.append(jax.tree.map(jnp.copy, state))
        if int(state.epoch) >= 2:
            signal.raise_signal(signal.SIGINT)

    before = signal.getsignal(signal.SIGINT)
    keep_last = dataclasses.replace(RECIPES["written"], keep="last")
    result = small_train(recipe=keep_last, epochs=50, seeds=[0], on_call=interrupt)
    assert_same_bits(result.model, states[-1].model.unpack())  # the last iterate
    assert result.interrupted
    assert 2 <= result.epochs < 50
    assert len(result.history["free_energy"]) == result.epochs
    assert signal.getsignal(signal.SIGINT) is before


def test_regression_learns_the_noise():
    rng = np.random.default_rng(0)
    x = rng.uniform(-1, 1, (512, 1))
    y = 0.8 * x[:, 0] + 0.1 * rng.standard_normal(512)
    recipe = dataclasses.replace(RECIPES["written"], initial_scale=0.05, learning_rate=0.01)
    result = train_on(
        (x, y), (x, y), GaussianLikelihood(), depth=1, recipe=recipe, width=4, batch_size=64, epochs=150, seeds=[0]
    )
    assert float(result.model.likelihood.scale[0, 0]) == pytest.approx(0.1, rel=0.15)
    # and a fixed depth has nothing to learn about depth
    assert isinstance(result.model.depth_posterior, FixedDepth)
    np.testing.assert_array_equal(result.history["depth_mean"], 1.0)
    np.testing.assert_array_equal(result.history["depth_kl"], 0.0)


def test_divergence_is_one_sentence_and_never_a_result():
    """Depth 40 with weights of scale 1: the activations overflow in the first pass."""
    with (
        pytest.warns(TrainingSlowedWarning, match="by epoch 1"),
        pytest.raises(TrainingDivergedError, match=r"diverged by epoch 1 for the seeds \[0\]"),
    ):
        train_on(**DATA, depth=40, recipe="written", width=32, batch_size=32, epochs=2, seeds=[0])


def test_a_depth_without_end_is_one_sentence(monkeypatch):
    """q(L) is thrown so far in the first step that no layers would ever be enough."""
    monkeypatch.setattr("leadline.training.storage.N_DEPTHS", 32)
    recipe = dataclasses.replace(RECIPES["leadline"], depth_learning_rate=1e8)
    with (
        pytest.warns(TrainingSlowedWarning, match="by epoch 0"),
        pytest.raises(TrainingDivergedError, match=r"or q\(L\) asks for too many layers; try a smaller learning rate"),
    ):
        train_on(**DATA, recipe=recipe, width=4, epochs=2, seeds=[0])


def test_settings_that_have_no_finite_free_energy_are_refused():
    with pytest.raises(InvalidArgumentError, match="the support of the posterior PoissonDepth must end"):
        small_train(depth=(PoissonDepth(0.5), PoissonDepth(1.0)), epochs=1, seeds=[0])
    with pytest.raises(
        InvalidArgumentError, match="the prior CategoricalDepth must have mass wherever the posterior PoissonDepth has"
    ):
        small_train(depth=(CategoricalDepth(1), PoissonDepth(1.0, 0.95)), epochs=1, seeds=[0])


@pytest.mark.usefixtures("as_users_have_it")
@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"seeds": [-1]}, "`seed` must be a whole number of at least 0, got -1."),
        ({"seeds": [2**40]}, "`seed` must be at most 2147483647, got 1099511627776."),
        ({"epochs": 0}, "`epochs` must be a whole number of at least 1, got 0."),
        ({"batch_size": 0}, "`batch_size` must be a whole number of at least 1, got 0."),
        ({"width": 0}, "`width` must be a whole number of at least 1, got 0."),
        ({"recipe": "secret"}, "`recipe` must be one of leadline, table, image, published, written, got 'secret'."),
        ({"depth": "gamma"}, f"`depth` must be one of {', '.join(FAMILIES)}, a whole number"),
        ({"depth": -1}, "`depth` must be a whole number of at least 0, got -1."),
        ({"temperature": -1.0}, '`temperature` must be a number of at least 0 or "auto", got -1.0.'),
        ({"temperature": "warm"}, "`temperature` must be a number of at least 0 or \"auto\", got 'warm'."),
        ({"n_restarts": 0}, "`n_restarts` must be a whole number of at least 1, got 0."),
        ({"seeds": []}, "`settings` must be one, or one for each of 1 fits, got 0."),
        (
            {"seeds": [1, 2], "data": ([PARTS["test"][0]] * 3, [PARTS["test"][1]] * 3)},
            "`settings` must be one, or one for each of 3 fits, got 2.",
        ),
    ],
)
def test_wrong_settings_get_one_sentence(arguments, message):
    with pytest.raises(InvalidArgumentError) as error:
        train_on(**{**small_train.keywords, "epochs": 1, "seeds": [0], **arguments})
    assert message in str(error.value)


def test_problems_of_two_kinds_do_not_train_side_by_side():
    rows = Problem(PARTS["train"], PARTS["validation"], LIKELIHOOD)
    other = dataclasses.replace(rows, validation=0.2)
    with pytest.raises(InvalidArgumentError, match="`problem` must all have one likelihood, and rows or one share"):
        train([rows, other], Settings(epochs=1))


@pytest.mark.usefixtures("as_users_have_it")
@pytest.mark.parametrize(
    ("x", "y", "message"),
    [
        (np.full((4, 2), np.nan), [0, 1, 0, 1], "`data x` must be finite, got nan in row 0, column 0; 8 in all."),
        (np.ones((4, 2)), [0, 1, 0, 2], "`data y` must hold labels 0 to 1, got 2."),
        (np.ones((0, 2)), [], "`data x` must be a table with at least one row and one column, got shape (0, 2)."),
        (np.ones(4), [0, 1, 0, 1], "`data x` must be a table with at least one row and one column, got shape (4,)."),
        (np.ones((4, 3)), [0, 1, 0, 1], "`validation x` must have 3 columns, got 2."),
        (np.full((4, 2), 1e39), [0, 1, 0, 1], "`data x` must fit into float32, got 1e+39; rescale it."),
    ],
)
def test_wrong_data_get_one_sentence(x, y, message):
    with pytest.raises(InvalidArgumentError) as error:
        train_on((x, np.array(y)), PARTS["validation"], LIKELIHOOD, epochs=1, seeds=[0])
    assert str(error.value) == message


@pytest.mark.parametrize("stop_early", [True, False])
def test_noise_that_depends_on_the_input_is_kept_as_open_as_it_was(stop_early):
    """A training that ends before its time leaves the noise that it has trained with."""
    x = np.linspace(-1, 1, 32)[:, None]
    likelihood = HeteroscedasticLikelihood(1)
    result = train_on(
        *[(x, x)] * 2, likelihood, width=4, batch_size=32, epochs=20, seeds=[0], on_call=lambda state: stop_early
    )
    assert result.interrupted == stop_early
    # Of one epoch of one step the share is 0; of all it is more than OPENING.
    np.testing.assert_array_equal(result.model.likelihood.opening, np.full(4, 0 if stop_early else 1000))
    if stop_early:
        x_test = np.array([[-0.9], [0.9]])
        scale = jax.nn.softplus(result.model.likelihood.raw_scale[:, 0])
        parts = uncertainty(result.model, x_test, n_samples=3, key=jax.random.split(jax.random.key(0), 4))
        np.testing.assert_allclose(parts.noise[:, 0], np.square(scale).mean(), rtol=MANY_SUMS)


def test_a_run_that_is_over_keeps_what_it_has_chosen():
    """It is still looked at with new noise, while another trains on; a lucky draw must not count."""
    recipe = RECIPES["written"]
    task = make_task(recipe, 2, 20)
    task = eqx.tree_at(lambda t: t.clock.end, task, jnp.array([2, 20]))
    early, _ = train_epochs_lightly(task, start(recipe, "normal", 8), jnp.array(2))
    chosen, kept = np.asarray(early.best_free_energy), jax.tree.map(np.asarray, eqx.filter(early.best, eqx.is_array))
    late, _ = train_epochs_lightly(task, early, jnp.array(18))
    assert float(late.best_free_energy[0]) == chosen[0]
    assert float(late.best_free_energy[1]) < chosen[1]
    for before, after in zip(jax.tree.leaves(kept), jax.tree.leaves(eqx.filter(late.best, eqx.is_array)), strict=True):
        np.testing.assert_array_equal(after[0], before[0])
