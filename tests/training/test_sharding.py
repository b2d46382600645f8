"""A training that several devices share is that of one: real devices of a CPU, and real processes."""

import json
import os
import socket
import subprocess
import sys

import jax
import numpy as np
import pytest

from leadline import InvalidArgumentError, sharded
from leadline.backend.device import backend
from leadline.backend.sharding import evenly, sharing
from tests.tolerances import MANY_SUMS

ALONE = "--xla_force_host_platform_device_count=1"
TWO = "--xla_force_host_platform_device_count=2"


def begun(*command, flags=ALONE):
    """A process of `tests.training.sharded`."""
    return subprocess.Popen(
        [sys.executable, "-m", "tests.training.sharded", *map(str, command)],
        env=os.environ | {"XLA_FLAGS": flags, "JAX_PLATFORMS": "cpu"},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def ended(*processes):
    """What they said; on an error the last words."""
    said = [process.communicate(timeout=500) for process in processes]
    assert all(process.returncode == 0 for process in processes), [err for _, err in said]
    return [json.loads(out.splitlines()[-1]) for out, _ in said]


@pytest.fixture(scope="module")
def by_rows(tmp_path_factory):
    """The same training by one device, and by two that share its rows."""
    [said] = ended(begun("here", tmp_path_factory.mktemp("here"), "rows", flags=TWO))
    return said


def assert_close(shared, one):
    for name in ("free_energy", "history"):
        np.testing.assert_allclose(shared[name], one[name], rtol=1e-4)


def test_devices_that_share_the_rows_learn_what_one_does(by_rows):
    assert_close(by_rows["shared"], by_rows["one"])


def test_what_is_shared_goes_on_from_a_checkpoint(by_rows):
    assert by_rows["cut"] == by_rows["shared"]


@pytest.mark.slow
def test_devices_that_share_the_runs_learn_the_same_to_the_bit(tmp_path):
    """Also where q(L) outgrows the layers that are stored: all devices hear of it."""
    [said] = ended(begun("here", tmp_path, "runs", flags=TWO))
    assert said["shared"]["capacity"] > 8
    assert said["shared"]["numbers"] == said["one"]["numbers"]
    assert said["shared"]["free_energy"] == said["one"]["free_energy"]
    np.testing.assert_allclose(said["shared"]["history"], said["one"]["history"], rtol=MANY_SUMS)
    assert said["cut"] == said["shared"]


@pytest.mark.slow
def test_processes_that_share_the_rows_learn_what_one_does(by_rows, tmp_path):
    """They are stopped on the way, and go on from a checkpoint of the first."""
    first, second = ended(*both(tmp_path, 0, 0))
    assert first == second
    assert_close(first, by_rows["one"])


@pytest.mark.slow
def test_processes_with_other_rows_are_refused(tmp_path):
    sentence = "`sharded` must be given the same problem, settings and checkpoints in all processes, and they differ."
    said = [process.communicate(timeout=500)[1] for process in both(tmp_path, 0, 1)]
    assert all(sentence in err for err in said)


def both(folder, *seeds):
    """Two processes, each with rows of its seed."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    return [begun("together", number, port, seed, folder) for number, seed in enumerate(seeds)]


def test_all_devices_or_some():
    assert sharing() is None
    with sharded("runs"):
        assert sharing().mesh.devices.tolist() == jax.devices()
        assert backend().networks_at_once == len(jax.devices())
        with sharded("rows", devices=jax.devices()[:1]):
            assert (sharing().by, sharing().mesh.size) == ("rows", 1)
    assert sharing() is None


@pytest.mark.parametrize(
    ("n_runs", "n_devices", "expected"), [(12, 8, 6), (12, 4, 4), (31, 4, 1), (2, 8, 2), (1, 1, 1)]
)
def test_as_many_devices_take_part_as_have_equally_many_runs(n_runs, n_devices, expected):
    assert evenly(n_runs, n_devices) == expected


def test_the_environment_says_it_where_nobody_else_does(monkeypatch):
    monkeypatch.setenv("LEADLINE_SHARD", "rows")
    assert sharing().by == "rows"
    with sharded("runs"):
        assert sharing().by == "runs"
    monkeypatch.setenv("LEADLINE_SHARD", "columns")
    with pytest.raises(InvalidArgumentError, match="`LEADLINE_SHARD` must be one of runs, rows, got 'columns'"):
        sharing()


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        ({"by": "columns"}, "`by` must be one of runs, rows, got 'columns'"),
        ({"by": "rows", "devices": 0}, "`devices` must be a whole number of at least 1, got 0"),
        ({"by": "rows", "devices": 100}, "`devices` must be at most 1, got 100"),
        ({"by": "rows", "devices": []}, r"`devices` must be a number or a list of devices, got \[\]"),
    ],
)
def test_wrong_arguments(given, sentence, as_users_have_it):
    with pytest.raises(InvalidArgumentError, match=sentence), sharded(**given):
        pass
