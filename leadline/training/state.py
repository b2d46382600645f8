"""What training carries from step to step, and how it grows."""

from functools import partial
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int, Key, PyTree

from leadline.backend.compilation import jit
from leadline.backend.numerics import AnyArray
from leadline.backend.sharding import on_all
from leadline.depth.base import interval
from leadline.inference import native
from leadline.inference.free_energy import FreeEnergy
from leadline.inference.model import Model
from leadline.inference.recipes import ADAM
from leadline.training.optimiser import Optimiser, OptimiserState, init_optimiser


class Support(eqx.Module):
    """Where q(L) has mass, for every run, and whether the stored layers hold it."""

    lowest: Int[AnyArray, " runs"]
    highest: Int[AnyArray, " runs"]
    fits: Bool[AnyArray, ""]

    @property
    def deepest(self) -> Any:
        """The deepest depth that any run needs."""
        return self.highest.max()


class Validated(eqx.Module):
    """What the validation part says, for every run."""

    terms: FreeEnergy
    nll: Float[AnyArray, "*runs"]
    """Of the prediction (eq. 10), in nats per row."""


class TrainingState(eqx.Module):
    """A batch of runs in training; every array of the models has a leading axis of runs. Positions are shared.

    The models are packed (`Model.unpack` gives them back).
    """

    model: Model
    optimiser: OptimiserState
    best: Model
    best_free_energy: Float[AnyArray, " runs"]
    validated: Validated
    """As of the last epoch that was validated."""
    key: Key[Array, " runs"]
    temperature: Float[AnyArray, " runs"]
    slowed: Int[AnyArray, " runs"]
    """How often a run has diverged, and its learning rates were made smaller."""
    epoch: Int[AnyArray, ""]
    step: Int[AnyArray, ""]
    support: Support

    @property
    def capacity(self) -> int:
        return self.model.capacity

    @property
    def is_native(self) -> bool:
        """Whether it is the engine that trains it: its arrays are NumPy's."""
        return isinstance(self.epoch, np.ndarray)


@jit
def init_state(
    model: Model, key: Key[Array, " runs"], temperature: Float[Array, " runs"], optimiser: Optimiser = ADAM
) -> TrainingState:
    """Of a training that has not begun."""
    model = model.pack()
    return TrainingState(
        model=model,
        optimiser=jax.vmap(partial(init_optimiser, optimiser=optimiser))(model),
        best=jax.tree.map(jnp.copy, model),
        best_free_energy=jnp.full(key.shape, jnp.inf),
        validated=Validated(FreeEnergy(*jnp.zeros((3, *key.shape))), jnp.zeros(key.shape)),
        key=key,
        temperature=temperature,
        slowed=jnp.zeros(key.shape, int),
        epoch=jnp.zeros((), int),
        step=jnp.zeros((), int),
        support=find_support(model),
    )


def find_support(model: Model) -> Support:
    """The support of q(L) for every run, and whether it ends within the stored depths."""
    inside = jax.vmap(lambda q: q.log_masses(model.n_depths) > -jnp.inf)(model.depth_posterior)
    lowest, highest = jax.vmap(interval)(inside)
    fits = jnp.all(jnp.any(inside, axis=1) & (highest <= model.capacity))
    return Support(lowest, highest, on_all(fits))


def native_support(model: Model) -> Support:
    """The same by the engine."""
    lowest, highest, some = native.support(model)
    return Support(lowest, highest, np.array(np.all(some & (highest <= model.capacity))))


def _layered(state: TrainingState) -> list[PyTree]:
    """All that has an axis of layers, after that of runs."""
    return [state.model.network.deeper, state.best.network.deeper, state.optimiser.deeper]


def grow(state: TrainingState, layers: list[PyTree]) -> TrainingState:
    """Put layers below the stored ones; all that was there stays as it is."""
    if state.is_native:
        return _grown(state, layers, np.concatenate, native_support)
    return _grow(state, layers)


def _grown(state: TrainingState, layers: list[PyTree], join: Any, support: Any) -> TrainingState:
    grown = [
        jax.tree.map(lambda a, b: join([a, b], axis=1), *pair) for pair in zip(_layered(state), layers, strict=True)
    ]
    state = eqx.tree_at(_layered, state, grown)
    return eqx.tree_at(lambda s: s.support, state, support(state.model))


_grow = jit(lambda state, layers: _grown(state, layers, jnp.concatenate, find_support))


def shelve(state: TrainingState, capacity: int) -> tuple[TrainingState, list[PyTree]]:
    """Keep the first `capacity` layers in training; hand out the others, trained or not, for `grow` to put back."""
    kept, shelf = (
        [jax.tree.map(lambda a, part=part: a[:, part], layers) for layers in _layered(state)]
        for part in (slice(capacity), slice(capacity, None))
    )
    return eqx.tree_at(_layered, state, kept), shelf
