"""What the columns of a raw table are, learned from its rows."""

import re
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, get_args

import numpy as np

from leadline._checks import InvalidArgumentError
from leadline._foreign import shown
from leadline.files.columns import CYCLES, MISSING, Column, Encoding, nearest, not_finite, rows
from leadline.files.values import (
    NO_NUMBER,
    DateOrder,
    Decimal,
    Reading,
    date_orders,
    day,
    days,
    decimals,
    is_category,
    is_date,
    is_text,
    number,
    numbers,
    texts,
    unit_in,
    unit_of,
)

if TYPE_CHECKING:  # at run time inside the functions: it is slow to import
    import pandas

NAMELESS = "Unnamed: "
"""How pandas calls a column without a name: row numbers, which in a sorted file give the target away."""

MOST_LEVELS = 100
"""Of a category, and a fifth of the rows, but 10 in any case."""

MOST_ASKED = 1000
"""Of one that the user calls so."""

MOST_MARKS = 5
"""Texts among numbers that may all mean that there is none."""

_ID = re.compile(r"(?i:(^|[\W_])(id|idx|index|uuid|guid|row))$|(?<=[a-z])I[dD]$")

_CODES = [sign * (10**n - 1) for n in (2, 3, 4, 5) for sign in (-1, 1)]
"""Numbers by which tables say that there is none."""


@dataclass(frozen=True)
class Trouble:
    """What is wrong with a table, and the options (with their values) that would help."""

    what: str
    ways: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True)
class _Raw:
    """A column as it comes."""

    name: str
    values: Any
    reading: Reading
    impute: bool
    unit: str = ""
    """Of its numbers."""

    def trouble(self, what: str, *ways: tuple[str, str]) -> Trouble:
        return Trouble(f"column `{shown(self.name)}` {what}", (*ways, ("ignore", self.name)))


Learned = Column | Trouble | str
"""How a column is read, or what is wrong with it, or why it is left out."""


def learn_encoding(
    frame: "pandas.DataFrame",
    reading: Reading,
    *,
    category: Collection[str] = (),
    number: Collection[str] = (),
    ignore: Collection[str] = (),
    impute: bool = True,
) -> tuple[Encoding, list[Trouble], list[str]]:
    """What each column is: as asked, or as it looks.

    Numbers, truth values (as 0 and 1) and text that reads as numbers throughout, in one and the same unit if any, are
    numbers; dates are dates; other text is a category, and so are codes that begin with zeros. A category has at most a
    fifth as many levels as rows (10 are always allowed, 100 at most): others are too rare to count. Columns without a
    name, without a value or with a single one, with an id or with other text in nearly every row are left out.

    Args:
        frame: the inputs of the training rows.
        reading: how text is read.
        category: columns to take for categories.
        number: columns to take for numbers.
        ignore: columns to leave out.
        impute: whether a missing number becomes the median of its column (and so does a date), a missing category a
            level of its own.

    Returns:
        The encoding, what is wrong, and what is only to be said.
    """
    _check_names(frame, {"category": category, "number": number, "ignore": ignore})
    columns: list[Column] = []
    left_out = dict.fromkeys(ignore, "as asked")
    troubles: list[Trouble] = []
    notes: list[str] = []
    for name in (name for name in frame.columns if name not in ignore):
        raw = _Raw(name, frame[name], reading, impute)
        asked = {**dict.fromkeys(category, _as_category), **dict.fromkeys(number, _as_number)}.get(name)
        learned = asked(raw) if asked else _as_it_looks(raw)
        if isinstance(learned, str):
            left_out[name] = learned
        elif isinstance(learned, Trouble):
            troubles.append(learned)
        elif learned.missing and not impute:
            misses = f"has no value in {learned.missing} of {len(frame)} rows"
            troubles.append(raw.trouble(misses, ("impute", "")))
        else:
            columns.append(learned)
            notes += _codes(replace(raw, unit=learned.unit)) if learned.kind == "number" else []
    return Encoding(tuple(columns), left_out, reading), troubles, notes


def relearned(encoding: Encoding, frame: "pandas.DataFrame") -> Encoding:
    """The same kinds of columns, but levels, medians and cycles of these rows alone."""
    columns, left_out = [], dict(encoding.ignored)
    for one in encoding.columns:
        raw = _Raw(one.name, frame[one.name], encoding.reading, one.fill is not None, one.unit)
        if one.kind == "date":
            learned = _as_date(raw, one.order)
        else:
            learned = _as_number(raw) if one.kind == "number" else _as_category(raw, MOST_ASKED)
        if isinstance(learned, Column):
            kept = tuple(level for level in learned.levels if level in one.levels or one.kind == "date")
            columns.append(replace(learned, levels=kept, others=one.others))
        else:
            left_out[one.name] = str(learned)
    return Encoding(tuple(columns), left_out, encoding.reading)


