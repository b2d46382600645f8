"""Raw frames in the estimators, and in what scikit-learn builds around them."""

import datetime
import io
import pickle
import re

import joblib
import numpy as np
import pandas as pd
import polars
import pytest
from sklearn.base import clone
from sklearn.calibration import CalibratedClassifierCV
from sklearn.compose import ColumnTransformer, make_column_transformer
from sklearn.inspection import permutation_importance
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

from leadline import DataWarning, DepthClassifier, DepthRegressor, InvalidArgumentError, TableEncoder, load

SMALL = {"width": 4, "n_restarts": 2, "max_iter": 3, "random_state": 0}
N = 80
DRAW = np.random.default_rng(0)
FRAME = pd.DataFrame(
    {
        "size": DRAW.normal(size=N),
        "colour": DRAW.choice(["red", "green"], N),
        "grade": pd.Categorical(DRAW.choice(["low", "high"], N)),
        "member": DRAW.random(N) > 0.5,
        "when": pd.date_range("2024-01-01", periods=N, freq="31h"),
        "whole": pd.array([None if i % 9 == 0 else i % 7 for i in range(N)], dtype="Int64"),
        "text": pd.array(DRAW.choice(["a", "b", "c"], N), dtype="string"),
    }
)
FRAME.loc[[3, 30], "size"] = np.nan
FRAME.loc[5, "colour"] = None
Y = np.where(FRAME["size"].fillna(0) + (FRAME["colour"] == "red") > 0.4, "yes", "no")
NUMBERS = (3 * FRAME["size"].fillna(0) + (FRAME["colour"] == "red")).to_numpy()


@pytest.fixture(scope="module")
def fitted():
    return DepthClassifier(**SMALL).fit(FRAME, Y)


def test_a_frame_becomes_numbers(fitted):
    assert fitted.n_features_in_ == 7
    assert fitted.feature_names_in_.tolist() == FRAME.columns.tolist()
    features = fitted.encoder_.get_feature_names_out().tolist()
    assert features[:8] == [
        *("size", "colour=(missing)", "colour=green", "colour=red", "grade=high", "grade=low", "member", "when")
    ]
    assert fitted.model_.network.n_inputs == len(features)
    x = fitted.encoder_.transform(FRAME)
    assert np.isfinite(x).all()
    assert x[3, 0] == FRAME["size"].median()
    own = DepthClassifier(**SMALL).fit(x, Y)  # the same numbers, the same network
    np.testing.assert_array_equal(own.predict_proba(x), fitted.predict_proba(FRAME))


def test_a_frame_of_numbers_is_what_the_array_is():
    x = DRAW.normal(size=(N, 3))
    of_array = DepthRegressor(**SMALL).fit(x, NUMBERS)
    of_frame = DepthRegressor(**SMALL).fit(pd.DataFrame(x, columns=list("abc")), NUMBERS)
    unnamed = DepthRegressor(**SMALL).fit(pd.DataFrame(x), NUMBERS)
    np.testing.assert_array_equal(of_frame.predict(pd.DataFrame(x, columns=list("abc"))), of_array.predict(x))
    np.testing.assert_array_equal(unnamed.predict(x), of_array.predict(x))  # numbers are no names: nothing to warn of


def test_columns_are_found_by_their_names(fitted):
    said = fitted.predict_proba(FRAME)
    np.testing.assert_array_equal(fitted.predict_proba(FRAME[FRAME.columns[::-1]].assign(more="x")), said)
    np.testing.assert_array_equal(fitted.predict_proba(FRAME.iloc[[4]]), said[[4]])
    with pytest.raises(InvalidArgumentError, match="must have all columns of the training table, got none named grade"):
        fitted.predict(FRAME.drop(columns="grade"))
    with pytest.warns(UserWarning, match="does not have valid feature names"):
        np.testing.assert_array_equal(fitted.predict_proba(FRAME.to_numpy()), said)
    with (
        pytest.warns(UserWarning, match="does not have valid feature names, but DepthClassifier was fitted with"),
        pytest.raises(ValueError, match="DepthClassifier is expecting 7 features"),
    ):
        fitted.predict(FRAME.to_numpy()[:, :3])


