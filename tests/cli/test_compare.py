"""`leadline compare` on files, as a real process; wrong arguments in this one."""

import csv
import json
import time

import numpy as np
import pytest

from leadline.cli.compare import NAMES
from leadline.files.ours import is_ours
from tests.cli.test_spirals import LEADLINE, ctrl_c_after
from tests.promises.command import leadline as run
from tests.report.test_page import Page

SMALL = ("--width", 4, "--restarts", 1, "--epochs", 10)


@pytest.fixture(autouse=True)
def a_wide_terminal(monkeypatch):
    """Whatever these tests are run in."""
    monkeypatch.setenv("COLUMNS", "100")


@pytest.fixture(scope="module")
def table(tmp_path_factory):
    """With two classes that a number and a category decide, and a number that the same make up."""
    path = tmp_path_factory.mktemp("tables") / "things.csv"
    rng = np.random.default_rng(0)
    size, colour = rng.normal(size=120), rng.choice(["red", "blue"], 120)
    kind = np.where(size + (colour == "red") > 0.5, "big", "small")
    price = 100 + 5 * size + rng.normal(size=120)
    with path.open("w", newline="") as file:
        csv.writer(file).writerows([["size", "colour", "kind", "price"], *zip(size, colour, kind, price, strict=True)])
    return path


@pytest.fixture(scope="module")
def compared(table):
    """By the folds of the default, beside two others."""
    out = table.parent / "compared"
    asked = ("--target", "kind", "--ignore", "price", "--against", "linear,forest", "--out", out, *SMALL)
    return out, asked, run("compare", table, *asked)


def test_it_says_and_writes_how_all_do_on_all_rows(compared):
    out, _, done = compared
    assert done.code == 0, done.err
    assert "beginning" in done.err
    content = json.loads((out / "compared.json").read_text())
    assert [row["candidate"] for row in content["candidates"]] == ["leadline", "linear", "forest"]
    assert (content["n_rows"], content["n_measured"], content["folds"], content["target"]) == (120, 120, 5, "kind")
    with (out / "compared.csv").open() as file:
        rows = list(csv.DictReader(file))
    for row, other in zip(rows, content["candidates"], strict=True):
        assert float(row["nll"]) == other["nll"]
        assert f"{row['candidate']} " in done.out
    assert rows[1]["nll_verdict"] in ("better", "worse", "within noise")
    assert "minus leadline" in done.out
    assert "cross-validation of 5 folds" in done.out
    assert max(map(len, done.out.split("\nwrote")[0].splitlines())) <= 100
    text = (out / "compared.html").read_text()
    assert Page(text).count("svg") == 3
    assert "things.csv: kind" in text
    assert all(is_ours(out / name) for name in NAMES)


def test_a_comparison_is_not_overwritten_unasked(compared, table):
    out, asked, _ = compared
    before = (out / "compared.csv").read_bytes()
    done = run("compare", table, *asked)
    assert done.code == 2
    assert "holds a comparison already; choose another or use --force." in done.err
    assert (out / "compared.csv").read_bytes() == before
    done = run("compare", table, *asked, "--force", "--quiet", "--seed", 2, "--against", "linear")
    assert (done.code, done.out, done.err) == (0, "", "")
    assert (out / "compared.csv").read_bytes() != before


def test_what_is_not_ours_stays(table, tmp_path):
    (tmp_path / "compared.csv").write_text("my,own\n1,2\n")
    done = run("compare", table, "--target", "kind", "--out", tmp_path, "--force", *SMALL)
    assert done.code == 2
    assert "what is there is not Leadline's" in done.err
    assert (tmp_path / "compared.csv").read_text() == "my,own\n1,2\n"


def test_families_and_temperatures_side_by_side(table):
    asked = ("--against", "none", "--depth", "normal,0", "--temperature", "0.1,auto", "--test", 0.1, "--quiet", *SMALL)
    done = run("compare", table, "--target", "kind", "--ignore", "price", *asked)
    assert (done.code, done.err) == (0, "")
    head, *rows = done.out.split("\n\n")[0].splitlines()
    assert head.split() == ["accuracy,", "%", "NLL", "ECE,", "%", "free", "energy", "E[L]", "seconds"]
    names = [" ".join(["leadline", depth, f"T={t}"]) for depth in ("normal", "0") for t in ("0.1", "auto")]
    assert [row[: len(name)] for row, name in zip(rows, names, strict=True)] == names
    assert sum("*" in row for row in rows) == 1
    assert all("0.00 ± 0.00" in row for row in rows[2:])
    assert "12 of 120 rows, kept apart from the others." in done.out


