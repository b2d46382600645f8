"""The estimators: scikit-learn's contract, and known answers."""

import dataclasses
import logging
import pickle

import jax
import joblib
import matplotlib
import numpy as np
import pandas as pd
import pytest
from matplotlib import pyplot
from matplotlib.axes import Axes
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import GridSearchCV, StratifiedShuffleSplit, cross_val_score
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import leadline
from leadline import RECIPES, CategoricalDepth, DepthClassifier, DepthRegressor, InvalidArgumentError, NormalDepth
from leadline.likelihoods.mixture import GaussianMixture
from tests.tolerances import CLOSED_FORM, GRADIENT, MANY_SUMS

RNG = np.random.default_rng(0)
# Two classes that overlap, in two columns of other units. The first 60 rows train; 74 make folds of 59 and 60.
X = RNG.normal(size=(74, 2)) * [1, 100] + [0, 5000]
Y = (X[:, 0] + (X[:, 1] - 5000) / 100 + RNG.normal(size=74) > 0).astype(int)
TRAIN, REST = slice(0, 60), slice(60, 74)
FRAME, NAMES = pd.DataFrame(X[TRAIN], columns=["age", "dose"]), np.where(Y[TRAIN], "yes", "no")
# One number, one column.
LINE = np.linspace(-1, 1, 60)[:, None]
SINE = np.sin(3 * LINE[:, 0]) + 0.1 * RNG.normal(size=60)

SETTINGS = {"width": 8, "n_restarts": 2, "max_iter": 300, "random_state": 0}
# The default but for a number that no other test has: whoever is first here compiles its program.
OWN_RECIPE = dataclasses.replace(RECIPES["leadline"], warm_up_power=1.9)


def classifier(**changes):
    return DepthClassifier(**{**SETTINGS, "recipe": OWN_RECIPE, **changes})


def regressor(**changes):
    return DepthRegressor(**{**SETTINGS, "learning_rate_init": 0.02, **changes})


def brief(**changes):
    """A fit of few epochs, where nothing depends on what is learned."""
    return DepthClassifier(**{**SETTINGS, "early_stopping": False, "max_iter": 5, **changes})


@pytest.fixture(scope="module")
def folds():
    """The scores of five folds with 59 and 60 rows to train on, and the messages of the compiler meanwhile."""
    messages = []
    handler = logging.Handler()
    handler.emit = lambda record: messages.append(record.getMessage())
    logging.getLogger("jax").addHandler(handler)
    with jax.log_compiles():
        scores = cross_val_score(classifier(class_weight="balanced"), X, Y, cv=5)
    logging.getLogger("jax").removeHandler(handler)
    return scores, messages


@pytest.fixture(scope="module")
def clf(folds):
    return classifier().fit(X[TRAIN], Y[TRAIN])


@pytest.fixture(scope="module")
def named(clf):
    return classifier().fit(FRAME, NAMES)


@pytest.fixture(scope="module")
def reg():
    return regressor(noise="constant").fit(LINE, SINE)


@pytest.fixture(autouse=True)
def without_windows():
    matplotlib.use("agg")
    yield
    pyplot.close("all")


def assert_same_fit(one, other):
    for a, b in zip(jax.tree.leaves(one.model_), jax.tree.leaves(other.model_), strict=True):
        np.testing.assert_array_equal(a, b)
    for name in one.history_:
        np.testing.assert_array_equal(one.history_[name], other.history_[name])
    for name in ("x_mean_", "x_scale_", "free_energy_", "n_iter_", "temperature_"):
        np.testing.assert_array_equal(getattr(one, name), getattr(other, name))


# What is learned, and its names


