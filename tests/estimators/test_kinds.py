"""Restarts of several kinds: who holds out which rows, and what these rows decide."""

import dataclasses
import functools

import numpy as np
import pytest
import scipy.special

from leadline import (
    RECIPES,
    CategoricalDepth,
    DepthClassifier,
    DepthRegressor,
    GaussianLikelihood,
    InvalidArgumentError,
    NormalDepth,
    load,
)
from leadline.files.records import Record
from leadline.inference import predict
from leadline.likelihoods import EitherNoiseLikelihood
from leadline.likelihoods.mixture import softened
from leadline.report.words import restarts_in_words
from leadline.studies.evaluate import evaluate
from leadline.training.loop import train
from tests.tolerances import GRADIENT, MANY_SUMS

RNG = np.random.default_rng(0)
X = RNG.normal(size=(80, 2))
NOISY = ((X[:, 0] > 0) ^ (RNG.uniform(size=80) < 0.3)).astype(int)
"""Three labels of ten are wrong."""
SETTINGS = {"width": 6, "max_iter": 60, "random_state": 0}


@pytest.fixture(scope="module")
def clf():
    return DepthClassifier(**SETTINGS).fit(X, NOISY)


def test_every_row_is_held_out_once_from_every_kind():
    """Twelve restarts of three kinds: four parts, each held out from one of each kind."""
    est = DepthClassifier(**SETTINGS)
    problem = est.problem(X, NOISY)
    assert problem.validation == 0.25
    trained = train(problem, dataclasses.replace(est.settings(1), epochs=2, own_length=True))
    held = trained.validation_rows
    assert held.shape == (12, 20)
    for kind in range(3):
        assert sorted(held[kind::3].ravel().tolist()) == list(range(80))
    for first in range(0, 12, 3):
        np.testing.assert_array_equal(held[first : first + 3], held[[first] * 3])
    np.testing.assert_array_equal(trained.temperatures, [[1.0, 0.05, 1.0] * 4])


def test_a_prediction_is_that_of_the_restarts_by_their_shares_softened(clf):
    assert clf.restart_shares_.shape == (12,)
    assert clf.restart_shares_.sum() == pytest.approx(1)
    np.testing.assert_allclose(clf.restart_shares_[:3], clf.restart_shares_[9:])  # those of a kind are equal
    restarts = clf._restarts
    each = predict.predict(clf.model_, clf._checked(X), n_samples=restarts.samples_each, key=restarts.keys())
    expected = softened(np.tensordot(clf.restart_shares_, each.astype(float), axes=1), clf.spread_[0])
    np.testing.assert_allclose(clf.predict_proba(X), expected, rtol=GRADIENT)
    assert clf.depth_mean_ == pytest.approx(clf.depth_pmf_ @ np.arange(len(clf.depth_pmf_)))


def test_the_parts_of_the_uncertainty_sum_to_that_of_the_softened_prediction(clf):
    parts, p = clf.uncertainty(X), clf.predict_proba(X)
    np.testing.assert_allclose(parts.total, scipy.special.entr(p).sum(axis=1), rtol=GRADIENT)
    assert min(part.min() for part in (parts.noise, parts.weights, parts.depth)) >= 0


def test_rows_held_out_decide_for_the_warm_networks_where_labels_are_noisy():
    """With three wrong labels of ten, a cold network believes what it has learned by heart."""
    x = RNG.normal(size=(300, 6))
    y = ((x[:, 0] > 0) ^ (RNG.uniform(size=300) < 0.3)).astype(int)
    noisy = DepthClassifier(random_state=0).fit(x, y)
    cold = noisy.restart_temperatures_ < 0.1
    assert noisy.restart_shares_[cold].sum() < 1 / 3  # which it would have if all kinds were alike
    clean = DepthClassifier(random_state=0).fit(x, (x[:, 0] * x[:, 1] > 0).astype(int))
    assert clean.restart_shares_[cold].sum() > noisy.restart_shares_[cold].sum()
    assert clean.temperature_ < noisy.temperature_


def test_one_kind_alone_and_one_restart_alone():
    """One temperature for all kinds; and the first kind, with nothing to weigh."""
    one = DepthClassifier(**SETTINGS, temperature=0.4, n_restarts=6).fit(X, NOISY)
    np.testing.assert_array_equal(one.restart_temperatures_, 0.4)
    alone = DepthClassifier(**SETTINGS, n_restarts=1).fit(X, NOISY)
    np.testing.assert_array_equal(alone.restart_shares_, [1.0])
    assert alone.restart_temperatures_ == RECIPES["table"].kinds[0].temperature
    without = DepthClassifier(**SETTINGS, early_stopping=False).fit(X, NOISY)  # no rows are held out
    np.testing.assert_allclose(without.restart_shares_, 1 / 12, rtol=MANY_SUMS)
    np.testing.assert_array_equal(without.spread_, [1.0])


