"""The picture of the README: the faster the spiral turns, the deeper the network that is learned.

    python benchmarks/deepening.py [--epochs 2000] [--out docs/deepening.png]

One spiral per column (seed 1), trained side by side with the default recipe at this length.
"""

import argparse
from dataclasses import replace
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure

from leadline import Settings, Watch, plots
from leadline.studies.evaluate import run_fits
from leadline.studies.spiral import spiral_problem
from leadline.training.progress import ProgressLine

OMEGAS = (5, 10, 15, 20)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--epochs", type=int, default=2000)
    parser.add_argument("--out", type=Path, default=Path("docs/deepening.png"))
    arguments = parser.parse_args()
    settings = [Settings(epochs=arguments.epochs)] * len(OMEGAS)
    with ProgressLine(arguments.epochs) as line:
        runs = run_fits([spiral_problem(omega) for omega in OMEGAS], settings, Watch(line))
    figure = Figure(figsize=(13, 5.6), layout="constrained")
    axes = figure.subplots(2, len(OMEGAS), height_ratios=[1.9, 1])
    for top, bottom, run in zip(*axes, runs, strict=True):
        (x, y), record = run.problem.train, run.record.to_json()
        half = 1.1 * np.abs(x).max()
        grid, extent = plots.decision_grid(np.array([[-half, -half], [half, half]]), margin=0)
        probabilities = replace(run.restarts, n_samples=20).moments(grid)
        image = probabilities[:, 1].reshape([int(np.sqrt(len(grid)))] * 2)
        top.imshow(
            image, origin="lower", extent=extent, cmap="RdBu_r", vmin=0, vmax=1, alpha=0.4, interpolation="bilinear"
        )
        for label, colour in enumerate(plots.CLASS_COLOURS):
            top.scatter(*x[y == label].T, s=4, color=colour, linewidths=0)
        top.set(xticks=[], yticks=[], aspect="equal")
        top.set_title(f"omega = {record['omega']:g}: {record['accuracy']:.1f} % of the test part", fontsize=11)
        pmf = np.array(record["depth_pmf"])
        bottom.bar(np.arange(len(pmf)), pmf, width=0.6, color=plots.POSTERIOR_COLOUR)
        bottom.set(xlim=(-0.6, 6.6), ylim=(0, 1), xticks=range(7), xlabel="depth L")
        bottom.spines[["top", "right"]].set_visible(False)
        bottom.annotate(
            f"E[L] = {record['depth_mean']:.2f}", (0.97, 0.88), xycoords="axes fraction", ha="right", fontsize=10
        )
        print({key: record[key] for key in ("omega", "accuracy", "nll", "depth_mean", "depth_std", "epochs")})
    axes[1, 0].set_ylabel("posterior q(L)")
    figure.savefig(arguments.out, dpi=110)


if __name__ == "__main__":
    main()
