"""Training: from data and a recipe to models."""

import os
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Literal

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Key

from leadline import _loops
from leadline._checks import InvalidArgumentError, check_integer
from leadline._compilation import jit_lightly, make_room
from leadline._random import fold_in
from leadline.distributions import DepthDistribution, FixedDepth
from leadline.distributions.side_by_side import side_by_side
from leadline.likelihoods import Likelihood
from leadline.model import Model
from leadline.network import UnboundedNetwork
from leadline.predict import log_likelihood
from leadline.recipes import Depth, Recipe, check_temperature, depth_distributions, get_recipe
from leadline.training.checkpoint import EVERY, Checkpoints, fingerprint, first_checkpoint
from leadline.training.data import check_tables, for_all_seeds, make_parts
from leadline.training.epochs import Task, train_epochs, train_epochs_lightly
from leadline.training.pace import FixedLength, OwnLength, Paces
from leadline.training.progress import Progress, Reporter
from leadline.training.run import Run, Watch
from leadline.training.state import TrainingState, init_state
from leadline.training.storage import Storage, first_capacity

N_VALIDATIONS = 200
"""How often the validation part is looked at, at least, where nothing depends on it."""

MOST_STEPS = {"fixed": 50_000, "learned": 62_500}
"""Of a training that chooses its own length, if nobody says how long it may be: large tables have learned by then. A
network whose depth is learned has to find it first, and may take a quarter more."""

SHORT = 10_000
"""Steps up to which a training is compiled lightly."""

# A run's random stream: its seed's key, folded with what the draw is for.
_WEIGHTS, _TRAINING, _RESTART, _SELECTION = 0, 1, 4, 5  # the evaluation of a record uses 2 and 3


@dataclass(frozen=True)
class Training:
    """What training gives back."""

    model: Model
    """The models kept, with a leading axis of runs, the restarts of a seed together (see `run_model`)."""
    history: dict[str, np.ndarray]
    """Epochs by runs, under the names of the record."""
    temperature: np.ndarray
    """The temperature kept, for every seed."""
    validation_nll: dict[float, np.ndarray]
    """For every temperature tried, where there was a choice: nats per validation row, all restarts, for every seed."""
    validation_rows: np.ndarray
    """The numbers of the rows held out from every run, runs by rows; no columns where the validation part was given."""
    n_restarts: int
    epochs_of_seeds: list[int]
    """The epochs done, for every seed: fewer than planned only if interrupted. With a length of their own they differ,
    and the rows of the history after its last repeat a seed's end."""
    seconds: float
    interrupted: bool

    @property
    def epochs(self) -> int:
        """Of the seed that took most."""
        return max(self.epochs_of_seeds)


def init_models(
    n_inputs: int,
    likelihood: Likelihood,
    *,
    depth: Depth = "normal",
    recipe: str | Recipe = "leadline",
    width: int = 32,
    capacity: int | None = None,
    key: Key[Array, " runs"],
) -> Model:
    """Untrained models, one per key, on a leading axis of runs; `capacity` is the number of hidden layers stored."""
    recipe = get_recipe(recipe)
    prior, posterior = depth_distributions(depth, recipe)
    build = partial(
        UnboundedNetwork,
        n_inputs,
        likelihood.n_outputs,
        width=width,
        capacity=capacity or first_capacity(n_inputs, width, likelihood.n_outputs),
        initial_scale=recipe.initial_scale,
        initial_means=recipe.initial_means,
        prior=recipe.prior,
        prior_scale=recipe.prior_scale,
    )
    networks = eqx.filter_vmap(lambda key: build(key=fold_in(key, _WEIGHTS)))(key)
    # Of a definite type: a user's weakly typed array would change its type, and the program, after the first step.
    rest = jax.tree.map(
        lambda a: jnp.broadcast_to(jax.lax.convert_element_type(a, a.dtype), (key.shape[0], *a.shape)),
        (likelihood, posterior, prior),
    )
    return Model(networks, *rest)


_init_models_quickly = jit_lightly(init_models)


