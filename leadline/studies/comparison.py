"""What a comparison gives: measures, their errors, and differences row by row, as a table and in words."""

import math
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from textwrap import wrap
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from leadline import metrics
from leadline._foreign import on_one_line, shown
from leadline._version import __version__
from leadline.judged import OfClasses, OfNumbers, inside

if TYPE_CHECKING:
    import pandas

NOISE = 2.0
"""Standard errors that a difference must have to be more than noise."""

COVERED = 0.9
"""The level of the intervals that are looked at."""

WIDE = 100
"""Letters in a line where no terminal says how many it has."""


class Judge(NamedTuple):
    """One of the measures that candidates are compared by."""

    name: str
    head: str
    """Of its column."""
    away: str
    """Of the column of its differences."""
    meaning: str
    better: str = "lower"
    unit: float = 1.0
    """100 where shares are shown in percent."""

    @property
    def label(self) -> str:
        """As everywhere."""
        return metrics.MEASURES[self.name].label

    def judged(self, parts: np.ndarray) -> np.ndarray:
        """What every row adds to the quantity that differences are taken of. For a share that should be met this is
        its distance from there."""
        return np.sign(parts.mean() - COVERED) * (parts - COVERED) if self.better == "equal" else parts

    def verdict(self, difference: float, error: float) -> str:
        """On a candidate that differs by so much from the first."""
        if abs(difference) <= NOISE * error:
            return "within noise"
        return "better" if (difference > 0) == (self.better == "higher") else "worse"


JUDGES = {
    "classification": (
        Judge("accuracy", "accuracy, %", "accuracy, %", "Rows whose most probable class is the right one.", "higher"),
        Judge("nll", "NLL", "NLL", "Mean of −ln(probability of the right class), in nats. 0 is perfect."),
        Judge("ece", "ECE, %", "ECE, %", "How far confidence and accuracy lie apart, on average.", unit=100),
    ),
    "regression": (
        Judge("rmse", "RMSE", "RMSE", "Root of the mean squared error, in the target’s own units."),
        Judge("nll", "NLL", "NLL", "Mean of −ln(density at the true value), in nats. It may be negative."),
        Judge(
            *("coverage_90", "inside 90 %, %", "off 90 %, %", "Rows whose true value lies inside their 90 % interval."),
            *("equal", 100),
        ),
    ),
}
"""By the task."""


def parts_of(said: OfClasses | OfNumbers) -> dict[str, np.ndarray]:
    """What every row adds to each measure: its mean is the measure.

    Where the measure is no mean, this is so to first order: of the root of the mean square, and of the calibration
    error, where every bin keeps the sign of its gap.
    """
    if isinstance(said, OfNumbers):
        squares = np.square(said.error)
        rmse = float(np.sqrt(squares.mean()))
        around = (squares - squares.mean()) / (2 * rmse) if rmse else squares
        return {"rmse": rmse + around, "nll": -said.log_mixture, "coverage_90": inside(said, COVERED)}
    confidence, right = said.probabilities.max(axis=1), said.probabilities.argmax(axis=1) == said.y
    rows, sure, accurate = metrics.reliability(*said)
    bins = np.clip(np.ceil(confidence * len(rows)).astype(int) - 1, 0, len(rows) - 1)
    gaps = np.sign(accurate - sure)[bins] * (right - confidence)
    return {"accuracy": 100.0 * right, "nll": -metrics.log_probability(*said), "ece": gaps}


def mean_and_error(parts: np.ndarray) -> tuple[float, float | None]:
    """The mean and its standard error, if rows are independent."""
    with np.errstate(invalid="ignore"):
        mean, known = float(parts.mean()), len(parts) > 1 and np.isfinite(parts).all()
    return mean, float(parts.std(ddof=1) / math.sqrt(len(parts))) if known else None


