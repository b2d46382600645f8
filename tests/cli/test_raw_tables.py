"""Raw tables: each is read as its owner would, or refused in one sentence; and a model is one, on the command line and
in Python."""

import numpy as np
import pandas as pd
import pytest

from leadline import load
from leadline.cli.tables import MOST_LINES
from tests.cli.raw_tables import TABLES, Raw
from tests.promises.command import leadline

SMALL = ("--epochs", 3, "--restarts", 2, "--width", 4)

ROUND_TRIPS = [name for name, raw in TABLES.items() if raw.pandas is not None]


def put(folder, raw: Raw):
    path = folder / raw.file
    path.write_bytes(raw.content)
    return path


def test_there_are_enough_of_them():
    assert len(TABLES) >= 20
    assert len(ROUND_TRIPS) >= 5


@pytest.mark.parametrize("name", TABLES)
def test_a_raw_table_is_read_as_its_owner_would(tmp_path, name):
    raw = TABLES[name]
    path = put(tmp_path, raw)
    done = leadline("fit", path, "--target", raw.target, "--out", tmp_path / "run", "--test", 0.2, *SMALL, *raw.flags)
    if raw.refused:
        assert done.refused, done
        assert raw.refused in done.err
        assert not (tmp_path / "run").exists()
        return
    assert done.code == 0, done.err
    said = [line.strip() for line in done.out.splitlines()]
    assert f"{raw.task} of `{raw.target}`" in done.out
    if len(raw.columns) > MOST_LINES:
        [words] = {*raw.columns.values()}
        assert f"{', '.join(raw.columns)}: {words}" in " ".join(said)
        assert len(said) < MOST_LINES
    for column, words in raw.columns.items() if len(raw.columns) <= MOST_LINES else ():
        assert any(line.startswith(f"{column}: {words}") for line in said), (column, words, done.out)
    for column, why in raw.left_out.items():
        assert f"{column}: left out ({why})" in said
    n_columns = max(map(len, raw.rows)) - 1
    assert len(raw.columns) + len(raw.left_out) == n_columns  # none is forgotten
    for words in raw.says:
        assert words in done.out + done.err
    expected_notes = len(raw.says)
    assert sum("note:" in line for line in done.err.splitlines()) == expected_notes, done.err


@pytest.mark.parametrize("name", ROUND_TRIPS)
def test_a_model_is_the_same_on_the_command_line_and_in_python(tmp_path, name):
    """To the bit: the command line, Python with the frame as pandas reads it, and the command line with what Python
    saved."""
    raw = TABLES[name]
    path = put(tmp_path, raw)
    done = leadline("fit", path, "--target", raw.target, "--out", tmp_path / "run", *SMALL, *raw.flags, "--quiet")
    assert done.code == 0, done.err
    model = load(tmp_path / "run")
    frame = pd.read_csv(path, **raw.pandas or {})
    shuffled = frame[frame.columns[::-1]].assign(**{"another column": "text"})
    said = model.predict_proba(shuffled) if raw.task == "classification" else model.predict(shuffled)
    model.save(tmp_path / "saved.safetensors")
    written = []
    for i, source in enumerate((tmp_path / "run", tmp_path / "saved.safetensors")):
        out = tmp_path / f"{i}.parquet"
        done = leadline("predict", source, path, "--out", out)
        assert done.code == 0, done.err
        written.append(out.read_bytes())
        table = pd.read_parquet(out)
        columns = [f"p({label})" for label in model.classes_] if raw.task == "classification" else [raw.target]
        np.testing.assert_array_equal(table[columns].to_numpy().reshape(said.shape), said)
    assert written[0] == written[1]


