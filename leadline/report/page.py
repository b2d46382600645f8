"""A record as one web page that stands alone: no scripts, nothing from outside."""

import math
import re
from io import StringIO
from pathlib import Path
from typing import Any

import numpy as np
from jinja2 import Environment, PackageLoader, StrictUndefined, TemplateRuntimeError
from markupsafe import Markup

from leadline import metrics, plots
from leadline._checks import refusing
from leadline.files.directories import write_named
from leadline.files.records import Record
from leadline.report import words

_NAMES = {"prior": plots.PRIOR_COLOUR, "depth": plots.POSTERIOR_COLOUR, "guide": plots.GUIDE_COLOUR}
_NAMES |= {"weights": plots.WEIGHTS_COLOUR, "data": plots.DATA_COLOUR}
_INKS = {plots.INK: "currentColor", "#ffffff": "var(--paper)"}
_INKS |= {colour: f"var(--{name}, {colour})" for name, colour in _NAMES.items()}
"""What a colour of the plots is on the page: its own on white, another one in the dark."""


def page(record: Record) -> str:
    """The record of a fit to a table or to the spiral, for someone who has not met the library before."""
    from matplotlib import style

    with style.context(["default", {"svg.fonttype": "none", "svg.hashsalt": "leadline"}]):  # not the user's own
        drawn = {"calibration": _calibration(record), "pictures": _pictures(record)}
    loader = PackageLoader("leadline.report", ".")
    environment = Environment(
        loader=loader, autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    given = {"record": record, "content": record.to_json(), "pmf": np.array(record.depth_pmf)}
    columns: dict[str, list[str]] = {}
    for column in record.columns or []:
        columns.setdefault(column["words"], []).append(column["name"])
    given["columns"] = columns
    try:
        text = environment.get_template("page.html").render(**given, **drawn, words=words, metrics=metrics, repr=repr)
    except TemplateRuntimeError as error:
        raise LookupError(str(error)) from error
    return _TOGETHER.sub(lambda found: found[0] if found[1] else found[0].replace(" ", "\N{NO-BREAK SPACE}"), text)


_TOGETHER = re.compile(r"<(head|svg|pre)\b.*?</\1>| %| ± |L = ", re.DOTALL)
"""What stays on one line, but for pictures and code, which stay as they are."""


def write_page(record: Record, path: Path) -> Path:
    """Write the page whole or not at all."""
    with refusing("`run`: the record does not hold what Leadline writes"):
        text = page(record)
    return write_named(path, text)


# Pictures


def _pictures(record: Record) -> dict[str, Markup]:
    pictures = {}
    if words.is_learned(record):
        ax, prior = _canvas(), np.array(record.depth_prior_pmf) if record.depth_prior_pmf else None
        plots.plot_depth(ax, np.array(record.depth_pmf), prior).set_xlabel("hidden layers beyond the first, L")
        pictures["depth"] = _svg(ax, "depth", f"Bars of the depth. {words.depth_in_words(record)}")
    if record.history:
        energy, learning = plots.plot_history((_canvas(), _canvas()), record.history, record.epochs)
        pictures["energy"] = _svg(energy, "energy", "Lines of the free energy and its parts over the epochs.")
        pictures["learning"] = _svg(learning, "learning", "Line of the expected depth over the epochs.")
    return pictures


def _calibration(record: Record) -> dict[str, str] | None:
    """How honest it is, in words and as a picture with its caption."""
    ax = _canvas((4.0, 3.8))
    if record.reliability:
        rows, confidence, right = (np.array(record.reliability[k], float) for k in ("rows", "confidence", "right"))
        sure, accuracy = (np.nansum(rows * column) / rows.sum() for column in (confidence, right))
        chance = 2 * math.sqrt(np.nansum(rows * confidence * (1 - confidence))) / rows.sum()
        verdict = "chance explains the difference"
        if abs(sure - accuracy) > chance:
            verdict = f"too {'sure' if sure > accuracy else 'cautious'}, by more than chance explains"
        said = f"It was right for {100 * accuracy:.1f} % of the rows, {100 * sure:.1f} % sure on average: {verdict}."
        plots.plot_reliability(ax, rows, confidence, right)
        svg = _svg(ax, "reliability", f"Dots of accuracy against confidence. {said}")
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
        svg = _svg(ax, "coverage", f"Line of the share of rows inside against the level of the interval. {said}")
        caption = "How many true values lie inside the intervals. Honest ones keep to the grey band;"
    else:
        return None
    return {"words": said, "svg": svg, "caption": caption}


def _canvas(size: tuple[float, float] = (4.4, 3.2)) -> Any:
    from matplotlib.figure import Figure

    ax = Figure(figsize=size, layout="constrained", facecolor="none").subplots()
    ax.set_facecolor("none")
    ax.spines[["top", "right"]].set_visible(False)
    return ax


def _svg(ax: Any, name: str, alt: str) -> Markup:
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
