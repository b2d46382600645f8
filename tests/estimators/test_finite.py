"""What an estimator says is a finite number or one sentence, and a deviation has its digits however far away."""

import dataclasses
import pickle
import tracemalloc
import warnings

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import leadline
from leadline import DepthClassifier, DepthRegressor, InvalidArgumentError, predict
from leadline.backend.device import Backend, backend, pretending
from leadline.estimators.said import NoPredictionError
from leadline.files import models as modelfile
from leadline.inference.predict import depth_masses, sample_outputs
from tests.network.test_unbounded import without_noise
from tests.tolerances import CLOSED_FORM, MANY_SUMS

RNG = np.random.default_rng(0)
X = RNG.normal(size=(40, 3))
Y = X[:, 0] + 0.1 * RNG.normal(size=40)
SMALL = {"width": 4, "n_restarts": 3, "max_iter": 3, "random_state": 0}

pytestmark = pytest.mark.usefixtures("as_users_have_it")


@pytest.fixture(scope="module")
def numbers():
    return DepthRegressor(**SMALL).fit(X, Y)


@pytest.fixture(scope="module")
def classes():
    return DepthClassifier(**SMALL).fit(X, Y > 0)


@pytest.fixture(params=["engine", "JAX"])
def device(request):
    """With and without the engine."""
    with pretending(backend() if request.param == "engine" else Backend("cpu")):
        yield


def all_said(numbers, classes, x):
    """By the names of what is asked."""
    parts = lambda one: np.stack(dataclasses.astuple(one.uncertainty(x)))  # noqa: E731
    return {
        "predict_proba": lambda: classes.predict_proba(x),
        "predict of classes": lambda: classes.predict(x),
        "uncertainty of classes": lambda: parts(classes),
        "predict": lambda: numbers.predict(x, return_std=True),
        "predict_interval": lambda: numbers.predict_interval(x),
        "log_likelihood": lambda: numbers.log_likelihood(x, Y[: len(x)]),
        "predict_cdf": lambda: numbers.predict_cdf(x, Y[: len(x)]),
        "uncertainty": lambda: parts(numbers),
    }


@pytest.mark.parametrize("value", [1e39, 1e300, -1e308])
def test_a_row_too_far_away_is_refused(numbers, classes, device, value):
    """By row and column, without a warning, whatever is asked."""
    x = X[:3].copy()
    x[1, 2] = value
    for name, ask in all_said(numbers, classes, x).items():
        with warnings.catch_warnings(action="error"), pytest.raises(InvalidArgumentError) as error:
            ask()
        assert str(error.value).startswith("`X` must be near enough for finite predictions, got "), name
        assert str(error.value).endswith("in row 1, column 2; correct it or leave the row out."), name


@pytest.mark.parametrize("value", [1e-308, 1e10, 1e19, 1e25])
def test_a_row_far_away_gets_finite_numbers(numbers, classes, device, value):
    """Also where float32 does not hold their squares."""
    x = X[:3].copy()
    x[1, 2] = value
    for name, ask in all_said(numbers, classes, x).items():
        with warnings.catch_warnings(action="error"):
            assert np.isfinite(ask()).all(), name


def test_outputs_that_overflow_are_refused(classes, numbers):
    """The row fits into float32, and what the network makes of it does not."""
    x = X[:3].copy()
    x[2, 0] = 3e38 * numbers.x_scale_[0]
    for ask in all_said(numbers, classes, x).values():
        with warnings.catch_warnings(action="error"), pytest.raises(InvalidArgumentError, match="in row 2, column 0"):
            ask()


def test_a_target_too_far_away_has_no_log_likelihood_and_is_below_or_above_all(numbers):
    y = np.array([Y[0], -1e300, 1e308])
    with warnings.catch_warnings(action="error"), pytest.raises(InvalidArgumentError) as error:
        numbers.log_likelihood(X[:3], y)
    assert str(error.value).startswith("`y` must be near enough for finite predictions, got -1e+300, ")
    assert str(error.value).endswith("in row 1; correct it or leave the row out.")
    with warnings.catch_warnings(action="error"):
        np.testing.assert_allclose(numbers.predict_cdf(X[:3], y)[1:], [0, 1], rtol=CLOSED_FORM["float64"])
    with pytest.raises(InvalidArgumentError, match="`y` must be finite, got inf"):
        numbers.predict_cdf(X[:3], [0.0, 1.0, np.inf])


def test_variances_that_no_float_holds_are_refused_and_the_rest_is_said():
    for unit in (1e200, 1e-200):
        model = DepthRegressor(**SMALL).fit(X, unit * Y)
        assert np.isfinite(model.predict(X[:3], return_std=True)).all()
        with pytest.raises(InvalidArgumentError, match="`uncertainty`: no float holds the variances of a target"):
            model.uncertainty(X[:3])


