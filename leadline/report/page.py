"""A record as one web page that stands alone: no scripts, nothing from outside."""

import math
import re
from collections.abc import Callable, Sequence
from html import escape
from io import StringIO
from pathlib import Path
from typing import Any

import numpy as np

from leadline import plots
from leadline._checks import refusing
from leadline.experiments.records import write_whole

Record = dict[str, Any]

_STYLE = """
:root { color-scheme: light dark; --paper: #ffffff; --ink: #1b1f24; --muted: #59636e; --line: #d8dde3; --card: #f4f6f8;
  --warn: #fff3d6; }
@media screen and (prefers-color-scheme: dark) { :root { --paper: #14171b; --ink: #e8eaed; --muted: #a2abb5;
  --line: #363c44; --card: #1e2329; --warn: #45370f; --depth: #ff9d57; --weights: #b0abf0; --data: #55cda6;
  --prior: #59616b; --guide: #8b949e; } }
* { box-sizing: border-box; }
body { margin: 0 auto; max-width: 50rem; padding: 1.5rem 1.1rem 3rem; background: var(--paper); color: var(--ink);
  font: 1rem/1.55 system-ui, "Segoe UI", Roboto, "Helvetica Neue", Arial, sans-serif; overflow-wrap: break-word; }
h1 { font-size: 1.7rem; line-height: 1.2; margin: 0 0 .6rem; }
h2 { font-size: 1.2rem; margin: 2.4rem 0 .5rem; padding-top: .8rem; border-top: 1px solid var(--line); }
p { margin: .6rem 0; max-width: 42rem; }
.lead { font-size: 1.15rem; }
.notice { background: var(--warn); padding: .6rem .9rem; border-radius: .4rem; }
small, figcaption, caption { color: var(--muted); font-size: .85rem; line-height: 1.4; }
table { border-collapse: collapse; width: 100%; margin: .8rem 0; }
caption { text-align: left; padding-bottom: .3rem; }
th, td { text-align: left; vertical-align: top; padding: .45rem 0 .45rem 1.2rem; border-top: 1px solid var(--line); }
th { font-weight: 600; }
th:first-child { padding-left: 0; }
td.words { width: 38%; }
thead th { color: var(--muted); font-size: .85rem; border: none; }
.names { font-weight: 400; }
td small, th small { display: block; font-weight: 400; }
.number { text-align: right; white-space: nowrap; font-variant-numeric: tabular-nums; }
tbody .number { font-weight: 600; }
code { font: .88em ui-monospace, Menlo, Consolas, monospace; overflow-wrap: anywhere; }
pre { background: var(--card); padding: .7rem .9rem; border-radius: .4rem; margin: .6rem 0; white-space: pre-wrap; }
.pictures { display: flex; flex-wrap: wrap; gap: 1rem 1.6rem; }
figure, .beside { margin: .8rem 0; flex: 1 1 19rem; max-width: 26rem; }
.beside table { margin-top: 0; }
figure svg { display: block; width: 100%; height: auto; fill: currentColor; }
@page { margin: 1.6cm; }
@media print { body { max-width: none; padding: 0; font-size: 10.5pt; } figure, table, pre { break-inside: avoid; }
  h2, p:has(+ pre) { break-after: avoid; } }
"""

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


def page(record: Record) -> str:
    """The record of a fit to a table or to the spiral, for someone who has not met the library before."""
    from matplotlib import style

    title = _title(record)
    with style.context(["default", {"svg.fonttype": "none", "svg.hashsalt": "leadline"}]):  # not the user's own
        sections = [
            ("How well it predicts", _metrics(record)),
            ("How deep it is", _depth(record)),
            ("How honest it is", _calibration(record)),
            ("How it was trained", _training(record)),
            ("What it was given", _columns(record)),
            ("Settings", _settings(record)),
            ("How this was made", _making(record)),
        ]
    body = "\n".join(f"<section>\n<h2>{name}</h2>\n{text}\n</section>" for name, text in sections if text)
    return f"""<!DOCTYPE html>
<html lang="en-GB">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>{title}</title>
<style>{_STYLE}</style>
</head>
<body>
<main>
<h1>{title}</h1>
{_lead(record)}
{body}
</main>
</body>
</html>
"""


def write_page(record: Record, path: Path) -> Path:
    """Write the page whole or not at all."""
    with refusing("`run`: the record does not hold what Leadline writes"):
        text = page(record)
    return write_whole(path, text)


# Words