def measured(task: str, parts: Mapping[str, np.ndarray], firsts: Mapping[str, np.ndarray] | None) -> dict[str, Any]:
    """The measures of a candidate with their errors, and what they are beside the first's, row by row, under the names
    of the table's columns."""
    row: dict[str, Any] = {}
    for judge in JUDGES[task]:
        row[judge.name], row[f"{judge.name}_error"] = mean_and_error(parts[judge.name])
        if firsts is not None:
            with np.errstate(invalid="ignore"):
                difference, error = mean_and_error(judge.judged(parts[judge.name]) - judge.judged(firsts[judge.name]))
            known = error is not None
            row[f"{judge.name}_difference"], row[f"{judge.name}_difference_error"] = (
                difference if known else None,
                error,
            )
            row[f"{judge.name}_verdict"] = judge.verdict(difference, error) if known else None
    return row


@dataclass(frozen=True, repr=False)
class Comparison:
    """Candidates side by side, measured on the same rows; printed, it is a table.

    Args:
        rows: of every candidate, the measures, their standard errors, their differences from the first's, and more.
        task: classification or regression.
        about: what was compared, and how.
        notes: what one should know to read it.

    Examples:
        >>> from sklearn.datasets import load_iris
        >>> from sklearn.linear_model import LogisticRegression
        >>> from sklearn.naive_bayes import GaussianNB
        >>> from leadline import compare
        >>> candidates = {"linear": LogisticRegression(max_iter=1000), "bayes": GaussianNB()}
        >>> said = compare(*load_iris(return_X_y=True), candidates=candidates, folds=2)
        >>> said.task, [row["candidate"] for row in said.rows]
        ('classification', ['linear', 'bayes'])
    """

    rows: list[dict[str, Any]]
    task: str
    about: dict[str, Any]
    notes: list[str]

    def to_frame(self) -> "pandas.DataFrame":
        """A row for every candidate."""
        import pandas

        return pandas.DataFrame(self.rows).set_index("candidate")

    def to_json(self) -> dict[str, Any]:
        """What a file holds, in ten digits; what JSON does not know, as an infinite number, is left out."""
        rows = [{name: _written(value) for name, value in row.items()} for row in self.rows]
        known = [{name: value for name, value in row.items() if value is not None} for row in rows]
        said = {"leadline": "comparison", "version": __version__, "task": self.task, **self.about}
        return said | {"notes": self.notes, "candidates": known}

    def verdict(self) -> str:
        """Whom the first is ahead of, by the NLL."""
        first, groups = self.rows[0]["candidate"], dict[str, list[str]]()
        for row in self.rows[1:]:
            if verdict := row.get("nll_verdict"):
                groups.setdefault(verdict, []).append(row["candidate"])
        words = {"worse": "better than {}", "better": "worse than {}", "within noise": "within noise of {}"}
        said = [text.format(_listed(groups[verdict])) for verdict, text in words.items() if verdict in groups]
        return f"By the NLL, {first} is {'; '.join(said)}." if said else ""

    @property
    def judges(self) -> list[Judge]:
        """The measures that are known."""
        return [judge for judge in JUDGES[self.task] if any(judge.name in row for row in self.rows)]

    def cells(self, judge: Judge) -> list[str]:
        """The values of a measure and their standard errors.

        Args:
            judge: the measure.
        """
        return _column(self.rows, judge.name, f"{judge.name}_error", judge.unit)

    def differences(self, judge: Judge) -> list[str]:
        """Those from the first candidate, and their standard errors.

        Args:
            judge: the measure.
        """
        name = f"{judge.name}_difference"
        return _column(self.rows, name, f"{name}_error", judge.unit, signed=True)

    def verdicts(self, judge: Judge) -> list[str]:
        """On these differences.

        Args:
            judge: the measure.
        """
        return [row.get(f"{judge.name}_verdict") or "" for row in self.rows]

    def more(self) -> dict[str, list[str]]:
        """What else is known of the candidates, by the heads of the columns."""
        columns = {}
        energies = [row["free_energy"] for row in self.rows if "free_energy" in row]
        if energies:
            cells = _column(self.rows, "free_energy", "free_energy_error")
            lowest = [row.get("free_energy") == min(energies) for row in self.rows]
            columns["free energy"] = [cell + " *"[mark] for cell, mark in zip(cells, lowest, strict=True)]
        if any("depth_mean" in row for row in self.rows):
            columns["E[L]"] = _column(self.rows, "depth_mean", "depth_std", digits=2)
        return columns | {"seconds": [f"{row['seconds']:.2g}" if "seconds" in row else "-" for row in self.rows]}

    def __repr__(self) -> str:
        return "\n".join(self.lines(shutil.get_terminal_size((WIDE, 24)).columns))

    def lines(self, width: int = WIDE) -> list[str]:
        """The table, or where that is too wide a paragraph for every candidate; and the notes.

        Args:
            width: of a line, at most.
        """
        lines = self._tables()
        if max(map(len, lines)) > width:
            lines = self._paragraphs()
        notes = [line for note in (self.verdict(), *self.notes) for line in wrap(on_one_line(note), max(width, 20))]
        return [*lines, *([""] if notes else []), *notes]

    def _tables(self) -> list[str]:
        """One of the measures, and one of their differences from the first's."""
        names = [shown(row["candidate"]) for row in self.rows]
        columns = {judge.head: self.cells(judge) for judge in self.judges} | self.more()
        lines = _aligned(["", *columns], [names, *columns.values()])
        if any(cell != "-" for judge in self.judges for cell in self.differences(judge)):
            heads = [f"minus {names[0]}", *(judge.away for judge in self.judges)]
            away = [self._marked(judge) for judge in self.judges]
            lines += ["", *_aligned(heads, [column[1:] for column in (names, *away)])]
        return lines

    def _marked(self, judge: Judge) -> list[str]:
        cells = zip(self.differences(judge), self.verdicts(judge), strict=True)
        return [f"{cell} {'~' if verdict == 'within noise' else verdict:6s}" for cell, verdict in cells]

    def _paragraphs(self) -> list[str]:
        """Below its name, what is known of a candidate."""
        columns, lines = {judge.head: self.cells(judge) for judge in self.judges} | self.more(), []
        away = {judge.head: self._marked(judge) for judge in self.judges}
        for i, row in enumerate(self.rows):
            lines.append(shown(row["candidate"]))
            for head, cells in columns.items():
                lines += [f"  {head:14s} {cells[i]}"] * (cells[i] != "-")
                difference = away[head][i].strip() if head in away else "-"
                lines += [f"  {'':14s} {difference}"] * (difference != "-")
        return lines


