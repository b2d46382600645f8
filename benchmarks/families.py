"""All depth families side by side, from priors and first q(L)s that are alike: the paper's question.

    python benchmarks/families.py --out results/families                                   # the spirals
    python benchmarks/families.py --out results/families --uci PATH --sets yacht,energy    # the UCI sets
    python benchmarks/families.py --out results/families --plot docs/families.png          # trains nothing

The paper says which families it passes over, and why, and takes the discrete normal; it compares with the Poisson
alone. Here every family starts from a p(L) and a q(L) with the normal's mean and mass at 0 as near as the family has
them (`pair` of each in leadline/depth/; the Poisson has the mean, the categorical all masses up to depth 10), and is
cut at the normal's upper quantile. All else is the recipe's.

A recipe and a family become a table, a row per rotation speed and seed; what is in the tables is not trained again, and
what was cut off goes on. On a GPU all families, speeds and seeds of a recipe are one program; on a CPU each core trains
one network after another (those of the normal, the Poisson and the categorical by the C++ engine, the others by JAX, so
that `seconds` cannot be compared between the two kinds). `seconds` is without compilation.
"""

import argparse
import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import equinox as eqx
import numpy as np

from leadline import CategoricalDepth, NormalDepth, PoissonDepth, Settings
from leadline.backend.numerics import as_float
from leadline.depth import FAMILIES, Pair, Start
from leadline.depth.matching import normal_facts
from leadline.depth.normal import PRIOR, QUANTILES
from leadline.files.records import read_rows
from leadline.inference.recipes import get_recipe
from leadline.studies import reproduce, uci
from leadline.studies.spiral import spiral_problem
from leadline.studies.sweep import Job, Row, Sweep
from leadline.training.problem import Problem
from leadline.training.progress import GridLine

UCI_COLUMNS = (*uci.COLUMNS, "free_energy", "expected_nll", "depth_kl", "weight_kl", "temperature")


def pair_of(family: str, recipe: str) -> Pair:
    """p(L) and the q(L) to start from, as near to the normal's as the family gets."""
    given = get_recipe(recipe)
    loc, scale = given.initial_depth
    if family == "poisson":
        rates = (normal_facts(*PRIOR)[0], normal_facts(loc, scale)[0])
        return PoissonDepth(rates[0]), PoissonDepth(rates[1], QUANTILES[1])
    if family == "categorical":
        prior, posterior = (_categorical(NormalDepth(*one)) for one in (PRIOR, (loc, scale)))
        return prior, posterior
    return FAMILIES[family].pair(Start(loc, scale, given.bounds))


def _categorical(normal: NormalDepth) -> CategoricalDepth:
    uniform = CategoricalDepth()
    logits = as_float(np.asarray(normal.log_masses(len(uniform.logits))))
    return eqx.tree_at(lambda q: q.logits, uniform, logits)


def named(problem: Callable[[], Problem], family: str) -> Problem:
    """A problem whose records say the family's name, and not all of its pair."""
    made = problem()
    return replace(made, about=made.about | {"depth": family})


def spirals(arguments: argparse.Namespace) -> Sweep:
    jobs = [
        Job(
            partial(named, partial(spiral_problem, omega, seed), family),
            Settings(depth=pair_of(family, recipe), recipe=recipe, epochs=arguments.epochs, seed=seed),
            reproduce.table_name(recipe, family),
            (float(omega), seed),
        )
        for recipe in arguments.recipes
        for seed in arguments.seeds
        for omega in arguments.omegas
        for family in arguments.families
    ]
    key = lambda row: (float(row["omega"]), int(row["seed"]))  # noqa: E731
    together = lambda job: get_recipe(job.settings.recipe).name  # noqa: E731
    return Sweep(jobs, reproduce.COLUMNS, key, together, _check_length(arguments), compiled_apart=True)


def uci_sets(arguments: argparse.Namespace) -> Sweep:
    """With the recipe and the length of `leadline benchmark uci`."""
    given = uci.UciSettings(arguments.uci, arguments.sets, splits=arguments.splits, epochs=arguments.epochs)
    jobs = [
        Job(
            partial(named, partial(uci.uci_problem, arguments.uci, name, split, arguments.epochs), family),
            Settings(depth=pair_of(family, "leadline"), epochs=arguments.epochs, own_length=True, seed=1 + split),
            f"uci-{family}",
            (name, split),
        )
        for name in given.names
        for split in given.splits_of(name)
        for family in arguments.families
    ]
    key = lambda row: (row["name"], int(row["split"]))  # noqa: E731
    return Sweep(jobs, UCI_COLUMNS, key, lambda job: job.key[0], _check_length(arguments), compiled_apart=True)


