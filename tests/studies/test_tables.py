"""Rows kept apart: every class has a row to train on, and every row that is kept is counted."""

import numpy as np
import pandas as pd
import pytest
from sklearn.model_selection import train_test_split

from leadline import DepthClassifier, InvalidArgumentError, TableEncoder
from leadline.files.formats import Asked, learn_format, targets
from leadline.files.records import Record, record_file
from leadline.report.page import page
from leadline.report.summary import summarise
from leadline.studies.tables import Parts, record_of, split

SMALL = {"width": 4, "n_restarts": 1}
RNG = np.random.default_rng(0)
X = RNG.normal(size=(40, 2))


def table(labels):
    return pd.DataFrame({"a": X[: len(labels), 0], "b": X[: len(labels), 1], "y": labels})


@pytest.mark.parametrize("test", [0.1, 0.2, 0.5])
@pytest.mark.parametrize(
    "labels", [["x", "y"] * 19 + ["rare", "rarer"], [0, 1] * 19 + [2, 3], ["x"] * 39 + ["y"], list(range(20)) * 2]
)
def test_every_class_has_a_row_to_train_on(labels, test):
    frame = table(labels)
    fmt = learn_format(frame, "y", Asked(task="classification"))
    for seed in range(30):
        parts = split(frame, fmt, test, seed)
        assert set(parts.y) == set(labels)
        assert len(parts.x_test) == round(test * 40)  # as many as were asked for
        rows = np.concatenate([np.column_stack([parts.x, parts.y]), np.column_stack([parts.x_test, parts.y_test])])
        assert sorted(map(tuple, rows)) == sorted(map(tuple, np.column_stack([X, targets(frame, fmt)])))


def test_where_no_class_would_be_lost_the_rows_are_those_that_scikit_learn_draws():
    frame = table(["x", "y", "z", "z"] * 10)
    fmt, y = learn_format(frame, "y"), frame["y"].to_numpy()
    train, kept = train_test_split(np.arange(40), test_size=8, random_state=3, stratify=y)
    parts = split(frame, fmt, 0.2, 3)
    np.testing.assert_array_equal(parts.x, X[train])
    np.testing.assert_array_equal(parts.y_test, y[kept])


def test_a_share_that_leaves_too_few_rows_for_the_classes_is_one_sentence():
    frame = table(list(range(20)) * 2)
    with pytest.raises(InvalidArgumentError, match=r"a row of every class to train on, got 0\.6 of 40"):
        split(frame, learn_format(frame, "y", Asked(task="classification")), 0.6, 1)


@pytest.fixture(scope="module")
def parts():
    """Of two rows kept apart in six, the class was not trained on."""
    y = np.array(["b", "d"])[(X[:, 0] > 0).astype(int)]
    y[[30, 35]] = "c", "e"  # one between, one beyond the others
    return Parts(X[:30], y[:30], X[30:36], y[30:36])


def test_a_row_of_a_class_that_was_not_trained_on_is_wrong(parts):
    clf = DepthClassifier(**SMALL, max_iter=3, random_state=0).fit(parts.x, parts.y)
    fmt = learn_format(table(["b", "d"] * 20), "y")
    with pytest.warns(UserWarning, match="2 of 6 rows are of classes that were not trained on, such as 'c'"):
        record = record_of(clf, parts, fmt, "t.csv")
    p = clf.predict_proba(parts.x_test)
    right = clf.predict(parts.x_test) == parts.y_test
    assert record.measures["accuracy"] == pytest.approx(100 * right.mean())
    truth = (parts.y_test[:, None] == np.array(["b", "d", "c", "e"])).astype(float)
    assert record.measures["brier"] == pytest.approx(np.mean(np.sum((np.pad(p, ((0, 0), (0, 2))) - truth) ** 2, 1)))
    assert record.measures["nll"] == np.inf
    assert record.reliability is not None
    assert sum(record.reliability["rows"]) == record.n_test == 6
    assert b'"nll": null' in record_file(record)
    again = Record.from_json({**record.to_json(), "nll": None})
    for one in (record, again):
        assert any(line.startswith("test accuracy") for line in summarise(one))
        assert "Accuracy" in page(one)


def test_the_settings_of_a_record_make_the_same_estimator():
    """As the page has them, to be copied."""
    frame = table(["b", "d"] * 20)
    fmt = learn_format(frame, "y")
    rows = split(frame, fmt, 0.2, 1)
    estimator = DepthClassifier(**SMALL, max_iter=3, encoder=TableEncoder.of(fmt.encoding, ["a", "b"]), random_state=0)
    settings = record_of(estimator.fit(rows.x, rows.y), rows, fmt, "t.csv").settings
    assert settings is not None
    assert DepthClassifier(**settings).get_params() == {**estimator.get_params(deep=False), "encoder": None}
