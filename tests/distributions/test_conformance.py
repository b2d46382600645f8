"""What every depth distribution must do, in both precisions."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from leadline import CategoricalDepth, DepthDistribution, FixedDepth, NormalDepth, PoissonDepth
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
    "a user's own": lambda: GeometricDepth(jnp.array(0.4)),
}


@pytest.fixture(params=FAMILIES)
def q(request, precision):
    return FAMILIES[request.param]()


@pytest.fixture
def tolerance(precision):
    return CLOSED_FORM[precision]


def test_masses_sum_to_one(q, tolerance):
    assert float(q.pmf().sum()) == pytest.approx(1, abs=tolerance)


def test_no_mass_outside_the_support(q):
    lowest, highest = (int(end) for end in q.support())
    log_masses = np.asarray(q.log_mass(jnp.arange(64)))
    inside = np.zeros(64, bool)
    inside[lowest : highest + 1] = True
    assert np.all(np.isfinite(log_masses[inside]))
    assert np.all(log_masses[~inside] == -np.inf)
    assert float(q.log_mass(-1)) == -np.inf


def test_masses_do_not_depend_on_how_many_are_asked_for(q, tolerance):
    n = int(min(q.support()[1], 40)) + 1
    np.testing.assert_allclose(q.pmf(n), q.pmf()[:n], rtol=tolerance)


def test_moments_and_entropy_are_the_sums(q, tolerance):
    pmf = np.asarray(q.pmf(), np.float64)
    depth = np.arange(len(pmf))
    mean = pmf @ depth
    assert float(q.mean()) == pytest.approx(mean, rel=tolerance, abs=tolerance)
    assert float(q.variance()) == pytest.approx(pmf @ (depth - mean) ** 2, rel=tolerance, abs=tolerance)
    assert float(q.entropy()) == pytest.approx(-pmf[pmf > 0] @ np.log(pmf[pmf > 0]), rel=tolerance, abs=tolerance)


def test_kl_is_the_sum_and_vanishes_for_itself(q, tolerance):
    prior = PoissonDepth(0.8)
    pmf, log_q = np.asarray(q.pmf(), np.float64), np.asarray(q.log_mass(jnp.arange(1024)), np.float64)
    gap = np.where(pmf > 0, log_q - np.asarray(prior.log_mass(jnp.arange(1024)), np.float64), 0)
    assert float(q.kl(prior)) == pytest.approx(pmf @ gap, rel=tolerance, abs=tolerance)
    assert float(q.kl(prior)) > 0
    assert float(q.kl(q)) == 0


def test_kl_is_infinite_where_the_prior_has_no_mass(q):
    if int(q.support()[0]) != int(q.support()[1]):
        assert float(q.kl(FixedDepth(int(q.support()[1])))) == np.inf


def test_samples_have_the_masses(q):
    n = 20_000
    samples = np.asarray(q.sample(jax.random.key(0), (n,)))
    pmf = np.asarray(q.pmf(), np.float64)
    frequency = np.bincount(samples, minlength=1024) / n
    assert np.all(frequency[pmf == 0] == 0)
    standard_error = np.sqrt(pmf * (1 - pmf) / n) + 1 / n
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
    assert set(DepthDistribution.__subclasses__()) <= listed
