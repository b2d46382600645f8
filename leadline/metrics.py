"""How good and how honest predictions are, and each measure by its name: what it is called, and how it is written."""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import scipy.special

from leadline._checks import check_integer
from leadline.judged import (
    UNKNOWN,
    OfClasses,
    OfNumbers,
    inside,
    poisson_deviance,
    r2,
    ranks_away,
    rps,
)


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


def chance_band(rows: np.ndarray, confidence: np.ndarray, coverage: float = 0.95) -> tuple[np.ndarray, np.ndarray]:
    """Between which shares right the bins of `reliability` would lie, so often, if every row of theirs were right with
    its probability: the central interval of the binomial distribution, of a normal one where rows are many."""
    rows, confidence = np.asarray(rows), np.asarray(confidence, float)
    tail = 0.5 - coverage / 2
    reach = scipy.special.ndtri(1 - tail) * np.sqrt(confidence * (1 - confidence) / np.maximum(rows, 1))
    low, high = np.clip(confidence - reach, 0, 1), np.clip(confidence + reach, 0, 1)
    for i in np.flatnonzero((rows > 0) & (rows <= MANY)):
        n = int(rows[i])
        cdf = scipy.special.bdtr(np.arange(n), n, min(confidence[i], 1.0))
        low[i], high[i] = np.searchsorted(cdf, [tail, 1 - tail]) / n
    return low, high


MANY = 1000
"""Rows from which on a binomial distribution is as good as normal."""


