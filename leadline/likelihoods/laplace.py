"""Numbers by their median."""

from collections.abc import Callable
from typing import ClassVar

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from leadline.likelihoods.mixture import LocationScaleMixture, Mixture
from leadline.likelihoods.robust import RobustLikelihood, weighted_median


class LaplaceMixture(LocationScaleMixture):
    """Of Laplace distributions; `scale` is the standard deviation, and what is predicted the median."""

    def point(self, mean: Float[np.ndarray, "rows targets"]) -> Float[np.ndarray, "rows targets"]:
        return self.quantile(0.5)

    def component_cdf(self, y: Float[np.ndarray, "rows targets"]) -> Float[np.ndarray, "components rows targets"]:
        distance = np.sqrt(2) * (y - self.mean) / self.scale
        tail = 0.5 * np.exp(-np.abs(distance))
        return np.where(distance < 0, tail, 1 - tail)

    def log_densities(self, y: Float[np.ndarray, "rows targets"]) -> Float[np.ndarray, "components rows targets"]:
        width = self.scale / np.sqrt(2)
        return -np.abs(y - self.mean) / width - np.log(2 * width)


class LaplaceLikelihood(RobustLikelihood):
    """Laplace(y | output, width): the output is the median of y, the width the mean distance from it. Its errors count
    by their size, not by their square."""

    name: ClassVar[str] = "laplace"
    mixture: ClassVar[Callable[..., Mixture]] = LaplaceMixture

    @property
    def noise_scale(self) -> Float[Array, "*runs targets"]:
        return jnp.sqrt(2.0) * self.width

    def log_prob(self, output: Float[Array, "*batch out"], y: Float[Array, "*batch targets"]) -> Float[Array, "*batch"]:
        return jnp.sum(-jnp.abs(self.distance(output, y)) - jnp.log(2 * self.width), axis=-1)

    def nll_of_guessing(self, y: np.ndarray, weight: np.ndarray) -> float:
        width = np.average(np.abs(y - weighted_median(y, weight)), axis=0, weights=weight)
        return float(np.sum(1 + np.log(2 * np.maximum(width, 1e-6))))
