"""What all pages share: templates, and pictures that take the colours and the fonts of the page."""

import re
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from io import StringIO
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined, TemplateRuntimeError
from markupsafe import Markup

from leadline import plots, prediction_plots

COLOURS = {"prior": plots.PRIOR_COLOUR, "depth": plots.POSTERIOR_COLOUR, "guide": plots.GUIDE_COLOUR}
COLOURS |= {"weights": plots.WEIGHTS_COLOUR, "data": plots.DATA_COLOUR, "other": prediction_plots.LINES[3]}
"""Of the plots, by their names on pages, on white; `style.css` has those in the dark."""

_INKS = {plots.INK: "currentColor", "#ffffff": "var(--paper)"}
_INKS |= {colour: f"var(--{name}, {colour})" for name, colour in COLOURS.items()}
"""What a colour of the plots is on the page: its own on white, another one in the dark."""

_TOGETHER = re.compile(r"<(head|svg|pre)\b.*?</\1>| %| ± |L = ", re.DOTALL)
"""What stays on one line, but for pictures and code, which stay as they are."""


def rendered(template: str, **given: Any) -> str:
    """A page from its template beside this module."""
    loader = PackageLoader("leadline.report", ".")
    environment = Environment(
        loader=loader, autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    try:
        text = environment.get_template(template).render(**given)
    except TemplateRuntimeError as error:
        raise LookupError(str(error)) from error
    return _TOGETHER.sub(lambda found: found[0] if found[1] else found[0].replace(" ", "\N{NO-BREAK SPACE}"), text)


@contextmanager
def drawing() -> Iterator[None]:
    """Within, pictures are drawn in the style of the page, not in the user's own."""
    from matplotlib import style

    with style.context(["default", {"svg.fonttype": "none", "svg.hashsalt": "leadline"}]), warnings.catch_warnings():
        for kind in (UserWarning, RuntimeWarning):  # a character of no font, or numbers of a stranger's that overflow
            warnings.simplefilter("ignore", kind)
        yield


def canvas(size: tuple[float, float] = (4.4, 3.2)) -> Any:
    """Axes to draw in, of so many inches."""
    from matplotlib.figure import Figure

    ax = Figure(figsize=size, layout="constrained", facecolor="none").subplots()
    ax.set_facecolor("none")
    ax.spines[["top", "right"]].set_visible(False)
    return ax


def as_svg(ax: Any, name: str, alt: str) -> Markup:
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
