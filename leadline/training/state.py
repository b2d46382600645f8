"""What training carries from step to step, and how it grows."""

from functools import partial

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, Key, PyTree

from leadline.distributions.base import interval
from leadline.model import Model
from leadline.network import UnboundedNetwork
from leadline.recipes import Recipe
from leadline.training.optimiser import OptimiserState, init_deeper, init_optimiser


class Support(eqx.Module):
    """Where q(L) has mass, for every run, and whether the stored layers hold it."""

    lowest: Int[Array, " runs"]
    highest: Int[Array, " runs"]
    fits: Bool[Array, ""]

    @property
    def walk(self) -> tuple[Int[Array, ""], Int[Array, ""]]:
        """The depths that some run needs."""
        return self.lowest.min(), self.highest.max()


class TrainingState(eqx.Module):
    """A batch of runs in training; every array of the models has a leading axis of runs. Positions are shared."""

    model: Model
    optimiser: OptimiserState
    best: Model
    best_free_energy: Float[Array, " runs"]
    key: Key[Array, " runs"]
    epoch: Int[Array, ""]
    step: Int[Array, ""]
    support: Support

    @property
    def capacity(self) -> int:
        return self.model.capacity


@eqx.filter_jit
def init_state(model: Model, key: Key[Array, " runs"], recipe: Recipe) -> TrainingState:
    return TrainingState(
        model=model,
        optimiser=jax.vmap(partial(init_optimiser, recipe=recipe))(model),
        best=jax.tree.map(jnp.copy, model),
        best_free_energy=jnp.full(key.shape, jnp.inf),
        key=key,
        epoch=jnp.array(0),
        step=jnp.array(0),
        support=find_support(model),
    )


def find_support(model: Model) -> Support:
    """The support of q(L) for every run. It fits if it begins within the stored depths and the next one has no mass."""
    n_depths = model.capacity + 2
    inside = jax.vmap(lambda q: q.log_masses(n_depths) > -jnp.inf)(model.depth_posterior)
    lowest, highest = jax.vmap(interval)(inside)
    fits = jnp.all(jnp.any(inside[:, :-1], axis=1) & ~inside[:, -1])
    return Support(lowest, jnp.minimum(highest, model.capacity), fits)


def _deeper(state: TrainingState) -> list[PyTree]:
    """All that has an axis of layers: runs, then capacity."""
    return [state.model.network.deeper, state.best.network.deeper, state.optimiser.deeper]


@eqx.filter_jit
def grow(state: TrainingState, fresh: UnboundedNetwork, recipe: Recipe) -> TrainingState:
    """Add the deeper blocks of `fresh`, a network of larger capacity; all that was there stays as it is."""
    fresh_blocks = jax.tree.map(lambda a: a[:, state.capacity :], fresh.deeper)
    fresh_optimiser = jax.vmap(partial(init_deeper, recipe=recipe))(fresh_blocks)
    more = [fresh_blocks, fresh_blocks, fresh_optimiser]
    grown = [
        jax.tree.map(lambda a, b: jnp.concatenate([a, b], axis=1), *pair)
        for pair in zip(_deeper(state), more, strict=True)
    ]
    state = eqx.tree_at(_deeper, state, grown)
    return eqx.tree_at(lambda s: s.support, state, find_support(state.model))
