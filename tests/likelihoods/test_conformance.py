"""What every likelihood owes: that what is trained is what is predicted, in moments, quantiles, draws and sentences.

Numbers come as predictive distributions of one component, against scipy's distribution of the same parameters, and of
several, against slow loops over them.
"""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import integrate, optimize, stats

from leadline import GaussianLikelihood, InvalidArgumentError
from leadline.files import models as modelfile
from leadline.likelihoods import LIKELIHOODS, likelihoods_of
from leadline.likelihoods.counting import MOST_SHIFT
from leadline.likelihoods.robust import GAUSSIAN
from tests.tolerances import CLOSED_FORM, STANDARD_ERRORS

FLOAT64 = CLOSED_FORM["float64"]
COUNTS, ROBUST = ("poisson", "negative-binomial"), ("student-t", "laplace")
NUMBERS = (*likelihoods_of("numbers", "noise"), *likelihoods_of("numbers"))
CLASSES = tuple(likelihoods_of("classes"))


def bounded(output):
    return MOST_SHIFT * np.tanh(output / MOST_SHIFT)


def poisson(one, output):
    return stats.poisson(np.exp(np.asarray(one.log_rate, float) + bounded(output)))


def negative_binomial(one, output):
    size, mean = 1 / np.asarray(one.dispersion, float), np.exp(np.asarray(one.log_rate, float) + bounded(output))
    return stats.nbinom(size, size / (size + mean))


def student_t(one, output):
    return stats.t(np.asarray(one.freedom, float), output, np.asarray(one.width, float))


def laplace(one, output):
    return stats.laplace(output, np.asarray(one.width, float))


SCIPY = {"poisson": poisson, "negative-binomial": negative_binomial, "student-t": student_t, "laplace": laplace}


def made(name, n_targets=1):
    """A likelihood whose parameters are none of those that it begins with."""
    one = LIKELIHOODS[name](n_targets)
    rng = np.random.default_rng(5)
    return jax.tree.map(lambda a: a + jnp.asarray(rng.uniform(0.2, 0.6, a.shape), a.dtype) * (a.dtype.kind == "f"), one)


def targets(name, shape, seed=3):
    rng = np.random.default_rng(seed)
    of = {"poisson": lambda: rng.poisson(3, shape), "negative-binomial": lambda: rng.negative_binomial(2, 0.4, shape)}
    return of.get(name, lambda: 2 * rng.normal(size=shape))().astype(float)


def outputs(one, n_rows, seed=4):
    return np.random.default_rng(seed).normal(size=(n_rows, one.n_outputs))


def mixture_of(one, output, share=None):
    """The predictive distribution with a component for every output [components, rows, out]."""
    parts = [np.asarray(part, float) for part in one.components(jnp.asarray(output))]
    return one.mixture(np.full(len(output), 1 / len(output)) if share is None else share, *parts)


@pytest.mark.parametrize("name", SCIPY)
def test_it_is_scipys(name, precision):
    one, y = made(name, 2), targets(name, (9, 2))
    output, tolerance = outputs(one, 9), CLOSED_FORM[precision]
    expected = SCIPY[name](one, output)
    log_mass = expected.logpmf(y) if name in COUNTS else expected.logpdf(y)
    got = one.log_prob(jnp.asarray(output), jnp.asarray(y))
    np.testing.assert_allclose(got, log_mass.sum(axis=1), rtol=tolerance, atol=tolerance)
    mean, scale = one.mean_and_scale(jnp.asarray(output))
    np.testing.assert_allclose(mean, expected.mean(), rtol=tolerance)
    np.testing.assert_allclose(scale, expected.std(), rtol=tolerance)


@pytest.mark.parametrize("name", SCIPY)
def test_one_component_is_scipys_in_its_tails_and_its_quantiles(name):
    with jax.enable_x64(True):
        one = made(name)
        output = np.linspace(-2, 2, 5)[:, None]
        mixture, expected = mixture_of(one, output[None]), SCIPY[name](one, output)
        for y in (-3.0, 0.0, 0.4, 1.0, 2.0, 30.0, 400.0):
            at = np.full((5, 1), y)
            np.testing.assert_allclose(mixture.cdf(at), expected.cdf(at), rtol=FLOAT64, atol=1e-300)
        for level in (1e-4, 0.05, 0.5, 0.9, 0.999):
            quantile = mixture.quantile(level)
            np.testing.assert_allclose(quantile, expected.ppf(level), rtol=FLOAT64, atol=FLOAT64)
            if name in COUNTS:
                np.testing.assert_array_equal(quantile, np.round(quantile))


