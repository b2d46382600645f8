"""Walks over a stack of layers whose number is data.

On a CPU the loops really are that long, so that the cost follows the layers in use, not the layers in store. An
accelerator would wait for the host at every turn of such a loop. There, small networks are walked by kernels
(`kernels.py`); for others all layers are walked, unrolled, and those beyond the length are masked. All give the same
numbers.
"""

from collections.abc import Callable
from functools import partial
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.custom_batching import custom_vmap
from jaxtyping import Array, Bool, Int, PyTree

from leadline.backend.device import backend
from leadline.backend.numerics import AnyArray

Length = Int[Array, ""]

Scanned = tuple[PyTree, PyTree]
"""The last carry, and a row of everything."""

Body = Callable[[Any, PyTree, PyTree, PyTree, PyTree], Scanned]

KEPT = "kept"
"""The name (`jax.ad_checkpoint.checkpoint_name`) of what a body has computed and its reverse pass should not again."""

_POLICY = jax.checkpoint_policies.save_only_these_names(KEPT)


def row(stack: PyTree, i: Int[Array, ""]) -> PyTree:
    """Row i of every array in a pytree of stacks."""
    return jax.tree.map(lambda a: _row(a, i), stack)


def put_row(stack: PyTree, value: PyTree, i: Int[Array, ""]) -> PyTree:
    """The stacks with row i replaced."""
    return jax.tree.map(lambda a, v: _put_row(a, v, i), stack, value)


def choose(which: Bool[AnyArray, " rows"], new: PyTree, old: PyTree) -> PyTree:
    """The stacks with those rows of the new, and the others of the old."""
    numpy = np if isinstance(which, np.ndarray) else jnp
    return jax.tree.map(lambda a, b: numpy.where(which.reshape(-1, *[1] * (a.ndim - 1)), a, b), new, old)


# Under `jax.vmap` JAX would make a gather and a scatter of these, even where i is the same for all. They have no
# reverse pass; `dynamic_scan`, which has its own, needs none.


@custom_vmap
def _row(array: Array, i: Any) -> Array:
    return lax.dynamic_index_in_dim(array, i, keepdims=False)


@_row.def_vmap
def _row_of_each(size: int, batched: list[bool], array: Array, i: Any) -> tuple[Array, bool]:
    if batched[1]:
        of_each = jax.vmap(partial(lax.dynamic_index_in_dim, keepdims=False), (0 if batched[0] else None, 0))
        return of_each(array, i), True
    return lax.dynamic_index_in_dim(array, i, axis=1, keepdims=False), True


@custom_vmap
def _put_row(array: Array, value: Array, i: Any) -> Array:
    return lax.dynamic_update_index_in_dim(array, value, i, 0)


@_put_row.def_vmap
def _put_row_of_each(size: int, batched: list[bool], array: Array, value: Array, i: Any) -> tuple[Array, bool]:
    array = array if batched[0] else jnp.broadcast_to(array, (size, *array.shape))
    value = value if batched[1] else jnp.broadcast_to(value, (size, *value.shape))
    if batched[2]:
        return jax.vmap(partial(lax.dynamic_update_index_in_dim, axis=0))(array, value, i), True
    return lax.dynamic_update_index_in_dim(array, value, i, 1), True


def _empty_stack(n_rows: int, rows: PyTree) -> PyTree:
    return jax.tree.map(lambda a: jnp.zeros((n_rows, *a.shape), a.dtype), rows)


def _n_rows(stack: PyTree) -> int:
    return jax.tree.leaves(stack)[0].shape[0]


def bounded_scan(body: Body, fixed: PyTree, params: PyTree, carry: PyTree, xs: PyTree, length: Length) -> Scanned:
    """`jax.lax.scan` over the first `length` rows of `xs`; the later rows of the result are zero.

    `body(i, fixed, params, carry, x) -> (carry, y)` must be a pure function: what it needs comes through `fixed` (never
    differentiated: random keys, targets) and `params`. `length` is traced, so one compiled program serves every length
    up to the number of rows. Under `jax.vmap` with an unbatched `length` the loop stays one loop.
    """
    scan = dynamic_scan if backend().loops_are_dynamic else masked_scan
    learned, rest = eqx.partition(params, eqx.is_inexact_array)

    def with_rest(i: Any, fixed: PyTree, learned: PyTree, carry: PyTree, x: PyTree) -> tuple[PyTree, PyTree]:
        fixed, rest = fixed
        return body(i, fixed, eqx.combine(learned, rest), carry, x)

    return scan(with_rest, (fixed, rest), learned, carry, xs, length)


