"""A short version of what `make torture` tries: predictions of hostile tables."""

import pytest

from tests.promises import predictions

pytestmark = pytest.mark.usefixtures("as_users_have_it")


def test_a_prediction_is_a_finite_number_or_a_refusal_and_stands_in_the_csv(tmp_path):
    figures = predictions.campaign(tmp_path, 60, seed=5)
    assert figures["failed"] == []
    assert figures["predicted"] > 20
    assert figures["refused"] > 5
