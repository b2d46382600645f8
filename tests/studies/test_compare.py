"""Comparisons: measures, their errors and paired differences against slow loops; and what becomes of failures."""

import json
import math
import re
import warnings

import numpy as np
import pandas as pd
import pytest
from scipy import stats
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.datasets import load_diabetes, load_wine
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.model_selection import KFold
from sklearn.naive_bayes import GaussianNB
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import leadline
from leadline import DepthClassifier, DepthRegressor, InvalidArgumentError, metrics
from leadline.estimators.said import NoPredictionError
from leadline.files.formats import learn_format
from leadline.files.learning import relearned
from leadline.metrics import UNKNOWN, OfClasses, OfNumbers
from leadline.report.comparison import page
from leadline.studies.baselines import BASELINES, baseline
from leadline.studies.compare import Contest, free_energy_error
from leadline.studies.comparison import JUDGES, Comparison, mean_and_error, measured, parts_of
from leadline.studies.folds import cross_validation, kept_apart
from leadline.studies.others import INNER_FOLDS
from leadline.studies.runners import AllCores
from tests.report.test_page import Page

SMALL = {"width": 4, "n_restarts": 1, "max_iter": 3, "random_state": 1}


def by_hand(values):
    """The mean and its standard error."""
    mean = sum(values) / len(values)
    variance = sum((value - mean) ** 2 for value in values) / (len(values) - 1)
    return pytest.approx(mean), pytest.approx(math.sqrt(variance / len(values)))


@pytest.fixture(autouse=True)
def a_wide_terminal(monkeypatch):
    """Whatever these tests are run in."""
    monkeypatch.setenv("COLUMNS", "100")


@pytest.fixture(scope="module")
def wine():
    return load_wine(return_X_y=True)


@pytest.fixture(scope="module")
def classes(wine):
    candidates = {"bayes": GaussianNB(), "linear": make_pipeline(StandardScaler(), LogisticRegression())}
    return candidates, leadline.compare(*wine, candidates=candidates, folds=4, random_state=3)


def test_classes_are_measured_as_a_slow_loop_does(wine, classes):
    x, y = wine
    candidates, compared = classes
    found = {name: {} for name in candidates}
    for train, kept in cross_validation(y, 4, 3, of_classes=True)[0]:
        for name, candidate in candidates.items():
            fitted = clone(candidate).fit(x[train], y[train])
            for row in kept:
                found[name][int(row)] = np.maximum(fitted.predict_proba(x[[row]])[0], 1e-6)
    frame = compared.to_frame()
    surprise = {name: [-math.log(p[y[row]] / p.sum()) for row, p in rows.items()] for name, rows in found.items()}
    right = {name: [100.0 * (p.argmax() == y[row]) for row, p in rows.items()] for name, rows in found.items()}
    for name in candidates:
        assert sorted(found[name]) == [*range(len(y))]
        for measure, values in (("nll", surprise[name]), ("accuracy", right[name])):
            assert (frame.loc[name, measure], frame.loc[name, f"{measure}_error"]) == by_hand(values)
        p = np.array([found[name][row] for row in range(len(y))])
        assert frame.loc[name, "ece"] == pytest.approx(metrics.ece(p / p.sum(axis=1, keepdims=True), y))
    for measure, values in (("nll", surprise), ("accuracy", right)):
        away = [b - a for a, b in zip(values["bayes"], values["linear"], strict=True)]
        row = frame.loc["linear"]
        assert (row[f"{measure}_difference"], row[f"{measure}_difference_error"]) == by_hand(away)
        assert pd.isna(frame.loc["bayes", f"{measure}_difference"])


