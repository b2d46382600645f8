"""Tables from real files: what is read, what is learned, and the one sentence that a wrong table gets."""

import gzip
import json
import os
import re
import sys
import time
from dataclasses import replace
from decimal import Decimal
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from leadline._checks import InvalidArgumentError
from leadline.cli.tables import flags_of
from leadline.files import formats, values
from leadline.files.columns import Column, Encoding
from leadline.files.formats import Asked, TableFormat, missing_in, targets
from leadline.files.learning import learn_decimal, learn_encoding
from leadline.files.tables import read_table
from leadline.files.values import NOTHING, Reading

PEOPLE = """age,colour,member,score,kind
30,red,True,1.5,yes
41,blue,False,2.5,no
52,red,True,0.25,yes
28,green,False,8,no
"""


def write(directory: Path, text: str | bytes, name: str = "data.csv") -> Path:
    path = directory / name
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


def complaint(call, *args, **kwargs) -> str:
    """The sentence that a call ends with; there must be one only."""
    with pytest.raises(InvalidArgumentError) as caught:
        call(*args, **kwargs)
    sentence = str(caught.value)
    assert sentence.endswith(".")
    assert ". " not in sentence
    assert "\n" not in sentence
    return sentence


def read(directory, text, name="data.csv", fmt=None):
    return read_table(write(directory, text, name), fmt)


def learn_format(frame, target, **asked) -> TableFormat:
    """As the command line has it."""
    return formats.learn_format(frame, target, Asked(**asked), flags_of)


def encode(frame, fmt):
    """The numbers alone."""
    return fmt.encoding.encode(frame)[0]


def said_of(frame, fmt):
    """What is to be said of the rows."""
    return " ".join(fmt.encoding.encode(frame)[1])


def test_a_table_becomes_numbers(tmp_path):
    frame = read(tmp_path, PEOPLE)
    fmt = learn_format(frame, "kind")
    assert fmt.task == "classification"
    assert fmt.encoding.features() == ["age", "colour=blue", "colour=green", "colour=red", "member", "score"]
    expected = [[30, 0, 0, 1, 1, 1.5], [41, 1, 0, 0, 0, 2.5], [52, 0, 0, 1, 1, 0.25], [28, 0, 1, 0, 0, 8]]
    x = encode(frame, fmt)
    assert x.dtype == np.float64
    assert x.tolist() == expected
    assert targets(frame, fmt).tolist() == ["yes", "no", "yes", "no"]
    assert [column.words() for column in fmt.encoding.columns][:2] == ["number", "category of 3: blue, green, red"]


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("mark.csv", b"\xef\xbb\xbf" + PEOPLE.encode()),
        ("lines.csv", PEOPLE.replace("\n", "\r\n").encode()),
        ("DATA.CSV.GZ", gzip.compress(PEOPLE.encode(), mtime=0)),
        ("tabs.tsv", PEOPLE.replace(",", "\t").encode()),
        ("tabs.tsv.gz", gzip.compress(PEOPLE.replace(",", "\t").encode(), mtime=0)),
        ("semicolons.csv", PEOPLE.replace(",", ";").encode()),
        ("spaces.csv", PEOPLE.replace(",", ", ").encode()),
        ("quotes.csv", re.sub(r"[^,\n]+", r'"\g<0>"', PEOPLE).encode()),
        ("trailing.csv", PEOPLE.replace("\n", ",\n").replace("kind,", "kind", 1).encode()),
        ("said.csv", b"sep=,\r\n" + PEOPLE.encode()),
        ("other.csv", b"\xef\xbb\xbfsep=~\n" + PEOPLE.replace(",", "~").encode()),
        ("zipped.csv", gzip.compress(PEOPLE.encode(), mtime=0)),
    ],
)
def test_the_same_table_written_differently(tmp_path, name, content):
    pd.testing.assert_frame_equal(read(tmp_path, content, name), read(tmp_path, PEOPLE))


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le", "utf-16-be", "utf-32"])
def test_wide_letters_are_found_with_a_mark_or_without(tmp_path, encoding):
    frame, other = read(tmp_path, PEOPLE), read(tmp_path, PEOPLE.encode(encoding), "wide.csv")
    fmt = learn_format(other, "kind")
    assert fmt == learn_format(frame, "kind")
    np.testing.assert_array_equal(encode(other, fmt), encode(frame, fmt))