@pytest.mark.parametrize(("x", "y", "name"), [(1e307 * X, Y, "X"), (X, 1e307 * Y, "y")])
def test_numbers_that_cannot_be_standardised_are_refused_under_their_name(x, y, name):
    with pytest.raises(
        InvalidArgumentError, match=f"`{name}` must hold numbers of at most 1e\\+302 in size, got .*row"
    ):
        DepthRegressor(**SMALL).fit(x, y)


def test_rows_for_the_models_themselves_must_fit_into_their_floats(numbers, device):
    with pytest.raises(InvalidArgumentError) as error:
        predict(numbers.model_, np.full((2, 3), 1e39), n_samples=1, key=jax.random.split(jax.random.key(0), 3))
    assert str(error.value) == "`x` must fit into float32, got 1e+39 in row 0, column 0; 6 in all."


@pytest.mark.parametrize("far", [0.0, 3e3, 1e6])
def test_a_tiny_deviation_far_from_zero_has_its_digits(numbers, device, far):
    """Means that many standard deviations away, noise of 1e-5: against the moments of the components in float64."""
    models = eqx.tree_at(
        lambda m: (m.network, m.likelihood.raw_scale),
        numbers.model_,
        (without_noise(numbers.model_.network), jnp.full((3, 1), np.log(1e-5))),
    )
    move = lambda m: (m.network.first.head.bias_mean, m.network.deeper.head.bias_mean)  # noqa: E731
    models = eqx.tree_at(move, models, jax.tree.map(lambda a: a + far, move(models)))
    model = DepthRegressor(**SMALL)
    model.__dict__ |= vars(numbers) | {"model_": models}
    x = model.x_mean_ + model.x_scale_ * X[:5]
    mean, std = model.predict(x, return_std=True)
    restarts = model._restarts
    each, scale = sample_outputs(models, X[:5], components=True, n_samples=restarts.samples_each, key=restarts.keys())
    share = model.restart_shares_[:, None] * depth_masses(models)
    share = np.repeat(share[:, None], each.shape[1], axis=1)[..., None, None] / each.shape[1]
    expected = np.sum(share * each.astype(float), axis=(0, 1, 2))[:, 0]
    parts = np.square(scale.astype(float)) + np.square(each.astype(float) - expected[:, None])
    variance = model.spread_[0] ** 2 * np.sum(share * parts, axis=(0, 1, 2))[:, 0]
    np.testing.assert_allclose(std, model.y_scale_ * np.sqrt(variance), rtol=MANY_SUMS)
    assert np.all(std > 0)
    np.testing.assert_allclose(mean, model.y_mean_ + model.y_scale_ * expected, rtol=CLOSED_FORM["float64"])
    np.testing.assert_allclose(model.uncertainty(x).total, std**2, rtol=MANY_SUMS)
    assert np.isfinite(model.said_of(x, mean).log_gaussian).all()


def of_samples(estimator, path, n_samples):
    """A file of such an estimator whose recipe says so."""
    estimator.save(path)
    config, tensors = modelfile.read(path)
    recipe = dataclasses.asdict(leadline.RECIPES["table"]) | {"n_samples": n_samples}
    recipe = {name: value for name, value in recipe.items() if name not in ("optimiser", "schedule")}
    config = {**config, "parameters": {**config["parameters"], "recipe": recipe}}
    modelfile.write(path, modelfile.file_of(config, tensors))
    return path


def test_a_file_cannot_ask_for_any_number_of_samples(numbers, tmp_path):
    with pytest.raises(InvalidArgumentError, match="`n_samples` must be at most 10000, got 1000000"):
        leadline.load(of_samples(numbers, tmp_path / "m", 1_000_000))
    with pytest.raises(InvalidArgumentError, match="`n_samples` must be at most 10000, got 10001"):
        dataclasses.replace(leadline.RECIPES["table"], n_samples=10_001)


def test_memory_does_not_grow_with_samples_times_rows(numbers, tmp_path):
    """All samples of 300 rows would take 300 times as much as those of one."""
    model = leadline.load(of_samples(numbers, tmp_path / "m", 10_000))
    x = np.tile(X, (8, 1))[:300]
    for ask in (model.predict, model.uncertainty, lambda x: model.predict_cdf(x, x[:, 0])):
        tracemalloc.start()
        ask(x)
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        assert peak < 8e7


@pytest.mark.parametrize("weight", [1e-300, 1e-45, 1e-7, 1e10, 1e38, 1e300])
@pytest.mark.parametrize("some", [1, 40])
def test_weights_beyond_what_training_computes_with_are_refused(weight, some):
    """Of one row, and of all."""
    weights = np.ones(40)
    weights[:some] = weight
    for model, y in ((DepthClassifier(**SMALL), Y > 0), (DepthRegressor(**SMALL), Y)):
        with pytest.raises(InvalidArgumentError) as error:
            model.fit(X, y, weights)
        must = "must give every row that counts a weight from 1e-06 to 1e+09"
        assert str(error.value) == f"`sample_weight` {must}, got {weight}; a row of weight 2 counts as two rows."
    with pytest.raises(InvalidArgumentError, match="`class_weight` must give every row that counts a weight"):
        DepthClassifier(**SMALL, class_weight={False: 1.0, True: weight}).fit(X, Y > 0)