@pytest.mark.parametrize("name", ["clf", "reg"])
def test_fitted_attributes_agree_with_each_other(name, request):
    est = request.getfixturevalue(name)
    depth = np.arange(len(est.depth_pmf_))
    assert isinstance(est.depth_pmf_, np.ndarray)
    assert est.depth_pmf_.sum() == pytest.approx(1, rel=MANY_SUMS)
    assert est.depth_pmf_[-1] > 0
    assert isinstance(est.depth_mean_, float)
    assert est.depth_mean_ == pytest.approx(est.depth_pmf_ @ depth, rel=CLOSED_FORM["float64"])
    assert est.depth_std_ == pytest.approx(np.sqrt(est.depth_pmf_ @ (depth - est.depth_mean_) ** 2))
    assert isinstance(est.depth_mode_, int)
    assert est.depth_pmf_[est.depth_mode_] == est.depth_pmf_.max()
    lowest, highest = est.depth_support_
    assert isinstance(est.depth_support_, tuple)
    assert (lowest, highest) == (np.flatnonzero(est.depth_pmf_)[0], len(depth) - 1)

    terms = est.free_energy_terms_
    assert isinstance(est.free_energy_, float)
    assert est.free_energy_ == pytest.approx(
        terms["expected_nll"] + terms["depth_kl"] + terms["weight_kl"], rel=CLOSED_FORM["float32"]
    )
    by_layer = terms["weight_kl_by_layer"]
    assert sum(by_layer["layers"] + by_layer["heads"]) == pytest.approx(terms["weight_kl"], rel=MANY_SUMS)

    assert isinstance(est.n_iter_, int)
    assert 3 <= est.n_iter_ <= 300
    assert set(est.history_) == {
        *("free_energy", "validation_nll", "expected_nll", "depth_kl", "weight_kl"),
        *("depth_mean", "depth_std", "depth_support"),
    }
    assert all(column.shape[:2] == (est.n_iter_, 2) for column in est.history_.values())
    share = getattr(est, "restart_shares_", np.full(2, 0.5))
    assert share @ est.history_["depth_mean"][-1] == pytest.approx(est.depth_mean_, rel=MANY_SUMS)
    assert est.interrupted_ is False
    widths = est.effective_width()
    assert len(widths) == 2
    assert all(0 <= width <= 8 for run in widths for width in run)


def test_there_are_few_arguments_and_the_names_of_scikit_learn():
    assert len(classifier().get_params()) <= len(MLPClassifier().get_params())
    assert set(regressor().get_params()) ^ set(classifier().get_params()) == {"class_weight", "noise"}


def test_checkpoints_without_a_seed_are_refused(tmp_path):
    with pytest.raises(InvalidArgumentError, match="`random_state` must be given with a `checkpoint_dir`, got None"):
        brief(checkpoint_dir=tmp_path, random_state=None).fit(X[TRAIN], Y[TRAIN])


def test_the_temperatures_are_the_recipes(clf, reg):
    assert clf.temperature_ == RECIPES["leadline"].temperature == 0.15
    of_kinds = [one.temperature for one in RECIPES["table"].suited(reg.model_.likelihood).by_restart(2)]
    np.testing.assert_array_equal(reg.restart_temperatures_, of_kinds)
    assert reg.temperature_ == pytest.approx(reg.restart_shares_ @ of_kinds)
    assert brief(temperature=0.5).fit(X[TRAIN], Y[TRAIN]).temperature_ == 0.5


def test_classes_are_predicted(clf):
    p = clf.predict_proba(X)
    assert p.shape == (74, 2)
    np.testing.assert_allclose(p.sum(axis=1), 1, rtol=CLOSED_FORM["float64"])
    np.testing.assert_array_equal(clf.predict(X), p.argmax(axis=1))
    np.testing.assert_allclose(clf.predict_log_proba(X), np.log(p), rtol=CLOSED_FORM["float64"])
    # The best guess without a look at x has one of two right; the line between the classes, three of four or more.
    assert clf.score(X[TRAIN], Y[TRAIN]) > 0.7
    assert clf.score(X[REST], Y[REST]) == np.mean(p[REST].argmax(axis=1) == Y[REST])


def test_the_uncertainty_of_classes_sums_to_the_entropy_of_the_prediction(clf):
    parts = clf.uncertainty(X[REST])
    p = clf.predict_proba(X[REST])
    np.testing.assert_allclose(parts.total, -(p * np.log(p)).sum(axis=1), rtol=MANY_SUMS)
    assert min(part.min() for part in (parts.noise, parts.weights, parts.depth)) >= 0


def test_classes_and_columns_keep_their_names(clf, named):
    assert named.classes_.tolist() == ["no", "yes"]
    assert named.feature_names_in_.tolist() == ["age", "dose"]
    assert named.n_features_in_ == 2
    np.testing.assert_array_equal(named.predict(FRAME), np.where(clf.predict(X[TRAIN]), "yes", "no"))
    np.testing.assert_array_equal(named.predict_proba(FRAME), clf.predict_proba(X[TRAIN]))  # what is in a name?
    with pytest.warns(UserWarning, match="does not have valid feature names"):
        named.predict(X)


