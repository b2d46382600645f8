"""What every depth distribution must do, in both precisions."""

from functools import cache

import equinox as eqx
import jax
import jax.flatten_util
import jax.numpy as jnp
import numpy as np
import pytest

from leadline import (
    BetaBinomialDepth,
    CategoricalDepth,
    ConwayMaxwellPoissonDepth,
    DepthDistribution,
    DiscreteGammaDepth,
    FixedDepth,
    GeneralisedPoissonDepth,
    NegativeBinomialDepth,
    NormalDepth,
    PoissonDepth,
)
from leadline.depth.side_by_side import OneOf, side_by_side
from tests.tolerances import CLOSED_FORM, GRADIENT, STANDARD_ERRORS


class GeometricDepth(DepthDistribution):
    """A user's own family, in one class: P(L) proportional to ratio^L on 0 .. 5."""

    logit: jax.Array

    def log_masses(self, n_depths):
        depth = jnp.arange(n_depths)
        log_masses = jnp.where(depth <= 5, depth * jax.nn.log_sigmoid(self.logit), -jnp.inf)
        return log_masses - jax.nn.logsumexp(log_masses)


def _tilted_categorical():
    return eqx.tree_at(lambda q: q.logits, CategoricalDepth(4), jnp.array([0.3, -1.0, 2.0, 0.0, -4.0]))


FAMILIES = {
    "normal": lambda: NormalDepth(0.0, 1.15),
    "normal, real bounds": lambda: NormalDepth(2.3, 1.4, 0.025, 0.975),
    "normal, real bounds, one depth": lambda: NormalDepth(3.5, 0.2, 0.025, 0.975),
    "normal, integer bounds": lambda: NormalDepth(2.3, 1.4, 0.025, 0.975, "integer"),
    "normal, far below zero": lambda: NormalDepth(-5.0, 0.7, 0.025, 0.975),
    "poisson": lambda: PoissonDepth(0.5),
    "poisson, truncated": lambda: PoissonDepth(3.2, 0.95),
    "categorical": _tilted_categorical,
    "fixed": lambda: FixedDepth(3),
    "negative binomial, truncated": lambda: NegativeBinomialDepth(3.2, 0.8, 0.975),
    "generalised Poisson, narrow, truncated": lambda: GeneralisedPoissonDepth(4.5, -0.6, 0.975),
    "Conway-Maxwell-Poisson, narrow, truncated": lambda: ConwayMaxwellPoissonDepth(3.2, 5.0, 0.975),
    "discrete gamma, truncated": lambda: DiscreteGammaDepth(3.2, 0.3, 0.975),
    "beta-binomial, truncated": lambda: BetaBinomialDepth(1.2, 0.1, 10, 0.975),
    "a user's own": lambda: GeometricDepth(jnp.array(0.4)),
    "one of two": lambda: OneOf((PoissonDepth(3.2, 0.95), NormalDepth(2.3, 1.4, 0.025, 0.975)), jnp.array(1)),
}


FROZEN = {
    "normal at depth 0": lambda: NormalDepth(0.0, 0.01, 0.025, 0.975),
    "normal far below zero": lambda: NormalDepth(-40.0, 0.3, 0.025, 0.975),
    "normal at depth 3": lambda: NormalDepth(3.5, 0.01, 0.025, 0.975),
    "normal at depth 3, integer bounds": lambda: NormalDepth(3.5, 0.01, 0.025, 0.975, "integer"),
    "normal, narrow window": lambda: NormalDepth(3.5, 0.01, 0.3, 0.7),
    "normal, hardly cut": lambda: NormalDepth(3.5, 0.01, 1e-4, 1 - 1e-4),
    "normal, uncut": lambda: NormalDepth(3.5, 0.01),
    "normal, between two depths": lambda: NormalDepth(3.99, 0.001, 0.025, 0.975),
    "normal, window below the median": lambda: NormalDepth(3.5, 0.01, 0.0, 0.4),
    "normal, window above the median": lambda: NormalDepth(3.5, 0.01, 0.5, 0.9),
    "poisson": lambda: PoissonDepth(1e-6, 0.95),
    "categorical": lambda: eqx.tree_at(lambda q: q.logits, CategoricalDepth(3), jnp.array([0.0, 90.0, 0.0, 0.0])),
    "negative binomial": lambda: NegativeBinomialDepth(1e-4, 0.5, 0.975),
    "negative binomial, wide": lambda: NegativeBinomialDepth(0.1, 1000.0, 0.975),
    "generalised Poisson": lambda: GeneralisedPoissonDepth(1e-4, 0.5, 0.975),
    "Conway-Maxwell-Poisson at depth 0": lambda: ConwayMaxwellPoissonDepth(1e-4, 2.0, 0.975),
    "Conway-Maxwell-Poisson at depth 3": lambda: ConwayMaxwellPoissonDepth(3.5, 400.0, 0.975),
    "discrete gamma at depth 0": lambda: DiscreteGammaDepth(0.01, 0.5, 0.975),
    "beta-binomial at depth 0": lambda: BetaBinomialDepth(1e-4, 0.1, 10, 0.975),
    "beta-binomial at its largest depth": lambda: eqx.tree_at(
        lambda q: q.raw_mean, BetaBinomialDepth(5.0, 1e-6), jnp.array(40.0)
    ),
}


