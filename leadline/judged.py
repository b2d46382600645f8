"""What is said of rows whose target is known, and measures that are particular to numbers, counts or ranks."""

import math
from typing import Any, NamedTuple

import numpy as np
import scipy.special

UNKNOWN = -1
"""The number of a class that is not among those which have a probability: rows of it are wrong, whatever is said."""


class OfClasses(NamedTuple):
    """What is said of every row of a classification."""

    probabilities: np.ndarray
    y: np.ndarray
    """The right classes, by number; `UNKNOWN` where it is another."""

    kinds = ("classes",)
    """Of the measures that judge it."""


class OfRanks(OfClasses):
    """The same of classes that are in the order of their numbers."""

    kinds = ("classes", "ranks")


class OfNumbers(NamedTuple):
    """What is said of every row of a regression, in the units of the target."""

    error: np.ndarray
    """The target less what is predicted: the mean, of some likelihoods the median."""
    log_mixture: np.ndarray
    """The log density of the target under the whole predictive distribution, of a count its log probability."""
    log_gaussian: np.ndarray | None
    """The log density under the Gaussian with its moments; None for counts."""
    level: np.ndarray
    """Of the central interval that the target is on the edge of."""
    y: np.ndarray | None = None
    """The target."""
    below: np.ndarray | None = None
    at: np.ndarray | None = None
    """Of a count, how probable less was, and how probable no more."""

    kinds = ("numbers",)
    """Of the measures that judge it."""

    @classmethod
    def of_units(cls, said: np.ndarray, y: np.ndarray, scale: Any) -> "OfNumbers":
        """From the columns of `Mixture.said_of`, for targets that were divided by such a scale."""
        error, mixture, gaussian, below, at = said.T
        level, shift = np.maximum(np.maximum(2 * below - 1, 1 - 2 * at), 0.0), np.log(scale)
        return cls(scale * error, mixture - shift, gaussian - shift, level, y)


class OfCounts(OfNumbers):
    """What is said of counts; `level` is that of the smallest central interval that holds the target."""

    kinds = ("numbers", "counts")

    @classmethod
    def of_units(cls, said: np.ndarray, y: np.ndarray, scale: Any) -> "OfCounts":
        *_, below, at = said.T
        usual = OfNumbers.of_units(said, y, scale)
        return cls(usual.error, usual.log_mixture, None, usual.level, y, below, at)


OF_CLASSES: dict[str, type[OfClasses]] = {"classes": OfClasses, "ranks": OfRanks}
OF_NUMBERS: dict[str, type[OfNumbers]] = {"numbers": OfNumbers, "counts": OfCounts}
"""What is said of targets that are judged so (`Likelihood.judged`)."""


def inside(said: OfNumbers, coverage: float) -> np.ndarray:
    """How much of every row lies inside its central interval: 1 or 0; of a count on its edge the share that belongs
    inside, so that honest intervals hold as much as they should."""
    if said.below is None or said.at is None:
        return (said.level <= coverage).astype(float)
    low, high = 0.5 - coverage / 2, 0.5 + coverage / 2
    held, whole = np.minimum(said.at, high) - np.maximum(said.below, low), said.at - said.below
    return np.clip(np.divide(held, whole, out=(said.level <= coverage).astype(float), where=whole > 0), 0, 1)


def poisson_deviance(said: OfNumbers) -> float:
    """The mean of 2 (y ln(y / mean) - y + mean): 0 is perfect, and about 1 is what Poisson counts allow; infinite where
    a mean is not above 0."""
    assert said.y is not None
    mean = said.y - said.error
    if not (mean > 0).all():
        return math.inf
    return float(np.mean(2 * (scipy.special.xlogy(said.y, said.y / mean) - said.error)))


def one_rate(y: np.ndarray) -> dict[str, float]:
    """The measures of counts, by name, if a Poisson distribution with their mean is predicted for all."""
    rate = np.mean(y)
    mass = scipy.special.xlogy(y, rate) - rate - scipy.special.gammaln(y + 1)
    said = OfCounts(y - rate, mass, None, np.zeros(len(y)), y)
    return {"ll_mixture": float(mass.mean()), "deviance": poisson_deviance(said)} if rate > 0 else {}


def ranks_away(said: OfClasses) -> float:
    """By how many classes the most probable one lies away from the right one, on average."""
    known = said.y != UNKNOWN
    return float(np.mean(np.abs(said.probabilities.argmax(axis=1) - said.y)[known])) if known.any() else math.nan


def rps(said: OfClasses) -> float:
    """The ranked probability score: the squared distance of the cumulative probabilities from the truth, summed over
    the classes, on average."""
    known = said.y != UNKNOWN
    truth = said.y[known, None] <= np.arange(said.probabilities.shape[1])
    distance = np.square(said.probabilities[known].cumsum(axis=1) - truth).sum(axis=1)
    return float(np.mean(distance)) if known.any() else math.nan


def r2(said: OfNumbers) -> float:
    """The share of the variance of the targets that the mean explains; NaN where they do not vary."""
    if said.y is None or np.ptp(said.y) == 0:
        return math.nan
    return float(1 - np.mean(said.error**2) / np.var(said.y))
