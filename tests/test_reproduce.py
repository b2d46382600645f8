"""The paper's grid: streams, tables, the comparison, and a process that is killed."""

import csv
import os
import signal
import subprocess
import time
from dataclasses import replace

import numpy as np
import pytest

from leadline import InvalidArgumentError
from leadline.experiments import reproduce as grids
from leadline.experiments.records import read_rows, write_rows
from leadline.experiments.reproduce import QUICK, Grid, missing, reproduce, table_path
from leadline.experiments.spiral import SpiralSettings, run_spirals
from leadline.report.reproduction import compare, published, write_comparison
from tests.test_cli import LEADLINE, leadline
from tests.tolerances import CLOSED_FORM, TRAJECTORY

SMALL = Grid(recipes=("published",), depths=("normal", "poisson"), omegas=(3, 4.5), runs=2, epochs=3)
TIMES = {"seconds"}


def without_times(rows):
    return [{name: value for name, value in row.items() if name not in TIMES} for row in rows]


def test_the_whole_grid_is_the_papers():
    grid = Grid()
    settings = [one for family in grid.families() for one in grid.settings(*family)]
    assert len(settings) == 3 * 310
    ours = [one for one in settings if one.recipe == "published"]
    assert {one.omega for one in ours} == set(range(31))
    assert {one.seed for one in ours} == {1, 2, 3, 4, 5}
    assert {one.resolved().epochs for one in ours} == {20_000}
    assert QUICK.families() == [("published", "normal"), ("published", "poisson")]


@pytest.mark.parametrize("name", ["accuracy", "depth_run1", "prior_logpmf", "initial_logpmf"])
def test_the_published_numbers_are_the_papers(name, shared):
    with (shared / "paper" / f"published_{name}.csv").open() as file:
        rows = list(csv.DictReader(file))
    for column, values in published(name).items():
        assert values.tolist() == [float(row[column]) for row in rows]


def test_a_run_is_the_same_in_any_chunk():
    """Thirteen epochs, fifty-two steps: alone, and between two others of other speeds, seeds and families."""
    one = SpiralSettings(12, recipe="published", epochs=13, seed=2)
    others = [replace(one, omega=3, depth="poisson", seed=1), replace(one, omega=20, depth=2, seed=7)]
    alone = run_spirals([one])[0]
    among = run_spirals([others[0], one, others[1]])[1]
    np.testing.assert_array_equal(alone.parts["train"][0], among.parts["train"][0])
    np.testing.assert_allclose(among.probabilities, alone.probabilities, atol=TRAJECTORY)
    for name in ("accuracy", "nll", "depth_mean", "free_energy"):
        assert among.record[name] == pytest.approx(alone.record[name], rel=TRAJECTORY)


def test_tables_fill_and_nothing_is_trained_twice(tmp_path, monkeypatch):
    told = []
    assert reproduce(SMALL, tmp_path, lambda *now: told.append(now))
    assert missing(SMALL, tmp_path) == []
    assert told[-1] == (pytest.approx(1.0), 8, 8)
    tables = {family: read_rows(table_path(tmp_path, *family)) for family in SMALL.families()}
    for (recipe, depth), rows in tables.items():
        assert [(float(row["omega"]), int(row["seed"])) for row in rows] == [(3, 1), (3, 2), (4.5, 1), (4.5, 2)]
        assert {(row["recipe"], row["depth"], row["epochs"]) for row in rows} == {(recipe, depth, "3")}
    trained = []
    whole = grids._train
    monkeypatch.setattr(grids, "_train", lambda chunk, *rest: trained.extend(chunk) or whole(chunk, *rest))
    assert reproduce(replace(SMALL, runs=3), tmp_path)
    assert {(one.omega, one.seed) for one in trained} == {(3, 3), (4.5, 3)}
    for family, rows in tables.items():
        now = read_rows(table_path(tmp_path, *family))
        assert [row for row in now if row["seed"] != "3"] == rows


