"""The families of the paper's discussion against scipy and fifty digits, at the ends of their numbers, and where they
start."""

import json
from itertools import pairwise

import equinox as eqx
import jax
import jax.numpy as jnp
import mpmath
import numpy as np
import pytest
from scipy import stats

from leadline import (
    BetaBinomialDepth,
    ConwayMaxwellPoissonDepth,
    DiscreteGammaDepth,
    GeneralisedPoissonDepth,
    InvalidArgumentError,
    NegativeBinomialDepth,
    NormalDepth,
    PoissonDepth,
    Settings,
    train,
    truncated,
)
from leadline.depth import FAMILIES, Start
from leadline.depth.base import expectation
from leadline.depth.matching import normal_facts
from leadline.files.models import describe, rebuild
from leadline.inference.door import check_pair
from leadline.inference.predict import depth_masses
from leadline.inference.recipes import depth_distributions, get_recipe
from leadline.studies.spiral import spiral_problem
from tests.depth import reference

LOG_MASS = {"float32": 2e-5, "float64": 1e-9}
DEPTHS = np.arange(30)
TWO_NUMBERS = (
    NegativeBinomialDepth,
    GeneralisedPoissonDepth,
    ConwayMaxwellPoissonDepth,
    DiscreteGammaDepth,
    BetaBinomialDepth,
)


@pytest.fixture
def tolerance(precision):
    return LOG_MASS[precision]


log_masses_of = eqx.filter_jit(lambda family, n_depths: family.log_masses(n_depths))


