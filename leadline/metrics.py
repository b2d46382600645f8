"""How good and how honest predictions are, and each measure by its name: what it is called, and how it is written."""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import numpy as np

from leadline._checks import check_integer

UNKNOWN = -1
"""The number of a class that is not among those which have a probability: rows of it are wrong, whatever is said."""


def accuracy(probabilities: np.ndarray, y: np.ndarray) -> float:
    """Percent of rows whose most probable class is the right one."""
    return float(100 * np.mean(probabilities.argmax(axis=1) == y))


def log_probability(probabilities: np.ndarray, y: np.ndarray) -> np.ndarray:
    """ln p(right class), row by row. A probability of exactly zero counts as the smallest float; that of a class which
    is not among them (`UNKNOWN`) is none, whose logarithm is minus infinity."""
    right = np.maximum(probabilities[np.arange(len(y)), y], np.finfo(probabilities.dtype).tiny)
    return np.where(np.asarray(y) == UNKNOWN, -np.inf, np.log(right))


def nll(probabilities: np.ndarray, y: np.ndarray) -> float:
    """Mean of -ln p(right class), in nats per row (see `log_probability`)."""
    return float(-np.mean(log_probability(probabilities, y)))


def brier(probabilities: np.ndarray, y: np.ndarray) -> float:
    """Mean squared distance between the probabilities and the right class, summed over classes: 0 to 2."""
    y, known = np.asarray(y), np.arange(probabilities.shape[1])
    distance = np.sum((probabilities - (y[:, None] == known).astype(float)) ** 2, axis=1)
    return float(np.mean(distance + (y == UNKNOWN)))  # whose own probability is 0 and should be 1