def test_predictions_keep_columns_and_are_scored(tmp_path):
    path = put(tmp_path, TABLES["ids and zip codes"])
    assert leadline("fit", path, "--target", "y", "--out", tmp_path / "run", *SMALL, "--quiet").code == 0
    done = leadline("predict", tmp_path / "run", path, "--keep", "customer_id", "--keep", "zip", "--keep", "y")
    assert done.code == 0, done.err
    head, first, *rest = done.out.splitlines()
    assert head.startswith("customer_id,zip,y (given),y,p(no),p(yes),")
    assert first.startswith("1000,01234,")
    assert len(rest) == 59
    assert "wrote 60 predictions of `y`" in done.err
    scored = [line for line in done.err.splitlines() if line.startswith("test ")]
    evaluated = leadline("evaluate", tmp_path / "run", path)
    assert evaluated.code == 0
    assert [line for line in evaluated.out.splitlines() if line.startswith("test ")] == scored
    frame = pd.read_csv(path)
    accuracy = 100 * np.mean(load(tmp_path / "run").predict(frame) == frame["y"])
    assert any(line.startswith("test accuracy") and f"{accuracy:.1f} % ± " in line for line in scored)
    refused = leadline("predict", tmp_path / "run", path, "--keep", "nothing")
    assert refused.refused
    assert "`keep` must be a column of the table, got 'nothing'" in refused.err


def test_a_new_table_may_write_its_fractions_otherwise(tmp_path):
    raw = TABLES["quoted thousands and a mark"]
    path = put(tmp_path, raw)
    assert leadline("fit", path, "--target", "y", "--out", tmp_path / "run", *SMALL, "--quiet").code == 0
    frame = pd.read_csv(path, thousands=",")
    frame.to_csv(tmp_path / "new.csv", sep=";", decimal=",", index=False)
    refused = leadline("predict", tmp_path / "run", tmp_path / "new.csv")
    assert refused.refused
    assert "say what begins a fraction in this table (`decimal`)" in refused.err
    given = leadline("predict", tmp_path / "run", path)
    done = leadline("predict", tmp_path / "run", tmp_path / "new.csv", "--decimal", ",")
    assert (done.code, done.out, done.err) == (given.code, given.out, given.err)
    scored = leadline("evaluate", tmp_path / "run", tmp_path / "new.csv", "--decimal", ",").out
    assert scored == leadline("evaluate", tmp_path / "run", path).out
    assert leadline("evaluate", tmp_path / "run", path, "--decimal", "x").refused


def test_a_table_without_the_target_is_predicted_and_not_evaluated(tmp_path):
    path = put(tmp_path, TABLES["ids and zip codes"])
    assert leadline("fit", path, "--target", "y", "--out", tmp_path / "run", *SMALL, "--quiet").code == 0
    frame = pd.read_csv(path)
    frame.drop(columns="y").to_csv(tmp_path / "new.csv", index=False)
    frame.assign(y="").to_csv(tmp_path / "empty.csv", index=False)
    done = leadline("predict", tmp_path / "run", tmp_path / "new.csv", "--out", "-")
    assert done.code == 0
    assert "test " not in done.err
    assert leadline("evaluate", tmp_path / "run", tmp_path / "new.csv").refused
    assert leadline("evaluate", tmp_path / "run", tmp_path / "empty.csv").refused
    assert (
        "note: not scored. The table must have rows with a `y`"
        in leadline("predict", tmp_path / "run", tmp_path / "empty.csv").err
    )


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        (("--sep", "xy"), "`sep` must be one of"),
        (("--encoding", "klingon"), "`encoding` must be one that Python knows, got 'klingon'"),
        (("--decimal", "x"), "`decimal` must be one of ., ,, got 'x'"),
        (("--category", "nothing"), "`category` must name columns of the table, got 'nothing'"),
        (("--weight", "login"), "`weight` must be a column of numbers of at least 0, got 'u-0' in `login`"),
        (("--weight", "nothing"), "`weight` must be a column of the table beside the target, got 'nothing'"),
        (("--weight", "y"), "`weight` must be a column of the table beside the target, got the target, 'y'"),
        (("--category", "y"), "`category` must not hold the target, got 'y'; `task` says whether that is a class"),
        (("--seed", -1), "`seed` must be a whole number of at least 0, got -1"),
        (("--class-weight", "odd"), "`class-weight` must be one of balanced, got 'odd'"),
    ],
)
def test_what_is_said_about_a_table_is_checked(tmp_path, flags, words):
    path = put(tmp_path, TABLES["ids and zip codes"])
    done = leadline("fit", path, "--target", "y", "--out", tmp_path / "run", *SMALL, *flags)
    assert done.refused, done
    assert words in done.err
