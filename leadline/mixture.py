"""The predictive distribution of a number: a mixture of Gaussians over restarts, weight samples and depths."""

from dataclasses import dataclass, replace

import numpy as np
import scipy.special
from jaxtyping import Float


@dataclass(frozen=True)
class GaussianMixture:
    """One mixture for every row; a component has a mean and a scale for each of the row's targets."""

    share: Float[np.ndarray, " components"]
    mean: Float[np.ndarray, "components rows targets"]
    scale: Float[np.ndarray, "components rows targets"]

    def cdf(self, y: Float[np.ndarray, "rows targets"]) -> Float[np.ndarray, "rows targets"]:
        """Of every target alone."""
        return np.tensordot(self.share, scipy.special.ndtr((y - self.mean) / self.scale), axes=1)

    def log_densities(self, y: Float[np.ndarray, "rows targets"]) -> Float[np.ndarray, "components rows targets"]:
        """Of every target alone, under every component."""
        return -0.5 * np.square((y - self.mean) / self.scale) - np.log(self.scale) - 0.5 * np.log(2 * np.pi)

    def log_density(self, y: Float[np.ndarray, "rows targets"]) -> Float[np.ndarray, " rows"]:
        """Of the targets of a row together: given the component they are independent."""
        log_density = self.log_densities(y).sum(axis=2)
        return np.asarray(scipy.special.logsumexp(log_density, axis=0, b=self.share[:, None]))

    def reweighed(self, factor: Float[np.ndarray, " components"]) -> "GaussianMixture":
        """With other shares of the components."""
        return replace(self, share=self.share * factor)

    def widened(self, spread: Float[np.ndarray, " targets"]) -> "GaussianMixture":
        """With the same mean, and all deviations from it so many times as large."""
        centre = np.tensordot(self.share, self.mean, axes=1)
        return replace(self, mean=centre + spread * (self.mean - centre), scale=spread * self.scale)

    def target(self, i: int) -> "GaussianMixture":
        """That of one target."""
        return replace(self, mean=self.mean[..., i : i + 1], scale=self.scale[..., i : i + 1])

    def moments(self) -> tuple[Float[np.ndarray, "rows targets"], Float[np.ndarray, "rows targets"]]:
        """The mean and the variance of every target."""
        mean = np.tensordot(self.share, self.mean, axes=1)
        return mean, np.tensordot(self.share, np.square(self.scale) + np.square(self.mean - mean), axes=1)

    def quantile(self, level: float) -> Float[np.ndarray, "rows targets"]:
        """The y with cdf(y) = level, by bisection between the components' own quantiles, to twelve digits."""
        ends = self.mean + scipy.special.ndtri(level) * self.scale
        low, high = ends.min(axis=0), ends.max(axis=0)
        for _ in range(40):
            middle = 0.5 * (low + high)
            below = self.cdf(middle) < level
            low, high = np.where(below, middle, low), np.where(below, high, middle)
        return 0.5 * (low + high)
