"""Adam with a step count per layer, for the layers inside the support alone."""

import equinox as eqx
import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Bool, Float, Int, PyTree

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
) -> tuple[Model, OptimiserState]:
    """One Adam step. Layers up to the run's support and heads inside it move, with their moments and counts; the others
    stay. `highest` bounds the loop for all runs trained side by side."""
    lowest_head, highest_head = support

    first, first_state = _update_block(
        rate, gradients.network.first, state.first, model.network.first, jnp.array(True), lowest_head == 0
    )

    def update_row(i: Array, gradient: Block, row: tuple[Block, PyTree]) -> tuple[Block, PyTree]:
        depth = i + 1
        layer_active = depth <= highest_head
        head_active = layer_active & (depth >= lowest_head)
        block, block_state = row
        return _update_block(rate, gradient, block_state, block, layer_active, head_active)

    deeper, deeper_state = update_rows(
        update_row, gradients.network.deeper, (model.network.deeper, state.deeper), highest
    )
    likelihood, likelihood_state = _step(rate, gradients.likelihood, state.likelihood, model.likelihood)
    depth_posterior, depth_state = _step(
        depth_rate, gradients.depth_posterior, state.depth_posterior, model.depth_posterior
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
