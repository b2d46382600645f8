"""A comparison as one web page that stands alone."""

import math

from markupsafe import Markup

from leadline import plots
from leadline._foreign import shown
from leadline._version import __version__
from leadline.report.web import as_svg, canvas, drawing, rendered
from leadline.studies.comparison import COVERED, Comparison, Judge


def page(comparison: Comparison) -> str:
    """For someone who has not met the library before."""
    with drawing():
        drawn = {judge.name: _picture(comparison, judge) for judge in comparison.judges}
    pictures = {name: picture for name, picture in drawn.items() if picture is not None}
    return rendered("comparison.html", comparison=comparison, pictures=pictures, version=__version__)


def _picture(comparison: Comparison, judge: Judge) -> Markup | None:
    """A measure of all candidates for which it is a finite number."""
    known = [row for row in comparison.rows if math.isfinite(row.get(judge.name, math.nan))]
    if not known:
        return None
    values, errors = (
        [judge.unit * (row[name] or 0.0) for row in known] for name in (judge.name, f"{judge.name}_error")
    )
    aim = judge.unit * COVERED if judge.better == "equal" else None
    ax = canvas((4.4, 1 + 0.3 * len(known)))
    plots.plot_compared(ax, [shown(row["candidate"]) for row in known], values, errors, judge.head, aim)
    cells = zip(comparison.rows, comparison.cells(judge), strict=True)
    said = ", ".join(f"{row['candidate']} {cell}" for row, cell in cells)
    return as_svg(ax, judge.name, f"Dots of {judge.head} with their errors: {said}.")
