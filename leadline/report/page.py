"""A record as one web page that stands alone: no scripts, nothing from outside."""

import math
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from io import StringIO
from pathlib import Path
from typing import Any

import numpy as np
from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from leadline import plots
from leadline._checks import refusing
from leadline.files.directories import write_whole
from leadline.files.records import Record
from leadline.metrics import MEASURES, Measure, in_digits, in_percent
from leadline.report.words import (
    count,
    depth_in_words,
    duration,
    from_to,
    is_learned,
    joined,
    percent,
    plural,
    range_of_widths,
)

# What a colour of the plots is on the page: its own on white, another one in the dark.
_INKS = {
    plots.INK: "currentColor",
    "#ffffff": "var(--paper)",
    **{
        colour: f"var(--{name}, {colour})"
        for name, colour in {
            "prior": plots.PRIOR_COLOUR,
            "depth": plots.POSTERIOR_COLOUR,
            "weights": plots.WEIGHTS_COLOUR,
            "data": plots.DATA_COLOUR,
            "guide": plots.GUIDE_COLOUR,
        }.items()
    },
}


@dataclass(frozen=True)
class Table:
    """The first cell of each row is its heading; the columns `numbers` are set as numbers."""

    rows: Sequence[Sequence[str]]
    head: Sequence[str] = ()
    caption: str = ""
    numbers: Sequence[int] = ()

    def kind(self, column: int) -> str:
        return "number" if column in self.numbers else "words"


@dataclass(frozen=True)
class Figure:
    """A picture inside the page."""

    svg: Markup
    caption: str


@dataclass(frozen=True)
class Pictures:
    """Side by side, where there is room."""

    pictures: Sequence[Figure | Table]


@dataclass(frozen=True)
class Code:
    """To be copied."""

    code: str


@dataclass(frozen=True)
class Section:
    """A heading and what stands below it: sentences (text or `Markup`), tables, pictures, code."""

    title: str
    parts: Sequence[Any]


def page(record: Record) -> str:
    """The record of a fit to a table or to the spiral, for someone who has not met the library before."""
    from matplotlib import style

    with style.context(["default", {"svg.fonttype": "none", "svg.hashsalt": "leadline"}]):  # not the user's own
        sections = [Section(title, make(record)) for title, make in SECTIONS.items()]
    notice = ""
    if record.interrupted:
        notice = f"Training was interrupted after {plural(record.epochs, 'epochs')}: this is not the final result."
    environment = Environment(loader=PackageLoader("leadline.report", "."), autoescape=True, undefined=StrictUndefined)
    environment.filters["joined"] = joined
    return environment.get_template("page.html").render(
        title=_title(record),
        notice=notice,
        lead=_success(record) + _depth_in_short(record),
        sections=[section for section in sections if section.parts],
    )


def write_page(record: Record, path: Path) -> Path:
    """Write the page whole or not at all."""
    with refusing("`run`: the record does not hold what Leadline writes"):
        text = page(record)
    return write_whole(path, text)


# The sentences to read if no others are read


def _title(record: Record) -> str:
    if record.omega is not None:
        return f"Spiral, omega = {record.omega:g}"
    return ": ".join(str(part) for part in (record.name, record.target) if part) or "A Leadline fit"


def _depth_in_short(record: Record) -> str:
    if not is_learned(record):
        return ""
    depth = f"{record.depth_mean:.2f} ± {record.depth_std:.2f}"
    return f" The depth that it learned is {depth} hidden layers beyond the first."


def _success(record: Record) -> Markup:
    subject = Markup("The network predicts <em>{}</em>").format(record.target or "the target")
    n_inputs = len(record.columns or ()) or record.n_features
    if n_inputs:
        subject += f" from {plural(n_inputs, 'columns')}"
    n = record.n_test
    tested = f"{plural(n, 'rows')} that it had not seen" if n else "the rows that it had not seen"
    content = record.to_json()
    if "accuracy" in record.measures:
        if record.omega is not None:
            subject = Markup("The network has two interleaved spirals to tell apart")
        guess = MEASURES["accuracy"].guess(content)
        against = f"; guessing would be right for {in_percent(guess[0])}" if guess else ""
        return subject + f" and is right for {in_percent(record.measures['accuracy'])} of {tested}{against}."
    if "rmse" in record.measures:
        guess = MEASURES["rmse"].guess(content)
        against = f"; always answering the mean would err by {in_digits(guess[0])}" if guess else ""
        return subject + f" with a typical error of {in_digits(record.measures['rmse'])} on {tested}{against}."
    return subject + ". No rows were held out for a test, so how well it predicts is not known."


# Sections


def _metrics(record: Record) -> list[Any]:
    n, content, rows = record.n_test, record.to_json(), []
    for measure in MEASURES.values():
        if measure.name in record.measures:
            guess, shown = measure.guess(content), measure.show(record.measures[measure.name])
            against = _explained(_compared(measure, guess[0], n), guess[1]) if guess else ""
            rows.append((_explained(measure.label, measure.meaning), shown, against))
    if not rows:
        return []
    caption = f"On {plural(n, 'rows')} that were not used for training." if n else ""
    return [Table(rows, ("Measure", "Network", "For comparison"), caption, numbers=(1,))]


