"""The predictive distribution of a number: a mixture over restarts, weight samples and depths."""

import abc
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import scipy.special
from jaxtyping import Float, Int


@dataclass(frozen=True)
class Mixture(abc.ABC):
    """One mixture for every row; a component has a mean and a scale for each of the row's targets.

    A subclass says which distribution the components have (`component_cdf`, `log_densities`). Fields after `share` are
    arrays [components, rows, targets].
    """

    share: Float[np.ndarray, " components"]
    mean: Float[np.ndarray, "components rows targets"]
    scale: Float[np.ndarray, "components rows targets"]

    @abc.abstractmethod
    def component_cdf(self, y: Float[np.ndarray, "rows targets"]) -> Float[np.ndarray, "components rows targets"]:
        """P(target <= y) under every component."""

    @abc.abstractmethod
    def log_densities(self, y: Float[np.ndarray, "rows targets"]) -> Float[np.ndarray, "components rows targets"]:
        """Of every target alone, under every component."""

    def cdf(self, y: Float[np.ndarray, "rows targets"]) -> Float[np.ndarray, "rows targets"]:
        """Of every target alone."""
        return np.tensordot(self.share, self.component_cdf(y), axes=1)

    def log_density(self, y: Float[np.ndarray, "rows targets"]) -> Float[np.ndarray, " rows"]:
        """Of the targets of a row together: given the component they are independent."""
        log_density = self.log_densities(y).sum(axis=2)
        return np.asarray(scipy.special.logsumexp(log_density, axis=0, b=self.share[:, None]))

    def moments(self) -> tuple[Float[np.ndarray, "rows targets"], Float[np.ndarray, "rows targets"]]:
        """The mean and the variance of every target."""
        mean = np.tensordot(self.share, self.mean, axes=1)
        return mean, np.tensordot(self.share, np.square(self.scale) + np.square(self.mean - mean), axes=1)

    def point(self, mean: Float[np.ndarray, "rows targets"]) -> Float[np.ndarray, "rows targets"]:
        """What is predicted where one number is asked for: the mean."""
        return mean

    def below(self, y: Float[np.ndarray, "rows targets"]) -> Float[np.ndarray, "rows targets"] | None:
        """P(target < y), of every target alone; None where that is the cdf."""
        return None

    def said_of(self, y: Float[np.ndarray, "rows 1"]) -> Float[np.ndarray, "rows 5"]:
        """Of every row with one target: the error of the prediction, the log densities of the mixture and of the
        Gaussian with its moments, P(target < y) and P(target <= y)."""
        mean, variance = self.moments()
        error, deviation = (y - self.point(mean))[:, 0], (y - mean)[:, 0]
        gaussian = -0.5 * (deviation**2 / variance[:, 0] + np.log(2 * np.pi * variance[:, 0]))
        cdf = self.cdf(y)
        below = self.below(y)
        ends = (cdf if below is None else below)[:, 0], cdf[:, 0]
        return np.stack([error, self.log_density(y), gaussian, *ends], axis=1)

    def sample(self, rng: np.random.Generator) -> Float[np.ndarray, "rows targets"]:
        """A draw of the targets of every row: a component, and from it each target alone."""
        n_rows = self.mean.shape[1]
        chosen = rng.choice(len(self.share), n_rows, p=self.share / self.share.sum()), np.arange(n_rows)
        parts: dict[str, Any] = {name: value[chosen][None] for name, value in vars(self).items() if name != "share"}
        return replace(self, share=np.ones(1), **parts).quantile(rng.uniform(size=self.mean.shape[1:]))

    def quantile(self, level: Any) -> Float[np.ndarray, "rows targets"]:
        """The y with cdf(y) = level, by bisection between ends that surely hold it, to twelve digits; the level is one
        for all, or of every target its own."""
        low, high = self.ends(level)
        for _ in range(40):
            middle = 0.5 * (low + high)
            below = self.cdf(middle) < level
            low, high = np.where(below, middle, low), np.where(below, high, middle)
        return 0.5 * (low + high)

    def ends(self, level: Any) -> tuple[np.ndarray, np.ndarray]:
        """Between which the quantile lies: Cantelli's inequality, for every component."""
        reach = np.sqrt(np.maximum(level, 1 - level) / np.minimum(level, 1 - level))
        return (self.mean - reach * self.scale).min(axis=0), (self.mean + reach * self.scale).max(axis=0)

    def widened(self, factor: Float[np.ndarray, " targets"]) -> "Mixture":
        """With the same mean, and all deviations from it so many times as large, where such a family can be."""
        return self

    can_widen = False
    """Whether `widened` does anything."""

    def target(self, i: int) -> "Mixture":
        """That of one target."""
        some: dict[str, Any] = {name: value[..., i : i + 1] for name, value in vars(self).items() if name != "share"}
        return replace(self, **some)


@dataclass(frozen=True)
class ClassMixture:
    """The predictive distribution of a class: one mixture for every row, softened as a whole."""

    share: Float[np.ndarray, " components"]
    probabilities: Float[np.ndarray, "components rows classes"]
    spread: float = 1.0
    can_widen = True

    def log_densities(self, y: Int[np.ndarray, "rows 1"]) -> Float[np.ndarray, "components rows 1"]:
        """Of the right class, under every component."""
        return _log(np.take_along_axis(self.probabilities, y[None], axis=2))

    def log_density(self, y: Int[np.ndarray, "rows 1"]) -> Float[np.ndarray, " rows"]:
        """Of the right class."""
        together = softened(np.tensordot(self.share, self.probabilities, axes=1), self.spread)
        return _log(np.take_along_axis(together, y, axis=1))[:, 0]

    def widened(self, factor: Float[np.ndarray, " 1"]) -> "ClassMixture":
        """With so many times as large a spread."""
        return replace(self, spread=self.spread * float(factor[0]))

    def target(self, i: int) -> "ClassMixture":
        """There is one."""
        return self


def softened(probabilities: Float[np.ndarray, "*rows classes"], spread: Any) -> Float[np.ndarray, "*rows classes"]:
    """p^(1 / spread), normalised: as if the logits were divided by the spread. Above 1 it is softer, below sharper."""
    return scipy.special.softmax(_log(probabilities) / spread, axis=-1)


def _log(probabilities: np.ndarray) -> np.ndarray:
    """What a float32 holds as zero is not impossible."""
    return np.log(np.maximum(probabilities.astype(float), np.finfo(np.float32).tiny))


class LocationScaleMixture(Mixture):
    """Of distributions that stay of their family when they are moved and stretched."""

    can_widen = True

    def widened(self, factor: Float[np.ndarray, " targets"]) -> "Mixture":
        centre = np.tensordot(self.share, self.mean, axes=1)
        return replace(self, mean=centre + factor * (self.mean - centre), scale=factor * self.scale)


class GaussianMixture(LocationScaleMixture):
    """Of Gaussians."""

    def component_cdf(self, y: Float[np.ndarray, "rows targets"]) -> Float[np.ndarray, "components rows targets"]:
        return scipy.special.ndtr((y - self.mean) / self.scale)

    def log_densities(self, y: Float[np.ndarray, "rows targets"]) -> Float[np.ndarray, "components rows targets"]:
        return -0.5 * np.square((y - self.mean) / self.scale) - np.log(self.scale) - 0.5 * np.log(2 * np.pi)

    def ends(self, level: Any) -> tuple[np.ndarray, np.ndarray]:
        """The components' own quantiles."""
        ends = self.mean + scipy.special.ndtri(level) * self.scale
        return ends.min(axis=0), ends.max(axis=0)
