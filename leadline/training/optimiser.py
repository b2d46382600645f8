"""An optimiser for every layer, which moves inside the support alone."""

from collections.abc import Callable
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

Rate = float | Float[Array, ""]

Step = Callable[[Bool[Array, "..."], PyTree, PyTree, PyTree], tuple[PyTree, PyTree]]
"""(whether it is taken, gradient, state, parameters) -> parameters and state."""


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
    def init_block(block: PyTree) -> PyTree:
        return {"layer": optimiser.init(block.layer), "head": optimiser.init(block.head)}

    params = eqx.filter(model, eqx.is_inexact_array)
    return OptimiserState(
        first=init_block(params.network.first),
        deeper=jax.vmap(init_block)(params.network.deeper),
        likelihood=optimiser.init(params.likelihood),
        depth_posterior=optimiser.init(params.depth_posterior),
    )


def update(
    model: Model,
    gradients: Model,
    state: OptimiserState,
    rates: tuple[Rate, Rate],
    support: tuple[Int[Array, ""], Int[Array, ""]],
    moving: Bool[Array, ""],
    *,
    highest: Int[Array, ""],
    optimiser: Optimiser = ADAM,
) -> tuple[Model, OptimiserState]:
    """One step, with the rates of the weights and of q(L). Layers up to the run's support and heads inside it move,
    with their moments and counts; the others stay, and where it is not `moving` all. `highest` bounds the loop for all
    runs trained side by side."""
    rate, depth_rate = rates
    step = partial(_step_if, optimiser, rate)

    def active(depth: Array) -> tuple[Array, Array]:
        """Whether the layer and the head at a depth take part."""
        layer = moving & (depth <= support[1])
        return layer, layer & (depth >= support[0])

    network, given = model.network, gradients.network
    if network.first.has_kernel and backend().has_kernels and optimiser is ADAM:
        update_blocks = partial(_update_block, partial(_step_rows, rate))
        one = jax.tree.map(lambda a: a[None], (given.first, network.first, state.first))
        first = jax.tree.map(lambda a: a[0], update_blocks(active(jnp.arange(1)), *one))
        deeper = update_blocks(active(jnp.arange(1, model.capacity + 1)), given.deeper, network.deeper, state.deeper)
    else:
        update_block = partial(_update_block, step)
        first = update_block(active(jnp.array(0)), given.first, network.first, state.first)
        deeper = update_rows(
            lambda i, gradient, row: update_block(active(i + 1), gradient, *row),
            given.deeper,
            (network.deeper, state.deeper),
            highest,
        )
    likelihood = step(moving, gradients.likelihood, state.likelihood, model.likelihood)
    depth_posterior = _step_if(
        optimiser, depth_rate, moving, gradients.depth_posterior, state.depth_posterior, model.depth_posterior
    )
    new, states = zip(first, deeper, likelihood, depth_posterior, strict=True)
    parts = lambda m: (m.network.first, m.network.deeper, m.likelihood, m.depth_posterior)  # noqa: E731
    return eqx.tree_at(parts, model, new), OptimiserState(*states)


def _step(optimiser: Optimiser, rate: Rate, gradient: PyTree, state: PyTree, params: PyTree) -> tuple[PyTree, PyTree]:
    directions, state = optimiser.update(gradient, state, params)
    return eqx.apply_updates(params, jax.tree.map(lambda d: -rate * d, directions)), state


def _step_if(
    optimiser: Optimiser, rate: Rate, active: Bool[Array, ""], gradient: PyTree, state: PyTree, params: PyTree
) -> tuple[PyTree, PyTree]:
    new = _step(optimiser, rate, gradient, state, params)
    return jax.tree.map(lambda a, b: jnp.where(active, a, b), new, (params, state))


def _update_block(
    step: Step, active: tuple[Array, Array], gradient: Block, block: Block, state: PyTree
) -> tuple[Block, PyTree]:
    """A block, or a stack of them where the step takes one."""
    layer, layer_state = step(active[0], gradient.layer, state["layer"], block.layer)
    head, head_state = step(active[1], gradient.head, state["head"], block.head)
    block = eqx.tree_at(lambda b: (b.layer, b.head), block, (layer, head))
    return block, {"layer": layer_state, "head": head_state}


def _step_rows(
    rate: Rate, active: Bool[Array, " rows"], gradient: PyTree, state: PyTree, params: PyTree
) -> tuple[PyTree, PyTree]:
    """`_step_if` with Adam, for a stack of packed rows, by a kernel."""
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
