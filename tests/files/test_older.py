"""What commit 571e459 wrote is read as it was meant: model files of format 1, and records."""

import json
from pathlib import Path

import numpy as np
import pytest

from leadline import load
from leadline.files.formats import TableFormat
from leadline.files.records import Record
from leadline.report.page import page
from leadline.report.summary import summarise
from tests.tolerances import MANY_SUMS

OLD = Path(__file__).parent / "of_571e459"
SAID = json.loads((OLD / "predictions.json").read_text())


def test_a_classifier_predicts_what_it_predicted():
    clf = load(OLD / "classes.safetensors")
    assert clf.recipe.draw == "local"
    np.testing.assert_allclose(clf.predict_proba(np.array(SAID["x"])), SAID["classes"], rtol=MANY_SUMS)


def test_a_regressor_predicts_what_it_predicted():
    reg = load(OLD / "numbers.safetensors")
    np.testing.assert_allclose(reg.predict(np.array(SAID["x"])), SAID["numbers"], rtol=MANY_SUMS)


@pytest.mark.parametrize("name", ["fit", "spiral"])
def test_a_record_is_read_and_drawn(name):
    content = json.loads((OLD / f"{name}.json").read_text())
    record = Record.from_json(content)
    assert {key: value for key, value in record.to_json().items() if key != "block"} == content
    assert "<h2>How well it predicts</h2>" in page(record)
    assert "test accuracy" in "\n".join(summarise(record))
    if record.table:
        assert TableFormat.from_json(record.table).target == "kind"