def test_columns_with_other_names_are_refused(clf, named):
    with pytest.raises(ValueError, match="must have all columns of the training table, got none named age"):
        named.predict(FRAME.rename(columns={"age": "years"}))
    # In which order they come, and what stands between them, is no matter.
    mixed = FRAME.assign(more="text")[["dose", "more", "age"]]
    np.testing.assert_array_equal(named.predict_proba(mixed), named.predict_proba(FRAME))
    with pytest.raises(ValueError, match="X has 1 features, but DepthClassifier is expecting 2 features"):
        clf.predict(X[:, :1])


# Weights of rows and classes


def test_a_heavier_class_is_more_probable(clf):
    x, y = X[TRAIN], Y[TRAIN]
    heavy = classifier(class_weight={0: 1, 1: 8}).fit(x, y)
    assert np.mean(heavy.predict_proba(x)[:, 1]) > np.mean(clf.predict_proba(x)[:, 1]) + 0.1
    assert_same_fit(heavy, classifier().fit(x, y, np.where(y == 1, 8.0, 1.0)))
    assert_same_fit(heavy, classifier(class_weight={0: 0.5, 1: 4}).fit(x, y, np.full(60, 2.0)))


def test_balanced_classes_have_the_same_weight_in_all():
    x, y = X[TRAIN][20:], Y[TRAIN][20:]
    x, y = np.concatenate([x, X[TRAIN][:20]]), np.concatenate([y, np.zeros(20, int)])  # the second class is rare
    balanced = brief(class_weight="balanced").fit(x, y)
    assert_same_fit(balanced, brief(class_weight=dict(enumerate(60 / (2 * np.bincount(y))))).fit(x, y))
    weight = np.random.default_rng(1).integers(1, 4, 60)  # and a row of weight 2 is two rows here too
    weighed = brief(class_weight="balanced").fit(x, y, weight)
    assert_same_fit(weighed, brief(class_weight="balanced").fit(np.repeat(x, weight, axis=0), np.repeat(y, weight)))


def test_a_heavier_row_is_fitted_better(clf):
    """A row on the wrong side, with the weight of all others together."""
    x, y = X[TRAIN], Y[TRAIN]
    wrong = np.argmin(clf.predict_proba(x)[np.arange(60), y])
    weight = np.ones(60)
    weight[wrong] = 60
    heavy = classifier().fit(x, y, weight)
    before, after = (est.predict_proba(x[[wrong]])[0, y[wrong]] for est in (clf, heavy))
    assert after > before + 0.2


@pytest.mark.parametrize(
    ("kind", "x", "y", "predict"),
    [(classifier, X[TRAIN], Y[TRAIN], "predict_proba"), (regressor, LINE, SINE, "predict")],
    ids=["classes", "numbers"],
)
def test_a_weight_is_a_number_of_rows_and_the_order_of_the_rows_does_not_matter(kind, x, y, predict):
    weight = np.random.default_rng(1).integers(1, 4, 60)
    weighed = kind().fit(x, y, weight)
    order = np.random.default_rng(2).permutation(weight.sum())
    repeated = kind().fit(np.repeat(x, weight, axis=0)[order], np.repeat(y, weight)[order])
    assert_same_fit(weighed, repeated)
    np.testing.assert_array_equal(getattr(weighed, predict)(x), getattr(repeated, predict)(x))


# Seeds, copies, scikit-learn's tools


def test_the_same_random_state_gives_the_same_bits_and_another_does_not(clf):
    again = classifier().fit(X[TRAIN], Y[TRAIN])
    assert_same_fit(clf, again)
    np.testing.assert_array_equal(clf.predict_proba(X), again.predict_proba(X))
    other = classifier(random_state=1).fit(X[TRAIN], Y[TRAIN])
    assert np.all(other.predict_proba(X) != clf.predict_proba(X))
    drawn = [classifier(random_state=np.random.RandomState(5)).fit(X[TRAIN], Y[TRAIN]).seed_ for _ in range(2)]
    assert drawn[0] == drawn[1] != clf.seed_


