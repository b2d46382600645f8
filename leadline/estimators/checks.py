"""What is looked at before a network is trained."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
from sklearn.utils import check_random_state

from leadline._checks import (
    InvalidArgumentError,
    check_at_least,
    check_flag,
    check_integer,
    check_number,
    check_share,
    naming,
    tell,
)
from leadline._foreign import shown, some
from leadline.estimators.encoder import TableEncoder
from leadline.files.checkpoints import Checkpoints
from leadline.files.columns import rows
from leadline.training.run import Watch
from leadline.training.settings import names_at

FEW_ROWS = 10
"""To learn from."""

FEW_OF_CLASS = 5
"""Rows of a class, fewer than the parts that they are held out in."""


@contextmanager
def as_arguments() -> Iterator[None]:
    """Call settings, and what watches a training, by the names that the constructor has for them."""
    with naming({**names_at("estimator"), "on_epoch": "callback", "validation": "validation_fraction"}):
        yield


def check_parameters(estimator: Any) -> None:
    """Refuse a wrong argument of the constructor before anything is done with the rows."""
    for name in ("early_stopping", "warm_start"):
        check_flag(name, getattr(estimator, name))
    with as_arguments():
        estimator.settings().resolved(estimator._likelihood)
        Watch(on_epoch=estimator.callback)
        check_at_least("checkpoint_every", estimator.checkpoint_every, 0)
        if estimator.checkpoint_dir is not None:
            Checkpoints(estimator.checkpoint_dir, "", estimator.checkpoint_every)
    if not isinstance(estimator.verbose, bool | np.bool_):
        check_integer("verbose", estimator.verbose, 0)
    if estimator.validation_fraction is not None:
        check_share("validation_fraction", estimator.validation_fraction)
        if estimator.validation_fraction == 1:
            raise InvalidArgumentError("must leave rows to train on, got 1; take a smaller one.", "validation_fraction")
    _check_class_weight(getattr(estimator, "class_weight", None))
    if not isinstance(estimator.encoder, TableEncoder | None):
        raise InvalidArgumentError(f"must be a TableEncoder or None, got {estimator.encoder!r}.", "encoder")
    _check_random_state(estimator.random_state)
    if estimator.checkpoint_dir is not None and estimator.random_state is None:
        must = "must be given with a `checkpoint_dir`, got None: without, no training is like another"
        raise InvalidArgumentError(f"{must}.", "random_state")


def _check_random_state(value: Any) -> None:
    try:
        check_random_state(value)
    except (ValueError, TypeError) as error:
        must = "must be a whole number from 0 to 4294967295 (a seed), a numpy.random.RandomState or None"
        raise InvalidArgumentError(f"{must}, got {value!r}.", "random_state") from error


def _check_class_weight(value: Any) -> None:
    """None, a word, or a dict of numbers."""
    if isinstance(value, dict):
        for weight in value.values():
            check_number("class_weight", weight)
    elif value is not None and not (isinstance(value, str) and value == "balanced"):
        must = "must be None, 'balanced' or a dict from class to weight"
        raise InvalidArgumentError(f"{must}, got {value!r}.", "class_weight")


def finite_array(given: Any) -> np.ndarray:
    """As floats; an array with gaps or infinities is refused."""
    x = np.asarray(given, float)
    bad = np.argwhere(~np.isfinite(x))
    if len(bad):
        value = "NaN" if np.isnan(x[tuple(bad[0])]) else "inf"
        way_out = "; a gap may be in a DataFrame" if value == "NaN" else ""
        where = f"in row {bad[0, 0]}, column {bad[0, 1]}, {len(bad)} in all"
        raise InvalidArgumentError(f"must hold finite numbers, got {value} {where}{way_out}.", "X")
    return x


@contextmanager
def naming_text(X: Any) -> Iterator[None]:
    """Name the first value of an array that is no number, where scikit-learn would name the value alone."""
    try:
        yield
    except ValueError as error:
        cells = np.asarray(X) if isinstance(X, np.ndarray | list | tuple) else np.empty(0)
        bad = next((place for place in np.ndindex(cells.shape) if not _is_number(cells[place])), None)
        if bad is None or cells.ndim != 2 or cells.dtype.kind not in "OUS":
            raise
        got = f"got {shown(cells[bad])!r} in row {bad[0]}, column {bad[1]}; text may be in a DataFrame"
        raise InvalidArgumentError(f"must hold numbers, {got}.", "X") from error


def check_beside(X: Any, y: Any, sample_weight: Any, *, numbers: bool) -> None:
    """What stands beside the rows."""
    check_targets(y, numbers=numbers)
    check_sample_weight(sample_weight)
    warn_of_order(X, y=y, sample_weight=sample_weight)


def evaluation_pair(eval_set: Any, *, numbers: bool) -> Any:
    """One pair (X, y); or a list of one, as others take them."""
    pair = eval_set[0] if isinstance(eval_set, list) and len(eval_set) == 1 else eval_set
    if not isinstance(pair, tuple | list) or len(pair) != 2:
        raise InvalidArgumentError(f"must be a pair (X, y), got {shown(repr(eval_set))}.", "eval_set")
    if isinstance(pair, list) and all(isinstance(one, tuple) for one in pair):
        got = "got a list of two; give the one that decides"
        raise InvalidArgumentError(f"must be one pair (X, y), {got}.", "eval_set")
    with naming({"y": "eval_set"}):
        check_targets(pair[1], numbers=numbers)
    return pair


def check_sample_weight(weight: Any) -> None:
    """Refuse what is no number, by its name."""
    values = np.asarray(weight)
    if weight is not None and values.dtype.kind not in "biuf":
        wrong = next((value for value in values.reshape(-1) if not _is_number(value)), None)
        if wrong is not None:
            raise InvalidArgumentError(f"must hold a number for every row, got {shown(wrong)!r}.", "sample_weight")


def warn_of_order(X: Any, **beside: Any) -> None:
    """Say that rows go together by their places, where the indices of pandas would have it otherwise."""
    index: Any = getattr(X, "index", None)
    for name, given in beside.items():
        own: Any = getattr(given, "index", None)
        if not hasattr(index, "equals") or not hasattr(own, "equals") or own.equals(index) or len(own) != len(index):
            continue
        if own.is_unique and own.isin(index).all():
            way_out = f"`{name}.loc[X.index]` puts them in the order of `X`"
            tell(f"`{name}` has the index of `X` in another order, and its rows are taken by their places: {way_out}.")


def check_targets(y: Any, *, numbers: bool) -> None:
    """Refuse targets that are missing, and what is no number where numbers are to be learned."""
    values = np.asarray(y)
    if values.ndim == 0 or values.size == 0:
        return  # scikit-learn says what is wrong
    if values.dtype.kind in "OfM":
        from pandas import isna

        gaps: Any = isna(values)
        missing = gaps.reshape(len(values), -1).any(axis=1)
        if missing.any():
            must = f"must have a value in every row, got none (NaN) in {rows(missing)}"
            raise InvalidArgumentError(f"{must}; leave such rows out.", "y")
    if numbers and values.dtype.kind in "OUSMm":
        wrong = next((value for value in values.reshape(-1) if not _is_number(value)), None)
        if wrong is not None:
            raise InvalidArgumentError(f"must hold numbers, got {shown(wrong)!r}.", "y")


def _is_number(value: Any) -> bool:
    try:
        float(value)
    except (ValueError, TypeError):
        return False
    return not isinstance(value, np.datetime64 | np.timedelta64)


def warn_of_rows(x: np.ndarray, y: np.ndarray, classes: np.ndarray | None, *, encoded: bool) -> None:
    """Say what is no mistake, and what a user would want to know of rows. (An encoder has looked at the columns.)"""
    said = []
    if len(x) < FEW_ROWS:
        said.append(f"there are {len(x)} rows to train on: so few say little about others")
    constant = np.flatnonzero(np.all(x == x[:1], axis=0))
    if len(constant) and not encoded:
        said.append(f"`X` has one value alone in column {some(constant)}: nothing can be learned from it")
    if classes is not None:
        counts = np.bincount(y, minlength=len(classes))
        rare = [f"{classes[i]} ({counts[i]})" for i in np.flatnonzero(counts < FEW_OF_CLASS)]
        if rare:
            said.append(f"fewer than {FEW_OF_CLASS} rows are of class {some(rare)}: it will hardly be learned")
    for one in said:
        tell(f"{one}.")
