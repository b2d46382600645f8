"""What a network goes by: against slow loops, closed forms, and each other."""

import numpy as np
import pandas as pd
import pytest
from matplotlib import pyplot

from leadline import DepthClassifier, DepthRegressor, InvalidArgumentError, metrics
from leadline.estimators import inspection, shuffling
from tests.tolerances import MANY_SUMS, STANDARD_ERRORS

pytestmark = pytest.mark.filterwarnings("ignore:`X` has one value alone in column 2:leadline._checks.DataWarning")

SMALL = {"width": 4, "n_restarts": 3, "max_iter": 30, "random_state": 0}
RNG = np.random.default_rng(0)
X = RNG.normal(size=(60, 3))
X[:, 2] = 5.0
Y = np.array(["a", "b", "c"])[(X[:, 0] > 0).astype(int) + (X[:, 0] > 1)]
NUMBERS = 100 + 20 * X[:, 0] + 5 * X[:, 1] + RNG.normal(size=60)


@pytest.fixture(scope="module")
def clf():
    return DepthClassifier(**SMALL).fit(X, Y)


@pytest.fixture(scope="module")
def reg():
    return DepthRegressor(**SMALL).fit(X, NUMBERS)


@pytest.fixture(params=["classes", "numbers"])
def fitted(request):
    """An estimator, targets of X, and the NLL row by row."""
    if request.param == "numbers":
        reg = request.getfixturevalue("reg")
        return reg, NUMBERS, lambda x, y: -reg.log_likelihood(x, y)
    clf = request.getfixturevalue("clf")
    return clf, Y, lambda x, y: -np.log(clf.predict_proba(x)[np.arange(len(y)), np.searchsorted(clf.classes_, y)])


@pytest.fixture(autouse=True)
def _no_pictures_stay_open():
    yield
    pyplot.close("all")


def test_an_importance_is_the_mean_over_all_pairs_of_rows(fitted):
    """A row with the value of every other, one by one."""
    estimator, y, nll = fitted
    x, y = X[:12], y[:12]
    said = estimator.importance(x, y, n_repeats=11)
    for column in range(3):
        rises = []
        for i in range(12):
            for k in set(range(12)) - {i}:
                row = x[i : i + 1].copy()
                row[0, column] = x[k, column]
                rises.append((nll(row, y[i : i + 1]) - nll(x[i : i + 1], y[i : i + 1]))[0])
        assert said.increase[column] == pytest.approx(np.mean(rises), rel=MANY_SUMS, abs=1e-5)
    assert (said.n_rows, said.n_repeats, said.columns) == (12, 11, ["x0", "x1", "x2"])


def test_a_column_that_says_nothing_counts_nothing(fitted):
    estimator, y, _ = fitted
    said = estimator.importance(X, y)
    assert said.increase[2] == said.error[2] == 0.0
    assert said.increase[0] > 4 * said.error[0] > 0
    assert said.increase[0] > 2 * said.increase[1]
    table = said.to_frame()
    assert table["column"].tolist()[0] == "x0"
    assert table["importance"].is_monotonic_decreasing


def test_a_frame_says_what_an_array_says_and_neither_changes(fitted):
    estimator, y, _ = fitted
    estimator = type(estimator)(**SMALL).fit(frame := pd.DataFrame(X[:, :2], columns=["u", "v"]), y)
    before = frame.copy()
    said = estimator.importance(frame, y)
    array = type(estimator)(**SMALL).fit(X[:, :2], y).importance(X[:, :2], y)
    np.testing.assert_array_equal(said.increase, array.increase)
    np.testing.assert_array_equal(said.error, array.error)
    assert said.columns == ["u", "v"]
    one, other = estimator.partial_dependence(frame, "v"), estimator.partial_dependence(frame, 1)
    np.testing.assert_array_equal(one.mean, other.mean)
    assert one.column == "v"
    pd.testing.assert_frame_equal(frame, before)


def test_every_row_takes_from_others_and_gives_once():
    for n, n_repeats in ((2, 1), (7, 6), (50, 20)):
        giver = shuffling.givers(n, n_repeats)
        assert giver.shape == (n_repeats, n)
        assert not np.any(giver == np.arange(n))
        assert all(len(set(givers_of_row)) == n_repeats for givers_of_row in giver.T)
        assert np.all(np.sort(giver, axis=1) == np.arange(n))


