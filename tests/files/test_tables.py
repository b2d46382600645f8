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
from hypothesis import given
from hypothesis import strategies as st

from leadline._checks import InvalidArgumentError
from leadline.files.tables import Column, TableFormat, encode, learn_format, read_table, targets, unseen_levels

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


def test_a_table_becomes_numbers(tmp_path):
    frame = read(tmp_path, PEOPLE)
    fmt = learn_format(frame, "kind")
    assert fmt.task == "classification"
    assert fmt.features() == ["age", "colour=blue", "colour=green", "colour=red", "member", "score"]
    expected = [[30, 0, 0, 1, 1, 1.5], [41, 1, 0, 0, 0, 2.5], [52, 0, 0, 1, 1, 0.25], [28, 0, 1, 0, 0, 8]]
    x = encode(frame, fmt)
    assert x.dtype == np.float64
    assert x.tolist() == expected
    assert targets(frame, fmt).tolist() == ["yes", "no", "yes", "no"]
    assert [column.words() for column in fmt.columns][:2] == ["number", "category of 3: blue, green, red"]


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
    ],
)
def test_the_same_table_written_differently(tmp_path, name, content):
    pd.testing.assert_frame_equal(read(tmp_path, content, name), read(tmp_path, PEOPLE))


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
    fmt = learn_format(frame, "y", impute=True)
    assert fmt.features() == ["count", "flag", "code=(missing)", "code=u", "code=v", "price"]
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
    fmt = TableFormat((Column(one, "number"),), "y", "regression")
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


def test_a_number_with_an_underscore_is_text(tmp_path):
    frame = read(tmp_path, "x,y\n1_0,1_0\n10,10\n1_0,10\n10,1_0\n")
    fmt = learn_format(frame, "y")
    assert fmt.columns[0].levels == ("10", "1_0")
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
        ("x,y\n1,1.5\n2,?\n", {"task": "regression"}, "got '?' in row 2"),
        ("x,y\n1,1.5\n2,?\n3,2.5\n4,3.5\n", {}, "4 classes in 4 rows (such as '?')"),
        ("x,y\n1,a\n2,b\n", {"target": "z"}, "the columns are x, y"),
        ("length,width\n1,a\n2,b\n", {"target": "Widht"}, "got 'Widht'; near it are width."),
        ("x,y\n1,a\n2,b\n", {"ignore": ["x", "q"]}, "`ignore` must be a column of the table, got 'q'"),
        ("x,y\n1,a\n2,b\n", {"ignore": ["y"]}, "must not hold the target"),
        ("x,y\n1,a\n2,b\n", {"ignore": ["x"]}, "beside `y`, got none (x: as asked)"),
        ("y\n1\n2\n", {}, "there is no other"),
        ("x,y\n1,a\n-inf,b\n", {}, "Column `x` must hold finite numbers, got '-inf' in row 2"),
        ("x,c,y\n1,,a\n,u,b\n3,v,a\n4,,b\n", {}, "`x` (1 of 4 rows: 2), `c` (2 of 4 rows: 1, 4)"),
        ("x,y\n2020-01-31,a\n2020-02-28,b\n", {}, "dates such as '2020-01-31'"),
        ("x,y\n2024-01-31T10:00,a\n2024-02-28T11:30:00.5Z,b\n", {}, "dates such as '2024-01-31T10:00'"),
        ("x,y\n31.1.2020,a\n28.2.2020,b\n", {}, "leave it out with `--ignore x`"),
    ],
)
def test_tables_that_cannot_be_learned(tmp_path, content, options, words):
    frame = read(tmp_path, content)
    options = {"target": "y", **options}
    assert words in complaint(learn_format, frame, **options)


def test_missing_values_say_how_to_go_on(tmp_path):
    frame = read(tmp_path, "x,y\n" + ",1\n" * 9 + "1,2\n2,3\n")
    sentence = complaint(learn_format, frame, "y", task="regression")
    assert "`x` (9 of 11 rows: 1, 2, 3, ...)" in sentence
    assert "--impute" in sentence
    assert "--ignore" in sentence


def test_dates_of_parquet_are_no_category(tmp_path):
    days = pd.to_datetime(["2020-01-01", "2020-01-02", None, "2020-01-01"])
    pd.DataFrame({"x": [1, 2, 3, 4], "day": days, "y": list("abab")}).to_parquet(tmp_path / "data.parquet")
    frame = read_table(tmp_path / "data.parquet")
    assert "`day` holds dates" in complaint(learn_format, frame, "y", impute=True)
    assert learn_format(frame, "y", ignore=["day"]).features() == ["x"]


def test_names_and_free_text_are_left_to_the_user(tmp_path):
    rows = [f"{i},person {i},{'?' if i == 7 else i * 0.5},{'ab'[i % 2]}" for i in range(60)]
    frame = read(tmp_path, "\n".join(["x,full name,amount,y", *rows]))
    sentence = complaint(learn_format, frame, "y")
    assert "`full name` holds 60 different values" in sentence
    assert "--ignore 'full name' --ignore amount" in sentence
    # A number that is not one is shown, because it is what has to be corrected.
    assert "(such as '?')" in complaint(learn_format, frame, "y", ignore=["full name"])


