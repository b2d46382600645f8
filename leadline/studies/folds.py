"""Which rows of a table are trained on, and which are kept apart to measure on."""

from typing import Any

import numpy as np
from sklearn.model_selection import train_test_split

from leadline._checks import InvalidArgumentError, check_integer
from leadline._foreign import some

Fold = tuple[np.ndarray, np.ndarray]
"""The numbers of the rows to train on, and of those to measure on."""


def kept_apart(y: np.ndarray, test: float, seed: int, *, of_classes: bool) -> Fold:
    """Keep a share of the rows apart; classes in proportion where they have enough rows, and of every class at least
    one to train on."""
    if not 0 <= test < 1:
        raise InvalidArgumentError(f"`test` must be a share of the rows from 0 to below 1, got {test}.")
    rows, n_test = np.arange(len(y)), round(test * len(y))
    if n_test == 0:
        return rows, rows[:0]
    if len(y) - n_test < 2:
        raise InvalidArgumentError(f"`test` must leave two rows to train on, got {test} of {len(y)} rows.")
    counts = np.unique(y, return_counts=True)[1] if of_classes else np.array([1])
    if len(y) - n_test < len(counts):
        got = f"got {test} of {len(y)} rows with {len(counts)} classes"
        raise InvalidArgumentError(f"`test` must leave a row of every class to train on, {got}.")
    stratify = y if counts.min() >= 2 and n_test >= len(counts) else None
    parts: Any = train_test_split(rows, test_size=n_test, random_state=seed, stratify=stratify)
    train, kept = parts
    if of_classes:
        _give_back(y, train, kept)
    return train, kept


def _give_back(y: np.ndarray, train: np.ndarray, kept: np.ndarray) -> None:
    """Have a row of every class among those to train on: it changes places with one whose class has more there."""
    classes, first = np.unique(y[kept], return_index=True)
    lacking = first[~np.isin(classes, y[train])]
    spare = np.setdiff1d(np.arange(len(train)), np.unique(y[train], return_index=True)[1])[: len(lacking)]
    train[spare], kept[lacking] = kept[lacking], train[spare]


def cross_validation(y: np.ndarray, folds: int, seed: int, *, of_classes: bool) -> tuple[list[Fold], list[str]]:
    """Folds that each measure on other rows, classes in proportion; and what one should know of them.

    Rows are dealt out like cards, class by class, so that no class has all its rows in one fold. One that has a single
    row is trained on in every fold, and not measured on: nobody could know it otherwise.
    """
    check_integer("folds", folds, 2)
    order, notes = np.random.default_rng(seed).permutation(len(y)), []
    dealt = order
    if of_classes:
        classes, counts = np.unique(y, return_counts=True)
        single = np.isin(y, classes[counts == 1])
        if single.any():
            these = some(classes[counts == 1])
            notes = [f"Trained on in every fold, and not measured on: the only row each of the classes {these}."]
        dealt = order[np.argsort(y[order], kind="stable")]
        dealt = dealt[~single[dealt]]
    if folds > len(dealt):
        raise InvalidArgumentError(f"must be at most the number of rows, {len(dealt)}, got {folds}.", "folds")
    fold_of = np.full(len(y), -1)
    fold_of[dealt] = np.arange(len(dealt)) % folds
    return [(np.flatnonzero(fold_of != k), np.flatnonzero(fold_of == k)) for k in range(folds)], notes