def _check_names(frame: "pandas.DataFrame", said: dict[str, Collection[str]]) -> None:
    for option, names in said.items():
        for name in names:
            if name not in frame.columns:
                got = f"got {name!r}; {nearest(name, frame.columns)}"
                raise InvalidArgumentError(f"must name columns of the table, {got}.", option)
            others = [other for other in said if other != option and name in said[other]]
            if others:
                raise InvalidArgumentError(f"must not name a column that `{others[0]}` does, got {name!r}.", option)


def _as_it_looks(raw: _Raw) -> Learned:
    if raw.name.startswith(NAMELESS):
        return "no name"
    if is_category(raw.values):
        return _as_category(raw)
    if is_date(raw.values):
        return _as_date(raw, "year")
    if is_text(raw.values):
        return _of_text(raw)
    return _of_numbers(raw)


def _of_numbers(raw: _Raw) -> Learned:
    values, missing = numbers(raw.values, raw.reading, raw.unit)
    known = values[~missing]
    every = len(known) == len(np.unique(known)) == len(values)
    if every and _ID.search(raw.name) and np.all(known == np.floor(known)):
        return "an id: another number in every row"
    return _as_number(raw)


def _of_text(raw: _Raw) -> Learned:
    cells = (value for value in raw.values.tolist() if isinstance(value, list | tuple | dict | set | np.ndarray))
    if (cell := next(cells, None)) is not None:
        return raw.trouble(f"has a {type(cell).__name__} in a cell, which holds one value")
    values, missing = numbers(raw.values, raw.reading)
    pairs = zip(texts(raw.values, raw.reading), missing, strict=True)
    written = {text for text, gone in pairs if text and not gone}
    if not written:
        return "empty"
    if not np.isnan(values[~missing]).any():
        # Where a zero comes first, it is a code: as a number it would lose it.
        coded = any(len(text) > 1 and text[0] == "0" and text.isdecimal() for text in written)
        return _as_category(raw, _most_levels(raw)) if coded else _of_numbers(raw)
    if unit := unit_of(written, raw.reading.decimal):
        return _of_numbers(replace(raw, unit=unit))
    if all(np.isfinite(number(text, ".")) or np.isfinite(number(text, ",")) for text in written):
        return raw.trouble("has numbers with decimal commas and with points")
    orders = date_orders(written)
    if len(orders) > 1:
        what = f"has dates such as {shown(min(written))}, of which day and month cannot be told apart"
        return raw.trouble(f"{what} (write them as year-month-day)", ("category", raw.name))
    if orders:
        return _as_date(raw, *orders)
    if trouble := _of_dates_and_others(raw, written):
        return trouble
    marks = sorted({text for text in written if np.isnan(number(text, raw.reading.decimal))})
    most = _most_levels(raw)
    if len(written) > most and len(marks) <= MOST_MARKS and np.mean(np.isfinite(values[~missing])) > 0.5:
        return _but_for(raw, "numbers", marks)
    return _as_category(raw, most)


def _of_dates_and_others(raw: _Raw, written: set[str]) -> Trouble | None:
    """What is wrong with dates of which a few are none, or which are written in several ways."""
    orders = {order: {text for text in written if np.isfinite(day(text, order))} for order in get_args(DateOrder)}
    known = set.union(*orders.values())
    if known and known == written - {*NO_NUMBER}:
        return raw.trouble("has dates that are written in several ways (write them as year-month-day)")
    marks = sorted(written - max(orders.values(), key=len) - {*NO_NUMBER})
    return _but_for(raw, "dates", marks) if len(marks) <= min(MOST_MARKS, len(known) - 1) else None


def _but_for(raw: _Raw, what: str, marks: list[str]) -> Trouble:
    where = rows(np.isin(texts(raw.values, raw.reading), marks))
    words = f"has {what}, but for {', '.join(repr(shown(mark)) for mark in marks)} in {where}"
    return raw.trouble(words, *(("na", mark) for mark in marks))


def _as_number(raw: _Raw) -> Learned:
    if raw.values.dtype.kind == "c":
        return raw.trouble("has complex numbers")
    if is_date(raw.values):
        return raw.trouble("has dates, which are no numbers")
    unit = raw.unit or unit_in(raw.values, raw.reading)
    values, missing = numbers(raw.values, raw.reading, unit)
    if missing.all():
        return "empty"
    if wrong := not_finite(raw.values, values, missing, "finite numbers"):
        return raw.trouble(wrong)
    known = values[~missing]
    fill = float(np.median(known)) if raw.impute else None
    column = Column(raw.name, "number", fill=fill, missing=int(missing.sum()), unit=unit)
    return column if np.ptp(known) > 0 else "a single value"