def depth_in_words(record: Record) -> str:
    """What q(L) says, for a reader who does not know that L = 0 has one layer of hidden units already."""
    pmf, mode = np.array(record["depth_pmf"]), int(record["depth_mode"])
    subject, be = f"{_count(mode)} hidden {'layer' if mode == 1 else 'layers'} beyond the first", "are"
    if mode <= 1:
        subject, be = subject if mode else "the first hidden layer alone", "is"
    if not _is_learned(record):
        return f"The depth was fixed beforehand: {subject}."
    subject = subject[0].upper() + subject[1:]
    others = [int(k) for k in np.flatnonzero(pmf >= 0.005) if k != mode]
    if not others:
        return f"{subject} {be} all but certain ({_percent(pmf[mode])})."
    verdict = f"{be} most probable ({_percent(pmf[mode])})"
    if pmf[mode] < 0.5:
        verdict = f"{be} the likeliest ({_percent(pmf[mode])}), without a majority"
    together = _percent(pmf[others].sum()) + (" together" if len(others) > 1 else "")
    return f"{subject} {verdict}; {_possible(others, mode)} possible ({together})."


def _possible(others: list[int], mode: int) -> str:
    low, high = min(*others, mode), max(*others, mode)
    if len(others) > 2 and len(others) == high - low:
        return f"anything from {_count(low)} to {_count(high)} is"
    *rest, last = map(_count, others)
    words = f"{', '.join(rest)} or {last}" if rest else last
    return f"{words}{' more' if mode == 0 else ''} {'is' if others in ([0], [1]) else 'are'}"


