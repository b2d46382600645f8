"""Kernels for a GPU: the walk down the layers, forward and back, and the update of a stack of layers in place.

Small networks leave a GPU idle: the arithmetic of a layer takes less time than the launch of its kernel. Here a program
carries a tile of the batch through all layers that its run needs, and no further: the cost follows each run's own
depth. It is the same function as the loop in `network/unbounded.py`, with the same draws.
"""

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jax import lax
from jax.experimental import pallas as pl
from jax.experimental.pallas import triton
from jaxtyping import Array, Bool, Float, Int, UInt32

from leadline.backend.device import backend
from leadline.backend.random import fold_words, normals_at

TILE = 64
"""Data points that one program carries."""


EXACT = ("highest", "float32")
"""JAX's `jax_default_matmul_precision` that asks for single precision."""


class Weights(eqx.Module):
    """A number for every weight of a network, the bias in the last column. All layers have as many units as inputs."""

    layers: Float[Array, "depths units units_and_one"]
    heads: Float[Array, "depths out units_and_one"]


def widened(matrix: Float[Array, "out in_and_one"], n_out: int, n_in: int) -> Float[Array, "more_out more_in_and_one"]:
    """A layer's matrix for more outputs and inputs, which are zero."""
    more_out, more_in = n_out - matrix.shape[0], n_in + 1 - matrix.shape[1]
    weight, bias = matrix[:, :-1], matrix[:, -1:]
    return jnp.concatenate([jnp.pad(weight, ((0, more_out), (0, more_in))), jnp.pad(bias, ((0, more_out), (0, 0)))], 1)


@jax.custom_vjp
def walk(
    x: Float[Array, "units batch"],
    mean: Weights,
    variance: Weights | None,
    key: UInt32[Array, "2"],
    highest: Int[Array, ""],
) -> Float[Array, "depths out batch"]:
    """Omega_L(x) for L = 0 .. highest, zero beyond.

    With a variance, the pre-activations get noise of their own (local reparameterisation), drawn from the words of a
    key as `UnboundedNetwork.depths` does; without, the weights are `mean`.
    """
    return _run_forward(x, mean, variance, key, highest, keep=False)[0]


def _run_forward(x, mean, variance, key, highest, *, keep: bool = True):
    depths, n_outputs, _ = mean.heads.shape
    units, batch = x.shape
    local = variance is not None
    shapes = [(depths, n_outputs, batch)]
    if keep:
        shapes += [(depths + 1, units, batch)] + [(depths, units, batch), (depths, n_outputs, batch)] * local
    outputs, *kept = _launch(
        partial(_forward_kernel, local, keep),
        "walk_forward",
        (pl.cdiv(batch, TILE),),
        [x, *jax.tree.leaves((mean, variance)), key, highest.reshape(1)],
        shapes,
    )
    return outputs, (x, mean, variance, highest, kept)


def _run_reverse(residuals, d_outputs):
    x, mean, variance, highest, kept = residuals
    local = variance is not None
    n_tiles, weights = pl.cdiv(x.shape[1], TILE), jax.tree.leaves((mean, variance))
    d_x, *d_weights = _launch(
        partial(_reverse_kernel, local),
        "walk_reverse",
        (n_tiles,),
        [*weights, highest.reshape(1), *kept, d_outputs],
        [x.shape, *((n_tiles, *a.shape) for a in weights)],
    )
    d_weights = [_sum_of_tiles(a, highest) for a in d_weights]
    return d_x, Weights(*d_weights[:2]), Weights(*d_weights[2:]) if local else None, None, None


walk.defvjp(_run_forward, _run_reverse)


def _launch(
    kernel: Any, name: str, grid: tuple[int, ...], inputs: list[Array], outputs: list[Any], **options: Any
) -> list[Array]:
    """Run a kernel; its outputs are like arrays, or have shapes."""
    return pl.pallas_call(
        kernel,
        [jax.ShapeDtypeStruct(getattr(a, "shape", a), getattr(a, "dtype", jnp.float32)) for a in outputs],
        grid=grid,
        compiler_params=triton.CompilerParams(num_warps=4, num_stages=1),
        interpret=backend().interprets_kernels,
        name=name,
        **options,
    )(*inputs)


