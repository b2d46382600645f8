"""Every wrong argument of a constructor gets one sentence, with its own name and its value, before anything is done."""

import time

import numpy as np
import pytest
import scipy.sparse
from sklearn.base import clone

from leadline import DepthClassifier, DepthRegressor, InvalidArgumentError
from leadline.callbacks import JsonLines

pytestmark = pytest.mark.usefixtures("as_users_have_it")

NAN, SEVERAL, THING = float("nan"), np.array([1, 2]), object()
NO_COUNT = [0, -1, 2.5, NAN, float("inf"), "wrong", "", True, SEVERAL, [1], {}, THING, 10**12]
NO_AMOUNT = [-1, -0.5, NAN, float("inf"), "wrong", "", True, SEVERAL, [1], {}, THING]
NO_WORD = [-1, 2.5, NAN, "wrong", "", SEVERAL, [1], {}, THING]
NO_FLAG = [None, -1, 0, 2.5, NAN, "wrong", "True", SEVERAL, [True], THING]

WRONG = {
    "width": [None, *NO_COUNT],
    "max_iter": NO_COUNT,
    "n_restarts": NO_COUNT,
    "batch_size": NO_COUNT,
    "learning_rate_init": NO_AMOUNT,
    "temperature": NO_AMOUNT,
    "depth": [None, -1, 2.5, NAN, "wrong", "", True, SEVERAL, [1], (1, 2), {}, THING, 10**12],
    "block": [None, True, *NO_WORD],
    "precision": [None, True, *NO_WORD],
    "recipe": [None, True, *NO_WORD],
    "crop": [None, *NO_COUNT[1:]],
    "flip": NO_FLAG,
    "early_stopping": NO_FLAG,
    "warm_start": NO_FLAG,
    "verbose": [None, -1, 2.5, NAN, "wrong", SEVERAL, [True], THING],
    "validation_fraction": [1, 1.5, *NO_AMOUNT],
    "checkpoint_dir": [-1, 2.5, NAN, "", True, SEVERAL, [1], {}, THING],
    "checkpoint_every": [None, *NO_AMOUNT],
    "random_state": [-1, 2.5, NAN, 2**32, "wrong", SEVERAL, [1], {}, THING],
    "encoder": [-1, 2.5, NAN, "wrong", True, SEVERAL, [1], {}, THING],
    "callback": [JsonLines, -1, 2.5, NAN, "wrong", True, SEVERAL, [1], [print, "print"], {"a": print}, THING],
}
OF_ONE = {"class_weight": [True, *NO_WORD[:-2], THING, {"a": "b"}, {"a": None}], "noise": [None, True, *NO_WORD]}
OF_OTHERS = {DepthClassifier: ["poisson", "gaussian"], DepthRegressor: ["ordinal", "constant"]}
"""Likelihoods that are none of an estimator's."""


def cases():
    for kind, own in ((DepthClassifier, "class_weight"), (DepthRegressor, "noise")):
        wrong = {**WRONG, own: OF_ONE[own], "likelihood": [None, True, *NO_WORD, *OF_OTHERS[kind]]}
        assert set(wrong) == set(kind().get_params())
        for name, values in wrong.items():
            for i, value in enumerate(values):  # by number: the processes of pytest must agree on the names
                yield pytest.param(kind, name, value, id=f"{kind.__name__}-{name}-{i}")


@pytest.mark.parametrize(("kind", "name", "value"), [*cases()])
def test_a_wrong_argument_is_one_sentence(kind, name, value, monkeypatch):
    def touched(*_):
        raise AssertionError("the rows were looked at")

    monkeypatch.setattr(kind, "problem", touched)
    begin = time.perf_counter()
    with pytest.raises(InvalidArgumentError) as error:
        kind(**{"random_state": 0, name: value}).fit([[0.0], [1.0]], [0, 1])
    assert time.perf_counter() - begin < 0.5  # some milliseconds, if no other process is in the way
    said = str(error.value)
    assert said.startswith(f"`{name}` ")
    assert said.endswith(".")
    assert "\n" not in said
    named = [*value.values()] if isinstance(value, dict) and value else value if isinstance(value, list) else []
    assert any(str(one) in said for one in (repr(value), value, *named))


def test_a_checkpoint_dir_needs_a_random_state(tmp_path):
    with pytest.raises(InvalidArgumentError, match=r"^`random_state` must be given with a `checkpoint_dir`, got None"):
        DepthClassifier(checkpoint_dir=tmp_path).fit([[0.0], [1.0]], [0, 1])


@pytest.mark.parametrize(
    ("X", "more", "words"),
    [
        ([[0.0], [1.0]], {"sample_weight": ["a", "b"]}, "`sample_weight` must hold a number for every row, got 'a'."),
        ([[0.0], [1.0]], {"sample_weight": "size"}, "`sample_weight` must hold a number for every row, got 'size'."),
        (
            [[0.0, "a"], [1.0, "b"]],
            {},
            "`X` must hold numbers, got 'a' in row 0, column 1; text may be in a DataFrame.",
        ),
        (
            np.array([[0.0, "a"], [1.0, 2.0]], object),
            {},
            "`X` must hold numbers, got 'a' in row 0, column 1; text may be",
        ),
        (
            [[0.0], [1.0]] * 10,
            {"eval_set": [([[0.0]], [0])] * 2},
            "`eval_set` must be one pair (X, y), got a list of two",
        ),
        (
            [[0.0], [1.0]] * 10,
            {"eval_set": ([[0.0]], [None])},
            "`eval_set` must have a value in every row, got none (NaN)",
        ),
    ],
)
def test_what_stands_beside_the_rows_is_named(X, more, words):
    with pytest.raises(InvalidArgumentError) as error:
        DepthClassifier(width=2, n_restarts=1, max_iter=2).fit(X, [0, 1] * (len(X) // 2), **more)
    assert str(error.value).startswith(words)


@pytest.mark.parametrize(
    "given",
    [
        {"width": np.int64(4), "n_restarts": np.int32(1), "max_iter": np.int64(3), "batch_size": "auto"},
        {"verbose": 0, "early_stopping": np.bool_(False), "learning_rate_init": np.float32(0.01), "callback": []},
        {"callback": (lambda now: None,), "checkpoint_every": 0, "temperature": 0, "depth": np.int64(1)},
    ],
)
def test_what_is_right_is_taken(given):
    est = clone(DepthClassifier(**{"width": 4, "n_restarts": 1, "max_iter": 3, "random_state": 0, **given}))
    est.fit(np.arange(40.0)[:, None], np.arange(40) % 2)
    assert est.n_iter_ <= 3


@pytest.mark.parametrize("form", [scipy.sparse.csr_matrix, scipy.sparse.coo_array])
def test_sparse_rows_are_refused_in_one_sentence(form):
    x, y = np.eye(20)[:, :2], np.arange(20) % 2
    clf = DepthClassifier(width=2, n_restarts=1, max_iter=2).fit(x, y)
    for call in (clf.predict_proba, clf.predict, lambda rows: clf.fit(rows, y)):
        with pytest.raises(TypeError, match=r"^Sparse data was passed for X, but dense data is required"):
            call(form(x))
