"""How good and how honest predictions are."""

import numpy as np

from leadline._checks import check_integer


def accuracy(probabilities: np.ndarray, y: np.ndarray) -> float:
    """Percent of rows whose most probable class is the right one."""
    return float(100 * np.mean(probabilities.argmax(axis=1) == y))


def nll(probabilities: np.ndarray, y: np.ndarray) -> float:
    """Mean of -ln p(right class), in nats per row. A probability of exactly zero counts as the smallest float."""
    right = probabilities[np.arange(len(y)), y]
    return float(-np.mean(np.log(np.maximum(right, np.finfo(probabilities.dtype).tiny))))


def brier(probabilities: np.ndarray, y: np.ndarray) -> float:
    """Mean squared distance between the probabilities and the right class, summed over classes: 0 to 2."""
    target = np.eye(probabilities.shape[1])[y]
    return float(np.mean(np.sum((probabilities - target) ** 2, axis=1)))


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


COVERAGES = (0.5, 0.9, 0.95)
"""The levels of the central intervals whose coverage is counted."""


def of_numbers(
    error: np.ndarray, log_mixture: np.ndarray, log_gaussian: np.ndarray, level: np.ndarray
) -> dict[str, float]:
    """The measures of a regression under the record's names, from what is said of every row: the error of the mean, the
    log density of the target under the whole mixture and under the Gaussian with its moments, and the level of the
    central interval that the target is on the edge of."""
    return {
        "rmse": float(np.sqrt(np.mean(error**2))),
        "ll_mixture": float(np.mean(log_mixture)),
        "ll_gaussian": float(np.mean(log_gaussian)),
        **{f"coverage_{round(100 * most)}": float(np.mean(level <= most)) for most in COVERAGES},
    }