def _as_category(raw: _Raw, most: int = MOST_ASKED) -> Learned:
    written = np.array([text or MISSING for text in texts(raw.values, raw.reading)])
    levels, n_rows = np.unique(written, return_counts=True)
    gaps = levels == MISSING
    if len(levels) == 1:
        return "empty" if gaps.all() else "a single value"
    if len(levels) == len(written) and _ID.search(raw.name):
        return "an id: another text in every row"
    kept = np.ones(len(levels), bool)
    if np.sum(~gaps) > most:
        if most < MOST_ASKED and len(levels) > len(written) / 2:
            return f"{len(levels):,} different texts in {len(written):,} rows, such as {shown(levels[~gaps][0])!r}"
        kept = gaps.copy()
        kept[np.argsort(np.where(gaps, 0, -n_rows), kind="stable")[:most]] = True
    fill = MISSING if raw.impute else None
    return Column(raw.name, "category", tuple(levels[kept].tolist()), fill, int(n_rows[gaps].sum()), int(sum(~kept)))


def _as_date(raw: _Raw, order: str) -> Learned:
    values, missing = days(raw.values, order, raw.reading)
    known = values[~missing]
    if len(known) == 0:
        return "empty"
    cycles = tuple(name for name, length in CYCLES.items() if np.ptp(known % length) > 0)
    fill = float(np.median(known)) if raw.impute else None
    column = Column(raw.name, "date", cycles, fill, int(missing.sum()), order=order)
    return column if np.ptp(known) > 0 else "a single value"


def _most_levels(raw: _Raw) -> int:
    return min(MOST_LEVELS, max(10, len(raw.values) // 5))


def _codes(raw: _Raw) -> Iterator[str]:
    """Numbers that seem to mean that there is none."""
    values, missing = numbers(raw.values, raw.reading, raw.unit)
    known = values[~missing]
    for code in {known.min(), known.max()} & {*map(float, _CODES)}:
        others = known[known != code]
        n = len(known) - len(others)
        if n < 2 or len(others) == 0 or np.ptp(others) == 0:
            continue
        beyond = others.min() - code if code < 0 else code - others.max()
        if beyond > np.ptp(others):
            stands = f"column `{shown(raw.name)}` has {code:g} in {n} of {len(values)} rows, far from all other values"
            yield f"{stands}; if that means that there is none, name it as missing (`na`)."


def learn_decimal(frame: "pandas.DataFrame", but_for: Collection[str] = ()) -> Decimal | Trouble:
    """What begins the fractions of numbers that stand there as text, in all columns alike."""
    columns = {name: frame.iloc[:, i] for i, name in enumerate(frame.columns) if name not in but_for}
    said = {name: decimals(texts(column)) for name, column in columns.items() if is_text(column)}
    sure = {mark: name for name, marks in said.items() if len(marks) == 1 for mark in marks}
    if len(sure) == 2:
        what = f"decimal commas in column `{shown(sure[','])}` and points in column `{shown(sure['.'])}`"
        return Trouble(f"there are {what}", (("decimal", ","), ("decimal", ".")))
    unsure = [name for name, marks in said.items() if len(marks) == 2]
    if unsure and not sure and not any(_has_fractions(column) for column in columns.values()):
        example = next(text for text in texts(columns[unsure[0]]) if "," in text)
        what = (
            f"column `{shown(unsure[0])}` has {shown(example)}, whose comma may begin a fraction or set thousands apart"
        )
        return Trouble(what, (("decimal", ","), ("decimal", ".")))
    return "," if "," in sure else "."


def _has_fractions(column: Any) -> bool:
    """Whether there are numbers with a point, which have been read as such."""
    if column.dtype.kind != "f":
        return False
    values = column.to_numpy(float, na_value=np.nan)
    return bool(np.any(np.isfinite(values) & (values != np.floor(values))))


def in_one_sentence(troubles: Sequence[Trouble], spelled: Callable[[str, list[str]], str]) -> str:
    """All that is wrong with a table, and the options that would help, spelled as the user would."""
    said = []
    for one in troubles:
        ways = [f"`{spelled(option, [value])}`" for option, value in one.ways if option != "ignore"]
        said.append(f"{one.what} ({' or '.join(ways)} may help)" if ways else one.what)
    left_out = [value for one in troubles for option, value in one.ways if option == "ignore"]
    way_out = f", or leave {'it' if len(said) == 1 else 'them'} out with `{spelled('ignore', left_out)}`"
    if len(said) == 1:
        return f"{said[0][0].upper()}{said[0][1:]}; correct it{way_out if left_out else ''}."
    listed = "; ".join(f"({i}) {one}" for i, one in enumerate(said, 1))
    return f"The table has {len(said)} problems: {listed}; correct them{way_out if left_out else ''}."
