"""The recipes, cell by cell, and that a step of training follows them."""

import dataclasses

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from leadline import (
    RECIPES,
    CategoricalDepth,
    CategoricalLikelihood,
    FixedDepth,
    InvalidArgumentError,
    NormalDepth,
    PoissonDepth,
    Problem,
    Recipe,
    Settings,
    init_models,
    run_model,
    train,
)
from leadline.backend.device import Backend, backend, pretending
from leadline.backend.random import normal
from leadline.inference.recipes import depth_distributions
from leadline.inference.restarts import keys_of, restart_keys
from leadline.training import native
from leadline.training.epochs import train_step
from leadline.training.state import init_state
from tests.tolerances import CLOSED_FORM, GRADIENT

# What the paper says nothing about, or the same in both.
COMMON = {
    "initial_depth": (0.0, 1.8),
    "deepest_start": None,
    "kinds": (),
    "weigh_depths": False,
    "soften": False,
    "unfreeze": False,
    "initial_scale": 1.0,
    "initial_means": "glorot",
    "prior": "fixed",
    "prior_scale": 1.0,
    "warm_up": 0.0,
    "warm_up_power": 1.0,
    "decay_from": 1.0,
    "learning_rate": 0.005,
    "depth_learning_rate": 0.0005,
    "batch_size": 256,
    "n_restarts": 1,
    "epochs": 20_000,
    "n_samples": 100,
    "optimiser": None,
    "schedule": None,
}


def test_the_cells_of_the_table():
    published = {"temperature": 0.0, "draw": "weights", "bounds": "integer", "keep": "last"}
    written = {"temperature": 1.0, "draw": "local", "bounds": "real", "keep": "lowest_free_energy"}
    assert vars(RECIPES["published"]) == {"name": "published", **published, **COMMON}
    assert vars(RECIPES["written"]) == {"name": "written", **written, **COMMON}


@pytest.mark.parametrize("recipe", RECIPES.values(), ids=RECIPES)
def test_depth_families_start_where_the_paper_starts(recipe):
    """Except that a normal q(L) of `leadline` starts shallow, where the network is cheap, and finds its way down."""
    prior, posterior = depth_distributions("normal", recipe)
    assert eqx.tree_equal(prior, NormalDepth(0.0, 1.15))
    start = {"leadline": (1.0, 1.0), "image": (1.0, 1.0), "table": (0.5, 0.4)}.get(recipe.name, (0.0, 1.8))
    assert eqx.tree_equal(posterior, NormalDepth(*start, 0.025, 0.975, recipe.bounds))
    prior, posterior = depth_distributions("poisson", recipe)
    assert eqx.tree_equal(prior, PoissonDepth(0.5))
    assert eqx.tree_equal(posterior, PoissonDepth(1.0, 0.95))
    for prior_or_posterior in depth_distributions("categorical", recipe):
        assert eqx.tree_equal(prior_or_posterior, CategoricalDepth(10))
    for prior_or_posterior in depth_distributions(np.int64(4), recipe):
        assert eqx.tree_equal(prior_or_posterior, FixedDepth(4))


def test_restarts_begin_evenly_between_the_first_and_the_deepest():
    recipe = dataclasses.replace(RECIPES["leadline"], initial_depth=(1.0, 0.5), deepest_start=4.0)
    for n_restarts, expected in {1: [1.0], 2: [1.0, 4.0], 4: [1.0, 2.0, 3.0, 4.0]}.items():
        assert [each.initial_depth for each in recipe.by_restart(n_restarts)] == [(loc, 0.5) for loc in expected]
    assert RECIPES["leadline"].by_restart(4) == [RECIPES["leadline"]]


def test_restarts_are_of_the_kinds_in_turn():
    recipe = dataclasses.replace(RECIPES["table"], initial_depth=(9.0, 0.3), kinds=((0.1, 0.5), (1.0, 2.5, "constant")))
    each = recipe.by_restart(3)
    cold, warm = (0.1, (0.5, 0.3)), (1.0, (2.5, 0.3))
    assert [(one.temperature, one.initial_depth) for one in each] == [cold, warm, cold]
    settings = Settings(recipe=recipe).resolved(CategoricalLikelihood(2))
    assert settings.temperature == "auto"
    np.testing.assert_array_equal(dataclasses.replace(settings, n_restarts=3).temperatures(), [[0.1, 1.0, 0.1]])
    one = dataclasses.replace(settings, n_restarts=3, temperature=0.4)
    np.testing.assert_array_equal(one.temperatures(), [[0.4, 0.4, 0.4]])