@pytest.mark.filterwarnings("ignore:X does not have valid feature names")
def test_the_columns_of_an_array_are_those_that_the_estimator_was_fitted_to():
    """An encoder that has learned already may have met them in another order."""
    encoder = TableEncoder().fit(FRAME)
    turned = FRAME[FRAME.columns[::-1]]
    clf = DepthClassifier(**SMALL, encoder=encoder).fit(turned, Y)
    np.testing.assert_array_equal(clf.predict_proba(turned.to_numpy()), clf.predict_proba(FRAME))


def test_what_was_not_trained_on_is_said(fitted):
    new = FRAME.assign(colour=["violet", *FRAME["colour"][1:]])
    with pytest.warns(DataWarning, match="column `colour` has categories that were not trained on: violet"):
        fitted.predict(new)
    with pytest.warns(DataWarning, match="column `member` always had a value in training and has none in 1 of 80 rows"):
        fitted.predict(FRAME.assign(member=[None, *FRAME["member"][1:]]))
    with pytest.raises(InvalidArgumentError, match="Column `size` must hold finite numbers, got 'big' in row 1"):
        fitted.predict(FRAME.assign(size=["big", *FRAME["size"][1:]]))


def test_what_is_left_out_is_said_where_fit_was_called():
    frame = FRAME.assign(id=np.arange(N), same=1, note=[f"text {i}" for i in range(N)])
    with pytest.warns(
        DataWarning, match=re.escape("`id` (an id: another number in every row), `same` (a single")
    ) as said:
        model = DepthClassifier(**SMALL).fit(frame, Y)
    assert [one.filename for one in said] == [__file__]
    assert set(model.encoder_.left_out_) == {"id", "same", "note"}
    assert not {"id", "same", "note"} & set(model.encoder_.get_feature_names_out())


def test_problems_come_together_and_with_the_way_out():
    frame = FRAME.assign(
        level=[f"{i}" if i else "n/k" for i in range(N)], day=["01/02/2020"] * 40 + ["02/03/2021"] * 40
    )
    with pytest.raises(InvalidArgumentError) as caught:
        DepthClassifier(**SMALL).fit(frame, Y)
    sentence = str(caught.value)
    assert "2 problems: (1) column `level` has numbers, but for 'n/k' in 1 of 80 rows: 1" in sentence
    assert "`TableEncoder(na=['n/k'])` may help" in sentence
    assert "leave them out with `TableEncoder(ignore=['level', 'day'])`" in sentence
    encoder = TableEncoder(na=["n/k"], category=["day"])
    model = DepthClassifier(**SMALL, encoder=encoder).fit(frame, Y)
    assert not hasattr(encoder, "encoding_")  # what is given stays as it is
    assert "day=01/02/2020" in model.encoder_.get_feature_names_out()
    with pytest.raises(InvalidArgumentError, match="`encoder` must be a TableEncoder or None, got 'x'"):
        DepthClassifier(**SMALL, encoder="x").fit(FRAME, Y)


@pytest.mark.parametrize("kind", ["classifier", "regressor"])
def test_a_model_file_takes_raw_frames(tmp_path, kind):
    model = DepthClassifier(**SMALL, encoder=TableEncoder(category=["whole"])) if kind == "classifier" else None
    model = (model or DepthRegressor(**SMALL)).fit(FRAME, Y if model else NUMBERS)
    model.save(tmp_path / "m.safetensors")
    back = load(tmp_path / "m.safetensors")
    assert back.encoder_.to_json() == model.encoder_.to_json()
    assert b"pickle" not in (tmp_path / "m.safetensors").read_bytes()
    again, said = ((m.predict_proba if kind == "classifier" else m.predict)(FRAME) for m in (back, model))
    np.testing.assert_array_equal(again, said)
    fresh = clone(back)
    assert repr(fresh.encoder) == repr(model.encoder)
    for copy in (pickle.loads(pickle.dumps(model)), _by_joblib(model)):
        np.testing.assert_array_equal(copy.predict(FRAME), model.predict(FRAME))


