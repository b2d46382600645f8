"""Sweeps on a cluster of two nodes: the tables of one process, whatever dies meanwhile."""

import re
import signal
import socket
import subprocess
import sys
import time
import warnings
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from leadline import (
    CategoricalLikelihood,
    DepthClassifier,
    InvalidArgumentError,
    Problem,
    RayRunner,
    Settings,
    compare,
    sweep,
)
from leadline.files.directories import CHECKPOINTS
from leadline.files.records import read_rows
from leadline.studies.reproduce import Grid
from leadline.studies.runners.ray import QUIET
from leadline.studies.sweep import RunsMissingError
from leadline.studies.uci import UciSettings
from tests.cli.test_spirals import leadline
from tests.studies import counted
from tests.studies.counted import CountingRunner, begun

ray = pytest.importorskip("ray", reason="Ray is not installed: the tests of sweeps on a cluster are skipped.")

TIMES = {"seconds", "compile_seconds"}
SPIRALS = Grid(("published",), omegas=(3, 4.5), runs=1, epochs=5)
WHOLE = Grid(("published",), omegas=tuple(range(12)), runs=1, epochs=300)
"""Twenty-four."""
SLOT = {"num_cpus": 1, "include_dashboard": False}


@pytest.fixture(scope="module")
def environment():
    """That of a quiet Ray, whose workers are as urgent as the tests."""
    with pytest.MonkeyPatch.context() as patch:
        for name, value in {**QUIET, "RAY_worker_niceness": "0"}.items():
            patch.setenv(name, value)
        yield


def free_port():
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


@pytest.fixture(scope="module")
def head(environment):
    """The first node of a cluster, which has the driver, with a slot."""
    from ray import cloudpickle
    from ray.cluster_utils import Cluster

    cloudpickle.register_pickle_by_value(counted)
    with warnings.catch_warnings(action="ignore"):  # it forks
        cluster = Cluster(initialize_head=True, head_node_args=SLOT | {"ray_client_server_port": free_port()})
    yield cluster
    with warnings.catch_warnings(action="ignore"):
        cluster.shutdown()
    cloudpickle.unregister_pickle_by_value(counted)


@pytest.fixture
def nodes(head):
    """A cluster of two nodes, with a slot each."""
    if not head.worker_nodes:
        with warnings.catch_warnings(action="ignore"):
            head.add_node(**SLOT)
    return head


def tables(out):
    """What is in all tables, without times."""
    paths = sorted(path for path in out.glob("*.csv") if path.name != "chunks.csv")
    return {path.name: [{k: v for k, v in row.items() if k not in TIMES} for row in read_rows(path)] for path in paths}


def test_tables_are_those_of_one_process_to_the_bit(nodes, tmp_path, shared):
    yacht = UciSettings(shared / "data" / "uci", ("yacht",), ("normal", 1), (0, 1), epochs=5)
    told = []
    for name, study in {"spirals": SPIRALS.sweep(), "uci": yacht.sweep()}.items():
        log = tmp_path / f"{name}.log"
        assert study.run(tmp_path / name, lambda *now: told.append(now), runner=CountingRunner(nodes.address, log=log))
        assert study.run(tmp_path / "here" / name)
        assert tables(tmp_path / name) == tables(tmp_path / "here" / name)
        assert begun(log) == {f"{job.table} {job.key}": 1 for job in study.jobs}
        left = {path.name for path in (tmp_path / name).iterdir() if path.suffix != ".csv"}
        assert left == set()
    assert told[-1][:3] == (pytest.approx(1.0), 4, 4)


def rows_in(out):
    return sum(len(rows) for rows in tables(out).values())


def check_whole(grid, out, log, n_under_way):
    """The tables are those of one process; and of what was begun again, each was under way when something died."""
    assert grid.sweep().missing(out) == []
    assert grid.sweep().run(out.parent / "here")
    assert tables(out) == tables(out.parent / "here")
    assert not (out / CHECKPOINTS).exists()
    again = [job for job, times in begun(log).items() if times > 1]
    assert len(begun(log)) == len(grid.sweep().jobs)
    assert len(again) <= n_under_way
    assert max(begun(log).values()) <= 2


@pytest.mark.parametrize(
    "grid", [replace(WHOLE, omegas=(0, 1, 2)), pytest.param(WHOLE, marks=pytest.mark.slow)], ids=["six", "whole"]
)
def test_a_node_that_dies_gives_back_what_it_had_in_hand(nodes, tmp_path, grid):
    out, log, [second] = tmp_path / "out", tmp_path / "log", nodes.worker_nodes

    def kill(share, done, runs, slowest):
        if done and nodes.worker_nodes:
            with warnings.catch_warnings(action="ignore"):
                nodes.remove_node(second, allow_graceful=False)

    assert grid.sweep().run(out, kill, 0.2, CountingRunner(nodes.address, log=log))
    assert not nodes.worker_nodes
    check_whole(grid, out, log, 1)