def masked_scan(body: Body, fixed: PyTree, params: PyTree, carry: PyTree, xs: PyTree, length: Length) -> Scanned:
    """`bounded_scan` over all rows, unrolled; rows from `length` on see the last carry and leave it as it is."""

    def step(carry: PyTree, row: tuple[Array, PyTree]) -> tuple[PyTree, PyTree]:
        i, x = row
        inside = i < length
        new, y = body(i, fixed, params, carry, x)
        carry = jax.tree.map(lambda a, b: jnp.where(inside, a, b), new, carry)
        return carry, jax.tree.map(lambda a: jnp.where(inside, a, jnp.zeros_like(a)), y)

    return lax.scan(step, carry, (jnp.arange(_n_rows(xs)), xs), unroll=True)


def update_rows(
    function: Callable[[Any, PyTree, PyTree], PyTree], given: PyTree, stack: PyTree, length: Length
) -> PyTree:
    """`stack` with row i replaced by `function(i, row of given, row of stack)` for i < length.

    Later rows must be left alone by the function itself.
    """
    if backend().loops_are_dynamic:
        one = lambda i, stack: put_row(stack, function(i, row(given, i), row(stack, i)), i)  # noqa: E731
        return lax.fori_loop(0, length, one, stack)
    return jax.vmap(function)(jnp.arange(_n_rows(stack)), given, stack)


def do_if(condition: Bool[Array, ""], function: Callable[[], PyTree], otherwise: PyTree) -> PyTree:
    """`function()`, or what it would replace."""
    if backend().loops_are_dynamic:
        return lax.cond(condition, function, lambda: otherwise)
    return jax.tree.map(lambda a, b: a if a is b else jnp.where(condition, a, b), function(), otherwise)


@partial(jax.custom_vjp, nondiff_argnums=(0,))
def dynamic_scan(body: Body, fixed: PyTree, params: PyTree, carry: PyTree, xs: PyTree, length: Length) -> Scanned:
    """`bounded_scan` as a loop of that length. Its reverse pass reads back what the body named `KEPT`, and computes the
    rest again: storing many small arrays takes longer."""
    _, y = jax.eval_shape(body, jnp.array(0), fixed, params, carry, row(xs, jnp.array(0)))

    def step(i: Any, state: tuple[PyTree, PyTree]) -> tuple[PyTree, PyTree]:
        carry, ys = state
        carry, y = body(i, fixed, params, carry, row(xs, i))
        return carry, put_row(ys, y, i)

    return lax.fori_loop(0, length, step, (carry, _empty_stack(_n_rows(xs), y)))


def _forward(body: Body, fixed: PyTree, params: PyTree, carry: PyTree, xs: PyTree, length: Length) -> Scanned:
    pullback_def = None

    def visit(carry: PyTree, i: Any) -> tuple[PyTree, PyTree, list[Array]]:
        nonlocal pullback_def
        sparing = jax.checkpoint(partial(body, i, fixed), policy=_POLICY, prevent_cse=False)
        (carry, y), pullback = jax.vjp(sparing, params, carry, row(xs, i))
        saved, pullback_def = jax.tree.flatten(pullback)
        return carry, y, saved

    _, y, saved = jax.eval_shape(visit, carry, jnp.array(0))

    def step(i: Any, state: PyTree) -> PyTree:
        carry, ys, stack = state
        carry, y, saved = visit(carry, i)
        return carry, put_row(ys, y, i), put_row(stack, saved, i)

    n_rows = _n_rows(xs)
    start = (carry, _empty_stack(n_rows, y), _empty_stack(n_rows, saved))
    carry, ys, stack = lax.fori_loop(0, length, step, start)
    pullbacks = jax.tree.unflatten(pullback_def, stack)
    return (carry, ys), (pullbacks, params, xs, length)


def _reverse(body: Body, residuals: PyTree, cotangents: tuple[PyTree, PyTree]) -> tuple[PyTree, ...]:
    del body
    pullbacks, params, xs, length = residuals
    d_carry, d_ys = cotangents
    d_params, d_xs = jax.tree.map(jnp.zeros_like, (params, xs))

    def step(k: Any, state: PyTree) -> PyTree:
        d_params, d_carry, d_xs = state
        i = length - 1 - k
        more, d_carry, d_x = row(pullbacks, i)((d_carry, row(d_ys, i)))
        return jax.tree.map(jnp.add, d_params, more), d_carry, put_row(d_xs, d_x, i)

    d_params, d_carry, d_xs = lax.fori_loop(0, length, step, (d_params, d_carry, d_xs))
    return None, d_params, d_carry, d_xs, None


dynamic_scan.defvjp(_forward, _reverse)
