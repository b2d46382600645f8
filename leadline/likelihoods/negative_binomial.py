"""Counts that vary more than a Poisson distribution says."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import scipy.optimize
import scipy.special
from jaxtyping import Array, Float

from leadline.backend.numerics import as_float, softplus_inverse
from leadline.likelihoods.counting import CountLikelihood, CountMixture
from leadline.likelihoods.mixture import Mixture

LEAST, MOST = 1e-3, 100.0
"""Of the dispersion, as it begins: with the least the variance is that of a Poisson distribution but for a thousandth
of the mean squared."""


@dataclass(frozen=True)
class NegativeBinomialMixture(CountMixture):
    """Of negative binomial distributions."""

    dispersion: Float[np.ndarray, "components rows targets"]

    def component_cdf(self, y: Float[np.ndarray, "rows targets"]) -> Float[np.ndarray, "components rows targets"]:
        size = 1 / self.dispersion
        cdf = scipy.special.betainc(size, np.maximum(np.floor(y), 0) + 1, size / (size + self.mean))
        return np.where(y >= 0, cdf, 0.0)

    def log_densities(self, y: Float[np.ndarray, "rows targets"]) -> Float[np.ndarray, "components rows targets"]:
        return log_mass(y, self.mean, self.dispersion)


class NegativeBinomialLikelihood(CountLikelihood):
    """NB(y | mean, dispersion): the mean is exp(log_rate + output), the variance mean + dispersion mean^2, with one
    learned dispersion per target. It is a Poisson distribution whose rate varies from row to row by a gamma
    distribution."""

    name: ClassVar[str] = "negative-binomial"
    mixture: ClassVar[Callable[..., Mixture]] = NegativeBinomialMixture

    raw_dispersion: Float[Array, " targets"]

    def __init__(self, n_targets: int = 1, dispersion: float = 1.0):
        super().__init__(n_targets)
        self.raw_dispersion = _raw(np.full(n_targets, dispersion))

    @property
    def dispersion(self) -> Float[Array, "*runs targets"]:
        """Its `alpha`; its inverse is the size (or number of failures)."""
        return LEAST + jax.nn.softplus(self.raw_dispersion)

    def log_masses(
        self, output: Float[Array, "*batch targets"], y: Float[Array, "*batch targets"]
    ) -> Float[Array, "*batch targets"]:
        size, log_mean = 1 / self.dispersion, self.log_mean(output)
        log_share = jax.nn.log_sigmoid(log_mean - jnp.log(size))  # of the mean in mean + size
        log_rest = jax.nn.log_sigmoid(jnp.log(size) - log_mean)
        chosen = jax.lax.lgamma(y + size) - jax.lax.lgamma(size) - jax.lax.lgamma(y + 1)
        return chosen + y * log_share + size * log_rest

    def mean_and_scale(self, output: Float[Array, "*batch out"]) -> tuple[Array, Array]:
        mean = jnp.exp(self.log_mean(output))
        return mean, jnp.sqrt(mean + self.dispersion * jnp.square(mean))

    def components(self, output: Float[Array, "*batch out"]) -> tuple[Array, Array, Array]:
        mean, scale = self.mean_and_scale(output)
        return mean, scale, jnp.broadcast_to(self.dispersion, mean.shape)

    def starting(self, y: np.ndarray, weight: np.ndarray) -> "NegativeBinomialLikelihood":
        """With the dispersion under which rows of one mean are most probable."""
        best = [_best(one, weight)[0] for one in y.reshape(len(y), -1).T]
        started = super().starting(y, weight)
        return eqx.tree_at(lambda one: one.raw_dispersion, started, _raw(np.array(best)))

    def nll_of_guessing(self, y: np.ndarray, weight: np.ndarray) -> float:
        return sum(_best(one, weight)[1] for one in y.reshape(len(y), -1).T)


def log_mass(y: np.ndarray, mean: np.ndarray, dispersion: np.ndarray) -> np.ndarray:
    """ln NB(y | mean, dispersion)."""
    size = 1 / dispersion
    chosen = scipy.special.gammaln(y + size) - scipy.special.gammaln(size) - scipy.special.gammaln(y + 1)
    return chosen + scipy.special.xlogy(y, mean / (mean + size)) - size * np.log1p(mean / size)


def _best(y: np.ndarray, weight: np.ndarray) -> tuple[float, float]:
    """The dispersion under which counts of one mean are most probable, and nats per row then."""
    mean = np.maximum(np.average(y, weights=weight), 1e-9)

    def nll(log_dispersion: float) -> float:
        return -float(np.average(log_mass(y, mean, np.exp(log_dispersion)), weights=weight))

    found = scipy.optimize.minimize_scalar(nll, bounds=(np.log(2 * LEAST), np.log(MOST)), method="bounded")
    return float(np.exp(found.x)), float(found.fun)


def _raw(dispersion: np.ndarray) -> Float[Array, " targets"]:
    return softplus_inverse(as_float(dispersion - LEAST))
