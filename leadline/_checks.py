"""One sentence for a wrong argument: its name, its value, what is allowed."""

import csv
import sys
import warnings
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import numpy as np
from jax.core import Tracer

from leadline._foreign import on_one_line

LARGEST_INTEGER = 2**31 - 1
"""The largest whole number that the compiled programs hold."""

LARGEST = 1e302
"""The largest number that a column or a target may have, so that sums and differences of them are numbers, too."""

WEIGHTS = (1e-6, 1e9)
"""What a row may count, at least and at most, where it counts at all: training computes with squares of such sums."""


class InvalidArgumentError(ValueError):
    """A wrong value given by the user; its message stands alone, without a traceback.

    With an `argument`, the message begins with its name, and whoever took it under another name says so (`naming`).

    Args:
        message: what is wrong, and what is allowed.
        argument: its name, if the message is to begin with it.

    Examples:
        >>> from leadline import DepthClassifier
        >>> DepthClassifier(width=0).fit([[0.0], [1.0]], [0, 1])
        Traceback (most recent call last):
            ...
        leadline._checks.InvalidArgumentError: `width` must be a whole number of at least 1, got 0.
    """

    def __init__(self, message: str, argument: str = ""):
        super().__init__(on_one_line(f"`{argument}` {message}" if argument else message))
        self.argument, self.rest = argument, message


class DataWarning(UserWarning):
    """Something about the rows that their owner would want to know.

    Examples:
        >>> import warnings
        >>> from leadline import DataWarning, DepthClassifier
        >>> with warnings.catch_warnings():
        ...     warnings.simplefilter("ignore", DataWarning)  # the rows are meant to be as they are
        ...     clf = DepthClassifier(width=2, n_restarts=1, max_iter=2).fit([[0.0], [1.0]], [0, 1])
    """


class UnfinishedWarning(UserWarning):
    """A model predicts whose training was cut off.

    Examples:
        >>> import warnings
        >>> from leadline import UnfinishedWarning
        >>> with warnings.catch_warnings():
        ...     warnings.simplefilter("error", UnfinishedWarning)  # predict with finished models alone
    """


_OURS = ("leadline", "sklearn", "numpy", "_collections_abc")
"""Whose code stands between a note and who is to read it."""


def tell(note: str, kind: type[Warning] = DataWarning) -> None:
    """Warn of something, where the caller's own code asked for it."""
    level, frame = 2, sys._getframe(1)
    while frame.f_back is not None and frame.f_globals.get("__name__", "").split(".")[0] in _OURS:
        level, frame = level + 1, frame.f_back
    warnings.warn(note, kind, stacklevel=level)


@contextmanager
def naming(names: Mapping[str, str]) -> Iterator[None]:
    """Call arguments by the names that the user knows them by."""
    try:
        yield
    except InvalidArgumentError as error:
        if error.argument not in names:
            raise
        raise InvalidArgumentError(error.rest, names[error.argument]) from error


WRONG = (
    *(OSError, EOFError, LookupError, TypeError, ValueError, AttributeError, ArithmeticError, RecursionError),
    *(NotImplementedError, csv.Error),
)
"""What goes wrong when a file says something else than was ever written; its checksum may be right all the same."""


@contextmanager
def refusing(words: str) -> Iterator[None]:
    """Whatever is wrong with what a file says becomes one sentence: the words, and what it was."""
    try:
        yield
    except InvalidArgumentError:
        raise
    except WRONG as error:
        said = isinstance(error, ValueError | OSError) and (getattr(error, "strerror", "") or str(error))
        raise InvalidArgumentError(f"{words}: {said.rstrip('.') if said else repr(error)}.") from error


def is_traced(value: Any) -> bool:
    """Inside `jax.jit` a value is not a number yet and cannot be checked."""
    return isinstance(value, Tracer)


def check_positive(name: str, value: Any) -> None:
    if not is_traced(value) and not np.all((np.asarray(value) > 0) & np.isfinite(value)):
        raise InvalidArgumentError(f"must be positive and finite, got {value}.", name)


