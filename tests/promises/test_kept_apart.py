"""A short version of what `make torture` tries."""

import pytest

from tests.promises import kept_apart


@pytest.mark.usefixtures("as_users_have_it")
def test_every_row_kept_apart_is_counted(tmp_path):
    figures = kept_apart.campaign(tmp_path, 15, seed=5)
    assert figures["failed"] == []
    assert figures["with a class of one row"] > 0