def test_parquet_is_read_as_csv_is(tmp_path):
    frame = read(tmp_path, PEOPLE)
    frame.set_index(np.array([7, 7, 3, 1])).to_parquet(tmp_path / "data.parquet")
    again = read_table(tmp_path / "data.parquet")
    fmt = learn_format(frame, "kind")
    assert learn_format(again, "kind") == fmt
    np.testing.assert_array_equal(encode(again, fmt), encode(frame, fmt))
    np.testing.assert_array_equal(targets(again, fmt), targets(frame, fmt))


def test_parquets_own_types(tmp_path):
    frame = pd.DataFrame(
        {
            "count": pd.array([1, None, 3, 4], "Int64"),
            "flag": pd.array([True, None, False, True], "boolean"),
            "code": pd.Categorical(["u", "v", "u", None]),
            "price": [Decimal("1.50"), Decimal("2.25"), None, Decimal("0.75")],
            "y": [0.5, 1.5, 2.5, 3.5],
        }
    )
    frame.to_parquet(tmp_path / "data.parquet")
    frame = read_table(tmp_path / "data.parquet")
    fmt = learn_format(frame, "y")
    assert fmt.encoding.features() == ["count", "flag", "code=(missing)", "code=u", "code=v", "price"]
    assert encode(frame, fmt).tolist() == [
        [1, 1, 0, 1, 0, 1.5],
        [3, 1, 0, 0, 1, 2.25],
        [3, 0, 0, 1, 0, 1.5],
        [4, 1, 1, 0, 0, 0.75],
    ]


def test_parquet_without_pyarrow_says_what_to_install(tmp_path, monkeypatch):
    path = tmp_path / "data.parquet"
    read(tmp_path, PEOPLE).to_parquet(path)
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    assert 'pip install "leadline[parquet]"' in complaint(read_table, path)


def test_quotes_guard_separators_and_line_ends(tmp_path):
    frame = read(tmp_path, 'x,place,y\n1,"Rome, Italy",0.5\n2,"a ""b""\nc",1.5\n')
    assert frame["place"].tolist() == ["Rome, Italy", 'a "b"\nc']


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        ("data.csv", "", "is empty"),
        ("data.csv", "\n\n", "is empty"),
        ("data.csv", "a,b\n", "at least one row"),
        ("data.csv", "a,b\n1,2\n3,4,5\n", "line 3 has more fields"),
        ("data.csv", "a,b\n1,2,3\n3,4,5\n", "rows have more fields"),
        ("data.csv", 'a,b\n1,2\n"3,4\n', "quote that opens in row 2"),
        ("data.csv", '"a,b\n1,2\n', "quote that opens in the line of column names"),
        ("data.csv", "Sales of May\n\na,b\n1,2\n", "take lines away that stand above the names"),
        ("data.csv", b"a,b\n\xe4,2\n", "UTF-8"),
        ("data.csv", "a,b, a\n1,2,3\n", "got a repeatedly"),
        ("data.csv.gz", b"a,b\n1,2\n", "Not a gzipped file"),
        ("data.csv.gz", gzip.compress(PEOPLE.encode(), mtime=0)[:40], "ended before"),
        ("data.xlsx", b"PK", "must end in .csv"),
        ("data.parquet", b"no such thing at all", "Parquet"),
        ("data.parquet", b"", "Parquet"),
    ],
)
def test_files_that_hold_no_table(tmp_path, name, content, words):
    path = write(tmp_path, content, name)
    sentence = complaint(read_table, path)
    assert words in sentence
    assert str(path) in sentence


def test_files_that_are_not_there(tmp_path):
    assert "got none there; check the path" in complaint(read_table, tmp_path / "data.csv")
    (tmp_path / "data.parquet").mkdir()
    assert "got a directory" in complaint(read_table, tmp_path / "data.parquet")