@pytest.fixture(scope="module")
def deciding():
    """Rows that one hidden layer more explains far better, and a recipe by which they say so."""
    x = np.random.default_rng(1).uniform(-1, 1, size=(400, 2))
    y = (np.floor(3 * x).sum(axis=1) % 2).astype(int)
    recipe = dataclasses.replace(RECIPES["table"], name="weighed", weigh_depths=True, initial_depth=(0.5, 1.5))
    return x, y, {"recipe": recipe, "width": 8, "max_iter": 150, "random_state": 0}


@pytest.fixture(scope="module")
def weighed(deciding):
    x, y, settings = deciding
    return DepthClassifier(**settings).fit(x, y)


def test_rows_held_out_weigh_the_depths_of_networks_that_are_what_they_were(deciding, weighed):
    x, y, settings = deciding
    plain = dataclasses.replace(settings["recipe"], weigh_depths=False)
    before = DepthClassifier(**{**settings, "recipe": plain}).fit(x, y)
    for network in ("first", "deeper"):
        for part in ("layer", "head"):
            one, other = (getattr(getattr(est.model_.network, network), part) for est in (before, weighed))
            np.testing.assert_array_equal(one.weight_mean, other.weight_mean)
    assert weighed.held_out_nll_ < before.held_out_nll_
    assert weighed.depth_pmf_.sum() == pytest.approx(1)
    q, old = (predict.depth_masses(est.model_)[:, : len(before.depth_pmf_)] for est in (weighed, before))
    np.testing.assert_array_equal(q > 0, old > 0)
    assert np.abs(weighed.depth_pmf_ - before.depth_pmf_[: len(weighed.depth_pmf_)]).max() > 0.01
    np.testing.assert_allclose(
        weighed.depth_pmf_, (weighed.restart_shares_ @ q)[: len(weighed.depth_pmf_)], rtol=GRADIENT
    )


def test_weighed_depths_are_what_is_saved_and_warm_starts_begin_them_anew(deciding, weighed, tmp_path):
    x, y, _ = deciding
    weighed.save(tmp_path / "model.safetensors")
    loaded = load(tmp_path / "model.safetensors")
    np.testing.assert_array_equal(loaded.predict_proba(x), weighed.predict_proba(x))
    np.testing.assert_array_equal(loaded.depth_pmf_, weighed.depth_pmf_)
    np.testing.assert_allclose(
        weighed.uncertainty(x).total, scipy.special.entr(weighed.predict_proba(x)).sum(axis=1), rtol=GRADIENT
    )
    again = loaded.set_params(warm_start=True, max_iter=8).fit(x, y)
    assert again.score(x, y) > 0.5
    assert again.depth_pmf_.sum() == pytest.approx(1)


def test_fits_side_by_side_weigh_their_depths_by_their_own_rows(deciding):
    x, y, settings = deciding
    est = DepthClassifier(**{**settings, "max_iter": 20})
    parts = [est.problem(x[rows], y[rows]) for rows in (slice(200), slice(200, None))]
    problem, other = (dataclasses.replace(one, weight=None) for one in parts)
    how = [dataclasses.replace(est.settings(seed), own_length=True) for seed in (1, 2)]
    both = train([problem, other], how)
    for fit, (one, said) in enumerate(zip((problem, other), how, strict=True)):
        alone = predict.depth_masses(train(one, said).model)
        together = predict.depth_masses(both.model)[both.runs_of(fit)]
        np.testing.assert_allclose(
            together[:, : alone.shape[1]], alone[:, : together.shape[1]], rtol=GRADIENT, atol=1e-7
        )


def test_depths_are_left_alone_where_there_is_nothing_to_weigh_them_by(deciding):
    x, y, settings = deciding
    short = {**settings, "max_iter": 8}
    without = DepthClassifier(**short, early_stopping=False).fit(x, y)
    assert type(without.model_.depth_posterior) is NormalDepth
    fixed = DepthClassifier(**short, depth=1).fit(x, y)
    assert (fixed.depth_mode_, fixed.depth_std_) == (1, 0.0)