@pytest.mark.parametrize(
    "weights", [np.r_[1e9, np.full(39, 1e-6)], np.r_[1e-6, np.full(39, 1e9)], np.r_[0, np.ones(39)]]
)
def test_weights_within_it_train(weights):
    for model, y in ((DepthClassifier(**SMALL), Y > 0), (DepthRegressor(**SMALL), Y)):
        with warnings.catch_warnings(action="ignore"):  # it may have to go on more slowly
            assert np.isfinite(model.fit(X, y, weights).predict(X)).all()


class PlannedError(Exception):
    """What goes wrong."""


def test_a_fit_that_fails_when_all_is_trained_leaves_all_as_it_was(monkeypatch):
    """Named columns, their number, scaling, classes and networks."""
    frame = frame_of(["a", "b", "c"])
    for kind, y, other in ((DepthClassifier, Y > 0, np.where(Y > 0, "p", "q")), (DepthRegressor, Y, 7 + 5 * Y)):
        model = kind(**SMALL).fit(frame, y)
        before, said = dict(vars(model)), model.predict(frame)

        def fail(*_):
            raise PlannedError

        with monkeypatch.context() as patch:
            patch.setattr("leadline.inference.restarts.Restarts.depth", fail)
            with pytest.raises(PlannedError):
                model.fit(frame_of(["d", "e"]), other)
        assert list(vars(model)) == list(before)
        assert all(vars(model)[name] is value for name, value in before.items())
        np.testing.assert_array_equal(model.predict(frame), said)
        assert model.fit(frame_of(["d", "e"]), other).feature_names_in_.tolist() == ["d", "e"]


def frame_of(names):
    pandas = pytest.importorskip("pandas")
    return pandas.DataFrame(X[:, : len(names)], columns=names)


def test_pruning_is_about_the_predictions_that_the_estimator_makes(classes):
    """One restart alone, where it has all the share; and sharper where they are."""
    model = DepthClassifier(**SMALL)
    model.__dict__ |= vars(classes) | {"restart_shares_": np.array([1.0, 0.0, 0.0])}
    asked = {"tolerance": 1e3}  # one unit is enough
    differences = []
    for spread in (1.0, 0.1):
        model.spread_ = np.array([spread])
        differences.append(model.prune(X, Y > 0, **asked).difference)
    alone = {"n_samples": model._restarts.samples_each, "key": model._restarts.keys()[:1]}
    own = leadline.prune(model.model_.some(slice(0, 1)), *model.training_rows(X, Y > 0), **asked, **alone)
    assert differences[0] == pytest.approx(own.difference, rel=MANY_SUMS)
    assert differences[1] > 2 * differences[0]


def test_numpy_s_errors_are_the_caller_s_affair():
    """Somebody who has NumPy raise on every underflow gets what others get."""
    x = np.random.default_rng(0).normal(size=(60, 3))
    small = {"width": 4, "n_restarts": 3, "max_iter": 3, "random_state": 0}
    for kind, y in ((DepthClassifier, x[:, 0] > 0), (DepthRegressor, 1e200 * x[:, 0])):
        expected = kind(**small).fit(1e-200 * x, y).predict(1e-200 * x)
        with np.errstate(all="raise"):
            model = kind(**small).fit(1e-200 * x, y)
            np.testing.assert_array_equal(model.predict(1e-200 * x), expected)
            model.prune(1e-200 * x, y)


def test_a_refusal_comes_out_of_another_process():
    """As it does from joblib's."""
    refused = NoPredictionError(3, 1, 1e300, 1e299)
    again = pickle.loads(pickle.dumps(refused))
    assert (str(again), again.row, again.column, again.got) == (str(refused), 3, 1, refused.got)


def test_measures_of_a_row_that_has_no_prediction_are_refused():
    x = np.random.default_rng(0).normal(size=(60, 2))
    model = DepthRegressor(width=4, n_restarts=1, max_iter=3, random_state=0).fit(x, x[:, 0])
    with pytest.raises(NoPredictionError, match="row 1, column 0"):
        model.said_of(np.array([[0.0, 0.0], [1e300, 0.0]]), np.zeros(2))


class Forgetful(DepthClassifier):
    """It pickles without what does not pickle."""

    def __getstate__(self):
        return {name: value for name, value in super().__getstate__().items() if name != "callback"}


def test_a_fit_does_not_go_through_a_pickle():
    x = np.random.default_rng(0).normal(size=(60, 2))
    heard = []
    model = Forgetful(width=4, n_restarts=1, max_iter=3, random_state=0, callback=lambda now: heard.append(now.epoch))
    model.fit(x, x[:, 0] > 0)
    assert model.callback is not None
    assert heard == [1, 2, 3]