@pytest.mark.parametrize("n_omegas", [3, pytest.param(12, marks=pytest.mark.slow)], ids=["six", "whole"])
def test_the_driver_is_killed_and_started_again(nodes, tmp_path, n_omegas):
    out, log = tmp_path / "out", tmp_path / "log"
    grid = replace(WHOLE, omegas=tuple(range(n_omegas)))
    command = [sys.executable, "-m", "tests.studies.counted", nodes.address, out, log, n_omegas, grid.epochs]
    driver = subprocess.Popen([*map(str, command)], cwd=Path(__file__).parents[2])
    deadline = time.monotonic() + 120
    while not rows_in(out) and time.monotonic() < deadline and driver.poll() is None:
        time.sleep(0.01)
    driver.send_signal(signal.SIGKILL)
    assert driver.wait() == -signal.SIGKILL
    before = tables(out)
    done = rows_in(out)
    assert 0 < done < 2 * n_omegas
    subprocess.run([*map(str, command)], cwd=Path(__file__).parents[2], check=True)
    check_whole(grid, out, log, 2 + 1)  # one may have been finished, and not be in a table yet
    assert all(row in tables(out)[name] for name, rows in before.items() for row in rows)


@pytest.mark.slow
def test_what_fails_three_times_is_named_and_the_others_go_on(nodes, tmp_path):
    log, deadly = tmp_path / "log", (4.5, 1)
    runner = CountingRunner(nodes.address, log=log, deadly=(deadly,))
    with pytest.raises(RunsMissingError) as error:
        SPIRALS.sweep().run(tmp_path / "out", runner=runner)
    assert "\n" not in str(error.value)
    for depth in SPIRALS.depths:
        assert f"published-{depth}, omega 4.5, n_test 1024, seed 1: WorkerCrashedError: " in str(error.value)
        assert begun(log) == {
            f"published-{d} {key}": 3 if key == deadly else 1 for d in SPIRALS.depths for key in [(3.0, 1), deadly]
        }
    assert rows_in(tmp_path / "out") == 2
    assert [job.key for [job] in SPIRALS.sweep().missing(tmp_path / "out")] == [deadly] * 2


@pytest.mark.slow
def test_a_node_with_another_version_is_named(head, tmp_path):
    """Another JAX, as its metadata say."""
    other = tmp_path / "jax-0.0.1.dist-info"
    other.mkdir()
    (other / "METADATA").write_text("Metadata-Version: 2.1\nName: jax\nVersion: 0.0.1\n")
    with warnings.catch_warnings(action="ignore"):
        node = head.add_node(**SLOT, env_vars={"PYTHONPATH": str(tmp_path)})
    try:
        with pytest.raises(InvalidArgumentError) as error:
            SPIRALS.sweep().run(tmp_path / "out", runner=RayRunner(head.address))
    finally:
        with warnings.catch_warnings(action="ignore"):
            head.remove_node(node, allow_graceful=False)
    said = "`on` must be a cluster with the versions that are here, and node .* has jax 0.0.1 \\(here .*\\)."
    assert re.fullmatch(said, str(error.value))


@pytest.mark.slow
def test_comparisons_and_searches_are_those_of_one_process(nodes):
    rng = np.random.default_rng(1)
    x, y = rng.normal(size=(60, 2)), np.repeat([0, 1], 30)
    ours = DepthClassifier(width=4, n_restarts=1, max_iter=10, random_state=1)
    tables = [
        compare(x, y, candidates=[ours, "linear"], folds=2, runner=runner).to_frame().drop(columns="seconds")
        for runner in (None, RayRunner(nodes.address))
    ]
    assert tables[0].equals(tables[1])
    problem = Problem((x, y), 0.2, CategoricalLikelihood(2), test=(x, y))
    tried = [Settings(width=width, n_restarts=1, epochs=5) for width in (2, 4)]
    frames = [sweep(problem, tried, runner=runner).to_frame() for runner in (None, RayRunner(nodes.address))]
    assert frames[0].drop(columns="seconds").equals(frames[1].drop(columns="seconds"))


@pytest.mark.slow
def test_ctrl_c_leaves_chunks_where_they_were(nodes, tmp_path):
    """The first Ctrl-C: workers write down where they are, and the next start goes on from there."""
    whole, out = replace(WHOLE, omegas=(3,), epochs=20_000).sweep(), tmp_path / "out"

    def interrupt(share, done, runs, slowest):
        if slowest:  # both are at it
            signal.raise_signal(signal.SIGINT)

    assert not whole.run(out, interrupt, runner=RayRunner(nodes.address))
    assert list((out / CHECKPOINTS).rglob("*.checkpoint"))
    assert len(whole.missing(out)) == 2


@pytest.mark.slow
@pytest.mark.parametrize("on", ["auto", "client"])
def test_the_command_finds_the_cluster(nodes, tmp_path, monkeypatch, on):
    """Inside it, by the address in the environment; and from outside, through Ray's client."""
    monkeypatch.setenv("RAY_ADDRESS", nodes.address)
    place = on if on == "auto" else f"ray://127.0.0.1:{nodes.head_node._ray_params.ray_client_server_port}"
    given = ("--recipe", "published", "--omegas", "3", "--runs", 1, "--epochs", 3)
    done = leadline("reproduce", "--out", tmp_path / "there", *given, "--on", place)
    assert done.returncode == 0, done.stderr
    assert leadline("reproduce", "--out", tmp_path / "here", *given).returncode == 0
    assert tables(tmp_path / "there") == tables(tmp_path / "here")