def test_ordered_classes_are_a_slow_difference_of_logistic_functions(precision):
    one, tolerance = made("ordinal", 4), CLOSED_FORM[precision]
    thresholds = np.asarray(one.thresholds, float)
    assert np.all(np.diff(thresholds) > 0)
    output = np.array([[-3.0], [0.0], [0.7], [4.0]])
    expected = np.zeros((4, 4))
    for row, (place,) in enumerate(output):
        cumulative = [0.0, *(1 / (1 + np.exp(place - t)) for t in thresholds), 1.0]
        for k in range(4):
            expected[row, k] = cumulative[k + 1] - cumulative[k]
    np.testing.assert_allclose(one.moments(jnp.asarray(output)), expected, rtol=tolerance, atol=tolerance)
    # Far out, where both functions are 1, no digit is lost: P(first) = exp(threshold - output).
    far = one.log_probabilities(jnp.array([[60.0], [-60.0]]))
    np.testing.assert_allclose(far[0, 0], thresholds[0] - 60, rtol=tolerance)
    np.testing.assert_allclose(far[1, 3], -60 - thresholds[-1], rtol=tolerance)
    np.testing.assert_allclose(far[0, 1] - far[0, 0], np.log(np.expm1(thresholds[1] - thresholds[0])), rtol=1e-4)


@pytest.mark.parametrize("name", NUMBERS)
def test_what_is_trained_is_what_is_predicted(name, precision):
    """ln p(y | output), E[y] and E[y^2] of training, against the distribution that predicts."""
    one, y = made(name, 2), targets(name, (7, 2))
    output, tolerance = outputs(one, 7), 10 * CLOSED_FORM[precision]
    mixture = mixture_of(one, output[None])
    log_prob = one.log_prob(jnp.asarray(output), jnp.asarray(y))
    np.testing.assert_allclose(mixture.log_density(y), log_prob, rtol=tolerance, atol=tolerance)
    (mean, variance), moments = mixture.moments(), one.moments(jnp.asarray(output))
    np.testing.assert_allclose(moments[:, 0], mean, rtol=tolerance)
    np.testing.assert_allclose(moments[:, 1], variance + mean**2, rtol=tolerance)
    np.testing.assert_allclose(one.noise(jnp.asarray(output)), variance, rtol=tolerance)
    assert mixture.target(1).mean.shape == (1, 7, 1)
    scale = one.noise_scale
    if scale is not None:
        np.testing.assert_allclose(np.broadcast_to(np.square(scale), (7, 2)), variance, rtol=tolerance)
    assert np.all(np.asarray(one.least_scale) ** 2 <= variance * (1 + tolerance))


@pytest.mark.parametrize("name", CLASSES)
def test_classes_are_trained_as_they_are_predicted(name, precision):
    one, tolerance = made(name, 4), 10 * CLOSED_FORM[precision]
    output, y = outputs(one, 6), np.array([0, 1, 2, 3, 3, 0])
    p = np.asarray(one.moments(jnp.asarray(output)))
    assert p.shape == (6, one.n_classes)
    np.testing.assert_allclose(p.sum(axis=1), 1, rtol=tolerance)
    np.testing.assert_allclose(one.log_prob(jnp.asarray(output), jnp.asarray(y)), np.log(p[np.arange(6), y]), rtol=1e-4)
    np.testing.assert_allclose(one.noise(jnp.asarray(output)), stats.entropy(p, axis=1), rtol=tolerance)
    # Of several runs at once, each with its own thresholds.
    both = jax.tree.map(lambda a: jnp.stack([a, 2 * a]), one)
    other = jax.tree.map(lambda a: 2 * a, one)
    at_once = both.probabilities(np.stack([output, output]).astype(np.float32))
    for own, expected in zip(at_once, (one, other), strict=True):
        np.testing.assert_allclose(own, expected.moments(jnp.asarray(output)), rtol=1e-4)


@pytest.mark.parametrize("name", NUMBERS)
def test_several_components_are_a_slow_loop_over_them(name):
    one, y = made(name), targets(name, (6, 1))
    output = np.stack([outputs(one, 6, seed) for seed in range(3)])
    share = np.array([0.5, 0.2, 0.3])
    mixture = mixture_of(one, output, share)
    alone = [mixture_of(one, each[None]) for each in output]
    cdf, density, first, second = np.zeros((4, 6))
    for part, component in zip(share, alone, strict=True):
        mean, variance = component.moments()
        for i in range(6):
            cdf[i] += part * component.cdf(y)[i, 0]
            density[i] += part * np.exp(component.log_density(y)[i])
            first[i] += part * mean[i, 0]
            second[i] += part * (variance[i, 0] + mean[i, 0] ** 2)
    np.testing.assert_allclose(mixture.cdf(y)[:, 0], cdf, rtol=FLOAT64)
    np.testing.assert_allclose(mixture.log_density(y), np.log(density), rtol=FLOAT64)
    mean, variance = mixture.moments()
    np.testing.assert_allclose(mean[:, 0], first, rtol=FLOAT64)
    np.testing.assert_allclose(variance[:, 0], second - first**2, rtol=FLOAT64)
    for level in (0.02, 0.5, 0.97):
        quantile = mixture.quantile(level)
        if name in COUNTS:
            found = [
                next(k for k in range(10_000) if mixture.cdf(np.full((6, 1), float(k)))[i, 0] >= level)
                for i in range(6)
            ]
            np.testing.assert_array_equal(quantile[:, 0], found)
        else:
            np.testing.assert_allclose(mixture.cdf(quantile), level, rtol=FLOAT64)


