"""How good and how honest class probabilities are."""

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
