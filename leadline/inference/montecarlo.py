"""Means over draws of the weights, a bounded number of rows at a time: how everything is estimated."""

import abc
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, Key, PyTree

from leadline._checks import InvalidArgumentError, check_features, check_integer
from leadline.backend.compilation import jit_lightly
from leadline.backend.device import backend
from leadline.backend.random import fold_in
from leadline.inference import native
from leadline.inference.model import Model, check_fits
from leadline.network.layers import Draw

PIECES = (8, 64, 1024, 4096)
"""The size of a piece where there are only so many rows: a few sizes, so that there are few programs."""

MOST_NUMBERS = 2**22
"""That are held at once where every draw is kept: the more there are of a row, the fewer rows are taken."""


class Estimate(eqx.Module):
    """What is read off every depth under one draw, and how the draws are put together: as their mean, unless said."""

    @abc.abstractmethod
    def read(self, fixed: PyTree, likelihood: PyTree, output: Float[Array, "*batch out"]) -> PyTree:
        """Of one depth; `fixed` is what it needs beside the output, row by row (targets, weights)."""

    @abc.abstractmethod
    def start(self, model: Model, x: Array, n_samples: Any) -> tuple[PyTree, PyTree]:
        """What stays as it is through all draws, and the total before the first."""

    def add(self, same: PyTree, total: PyTree, i: Array, values: PyTree, weight_kl: Array) -> PyTree:
        """The total after draw i; `values` is what was read off every depth stored, zero below the deepest that is
        needed, and `weight_kl` the KL of the weights at every depth."""
        return jax.tree.map(jnp.add, total, values)

    def end(self, same: PyTree, total: PyTree, n_samples: Any) -> PyTree:
        """The estimate from the total of all draws."""
        return jax.tree.map(lambda a: a / n_samples, total)

    def natively(self, models: Model, ask: Callable[[str], Any]) -> PyTree:
        """The same for all runs from what the engine says of the rows, where it can be asked (`library.WANTS`)."""
        raise NotImplementedError


def over_draws(
    estimate: Estimate,
    model: Model,
    x: Float[Array, "rows in"],
    fixed: PyTree,
    *,
    key: Key[Array, ""],
    n_samples: Any,
    highest: Int[Array, ""],
    draw: Draw = "weights",
) -> PyTree:
    """The estimate of one run for some rows; draw i is that of the key folded with i, the same for all rows."""

    same, start = estimate.start(model, x, n_samples)

    def one_draw(i: Array, total: PyTree) -> PyTree:
        values, weight_kl = model.network.depths(
            x, estimate.read, fixed, model.likelihood, highest=highest, key=fold_in(key, i), draw=draw
        )
        return estimate.add(same, total, i, values, weight_kl)

    return estimate.end(same, jax.lax.fori_loop(0, n_samples, one_draw, start), n_samples)


@jit_lightly
def _piece(
    estimate: Estimate,
    models: Model,
    x: Float[Array, "rows *runs in"],
    fixed: PyTree,
    key: Key[Array, " runs"],
    n_samples: Any,
    highest: Int[Array, ""],
) -> PyTree:
    """`over_draws` for every run; the runs may have rows of their own, on a second axis."""
    axis = 1 if x.ndim == 3 else None

    def one_run(model: Model, key: Key[Array, ""], x: Array, fixed: PyTree) -> PyTree:
        return over_draws(estimate, model, x, fixed, key=key, n_samples=n_samples, highest=highest)

    own = jax.tree.map(lambda a: 1 if axis and a.ndim > 1 else None, fixed)
    return jax.vmap(one_run, (0, 0, axis, own))(models, key, x, fixed)


def pieces_of_rows(n_rows: int, of_row: int = 1) -> Iterator[slice]:
    """The rows, so many at a time as the device takes at once, with so many numbers of each."""
    device = backend().rows_at_once
    at_once = max(size for size in (1, *PIECES, device) if size <= min(device, max(1, MOST_NUMBERS // of_row)))
    return (slice(start, min(start + at_once, n_rows)) for start in range(0, n_rows, at_once))


def by_pieces(
    estimate: Estimate,
    models: Model,
    x: np.ndarray,
    fixed: tuple[np.ndarray, ...] = (),
    *,
    key: Key[Array, " runs"],
    n_samples: Any,
) -> list[PyTree]:
    """The estimate for every run, piece by piece of the rows, which are padded: who asked cuts what is too much."""
    results = []
    if native.suits(models) and type(estimate).natively is not Estimate.natively:
        highest = check_fits("models", native.support(models)[1], models.capacity).max()
        for rows in pieces_of_rows(len(x)):
            given = x[rows], tuple(a[rows] for a in fixed)
            ask = partial(native.evaluate, models, *given, key=key, n_samples=int(n_samples), highest=int(highest))
            results.append(estimate.natively(models, ask))
        return results
    highest = check_fits("models", _highest(models), models.capacity).max()
    for rows in pieces_of_rows(len(x)):
        given = _padded(x[rows]), tuple(_padded(a[rows]) for a in fixed)
        results.append(_piece(estimate, models, *given, key, n_samples, highest))
    return results


def joined(pieces: list[PyTree], n_rows: int, axis: int) -> Any:
    """The rows of all pieces, on that axis, without the padding."""
    cut = []
    for piece, rows in zip(pieces, pieces_of_rows(n_rows), strict=True):
        some = (slice(None),) * axis + (slice(rows.stop - rows.start),)
        cut.append(jax.tree.map(lambda a, some=some: np.asarray(a)[some], piece))
    return jax.tree.map(lambda *arrays: np.concatenate(arrays, axis=axis), *cut)


def by_rows(function: Callable[..., np.ndarray], *columns: np.ndarray, of_row: int) -> np.ndarray:
    """`function(*columns)`, a bounded number of rows at a time; it holds so many numbers of each."""
    pieces = pieces_of_rows(len(columns[0]), of_row)
    return np.concatenate([function(*(column[rows] for column in columns)) for rows in pieces])


def check_asked(x: np.ndarray, models: Model, n_samples: int, key: Array, own_rows: bool = False) -> np.ndarray:
    """The rows, or one sentence about what is wrong with what was asked for."""
    check_integer("n_samples", n_samples, 1)
    if len(models.runs) != 1 or key.shape != models.runs:
        raise InvalidArgumentError(
            f"`models` and `key` must have one axis of runs, got shapes {models.runs} and {key.shape}; "
            "take the models as `train` returns them, and `jax.random.split(key, number of runs)`."
        )
    x = np.asarray(x)
    of_each = own_rows and x.ndim == 3 and len(x) == len(key)
    rows = x.reshape(-1, x.shape[-1]) if of_each else x
    check_features("x", rows, models.network.n_inputs, jax.dtypes.canonicalize_dtype(float))
    return x


_highest = jit_lightly(jax.vmap(lambda model: model.support()[1]))
"""The deepest depth that every run needs."""


def _padded(a: np.ndarray) -> Array:
    at_once = backend().rows_at_once
    size = next((size for size in PIECES if len(a) <= size < at_once), at_once)
    a = np.concatenate([a, np.zeros((size - len(a), *a.shape[1:]), a.dtype)])
    return jnp.asarray(a, jnp.int32 if a.dtype.kind in "iu" else float)