def test_copies_predict_the_same_to_the_bit(clf, tmp_path):
    expected = clf.predict_proba(X)
    for copy in (pickle.loads(pickle.dumps(clf)), _through_joblib(clf, tmp_path)):
        assert_same_fit(clf, copy)
        np.testing.assert_array_equal(copy.predict_proba(X), expected)
        np.testing.assert_array_equal(copy.uncertainty(X[:5]).depth, clf.uncertainty(X[:5]).depth)
    fresh = clone(clf)
    assert not hasattr(fresh, "model_")
    np.testing.assert_array_equal(fresh.fit(X[TRAIN], Y[TRAIN]).predict_proba(X), expected)


def _through_joblib(est, tmp_path):
    joblib.dump(est, tmp_path / "est.joblib")
    return joblib.load(tmp_path / "est.joblib")


def test_objects_as_arguments_can_be_cloned():
    recipe = dataclasses.replace(RECIPES["leadline"], warm_up=0.8)
    given = classifier(recipe=recipe, depth=(NormalDepth(0.0, 1.15), CategoricalDepth(3)), class_weight={0: 2, 1: 1})
    copy = clone(given)
    assert copy.recipe == recipe
    assert copy.class_weight == {0: 2, 1: 1}
    assert float(copy.depth[0].scale) == float(given.depth[0].scale)


@pytest.mark.usefixtures("clf")
def test_it_works_in_a_pipeline_and_a_grid_search():
    """The best of the grid, fitted again to all rows, is the pipeline fitted directly."""
    x, y = X[TRAIN], Y[TRAIN]
    pipeline = make_pipeline(StandardScaler(), classifier())
    grid = {"depthclassifier__temperature": [0.15, 100.0]}
    search = GridSearchCV(
        pipeline, grid, cv=StratifiedShuffleSplit(4, test_size=3, random_state=0), scoring="neg_log_loss"
    )
    search.fit(x, y)
    assert search.best_params_ == {"depthclassifier__temperature": 0.15}  # at 100 nothing is learned
    np.testing.assert_array_equal(search.predict_proba(X), pipeline.fit(x, y).predict_proba(X))


def test_five_folds_compile_nothing(folds):
    scores, messages = folds
    assert not any("Finished XLA compilation" in r for r in messages)
    assert len(scores) == 5
    assert np.mean(scores) > 0.6


# The length of the training


def test_a_warm_start_starts_from_the_weights_of_the_last_fit():
    """One more epoch at the rate 0: the weights are those of the last fit, where a cold start draws new ones."""
    x, y = X[TRAIN], Y[TRAIN]
    est = brief().fit(x, y)
    before = est.model_.network.first.layer.weight_mean
    still = est.set_params(learning_rate_init=0.0, max_iter=1)
    cold = clone(still).fit(x, y)
    assert np.all(cold.model_.network.first.layer.weight_mean != before)
    warm = still.set_params(warm_start=True).fit(x, y)
    np.testing.assert_array_equal(warm.model_.network.first.layer.weight_mean, before)
    assert warm.n_iter_ == 1


def test_a_warm_start_at_several_temperatures_starts_all_of_them_from_the_last_fit():
    x, y = X[TRAIN], Y[TRAIN]
    est = brief().fit(x, y)
    before = est.model_.network.first.layer.weight_mean
    warm = est.set_params(learning_rate_init=0.0, max_iter=1, warm_start=True, temperature="auto").fit(x, y)
    np.testing.assert_array_equal(warm.model_.network.first.layer.weight_mean, before)


def test_a_warm_start_needs_the_same_classes():
    est = brief(warm_start=True).fit(X[TRAIN], Y[TRAIN])
    with pytest.raises(InvalidArgumentError) as error:
        est.fit(X[TRAIN], Y[TRAIN] + 1)
    assert str(error.value) == "`y` must have the classes of the last fit for a warm start, [0, 1], got [1, 2]."


def test_without_early_stopping_all_epochs_are_done_and_the_callback_hears_of_each():
    seen = []
    est = brief(max_iter=37, callback=seen.append).fit(X[TRAIN], Y[TRAIN])
    assert est.n_iter_ == 37
    assert [now.epoch for now in seen] == list(range(1, 38))
    assert {now.epochs for now in seen} == {37}
    np.testing.assert_allclose([now.depth_mean for now in seen], est.history_["depth_mean"].mean(axis=1), rtol=1e-6)
    np.testing.assert_allclose([now.nll for now in seen], est.history_["validation_nll"].mean(axis=1), rtol=1e-6)
    assert not est.interrupted_


