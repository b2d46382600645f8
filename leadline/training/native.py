"""Whole epochs by the engine: `train_epochs` without a compiler."""

from dataclasses import replace
from typing import Any

import equinox as eqx
import jax
import numpy as np
import optax

from leadline.backend.device import n_threads
from leadline.backend.native import library
from leadline.inference import native
from leadline.inference.free_energy import FreeEnergy
from leadline.inference.model import Model
from leadline.inference.recipes import Recipe
from leadline.training.epochs import SLOWER, History, Plan
from leadline.training.optimiser import OptimiserState
from leadline.training.state import TrainingState, Validated, native_support


def suits(model: Model, recipe: Recipe) -> bool:
    """Whether the engine trains such models: with Adam and the schedules of a `Recipe`, and not those of a subclass."""
    return native.suits(model) and type(recipe) is Recipe and recipe.optimiser is None and recipe.schedule is None


def init_state(model: Model, key: Any, temperature: Any) -> TrainingState:
    """As `state.init_state`, for the engine: all arrays are NumPy's."""
    model = jax.tree.map(np.asarray, model).pack()
    n_runs = model.runs[0]
    zeros = np.zeros(n_runs, np.float32)

    def adam(part: Any, axes: int = 1) -> optax.ScaleByAdamState:
        learned = jax.tree.map(lambda a: np.zeros_like(a) if a.dtype == np.float32 else None, part)
        stack = next((a.shape[:axes] for a in jax.tree.leaves(part)), (n_runs,))
        return optax.ScaleByAdamState(np.zeros(stack, np.int32), learned, jax.tree.map(np.copy, learned))  # pyright: ignore[reportArgumentType]

    first, deeper = model.network.first, model.network.deeper
    optimiser = OptimiserState(
        first={"layer": adam(first.layer), "head": adam(first.head)},
        deeper={"layer": adam(deeper.layer, 2), "head": adam(deeper.head, 2)},
        likelihood=adam(model.likelihood),
        depth_posterior=adam(model.depth_posterior),
    )
    return TrainingState(
        model=model,
        optimiser=optimiser,
        best=model,
        key=key,
        best_free_energy=np.full(n_runs, np.inf, np.float32),
        validated=Validated(FreeEnergy(zeros, zeros, zeros), zeros),
        temperature=_floats(temperature),
        slowed=np.zeros(n_runs, np.int32),
        epoch=np.zeros((), np.int32),
        step=np.zeros((), np.int32),
        support=native_support(model),
    )


def train_epochs(plan: Plan, state: TrainingState, n_epochs: Any) -> tuple[TrainingState, History]:
    """As `epochs.train_epochs`: up to so many epochs, fewer if q(L) outgrows the stored layers.

    Runs go their way alone; where one outgrows them, all are trained again up to that very step.
    """
    trained, history, reached = _train(plan, state, int(n_epochs))
    if not reached[:, 2].all():
        first = min((int(epoch), int(step)) for epoch, step, fits in reached if not fits)
        trained, history, reached = _train(plan, state, int(n_epochs), first)
        assert (reached[:, :2] == first).all()
    return trained, history


def _train(
    plan: Plan, state: TrainingState, n_epochs: int, stop: tuple[int, int] = (-1, -1)
) -> tuple[TrainingState, History, np.ndarray]:
    n_runs, epoch = state.key.shape[0], int(state.epoch)
    moving = _Moving(state)
    described = native.describe(state.model, native.key_words(state.key), moving.numbers, moving.optimiser)
    validated = np.stack([*_terms(state.validated), np.asarray(state.validated.nll)], axis=1).astype(np.float32)
    best_free_energy = np.array(state.best_free_energy, np.float32)
    columns = np.zeros((n_epochs, n_runs, 6), np.float32)
    supports = np.zeros((n_epochs, n_runs, 2), np.int32)
    reached = np.zeros((n_runs, 3), np.int32)
    recipe, clock = plan.recipe, plan.clock
    given = {  # kept until the engine is done
        "table": _ints(plan.table),
        "slowed": _ints(state.slowed),
        "temperature": _floats(state.temperature),
        "clock_start": _ints(clock.start),
        "clock_end": _ints(clock.end),
        "clock_length": _floats(clock.length),
        "validated": validated,
        "best_free_energy": best_free_energy,
        "history": columns,
        "history_support": supports,
        "reached": reached,
    }
    x, y, weight = _floats(plan.data.x), np.asarray(plan.data.y), _floats(plan.data.weight)
    is_class = y.dtype.kind in "iu"
    targets = {"label" if is_class else "y": _ints(y) if is_class else _floats(y)}
    rows = {name: _ints(getattr(plan, name).rows) for name in ("train", "validation")}
    library.engine().leadline_train(
        library.Plan(
            network=described.network,
            data=library.Rows(
                x=library.at(x),
                weight=library.at(weight),
                n_rows=x.shape[1],
                **{name: library.at(array) for name, array in targets.items()},
            ),
            **{
                name: library.Part(rows=library.at(a), n_rows=int(getattr(plan, name).n_rows), size=a.shape[1])
                for name, a in rows.items()
            },
            **{name: library.at(array) for name, array in given.items()},
            batch_size=plan.batch_size,
            n_samples=plan.n_samples,
            validate_every=int(plan.validate_every),
            draw=library.DRAWS[recipe.draw],
            unfreeze=recipe.unfreeze,
            keep_best=recipe.keep == "lowest_free_energy",
            has_temperature=recipe.temperature > 0,
            learning_rate=float(plan.learning_rate),
            depth_learning_rate=float(plan.depth_learning_rate),
            warm_up=recipe.warm_up,
            warm_up_power=recipe.warm_up_power,
            decay_from=recipe.decay_from,
            slower=SLOWER,
            epoch=epoch,
            step=int(state.step),
            end_epoch=epoch + n_epochs,
            stop_epoch=stop[0],
            stop_step=stop[1],
            n_threads=n_threads(),
        )
    )
    model, best, optimiser = moving.finish(described.arrays["opening"])
    first_epoch, first_step = (np.array(least, np.int32) for least in reached[:, :2].min(axis=0))
    trained = replace(
        state,
        model=model,
        best=best,
        optimiser=optimiser,
        best_free_energy=best_free_energy,
        validated=Validated(FreeEnergy(*validated[:, :3].T), validated[:, 3]),
        epoch=first_epoch,
        step=first_step,
        support=native_support(model),
    )
    return trained, History(*np.moveaxis(columns, -1, 0), *np.moveaxis(supports, -1, 0)), reached


