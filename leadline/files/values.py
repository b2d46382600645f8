"""Values as tables have them: where nothing stands, which text is a number, and which is a date."""

import re
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from leadline._checks import check_choice

NOTHING = ("?", "NA", "N/A", "n/a", "#N/A", "#NA", "#N/A N/A", "<NA>", "NaN", "nan", "-NaN", "-nan", "NULL", "null")
NOTHING += ("None", "1.#IND", "-1.#IND", "1.#QNAN", "-1.#QNAN")
"""Text that means that a value is missing, beside none at all: pandas' own, and the question mark."""

NO_NUMBER = ("-", "--", "---", "\N{EN DASH}", "\N{EM DASH}", ".", "..", "...", "*", "#", "n.a.")
"""What means the same among numbers and dates; elsewhere it may be a category."""

Decimal = Literal[".", ","]

TRUTH = {"true": 1.0, "false": 0.0}

_GROUPS = {".": re.compile(r"[+-]?\d{1,3}(,\d{3})+(\.\d*)?"), ",": re.compile(r"[+-]?\d{1,3}(\.\d{3})+(,\d*)?")}
"""Numbers whose thousands are set apart, by what begins their fraction."""

DateOrder = Literal["year", "day", "month"]
"""What stands first in a date."""

_YEAR_FIRST = re.compile(r"(\d{4})[-/.](\d{1,2})[-/.](\d{1,2})(?:$|[T ](.*))")
_YEAR_LAST = re.compile(r"(\d{1,2})[-/.](\d{1,2})[-/.](\d{4})(?:$|[T ](.*))")
_TIME = re.compile(r"(\d{1,2}):(\d{2})(?::(\d{2})(\.\d{1,9})?)?\s*(Z|UTC|[+-]\d{2}:?\d{2})?")

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
    return column.dtype.kind == "M" or getattr(column.dtype, "tz", None) is not None


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


def numbers(column: Any, reading: Reading = PLAIN) -> tuple[np.ndarray, np.ndarray]:
    """Values as float64, NaN where there is no number; and where values are missing."""
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
        known = {text: number(text, reading.decimal) for text in set(written)}
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
    if "," in text or decimal == ",":
        if _GROUPS[decimal].fullmatch(text):
            text = text.replace("." if decimal == "," else ",", "")
        if decimal == ",":
            text = text.replace(",", ".") if "." not in text else "?"
    try:
        return float(text.replace("_", "?"))  # 1_0 is no number
    except ValueError:
        return np.nan


def decimals(written: Iterable[str]) -> set[str]:
    """What begins the fractions of a column of numbers, as far as its commas tell: both marks where 1,234 may be
    either; nothing where no comma stands in a number."""
    said = {text for text in written if text and text not in NO_NUMBER}
    if not any("," in text for text in said):
        return set()
    return {mark for mark in (".", ",") if all(np.isfinite(number(text, mark)) for text in said)}


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
        zoned = column.dt.tz_convert("UTC").dt.tz_localize(None) if column.dt.tz is not None else column
        moments = zoned.to_numpy("datetime64[us]")
        gone = np.isnat(moments)
        return np.where(gone, np.nan, moments.astype(np.int64) / _DAY), gone
    written = texts(column, reading)
    known = {text: day(text, order) for text in set(written)}
    nothing = {"", *NO_NUMBER}
    return np.array([known[t] for t in written], np.float64), np.array([t in nothing for t in written], bool)


def day(text: str, order: str) -> float:
    """Of one date, with or without a time; NaN if it is none."""
    found = (_YEAR_FIRST if order == "year" else _YEAR_LAST).fullmatch(text)
    if not found:
        return np.nan
    *parts, time = found.groups()
    year, month, of_month = {"year": parts, "day": parts[::-1], "month": [parts[2], *parts[:2]]}[order]
    try:
        date = np.datetime64(f"{int(year):04d}-{int(month):02d}-{int(of_month):02d}", "us").astype(int)
    except ValueError:
        return np.nan
    return (int(date) + (_microseconds(time) if time else 0)) / _DAY


def _microseconds(time: str) -> float:
    """Since midnight (UTC, where a zone is said)."""
    found = _TIME.fullmatch(time.strip())
    if not found:
        return np.nan
    hours, minutes, seconds, fraction, zone = found.groups()
    if int(hours) > 24 or int(minutes) > 59 or int(seconds or 0) > 60:
        return np.nan
    of_day = 3600 * int(hours) + 60 * int(minutes) + int(seconds or 0)
    if zone and zone[0] in "+-":
        of_day -= (1 if zone[0] == "+" else -1) * 60 * (60 * int(zone[1:3]) + int(zone[-2:]))
    return 1_000_000 * of_day + round(1e6 * float(fraction or 0))
