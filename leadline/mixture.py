"""The predictive distribution of a number: a mixture of Gaussians over restarts, weight samples and depths."""

from dataclasses import dataclass

import numpy as np
import scipy.special
from jaxtyping import Float


@dataclass(frozen=True)
class GaussianMixture:
    """One mixture for every point; the components' shares and scales are the same for all points."""

    share: Float[np.ndarray, " components"]
    mean: Float[np.ndarray, " components *points"]
    scale: Float[np.ndarray, " components"]

    def cdf(self, y: Float[np.ndarray, "*points"]) -> Float[np.ndarray, "*points"]:
        shape = (-1, *[1] * y.ndim)
        return np.tensordot(self.share, scipy.special.ndtr((y - self.mean) / self.scale.reshape(shape)), axes=1)

    def log_density(self, y: Float[np.ndarray, "*points"]) -> Float[np.ndarray, "*points"]:
        scale = self.scale.reshape(-1, *[1] * y.ndim)
        log_density = -0.5 * np.square((y - self.mean) / scale) - np.log(scale) - 0.5 * np.log(2 * np.pi)
        return np.asarray(scipy.special.logsumexp(log_density, axis=0, b=self.share.reshape(scale.shape)))

    def quantile(self, level: float) -> Float[np.ndarray, "*points"]:
        """The y with cdf(y) = level, by bisection between the components' own quantiles, to twelve digits."""
        ends = self.mean + scipy.special.ndtri(level) * self.scale.reshape(-1, *[1] * (self.mean.ndim - 1))
        low, high = ends.min(axis=0), ends.max(axis=0)
        for _ in range(40):
            middle = 0.5 * (low + high)
            below = self.cdf(middle) < level
            low, high = np.where(below, middle, low), np.where(below, high, middle)
        return 0.5 * (low + high)