def test_a_callback_can_end_the_training():
    seen = []
    est = classifier(callback=lambda now: seen.append(now.epoch) or now.epoch >= 20).fit(X[TRAIN], Y[TRAIN])
    assert seen == list(range(1, est.n_iter_ + 1))
    assert 20 <= est.n_iter_ < 300
    assert est.interrupted_
    assert est.predict_proba(X).shape == (74, 2)
    at_once = classifier(callback=lambda now: True).fit(X[TRAIN], Y[TRAIN])
    assert at_once.n_iter_ == 1


@pytest.mark.parametrize("max_iter", [3, 30, 300])
def test_the_most_epochs_are_not_exceeded(max_iter):
    est = classifier(max_iter=max_iter).fit(X[TRAIN], Y[TRAIN])
    assert est.n_iter_ <= max_iter
    assert not est.interrupted_


def test_a_progress_line_is_shown_where_it_is_asked_for(capsys):
    brief(verbose=True).fit(X[TRAIN], Y[TRAIN])
    assert "beginning" in capsys.readouterr().err
    brief().fit(X[TRAIN], Y[TRAIN])
    assert capsys.readouterr().err == ""


# Numbers


def test_numbers_are_predicted_in_their_own_units(reg):
    """1000 y + 5: the same network, all that is said of y times 1000, and densities a thousandth."""
    other = regressor(noise="constant").fit(LINE, 1000 * SINE + 5)
    mean, std = reg.predict(LINE, return_std=True)
    new_mean, new_std = other.predict(LINE, return_std=True)
    float64 = CLOSED_FORM["float64"]
    np.testing.assert_allclose(new_mean, 1000 * mean + 5, rtol=float64)
    np.testing.assert_allclose(new_std, 1000 * std, rtol=float64)
    np.testing.assert_allclose(other.predict_interval(LINE), 1000 * reg.predict_interval(LINE) + 5, rtol=float64)
    np.testing.assert_allclose(other.uncertainty(LINE).depth, 1e6 * reg.uncertainty(LINE).depth, rtol=float64)
    assert other.noise_scale_ == pytest.approx(1000 * reg.noise_scale_, rel=float64)
    shift = np.log(1000)
    assert other.free_energy_ - reg.free_energy_ == pytest.approx(60 * shift, rel=float64)
    assert other.held_out_nll_ - reg.held_out_nll_ == pytest.approx(shift, rel=float64)
    nll = [est.free_energy_terms_["expected_nll"] for est in (reg, other)]
    assert nll[1] - nll[0] == pytest.approx(60 * shift, rel=float64)
    np.testing.assert_allclose(
        other.log_likelihood(LINE, 1000 * SINE + 5), reg.log_likelihood(LINE, SINE) - shift, rtol=float64
    )
    # The history too: the validation NLL per row, the free energy for the 54 rows that a restart trains on.
    gaps = {name: other.history_[name] - reg.history_[name] for name in ("validation_nll", "free_energy", "depth_mean")}
    for name, n_rows in {"validation_nll": 1, "free_energy": 54, "depth_mean": 0}.items():
        np.testing.assert_allclose(gaps[name], n_rows * shift, rtol=CLOSED_FORM["float32"])


def test_the_sine_and_its_noise_are_learned(reg):
    mean, std = reg.predict(LINE, return_std=True)
    np.testing.assert_array_equal(reg.predict(LINE), mean)
    assert reg.score(LINE, SINE) > 0.9
    assert 0.05 < reg.noise_scale_ < 0.25  # 0.1 is meant, in 300 epochs
    assert np.all(std**2 >= reg.uncertainty(LINE).noise * (1 - MANY_SUMS))
    parts = reg.uncertainty(LINE)
    np.testing.assert_allclose(parts.total, std**2, rtol=MANY_SUMS)
    np.testing.assert_allclose(parts.noise, reg.noise_scale_**2, rtol=MANY_SUMS)


