"""Data as training takes it: tables, padded so that those of similar size share one compiled program, and who sees
which rows."""

from collections.abc import Sequence
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, Shaped

from leadline._checks import InvalidArgumentError, check_features, check_share
from leadline.backend.forks import on_device
from leadline.backend.numerics import bucket
from leadline.likelihoods import Likelihood
from leadline.training.problem import Problem


class Data(eqx.Module):
    """Tables of one shape; a row counts as much as `weight` such rows. What lies beyond the last row is padding."""

    x: Float[Array, "tables rows in"]
    y: Shaped[Array, "tables rows ..."]
    weight: Float[Array, "tables rows"]

    def take(self, table: Int[Array, " runs"], rows: Int[Array, "runs n"]) -> tuple[Array, Array, Array]:
        """Those rows of every run's table."""
        return jax.vmap(lambda i, j: (self.x[i, j], self.y[i, j], self.weight[i, j]))(table, rows)


class Part(eqx.Module):
    """The rows that every run trains on, or is validated on; those from `n_rows` on are padding."""

    rows: Int[Array, "runs rows"]
    n_rows: Int[Array, ""]

    def inside(self) -> Float[Array, " rows"]:
        """1 for the rows, 0 for the padding."""
        return (jnp.arange(self.rows.shape[1]) < self.n_rows).astype(float)


def make_part(rows: np.ndarray, size: int) -> Part:
    """`rows` [runs, n] are row numbers, padded to `size`."""
    n_rows = rows.shape[1]
    padded = np.pad(rows, ((0, 0), (0, size - n_rows)))
    return Part(*on_device((padded.astype(np.int32), np.array(n_rows, np.int32))))


Tables = tuple[np.ndarray, np.ndarray, np.ndarray]
"""x [tables, rows, in], y and weights of several tables."""


def check_tables(
    name: str, x: Any, y: Any, likelihood: Likelihood, n_inputs: int | None = None, weight: Any = None
) -> Tables:
    """Check x [rows, in] and y [rows] (or a list of such, one per table, all of one shape)."""
    several = isinstance(x, list | tuple) and len(x) > 0 and np.ndim(x[0]) == 2
    xs, ys = ([np.asarray(one) for one in (a if several else [a])] for a in (x, y))
    if len(xs) != len(ys):
        raise InvalidArgumentError(f"must have as many x as y, got {len(xs)} and {len(ys)}.", name)
    for one in xs:
        check_features(f"{name} x", one, n_inputs)
    if len({one.shape for one in xs}) > 1:
        raise InvalidArgumentError(
            f"`{name}` x must have one shape for all runs, got {sorted({one.shape for one in xs})}."
        )
    n_rows = xs[0].shape[0]
    ys = [likelihood.check_targets(f"{name} y", one, n_rows) for one in ys]
    weights = np.ones((len(xs), n_rows)) if weight is None else np.broadcast_to(weight, (len(xs), n_rows))
    if not np.all((weights > 0) & np.isfinite(weights)):
        raise InvalidArgumentError(f"`weight` must be positive and finite, got {weights.min()}.")
    return np.stack(xs).astype(float), np.stack(ys), weights.astype(float)


def make_data(name: str, *tables: Tables) -> Data:
    """The rows of all tables under each other."""
    n_tables = max(x.shape[0] for x, _, _ in tables)
    x, y, weight = (
        np.concatenate([np.broadcast_to(a, (n_tables, *a.shape[1:])) for a in column], axis=1)
        for column in zip(*tables, strict=True)
    )
    padding = bucket(x.shape[1]) - x.shape[1]

    def padded(what: str, array: np.ndarray) -> Array:
        array = np.pad(array, [(0, 0), (0, padding)] + [(0, 0)] * (array.ndim - 2))
        kind = np.int32 if array.dtype.kind == "i" else jax.dtypes.canonicalize_dtype(float)
        with np.errstate(over="ignore"):  # what overflows is refused below
            result = array.astype(kind)
        if not np.all(np.isfinite(result)):
            largest = np.abs(array).max()
            raise InvalidArgumentError(f"`{name} {what}` must fit into {result.dtype}, got {largest}; rescale it.")
        return on_device(result)

    return Data(padded("x", x), padded("y", y), padded("weight", weight))


def n_held_out(n_rows: int, share: float) -> int:
    return max(1, round(share * n_rows))