@pytest.mark.parametrize("name", ["data.csv", "data.tsv.gz", "data.parquet"])
def test_what_has_no_end_is_no_table(tmp_path, name):
    os.mkfifo(tmp_path / name)
    assert complaint(read_table, tmp_path / name).endswith("cannot be read: it is no regular file; check the file.")
    (tmp_path / name).unlink()
    (tmp_path / name).symlink_to("/dev/zero")
    assert complaint(read_table, tmp_path / name).endswith("cannot be read: it is no regular file; check the file.")


def test_a_table_with_holes_is_refused_before_they_are_read(tmp_path):
    with (tmp_path / "data.csv").open("wb") as file:
        file.write(b"a,b\n1,2\n")
        file.truncate(2**40)
    assert complaint(read_table, tmp_path / "data.csv").endswith("there are holes in it; check the file.")


def test_a_name_however_long_is_compared_at_once():
    """Of a stranger's record with columns of a stranger's table."""
    draw = np.random.default_rng(0)
    letters = np.array([chr(0x4E00 + i) for i in range(150)])
    one, *names = ("".join(draw.choice(letters, 30_000)) for _ in range(4))
    fmt = TableFormat(Encoding((Column(one, "number"),)), "y", "regression")
    begin = time.process_time()
    assert f"got none named {one[:60]}..." in complaint(encode, pd.DataFrame(np.zeros((2, 3)), columns=names), fmt)
    assert time.process_time() - begin < 2


@pytest.mark.parametrize(
    ("values", "task", "labels"),
    [
        (["a", "b"] * 4, "classification", ["a", "b"] * 4),
        (["1", "2", "x", "x"] * 2, "classification", ["1", "2", "x", "x"] * 2),
        (["True", "false"] * 4, "classification", [True, False] * 4),
        (["0", "1"] * 4, "classification", [0, 1] * 4),
        (["-1.0", "1.0"] * 4, "classification", [-1, 1] * 4),
        (["1", "2", "3", "4"] * 2, "classification", [1, 2, 3, 4] * 2),
        (["1", "2", "3", "4", "5", "5", "5", "5"], "regression", [1.0, 2.0, 3.0, 4.0, 5.0, 5.0, 5.0, 5.0]),
        (["0.5", "1"] * 4, "regression", [0.5, 1.0] * 4),
        ([str(i) for i in range(20)] * 2, "classification", list(range(20)) * 2),
        ([str(i) for i in range(21)] * 2, "regression", [float(i) for i in range(21)] * 2),
    ],
)
def test_the_task_follows_from_the_target(tmp_path, values, task, labels):
    frame = read(tmp_path, "x,y\n" + "".join(f"{i},{value}\n" for i, value in enumerate(values)))
    fmt = learn_format(frame, "y")
    assert fmt.task == task
    got = targets(frame, fmt)
    assert got.tolist() == labels
    assert isinstance(got.tolist()[0], type(labels[0]))


@pytest.mark.parametrize(
    ("written", "unit", "numbers"),
    [
        (["$5", "-$1,250.50", "$-7", "US$3"], "", None),
        (["$5", "-$1,250.50", "$ -7"], "$", [5, -1250.5, -7]),
        (["1.250,50 €", "0,5€", "\u22123 €"], "€", [1250.5, 0.5, -3]),
        (["12.5%", "3 %", "-"], "%", [12.5, 3, 7.75]),
        (["3 kg", "-4.5 kg", "kg"], "", None),
        (["3 km/h", "4 km/h", "5 km/h"], "km/h", [3, 4, 5]),
        (["3 kg", "4 lb", "5 kg"], "", None),
        (["1st", "2nd", "3rd"], "", None),
        (["Q1", "Q2", "Q3"], "", None),
        (["1\u202f234,5", "12 345 678", "0,25"], "", [1234.5, 12345678, 0.25]),
        (["1'234.5", "12\u2019345", "1"], "", [1234.5, 12345, 1]),
        (["12,34,567.5", "1,23,456", "0.5"], "", [1234567.5, 123456, 0.5]),
        (["0,123", "0,250", "1,500"], "", [0.123, 0.25, 1.5]),
        (["1.5", "#DIV/0!", "3.5"], "", [1.5, 2.5, 3.5]),
    ],
)
def test_numbers_as_people_write_them(written, unit, numbers):
    """With their unit, if all have the same, and with thousands set apart; what is none of this stays text."""
    frame = pd.DataFrame({"x": written})
    decimal = learn_decimal(frame)
    assert isinstance(decimal, str)
    encoding, _, _ = learn_encoding(frame, Reading(decimal))
    [column] = encoding.columns
    if numbers is None:
        assert column.kind == "category"
        return
    assert (column.kind, column.unit) == ("number", unit)
    assert column.words().startswith(f"number in {unit}" if unit else "number")
    assert encoding.encode(frame)[0][:, 0].tolist() == numbers
    assert Encoding.from_json(json.loads(json.dumps(encoding.to_json()))) == encoding
    if unit:
        assert "got '3 stones' in row 1" in complaint(encoding.encode, pd.DataFrame({"x": ["3 stones"]}))
        assert encoding.encode(pd.DataFrame({"x": [3.5]}))[0].tolist() == [[3.5]]


