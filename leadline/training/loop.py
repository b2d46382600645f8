"""Training: compiled epochs, growth between them, and a word to whoever watches."""

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Literal

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Key, PyTree

from leadline._checks import InvalidArgumentError, check_integer
from leadline._compilation import jit_lightly
from leadline.likelihoods import Likelihood
from leadline.model import Model
from leadline.network import UnboundedNetwork
from leadline.predict import log_likelihood
from leadline.recipes import Depth, Recipe, check_temperature, depth_distributions, get_recipe
from leadline.training.data import Data, pack
from leadline.training.epochs import MAX_EPOCHS, History, Task, train_epochs
from leadline.training.interruption import Interruption
from leadline.training.progress import Progress, Reporter
from leadline.training.state import TrainingState, init_state
from leadline.training.storage import MIN_CAPACITY, Storage

SECONDS_PER_CALL = 0.3
"""Python looks at the training about this often."""

N_VALIDATIONS = 200
"""How often the validation part is looked at, at least, where nothing depends on it."""

# A run's random stream: its seed's key, folded with what the draw is for.
_WEIGHTS, _TRAINING, _RESTART, _SELECTION = 0, 1, 4, 5  # the evaluation of a record uses 2 and 3


class TrainingDivergedError(RuntimeError):
    """The free energy stopped being a finite number."""


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
    n_restarts: int
    epochs: int
    """The epochs done: fewer than asked for only if interrupted."""
    seconds: float
    interrupted: bool


def init_models(
    n_inputs: int,
    likelihood: Likelihood,
    *,
    depth: Depth = "normal",
    recipe: str | Recipe = "leadline",
    width: int = 32,
    capacity: int = MIN_CAPACITY,
    key: Key[Array, " runs"],
) -> Model:
    """Untrained models, one per key, on a leading axis of runs."""
    recipe = get_recipe(recipe)
    prior, posterior = depth_distributions(depth, recipe)
    build = partial(
        UnboundedNetwork,
        n_inputs,
        likelihood.n_outputs,
        width=width,
        capacity=capacity,
        initial_scale=recipe.initial_scale,
        initial_means=recipe.initial_means,
        prior=recipe.prior,
        prior_scale=recipe.prior_scale,
    )
    networks = eqx.filter_vmap(lambda key: build(key=jax.random.fold_in(key, _WEIGHTS)))(key)
    rest = jax.tree.map(lambda a: jnp.broadcast_to(a, (key.shape[0], *a.shape)), (likelihood, posterior, prior))
    return Model(networks, *rest)


_init_models_quickly = jit_lightly(init_models)


def run_model(models: Model, run: int) -> Model:
    """One run's model out of a batch."""
    check_integer("run", run, 0, models.network.first.layer.bias_mean.shape[0] - 1)
    return jax.tree.map(lambda a: a[run], models)


