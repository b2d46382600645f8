"""Likelihoods against scipy, and what they say about wrong targets."""

import jax.numpy as jnp
import numpy as np
import pytest
from scipy import special, stats

from leadline import CategoricalLikelihood, GaussianLikelihood, HeteroscedasticLikelihood, InvalidArgumentError
from leadline.likelihoods.heteroscedastic import MOST_SHIFT, OPENING
from tests.tolerances import CLOSED_FORM, MANY_SUMS


def test_categorical_is_the_log_of_the_softmax(precision):
    output = np.random.default_rng(0).normal(size=(7, 3)) * 5
    y = np.array([0, 1, 2, 2, 1, 0, 1])
    likelihood = CategoricalLikelihood(3)
    expected = special.log_softmax(output, axis=1)
    tolerance = CLOSED_FORM[precision]
    np.testing.assert_allclose(
        likelihood.log_prob(jnp.asarray(output), jnp.asarray(y)),
        expected[np.arange(7), y],
        rtol=tolerance,
        atol=tolerance,
    )
    np.testing.assert_allclose(
        likelihood.moments(jnp.asarray(output)), np.exp(expected), rtol=tolerance, atol=tolerance
    )


def test_gaussian_is_scipys(precision):
    rng = np.random.default_rng(0)
    output, y = rng.normal(size=(2, 7, 2))
    likelihood = GaussianLikelihood(2, scale=0.7)
    expected = stats.norm(output, 0.7).logpdf(y).sum(axis=1)
    tolerance = CLOSED_FORM[precision]
    np.testing.assert_allclose(likelihood.log_prob(jnp.asarray(output), jnp.asarray(y)), expected, rtol=tolerance)
    moments = likelihood.moments(jnp.asarray(output))
    np.testing.assert_allclose(moments[:, 0], output, rtol=tolerance)
    np.testing.assert_allclose(moments[:, 1] - moments[:, 0] ** 2, np.full((7, 2), 0.49), rtol=MANY_SUMS)


def test_noise_that_depends_on_the_input_is_scipys_normal_of_another_scale_for_every_row(precision):
    rng = np.random.default_rng(0)
    output, y = rng.normal(size=(7, 4)) * 3, rng.normal(size=(7, 2))
    likelihood = HeteroscedasticLikelihood(2, scale=0.7)
    assert (likelihood.n_outputs, likelihood.n_targets) == (4, 2)
    raw = np.log(np.expm1(0.7)) + MOST_SHIFT * np.tanh(output[:, 2:] / MOST_SHIFT)
    normal = stats.norm(output[:, :2], np.log1p(np.exp(raw)))
    tolerance = CLOSED_FORM[precision]
    given = jnp.asarray(output)
    np.testing.assert_allclose(likelihood.log_prob(given, jnp.asarray(y)), normal.logpdf(y).sum(axis=1), rtol=tolerance)
    np.testing.assert_allclose(likelihood.noise(given), normal.var(), rtol=tolerance)
    np.testing.assert_allclose(likelihood.moments(given)[:, 1], normal.moment(2), rtol=tolerance)
    # At first the noise is constant, and in the end nothing is left of that.
    early = likelihood.scheduled(jnp.array(0.0))
    np.testing.assert_allclose(early.noise(given), np.full((7, 2), 0.49), rtol=MANY_SUMS)
    half = likelihood.scheduled(jnp.array(OPENING / 2)).noise(given)
    assert np.all((half < 0.49) == (normal.var() < 0.49))
    for share in (OPENING, 1.0):
        np.testing.assert_allclose(likelihood.scheduled(jnp.array(share)).noise(given), normal.var(), rtol=tolerance)


def test_guessing_costs_the_entropy_of_the_targets_and_a_weight_is_a_number_of_rows():
    rng = np.random.default_rng(0)
    weight = rng.integers(1, 5, 30)
    labels, numbers = rng.integers(3, size=30), rng.normal(size=(30, 2)) * [1, 5]
    shares = np.bincount(np.repeat(labels, weight)) / weight.sum()
    guess = CategoricalLikelihood(3).nll_of_guessing(labels, weight)
    assert guess == pytest.approx(stats.entropy(shares), rel=CLOSED_FORM["float64"])
    repeated = np.repeat(numbers, weight, axis=0)
    expected = stats.norm(repeated.mean(0), repeated.std(0)).entropy().sum()
    guess = GaussianLikelihood(2).nll_of_guessing(numbers, weight)
    assert guess == pytest.approx(expected, rel=CLOSED_FORM["float64"])


@pytest.mark.parametrize(
    ("y", "message"),
    [
        ([0, 1, 3], "`y` must hold labels 0 to 2, got 3."),
        ([0, -1, 2], "`y` must hold labels 0 to 2, got -1."),
        ([0, 1], "`y` must hold one label for each of 3 rows, got shape (2,)."),
        ([0.5, 1.0, 2.0], "`y` must hold labels 0 to 2, got 0.5."),
        (["a", "b", "c"], "`y` must hold labels 0 to 2, got a."),
    ],
)
def test_wrong_labels_get_one_sentence(y, message):
    with pytest.raises(InvalidArgumentError) as error:
        CategoricalLikelihood(3).check_targets("y", np.array(y), 3)
    assert str(error.value) == message


def test_wrong_numbers_get_one_sentence():
    with pytest.raises(InvalidArgumentError, match=r"`y` must be finite, got nan\."):
        GaussianLikelihood().check_targets("y", np.array([1.0, np.nan]), 2)
    with pytest.raises(InvalidArgumentError, match=r"2 numbers for each of 3 rows, got shape \(3, 1\)"):
        GaussianLikelihood(2).check_targets("y", np.ones(3), 3)
    with pytest.raises(InvalidArgumentError, match=r"`n_classes` must be a whole number of at least 2, got 1\."):
        CategoricalLikelihood(1)