def test_numbers_are_measured_as_a_slow_loop_does():
    x, y = load_diabetes(return_X_y=True)
    x, y = x[:90], y[:90]
    candidates = {"weak": Ridge(100.0), "ridge": Ridge(0.1)}
    frame = leadline.compare(x, y, candidates=candidates, folds=3, random_state=5).to_frame()
    error, nll, inside = ({name: [] for name in candidates} for _ in range(3))
    for train, kept in cross_validation(y, 3, 5, of_classes=False)[0]:
        for name, candidate in candidates.items():
            residuals = []
            for other, left in KFold(INNER_FOLDS, shuffle=True, random_state=0).split(train):
                fitted = clone(candidate).fit(x[train[other]], y[train[other]])
                residuals += [*(y[train[left]] - fitted.predict(x[train[left]]))]
            deviation = math.sqrt(sum(r**2 for r in residuals) / len(residuals))
            said = clone(candidate).fit(x[train], y[train]).predict(x[kept])
            for mean, truth in zip(said, y[kept], strict=True):
                error[name].append(mean - truth)
                nll[name].append(-stats.norm.logpdf(truth, mean, deviation))
                low, high = stats.norm.interval(0.9, mean, deviation)
                inside[name].append(float(low <= truth <= high))
    rmse = {name: math.sqrt(sum(e**2 for e in values) / len(values)) for name, values in error.items()}
    for name in candidates:
        row = frame.loc[name]
        assert row["rmse"] == pytest.approx(rmse[name])
        assert row["rmse_error"] == by_hand([e**2 / (2 * rmse[name]) for e in error[name]])[1]  # the delta method
        assert (row["nll"], row["nll_error"]) == by_hand(nll[name])
        assert (row["coverage_90"], row["coverage_90_error"]) == by_hand(inside[name])
    row = frame.loc["ridge"]
    assert (row["nll_difference"], row["nll_difference_error"]) == by_hand(
        [b - a for a, b in zip(nll["weak"], nll["ridge"], strict=True)]
    )
    assert row["rmse_difference"] == pytest.approx(rmse["ridge"] - rmse["weak"])
    off = {name: abs(np.mean(values) - 0.9) for name, values in inside.items()}
    assert row["coverage_90_difference"] == pytest.approx(off["ridge"] - off["weak"])


def said_of_numbers(rng, n, scale=1.0):
    error = scale * rng.normal(size=n)
    log_density = stats.norm.logpdf(error)
    return OfNumbers(error, log_density, log_density, np.abs(2 * stats.norm.cdf(error) - 1))


def said_of_classes(rng, n):
    p = rng.dirichlet(np.ones(3), n)
    return OfClasses(p, np.array([rng.choice(3, p=one) for one in p]))


@pytest.mark.parametrize("make", [said_of_numbers, said_of_classes])
def test_the_parts_of_a_measure_have_it_for_their_mean_and_its_error_for_theirs(make):
    """Against the spread of the measure over many draws."""
    rng = np.random.default_rng(0)
    draws = [make(rng, 400) for _ in range(400)]
    of_numbers = isinstance(draws[0], OfNumbers)
    names = (
        {"rmse": "rmse", "coverage_90": "coverage_90"}
        if of_numbers
        else {"accuracy": "accuracy", "nll": "nll", "ece": "ece"}
    )
    for name in names:
        value = [metrics.MEASURES[name].of(said) for said in draws]
        parts = [mean_and_error(parts_of(said)[name]) for said in draws]
        np.testing.assert_allclose([mean for mean, _ in parts], value, rtol=1e-12)
        if name != "ece":  # with honest probabilities the signs of its gaps are chance
            assert np.mean([error for _, error in parts]) == pytest.approx(np.std(value), rel=0.1)


def test_equals_are_within_noise_nineteen_times_in_twenty():
    rng, verdicts = np.random.default_rng(1), {judge.name: [] for judge in JUDGES["regression"]}
    for _ in range(400):
        shared = rng.normal(size=300)  # what is hard for one is hard for the other
        said = []
        for _ in range(2):
            error = shared + 0.5 * rng.normal(size=300)
            scale = math.sqrt(1.25)
            log_density = stats.norm.logpdf(error, scale=scale)
            level = np.abs(2 * stats.norm.cdf(error / scale) - 1)
            said.append(parts_of(OfNumbers(error, log_density, log_density, level)))
        row = measured("regression", said[1], said[0])
        for name, found in verdicts.items():
            found.append(row[f"{name}_verdict"] == "within noise")
    for name in ("rmse", "nll"):
        assert np.mean(verdicts[name]) == pytest.approx(0.954, abs=4 * math.sqrt(0.954 * 0.046 / 400))


