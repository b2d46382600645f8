"""The pictures of docs/how-it-works.md.

    python benchmarks/how_it_works.py [--out docs] [--epochs 5000]

The spiral of omega 10 (seed 1), the recipe `leadline`. First what the unbounded network is; then how q(L) moves while
one network learns, and what a step costs at every depth; then the free energy of fixed depths, by its parts.
"""

import argparse
import time
from pathlib import Path

import jax
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import FancyArrowPatch, FancyBboxPatch, Rectangle

from leadline import FixedDepth, NormalDepth, Settings, Watch, plots, train
from leadline.studies.evaluate import run_fits
from leadline.studies.spiral import spiral_problem

OMEGA = 10
SHOWN = 6
"""Depths 0 .. 5 are drawn."""
MASS = NormalDepth(1.6, 0.7, 0.025, 0.975)
"""The q(L) of the first picture."""
PRIOR = NormalDepth(0.0, 1.15)
"""The paper's p(L)."""
FAINT = "#d8dde3"


def box(ax: Axes, x: float, y: float, text: str, colour: str, fill: str) -> None:
    ax.add_patch(
        FancyBboxPatch((x - 0.36, y - 0.26), 0.72, 0.52, boxstyle="round,pad=0,rounding_size=0.1", fc=fill, ec=colour)
    )
    ax.text(x, y, text, ha="center", va="center", fontsize=12, color=colour)


def arrow(ax: Axes, start: tuple[float, float], end: tuple[float, float], colour: str) -> None:
    ax.add_patch(
        FancyArrowPatch(start, end, arrowstyle="-|>", mutation_scale=11, color=colour, shrinkA=0, shrinkB=0, lw=1.1)
    )


def draw_network(ax: Axes) -> None:
    """Layers from left to right, a head on each, and what counts how much."""
    q = np.asarray(MASS.pmf(SHOWN), float)
    highest = int(MASS.support()[1])
    ax.text(-1.15, 0, "x", ha="center", va="center", fontsize=13)
    for depth in range(SHOWN):
        used = depth <= highest
        colour, fill = (plots.DATA_COLOUR, "#e7f3ee") if used else (plots.GUIDE_COLOUR, "#ffffff")
        ink = "#000000" if used else plots.GUIDE_COLOUR
        arrow(ax, (depth * 1.25 - (1.0 if depth == 0 else 0.89), 0), (depth * 1.25 - 0.36, 0), ink)
        box(ax, depth * 1.25, 0, f"$f_{depth}$", colour, fill)
        arrow(ax, (depth * 1.25, 0.26), (depth * 1.25, 0.79), ink)
        box(ax, depth * 1.25, 1.05, f"$g_{depth}$", plots.WEIGHTS_COLOUR if used else plots.GUIDE_COLOUR, fill)
        arrow(ax, (depth * 1.25, 1.31), (depth * 1.25, 1.72), ink)
        ax.text(depth * 1.25, 1.9, rf"$\Omega_{depth}(x)$", ha="center", va="center", fontsize=12, color=ink)
        ax.text(depth * 1.25, 2.28, f"× {q[depth]:.2f}", ha="center", fontsize=11, color=plots.POSTERIOR_COLOUR)
        ax.add_patch(Rectangle((depth * 1.25 - 0.3, 2.6), 0.6, 1.1 * q[depth], color=plots.POSTERIOR_COLOUR))
    end = (SHOWN - 1) * 1.25
    arrow(ax, (end + 0.36, 0), (end + 0.8, 0), plots.GUIDE_COLOUR)
    ax.text(end + 1.0, 0, "…", fontsize=14, va="center", color=plots.GUIDE_COLOUR)
    ax.plot([-0.5, end + 0.5], [2.6, 2.6], color=plots.GUIDE_COLOUR, lw=0.8)
    ax.text(-0.62, 2.9, "q(L)", ha="right", fontsize=12, color=plots.POSTERIOR_COLOUR)
    ax.text(-0.62, 1.9, "output at depth L", ha="right", va="center", fontsize=10)
    ax.text(-0.62, 1.05, "head", ha="right", va="center", fontsize=10, color=plots.WEIGHTS_COLOUR)
    ax.text(-0.62, 0.38, "layer", ha="right", va="center", fontsize=10, color=plots.DATA_COLOUR)
    below = {"ha": "center", "va": "top", "fontsize": 9.5}
    shared = "shared by all depths: $f_l$ is a part\nof every network with L ≥ l"
    ax.text(highest * 1.25 / 2, -0.42, shared, **below)
    beyond = "beyond the support of q(L):\nstored, perhaps, but not computed"
    ax.text((highest + 1 + SHOWN - 1) * 1.25 / 2, -0.42, beyond, color="#59636e", **below)
    ax.set(xlim=(-2.1, end + 1.3), ylim=(-1.0, 3.35), aspect="equal")
    ax.axis("off")