def reliability(
    probabilities: np.ndarray, y: np.ndarray, n_bins: int = 15
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Rows, their mean confidence and their accuracy (0 to 1) in equal-width bins of the top probability.

    Bin k holds (k / n, (k + 1) / n]; an empty bin has confidence and accuracy NaN.
    """
    check_integer("n_bins", n_bins, 1)
    confidence = probabilities.max(axis=1)
    right = probabilities.argmax(axis=1) == y
    bins = np.clip(np.ceil(confidence * n_bins).astype(int) - 1, 0, n_bins - 1)
    rows = np.bincount(bins, minlength=n_bins)
    with np.errstate(invalid="ignore"):
        means = [np.bincount(bins, weights=values, minlength=n_bins) / rows for values in (confidence, right)]
    return rows, means[0], means[1]


def ece(probabilities: np.ndarray, y: np.ndarray, n_bins: int = 15) -> float:
    """Expected calibration error: the mean over rows of |accuracy - confidence| of their bin (see `reliability`)."""
    rows, confidence, right = reliability(probabilities, y, n_bins)
    return float(np.nansum(rows * np.abs(right - confidence)) / len(y))


class OfClasses(NamedTuple):
    """What is said of every row of a classification."""

    probabilities: np.ndarray
    y: np.ndarray
    """The right classes, by number; `UNKNOWN` where it is another."""


class OfNumbers(NamedTuple):
    """What is said of every row of a regression, in the units of the target."""

    error: np.ndarray
    """Of the mean."""
    log_mixture: np.ndarray
    """The log density of the target under the whole predictive distribution."""
    log_gaussian: np.ndarray
    """The same under the Gaussian with its moments."""
    level: np.ndarray
    """Of the central interval that the target is on the edge of."""


Guess = tuple[float, str]
"""What a simpler prediction gives, and in which words."""


@dataclass(frozen=True)
class Measure:
    """One way to judge predictions: its column, its label, its format, and what to compare it with."""

    name: str
    kind: Literal["classes", "numbers"]
    label: str
    meaning: str
    of: Callable[[Any], float]
    """From what is said of every row (`OfClasses`, `OfNumbers`)."""
    show: Callable[[float], str]
    better: Literal["higher", "lower", "equal"] = "lower"
    guess: Callable[[Mapping[str, Any]], Guess | None] = lambda record: None
    """From what a record says of its rows."""


MEASURES: dict[str, Measure] = {}
"""By their names, in the order in which they are shown."""


def add_measure(measure: Measure) -> Measure:
    """Have a measure in every record, table, page and summary from now on."""
    MEASURES[measure.name] = measure
    return measure


def measured(said: OfClasses | OfNumbers) -> dict[str, float]:
    """All measures of a prediction, under the record's names."""
    kind = "classes" if isinstance(said, OfClasses) else "numbers"
    return {measure.name: measure.of(said) for measure in measures_of(kind)}


def measures_of(kind: str) -> list[Measure]:
    """Those for classes, or for numbers."""
    return [measure for measure in MEASURES.values() if measure.kind == kind]


# How numbers are written


def in_percent(percent: float) -> str:
    """0 to 100, with as many digits as tell good from very good."""
    digits = 0 if percent == 100 else 2 if percent > 99 else 1
    return f"{percent:.{digits}f} %"


def share(value: float) -> str:
    """0 to 1, in percent."""
    return f"{100 * value:.1f} %"


def in_digits(value: float) -> str:
    """Three digits, or all that stand before the point."""
    if isinstance(value, int) or value == 0:
        text = f"{value:,}"
    elif 1e-4 <= abs(value) < 1e9:
        text = f"{value:,.{max(0, 2 - math.floor(math.log10(abs(value))))}f}"
    else:
        text = f"{value:.2e}"
    return text.replace("-", "\N{MINUS SIGN}")


# What knowing the shares of the classes alone would give


def _shares(record: Mapping[str, Any]) -> tuple[np.ndarray, str, str] | None:
    """Of the classes, the name of the commonest, and in which words one would answer."""
    if "omega" in record:  # the arms of the spiral are as probable
        return np.full(2, 0.5), "", "tossing a coin"
    shares = record.get("class_shares")
    if not shares:
        return None
    known = np.array([share for share in shares.values() if share > 0])
    return known, max(shares, key=shares.__getitem__), "answering with the shares of the classes"


def _by_shares(cost: Callable[[np.ndarray], float]) -> Callable[[Mapping[str, Any]], Guess | None]:
    def guess(record: Mapping[str, Any]) -> Guess | None:
        known = _shares(record)
        return None if known is None else (float(cost(known[0])), known[2])

    return guess


def _commonest(record: Mapping[str, Any]) -> Guess | None:
    known = _shares(record)
    if known is None:
        return None
    shares, name, words = known
    return 100 * float(shares.max()), f"always answering “{name}”" if name else words


def _mean_alone(record: Mapping[str, Any]) -> Guess | None:
    deviation = record.get("target_std")
    return (deviation, "always answering the mean") if deviation else None


def _one_curve(record: Mapping[str, Any]) -> Guess | None:
    deviation = record.get("target_std")
    if not deviation:
        return None
    return -0.5 * math.log(2 * math.pi * math.e * deviation**2), "one normal curve for all rows"


for _one in (
    Measure(
        *("accuracy", "classes", "Accuracy", "Rows whose most probable class is the right one."),
        *(lambda said: accuracy(*said), in_percent, "higher", _commonest),
    ),
    Measure(
        *("nll", "classes", "Surprise (NLL)"),
        "Mean of −ln(probability of the right class), in nats. 0 is perfect.",
        *(lambda said: nll(*said), in_digits, "lower", _by_shares(lambda share: -np.sum(share * np.log(share)))),
    ),
    Measure(
        *("brier", "classes", "Brier score"),
        "Squared distance of the probabilities from the truth. 0 is perfect.",
        *(lambda said: brier(*said), in_digits, "lower", _by_shares(lambda share: 1 - np.sum(share**2))),
    ),
    Measure(
        *("ece", "classes", "Calibration error", "How far confidence and accuracy lie apart, on average."),
        *(lambda said: ece(*said), share),
    ),
    Measure(
        *("rmse", "numbers", "Typical error (RMSE)"),
        "Root of the mean squared error, in the target’s own units.",
        *(lambda said: float(np.sqrt(np.mean(said.error**2))), in_digits, "lower", _mean_alone),
    ),
    Measure(
        *("ll_mixture", "numbers", "Log-likelihood"),
        "Mean of ln(density at the true value), in nats. Higher is better.",
        *(lambda said: float(np.mean(said.log_mixture)), in_digits, "higher", _one_curve),
    ),
    Measure(
        *("ll_gaussian", "numbers", "Log-likelihood (Gaussian)"),
        "The same under one normal curve with the prediction’s mean and deviation.",
        *(lambda said: float(np.mean(said.log_gaussian)), in_digits, "higher"),
    ),
    *(
        Measure(
            *(f"coverage_{level}", "numbers", f"Coverage at {level} %"),
            f"Rows whose true value lies inside their {level} % interval.",
            *(lambda said, level=level: float(np.mean(said.level <= level / 100)), share, "equal"),
            lambda record, level=level: (level / 100, "if honest"),
        )
        for level in (50, 90, 95)
    ),
):
    add_measure(_one)