def test_a_difference_that_is_more_than_noise_says_who_is_better():
    rng = np.random.default_rng(2)
    good, bad = (parts_of(said_of_numbers(rng, 500, scale)) for scale in (1.0, 1.6))
    for first, second, word in ((good, bad, "worse"), (bad, good, "better")):
        row = measured("regression", second, first)
        assert {row[f"{judge.name}_verdict"] for judge in JUDGES["regression"]} == {word}
    right, wrong = (parts_of(OfClasses(np.tile([0.8, 0.2], (100, 1)), np.full(100, y))) for y in (0, 1))
    row = measured("classification", right, wrong)
    assert (row["accuracy_difference"], row["accuracy_verdict"], row["ece_verdict"]) == (100, "better", "better")
    assert measured("classification", right, right)["nll_verdict"] == "within noise"


def test_folds_measure_on_every_row_once_and_know_every_class():
    y = np.array(["a"] * 31 + ["b"] * 12 + ["c"] * 2 + ["d", "e"])
    np.random.default_rng(0).shuffle(y)
    folds, notes = cross_validation(y, 5, 1, of_classes=True)
    kept = np.concatenate([kept for _, kept in folds])
    assert sorted(kept) == np.flatnonzero(~np.isin(y, ["d", "e"])).tolist()
    for train, kept in folds:
        assert set(y[train]) == set("abcde")
        assert not set(train) & set(kept)
        assert len(kept) == 9
        assert 6 <= np.sum(y[kept] == "a") <= 7
    assert notes == ["Trained on in every fold, and not measured on: the only row each of the classes d, e."]
    again = cross_validation(y, 5, 1, of_classes=True)[0]
    assert all(
        np.array_equal(a, b) for one, other in zip(folds, again, strict=True) for a, b in zip(one, other, strict=True)
    )
    assert [len(kept) for _, kept in cross_validation(y, 4, 1, of_classes=False)[0]] == [12, 12, 12, 11]


def test_ours_says_what_a_fit_says(wine):
    x, y = wine
    compared = leadline.compare(x, y, candidates={"ours": DepthClassifier(**SMALL)}, test=0.25, random_state=2)
    train, kept = kept_apart(y, 0.25, 2, of_classes=True)
    clf = DepthClassifier(**SMALL).fit(x[train], y[train])
    [row] = compared.rows
    assert row["nll"] == metrics.nll(*clf.said_of(x[kept], y[kept]))
    assert (row["free_energy"], row["depth_mean"], row["depth_std"]) == (
        clf.free_energy_, pytest.approx(clf.depth_mean_), pytest.approx(clf.depth_std_),
    )  # fmt: skip
    assert row["free_energy_error"] == free_energy_error(clf, x[train], y[train])
    assert "lowest free energy" in str(compared)


def test_a_row_of_a_class_that_was_not_trained_on_is_wrong(wine):
    x, y = wine
    rows = np.arange(len(y))
    train, kept = rows[y != 1], np.concatenate([rows[:5], rows[y == 1][:2], rows[-3:]])
    contest = Contest(
        {"bayes": GaussianNB(), "ours": DepthClassifier(**SMALL)}, x, y, [(train, kept)], "classification"
    )
    with pytest.warns(UserWarning, match="2 of 10 rows are of classes that were not trained on"):
        contest.run()
    compared = contest.comparison()
    assert compared is not None
    for row, candidate in zip(compared.rows, contest.candidates.values(), strict=True):
        assert (row["nll"], row["nll_error"]) == (np.inf, None)
        assert row["accuracy"] == 100 * np.mean(clone(candidate).fit(x[train], y[train]).predict(x[kept]) == y[kept])
    assert contest.outcomes["bayes"][0].said.y.tolist() == [0] * 5 + [UNKNOWN] * 2 + [2] * 3
    assert " inf " in str(compared)
    assert "nll" not in json.loads(json.dumps(compared.to_json(), allow_nan=False))["candidates"][0]
    assert "inf" in Page(page(compared)).text


def test_where_no_rows_are_kept_apart_there_is_the_free_energy(wine):
    contest = Contest(
        {"ours": DepthClassifier(**SMALL)}, *wine, [kept_apart(wine[1], 0.0, 1, of_classes=True)], "classification"
    )
    contest.run()
    compared = contest.comparison()
    assert compared is not None
    assert {"nll", "accuracy"}.isdisjoint(compared.rows[0])
    assert "free energy" in str(compared)
    assert Page(page(compared)).count("svg") == 0