def test_on_a_gpu_chunks_are_large_and_the_next_ones_programs_are_made_aside(tmp_path, monkeypatch):
    """The order of work where the runs of a recipe train in one program; here three, of eight, at a time."""
    monkeypatch.setattr(grids, "_on_accelerator", lambda: True)
    monkeypatch.setattr(grids, "AT_ONCE", 3)
    asked = []
    whole = grids.run_spirals

    def run(chunk, report=None, *rest):
        asked.append(([(one.depth, one.omega, one.seed) for one in chunk], report is None))
        return whole(chunk, report, *rest)

    monkeypatch.setattr(grids, "run_spirals", run)
    assert reproduce(SMALL, tmp_path)
    trained = [chunk for chunk, aside in asked if not aside]
    assert [len(chunk) for chunk in trained] == [3, 3, 2]
    assert len({depth for depth, _, _ in trained[1]}) == 2  # of both families
    assert [chunk for chunk, aside in asked if aside] == trained
    assert missing(SMALL, tmp_path) == []
    assert [row["depth"] for row in read_rows(tmp_path / "chunks.csv")] == ["normal", "normal + poisson", "poisson"]


def test_the_comparison_is_plain_arithmetic(tmp_path):
    """Against the same by hand, from numbers made up."""
    grid = Grid(recipes=("published",), depths=("normal", "categorical"), omegas=(5, 6.5, 20), runs=3)
    rng = np.random.default_rng(1)
    for recipe, depth in grid.families():
        rows = [
            {"recipe": recipe, "depth": depth, "omega": omega, "seed": seed, "accuracy": rng.uniform(90, 100)}
            | {"nll": rng.uniform(), "ece": 0.01, "depth_mean": rng.uniform(1, 3), "depth_std": rng.uniform()}
            for omega in grid.omegas
            for seed in (1, 2, 3, 4)  # the fourth run is not in the grid
        ]
        write_rows(table_path(tmp_path, recipe, depth), rows)
    got = compare(grid, tmp_path)
    assert [(one.depth, one.omega) for one in got] == [
        (depth, omega) for depth in ("normal", "categorical") for omega in (5, 6.5, 20)
    ]
    for one in got:
        rows = [
            row
            for row in read_rows(table_path(tmp_path, one.recipe, one.depth))
            if float(row["omega"]) == one.omega and int(row["seed"]) <= 3
        ]
        accuracy = [float(row["accuracy"]) for row in rows]
        depths = [float(row["depth_mean"]) for row in rows]
        assert one.runs == 3
        assert one.accuracy_mean == pytest.approx(sum(accuracy) / 3)
        spread = (sum((a - sum(accuracy) / 3) ** 2 for a in accuracy) / 2) ** 0.5
        assert one.accuracy_std == pytest.approx(spread)
        assert (one.depth_mean_min, one.depth_mean_max) == (min(depths), max(depths))
        assert one.depth_std_median == pytest.approx(sorted(float(row["depth_std"]) for row in rows)[1])
        if one.depth == "normal" and one.omega != 6.5:
            paper = {5: (100.0, 0.0), 20: (95.48828125, 0.815298)}[one.omega]
            assert (one.published_mean, one.published_std) == pytest.approx(paper, rel=1e-5)
            assert one.difference == pytest.approx(one.accuracy_mean - paper[0])
            error = (spread**2 / 3 + paper[1] ** 2 / 5) ** 0.5
            assert one.standard_errors == pytest.approx(one.difference / error, rel=1e-4)
            assert one.close == (abs(one.difference) <= max(2.3 * error, 0.3))
        else:
            assert one.published_mean is one.difference is one.standard_errors is one.published_depth_mean is None


def test_figures_and_tables_are_written_and_agree(tmp_path):
    assert reproduce(SMALL, tmp_path)
    names = {path.name for path in write_comparison(SMALL, tmp_path)}
    assert names == {"comparison.csv", "comparison.md", "figure2-published.png", "figure3.png"}
    assert all((tmp_path / name).stat().st_size > 0 for name in names)
    rows = read_rows(tmp_path / "comparison.csv")
    assert [(row["depth"], float(row["omega"])) for row in rows] == [
        (depth, omega) for depth in ("normal", "poisson") for omega in (3.0, 4.5)
    ]
    text = (tmp_path / "comparison.md").read_text()
    for row in rows:
        assert (
            f"| {float(row['omega']):g} | {float(row['accuracy_mean']):.2f} ± {float(row['accuracy_std']):.2f} |"
            in text
        )
    assert rows[0]["published_mean"] == "99.9414"
    assert rows[1]["published_mean"] == rows[1]["difference"] == ""


