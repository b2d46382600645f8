"""The tables and the figure of docs/nuts.md, from what `benchmarks/nuts.py` wrote.

python benchmarks/nuts_summary.py [--out results/nuts] [--picture docs/nuts.png]
"""

import argparse
import json
from pathlib import Path
from typing import Any

import numpy as np

DEPTHS = (0, 1, 2)
KINDS = {"classes": "Two classes: the arms of a spiral", "numbers": "Numbers: a sine with noise"}
LEARNED = ("mean-field", "written", "leadline", "published", "default")
COLOURS = {"exact": "#22252b", "mean-field": "#c75100", "written": "#c9a227", "leadline": "#2a5db0"}


def records(out: Path, kind: str) -> list[dict[str, Any]]:
    """Of every problem of a kind."""
    return [json.loads(path.read_text()) for path in sorted(out.glob(f"{kind}-*.json"))]


def by_depth(found: list[dict[str, Any]]) -> dict[str, np.ndarray]:
    """Problems by depths: -ln p(y | L), the free energy of a fixed depth (the best restart's), and their difference."""
    surprise = -np.array([[depth["log_evidence"] for depth in one["depths"]] for one in found])
    energy = np.array([[fixed["free_energy"] for fixed in one["variational"]["fixed"]] for one in found])
    return {"surprise": surprise, "energy": energy, "gap": energy - surprise}


def posteriors(found: list[dict[str, Any]]) -> dict[str, np.ndarray]:
    """Problems by depths: P(L | y), what the free energies of fixed depths make of it, and what is learned."""
    energy = by_depth(found)["energy"]
    odds = np.exp(energy.min(axis=1, keepdims=True) - energy)
    said = {"exact": np.array([one["p"] for one in found]), "exp(-F)": odds / odds.sum(axis=1, keepdims=True)}
    return said | {name: np.array([one["variational"][name]["q"] for one in found]) for name in LEARNED}


def likelihoods(found: list[dict[str, Any]]) -> dict[str, np.ndarray]:
    """Test NLL of every problem; of `mean-field` one network, and four together."""
    single = [np.mean(one["variational"]["mean-field"]["nll_each"]) for one in found]
    said = {name: np.array([one["variational"][name]["nll"] for one in found]) for name in LEARNED}
    exact = {name: np.array([one[f"nll_{name}"] for one in found]) for name in ("nuts", "smc")}
    return exact | {"mean-field, one": np.array(single)} | said


def table(head: list[str], lines: list[list[str]]) -> str:
    return "\n".join(f"| {' | '.join(line)} |" for line in (head, ["---"] * len(head), *lines))


def in_words(values: np.ndarray, digits: int) -> str:
    """The mean, and the smallest and largest of several problems."""
    ends = f" ({values.min():.{digits}f} to {values.max():.{digits}f})" if len(values) > 1 else ""
    return f"{values.mean():.{digits}f}{ends}"


def tables(out: Path) -> None:
    for name in ("linear", "depth-0"):
        said = json.loads((out / f"check-{name}.json").read_text())
        exact = f"{said['exact']:.3f}" + (f" ± {said['exact_error']:.3f}" if "exact_error" in said else "")
        print(f"{said['what']}: ln p(y) = {exact}, by the sampler {said['smc']:.3f} ± {said['smc_error']:.3f}")
    for kind, title in KINDS.items():
        found = records(out, kind)
        r_hats = [depth["r_hat"] for one in found for depth in one["depths"]]
        errors = [depth["log_evidence_error"] for one in found for depth in one["depths"]]
        seeds = [one["seed"] for one in found]
        print(
            f"\n## {title}\n\n{found[0]['n_weights']} weights, seeds {seeds}; R-hat up to {max(r_hats):.3f}, error of"
        )
        print(f"ln p(y | L) up to {max(errors):.2f}; {sum(one['cpu_seconds'] for one in found)} seconds of CPU\n")
        energies = by_depth(found)
        names = {"surprise": "−ln p(y \\| L)", "energy": "F of that depth alone", "gap": "F + ln p(y \\| L)"}
        lines = [[words, *(in_words(energies[name][:, i], 1) for i in DEPTHS)] for name, words in names.items()]
        print(table(["nats", *(f"L = {depth}" for depth in DEPTHS)], lines) + "\n")
        lines = [[name, *(in_words(p[:, i], 2) for i in DEPTHS)] for name, p in posteriors(found).items()]
        print(table(["", *(f"L = {depth}" for depth in DEPTHS)], lines) + "\n")
        nlls = likelihoods(found)
        lines = [[name, in_words(nll, 3), in_words(nll - nlls["nuts"], 3)] for name, nll in nlls.items()]
        print(table(["", "test NLL", "above NUTS"], lines))


def draw(out: Path, picture: Path) -> None:
    """Above P(L | y) beside q(L); below the nats of every depth: what the data cost, and what mean field adds."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(11, 7), layout="constrained")
    axes = figure.subplots(2, 2)
    for column, (kind, title) in enumerate(KINDS.items()):
        found, (above, below) = records(out, kind), axes[:, column]
        said, energies = posteriors(found), by_depth(found)
        names = {"exact": "P(L | y)", "mean-field": "q(L), same model", "written": "written", "leadline": "leadline"}
        for i, (name, label) in enumerate(names.items()):
            at = np.arange(len(DEPTHS)) + (i - 1.5) * 0.2
            above.bar(at, said[name].mean(axis=0), 0.18, color=COLOURS[name], label=label)
            above.plot(np.tile(at, (len(found), 1)).T, said[name].T, "o", color="white", mec=COLOURS[name], ms=4)
        above.set_title(title, loc="left", fontsize=11)
        above.set_ylim(0, 1.05)
        above.set_ylabel("probability of the depth")
        lowest = energies["surprise"].min(axis=1, keepdims=True)
        surprise, gap = energies["surprise"] - lowest, energies["gap"]
        below.bar(DEPTHS, surprise.mean(axis=0), 0.5, color=COLOURS["exact"], label="−ln p(y | L), less its lowest")
        bottom = surprise.mean(axis=0)
        below.bar(DEPTHS, gap.mean(axis=0), 0.5, bottom=bottom, color=COLOURS["mean-field"], label="F + ln p(y | L)")
        tops = (surprise + gap).T
        below.plot(np.tile(DEPTHS, (len(found), 1)).T, tops, "o", color="white", mec=COLOURS["mean-field"], ms=4)
        below.set_ylabel("nats")
        below.set_ylim(0, 1.1 * tops.max())
        for ax in (above, below):
            ax.set_xticks(DEPTHS, [f"L = {depth}" for depth in DEPTHS])
            ax.spines[["top", "right"]].set_visible(False)
    for ax in axes[:, 0]:
        ax.legend(frameon=False, fontsize=9, loc="best")
    figure.savefig(picture, dpi=110)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=Path("results/nuts"))
    parser.add_argument("--picture", type=Path)
    given = parser.parse_args()
    tables(given.out)
    if given.picture:
        draw(given.out, given.picture)


if __name__ == "__main__":
    main()
