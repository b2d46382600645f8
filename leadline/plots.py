"""Pictures, each one a matplotlib axes that the caller can go on drawing in."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from leadline.metrics import chance_band

if TYPE_CHECKING:  # matplotlib takes longer to import than the rest together, and few calls draw
    from matplotlib.axes import Axes
else:
    Axes = Any

# One colour for one thing in all pictures, dark enough for text on white.
PRIOR_COLOUR, POSTERIOR_COLOUR = "#bdbdbd", "#c75100"
WEIGHTS_COLOUR, DATA_COLOUR = "#5e57a6", "#117a5b"
GUIDE_COLOUR, INK = "#9e9e9e", "#000000"
CLASS_COLOURS = ("#2166ac", "#b2182b")
MORE_CLASS_COLOURS = (
    "#3f90da", "#ffa90e", "#bd1f01", "#94a4a2", "#832db6", "#a96b59", "#e76300", "#b9ac70", "#717581", "#92dadd",
)  # fmt: skip
"""Petroff's ten, which the colour-blind can tell apart."""

NOTHING = 0.1
"""A part of the free energy below this many nats may leave the picture at the bottom."""

TERMS = {
    "free_energy": ("free energy", INK),
    "weight_kl": ("weight KL", WEIGHTS_COLOUR),
    "expected_nll": ("expected NLL", DATA_COLOUR),
    "depth_kl": ("depth KL", POSTERIOR_COLOUR),
}


def axes_or_new(ax: Axes | None) -> Axes:
    """The axes to draw in."""
    if ax is not None:
        return ax
    from matplotlib import pyplot

    return pyplot.subplots(layout="constrained")[1]


def pair_or_new(axes: tuple[Axes, Axes] | None) -> tuple[Axes, Axes]:
    """The two axes to draw in, beside each other."""
    if axes is not None:
        return axes
    from matplotlib import pyplot

    left, right = pyplot.subplots(1, 2, figsize=(11, 4), layout="constrained")[1]
    return left, right