def test_numbers_in_their_own_units(table):
    done = run("compare", table, "--target", "price", "--against", "linear,boosting", "--folds", 2, "--quiet", *SMALL)
    assert (done.code, done.err) == (0, "")
    assert "RMSE" in done.out
    assert "inside 90 %, %" in done.out
    assert "Gaussian" in done.out


def test_a_raw_table_is_read_as_it_is(tmp_path):
    rng = np.random.default_rng(0)
    lines = [
        f"{1000 + 7 * i};{rng.normal():.2f};{'?' if i % 9 == 0 else i % 3};2021-0{1 + i % 9}-11;{i % 2}"
        for i in range(60)
    ]
    (tmp_path / "a.csv").write_text("\n".join(["id;x;code;day;y", *(line.replace(".", ",") for line in lines)]))
    asked = ("--category", "code", "--ignore", "id", "--against", "linear", "--folds", 2, "--quiet", *SMALL)
    done = run("compare", tmp_path / "a.csv", "--target", "y", *asked)
    assert done.code == 0, done.err
    assert "60 of 60 rows" in done.out
    assert "Columns that are left out: id (" in done.out


def test_without_rows_kept_apart_families_are_compared_by_free_energy(table):
    done = run("compare", table, "--target", "kind", "--against", "none", "--test", 0, "--quiet", *SMALL)
    assert done.code == 0
    assert "free energy" in done.out
    assert "NLL" not in done.out.splitlines()[0]


def test_ctrl_c_shows_what_is_finished(table, tmp_path):
    rows = table.read_text().splitlines()
    large = tmp_path / "large.csv"
    large.write_text("\n".join([rows[0], *rows[1:] * 40]))
    asked = (large, "--target", "kind", "--depth", "0,8", "--against", "none", "--width", 300, "--folds", 3)
    stdout, stderr = ctrl_c_after("beginning", 1.0, *LEADLINE, "compare", *asked, "--out", tmp_path / "out")
    assert stdout == ""
    assert stderr.endswith("leadline: interrupted; nothing was written.\n")
    assert not (tmp_path / "out").exists()
    quick = (table, "--target", "kind", "--against", "forest", "--folds", 120, "--out", tmp_path / "out", *SMALL)
    stdout, stderr = ctrl_c_after("beginning", 6.0, *LEADLINE, "compare", *quick)
    assert "a cross-validation of 120 folds, stopped after" in " ".join(stdout.split())
    assert stderr.endswith("leadline: interrupted; what was finished is shown, and nothing was written.\n")


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["--against", "soup"], "`against` must be one of linear, boosting, forest, mlp, all, none, got 'soup'."),
        (["--against", "linear,all"], "`against` must be one of linear, boosting, forest, mlp, got 'all'."),
        (["--against", "mlp,mlp"], "`against` must have at least one entry, and none twice"),
        (["--depth", "deep"], "`depth` must be one of"),
        (["--depth", "1,1"], "`depth` must have at least one entry, and none twice"),
        (["--temperature", "0.1,warm"], "`temperature` must be"),
        (["--temperature", "-1"], "`temperature` must be"),
        (["--folds", "1"], "`folds` must be a whole number of at least 2, got 1."),
        (["--folds", "21"], "`folds` must be at most the number of rows, 20, got 21."),
        (["--folds", "3", "--test", "0.2"], "`folds` must be left out where `test` is given, got 3."),
        (["--test", "0"], "`test` must keep rows apart to compare with linear, boosting, forest, mlp, got 0.0."),
        (["--test", "1.5"], "`test` must be a share"),
        (["--restarts", "0"], "`restarts` must be a whole number"),
        (["--weight", "x"], "`weight` must be left out of a comparison, whose rows count alike, got 'x'."),
        (["--noise", "input"], "`noise` is that of a number"),
        (["--out", "a.csv"], "`out` must be a directory, got the file a.csv."),
    ],
)
def test_a_wrong_argument_is_one_sentence_at_once(tmp_path, arguments, sentence, leadline_here):
    (tmp_path / "a.csv").write_text("x,y\n" + "".join(f"{i},{i % 2}\n" for i in range(20)))
    start = time.perf_counter()
    done = leadline_here("compare", "a.csv", "--target", "y", *arguments, cwd=tmp_path)
    assert (done.returncode, done.stdout) == (2, "")
    assert sentence in done.stderr
    assert done.stderr.count("\n") == 1
    assert time.perf_counter() - start < 5
