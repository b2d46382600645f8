"""Whole epochs in one compiled call."""

from functools import partial

import equinox as eqx
import jax
import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Float, Int, Key

from leadline._loops import put_row
from leadline.free_energy import FreeEnergy, free_energy
from leadline.model import Model
from leadline.recipes import Recipe
from leadline.training.data import Data
from leadline.training.optimiser import update
from leadline.training.state import TrainingState, find_support

MAX_EPOCHS = 512
"""Epochs in one compiled call, at most: the rows of its history."""

# A run's random stream: its key, folded with what the draw is for, then with the epoch and the step.
_ORDER, _NOISE, _VALIDATION = range(3)


class History(eqx.Module):
    """What is noted after every epoch, for every run.

    The expected NLL is that of the validation part, scaled to the size of the training part, so that the terms add up.
    The three terms are as of the last epoch that was validated.
    """

    expected_nll: Float[Array, "*epochs runs"]
    depth_kl: Float[Array, "*epochs runs"]
    weight_kl: Float[Array, "*epochs runs"]
    depth_mean: Float[Array, "*epochs runs"]
    depth_std: Float[Array, "*epochs runs"]
    lowest: Int[Array, "*epochs runs"]
    highest: Int[Array, "*epochs runs"]


class Task(eqx.Module):
    """What stays as it is from the first epoch to the last."""

    train: Data
    validation: Data
    epochs: Int[Array, ""]
    """The length of the whole training, which the schedules refer to."""
    validate_every: Int[Array, ""]
    """The validation free energy is estimated after the first epoch, after every so many more, and after the last."""
    recipe: Recipe = eqx.field(static=True)
    batch_size: int = eqx.field(static=True)


@partial(eqx.filter_jit, donate="all-except-first")
def train_epochs(task: Task, state: TrainingState, n_epochs: Int[Array, ""]) -> tuple[TrainingState, History]:
    """Train for up to `n_epochs` (at most MAX_EPOCHS); stop early, even within an epoch, if q(L) outgrows the capacity.

    The rows of the history after the last finished epoch are zero.
    """
    start = state.epoch

    def go_on(loop: tuple[TrainingState, History]) -> Array:
        state, _ = loop
        return (state.epoch < start + n_epochs) & state.support.fits

    def one_epoch(loop: tuple[TrainingState, History]) -> tuple[TrainingState, History]:
        state, history = loop
        state = _train_epoch(state, task)

        def finish() -> tuple[TrainingState, History]:
            done, row = _finish_epoch(state, task)
            return done, put_row(history, row, state.epoch - start)

        return lax.cond(state.support.fits, finish, lambda: (state, history))

    columns = jnp.zeros((MAX_EPOCHS, state.key.shape[0]))
    counts = columns.astype(int)
    return lax.while_loop(
        go_on, one_epoch, (state, History(columns, columns, columns, columns, columns, counts, counts))
    )


