"""The pictures of a page, as SVG that takes its colours and fonts; each says in words what it shows."""

from collections.abc import Callable
from typing import Any

import numpy as np
from markupsafe import Markup

from leadline import plots, prediction_plots
from leadline.files.records import Record
from leadline.metrics import in_digits
from leadline.report import words
from leadline.report.web import as_svg, canvas

MOST_DRAWN, MOST_DEPENDENCES = 20, 6
"""Classes of a confusion matrix that is drawn, and columns with a picture of their own."""


def pictures(record: Record) -> dict[str, Any]:
    """All that the record has enough for, by name; else None."""
    drawn: dict[str, Any] = dict.fromkeys(("depth", "energy", "learning", "validation"))
    if words.is_learned(record):
        ax, prior = canvas(), np.array(record.depth_prior_pmf) if record.depth_prior_pmf else None
        plots.plot_depth(ax, np.array(record.depth_pmf), prior)
        drawn["depth"] = as_svg(ax, "depth", f"Bars of the depth. {words.depth_in_words(record)}")
    if record.history:
        energy, depth = plots.plot_history((canvas(), canvas()), record.history, record.epochs)
        drawn["energy"] = as_svg(energy, "energy", "Lines of the free energy and its parts over the epochs.")
        drawn["learning"] = as_svg(depth, "learning", "Line of the expected depth over the epochs.")
        if "validation_nll" in record.history:
            drawn["validation"] = _validation(record)
    of_record: dict[str, Callable[[Record], Markup | None]] = {
        "confusion": _confusion,
        "predictions": _predictions,
        "residuals": _residuals,
        "importance": _importance,
        "uncertainty": _uncertainty,
    }
    drawn |= {name: draw(record) for name, draw in of_record.items()}
    of_columns = range(len((record.dependence or [])[:MOST_DEPENDENCES]))
    return drawn | {"dependence": [_dependence(record, i) for i in of_columns]}


def _validation(record: Record) -> Markup:
    nll = record.measures.get("nll", -record.measures.get("ll_mixture", np.nan))
    ends = {"training rows, all together at the end": record.train_nll, "test rows, all together at the end": nll}
    ends = {name: float(value) for name, value in ends.items() if value is not None and np.isfinite(value)}
    assert record.history is not None
    ax = prediction_plots.plot_learning(canvas((4.4, 3.4)), record.history, record.epochs, ends)
    said = "; ".join(f"{name}: {in_digits(value)}" for name, value in ends.items())
    return as_svg(ax, "validation", f"Lines of the NLL of the validation rows over the epochs. {said}")


def _confusion(record: Record) -> Markup | None:
    given = record.confusion
    if not given or not record.classes or not 2 <= len(given["rows"]) <= MOST_DRAWN:
        return None
    matrix = np.diag(np.array(given["right"], int))
    for true, predicted, rows in given["pairs"]:
        matrix[true, predicted] += rows
    side = 2.6 + 0.2 * len(matrix)
    ax = prediction_plots.plot_confusion(canvas((side + 0.4, side)), matrix, [str(name) for name in record.classes])
    ax.spines[:].set_visible(False)
    return as_svg(ax, "confusion", f"Confusion matrix: {np.trace(matrix)} of {matrix.sum()} rows lie on the diagonal.")


def _columns(given: dict[str, Any], *names: str) -> list[Any]:
    return [np.array(given[name], float) for name in names]


def _predictions(record: Record) -> Markup | None:
    if not record.predictions:
        return None
    ax = prediction_plots.plot_predictions(canvas(), *_columns(record.predictions, "truth", "mean", "low", "high"))
    return as_svg(ax, "predictions", "Dots of the predicted against the true values, with lines for 90 % intervals.")


def _residuals(record: Record) -> Markup | None:
    if not record.predictions:
        return None
    ax = prediction_plots.plot_residuals(canvas(), *_columns(record.predictions, "truth", "mean"))
    return as_svg(ax, "residuals", "Dots of the true less the predicted values against the predicted ones.")


def _importance(record: Record) -> Markup | None:
    if not record.importance:
        return None
    increase, error = _columns(record.importance, "increase", "error")
    names = [str(name) for name in record.importance["columns"]]
    ax = canvas((4.8, 0.9 + 0.22 * min(len(names), prediction_plots.MOST_BARS)))
    prediction_plots.plot_importance(ax, names, increase, error)
    first = ", ".join(f"{names[i]} {in_digits(float(increase[i]))}" for i in np.argsort(-increase)[:5])
    return as_svg(ax, "importance", f"Bars of the rise of the NLL when a column is shuffled. The largest: {first}.")


def _dependence(record: Record, i: int) -> Markup:
    assert record.dependence is not None
    given = record.dependence[i]
    mean, deviation = _columns(given, "mean", "deviation")
    outputs = [str(name) for name in given["outputs"]]
    bands = [_columns(one, "mean", "deviation") for one in record.dependence[:MOST_DEPENDENCES]]
    highest = max(float((centre + 2 * scatter).max()) for centre, scatter in bands)
    top = min(1.0, max(0.05, 1.1 * highest))  # the same for all
    ax = prediction_plots.plot_dependence(
        *(canvas((3.2, 2.6)), str(given["column"]), given["values"], mean, deviation),
        outputs=outputs,
        some=range(len(outputs)),
        in_order=bool(given["in_order"]),
        of_classes=record.task != "regression",
        top=top,
        least=0.0 if record.one_rate else None,  # of counts
    )
    return as_svg(ax, f"dependence{i}", f"Line of the mean prediction against {given['column']}, with a band.")


def _uncertainty(record: Record) -> Markup | None:
    if not record.uncertainty:
        return None
    noise, weights, depth = _columns(record.uncertainty, "noise", "weights", "depth")
    unit = "variance" if record.task == "regression" else "nats"
    ax = prediction_plots.plot_uncertainty(canvas(), noise, weights, depth, unit)
    parts = ", ".join(f"{name} {words.percent(share)}" for name, share in words.shares_of_uncertainty(record).items())
    return as_svg(ax, "uncertainty", f"Areas of the uncertainty of every row by its parts. On average: {parts}.")
