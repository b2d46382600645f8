"""Training: compiled epochs, growth between them, and a word to whoever watches."""

import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Key

from leadline._checks import check_integer
from leadline._compilation import jit_lightly
from leadline.distributions import DepthDistribution
from leadline.likelihoods import Likelihood
from leadline.model import Model
from leadline.network import UnboundedNetwork
from leadline.recipes import Recipe, depth_distributions, get_recipe
from leadline.training.data import Data, pack
from leadline.training.epochs import MAX_EPOCHS, History, train_epochs
from leadline.training.progress import Reporter
from leadline.training.state import TrainingState, grow, init_state

SECONDS_PER_CALL = 0.3
"""Python looks at the training about this often."""

# A run's random stream: its seed's key, folded with what the draw is for.
_WEIGHTS, _TRAINING = range(2)


@dataclass(frozen=True)
class Training:
    """What training gives back."""

    model: Model
    """The models kept, with a leading axis of runs (see `run_model`)."""
    history: dict[str, np.ndarray]
    """Epochs by runs, under the names of the record."""
    epochs: int
    """The epochs done: fewer than asked for only if interrupted."""
    seconds: float
    interrupted: bool


def init_models(
    n_inputs: int,
    likelihood: Likelihood,
    *,
    depth: str | int | tuple[DepthDistribution, DepthDistribution] = "normal",
    recipe: Recipe,
    width: int = 32,
    capacity: int = 8,
    key: Key[Array, " runs"],
) -> Model:
    """Untrained models, one per key, on a leading axis of runs."""
    prior, posterior = depth_distributions(depth, recipe)
    build = partial(
        UnboundedNetwork,
        n_inputs,
        likelihood.n_outputs,
        width=width,
        capacity=capacity,
        initial_scale=recipe.initial_scale,
        prior_scale=recipe.prior_scale,
    )
    networks = eqx.filter_vmap(lambda key: build(key=jax.random.fold_in(key, _WEIGHTS)))(key)
    rest = jax.tree.map(lambda a: jnp.broadcast_to(a, (key.shape[0], *a.shape)), (likelihood, posterior, prior))
    return Model(networks, *rest)


def run_model(models: Model, run: int) -> Model:
    """One run's model out of a batch."""
    return jax.tree.map(lambda a: a[run], models)


def train(
    train: tuple[Any, Any],
    validation: tuple[Any, Any],
    likelihood: Likelihood,
    *,
    depth: str | int | tuple[DepthDistribution, DepthDistribution] = "normal",
    recipe: str | Recipe = "published",
    epochs: int = 20_000,
    batch_size: int = 256,
    width: int = 32,
    seeds: list[int] | tuple[int, ...],
    report: Reporter | None = None,
    on_call: Callable[[TrainingState], None] | None = None,
) -> Training:
    """Train one network per seed, side by side in one compiled program.

    `train` and `validation` are (x, y) arrays shared by all runs, or (list of x, list of y) with one entry per run. A
    run's result depends on its data and its seed, not on the runs beside it. Ctrl-C ends the training and keeps what it
    has.
    `report` is told the mean over runs a few times a second; `on_call` sees the whole state after every compiled call.
    """
    check_integer("epochs", epochs, 1)
    check_integer("batch_size", batch_size, 1)
    recipe = get_recipe(recipe)
    train_data = _for_all_runs(pack("train", *train, likelihood), len(seeds))
    n_inputs = train_data.x.shape[-1]
    validation_data = _for_all_runs(pack("validation", *validation, likelihood, n_inputs), len(seeds))
    keys = jnp.stack([jax.random.key(seed) for seed in seeds])
    draw_models = partial(
        jit_lightly(init_models), n_inputs, likelihood, depth=depth, recipe=recipe, width=width, key=keys
    )

    state = init_state(draw_models(), jax.vmap(lambda key: jax.random.fold_in(key, _TRAINING))(keys), recipe)
    fixed = (train_data, validation_data, recipe, min(batch_size, train_data.x.shape[1]))
    rows: list[History] = []
    done, n_epochs, interrupted = 0, 1, False
    start = time.perf_counter()
    try:
        while done < epochs:
            if not state.support.fits:
                state = grow(state, draw_models(capacity=2 * state.capacity).network, recipe)
                continue
            call_start = time.perf_counter()
            state, history = train_epochs(fixed, state, jnp.array(min(n_epochs, epochs - done)))
            finished = int(state.epoch) - done  # waits for the device
            call_seconds = time.perf_counter() - call_start
            rows.append(jax.tree.map(lambda a, n=finished: np.asarray(a[:n]), history))
            done += finished
            n_epochs = _next_call(n_epochs, call_seconds)
            if report is not None and finished:
                report(done, *_summary(rows[-1]))
            if on_call is not None:
                on_call(state)
    except KeyboardInterrupt:
        if done == 0:
            raise
        interrupted = True
    kept = state.best if recipe.keep == "lowest_free_energy" else state.model
    seconds = time.perf_counter() - start
    return Training(kept, _history(rows), done, seconds, interrupted)


def _for_all_runs(data: Data, n_runs: int) -> Data:
    x, y = (jnp.broadcast_to(a, (n_runs, *a.shape[1:])) for a in (data.x, data.y))
    return Data(x, y, data.n_rows)


def _next_call(n_epochs: int, seconds: float) -> int:
    """So many epochs that a call takes about SECONDS_PER_CALL; the first ones, which compile, at most double it."""
    wanted = int(n_epochs * SECONDS_PER_CALL / max(seconds, 1e-6))
    return max(1, min(wanted, 4 * n_epochs, MAX_EPOCHS))


def _summary(row: History) -> tuple[float, float, float, tuple[int, int]]:
    total = row.expected_nll[-1] + row.depth_kl[-1] + row.weight_kl[-1]
    support = (int(row.lowest[-1].min()), int(row.highest[-1].max()))
    return float(total.mean()), float(row.depth_mean[-1].mean()), float(row.depth_std[-1].mean()), support


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
