"""One column, one number, and a gap in the data: what the network says where it has seen nothing.

    python benchmarks/toy_regression.py --plot docs/gap.png

Two hundred points of a sine, none of them between -1 and 1, with constant noise and with noise that grows to the
right. The bands are two standard deviations of noise, weights and depth; the table has their means inside the gap and
on either side of it.
"""

import argparse
from pathlib import Path

import numpy as np

from leadline import DepthRegressor

GAP = (-1.0, 1.0)
PLACES = {"left": (-1.85, -1.15), "gap": (-0.6, 0.6), "right": (1.15, 1.85)}


def with_gap(growing: bool, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    x = np.concatenate([rng.uniform(-2, GAP[0], 100), rng.uniform(GAP[1], 2, 100)])
    noise = 0.02 + 0.08 * (x + 2) if growing else 0.1
    return x[:, None], np.sin(3 * x) + noise * rng.normal(size=200)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--plot", type=Path)
    arguments = parser.parse_args()
    from matplotlib.figure import Figure

    figure = Figure(figsize=(12, 4.6), layout="constrained")
    print("| noise | where | noise sd | weights sd | depth sd | depth |")
    print("|---|---|---|---|---|---|")
    for ax, kind in zip(figure.subplots(1, 2), ("constant", "growing"), strict=True):
        x, y = with_gap(kind == "growing")
        model = DepthRegressor(random_state=0).fit(x, y)
        model.plot_fit(x, y, ax=ax).set_title(f"{kind} noise", loc="right", fontsize=10)
        depth = f"{model.depth_mean_:.2f} ± {model.depth_std_:.2f}"
        for where, ends in PLACES.items():
            parts = model.uncertainty(np.linspace(*ends, 41)[:, None])
            sds = " | ".join(f"{np.sqrt(part.mean()):.3f}" for part in (parts.noise, parts.weights, parts.depth))
            print(f"| {kind} | {where} | {sds} | {depth} |")
    if arguments.plot:
        figure.savefig(arguments.plot, dpi=110)


if __name__ == "__main__":
    main()