def test_schedules():
    """The weight KL comes in as min(1, share / 0.9)^2; the rate stays, then falls along half a cosine."""
    recipe = dataclasses.replace(RECIPES["leadline"], warm_up=0.9, warm_up_power=2.0, decay_from=0.5)
    share = jnp.array([0.0, 0.45, 0.9, 1.0])
    np.testing.assert_allclose(recipe.kl_factor(share), [0.0, 0.25, 1.0, 1.0], rtol=CLOSED_FORM["float32"])
    share = jnp.array([0.0, 0.5, 0.75, 1.0])
    np.testing.assert_allclose(recipe.rate_factor(share), [1.0, 1.0, 0.5, 0.0], atol=CLOSED_FORM["float32"])
    for factor in (RECIPES["written"].kl_factor, RECIPES["written"].rate_factor):
        np.testing.assert_array_equal(factor(share), 1.0)


def test_what_the_compiled_step_does_not_depend_on_is_left_out_of_it():
    recipe = RECIPES["leadline"]
    other = dataclasses.replace(recipe, name="other", temperature=0.7, epochs=3, n_restarts=2, initial_scale=0.1)
    assert other.compiled() == recipe.compiled()
    assert dataclasses.replace(recipe, temperature=0.0).compiled() != recipe.compiled()
    kept = set(dataclasses.asdict(recipe.compiled()).items()) & set(dataclasses.asdict(recipe).items())
    assert {name for name, _ in kept} >= {"draw", "keep", "unfreeze", "warm_up", "decay_from"}


def plain_objective(params, model, x, y, row_weight, n_data, key, recipe, temperature):
    """Sum of NLL over the batch + (batch / n_data) (depth KL + temperature x weight KL), as a plain Python loop."""
    model = eqx.combine(params, model)
    prior = jnp.asarray(model.depth_prior.log_masses(6))
    log_q = model.depth_posterior.log_masses(6)
    blocks = [model.network.first, *[jax.tree.map(lambda a, i=i: a[i], model.network.deeper) for i in range(5)]]
    hidden, path_kl, total = x, 0.0, 0.0

    def linear(layer, x, key):
        weight_scale, bias_scale = jax.nn.softplus(layer.weight_raw), jax.nn.softplus(layer.bias_raw)
        if recipe.draw == "weights":
            draw = normal(key, (weight_scale.shape[0], weight_scale.shape[1] + 1), x.dtype)
            weight, bias = layer.weight_mean + weight_scale * draw[:, :-1], layer.bias_mean + bias_scale * draw[:, -1]
            return x @ weight.T + bias
        mean = x @ layer.weight_mean.T + layer.bias_mean
        variance = x**2 @ (weight_scale**2).T + bias_scale**2
        return mean + jnp.sqrt(variance) * normal(key, mean.T.shape, x.dtype).T

    for depth in range(6):
        if not np.isfinite(jax.lax.stop_gradient(log_q)[depth]):
            continue
        layer_key, head_key = (jax.random.fold_in(key, 2 * depth + k) for k in range(2))
        hidden = jax.nn.leaky_relu(linear(blocks[depth].layer, hidden, layer_key), 0.1)
        path_kl += blocks[depth].layer.kl()
        log_p = jax.nn.log_softmax(linear(blocks[depth].head, hidden, head_key))
        nll = -(row_weight * log_p[jnp.arange(len(y)), y]).sum()
        kl = temperature * (path_kl + blocks[depth].head.kl()) + log_q[depth] - prior[depth]
        total += jnp.exp(log_q[depth]) * (nll + row_weight.sum() / n_data * kl)
    return total