def check_finite(name: str, value: Any) -> None:
    if not is_traced(value) and not np.all(np.isfinite(value)):
        raise InvalidArgumentError(f"must be finite, got {value}.", name)


def check_number(name: str, value: Any) -> None:
    if isinstance(value, bool) or not isinstance(value, int | float | np.number):
        raise InvalidArgumentError(f"must be a number, got {value!r}.", name)


def check_at_least(name: str, value: float, minimum: float) -> None:
    check_number(name, value)
    check_finite(name, value)
    if value < minimum:
        raise InvalidArgumentError(f"must be at least {minimum}, got {value}.", name)


def check_size(name: str, values: np.ndarray) -> None:
    """Numbers of rows that can be standardised."""
    bad = np.argwhere(~(np.abs(values) <= LARGEST))
    if len(bad):
        where = ", ".join(f"{axis} {i}" for axis, i in zip(("row", "column"), bad[0], strict=False))
        got = f"got {values[tuple(bad[0])]} in {where}; take another unit"
        raise InvalidArgumentError(f"must hold numbers of at most {LARGEST:g} in size, {got}.", name)


def check_weights(name: str, weight: np.ndarray) -> None:
    """What every row counts."""
    bad = weight[~((weight >= WEIGHTS[0]) & (weight <= WEIGHTS[1]))]
    if len(bad):
        must = "must give every row that counts a weight from {:g} to {:g}".format(*WEIGHTS)
        raise InvalidArgumentError(f"{must}, got {bad[0]}; a row of weight 2 counts as two rows.", name)


def check_share(name: str, value: float) -> None:
    check_number(name, value)
    if not 0 <= value <= 1:
        raise InvalidArgumentError(f"must lie between 0 and 1, got {value}.", name)


def check_integer(name: str, value: Any, minimum: int, maximum: int = LARGEST_INTEGER) -> None:
    if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < minimum:
        raise InvalidArgumentError(f"must be a whole number of at least {minimum}, got {value!r}.", name)
    if value > maximum:
        raise InvalidArgumentError(f"must be at most {maximum}, got {value!r}.", name)


def check_choice(name: str, value: Any, choices: Iterable[str]) -> None:
    choices = list(choices)
    if not isinstance(value, str) or value not in choices:
        raise InvalidArgumentError(f"must be one of {', '.join(choices)}, got {value!r}.", name)


def check_flag(name: str, value: Any) -> None:
    if not isinstance(value, bool | np.bool_):
        raise InvalidArgumentError(f"must be True or False, got {value!r}.", name)


def check_entries(name: str, entries: Any) -> None:
    if not entries or len(set(entries)) < len(entries):
        raise InvalidArgumentError(f"must have at least one entry, and none twice, got {entries}.", name)


def check_quantiles(lower: float, upper: float) -> None:
    if not 0 <= lower < upper <= 1:
        raise InvalidArgumentError(
            f"`lower_quantile` and `upper_quantile` must satisfy 0 <= lower < upper <= 1, got {lower} and {upper}."
        )


def check_features(name: str, x: Any, n_inputs: int | None = None, dtype: Any = np.float64) -> None:
    """A table of finite numbers, rows by columns, which are finite as such floats, too."""
    if x.ndim != 2 or min(x.shape) == 0:
        raise InvalidArgumentError(f"must be a table with at least one row and one column, got shape {x.shape}.", name)
    if n_inputs is not None and x.shape[1] != n_inputs:
        raise InvalidArgumentError(f"must have {n_inputs} columns, got {x.shape[1]}.", name)
    bad = np.argwhere(~(np.abs(x) <= np.finfo(dtype).max))
    if len(bad):
        i, j = bad[0]
        must = f"must fit into {np.dtype(dtype)}" if np.isfinite(x[i, j]) else "must be finite"
        raise InvalidArgumentError(f"{must}, got {x[i, j]} in row {i}, column {j}; {len(bad)} in all.", name)