def plot_depth(ax: Axes, pmf: np.ndarray, prior: np.ndarray | None = None) -> Axes:
    """q(L) as bars before the prior p(L), if there is one, over the depths that either gives more than one percent."""
    given = [pmf] if prior is None else [pmf, prior]
    size = max(map(len, given))
    masses = np.stack([np.pad(mass, (0, size - len(mass))) for mass in given])
    n = int(np.flatnonzero((masses > 0.01).any(axis=0)).max()) + 1
    depth, pmf = np.arange(n), masses[0, :n]
    if prior is not None:
        ax.bar(depth, masses[1, :n], width=0.9, color=PRIOR_COLOUR, label="prior p(L)")
    ax.bar(depth, pmf, width=0.5, color=POSTERIOR_COLOUR, label="posterior q(L)")
    for k in depth[pmf >= 0.005] if n <= 12 else []:  # more numbers would run into each other
        ax.annotate(f"{pmf[k]:.2f}", (k, pmf[k]), ha="center", va="bottom", fontsize=8)
    ax.set(xlabel="depth L: hidden layers beyond the first", ylabel="probability", ylim=(0, 1.2), xlim=(-0.6, n - 0.4))
    ax.set_xticks(depth[:: -(-n // 12)])
    ax.set_yticks(np.linspace(0, 1, 6))
    ax.legend(frameon=False, loc="upper center", ncols=2)
    return ax


def decision_grid(x: np.ndarray, n: int = 150, margin: float = 0.1) -> tuple[np.ndarray, tuple[float, ...]]:
    """An n x n grid of points over the plane that x covers, row by row, and its (left, right, bottom, top)."""
    low, high = x.min(axis=0), x.max(axis=0)
    pad = margin * (high - low)
    (left, bottom), (right, top) = low - pad, high + pad
    across, up = np.meshgrid(np.linspace(left, right, n), np.linspace(bottom, top, n))
    return np.stack([across.ravel(), up.ravel()], axis=1), (left, right, bottom, top)


def plot_decision(
    ax: Axes,
    probabilities: np.ndarray,
    extent: tuple[float, ...],
    x: np.ndarray,
    y: np.ndarray,
    classes: Sequence[str] = ("class 0", "class 1"),
    names: tuple[str, str] = ("x1", "x2"),
) -> Axes:
    """Points x of classes y (0, 1, ...) over the `probabilities` [grid points, classes] on a `decision_grid`.

    Two classes: the probability of the second. More: the colour of the most probable class. White is undecided.
    """
    n = int(np.sqrt(len(probabilities)))
    colours = _class_colours(len(classes))
    where: dict[str, Any] = {"origin": "lower", "extent": extent, "aspect": "auto", "interpolation": "bilinear"}
    legend: dict[str, Any] = {"loc": "upper right"}
    if len(classes) == 2:
        probability = probabilities[:, 1].reshape(n, n)
        image = ax.imshow(probability, cmap="RdBu_r", vmin=0, vmax=1, alpha=0.4, **where)
        bar = ax.figure.colorbar(image, ax=ax, fraction=0.046, pad=0.03)
        bar.set_label(f"P({classes[1]})", parse_math=False)
    else:
        ax.imshow(_blend(probabilities, colours).reshape(n, n, 3), **where)
        legend = {"loc": "upper left", "bbox_to_anchor": (1, 1), "title": "paler: less sure", "title_fontsize": 8}
    dots = [
        ax.scatter(*x[y == label].T, s=9, color=colour, edgecolors="white", linewidths=0.25)
        for label, colour in enumerate(colours)
    ]
    ax.set_xlabel(names[0], parse_math=False)  # a dollar sign in a name is a dollar sign
    ax.set_ylabel(names[1], parse_math=False)
    # Named afterwards: matplotlib leaves out labels that begin with an underscore.
    box = ax.legend(dots, [str(i) for i in range(len(dots))], fontsize=8, markerscale=2, **legend)
    for text, name in zip(box.get_texts(), classes, strict=True):
        text.set_parse_math(False)
        text.set_text(name)
    return ax


def _class_colours(n: int) -> Sequence[Any]:
    from matplotlib import colormaps

    if n == 2:
        return CLASS_COLOURS
    if n <= len(MORE_CLASS_COLOURS):
        return MORE_CLASS_COLOURS[:n]
    return [tuple(colour[:3]) for colour in colormaps["turbo"](np.linspace(0, 1, n))]


def _blend(probabilities: np.ndarray, colours: Sequence[Any]) -> np.ndarray:
    """The colour of the most probable class, mixed with white: all white where every class is as probable."""
    from matplotlib.colors import to_rgb

    even = 1 / len(colours)
    sure = 0.6 * (probabilities.max(axis=1, keepdims=True) - even) / (1 - even)
    return 1 - sure * (1 - np.array([to_rgb(colour) for colour in colours])[probabilities.argmax(axis=1)])


def plot_reliability(ax: Axes, rows: np.ndarray, confidence: np.ndarray, right: np.ndarray) -> Axes:
    """Accuracy against confidence, bin by bin (`metrics.reliability`); on the diagonal the probabilities are honest.

    The areas of the dots are the bins' shares of the rows. The grey bars are where at least 95 of 100 dots lie if
    the probabilities are honest: the binomial distribution of as many rows.
    """
    some = rows > 0
    low_end, high_end = chance_band(rows[some], confidence[some])
    ax.vlines(confidence[some], low_end, high_end, color=GUIDE_COLOUR, linewidth=6, alpha=0.35, zorder=0)
    ax.plot([0, 1], [0, 1], color=GUIDE_COLOUR, linewidth=1, zorder=1)
    ax.vlines(confidence[some], confidence[some], right[some], color=POSTERIOR_COLOUR, linewidth=1, alpha=0.7, zorder=2)
    dots = {"color": POSTERIOR_COLOUR, "edgecolors": "white", "linewidths": 0.6, "zorder": 3, "clip_on": False}
    ax.scatter(confidence[some], right[some], s=12 + 260 * rows[some] / rows.sum(), **dots)
    low = max(0.0, min(confidence[some].min(), right[some].min(), low_end.min()) - 0.05)
    ax.set(xlabel="confidence", ylabel="accuracy", xlim=(low, 1.03), ylim=(low, 1.03), aspect="equal")
    ax.locator_params(nbins=6)
    return _in_percent(ax)


def plot_coverage(ax: Axes, level: np.ndarray, observed: np.ndarray, n_rows: int) -> Axes:
    """The share of rows that central intervals hold against the share that they should hold, both 0 to 1.

    The grey band is two binomial standard errors around the diagonal: where honest intervals fall.
    """
    nominal = np.linspace(0, 1, 101)
    error = 2 * np.sqrt(nominal * (1 - nominal) / n_rows)
    ax.fill_between(nominal, nominal - error, nominal + error, color=GUIDE_COLOUR, alpha=0.3, linewidth=0)
    ax.plot([0, 1], [0, 1], color=GUIDE_COLOUR, linewidth=1)
    ax.plot(level, observed, color=POSTERIOR_COLOUR, linewidth=1.5, marker="o", markersize=4)
    ax.text(0.04, 0.96, "too cautious", va="top", color=INK, alpha=0.6, fontsize=9)
    ax.text(0.96, 0.04, "too sure", ha="right", color=INK, alpha=0.6, fontsize=9)
    ax.set(xlabel="level of the interval", ylabel="share of rows inside", xlim=(0, 1), ylim=(0, 1), aspect="equal")
    return _in_percent(ax)


def _in_percent(ax: Axes) -> Axes:
    """Shares of 1 as they are written elsewhere."""
    from matplotlib.ticker import PercentFormatter

    for axis in (ax.xaxis, ax.yaxis):
        axis.set_major_formatter(PercentFormatter(1, decimals=0, symbol=" %"))
    return ax


def plot_compared(
    ax: Axes,
    names: Sequence[str],
    values: Sequence[float],
    errors: Sequence[float],
    label: str,
    aim: float | None = None,
) -> Axes:
    """A measure of candidates, from the top, with its standard errors. The line is where the first is, or the `aim`."""
    place = np.arange(len(names))[::-1]
    ax.axvline(values[0] if aim is None else aim, color=GUIDE_COLOUR, linewidth=1, zorder=1)
    for of_first, colour in ((True, POSTERIOR_COLOUR), (False, DATA_COLOUR)):
        some = (place == place[0]) == of_first
        given = np.array(values, float)[some], place[some]
        ax.errorbar(*given, xerr=np.array(errors, float)[some], fmt="o", color=colour, markersize=5, linewidth=1.6)
    ax.set(xlabel=label, ylim=(-0.6, len(names) - 0.4))
    ax.set_yticks(place, names, parse_math=False)
    ax.tick_params(axis="y", length=0)
    ax.spines["left"].set_visible(False)
    ax.locator_params(axis="x", nbins=5)
    return ax


def plot_fit(
    ax: Axes,
    grid: np.ndarray,
    mean: np.ndarray,
    noise: np.ndarray,
    weights: np.ndarray,
    depth: np.ndarray,
    x: np.ndarray,
    y: np.ndarray,
    name: str = "x",
    target: str = "y",
) -> Axes:
    """A regression on one column: the mean, and two standard deviations either side by what they are made of.

    `noise`, `weights` and `depth` are variances that add up to the predictive one. The bands are nested: depth alone,
    with the weights, with the noise too.
    """
    # The widest first, behind the others. Tints instead of transparency, which would mix into mud.
    for variance, label, colour in (
        (depth + weights + noise, "depth + weights + noise", "#cfe6dd"),
        (depth + weights, "depth + weights", "#b5b1da"),
        (depth, "depth", "#e89a66"),
    ):
        reach = 2 * np.sqrt(variance)
        ax.fill_between(grid, mean - reach, mean + reach, color=colour, linewidth=0, label=label)
    ax.plot(grid, mean, color=INK, linewidth=1.5, label="mean")
    ax.scatter(x, y, s=9, color=INK, edgecolors="white", linewidths=0.4, zorder=3, label="data")
    ax.set_xlim(float(grid[0]), float(grid[-1]))
    ax.set_xlabel(name, parse_math=False)
    ax.set_ylabel(target, parse_math=False)
    title: dict[str, Any] = {"title": "bands: ± 2 standard deviations", "title_fontsize": 8, "alignment": "left"}
    title |= {"loc": "lower left", "bbox_to_anchor": (0, 1), "ncols": 3}  # above: inside, the bands leave no room
    ax.legend(frameon=False, fontsize=8, borderaxespad=0.2, **title)
    return ax


def plot_history(axes: tuple[Axes, Axes], history: Mapping[str, Any], epochs: int | None = None) -> tuple[Axes, Axes]:
    """A training: the free energy by its parts (mean over the runs), and E[L] of every run.

    `history` has arrays or lists [epochs, runs] under the names of the record. If it was thinned, `epochs` is the
    number that there were, of which it shows an even choice from first to last. The band around the mean depth is one
    standard deviation of the mixture of the runs.
    """
    columns = {name: np.asarray(history[name], float) for name in (*TERMS, "depth_mean", "depth_std")}
    n = len(columns["free_energy"])
    epoch = np.linspace(1, epochs or n, n)
    _plot_free_energy(axes[0], epoch, {name: columns[name].mean(axis=1) for name in TERMS})
    _plot_depth_history(axes[1], epoch, columns["depth_mean"], columns["depth_std"])
    for ax in axes:
        ax.set(xlabel="epoch", xlim=(0, epoch[-1]))
        ax.spines[["top", "right"]].set_visible(False)
        ax.locator_params(axis="x", nbins=5)
        ax.xaxis.set_major_formatter(_plain)
    return axes


def _plot_free_energy(ax: Axes, epoch: np.ndarray, terms: dict[str, np.ndarray]) -> None:
    from matplotlib.ticker import LogLocator, NullFormatter

    terms = {name: values for name, values in terms.items() if values.any()}  # a fixed depth costs nothing
    low, high = min(map(np.min, terms.values())), max(map(np.max, terms.values()))
    if low > -NOTHING:  # the parts differ by powers of ten; a depth KL may be zero for a while, give or take rounding
        low = max(low, NOTHING)
        ax.set_yscale("log")
        ax.set_ylim(low / 1.3, high * 1.3)
        ax.yaxis.set_major_locator(LogLocator(subs=(1,) if high > 200 * low else (1, 2, 5)))
        ax.yaxis.set_minor_formatter(NullFormatter())
    else:  # the NLL of a density may be negative: show where the training went, not the height that it came down from
        high = max(values[len(values) // 10 :].max() for values in terms.values())
        ax.set_ylim(low - 0.05 * (high - low), high + 0.05 * (high - low))
        ax.axhline(0, color=GUIDE_COLOUR, linewidth=0.8)
    ax.yaxis.set_major_formatter(_plain)
    for name, values in reversed(terms.items()):  # the sum above its parts
        ax.plot(epoch, values, color=TERMS[name][1], linewidth=2 if name == "free_energy" else 1.3)
    _label_ends(ax, [(float(values[-1]), *TERMS[name]) for name, values in terms.items()])
    ax.set_ylabel("nats, all training rows")


def _label_ends(ax: Axes, ends: list[tuple[float, str, str]], gap: float = 0.08) -> None:
    """Name the lines at their right ends, moved up and down until no two names overlap."""
    ends = sorted(ends)
    to_axes = ax.transData + ax.transAxes.inverted()
    heights = np.clip([to_axes.transform((1, value))[1] for value, _, _ in ends], 0.02, 0.98)
    for i in range(1, len(ends)):
        heights[i] = max(heights[i], heights[i - 1] + gap)
    ceiling = 0.98
    for i in reversed(range(len(ends))):
        heights[i] = min(heights[i], ceiling)
        ceiling = heights[i] - gap
    for (value, name, colour), height in zip(ends, heights, strict=True):
        number = _plain(round(value) if abs(value) >= 10 else float(f"{value:.2g}"))
        ax.text(1.02, height, f"{name} {number}", transform=ax.transAxes, va="center", color=colour, fontsize=9)


def _plot_depth_history(ax: Axes, epoch: np.ndarray, means: np.ndarray, stds: np.ndarray) -> None:
    from matplotlib.ticker import MaxNLocator

    mean = means.mean(axis=1)
    std = np.sqrt(np.maximum((stds**2 + means**2).mean(axis=1) - mean**2, 0))  # of the mixture; rounding may go below
    ax.fill_between(epoch, mean - std, mean + std, color=POSTERIOR_COLOUR, alpha=0.2, linewidth=0)
    if means.shape[1] > 1:
        ax.plot(epoch, means, color=POSTERIOR_COLOUR, linewidth=0.7, alpha=0.7)
    ax.plot(epoch, mean, color=POSTERIOR_COLOUR, linewidth=2.2)
    ax.set_ylim(0, max(1.0, 1.1 * float(max((mean + std).max(), means.max()))))
    ax.yaxis.set_major_locator(MaxNLocator(nbins=8, integer=True))
    ax.set_ylabel("depth E[L] ± sd, hidden layers")


def _plain(value: float, _: Any = None) -> str:
    """100,000 and 0.1 rather than powers of ten."""
    return f"{value:,.10g}".replace("-", "\N{MINUS SIGN}")
