"""A table with a target: what is learned from which columns."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, get_args

import numpy as np

from leadline._checks import InvalidArgumentError, check_choice, refusing
from leadline._foreign import shown
from leadline.backend.numerics import mean_and_scale
from leadline.files.columns import Encoding, nearest, not_finite, rows
from leadline.files.learning import Trouble, in_one_sentence, learn_decimal, learn_encoding
from leadline.files.values import TRUTH, Decimal, Reading, number, numbers, texts, unit_in

if TYPE_CHECKING:  # at run time inside the functions: it is slow to import
    import pandas

Task = Literal["classification", "regression"]
TargetKind = Literal["number", "boolean", "text"]


@dataclass(frozen=True)
class Asked:
    """What the user says about a table; what he does not say is as it looks."""

    category: tuple[str, ...] = ()
    number: tuple[str, ...] = ()
    ignore: tuple[str, ...] = ()
    na: tuple[str, ...] = ()
    decimal: Decimal | None = None
    impute: bool = True
    task: Literal["auto", "classification", "regression"] = "auto"


@dataclass(frozen=True)
class TableFormat:
    """How a table is read: kept as JSON in the record."""

    encoding: Encoding
    target: str
    task: Task
    target_kind: TargetKind = "number"  # so that labels have one type in every file
    notes: tuple[str, ...] = field(default=(), compare=False)
    """What is to be said about the training table; not kept."""

    def to_json(self) -> dict[str, Any]:
        own = {"target": self.target, "task": self.task, "target_kind": self.target_kind}
        return {**self.encoding.to_json(), **own}

    @staticmethod
    def from_json(content: Any) -> "TableFormat":
        with refusing("The format of a table must be what `to_json` wrote; fit again to write it anew"):
            given = dict(content)
            own = {name: given.pop(name) for name in ("target", "task", "target_kind") if name in given}
            fmt = TableFormat(Encoding.from_json(given), **own)
            if not isinstance(fmt.target, str):
                raise TypeError(f"the target is called {fmt.target!r}")
            for name, value, choices in (("task", fmt.task, Task), ("target_kind", fmt.target_kind, TargetKind)):
                check_choice(name, value, get_args(choices))
        return fmt


def learn_format(
    frame: "pandas.DataFrame",
    target: str,
    asked: Asked = Asked(),  # noqa: B008 (it is frozen)
    spelled: Callable[[str, list[str]], str] = lambda option, values: f"{option} {' '.join(values)}",
) -> TableFormat:
    """What each column is, and the target; all that is wrong in one sentence.

    `task="auto"` classifies text, truth values, and whole numbers of few values: at most 20 and at most half the rows
    (two values always are few).
    """
    check_choice("task", asked.task, ["auto", *get_args(Task)])
    if target not in frame.columns:
        got = f"got {target!r}; {nearest(target, frame.columns)}"
        split = " (if these are several, say what separates them with `--sep`)" if len(frame.columns) == 1 else ""
        raise InvalidArgumentError(f"`target` must be a column of the table, {got}{split}.")
    if target in asked.ignore:
        raise InvalidArgumentError(f"`ignore` must not hold the target, got {target!r}; name another target.")
    for option in ("category", "number"):
        if target in getattr(asked, option):
            must = f"must not hold the target, got {target!r}; `task` says whether that is a class or a number"
            raise InvalidArgumentError(f"{must}.", option)
    decimal = asked.decimal or learn_decimal(frame, {*asked.ignore, *asked.category})
    reading = Reading("." if isinstance(decimal, Trouble) else decimal, asked.na)
    inputs = frame.drop(columns=target)
    said = {name: getattr(asked, name) for name in ("category", "number", "ignore", "impute")}
    encoding, troubles, notes = learn_encoding(inputs, reading, **said)
    if isinstance(decimal, Trouble):
        troubles.insert(0, decimal)
    task, target_kind = _learn_target(frame[target], asked.task, reading)
    if target_kind == "text" and (marks := labels(frame[target], reading) == "?").any():
        stands = f"the target `{shown(target)}` has a class ? ({rows(marks)})"
        notes.append(f"{stands}; if that means that there is none, name it as missing (`na`).")
    fmt = TableFormat(encoding, target, task, target_kind, tuple(notes))
    try:
        _check_variety(targets(frame, fmt), fmt)
    except InvalidArgumentError as error:
        if not troubles:
            raise
        troubles.append(Trouble(str(error).rstrip(".")))
    if troubles:
        raise InvalidArgumentError(in_one_sentence(troubles, spelled))
    if not encoding.columns:
        why = ", ".join(f"{shown(name)}: {reason}" for name, reason in encoding.ignored.items()) or "there is no other"
        raise InvalidArgumentError(f"The table must have a column to learn from beside `{target}`, got none ({why}).")
    return fmt


def lacks_target(frame: "pandas.DataFrame", fmt: TableFormat) -> np.ndarray:
    """The rows without one."""
    column, reading = _target_of(frame, fmt.target), fmt.encoding.reading
    return labels(column, reading) == "" if fmt.target_kind == "text" else _amounts(column, reading)[1]


def missing_in(column: Any, reading: Reading) -> np.ndarray:
    """Where there is no target, whatever its values are."""
    return _amounts(column, reading)[1] if _is_number(column, reading) else labels(column, reading) == ""


def labels(column: Any, reading: Reading) -> np.ndarray:
    """The classes that stand there as text, "" where there is none. A question mark is a class like others, unless the
    user says that it is none."""
    return np.array(texts(column, reading, means_something={"?"} - {*reading.na}), str)


def _amounts(column: Any, reading: Reading) -> tuple[np.ndarray, np.ndarray]:
    """Numbers, also where all are in one unit; and where values are missing."""
    return numbers(column, reading, unit_in(column, reading))


def _is_number(column: Any, reading: Reading) -> bool:
    values, missing = _amounts(column, reading)
    return not np.isnan(values[~missing]).any()


def _target_of(frame: "pandas.DataFrame", target: str) -> Any:
    if target not in frame.columns:
        got = f"got no column {target!r}; {nearest(target, frame.columns)}"
        raise InvalidArgumentError(f"The table must have the target, {got}.")
    return frame[target]


def targets(frame: "pandas.DataFrame", fmt: TableFormat) -> np.ndarray:
    """Labels (text, whole numbers or truth values) for classification, float64 for regression."""
    column, reading = _target_of(frame, fmt.target), fmt.encoding.reading
    missing = lacks_target(frame, fmt)
    if missing.any():
        where = f"`{shown(fmt.target)}` is missing in {rows(missing)}"
        raise InvalidArgumentError(f"The target {where}; fill it in, or use `--drop-missing-target`.")
    if fmt.target_kind == "text":
        return labels(column, reading)
    values, _ = _amounts(column, reading)
    if fmt.target_kind == "boolean":
        _check_values(column, np.isin(values, [0, 1]), "true or false")
        return values.astype(bool)
    if fmt.task == "classification":
        _check_values(column, _whole(values), "whole numbers or text to be classes (else use `--task regression`)")
        return values.astype(np.int64)
    if wrong := not_finite(column, values, missing, "finite numbers for regression"):
        raise InvalidArgumentError(f"Column `{shown(fmt.target)}` {wrong}; correct that value.")
    return values


def _learn_target(column: Any, task: str, reading: Reading) -> tuple[Task, TargetKind]:
    """The task and the kind of its target."""
    values, missing = _amounts(column, reading)
    known = values[~missing]
    few = len(np.unique(known)) <= min(20, max(2, len(column) / 2))
    if task == "regression":
        return "regression", "number"
    in_units = not np.array_equal(values, numbers(column, reading)[0], equal_nan=True)
    if np.isnan(known).any() or (in_units and few):
        return "classification", "text"
    if all(text.lower() in TRUTH for text in texts(column[~missing], reading)):
        return "classification", "boolean"
    return "classification" if task == "classification" or (few and _whole(known).all()) else "regression", "number"


def _whole(values: np.ndarray) -> np.ndarray:
    return (values == np.floor(values)) & (np.abs(values) < 2**53)  # beyond, floats skip whole numbers


def _check_values(column: Any, right: np.ndarray, must: str) -> None:
    if not right.all():
        got = f"got '{shown(column.iloc[np.argmin(right)])}' in row {np.argmin(right) + 1}"
        raise InvalidArgumentError(f"Column `{shown(column.name)}` must hold {must}, {got}; correct that value.")


def _check_variety(y: np.ndarray, fmt: TableFormat) -> None:
    values = np.unique(y)
    if len(y) < 2:
        raise InvalidArgumentError(f"The table must have at least two rows, got {len(y)}.")
    if len(values) < 2:
        must = f"must have at least two different values, got '{shown(values[0])}' in all rows"
        raise InvalidArgumentError(f"The target `{shown(fmt.target)}` {must}; name another target.")
    if fmt.task == "regression":
        _, deviation = mean_and_scale(y)
        if not 1e-150 <= deviation <= 1e150:
            what = f"a standard deviation of {deviation:.3g}, whose square no float holds"
            raise InvalidArgumentError(f"The target `{shown(fmt.target)}` has {what}; take another unit.")
    if fmt.task == "classification" and len(values) > max(2, len(y) / 2):
        example = next((value for value in values if np.isnan(number(str(value)))), values[0])
        got = f"has {len(values)} classes in {len(y)} rows (such as '{shown(example)}')"
        way_out = "name another target, or correct what is not a number and use `--task regression`"
        raise InvalidArgumentError(f"The target `{shown(fmt.target)}` {got}; {way_out}.")
