"""Values as tables have them: where nothing stands, which text is a number, and which is a date."""

import re
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from typing import Any, Literal, get_args

import numpy as np

from leadline._checks import check_choice

NOTHING = ("?", "NA", "N/A", "n/a", "#N/A", "#NA", "#N/A N/A", "<NA>", "NaN", "nan", "-NaN", "-nan", "NULL", "null")
NOTHING += ("None", "1.#IND", "-1.#IND", "1.#QNAN", "-1.#QNAN")
NOTHING += ("#DIV/0!", "#NAME?", "#NULL!", "#NUM!", "#REF!", "#VALUE!")
"""Text that means that a value is missing, beside none at all: pandas' own, the question mark, and what a spreadsheet
writes where it cannot compute."""

NO_NUMBER = ("-", "--", "---", "\N{EN DASH}", "\N{EM DASH}", ".", "..", "...", "*", "#", "n.a.")
"""What means the same among numbers and dates; elsewhere it may be a category."""

Decimal = Literal[".", ","]

TRUTH = {"true": 1.0, "false": 0.0}

_SPACES = " \N{NO-BREAK SPACE}\N{THIN SPACE}\N{NARROW NO-BREAK SPACE}"

_GROUPS = {
    ".": re.compile(
        rf"[+-]?(?:[1-9]\d{{0,2}}([,'\u2019{_SPACES}])\d{{3}}(?:\1\d{{3}})*|[1-9]\d?(?:,\d\d)+,\d{{3}})(?:\.\d*)?"
    ),
    ",": re.compile(rf"[+-]?[1-9]\d{{0,2}}([.'\u2019{_SPACES}])\d{{3}}(?:\1\d{{3}})*(?:,\d*)?"),
}
"""Numbers whose thousands are set apart, by what begins their fraction; in India, hundreds of thousands are, too."""

_CURRENCY = "$\u00a2-\u00a5\u20a0-\u20cf"

_IN_UNITS = re.compile(
    rf"([+-]?)((?:[A-Z]{{0,3}}[{_CURRENCY}])?)[{_SPACES}]?([+-]?\d(?:[\d.,'\u2019{_SPACES}]*\d)?\.?)[{_SPACES}]?"
    rf"((?:[{_CURRENCY}%\u2030\u00b0]|[^\W\d_])[^\s\d.,]{{0,9}})?"
)
"""A number with a currency before it, or any unit behind it."""

DateOrder = Literal["year", "day", "month"]
"""What stands first in a date."""

_YEAR_FIRST = re.compile(r"(\d{4})[-/.](\d{1,2})[-/.](\d{1,2})(?:$|,?[T ](.*))")
_YEAR_LAST = re.compile(r"(\d{1,2})[-/.](\d{1,2})[-/.](\d{4})(?:$|,?[T ](.*))")
_DAY_AND_MONTH = (
    r"(?P<day>\d{1,2})(?:st|nd|rd|th)?[-. ]+(?P<month>[a-z]{3,9})[-., ]+",
    r"(?P<month>[a-z]{3,9})\.? +(?P<day>\d{1,2})(?:st|nd|rd|th)?,? +",
)
_NAMED = [re.compile(rf"{start}(?P<year>\d{{4}})(?:$|,?[t ](?P<time>.*))") for start in _DAY_AND_MONTH]
"""Dates whose month is a word, in small letters."""

_MONTHS = ("january", "february", "march", "april", "may", "june")
_MONTHS += ("july", "august", "september", "october", "november", "december")

_TIME = re.compile(
    r"(\d{1,2}):(\d{2})(?::(\d{2})(\.\d{1,9})?)?\s*([ap]m|[ap]\.m\.)?\s*(Z|UTC|[+-]\d{2}:?\d{2})?", re.IGNORECASE
)

_DAY = 86_400e6
"""In microseconds."""


@dataclass(frozen=True)
class Reading:
    """How the text of a table is read: the same for all of its columns, and for all rows that come."""

    decimal: Decimal = "."
    """What begins the fraction of a number; the other may set thousands apart."""
    na: tuple[str, ...] = ()
    """More text that means that a value is missing."""

    def check(self) -> None:
        check_choice("decimal", self.decimal, (".", ","))
        for text in self.na:
            if not isinstance(text, str):
                raise TypeError(f"na has {text!r}")


