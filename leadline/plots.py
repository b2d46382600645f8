"""Pictures, each one a matplotlib axes that the caller can go on drawing in."""

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:  # matplotlib takes longer to import than the rest together, and few calls draw
    from matplotlib.axes import Axes

CLASS_COLOURS = ("#2166ac", "#b2182b")
PRIOR_COLOUR, POSTERIOR_COLOUR = "#bdbdbd", "#d95f02"


def plot_depth(ax: "Axes", pmf: np.ndarray, prior: np.ndarray) -> "Axes":
    """q(L) as bars before the prior p(L), over the depths that either gives more than one percent."""
    size = max(len(pmf), len(prior))
    pmf, prior = (np.pad(masses, (0, size - len(masses))) for masses in (pmf, prior))
    n = int(np.flatnonzero((pmf > 0.01) | (prior > 0.01)).max()) + 1
    depth = np.arange(n)
    ax.bar(depth, prior[:n], width=0.9, color=PRIOR_COLOUR, label="prior p(L)")
    ax.bar(depth, pmf[:n], width=0.5, color=POSTERIOR_COLOUR, label="posterior q(L)")
    for k in depth[pmf[:n] >= 0.005]:
        ax.annotate(f"{pmf[k]:.2f}", (k, pmf[k]), ha="center", va="bottom", fontsize=8)
    ax.set(xlabel="hidden layers L", ylabel="probability", xticks=depth, ylim=(0, 1.2), xlim=(-0.6, n - 0.4))
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
    ax: "Axes", probability: np.ndarray, extent: tuple[float, ...], x: np.ndarray, y: np.ndarray
) -> "Axes":
    """Points of two classes over the probability of class 1 on a `decision_grid`; white is undecided."""
    n = int(np.sqrt(len(probability)))
    image = ax.imshow(
        probability.reshape(n, n),
        origin="lower",
        extent=(extent[0], extent[1], extent[2], extent[3]),
        cmap="RdBu_r",
        vmin=0,
        vmax=1,
        alpha=0.4,
        interpolation="bilinear",
    )
    ax.figure.colorbar(image, ax=ax, label="P(class 1)", fraction=0.046, pad=0.03)
    for label, colour in enumerate(CLASS_COLOURS):
        ax.scatter(*x[y == label].T, s=9, color=colour, edgecolors="white", linewidths=0.25, label=f"class {label}")
    ax.set(aspect="equal", xlabel="$x_1$", ylabel="$x_2$")
    ax.legend(frameon=True, fontsize=8, loc="upper right", markerscale=2)
    return ax


def plot_reliability(ax: "Axes", rows: np.ndarray, confidence: np.ndarray, right: np.ndarray) -> "Axes":
    """Accuracy against confidence, bin by bin (`metrics.reliability`); on the diagonal the probabilities are honest.

    The areas of the dots are the bins' shares of the rows.
    """
    some = rows > 0
    ax.plot([0, 1], [0, 1], color="#9e9e9e", linewidth=1, zorder=1)
    ax.vlines(confidence[some], confidence[some], right[some], color=POSTERIOR_COLOUR, linewidth=1, alpha=0.7, zorder=2)
    ax.scatter(
        confidence[some],
        right[some],
        s=12 + 260 * rows[some] / rows.sum(),
        color=POSTERIOR_COLOUR,
        edgecolors="white",
        linewidths=0.6,
        zorder=3,
    )
    low = max(0.0, min(confidence[some].min(), right[some].min()) - 0.05)
    ax.set(xlabel="confidence", ylabel="accuracy", xlim=(low, 1.03), ylim=(low, 1.03), aspect="equal")
    return ax
