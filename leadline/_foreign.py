"""Text that others wrote, as names and values in files are, made harmless: in a sentence, on a terminal, in a table."""

import re
from collections.abc import Iterable
from itertools import islice
from typing import Any

LONGEST = 60
"""Characters of a name or a value in a sentence."""

_FORMULA = re.compile(r"'*[=+\-@\t\r].", re.DOTALL)
_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)(e[+-]?\d+)?", re.IGNORECASE)


def on_one_line(text: object) -> str:
    """A character that would steer a terminal, or begin a line, stands there as its number."""
    text = str(text)
    if text.isprintable():
        return text
    return "".join(one if one.isprintable() else repr(one)[1:-1] for one in text)


def shown(thing: object) -> str:
    """On one line, and not too long."""
    text = str(thing)
    return on_one_line(text[:LONGEST]) + "..." * (len(text) > LONGEST)


def some(things: Iterable[object], most: int = 10) -> str:
    """The first of them."""
    first = list(islice(things, most + 1))
    return ", ".join([*map(shown, first[:most]), *["..."] * (len(first) > most)])


def no_formula(value: Any) -> Any:
    """A text that a spreadsheet would take for a formula has an apostrophe more before it, and so has one that begins
    with apostrophes and goes on like that: so no two become one. Numbers stay."""
    if isinstance(value, str) and _FORMULA.match(value) and not _NUMBER.fullmatch(value):
        return f"'{value}"
    return value
