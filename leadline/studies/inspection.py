"""What a record says of a fitted estimator and the rows kept apart, beyond its measures; all lists are short."""

import math
import warnings
from typing import Any

import numpy as np

from leadline import metrics, prediction_plots
from leadline._checks import DataWarning, UnfinishedWarning
from leadline.estimators import DepthClassifier, DepthRegressor
from leadline.estimators.inspection import MOST_ROWS, Dependence, hardest, verdict
from leadline.estimators.said import NoPredictionError
from leadline.estimators.shuffling import chosen
from leadline.judged import OfClasses, OfNumbers

Rows = tuple[Any, np.ndarray]
"""x, an array or a data frame, and y."""

MOST_COLUMNS, MOST_CLASSES = 400, 1000
"""Tables with more of them have no importances, and no numbers class by class."""

MOST_PAIRS = 400
"""Of classes that are taken for each other: all that there can be of twenty."""

MOST_DEPENDENCES, LEAST_DEPENDENCES = 6, 2
"""Columns whose partial dependence is shown: those whose importance is more than twice its error, but at least two."""

N_HARDEST = 5
"""Rows that are most uncertain, and rows that are most surprising; a tenth of them at most."""


def inspected(
    estimator: DepthClassifier | DepthRegressor,
    train: Rows,
    test: Rows,
    said: OfClasses | OfNumbers | None,
    *,
    target: str,
    places: np.ndarray | None = None,
) -> dict[str, Any]:
    """Under the record's names; nothing where no rows were kept apart.

    Args:
        estimator: fitted.
        train, test: the rows that it was trained on, and those kept apart.
        said: of the latter.
        target: its name.
        places: of the rows kept apart in the table; where they are not known, their order counts.
    """
    if said is None:
        return {}
    with warnings.catch_warnings():
        for kind in (
            DataWarning,
            UnfinishedWarning,
        ):  # whoever gave `said` has heard of the rows; the record says the rest
            warnings.simplefilter("ignore", kind)
        return _inspected(estimator, train, test, said, target, places)


def _inspected(
    estimator: DepthClassifier | DepthRegressor, train: Rows, test: Rows, said: Any, target: str, places: Any
) -> dict[str, Any]:
    x, y = test
    told = estimator.tell(x, y, said)
    rows = chosen(len(y), MOST_ROWS)
    content: dict[str, Any] = {"errors": _rounded(metrics.standard_errors(said))}
    content["uncertainty"] = {name: _rounded(told[name][rows]) for name in ("noise", "weights", "depth")}
    content["hardest"] = _hardest(told, np.arange(len(y)) if places is None else places)
    if isinstance(said, OfClasses):
        content["confusion"] = _confusion(said) if said.probabilities.shape[1] <= MOST_CLASSES else None
    else:
        low, high = estimator.predict_interval(_rows_of(x, rows), 0.9).T
        shown = {"truth": told["truth"][rows], "mean": told["prediction"][rows], "low": low, "high": high}
        content["predictions"] = {name: _rounded(column) for name, column in shown.items()}
    try:
        return content | _looked_into(estimator, train, test, target)
    except NoPredictionError:  # values of rows that are far apart, put together
        return content


def _looked_into(estimator: DepthClassifier | DepthRegressor, train: Rows, test: Rows, target: str) -> dict[str, Any]:
    """What takes predictions of more rows, some of them such as nobody has seen."""
    x, y = test
    trained = chosen(len(train[1]), MOST_ROWS)
    nll = estimator._nll_of_rows(_rows_of(train[0], trained), train[1][trained])
    content: dict[str, Any] = {"train_nll": float(nll.mean())}
    if len(estimator._known(y)) < 2 or len(estimator._columns()[0]) > MOST_COLUMNS:
        return content
    importance = estimator.importance(x, y)
    names = importance.columns
    content["importance"] = {
        "columns": names,
        "increase": _rounded(importance.increase),
        "error": _rounded(importance.error),
        "n_rows": importance.n_rows,
        "n_repeats": importance.n_repeats,
    }
    order = np.argsort(-importance.increase, kind="stable")[:MOST_DEPENDENCES].tolist()
    clear = [i for i in order if importance.increase[i] > 2 * importance.error[i]]
    of_columns = clear if len(clear) >= LEAST_DEPENDENCES else order[:LEAST_DEPENDENCES]
    content["dependence"] = _dependences([(names[i], estimator.partial_dependence(x, i)) for i in of_columns], target)
    return content


def _dependences(of_columns: list[tuple[str, Dependence]], target: str) -> list[dict[str, Any]]:
    """With the few classes that are drawn."""
    some = prediction_plots.moving([one.mean for _, one in of_columns])
    return [
        {
            "column": name,
            "values": _rounded(one.plain_values()),
            "in_order": one.in_order,
            "outputs": [one.outputs[k] for k in some] if len(one.outputs) > 1 else [target],
            "mean": _rounded(one.mean[:, some]),
            "deviation": _rounded(one.deviation[:, some]),
        }
        for name, one in of_columns
    ]


def _hardest(told: dict[str, np.ndarray], places: np.ndarray) -> list[dict[str, Any]]:
    """The number of a row counts the table's from 1, as sentences do."""
    worst, because = hardest(told, min(N_HARDEST, math.ceil(len(places) / 10)))
    return [
        {"row": int(places[i]) + 1, "because": why}
        | {name: _value(column[i]) for name, column in told.items()}
        | {"verdict": verdict(*(told[name][i].item() for name in ("noise", "weights", "depth", "missed")))}
        for i, why in zip(worst, because, strict=True)
    ]


def _confusion(said: OfClasses) -> dict[str, Any]:
    """Class by class, and how many rows of one are taken for another, the most frequent first."""
    matrix = metrics.confusion(*said)
    right = np.diag(matrix)
    pairs = np.argwhere(matrix - np.diag(right))
    most = np.argsort(-matrix[tuple(pairs.T)], kind="stable")[:MOST_PAIRS]
    roc, pr = metrics.areas(*said)
    return {
        "rows": matrix.sum(axis=1).tolist(),
        "predicted": np.bincount(said.probabilities.argmax(axis=1), minlength=len(matrix)).tolist(),
        "right": right.tolist(),
        "pairs": [[int(i), int(k), int(matrix[i, k])] for i, k in pairs[most]],
        "roc_auc": _rounded(roc),
        "pr_auc": _rounded(pr),
    }


def _value(value: Any) -> Any:
    """As JSON has it."""
    if isinstance(value, bool | np.bool_):
        return bool(value)
    if isinstance(value, int | float | np.number):
        return _rounded(value) if np.isfinite(value) else None
    return str(value)


def _rounded(value: Any) -> Any:
    """Six digits are enough to draw; what is not finite is null."""
    if isinstance(value, dict):
        return {name: _rounded(one) for name, one in value.items()}
    if isinstance(value, list | np.ndarray):
        return [_rounded(one) for one in value]
    if isinstance(value, int | np.integer | str):
        return value if isinstance(value, str) else int(value)
    return float(f"{value:.6g}") if math.isfinite(value) else None


def _rows_of(x: Any, places: np.ndarray) -> Any:
    return x.iloc[places] if hasattr(x, "iloc") else x[places]