ARGUMENTS = ("--recipe", "published", "--omegas", "3,4.5", "--runs", 3, "--epochs", 400)


def table_of(out):
    return [row for depth in ("normal", "poisson") for row in read_rows(table_path(out, "published", depth))]


def start_and_signal(out, number):
    """Start the command, and send it a signal when some runs are in the tables and some are not."""
    process = subprocess.Popen(
        [*LEADLINE, "reproduce", "--out", str(out), *map(str, ARGUMENTS)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    deadline = time.monotonic() + 240
    while not 1 <= len(table_of(out)) <= 8 and time.monotonic() < deadline and process.poll() is None:
        time.sleep(0.005)
    os.kill(process.pid, number)
    _, errors = process.communicate(timeout=120)
    return process.returncode, errors


@pytest.mark.slow
def test_killed_and_started_again_it_gives_the_same_table(tmp_path):
    status, _ = start_and_signal(tmp_path / "killed", signal.SIGKILL)
    assert status == -signal.SIGKILL
    before = table_of(tmp_path / "killed")
    assert 1 <= len(before) < 12
    again = leadline("reproduce", "--out", tmp_path / "killed", *ARGUMENTS)
    assert again.returncode == 0, again.stderr
    assert again.stdout.startswith(f"12 runs, {len(before)} of them done already, {12 - len(before)} to train\n")
    undisturbed = leadline("reproduce", "--out", tmp_path / "whole", *ARGUMENTS, "--quiet")
    assert undisturbed.returncode == 0, undisturbed.stderr
    assert undisturbed.stdout == ""
    after = table_of(tmp_path / "killed")
    assert without_times(after) == without_times(table_of(tmp_path / "whole"))
    assert [row for row in after if row in before] == before  # not trained again: their seconds are the same
    assert len(read_rows(tmp_path / "killed" / "chunks.csv")) in (12, 11)  # one may be lost between the two tables


def test_ctrl_c_keeps_what_is_finished_and_says_how_to_go_on(tmp_path):
    status, errors = start_and_signal(tmp_path, signal.SIGINT)
    assert status == 130
    assert errors.splitlines()[-1] == (
        f"leadline: interrupted; what is finished is in {tmp_path}, and the same command goes on from there."
    )
    assert 1 <= len(table_of(tmp_path)) < 12


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--omegas", "fast"], "`omegas` must be like 0:31, 0:31:5 or 5,10,15, got 'fast'."),
        (["--omegas", "5:5"], "`omegas` must have at least one entry, and none twice, got ()."),
        (["--omegas", "5,5"], "`omegas` must have at least one entry, and none twice, got (5.0, 5.0)."),
        (["--omegas", "-1"], "`omegas` must be at least 0, got -1.0."),
        (["--runs", "0"], "`runs` must be a whole number of at least 1, got 0."),
        (["--depth", "deep"], "`depth` must be one of normal, poisson, categorical, got 'deep'."),
        (["--recipe", "secret"], "`recipe` must be one of leadline, published, written, got 'secret'."),
    ],
)
def test_wrong_arguments_get_one_sentence(arguments, message, tmp_path, leadline_here):
    done = leadline_here("reproduce", "--out", tmp_path / "run", *arguments, cwd=tmp_path)
    assert (done.returncode, done.stderr) == (2, f"leadline: {message}\n")
    assert not (tmp_path / "run").exists()


def test_runs_of_another_length_are_not_mixed_in(tmp_path):
    assert reproduce(replace(SMALL, omegas=(3,), runs=1, depths=("normal",)), tmp_path)
    with pytest.raises(
        InvalidArgumentError, match="has runs of 3 epochs, not 20000; choose another directory or use --epochs 3"
    ):
        missing(replace(SMALL, epochs=None), tmp_path)


def test_figure_three_is_drawn_from_exact_masses():
    """The paper's points agree with ours where their arithmetic holds (to depth 7)."""
    from leadline.report.reproduction import FIGURE_3

    for name, families in FIGURE_3.items():
        for depth, distribution in families.items():
            exact = np.asarray(distribution.log_masses(8))
            np.testing.assert_allclose(exact, published(name)[depth][:8], atol=10 * CLOSED_FORM["float32"])
