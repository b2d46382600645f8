"""The paper's grid: streams, tables, the comparison, and a process that is killed."""

import csv
import os
import signal
import subprocess
import time
import warnings
from dataclasses import replace

import numpy as np
import pytest

from leadline import InvalidArgumentError, Settings, TrainingDivergedError
from leadline.backend.device import Backend, pretending
from leadline.depth import FAMILIES
from leadline.files.records import read_rows, write_rows
from leadline.report.reproduction import compare, of_another_length, published, write_comparison
from leadline.studies import sweep as sweep_module
from leadline.studies.evaluate import run_fits
from leadline.studies.reproduce import QUICK, Grid, table_name
from leadline.studies.spiral import spiral_problem
from leadline.studies.sweep import CHUNKS, Trainer
from tests.cli.test_spirals import LEADLINE, leadline
from tests.tolerances import CLOSED_FORM, TRAJECTORY

SMALL = Grid(recipes=("published",), depths=("normal", "poisson"), omegas=(3, 4.5), runs=2, epochs=3)
TIMES = {"seconds"}


def table_of(out, recipe, depth):
    return out / f"{table_name(recipe, depth)}.csv"


def without_times(rows):
    return [{name: value for name, value in row.items() if name not in TIMES} for row in rows]


def test_the_whole_grid_is_the_papers():
    grid = Grid()
    jobs = grid.sweep().jobs
    assert len(jobs) == 3 * 310
    ours = [job for job in jobs if job.settings.recipe == "published"]
    assert {job.key[0] for job in ours} == set(range(31))
    assert {job.settings.seed for job in ours} == {1, 2, 3, 4, 5}
    assert {job.cost for job in ours} == {20_000}
    assert QUICK.families() == [("published", "normal"), ("published", "poisson")]


@pytest.mark.parametrize("name", ["accuracy", "depth_run1", "prior_logpmf", "initial_logpmf"])
def test_the_published_numbers_are_the_papers(name, shared):
    with (shared / "paper" / f"published_{name}.csv").open() as file:
        rows = list(csv.DictReader(file))
    for column, values in published(name).items():
        assert values.tolist() == [float(row[column]) for row in rows]


def test_a_run_is_the_same_in_any_chunk():
    """Thirteen epochs, fifty-two steps: alone, and between two others of other speeds, seeds and families."""
    problems = [spiral_problem(3, 1), spiral_problem(12, 2), spiral_problem(20, 7)]
    depths = ("poisson", "normal", 2)
    fits = [Settings(depth=d, recipe="published", epochs=13, seed=s) for d, s in zip(depths, (1, 2, 7), strict=True)]
    [alone] = run_fits(problems[1:2], fits[1:2])
    among = run_fits(problems, fits)[1]
    np.testing.assert_array_equal(alone.problem.train[0], among.problem.train[0])
    np.testing.assert_allclose(among.said.probabilities, alone.said.probabilities, atol=TRAJECTORY)
    for name in ("accuracy", "nll", "depth_mean", "free_energy"):
        assert among.record.to_json()[name] == pytest.approx(alone.record.to_json()[name], rel=TRAJECTORY)


def test_tables_fill_and_nothing_is_trained_twice(tmp_path, monkeypatch):
    told = []
    assert SMALL.sweep().run(tmp_path, lambda *now: told.append(now))
    assert SMALL.sweep().missing(tmp_path) == []
    assert told[-1] == (pytest.approx(1.0), 8, 8, "")
    tables = {family: read_rows(table_of(tmp_path, *family)) for family in SMALL.families()}
    for (recipe, depth), rows in tables.items():
        assert [(float(row["omega"]), int(row["seed"])) for row in rows] == [(3, 1), (3, 2), (4.5, 1), (4.5, 2)]
        assert {(row["recipe"], row["depth"], row["epochs"]) for row in rows} == {(recipe, depth, "3")}
    trained = []
    whole = Trainer._train
    monkeypatch.setattr(Trainer, "_train", lambda self, chunk, *how: trained.extend(chunk) or whole(self, chunk, *how))
    assert replace(SMALL, runs=3).sweep().run(tmp_path)
    assert {job.key for job in trained} == {(3, 3), (4.5, 3)}
    for family, rows in tables.items():
        now = read_rows(table_of(tmp_path, *family))
        assert [row for row in now if row["seed"] != "3"] == rows


class Two(Backend):
    """A device that is best given two networks at once."""

    networks_at_once = 2