@pytest.mark.parametrize("kind", ["category", "string", "string[pyarrow]", "object"])
def test_labels_have_one_type_before_and_after_a_model_file(tmp_path, kind):
    model = DepthClassifier(**SMALL).fit(FRAME[["size"]], pd.Series(Y).astype(kind))
    model.save(tmp_path / "m.safetensors")
    back = load(tmp_path / "m.safetensors")
    assert back.classes_.dtype == model.classes_.dtype == Y.dtype
    assert back.predict(FRAME[["size"]]).dtype == model.predict(FRAME[["size"]]).dtype


def _by_joblib(model):
    file = io.BytesIO()
    joblib.dump(model, file)
    file.seek(0)
    return joblib.load(file)


def test_polars_says_the_same(fitted):
    columns = {name: FRAME[name].astype(object).where(FRAME[name].notna(), None).tolist() for name in FRAME}
    columns["when"] = [value.to_pydatetime() for value in FRAME["when"]]
    frame = polars.DataFrame(columns).with_columns(polars.col("grade").cast(polars.Categorical))
    np.testing.assert_array_equal(fitted.predict_proba(frame), fitted.predict_proba(FRAME))
    own = DepthClassifier(**SMALL).fit(frame, polars.Series("kind", Y.tolist()))
    np.testing.assert_array_equal(own.predict_proba(FRAME), fitted.predict_proba(FRAME))
    assert own.target_name_ == "kind"
    days = polars.DataFrame(
        {"day": [datetime.date(2024, 1, 1 + i % 28) for i in range(N)], "size": FRAME["size"].tolist()}
    )
    in_pandas = pd.DataFrame({"day": pd.to_datetime(days["day"].to_list()), "size": FRAME["size"]})
    encoder = TableEncoder().fit(days)
    np.testing.assert_array_equal(encoder.transform(days), encoder.transform(in_pandas))


def test_pyarrow_says_the_same(fitted):
    days = FRAME["when"].dt.floor("D")
    arrow = FRAME.astype({"size": "double[pyarrow]", "colour": "string[pyarrow]", "when": "timestamp[us][pyarrow]"})
    np.testing.assert_array_equal(fitted.predict_proba(arrow), fitted.predict_proba(FRAME))
    expected = TableEncoder().fit_transform(pd.DataFrame({"day": days}))
    in_zone = days.dt.tz_localize("UTC").astype("timestamp[ms, tz=UTC][pyarrow]")
    for given in (days.astype("date32[pyarrow]"), in_zone, days.dt.to_period("D")):
        np.testing.assert_array_equal(TableEncoder().fit_transform(pd.DataFrame({"day": given})), expected)


def test_an_index_in_another_order_is_said(fitted):
    shuffled = pd.Series(Y).sample(frac=1, random_state=0)
    with pytest.warns(DataWarning, match=re.escape("`y` has the index of `X` in another order")):
        DepthClassifier(**SMALL).fit(FRAME, shuffled)
    with pytest.warns(DataWarning, match=re.escape("`sample_weight.loc[X.index]` puts them in the order of `X`")):
        DepthClassifier(**SMALL).fit(FRAME, Y, sample_weight=pd.Series(np.ones(N))[::-1])
    for y in (pd.Series(Y, index=range(7, 7 + N)), shuffled.loc[FRAME.index]):  # nothing to say
        own = DepthClassifier(**SMALL).fit(FRAME, y)
        np.testing.assert_array_equal(own.predict_proba(FRAME), fitted.predict_proba(FRAME))


