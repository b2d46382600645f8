"""The `leadline` recipe on the spirals, and what each of its ingredients is worth.

    python benchmarks/recipes.py default temperature-1            # the two named configurations, five data sets each
    python benchmarks/recipes.py --ablation --seeds 1,2,3         # one ingredient changed at a time
    python benchmarks/recipes.py default --set temperature=0.3    # a try
    python benchmarks/recipes.py residual --one-by-one            # of residual blocks
    python benchmarks/recipes.py --markdown                       # trains nothing: the tables of docs/recipes.md

One CSV file per variant goes to the output directory, a row per data set (1024 training points, 100,000 test points),
and the means are printed; data sets that are in the file already are not trained again. All data sets of a variant
train side by side: minutes on a GPU, hours on a CPU.
"""

import argparse
import ast
import time
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from leadline import Settings
from leadline.files.records import read_rows
from leadline.inference.recipes import LEADLINE
from leadline.studies.reproduce import COLUMNS
from leadline.studies.runners import InTurn
from leadline.studies.spiral import spiral_problem
from leadline.studies.sweep import Job, Sweep
from leadline.training.progress import GridLine

# name of the variant: what it is, the fields of the recipe that it changes
AS_IT_WAS = {"soften": False}
"""What was measured before there was one spread, which moves the likelihood and the calibration, not the accuracy."""

CONFIGURATIONS: dict[str, tuple[str, dict[str, Any]]] = {
    "default": ("temperature 0.15, 4 x 5,000 epochs", {}),
    "no-spread": ("the same without one spread", AS_IT_WAS),
    "temperature-1": ("temperature 1, 4 x 20,000 epochs, likewise", {"temperature": 1.0, "epochs": 20_000} | AS_IT_WAS),
}

INGREDIENTS: dict[str, tuple[str, dict[str, Any]]] = {
    "initial-scale-1": ("initial scale 1 instead of 0.05", {"initial_scale": 1.0}),
    "no-warm-up": ("no warm-up", {"warm_up": 0.0}),
    "linear-warm-up": ("linear warm-up", {"warm_up_power": 1.0}),
    "weight-noise": ("one weight sample per batch", {"draw": "weights"}),
    "one-network": ("one network, 20,000 epochs", {"n_restarts": 1, "epochs": 20_000}),
    "glorot": ("means at sqrt(2 / (in + out))", {"initial_means": "glorot"}),
    "fixed-prior": ("prior N(0, 1)", {"prior": "fixed"}),
    "prior-per-weight": ("prior scale per weight", {"prior": "weight"}),
    "no-decay": ("no decay of the rate", {"decay_from": 1.0}),
    "frozen-depth": ("q(L) can freeze", {"unfreeze": False}),
    "slow-depth": ("depth rate 0.0005", {"depth_learning_rate": 0.0005}),
    "wide-start": ("q(L) starts at (0, 1.8)", {"initial_depth": (0.0, 1.8)}),
    "temperature-0.05": ("temperature 0.05", {"temperature": 0.05}),
    "temperature-0.4": ("temperature 0.4", {"temperature": 0.4}),
    "temperature-1-short": ("temperature 1, 4 x 5,000 epochs", {"temperature": 1.0}),
}

ABLATION = {name: (words, changes | AS_IT_WAS) for name, (words, changes) in INGREDIENTS.items()}

RESIDUAL: dict[str, tuple[str, dict[str, Any]]] = {
    "residual": ("residual blocks, initial scale 0.02", {"initial_scale": 0.02}),
    "residual-deep": ("residual blocks, q(L) starts at (12, 1)", {"initial_depth": (12.0, 1.0)}),
}

VARIANTS = CONFIGURATIONS | ABLATION | RESIDUAL


def run_variant(name: str, changes: dict[str, Any], arguments: argparse.Namespace) -> None:
    """Train and evaluate what is not in the variant's file yet, all data sets side by side or one by one."""
    recipe = replace(LEADLINE, name=name, **changes)
    jobs = [
        Job(
            partial(spiral_problem, omega, seed, arguments.n_test),
            Settings(recipe=recipe, seed=seed, block="residual" if name.partition("+")[0] in RESIDUAL else "dense"),
            name,
            (float(omega), seed),
        )
        for omega in arguments.omegas
        for seed in arguments.seeds
    ]
    one_by_one = arguments.one_by_one
    key = lambda row: (float(row["omega"]), int(row["seed"]))  # noqa: E731
    sweep = Sweep(jobs, COLUMNS, key, lambda job: job.key if one_by_one else "all", whole=True)
    start, n_left = time.perf_counter(), sum(map(len, sweep.missing(arguments.out)))
    arguments.out.mkdir(parents=True, exist_ok=True)
    with GridLine() as line:
        if not sweep.run(arguments.out, line, runner=InTurn()):
            raise SystemExit("interrupted; the same command goes on from there.")
    print(f"{name}: {n_left} data sets, {time.perf_counter() - start:.0f} s, evaluation included")
    print(table(read_rows(arguments.out / f"{name}.csv")), flush=True)


