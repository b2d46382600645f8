"""Sweeps on a cluster of two nodes: the tables of one process, whatever dies meanwhile."""

import warnings

import pytest

ray = pytest.importorskip("ray", reason="Ray is not installed: the tests of sweeps on a cluster are skipped.")

from ray import cloudpickle
from ray.cluster_utils import Cluster

from leadline.files.records import read_rows
from leadline.studies.reproduce import Grid
from leadline.studies.runners.ray import QUIET
from leadline.studies.uci import UciSettings
from tests.studies import counted
from tests.studies.counted import CountingRunner, begun

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


@pytest.fixture
def nodes(environment):
    """A cluster of two nodes, with a slot each; the first has the driver."""
    cloudpickle.register_pickle_by_value(counted)
    with warnings.catch_warnings(action="ignore"):  # it forks
        cluster = Cluster(initialize_head=True, head_node_args=SLOT)
        cluster.add_node(**SLOT)
    yield cluster
    with warnings.catch_warnings(action="ignore"):
        ray.shutdown()
        cluster.shutdown()
    cloudpickle.unregister_pickle_by_value(counted)


def tables(out):
    """What is in all tables, without times."""
    paths = sorted(path for path in out.glob("*.csv") if path.name != "chunks.csv")
    return {path.name: [{k: v for k, v in row.items() if k not in TIMES} for row in read_rows(path)] for path in paths}


def test_tables_are_those_of_one_process_to_the_bit(nodes, tmp_path, shared):
    yacht = UciSettings(shared / "data" / "uci", ("yacht",), ("normal", 1), (0, 1), epochs=5)
    told = []
    for name, sweep in {"spirals": SPIRALS.sweep(), "uci": yacht.sweep()}.items():
        log = tmp_path / f"{name}.log"
        assert sweep.run(tmp_path / name, lambda *now: told.append(now), runner=CountingRunner(nodes.address, log=log))
        assert sweep.run(tmp_path / "here" / name)
        assert tables(tmp_path / name) == tables(tmp_path / "here" / name)
        assert begun(log) == {f"{job.table} {job.key}": 1 for job in sweep.jobs}
        left = {path.name for path in (tmp_path / name).iterdir() if path.suffix != ".csv"}
        assert left == set()
    assert told[-1][:3] == (pytest.approx(1.0), 4, 4)