@pytest.mark.parametrize("name", FROZEN)
def test_what_is_unfrozen_has_mass_and_gradients_beside_its_mode(name):
    """All of these have one depth alone; unfrozen, two neighbours have at least half a thousandth each."""
    frozen = FROZEN[name]()
    assert np.sum(np.asarray(frozen.pmf(16)) > 1e-12) == 1
    unfrozen = frozen.unfrozen()
    pmf = np.asarray(unfrozen.pmf(16))
    assert np.sort(pmf)[-2] > 5e-4
    assert abs(int(pmf.argsort()[-1]) - int(pmf.argsort()[-2])) == 1
    gradient = jax.grad(lambda q: q.mean(16))(unfrozen)
    assert max(float(jnp.abs(leaf).max()) for leaf in jax.tree.leaves(gradient)) > 1e-4
    assert eqx.tree_equal(unfrozen.unfrozen(), unfrozen)


AS_THEY_ARE = [
    name
    for name in FAMILIES
    if "one depth" not in name and name not in ("normal", "normal, far below zero", "one of two")
]


@pytest.mark.parametrize("name", AS_THEY_ARE)
def test_what_is_not_frozen_is_left_alone(name):
    q = FAMILIES[name]()
    assert eqx.tree_equal(q.unfrozen(), q)


PRIOR = lambda: PoissonDepth(0.8)  # noqa: E731
N_SAMPLES = 20_000


@eqx.filter_jit
def compute(q):
    """All that a distribution can say, in one program."""
    return {
        "log_mass": q.log_mass(jnp.arange(-1, 64)),
        "log_masses": q.log_masses(1024),
        "fewer_log_masses": q.log_masses(64),
        "pmf": q.pmf(),
        "support": q.support(),
        "mean": q.mean(),
        "variance": q.variance(),
        "entropy": q.entropy(),
        "kl": q.kl(PRIOR()),
        "kl_to_itself": q.kl(q),
        "kl_to_its_highest_depth": q.kl(FixedDepth(q.support()[1])),
        "prior": PRIOR().log_masses(1024),
        "samples": q.sample(jax.random.key(0), (N_SAMPLES,)),
    }


@cache
def facts_about(family, precision):
    with jax.enable_x64(precision == "float64"):
        return jax.tree.map(np.asarray, compute(FAMILIES[family]()))


@pytest.fixture(params=FAMILIES)
def facts(request, precision):
    facts = facts_about(request.param, precision)
    assert facts["log_masses"].dtype == precision
    return facts


@pytest.fixture
def tolerance(precision):
    return CLOSED_FORM[precision]


def test_masses_sum_to_one(facts, tolerance):
    assert facts["pmf"].sum(dtype=np.float64) == pytest.approx(1, abs=tolerance)


def test_no_mass_outside_the_support(facts):
    lowest, highest = facts["support"]
    depth = np.arange(1024)
    inside = (depth >= lowest) & (depth <= highest)
    assert np.all(np.isfinite(facts["log_masses"][inside]))
    assert np.all(facts["log_masses"][~inside] == -np.inf)
    assert facts["log_mass"][0] == -np.inf  # of depth -1