def _compared(measure: Measure, value: float, n_rows: int | None) -> str:
    """What to compare with; a share that should be met, with what chance makes of it."""
    if measure.better != "equal":
        return measure.show(value)
    by_chance = f" ± {200 * math.sqrt(value * (1 - value) / n_rows):.0f}" if n_rows else ""
    return f"{100 * value:.0f}{by_chance} %"


def _depth(record: Record) -> list[Any]:
    words, units = depth_in_words(record), _units(record)
    meaning = (
        f"The input always goes through a first hidden layer of {record.width} units; the depth L counts the hidden "
        "layers that come after it. With L = 0 the answer is read off the first layer, with L = 1 off the next, and so "
        "on."
    )
    prior_words, pictures = "", units
    if is_learned(record):
        several = ", and over the networks" if record.n_restarts > 1 else ""
        meaning += f" A prediction is the mean over the depths, each counted with its probability{several}."
        ax, mode, prior, caption = _canvas(), record.depth_mode, None, "The probability of each depth, q(L)"
        if record.depth_prior_pmf:
            prior = np.array(record.depth_prior_pmf)
            prior_words = f" The prior gave this depth {percent(float(prior[mode : mode + 1].sum()))}."
            caption += ", and what it was before the training, p(L)"
        plots.plot_depth(ax, np.array(record.depth_pmf), prior).set_xlabel("hidden layers beyond the first, L")
        pictures = [_figure(ax, "depth", f"Bars of the depth. {words}", f"{caption}."), *units]
    return [Markup("<strong>{}</strong>{}").format(words, prior_words), meaning, Pictures(pictures)]


def _units(record: Record) -> list[Table]:
    """How many units each layer uses (the range over the restarts), and how often it is passed through."""
    if not record.effective_width:
        return []
    pmf, rows = np.array(record.depth_pmf), []
    for layer, used in enumerate(range_of_widths(record.effective_width)):
        reached = percent(1.0 if layer == 0 else float(pmf[layer:].sum()))
        rows.append(("first" if layer == 0 else f"L = {layer}", from_to(used, " to "), reached))
    several = ", from the network with the fewest to the one with the most" if len(record.effective_width) > 1 else ""
    caption = f"Units in use: those that stand out of the noise{several}. Reached: how probable so many layers are."
    return [Table(rows, ("Hidden layer", f"Units, of {record.width}", "Reached"), caption, numbers=(1, 2))]


def _calibration(record: Record) -> list[Any]:
    ax = _canvas((4.0, 3.8))
    if record.reliability:
        rows, confidence, right = (np.array(record.reliability[k], float) for k in ("rows", "confidence", "right"))
        sure, accuracy = (np.nansum(rows * column) / rows.sum() for column in (confidence, right))
        chance = 2 * math.sqrt(np.nansum(rows * confidence * (1 - confidence))) / rows.sum()
        verdict = "chance explains the difference"
        if abs(sure - accuracy) > chance:
            verdict = f"too {'sure' if sure > accuracy else 'cautious'}, by more than chance explains"
        words = f"It was right for {100 * accuracy:.1f} % of the rows, {100 * sure:.1f} % sure on average: {verdict}."
        plots.plot_reliability(ax, rows, confidence, right)
        name, alt = "reliability", f"Dots of accuracy against confidence. {words}"
        caption = "How often it is right against how sure it was; a larger dot is more rows. On the line the two agree;"
    elif record.coverage_curve and record.n_test:
        level, observed = (np.array(record.coverage_curve[key], float) for key in ("level", "observed"))
        n, k = record.n_test, int(np.argmin(np.abs(level - 0.9)))
        chance = 2 * math.sqrt(level[k] * (1 - level[k]) / n)
        verdict = "as many as they should, as far as chance lets one see"
        if abs(observed[k] - level[k]) > chance:
            verdict = f"too {'few' if observed[k] < level[k] else 'many'}, by more than chance explains"
        held = f"{100 * observed[k]:.1f} % of the true values"
        words = f"The intervals that should hold {100 * level[k]:.0f} % held {held}: {verdict}."
        plots.plot_coverage(ax, level, observed, n)
        name, alt = "coverage", f"Line of the share of rows inside against the level of the interval. {words}"
        caption = "How many true values lie inside the intervals. Honest ones keep to the grey band;"
    else:
        return []
    caption += " below it the network was too sure, above it too cautious."
    return [words, Pictures([_figure(ax, name, alt, caption)])]


