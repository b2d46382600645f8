"""Prediction against the average it stands for."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

from leadline import (
    FixedDepth,
    GaussianLikelihood,
    InvalidArgumentError,
    NormalDepth,
    evaluate_free_energy,
    free_energy,
    log_likelihood,
    predict,
)
from leadline.backend.device import Backend, pretending
from leadline.inference import montecarlo
from tests.inference.test_free_energy import POSTERIORS, make_model
from tests.network.test_unbounded import plain_network, without_noise
from tests.tolerances import CLOSED_FORM, MANY_SUMS, STANDARD_ERRORS

KEY = jnp.stack([jax.random.key(5)])
X = np.random.default_rng(0).normal(size=(40, 3))


def batch_of_one(model):
    return jax.tree.map(lambda a: a[None], model)


def quiet(model):
    return eqx.tree_at(lambda m: m.network, model, without_noise(model.network))


def softmax(output):
    exponentials = np.exp(output - output.max(axis=1, keepdims=True))
    return exponentials / exponentials.sum(axis=1, keepdims=True)


def test_without_weight_noise_it_is_the_mixture_over_depths():
    model = quiet(make_model(POSTERIORS["real"]))
    q = np.asarray(model.depth_posterior.pmf(5))
    expected = sum(q[depth] * softmax(plain_network(model.network, depth, X)) for depth in range(5))
    got = predict(batch_of_one(model), X, n_samples=3, key=KEY)[0]
    np.testing.assert_allclose(got, expected, rtol=MANY_SUMS, atol=CLOSED_FORM["float32"])


def test_it_averages_over_the_weights():
    """100 samples against a plain loop over 400 others, within the standard errors of both."""
    model = make_model(POSTERIORS["real"])
    q = np.asarray(model.depth_posterior.pmf(9))

    @jax.jit
    def one(key):
        outputs, _ = model.network.depths(jnp.asarray(X), highest=3, key=key, draw="weights")
        return jnp.tensordot(q, jax.nn.softmax(outputs), axes=1)

    draws = np.stack([one(key) for key in jax.random.split(jax.random.key(77), 400)])
    got = predict(batch_of_one(model), X, n_samples=100, key=KEY)[0]
    error = draws.std(axis=0) * np.sqrt(1 / 400 + 1 / 100)
    assert np.all(np.abs(got - draws.mean(axis=0)) <= STANDARD_ERRORS * error)
    np.testing.assert_allclose(got.sum(axis=1), 1, rtol=CLOSED_FORM["float32"])


@pytest.mark.parametrize("likelihood", [None, GaussianLikelihood(1, scale=0.5)])
def test_log_likelihood_is_the_log_of_the_mixture(likelihood):
    """From the same draws: the log of the predicted probability of the right class, or of a mixture of Gaussians."""
    model = make_model(POSTERIORS["real"], likelihood)
    if likelihood is None:
        y = np.arange(40) % 2
        expected = np.log(predict(batch_of_one(model), X, n_samples=7, key=KEY)[0][np.arange(40), y])
    else:
        y = np.linspace(-1, 1, 40)
        q = np.asarray(model.depth_posterior.pmf(9))
        draw = jax.jit(lambda key: model.network.depths(jnp.asarray(X), highest=3, key=key, draw="weights")[0])
        density = 0.0
        for i in range(7):
            outputs = draw(jax.random.fold_in(KEY[0], i))
            density += np.tensordot(q, stats.norm(np.asarray(outputs)[..., 0], 0.5).pdf(y), axes=1) / 7
        expected = np.log(density)
    got = log_likelihood(batch_of_one(model), X, y, n_samples=7, key=KEY)[0]
    np.testing.assert_allclose(got, expected, rtol=MANY_SUMS, atol=MANY_SUMS)


class Small(Backend):
    """A device that takes few rows at once."""

    rows_at_once = 16


def test_pieces_do_not_change_the_answer(monkeypatch):
    """All rows see the same draws, however they are cut: memory is bounded by the piece."""
    model = batch_of_one(make_model(POSTERIORS["real"]))
    whole = predict(model, X, n_samples=5, key=KEY)
    shapes, piece = [], montecarlo._piece
    monkeypatch.setattr(montecarlo, "_piece", lambda e, m, x, *a: shapes.append(x.shape) or piece(e, m, x, *a))
    with pretending(Small("cpu")):
        np.testing.assert_allclose(predict(model, X, n_samples=5, key=KEY), whole, rtol=CLOSED_FORM["float32"])
    assert shapes == [(16, 3), (16, 3), (8, 3)]


def test_regression_gives_mean_and_mean_square():
    model = quiet(make_model(NormalDepth(1.5, 0.3, 0.025, 0.975), GaussianLikelihood(1, scale=0.5)))
    q = np.asarray(model.depth_posterior.pmf(4))
    outputs = np.stack([plain_network(model.network, depth, X) for depth in range(4)])
    mean, square = np.moveaxis(predict(batch_of_one(model), X, n_samples=2, key=KEY)[0], 1, 0)
    np.testing.assert_allclose(mean, np.tensordot(q, outputs, 1), rtol=MANY_SUMS, atol=CLOSED_FORM["float32"])
    np.testing.assert_allclose(square, np.tensordot(q, outputs**2, 1) + 0.25, rtol=MANY_SUMS)


@pytest.mark.usefixtures("as_users_have_it")
def test_models_that_do_not_fit_are_refused():
    model = make_model(FixedDepth(20))
    needs = "must store all layers that q(L) needs, but its capacity is 8 and q(L) reaches depth 20"
    message = f"{needs}; `leadline.grow` stores more."
    with pytest.raises(InvalidArgumentError) as error:
        predict(batch_of_one(model), X, key=KEY)
    assert str(error.value) == f"`models` {message}"
    with pytest.raises(InvalidArgumentError) as error:
        free_energy(model, jnp.asarray(X), jnp.zeros(40, int), key=KEY[0])
    assert str(error.value) == f"`model` {message}"
    with pytest.raises(InvalidArgumentError, match=r"`models` and `key` must have one axis of runs, got shapes \(\)"):
        predict(model, X, key=KEY)


def test_free_energy_takes_targets_in_either_shape_and_refuses_wrong_ones():
    model = batch_of_one(make_model(NormalDepth(1.5, 0.3, 0.025, 0.975), GaussianLikelihood(1, scale=0.5)))
    y = np.linspace(-1, 1, 40)
    flat, column = (evaluate_free_energy(model, X, targets, n_samples=2, key=KEY) for targets in (y, y[:, None]))
    assert float(flat.expected_nll[0]) == float(column.expected_nll[0])
    with pytest.raises(InvalidArgumentError, match="`y` must be finite, got nan"):
        evaluate_free_energy(model, X, np.full(40, np.nan), key=KEY)


@pytest.mark.usefixtures("as_users_have_it")
@pytest.mark.parametrize(
    ("x", "arguments", "message"),
    [
        (np.ones((2, 2)), {}, "`x` must have 3 columns, got 2."),
        (np.full((1, 3), np.inf), {}, "`x` must be finite, got inf in row 0, column 0; 3 in all."),
        (np.ones((2, 3)), {"n_samples": 0}, "`n_samples` must be a whole number of at least 1, got 0."),
    ],
)
def test_wrong_input_gets_one_sentence(x, arguments, message):
    with pytest.raises(InvalidArgumentError) as error:
        predict(batch_of_one(make_model(POSTERIORS["real"])), x, key=KEY, **arguments)
    assert str(error.value) == message
