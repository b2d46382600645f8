"""The estimators with other likelihoods than their own: what they predict, and what a file keeps.

Most are slow: where the engine does not know a likelihood, a fit is mostly compilation. `tests/likelihoods` and
`tests/inference/test_likelihoods.py` have what needs no fit.
"""

import warnings

import numpy as np
import pandas as pd
import pytest

from leadline import DepthClassifier, DepthRegressor, InvalidArgumentError, load, metrics
from leadline._checks import DataWarning
from leadline.likelihoods import likelihoods_of
from tests.tolerances import CLOSED_FORM, MANY_SUMS

SMALL = {"width": 4, "n_restarts": 2, "max_iter": 60, "random_state": 0}
RNG = np.random.default_rng(0)
X = RNG.normal(size=(160, 2))
COUNT = RNG.poisson(np.exp(1 + 0.8 * X[:, 0]))
NAMES = np.array(["low", "middle", "high", "highest"])
RANK = np.digitize(2 * X[:, 0] + RNG.logistic(size=160), [-2, 0, 2])
GRADE = pd.Series(pd.Categorical(NAMES[RANK], categories=["none", *NAMES], ordered=True))


def regressor(name, **changes):
    return DepthRegressor(likelihood=name, **{**SMALL, **changes})


@pytest.fixture(scope="module")
def counts():
    return regressor("negative-binomial").fit(X, COUNT)


@pytest.fixture(scope="module")
def grades():
    return DepthClassifier(likelihood="ordinal", **SMALL).fit(X, GRADE)


@pytest.fixture(params=likelihoods_of("numbers"))
def each(request, counts):
    """Every likelihood of numbers; most are for the slow tests."""
    return counts if request.param == "negative-binomial" else regressor(request.param).fit(X, COUNT)


def check_numbers(reg):
    """All that is said of rows is said of one distribution."""
    x, y = X[:20], COUNT[:20].astype(float)
    mean, std = reg.predict(x, return_std=True)
    parts = reg.uncertainty(x)
    np.testing.assert_allclose(parts.total, std**2, rtol=1e-6)
    assert min(part.min() for part in (parts.noise, parts.weights, parts.depth)) >= 0
    low, high = reg.predict_interval(x, 0.8).T
    assert np.all(low <= high)
    if reg.model_.likelihood.judged == "counts":
        assert np.all(reg.predict_cdf(x, high) >= 0.9 - 1e-9)
        assert np.all((reg.predict_cdf(x, np.maximum(low - 1, 0)) < 0.1) | (low == 0))
    else:
        np.testing.assert_allclose(reg.predict_cdf(x, low), 0.1, rtol=1e-6)
        np.testing.assert_allclose(reg.predict_cdf(x, high), 0.9, rtol=1e-6)
    said = reg.said_of(x, y)
    np.testing.assert_allclose(said.log_mixture, reg.log_likelihood(x, y), rtol=1e-6)
    np.testing.assert_allclose(y - said.error, mean, rtol=1e-6, atol=1e-9)
    np.testing.assert_array_equal(metrics.inside(said, 0.8) > 0, (low <= y) & (y <= high))
    draws = reg.sample_y(x, 50, random_state=1)
    assert draws.shape == (20, 50)
    np.testing.assert_array_equal(draws, reg.sample_y(x, 50, random_state=1))
    assert np.isfinite(reg.noise_scale_)


@pytest.mark.slow
def test_counts_are_predicted_by_one_distribution(counts):
    check_numbers(counts)
    quantiles = counts.predict(X, quantiles=[0.1, 0.5, 0.9])
    np.testing.assert_array_equal(quantiles, np.round(quantiles))
    assert quantiles.min() >= 0
    assert (counts.y_mean_, counts.y_scale_) == (0.0, 1.0)
    assert counts.spread_.tolist() == [1.0]  # there is no such notion of counts: the rows held out weigh the restarts
    draws = counts.sample_y(X[:3], 20)
    np.testing.assert_array_equal(draws, np.round(draws))


@pytest.mark.slow
def test_all_are_predicted_by_one_distribution(each, tmp_path):
    check_numbers(each)
    each.save(tmp_path / "model")
    np.testing.assert_array_equal(load(tmp_path / "model").predict(X), each.predict(X))


@pytest.mark.slow
def test_the_probabilities_of_counts_sum_to_one(counts):
    x, top = X[:4], int(counts.predict(X[:4], quantiles=[1 - 1e-9]).max())
    rows, y = np.repeat(x, top + 1, axis=0), np.tile(np.arange(top + 1), 4)
    total = np.exp(counts.log_likelihood(rows, y)).reshape(4, -1).sum(axis=1)
    np.testing.assert_allclose(total, 1, rtol=1e-6)
    np.testing.assert_allclose(counts.predict_cdf(x, np.full(4, top)), 1, rtol=1e-6)


@pytest.mark.slow
def test_something_is_learned_of_counts():
    """More than a negative binomial distribution for all rows knows."""
    counts = regressor("negative-binomial", width=8, max_iter=400).fit(X, COUNT)
    likelihood = type(counts.model_.likelihood)()
    guess = likelihood.nll_of_guessing(COUNT[:, None].astype(float), np.ones(len(COUNT)))
    assert -counts.log_likelihood(X, COUNT).mean() < guess - 0.2


@pytest.mark.slow
def test_a_weight_is_a_number_of_counts():
    weight = np.where(COUNT > 3, 2.0, 1.0)
    repeated = np.repeat(np.arange(len(X)), weight.astype(int))
    brief = {"max_iter": 3, "early_stopping": False}
    first = regressor("negative-binomial", **brief).fit(X, COUNT, sample_weight=weight)
    again = regressor("negative-binomial", **brief).fit(X[repeated], COUNT[repeated])
    np.testing.assert_array_equal(first.predict(X), again.predict(X))