@pytest.mark.parametrize(
    ("written", "day"),
    [
        ("1 Feb 2020", "2020-02-01"),
        ("01-feb-2020", "2020-02-01"),
        ("Feb 1, 2020", "2020-02-01"),
        ("February 1st, 2020", "2020-02-01"),
        ("1. Sept. 2020", "2020-09-01"),
        ("1 Feb 2020 12:00 AM", "2020-02-01"),
        ("2020-02-01, 6:00 pm", "2020-02-01T18:00"),
        ("2020/2/1 12:30:00 PM", "2020-02-01T12:30"),
        ("1 Fob 2020", None),
        ("31 Feb 2020", None),
        ("2020-02-01 13:00 PM", None),
    ],
)
def test_dates_as_people_write_them(written, day):
    found = values.day(written, "year")
    assert np.isnan(found) if day is None else found == np.datetime64(day, "m").astype(int) / 1440


def test_a_target_may_have_a_unit(tmp_path):
    frame = read(tmp_path, "x,y\n" + "".join(f"{i},${i % 30}.50\n" for i in range(60)) + "60,-\n")
    kept = frame.loc[~missing_in(frame["y"], Reading())]
    fmt = learn_format(kept, "y")
    assert (fmt.task, targets(kept, fmt)[:3].tolist()) == ("regression", [0.5, 1.5, 2.5])
    classes = pd.DataFrame({"x": range(60), "y": ["5 kg", "10 kg"] * 30})
    assert targets(classes, learn_format(classes, "y"))[:2].tolist() == ["5 kg", "10 kg"]


def test_a_number_with_an_underscore_is_text(tmp_path):
    frame = read(tmp_path, "x,y\n1_0,1_0\n10,10\n1_0,10\n10,1_0\n")
    fmt = learn_format(frame, "y")
    assert fmt.encoding.columns[0].levels == ("10", "1_0")
    assert targets(frame, fmt).tolist() == ["1_0", "10", "10", "1_0"]


def test_the_task_can_be_chosen(tmp_path):
    frame = read(tmp_path, "x,y,z\n1,3,0.5\n2,3,1.5\n3,4,0.5\n4,4,2.5\n")
    assert targets(frame, learn_format(frame, "y", task="regression")).dtype == np.float64
    assert "whole numbers" in complaint(learn_format, frame, "z", task="classification")


def test_choices_are_checked(tmp_path, as_users_have_it):
    assert "got 'guess'" in complaint(learn_format, read(tmp_path, PEOPLE), "kind", task="guess")


def test_labels_have_one_type_in_every_file(tmp_path):
    """Where the new file's labels or levels all look like numbers, they stay the text they were."""
    frame = read(tmp_path, "x,code,y\n1,01,1\n2,02,2\n3,A,two\n4,01,1\n5,01,2\n6,A,two\n")
    fmt = learn_format(frame, "y")
    new = read(tmp_path, "x,code,y\n1,02,1\n2,01,2\n", "new.csv", fmt)
    assert targets(new, fmt).tolist() == ["1", "2"]
    assert encode(new, fmt).tolist() == [[1, 0, 1, 0], [2, 1, 0, 0]]