def _training(record: Record) -> list[Any]:
    n, epochs = record.n_restarts, plural(record.epochs, "epochs")
    parts: list[Any] = [f"One network was trained for {epochs}."]
    if n > 1:
        parts = [f"{count(n).capitalize()} networks were trained side by side for {epochs} each; they answer together."]
    if record.history:
        axes = _canvas(), _canvas()
        plots.plot_history(axes, record.history, record.epochs)
        mean, thin = (", mean over the networks", " Thin: the single networks.") if n > 1 else ("", "")
        alt = "Lines of the free energy and its parts over the epochs."
        caption = f"The free energy and its parts, in nats, as estimated during training{mean}."
        figures = [_figure(axes[0], "energy", alt, caption)]
        if is_learned(record):
            caption = f"The depth that was expected, with a band of one standard deviation.{thin}"
            figures.append(_figure(axes[1], "learning", "Line of the expected depth over the epochs.", caption))
        parts.append(Pictures(figures))
    if record.free_energy_terms:
        meanings = {
            "expected_nll": ("Expected NLL", "How badly the training rows are predicted."),
            "depth_kl": ("Depth KL", "How far the belief about the depth has moved from the prior."),
            "weight_kl": ("Weight KL", "How much the weights have learned beyond their prior."),
            "free_energy": ("Free energy", "The sum. Of two fits to the same rows, the lower is the better account."),
        }
        values = {**record.free_energy_terms, "free_energy": record.free_energy}
        rows = [(_explained(*words), in_digits(values[key])) for key, words in meanings.items()]
        factor = record.temperature
        cold = f" In training, the weight KL counted {factor:g} times (the temperature)." if factor != 1 else ""
        caption = f"The free energy of the result on the training rows, which training keeps low.{cold}"
        parts.append(Table(rows, ("Part", "Nats"), caption, numbers=(1,)))
    return parts


def _columns(record: Record) -> list[Any]:
    parts: list[Any] = []
    if record.n_rows is not None:
        held = f", of which {record.n_test:,} were held out for the test" if record.n_test else ""
        parts.append(f"{plural(record.n_rows, 'rows').capitalize()}{held}.")
    if shares := record.class_shares:
        common = sorted(shares, key=shares.__getitem__, reverse=True)
        listed = ", ".join(f"{name} ({percent(shares[name])})" for name in common[:12])
        more = f" and {len(common) - 12} more" if len(common) > 12 else ""
        target = record.target or "The target"
        parts.append(Markup("<em>{}</em> has {} classes: {}{}.").format(target, len(common), listed, more))
    if columns := record.columns:
        alike: dict[str, list[Markup]] = {}
        for column in columns:
            alike.setdefault(str(column["words"]), []).append(Markup("<code>{}</code>").format(column["name"]))
        names = Markup('<span class="names">{}</span>')
        rows = [(names.format(Markup(", ").join(some)), words) for words, some in alike.items()]
        n_features = record.n_features or len(columns)
        became = f", which became {n_features:,} numbers" if n_features != len(columns) else ""
        caption = f"{plural(len(columns), 'columns').capitalize()}{became}."
        parts.append(Table(rows, ("Columns", "Taken for"), caption))
    return parts


def _settings(record: Record) -> list[Any]:
    temperature = f"{record.temperature:g}"
    if record.validation_nll:
        listed = ", ".join(f"{tried}: {in_digits(nll)}" for tried, nll in record.validation_nll.items())
        temperature += f" (lowest validation NLL of {listed})"
    rows = {
        "Recipe": record.recipe,
        "Family of q(L), or fixed depth": record.depth,
        "Kind of layer": record.block,
        "Units per layer": record.width,
        "Temperature": temperature,
        "Networks": record.n_restarts,
        "Epochs": f"{record.epochs:,}",
        "Learning rate": record.learning_rate,
        "Rows per step": record.batch_size,
        "Seed": record.seed,
    }
    parts: list[Any] = [Table([(name, str(value)) for name, value in rows.items() if value is not None])]
    if record.settings:
        kind = "DepthRegressor" if record.task == "regression" else "DepthClassifier"
        arguments = ", ".join(f"{name}={value!r}" for name, value in record.settings.items())
        parts += ["As asked for in Python:", Code(f"{kind}({arguments})")]
    return parts


def _making(record: Record) -> list[Any]:
    made = f"Leadline {record.version} on {record.device}; the training took {duration(record.seconds)}."
    if record.task is None:
        return [made]
    to_predict = "To predict new rows, with the directory of this page for DIR:"
    return [made, to_predict, Code("leadline predict DIR new.csv --out predictions.csv")]


SECTIONS: dict[str, Callable[[Record], list[Any]]] = {
    "How well it predicts": _metrics,
    "How deep it is": _depth,
    "How honest it is": _calibration,
    "How it was trained": _training,
    "What it was given": _columns,
    "Settings": _settings,
    "How this was made": _making,
}
"""In the order of the page; one that has nothing to say is left out."""


def _explained(name: str, meaning: str) -> Markup:
    return Markup("{}<small>{}</small>").format(name, meaning)


# Pictures


def _canvas(size: tuple[float, float] = (4.4, 3.2)) -> Any:
    from matplotlib.figure import Figure as Canvas

    ax = Canvas(figsize=size, layout="constrained", facecolor="none").subplots()
    ax.set_facecolor("none")
    ax.spines[["top", "right"]].set_visible(False)
    return ax


def _figure(ax: Any, name: str, alt: str, caption: str) -> Figure:
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
    return Figure(opened + Markup(inside), caption)
