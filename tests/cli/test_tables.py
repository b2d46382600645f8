"""`leadline fit`, `predict` and `report` on files, as real processes; wrong arguments in this one."""

import csv
import json

import numpy as np
import pytest

from leadline import DataWarning, DepthClassifier, load
from leadline.cli.app import COMMANDS
from leadline.files.formats import TableFormat
from leadline.files.tables import read_table
from tests.cli.test_spirals import leadline
from tests.promises.command import leadline as run

SMALL = ("--width", 4, "--restarts", 2, "--epochs", 30)


@pytest.fixture(scope="module")
def classes(tmp_path_factory):
    """A table with two classes that a number and a category decide, and a fit to it."""
    directory = tmp_path_factory.mktemp("classes")
    rng = np.random.default_rng(0)
    size, colour = rng.normal(size=120), rng.choice(["red", "blue"], 120)
    kind = np.where(size + (colour == "red") > 0.5, "big", "small")
    rows = [["size", "colour", "kind"], *zip(size, colour, kind, strict=True)]
    with (directory / "things.csv").open("w", newline="") as file:
        csv.writer(file).writerows(rows)
    done = leadline("fit", directory / "things.csv", "--target", "kind", "--out", directory / "run", *SMALL)
    return directory, done


def test_fit_says_what_it_does_and_writes_a_model_and_a_record(classes):
    directory, done = classes
    assert done.returncode == 0, done.stderr
    for words in (
        "108 rows to train on, 12 kept apart; classification of `kind` from",
        "size: number",
        "colour: category of 2: blue, red",
        "expecting",
        "accuracy",
        "L = 0",
    ):
        assert words in done.stdout
    assert "beginning" in done.stderr
    record = json.loads((directory / "run" / "record.json").read_text())
    assert (record["n_rows"], record["n_test"], record["n_features"]) == (120, 12, 3)
    assert record["classes"] == ["big", "small"]
    assert record["epochs"] <= 30
    assert sum(record["reliability"]["rows"]) == 12
    assert len(record["history"]["free_energy"]) == record["epochs"]


def test_predict_writes_what_the_model_says(classes):
    directory, _ = classes
    (directory / "new.csv").write_text("colour,size,more\nred,3.0,x\ngreen,-3.0,y\n")
    done = leadline("predict", directory / "run", directory / "new.csv", "--out", directory / "p.csv")
    assert done.returncode == 0, done.stderr
    assert "column `colour` has categories that were not trained on: green" in done.stderr
    with (directory / "p.csv").open() as file:
        rows = list(csv.DictReader(file))
    model = load(directory / "run" / "model.safetensors")
    fmt = TableFormat.from_json(json.loads((directory / "run" / "record.json").read_text())["table"])
    with pytest.warns(DataWarning, match="green"):
        expected = model.predict_proba(read_table(directory / "new.csv", fmt))
    written = [[float(row["p(big)"]), float(row["p(small)"])] for row in rows]
    np.testing.assert_allclose(written, expected, rtol=1e-5)  # six digits are written
    assert [row["kind"] for row in rows] == model.classes_[expected.argmax(axis=1)].tolist()
    assert set(rows[0]) == {"kind", "p(big)", "p(small)", "noise_nats", "weights_nats", "depth_nats"}


STRANGE = {
    "a title": "\x1b]0;title\x07\x9b2J",
    "two lines": "x\nleadline: note: all is well",
    "a formula": '=HYPERLINK("http://a.b";"c")',
    "another": "-a",
}


