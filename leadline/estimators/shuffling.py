"""Arrays whose columns are shuffled or given one value, and what comes of it."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from leadline._checks import InvalidArgumentError
from leadline._foreign import some

if TYPE_CHECKING:
    import pandas

AT_ONCE = 4096
"""Rows that are predicted in one call."""

GRID = 12
"""Values of a column that are tried, at most."""


@dataclass(frozen=True)
class Importance:
    """By how much the NLL of rows rises, in nats per row, when the values of a column change places."""

    columns: list[str]
    increase: np.ndarray
    error: np.ndarray
    """Standard errors, for other rows of the kind and other shuffles."""
    n_rows: int
    n_repeats: int

    def to_frame(self) -> "pandas.DataFrame":
        """The most important column first."""
        import pandas

        table = pandas.DataFrame({"column": self.columns, "importance": self.increase, "error": self.error})
        return table.sort_values("importance", ascending=False, ignore_index=True, kind="stable")


@dataclass(frozen=True)
class Dependence:
    """What is predicted on average over rows if all of them had this value in a column, and then that."""

    column: str
    values: np.ndarray
    outputs: list[str]
    """The classes, or the targets."""
    mean: np.ndarray
    """[values, outputs]: probabilities, or numbers in the units of the target."""
    deviation: np.ndarray
    """Of the means of single networks, draws of the weights and depths; the noise is not in it."""
    in_order: bool
    """Whether the values are numbers or times; else they are categories."""

    def plain_values(self) -> list[Any]:
        """Numbers, and text for all else: days of times."""
        if self.in_order:
            return [float(v) if isinstance(v, int | float | np.number) else str(v)[:10] for v in self.values]
        return [str(value) for value in self.values]

    def to_frame(self) -> "pandas.DataFrame":
        """A line for each value and output."""
        import pandas

        n = len(self.outputs)
        named = {self.column: np.repeat(self.values, n), "output": self.outputs * len(self.values)}
        return pandas.DataFrame({**named, "mean": self.mean.ravel(), "deviation": self.deviation.ravel()})


def chosen(n: int, most: int, among: np.ndarray | None = None) -> np.ndarray:
    """The places of some rows, in order: all, or so many, always the same."""
    among = np.arange(n) if among is None else among
    return among if len(among) <= most else np.sort(np.random.default_rng(0).choice(among, most, replace=False))


def place_of(names: Sequence[str], column: int | str) -> int:
    """Of a column that is given by its name or its place."""
    if column in names:
        return names.index(str(column))
    if isinstance(column, int | np.integer) and not isinstance(column, bool) and 0 <= column < len(names):
        return int(column)
    raise InvalidArgumentError(f"must be one of X by name or place, got {column!r}; there are {some(names)}.", "column")


def replaced(x: np.ndarray, columns: slice, places: np.ndarray, source: np.ndarray | None = None) -> np.ndarray:
    """A copy that has in some columns what stands there in other rows, of the same table unless said."""
    copy = x.copy()
    copy[:, columns] = (x if source is None else source)[places, columns]
    return copy


def in_calls(function: Callable[[Any], np.ndarray], tables: Iterator[np.ndarray], n: int) -> np.ndarray:
    """`function` of tables of n rows, several at once: most of the time that few rows take is not theirs."""
    results, waiting = [], []
    for table in tables:
        waiting.append(table)
        if (len(waiting) + 1) * n > AT_ONCE:
            results.append(function(np.concatenate(waiting)))
            waiting = []
    if waiting:
        results.append(function(np.concatenate(waiting)))
    return np.concatenate(results)


def givers(n: int, n_repeats: int) -> np.ndarray:
    """From which row each takes a value, [repeats, rows]: another one each time, and each gives once."""
    rng = np.random.default_rng(0)
    order, shifts = rng.permutation(n), 1 + rng.permutation(n - 1)[:n_repeats]
    giver = np.empty((n_repeats, n), int)
    for i, shift in enumerate(shifts):
        giver[i, order] = np.roll(order, shift)
    return giver


def standard_error(rise: np.ndarray, giver: np.ndarray) -> float:
    """Of the mean of h(row, giver) over both, [repeats, rows].

    With h = m + a(row) + b(giver) + c(both), and every row also a giver, the variance of the mean is that of a + b over
    the rows and that of c over the pairs. Means over repeats by row and by giver, added up, scatter by a + b, and by
    (a + c + b + c) / repeats beside.
    """
    n_repeats, n = rise.shape
    by_both = rise.mean(axis=0) + np.bincount(giver.ravel(), rise.ravel(), n) / n_repeats
    of_pair = np.var(rise, ddof=1) / n_repeats
    return float(np.sqrt(max(np.var(by_both, ddof=1) - of_pair, 0.5 * of_pair) / n))


def grid_of(values: np.ndarray) -> tuple[np.ndarray, bool]:
    """Rows that have the values to try: of numbers and days such as have as many rows between them; of text the
    commonest, in alphabetical order. And whether they are in an order of their own."""
    import pandas

    column = pandas.Series(values)
    there = np.flatnonzero(column.notna())
    if len(there) == 0:
        raise InvalidArgumentError("must have a value in some row, got none.", "column")
    if values.dtype.kind != "O":
        ordered = there[np.argsort(values[there], kind="stable")]
        at = ordered[np.unique(np.linspace(0.02, 0.98, GRID).dot(len(there) - 1).round().astype(int))]
        return at[np.append(True, values[at][1:] != values[at][:-1])], True
    text = column.iloc[there]
    first = text.drop_duplicates()
    return np.array([first.index[first == level][0] for level in sorted(text.value_counts().index[:GRID])]), False
