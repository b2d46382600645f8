"""A record as one web page that stands alone: no scripts, nothing from outside."""

import math
from pathlib import Path

import numpy as np
from markupsafe import Markup

from leadline import metrics, plots
from leadline._checks import refusing
from leadline.files.directories import write_named
from leadline.files.records import Record
from leadline.report import words
from leadline.report.web import as_svg, canvas, drawing, rendered


def page(record: Record) -> str:
    """The record of a fit to a table or to the spiral, for someone who has not met the library before."""
    with drawing():
        drawn = {"calibration": _calibration(record), "pictures": _pictures(record)}
    given = {"record": record, "content": record.to_json(), "pmf": np.array(record.depth_pmf)}
    columns: dict[str, list[str]] = {}
    for column in record.columns or []:
        columns.setdefault(column["words"], []).append(column["name"])
    given["columns"] = columns
    return rendered("page.html", **given, **drawn, words=words, metrics=metrics, repr=repr)


def write_page(record: Record, path: Path) -> Path:
    """Write the page whole or not at all."""
    with refusing("`run`: the record does not hold what Leadline writes"):
        text = page(record)
    return write_named(path, text)


# Pictures


def _pictures(record: Record) -> dict[str, Markup]:
    pictures = {}
    if words.is_learned(record):
        ax, prior = canvas(), np.array(record.depth_prior_pmf) if record.depth_prior_pmf else None
        plots.plot_depth(ax, np.array(record.depth_pmf), prior).set_xlabel("hidden layers beyond the first, L")
        pictures["depth"] = as_svg(ax, "depth", f"Bars of the depth. {words.depth_in_words(record)}")
    if record.history:
        energy, learning = plots.plot_history((canvas(), canvas()), record.history, record.epochs)
        pictures["energy"] = as_svg(energy, "energy", "Lines of the free energy and its parts over the epochs.")
        pictures["learning"] = as_svg(learning, "learning", "Line of the expected depth over the epochs.")
    return pictures


def _calibration(record: Record) -> dict[str, str] | None:
    """How honest it is, in words and as a picture with its caption."""
    ax = canvas((4.0, 3.8))
    if record.reliability:
        rows, confidence, right = (np.array(record.reliability[k], float) for k in ("rows", "confidence", "right"))
        sure, accuracy = (np.nansum(rows * column) / rows.sum() for column in (confidence, right))
        chance = 2 * math.sqrt(np.nansum(rows * confidence * (1 - confidence))) / rows.sum()
        verdict = "chance explains the difference"
        if abs(sure - accuracy) > chance:
            verdict = f"too {'sure' if sure > accuracy else 'cautious'}, by more than chance explains"
        said = f"It was right for {100 * accuracy:.1f} % of the rows, {100 * sure:.1f} % sure on average: {verdict}."
        plots.plot_reliability(ax, rows, confidence, right)
        svg = as_svg(ax, "reliability", f"Dots of accuracy against confidence. {said}")
        caption = "How often it is right against how sure it was; a larger dot is more rows. On the line the two agree;"
    elif record.coverage_curve and record.n_test:
        level, observed = (np.array(record.coverage_curve[key], float) for key in ("level", "observed"))
        n, k = record.n_test, int(np.argmin(np.abs(level - 0.9)))
        chance = 2 * math.sqrt(level[k] * (1 - level[k]) / n)
        verdict = "as many as they should, as far as chance lets one see"
        if abs(observed[k] - level[k]) > chance:
            verdict = f"too {'few' if observed[k] < level[k] else 'many'}, by more than chance explains"
        held = f"{100 * observed[k]:.1f} % of the true values"
        said = f"The intervals that should hold {100 * level[k]:.0f} % held {held}: {verdict}."
        plots.plot_coverage(ax, level, observed, n)
        svg = as_svg(ax, "coverage", f"Line of the share of rows inside against the level of the interval. {said}")
        caption = "How many true values lie inside the intervals. Honest ones keep to the grey band;"
    else:
        return None
    return {"words": said, "svg": svg, "caption": caption}
