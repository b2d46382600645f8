"""Text of others: in a sentence, on a terminal, in a spreadsheet."""

import re

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from leadline import InvalidArgumentError
from leadline._foreign import no_formula, on_one_line, shown, some


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("plain, with ± and 名", "plain, with ± and 名"),
        ("\x1b[2Jgone", "\\x1b[2Jgone"),
        ("two\nlines\r", "two\\nlines\\r"),
        ("backwards \u202e", "backwards \\u202e"),
        ("\x9b31m\x07", "\\x9b31m\\x07"),
        ("\udcff", "\\udcff"),
    ],
)
def test_what_would_steer_a_terminal_stands_there_as_a_number(text, line):
    assert on_one_line(text) == line
    assert str(InvalidArgumentError(f"got {text}.", "x")) == f"`x` got {line}."


def test_long_things_are_cut():
    assert shown("a" * 61) == "a" * 60 + "..."
    assert some(range(200_000), 3) == "0, 1, 2, ..."


@pytest.mark.parametrize("text", ["=HYPERLINK(1)", "+1+1", "-a", "@SUM(A1)", "\t=1", "\r=1", "-5 to 0", "=\n1", "'=1"])
def test_no_text_is_a_formula(text):
    assert no_formula(text) == f"'{text}"


@pytest.mark.parametrize("value", ["a=b", "-", "+", "-1", "+1.5e-3", "-.5", "", "'a", "'", "p(=1)", -1, 2.5, True])
def test_what_is_no_formula_stays(value):
    assert no_formula(value) is value


@given(st.text("'=+-@a1\n", max_size=6))
@example("''=1")
def test_a_formula_can_be_had_back(text):
    assert re.sub(r"^'('*[=+\-@].)", r"\1", no_formula(text), flags=re.DOTALL) == text