@pytest.mark.parametrize("kind", STRANGE)
def test_names_from_a_file_steer_no_terminal_and_run_in_no_spreadsheet(tmp_path, kind):
    """The names of columns, of a level, of a class, and of the file."""
    strange = STRANGE[kind]
    rng = np.random.default_rng(0)
    rows = [[strange, "colour", f"{strange} too"]]
    rows += [[rng.normal(), ["red", strange][i % 2], ["no", strange, strange][i % 3]] for i in range(40)]
    path = tmp_path / f"{strange.replace('/', '')}.csv"
    with path.open("w", newline="") as file:
        csv.writer(file).writerows(rows)
    out = tmp_path / strange.replace("/", "")
    small = ("--epochs", 3, "--restarts", 1, "--width", 4)
    said = [
        run("fit", path, "--target", f"{strange} too", "--out", out, *small),
        run("report", out),
        run("compare", path, "--target", f"{strange} too", *small, "--against", "linear", "--folds", 2),
        run("fit", path, "--target", "neither", "--out", tmp_path / "other"),
        run("fit", path, "--target", "colour", "--ignore", "neither", "--out", tmp_path / "other"),
        run("predict", out, path, "--out", path),
    ]
    with path.open("a", newline="") as file:
        csv.writer(file).writerow([1, f"new {strange}", "no"])
    said.append(run("predict", out, path, "--out", tmp_path / "p.csv"))
    assert [done.code for done in said] == [0, 0, 0, 2, 2, 2, 0]
    for done in said:
        assert all(line.isprintable() for line in (done.out + done.err).split("\n"))
        assert not any(line.startswith("leadline: note: all is well") for line in (done.out + done.err).splitlines())
    with (tmp_path / "p.csv").open(newline="") as file:
        [head, *predicted] = csv.reader(file)
    guarded = f"'{strange}" if "formula" in kind or kind == "another" else strange
    assert head[0] == f"{guarded} too"
    assert {row[0] for row in predicted} <= {"no", guarded}
    assert guarded in {row[0] for row in predicted}
    assert ("spreadsheets would run it" in said[-1].err) == (guarded != strange)


def test_a_note_of_many_levels_is_cut(classes, tmp_path):
    directory, _ = classes
    (tmp_path / "new.csv").write_text("colour,size\n" + "".join(f"colour {i},1\n" for i in range(50_000)))
    done = run("predict", directory / "run", tmp_path / "new.csv", "--out", tmp_path / "p.csv")
    assert done.code == 0
    assert "colour 0, colour 1, colour 10, colour 100" in done.err
    assert "(50,000 in all); they count as none" in done.err
    assert len(done.err) < 400


def test_quiet_changes_no_bit(tmp_path):
    (tmp_path / "a.csv").write_text("x,y\n" + "".join(f"{i},{i % 2}\n" for i in range(20)))
    written = []
    for more in ((), ("--quiet",)):
        out = tmp_path / f"run{len(more)}"
        assert run("fit", tmp_path / "a.csv", "--target", "y", "--out", out, *SMALL, *more).code == 0
        record = json.loads((out / "record.json").read_text())
        del record["seconds"]
        written.append(((out / "model.safetensors").read_bytes(), record))
    assert written[0] == written[1]


def test_report_is_one_page(classes, monkeypatch):
    """Whatever matplotlib is told to draw on."""
    directory, _ = classes
    monkeypatch.setenv("MPLBACKEND", "nonsense")
    done = leadline("report", directory / "run")
    assert done.returncode == 0, done.stderr
    text = (directory / "run" / "report.html").read_text()
    assert "things.csv" in text
    assert "<svg" in text
    assert "://" not in text.replace("http://www.w3.org", "")