def _forward_kernel(local: bool, keep: bool, *refs: Any) -> None:
    each = iter(refs)
    x_ref, mean = next(each), _take(each, 2)
    variance = _take(each, 2) if local else (None, None)
    key_ref, highest_ref, outputs_ref = _take(each, 3)
    hidden_ref = next(each) if keep else None
    slopes = _take(each, 2) if keep and local else (None, None)
    depths, n_outputs, batch = outputs_ref.shape
    columns, highest, words = _columns(), highest_ref[0], (key_ref[0], key_ref[1])

    def affine(which: int, depth: Array, x: Array) -> Array:
        """W x + b, and the noise: of the layer (`which` 0) or the head (1) at a depth."""
        weight, bias = _weights(mean[which], depth)
        result = _dot(weight, x) + bias
        if local:
            weight, bias = _weights(variance[which], depth)
            total = jnp.maximum(_dot(weight, x * x) + bias, jnp.finfo(jnp.float32).tiny)
            index = jnp.arange(result.shape[0])[:, None] * batch + columns[None, :]
            draw = normals_at(fold_words(words, (2 * depth + which).astype(jnp.uint32)), index.astype(jnp.uint32))
            slope = draw / (2 * jnp.sqrt(total))
            if keep:
                _put(slopes[which], (depth,), columns, slope)
            result = result + 2 * total * slope
        return result

    def visit(depth: Array, x: Array) -> Array:
        pre = affine(0, depth, x)
        hidden = jnp.maximum(0.1 * pre, pre)
        if keep:
            _put(hidden_ref, (depth + 1,), columns, hidden)
        _put(outputs_ref, (depth,), columns, affine(1, depth, hidden))
        return hidden

    def leave_out(depth: Array, _: None) -> None:
        _put(outputs_ref, (depth,), columns, jnp.zeros((_padded(n_outputs), TILE), jnp.float32))

    x = _load(x_ref, (), columns)
    if keep:
        _put(hidden_ref, (0,), columns, x)
    lax.fori_loop(0, highest + 1, visit, x)
    lax.fori_loop(highest + 1, depths, leave_out, None)


def _reverse_kernel(local: bool, *refs: Any) -> None:
    each = iter(refs)
    mean = _take(each, 2)
    variance = _take(each, 2) if local else (None, None)
    highest_ref, hidden_ref = _take(each, 2)
    slopes = _take(each, 2) if local else (None, None)
    d_outputs_ref, d_x_ref, *d_mean = _take(each, 4)
    d_variance = _take(each, 2) if local else (None, None)
    columns, tile, highest = _columns(), pl.program_id(0), highest_ref[0]

    def affine(which: int, depth: Array, x: Array, d: Array) -> Array:
        """From the derivative by a layer's result to those by its weights, which are stored, and by x."""
        weight, _ = _weights(mean[which], depth)
        _put_weights(d_mean[which], (tile, depth), d, x)
        d_x = _dot(weight.T, d)
        if local:
            weight, _ = _weights(variance[which], depth)
            d = d * _load(slopes[which], (depth,), columns)
            _put_weights(d_variance[which], (tile, depth), d, x * x)
            d_x = d_x + 2 * x * _dot(weight.T, d)
        return d_x

    def go_back(k: Array, state: tuple[Array, Array]) -> tuple[Array, Array]:
        hidden, d_hidden = state
        depth = highest - k
        d_hidden = d_hidden + affine(1, depth, hidden, _load(d_outputs_ref, (depth,), columns))
        x = _load(hidden_ref, (depth,), columns)
        return x, affine(0, depth, x, jnp.where(hidden > 0, d_hidden, 0.1 * d_hidden))

    hidden = _load(hidden_ref, (highest + 1,), columns)
    _, d_x = lax.fori_loop(0, highest + 1, go_back, (hidden, jnp.zeros_like(hidden)))
    _put(d_x_ref, (), columns, d_x)


def _sum_of_tiles(parts: Float[Array, "tiles depths out in"], highest: Int[Array, ""]) -> Float[Array, "depths out in"]:
    """The sum over the tiles up to a depth, zero beyond, where nothing was stored and nothing is read."""
    n_tiles, depths, n_out, n_in = parts.shape
    padded = (_padded(n_out), _padded(n_in))

    def kernel(parts_ref: Any, highest_ref: Any, sum_ref: Any) -> None:
        depth = pl.program_id(0)
        n_stored = jnp.where(depth <= highest_ref[0], jnp.int32(n_tiles), jnp.int32(0))
        total = lax.fori_loop(
            0, n_stored, lambda tile, total: total + _load(parts_ref, (tile, depth), n_in), jnp.zeros(padded)
        )
        _put(sum_ref, (depth,), n_in, total)

    [total] = _launch(kernel, "sum_of_tiles", (depths,), [parts, highest.reshape(1)], [(depths, n_out, n_in)])
    return total


def _take(each: Iterator[Any], n: int) -> tuple[Any, ...]:
    return tuple(next(each) for _ in range(n))


def _columns() -> Int[Array, " tile"]:
    """The data points of this program."""
    return pl.program_id(0) * TILE + jnp.arange(TILE)