PLAIN = Reading()


def is_date(column: Any) -> bool:
    """Whether pandas knows the values as dates."""
    return column.dtype.kind == "M" or getattr(column.dtype, "tz", None) is not None or _is_period(column)


def _is_period(column: Any) -> bool:
    """Months, quarters and the like, which begin at a date."""
    return str(column.dtype).startswith("period[")


def is_category(column: Any) -> bool:
    """Whether pandas knows the values as categories."""
    return hasattr(column.dtype, "categories")


def is_text(column: Any) -> bool:
    """Whether the values are text, or of several types."""
    return column.dtype.kind in "OTU" and not is_category(column) and not is_date(column)


def texts(column: Any, reading: Reading = PLAIN, means_something: Collection[str] = ()) -> list[str]:
    """Values as they are written, "" where there is none; 1.0 is "1" again, which it was until a missing value made
    floats of its column."""
    if column.dtype == "str" or column.dtype == "string":  # whose values are all text, and often repeated
        column = column.astype("category")
    if is_category(column):  # each is written once
        names = [*texts(column.cat.categories.to_series().astype(object), reading, means_something), ""]
        return [names[code] for code in column.cat.codes.tolist()]
    nothing = {*NOTHING, *reading.na} - {*means_something}
    pairs = zip(column.tolist(), column.isna().tolist(), strict=True)
    written = ("" if gone else str(int(v)) if isinstance(v, float) and v.is_integer() else str(v) for v, gone in pairs)
    return ["" if text in nothing else text for text in map(str.strip, written)]


def numbers(column: Any, reading: Reading = PLAIN, unit: str = "") -> tuple[np.ndarray, np.ndarray]:
    """Values as float64, NaN where there is no number (which may be in this unit); and where values are missing."""
    from pandas.api.types import is_numeric_dtype

    codes = [value for text in reading.na if np.isfinite(value := number(text, reading.decimal))]
    if column.dtype.kind == "m":
        gone = column.isna().to_numpy()
        return np.where(gone, np.nan, column.to_numpy() / np.timedelta64(1, "s")), gone
    if is_numeric_dtype(column.dtype) and column.dtype.kind != "c":
        values = column.to_numpy(np.float64, na_value=np.nan)
        gone = np.isnan(values)
    else:
        written = texts(column, reading)
        known = {text: number(_without(unit, text), reading.decimal) for text in set(written)}
        values = np.array([known[text] for text in written], np.float64)
        # Where nothing but marks stands, they mean something.
        nothing = {""} if np.isnan(values).all() else {"", *NO_NUMBER}
        gone = np.array([text in nothing for text in written], bool)
    gone = gone | np.isin(values, codes)
    return np.where(gone, np.nan, values), gone


def number(text: str, decimal: str = ".") -> float:
    """NaN if it is none; truth values are 1 and 0."""
    if text.lower() in TRUTH:
        return TRUTH[text.lower()]
    text = text.replace("\N{MINUS SIGN}", "-")
    if groups := _GROUPS[decimal].fullmatch(text):
        text = text.replace(groups[1] or ",", "")
    if decimal == ",":
        text = text.replace(",", ".") if "." not in text else "?"
    try:
        return float(text.replace("_", "?"))  # 1_0 is no number
    except ValueError:
        return np.nan


def unit_of(written: Iterable[str], decimal: str = ".") -> str:
    """What stands beside the number in all of these texts, as $ or kg do; "" where that is nothing, or not one and the
    same."""
    unit = ""
    for text in written:
        if text in NO_NUMBER:
            continue
        own, bare = _in_units(text)
        if not own or own != (unit or own) or np.isnan(number(bare, decimal)):
            return ""
        unit = own
    return unit


def unit_in(column: Any, reading: Reading = PLAIN) -> str:
    """The unit of a whole column, if its values are text and have one."""
    return unit_of(filter(None, texts(column, reading)), reading.decimal) if is_text(column) else ""