def test_intervals_are_nested_and_hold_what_the_distribution_says(reg):
    intervals = {c: reg.predict_interval(LINE, coverage=c) for c in (0.01, 0.5, 0.9, 0.99)}
    for narrow, wide in zip(list(intervals.values())[:-1], list(intervals.values())[1:], strict=True):
        assert np.all(wide[:, 0] < narrow[:, 0])
        assert np.all(narrow[:, 0] < narrow[:, 1])
        assert np.all(narrow[:, 1] < wide[:, 1])
    for coverage, ends in intervals.items():
        for end, level in zip(ends.T, (0.5 - coverage / 2, 0.5 + coverage / 2), strict=True):
            np.testing.assert_allclose(reg.predict_cdf(LINE, end), level, rtol=CLOSED_FORM["float64"])
    np.testing.assert_array_equal(reg.predict_interval(LINE), intervals[0.9])
    for read in (reg.predict_cdf, reg.log_likelihood):
        np.testing.assert_array_equal(read(LINE, SINE[:, None]), read(LINE, SINE))
        with pytest.raises(InvalidArgumentError, match=r"`y` must hold 1 numbers for each of 60 rows, got shape"):
            read(LINE, np.stack([SINE, SINE], axis=1))
    many = np.tile(LINE, (20, 1))  # more rows than are looked at together
    np.testing.assert_allclose(reg.predict_interval(many), np.tile(intervals[0.9], (20, 1)), rtol=MANY_SUMS)
    one = reg.log_likelihood(LINE, SINE)
    np.testing.assert_allclose(reg.log_likelihood(many, np.tile(SINE, 20)), np.tile(one, 20), rtol=MANY_SUMS)


def test_the_mixture_has_the_moments_of_the_prediction_and_the_density_of_its_cdf(reg):
    mean, std = reg.predict(LINE, return_std=True)
    mixture = reg._restarts.mixture(reg._checked(LINE))
    assert isinstance(mixture, GaussianMixture)
    assert mixture.share.sum() == pytest.approx(1, rel=MANY_SUMS)
    mixed, variance = mixture.moments()
    np.testing.assert_allclose(reg.y_mean_ + reg.y_scale_ * mixed[:, 0], mean, atol=MANY_SUMS)
    np.testing.assert_allclose(reg.y_scale_ * np.sqrt(variance[:, 0]), std, rtol=MANY_SUMS)
    step = 1e-4 * reg.y_scale_
    slope = (reg.predict_cdf(LINE, SINE + step) - reg.predict_cdf(LINE, SINE - step)) / (2 * step)
    np.testing.assert_allclose(np.exp(reg.log_likelihood(LINE, SINE)), slope, rtol=GRADIENT)


def test_two_numbers_are_predicted_together(tmp_path):
    """What is said of each has an axis more, and its own units; the density is that of both."""
    y = np.stack([SINE, 100 * LINE[:, 0] + 7 + 10 * np.random.default_rng(1).normal(size=60)], axis=1)
    reg = regressor(noise="input").fit(LINE, y)
    mean, std = reg.predict(LINE, return_std=True)
    assert mean.shape == std.shape == (60, 2)
    assert np.all(reg.y_scale_ == pytest.approx(y.std(axis=0)))
    assert reg.score(LINE, y) > 0.8
    intervals, cdf = reg.predict_interval(LINE), reg.predict_cdf(LINE, y)
    assert (intervals.shape, cdf.shape) == ((60, 2, 2), (60, 2))
    np.testing.assert_allclose(reg.predict_cdf(LINE, intervals[..., 0]), 0.05, rtol=CLOSED_FORM["float64"])
    parts = reg.uncertainty(LINE)
    np.testing.assert_allclose(parts.total, std**2, rtol=MANY_SUMS)
    np.testing.assert_allclose(reg.noise_scale_, np.sqrt(parts.noise.mean(axis=0)), rtol=MANY_SUMS)
    # The joint density integrates over the second target to the first one's.
    step = 1.0
    grid = np.arange(-400, 400, step)
    density = [np.exp(reg.log_likelihood(LINE[:1], [[SINE[0], other]]))[0] for other in grid]
    slope = np.diff(reg.predict_cdf(np.repeat(LINE[:1], 2, axis=0), [[SINE[0] - 1e-4, 0], [SINE[0] + 1e-4, 0]])[:, 0])
    assert step * np.sum(density) == pytest.approx(slope[0] / 2e-4, rel=GRADIENT)
    reg.save(tmp_path / "two.safetensors")
    np.testing.assert_array_equal(leadline.load(tmp_path / "two.safetensors").predict(LINE), mean)
    with pytest.raises(InvalidArgumentError, match="`y` must be one number to draw the fit, got 2 targets"):
        reg.plot_fit(LINE, y)