def areas(probabilities: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Under the ROC curve and under the curve of precision over recall (average precision), of every class against the
    rest; NaN where the rows are all of the class, or none is."""
    curves = [roc_curve(score, y == k) for k, score in enumerate(np.asarray(probabilities).T)]
    both = np.full((2, len(curves)), np.nan)
    for k, (false, right) in enumerate(curves):
        if 0 < right[-1] < len(y):
            both[0, k] = np.diff(false) @ (right[1:] + right[:-1]) / (2 * right[-1] * false[-1])
            both[1, k] = np.diff(right) @ (right[1:] / (right + false)[1:]) / right[-1]
    return both[0], both[1]


def roc_curve(score: np.ndarray, right: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """How many rows that are not right, and how many that are, score at least as much as every score; from none on."""
    order = np.argsort(-score)
    last = np.append(np.flatnonzero(np.diff(score[order])), len(score) - 1)  # of those that score the same
    above = np.append(0, np.cumsum(right[order])[last])
    return np.append(0, last + 1) - above, above


def one_against_rest(of_classes: np.ndarray) -> float:
    """Of two classes the second's, as is usual; of more the mean over those that have one; NaN where none has."""
    if len(of_classes) == 2:
        return float(of_classes[1])
    some = of_classes[~np.isnan(of_classes)]
    return float(some.mean()) if len(some) else math.nan


def confusion(probabilities: np.ndarray, y: np.ndarray) -> np.ndarray:
    """How many rows of each class (down) are taken for each (across); rows of none of them are left out."""
    n, known = probabilities.shape[1], y != UNKNOWN
    return np.bincount(n * y[known] + probabilities[known].argmax(axis=1), minlength=n * n).reshape(n, n)


Guess = tuple[float, str]
"""What a simpler prediction gives, and in which words."""


@dataclass(frozen=True)
class Measure:
    """One way to judge predictions: its column, its label, its format, and what to compare it with."""

    name: str
    kind: Literal["classes", "ranks", "numbers", "counts"]
    label: str
    meaning: str
    of: Callable[[Any], float]
    """From what is said of every row (`OfClasses`, `OfNumbers`); NaN where it has no meaning."""
    show: Callable[[float], str]
    better: Literal["higher", "lower", "equal"] = "lower"
    guess: Callable[[Mapping[str, Any]], Guess | None] = lambda record: None
    """From what a record says of its rows."""

    def show_error(self, error: float) -> str:
        """A standard error, in two digits where there are such, and without a sign."""
        return in_digits(error, 2) if self.show in (in_digits, in_negative) else self.show(error)


MEASURES: dict[str, Measure] = {}
"""By their names, in the order in which they are shown."""


def add_measure(measure: Measure) -> Measure:
    """Have a measure in every record, table, page and summary from now on."""
    MEASURES[measure.name] = measure
    return measure


def measured(said: OfClasses | OfNumbers) -> dict[str, float]:
    """All measures of a prediction that have a meaning there, under the record's names."""
    values = {measure.name: measure.of(said) for measure in MEASURES.values() if measure.kind in said.kinds}
    return {name: value for name, value in values.items() if not math.isnan(value)}


RESAMPLES, MOST_RESAMPLED = 100, 1000
"""Behind a standard error, and the rows of each: with more rows, the errors of so many are scaled."""


def standard_errors(said: OfClasses | OfNumbers) -> dict[str, float]:
    """Of all measures, for other rows of the kind: the bootstrap, deviations over rows drawn again with replacement.

    Where all draws agree (every row is right, say) they do not tell, and there is none.
    """
    n, rng = len(said[0]), np.random.default_rng(0)
    size = min(n, MOST_RESAMPLED)
    tries: dict[str, list[float]] = {}
    for _ in range(RESAMPLES if n > 1 else 0):
        rows = rng.integers(n, size=size)
        again: Any = type(said)._make(part if part is None else part[rows] for part in said)
        for name, value in measured(again).items():
            tries.setdefault(name, []).append(value)
    errors = {}
    for name, tried in tries.items():
        scatter = np.std(tried, ddof=1) if np.isfinite(tried).all() and len(tried) > 1 else 0.0
        if scatter > 1e-12 * np.abs(tried).max():  # less is rounding
            errors[name] = math.sqrt(size / n) * float(scatter)
    return errors


def measures_of(kind: str) -> list[Measure]:
    """Those for classes, ranks, numbers or counts alone."""
    return [measure for measure in MEASURES.values() if measure.kind == kind]


# How numbers are written


def in_percent(percent: float) -> str:
    """0 to 100, with as many digits as tell good from very good."""
    digits = 0 if percent == 100 else 2 if percent > 99 else 1
    return f"{percent:.{digits}f} %"


def share(value: float) -> str:
    """0 to 1, in percent."""
    return f"{100 * value:.1f} %"


def in_digits(value: float, digits: int = 3) -> str:
    """Three digits, or all that stand before the point."""
    if isinstance(value, int) or value == 0:
        text = f"{value:,}"
    elif 1e-4 <= abs(value) < 1e9:
        text = f"{value:,.{max(0, digits - 1 - math.floor(math.log10(abs(value))))}f}"
    else:
        text = f"{value:.{digits - 1}e}"
    return text.replace("-", "\N{MINUS SIGN}")


def in_negative(value: float) -> str:
    """A log-likelihood as the NLL that it is the negative of."""
    return in_digits(-value)


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


def _one_rate(name: str) -> Callable[[Mapping[str, Any]], Guess | None]:
    def guess(record: Mapping[str, Any]) -> Guess | None:
        known = (record.get("one_rate") or {}).get(name)
        return None if known is None else (known, "one Poisson rate for all rows")

    return guess


def _one_curve(record: Mapping[str, Any]) -> Guess | None:
    if record.get("one_rate"):
        return _one_rate("ll_mixture")(record)
    deviation = record.get("target_std")
    if not deviation:
        return None
    return -0.5 * math.log(2 * math.pi * math.e * deviation**2), "one normal curve for all rows"


def _mean_share(record: Mapping[str, Any]) -> Guess | None:
    """What precision is where the order says nothing."""
    shares = list((record.get("class_shares") or {}).values()) if "omega" not in record else [0.5, 0.5]
    return (one_against_rest(np.array(shares, float)), "by chance") if shares else None


for _one in (
    Measure(
        *("accuracy", "classes", "accuracy", "Rows whose most probable class is the right one."),
        *(lambda said: accuracy(*said), in_percent, "higher", _commonest),
    ),
    Measure(
        *("nll", "classes", "NLL"),
        "Surprise: the mean of −ln(probability of the right class), in nats per row. 0 is perfect.",
        *(lambda said: nll(*said), in_digits, "lower", _by_shares(lambda share: -np.sum(share * np.log(share)))),
    ),
    Measure(
        *("brier", "classes", "Brier score"),
        "Squared distance of the probabilities from the truth. 0 is perfect.",
        *(lambda said: brier(*said), in_digits, "lower", _by_shares(lambda share: 1 - np.sum(share**2))),
    ),
    Measure(
        *("ece", "classes", "ECE", "Calibration error: how far confidence and accuracy lie apart, on average."),
        *(lambda said: ece(*said), share),
    ),
    Measure(
        *("roc_auc", "classes", "ROC AUC"),
        "How often a row of a class gets a higher probability of it than another row. 1 is perfect.",
        *(lambda said: one_against_rest(areas(*said)[0]), in_digits, "higher", lambda record: (0.5, "by chance")),
    ),
    Measure(
        *("pr_auc", "classes", "PR AUC"),
        "Average precision: the area under precision over recall. 1 is perfect.",
        *(lambda said: one_against_rest(areas(*said)[1]), in_digits, "higher", _mean_share),
    ),
    Measure(
        *("rmse", "numbers", "RMSE"),
        "Typical error: the root of the mean squared error, in the target’s own units.",
        *(lambda said: float(np.sqrt(np.mean(said.error**2))), in_digits, "lower", _mean_alone),
    ),
    Measure(
        *("mae", "numbers", "MAE", "Mean absolute error, in the target’s own units."),
        *(lambda said: float(np.mean(np.abs(said.error))), in_digits),
    ),
    Measure(
        *("r2", "numbers", "R²", "Share of the variance of the target that is explained. 1 is perfect."),
        *(r2, in_digits, "higher", lambda record: (0.0, "always answering the mean")),
    ),
    Measure(
        *("ll_mixture", "numbers", "NLL"),
        "Surprise: the mean of −ln(density at the true value), in nats per row. Lower is better.",
        *(lambda said: float(np.mean(said.log_mixture)), in_negative, "higher", _one_curve),
    ),
    Measure(
        *("ll_gaussian", "numbers", "NLL (Gaussian)"),
        "The same under one normal curve with the prediction’s mean and deviation.",
        lambda said: math.nan if said.log_gaussian is None else float(np.mean(said.log_gaussian)),
        *(in_negative, "higher"),
    ),
    *(
        Measure(
            *(f"coverage_{level}", "numbers", f"coverage at {level} %"),
            f"Rows whose true value lies inside their {level} % interval.",
            *(lambda said, level=level: float(np.mean(inside(said, level / 100))), share, "equal"),
            lambda record, level=level: (level / 100, "if honest"),
        )
        for level in (50, 90, 95)
    ),
    Measure(
        *("deviance", "counts", "Poisson deviance"),
        "How far the means lie from the counts, as Poisson counts scatter: the mean of 2 (y ln(y / mean) − y + mean).",
        *(poisson_deviance, in_digits, "lower", _one_rate("deviance")),
    ),
    Measure(
        *("ranks_away", "ranks", "ranks away", "By how many classes the answer is off, on average. 0 is perfect."),
        *(ranks_away, in_digits),
    ),
    Measure(
        *("rps", "ranks", "RPS"),
        "Ranked probability score: squared distance of the cumulative probabilities from the truth. 0 is perfect.",
        *(rps, in_digits),
    ),
):
    add_measure(_one)
