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


def ece(probabilities: np.ndarray, y: np.ndarray, n_bins: int = 15) -> float:
    """Expected calibration error: |accuracy - confidence| in equal-width bins of the top probability, by rows."""
    check_integer("n_bins", n_bins, 1)
    confidence = probabilities.max(axis=1)
    right = probabilities.argmax(axis=1) == y
    # Bin k holds (k / n, (k + 1) / n].
    bins = np.clip(np.ceil(confidence * n_bins).astype(int) - 1, 0, n_bins - 1)
    gap = np.bincount(bins, weights=right - confidence, minlength=n_bins)
    return float(np.sum(np.abs(gap)) / len(y))
