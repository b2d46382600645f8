"""Searches of scikit-learn by the processes of joblib's backends: the same scores, and no more threads than cores."""

import importlib.util
import json
import os
import subprocess
import sys

import pytest

NEEDS = {"dask": "distributed", "ray": "ray"}


@pytest.mark.parametrize(
    "backend", ["loky", pytest.param("dask", marks=pytest.mark.slow), pytest.param("ray", marks=pytest.mark.slow)]
)
def test_searches_find_the_same_by_processes(backend):
    needed = NEEDS.get(backend)
    if needed and importlib.util.find_spec(needed) is None:
        pytest.skip(f"needs {needed}, which is not installed")
    said = searched(backend)
    assert said["by processes"] == said["in turn"]
    assert max(said["threads"]) <= max(1, said["cores"] // 2)


@pytest.mark.slow
def test_processes_share_what_is_compiled(tmp_path):
    """By JAX: the second search, with processes of its own, compiles nothing."""
    given = {"LEADLINE_NATIVE": "0", "JAX_COMPILATION_CACHE_DIR": str(tmp_path)}
    first = searched("loky", **given)
    programs = sorted(path.name for path in tmp_path.glob("*-cache"))
    second = searched("loky", **given)
    assert len(programs) > 3
    assert sorted(path.name for path in tmp_path.glob("*-cache")) == programs
    assert second["by processes"] == first["by processes"]


def searched(backend, **environment):
    """What `tests.estimators.searches` says."""
    command = [sys.executable, "-W", "ignore", "-m", "tests.estimators.searches", backend]
    done = subprocess.run(command, env=os.environ | environment, capture_output=True, text=True, timeout=500)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])