@pytest.mark.parametrize(
    ("content", "options", "words"),
    [
        ("x,y\n1,\n2,5\n3,\n", {}, "`y` is missing in 2 of 3 rows: 1, 3; fill it in"),
        ("x,y\n1,5\n2,5\n", {}, "at least two different values, got '5' in all rows"),
        ("x,y\n1,a\n2,a\n", {}, "at least two different values, got 'a' in all rows"),
        ("x,y\n1,1.5\n2,inf\n3,2.5\n", {}, "finite numbers for regression, got 'inf' in row 2"),
        ("x,y\n1,1.5\n2,?\n", {"task": "regression"}, "`y` is missing in 1 of 2 rows: 2"),
        ("x,y\n1,1.5\n2,u\n", {"task": "regression"}, "got 'u' in row 2"),
        ("x,y\n1,1.5\n2,u\n3,2.5\n4,3.5\n", {}, "4 classes in 4 rows (such as 'u')"),
        ("x,y\n1,a\n2,b\n", {"target": "z"}, "the columns are x, y"),
        ("length,width\n1,a\n2,b\n", {"target": "Widht"}, "got 'Widht'; near it are width."),
        ("Preis,Ergebnis\n1,a\n2,b\n", {"target": "ergebnis"}, "got 'ergebnis'; near it are Ergebnis, Preis."),
        ("x,y\n1,a\n2,b\n", {"ignore": ["x", "q"]}, "`ignore` must name columns of the table, got 'q'"),
        ("x,y\n1,a\n2,b\n", {"ignore": ["y"]}, "must not hold the target"),
        ("x,y\n1,a\n2,b\n", {"ignore": ["x"]}, "beside `y`, got none (x: as asked)"),
        ("y\n1\n2\n", {}, "there is no other"),
        ("x,y\n1,a\n-inf,b\n", {}, "Column `x` must hold finite numbers, got '-inf' in row 2"),
        (
            "x,c,y\n1,,a\n,u,b\n3,v,a\n4,,b\n",
            {"impute": False},
            "2 problems: (1) column `x` has no value in 1 of 4 rows (`--impute` may help); (2) column `c` has no value",
        ),
        ("x,y\n01/02/2020,a\n03/04/2020,b\n", {}, "day and month cannot be told apart"),
        ("x,z,y\n1,u,a\n-inf,v,b\n", {"number": ["z"]}, "(2) column `z` must hold finite numbers, got 'u' in row 1"),
        ("x,y\n1,a\n2,b\n", {"number": ["x"], "category": ["x"]}, "`category` must not name a column that `number`"),
        ('x,z,y\n"1,5",1,a\n"2,25",2,b\n1.75,3,a\n', {}, "`x` has numbers with decimal commas and with points"),
        ('x,z,y\n"1,5",0.126,a\n"2,25",2,b\n3,3,a\n', {}, "decimal commas in column `x` and points in column `z`"),
        ("x~y\n1~a\n2~b\n", {}, "the columns are x~y (if these are several, say what separates them with `--sep`)"),
        ("d,y\n2020-01-02,a\n2.1.2020,b\n", {}, "`d` has dates that are written in several ways"),
        (
            "d,y\n2020-01-02,a\n2020-13-45,b\n2020-01-04,a\n",
            {},
            "`d` has dates, but for '2020-13-45' in 1 of 3 rows: 2 (`--na 2020-13-45` may help)",
        ),
    ],
)
def test_tables_that_cannot_be_learned(tmp_path, content, options, words):
    frame = read(tmp_path, content)
    options = {"target": "y", **options}
    assert words in complaint(learn_format, frame, **options)


def test_missing_values_are_refused_where_that_is_asked_for(tmp_path):
    frame = read(tmp_path, "x,y\n" + ",1\n" * 9 + "1,2\n2,3\n")
    sentence = complaint(learn_format, frame, "y", task="regression", impute=False)
    assert "`x` has no value in 9 of 11 rows" in sentence
    assert "--impute" in sentence
    assert "--ignore x" in sentence


