"""What is said of rows is made of finite numbers, or a sentence tells which cell is to blame."""

from collections.abc import Sequence

import numpy as np

from leadline._checks import InvalidArgumentError
from leadline._foreign import shown


class NoPredictionError(InvalidArgumentError):
    """A row is so far from those that were trained on that what is said of it is not a finite number."""

    def __init__(self, row: int, column: int | str | None, value: float, distance: float):
        """In which column, by how many standard deviations; a column of None is the target."""
        self.row, self.column, self._given = row, column, (row, column, value, distance)
        self.got = f"{value}, {distance:.3g} standard deviations from the rows that were trained on"
        named = f"`{shown(column)}`" if isinstance(column, str) else column
        where = f"row {row}" if column is None else f"row {row}, column {named}"
        said = f"must be near enough for finite predictions, got {self.got}, in {where}"
        super().__init__(f"{said}; correct it or leave the row out.", "y" if column is None else "X")

    def __reduce__(self) -> tuple[object, ...]:  # from a process of joblib's
        return type(self), self._given


def check_said(
    said: np.ndarray,
    given: tuple[np.ndarray, ...],
    standardised: tuple[np.ndarray, ...],
    names: Sequence[str] | None = None,
) -> None:
    """What is said of rows of x (and y) is made of finite numbers; else the worst cell of the first row to blame."""
    wrong = np.flatnonzero(~np.isfinite(said.reshape(len(said), -1)).all(axis=1))
    if len(wrong):
        of_row, far = (np.concatenate([part[wrong[0]] for part in parts]) for parts in (given, standardised))
        distance = np.nan_to_num(np.abs(far), nan=np.inf, posinf=np.inf)
        column = int(distance.argmax())
        place = None if column >= given[0].shape[1] else column if names is None else names[column]
        raise NoPredictionError(int(wrong[0]), place, of_row[column], distance[column])