def _check_length(arguments: argparse.Namespace) -> Callable[[Path, Row], None]:
    """Runs of another length are not mixed in."""

    def check(path: Path, row: Row) -> None:
        if "max_epochs" in row:
            was, now = row["max_epochs"], "" if arguments.epochs is None else str(arguments.epochs)
        else:
            was, now = row["epochs"], str(arguments.epochs or get_recipe(row["recipe"]).epochs)
        if was != now:
            raise SystemExit(f"{path} has runs of {was or 'their own'} epochs, not {now}: choose another --out.")

    return check


def train(sweep: Sweep, out: Path) -> None:
    start, n_left = time.perf_counter(), sum(map(len, sweep.missing(out)))
    out.mkdir(parents=True, exist_ok=True)
    with GridLine() as line:
        if not sweep.run(out, line):
            raise SystemExit("interrupted; the same command goes on from there.")
    print(f"{n_left} runs, {time.perf_counter() - start:.0f} s, evaluation included", flush=True)


# What the tables say


def numbers_of(row: Row) -> dict[str, float]:
    """What is compared: also the dispersion of q(L), and what the recipe minimises: the weight KL times its temperature
    and the rest."""
    numbers = {}
    for name, text in row.items():
        try:
            numbers[name] = float(text)
        except ValueError:
            continue
    numbers["dispersion"] = numbers["depth_std"] ** 2 / max(numbers["depth_mean"], 1e-9)
    temperature = numbers["temperature"]
    numbers["objective"] = numbers["expected_nll"] + numbers["depth_kl"] + temperature * numbers["weight_kl"]
    return numbers


Means = dict[tuple[Any, str], dict[str, float]]
"""By the place (omega, or the name of a set) and the family."""


def means_of(out: Path, prefix: str, families: list[str], places: list[Any], runs: list[int]) -> Means:
    """Over the runs of a place that all families with any run there have: alike for all."""
    place, run = ("name", "split") if prefix == "uci" else ("omega", "seed")
    kind = str if prefix == "uci" else float
    some = {family: read_rows(out / f"{prefix}-{family}.csv") for family in families}
    found = {f: {(kind(row[place]), int(row[run])): numbers_of(row) for row in rows} for f, rows in some.items()}
    means: Means = {}
    for at in places:
        here = {f: {key for key in rows if key[0] == kind(at) and key[1] in runs} for f, rows in found.items()}
        shared = set.intersection(*(keys for keys in here.values() if keys)) if any(here.values()) else set()
        for family in families:
            if here[family] and shared:
                rows = [found[family][key] for key in sorted(shared)]
                names = set.intersection(*map(set, rows))
                means[at, family] = {name: float(np.mean([row[name] for row in rows])) for name in names}
                means[at, family]["n"] = len(rows)
                if here.get("normal"):
                    beside = [found["normal"][key] for key in sorted(shared)]
                    means[at, family] |= _above(rows, beside)
    return means


def _above(rows: list[dict[str, float]], beside: list[dict[str, float]]) -> dict[str, float]:
    """What the recipe minimises, above the normal's of the same data: mean, and its standard error (of one: NaN)."""
    more = [row["objective"] - other["objective"] for row, other in zip(rows, beside, strict=True)]
    error = np.std(more, ddof=1) / np.sqrt(len(more)) if len(more) > 1 else np.nan
    return {"above": float(np.mean(more)), "above_error": float(error)}


SPIRAL_CELLS = {"accuracy": "{accuracy:.2f}", "NLL": "{nll:.3f}"}
UCI_CELLS = {"RMSE": "{rmse:.3f}", "log-likelihood": "{ll_mixture:.3f}"}
CELLS = {"E[L] ± sd": "{depth_mean:.2f} ± {depth_std:.2f}", "Var/E": "{dispersion:.2f}", "seconds": "{seconds:.0f}"}


def markdown(means: Means, places: list[Any], families: list[str], title: str) -> str:
    """A row per place and family, the lowest free energy of a place in bold."""
    cells = (UCI_CELLS if title == "set" else SPIRAL_CELLS) | CELLS
    head = [title, "family", "runs", "free energy", "minimised", "above the normal's", *cells]
    lines = [f"| {' | '.join(head)} |", "|---" * len(head) + "|"]
    for at in places:
        here = [(family, means[at, family]) for family in families if (at, family) in means]
        lowest = {name: min((one[name] for _, one in here), default=0.0) for name in ("free_energy", "objective")}
        for family, one in here:
            energies = [f"**{one[name]:.1f}**" if one[name] == lowest[name] else f"{one[name]:.1f}" for name in lowest]
            error = "" if np.isnan(one.get("above_error", np.nan)) else f" ± {one['above_error']:.1f}"
            above = f"{one['above']:+.1f}{error}" if "above" in one and family != "normal" else ""
            row = [str(at), family, f"{one['n']:.0f}", *energies, above]
            row += [text.format(**one) for text in cells.values()]
            lines.append(f"| {' | '.join(row)} |")
    return "\n".join(lines)