def test_dates_of_parquet_and_of_text_are_the_same_numbers(tmp_path):
    days = pd.to_datetime(["2020-01-01", "2020-01-02 06:30:00.25", None, "2021-07-01"], format="ISO8601")
    pd.DataFrame({"x": [1, 2, 3, 4], "day": days, "y": list("abab")}).to_parquet(tmp_path / "data.parquet")
    frame = read_table(tmp_path / "data.parquet")
    fmt = learn_format(frame, "y")
    assert fmt.encoding.columns[1].words() == (
        "date: time, time of year, day of week, time of day; missing → 2020-01-02"
    )
    x = encode(frame, fmt)
    assert x[0, 1] == 18262  # days from 1970-01-01 to 2020-01-01
    assert x[2, 1] == x[1, 1] == 18263 + (6.5 * 3600 + 0.25) / 86400
    np.testing.assert_allclose(x[3, 2:6], [0, -1, 0, 1], atol=0.02)  # half a year later, again a Thursday
    for text in ("2020-01-01,2020-01-02T06:30:00.25Z,,2021-07-01", "2020/1/1,2020/1/2 07:30:00.25+01:00,-,2021.7.1"):
        rows = zip("1234", text.split(","), "abab", strict=True)
        again = read(tmp_path, "x,day,y\n" + "".join(",".join(row) + "\n" for row in rows))
        assert learn_format(again, "y") == fmt
        np.testing.assert_array_equal(encode(again, fmt), x)


@pytest.mark.parametrize(
    ("first", "second", "order"), [("31.1.2020", "1.2.2020", "day"), ("1/31/2020", "2/1/2020", "month")]
)
def test_what_stands_first_in_a_date_is_seen_where_it_can_be(tmp_path, first, second, order):
    fmt = learn_format(read(tmp_path, f"x,when,y\n1,{first},a\n2,{second},b\n3,{second},a\n4,{first},b\n"), "y")
    assert fmt.encoding.columns[1].order == order
    new = read(tmp_path, "x,when\n1,3.4.2020\n", "new.csv", fmt)
    day = pd.Timestamp("2020-04-03" if order == "day" else "2020-03-04")
    assert encode(new, fmt)[0, 1] == (day - pd.Timestamp(0)).days
    assert "must hold dates, got 'soon' in row 1" in complaint(encode, read(tmp_path, "x,when\n1,soon\n", fmt=fmt), fmt)


def test_names_and_free_text_are_left_out(tmp_path):
    rows = [f"{i},person {i},{'n/k' if i == 7 else i * 0.5},{'ab'[i % 2]}" for i in range(60)]
    frame = read(tmp_path, "\n".join(["x,full name,amount,y", *rows]))
    # A number that is not one is shown, because it is what has to be corrected.
    sentence = complaint(learn_format, frame, "y")
    assert "`amount` has numbers, but for 'n/k' in 1 of 60 rows: 8 (`--na n/k` may help)" in sentence
    fmt = learn_format(frame, "y", na=("n/k",))
    assert fmt.encoding.features() == ["x", "amount"]
    assert fmt.encoding.ignored == {"full name": "60 different texts in 60 rows, such as 'person 0'"}
    assert encode(frame, fmt)[7, 1] == 15.0  # the median of the others


def test_ids_are_left_out_and_codes_are_kept(tmp_path):
    rows = [f"{1000 + 7 * i},{i},0{i % 5}123,{i % 7},{'ab'[i % 2]}" for i in range(40)]
    frame = read(tmp_path, "\n".join(["customerId,year,zip,grid,y", *rows]))
    fmt = learn_format(frame, "y")
    assert fmt.encoding.ignored == {"customerId": "an id: another number in every row"}
    assert fmt.encoding.columns[1].levels == ("00123", "01123", "02123", "03123", "04123")
    assert [column.kind for column in fmt.encoding.columns] == ["number", "category", "number"]
    assert "customerId" in learn_format(frame, "y", number=("customerId",)).encoding.features()
    # Whoever else reads the file loses the zeros.
    other = pd.read_csv(tmp_path / "data.csv")
    assert other["zip"].tolist()[:2] == [123, 1123]
    np.testing.assert_array_equal(encode(other, fmt), encode(frame, fmt))


