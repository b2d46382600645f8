"""What a record says beyond its measures agrees with them, with the estimator, and with the table."""

import json

import numpy as np
import pandas as pd
import pytest

from leadline import DepthClassifier, DepthRegressor
from leadline.files.formats import Asked, learn_format
from leadline.files.records import MOST_ENTRIES, Record, record_file
from leadline.metrics import MEASURES
from leadline.report.page import page
from leadline.report.summary import summarise
from leadline.studies import inspection
from leadline.studies.tables import record_of, split
from tests.tolerances import MANY_SUMS

SMALL = {"width": 4, "n_restarts": 3, "max_iter": 20, "random_state": 0}
NEW = ("errors", "train_nll", "confusion", "importance", "dependence", "uncertainty", "hardest", "predictions")


def fitted(frame, target, test=0.4, **about):
    fmt = learn_format(frame, target, Asked(**about))
    parts = split(frame, fmt, test, 1)
    estimator = (DepthClassifier if fmt.task == "classification" else DepthRegressor)(**SMALL).fit(parts.x, parts.y)
    return estimator, parts, record_of(estimator, parts, fmt, "t.csv")


@pytest.fixture(scope="module")
def frame():
    rng = np.random.default_rng(0)
    table = pd.DataFrame({"u": rng.normal(size=80), "v": rng.normal(size=80)})
    kinds = np.array(["a", "b", "c"])[np.digitize(table["u"], [-0.5, 0.5])]
    return table.assign(kind=kinds, price=100 + 20 * table["u"] + rng.normal(size=80), row=np.arange(80.0))


@pytest.fixture(scope="module")
def classes(frame):
    return fitted(frame[["u", "v", "kind"]], "kind")


@pytest.fixture(scope="module")
def numbers(frame):
    return fitted(frame[["u", "v", "price"]], "price")


def test_the_classes_of_a_record_are_those_of_the_test_part(classes):
    clf, parts, record = classes
    given, predicted = record.confusion, clf.predict(parts.x_test)
    assert given is not None
    for k, name in enumerate(clf.classes_):
        is_it, said = parts.y_test == name, predicted == name
        assert [given[key][k] for key in ("rows", "predicted", "right")] == [
            is_it.sum(),
            said.sum(),
            (is_it & said).sum(),
        ]
    assert 100 * sum(given["right"]) / sum(given["rows"]) == pytest.approx(record.measures["accuracy"])
    pairs = {(clf.classes_[i], clf.classes_[k]): n for i, k, n in given["pairs"]}
    for (one, other), n in pairs.items():
        assert one != other
        assert n == np.sum((parts.y_test == one) & (predicted == other))
    assert sum(pairs.values()) == len(predicted) - sum(given["right"])
    assert sorted(pairs.values(), reverse=True) == list(pairs.values())


@pytest.mark.parametrize("kind", ["classes", "numbers"])
def test_the_hardest_rows_have_their_numbers_in_the_table(kind, frame, request):
    estimator, parts, record = request.getfixturevalue(kind)
    np.testing.assert_array_equal(frame[["u", "v"]].to_numpy()[parts.rows_test], parts.x_test)
    assert record.hardest
    target = frame["kind"] if kind == "classes" else frame["price"]
    for row in record.hardest:
        number = row["row"] - 1
        truth = target.iloc[number]
        assert row["truth"] == (truth if kind == "classes" else pytest.approx(truth, rel=1e-5))
        nll = estimator._nll_of_rows(frame.iloc[[number]], np.array([truth]))[0]
        assert row["nll"] == pytest.approx(nll, rel=MANY_SUMS)
    worst = record.hardest[0]
    parts_of_row = [worst[name] for name in ("noise", "weights", "depth")]
    assert record.uncertainty is not None
    totals = np.sum([record.uncertainty[name] for name in ("noise", "weights", "depth")], axis=0)
    assert sum(parts_of_row) == pytest.approx(totals.max(), rel=1e-4)
    assert len(record.hardest) <= 2 * 4  # a tenth of 32 rows, twice