class Failing(ClassifierMixin, BaseEstimator):
    """It fails, or is interrupted, in the fit after so many, counted by all of its kind."""

    fits = tries = 0

    def __init__(self, after=0, error=ValueError):
        self.after, self.error = after, error

    def fit(self, X, y):
        Failing.tries += 1
        if Failing.fits == self.after:
            raise self.error("<b>no luck</b>\x1b[2J")
        Failing.fits += 1
        self.inner_ = GaussianNB().fit(X, y)
        self.classes_ = self.inner_.classes_
        return self

    def predict_proba(self, X):
        return self.inner_.predict_proba(X)


@pytest.fixture(autouse=True)
def _no_fits():
    Failing.fits = Failing.tries = 0


def test_one_that_fails_is_said_and_the_others_go_on(wine):
    candidates = {"bayes": GaussianNB(), "bad": Failing(after=1), "more": GaussianNB(var_smoothing=0.1)}
    compared = leadline.compare(*wine, candidates=candidates, folds=3)
    assert [row["candidate"] for row in compared.rows] == ["bayes", "more", "bad"]
    assert compared.rows[-1]["failed"].startswith("ValueError: <b>no luck</b>")
    assert "bad failed: ValueError" in str(compared)
    assert "\x1b" not in str(compared)
    assert Failing.tries == 2  # and not a third time
    read = Page(page(compared))
    assert "It failed: ValueError: <b>no luck</b>" in read.text


def test_the_error_of_the_first_is_raised(wine):
    with pytest.raises(ValueError, match="no luck"):
        leadline.compare(*wine, candidates={"bad": Failing(), "bayes": GaussianNB()})


def test_what_was_finished_before_ctrl_c_can_be_compared(wine):
    """All candidates in the folds that all have behind them; in the first fold, those that are through."""
    for after, expected in ((0, (["bayes"], 1)), (2, (["bayes", "stopped", "more"], 2))):
        Failing.fits = 0
        candidates = {"bayes": GaussianNB(), "stopped": Failing(after, KeyboardInterrupt), "more": GaussianNB()}
        contest = Contest(candidates, *wine, cross_validation(wine[1], 3, 1, of_classes=True)[0], "classification")
        with pytest.raises(KeyboardInterrupt):
            contest.run()
        compared = contest.comparison()
        assert compared is not None
        assert ([row["candidate"] for row in compared.rows], compared.about["folds"]) == expected
        assert compared.about["n_measured"] == sum(len(kept) for _, kept in contest.folds[: expected[1]])
        assert f"stopped after {expected[1]} of them" in str(compared)
    assert Contest({"bayes": GaussianNB()}, *wine, contest.folds, "classification").comparison() is None


def test_a_network_that_has_not_converged_is_said_and_other_warnings_are_heard(wine):
    class Anxious(GaussianNB):
        def fit(self, X, y):
            warnings.warn("mind the gap", UserWarning, stacklevel=2)
            return super().fit(X, y)

    candidates = {"bayes": GaussianNB(), "short": MLPClassifier(max_iter=2, random_state=0), "warning": Anxious()}
    with warnings.catch_warnings(record=True) as heard:
        warnings.simplefilter("always")
        compared = leadline.compare(*wine, candidates=candidates, folds=2)
    assert [str(one.message) for one in heard] == ["mind the gap"] * 2
    assert compared.notes.count("short had not converged when it stopped.") == 1


def test_ctrl_c_ends_a_comparison_in_python(wine):
    with pytest.raises(KeyboardInterrupt):
        leadline.compare(*wine, candidates=[Failing(error=KeyboardInterrupt)])


@pytest.mark.parametrize(("task", "name"), [(task, name) for task in JUDGES for name in BASELINES])
def test_baselines_learn(task, name):
    rng = np.random.default_rng(0)
    x = rng.normal(size=(120, 3))
    y = x @ [1.0, -2.0, 0.5] + 0.1 * rng.normal(size=120)
    y = (y > 0).astype(int) if task == "classification" else 1000 + 50 * y
    one = clone(baseline(name, task, 1, len(y))).fit(x[:90], y[:90])
    assert one.score(x[90:], y[90:]) > 0.7


def test_tables_of_pandas_and_names_are_taken(wine):
    x, y = load_wine(return_X_y=True, as_frame=True)
    y = y.map({0: "a", 1: "b", 2: "c"})
    compared = leadline.compare(x, y, candidates=["linear", GaussianNB(), GaussianNB(), "forest"], folds=2)
    assert compared.to_frame().index.tolist() == ["linear", "GaussianNB", "GaussianNB 2", "forest"]
    assert compared.rows[1]["nll_difference"] == compared.rows[2]["nll_difference"]
    plain = leadline.compare(*wine, candidates=["linear"], folds=2)
    assert plain.rows[0]["nll"] == pytest.approx(compared.rows[0]["nll"])