def _column(
    rows: list[dict[str, Any]],
    name: str,
    error: str,
    unit: float = 1.0,
    *,
    signed: bool = False,
    digits: int | None = None,
) -> list[str]:
    """Numbers with their errors, all with so many digits behind the point, or with two of a middling error."""
    errors = sorted(unit * row[error] for row in rows if row.get(error))
    if digits is None:
        digits = min(max(0, 1 - math.floor(math.log10(errors[(len(errors) - 1) // 2]))), 9) if errors else 2
    return [_with_error(row.get(name), row.get(error), unit, digits, "+" if signed else "") for row in rows]


def _with_error(value: float | None, error: float | None, unit: float, digits: int, sign: str) -> str:
    if value is None:
        return "-"
    text = f"{unit * value:{sign},.{digits}f}" if math.isfinite(value) else f"{value:{sign}}"
    text += "" if error is None else f" ± {unit * error:,.{digits}f}"
    return text.replace("-", "\N{MINUS SIGN}")


def _aligned(heads: list[str], columns: list[list[str]]) -> list[str]:
    """Lines of columns, the first at the left, the others at the right."""
    widths = [max(map(len, [head, *column])) for head, column in zip(heads, columns, strict=True)]
    rows = [heads, *zip(*columns, strict=True)]
    return ["  ".join([row[0].ljust(widths[0]), *map(str.rjust, row[1:], widths[1:])]).rstrip() for row in rows]


def _listed(names: list[str]) -> str:
    """With "and" before the last."""
    *rest, last = map(shown, names)
    return f"{', '.join(rest)} and {last}" if rest else last


def _written(value: Any) -> Any:
    """Ten digits: the last ones of a sum may depend on who was ready first."""
    if isinstance(value, float):
        return float(f"{value:.10g}") if math.isfinite(value) else None
    return value