def train(
    data: tuple[Any, Any],
    validation: tuple[Any, Any],
    likelihood: Likelihood,
    *,
    depth: Depth = "normal",
    recipe: str | Recipe = "leadline",
    temperature: float | Literal["auto"] | None = None,
    n_restarts: int | None = None,
    epochs: int | None = None,
    batch_size: int | None = None,
    width: int = 32,
    seeds: list[int] | tuple[int, ...],
    report: Reporter | None = None,
    on_call: Callable[[TrainingState], None] | None = None,
) -> Training:
    """Train `n_restarts` networks per seed, all side by side in one compiled program.

    `data` and `validation` are (x, y) arrays shared by all seeds, or (list of x, list of y) with one entry per seed. A
    run's result depends on its data and its seed, not on the runs beside it. `temperature`, `n_restarts`, `epochs` and
    `batch_size` are the recipe's unless given; `temperature="auto"` trains at each of `TEMPERATURES` and keeps, for
    every seed, the one with the best validation likelihood. Ctrl-C ends the training after the epochs in hand and keeps
    what it has.
    `report` is told the mean over runs a few times a second; `on_call` sees the whole state after every compiled call.
    """
    recipe = get_recipe(recipe)
    temperatures = check_temperature(recipe.temperature if temperature is None else temperature)
    n_restarts = recipe.n_restarts if n_restarts is None else n_restarts
    epochs = recipe.epochs if epochs is None else epochs
    batch_size = recipe.batch_size if batch_size is None else batch_size
    check_integer("n_restarts", n_restarts, 1)
    check_integer("epochs", epochs, 1)
    check_integer("batch_size", batch_size, 1)
    if len(seeds) == 0:
        raise InvalidArgumentError("`seeds` must hold at least one seed, got none.")
    for seed in seeds:
        check_integer("seeds", seed, 0)
    recipe = replace(recipe, temperature=max(temperatures))
    depth = depth_distributions(depth, recipe)
    train_data = _for_all_seeds("data", pack("data", *data, likelihood), len(seeds))
    n_inputs = train_data.x.shape[-1]
    validation_data = _for_all_seeds("validation", pack("validation", *validation, likelihood, n_inputs), len(seeds))

    # The runs, as a grid: seeds x temperatures x restarts.
    shape = (len(seeds), len(temperatures), n_restarts)
    keys = jnp.stack([key for seed in seeds for key in restart_keys(seed, n_restarts) * len(temperatures)])
    draw_models = partial(_init_models_quickly, n_inputs, likelihood, depth=depth, recipe=recipe, width=width, key=keys)
    state = init_state(
        draw_models(),
        jax.vmap(lambda key: jax.random.fold_in(key, _TRAINING))(keys),
        jnp.broadcast_to(jnp.array(temperatures, float)[:, None], shape).ravel(),
    )
    task = Task(
        _repeat(train_data, len(temperatures) * n_restarts),
        _repeat(validation_data, len(temperatures) * n_restarts),
        jnp.array(epochs),
        jnp.array(1 if recipe.keep == "lowest_free_energy" else max(1, epochs // N_VALIDATIONS)),
        recipe.compiled(),
        min(batch_size, train_data.x.shape[1]),
    )

    start = time.perf_counter()
    storage = Storage(draw_models)
    state, rows = _run(task, state, storage, epochs, np.repeat(seeds, shape[1] * shape[2]), report, on_call)
    models = state.best if recipe.keep == "lowest_free_energy" else state.model
    history = _history(rows)
    chosen, validation_nll = np.zeros(len(seeds), int), {}
    if len(temperatures) > 1:
        nll = _validation_nll(models, keys, validation_data, shape)
        chosen, validation_nll = nll.argmin(axis=1), dict(zip(temperatures, nll.T, strict=True))
        runs = np.arange(len(keys)).reshape(shape)[np.arange(len(seeds)), chosen].ravel()
        models = jax.tree.map(lambda a: a[runs], models)
        history = {name: column[:, runs] for name, column in history.items()}
    return Training(
        model=models,
        history=history,
        temperature=np.array(temperatures)[chosen],
        validation_nll=validation_nll,
        n_restarts=n_restarts,
        epochs=int(state.epoch),
        seconds=time.perf_counter() - start,
        interrupted=int(state.epoch) < epochs,
    )


def _run(
    task: Task,
    state: TrainingState,
    storage: Storage,
    epochs: int,
    seeds: np.ndarray,
    report: Reporter | None,
    on_call: Callable[[TrainingState], None] | None,
) -> tuple[TrainingState, list[History]]:
    """Compiled calls until all epochs are done or Ctrl-C is heard; all layers there are, and a row per epoch."""
    rows: list[History] = []
    done, n_epochs = 0, 1
    with Interruption() as interruption:
        while done < epochs and not (interruption.asked and done):
            state = storage.fit(state)
            start = time.perf_counter()
            state, history = train_epochs(task, state, jnp.array(min(n_epochs, epochs - done)))
            finished = int(state.epoch) - done  # waits for the device
            seconds = time.perf_counter() - start
            rows.append(jax.tree.map(lambda a, n=finished: np.asarray(a)[:n], history))
            done += finished
            _check_finite(state, seeds)
            n_epochs = _next_call(n_epochs, seconds)
            if report is not None and finished:
                report(_progress(done, rows[-1]))
            if on_call is not None:
                on_call(state)
    return storage.all_of(storage.fit(state)), rows


def restart_keys(seed: int, n_restarts: int) -> list[Key[Array, ""]]:
    """The first restart is the seed's own run; the others have streams of their own."""
    key = jax.random.key(seed)
    return [key, *[jax.random.fold_in(jax.random.fold_in(key, _RESTART), k) for k in range(1, n_restarts)]]


def _validation_nll(
    models: Model, keys: Key[Array, " runs"], validation: Data, shape: tuple[int, int, int]
) -> np.ndarray:
    """Nats per validation row for every seed and temperature, the restarts averaged."""
    keys = jax.vmap(lambda key: jax.random.fold_in(key, _SELECTION))(keys)
    n_rows = int(validation.n_rows)
    nll = np.empty(shape[:2])
    for seed, runs in enumerate(np.arange(len(keys)).reshape(shape[0], -1)):
        x, y = (np.asarray(a[seed, :n_rows]) for a in (validation.x, validation.y))
        log_p = log_likelihood(jax.tree.map(lambda a, runs=runs: a[runs], models), x, y, key=keys[runs])
        nll[seed] = -(np.logaddexp.reduce(log_p.reshape(*shape[1:], -1), axis=1) - np.log(shape[2])).mean(axis=-1)
    return nll


def _for_all_seeds(name: str, data: Data, n_seeds: int) -> Data:
    if data.x.shape[0] not in (1, n_seeds):
        raise InvalidArgumentError(
            f"`{name}` must be one set of rows or one for each of {n_seeds} seeds, got {data.x.shape[0]}."
        )
    x, y = (jnp.broadcast_to(a, (n_seeds, *a.shape[1:])) for a in (data.x, data.y))
    return Data(x, y, data.n_rows)


def _repeat(data: Data, times: int) -> Data:
    x, y = (jnp.repeat(a, times, axis=0) for a in (data.x, data.y))
    return Data(x, y, data.n_rows)


def _next_call(n_epochs: int, seconds: float) -> int:
    """So many epochs that a call takes about SECONDS_PER_CALL, at most four times as many as in the last."""
    wanted = int(n_epochs * SECONDS_PER_CALL / max(seconds, 1e-6))
    return max(1, min(wanted, 4 * n_epochs, MAX_EPOCHS))


def _check_finite(state: TrainingState, seeds: np.ndarray) -> None:
    """Stop at a NaN or an infinity: nothing after it means anything."""
    broken = ~np.asarray(_finite_runs((state.model, state.validated)))
    if np.any(broken):
        raise TrainingDivergedError(
            f"Training diverged by epoch {int(state.epoch)} for the seeds {np.unique(seeds[broken]).tolist()}: the "
            "free energy is not a finite number; try a smaller learning rate or initial scale, or rescale the data."
        )


@jit_lightly
def _finite_runs(batch: PyTree) -> Bool[Array, " runs"]:
    """For every run, whether all of its numbers are finite."""
    arrays = jax.tree.leaves(eqx.filter(batch, eqx.is_inexact_array))
    return jnp.all(jnp.stack([jnp.isfinite(a).reshape(a.shape[0], -1).all(axis=1) for a in arrays]), axis=0)


def _progress(epoch: int, history: History) -> Progress:
    now = jax.tree.map(lambda a: a[-1], history)
    return Progress(
        epoch=epoch,
        free_energy=float((now.expected_nll + now.depth_kl + now.weight_kl).mean()),
        depth_mean=float(now.depth_mean.mean()),
        depth_std=float(now.depth_std.mean()),
        support=(int(now.lowest.min()), int(now.highest.max())),
    )


def _history(rows: list[History]) -> dict[str, np.ndarray]:
    joined = jax.tree.map(lambda *parts: np.concatenate(parts), *rows)
    return {
        "free_energy": joined.expected_nll + joined.depth_kl + joined.weight_kl,
        "expected_nll": joined.expected_nll,
        "depth_kl": joined.depth_kl,
        "weight_kl": joined.weight_kl,
        "depth_mean": joined.depth_mean,
        "depth_std": joined.depth_std,
        "depth_support": np.stack([joined.lowest, joined.highest], axis=-1),
    }