def _in_units(text: str) -> tuple[str, str]:
    """The unit and the number of a text, or "" and the text."""
    found = _IN_UNITS.fullmatch(text.replace("\N{MINUS SIGN}", "-"))
    if not found or bool(found[2]) == bool(found[4]) or (found[1] and found[3][0] in "+-"):
        return "", text
    return found[2] or found[4], found[1] + found[3]


def _without(unit: str, text: str) -> str:
    """The number that stands beside this unit; a text that has none, or another, stays."""
    own, bare = _in_units(text) if unit else ("", text)
    return bare if own == unit else text


def decimals(written: Iterable[str]) -> set[Decimal]:
    """What begins the fractions of a column of numbers, as far as it tells: both marks where 1,234 may be either;
    nothing where whole numbers stand, or 1.234."""
    said = {_in_units(text)[1] for text in written if text and text not in NO_NUMBER}
    marks: set[Decimal] = {mark for mark in get_args(Decimal) if all(np.isfinite(number(text, mark)) for text in said)}
    return marks if marks == {"."} or any("," in text for text in said) else set()


def date_orders(written: Iterable[str]) -> set[DateOrder]:
    """In which order all of them are dates; more than one where the days and months do not tell."""
    orders: set[DateOrder] = {"year", "day", "month"}
    seen = False
    for text in written:
        if not text or text in NO_NUMBER:
            continue
        seen = True
        orders = {order for order in orders if np.isfinite(day(text, order))}
        if not orders:
            break
    return orders if seen else set()


def days(column: Any, order: str, reading: Reading = PLAIN) -> tuple[np.ndarray, np.ndarray]:
    """Days since the beginning of 1970 (UTC where a zone is said), NaN where there is no date; and where values are
    missing."""
    if is_date(column):
        from pandas import to_datetime

        began = column.dt.to_timestamp() if _is_period(column) else column
        moments = to_datetime(began, utc=True).dt.tz_localize(None).to_numpy("datetime64[us]")
        gone = np.isnat(moments)
        return np.where(gone, np.nan, moments.astype(np.int64) / _DAY), gone
    written = texts(column, reading)
    known = {text: day(text, order) for text in set(written)}
    nothing = {"", *NO_NUMBER}
    return np.array([known[t] for t in written], np.float64), np.array([t in nothing for t in written], bool)


def day(text: str, order: str) -> float:
    """Of one date, with or without a time; NaN if it is none. Where the month is a word, the year counts as first."""
    found = (_YEAR_FIRST if order == "year" else _YEAR_LAST).fullmatch(text)
    if found:
        *parts, time = found.groups()
        year, month, of_month = {"year": parts, "day": parts[::-1], "month": [parts[2], *parts[:2]]}[order]
    elif order == "year" and (found := _named(text)):
        year, month, of_month, time = found
    else:
        return np.nan
    try:
        date = np.datetime64(f"{int(year):04d}-{int(month):02d}-{int(of_month):02d}", "us").astype(int)
    except ValueError:
        return np.nan
    return (int(date) + (_microseconds(time) if time else 0)) / _DAY


def _named(text: str) -> tuple[str, str, str, str] | None:
    """Year, month, day and time of a date such as 1 Feb 2020 or February 1, 2020."""
    for pattern in _NAMED:
        if found := pattern.fullmatch(text.lower()):
            months = [str(i) for i, name in enumerate(_MONTHS, 1) if name.startswith(found["month"])]
            return (found["year"], months[0], found["day"], found["time"]) if months else None
    return None


def _microseconds(time: str) -> float:
    """Since midnight (UTC, where a zone is said)."""
    found = _TIME.fullmatch(time.strip())
    if not found:
        return np.nan
    hours, minutes, seconds, fraction, half, zone = found.groups()
    if int(hours) > (12 if half else 24) or int(minutes) > 59 or int(seconds or 0) > 60:
        return np.nan
    if half:
        hours = int(hours) % 12 + 12 * (half[0] in "pP")
    of_day = 3600 * int(hours) + 60 * int(minutes) + int(seconds or 0)
    if zone and zone[0] in "+-":
        of_day -= (1 if zone[0] == "+" else -1) * 60 * (60 * int(zone[1:3]) + int(zone[-2:]))
    return 1_000_000 * of_day + round(1e6 * float(fraction or 0))