def test_weights_decide_what_is_learned_of_the_columns():
    """A row of weight 0 is as if it were not there."""
    frame = pd.concat([FRAME, FRAME.iloc[:1].assign(colour="violet", size=1e6)], ignore_index=True)
    weight = np.r_[np.ones(N), 0]
    model = DepthClassifier(**SMALL).fit(frame, np.r_[Y, ["yes"]], sample_weight=weight)
    other = DepthClassifier(**SMALL).fit(FRAME, Y)
    np.testing.assert_array_equal(model.predict_proba(FRAME), other.predict_proba(FRAME))


def test_a_warm_start_keeps_the_encoder():
    model = DepthClassifier(**SMALL, warm_start=True).fit(FRAME, Y)
    before = model.encoder_
    model.fit(FRAME.iloc[:60].assign(colour="red"), Y[:60])
    assert model.encoder_ is before


def test_scikit_learn_builds_on_raw_frames():
    frame = FRAME.fillna({"colour": "red"})  # else one fold has a category of its own, which would be said
    clf = DepthClassifier(**SMALL)
    assert np.isfinite(cross_val_score(clf, frame, Y, cv=3, error_score="raise")).all()
    search = GridSearchCV(clf, {"width": [2, 4]}, cv=2, error_score="raise").fit(frame, Y)
    assert search.predict(frame).shape == (N,)
    calibrated = CalibratedClassifierCV(clf, cv=2).fit(frame, Y)
    np.testing.assert_allclose(calibrated.predict_proba(frame).sum(axis=1), 1)
    importance = permutation_importance(clf.fit(frame, Y), frame, Y, n_repeats=2, random_state=0)
    assert importance["importances"].shape == (7, 2)
    some = make_column_transformer((TableEncoder(), ["size", "colour", "when"]), remainder="drop")
    piped = make_pipeline(some, clf).fit(frame, Y)
    assert piped.predict_proba(frame).shape == (N, 2)
    assert piped[:-1].get_feature_names_out().tolist()[:2] == ["tableencoder__size", "tableencoder__colour=green"]
    both = ColumnTransformer([("numbers", StandardScaler(), ["whole"]), ("rest", TableEncoder(), ["colour", "text"])])
    both.set_output(transform="pandas").fit(frame.fillna({"whole": 0}))


def test_the_encoder_serves_other_estimators():
    encoder = TableEncoder().set_output(transform="pandas").fit(FRAME)
    out = encoder.transform(FRAME)
    assert out.columns.tolist() == encoder.get_feature_names_out().tolist()
    assert make_pipeline(TableEncoder(), StandardScaler(), LogisticRegression()).fit(FRAME, Y).score(FRAME, Y) > 0.9
    array = np.array([["1,5", "b"], ["2", "a"], ["3,25", None]], object)
    encoder = TableEncoder().fit(array)
    assert encoder.get_feature_names_out().tolist() == ["x0", "x1=(missing)", "x1=a", "x1=b"]
    np.testing.assert_array_equal(encoder.transform(array), [[1.5, 0, 0, 1], [2, 0, 1, 0], [3.25, 1, 0, 0]])


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"category": "colour"}, "`category` must be a list of names of columns, got 'colour'"),
        ({"number": ["colour"]}, "Column `colour` must hold finite numbers, got 'red' in row"),
        ({"ignore": ["nothing"]}, "`ignore` must name columns of the table, got 'nothing'"),
        ({"decimal": ";"}, "`decimal` must be one of ., ,, got ';'"),
        ({"impute": False}, "column `size` has no value in 2 of 80 rows"),
        ({"ignore": [*FRAME.columns]}, "`X` must have a column to learn from, got none"),
    ],
)
def test_wrong_options_are_one_sentence(options, words):
    with pytest.raises(InvalidArgumentError) as caught:
        TableEncoder(**options).fit(FRAME)
    assert words in str(caught.value)


@parametrize_with_checks([TableEncoder()])
def test_scikit_learn_takes_the_encoder(estimator, check):
    check(estimator)