@pytest.mark.parametrize("n_repeats", [1, 3, 29])
@pytest.mark.parametrize("kind", ["row", "giver", "both"])
def test_the_standard_error_is_the_scatter_over_other_rows(n_repeats, kind):
    rng, n, n_tries = np.random.default_rng(n_repeats), 30, 1500
    giver = shuffling.givers(n, n_repeats)
    means, errors = [], []
    for _ in range(n_tries):
        x = rng.normal(size=n)
        rise = {"row": x + 0 * x[giver], "giver": x[giver], "both": np.square(x - x[giver]) + x * x[giver]}[kind]
        means.append(rise.mean())
        errors.append(shuffling.standard_error(rise, giver))
    scatter = np.var(means, ddof=1)
    # The variance of a sample variance of nearly normal means is 2 / n of its square, times what tails add.
    assert np.mean(np.square(errors)) == pytest.approx(scatter, rel=STANDARD_ERRORS * 1.5 * np.sqrt(2 / n_tries))


def test_a_dependence_is_the_mean_prediction_of_rows_that_have_the_value(fitted):
    estimator, _, _ = fitted
    said = estimator.partial_dependence(X, 0)
    assert said.in_order
    assert np.all(np.diff(said.values) > 0)
    assert set(said.values) <= set(X[:, 0])
    for value, mean in zip(said.values, said.mean, strict=True):
        rows = X.copy()
        rows[:, 0] = value
        slow = estimator.predict_proba(rows) if said.outputs != ["y"] else estimator.predict(rows)[:, None]
        np.testing.assert_allclose(mean, slow.mean(axis=0), rtol=MANY_SUMS)
    assert len(said.to_frame()) == said.mean.size


def test_the_band_of_one_row_is_what_weights_and_depth_leave_open(reg):
    row = X[7:8]
    parts, said = reg.uncertainty(row), reg.partial_dependence(row, 0)
    assert said.values.tolist() == [X[7, 0]]
    assert said.deviation[0, 0] ** 2 == pytest.approx((parts.weights + parts.depth)[0], rel=MANY_SUMS)


def test_the_draws_of_classes_have_the_prediction_as_their_mean():
    clf = DepthClassifier(**SMALL, early_stopping=False).fit(X, Y)  # nothing is calibrated, so nothing softened
    group = np.arange(60) // 20
    share, means = clf._restarts.means_of_draws(clf._checked(X), group)
    assert share.sum() == pytest.approx(1, rel=MANY_SUMS)
    slow = [clf.predict_proba(X[group == k]).mean(axis=0) for k in range(3)]
    np.testing.assert_allclose(np.tensordot(share, means, axes=1), slow, rtol=MANY_SUMS)
    np.testing.assert_allclose(means.sum(axis=2), 1, rtol=MANY_SUMS)
    assert means.std(axis=0).max() > 0.01


def test_categories_are_tried_in_order_the_commonest_first_where_there_are_many():
    kinds = np.array(["b", "a", None, "c"] * 5 + [f"rare {i}" for i in range(20)], object)
    at, in_order = shuffling.grid_of(kinds)
    tried = kinds[at].tolist()
    assert not in_order
    assert tried == sorted(tried)
    assert len(tried) == 12
    assert {"a", "b", "c"} <= set(tried)


@pytest.mark.parametrize(
    "values",
    [np.zeros(40), np.array([3.0, np.nan, 1.0] * 9), np.array(["2020-02-01", "NaT", "2019-01-01"], "datetime64[D]")],
)
def test_numbers_and_days_are_tried_in_their_order_each_once(values):
    at, in_order = shuffling.grid_of(values)
    assert in_order
    np.testing.assert_array_equal(
        values[at], np.unique(values[~np.isnat(values) if values.dtype.kind == "M" else ~np.isnan(values)])
    )
    with pytest.raises(InvalidArgumentError, match="`column` must have a value in some row, got none"):
        shuffling.grid_of(np.full(3, np.nan))