class _Moving:
    """What the engine changes, as copies of its own: the numbers, the best so far, and Adam's moments and counts."""

    def __init__(self, state: TrainingState):
        model, best, optimiser = (
            jax.tree.map(lambda a: np.array(a, order="C"), part) for part in (state.model, state.best, state.optimiser)
        )
        self._parts = model, best, optimiser
        adam = {
            "first_layer": optimiser.first["layer"],
            "first_head": optimiser.first["head"],
            "deeper_layer": optimiser.deeper["layer"],
            "deeper_head": optimiser.deeper["head"],
        }
        self.numbers = {name: part.numbers for name, part in native.layers_of(model).items()}
        of_best = native.layers_of(best)
        self.optimiser = {
            name: {"mu": a.mu.numbers, "nu": a.nu.numbers, "count": a.count, "best": of_best[name].numbers}
            for name, a in adam.items()
        }
        n_runs = state.key.shape[0]
        small = {
            "noise": (model.likelihood, best.likelihood, optimiser.likelihood),
            "depth": (model.depth_posterior, best.depth_posterior, optimiser.depth_posterior),
        }
        for name, (part, kept, a) in small.items():
            self.numbers[name] = native.numbers_of(part, n_runs)
            mu, nu, own = (native.numbers_of(tree, n_runs) for tree in (a.mu, a.nu, kept))
            self.optimiser[name] = {"mu": mu, "nu": nu, "count": a.count, "best": own}
        if hasattr(best.likelihood, "opening"):
            self.optimiser["noise"]["best_opening"] = np.array(best.likelihood.opening, np.int32)

    def finish(self, opening: np.ndarray) -> tuple[Any, Any, Any]:
        """The model, the best and the optimiser, with what the engine wrote."""
        model, best, optimiser = self._parts
        noise, depth = (self.optimiser[name] for name in ("noise", "depth"))
        likelihood, kept = _with(model.likelihood, self.numbers["noise"]), _with(best.likelihood, noise["best"])
        if hasattr(likelihood, "opening"):
            likelihood = eqx.tree_at(lambda one: one.opening, likelihood, opening)
            kept = eqx.tree_at(lambda one: one.opening, kept, noise["best_opening"])
        posterior = _with(model.depth_posterior, self.numbers["depth"])
        model = replace(model, likelihood=likelihood, depth_posterior=posterior)
        best = replace(best, likelihood=kept, depth_posterior=_with(best.depth_posterior, depth["best"]))
        adam = [
            a._replace(mu=_with(a.mu, own["mu"]), nu=_with(a.nu, own["nu"]))
            for a, own in ((optimiser.likelihood, noise), (optimiser.depth_posterior, depth))
        ]
        return model, best, replace(optimiser, likelihood=adam[0], depth_posterior=adam[1])


def _with(part: Any, numbers: np.ndarray) -> Any:
    """The part with these learned numbers, [runs, n], in the place of its own."""
    arrays, structure = jax.tree.flatten(part)
    start, new = 0, []
    for array in arrays:
        if array.dtype != np.float32:
            new.append(array)
            continue
        n = array[0].size
        new.append(np.ascontiguousarray(numbers[:, start : start + n]).reshape(array.shape))
        start += n
    return jax.tree.unflatten(structure, new)


def _terms(validated: Validated) -> list[np.ndarray]:
    terms = validated.terms
    return [np.asarray(a) for a in (terms.expected_nll, terms.depth_kl, terms.weight_kl)]


def _ints(array: Any) -> np.ndarray:
    return np.ascontiguousarray(array, np.int32)


def _floats(array: Any) -> np.ndarray:
    return np.ascontiguousarray(array, np.float32)
