"""Tables at the edge of what a number can be: they work, or they get one sentence."""

import warnings

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from leadline import DepthClassifier, DepthRegressor

RNG = np.random.default_rng(0)
X = RNG.normal(size=(30, 3))
LABELS = (X[:, 0] > 0).astype(int)
SMALL = {"width": 4, "n_restarts": 1, "max_iter": 3, "random_state": 0}

pytestmark = [
    pytest.mark.usefixtures("as_users_have_it"),
    pytest.mark.filterwarnings("ignore::leadline._checks.DataWarning"),  # that they are at the edge
]


def fits(x, y):
    """A classifier or a regressor that was fitted and predicts finite numbers."""
    if np.asarray(y).dtype.kind == "i":
        probabilities = DepthClassifier(**SMALL).fit(x, y).predict_proba(x)
        assert np.isfinite(probabilities).all()
        np.testing.assert_allclose(probabilities.sum(axis=1), 1)
        return
    model = DepthRegressor(**SMALL).fit(x, y)
    mean, std = model.predict(x, return_std=True)
    assert np.isfinite(mean).all()
    assert np.isfinite(std).all()
    assert (std >= 0).all()
    low, high = model.predict_interval(x, 0.9).T
    assert (low <= high).all()


TABLES = {
    "values of 1e30": (1e30 * X, LABELS),
    "values of 1e-30": (1e-30 * X, LABELS),
    "far from zero": (1e15 + X, LABELS),
    "columns of all scales": (X * np.array([1e-30, 1.0, 1e30]), LABELS),
    "one value among zeros": (np.eye(30, 3) * 1e12, LABELS),
    "a constant column": (np.column_stack([X[:, :2], np.full(30, 7.0)]), LABELS),
    "constant columns alone": (np.ones((30, 3)), LABELS),
    "every row twice": (np.repeat(X[:15], 2, axis=0), np.repeat(LABELS[:15], 2)),
    "one row again and again, with both labels": (np.ones((30, 3)), np.arange(30) % 2),
    "two rows": (X[:2], np.array([0, 1])),
    "a class with one row": (X, np.where(np.arange(30) == 0, 2, LABELS)),
    "as many classes as pairs of rows": (X, np.arange(30) // 2),
    "10,000 columns": (RNG.normal(size=(30, 10_000)), LABELS),
    "whole numbers": ((100 * X).astype(np.int64), LABELS),
    "truth values": (X > 0, LABELS),
    "numbers: values of 1e30": (1e30 * X, 1e30 * X[:, 0]),
    "numbers: tiny targets": (X, 1e-30 * X[:, 0]),
    "numbers: a constant target": (X, np.full(30, 3.5)),
    "numbers: a constant target of 1e30": (X, np.full(30, 1e30)),
    "numbers: one outlier": (X, np.where(np.arange(30) == 3, 1e20, X[:, 0])),
    "numbers: two rows": (X[:2], X[:2, 0]),
    "numbers: targets of all scales": (X, 10.0 ** np.linspace(-200, 200, 30)),
}


@pytest.mark.parametrize("name", TABLES)
def test_it_works(name):
    fits(*TABLES[name])


@pytest.mark.parametrize(
    ("x", "y", "message"),
    [
        (X[:1], LABELS[:1], "minimum of 2 is required"),
        (X, np.zeros(30, int), "at least two classes"),
        (np.where(X > 1, np.nan, X), LABELS, "got NaN in row 2, column 0"),
        (np.where(X > 1, np.inf, X), LABELS, "got inf in row 2, column 0"),
        (1e300 * X, LABELS, None),
        (X[:0], LABELS[:0], "0 sample"),
        (X[:, :0], LABELS, "0 feature"),
        (X, LABELS[:5], "inconsistent numbers of samples"),
    ],
)
def test_it_works_or_gets_one_sentence(x, y, message):
    if message is None:
        with warnings.catch_warnings(action="ignore"):
            fits(x, y)
        return
    with pytest.raises(ValueError, match=message):
        fits(x, y)


def numbers(shape):
    wide = st.floats(-1e30, 1e30, allow_subnormal=False)
    return arrays(float, shape, elements=st.one_of(wide, st.sampled_from([0.0, 1.0, -1.0, 1e-30, 1e30])))


@settings(max_examples=25, suppress_health_check=[HealthCheck.too_slow])
@given(x=numbers((20, 3)), y=numbers(20))
def test_any_table_of_numbers_works(x, y):
    """As few rows and as many columns as above, so that all of them share their programs."""
    fits(x, y)
    labels = (y > np.median(y)).astype(int)
    if len(np.unique(labels)) == 2:
        fits(x, labels)