@pytest.mark.parametrize(
    "recipe",
    [pytest.param(one, id=name, marks=[pytest.mark.slow] * (name == "published")) for name, one in RECIPES.items()],
)
def test_a_step_descends_the_batch_objective(recipe):
    """Adam's first moment after one step is a tenth of the gradient; the batch has two rows of padding."""
    key = jnp.stack([jax.random.key(0)])
    depth = (NormalDepth(0.0, 1.15), NormalDepth(0.8, 0.6, 0.025, 0.975, recipe.bounds))
    models = init_models(2, CategoricalLikelihood(2), depth=depth, recipe=recipe, width=4, key=key)
    state = init_state(models, key, jnp.array([recipe.temperature]))
    x = jax.random.normal(key[0], (1, 8, 2))
    y = (x[..., 0] > 0).astype(jnp.int32)
    row_weight = jnp.array([1.0] * 4 + [2.5] * 2 + [0.0] * 2)  # two rows count more
    share, rates = jnp.array(0.3), (jnp.array(0.005), jnp.array(0.002))
    stepped = eqx.filter_jit(train_step)(
        state, x, y, row_weight[None], jnp.array([30.0]), key, share, rates, recipe.compiled()
    )

    model = run_model(models, 0)
    params, static = eqx.partition(model, eqx.is_inexact_array)
    # With local noise the draws of a batch depend on its shape, so the padding must be there, with weight zero.
    temperature = recipe.temperature * (1 / 9 if recipe.warm_up else 1)  # a third of the warm-up, squared
    gradient = jax.grad(lambda p: plain_objective(p, static, x[0], y[0], row_weight, 30, key[0], recipe, temperature))(
        params
    )
    moments, gradient = stepped.optimiser, gradient.pack()
    pairs = [
        (moments.first["layer"].mu, gradient.network.first.layer),
        (moments.first["head"].mu, gradient.network.first.head),
        (moments.deeper["layer"].mu, gradient.network.deeper.layer),
        (moments.deeper["head"].mu, gradient.network.deeper.head),
        (moments.depth_posterior.mu, gradient.depth_posterior),
    ]
    for moment, expected in pairs:
        for a, b in zip(jax.tree.leaves(moment), jax.tree.leaves(expected), strict=True):
            np.testing.assert_allclose(10 * a[0], b, rtol=GRADIENT, atol=GRADIENT * float(jnp.abs(b).max()) + 1e-6)


@pytest.mark.parametrize(
    "recipe",
    [RECIPES["leadline"], pytest.param(RECIPES["published"], marks=pytest.mark.slow)],
    ids=["local", "weights"],
)
def test_a_step_is_the_same_where_an_accelerator_walks_the_layers(recipe, monkeypatch):
    """Two runs of other depths, by loops and by masks."""
    keys = jnp.stack([jax.random.key(0), jax.random.key(1)])
    depth = (NormalDepth(0.0, 1.15), NormalDepth(0.8, 0.6, 0.025, 0.975, recipe.bounds))
    models = init_models(2, CategoricalLikelihood(2), depth=depth, recipe=recipe, width=4, capacity=5, key=keys)
    models = eqx.tree_at(lambda m: m.depth_posterior.loc, models, jnp.array([0.8, 2.3]))
    state = init_state(models, keys, jnp.full(2, recipe.temperature))
    assert state.support.highest[0] != state.support.highest[1]
    x = jax.random.normal(keys[0], (2, 8, 2))
    y = (x[..., 0] > 0).astype(jnp.int32)
    rates = (jnp.array(0.005), jnp.array(0.002))
    stepped = []
    for dynamic in (True, False):
        step = eqx.filter_jit(
            lambda state: train_step(
                state, x, y, jnp.ones((2, 8)), jnp.full(2, 30.0), keys, jnp.array(0.3), rates, recipe.compiled()
            )
        )
        with pretending(Backend("cpu" if dynamic else "gpu")):
            stepped.append(step(state))
    for a, b in zip(*(jax.tree.leaves((s.model, s.optimiser)) for s in stepped), strict=True):
        np.testing.assert_allclose(a, b, rtol=GRADIENT, atol=GRADIENT * float(jnp.abs(b).max()) + 1e-6)


@dataclasses.dataclass(frozen=True)
class Resting(Recipe):
    """Weights that do not move before so much of the training is over."""

    until: float = 1.0

    def rate_factor(self, share):
        return jnp.where(share < self.until, 0.0, super().rate_factor(share))


class Wild(Recipe):
    def kl_factor(self, share):
        return jnp.log(share)


