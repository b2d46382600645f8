"""`leadline sweep`, and what is said of where to train."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from leadline import load
from leadline.files.records import read_rows
from tests.cli.test_spirals import leadline

PLAN = """
table = "{table}"
target = "side"
folds = 2
{more}
[settings]
recipe = "leadline"
restarts = 1
epochs = 3
width = [2, 4]
"""


@pytest.fixture
def table(tmp_path):
    rng = np.random.default_rng(1)
    x = rng.normal(size=(40, 2)).round(3)
    lines = [f"{a},{b},{'left' if a + b < 0 else 'right'}" for a, b in x]
    path = tmp_path / "sides.csv"
    path.write_text("\n".join(["a,b,side", *lines]) + "\n")
    return path


def test_a_table_its_page_and_its_best_model_are_written_and_it_goes_on(table, tmp_path):
    out, plan = tmp_path / "out", tmp_path / "plan.toml"
    plan.write_text(PLAN.format(table=table, more="seeds = [1, 2]"))
    first = leadline("sweep", "--plan", plan, "--depth", "normal,1", "--out", out)
    assert first.returncode == 0, first.stderr
    assert first.stdout.startswith("16 runs, 0 of them done already, 16 to train\nbest of 4 settings: ")
    rows = read_rows(out / "sweep.csv")
    assert {(row["split"], row["seed"], row["width"], row["depth"]) for row in rows} == {
        (split, seed, width, depth) for split in "01" for seed in "12" for width in "24" for depth in ("normal", "1")
    }
    assert f"width {load(out).width}" in first.stdout.splitlines()[1]
    predicted = leadline("predict", out, table, "--out", tmp_path / "predictions.csv")
    assert predicted.returncode == 0, predicted.stderr
    assert {row["side"] for row in read_rows(tmp_path / "predictions.csv")} <= {"left", "right"}
    again = leadline("sweep", "--plan", plan, "--depth", "normal,1", "--out", out, "--by", "accuracy")
    assert again.stdout.startswith("16 runs, 16 of them done already, 0 to train\n")
    assert read_rows(out / "sweep.csv") == rows
    assert (out / "sweep.html").read_text().startswith("<!DOCTYPE html>")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "`table` or `omegas` must be given, and not both."),
        (["--omegas", "5", "--target", "y"], "`target` is that of a table, and spirals are asked for, got 'y'."),
        (["x.csv"], "`target` must be given with a table, got none."),
        (["--omegas", "5", "--width", "wide"], "`width` must be whole numbers with commas between, got 'wide'."),
        (["--omegas", "5", "--width", "4,4"], "`width` must have at least one entry, and none twice, got (4, 4)."),
        (["--omegas", "5", "--random", "0"], "`random` must be a whole number of at least 1, got 0."),
        (["--omegas", "5", "--seeds", "1,1"], "`seeds` must have at least one entry, and none twice, got (1, 1)."),
        (["--omegas", "5", "--plan", "plan.txt"], "`plan`: plan.txt cannot be read: No such file or directory."),
        (
            ["--omegas", "5", "--by", "rmse"],
            "`by` must be one of accuracy, nll, brier, ece, roc_auc, pr_auc, got 'rmse'.",
        ),
        (
            ["--omegas", "5", "--on", "moon"],
            "`on` must be local, cores, ray, ray://HOST:PORT or auto, got 'moon'.",
        ),
    ],
)
def test_wrong_arguments_get_one_sentence(arguments, message, tmp_path, leadline_here):
    done = leadline_here("sweep", "--out", tmp_path / "run", *arguments, cwd=tmp_path)
    assert (done.returncode, done.stderr) == (2, f"leadline: {message}\n")
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        (
            "a.toml",
            "width = 3",
            "`plan` must say table, target, omegas, seeds, folds, test, random, by, settings alone",
        ),
        ("a.toml", "settings = 3", "`plan` must have `settings` as a table of lists"),
        ("a.toml", "= 3", "`plan`: .* cannot be read: "),
        ("a.yaml", "- 3", "`plan`: .* cannot be read: it is no table of names and values"),
        ("a.ini", "", r"`plan` must be a .toml or a .yaml"),
    ],
)
def test_a_wrong_plan_gets_one_sentence(name, content, message, tmp_path, leadline_here):
    if name.endswith("yaml"):
        pytest.importorskip("yaml", reason="PyYAML is not installed")
    (tmp_path / name).write_text(content)
    done = leadline_here("sweep", "--out", tmp_path / "run", "--omegas", "5", "--plan", name, cwd=tmp_path)
    assert done.returncode == 2
    assert __import__("re").match(f"leadline: {message}", done.stderr)
    assert done.stderr.count("\n") == 1


def test_ray_is_imported_where_it_is_asked_for_alone(tmp_path):
    code = (
        "import sys; from leadline.studies.reproduce import Grid; from leadline.studies.runners import runner_on\n"
        "from pathlib import Path\n"
        "grid = Grid(('published',), ('normal',), (3,), 1, 2)\n"
        "grid.sweep().run(Path(sys.argv[1]), runner=runner_on('local'))\n"
        "from leadline import RayRunner; RayRunner('auto')\n"
        "print([name for name in sys.modules if name.split('.')[0] == 'ray'])"
    )
    done = subprocess.run([sys.executable, "-c", code, tmp_path], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_without_ray_one_sentence_says_how_to_get_it(tmp_path):
    """In a process that sees all packages but Ray."""
    packages, some = Path(np.__file__).parents[1], tmp_path / "packages"
    some.mkdir()
    for path in packages.iterdir():
        if path.name != "ray":
            (some / path.name).symlink_to(path)
    environment = {"PATH": "", "PYTHONPATH": f"{some}:{Path(__file__).parents[2]}"}
    command = [sys.executable, "-S", "-m", "leadline", "reproduce", "--out", "out", "--quick", "--on", "ray", "--quiet"]
    done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, env=environment, check=False)
    said = 'leadline: `on` needs Ray; `pip install "leadline[ray]"` brings it.\n'
    assert (done.returncode, done.stderr) == (2, said)
    assert not (tmp_path / "out").exists()


def test_no_cluster_is_one_sentence(tmp_path, leadline_here):
    pytest.importorskip("ray", reason="Ray is not installed")
    given = ("reproduce", "--out", tmp_path / "run", "--quick", "--quiet", "--on", "ray://127.0.0.1:1")
    done = leadline_here(*given, cwd=tmp_path)
    said = "leadline: `on` must be a cluster that is there, and none is found at ray://127.0.0.1:1.\n"
    assert (done.returncode, done.stderr) == (2, said)
    assert not (tmp_path / "run").exists()