def test_noise_that_grows_is_learned_where_it_is_asked_for():
    """y = x with noise of scale 0.05 on the left and 0.5 on the right."""
    rng = np.random.default_rng(3)
    x = rng.uniform(-1, 1, (400, 1))
    y = x[:, 0] + np.where(x[:, 0] < 0, 0.05, 0.5) * rng.normal(size=400)
    sides = np.array([[-0.5], [0.5]])
    noise = {
        kind: np.sqrt(regressor(noise=kind, n_restarts=6).fit(x, y).uncertainty(sides).noise)
        for kind in ("constant", "input")
    }
    assert noise["constant"][0] == noise["constant"][1]
    assert 0.03 < noise["input"][0] < 0.1
    assert 0.35 < noise["input"][1] < 0.65
    with pytest.raises(InvalidArgumentError, match="`noise` must be one of constant, input, auto, got 'none'"):
        regressor(noise="none").fit(x, y)


# Pruning and pictures


def test_a_pruned_network_is_narrower_and_predicts_about_the_same(clf):
    small = clf.prune(X[TRAIN], Y[TRAIN], tolerance=0.05)
    assert 1 <= small.width <= 8
    assert small.difference < 0.05
    assert small.depth == clf.depth_support_[1]
    assert small.model.network.width == small.width


def test_plots_are_axes(clf, named, reg):
    assert isinstance(clf.plot_depth(), Axes)
    heights = [bar.get_height() for bar in clf.plot_depth().containers[1]]
    np.testing.assert_allclose(heights[: len(clf.depth_pmf_)], clf.depth_pmf_)
    assert [isinstance(ax, Axes) for ax in reg.plot_history()] == [True, True]
    assert isinstance(named.plot_reliability(FRAME, NAMES), Axes)
    plane = clf.plot_decision(X[TRAIN], Y[TRAIN])
    low, high = plane.get_xlim()
    assert low < X[TRAIN, 0].min() < X[TRAIN, 0].max() < high  # in the units of the table
    fit = reg.plot_fit(LINE, SINE)
    x, mean = fit.lines[0].get_xydata().T
    np.testing.assert_allclose(mean[::50], reg.predict(x[::50, None]), rtol=MANY_SUMS)
    given = pyplot.subplots()[1]
    assert reg.plot_fit(LINE, SINE, ax=given) is given


# Errors


@pytest.mark.usefixtures("as_users_have_it")
def test_wrong_arguments_get_one_sentence(clf, reg):
    three = pickle.loads(pickle.dumps(clf))
    three.n_features_in_ = 3  # which is all that is looked at before
    odd = "37 of 74 rows: 1, 3, 5, ...; leave such rows out."
    cases = {
        "`y` must hold at least two classes, got one class: [1].": lambda: brief().fit(X, np.ones(74, int)),
        f"`y` must have a value in every row, got none (NaN) in {odd}": lambda: brief().fit(X, [None, 1] * 37),
        "`y` must hold labels of one type, got int, str.": lambda: brief().fit(X, np.array(["a", 1] * 37, object)),
        "`width` must be a whole number of at least 1, got '4'.": lambda: brief(width="4").fit(X, Y),
        "`n_restarts` must be a whole number of at least 1, got '4'.": lambda: brief(n_restarts="4").fit(X, Y),
        "`coverage` must lie between 0 and 1, got 1.5.": lambda: reg.predict_interval(LINE, coverage=1.5),
        "`coverage` must lie between 0 and 1, got 0.": lambda: reg.predict_interval(LINE, coverage=0),
        "`X` must have two columns to draw its plane, got 3.": lambda: three.plot_decision(np.ones((9, 3)), Y[:9]),
        "`width` must be a whole number of at least 1, got 0.": lambda: brief(width=0).fit(X, Y),
        "`validation_fraction` must lie between 0 and 1, got 1.5.": lambda: brief(validation_fraction=1.5).fit(X, Y),
        "`max_iter` must be a whole number of at least 1, got 0.": lambda: brief(max_iter=0).fit(X, Y),
        "`recipe` must be one of leadline, table, image, published, written, got 'best'.": lambda: brief(
            recipe="best"
        ).fit(X, Y),
        "`learning_rate_init` must be at least 0, got -1.": lambda: brief(learning_rate_init=-1).fit(X, Y),
        "`batch_size` must be a whole number of at least 1, got 0.": lambda: brief(batch_size=0).fit(X, Y),
        "`y` must hold the classes [0, 1], got 7.": lambda: clf.plot_reliability(X, np.full(74, 7)),
        "`y` must hold the classes [0, 1], got 8.": lambda: clf.training_rows(X, np.full(74, 8)),
    }
    for message, call in cases.items():
        with pytest.raises(InvalidArgumentError) as error:
            call()
        assert str(error.value) == message


