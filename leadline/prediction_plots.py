"""Pictures of predictions and of what they rest on, each one a matplotlib axes that the caller can go on drawing in."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from leadline import metrics
from leadline._foreign import on_one_line
from leadline.plots import DATA_COLOUR, GUIDE_COLOUR, INK, POSTERIOR_COLOUR, WEIGHTS_COLOUR

if TYPE_CHECKING:
    from matplotlib.axes import Axes
else:
    Axes = Any

LINES = (POSTERIOR_COLOUR, WEIGHTS_COLOUR, DATA_COLOUR, "#2f6db5")
"""Of classes, where there are a few."""

PARTS = {"depth": POSTERIOR_COLOUR, "weights": WEIGHTS_COLOUR, "noise": DATA_COLOUR}

MOST_BARS, LONGEST = 20, 22
"""Columns in a picture of their importance; and characters of a name."""


def plot_confusion(ax: Axes, matrix: np.ndarray, classes: Sequence[str]) -> Axes:
    """Rows of each class (down) that are taken for each (across); the darker, the more of the rows of the class."""
    from matplotlib.patches import Rectangle

    n = len(matrix)
    shares = matrix / np.maximum(matrix.sum(axis=1, keepdims=True), 1)
    box = ax.get_window_extent()
    cell = 72 / ax.figure.dpi * min(box.width, box.height) / n  # in points
    size = float(np.clip(1.5 * cell / len(f"{matrix.max():,}"), 5, 10))  # a digit is 0.6 of it wide
    for i, k in np.ndindex(n, n):
        colour = POSTERIOR_COLOUR if i != k else DATA_COLOUR
        if matrix[i, k]:
            ax.add_patch(Rectangle((k - 0.5, i - 0.5), 1, 1, color=colour, alpha=0.1 + 0.4 * shares[i, k], linewidth=0))
            ax.annotate(f"{matrix[i, k]:,}", (k, i), ha="center", va="center", fontsize=size)
    ax.set(xlim=(-0.5, n - 0.5), ylim=(n - 0.5, -0.5), aspect="equal", xlabel="predicted", ylabel="true")
    names = [_short(name, 14) for name in classes]
    size = float(np.clip(0.8 * cell, 5, 9))
    _named_ticks(ax.xaxis, names, size=size, rotation=90 if max(map(len, names)) * n > 40 else 0)
    _named_ticks(ax.yaxis, names, size=size)
    ax.tick_params(length=0)
    return ax


def plot_roc(ax: Axes, probabilities: np.ndarray, y: np.ndarray, classes: Sequence[str]) -> Axes:
    """Of the rows of a class the share that is found, against the share of the others that is taken for it, at every
    threshold; of two classes the second, of more than four those with the smallest areas."""
    areas = metrics.areas(probabilities, y)[0]
    some = [1] if len(areas) == 2 else np.flatnonzero(~np.isnan(areas))
    ax.plot([0, 100], [0, 100], color=GUIDE_COLOUR, linewidth=1)
    drawn = {}
    for colour, k in zip(LINES, sorted(some, key=lambda k: areas[k]), strict=False):
        false, right = metrics.roc_curve(probabilities[:, k], y == k)
        with np.errstate(invalid="ignore"):
            [drawn[k]] = ax.plot(100 * false / false[-1], 100 * right / right[-1], color=colour, linewidth=1.5)
    ax.set(xlabel="others taken for the class, %", ylabel="rows of the class that are found, %", aspect="equal")
    ax.set(xlim=(-1, 101), ylim=(-1, 101))
    names = [f"{_short(classes[k])}: {areas[k]:.3f}" for k in drawn]
    _legend(ax, list(drawn.values()), names, loc="lower right", title="area under the curve", title_fontsize=8)
    return ax


def plot_predictions(
    ax: Axes, truth: np.ndarray, mean: np.ndarray, low: np.ndarray, high: np.ndarray, coverage: float = 0.9
) -> Axes:
    """Predicted against true values, with intervals that should hold so many of the truths: their lines cross the
    diagonal where they do."""
    ends = float(min(truth.min(), mean.min())), float(max(truth.max(), mean.max()))
    ax.plot(ends, ends, color=GUIDE_COLOUR, linewidth=1, zorder=3)
    alpha = float(np.clip(30 / len(truth), 0.08, 0.5))
    ax.vlines(
        truth, low, high, color=WEIGHTS_COLOUR, linewidth=1.2, alpha=alpha, label=f"{100 * coverage:.0f} % interval"
    )
    ax.scatter(truth, mean, s=8, color=POSTERIOR_COLOUR, linewidths=0, zorder=4, label="mean")
    ax.set(xlabel="true", ylabel="predicted")
    ax.legend(frameon=False, fontsize=8, loc="upper left")
    return ax


def plot_residuals(ax: Axes, truth: np.ndarray, mean: np.ndarray) -> Axes:
    """True less predicted values against the predicted ones: honest errors lie about zero all along."""
    ax.axhline(0, color=GUIDE_COLOUR, linewidth=1)
    ax.scatter(mean, truth - mean, s=8, color=POSTERIOR_COLOUR, linewidths=0)
    ax.set(xlabel="predicted", ylabel="true − predicted")
    return ax


def plot_importance(ax: Axes, columns: Sequence[str], increase: np.ndarray, error: np.ndarray) -> Axes:
    """The rise of the NLL for every column that is shuffled, with one standard error either side; the largest 20."""
    order = np.argsort(-increase, kind="stable")[:MOST_BARS]
    place = np.arange(len(order))
    bars = {"color": GUIDE_COLOUR, "ecolor": INK, "error_kw": {"elinewidth": 1}}
    ax.barh(place, increase[order], xerr=error[order], height=0.7, **bars)
    ax.axvline(0, color=INK, linewidth=0.8)
    ax.set(ylim=(len(order) - 0.4, -0.6), xlabel="rise of the NLL, nats per row")
    _named_ticks(ax.yaxis, [_short(columns[i]) for i in order], size=8)
    ax.locator_params(axis="x", nbins=6)
    return ax


def moving(means: Sequence[np.ndarray], most: int = 4) -> list[int]:
    """The outputs to draw of [values, outputs], the same for all pictures: of two classes the second, of more than four
    those that move most."""
    n = means[0].shape[1]
    if n == 2:
        return [1]
    moves = np.max([np.ptp(mean, axis=0) for mean in means], axis=0)
    return sorted(np.argsort(-moves, kind="stable")[:most].tolist())


def plot_dependence(
    ax: Axes,
    column: str,
    values: Sequence[Any],
    mean: np.ndarray,
    deviation: np.ndarray,
    *,
    outputs: Sequence[str],
    some: Sequence[int],
    in_order: bool = True,
    of_classes: bool = True,
    top: float = 1.0,
    least: float | None = None,
) -> Axes:
    """The mean prediction against the value of a column, [values, outputs], with a band of two deviations, cut off
    below the `least` that there can be; a class has its probability, from 0 to the `top`. Times are text, in order."""
    numbers = in_order and all(isinstance(value, int | float) for value in values)
    at = np.array(values, float) if numbers else np.arange(len(values))
    drawn = []
    for i, (colour, k) in enumerate(zip(LINES, some, strict=False)):
        low, high = mean[:, k] - 2 * deviation[:, k], mean[:, k] + 2 * deviation[:, k]
        low, high = (np.clip(end, 0, 1) if of_classes else end for end in (low, high))
        low = low if least is None else np.maximum(low, least)
        if in_order:
            ax.fill_between(at, low, high, color=colour, alpha=0.2, linewidth=0)
            drawn += ax.plot(at, mean[:, k], color=colour, linewidth=1.6, marker="o", markersize=2.5)
        else:  # side by side
            place = at + 0.14 * (i - (len(some) - 1) / 2)
            ax.vlines(place, low, high, color=colour, linewidth=4, alpha=0.25)
            drawn += ax.plot(place, mean[:, k], color=colour, linewidth=0, marker="o", markersize=4)
    ax.set_ylabel("probability" if len(some) > 1 else f"P({_short(outputs[some[0]])})", parse_math=False)
    if not of_classes:
        ax.set_ylabel("prediction")
    elif len(some) > 1:
        above: dict[str, Any] = {"loc": "lower left", "bbox_to_anchor": (0, 1), "ncols": 2, "borderaxespad": 0.2}
        _legend(ax, drawn, [_short(outputs[k]) for k in some], **above)
    if of_classes:
        ax.set_ylim(-0.02 * top, 1.02 * top)
    if not numbers:
        step = -(-len(at) // 8)
        names = [_short(value, 10) for value in values][::step]
        _named_ticks(ax.xaxis, names, at[::step], size=8, rotation=90 if sum(map(len, names)) > 32 else 0)
    else:
        ax.locator_params(axis="x", nbins=5)
    ax.set_xlabel(_short(column, 34), parse_math=False)
    return ax


def plot_uncertainty(ax: Axes, noise: np.ndarray, weights: np.ndarray, depth: np.ndarray, unit: str) -> Axes:
    """The uncertainty of every row by its parts, one on the other, the most certain row first."""
    order = np.argsort(noise + weights + depth, kind="stable")
    parts = {"depth": depth[order], "weights": weights[order], "noise": noise[order]}
    row = 100 * (np.arange(len(order)) + 0.5) / len(order)
    ax.stackplot(row, *parts.values(), colors=[PARTS[name] for name in parts], labels=list(parts), linewidth=0)
    ax.set(xlabel="rows, the most certain first, %", ylabel=unit, xlim=(0, 100), ylim=(0, None))
    handles, labels = ax.get_legend_handles_labels()
    ax.legend(handles[::-1], labels[::-1], frameon=False, fontsize=8, loc="upper left")
    return ax


def plot_learning(
    ax: Axes, history: Mapping[str, Any], epochs: int | None = None, ends: Mapping[str, float] | None = None
) -> Axes:
    """The NLL of the validation part over the epochs, of single networks and in the middle of them, in nats per row;
    and what it is elsewhere at the end, by names. Networks that are far worse leave the picture at the top."""
    nll = np.asarray(history["validation_nll"], float)
    epoch = np.linspace(1, epochs or len(nll), len(nll))
    middle = np.median(nll, axis=1)
    if nll.shape[1] > 1:
        ax.plot(epoch, nll, color=DATA_COLOUR, linewidth=0.5, alpha=0.35)
    ax.plot(epoch, middle, color=DATA_COLOUR, linewidth=2, label="validation rows, one network (median)")
    for (name, value), style in zip((ends or {}).items(), ("--", ":"), strict=False):
        ax.axhline(value, color=INK, linewidth=1.2, linestyle=style, label=name)
    settled = len(nll) // 20  # the fall from the start would hide the rest
    high = max(middle[settled:].max(), np.quantile(nll[settled:], 0.75))
    seen = [np.quantile(nll[settled:], 0.02), high, *(ends or {}).values()]
    margin = 0.08 * (max(seen) - min(seen)) + 1e-9
    ax.set(ylim=(min(seen) - margin, max(seen) + margin), xlim=(0, epoch[-1]), xlabel="epoch")
    ax.set_ylabel("NLL, nats per row")
    ax.locator_params(axis="x", nbins=5)
    ax.legend(frameon=False, fontsize=8, loc="lower left", bbox_to_anchor=(0, 1))
    return ax


def _short(name: object, most: int = LONGEST) -> str:
    """On one line, and not too long; cut in the middle, as names that begin alike often end otherwise."""
    text, end = str(name), most // 3
    first, last = on_one_line(text[:most]), on_one_line(text[-most:])
    return first if max(len(text), len(first)) <= most else f"{first[: most - end - 1]}…{last[-end:]}"


def _named_ticks(
    axis: Any, names: Sequence[str], at: np.ndarray | None = None, *, size: float, rotation: float = 0
) -> None:
    """A dollar sign in a name is a dollar sign."""
    axis.set_ticks(np.arange(len(names)) if at is None else at)
    for label in axis.set_ticklabels(names, fontsize=size, rotation=rotation):
        label.set_parse_math(False)


def _legend(ax: Axes, handles: Sequence[Any], names: Sequence[str], **options: Any) -> None:
    """Named afterwards: matplotlib leaves out labels that begin with an underscore, and reads dollar signs."""
    box = ax.legend(handles, [str(i) for i in range(len(names))], frameon=False, fontsize=8, **options)
    for text, name in zip(box.get_texts(), names, strict=True):
        text.set_parse_math(False)
        text.set_text(name)
