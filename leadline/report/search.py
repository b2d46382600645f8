"""A sweep as one web page that stands alone."""

from collections.abc import Sequence

from markupsafe import Markup

from leadline import plots
from leadline._foreign import shown
from leadline._version import __version__
from leadline.report.web import as_svg, canvas, drawing, rendered
from leadline.studies.search import Ranked, Swept

MOST = 40
"""Settings in the table of the page; the file has all."""

DRAWN = 12
"""Settings with a dot of their own."""

HEADS = {"n_restarts": "restarts", "max_epochs": "epochs", "learning_rate": "learning rate", "batch_size": "batch size"}


def page(swept: Swept) -> str:
    """For someone who has not met the library before."""
    ranking = swept.ranking
    with drawing():
        best = _of_settings(swept, ranking[:DRAWN]) if len(ranking) > 1 else None
        by = {head(name): _of_choice(swept, ranking, name) for name in swept.varied}
    return rendered(
        "search.html",
        swept=swept,
        ranking=ranking,
        shown_first=ranking[:MOST],
        head=head,
        words=words,
        value=value,
        best=best,
        by=by,
        names=list(dict.fromkeys(row["name"] for row in swept.rows)),
        version=__version__,
    )


def head(name: str) -> str:
    """Of a column of settings."""
    return HEADS.get(name, name)


def words(swept: Swept, one: Ranked) -> str:
    """Settings by what is not the same in all."""
    return ", ".join(f"{head(name)} {one.asked[name] or 'auto'}" for name in swept.varied) or "the only settings"


def value(swept: Swept, one: Ranked) -> str:
    """The measure of settings, with its error."""
    measure = swept.measure
    return measure.show(one.mean) + ("" if one.error is None else f" ± {measure.show_error(one.error)}")


def _unit(swept: Swept) -> float:
    """Log-likelihoods are shown as NLL."""
    return -1.0 if swept.by.startswith("ll_") else 1.0


def _of_settings(swept: Swept, ranking: Sequence[Ranked]) -> Markup:
    """The best settings with their errors."""
    names, unit = [shown(words(swept, one)) for one in ranking], _unit(swept)
    ax = canvas((5.6, 1 + 0.3 * len(ranking)))
    values, errors = [unit * one.mean for one in ranking], [one.error or 0.0 for one in ranking]
    plots.plot_compared(ax, names, values, errors, swept.measure.label, None)
    said = "; ".join(f"{name}: {value(swept, one)}" for name, one in zip(names, ranking, strict=True))
    return as_svg(ax, "best", f"Dots of {swept.measure.label} with their errors: {said}.")


def _of_choice(swept: Swept, ranking: Sequence[Ranked], name: str) -> Markup:
    """The measure of all settings over one of them."""
    said, unit = [one.asked[name] for one in ranking], _unit(swept)
    try:
        at, ticks = [float(one) for one in said], None
    except ValueError:
        ticks = sorted(set(said))
        at = [float(ticks.index(one)) for one in said]
    ax = canvas((3.4, 2.6))
    ax.plot(at, [unit * one.mean for one in ranking], "o", color=plots.POSTERIOR_COLOUR, alpha=0.6, markersize=5)
    if ticks is not None:
        ax.set_xticks(range(len(ticks)), [shown(one) or "auto" for one in ticks])
        ax.set_xlim(-0.5, len(ticks) - 0.5)
    elif min(at) > 0 and max(at) / min(at) >= 20:
        ax.set_xscale("log")
    elif len(set(at)) <= 6:
        ax.set_xticks(sorted(set(at)))
    ax.set_xlabel(head(name))
    ax.set_ylabel(swept.measure.label)
    return as_svg(ax, f"by-{name}", f"{swept.measure.label} of all settings over {head(name)}.")
