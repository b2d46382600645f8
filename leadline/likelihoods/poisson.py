"""Counts with a variance that is their mean."""

from collections.abc import Callable
from typing import ClassVar

import jax
import jax.numpy as jnp
import numpy as np
import scipy.special
from jaxtyping import Array, Float

from leadline.likelihoods.counting import CountLikelihood, CountMixture
from leadline.likelihoods.mixture import Mixture


class PoissonMixture(CountMixture):
    """Of Poisson distributions."""

    def component_cdf(self, y: Float[np.ndarray, "rows targets"]) -> Float[np.ndarray, "components rows targets"]:
        return np.where(y >= 0, scipy.special.pdtr(np.maximum(np.floor(y), 0), self.mean), 0.0)

    def log_densities(self, y: Float[np.ndarray, "rows targets"]) -> Float[np.ndarray, "components rows targets"]:
        return scipy.special.xlogy(y, self.mean) - self.mean - scipy.special.gammaln(y + 1)


class PoissonLikelihood(CountLikelihood):
    """Poisson(y | exp(log_rate + output))."""

    name: ClassVar[str] = "poisson"
    mixture: ClassVar[Callable[..., Mixture]] = PoissonMixture

    def log_masses(
        self, output: Float[Array, "*batch targets"], y: Float[Array, "*batch targets"]
    ) -> Float[Array, "*batch targets"]:
        log_mean = self.log_mean(output)
        return y * log_mean - jnp.exp(log_mean) - jax.lax.lgamma(y + 1)

    def mean_and_scale(self, output: Float[Array, "*batch out"]) -> tuple[Array, Array]:
        log_mean = self.log_mean(output)
        return jnp.exp(log_mean), jnp.exp(0.5 * log_mean)

    def nll_of_guessing(self, y: np.ndarray, weight: np.ndarray) -> float:
        rate = np.average(y, axis=0, weights=weight)
        nll = rate - scipy.special.xlogy(y, rate) + scipy.special.gammaln(y + 1)
        return float(np.average(nll, axis=0, weights=weight).sum())