def _count(n: int) -> str:
    words = ("none", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve")
    return words[n] if n < len(words) else str(n)


def _percent(share: float) -> str:
    if 0.995 <= share < 1:
        return "more than 99 %"
    return "less than 1 %" if 0 < share < 0.005 else f"{100 * share:.0f} %"


def _percent_exactly(percent: float) -> str:
    digits = 0 if percent == 100 else 2 if percent > 99 else 1
    return f"{percent:.{digits}f} %"


def _number(value: float) -> str:
    """Three digits, or all that stand before the point."""
    if isinstance(value, int) or value == 0:
        text = f"{value:,}"
    elif 1e-4 <= abs(value) < 1e9:
        text = f"{value:,.{max(0, 2 - math.floor(math.log10(abs(value))))}f}"
    else:
        text = f"{value:.2e}"
    return text.replace("-", "\N{MINUS SIGN}")


def _plural(n: int, noun: str) -> str:
    return f"{n:,} {noun}" if n != 1 else f"one {noun.removesuffix('s')}"


def _duration(seconds: float) -> str:
    if seconds < 60:
        return f"{seconds:.1f} seconds"
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes} min {rest} s" if minutes < 60 else f"{minutes // 60} h {minutes % 60} min"


def _joined(text: str) -> str:
    """What belongs together stays on one line."""
    for words in (" %", " ± ", "L = "):
        text = text.replace(words, words.replace(" ", "\N{NO-BREAK SPACE}"))
    return text


# Sections. What came from the user goes through `escape`.


def _title(record: Record) -> str:
    if "omega" in record:
        return f"Spiral, omega = {record['omega']:g}"
    return escape(": ".join(str(record[key]) for key in ("name", "target") if record.get(key))) or "A Leadline fit"


def _lead(record: Record) -> str:
    """The sentences to read if no others are read."""
    text = f'<p class="lead">{_success(record)}{_depth_in_short(record)}</p>'
    if not record.get("interrupted"):
        return _joined(text)
    epochs = _plural(record["epochs"], "epochs")
    notice = f'<p class="notice">Training was interrupted after {epochs}: this is not the final result.</p>'
    return _joined(f"{notice}\n{text}")


def _depth_in_short(record: Record) -> str:
    if not _is_learned(record):
        return ""
    depth = f"{record['depth_mean']:.2f} ± {record['depth_std']:.2f}"
    return f" The depth that it learned is {depth} hidden layers beyond the first."


def _success(record: Record) -> str:
    target = f"<em>{escape(str(record.get('target', 'the target')))}</em>"
    n_inputs = len(record.get("columns", ())) or record.get("n_features")
    subject = f"The network predicts {target}" + (f" from {_plural(n_inputs, 'columns')}" if n_inputs else "")
    n = record.get("n_test")
    tested = f"{_plural(n, 'rows')} that it had not seen" if n else "the rows that it had not seen"
    if "accuracy" in record:
        if "omega" in record:
            subject = "The network has two interleaved spirals to tell apart"
        guess = _guess(record)
        against = f"; guessing would be right for {_percent_exactly(guess['accuracy'][0])}" if guess else ""
        return f"{subject} and is right for {_percent_exactly(record['accuracy'])} of {tested}{against}."
    if "rmse" in record:
        spread = record.get("target_std")
        against = f"; always answering the mean would err by {_number(spread)}" if spread else ""
        return f"{subject} with a typical error of {_number(record['rmse'])} on {tested}{against}."
    return f"{subject}. No rows were held out for a test, so how well it predicts is not known."


def _guess(record: Record) -> dict[str, tuple[float, str]]:
    """What knowing the shares of the classes alone would give, and in which words."""
    if "omega" in record:  # the arms of the spiral are as probable
        coin = "tossing a coin"
        return {"accuracy": (50.0, coin), "nll": (math.log(2), coin), "brier": (0.5, coin)}
    shares = record.get("class_shares")
    if not shares:
        return {}
    commonest = max(shares, key=shares.__getitem__)
    known = np.array([share for share in shares.values() if share > 0])
    by_share = "answering with the shares of the classes"
    return {
        "accuracy": (100 * shares[commonest], f"always answering “{commonest}”"),
        "nll": (float(-np.sum(known * np.log(known))), by_share),
        "brier": (float(1 - np.sum(known**2)), by_share),
    }


def _metrics(record: Record) -> str:
    n, against = record.get("n_test"), _guess(record)
    if spread := record.get("target_std"):
        against["rmse"] = spread, "always answering the mean"
        against["ll_mixture"] = -0.5 * math.log(2 * math.pi * math.e * spread**2), "one normal curve for all rows"

    def share(value: float) -> str:
        return f"{100 * value:.1f} %"

    known: list[tuple[str, str, str, Callable[[float], str]]] = [
        ("accuracy", "Accuracy", "Rows whose most probable class is the right one.", _percent_exactly),
        ("nll", "Surprise (NLL)", "Mean of −ln(probability of the right class), in nats. 0 is perfect.", _number),
        ("brier", "Brier score", "Squared distance of the probabilities from the truth. 0 is perfect.", _number),
        ("ece", "Calibration error", "How far confidence and accuracy lie apart, on average.", share),
        ("rmse", "Typical error (RMSE)", "Root of the mean squared error, in the target’s own units.", _number),
        ("ll_mixture", "Log-likelihood", "Mean of ln(density at the true value), in nats. Higher is better.", _number),
    ]
    rows = []
    for key, name, meaning, show in known:
        if key in record:
            value, words = against.get(key, (0, ""))
            rows.append((_explained(name, meaning), show(record[key]), _explained(show(value), words) if words else ""))
    for level in (50, 90, 95):
        if (key := f"coverage_{level}") in record:
            chance = f" ± {200 * math.sqrt(level / 100 * (1 - level / 100) / n):.0f}" if n else ""
            meaning = f"Rows whose true value lies inside their {level} % interval."
            honest = _explained(f"{level}{chance} %", "if honest")
            rows.append((_explained(f"Coverage at {level} %", meaning), share(record[key]), honest))
    if not rows:
        return ""
    caption = f"On {_plural(n, 'rows')} that were not used for training." if n else ""
    return _joined(_table(rows, ("Measure", "Network", "For comparison"), caption, numbers=(1,)))


def _depth(record: Record) -> str:
    words, units = depth_in_words(record), _units(record)
    width = f"{record['width']} units" if "width" in record else "units"
    meaning = (
        f"The input always goes through a first hidden layer of {width}; the depth L counts the hidden layers that "
        "come after it. With L = 0 the answer is read off the first layer, with L = 1 off the next, and so on."
    )
    prior_words = figure = ""
    if _is_learned(record):
        several = ", and over the networks" if record.get("n_restarts", 1) > 1 else ""
        meaning += f" A prediction is the mean over the depths, each counted with its probability{several}."
        ax, mode, prior, caption = _canvas(), record["depth_mode"], None, "The probability of each depth, q(L)"
        if record.get("depth_prior_pmf"):
            prior = np.array(record["depth_prior_pmf"])
            prior_words = f" The prior gave this depth {_percent(float(prior[mode : mode + 1].sum()))}."
            caption += ", and what it was before the training, p(L)"
        plots.plot_depth(ax, np.array(record["depth_pmf"]), prior).set_xlabel("hidden layers beyond the first, L")
        figure = _figure(ax, "depth", f"Bars of the depth. {words}", f"{caption}.")
    pictures = f'<div class="pictures">{figure}<div class="beside">{units}</div></div>'
    return _joined(f"<p><strong>{words}</strong>{prior_words}</p>\n<p>{meaning}</p>\n{pictures}")


def _is_learned(record: Record) -> bool:
    return not isinstance(record.get("depth"), int)


def _units(record: Record) -> str:
    """How many units each layer uses (the range over the restarts), and how often it is passed through."""
    by_restart = record.get("effective_width")
    if not by_restart:
        return ""
    pmf, rows = np.array(record["depth_pmf"]), []
    for layer in range(max(map(len, by_restart))):
        used = [widths[layer] for widths in by_restart if layer < len(widths)]
        units = str(used[0]) if min(used) == max(used) else f"{min(used)} to {max(used)}"
        name = "first" if layer == 0 else f"L = {layer}"
        rows.append((name, units, _percent(1.0 if layer == 0 else float(pmf[layer:].sum()))))
    several = ", from the network with the fewest to the one with the most" if len(by_restart) > 1 else ""
    caption = f"Units in use: those that stand out of the noise{several}. Reached: how probable so many layers are."
    return _table(rows, ("Hidden layer", f"Units, of {record['width']}", "Reached"), caption, numbers=(1, 2))


def _calibration(record: Record) -> str:
    ax = _canvas((4.0, 3.8))
    if reliability := record.get("reliability"):
        rows, confidence, right = (np.array(reliability[key], float) for key in ("rows", "confidence", "right"))
        sure, accuracy = (np.nansum(rows * column) / rows.sum() for column in (confidence, right))
        chance = 2 * math.sqrt(np.nansum(rows * confidence * (1 - confidence))) / rows.sum()
        verdict = "chance explains the difference"
        if abs(sure - accuracy) > chance:
            verdict = f"too {'sure' if sure > accuracy else 'cautious'}, by more than chance explains"
        words = f"It was right for {100 * accuracy:.1f} % of the rows, {100 * sure:.1f} % sure on average: {verdict}."
        plots.plot_reliability(ax, rows, confidence, right)
        name, alt = "reliability", f"Dots of accuracy against confidence. {words}"
        caption = "How often it is right against how sure it was; a larger dot is more rows. On the line the two agree;"
    elif curve := record.get("coverage_curve"):
        level, observed = (np.array(curve[key], float) for key in ("level", "observed"))
        n, k = record["n_test"], int(np.argmin(np.abs(level - 0.9)))
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
        return ""
    caption += " below it the network was too sure, above it too cautious."
    return _joined(f'<p>{words}</p>\n<div class="pictures">{_figure(ax, name, alt, caption)}</div>')


def _training(record: Record) -> str:
    n, epochs = record.get("n_restarts", 1), _plural(record["epochs"], "epochs")
    text = f"One network was trained for {epochs}."
    if n > 1:
        text = f"{_count(n).capitalize()} networks were trained side by side for {epochs} each; they answer together."
    if record.get("stopped"):
        text += f" {escape(str(record['stopped']))}"
    pictures = ""
    if history := record.get("history"):
        axes = _canvas(), _canvas()
        plots.plot_history(axes, history, record["epochs"])
        mean, thin = (", mean over the networks", " Thin: the single networks.") if n > 1 else ("", "")
        alt = "Lines of the free energy and its parts over the epochs."
        caption = f"The free energy and its parts, in nats, as estimated during training{mean}."
        figures = _figure(axes[0], "energy", alt, caption)
        if _is_learned(record):
            caption = f"The depth that was expected, with a band of one standard deviation.{thin}"
            figures += _figure(axes[1], "learning", "Line of the expected depth over the epochs.", caption)
        pictures = f'<div class="pictures">{figures}</div>\n'
    meanings = {
        "expected_nll": ("Expected NLL", "How badly the training rows are predicted."),
        "depth_kl": ("Depth KL", "How far the belief about the depth has moved from the prior."),
        "weight_kl": ("Weight KL", "How much the weights have learned beyond their prior."),
        "free_energy": ("Free energy", "The sum. Of two fits to the same rows, the lower is the better account."),
    }
    values = {**record["free_energy_terms"], "free_energy": record["free_energy"]}
    rows = [(_explained(*words), _number(values[key])) for key, words in meanings.items()]
    factor = record.get("temperature", 1)
    cold = f" In training, the weight KL counted {factor:g} times (the temperature)." if factor != 1 else ""
    caption = f"The free energy of the result on the training rows, which training keeps low.{cold}"
    return _joined(f"<p>{text}</p>\n{pictures}{_table(rows, ('Part', 'Nats'), caption, numbers=(1,))}")


def _columns(record: Record) -> str:
    parts = []
    if "n_rows" in record:
        held = f", of which {record['n_test']:,} were held out for the test" if record.get("n_test") else ""
        parts.append(f"<p>{_plural(record['n_rows'], 'rows').capitalize()}{held}.</p>")
    if shares := record.get("class_shares"):
        common = sorted(shares, key=shares.__getitem__, reverse=True)
        listed = ", ".join(f"{escape(str(name))} ({_percent(shares[name])})" for name in common[:12])
        more = f" and {len(common) - 12} more" if len(common) > 12 else ""
        target = escape(str(record.get("target", "The target")))
        parts.append(_joined(f"<p><em>{target}</em> has {len(common)} classes: {listed}{more}.</p>"))
    if columns := record.get("columns"):
        alike: dict[str, list[str]] = {}
        for column in columns:
            alike.setdefault(str(column["words"]), []).append(f"<code>{escape(str(column['name']))}</code>")
        rows = [(f'<span class="names">{", ".join(names)}</span>', escape(words)) for words, names in alike.items()]
        n_features = record.get("n_features", len(columns))
        became = f", which became {n_features:,} numbers" if n_features != len(columns) else ""
        caption = f"{_plural(len(columns), 'columns').capitalize()}{became}."
        parts.append(_table(rows, ("Columns", "Taken for"), caption))
    return "\n".join(parts)


def _settings(record: Record) -> str:
    names = {
        "recipe": "Recipe",
        "depth": "Family of q(L), or fixed depth",
        "width": "Units per layer",
        "temperature": "Temperature",
        "n_restarts": "Networks",
        "epochs": "Epochs",
        "seed": "Seed",
    }
    shown = {**record, "epochs": f"{record['epochs']:,}"}
    if "temperature" in record:
        shown["temperature"] = f"{record['temperature']:g}"
    if tried := record.get("validation_nll"):
        listed = ", ".join(f"{temperature}: {_number(nll)}" for temperature, nll in tried.items())
        shown["temperature"] += f" (lowest validation NLL of {listed})"
    table = _table([(name, escape(str(shown[key]))) for key, name in names.items() if key in record])
    if not record.get("settings"):
        return table
    estimator = "DepthRegressor" if record.get("task") == "regression" else "DepthClassifier"
    arguments = ", ".join(f"{name}={value!r}" for name, value in record["settings"].items())
    return f"{table}\n<p>As asked for in Python:</p>\n<pre><code>{escape(f'{estimator}({arguments})')}</code></pre>"


def _making(record: Record) -> str:
    made = f"Leadline {record['version']} on {record['device']}; the training took {_duration(record['seconds'])}."
    if "task" not in record:
        return f"<p>{escape(made)}</p>"
    return (
        f"<p>{escape(made)}</p>\n<p>To predict new rows, with the directory of this page for DIR:</p>\n"
        "<pre><code>leadline predict DIR new.csv --out predictions.csv</code></pre>"
    )


def _explained(name: str, meaning: str) -> str:
    return f"{name}<small>{escape(meaning)}</small>"


def _table(
    rows: Sequence[Sequence[str]], head: Sequence[str] = (), caption: str = "", numbers: Sequence[int] = ()
) -> str:
    """The cells are HTML; the first of each row is its heading."""
    kind = ["number" if i in numbers else "words" for i in range(len(rows[0]))]
    titles = "".join(f'<th scope="col" class="{k}">{name}</th>' for k, name in zip(kind, head, strict=False))
    lines = [
        f'<tr><th scope="row">{first}</th>'
        + "".join(f'<td class="{k}">{cell}</td>' for k, cell in zip(kind[1:], rest, strict=True))
        + "</tr>"
        for first, *rest in rows
    ]
    caption = f"<caption>{caption}</caption>" if caption else ""
    top = f"<thead><tr>{titles}</tr></thead>" if titles else ""
    return f"<table>{caption}{top}<tbody>\n{chr(10).join(lines)}\n</tbody></table>"


# Pictures


def _canvas(size: tuple[float, float] = (4.4, 3.2)) -> Any:
    from matplotlib.figure import Figure

    ax = Figure(figsize=size, layout="constrained", facecolor="none").subplots()
    ax.set_facecolor("none")
    ax.spines[["top", "right"]].set_visible(False)
    return ax


def _figure(ax: Any, name: str, alt: str, caption: str) -> str:
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
    svg = f'<svg role="img" aria-label="{escape(alt)}" {view[0]}>{inside}'
    return f"<figure>{svg}<figcaption>{caption}</figcaption></figure>"