def raw_table(n=90):
    """With text, a date and gaps, and a class that they decide."""
    rng = np.random.default_rng(4)
    size, colour = rng.normal(size=n), rng.choice(["red", "blue", "green"], n)
    days = pd.Timestamp("2020-01-01") + pd.to_timedelta(rng.integers(0, 900, n), unit="D")
    frame = pd.DataFrame({"size": np.where(rng.uniform(size=n) < 0.1, np.nan, size), "colour": colour, "day": days})
    return frame, np.where(size + (colour == "red") > 0.3, "big", "small")


@pytest.mark.filterwarnings("ignore::leadline._checks.DataWarning")
def test_raw_frames_are_taken():
    x, y = raw_table()
    candidates = ["linear", "boosting", DepthClassifier(**SMALL)]
    compared = leadline.compare(x, y, candidates=candidates, folds=2)
    assert all("failed" not in row for row in compared.rows)
    assert compared.rows[0]["accuracy"] > 75
    assert "TableEncoder() → StandardScaler()" in compared.rows[0]["settings"]


def test_of_columns_as_of_models_nothing_is_learned_from_rows_to_measure_on():
    x, y = raw_table()
    x.loc[0, "size"], x["colour"] = 1e6, x["colour"].astype(object)
    fmt = learn_format(x.assign(y=y), "y")
    folds, notes = cross_validation(y, 3, 1, of_classes=True)
    contest = Contest({"bayes": GaussianNB()}, x, y, folds, "classification", notes, fmt.encoding)
    contest.run()
    for (train, kept), outcome in zip(folds, contest.outcomes["bayes"], strict=True):
        learned = relearned(fmt.encoding, x.iloc[train])
        fitted = GaussianNB().fit(learned.encode(x.iloc[train])[0], y[train])
        p = np.maximum(fitted.predict_proba(learned.encode(x.iloc[kept])[0]), 1e-6)
        np.testing.assert_allclose(outcome.said.probabilities, p / p.sum(axis=1, keepdims=True))


def test_a_row_that_cannot_be_predicted_is_named_as_in_the_table():
    x, y = raw_table()
    x.loc[17, "size"] = 1e80
    fmt = learn_format(x.assign(y=y), "y")
    folds, notes = cross_validation(y, 3, 1, of_classes=True)
    contest = Contest({"ours": DepthClassifier(**SMALL)}, x, y, folds, "classification", notes, fmt.encoding)
    with pytest.raises(NoPredictionError) as refused:
        contest.run()
    assert (refused.value.row, refused.value.column) == (17, "size")


def test_the_task_is_that_of_the_estimators_or_of_what_y_looks_like(wine):
    x, y = wine
    assert leadline.compare(x, y, candidates=["linear"], folds=2).task == "classification"
    assert leadline.compare(x, x[:, 0], candidates=["linear"], folds=2).task == "regression"
    assert leadline.compare(x, y, candidates=["linear", Ridge()], folds=2).task == "regression"
    assert leadline.compare(x, y, candidates=["linear"], task="regression", folds=2).task == "regression"


def test_by_default_ours_is_beside_all_others(wine, monkeypatch):
    monkeypatch.setattr(DepthClassifier, "fit", lambda self, x, y: GaussianNB.fit(self, x, y), raising=False)
    seen = []
    monkeypatch.setattr(Contest, "run", lambda self, tell, runner: seen.extend(self.candidates.items()))
    with pytest.raises(AssertionError):
        leadline.compare(*wine)
    assert [name for name, _ in seen] == ["leadline", *BASELINES]
    assert isinstance(seen[0][1], DepthClassifier)


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        (
            {"candidates": ["linear", "soup"]},
            "`candidates` must be one of leadline, linear, boosting, forest, mlp, got 'soup'",
        ),
        ({"candidates": "linear"}, "`candidates` must be a list"),
        ({"candidates": []}, "`candidates` must be a list"),
        ({"candidates": [GaussianNB(), Ridge()]}, "must be classifiers with `predict_proba`, got Ridge() as Ridge"),
        ({"candidates": {"mine": GaussianNB}}, "GaussianNB'> as mine"),
        ({"candidates": [DepthRegressor()], "task": "classification"}, "got DepthRegressor() as DepthRegressor"),
        ({"folds": 1}, "`folds` must be a whole number of at least 2, got 1"),
        ({"folds": 1000}, "`folds` must be at most the number of rows, 178, got 1000"),
        ({"folds": 3, "test": 0.2}, "`folds` must be left out where `test` is given, got 3"),
        ({"test": 1.0}, "`test` must be a share of the rows"),
        ({"task": "guess"}, "`task` must be one of auto, classification, regression"),
        ({"random_state": -1}, "`random_state` must be a whole number"),
    ],
)
def test_a_wrong_argument_is_one_sentence(wine, given, sentence, as_users_have_it):
    with pytest.raises(InvalidArgumentError, match=re.escape(sentence)):
        leadline.compare(*wine, **given)


