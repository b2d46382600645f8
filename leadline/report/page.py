"""A record as one web page that stands alone: no scripts, nothing from outside."""

import math
from pathlib import Path
from typing import Any

import numpy as np

from leadline import metrics, plots
from leadline._checks import refusing
from leadline.files.directories import write_named
from leadline.files.records import Record
from leadline.report import words
from leadline.report.pictures import pictures
from leadline.report.web import as_svg, canvas, drawing, rendered


def page(record: Record) -> str:
    """The record of a fit to a table or to the spiral, for someone who has not met the library before."""
    with drawing():
        drawn = {"calibration": _calibration(record), "pictures": pictures(record)}
    given = {"record": record, "content": record.to_json(), "pmf": np.array(record.depth_pmf)}
    columns: dict[str, list[str]] = {}
    for column in record.columns or []:
        columns.setdefault(column["words"], []).append(column["name"])
    left_out = (record.table or {}).get("ignored") or {}
    for name, why in left_out.items():
        columns.setdefault(f"left out ({why})", []).append(name)
    given |= {
        "columns": columns,
        "n_left_out": len(left_out),
        "errors": record.errors or {},
        "by_class": _by_class(record),
    }
    return rendered("page.html", **given, **drawn, words=words, metrics=metrics, repr=repr)


def write_page(record: Record, path: Path) -> Path:
    """Write the page whole or not at all."""
    with refusing("`run`: the record does not hold what Leadline writes"):
        text = page(record)
    return write_named(path, text)


MOST_CLASSES = 20
"""In a table of classes: of more, those of which the smallest share is found."""


def _by_class(record: Record) -> list[dict[str, Any]]:
    """Every class with its rows, and what of them is found; with no row, of no class is there anything to say."""
    given = record.confusion
    if not given or not record.classes:
        return []
    names = ("rows", "predicted", "right", "roc_auc", "pr_auc")
    lines: list[dict[str, Any]] = [
        dict(zip(names, line, strict=True)) for line in zip(*(given[name] for name in names), strict=True)
    ]
    for name, line in zip(record.classes, lines, strict=True):
        line["name"] = str(name)
        line["recall"] = line["right"] / line["rows"] if line["rows"] else None
        line["precision"] = line["right"] / line["predicted"] if line["predicted"] else None
    if len(lines) <= MOST_CLASSES:
        return lines
    return sorted((one for one in lines if one["rows"]), key=lambda one: one["recall"])[:MOST_CLASSES]


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
        share_right, confident = (metrics.in_percent(100 * share) for share in (accuracy, sure))
        said = f"It was right for {share_right} of the rows, {confident} sure on average: {verdict}."
        plots.plot_reliability(ax, rows, confidence, right)
        picture = as_svg(ax, "reliability", f"Dots of accuracy against confidence. {said}")
        caption = (
            "How often it is right against how sure it was; a larger dot is more rows. Of honest probabilities at "
        )
        caption += "least 95 of 100 dots lie on their grey bars (binomial chance). On the line the two agree;"
    elif record.coverage_curve and record.n_test:
        level, observed = (np.array(record.coverage_curve[key], float) for key in ("level", "observed"))
        n, k = record.n_test, int(np.argmin(np.abs(level - 0.9)))
        chance = 2 * math.sqrt(level[k] * (1 - level[k]) / n)
        verdict = "as many as they should, as far as chance lets one see"
        if abs(observed[k] - level[k]) > chance:
            verdict = f"too {'few' if observed[k] < level[k] else 'many'}, by more than chance explains"
        held = f"{metrics.share(observed[k])} of the true values"
        said = f"The intervals that should hold {100 * level[k]:.0f} % held {held}: {verdict}."
        plots.plot_coverage(ax, level, observed, n)
        picture = as_svg(ax, "coverage", f"Line of the share of rows inside against the level of the interval. {said}")
        caption = "How many true values lie inside the intervals. At each level, honest ones keep to the grey band 95 "
        caption += "times in 100 (two binomial errors);"
    else:
        return None
    return {"words": said, "svg": picture, "caption": caption}