@pytest.mark.parametrize("as_text", [False, True])
def test_raw_columns_are_shuffled_as_they_are(as_text):
    """A category is one column, whatever it became; numbers and dates that stand there as text have their order."""
    rng = np.random.default_rng(3)
    kinds = rng.choice(list("abc"), 80)
    frame = pd.DataFrame({"u": np.where(rng.uniform(size=80) < 0.1, np.nan, rng.normal(size=80)), "id": range(80)})
    frame["kind"] = pd.Series(kinds).mask(frame.index == 5)
    frame["day"] = pd.Timestamp("2020-01-01") + pd.to_timedelta(np.arange(80) % 9, unit="D")
    if as_text:
        frame["u"], frame["day"] = frame["u"].map("{:.3f}".format), frame["day"].dt.strftime("%Y-%m-%d")
    y = (kinds == "a").astype(int)
    with pytest.warns(UserWarning, match="`id`"):
        raw = DepthClassifier(**SMALL | {"max_iter": 150}).fit(frame, y)
    before = frame.copy()
    said = raw.importance(frame, y)
    assert said.columns == ["u", "kind", "day"]
    assert said.increase[1] > 2 * max(said.increase[0], said.increase[2])
    shuffled = frame.copy()
    giver = shuffling.givers(80, said.n_repeats)
    rises = []
    for other in giver:
        shuffled["kind"] = frame["kind"].to_numpy()[other]
        rises.append(raw._nll_of_rows(shuffled, y) - raw._nll_of_rows(frame, y))
    assert said.increase[1] == pytest.approx(np.mean(rises), rel=MANY_SUMS)
    of_kind = raw.partial_dependence(frame, "kind")
    assert of_kind.values.tolist() == ["a", "b", "c"]
    assert not of_kind.in_order
    for value, mean in zip("abc", of_kind.mean, strict=True):
        np.testing.assert_allclose(mean, raw.predict_proba(frame.assign(kind=value)).mean(axis=0), rtol=MANY_SUMS)
    of_day = raw.partial_dependence(frame, "day")
    assert of_day.in_order
    assert of_day.plain_values() == [f"2020-01-0{i}" for i in range(1, 10)]
    assert raw.partial_dependence(frame, "u").in_order
    assert np.all(np.diff(raw.partial_dependence(frame, "u").values) > 0)
    raw.plot_partial_dependence(frame, "kind").figure.draw_without_rendering()
    ax = raw.plot_partial_dependence(frame, "day")
    assert ax.get_xticklabels()[0].get_text() == "2020-01-01"
    assert len(ax.lines) == 1
    ax.figure.draw_without_rendering()
    pd.testing.assert_frame_equal(frame, before)
    assert raw.hardest(frame, y, 2)["nll"].max() > 0


@pytest.mark.parametrize(("column", "got"), [("z", "'z'"), (3, "3"), (-1, "-1"), (True, "True")])
def test_a_column_that_is_not_there_is_one_sentence(clf, column, got):
    with pytest.raises(
        InvalidArgumentError, match=rf"`column` must be one of X by name or place, got {got}; there are x0"
    ):
        clf.partial_dependence(X, column)


def test_what_is_asked_of_an_importance_is_checked(clf):
    with pytest.raises(InvalidArgumentError, match="`n_repeats` must be at most 59, got 60"):
        clf.importance(X, Y, n_repeats=60)
    with pytest.raises(InvalidArgumentError, match="`X` must have two rows to shuffle, got 1"):
        clf.importance(X[:1], Y[:1])
    with pytest.raises(ValueError, match="inconsistent numbers of samples"):
        clf.importance(X, Y[:3])


def test_rows_of_a_class_that_was_not_trained_on_have_no_importance(clf):
    y = Y.copy()
    y[:10] = "z"
    said, known = clf.importance(X, y), clf.importance(X[10:], Y[10:])
    np.testing.assert_array_equal(said.increase, known.increase)
    assert said.n_rows == 50


def test_the_hardest_rows_are_those_of_the_highest_uncertainty_and_nll(fitted):
    estimator, y, _ = fitted
    frame = pd.DataFrame(X[:, :2], index=[f"row {i}" for i in range(60)], columns=["u", "v"])
    estimator = type(estimator)(**SMALL).fit(frame, y)
    table = estimator.hardest(frame, y, 4)
    parts, costs = estimator.uncertainty(frame), estimator._nll_of_rows(frame, y)
    uncertain, surprising = (np.argsort(-values, kind="stable")[:4] for values in (parts.total, costs))
    named = lambda places: {f"row {i}" for i in places}  # noqa: E731
    assert set(table.index[table["because"].str.contains("uncertain")]) == named(uncertain)
    assert set(table.index[table["because"].str.contains("surprising")]) == named(surprising)
    assert table.index.is_unique
    assert table.index[0] == f"row {uncertain[0]}"
    for name, line in table.iterrows():
        i = int(str(name).split()[1])
        assert line["truth"] == y[i]
        assert line["nll"] == pytest.approx(costs[i], rel=MANY_SUMS)
        assert (line["noise"], line["weights"]) == (parts.noise[i], parts.weights[i])
        disagree = line["weights"] + line["depth"] > line["noise"]
        expected = inspection.MORE_DATA if disagree else inspection.NO_DATA
        assert line["verdict"] == (inspection.LOOK if line["missed"] else expected)