def test_several_targets_are_refused(wine, as_users_have_it):
    with pytest.raises(InvalidArgumentError, match=r"`y` must be one class or number a row, got shape \(178, 2\)"):
        leadline.compare(wine[0], np.column_stack([wine[1]] * 2))


def test_the_table_keeps_to_the_width(classes):
    _, compared = classes
    assert max(map(len, compared.lines(100))) <= 100
    assert max(map(len, compared.lines(40))) <= 40
    assert len(compared.lines(40)) > len(compared.lines(100))
    assert str(compared).splitlines()[0].split() == ["accuracy,", "%", "NLL", "ECE,", "%", "seconds"]


def test_numbers_have_two_digits_of_their_error():
    names = [f"{judge.name}{end}" for judge in JUDGES["classification"] for end in ("", "_error")]
    numbers = ((98.3146, 0.9675, -0.06496, 0.0152, 0.04, 0.009), (50.0, 3.21, 12345.678, None, 0.25, 0.0))
    rows = [{"candidate": c, **dict(zip(names, row, strict=True))} for c, row in zip("ab", numbers, strict=True)]
    compared = Comparison(rows, "classification", {}, [])
    cells = [compared.cells(judge) for judge in JUDGES["classification"]]
    assert cells == [
        ["98.31 ± 0.97", "50.00 ± 3.21"],
        ["−0.065 ± 0.015", "12,345.678"],
        ["4.00 ± 0.90", "25.00 ± 0.00"],
    ]


def test_the_verdict_in_words(classes):
    rows = [
        {"candidate": "a"},
        *({"candidate": c, "nll_verdict": v} for c, v in zip("bcd", ("worse", "better", "worse"), strict=True)),
    ]
    assert Comparison(rows, "classification", {}, []).verdict() == "By the NLL, a is better than b and d; worse than c."
    assert Comparison(rows[:1], "classification", {}, []).verdict() == ""


def test_the_page_stands_alone_and_says_what_the_table_says(classes):
    _, compared = classes
    text = page(compared)
    read = Page(text)
    assert read.count("script") == read.count("link") == read.count("img") == 0
    assert "://" not in text
    assert read.count("svg") == 3
    for judge in compared.judges:
        assert judge.label[0].upper() + judge.label[1:] in read.text
        for cells in (compared.cells(judge), compared.differences(judge)[1:]):
            assert all(cell in read.text for cell in cells)
    assert compared.verdict() in read.text
    ids = [attributes["id"] for _, attributes in read.elements if "id" in attributes]
    assert len(ids) == len(set(ids))


def test_a_runner_gives_the_same_and_names_what_fails():
    """Candidates and folds at a time; one that fails is in the notes, and the first is an error."""
    x, y = load_wine(return_X_y=True)
    ours = DepthClassifier(width=2, n_restarts=1, max_iter=3, random_state=0)
    given = {"ours": ours, "linear": "linear", "broken": LogisticRegression(C=-1.0)}
    one, other = (leadline.compare(x, y, candidates=given, folds=2, runner=runner) for runner in (None, AllCores()))
    assert one.to_frame().drop(columns="seconds").equals(other.to_frame().drop(columns="seconds"))
    assert one.notes == other.notes
    with pytest.raises(RuntimeError, match="The 'C' parameter of LogisticRegression must be"):
        leadline.compare(x, y, candidates=[LogisticRegression(C=-1.0), ours], folds=2, runner=AllCores())