LEADLINE = RECIPES["leadline"]
NO_NUMBER = "must give a finite number of at least 0 for the share of the training that is done, and gives"
DIRECTIONS = "take one that turns gradients into directions, as optax.scale_by_lion() does"


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (
            lambda: dataclasses.replace(LEADLINE, schedule=lambda share: 0.5 - share),
            f"`schedule` {NO_NUMBER} -0.5 at 1.0.",
        ),
        (lambda: dataclasses.replace(LEADLINE, schedule=lambda share: jnp.nan), f"`schedule` {NO_NUMBER} nan at 0.0."),
        (lambda: dataclasses.replace(LEADLINE, schedule=jnp.atleast_1d), f"`schedule` {NO_NUMBER} [0.] at 0.0."),
        (lambda: Wild(**vars(LEADLINE)), f"`kl_factor` of Wild {NO_NUMBER} -inf at 0.0."),
        (
            lambda: dataclasses.replace(LEADLINE, optimiser="adam"),
            f"`optimiser` must be one of optax's ... {DIRECTIONS}.",
        ),
        (
            lambda: dataclasses.replace(LEADLINE, optimiser=optax.sgd(0.1)),
            f"goes downhill by itself; {DIRECTIONS}, and",
        ),
        (
            lambda: dataclasses.replace(LEADLINE, optimiser=optax.lbfgs()),
            f"`optimiser` must need gradients and parameters alone, and this one says ... 'value_fn' ... {DIRECTIONS}.",
        ),
    ],
    ids=["uphill", "NaN", "a shape", "a subclass", "no optimiser", "a rate of its own", "a line search"],
)
def test_a_wrong_ingredient_is_one_sentence(make, message):
    with pytest.raises(InvalidArgumentError) as error:
        make()
    assert all(part in str(error.value) for part in message.split(" ... "))
    assert "\n" not in str(error.value)


def resting():
    return Resting(**vars(RECIPES["leadline"]) | {"name": "resting", "n_restarts": 1})


def test_a_subclass_is_neither_left_to_the_engine_nor_taken_for_a_recipe():
    model = init_models(2, CategoricalLikelihood(2), depth=1, width=4, capacity=1, key=restart_keys(0, 1))
    if backend().has_engine:
        assert native.suits(model, RECIPES["leadline"])
    assert not native.suits(model, resting())
    assert resting().compiled() == resting().by_restart(1)[0] == resting()


@pytest.mark.slow
def test_what_a_subclass_does_otherwise_is_done():
    recipe = resting()
    x = np.random.default_rng(0).normal(size=(32, 2))
    rows = x, (x[:, 0] > 0).astype(int)
    problem = Problem(rows, rows, CategoricalLikelihood(2))
    network = train(problem, Settings(depth=1, width=4, epochs=4, recipe=recipe, seed=0)).model.network
    key = keys_of(restart_keys(0, 1))
    begun = init_models(2, CategoricalLikelihood(2), depth=1, recipe=recipe, width=4, key=key).network
    rounding = CLOSED_FORM["float32"]
    for layer, before in ((network.first.layer, begun.first.layer), (network.first.head, begun.first.head)):
        np.testing.assert_allclose(layer.weight_mean, before.weight_mean, rtol=rounding, atol=rounding)


@pytest.mark.usefixtures("as_users_have_it")
@pytest.mark.parametrize(
    ("field", "value", "message"),
    [
        ("draw", "lokal", "`draw` must be one of local, weights, got 'lokal'."),
        ("keep", "first", "`keep` must be one of lowest_free_energy, last, got 'first'."),
        ("learning_rate", -0.1, "`learning_rate` must be at least 0, got -0.1."),
        ("prior_scale", 0.0, "`prior_scale` must be positive and finite, got 0.0."),
        ("warm_up", 1.5, "`warm_up` must lie between 0 and 1, got 1.5."),
        ("prior", "layer", "`prior` must be one of fixed, unit, weight, got 'layer'."),
        ("warm_up", "slow", "`warm_up` must be a number, got 'slow'."),
        ("temperature", "auto", "`temperature` must be a number, got 'auto'."),
        ("initial_depth", (1.0,), "`initial_depth` must be a pair (loc, scale), got (1.0,)."),
        ("initial_depth", (1.0, -1.0), "`scale of initial_depth` must be positive and finite, got -1.0."),
        ("deepest_start", np.inf, "`deepest_start` must be finite, got inf."),
        ("weigh_depths", True, "`weigh_depths` must be False where there are no kinds, which hold out rows together."),
        ("kinds", ((-1.0, 0.5),), "`temperature of kinds` must be at least 0, got -1.0."),
        ("kinds", ((1.0, 0.5, "none"),), "`noise of kinds` must be one of input, constant, got 'none'."),
        ("n_restarts", 0, "`n_restarts` must be a whole number of at least 1, got 0."),
    ],
)
def test_a_wrong_recipe_gets_one_sentence(field, value, message):
    with pytest.raises(InvalidArgumentError) as error:
        dataclasses.replace(RECIPES["written"], **{field: value})
    assert str(error.value) == message