@pytest.mark.parametrize(("rows", "most"), [(20, 10), (100, 20), (600, 100)])
def test_a_category_has_few_levels_for_its_rows(rows, most):
    def table(levels):
        x = [f"level {i % levels}" for i in range(rows)]
        return pd.DataFrame({"x": x, "y": ["ab"[i % 2] for i in range(rows)]})

    assert len(learn_format(table(most), "y").encoding.features()) == most
    if most + 1 > rows / 2:
        assert "(x: 11 different texts in 20 rows, such as 'level 0')" in complaint(learn_format, table(most + 1), "y")
    else:
        fmt = learn_format(table(most + 1), "y")
        assert len(fmt.encoding.features()) == most
        assert fmt.encoding.columns[0].words().startswith(f"category of {most} of {most + 1}: level 0, level 1, ")
        assert "all others count as none of them" in fmt.encoding.columns[0].words()


def test_columns_that_say_nothing_are_left_out(tmp_path):
    content = ",x,one,same,half,none,why,y\n0,1,5,a,7,,b,u\n1,2,5,a,,,b,v\n2,3,5,a,7,,c,u\n"
    fmt = learn_format(read(tmp_path, content), "y", ignore=["why"])
    assert fmt.encoding.features() == ["x"]
    assert fmt.encoding.ignored == {
        "why": "as asked",
        "Unnamed: 0": "no name",
        "one": "a single value",
        "same": "a single value",
        "half": "a single value",
        "none": "empty",
    }


def test_missing_values_are_filled_as_in_training(tmp_path):
    frame = read(tmp_path, "x,c,d,y\n1,u,p,0.5\n2,,q,1.5\n,v,q,2.5\n9,v,p,3.5\n")
    fmt = learn_format(frame, "y")
    assert fmt.encoding.features() == ["x", "c=(missing)", "c=u", "c=v", "d=p", "d=q"]
    assert encode(frame, fmt)[:, 0].tolist() == [1, 2, 2, 9]
    assert encode(frame, fmt)[:, 1].tolist() == [0, 1, 0, 0]
    assert fmt.encoding.columns[0].words() == "number; missing → 2.0"
    assert fmt.encoding.columns[1].words() == 'category of 3: (missing), u, v; missing → "(missing)"'
    assert fmt.encoding.columns[2].words() == "category of 2: p, q"
    # `d` was complete in training: a missing value there is a level never seen, and said to be.
    new = read(tmp_path, "x,c,d\n,,\n5,u,p\n", "new.csv", fmt)
    assert encode(new, fmt).tolist() == [[2, 1, 0, 0, 0, 0], [5, 0, 1, 0, 1, 0]]
    assert said_of(new, fmt).startswith("column `d` has categories that were not trained on: (missing);")
    # And a number that always was there is filled in, which is said.
    full = learn_format(frame.dropna(), "y")
    assert "column `x` always had a value in training and has none in 1 of 2 rows: 1; 5.0 is taken" in said_of(
        new, full
    )


def test_new_rows_may_come_in_another_order_with_more_columns(tmp_path):
    frame = read(tmp_path, PEOPLE)
    fmt = learn_format(frame, "kind")
    shuffled = frame[["score", "kind", "member", "colour", "age"]].assign(more=[None, "x", "y", "z"])
    shuffled.to_csv(tmp_path / "new.csv", index=False)
    np.testing.assert_array_equal(encode(read_table(tmp_path / "new.csv", fmt), fmt), encode(frame, fmt))