@pytest.mark.usefixtures("as_users_have_it")
@pytest.mark.parametrize("kind", [DepthClassifier, DepthRegressor])
@pytest.mark.parametrize("frame", [False, True])
def test_a_target_that_is_missing_is_named_with_its_rows(kind, frame):
    x = pd.DataFrame(X, columns=["a", "b"]) if frame else X
    said = r"^`y` must have a value in every row, got none \(NaN\) in 2 of 74 rows: 3, 8; leave such rows out\.$"
    for y in (Y.astype(float), Y.astype(str).astype(object), pd.Series(Y, dtype="Int64"), pd.Series(Y, dtype="string")):
        gaps = pd.Series(y).mask(np.isin(np.arange(74), [2, 7]))
        with pytest.raises(InvalidArgumentError, match=said):
            kind().fit(x, gaps)


@pytest.mark.parametrize(
    "wrong",
    [
        ["no"] * 73 + ["yes"],
        np.array(["1"] * 73 + ["no"]),
        np.arange(74).astype("datetime64[D]"),
        [1, "no", *range(72)],
    ],
)
def test_numbers_are_learned_of_numbers_alone(wrong):
    """Dates were numbers of nanoseconds, in silence."""
    for y in (wrong, pd.Series(wrong)):
        with pytest.raises(InvalidArgumentError, match=r"^`y` must hold numbers, got '(no|1970-01-01[^']*)'\.$"):
            DepthRegressor().fit(X, y)


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_a_gap_in_an_array_is_named_with_its_place(clf, value):
    x = np.array(X)
    x[5, 1] = x[7, 0] = value
    said = f"`X` must hold finite numbers, got {'NaN' if value != value else 'inf'} in row 5, column 1, 2 in all"
    said += "; a gap may be in a DataFrame." if value != value else "."
    for call in (lambda: brief().fit(x, Y), lambda: clf.predict(x)):
        with pytest.raises(InvalidArgumentError) as error:
            call()
        assert str(error.value) == said


def test_scikit_learns_own_checks_hold(reg):
    with pytest.raises(ValueError, match="Unknown label type: continuous"):
        brief().fit(X, np.linspace(0, 1, 74))
    with pytest.raises(ValueError, match="inconsistent numbers of samples"):
        brief().fit(X, Y[:-1])
    for call in (reg.predict_cdf, reg.log_likelihood):
        with pytest.raises(ValueError, match="inconsistent numbers of samples"):
            call(LINE, SINE[:-1])
    with pytest.raises(ValueError, match="Negative values in data passed to `sample_weight`"):
        brief().fit(X, Y, -np.ones(74))


@pytest.mark.parametrize(
    "call",
    [
        lambda: classifier().predict(X),
        lambda: classifier().predict_proba(X),
        lambda: classifier().uncertainty(X),
        lambda: classifier().plot_decision(X, Y),
        lambda: classifier().plot_depth(),
        lambda: classifier().plot_history(),
        lambda: classifier().plot_reliability(X, Y),
        lambda: classifier().save("model.safetensors"),
        lambda: classifier().effective_width(),
        lambda: classifier().prune(X, Y),
        lambda: regressor().predict_interval(LINE),
        lambda: regressor().predict_cdf(LINE, SINE),
        lambda: regressor().plot_fit(LINE, SINE),
    ],
)
def test_what_is_not_fitted_says_so(call):
    with pytest.raises(NotFittedError, match="is not fitted yet"):
        call()
