"""The pictures of a page, as SVG that takes its colours and fonts; each says in words what it shows."""

import re
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from io import StringIO
from typing import Any

import numpy as np
from markupsafe import Markup

from leadline import plots, prediction_plots
from leadline.files.records import Record
from leadline.metrics import in_digits
from leadline.report import words

_NAMES = {"prior": plots.PRIOR_COLOUR, "depth": plots.POSTERIOR_COLOUR, "guide": plots.GUIDE_COLOUR}
_NAMES |= {"weights": plots.WEIGHTS_COLOUR, "data": plots.DATA_COLOUR, "other": prediction_plots.LINES[3]}
_INKS = {plots.INK: "currentColor", "#ffffff": "var(--paper)"}
_INKS |= {colour: f"var(--{name}, {colour})" for name, colour in _NAMES.items()}
"""What a colour of the plots is on the page: its own on white, another one in the dark."""

MOST_DRAWN, MOST_DEPENDENCES = 20, 6
"""Classes of a confusion matrix that is drawn, and columns with a picture of their own."""


@contextmanager
def own_style() -> Iterator[None]:
    """Not the user's; what is not in its font is left to the browser's."""
    from matplotlib import style

    with style.context(["default", {"svg.fonttype": "none", "svg.hashsalt": "leadline"}]), warnings.catch_warnings():
        for kind in (UserWarning, RuntimeWarning):  # a character of no font, or numbers of a stranger's that overflow
            warnings.simplefilter("ignore", kind)
        yield


def pictures(record: Record) -> dict[str, Any]:
    """All that the record has enough for, by name; else None."""
    drawn: dict[str, Any] = dict.fromkeys(("depth", "energy", "learning", "validation"))
    if words.is_learned(record):
        ax, prior = canvas(), np.array(record.depth_prior_pmf) if record.depth_prior_pmf else None
        plots.plot_depth(ax, np.array(record.depth_pmf), prior)
        drawn["depth"] = svg(ax, "depth", f"Bars of the depth. {words.depth_in_words(record)}")
    if record.history:
        energy, depth = plots.plot_history((canvas(), canvas()), record.history, record.epochs)
        drawn["energy"] = svg(energy, "energy", "Lines of the free energy and its parts over the epochs.")
        drawn["learning"] = svg(depth, "learning", "Line of the expected depth over the epochs.")
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
    return svg(ax, "validation", f"Lines of the NLL of the validation rows over the epochs. {said}")


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
    return svg(ax, "confusion", f"Confusion matrix: {np.trace(matrix)} of {matrix.sum()} rows lie on the diagonal.")


def _columns(given: dict[str, Any], *names: str) -> list[Any]:
    return [np.array(given[name], float) for name in names]


def _predictions(record: Record) -> Markup | None:
    if not record.predictions:
        return None
    ax = prediction_plots.plot_predictions(canvas(), *_columns(record.predictions, "truth", "mean", "low", "high"))
    return svg(ax, "predictions", "Dots of the predicted against the true values, with lines for their 90 % intervals.")


def _residuals(record: Record) -> Markup | None:
    if not record.predictions:
        return None
    ax = prediction_plots.plot_residuals(canvas(), *_columns(record.predictions, "truth", "mean"))
    return svg(ax, "residuals", "Dots of the true less the predicted values against the predicted ones.")


def _importance(record: Record) -> Markup | None:
    if not record.importance:
        return None
    increase, error = _columns(record.importance, "increase", "error")
    names = [str(name) for name in record.importance["columns"]]
    ax = canvas((4.8, 0.9 + 0.22 * min(len(names), prediction_plots.MOST_BARS)))
    prediction_plots.plot_importance(ax, names, increase, error)
    first = ", ".join(f"{names[i]} {in_digits(float(increase[i]))}" for i in np.argsort(-increase)[:5])
    return svg(ax, "importance", f"Bars of the rise of the NLL when a column is shuffled. The largest: {first}.")


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
    )
    return svg(ax, f"dependence{i}", f"Line of the mean prediction against {given['column']}, with a band.")


def _uncertainty(record: Record) -> Markup | None:
    if not record.uncertainty:
        return None
    noise, weights, depth = _columns(record.uncertainty, "noise", "weights", "depth")
    unit = "variance" if record.task == "regression" else "nats"
    ax = prediction_plots.plot_uncertainty(canvas(), noise, weights, depth, unit)
    parts = ", ".join(f"{name} {words.percent(share)}" for name, share in words.shares_of_uncertainty(record).items())
    return svg(ax, "uncertainty", f"Areas of the uncertainty of every row by its parts. On average: {parts}.")


def canvas(size: tuple[float, float] = (4.4, 3.2)) -> Any:
    """Axes to draw in."""
    from matplotlib.figure import Figure

    ax = Figure(figsize=size, layout="constrained", facecolor="none").subplots()
    ax.set_facecolor("none")
    ax.spines[["top", "right"]].set_visible(False)
    return ax


def svg(ax: Any, name: str, alt: str) -> Markup:
    """The picture as SVG inside the page, whose colours and fonts it takes."""
    file = StringIO()
    ax.figure.savefig(file, format="svg", metadata={"Date": None})
    opening, _, inside = file.getvalue().partition("<svg ")[2].partition(">")
    view = re.search(r'viewBox="[^"]*"', opening)
    assert view
    inside = re.sub(r"<metadata>.*?</metadata>|<style.*?</style>", "", inside, flags=re.DOTALL)
    inside = re.sub(r"font-family: [^;\"]*", "font-family: inherit", inside)
    inside = re.sub(r'(\bid="|url\(#|href="#)', rf"\1{name}-", inside)  # no two elements of a page share an id
    for colour, variable in _INKS.items():
        inside = inside.replace(colour, variable)
    opened = Markup('<svg role="img" aria-label="{}" {}>').format(alt, Markup(view[0]))
    return opened + Markup(inside)
