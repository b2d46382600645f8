"""Adam with a step count per layer, for the layers inside the support alone."""

import equinox as eqx
import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Bool, Float, Int, PyTree

from leadline import _loops
from leadline._loops import update_rows
from leadline.model import Model
from leadline.network import Block

ADAM = optax.scale_by_adam()
"""Kingma & Ba (2015) with their constants; the learning rate is multiplied on, because it may change."""


class OptimiserState(eqx.Module):
    """Adam's moments and step counts: one Adam for every layer and head, one for the likelihood, one for q(L).

    A single count for the whole network would correct the moments of a layer that enters late as if it had been trained
    from the start; the learned depth depends on this (4 instead of 3 on the fast spirals).
    """

    first: PyTree
    deeper: PyTree
    likelihood: PyTree
    depth_posterior: PyTree


def init_optimiser(model: Model) -> OptimiserState:
    params = eqx.filter(model, eqx.is_inexact_array)
    return OptimiserState(
        first=_init_block(params.network.first),
        deeper=init_deeper(params.network.deeper),
        likelihood=ADAM.init(params.likelihood),
        depth_posterior=ADAM.init(params.depth_posterior),
    )


def init_deeper(deeper: Block) -> PyTree:
    """Adam's state for a stack of blocks."""
    return jax.vmap(_init_block)(deeper)


def update(
    model: Model,
    gradients: Model,
    state: OptimiserState,
    *,
    rate: float | Float[Array, ""],
    depth_rate: float | Float[Array, ""],
    support: tuple[Int[Array, ""], Int[Array, ""]],
    highest: Int[Array, ""],
    go: bool | Bool[Array, ""] = True,
) -> tuple[Model, OptimiserState]:
    """One Adam step. Layers up to the run's support and heads inside it move, with their moments and counts; the others
    stay, and without `go` all. `highest` bounds the loop for all runs trained side by side."""
    lowest_head, highest_head = support
    go = jnp.asarray(go)

    def active(depth: Array) -> tuple[Array, Array]:
        """Whether the layer and the head at a depth take part."""
        layer = go & (depth <= highest_head)
        return layer, layer & (depth >= lowest_head)

    first, deeper = model.network.first, model.network.deeper
    if _loops.has_kernels():
        gradient, moments, block = jax.tree.map(lambda a: a[None], (gradients.network.first, state.first, first))
        updated = _update_blocks(rate, gradient, moments, block, *active(jnp.arange(1)))
        first, first_state = jax.tree.map(lambda a: a[0], updated)
        rows = active(jnp.arange(1, model.capacity + 1))
        deeper, deeper_state = _update_blocks(rate, gradients.network.deeper, state.deeper, deeper, *rows)
    else:
        first, first_state = _update_block(rate, gradients.network.first, state.first, first, *active(jnp.array(0)))

        def update_row(i: Array, gradient: Block, row: tuple[Block, PyTree]) -> tuple[Block, PyTree]:
            block, block_state = row
            return _update_block(rate, gradient, block_state, block, *active(i + 1))

        deeper, deeper_state = update_rows(update_row, gradients.network.deeper, (deeper, state.deeper), highest)
    likelihood, likelihood_state = _step_if(go, rate, gradients.likelihood, state.likelihood, model.likelihood)
    depth_posterior, depth_state = _step_if(
        go, depth_rate, gradients.depth_posterior, state.depth_posterior, model.depth_posterior
    )
    model = eqx.tree_at(
        lambda m: (m.network.first, m.network.deeper, m.likelihood, m.depth_posterior),
        model,
        (first, deeper, likelihood, depth_posterior),
    )
    return model, OptimiserState(first_state, deeper_state, likelihood_state, depth_state)


def _step(rate: float | Float[Array, ""], gradient: PyTree, state: PyTree, params: PyTree) -> tuple[PyTree, PyTree]:
    directions, state = ADAM.update(gradient, state)
    return eqx.apply_updates(params, jax.tree.map(lambda d: -rate * d, directions)), state


def _step_if(
    active: Bool[Array, ""], rate: float | Float[Array, ""], gradient: PyTree, state: PyTree, params: PyTree
) -> tuple[PyTree, PyTree]:
    new = _step(rate, gradient, state, params)
    return jax.tree.map(lambda a, b: jnp.where(active, a, b), new, (params, state))


def _init_block(block: PyTree) -> PyTree:
    return {"layer": ADAM.init(block.layer), "head": ADAM.init(block.head)}


def _update_block(
    rate: float | Float[Array, ""],
    gradient: Block,
    state: PyTree,
    block: Block,
    layer_active: Bool[Array, ""],
    head_active: Bool[Array, ""],
) -> tuple[Block, PyTree]:
    layer, layer_state = _step_if(layer_active, rate, gradient.layer, state["layer"], block.layer)
    head, head_state = _step_if(head_active, rate, gradient.head, state["head"], block.head)
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
    """`_update_block` for a stack of packed blocks, by a kernel."""
    layer, layer_state = _step_rows(layer_active, rate, gradient.layer, state["layer"], blocks.layer)
    head, head_state = _step_rows(head_active, rate, gradient.head, state["head"], blocks.head)
    blocks = eqx.tree_at(lambda b: (b.layer, b.head), blocks, (layer, head))
    return blocks, {"layer": layer_state, "head": head_state}


def _step_rows(
    active: Bool[Array, " rows"], rate: float | Float[Array, ""], gradient: PyTree, state: PyTree, params: PyTree
) -> tuple[PyTree, PyTree]:
    """`_step_if` for a stack of rows."""
    from leadline import _kernels  # takes long to import

    def step(count: Array, gradient: Array, mu: Array, nu: Array, params: Array, rate: Array) -> tuple[Array, ...]:
        params, state = _step(rate, gradient, optax.ScaleByAdamState(count, mu, nu), params)
        return state.count, state.mu, state.nu, params

    arrays = [jax.tree.leaves(tree) for tree in (gradient, state.mu, state.nu, params)]
    [(gradients,), (mu,), (nu,), (numbers,)] = arrays  # packed
    count, new = _kernels.update_in_place(
        step, active, state.count, gradients, (mu, nu, numbers), jnp.asarray(rate, numbers.dtype)
    )
    mu, nu, params = (jax.tree.unflatten(jax.tree.structure(params), [a]) for a in new)
    return params, state._replace(count=count, mu=mu, nu=nu)