def _draw_models(depths: list[tuple[DepthDistribution, DepthDistribution]], *sizes: Any, **options: Any) -> Model:
    """`init_models` with p(L) and q(L) for all keys, or for every share of them."""
    models = _init_models_quickly(*sizes, depth=depths[0], **options)
    if len(depths) == 1:
        return models
    each = models.runs[0] // len(depths)
    both = [side_by_side([one for one in column for _ in range(each)]) for column in zip(*depths, strict=True)]
    return eqx.tree_at(lambda m: (m.depth_prior, m.depth_posterior), models, both)


def _depths_of_runs(
    depths: list[Depth], recipe: Recipe, shape: tuple[int, int, int]
) -> list[tuple[DepthDistribution, DepthDistribution]]:
    """p(L) and the initial q(L) of every run, or of every seed's runs, or of all, as far as they differ."""
    n_seeds, n_temperatures, n_restarts = shape
    by_restart = [[depth_distributions(one, each) for each in recipe.by_restart(n_restarts)] for one in depths]
    if len(by_restart[0]) == 1:
        return [pair for (pair,) in by_restart]
    return [pair for pairs in by_restart * (n_seeds // len(depths)) for pair in pairs * n_temperatures]


def _most_steps(depths: list[tuple[DepthDistribution, DepthDistribution]], n_seeds: int) -> list[int]:
    """Of every seed, from the depths of all, of every seed's runs, or of every run."""
    of_depths = [MOST_STEPS["fixed" if isinstance(posterior, FixedDepth) else "learned"] for _, posterior in depths]
    return of_depths * n_seeds if len(depths) == 1 else of_depths[:: len(depths) // n_seeds]


_unpack = jit_lightly(Model.unpack)


def run_model(models: Model, run: int) -> Model:
    """One run's model out of a batch."""
    check_integer("run", run, 0, models.runs[0] - 1)
    return jax.tree.map(lambda a: a[run], models)


def train(
    data: tuple[Any, Any],
    validation: tuple[Any, Any] | float,
    likelihood: Likelihood,
    *,
    weight: Any = None,
    depth: Depth | list[Depth] = "normal",
    recipe: str | Recipe = "leadline",
    temperature: float | Literal["auto"] | None = None,
    n_restarts: int | None = None,
    common_validation: bool = False,
    epochs: int | None = None,
    own_length: bool = False,
    batch_size: int | None = None,
    width: int = 32,
    seeds: list[int] | tuple[int, ...],
    start: Model | None = None,
    checkpoint_dir: str | os.PathLike[str] | None = None,
    checkpoint_every: float = EVERY,
    report: Reporter | None = None,
    on_epoch: Callable[[Progress], Any] | None = None,
    on_call: Callable[[TrainingState], Any] | None = None,
) -> Training:
    """Train `n_restarts` networks per seed, all side by side in one compiled program.

    `data` and `validation` are (x, y) arrays shared by all seeds, or (list of x, list of y) with one entry per seed; or
    `validation` is a share of the rows, and every restart holds out other rows, or with `common_validation` the same. A
    row counts as much as `weight` such rows. A run's result depends on its data and its seed, not on the runs beside
    it. `depth` is that of all seeds, or a list with one for each, which may be of different families. `temperature`,
    `n_restarts`, `epochs` and `batch_size` are the recipe's unless given; `temperature="auto"` trains at each of
    `TEMPERATURES` and keeps, for every seed, the one with the best validation likelihood. With `own_length` the
    validation likelihood of a seed's runs decides how long to train them, and `epochs` is the most it may take (see
    `OwnLength`; unless given, MOST_STEPS bounds it too). `start` has the models to start from, one per seed and
    restart, as an earlier training returned them. Ctrl-C ends the training after the epochs in hand and keeps what it
    has.

    With a `checkpoint_dir`, the training is written there every `checkpoint_every` seconds and at its end, and the same
    training, started again, goes on from there: to the same bits, on the same CPU. A run that diverges goes back to
    where it was before, with smaller learning rates, up to MOST_SLOWED times.

    `report` is told the mean over runs a few times a second; `on_epoch` is told of every epoch (in bursts); `on_call`
    sees the whole state after every compiled call (its models are packed: `state.model.unpack()`). These two end the
    training by returning True.
    """
    make_room()
    recipe = get_recipe(recipe)
    temperatures = check_temperature(recipe.temperature if temperature is None else temperature)
    n_restarts = recipe.n_restarts if n_restarts is None else n_restarts
    batch_size = recipe.batch_size if batch_size is None else batch_size
    check_integer("n_restarts", n_restarts, 1)
    if epochs is not None:
        check_integer("epochs", epochs, 1)
    check_integer("batch_size", batch_size, 1)
    if len(seeds) == 0:
        raise InvalidArgumentError("`seeds` must hold at least one seed, got none.")
    for seed in seeds:
        check_integer("seeds", seed, 0)
    recipe = replace(recipe, temperature=max(temperatures))
    depths = depth if isinstance(depth, list) else [depth]
    if len(depths) not in (1, len(seeds)):
        raise InvalidArgumentError(f"`depth` must have one entry per seed, {len(seeds)}, got {len(depths)}.")
    shape = (len(seeds), len(temperatures), n_restarts)
    depths = _depths_of_runs(depths, recipe, shape)
    tables = for_all_seeds("data", check_tables("data", *data, likelihood, weight=weight), len(seeds))
    parts, held = make_parts(tables, validation, likelihood, shape, seeds, common_validation)
    n_inputs, n_rows = tables[0].shape[-1], int(parts["train"].n_rows)

    # The runs, as a grid: seeds x temperatures x restarts.
    keys = jnp.stack([key for seed in seeds for key in restart_keys(seed, n_restarts) * len(temperatures)])
    draw_models = partial(_draw_models, depths, n_inputs, likelihood, recipe=recipe, width=width, key=keys)
    state = init_state(
        draw_models() if start is None else _checked_start(start, draw_models, shape),
        jax.vmap(lambda key: jax.random.fold_in(key, _TRAINING))(keys),
        jnp.broadcast_to(jnp.array(temperatures, float)[:, None], shape).ravel(),
    )
    batch_size = min(batch_size, parts["train"].rows.shape[1])
    steps_per_epoch = -(-n_rows // batch_size)
    most = [recipe.epochs if epochs is None else epochs] * len(seeds)
    if own_length:
        if epochs is None:
            most = [min(recipe.epochs, -(-n // steps_per_epoch)) for n in _most_steps(depths, len(seeds))]
        guessing = [likelihood.nll_of_guessing(y, w) for _, y, w in zip(*tables, strict=True)]
        nats = np.broadcast_to(guessing, len(seeds))
        paces = [partial(OwnLength, n, steps_per_epoch, own) for n, own in zip(most, nats, strict=True)]
    else:
        every = 1 if recipe.keep == "lowest_free_energy" else max(1, most[0] // N_VALIDATIONS)
        paces = [partial(FixedLength, n, every) for n in most]

    def make_pace() -> Paces:
        return Paces([make() for make in paces], len(keys) // len(seeds))

    pace = make_pace()
    task = Task(
        **parts,
        clock=pace.clock,
        validate_every=jnp.array(pace.validate_every),
        learning_rate=jnp.array(recipe.learning_rate, float),
        depth_learning_rate=jnp.array(recipe.depth_learning_rate, float),
        recipe=recipe.compiled(),
        batch_size=batch_size,
        n_samples=4 if own_length else 1,
        steps_per_epoch=None if _loops.loops_are_dynamic() else steps_per_epoch,
    )
    light = own_length or most[0] * steps_per_epoch <= SHORT
    watch = Watch(np.repeat(seeds, shape[1] * shape[2]), report, on_epoch, on_call)
    checkpoints, begun = None, None
    if checkpoint_dir is not None:
        given = (parts, keys, temperatures, depths, likelihood, recipe, width, most, own_length, batch_size, start)
        checkpoints = Checkpoints(checkpoint_dir, fingerprint(*given), checkpoint_every)
        begun = checkpoints.last(state)
    run = Run(
        task,
        begun or first_checkpoint(state),
        Storage(draw_models),
        make_pace,
        watch,
        train_epochs_lightly if light else train_epochs,
        checkpoints,
    )
    state = run.to_its_end()
    end, history = run.pace.end, _columns(run.history)
    models = _unpack(state.best if recipe.keep == "lowest_free_energy" else state.model)
    chosen, validation_nll = np.zeros(len(seeds), int), {}
    if len(temperatures) > 1:
        nll = _validation_nll(models, keys, task, shape, held.size > 0 and not common_validation)
        chosen, validation_nll = nll.argmin(axis=1), dict(zip(temperatures, nll.T, strict=True))
        runs = np.arange(len(keys)).reshape(shape)[np.arange(len(seeds)), chosen].ravel()
        models = jax.tree.map(lambda a: a[runs], models)
        history = {name: column[:, runs] for name, column in history.items()}
        held = held[runs]
    return Training(
        model=models,
        history=history,
        temperature=np.array(temperatures)[chosen],
        validation_nll=validation_nll,
        validation_rows=held,
        n_restarts=n_restarts,
        epochs_of_seeds=run.pace.done(int(state.epoch)),
        seconds=run.seconds,
        interrupted=end is None or int(state.epoch) < end,
    )


def _checked_start(start: Model, draw_models: Callable[..., Model], shape: tuple[int, int, int]) -> Model:
    """A copy of the models to start from, for every temperature, which must be such as would be drawn."""
    n_seeds, _, n_restarts = shape
    wrong = InvalidArgumentError(
        "`start` must have models of the same inputs, outputs, width, depth family, prior and number of runs."
    )
    if start.runs != (n_seeds * n_restarts,):
        raise wrong
    runs = np.broadcast_to(np.arange(n_seeds * n_restarts).reshape(n_seeds, 1, n_restarts), shape).ravel()
    start = jax.tree.map(lambda a: a[runs], start)
    drawn = draw_models(capacity=start.capacity)
    shapes = [[(a.shape, a.dtype) for a in jax.tree.leaves(models)] for models in (start, drawn)]
    if jax.tree.structure(start) != jax.tree.structure(drawn) or shapes[0] != shapes[1]:
        raise wrong
    return start


def restart_keys(seed: int, n_restarts: int) -> list[Key[Array, ""]]:
    """The first restart is the seed's own run; the others have streams of their own."""
    key = jax.random.key(seed)
    return [key, *[jax.random.fold_in(jax.random.fold_in(key, _RESTART), k) for k in range(1, n_restarts)]]


def _validation_nll(
    models: Model, keys: Key[Array, " runs"], task: Task, shape: tuple[int, int, int], own_rows: bool
) -> np.ndarray:
    """Nats per validation row for every seed and temperature, the restarts averaged: their predictions where they share
    the rows, their likelihoods where each has its own."""
    keys = jax.vmap(lambda key: jax.random.fold_in(key, _SELECTION))(keys)
    nll = np.empty(shape)
    rows = task.validation.rows[:, : int(task.validation.n_rows)]
    groups = np.arange(len(keys)).reshape(-1, 1 if own_rows else shape[2])
    for runs in groups:
        x, y, weight = (np.asarray(a[0]) for a in task.data.take(task.table[runs[:1]], rows[runs[:1]]))
        log_p = log_likelihood(jax.tree.map(lambda a, runs=runs: a[runs], models), x, y, key=keys[runs])
        mean = np.logaddexp.reduce(log_p, axis=0) - np.log(len(runs))
        nll.reshape(-1)[runs] = -np.average(mean, weights=weight)
    return nll.mean(axis=2)


def _columns(history: Any) -> dict[str, np.ndarray]:
    """Under the names of the record."""
    return {
        "free_energy": history.expected_nll + history.depth_kl + history.weight_kl,
        "validation_nll": history.validation_nll,
        "expected_nll": history.expected_nll,
        "depth_kl": history.depth_kl,
        "weight_kl": history.weight_kl,
        "depth_mean": history.depth_mean,
        "depth_std": history.depth_std,
        "depth_support": np.stack([history.lowest, history.highest], axis=-1),
    }
