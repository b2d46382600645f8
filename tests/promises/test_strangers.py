"""A short version of what `make torture` tries."""

import pytest

from tests.promises import strangers

pytestmark = pytest.mark.usefixtures("as_users_have_it")


def test_nothing_that_a_stranger_writes_runs_blocks_or_outgrows_its_size(tmp_path):
    figures = strangers.campaign(tmp_path, 100, seed=5)
    assert figures["failed"] == []
    assert figures["checkpoint_numbers"]["taken"] > 0
