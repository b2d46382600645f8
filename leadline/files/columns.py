"""The columns of a raw table become numbers, and those of new rows in the same way."""

import difflib
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from leadline._checks import LARGEST, InvalidArgumentError, check_choice, refusing
from leadline._foreign import LONGEST, shown, some
from leadline.files.values import Reading, days, number, numbers, texts

if TYPE_CHECKING:  # at run time inside the functions: it is slow to import
    import pandas

MISSING = "(missing)"
"""The level of a category for rows without a value."""

CYCLES = {"time of year": 365.2425, "day of week": 7.0, "time of day": 1.0}
"""What goes round in a date, in days."""

Kind = Literal["number", "category", "date"]


@dataclass(frozen=True)
class Column:
    """One input column; `fill` replaces a missing value, None makes it an error."""

    name: str
    kind: Kind
    levels: tuple[str, ...] = ()
    """Of a category; of a date the cycles that it goes through."""
    fill: float | str | None = None
    missing: int = 0
    """Rows of the training table without a value."""
    others: int = 0
    """Levels that are too rare to count."""
    order: str = ""
    """Of the parts of a date: what stands first."""
    unit: str = ""
    """Of a number: what stands beside it in every row, such as $ or kg; it may be left out."""

    def check(self) -> None:
        """What the types say, where it comes from a file."""
        _check_text([self.name, self.order, self.unit, *self.levels])
        check_choice("kind", self.kind, ("number", "category", "date"))
        finite = isinstance(self.fill, int | float) and np.isfinite(self.fill)
        if self.fill is not None and not (isinstance(self.fill, str) if self.kind == "category" else finite):
            raise ValueError(f"fill is {self.fill!r}")
        if self.kind == "date":
            check_choice("order", self.order, ("year", "day", "month"))
            for level in self.levels:
                check_choice("levels", level, CYCLES)
        if len(set(self.levels)) < len(self.levels):
            raise ValueError("a level stands there twice")
        if not isinstance(self.missing, int) or not isinstance(self.others, int):
            raise TypeError("the numbers of missing values and of other levels are none")

    def features(self) -> list[str]:
        """What it becomes."""
        if self.kind == "category":
            return [f"{self.name}={level}" for level in self.levels]
        cycles = [f"{self.name} {cycle} {part}" for cycle in self.levels for part in ("sin", "cos")]
        return [self.name, *cycles] if self.kind == "date" else [self.name]

    def words(self) -> str:
        """What the column is taken for."""
        number = f"number in {shown(self.unit)}" if self.unit else "number"
        words = ", ".join(["date: time", *self.levels]) if self.kind == "date" else number
        if self.kind == "category":
            of = f"{len(self.levels)} of {len(self.levels) + self.others:,}" if self.others else f"{len(self.levels)}"
            rest = "; all others count as none of them" if self.others else ""
            words = f"category of {of}: {some(self.levels)}{rest}"
        return f"{words}; missing → {self._fill_in_words()}" if self.missing and self.fill is not None else words

    def encode(self, column: Any, reading: Reading) -> tuple[np.ndarray, list[str]]:
        """Float64 [rows, features], and what is to be said about the rows."""
        return self._levels_of(column, reading) if self.kind == "category" else self._numbers_of(column, reading)

    def values(self, column: Any, reading: Reading) -> np.ndarray:
        """As they are understood: numbers, days, or text; NaN, NaT or None where one is missing."""
        if self.kind == "category":
            return np.array([text or None for text in texts(column, reading, means_something=self.levels)], object)
        values, missing = self._read(column, reading)
        if self.kind == "number":
            return np.where(missing, np.nan, values)
        of_day = np.floor(np.where(missing, 0, values)).astype("datetime64[D]")
        of_day[missing] = np.datetime64("NaT")
        return of_day

    def _read(self, column: Any, reading: Reading) -> tuple[np.ndarray, np.ndarray]:
        """Numbers, or days; and where there is none."""
        return days(column, self.order, reading) if self.kind == "date" else numbers(column, reading, self.unit)

    def _numbers_of(self, column: Any, reading: Reading) -> tuple[np.ndarray, list[str]]:
        """A number as it is; a date in days, and where it stands in its cycles."""
        values, missing = self._read(column, reading)
        if wrong := not_finite(column, values, missing, "dates" if self.kind == "date" else "finite numbers"):
            cell = texts(column, reading)[int(np.argmin(missing | np.isfinite(values)))]
            of_others = self.kind == "number" and np.isfinite(number(cell, "." if reading.decimal == "," else ","))
            way_out = "say what begins a fraction in this table (`decimal`)" if of_others else "correct that value"
            raise InvalidArgumentError(f"Column `{shown(self.name)}` {wrong}; {way_out}.")
        if missing.any() and self.fill is None:
            raise InvalidArgumentError(f"Column `{shown(self.name)}` has no value in {rows(missing)}; fill it in.")
        notes = []
        if missing.any() and not self.missing:
            had = f"column `{shown(self.name)}` always had a value in training and has none in {rows(missing)}"
            notes = [f"{had}; {self._fill_in_words()} is taken for it."]
        values = np.where(missing, 0.0 if self.fill is None else float(self.fill), values)
        angles = [2 * np.pi * values / CYCLES[cycle] for cycle in self.levels]
        return np.stack([values, *(f(angle) for angle in angles for f in (np.sin, np.cos))], axis=1), notes

    def _levels_of(self, column: Any, reading: Reading) -> tuple[np.ndarray, list[str]]:
        """One column of 0 and 1 for each level; one that was not trained on is none of them."""
        places = {level: i for i, level in enumerate(self.levels)}
        written = texts(column, reading, means_something=places)
        missing = np.array([not text for text in written], bool)
        if missing.any() and self.fill is None:
            raise InvalidArgumentError(f"Column `{shown(self.name)}` has no value in {rows(missing)}; fill it in.")
        # Codes like 01234 lose their zeros where another reader makes numbers of them.
        codes = {str(int(level)): level for level in self.levels if level.isdecimal()}
        known = {text: places.get(text or MISSING, places.get(codes.get(text, ""), -1)) for text in set(written)}
        unseen = sorted(text or MISSING for text, place in known.items() if place < 0)
        notes = []
        if unseen:
            new = some(unseen) if len(unseen) <= 10 else f"{some(unseen)} ({len(unseen):,} in all)"
            were = "were not trained on, or too rare" if self.others else "were not trained on"
            said = f"column `{shown(self.name)}` has categories that {were}: {new}"
            notes = [f"{said}; they count as none of those that were."]
        found = np.array([known[text] for text in written], int)
        return (found[:, None] == np.arange(len(places))).astype(float), notes

    def _fill_in_words(self) -> str:
        """What stands for a missing value."""
        if self.kind == "date":
            return str(np.datetime64(int(self.fill or 0), "D"))
        return f'"{self.fill}"' if self.kind == "category" else f"{self.fill}"