@pytest.mark.slow
def test_on_a_gpu_chunks_are_large_and_the_next_ones_programs_are_made_aside(tmp_path, monkeypatch):
    """The order of work where the runs of a recipe train in one program; here two, of four, at a time."""
    grid = replace(SMALL, depths=("normal",))
    asked = []
    whole = Trainer._train

    def train(self, chunk, problems, watch):
        asked.append(([(job.settings.depth, *job.key) for job in chunk], watch.checkpoint_dir is None))
        return whole(self, chunk, problems, watch)

    monkeypatch.setattr(Trainer, "_train", train)
    with pretending(Two("cpu")):
        assert [len(chunk) for chunk in SMALL.sweep().missing(tmp_path)] == [2] * 4
        assert grid.sweep().run(tmp_path)
    trained = [chunk for chunk, aside in asked if not aside]
    assert [len(chunk) for chunk in trained] == [2, 2]
    assert [chunk for chunk, aside in asked if aside] == trained
    assert grid.sweep().missing(tmp_path) == []
    assert [(row["depth"], row["runs"]) for row in read_rows(tmp_path / "chunks.csv")] == [("normal", "2")] * 2


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
        write_rows(table_of(tmp_path, recipe, depth), rows)
    got = list(compare(grid, tmp_path).itertuples())
    assert [(one.depth, one.omega) for one in got] == [
        (depth, omega) for depth in ("normal", "categorical") for omega in (5, 6.5, 20)
    ]
    for one in got:
        rows = [
            row
            for row in read_rows(table_of(tmp_path, one.recipe, one.depth))
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
            assert np.isnan([one.published_mean, one.difference, one.standard_errors, one.published_depth_mean]).all()


def test_figures_and_tables_are_written_and_agree(tmp_path):
    assert SMALL.sweep().run(tmp_path)
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
    assert "every network was trained for 3 epochs (`--epochs`); the recipes take `published` 20,000." in text
    assert rows[0]["published_mean"] == "99.9414"
    assert rows[1]["published_mean"] == rows[1]["difference"] == ""


@pytest.mark.parametrize("recipes", [("published",), ("published", "written"), ("published", "leadline")])
def test_only_another_length_than_the_papers_is_spoken_of(recipes):
    assert of_another_length(Grid(recipes=recipes)) == ""
    assert (of_another_length(Grid(recipes=recipes, epochs=20_000)) == "") == ("leadline" not in recipes)
    said = of_another_length(Grid(recipes=recipes, epochs=19_999))
    assert all(f"`{recipe}`" in said for recipe in recipes)
    assert "19,999" in said


ARGUMENTS = ("--recipe", "published", "--omegas", "3,4.5", "--runs", 3, "--epochs", 400)


def tables_in(out):
    return [row for depth in ("normal", "poisson") for row in read_rows(table_of(out, "published", depth))]


def start_and_signal(out, number):
    """Start the command, and send it a signal when some runs are in the tables and some are not."""
    process = subprocess.Popen(
        [*LEADLINE, "reproduce", "--out", str(out), *map(str, ARGUMENTS)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    deadline = time.monotonic() + 240
    while not 1 <= len(tables_in(out)) <= 8 and time.monotonic() < deadline and process.poll() is None:
        time.sleep(0.005)
    os.kill(process.pid, number)
    _, errors = process.communicate(timeout=120)
    return process.returncode, errors


@pytest.mark.slow
def test_killed_and_started_again_it_gives_the_same_table(tmp_path):
    status, _ = start_and_signal(tmp_path / "killed", signal.SIGKILL)
    assert status == -signal.SIGKILL
    before = tables_in(tmp_path / "killed")
    assert 1 <= len(before) < 12
    again = leadline("reproduce", "--out", tmp_path / "killed", *ARGUMENTS)
    assert again.returncode == 0, again.stderr
    assert again.stdout.startswith(f"12 runs, {len(before)} of them done already, {12 - len(before)} to train\n")
    undisturbed = leadline("reproduce", "--out", tmp_path / "whole", *ARGUMENTS, "--quiet")
    assert undisturbed.returncode == 0, undisturbed.stderr
    assert undisturbed.stdout == ""
    after = tables_in(tmp_path / "killed")
    assert without_times(after) == without_times(tables_in(tmp_path / "whole"))
    assert [row for row in after if row in before] == before  # not trained again: their seconds are the same
    assert len(read_rows(tmp_path / "killed" / "chunks.csv")) in (12, 11)  # one may be lost between the two tables


def test_ctrl_c_keeps_what_is_finished_and_says_how_to_go_on(tmp_path):
    status, errors = start_and_signal(tmp_path, signal.SIGINT)
    assert status == 130
    assert errors.splitlines()[-1] == (
        f"leadline: interrupted; what is finished is in {tmp_path}, and the same command goes on from there."
    )
    assert 1 <= len(tables_in(tmp_path)) < 12


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--omegas", "fast"], "`omegas` must be like 0:31, 0:31:5 or 5,10,15, got 'fast'."),
        (["--omegas", "5:5"], "`omegas` must have at least one entry, and none twice, got ()."),
        (["--omegas", "5,5"], "`omegas` must have at least one entry, and none twice, got (5.0, 5.0)."),
        (["--omegas", "-1"], "`omegas` must be at least 0, got -1.0."),
        (["--runs", "0"], "`runs` must be a whole number of at least 1, got 0."),
        (["--depth", "deep"], f"`depth` must be one of {', '.join(FAMILIES)}, got 'deep'."),
        (["--recipe", "secret"], "`recipe` must be one of leadline, table, image, published, written, got 'secret'."),
    ],
)
def test_wrong_arguments_get_one_sentence(arguments, message, tmp_path, leadline_here):
    done = leadline_here("reproduce", "--out", tmp_path / "run", *arguments, cwd=tmp_path)
    assert (done.returncode, done.stderr) == (2, f"leadline: {message}\n")
    assert not (tmp_path / "run").exists()


def test_runs_of_another_length_are_not_mixed_in(tmp_path):
    assert replace(SMALL, omegas=(3,), runs=1, depths=("normal",)).sweep().run(tmp_path)
    with pytest.raises(
        InvalidArgumentError, match="has runs of 3 epochs, not 20000; choose another directory or use --epochs 3"
    ):
        replace(SMALL, epochs=None).sweep().missing(tmp_path)


def test_figure_three_is_drawn_from_exact_masses():
    """The paper's points agree with ours where their arithmetic holds (to depth 7)."""
    from leadline.report.reproduction import figure_3

    for name, families in figure_3().items():
        for depth, distribution in families.items():
            exact = np.asarray(distribution.log_masses(8))
            np.testing.assert_allclose(exact, published(name)[depth][:8], atol=10 * CLOSED_FORM["float32"])


def test_a_run_that_diverges_does_not_take_the_others_along(tmp_path):
    """It is named, and is missing from the table; the others are as they would be without it."""
    jobs = SMALL.sweep().jobs[:4]
    huge = jobs[1].problem()
    huge = replace(huge, train=(1e30 * huge.train[0], huge.train[1]))
    sweep = replace(SMALL.sweep(), jobs=[jobs[0], replace(jobs[1], problem=lambda: huge), *jobs[2:]], whole=True)
    with warnings.catch_warnings(action="ignore"), pytest.raises(TrainingDivergedError) as error:
        sweep.run(tmp_path / "some")
    assert str(error.value).count("\n") == 0
    assert f"seed {jobs[1].settings.seed}: Training diverged" in str(error.value)
    [alone] = {job.table for job in jobs}
    replace(SMALL.sweep(), jobs=[jobs[0], *jobs[2:]], whole=True).run(tmp_path / "others")
    some, others = (read_rows(tmp_path / out / f"{alone}.csv") for out in ("some", "others"))
    assert len(some) == 3
    assert without_times(some) == without_times(others)
    assert [row["runs"] for row in read_rows(tmp_path / "some" / CHUNKS)] == ["3"]
    assert [len(chunk) for chunk in sweep.missing(tmp_path / "some")] == [1]


def test_no_link_among_checkpoints_is_followed(tmp_path):
    sweep, precious = SMALL.sweep(), tmp_path / "precious"
    place = sweep_module._place(tmp_path / "out", sweep.missing(tmp_path / "out")[0])
    precious.mkdir()
    place.parent.mkdir(parents=True)
    place.symlink_to(precious)
    with pytest.raises(InvalidArgumentError, match="must be a directory; move what is there away"):
        sweep.run(tmp_path / "out", checkpoint_every=0)
    assert not any(precious.iterdir())


def test_a_kill_between_two_tables_loses_no_line_and_adds_none(tmp_path, monkeypatch):
    jobs = SMALL.sweep().jobs[:2]
    sweep = replace(SMALL.sweep(), jobs=jobs, whole=True)
    written, calls = sweep_module.write_rows, []

    def killed(path, rows):
        calls.append(path.name)
        if len(calls) == 2:
            raise MemoryError("a kill, as it were")
        return written(path, rows)

    monkeypatch.setattr(sweep_module, "write_rows", killed)
    with pytest.raises(MemoryError):
        sweep.run(tmp_path)
    assert len(read_rows(tmp_path / CHUNKS)) == 1
    sweep.run(tmp_path)
    assert len(read_rows(tmp_path / CHUNKS)) == 1
    assert len(read_rows(tmp_path / f"{jobs[0].table}.csv")) == 2