@pytest.mark.parametrize(("rows", "most"), [(20, 10), (100, 20), (600, 100)])
def test_a_category_has_few_levels_for_its_rows(rows, most):
    def table(levels):
        x = [f"level {i % levels}" for i in range(rows)]
        return pd.DataFrame({"x": x, "y": ["ab"[i % 2] for i in range(rows)]})

    assert len(learn_format(table(most), "y").features()) == most
    assert f"{most + 1} different values" in complaint(learn_format, table(most + 1), "y")


def test_columns_that_say_nothing_are_left_out(tmp_path):
    content = ",x,one,same,half,none,why,y\n0,1,5,a,7,,b,u\n1,2,5,a,,,b,v\n2,3,5,a,7,,c,u\n"
    fmt = learn_format(read(tmp_path, content), "y", ignore=["why"])
    assert fmt.features() == ["x"]
    assert fmt.ignored == {
        "why": "as asked",
        "Unnamed: 0": "no name",
        "one": "a single value",
        "same": "a single value",
        "half": "a single value",
        "none": "empty",
    }


def test_missing_values_are_filled_as_in_training(tmp_path):
    frame = read(tmp_path, "x,c,d,y\n1,u,p,0.5\n2,,q,1.5\n,v,q,2.5\n9,v,p,3.5\n")
    fmt = learn_format(frame, "y", impute=True)
    assert fmt.features() == ["x", "c=(missing)", "c=u", "c=v", "d=p", "d=q"]
    assert encode(frame, fmt)[:, 0].tolist() == [1, 2, 2, 9]
    assert encode(frame, fmt)[:, 1].tolist() == [0, 1, 0, 0]
    assert fmt.columns[0].words() == "number; missing -> 2.0"
    assert fmt.columns[2].words() == 'category of 2: p, q; missing -> "(missing)"'
    # `d` was complete in training: a missing value there is a level never seen, and said to be.
    new = read(tmp_path, "x,c,d\n,,\n5,u,p\n", "new.csv", fmt)
    assert encode(new, fmt).tolist() == [[2, 1, 0, 0, 0, 0], [5, 0, 1, 0, 1, 0]]
    assert unseen_levels(new, fmt) == {"d": ["(missing)"]}


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
    assert unseen_levels(new, fmt) == {"colour": ["pink", "violet"]}
    assert unseen_levels(frame, fmt) == {}


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("age,", "Age,", "got none named age; near it are Age"),
        ("colour,", "c,", "got none named colour; the columns are age, c,"),
        ("41,", "old,", "Column `age` must hold finite numbers, got 'old' in row 2"),
        ("41,", "inf,", "Column `age` must hold finite numbers, got 'inf' in row 2"),
        ("28,green", ",", "`age` (1 of 4 rows: 4), `colour` (1 of 4 rows: 4); fill them in or fit again"),
    ],
)
def test_new_rows_that_do_not_fit(tmp_path, old, new, words):
    fmt = learn_format(read(tmp_path, PEOPLE), "kind")
    assert words in complaint(encode, read(tmp_path, PEOPLE.replace(old, new), "new.csv", fmt), fmt)


def test_new_targets_that_do_not_fit(tmp_path):
    frame = read(tmp_path, PEOPLE)
    assert "got no column 'kind'" in complaint(targets, frame.drop(columns="kind"), learn_format(frame, "kind"))
    fmt = learn_format(frame, "member")
    assert "true or false, got '2' in row 1" in complaint(targets, frame.assign(member=[2, 0, 1, 1]), fmt)


@pytest.mark.parametrize("target", ["kind", "score", "member"])
def test_a_format_survives_json(tmp_path, target):
    frame = read(tmp_path, PEOPLE + ",,,7.125,no\n" * (target != "member"))
    fmt = learn_format(frame, target, impute=True, ignore=["age"])
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
def test_every_row_of_a_category_holds_one_one(rows, new):
    frame = pd.DataFrame(rows, columns=["number", "word", "truth", "other"])
    frame = frame.assign(sure=np.arange(len(rows)), y=np.linspace(0, 1, len(rows)))
    try:
        fmt = learn_format(frame, "y", task="regression")
    except InvalidArgumentError as error:
        assert "different values" in str(error)  # noqa: PT017 (many words are no category, which is right)
        return
    x = encode(frame, fmt)
    assert x.shape == (len(rows), len(fmt.features()))
    assert x.dtype == np.float64
    start = 0
    for column in fmt.columns:
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
    known = {column.name: column.levels for column in fmt.columns}.get("word", (new.strip(),))
    assert unseen_levels(changed, fmt) == ({} if new.strip() in known else {"word": [new.strip()]})
