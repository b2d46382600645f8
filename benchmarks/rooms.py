"""The picture of docs/architecture.md: the rooms of the package from top to bottom, and who uses whom.

python benchmarks/rooms.py [--out docs/rooms.png]
"""

import argparse
import ast
from pathlib import Path

from matplotlib.figure import Figure

PACKAGE = Path(__file__).resolve().parents[1] / "leadline"

ROOMS = {
    "backend": "the device, loops whose length is data, kernels, random numbers, compiled programs",
    "depth": "p(L) and q(L): one file a family",
    "network": "layers, blocks (one file each), the unbounded network",
    "likelihoods": "one file each: log_prob, predictive distribution, checks and scaling of targets",
    "inference": "model, free energy, recipes, means over draws, predictions, restarts together",
    "files": "whole writes, locks, pytrees as tensors, checkpoints, records, tables, model files",
    "training": "Problem, Settings, state, one step, whole epochs, Watch, train",
    "estimators": "DepthClassifier, DepthRegressor, load",
    "studies": "evaluate, sweep and its runners; spirals, UCI sets, tables",
    "report": "records become pages, figures, comparisons, summaries",
    "server": "local pages: watch a training",
    "cli": "arguments in, one call, text out",
}


def imports(room: str) -> set[str]:
    """The rooms that a room uses."""
    used = set()
    for path in (PACKAGE / room).rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("leadline."):
                used.add((node.module or "").split(".")[1])
    return used & set(ROOMS) - {room}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=Path("docs/rooms.png"))
    arguments = parser.parse_args()
    figure = Figure(figsize=(11, 6.4), layout="constrained")
    ax = figure.subplots()
    names = list(ROOMS)
    for i, (room, words) in enumerate(ROOMS.items()):
        lines = sum(len(path.read_text().splitlines()) for path in (PACKAGE / room).rglob("*.py"))
        ax.add_patch(_box(i, "#f4f6f8"))
        ax.text(0.15, -i, room, va="center", fontsize=11, fontweight="bold")
        ax.text(1.6, -i, words, va="center", fontsize=9)
        ax.text(9.85, -i, f"{lines:,}", va="center", ha="right", fontsize=9, color="#59636e")
        for used in sorted(imports(room), key=names.index):
            above = names.index(used)
            x = 10.15 + 0.13 * above
            ax.plot([x, x], [-i, -above], color="#c75100", linewidth=0.8, alpha=0.55)
            ax.plot([10, x], [-i, -i], color="#c75100", linewidth=0.5, alpha=0.25)
            ax.plot([x], [-above], marker="^", markersize=4, color="#c75100")
    ax.text(9.85, 0.75, "lines", ha="right", fontsize=8, color="#59636e")
    ax.text(10.1, 0.75, "imports from", fontsize=8, color="#c75100")
    ax.set(xlim=(-0.1, 11.9), ylim=(-len(ROOMS) + 0.4, 1))
    ax.axis("off")
    figure.savefig(arguments.out, dpi=110)


def _box(i: int, colour: str):
    from matplotlib.patches import FancyBboxPatch

    return FancyBboxPatch((0, -i - 0.36), 10, 0.72, boxstyle="round,pad=0,rounding_size=0.1", fc=colour, ec="#d8dde3")


if __name__ == "__main__":
    main()