@pytest.mark.parametrize("kind", ["classes", "numbers"])
def test_a_record_has_what_the_estimator_says(kind, request):
    estimator, parts, record = request.getfixturevalue(kind)
    said = estimator.importance(parts.x_test, parts.y_test)
    assert record.importance is not None
    assert record.importance["columns"] == ["u", "v"]
    np.testing.assert_allclose(record.importance["increase"], said.increase, rtol=1e-5)
    np.testing.assert_allclose(record.importance["error"], said.error, rtol=1e-5)
    assert record.train_nll == pytest.approx(estimator._nll_of_rows(parts.x, parts.y).mean())
    assert record.dependence
    one = record.dependence[0]
    most = int(said.increase.argmax())
    assert one["column"] == ["u", "v"][most]
    whole = estimator.partial_dependence(parts.x_test, most)
    assert one["outputs"] == (["a", "b", "c"] if kind == "classes" else ["price"])
    np.testing.assert_allclose(one["mean"], whole.mean, rtol=1e-5)
    np.testing.assert_allclose(one["deviation"], whole.deviation, rtol=1e-5)
    assert record.errors is not None
    assert set(record.errors) <= set(record.measures)
    told = "\n".join(summarise(record))
    for name, error in record.errors.items():
        assert f"± {MEASURES[name].show_error(error)}" in told


def test_the_predictions_of_a_record_are_the_regressors(numbers):
    reg, parts, record = numbers
    assert record.predictions is not None
    low, high = reg.predict_interval(parts.x_test, 0.9).T
    for name, column in {"truth": parts.y_test, "mean": reg.predict(parts.x_test), "low": low, "high": high}.items():
        np.testing.assert_allclose(record.predictions[name], column, rtol=1e-5)


@pytest.mark.parametrize("kind", ["classes", "numbers"])
def test_it_is_read_again_and_drawn(kind, request):
    _, _, record = request.getfixturevalue(kind)
    again = Record.from_json(json.loads(record_file(record)))
    assert record_file(again) == record_file(record)
    text = page(again)
    for title in ("What it goes by", "Where it is unsure, and why"):
        assert f"<h2>{title}</h2>" in text


def test_without_a_test_part_there_is_nothing(frame):
    _, _, record = fitted(frame[["u", "v", "kind"]], "kind", test=0.0)
    assert not set(NEW) & set(record.to_json())
    page(record)


@pytest.mark.filterwarnings("ignore:fewer than 5 rows:leadline._checks.DataWarning")
def test_lists_stay_short_where_rows_and_classes_are_many(monkeypatch):
    rng = np.random.default_rng(1)
    table = pd.DataFrame(
        {"u": rng.normal(size=300), "v": rng.normal(size=300), "kind": [f"k{i % 50}" for i in range(300)]}
    )
    monkeypatch.setattr(inspection, "MOST_ROWS", 20)
    monkeypatch.setattr(inspection, "MOST_PAIRS", 7)
    monkeypatch.setattr(inspection, "MOST_COLUMNS", 1)
    _, _, record = fitted(table, "kind", test=0.5)
    assert record.uncertainty is not None
    assert record.confusion is not None
    assert {len(column) for column in record.uncertainty.values()} == {20}
    assert len(record.confusion["rows"]) == 50 < MOST_ENTRIES
    assert len(record.confusion["pairs"]) == 7
    assert record.importance is None
    assert "True" in page(record)
    monkeypatch.setattr(inspection, "MOST_CLASSES", 40)
    _, _, record = fitted(table, "kind", test=0.5)
    assert record.confusion is None
    page(record)


def test_a_class_that_was_not_trained_on_is_surprising_without_end(frame):
    some = frame[["u", "v", "kind"]].copy()
    fmt = learn_format(some, "kind")
    parts = split(some, fmt, 0.4, 1)
    parts.y_test[3] = "z"
    clf = DepthClassifier(**SMALL).fit(parts.x, parts.y)
    with pytest.warns(UserWarning, match="not trained on") as warned:
        record = record_of(clf, parts, fmt, "t.csv")
    assert len(warned) == 1
    assert record.hardest
    [row] = [row for row in record.hardest if row["nll"] is None]
    assert (row["truth"], row["row"]) == ("z", parts.rows_test[3] + 1)
    assert record.confusion is not None
    assert sum(record.confusion["rows"]) == len(parts.y_test) - 1
    assert sum(record.confusion["predicted"]) == len(parts.y_test)
    assert "∞" in page(Record.from_json(json.loads(record_file(record))))