@dataclass(frozen=True)
class Encoding:
    """How the columns of a table become numbers; learned from the training rows, kept as JSON beside the weights."""

    columns: tuple[Column, ...]
    ignored: dict[str, str] = field(default_factory=dict)
    """Why each other column is left out."""
    reading: Reading = field(default_factory=Reading)

    def features(self) -> list[str]:
        """The names of the numbers."""
        return [feature for column in self.columns for feature in column.features()]

    def encode(self, frame: "pandas.DataFrame") -> tuple[np.ndarray, list[str]]:
        """Float64 [rows, features], and what is to be said about these rows."""
        absent = [column.name for column in self.columns if column.name not in frame.columns]
        if absent:
            lack = f"got none named {some(absent)}; {nearest(absent[0], frame.columns)}"
            raise InvalidArgumentError(f"The table must have all columns of the training table, {lack}.")
        blocks, notes, wrong = [np.empty((len(frame), 0))], [], []
        for column in self.columns:
            try:
                block, said = column.encode(frame[column.name], self.reading)
            except InvalidArgumentError as error:
                wrong.append(str(error))
            else:
                blocks.append(block)
                notes += said
        if wrong:
            raise InvalidArgumentError("; ".join([*(one.rstrip(".") for one in wrong[:-1]), wrong[-1]]))
        return np.concatenate(blocks, axis=1), notes

    def to_json(self) -> dict[str, Any]:
        """Its parts."""
        return {"columns": [asdict(one) for one in self.columns], "ignored": self.ignored, **asdict(self.reading)}

    @staticmethod
    def from_json(content: Any) -> "Encoding":
        """What `to_json` made, of this version or of an older one, checked."""
        with refusing("The format of a table must be what `to_json` wrote; fit again to write it anew"):
            given = dict(content)
            columns = tuple(Column(**{**one, "levels": tuple(one["levels"])}) for one in given.pop("columns"))
            reading = {name: given.pop(name) for name in ("decimal", "na") if name in given}
            reading = Reading(**{**reading, "na": tuple(reading.get("na", ()))})
            encoding = Encoding(columns, reading=reading, **given)
            reading.check()
            for column in columns:
                column.check()
            _check_text([*encoding.ignored.keys(), *encoding.ignored.values()])
        return encoding


def not_finite(column: Any, values: np.ndarray, missing: np.ndarray, must: str) -> str:
    """What is wrong with the first value that is not such, or too large."""
    right = missing | np.isfinite(values)
    if right.all():
        right, must = missing | ~(np.abs(values) > LARGEST), f"numbers of at most {LARGEST:g} in size"
    if right.all():
        return ""
    place = int(np.argmin(right))
    return f"must hold {must}, got '{shown(column.iloc[place])}' in row {place + 1}"


def _check_text(values: Iterable[Any]) -> None:
    for value in values:
        if not isinstance(value, str):
            raise TypeError(f"{value!r} is no text")


def nearest(name: object, names: Iterable[object]) -> str:
    """The columns that a name may have meant."""
    words = {other: str(other)[:LONGEST].lower() for other in names}  # whatever stands in a file, it does not take long
    close = difflib.get_close_matches(str(name)[:LONGEST].lower(), set(words.values()))  # the nearest first
    near = [other for word in close for other in names if words[other] == word]
    return f"near it are {some(near)}" if near else f"the columns are {some(names)}"


def rows(where: np.ndarray) -> str:
    """Which, counted from 1."""
    found = np.flatnonzero(where) + 1
    return f"{len(found)} of {len(where)} rows: {some(found, 3)}"