@pytest.mark.parametrize("name", NUMBERS)
def test_it_is_a_distribution(name):
    """The masses sum, and the densities integrate, to the cdf."""
    one = made(name)
    mixture = mixture_of(one, np.stack([outputs(one, 1, seed) for seed in range(2)]))

    def density(y):
        return float(np.exp(mixture.log_density(np.array([[y]]))[0]))

    if name in COUNTS:
        total = np.cumsum([density(float(k)) for k in range(60)])
        cdf = [mixture.cdf(np.array([[float(k)]]))[0, 0] for k in range(60)]
        np.testing.assert_allclose(total, cdf, rtol=FLOAT64)
        assert mixture.cdf(np.array([[2.7]]))[0, 0] == cdf[2]
        assert mixture.cdf(np.array([[-0.5]]))[0, 0] == 0
        return
    breaks = sorted(mixture.mean.ravel())
    for low, high in ((-40.0, 0.3), (0.3, 40.0)):
        inside = [b for b in breaks if low < b < high]
        area = integrate.quad(density, low, high, points=inside or None, limit=200)[0]
        ends = np.diff([mixture.cdf(np.array([[end]]))[0, 0] for end in (low, high)])[0]
        assert area == pytest.approx(ends, rel=1e-6)  # of the quadrature


@pytest.mark.parametrize("name", NUMBERS)
def test_draws_are_of_the_distribution(name):
    """Two targets, which are correlated only by the component that both are of."""
    one, n = made(name, 2), 20_000
    output = np.stack([outputs(one, 1, seed) for seed in range(2)])
    mixture = mixture_of(one, np.repeat(output, n, axis=1), np.array([0.3, 0.7]))
    draws = mixture.sample(np.random.default_rng(0))
    mean, variance = (part[0] for part in mixture.moments())
    error = np.sqrt(variance / n)
    assert np.all(np.abs(draws.mean(axis=0) - mean) < STANDARD_ERRORS * error)
    for target in range(2):
        for y in np.quantile(draws[:, target], [0.1, 0.5, 0.9]):
            expected = mixture.target(target).cdf(np.full((n, 1), y))[0, 0]
            chance = np.sqrt(expected * (1 - expected) / n)
            assert abs(np.mean(draws[:, target] <= y) - expected) < STANDARD_ERRORS * chance
    centre = mixture.mean[:, 0] - mean
    covariance = np.sum(mixture.share * centre[:, 0] * centre[:, 1])
    products = (draws - mean).prod(axis=1)
    assert abs(products.mean() - covariance) < STANDARD_ERRORS * products.std() / np.sqrt(n)


@pytest.mark.parametrize("name", NUMBERS)
def test_widening_stretches_all_about_the_mean_or_nothing(name):
    one = made(name)
    mixture = mixture_of(one, np.stack([outputs(one, 4, seed) for seed in range(3)]))
    (mean, variance), wider = mixture.moments(), mixture.widened(np.array([1.7]))
    assert mixture.can_widen == (name not in COUNTS)
    if not mixture.can_widen:
        assert wider is mixture
        return
    np.testing.assert_allclose(wider.moments()[0], mean, rtol=FLOAT64)
    np.testing.assert_allclose(wider.moments()[1], 1.7**2 * variance, rtol=FLOAT64)
    for level in (0.1, 0.8):
        np.testing.assert_allclose(wider.quantile(level) - mean, 1.7 * (mixture.quantile(level) - mean), rtol=1e-7)


@pytest.mark.parametrize("name", SCIPY)
def test_slopes_are_finite_however_far_the_output_is(name):
    one = made(name)
    for output in (-1e4, -50.0, 0.0, 50.0, 1e4):
        slope = jax.grad(lambda o, one=one: one.log_prob(o, jnp.array([5.0])).sum())(jnp.array([output]))
        of_one = jax.grad(lambda one, o=output: one.log_prob(jnp.array([o]), jnp.array([5.0])).sum())(one)
        assert all(np.isfinite(leaf).all() for leaf in jax.tree.leaves((slope, of_one)))