def test_masses_do_not_depend_on_how_many_are_asked_for(facts, tolerance):
    np.testing.assert_allclose(facts["fewer_log_masses"], facts["log_masses"][:64], rtol=tolerance)
    np.testing.assert_array_equal(facts["log_mass"][1:], facts["log_masses"][:64])


def test_moments_and_entropy_are_the_sums(facts, tolerance):
    pmf = facts["pmf"].astype(np.float64)
    depth = np.arange(len(pmf))
    mean = pmf @ depth
    assert facts["mean"] == pytest.approx(mean, rel=tolerance, abs=tolerance)
    assert facts["variance"] == pytest.approx(pmf @ (depth - mean) ** 2, rel=tolerance, abs=tolerance)
    assert facts["entropy"] == pytest.approx(-pmf[pmf > 0] @ np.log(pmf[pmf > 0]), rel=tolerance, abs=tolerance)


def test_kl_is_the_sum_and_vanishes_for_itself(facts, tolerance):
    pmf = facts["pmf"].astype(np.float64)
    gap = (facts["log_masses"].astype(np.float64) - facts["prior"])[pmf > 0]
    assert facts["kl"] == pytest.approx(pmf[pmf > 0] @ gap, rel=tolerance, abs=tolerance)
    assert facts["kl"] > 0
    assert facts["kl_to_itself"] == 0


def test_kl_is_infinite_where_the_prior_has_no_mass(facts, tolerance):
    lowest, highest = facts["support"]
    expected = 0 if lowest == highest else np.inf
    assert facts["kl_to_its_highest_depth"] == pytest.approx(expected, abs=tolerance)


def test_samples_have_the_masses(facts):
    pmf = facts["pmf"].astype(np.float64)
    frequency = np.bincount(facts["samples"], minlength=1024) / N_SAMPLES
    assert np.all(frequency[pmf == 0] == 0)
    standard_error = np.sqrt(pmf * (1 - pmf) / N_SAMPLES) + 1 / N_SAMPLES
    assert np.all(np.abs(frequency - pmf) <= STANDARD_ERRORS * standard_error)


def test_gradients_agree_with_finite_differences():
    """In float64; float32 has too few digits for a difference."""
    with jax.enable_x64(True):
        for name, build in FAMILIES.items():
            params, static = eqx.partition(build(), eqx.is_inexact_array)
            flat, unflatten = jax.flatten_util.ravel_pytree(params)

            def loss(flat, static=static, unflatten=unflatten):
                q = eqx.combine(unflatten(flat), static)
                return q.kl(NormalDepth(0.0, 1.15)) + 0.3 * q.mean() + 0.2 * q.variance() - q.entropy()

            loss = jax.jit(loss)
            gradient = np.asarray(jax.jit(jax.grad(loss))(flat))
            for i in range(len(flat)):
                step = jnp.zeros_like(flat).at[i].set(1e-6)
                difference = float(loss(flat + step) - loss(flat - step)) / 2e-6
                assert gradient[i] == pytest.approx(difference, rel=GRADIENT, abs=GRADIENT), (name, i)


def test_a_family_has_its_conformance_tested_only_if_listed():
    listed = {type(build()) for build in FAMILIES.values()}
    ours = {family for family in DepthDistribution.__subclasses__() if family.__module__.startswith("leadline")}
    assert ours <= listed


def test_distributions_side_by_side():
    """Each run has its own masses, whether the families are one or several; only its own parameters move them."""
    several = [NormalDepth(1.0, 2.0, 0.0, 0.9), PoissonDepth(2.0, 0.95), NormalDepth(3.0, 1.0, 0.0, 0.9), FixedDepth(4)]
    for some in (several, several[::2]):
        together = jax.vmap(lambda q: q.log_masses(12))(side_by_side(some))
        for row, one in zip(together, some, strict=True):
            np.testing.assert_allclose(row, one.log_masses(12), rtol=CLOSED_FORM["float32"])
    assert isinstance(side_by_side(several[::2]), NormalDepth)

    def mean_of_second(q):
        return jax.vmap(lambda q: q.mean(12))(q)[1]

    gradient = eqx.filter_grad(mean_of_second)(side_by_side(several))
    changing = [np.flatnonzero(a).tolist() for a in jax.tree.leaves(gradient)]
    assert changing == [[], [], [1]]  # loc and scale of the normals, the rate of the Poisson