def draw(out: Path, arguments: argparse.Namespace, path: Path) -> None:
    """For every recipe: how far above the best family each is, what it is learned to be, and how dispersed."""
    from matplotlib.figure import Figure

    omegas, families = arguments.omegas, arguments.families
    of_recipes = {recipe: means_of(out, recipe, families, omegas, arguments.seeds) for recipe in arguments.recipes}
    of_recipes = {recipe: means for recipe, means in of_recipes.items() if means}
    figure = Figure(figsize=(17, 4.6 * len(of_recipes)), layout="constrained")
    axes = figure.subplots(len(of_recipes), 4, squeeze=False)
    for (recipe, means), row in zip(of_recipes.items(), axes, strict=True):
        _draw_recipe(row, recipe, means, omegas, families)
    handles, labels = axes[0][0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=len(families), frameon=False)
    figure.savefig(path, dpi=110)


MARKERS = "osD^vP*X"


def _draw_recipe(row: Any, recipe: str, means: Means, omegas: list[float], families: list[str]) -> None:
    energy, objective, depth, dispersion = row
    places = [at for at in omegas if any((at, family) in means for family in families)]
    step = min(*np.diff(places), 5, 5) * 0.8 / len(families)
    lowest = {
        name: {at: min(means[at, f][name] for f in families if (at, f) in means) for at in places}
        for name in ("free_energy", "objective")
    }
    for i, family in enumerate(families):
        here = [at for at in places if (at, family) in means]
        x = np.array(here) + step * (i - (len(families) - 1) / 2)
        of = lambda name: np.array([means[at, family][name] for at in here])  # noqa: B023, E731
        kind = FAMILIES[family]
        style = {"color": kind.colour, "marker": MARKERS[i], "ms": 6, "lw": 1, "label": kind.label or family}
        for ax, name in ((energy, "free_energy"), (objective, "objective")):
            above = of(name) - np.array([lowest[name][at] for at in here])
            ax.plot(x, above, **style)
        depth.errorbar(x, of("depth_mean"), yerr=of("depth_std"), capsize=2, **(style | {"lw": 0, "elinewidth": 1.2}))
        dispersion.plot(x, np.maximum(of("dispersion"), 1e-3), **style)
    for ax in (energy, objective):
        ax.set_yscale("symlog", linthresh=1.0)
        ax.set_ylim(-0.3, None)
    energy.set(title=f"{recipe}: free energy above the best family", ylabel="nats, all training rows")
    objective.set(title="what the recipe minimises, above the best", ylabel="nats, all training rows")
    depth.set(title="depth: mean of q(L) ± its standard deviation", ylabel="hidden layers", ylim=(0, None))
    dispersion.set(
        title="dispersion of the learned q(L)", ylabel="variance / mean, 0.001 at least", yscale="log", ylim=(None, 3)
    )
    dispersion.axhline(1, color="#717581", lw=1, ls=":")
    dispersion.text(0.98, 1.1, "Poisson", transform=dispersion.get_yaxis_transform(), ha="right", color="#717581")
    for ax in row:
        ax.set(xlabel="rotation speed ω", xticks=places, xlim=(min(places) - 3, max(places) + 3))
        ax.grid(alpha=0.2)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=Path("results/families"))
    parser.add_argument("--omegas", type=_numbers, default="5,10,15,20,25,30")
    parser.add_argument("--seeds", type=_numbers, default="1,2,3,4,5")
    parser.add_argument("--recipes", nargs="+", default=["published", "leadline"])
    parser.add_argument("--families", nargs="+", default=list(FAMILIES), choices=FAMILIES)
    parser.add_argument("--epochs", type=int, help="of every network; the recipe's unless given")
    parser.add_argument("--uci", type=Path, metavar="PATH", help="the UCI sets in this directory instead of spirals")
    parser.add_argument("--sets", type=_words, default=",".join(uci.NAMES), help="of them")
    parser.add_argument("--splits", type=_numbers, help="of a set; all unless given")
    parser.add_argument("--plot", type=Path, metavar="FILE", help="train nothing: draw, and print the tables")
    arguments = parser.parse_args()
    out, families = arguments.out, arguments.families
    if arguments.plot is None:
        train(uci_sets(arguments) if arguments.uci else spirals(arguments), out)
    elif not arguments.uci:
        draw(out, arguments, arguments.plot)
    if arguments.uci:
        splits = list(arguments.splits or range(100))
        print(markdown(means_of(out, "uci", families, list(arguments.sets), splits), arguments.sets, families, "set"))
        return
    for recipe in arguments.recipes:
        means = means_of(out, recipe, families, arguments.omegas, arguments.seeds)
        if means:
            print(f"\nRecipe `{recipe}`\n\n{markdown(means, arguments.omegas, families, 'omega')}")


def _numbers(text: str) -> tuple[int, ...]:
    return tuple(int(number) for number in text.split(","))


def _words(text: str) -> tuple[str, ...]:
    return tuple(text.split(","))


if __name__ == "__main__":
    main()