@pytest.mark.parametrize("name", ["categorical", "ordinal", *SCIPY])
def test_it_starts_as_the_best_guess_that_does_not_look_at_x_and_a_weight_is_a_number_of_rows(name):
    rng = np.random.default_rng(1)
    weight = rng.integers(1, 4, 200)
    of_classes = name in CLASSES
    y = rng.choice(3, 200, p=[0.6, 0.1, 0.3]) if of_classes else targets(name, (200, 1))
    if name in ROBUST:
        y = stats.t(3).rvs((200, 1), random_state=rng)
    repeated, ones = np.repeat(y, weight, axis=0), np.ones(weight.sum())
    with jax.enable_x64(True):
        first, again = (
            LIKELIHOODS[name](3 if of_classes else 1).starting(*rows) for rows in ((y, weight), (repeated, ones))
        )
        for one, other in zip(jax.tree.leaves(first), jax.tree.leaves(again), strict=True):
            np.testing.assert_allclose(one, other, rtol=1e-4)  # of a search
        guess = first.nll_of_guessing(y, weight)
        assert guess == pytest.approx(again.nll_of_guessing(repeated, ones), rel=1e-4)
        output = jnp.zeros((len(y), first.n_outputs))
        if name != "categorical":
            begins = -np.average(first.log_prob(output, jnp.asarray(y)), weights=weight)
            assert begins >= guess * (1 - 1e-6)
            if name not in ROBUST:  # whose width is 1 until it is learned
                assert begins == pytest.approx(guess, rel=0.01)
        if name in SCIPY:  # the best parameters at all outputs 0, by a search from elsewhere
            leaves, tree = jax.tree.flatten(first)
            sizes = [leaf.size for leaf in leaves]

            @jax.jit
            def nll(vector, centre):
                parts = jnp.split(vector, np.cumsum(sizes)[:-1])
                one = jax.tree.unflatten(tree, [p.reshape(a.shape) for p, a in zip(parts, leaves, strict=True)])
                return -jnp.average(one.log_prob(output + centre, jnp.asarray(y)), weights=jnp.asarray(weight))

            start = np.concatenate([np.asarray(leaf).ravel() for leaf in leaves])
            start = np.append(start, np.median(y) if name in ROBUST else 0.0)
            found = optimize.minimize(
                lambda v: float(nll(v[:-1], v[-1])), start, method="Nelder-Mead", options={"maxiter": 4000}
            )
            assert guess == pytest.approx(found.fun, rel=1e-4)


def test_counts_are_not_standardised_and_robust_numbers_by_their_median():
    y = np.array([[0.0, 1.0], [4.0, 2.0], [5.0, 50.0]])
    for name in COUNTS:
        np.testing.assert_array_equal(LIKELIHOODS[name].scaling(y), [[0, 0], [1, 1]])
    for name in ROBUST:
        np.testing.assert_allclose(LIKELIHOODS[name].scaling(y), [[4.0, 2.0], [GAUSSIAN, GAUSSIAN]])
        by_weight = LIKELIHOODS[name].scaling(np.array([0.0, 1.0, 7.0, 9.0]), np.array([2, 2, 1, 1]))
        np.testing.assert_allclose(by_weight, [1.0, GAUSSIAN])
        equal = LIKELIHOODS[name].scaling(np.array([1.0, 1.0, 1.0, 5.0]))  # of which the median distance is 0
        np.testing.assert_allclose(equal, [2.0, np.sqrt(3.0)])


@pytest.mark.parametrize("name", COUNTS)
@pytest.mark.parametrize("wrong", [1.5, -1.0])
def test_what_is_no_count_is_one_sentence(name, wrong):
    one = LIKELIHOODS[name]()
    with pytest.raises(InvalidArgumentError) as error:
        one.check_targets("y", np.array([1.0, wrong]), 2)
    assert str(error.value) == f"`y` must hold counts, whole numbers of at least 0, got {wrong}."
    assert one.check_targets("y", np.array([0, 3]), 2).shape == (2, 1)


@pytest.mark.parametrize("name", [name for name in LIKELIHOODS if name not in ("categorical",)])
def test_a_model_file_holds_it(name):
    one, tensors = made(name, 3), {}
    again = modelfile.rebuild(modelfile.describe(one, "likelihood", tensors), tensors)
    assert type(again) is type(one)
    for first, second in zip(jax.tree.leaves(one), jax.tree.leaves(again), strict=True):
        np.testing.assert_array_equal(first, second)


def test_a_density_of_ones_own_beside_the_mixture_of_another_is_refused():
    """Else it would be trained by the one, and predict the other."""
    with pytest.raises(
        InvalidArgumentError, match=r"`Heavy` must have a `mixture` of its own.*got that of GaussianNoise"
    ):

        class Heavy(GaussianLikelihood):
            def log_prob(self, output, y):
                return -jnp.abs(y - output).sum(axis=-1)
