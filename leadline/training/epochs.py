"""Whole epochs in one compiled call."""

from collections.abc import Mapping
from functools import partial
from types import MappingProxyType
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array, Bool, Float, Int, Key

from leadline.backend.compilation import jit, jit_lightly
from leadline.backend.device import backend
from leadline.backend.loops import choose, do_if, put_row, row
from leadline.backend.numerics import AnyArray, Precision, computing_in
from leadline.backend.random import bits, fold_in
from leadline.backend.sharding import Sharing, on_all
from leadline.inference.free_energy import terms_by_depth, terms_down_to
from leadline.inference.model import Model
from leadline.inference.montecarlo import Estimate, over_draws
from leadline.inference.recipes import Recipe
from leadline.training.augmentation import Augmentation
from leadline.training.data import Data, Part
from leadline.training.optimiser import update
from leadline.training.pace import Clock
from leadline.training.state import TrainingState, Validated, find_support

MAX_EPOCHS = 512
"""Epochs in one compiled call, at most: the rows of its history."""

SLOWER = 0.3
"""What is left of a run's learning rates each time that it diverges."""

MOST_SLOWED = 3
"""Times that a run may diverge."""

# A run's random stream: its key, folded with what the draw is for, then with the epoch and the step.
_ORDER, _NOISE, _VALIDATION, _AUGMENTATION = range(4)


class History(eqx.Module):
    """What is noted after every epoch, for every run.

    The expected NLL is that of the validation part, scaled to the size of the training part, so that the terms add up.
    The three terms and the validation NLL, that of the prediction in nats per row, are as of the last epoch that was
    validated.
    """

    validation_nll: Float[AnyArray, "*epochs runs"]
    expected_nll: Float[AnyArray, "*epochs runs"]
    depth_kl: Float[AnyArray, "*epochs runs"]
    weight_kl: Float[AnyArray, "*epochs runs"]
    depth_mean: Float[AnyArray, "*epochs runs"]
    depth_std: Float[AnyArray, "*epochs runs"]
    lowest: Int[AnyArray, "*epochs runs"]
    highest: Int[AnyArray, "*epochs runs"]

    @classmethod
    def zeros(cls, n_epochs: int, n_runs: int, numpy: Any = jnp) -> "History":
        columns, counts = (
            numpy.zeros((n_epochs, n_runs), jax.dtypes.canonicalize_dtype(kind)) for kind in (float, int)
        )
        return cls(*[columns] * 6, *[counts] * 2)

    def columns(self, in_units: Mapping[str, Any] = MappingProxyType({})) -> dict[str, Any]:
        """Under the names of the record, with what is to be added for the targets' own units."""
        columns = dict(vars(self))
        support = np.stack([columns.pop("lowest"), columns.pop("highest")], axis=-1)
        free_energy = self.expected_nll + self.depth_kl + self.weight_kl
        columns = {"free_energy": free_energy, **columns, "depth_support": support}
        return columns | {name: columns[name] + more for name, more in in_units.items()}


class Plan(eqx.Module):
    """What stays as it is through a compiled call. Sizes and static fields decide the program; the rest is data."""

    data: Data
    table: Int[Array, " runs"]
    """Each run's."""
    train: Part
    validation: Part
    clock: Clock
    validate_every: Int[Array, ""]
    """The validation part is looked at after the first epoch, after every so many more, and after a run's last."""
    learning_rate: Float[Array, ""]
    depth_learning_rate: Float[Array, ""]
    recipe: Recipe = eqx.field(static=True)
    batch_size: int = eqx.field(static=True)
    n_samples: int = eqx.field(static=True, default=1)
    """Draws of the noise behind a look at the validation part."""
    augmentation: Augmentation | None = eqx.field(static=True, default=None)
    steps_per_epoch: int | None = eqx.field(static=True, default=None)
    """Where loops have to know their length; on a CPU a table of another size needs no other program."""
    sharing: Sharing | None = eqx.field(static=True, default=None)
    """What several devices share, if they do."""

    def take(self, rows: Int[Array, "runs n"]) -> tuple[Array, Array, Array]:
        """Those rows of every run's table."""
        taken = self.data.take(self.table, rows)
        return taken if self.sharing is None else self.sharing.batch(taken)

    precision: Precision = eqx.field(static=True, default="float32")
    """Of the factors of matrix products in a step."""

    def n_data(self) -> Float[Array, " runs"]:
        """How many rows a run trains on, counted by their weights."""
        _, _, weight = self.take(self.train.rows)
        return (weight * self.train.inside()).sum(axis=1)