def test_unseen_levels_are_zeros_and_named(tmp_path):
    frame = read(tmp_path, PEOPLE)
    fmt = learn_format(frame, "kind")
    new = read(tmp_path, PEOPLE.replace("blue", "violet").replace("green", "pink"), "new.csv", fmt)
    assert encode(new, fmt)[:, 1:4].sum(1).tolist() == [1, 0, 1, 0]
    words = (
        "column `colour` has categories that were not trained on: pink, violet; they count as none of those that were."
    )
    assert said_of(new, fmt) == words
    assert said_of(frame, fmt) == ""


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("age,", "Age,", "got none named age; near it are Age"),
        ("colour,", "c,", "got none named colour; the columns are age, c,"),
        ("41,", "old,", "Column `age` must hold finite numbers, got 'old' in row 2"),
        ("41,", "inf,", "Column `age` must hold finite numbers, got 'inf' in row 2"),
        (
            "28,green",
            ",",
            "Column `age` has no value in 1 of 4 rows: 4; fill it in; Column `colour` has no value in 1 of",
        ),
    ],
)
def test_new_rows_that_do_not_fit(tmp_path, old, new, words):
    fmt = learn_format(read(tmp_path, PEOPLE), "kind", impute=False)
    assert words in complaint(encode, read(tmp_path, PEOPLE.replace(old, new), "new.csv", fmt), fmt)


def test_new_targets_that_do_not_fit(tmp_path):
    frame = read(tmp_path, PEOPLE)
    assert "got no column 'kind'" in complaint(targets, frame.drop(columns="kind"), learn_format(frame, "kind"))
    fmt = learn_format(frame, "member")
    assert "true or false, got '2' in row 1" in complaint(targets, frame.assign(member=[2, 0, 1, 1]), fmt)


@pytest.mark.parametrize("target", ["kind", "score", "member"])
def test_a_format_survives_json(tmp_path, target):
    frame = read(tmp_path, PEOPLE + ",,,7.125,no\n" * (target != "member"))
    fmt = learn_format(frame, target, ignore=["age"])
    again = TableFormat.from_json(json.loads(json.dumps(fmt.to_json())))
    assert again == fmt
    np.testing.assert_array_equal(encode(frame, again), encode(frame, fmt))
    assert again != replace(fmt, target="age")


def test_a_damaged_format_is_said_to_be_one(tmp_path):
    content = learn_format(read(tmp_path, PEOPLE), "kind").to_json()
    assert "fit again" in complaint(TableFormat.from_json, {k: v for k, v in content.items() if k != "columns"})
    assert "fit again" in complaint(TableFormat.from_json, {**content, "colour": 1})


def test_words_stay_short():
    column = Column("c", "category", tuple(f"level {i}" for i in range(30)))
    assert column.words().startswith("category of 30: level 0, level 1")
    assert len(column.words()) < 120


number = st.floats(-1e6, 1e6)
word = st.text("abcxyz -=", min_size=1).filter(lambda text: text.strip() != "")


@given(rows=st.lists(st.tuples(number, word, st.booleans(), word), min_size=2, max_size=30), new=word)
@example(rows=[(0.0, "-", False, "=")] * 2, new="=")  # a mark alone is no date
def test_every_row_of_a_category_holds_one_one(rows, new):
    frame = pd.DataFrame(rows, columns=["number", "word", "truth", "other"])
    frame = frame.assign(sure=np.arange(len(rows)), y=np.linspace(0, 1, len(rows)))
    try:
        fmt = learn_format(frame, "y", task="regression")
    except InvalidArgumentError as error:
        assert "different values" in str(error)  # noqa: PT017 (many words are no category, which is right)
        return
    x = encode(frame, fmt)
    assert x.shape == (len(rows), len(fmt.encoding.features()))
    assert x.dtype == np.float64
    start = 0
    for column in fmt.encoding.columns:
        block = x[:, start : start + len(column.features())]
        start += block.shape[1]
        if column.kind == "number":
            assert block[:, 0].tolist() == frame[column.name].astype(float).tolist()
        else:
            assert set(block.ravel()) <= {0.0, 1.0}
            assert block.sum(1).tolist() == [1.0] * len(rows)
            assert [column.levels[i] for i in block.argmax(1)] == [text.strip() for text in frame[column.name]]
    # A new word is either a level, or zeros and unseen.
    changed = frame.assign(word=new)
    known = {column.name: column.levels for column in fmt.encoding.columns}.get("word", (new.strip(),))
    missing = new.strip() in NOTHING
    assert (f"not trained on: {new.strip()};" in said_of(changed, fmt)) == (new.strip() not in known and not missing)
