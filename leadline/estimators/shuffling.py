"""Tables, arrays or data frames, whose columns are shuffled or given one value, and what comes of it."""

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from leadline._checks import InvalidArgumentError
from leadline._foreign import some

AT_ONCE = 4096
"""Rows that are predicted in one call."""

GRID = 12
"""Values of a column that are tried, at most."""


def chosen(n: int, most: int, among: np.ndarray | None = None) -> np.ndarray:
    """The places of some rows, in order: all, or so many, always the same."""
    among = np.arange(n) if among is None else among
    return among if len(among) <= most else np.sort(np.random.default_rng(0).choice(among, most, replace=False))


def as_table(X: Any) -> Any:
    """A data frame, or an array."""
    if hasattr(X, "iloc"):
        return X
    if hasattr(X, "to_pandas"):  # polars
        return X.to_pandas()
    X = np.asarray(X)
    if X.ndim != 2:
        raise InvalidArgumentError(f"must be a table, rows by columns, got shape {X.shape}.", "X")
    return X


def names_of(X: Any) -> list[str]:
    """Of the columns; x0, x1 and so on in an array."""
    return [str(name) for name in X.columns] if hasattr(X, "iloc") else [f"x{i}" for i in range(X.shape[1])]


def place_of(X: Any, column: int | str) -> int:
    """Of a column that is given by its name or its place."""
    names = list(X.columns) if hasattr(X, "iloc") else names_of(X)
    if column in names:
        return names.index(column)  # pyright: ignore[reportArgumentType]
    if isinstance(column, int | np.integer) and not isinstance(column, bool) and 0 <= column < len(names):
        return int(column)
    raise InvalidArgumentError(f"must be one of X by name or place, got {column!r}; there are {some(names)}.", "column")


def rows_of(X: Any, places: np.ndarray) -> Any:
    """Those at some places."""
    return X.iloc[places] if hasattr(X, "iloc") else X[places]


def replaced(X: Any, column: int, places: np.ndarray, source: Any = None) -> Any:
    """A copy that has in a column what stands there in other rows, of the same table unless said."""
    source = X if source is None else source
    if hasattr(X, "iloc"):
        X = X.copy()
        X.isetitem(column, source.iloc[places, column].array)
        return X
    X = X.copy()
    X[:, column] = source[places, column]
    return X


def stacked(tables: list[Any]) -> Any:
    """One below the other."""
    if hasattr(tables[0], "iloc"):
        import pandas

        return pandas.concat(tables, ignore_index=True)
    return np.concatenate(tables)


def in_calls(function: Callable[[Any], np.ndarray], tables: Iterator[Any], n: int) -> np.ndarray:
    """`function` of tables of n rows, several at once: most of the time that few rows take is not theirs."""
    results, waiting = [], []
    for table in tables:
        waiting.append(table)
        if (len(waiting) + 1) * n > AT_ONCE:
            results.append(function(stacked(waiting)))
            waiting = []
    if waiting:
        results.append(function(stacked(waiting)))
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


def grid_of(X: Any, place: int) -> tuple[np.ndarray, bool]:
    """Rows that have the values to try in a column: of numbers and times such as have as many rows between them; of
    categories the commonest, as they are sorted. And which it is."""
    import pandas

    column = pandas.Series(X.iloc[:, place].array if hasattr(X, "iloc") else X[:, place])
    there, kinds = np.flatnonzero(column.notna()), pandas.api.types
    if len(there) == 0:
        raise InvalidArgumentError(f"must hold a value, got none in {names_of(X)[place]}.", "column")
    in_order = kinds.is_numeric_dtype(column) or kinds.is_datetime64_any_dtype(column)
    if in_order and not kinds.is_bool_dtype(column):
        ordered = there[np.argsort(column.to_numpy()[there], kind="stable")]
        ranks = np.unique(np.linspace(0.02, 0.98, GRID).dot(len(there) - 1).round().astype(int))
        at = ordered[ranks]
        return at[~column.iloc[at].duplicated().to_numpy()], True
    text = column.iloc[there].astype(str)
    levels = sorted(text.value_counts().index[:GRID])
    first = text.drop_duplicates()
    return np.array([first.index[first == level][0] for level in levels]), False