def _train_epochs(plan: Plan, state: TrainingState, n_epochs: Int[Array, ""]) -> tuple[TrainingState, History]:
    """Train for up to `n_epochs` (at most MAX_EPOCHS); stop early, even within an epoch, if q(L) outgrows the capacity.

    The rows of the history after the last finished epoch are zero.
    """
    if plan.sharing is None:
        return _epochs(plan, state, n_epochs)

    def shared(data: Data, own: tuple[Plan, Array, TrainingState]) -> tuple[TrainingState, History]:
        plan, n_epochs, state = own
        return _epochs(eqx.tree_at(_data, plan, data, is_leaf=lambda node: node is None), state, n_epochs)

    without = eqx.tree_at(_data, plan, None)
    return plan.sharing.run(shared, plan.data, (without, n_epochs, state))


def _data(plan: Plan) -> Data:
    return plan.data


def _epochs(plan: Plan, state: TrainingState, n_epochs: Int[Array, ""]) -> tuple[TrainingState, History]:
    start, n_data = state.epoch, plan.n_data()

    def go_on(loop: tuple[TrainingState, History]) -> Array:
        state, _ = loop
        return (state.epoch < start + n_epochs) & state.support.fits

    def one_epoch(loop: tuple[TrainingState, History]) -> tuple[TrainingState, History]:
        state, history = loop
        state = _train_epoch(state, plan, n_data)

        def finish() -> tuple[TrainingState, History]:
            done, row = _finish_epoch(state, plan, n_data)
            return done, put_row(history, row, state.epoch - start)

        return do_if(state.support.fits, finish, (state, history))

    return lax.while_loop(go_on, one_epoch, (state, History.zeros(MAX_EPOCHS, len(state.key))))


train_epochs = jit(_train_epochs, donate="all-except-first")

train_epochs_lightly = jit_lightly(_train_epochs, donate="all-except-first")
"""For short trainings: sooner compiled, a little slower."""


