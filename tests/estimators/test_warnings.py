"""What is no mistake, and what a user would want to know, is said."""

import warnings

import numpy as np
import pandas as pd
import pytest

from leadline import DepthClassifier, DepthRegressor, TableEncoder
from leadline._checks import DataWarning
from leadline.files.formats import Asked, learn_format
from leadline.studies.tables import split, warn_of_test_part
from tests.promises.command import leadline

RNG = np.random.default_rng(0)
X = RNG.normal(size=(60, 3))
Y = np.where(X[:, 0] > 0, "yes", "no").astype("U5")
SMALL = {"width": 4, "n_restarts": 1, "max_iter": 3, "random_state": 0}


def said(function):
    with warnings.catch_warnings(record=True) as heard:
        warnings.simplefilter("always")
        function()
    assert all(one.category is DataWarning for one in heard)
    return [str(one.message) for one in heard]


def of_fit(x, y, kind=DepthClassifier, **more):
    return said(lambda: kind(**SMALL).fit(x, y, **more))


def test_an_ordinary_table_is_no_reason_to_warn():
    assert of_fit(X, Y) == []
    assert of_fit(X, X[:, 0], DepthRegressor) == []


def test_rare_classes_are_named_with_their_rows():
    y = Y.copy()
    y[:4], y[4] = "rare", "rarer"
    [message] = of_fit(X, y)
    assert message == "fewer than 5 rows are of class rare (4), rarer (1): it will hardly be learned."
    weight = np.ones(60)
    weight[:3] = 0
    assert "rare (1), rarer (1)" in of_fit(X, y, sample_weight=weight)[0]
    y[:5] = "rare"
    assert of_fit(X, y) == []


@pytest.mark.parametrize("kind", [DepthClassifier, DepthRegressor])
def test_constant_columns_are_named(kind):
    x, y = X.copy(), Y if kind is DepthClassifier else X[:, 0]
    x[:, 1:] = 7.0
    assert of_fit(x, y, kind) == ["`X` has one value alone in column 1, 2: nothing can be learned from it."]


def test_columns_of_a_frame_are_the_encoder_s_to_judge():
    frame = pd.DataFrame(X, columns=["a", "b", "c"])
    encoder = TableEncoder().fit(frame)
    assert said(lambda: DepthClassifier(**SMALL, encoder=encoder).fit(frame.assign(b=1.0), Y)) == []


def test_few_rows_are_said():
    [message] = of_fit(X[:9], X[:9, 0], DepthRegressor)
    assert message == "there are 9 rows to train on: so few say little about others."
    assert of_fit(X[:10], X[:10, 0], DepthRegressor) == []


def test_the_warning_points_at_the_call_of_fit():
    with pytest.warns(DataWarning) as heard:
        DepthRegressor(**SMALL).fit(X[:9], X[:9, 0])
    assert [one.filename for one in heard] == [__file__]


def of_split(y, test):
    frame = pd.DataFrame({"a": RNG.normal(size=len(y)), "y": y})
    fmt = learn_format(frame, "y", Asked(task="classification"))
    return said(lambda: warn_of_test_part(split(frame, fmt, test, 0), "classification"))


def test_a_test_part_that_says_little_is_said():
    even = ["x", "y"] * 50
    assert of_split(even, 0.1) == []
    assert of_split(even, 0.0) == []
    assert of_split(even, 0.09) == [
        "Only 9 rows are kept apart: what is measured on them says little; give more with a larger `test`."
    ]
    assert of_split([*even, "rare"], 0.2) == [
        "Of class rare no row is kept apart: nothing that is measured says how it is predicted."
    ]


def test_the_command_line_notes_it_once(tmp_path, as_users_have_it):
    table = tmp_path / "t.csv"
    table.write_text("a,y\n" + "".join(f"{i % 13},{'yes' if i % 2 else 'no'}\n" for i in range(39)) + "1,maybe\n")
    done = leadline(
        *("fit", table, "--target", "y", "--out", tmp_path / "run", "--quiet"),
        *("--epochs", 3, "--restarts", 1, "--width", 4),
    )
    assert done.code == 0
    notes = [line for line in done.err.splitlines() if "note: " in line]
    assert sorted(note.removeprefix("leadline: note: ")[:25] for note in notes) == [
        "Only 4 rows are kept apar",
        "fewer than 5 rows are of ",
    ]