def test_regression_in_its_own_units(tmp_path):
    rng = np.random.default_rng(1)
    x = rng.normal(size=80)
    rows = [["x", "price"], *zip(x, 1000 + 50 * x + rng.normal(size=80), strict=True)]
    with (tmp_path / "houses.csv").open("w", newline="") as file:
        csv.writer(file).writerows(rows)
    done = leadline("fit", tmp_path / "houses.csv", "--target", "price", "--out", tmp_path / "run", *SMALL)
    assert done.returncode == 0, done.stderr
    assert "test RMSE" in done.stdout
    record = json.loads((tmp_path / "run" / "record.json").read_text())
    assert record["task"] == "regression"
    assert 0 <= record["coverage_50"] <= record["coverage_90"] <= record["coverage_95"] <= 1
    done = leadline("predict", tmp_path / "run", tmp_path / "houses.csv", "--out", tmp_path / "p.csv", "--quiet")
    assert (done.returncode, done.stdout) == (0, "")
    with (tmp_path / "p.csv").open() as file:
        table = [{name: float(value) for name, value in row.items()} for row in csv.DictReader(file)]
    assert all(row["low_90"] < row["price"] < row["high_90"] for row in table)
    classifier = DepthClassifier(max_iter=1, n_restarts=2, width=4).fit([[0.0], [1.0]] * 9, [0, 1] * 9)
    classifier.save(tmp_path / "run" / "model.safetensors")
    done = leadline("predict", tmp_path / "run", tmp_path / "houses.csv", "--out", tmp_path / "p.csv", "--force")
    assert "the record and the model in" in done.stderr
    assert done.returncode == 2
    assert 900 < np.mean([row["price"] for row in table]) < 1100


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("fit", "none.csv", "--target", "y", "--out", "run"), "none.csv"),
        (("fit", "a.csv", "--target", "z", "--out", "run"), "`target` must be a column of the table, got 'z'"),
        (("fit", "gaps.csv", "--target", "y", "--out", "run", "--no-impute"), "(`--impute` may help)"),
        (("fit", "a.csv", "--target", "y", "--out", "run", "--recipe", "soup"), "`recipe` must be one of"),
        (("fit", "a.csv", "--target", "y", "--out", "run", "--test", "1.5"), "`test` must be a share"),
        (("predict", "nowhere", "a.csv", "--out", "p.csv"), "`run` must be a directory with a record.json"),
        (("fit", "one.csv", "--target", "y", "--out", "run"), "The table must have at least two rows, got 1."),
        (("fit", "a.csv", "--target", "y", "--out", "run", "--restarts", "0"), "`restarts` must be a whole number"),
        (
            ("predict", "nowhere", "a.csv", "--out", "p.xlsx"),
            "`out` must end in .csv, .csv.gz or .parquet, got p.xlsx.",
        ),
        (("predict", "nowhere", "a.csv", "--out", "./a.csv"), "`out` must be another file than the table, got a.csv"),
        (("report", "nowhere"), "`run` must be a directory with a record.json"),
    ],
)
def test_a_wrong_argument_is_one_sentence(tmp_path, arguments, sentence, leadline_here):
    (tmp_path / "a.csv").write_text("x,y\n" + "".join(f"{i},{i % 2}\n" for i in range(20)))
    (tmp_path / "gaps.csv").write_text("x,y\n" + "".join(f"{i if i % 3 else ''},{i % 2}\n" for i in range(20)))
    (tmp_path / "one.csv").write_text("x,y\n1,2\n")
    done = leadline_here(*arguments, cwd=tmp_path)
    assert done.returncode == 2
    assert sentence in done.stderr
    assert done.stderr.startswith("leadline: ")
    assert done.stderr.count("\n") == 1
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("platform", ["tpu", "nonsense"])
def test_a_device_that_is_not_there_is_one_sentence(classes, tmp_path, monkeypatch, platform):
    directory, _ = classes
    monkeypatch.setenv("JAX_PLATFORMS", platform)
    done = leadline("fit", directory / "things.csv", "--target", "kind", "--out", tmp_path / "run", *SMALL, "--quiet")
    assert (done.returncode, len(done.stderr.splitlines())) == (2, 1), done.stderr
    assert done.stderr.startswith(f"leadline: `JAX_PLATFORMS`: JAX finds no device of {platform!r} here (")
    assert not (tmp_path / "run").exists()


def test_the_help_lists_what_one_needs_first():
    listed = [line.split()[0] for line in run("--help").out.split("Commands:\n")[1].splitlines()]
    assert listed == [*COMMANDS]
    for name in listed[:3]:
        words = run(name, "--help").out
        assert f"leadline {name} " in words.split("\n\n", 1)[1]  # an example
        assert "list[" not in words


def test_a_run_that_is_none_is_called_as_the_command_has_it(classes):
    directory, _ = classes
    for run_of_others in (directory / "things.csv", directory / "run" / "record.json"):
        done = run("predict", run_of_others, directory / "things.csv")
        assert done.refused
        assert done.err.startswith(f"leadline: `run`: {run_of_others} is no model file, or is damaged: ")