@pytest.mark.slow
def test_a_file_keeps_counts_and_ranks(counts, grades, tmp_path):
    for one, ask in ((counts, "predict"), (grades, "predict_proba")):
        one.save(tmp_path / "model")
        again = load(tmp_path / "model")
        assert again.likelihood == one.likelihood
        np.testing.assert_array_equal(getattr(again, ask)(X), getattr(one, ask)(X))


@pytest.mark.slow
def test_a_file_of_one_kind_is_not_taken_for_another(counts, tmp_path):
    other = DepthRegressor(**SMALL)
    other.__dict__.update({name: value for name, value in vars(counts).items() if name != "likelihood"})
    other.save(tmp_path / "model")
    with pytest.raises(InvalidArgumentError, match="a DepthRegressor with a NegativeBinomialLikelihood"):
        load(tmp_path / "model")


@pytest.mark.slow
def test_ordered_classes_keep_the_order_of_a_categorical(grades):
    """Which is not that of the alphabet; a category without a row is none."""
    assert grades.classes_.tolist() == NAMES.tolist()
    p = grades.predict_proba(X)
    np.testing.assert_allclose(p.sum(axis=1), 1, rtol=CLOSED_FORM["float64"])
    expected = p @ np.arange(4)
    assert np.corrcoef(expected, X[:, 0])[0, 1] > 0.8
    assert grades.score(X, GRADE) > 0.45
    parts = grades.uncertainty(X)
    entropy = -np.sum(p * np.log(p), axis=1)
    np.testing.assert_allclose(parts.total, entropy, rtol=MANY_SUMS)
    said = grades.said_of(X, GRADE)
    np.testing.assert_array_equal(said.y, RANK)
    assert {"ranks_away", "rps", "accuracy", "nll"} <= set(metrics.measured(said))
    thresholds = np.asarray(grades.model_.likelihood.thresholds)
    assert np.all(np.diff(thresholds, axis=1) > 0)


@pytest.mark.slow
def test_the_dependence_of_ordered_classes_is_that_of_their_probabilities(grades):
    """Before the softening, at the rows as they are: the mean over single draws."""
    share, draws = grades._restarts.means_of_draws(grades._checked(X[:1]), np.zeros(1, int))
    together = np.tensordot(share, draws, axes=1)[0]
    softened = together ** (1 / grades.spread_[0])
    np.testing.assert_allclose(softened / softened.sum(), grades.predict_proba(X[:1])[0], rtol=MANY_SUMS)


def test_the_order_of_the_alphabet_is_told():
    brief = DepthClassifier(likelihood="ordinal", **SMALL)
    with pytest.warns(DataWarning, match="in the order of the alphabet, high < highest < low < middle; for another"):
        assert brief.problem(X, NAMES[RANK]).about["classes"].tolist() == sorted(NAMES)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert brief.problem(X, RANK).about["classes"].tolist() == [0, 1, 2, 3]


@pytest.mark.parametrize(
    ("estimator", "y", "message"),
    [
        (regressor("poisson"), COUNT + 0.5, r"`y` must hold counts, whole numbers of at least 0, got \d+\.5\."),
        (regressor("poisson"), -COUNT, r"`y` must hold counts, whole numbers of at least 0, got -\d+\.0\."),
        (regressor("gamma"), COUNT, "`likelihood` must be one of gaussian, .*poisson.*, got 'gamma'"),
        (
            regressor("input"),
            COUNT,
            "`likelihood` must be one of gaussian, .*, got 'input', which is what `noise` can be",
        ),
        (regressor("laplace", noise="input"), COUNT, "`noise` must be left out of a likelihood that is not gaussian"),
        (
            DepthClassifier(likelihood="poisson"),
            RANK,
            "`likelihood` must be one of categorical, ordinal, got 'poisson'",
        ),
    ],
)
def test_what_does_not_fit_is_one_sentence(estimator, y, message):
    with pytest.raises(InvalidArgumentError, match=message):
        estimator.fit(X, y)


@pytest.mark.slow
def test_a_few_rows_far_away_do_not_lead_astray():
    """A line, of which one row in ten is 30 further up: within 0.3, where a Gaussian is off by 3 on average."""
    rng = np.random.default_rng(0)
    x = np.linspace(-2, 2, 200)[:, None]
    y = 3 * x[:, 0] + 0.3 * rng.normal(size=200) + 30 * (np.arange(200) % 10 == 0)
    inside = np.abs(x[:, 0]) < 1.5
    off = {}
    for name in ("gaussian", "student-t", "laplace"):
        predicted = regressor(name, width=16, n_restarts=4, max_iter=None).fit(x, y).predict(x)
        off[name] = np.sqrt(np.mean((predicted - 3 * x[:, 0])[inside] ** 2))
    assert off["student-t"] < 0.3
    assert off["laplace"] < 0.3
    assert off["gaussian"] > 1


@pytest.mark.slow
def test_several_counts_at_once():
    y = np.column_stack([COUNT, RNG.poisson(2, len(X))])
    reg = regressor("poisson").fit(X, y)
    assert reg.predict_interval(X[:5]).shape == (5, 2, 2)
    assert reg.sample_y(X[:5], 3).shape == (5, 2, 3)
    _, std = reg.predict(X, return_std=True)
    np.testing.assert_allclose(reg.uncertainty(X).total, std**2, rtol=1e-6)