def held_out(x: np.ndarray, labels: np.ndarray | None, n_parts: int, share: float, seed: int) -> np.ndarray:
    """Row numbers [n_parts, n] to hold out: a random share for every part, disjoint as long as the rows last.

    With labels, the classes are in proportion: the rows of each class, in random order, are spread evenly over one
    long line, which the parts then cut. Rows with the same x stand together: a row whose copy is trained on is not
    held out. (A cut may go through one such group.)
    """
    rng = np.random.default_rng(seed)
    n_rows = len(x)
    place = np.empty(n_rows)
    for label in [None] if labels is None else np.unique(labels):
        rows = np.arange(n_rows) if label is None else np.flatnonzero(labels == label)
        place[rng.permutation(rows)] = (np.arange(len(rows)) + rng.uniform(size=len(rows))) / len(rows)
    _, first, group = np.unique(as_bytes(x), return_index=True, return_inverse=True)
    place = place[first[group]]
    n = n_held_out(n_rows, share)
    return np.resize(np.argsort(place, kind="stable"), (n_parts, n))


def as_bytes(table: np.ndarray) -> np.ndarray:
    """Each row as one value, equal where all its numbers are."""
    table = np.ascontiguousarray(table) + 0.0  # -0 becomes 0
    return table.view(np.dtype((np.void, table.dtype.itemsize * table.shape[1])))[:, 0]


def make_tables(problems: Sequence[Problem]) -> Tables:
    """The training rows of all fits: one table where they share it, else one for each."""
    if not _shared(problems) and any(one.weight is not None for one in problems):
        raise InvalidArgumentError("must be None where every fit has rows of its own.", "weight")
    return check_tables("data", *_rows(problems, "train"), problems[0].likelihood, weight=problems[0].weight)


def _shared(problems: Sequence[Problem]) -> bool:
    return all(one is problems[0] for one in problems)


def _rows(problems: Sequence[Problem], part: str) -> tuple[Any, Any]:
    """x and y of all fits, or of each."""
    rows = [getattr(one, part) for one in problems]
    x, y = rows[0] if _shared(problems) else zip(*rows, strict=True)
    return x, y


def make_parts(
    tables: Tables, problems: Sequence[Problem], shape: tuple[int, int, int], seeds: Sequence[int], together: int = 1
) -> tuple[dict[str, Any], np.ndarray]:
    """The data, each run's table, and the rows it is trained and validated on, as `Plan` takes them; and which of the
    given rows were held out, the same from `together` restarts that follow each other."""
    n_runs, n_rows = int(np.prod(shape)), tables[0].shape[1]
    likelihood, validation = problems[0].likelihood, problems[0].validation
    if isinstance(validation, tuple):
        given = check_tables("validation", *_rows(problems, "validation"), likelihood, tables[0].shape[-1])
        n_given = given[0].shape[1]
        data, validation_size = make_data("data", tables, given), bucket(n_given)
        train_rows = np.tile(np.arange(n_rows), (n_runs, 1))
        validation_rows = np.tile(n_rows + np.arange(n_given), (n_runs, 1))
        held = np.empty((n_runs, 0), int)
    else:
        check_share("validation", validation)
        if n_rows < 2 or round(validation * n_rows) >= n_rows:
            raise InvalidArgumentError(f"must leave rows to train on, got {validation} of {n_rows} rows.", "validation")
        data = make_data("data", tables)
        validation_size = n_held_out(bucket(n_rows), validation)  # one size for all tables that share the program
        n_parts = -(-shape[2] // together)
        xs, ys = (np.broadcast_to(a, (len(seeds), *a.shape[1:])) for a in tables[:2])
        fits = zip(xs, ys, seeds, strict=True)
        of_fits = [held_out(x, likelihood.labels(y), n_parts, validation, seed) for x, y, seed in fits]
        of_restarts = [np.repeat(rows, together, axis=0)[: shape[2]] for rows in of_fits]
        held = np.concatenate([np.tile(rows, (shape[1], 1)) for rows in of_restarts])
        train_rows = np.stack([np.setdiff1d(np.arange(n_rows), rows) for rows in held])
        validation_rows = held
    table = np.repeat(np.arange(len(seeds)), shape[1] * shape[2]) if data.x.shape[0] > 1 else np.zeros(n_runs, int)
    train, validated = make_part(train_rows, bucket(n_rows)), make_part(validation_rows, validation_size)
    return {
        "data": data,
        "table": on_device(table.astype(np.int32)),
        "train": train,
        "validation": validated,
    }, held
