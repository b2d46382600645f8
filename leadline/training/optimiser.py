"""An optimiser for every layer, which moves inside the support alone."""

from functools import partial

import equinox as eqx
import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Bool, Float, Int, PyTree

from leadline.backend.device import backend
from leadline.backend.loops import update_rows
from leadline.inference.model import Model
from leadline.inference.recipes import ADAM
from leadline.network.blocks import Block

Optimiser = optax.GradientTransformation


class OptimiserState(eqx.Module):
    """Moments and step counts (Adam's): those of every layer and head, of the likelihood, and of q(L).

    A single count for the whole network would correct the moments of a layer that enters late as if it had been trained
    from the start; the learned depth depends on this (4 instead of 3 on the fast spirals).
    """

    first: PyTree
    deeper: PyTree
    likelihood: PyTree
    depth_posterior: PyTree


def init_optimiser(model: Model, optimiser: Optimiser = ADAM) -> OptimiserState:
    params = eqx.filter(model, eqx.is_inexact_array)
    return OptimiserState(
        first=_init_block(optimiser, params.network.first),
        deeper=init_deeper(params.network.deeper, optimiser),
        likelihood=optimiser.init(params.likelihood),
        depth_posterior=optimiser.init(params.depth_posterior),
    )


def init_deeper(deeper: Block, optimiser: Optimiser = ADAM) -> PyTree:
    """The optimiser's state for a stack of blocks."""
    return jax.vmap(partial(_init_block, optimiser))(deeper)


def update(
    model: Model,
    gradients: Model,
    state: OptimiserState,
    *,
    rate: float | Float[Array, ""],
    depth_rate: float | Float[Array, ""],
    support: tuple[Int[Array, ""], Int[Array, ""]],
    highest: Int[Array, ""],
    moving: bool | Bool[Array, ""] = True,
    optimiser: Optimiser = ADAM,
) -> tuple[Model, OptimiserState]:
    """One step. Layers up to the run's support and heads inside it move, with their moments and counts; the others
    stay, and where it is not `moving` all. `highest` bounds the loop for all runs trained side by side."""
    lowest_head, highest_head = support
    moving = jnp.asarray(moving)
    step_if, update_block = partial(_step_if, optimiser), partial(_update_block, optimiser)

    def active(depth: Array) -> tuple[Array, Array]:
        """Whether the layer and the head at a depth take part."""
        layer = moving & (depth <= highest_head)
        return layer, layer & (depth >= lowest_head)

    first, deeper = model.network.first, model.network.deeper
    if model.network.first.has_kernel and backend().has_kernels and optimiser is ADAM:
        gradient, moments, block = jax.tree.map(lambda a: a[None], (gradients.network.first, state.first, first))
        updated = _update_blocks(rate, gradient, moments, block, *active(jnp.arange(1)))
        first, first_state = jax.tree.map(lambda a: a[0], updated)
        rows = active(jnp.arange(1, model.capacity + 1))
        deeper, deeper_state = _update_blocks(rate, gradients.network.deeper, state.deeper, deeper, *rows)
    else:
        first, first_state = update_block(rate, gradients.network.first, state.first, first, *active(jnp.array(0)))

        def update_row(i: Array, gradient: Block, row: tuple[Block, PyTree]) -> tuple[Block, PyTree]:
            block, block_state = row
            return update_block(rate, gradient, block_state, block, *active(i + 1))

        deeper, deeper_state = update_rows(update_row, gradients.network.deeper, (deeper, state.deeper), highest)
    likelihood, likelihood_state = step_if(moving, rate, gradients.likelihood, state.likelihood, model.likelihood)
    depth_posterior, depth_state = step_if(
        moving, depth_rate, gradients.depth_posterior, state.depth_posterior, model.depth_posterior
    )
    model = eqx.tree_at(
        lambda m: (m.network.first, m.network.deeper, m.likelihood, m.depth_posterior),
        model,
        (first, deeper, likelihood, depth_posterior),
    )
    return model, OptimiserState(first_state, deeper_state, likelihood_state, depth_state)


def _step(
    optimiser: Optimiser, rate: float | Float[Array, ""], gradient: PyTree, state: PyTree, params: PyTree
) -> tuple[PyTree, PyTree]:
    directions, state = optimiser.update(gradient, state, params)
    return eqx.apply_updates(params, jax.tree.map(lambda d: -rate * d, directions)), state


def _step_if(
    optimiser: Optimiser,
    active: Bool[Array, ""],
    rate: float | Float[Array, ""],
    gradient: PyTree,
    state: PyTree,
    params: PyTree,
) -> tuple[PyTree, PyTree]:
    new = _step(optimiser, rate, gradient, state, params)
    return jax.tree.map(lambda a, b: jnp.where(active, a, b), new, (params, state))


def _init_block(optimiser: Optimiser, block: PyTree) -> PyTree:
    return {"layer": optimiser.init(block.layer), "head": optimiser.init(block.head)}


def _update_block(
    optimiser: Optimiser,
    rate: float | Float[Array, ""],
    gradient: Block,
    state: PyTree,
    block: Block,
    layer_active: Bool[Array, ""],
    head_active: Bool[Array, ""],
) -> tuple[Block, PyTree]:
    layer, layer_state = _step_if(optimiser, layer_active, rate, gradient.layer, state["layer"], block.layer)
    head, head_state = _step_if(optimiser, head_active, rate, gradient.head, state["head"], block.head)
    block = eqx.tree_at(lambda b: (b.layer, b.head), block, (layer, head))
    return block, {"layer": layer_state, "head": head_state}


def _update_blocks(
    rate: float | Float[Array, ""],
    gradient: Block,
    state: PyTree,
    blocks: Block,
    layer_active: Bool[Array, " rows"],
    head_active: Bool[Array, " rows"],
) -> tuple[Block, PyTree]:
    """`_update_block` with Adam, for a stack of packed blocks, by a kernel."""
    layer, layer_state = _step_rows(layer_active, rate, gradient.layer, state["layer"], blocks.layer)
    head, head_state = _step_rows(head_active, rate, gradient.head, state["head"], blocks.head)
    blocks = eqx.tree_at(lambda b: (b.layer, b.head), blocks, (layer, head))
    return blocks, {"layer": layer_state, "head": head_state}


def _step_rows(
    active: Bool[Array, " rows"], rate: float | Float[Array, ""], gradient: PyTree, state: PyTree, params: PyTree
) -> tuple[PyTree, PyTree]:
    """`_step_if` for a stack of rows."""
    from leadline.backend import kernels  # takes long to import

    def step(count: Array, gradient: Array, mu: Array, nu: Array, params: Array, rate: Array) -> tuple[Array, ...]:
        params, state = _step(ADAM, rate, gradient, optax.ScaleByAdamState(count, mu, nu), params)
        return state.count, state.mu, state.nu, params

    arrays = [jax.tree.leaves(tree) for tree in (gradient, state.mu, state.nu, params)]
    [(gradients,), (mu,), (nu,), (numbers,)] = arrays  # packed
    count, new = kernels.update_in_place(
        step, active, state.count, gradients, (mu, nu, numbers), jnp.asarray(rate, numbers.dtype)
    )
    mu, nu, params = (jax.tree.unflatten(jax.tree.structure(params), [a]) for a in new)
    return params, state._replace(count=count, mu=mu, nu=nu)