def _train_epoch(state: TrainingState, task: Task) -> TrainingState:
    """All steps of an epoch from `state.step` on, over the rows in an order of the epoch's own."""
    train, batch_size = task.train, task.batch_size
    n_steps = -(-train.n_rows // batch_size)
    order = jax.vmap(partial(_shuffled, train))(_stream(state.key, _ORDER, state.epoch))
    padded = jnp.pad(order, ((0, 0), (0, batch_size)))

    def go_on(state: TrainingState) -> Array:
        return (state.step < n_steps) & state.support.fits

    def one_step(state: TrainingState) -> TrainingState:
        start = state.step * batch_size
        rows = lax.dynamic_slice_in_dim(padded, start, batch_size, axis=1)
        row_weight = (start + jnp.arange(batch_size) < train.n_rows).astype(train.x.dtype)
        x, y = (jax.vmap(lambda a, i: a[i])(a, rows) for a in (train.x, train.y))
        keys = jax.vmap(jax.random.fold_in, (0, None))(_stream(state.key, _NOISE, state.epoch), state.step)
        share = (state.epoch + state.step / n_steps) / task.epochs
        return train_step(state, x, y, row_weight, train.n_rows, keys, share, task.recipe)

    return lax.while_loop(go_on, one_step, state)


def train_step(
    state: TrainingState,
    x: Float[Array, "runs batch in"],
    y: Array,
    row_weight: Float[Array, " batch"],
    n_data: Int[Array, ""],
    key: Key[Array, " runs"],
    share: Float[Array, ""],
    recipe: Recipe,
) -> TrainingState:
    """One step of Adam on (batch / n_data) F for every run, at a share of the whole training.

    The layer loop has one length, the deepest run's.
    """
    walk = state.support.walk
    params, static = eqx.partition(state.model, eqx.is_inexact_array)

    # The published objective has no weight KL: it is left out, not multiplied by 0.
    temperature = state.temperature * recipe.kl_factor(share) if recipe.temperature else None

    def objective(params: Model, static: Model, x: Array, y: Array, key: Array, temperature: Array | None) -> Array:
        model = eqx.combine(params, static)
        terms = free_energy(model, x, y, key=key, noise=recipe.noise, n_data=n_data, row_weight=row_weight, walk=walk)
        return row_weight.sum() / n_data * terms.tempered(0.0 if temperature is None else temperature)

    gradients = jax.vmap(jax.grad(objective))(params, static, x, y, key, temperature)
    model, optimiser = jax.vmap(
        lambda model, gradients, optimiser, lowest, highest: update(
            model,
            gradients,
            optimiser,
            rate=recipe.learning_rate * recipe.rate_factor(share),
            depth_rate=recipe.depth_learning_rate,
            support=(lowest, highest),
            highest=walk[1],
        )
    )(state.model, gradients, state.optimiser, state.support.lowest, state.support.highest)
    if recipe.unfreeze:
        unfrozen = jax.vmap(lambda q: q.unfrozen())(model.depth_posterior)
        model = eqx.tree_at(lambda m: m.depth_posterior, model, unfrozen)
    return eqx.tree_at(
        lambda s: (s.model, s.optimiser, s.step, s.support),
        state,
        (model, optimiser, state.step + 1, find_support(model)),
    )


def _finish_epoch(state: TrainingState, task: Task) -> tuple[TrainingState, History]:
    """Estimate the validation free energy, keep the best model if the recipe asks for it, and note the epoch."""
    validation, recipe = task.validation, task.recipe
    row_weight = (jnp.arange(validation.x.shape[1]) < validation.n_rows).astype(validation.x.dtype)

    def one_run(model: Model, x: Array, y: Array, key: Array) -> FreeEnergy:
        return free_energy(
            model,
            x,
            y,
            key=key,
            noise=recipe.noise,
            n_data=task.train.n_rows,
            row_weight=row_weight,
            walk=state.support.walk,
        )

    def evaluate() -> FreeEnergy:
        keys = _stream(state.key, _VALIDATION, state.epoch)
        return jax.vmap(one_run)(state.model, validation.x, validation.y, keys)

    due = (state.epoch % task.validate_every == 0) | (state.epoch == task.epochs - 1)
    terms = lax.cond(due, evaluate, lambda: state.validated)
    best, best_free_energy = state.best, state.best_free_energy
    if recipe.keep == "lowest_free_energy":
        total = terms.total
        better = total < best_free_energy
        best_free_energy = jnp.where(better, total, best_free_energy)
        best = jax.tree.map(
            lambda new, old: jnp.where(better.reshape(-1, *[1] * (new.ndim - 1)), new, old), state.model, best
        )
    n_depths = state.model.n_depths
    q = state.model.depth_posterior
    row = History(
        terms.expected_nll,
        terms.depth_kl,
        terms.weight_kl,
        jax.vmap(lambda q: q.mean(n_depths))(q),
        jnp.sqrt(jax.vmap(lambda q: q.variance(n_depths))(q)),
        state.support.lowest,
        state.support.highest,
    )
    state = eqx.tree_at(
        lambda s: (s.best, s.best_free_energy, s.validated, s.epoch, s.step),
        state,
        (best, best_free_energy, terms, state.epoch + 1, jnp.array(0)),
    )
    return state, row


def _shuffled(train: Data, key: Key[Array, ""]) -> Int[Array, " rows"]:
    """The rows in random order, the padding last."""
    n = train.x.shape[1]
    return jnp.argsort(jnp.where(jnp.arange(n) < train.n_rows, jax.random.uniform(key, (n,)), 1.0))


def _stream(key: Key[Array, " runs"], purpose: int, epoch: Int[Array, ""]) -> Key[Array, " runs"]:
    return jax.vmap(lambda key: jax.random.fold_in(jax.random.fold_in(key, purpose), epoch))(key)