def _train_epoch(state: TrainingState, plan: Plan, n_data: Float[Array, " runs"]) -> TrainingState:
    """All steps of an epoch from `state.step` on, over the rows in an order of the epoch's own."""
    train, batch_size = plan.train, plan.batch_size
    n_steps = -(-train.n_rows // batch_size)
    order = jax.vmap(partial(_shuffled, train.n_rows))(_stream(state.key, _ORDER, state.epoch), train.rows)
    padded = jnp.pad(order, ((0, 0), (0, batch_size)))

    unfinished = state.epoch < plan.clock.end

    def go_on(state: TrainingState) -> Array:
        return (state.step < n_steps) & state.support.fits

    slower = SLOWER**state.slowed

    def one_step(state: TrainingState, taken: Array) -> TrainingState:
        start = state.step * batch_size
        rows = lax.dynamic_slice_in_dim(padded, start, batch_size, axis=1)
        x, y, weight = plan.take(rows)
        weight = weight * (start + jnp.arange(batch_size) < train.n_rows)
        if plan.augmentation is not None:
            draws = jax.vmap(fold_in, (0, None))(_stream(state.key, _AUGMENTATION, state.epoch), state.step)
            x = jax.vmap(plan.augmentation)(x, draws)
        keys = jax.vmap(fold_in, (0, None))(_stream(state.key, _NOISE, state.epoch), state.step)
        share = plan.clock.at(state.epoch + state.step / n_steps)
        rate = slower * plan.learning_rate * plan.recipe.rate_factor(share)
        rates = (rate, slower * plan.depth_learning_rate)
        with computing_in(plan.precision):
            new = train_step(state, x, y, weight, n_data, keys, share, rates, plan.recipe, taken & unfinished)
        return eqx.tree_at(lambda s: s.step, new, state.step + taken)

    if backend().loops_are_dynamic:
        return lax.while_loop(go_on, lambda state: one_step(state, jnp.array(True)), state)
    assert plan.steps_per_epoch is not None
    return lax.fori_loop(0, plan.steps_per_epoch, lambda _, state: one_step(state, go_on(state)), state)


def train_step(
    state: TrainingState,
    x: Float[Array, "runs batch in"],
    y: Array,
    row_weight: Float[Array, "runs batch"],
    n_data: Float[Array, " runs"],
    key: Key[Array, " runs"],
    share: Float[Array, "*runs"],
    rates: tuple[Float[Array, "*runs"], Float[Array, "*runs"]],
    recipe: Recipe,
    moving: bool | Bool[Array, "*runs"] = True,
) -> TrainingState:
    """One step of the optimiser on (batch / n_data) F for every run, at a share of the whole training, with the rates
    of the weights and of q(L). A run that is not `moving` does not change.

    The terms of F are those of each run alone; only the length of the layer loop is one for all (`_highest`).
    """
    highest, axis = _highest(state)
    share, rates = jax.tree.map(lambda a: jnp.broadcast_to(a, key.shape), (share, rates))
    moving = jnp.broadcast_to(moving, key.shape)
    model = jax.vmap(Model.scheduled)(state.model, share)

    # The published objective has no weight KL: it is left out, not multiplied by 0.
    temperature = state.temperature * recipe.kl_factor(share) if recipe.temperature else None

    def objective(model: Model, batch: tuple[Array, ...], key: Array, temperature: Any, highest: Array) -> Array:
        x, y, row_weight, n_data = batch
        terms = terms_down_to(highest, model, x, y, key=key, draw=recipe.draw, n_data=n_data, row_weight=row_weight)
        return row_weight.sum() / n_data * terms.tempered(0.0 if temperature is None else temperature)

    gradients = jax.vmap(eqx.filter_grad(objective), (0, 0, 0, 0, axis))(
        model, (x, y, row_weight, n_data), key, temperature, highest
    )
    support = state.support
    step = partial(update, highest=support.deepest, optimiser=recipe.directions)
    model, optimiser = jax.vmap(step)(
        model, gradients, state.optimiser, rates, (support.lowest, support.highest), moving
    )
    if recipe.unfreeze:
        unfrozen = jax.vmap(lambda q: q.unfrozen())(model.depth_posterior)
        model = eqx.tree_at(lambda m: m.depth_posterior, model, unfrozen)
    return eqx.tree_at(lambda s: (s.model, s.optimiser, s.support), state, (model, optimiser, find_support(model)))


def _highest(state: TrainingState) -> tuple[Int[Array, "*runs"], int | None]:
    """The depth to go to, and its axis under `jax.vmap`.

    One for all runs, the deepest's, where the layer loop is a loop, which must not be batched; else each run's own.
    """
    if backend().loops_are_dynamic:
        return state.support.deepest, None
    return state.support.highest, 0


def _finish_epoch(state: TrainingState, plan: Plan, n_data: Float[Array, " runs"]) -> tuple[TrainingState, History]:
    """Look at the validation part, keep the best model if the recipe asks for it, and note the epoch."""
    recipe = plan.recipe

    def look() -> Validated:
        keys = _stream(state.key, _VALIDATION, state.epoch)
        x, y, weight = plan.take(plan.validation.rows)
        weight = weight * plan.validation.inside()
        highest, axis = _highest(state)

        def validate(model: Model, x: Array, y: Array, weight: Array, n_data: Array, key: Array, highest: Array) -> Any:
            estimate = _Validation(weight, n_data, highest)
            drawn = {"n_samples": plan.n_samples, "highest": highest, "draw": recipe.draw}
            return over_draws(estimate, model, x, y, key=key, **drawn)

        return jax.vmap(validate, (*[0] * 6, axis))(state.model, x, y, weight, n_data, keys, highest)

    none_ends = on_all(jnp.all(state.epoch != plan.clock.end - 1))
    due = (state.epoch % plan.validate_every == 0) | ~none_ends
    validated = lax.cond(due, look, lambda: state.validated)
    terms = validated.terms
    best, best_free_energy = state.best, state.best_free_energy
    if recipe.keep == "lowest_free_energy":
        total = terms.total
        better = (total < best_free_energy) & (state.epoch < plan.clock.end)
        best_free_energy = jnp.where(better, total, best_free_energy)
        best = choose(better, state.model, best)
    q, n_depths, support = state.model.depth_posterior, state.model.n_depths, state.support
    mean = jax.vmap(lambda q: q.mean(n_depths))(q)
    std = jnp.sqrt(jax.vmap(lambda q: q.variance(n_depths))(q))
    row = History(
        validated.nll, terms.expected_nll, terms.depth_kl, terms.weight_kl, mean, std, support.lowest, support.highest
    )
    state = eqx.tree_at(
        lambda s: (s.best, s.best_free_energy, s.validated, s.epoch, s.step),
        state,
        (best, best_free_energy, validated, state.epoch + 1, jnp.zeros_like(state.step)),
    )
    return state, row


class _Validation(Estimate):
    """The free energy as if the rows stood for the training part, and the NLL of the prediction."""

    weight: Float[Array, " rows"]
    n_data: Float[Array, ""]
    highest: Int[Array, ""]

    def read(self, fixed: Array, likelihood: Any, output: Array) -> Array:
        return likelihood.log_prob(output, fixed)

    def start(self, model: Model, x: Array, n_samples: int) -> tuple[Any, tuple[Array, Array, Array]]:
        log_q = model.depth_posterior.log_masses(model.n_depths)
        zeros = jnp.zeros(model.capacity + 1, x.dtype)
        return (model, log_q), (zeros, jnp.full(x.shape[0], -jnp.inf, x.dtype), zeros)

    def add(self, same: Any, total: Any, i: Array, values: Array, weight_kl: Array) -> tuple[Array, Array, Array]:
        (model, log_q), (nll, log_mean, _) = same, total
        if backend().loops_are_dynamic:  # depth by depth, so that the sum rounds alike before and after growth
            log_mean = lax.fori_loop(
                0, self.highest + 1, lambda i, total: jnp.logaddexp(total, sum(row((log_q, values), i))), log_mean
            )
        else:
            at_any = jax.nn.logsumexp(log_q[: model.capacity + 1, None] + values, axis=0)
            log_mean = jnp.logaddexp(log_mean, at_any)
        return nll - values @ self.weight, log_mean, weight_kl

    def end(self, same: Any, total: Any, n_samples: int) -> Validated:
        (model, _), (nll, log_mean, weight_kl) = same, total
        n_rows = self.weight.sum()
        terms = terms_by_depth(model, self.n_data / n_rows * nll / n_samples, weight_kl)
        return Validated(terms, -jnp.sum(self.weight * (log_mean - jnp.log(n_samples))) / n_rows)


def _shuffled(n_rows: Int[Array, ""], key: Key[Array, ""], rows: Int[Array, " rows"]) -> Int[Array, " rows"]:
    """The rows in random order, the padding last."""
    inside = jnp.arange(rows.shape[0]) < n_rows
    place, _ = bits(key, rows.shape)
    return rows[jnp.lexsort((place, ~inside))]


def _stream(key: Key[Array, " runs"], purpose: int, epoch: Int[Array, ""]) -> Key[Array, " runs"]:
    return jax.vmap(lambda key: fold_in(fold_in(key, purpose), epoch))(key)
