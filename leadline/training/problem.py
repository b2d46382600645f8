"""What is to be learned: rows, and what kind of target they have."""

import math
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from leadline._checks import InvalidArgumentError, check_integer
from leadline.likelihoods import Likelihood
from leadline.network.blocks import Shape

Rows = tuple[Any, Any]
"""x [rows, in] and y [rows] or [rows, targets]."""


@dataclass(frozen=True)
class Units:
    """Those of a table: the network sees columns and targets of mean 0 and deviation 1.

    What there is for one number is a number, and for several an array.

    Args:
        x_mean: of the columns.
        x_scale: their standard deviations.
        y_mean: of the target or targets.
        y_scale: their standard deviations.

    Examples:
        >>> import numpy as np
        >>> from leadline import Units
        >>> Units(x_mean=np.array([10.0]), x_scale=np.array([2.0])).inputs(np.array([[14.0]]))
        array([[2.]])
    """

    x_mean: np.ndarray
    x_scale: np.ndarray
    y_mean: Any = 0.0
    y_scale: Any = 1.0

    def inputs(self, x: np.ndarray) -> np.ndarray:
        """Rows as the network takes them.

        Args:
            x: rows in their own units.
        """
        return (x - self.x_mean) / self.x_scale

    def targets(self, y: np.ndarray) -> np.ndarray:
        """Targets as the network takes them.

        Args:
            y: targets in their own units.
        """
        return (y - self.y_mean) / self.y_scale

    @property
    def shift(self) -> float:
        """What the log density of a target loses in its own units."""
        return float(np.sum(np.log(self.y_scale)))


@dataclass(frozen=True)
class Problem:
    """Rows to learn from, and what their targets are.

    Args:
        train: x and y, as the network takes them.
        validation: rows that it is validated on, or the share of the training rows that is held out for that.
        likelihood: of the targets.
        weight: a row counts as much as so many such rows.
        test: rows to measure on, when all is done.
        units: of the rows, where they were standardised.
        about: what it is, under the record's names.
        shape: of a row that is an image, flat: its height, width and channels.
        others: rows of other kinds, by name, as the network takes them. A record then says how well the entropy tells
            them from the test rows, how the rows that it is validated on are predicted, and what depth has of the
            uncertainty.

    Examples:
        >>> import numpy as np
        >>> from leadline import GaussianLikelihood, Problem
        >>> x = np.linspace(-1, 1, 50)[:, None]
        >>> problem = Problem((x, x**2), validation=0.2, likelihood=GaussianLikelihood(), about={"name": "parabola"})
        >>> problem.likelihood.n_targets
        1
    """

    train: Rows
    validation: Rows | float
    likelihood: Likelihood
    weight: Any = None
    test: Rows | None = None
    units: Units | None = None
    about: dict[str, Any] = field(default_factory=dict)
    shape: Shape | None = None
    others: dict[str, Any] | None = None

    def __post_init__(self) -> None:
        if self.shape is not None:
            check_shape(self.shape, self.train[0])

    @property
    def validates_on_its_own(self) -> bool:
        """Whether the rows that it is validated on are others than those that it is trained on."""
        return isinstance(self.validation, tuple) and self.validation is not self.train

    @property
    def rows(self) -> tuple[Any, ...]:
        """All that training sees of it, as arrays."""
        given = (self.train, self.validation, self.weight)
        rows = tuple(tuple(map(np.asarray, part)) if isinstance(part, tuple) else part for part in given)
        return rows if self.shape is None else (*rows, self.shape)


def check_shape(shape: Any, x: Any) -> None:
    """Flat images of that shape."""
    if not (isinstance(shape, tuple) and len(shape) == 3):
        raise InvalidArgumentError(f"must be (height, width, channels), got {shape!r}.", "shape")
    for size in shape:
        check_integer("shape", size, 1)
    if np.shape(x)[-1] != math.prod(shape):
        got = f"got rows of {np.shape(x)[-1]} for {shape}"
        raise InvalidArgumentError(
            f"must give height times width times channels as the numbers of a row, {got}.", "shape"
        )


def added_in_units(problems: list[Problem], held: np.ndarray) -> dict[str, np.ndarray]:
    """What to add to the columns of a history for densities of the targets in their own units, for every run."""
    shift = [0.0 if one.units is None else one.units.shift for one in problems]
    if not any(shift):
        return {}
    n_runs = len(held) // len(problems)
    n_data = []  # that a run trains on
    for i, one in enumerate(problems):
        weight = np.ones(len(one.train[0])) if one.weight is None else np.asarray(one.weight)
        n_data.append(weight.sum() - weight[held[i * n_runs : (i + 1) * n_runs]].sum(axis=1))
    per_row = np.repeat(shift, n_runs)
    in_all = np.concatenate(n_data) * per_row
    return {"free_energy": in_all, "expected_nll": in_all, "validation_nll": per_row}