def _padded(n: int) -> int:
    """Blocks have powers of two for sizes, and the matrix units want 16 at least."""
    return max(16, 1 << (n - 1).bit_length())


def _dot(a: Float[Array, "m k"], b: Float[Array, "k n"]) -> Float[Array, "m n"]:
    """On the matrix units, with factors rounded to ten binary digits, unless JAX is told to be more exact."""
    exact = jax.config.jax_default_matmul_precision in EXACT  # pyright: ignore[reportAttributeAccessIssue]
    preset = lax.DotAlgorithmPreset.F32_F32_F32 if exact else lax.DotAlgorithmPreset.TF32_TF32_F32
    precision = None if backend().interprets_kernels else preset
    return lax.dot(a, b, precision=precision, preferred_element_type=jnp.float32)


Columns = Int[Array, " columns"] | int
"""Of a matrix: those, or the first so many."""


def _load(ref: Any, at: tuple, columns: Columns) -> Float[Array, "rows columns"]:
    """Columns of a matrix out of [..., rows, columns], padded with zeros."""
    index, inside = _block(ref, at, columns)
    return triton.load(ref.at[index], mask=inside, other=0.0)


def _put(ref: Any, at: tuple, columns: Columns, value: Float[Array, "rows columns"]) -> None:
    index, inside = _block(ref, at, columns)
    triton.store(ref.at[index], value, mask=inside)


def _block(ref: Any, at: tuple, columns: Columns) -> tuple[tuple, Array]:
    """Where the numbers of a block are, and which of them are inside the matrix."""
    n_rows, n_columns = ref.shape[-2:]
    if isinstance(columns, int):
        n_columns, columns = columns, jnp.arange(_padded(columns))
    row, column = jnp.arange(_padded(n_rows))[:, None], columns[None, :]
    return (*at, row, column), (row < n_rows) & (column < n_columns)


def _weights(ref: Any, depth: Array) -> tuple[Float[Array, "out in"], Float[Array, "out 1"]]:
    """The matrix and the bias at a depth, out of [depths, out, in + 1]."""
    n_in = ref.shape[-1] - 1
    return _load(ref, (depth,), n_in), _load(ref, (depth,), jnp.full(1, n_in))


def _put_weights(ref: Any, at: tuple, d: Float[Array, "out tile"], x: Float[Array, "in tile"]) -> None:
    """Store the derivatives by the matrix, d x^T, and by the bias."""
    n_in = ref.shape[-1] - 1
    _put(ref, at, n_in, _dot(d, x.T))
    _put(ref, at, jnp.full(1, n_in), d.sum(axis=1, keepdims=True))


BLOCK = 512
"""Numbers of a row that one program updates."""


def update_in_place(
    function: Callable[..., tuple[Array, ...]],
    active: Bool[Array, " rows"],
    counts: Int[Array, " rows"],
    given: Float[Array, "rows n"],
    stacks: tuple[Float[Array, "rows n"], ...],
    *fixed: Float[Array, ""],
) -> tuple[Array, tuple[Array, ...]]:
    """The counts and the stacks with the active rows replaced, in place:

    count, *rows = function(count, row of given, *rows of stacks, *fixed), number by number.
    """
    n_rows, n = given.shape
    n_stacks = len(stacks)

    def kernel(active_ref: Any, counts_ref: Any, given_ref: Any, *refs: Any) -> None:
        row, block = pl.program_id(0), pl.program_id(1)
        old, rest = refs[:n_stacks], refs[n_stacks:]
        fixed_refs, new_counts_ref, new = rest[: len(fixed)], rest[len(fixed)], rest[len(fixed) + 1 :]
        columns = block * BLOCK + jnp.arange(BLOCK)
        inside = columns < n
        load = lambda ref: triton.load(ref.at[row, columns], mask=inside, other=0.0)  # noqa: E731

        @pl.when(active_ref[row])
        def _() -> None:
            count, *values = function(
                counts_ref[row], load(given_ref), *(load(ref) for ref in old), *(ref[0] for ref in fixed_refs)
            )
            for ref, value in zip(new, values, strict=True):
                triton.store(ref.at[row, columns], value, mask=inside)
            new_counts_ref[row] = count

        @pl.when(jnp.logical_not(active_ref[row]))
        def _() -> None:
            new_counts_ref[row] = counts_ref[row]

    counts, *new = _launch(
        kernel,
        "update_in_place",
        (n_rows, pl.cdiv(n, BLOCK)),
        [active, counts, given, *stacks, *(a.reshape(1) for a in fixed)],
        [counts, *stacks],
        input_output_aliases={3 + i: 1 + i for i in range(n_stacks)},
    )
    return counts, tuple(new)
