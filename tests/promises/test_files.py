"""Short versions of what `make torture` tries: foreign files, failures, and processes that are stopped."""

import pytest

from tests.promises import failures, foreign_files, stopping

pytestmark = pytest.mark.usefixtures("as_users_have_it")


def test_foreign_files_are_never_changed(tmp_path):
    assert foreign_files.campaign(tmp_path, 40, seed=5) == {"tried": 40, "failed": []}


def test_a_failure_leaves_what_was_there_before(tmp_path):
    assert failures.campaign(tmp_path, 40, seed=5)["failed"] == []


def test_a_process_that_is_stopped_goes_on_to_the_same_bits(tmp_path):
    figures = stopping.campaign(tmp_path, 2, seed=5)
    assert figures["failed"] == []
    assert figures["stopped"] > 0
