"""What is looked at before a network is trained."""

import warnings

import numpy as np

from leadline._checks import DataWarning
from leadline._foreign import some

FEW_ROWS = 10
"""To learn from."""

FEW_OF_CLASS = 5
"""Rows of a class, fewer than the parts that they are held out in."""


def warn_of_rows(x: np.ndarray, y: np.ndarray, classes: np.ndarray | None) -> None:
    """Say what is no mistake, and what a user would want to know of rows."""
    said = []
    if len(x) < FEW_ROWS:
        said.append(f"`X` has {len(x)} rows: so few say little about others")
    constant = np.flatnonzero(np.all(x == x[:1], axis=0))
    if len(constant):
        said.append(f"`X` has one value alone in column {some(constant)}: nothing can be learned from it")
    if classes is not None:
        counts = np.bincount(y, minlength=len(classes))
        rare = [f"{classes[i]} ({counts[i]})" for i in np.flatnonzero(counts < FEW_OF_CLASS)]
        if rare:
            said.append(f"`y` has fewer than {FEW_OF_CLASS} rows of class {some(rare)}: it will hardly be learned")
    for one in said:
        warnings.warn(f"{one}.", DataWarning, stacklevel=6)  # where `fit` is called