def table(rows: list[dict[str, Any]]) -> str:
    lines = ["  omega  accuracy       NLL   calibration error %   depth   free energy"]
    for omega in sorted({float(row["omega"]) for row in rows}):
        some = [row for row in rows if float(row["omega"]) == omega]
        mean = {
            k: np.mean([float(row[k]) for row in some]) for k in ("accuracy", "nll", "ece", "depth_mean", "free_energy")
        }
        lines.append(
            f"  {omega:5g}  {mean['accuracy']:8.2f}  {mean['nll']:8.4f}  {100 * mean['ece']:20.2f}  "
            f"{mean['depth_mean']:6.2f}  {mean['free_energy']:12.0f}"
        )
    return "\n".join(lines)


def markdown(directory: Path) -> str:
    """The configurations over all their data sets, the ablation over the data sets 1, 2, 3."""
    return "\n\n".join(
        [
            _markdown_table("configuration", CONFIGURATIONS, directory, [5, 10, 15, 20, 25, 30], range(1, 6)),
            _markdown_table(
                "what is changed",
                {"no-spread": ("nothing", {})} | ABLATION,
                directory,
                [10, 20, 25, 30],
                range(1, 4),
            ),
        ]
    )


def _markdown_table(
    title: str, variants: dict[str, tuple[str, dict[str, Any]]], directory: Path, omegas: list[int], seeds: range
) -> str:
    lines = [
        f"| {title} | " + " | ".join(f"omega {omega}" for omega in omegas) + " |",
        "|---" * (len(omegas) + 1) + "|",
    ]
    for name, (words, _) in variants.items():
        cells = [_cell(read_rows(directory / f"{name}.csv"), omega, seeds) for omega in omegas]
        lines.append(f"| {words} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def _cell(rows: list[dict[str, Any]], omega: int, seeds: range) -> str:
    some = [row for row in rows if float(row["omega"]) == omega and int(row["seed"]) in seeds]
    if len(some) != len(seeds):
        return "-"
    accuracy, nll, ece = (np.mean([float(row[name]) for row in some]) for name in ("accuracy", "nll", "ece"))
    return f"{accuracy:.2f} / {nll:.3f} / {100 * ece:.1f}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("variants", nargs="*", help=f"any of {', '.join(VARIANTS)}")
    parser.add_argument("--ablation", action="store_true", help="all of the ablation")
    parser.add_argument("--markdown", action="store_true", help="print the tables of the files in the output directory")
    parser.add_argument("--omegas", default="5,10,15,20,25,30", type=_numbers)
    parser.add_argument("--seeds", default="1,2,3,4,5", type=_numbers)
    parser.add_argument("--one-by-one", action="store_true", help="not side by side: best on a CPU")
    parser.add_argument("--n-test", default=100_000, type=int)
    parser.add_argument("--set", nargs="*", default=[], metavar="FIELD=VALUE", help="change fields of the recipe")
    parser.add_argument("--out", type=Path, default=Path("results/recipes"))
    arguments = parser.parse_args()
    if arguments.markdown:
        print(markdown(arguments.out))
        return
    names = arguments.variants + (list(ABLATION) if arguments.ablation else [])
    if not names or set(names) - set(VARIANTS):
        parser.error(f"choose from {', '.join(VARIANTS)}")
    more = {field: _value(text) for field, text in (item.split("=") for item in arguments.set)}
    for name in names:
        # A try has a name, and so a file, of its own.
        run_variant("+".join([name, *arguments.set]), VARIANTS[name][1] | more, arguments)


def _numbers(text: str) -> list[int]:
    return [int(number) for number in text.split(",")]


def _value(text: str) -> Any:
    try:
        return ast.literal_eval(text)
    except (ValueError, SyntaxError):
        return text


if __name__ == "__main__":
    main()
