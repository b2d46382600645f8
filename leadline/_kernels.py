"""Kernels for a GPU: the walk down the layers, forward and back, and the update of a stack of layers in place.

Small networks leave a GPU idle: the arithmetic of a layer takes less time than the launch of its kernel. Here a program
carries a tile of the batch through all layers that its run needs, and no further: the cost follows each run's own
depth. It is the same function as the loop in `network.py`, with the same draws.
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

from leadline._random import fold_words, normals_at

TILE = 64
"""Data points that one program carries."""

MOST_UNITS = 64
"""Wider layers do not fit into a program's registers."""


class Weights(eqx.Module):
    """A number for every weight of a network, the bias in the last column."""

    first: Float[Array, "width in_and_one"]
    deeper: Float[Array, "capacity width width_and_one"]
    heads: Float[Array, "depths out width_and_one"]


def fits(x: Float[Array, "batch in"], width: int, n_outputs: int) -> bool:
    """Whether the kernels take this network, here."""
    small = max(x.shape[1], width, n_outputs) <= MOST_UNITS
    return small and x.dtype == jnp.float32 and jax.default_backend() in ("gpu", "cpu")


@jax.custom_vjp
def walk(
    x: Float[Array, "in batch"],
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


def _forward(x, mean, variance, key, highest):
    outputs, kept = _run_forward(x, mean, variance, key, highest, keep=True)
    return outputs, (x, mean, variance, highest, kept)


def _reverse(residuals, d_outputs):
    x, mean, variance, highest, kept = residuals
    d_x, d_mean, d_variance = _run_reverse(x, mean, variance, highest, kept, d_outputs)
    return d_x, d_mean, d_variance, None, None


walk.defvjp(_forward, _reverse)


def _run_forward(x, mean, variance, key, highest, *, keep: bool):
    depths, n_outputs, _ = mean.heads.shape
    width, batch = mean.first.shape[0], x.shape[1]
    local = variance is not None
    shapes = [(depths, n_outputs, batch)]
    if keep:
        shapes += [(depths, width, batch)] + [(depths, width, batch), (depths, n_outputs, batch)] * local
    outputs, *kept = _walk(
        partial(_forward_kernel, local, keep),
        "walk_forward",
        batch,
        [x, *_arrays(mean), *_arrays(variance), key, highest.reshape(1)],
        shapes,
    )
    return outputs, kept


def _run_reverse(x, mean, variance, highest, kept, d_outputs):
    local = variance is not None
    n_tiles = pl.cdiv(x.shape[1], TILE)
    shapes = [(n_tiles, *a.shape) for a in _arrays(mean)] * (1 + local)
    d_x, *d_weights = _walk(
        partial(_reverse_kernel, local),
        "walk_reverse",
        x.shape[1],
        [x, *_arrays(mean), *_arrays(variance), highest.reshape(1), *kept, d_outputs],
        [x.shape, *shapes],
    )
    d_weights = [a.sum(axis=0) for a in d_weights]
    return d_x, Weights(*d_weights[:3]), Weights(*d_weights[3:]) if local else None


def _arrays(weights: Weights | None) -> list[Array]:
    return [] if weights is None else [weights.first, weights.deeper, weights.heads]


def _walk(kernel: Any, name: str, batch: int, inputs: list[Array], shapes: list[tuple[int, ...]]) -> list[Array]:
    return pl.pallas_call(
        kernel,
        [jax.ShapeDtypeStruct(shape, jnp.float32) for shape in shapes],
        grid=(pl.cdiv(batch, TILE),),
        compiler_params=triton.CompilerParams(num_warps=4, num_stages=1),
        interpret=_interpreted(),
        name=name,
    )(*inputs)


def _interpreted() -> bool:
    """Without a GPU the kernels can be tried, slowly."""
    return jax.default_backend() == "cpu"


def _forward_kernel(local: bool, keep: bool, *refs: Any) -> None:
    each = iter(refs)
    x_ref, mean = next(each), _take(each, 3)
    variance = _take(each, 3) if local else (None,) * 3
    key_ref, highest_ref, outputs_ref = _take(each, 3)
    hidden_ref = next(each) if keep else None
    slope_ref, head_slope_ref = _take(each, 2) if keep and local else (None, None)
    depths, n_outputs, batch = outputs_ref.shape
    columns = _columns()
    highest, words = highest_ref[0], (key_ref[0], key_ref[1])

    def affine(which: int, at: tuple, depth: Any, x: Array, slope_ref: Any) -> Array:
        """W x + b, and the noise of layer (`which` 0 and 1) or head (2) number `depth`."""
        weight, bias = _weights(mean[which], at)
        result = _dot(weight, x) + bias
        if local:
            weight, bias = _weights(variance[which], at)
            total = jnp.maximum(_dot(weight, x * x) + bias, jnp.finfo(jnp.float32).tiny)
            rows = jnp.arange(result.shape[0])[:, None]
            stream = fold_words(words, (2 * depth + which // 2).astype(jnp.uint32))
            draw = normals_at(stream, (rows * batch + columns[None, :]).astype(jnp.uint32))
            slope = draw / (2 * jnp.sqrt(total))
            if keep:
                _put(slope_ref, (depth,), columns, slope)
            result = result + 2 * total * slope
        return result

    def visit(which: int, at: tuple, depth: Any, x: Array) -> Array:
        pre = affine(which, at, depth, x, slope_ref)
        hidden = jnp.maximum(0.1 * pre, pre)
        if keep:
            _put(hidden_ref, (depth,), columns, hidden)
        _put(outputs_ref, (depth,), columns, affine(2, (depth,), depth, hidden, head_slope_ref))
        return hidden

    def leave_out(depth: Any, _: None) -> None:
        _put(outputs_ref, (depth,), columns, jnp.zeros((_padded(n_outputs), TILE), jnp.float32))

    hidden = visit(0, (), jnp.int32(0), _get(x_ref, (), columns))
    lax.fori_loop(1, highest + 1, lambda depth, hidden: visit(1, (depth - 1,), depth, hidden), hidden)
    lax.fori_loop(highest + 1, depths, leave_out, None)


def _reverse_kernel(local: bool, *refs: Any) -> None:
    each = iter(refs)
    x_ref, mean = next(each), _take(each, 3)
    variance = _take(each, 3) if local else (None,) * 3
    highest_ref, hidden_ref = _take(each, 2)
    slope_ref, head_slope_ref = _take(each, 2) if local else (None, None)
    d_outputs_ref, d_x_ref, d_mean = *_take(each, 2), _take(each, 3)
    d_variance = _take(each, 3) if local else (None,) * 3
    columns, tile, highest = _columns(), pl.program_id(0), highest_ref[0]

    def affine(which: int, at: tuple, depth: Any, x: Array, d: Array, slope_ref: Any) -> Array:
        """From the derivative by a layer's result to those by its weights, which are stored, and by x."""
        weight, _ = _weights(mean[which], at)
        _put_weights(d_mean[which], (tile, *at), d, x)
        d_x = _dot(weight.T, d)
        if local:
            weight, _ = _weights(variance[which], at)
            d = d * _get(slope_ref, (depth,), columns)
            _put_weights(d_variance[which], (tile, *at), d, x * x)
            d_x = d_x + 2 * x * _dot(weight.T, d)
        return d_x

    def visit(which: int, at: tuple, depth: Any, x: Array, hidden: Array, d_hidden: Array) -> Array:
        d_output = _get(d_outputs_ref, (depth,), columns)
        d_hidden = d_hidden + affine(2, (depth,), depth, hidden, d_output, head_slope_ref)
        return affine(which, at, depth, x, jnp.where(hidden > 0, d_hidden, 0.1 * d_hidden), slope_ref)

    def go_back(k: Any, state: tuple[Array, Array]) -> tuple[Array, Array]:
        hidden, d_hidden = state
        depth = highest - k
        x = _get(hidden_ref, (depth - 1,), columns)
        return x, visit(1, (depth - 1,), depth, x, hidden, d_hidden)

    def leave_out(depth: Any, _: None) -> None:
        for _, deeper, heads in (d_mean, d_variance) if local else (d_mean,):
            _clear(deeper, (tile, depth - 1))
            _clear(heads, (tile, depth))

    hidden = _get(hidden_ref, (highest,), columns)
    hidden, d_hidden = lax.fori_loop(0, highest, go_back, (hidden, jnp.zeros_like(hidden)))
    x = _get(x_ref, (), columns)
    _put(d_x_ref, (), columns, visit(0, (), jnp.int32(0), x, hidden, d_hidden))
    lax.fori_loop(highest + 1, d_mean[2].shape[1], leave_out, None)


def _take(each: Iterator[Any], n: int) -> tuple[Any, ...]:
    return tuple(next(each) for _ in range(n))


def _columns() -> Int[Array, " tile"]:
    """The data points of this program."""
    return pl.program_id(0) * TILE + jnp.arange(TILE)


def _padded(n: int) -> int:
    """Blocks have powers of two for sizes, and the matrix units want 16 at least."""
    return max(16, 1 << (n - 1).bit_length())


def _dot(a: Float[Array, "m k"], b: Float[Array, "k n"]) -> Float[Array, "m n"]:
    """On the matrix units, with factors rounded to ten binary digits, as JAX does by default on such a GPU."""
    precision = None if _interpreted() else lax.DotAlgorithmPreset.TF32_TF32_F32
    return lax.dot(a, b, precision=precision, preferred_element_type=jnp.float32)


def _load(ref: Any, at: tuple, shape: tuple[int, int], columns: Array | None = None) -> Float[Array, "rows columns"]:
    """The first rows and columns (or those columns) of a matrix, padded with zeros."""
    index, inside = _block(at, shape, columns)
    return triton.load(ref.at[index], mask=inside, other=0.0)


def _store(ref: Any, at: tuple, shape: tuple[int, int], value: Array, columns: Array | None = None) -> None:
    index, inside = _block(at, shape, columns)
    triton.store(ref.at[index], value, mask=inside)


def _block(at: tuple, shape: tuple[int, int], columns: Array | None) -> tuple[tuple, Array]:
    """Where the numbers of a block are, and which of them are inside the matrix."""
    n_rows, n_columns = shape
    row = jnp.arange(_padded(n_rows))[:, None]
    column = (jnp.arange(_padded(n_columns)) if columns is None else columns)[None, :]
    return (*at, row, column), (row < n_rows) & (column < n_columns)


def _get(ref: Any, at: tuple, columns: Array) -> Float[Array, "rows tile"]:
    """The data points of this program, out of [..., rows, batch]."""
    return _load(ref, at, ref.shape[-2:], columns)


def _put(ref: Any, at: tuple, columns: Array, value: Float[Array, "rows tile"]) -> None:
    _store(ref, at, ref.shape[-2:], value, columns)


def _weights(ref: Any, at: tuple) -> tuple[Float[Array, "out in"], Float[Array, "out 1"]]:
    """The matrix and the bias of a layer, out of [..., out, in + 1]."""
    n_out, n_in = ref.shape[-2], ref.shape[-1] - 1
    return _load(ref, at, (n_out, n_in)), _load(ref, at, ref.shape[-2:], jnp.full(1, n_in))


def _put_weights(ref: Any, at: tuple, d: Float[Array, "out tile"], x: Float[Array, "in tile"]) -> None:
    """Store the derivatives by the matrix, d x^T, and by the bias."""
    n_out, n_in = ref.shape[-2], ref.shape[-1] - 1
    _store(ref, at, (n_out, n_in), _dot(d, x.T))
    _store(ref, at, ref.shape[-2:], d.sum(axis=1, keepdims=True), jnp.full(1, n_in))


def _clear(ref: Any, at: tuple) -> None:
    shape = ref.shape[-2:]
    _store(ref, at, shape, jnp.zeros([_padded(n) for n in shape], jnp.float32))


BLOCK = 512
"""Numbers of a row that one program updates."""


def update_rows(
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

    counts, *new = pl.pallas_call(
        kernel,
        [jax.ShapeDtypeStruct(a.shape, a.dtype) for a in (counts, *stacks)],
        grid=(n_rows, pl.cdiv(n, BLOCK)),
        input_output_aliases={3 + i: 1 + i for i in range(n_stacks)},
        compiler_params=triton.CompilerParams(num_warps=4, num_stages=1),
        interpret=_interpreted(),
        name="update_rows",
    )(active, counts, given, *stacks, *(a.reshape(1) for a in fixed))
    return counts, tuple(new)