def followed(epochs: int) -> tuple[np.ndarray, np.ndarray]:
    """The epochs after each compiled call, and q(L) there."""
    at, masses = [], []

    def look(state) -> None:
        q = jax.tree.map(lambda a: a[0], state.model.unpack().depth_posterior)
        at.append(int(state.epoch))
        masses.append(np.asarray(q.pmf(SHOWN), float))

    train(spiral_problem(OMEGA), Settings(n_restarts=1, epochs=epochs), watch=Watch(on_call=look))
    return np.array(at), np.array(masses)


def cost_by_depth(epochs: int = 50, times: int = 7) -> list[float]:
    """Milliseconds of the processor for an epoch of a network that is as deep, the least of several tries."""
    milliseconds = []
    for depth in range(SHOWN):
        tries = []
        for _ in range(times):
            begun = time.process_time()
            train(spiral_problem(OMEGA), Settings(depth=depth, n_restarts=1, epochs=epochs))
            tries.append(1000 * (time.process_time() - begun) / epochs)
        milliseconds.append(min(tries))
    return milliseconds


def draw_learning(left: Axes, right: Axes, epochs: int) -> None:
    """q(L) over the epochs; and what an epoch costs."""
    at, masses = followed(epochs)
    edges = np.append(0, at)
    mesh = left.pcolormesh(edges, np.arange(SHOWN + 1) - 0.5, masses.T, cmap="Oranges", vmin=0, vmax=1)
    left.plot(at, masses @ np.arange(SHOWN), color="#000000", lw=1.4, label="E[L]")
    left.set(xlabel="epoch", ylabel="depth L", yticks=range(SHOWN), title="q(L) while one network learns")
    left.legend(frameon=False, loc="upper left")
    left.figure.colorbar(mesh, ax=left, label="q(L)")  # pyright: ignore[reportAttributeAccessIssue]
    cost = cost_by_depth()
    print("ms of processor time an epoch, by depth:", [round(one, 2) for one in cost])
    right.bar(range(SHOWN), cost, width=0.6, color=plots.DATA_COLOUR)
    right.set(xlabel="the deepest depth with mass", ylabel="ms of processor time an epoch", title="what a step costs")
    right.spines[["top", "right"]].set_visible(False)


def draw_free_energy(left: Axes, right: Axes, epochs: int) -> None:
    """The terms of F for every fixed depth; and the q(L) that is learned instead."""
    depths = range(SHOWN)
    fixed = [Settings(depth=(PRIOR, FixedDepth(d)), epochs=epochs, temperature=1.0) for d in depths]
    free = Settings(epochs=epochs, temperature=1.0)
    records = [run_fits([spiral_problem(OMEGA)], [one])[0].record.to_json() for one in (*fixed, free)]
    bottom = np.zeros(SHOWN)
    for name in ("expected_nll", "weight_kl", "depth_kl"):
        label, colour = plots.TERMS[name]
        values = np.array([record["free_energy_terms"][name] for record in records[:-1]])
        left.bar(depths, values, bottom=bottom, width=0.6, color=colour, label=label)
        bottom += values
        print(name, values.round(1).tolist())
    learned = records[-1]
    print("learned", learned["free_energy"], learned["depth_mean"], learned["accuracy"])
    left.axhline(learned["free_energy"], color="#000000", lw=1, ls=(0, (4, 2)), label="free energy, L learned")
    left.set(xlabel="depth L, fixed", ylabel="nats", title="the free energy by its parts", xticks=depths)
    left.set_ylim(0, 1.3 * bottom.max())
    left.legend(frameon=False, fontsize=9, ncols=2, loc="upper right")
    pmf = np.pad(learned["depth_pmf"], (0, SHOWN))[:SHOWN]
    right.bar(depths, np.asarray(PRIOR.pmf(SHOWN)), width=0.85, color=plots.PRIOR_COLOUR, label="prior p(L)")
    right.bar(depths, pmf, width=0.5, color=plots.POSTERIOR_COLOUR, label="posterior q(L), learned")
    right.set(xlabel="depth L", ylabel="probability", title="the depth, learned", xticks=depths)
    right.legend(frameon=False, fontsize=9)
    for ax in (left, right):
        ax.spines[["top", "right"]].set_visible(False)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=Path("docs"))
    parser.add_argument("--epochs", type=int, default=5000)
    arguments = parser.parse_args()
    figure = Figure(figsize=(9.6, 4.9), layout="constrained")
    draw_network(figure.subplots())
    figure.savefig(arguments.out / "how-it-works-network.png", dpi=110)
    for name, draw in (("learning", draw_learning), ("free-energy", draw_free_energy)):
        figure = Figure(figsize=(11, 4), layout="constrained")
        left, right = figure.subplots(1, 2)
        draw(left, right, arguments.epochs)
        figure.savefig(arguments.out / f"how-it-works-{name}.png", dpi=110)


if __name__ == "__main__":
    main()
