"""The tables of `leadline benchmark images` beside each other and the published ones."""

import csv
from collections.abc import Callable
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np

from leadline.depth import FAMILIES
from leadline.files.directories import write_whole
from leadline.files.ours import is_ours
from leadline.files.records import read_rows
from leadline.report.words import markdown_table
from leadline.studies.images import OTHERS, SETS

Row = dict[str, Any]
"""Of a table: text."""

METHODS = ["DUN", "SGD", "Dropout", "Dropout 0.3", "Ensemble"]
"""Published beside each other; DUN is the depth-uncertainty network."""

PAIR = "cifar10-automobile-deer", "cifar10-cat-dog"
"""Easy, and hard."""

EXPLANATION = (
    "Means over the seeds ± their standard deviation. Error and ece in percent, NLL in nats per image. A fixed depth "
    "is the one that the rows held out prefer, seed by seed. AUROC: how well the entropy of the prediction tells the "
    "test part from other images (0.5: not at all). Depth: its share of the uncertainty, in percent. The published "
    "numbers are of other, larger networks, with all rows."
)


def read_methods(out: Path) -> dict[str, list[Row]]:
    """The rows of all tables that are ours, by method; of a grid those of the depth that the rows held out prefer."""
    methods = {family: _rows(out / f"{family}.csv") for family in FAMILIES}
    methods["best fixed depth"] = best_of(_grid(out, ""))
    methods["deterministic, best fixed depth"] = best_of(_grid(out, "deterministic-"))
    methods["ensemble of these"] = _rows(out / "ensemble.csv")
    return {method: rows for method, rows in methods.items() if rows}


def best_of(rows: list[Row]) -> list[Row]:
    """Of every set and seed the row of the highest likelihood of the rows held out."""
    best: dict[tuple[str, str], Row] = {}
    for row in rows:
        place = row["name"], row["seed"]
        if place not in best or float(row["validation_ll"]) > float(best[place]["validation_ll"]):
            best[place] = row
    return list(best.values())


def _rows(path: Path) -> list[Row]:
    return read_rows(path) if is_ours(path) else []


def _grid(out: Path, prefix: str) -> list[Row]:
    """Of all fixed depths that are there."""
    names = (path.stem.removeprefix(prefix) for path in sorted(out.glob(f"{prefix}*.csv")))
    return [row for depth in names if depth.isdigit() for row in _rows(out / f"{prefix}{depth}.csv")]


@cache
def published() -> dict[tuple[str, str, str], str]:
    """By set, measure and method, with its spread."""
    with (files("leadline") / "published" / "images.csv").open() as file:
        rows = list(csv.DictReader(file))
    return {(row["name"], row["measure"], row["method"]): f"{row['value']} ± {row['spread']}" for row in rows}


def write_comparison(out: Path) -> Path | None:
    """Write comparison.md, if there is something to compare."""
    methods = read_methods(out)
    if not methods:
        return None
    there = {row["name"] for rows in methods.values() for row in rows}
    lines = ["# Images: ours beside the published", "", EXPLANATION, ""]
    for name in SETS:
        if name in there:
            lines += [f"## {name}", "", *_table(name, methods), ""]
    if (grid := _grid(out, "")) and (learned := methods.get("normal")):
        lines += ["## Learned depth against the grid", "", *_against_grid(learned, grid), ""]
    if (learned := methods.get("normal")) and there.issuperset(PAIR):
        lines += ["## An easy pair of classes and a hard one", "", *_pair(learned), ""]
    return write_whole(out / "comparison.md", "\n".join(lines))


Of = Callable[[Row], float]

_MEASURES: dict[str, tuple[Of, int]] = {
    "error": (lambda row: 100 - float(row["accuracy"]), 2),
    "NLL": (lambda row: float(row["nll"]), 3),
    "Brier": (lambda row: float(row["brier"]), 3),
    "ece": (lambda row: 100 * float(row["ece"]), 2),
    "E[L]": (lambda row: float(row["depth_mean"]), 2),
    "sd of q(L)": (lambda row: float(row["depth_std"]), 2),
    "depth": (lambda row: 100 * float(row["depth_share"]), 1),
    "seconds": (lambda row: float(row["seconds"]), 0),
}


_PUBLISHED = {"error": 100, "ll": -1, "brier": 1}
"""What is known of others, and by how much it is to be multiplied."""


def _table(name: str, methods: dict[str, list[Row]]) -> list[str]:
    """Of a set: ours, then the published."""
    told = [other for other in OTHERS if other in SETS[name].others]
    columns = _MEASURES | {f"AUROC, {one}": ((lambda row, one=one: float(row[f"auroc_{one}"])), 3) for one in told}
    rows = []
    for method, all_rows in methods.items():
        own = [row for row in all_rows if row["name"] == name]
        if own:
            rows.append([method, *(spread([of(row) for row in own], digits) for of, digits in columns.values())])
    for method in METHODS:
        known = [published().get((name, measure, method), "") for measure in _PUBLISHED]
        if all(known):
            cells = map(_scaled, known, _PUBLISHED.values())
            rows.append([f"{method}, published", *cells, *[""] * (len(columns) - len(known))])
    return markdown_table(["", *columns], rows)


def spread(values: list[float], digits: int) -> str:
    """Their mean, and their deviation where there are several."""
    mean = f"{np.mean(values):.{digits}f}"
    return mean if len(values) == 1 else f"{mean} ± {np.std(values, ddof=1):.{digits}f}"


def _scaled(text: str, by: int) -> str:
    value, _, error = text.partition(" ± ")
    digits = 1 if by == 100 else 3
    return f"{float(value) * by:.{digits}f} ± {float(error) * abs(by):.{digits}f}"


def _against_grid(learned: list[Row], grid: list[Row]) -> list[str]:
    """E[L] beside the best of the fixed depths, and the time of one training beside that of all."""
    rows = []
    for name in dict.fromkeys(row["name"] for row in learned):
        own = {row["seed"]: row for row in learned if row["name"] == name}
        fixed = [row for row in grid if row["name"] == name and row["seed"] in own]
        best = {row["seed"]: row for row in best_of(fixed)}
        if not best:
            continue
        depths = sorted({int(row["depth"]) for row in fixed})
        took = [sum(float(row["seconds"]) for row in some) for some in ([own[seed] for seed in best], fixed)]
        gain = [float(own[seed]["validation_ll"]) - float(row["validation_ll"]) for seed, row in best.items()]
        means = spread([float(own[seed]["depth_mean"]) for seed in best], 2)
        chosen = ", ".join(row["depth"] for row in best.values())
        rows.append([name, ", ".join(map(str, depths)), chosen, means, spread(gain, 4), f"{took[0] / took[1]:.2f}"])
    return markdown_table(
        ["", "grid", "chosen, by seed", "E[L] learned", "learned less chosen, nats held out", "seconds / grid's"], rows
    )


def _pair(learned: list[Row]) -> list[str]:
    rows = [[name, spread([float(row["depth_mean"]) for row in learned if row["name"] == name], 2)] for name in PAIR]
    return markdown_table(["", "E[L]"], rows)