def test_the_verdict_is_the_rule_that_is_stated():
    assert inspection.verdict(0.4, 0.3, 0.2, False) == "more data like this would help"
    assert inspection.verdict(0.5, 0.3, 0.2, False) == "no data will help"
    assert inspection.verdict(0.4, 0.3, 0.2, True) == "it was sure, and wrong: look at the row"


def test_a_row_is_missed_that_was_surely_something_else(clf, reg, monkeypatch):
    y = Y.copy()
    p = clf.predict_proba(X)
    sure, unsure = np.argsort(p.max(axis=1))[[-1, 0]]
    monkeypatch.setattr(inspection, "SURE", (p[sure].max() - 1e-9, 0.99))
    for i in (sure, unsure):
        y[i] = next(label for label in "abc" if label != clf.classes_[p[i].argmax()])
    assert clf.tell(X, y)["missed"][[sure, unsure]].tolist() == [True, False]
    y[sure] = clf.predict(X)[sure]
    assert not clf.tell(X, y)["missed"].any()
    low, high = reg.predict_interval(X[:2], 0.99).T
    ends = np.array([low[0] - 1e-3, high[1] - 1e-3])
    np.testing.assert_array_equal(reg.tell(X[:2], ends)["missed"], [True, False])
    with pytest.warns(UserWarning, match="not trained on"):
        told = clf.tell(X[:2], np.array(["z", "a"]))
    assert told["nll"][0] == np.inf


def test_the_pictures_show_what_is_said(clf, reg):
    ax = clf.plot_confusion(X, Y)
    matrix = metrics.confusion(*clf.said_of(X, Y))
    assert sum(int(text.get_text()) for text in ax.texts) == 60
    assert len(ax.texts) == np.count_nonzero(matrix)
    ax = reg.plot_residuals(X, NUMBERS)
    np.testing.assert_allclose(ax.collections[0].get_offsets()[:, 1], NUMBERS - reg.predict(X))
    ax = reg.plot_predictions(X, NUMBERS)
    np.testing.assert_allclose(ax.collections[1].get_offsets(), np.column_stack([NUMBERS, reg.predict(X)]))
    ax = clf.plot_importance(X, Y)
    assert ax.get_yticklabels()[0].get_text() == "x0"
    said = clf.importance(X, Y)
    assert sorted(bar.get_width() for bar in ax.patches) == pytest.approx(sorted(said.increase))
    ax = clf.plot_uncertainty(X)
    parts = clf.uncertainty(X)
    top = np.concatenate([path.vertices for path in ax.collections[-1].get_paths()])
    assert top[:, 1].max() == pytest.approx(parts.total.max())
    ax = reg.plot_partial_dependence(X, 1)
    np.testing.assert_allclose(ax.lines[0].get_ydata(), reg.partial_dependence(X, 1).mean[:, 0])
    ax = clf.plot_partial_dependence(X, "x0")
    assert len(ax.lines) == 3
    assert ax.get_ylim()[1] == pytest.approx(1.02)
    ax = clf.plot_roc(X, Y)
    assert len(ax.lines) == 4
    ax = reg.plot_coverage(X, NUMBERS)
    inside = np.mean([low <= y <= high for y, (low, high) in zip(NUMBERS, reg.predict_interval(X, 0.9), strict=True)])
    assert ax.lines[1].get_ydata()[17] == pytest.approx(inside)


def test_several_targets_have_importances_and_dependences_and_no_more():
    reg = DepthRegressor(**SMALL).fit(X, np.column_stack([NUMBERS, -NUMBERS]))
    both = np.column_stack([NUMBERS, -NUMBERS])
    assert reg.importance(X, both).increase[0] > 0
    said = reg.partial_dependence(X, 0)
    assert said.mean.shape == (len(said.values), 2)
    np.testing.assert_allclose(said.mean.mean(axis=0), [NUMBERS.mean(), -NUMBERS.mean()], atol=30)
    with pytest.raises(InvalidArgumentError, match="`y` must be one number for every row, got 2 targets"):
        reg.hardest(X, both)
    with pytest.raises(InvalidArgumentError, match="`plot_uncertainty` draws one target, got 2"):
        reg.plot_uncertainty(X)
