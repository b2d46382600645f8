"""A short version of `make torture`: readers get hundreds of files that were never written so."""

import json

import pytest

from tests.fuzzing import SHARES, campaign
from tests.torture import Torture, outputs

pytestmark = pytest.mark.usefixtures("as_users_have_it")


N_FILES = 250
"""Of 100,000 in `make torture`."""


def test_readers_take_a_file_or_refuse_it_with_one_sentence(tmp_path):
    results = campaign(tmp_path, N_FILES, seed=7)
    assert {kind: counts["failed"] for kind, counts in results.items() if counts["failed"]} == {}
    for kind, share in SHARES.items():
        counts = results[kind]
        assert counts["taken"] + counts["refused"] == round(share * N_FILES)
        assert counts["refused"] > 0
    assert results["model"]["taken"] > 0  # the mutations are not all coarse


def test_a_command_that_is_killed_again_and_again_gives_what_it_gives_alone(tmp_path):
    torture = Torture(tmp_path, seed=3)
    assert torture.killed("spiral", 2)["kills"] == 2


@pytest.mark.slow
def test_a_command_that_is_killed_while_it_writes_or_begun_twice_gives_what_it_gives_alone(tmp_path):
    torture = Torture(tmp_path, seed=3)
    assert torture.killed_while_writing("spiral", 1) == {"checkpoints": 1, "the rest": 1}
    torture.two_at_once()


def test_what_is_compared_is_not_the_time(tmp_path):
    (tmp_path / "a.json").write_text(json.dumps({"x": 1, "seconds": 2}))
    (tmp_path / "b.csv").write_text("x,seconds\n1,2\n")
    assert outputs(tmp_path) == {"a.json": {"x": 1}, "b.csv": [{"x": "1"}]}
