"""What others than ours say of rows whose target is known, as a predictive distribution."""

from typing import Any

import numpy as np
import scipy.special
from sklearn.base import clone
from sklearn.model_selection import KFold, cross_val_predict

from leadline.judged import UNKNOWN, OfClasses, OfCounts, OfNumbers

LEAST = 1e-6
"""The smallest probability of others that counts: forests say none of what they have not seen."""

INNER_FOLDS = 5
"""Of the rows to train on, from which it is learned how far what others say of a number may be off."""


def say_classes(estimator: Any, x: Any, y: np.ndarray, *_: Any) -> OfClasses:
    """Its probabilities, none of which counts as less than `LEAST`."""
    probabilities, known = np.maximum(estimator.predict_proba(x), LEAST), np.asarray(estimator.classes_)
    places = np.where(np.isin(y, known), np.searchsorted(known, y), UNKNOWN)
    return OfClasses(probabilities / probabilities.sum(axis=1, keepdims=True), places)


def say_numbers(estimator: Any, x: Any, y: np.ndarray, x_train: Any, y_train: np.ndarray) -> OfNumbers:
    """A Gaussian around each of its numbers, as wide as it errs on rows of the training part that it has not seen."""
    error, deviation = _errors(estimator, x, y, x_train, y_train)
    log_density = -0.5 * np.square(error / deviation) - np.log(deviation) - 0.5 * np.log(2 * np.pi)
    return OfNumbers(error, log_density, log_density, scipy.special.erf(np.abs(error) / deviation / np.sqrt(2)))


def say_counts(estimator: Any, x: Any, y: np.ndarray, x_train: Any, y_train: np.ndarray) -> OfCounts:
    """The same Gaussian, rounded to whole numbers, with all that is below 0 at 0."""
    error, deviation = _errors(estimator, x, y, x_train, y_train)
    low, high = (error - 0.5) / deviation, (error + 0.5) / deviation
    below, at = np.where(y > 0, scipy.special.ndtr(low), 0.0), scipy.special.ndtr(high)
    # In the upper tail, where both are 1, from the other side.
    mass = np.where(low > 0, scipy.special.ndtr(-low) - scipy.special.ndtr(-high), at - scipy.special.ndtr(low))
    mass = np.where(y > 0, mass, at)
    level = np.maximum(np.maximum(2 * below - 1, 1 - 2 * at), 0.0)
    return OfCounts(error, np.log(np.maximum(mass, np.finfo(float).tiny)), None, level, y, below, at)


def _errors(estimator: Any, x: Any, y: np.ndarray, x_train: Any, y_train: np.ndarray) -> tuple[np.ndarray, float]:
    """Targets less predictions, and how far the latter are off on rows of the training part that were not seen."""
    inner = KFold(min(INNER_FOLDS, len(y_train)), shuffle=True, random_state=0)
    residuals = y_train - cross_val_predict(clone(estimator), x_train, y_train, cv=inner)
    deviation = max(np.sqrt(np.mean(np.square(residuals))), 1e-6 * np.std(y_train), np.finfo(float).tiny)
    return y - np.asarray(estimator.predict(x), float), float(deviation)