def agrees(family, expected, tolerance):
    """Log masses: relative, and near mass 1, where they are near 0, absolute."""
    log_masses = np.asarray(log_masses_of(family, len(expected)), float)
    np.testing.assert_allclose(log_masses, expected, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize(("mean", "dispersion"), [(0.5, 0.02), (3.2, 0.4), (7.0, 3.0), (1.5, 1e-4)])
def test_negative_binomial_is_scipys(mean, dispersion, tolerance):
    expected = stats.nbinom.logpmf(DEPTHS, 1 / dispersion, 1 / (1 + dispersion * mean))
    agrees(NegativeBinomialDepth(mean, dispersion), expected, tolerance)


@pytest.mark.parametrize(("mean", "dispersion"), [(0.5, 0.05), (4.0, 0.9), (9.5, 4.0), (5.0, 10.0)])
def test_beta_binomial_is_scipys(mean, dispersion, tolerance):
    g = dispersion / 10
    expected = stats.betabinom.logpmf(np.arange(11), 10, mean / 10 / g, (1 - mean / 10) / g)
    agrees(BetaBinomialDepth(mean, dispersion), expected, tolerance)


def test_the_beta_binomial_is_uniform_and_binomial_where_it_should_be(tolerance):
    agrees(BetaBinomialDepth(3.0, 3.0, max_depth=6), np.full(7, -np.log(7)), tolerance)
    agrees(BetaBinomialDepth(3.0, 1e-9), stats.binom.logpmf(np.arange(11), 10, 0.3), tolerance)


@pytest.mark.parametrize(("mean", "dispersion"), [(0.8, 2.0), (1.5, 0.7), (3.4, 0.1), (6.0, 0.05), (6.0, 3.0)])
def test_discrete_gamma_is_a_difference_of_scipys(mean, dispersion, tolerance):
    """Of survival functions above the mean, of distribution functions below it; in the tails 100 nats down too."""
    gamma = stats.gamma(mean / dispersion, scale=dispersion)
    from_above = gamma.sf(DEPTHS) - gamma.sf(DEPTHS + 1)
    from_below = gamma.cdf(DEPTHS + 1) - gamma.cdf(DEPTHS)
    expected = np.log(np.where(mean < DEPTHS, from_above, from_below))
    agrees(DiscreteGammaDepth(mean, dispersion), expected, tolerance)


def test_a_very_narrow_discrete_gamma(tolerance):
    """Fifty digits, where scipy has none: shape 210, and a bin at 0 of e^-213."""
    shape, scale = 210, mpmath.mpf("0.03")
    edges = [mpmath.gammainc(shape, 0, depth / scale, regularized=True) for depth in range(12)]
    expected = [float(mpmath.log(b - a)) for a, b in pairwise(edges)]
    assert expected[0] < -200
    agrees(DiscreteGammaDepth(6.3, 0.03), np.array(expected), tolerance)


@pytest.mark.parametrize(("rate", "dispersion"), [(0.5, 0.3), (2.0, 0.7), (3.0, 0.0), (2.0, -0.4), (6.0, -0.9)])
def test_generalised_poisson_is_its_formula(rate, dispersion, tolerance):
    t, d = mpmath.mpf(rate), mpmath.mpf(dispersion)

    def weight(k):
        reach = t + d * k
        return t * reach ** (k - 1) * mpmath.exp(-reach) / mpmath.factorial(k) if reach > 0 else mpmath.mpf(0)

    total = sum(weight(k) for k in range(1024))
    expected = np.array([reference.log(weight(k) / total) for k in range(30)])
    agrees(GeneralisedPoissonDepth(rate, dispersion), expected, tolerance)
    if dispersion >= 0:
        assert float(total) == pytest.approx(1)


@pytest.mark.parametrize(("rate", "power"), [(0.5, 0.3), (2.0, 1.0), (3.7, 2.5), (4.5, 20.0), (0.2, 0.05)])
def test_conway_maxwell_poisson_is_its_formula(rate, power, tolerance):
    def weight(k):
        return (mpmath.mpf(rate) ** k / mpmath.factorial(k)) ** mpmath.mpf(power)

    total = mpmath.nsum(weight, [0, mpmath.inf])
    expected = np.array([float(mpmath.log(weight(k) / total)) for k in range(30)])
    agrees(ConwayMaxwellPoissonDepth(rate, power), expected, tolerance)


def test_three_of_them_are_poissons_where_they_should_be(tolerance):
    expected = stats.poisson.logpmf(DEPTHS, 2.5)
    for family in (
        NegativeBinomialDepth(2.5, 1e-11),
        GeneralisedPoissonDepth(2.5, 0.0),
        ConwayMaxwellPoissonDepth(2.5, 1.0),
    ):
        agrees(family, expected, tolerance)


@pytest.mark.parametrize("family", TWO_NUMBERS)
def test_cut_where_scipys_quantile_is(family):
    """All families cut alike: up to the smallest depth with CDF >= 0.95, the rest divided by what is left."""
    whole, cut = np.asarray(family().pmf(64)), np.asarray(family(upper_quantile=0.95).pmf(64))
    highest = int(np.argmax(whole.cumsum() >= 0.95))
    expected = np.where(np.arange(64) <= highest, whole, 0) / whole[: highest + 1].sum()
    np.testing.assert_allclose(cut, expected, rtol=1e-5)


@pytest.mark.parametrize("family", TWO_NUMBERS)
def test_never_nan_and_gradients_finite_at_the_ends_of_the_numbers(family):
    """Raw numbers far beyond what learning reaches, and all in between; also of the family unfrozen there."""
    structure = jax.tree.structure(family(upper_quantile=0.975))

    @jax.jit
    @jax.vmap
    def facts(raw):
        def kl_and_more(raw, unfreeze):
            q = jax.tree.unflatten(structure, list(raw))
            q = q.unfrozen() if unfreeze else q
            log_masses = q.log_masses(64)
            return expectation(log_masses, log_masses) + 0.1 * q.mean(64), log_masses

        of = jax.value_and_grad(kl_and_more, has_aux=True)
        return of(raw, False), of(raw, True)

    ends = np.array([-300.0, -100.0, -30.0, -5.0, 0.0, 5.0, 30.0, 100.0, 300.0])
    raw = np.stack(np.meshgrid(ends, ends), axis=-1).reshape(-1, 2)
    for (value, log_masses), gradient in facts(jnp.asarray(raw)):
        assert np.isfinite(value).all()
        assert not np.isnan(log_masses).any()
        assert np.isfinite(gradient).all(), raw[~np.isfinite(gradient).all(axis=1)]


@pytest.mark.parametrize("family", TWO_NUMBERS)
@pytest.mark.parametrize("upper_quantile", [pytest.param(0.9, marks=pytest.mark.slow), 0.975])
def test_no_unfrozen_one_has_one_depth_alone(family, upper_quantile):
    """Over the whole plane of numbers a depth beside the most probable one has mass."""
    structure = jax.tree.structure(family(upper_quantile=upper_quantile))
    raw = np.stack(np.meshgrid(np.linspace(-30, 40, 71), np.linspace(-30, 40, 71)), axis=-1).reshape(-1, 2)
    masses = jax.jit(jax.vmap(lambda raw: jax.tree.unflatten(structure, list(raw)).unfrozen().pmf(256)))
    pmf = np.asarray(masses(jnp.asarray(raw)))
    mode = pmf.argmax(axis=1)
    padded = np.pad(pmf, ((0, 0), (1, 1)))
    beside = np.maximum(padded[np.arange(len(pmf)), mode], padded[np.arange(len(pmf)), mode + 2])
    inside = pmf[:, -1] == 0  # the others have not ended by 256
    assert inside.mean() > 0.5
    assert beside[inside].min() > 5e-4, raw[inside][beside[inside].argmin()]


STARTS = [(0.0, 1.8), (1.0, 1.0), (0.5, 0.4), (2.5, 0.4)]
NEAREST = {NegativeBinomialDepth: "Poisson", BetaBinomialDepth: "binomial"}


@pytest.mark.parametrize("family", TWO_NUMBERS)
@pytest.mark.parametrize("start", STARTS)
def test_they_start_with_the_normals_mean_and_mass_at_0(family, start):
    """The prior is matched as it is, q(L) before it is cut; the prior of the generalised Poisson is a Poisson."""
    prior, posterior = family.pair(Start(*start))
    uncut = jax.tree.unflatten(jax.tree.structure(family()), jax.tree.leaves(posterior))
    for one, loc, scale in ((prior, 0.0, 1.15), (uncut, *start)):
        mean, at_0 = normal_facts(loc, scale)
        normal = NormalDepth(loc, scale)
        assert mean == pytest.approx(float(normal.mean()), abs=1e-5)
        assert at_0 == pytest.approx(float(normal.pmf()[0]), abs=1e-5)
        assert float(one.mean()) == pytest.approx(mean, abs=3e-4)
        least = least_mass_at_0(PoissonDepth if one is prior and family is GeneralisedPoissonDepth else family, mean)
        got = float(one.pmf()[0])
        assert got == pytest.approx(max(at_0, least), abs=3e-3), (family, loc, scale)
    highest = int(posterior.support()[1])
    assert float(uncut.pmf()[: highest + 1].sum()) >= 0.975 > float(uncut.pmf()[:highest].sum())


@pytest.mark.parametrize("name", FAMILIES.own())
@pytest.mark.parametrize("start", STARTS)
def test_what_a_name_stands_for_passes_the_door(name, start):
    """As a pair of one's own has to: no prior ends where its q(L) can go."""
    check_pair(*FAMILIES[name].pair(Start(*start)))


def least_mass_at_0(family, mean):
    """That a family can have with a mean."""
    if family in (PoissonDepth, NegativeBinomialDepth):
        return np.exp(-mean)
    if family is BetaBinomialDepth:
        return (1 - mean / 10) ** 10
    if family is GeneralisedPoissonDepth:  # t / (1 - d) = mean with d = -min(1, t / 4), but for the sum
        t = mean / (1 - mean / 4) if mean < 2 else 2 * mean
        return np.exp(-t) if t < 4 else np.exp(-2 * mean)
    return 0.0


@pytest.mark.parametrize("family", TWO_NUMBERS)
def test_a_model_file_holds_them(family):
    """As JSON and tensors, and back to the bit."""
    tensors = {}
    for one in family.pair(Start(0.0, 1.8)):
        described = json.loads(json.dumps(describe(one, "q", tensors)))
        assert eqx.tree_equal(rebuild(described, tensors), one)


@pytest.mark.slow
def test_all_families_train_side_by_side_in_one_program():
    """By name; every q(L) moves, and all is finite."""
    settings = [Settings(depth=name, epochs=10, width=8, n_restarts=1, seed=1) for name in FAMILIES]
    trained = train([spiral_problem(5.0, 1)] * len(settings), settings)
    assert np.isfinite(trained.history["free_energy"]).all()
    masses = depth_masses(trained.model)
    np.testing.assert_allclose(masses.sum(axis=1), 1, rtol=1e-5)
    for name, after in zip(FAMILIES, masses, strict=True):
        _, before = depth_distributions(name, get_recipe("leadline"))
        assert np.abs(np.asarray(before.pmf(len(after))) - after).max() > 1e-4, name


def test_a_name_a_label_and_a_colour_of_its_own():
    for facts in ("name", "label", "colour"):
        said = [getattr(family, facts) for family in FAMILIES.values()]
        said = [one for one in said if one]
        assert len(set(said)) == len(said)


def contrast(colour, ground):
    """By which the web's rules go."""
    channels = ([int(text[i : i + 2], 16) / 255 for i in (1, 3, 5)] for text in (colour, ground))
    linear = ([c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in one] for one in channels)
    dark, light = sorted(0.2126 * r + 0.7152 * g + 0.0722 * b for r, g, b in linear)
    return (light + 0.05) / (dark + 0.05)


@pytest.mark.parametrize("family", TWO_NUMBERS)
def test_colours_are_seen_on_light_and_on_dark(family):
    for ground in ("#ffffff", "#14171c"):
        assert contrast(family.colour, ground) > 3


def test_truncated_keeps_from_one_quantile_to_another():
    masses = np.array([0.05, 0.2, 0.5, 0.2, 0.05])
    kept_by = {(0, 0.9): (0, 3), (0.1, 1): (1, 4), (0.1, 0.6): (1, 2), (0.3, 0.7): (2, 2), (0, 1): (0, 4)}
    for (lower, upper), (first, last) in kept_by.items():
        expected = np.where((np.arange(5) >= first) & (np.arange(5) <= last), masses, 0)
        got = jnp.exp(truncated(jnp.log(masses), lower, upper))
        np.testing.assert_allclose(got, expected / expected.sum(), rtol=1e-5, err_msg=f"{lower} {upper}")


@pytest.mark.usefixtures("as_users_have_it")
def test_wrong_arguments_get_one_sentence():
    for build, message in [
        (lambda: NegativeBinomialDepth(-1.0), "`mean` must be positive and finite, got -1.0."),
        (lambda: NegativeBinomialDepth(1.0, 0.0), "`dispersion` must be positive and finite, got 0.0."),
        (
            lambda: GeneralisedPoissonDepth(2.0, -0.6),
            "must lie above -min(1, rate / 4) = -0.5 and below 1",
        ),
        (lambda: GeneralisedPoissonDepth(2.0, 1.0), "below 1, got 1.0."),
        (lambda: ConwayMaxwellPoissonDepth(1.0, -2.0), "`power` must be positive and finite, got -2.0."),
        (lambda: DiscreteGammaDepth(1.0, 0.01), "`dispersion` must be above 0.02, got 0.01."),
        (lambda: BetaBinomialDepth(10.0), "`mean` must be below `max_depth`, 10, got 10.0."),
        (lambda: BetaBinomialDepth(1.0, max_depth=0), "`max_depth` must be a whole number of at least 1, got 0."),
        (lambda: DiscreteGammaDepth(upper_quantile=0.0), "`upper_quantile` must be above 0 and at most 1, got 0.0."),
        (lambda: truncated(jnp.zeros(1), 0.5, 0.5), "`lower` and `upper` must satisfy 0 <= lower < upper <= 1"),
    ]:
        with pytest.raises(InvalidArgumentError) as error:
            build()
        assert message in str(error.value)


def test_the_poissons_bits_are_what_they_were():
    """Before it shared `truncated`: the same operations in the same order."""
    for rate, upper in ((0.5, 1.0), (1.0, 0.95), (7.3, 0.95)):
        q = PoissonDepth(rate, upper)
        np.testing.assert_array_equal(q.log_masses(64), _poisson_as_it_was(q, 64))


def _poisson_as_it_was(q, n_depths):
    from scipy.special import gammaln

    log_factorial = jnp.asarray(gammaln(np.arange(1, n_depths + 1)), q.raw_rate.dtype)
    log_masses = jnp.arange(n_depths) * jnp.log(q.rate) - q.rate - log_factorial
    if q.upper_quantile == 1.0:
        return log_masses
    cdf = jnp.cumsum(jnp.exp(jax.lax.stop_gradient(log_masses)))
    below = jnp.concatenate([jnp.array([True]), cdf[:-1] < q.upper_quantile])
    log_masses = jnp.where(below, log_masses, -jnp.inf)
    return log_masses - jax.nn.logsumexp(log_masses)