def test_numbers_weigh_their_depths_too():
    x = np.random.default_rng(2).uniform(-1, 1, size=(120, 1))
    plain = RECIPES["table"].suited(EitherNoiseLikelihood)
    recipe = dataclasses.replace(plain, name="weighed", weigh_depths=True)
    reg = DepthRegressor(recipe=recipe, width=6, max_iter=60, random_state=0).fit(x, np.sin(4 * x[:, 0]))
    assert type(reg.model_.depth_posterior) is CategoricalDepth
    lower, upper = reg.predict_interval(x[:5]).T
    assert np.all(lower < upper)


def test_the_noise_of_some_restarts_is_constant_and_of_others_not(tmp_path):
    x = RNG.uniform(-1, 1, size=(150, 1))
    y = x[:, 0] + np.where(x[:, 0] < 0, 0.05, 0.5) * RNG.normal(size=150)
    reg = DepthRegressor(width=8, random_state=0).fit(x, y)
    assert reg.noise == "auto"
    kinds = RECIPES["table"].suited(reg.model_.likelihood).kinds
    opens = np.array([kind.noise == "input" for kind in kinds] * 4)
    assert 0 < opens.sum() < 12
    np.testing.assert_array_equal(np.asarray(reg.model_.likelihood.opening), 1000 * opens)
    ends = np.array([[-0.5], [0.5]])
    _, noise = predict.sample_outputs(
        reg.model_, reg._units.inputs(ends), components=True, n_samples=3, key=reg._restarts.keys()
    )
    left, right = noise[..., 0, 0], noise[..., 1, 0]
    used = left > 0
    constant = np.broadcast_to(~opens[:, None, None], left.shape) & used
    np.testing.assert_array_equal(left[constant], right[constant])
    assert np.all(left[used & ~constant] != right[used & ~constant])
    assert reg.uncertainty(ends).noise[1] > 4 * reg.uncertainty(ends).noise[0]  # the rows have seen that it varies
    reg.save(tmp_path / "model.safetensors")
    np.testing.assert_array_equal(load(tmp_path / "model.safetensors").predict(x), reg.predict(x))


def test_a_quarter_of_the_rows_is_held_out_at_most():
    shares = {n: DepthClassifier(n_restarts=n).problem(X, NOISY).validation for n in (None, 1, 3, 6, 9, 12, 24)}
    assert shares == {None: 0.25, 1: 0.1, 3: 0.1, 6: 0.25, 9: 0.25, 12: 0.25, 24: 0.125}


def test_a_wrong_argument_keeps_its_name():
    with pytest.raises(InvalidArgumentError, match="`max_iter` must be a whole number of at least 1, got 0"):
        DepthClassifier(max_iter=0).fit(X, NOISY)


def test_without_kinds_there_is_one_noise():
    x = X[:, :1]
    reg = DepthRegressor(recipe="leadline", n_restarts=1, max_iter=3, random_state=0).fit(x, X[:, 1])
    assert type(reg.model_.likelihood) is GaussianLikelihood


def test_an_evaluation_is_calibrated_as_an_estimator_is():
    est = DepthClassifier(**SETTINGS)
    problem = dataclasses.replace(est.problem(X, NOISY), test=(X, NOISY))
    trained = train(problem, dataclasses.replace(est.settings(1), own_length=True))
    [fit] = evaluate([problem], trained, brief=True)
    calibration = trained.calibrated(problem).calibration
    assert calibration.nll is not None
    np.testing.assert_array_equal(fit.restarts.share, calibration.share)
    np.testing.assert_allclose(fit.said.probabilities, fit.restarts.moments(X), rtol=GRADIENT)
    assert fit.record.temperature == pytest.approx(calibration.share @ trained.temperatures[0])


def test_a_record_says_in_words_whom_the_rows_believe():
    record = functools.partial(
        Record, "table", "normal", 32, 0.5, 4, 9, 0, [1.0], 0.0, 0.0, 0, [0, 0], 1.0, "cpu", "0", n_test=0
    )
    said = restarts_in_words(
        record(restart_shares=[0.4, 0.1] * 2, restart_temperatures=[1.0, 0.05] * 2, spread=1.2, classes=["a", "b"])
    )
    assert "80 % from those at temperature 1 and 20 % from those at temperature 0.05" in said
    assert "softened: logits divided by 1.20" in said
    assert "narrowed by 10 %" in restarts_in_words(record(restart_shares=[1.0], restart_temperatures=[1.0], spread=0.9))
    said = restarts_in_words(record(spread=0.8, measures={"accuracy": 90.0}))
    assert said == "The answers together were sharpened: logits divided by 0.80, by the validation part."
    assert restarts_in_words(record()) == ""
