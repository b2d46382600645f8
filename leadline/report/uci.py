"""The tables of `leadline benchmark uci` beside the published ones."""

from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from leadline.depth import FAMILIES
from leadline.files.directories import write_whole
from leadline.files.ours import is_ours
from leadline.files.records import read_rows
from leadline.report.words import markdown_table

Table = Any
"""Of pandas."""

METHODS = ["VI", "PBP", "MCD16", "MCD18", "DE", "BBB", "DUN", "MFVI", "Ens5"]

BY_GAUSSIAN = ("DUN", "MFVI", "Ens5")
"""Their likelihood is that of one Gaussian with the moments of the prediction; the others' is the mixture's."""

GRID = [str(depth) for depth in range(6)]
"""Fixed depths, of which the validation likelihood chooses one."""


def read_tables(out: Path) -> Table:
    """The numbers of all tables that are ours, by depth, set and split."""
    tables = {depth: out / f"{depth}.csv" for depth in (*FAMILIES, *GRID)}
    rows = [{**row, "depth": depth} for depth, path in tables.items() if is_ours(path) for row in read_rows(path)]
    index, text = ["depth", "name", "split"], ["max_epochs", "device", "version"]
    table: Table = pd.DataFrame(rows, columns=None if rows else [*index, *text])
    return table.astype({"split": int}).set_index(index).drop(columns=text).astype(float)


@cache
def published(measure: str) -> Table:
    """Of a measure ("ll" or "rmse"), by set: `value` and `spread` (or NaN) of every method."""
    with (files("leadline") / "published" / "uci.csv").open() as file:
        table: Table = pd.read_csv(file, dtype=str).astype({"value": float, "spread": float})
    return table[table["measure"] == measure].pivot(index="name", columns="method", values=["value", "spread"])


def write_comparison(out: Path) -> Path | None:
    """Write comparison.md, if there is something to compare."""
    table = read_tables(out)
    families = [family for family in FAMILIES if family in table.index]
    if "normal" not in families:
        return None
    likelihoods = {"ll_mixture": ", mixture", "ll_gaussian": ", gaussian"}
    sections = {
        "Test log-likelihood (nats per row, higher is better)": _beside(table, families, "ll", likelihoods),
        "Test RMSE": _beside(table, families, "rmse", {"rmse": ""}),
        "How many sets": _counts(table, families),
        "Intervals, depth, length": _calibration(table, families),
        "Learned depth against a grid of fixed ones": _against_grid(table, families),
    }
    lines = ["# The UCI sets: ours beside the published", "", EXPLANATION, ""]
    for title, section in sections.items():
        lines += [f"## {title}", "", *section, ""]
    return write_whole(out / "comparison.md", "\n".join(lines))


EXPLANATION = (
    "Mean over the splits ± its standard error. `mixture` is the log density under the mixture over restarts, weights, "
    "depths and noise; `gaussian` that under one Gaussian with the mixture's mean and variance, as DUN, MFVI and Ens5 "
    "report it. The ± of the published columns are as published: standard errors, or standard deviations over "
    "the splits (DE, DUN, MFVI, Ens5)."
)


def means_and_errors(table: Table) -> tuple[Table, Table]:
    """Over the splits, by depth and set; the errors are the means' standard errors."""
    splits = table.groupby(level=["depth", "name"], sort=False)
    return splits.mean(), splits.sem()


def _beside(table: Table, families: list[str], measure: str, columns: dict[str, str]) -> list[str]:
    """Ours, so many columns of each family, and the published."""
    (means, errors), paper, rows = means_and_errors(table), published(measure), []
    for name, rmse in means.loc["normal", "rmse"].items():
        digits = max(2, 2 - int(np.floor(np.log10(rmse)))) if measure == "rmse" else 3
        ours = [(means[column].get((f, name)), errors[column].get((f, name))) for f in families for column in columns]
        row = [str(name), *("" if mean is None else f"{mean:.{digits}f} ± {error:.{digits}f}" for mean, error in ours)]
        known = [(paper["value", method].get(name), paper["spread", method].get(name)) for method in METHODS]
        row += ["" if value is None else f"{value:g} ± {spread:g}".removesuffix(" ± nan") for value, spread in known]
        rows.append(row)
    return markdown_table(["", *(f + words for f in families for words in columns.values()), *METHODS], rows)


def wins(table: Table, family: str) -> tuple[Table, Table, Table]:
    """By set and method, whether our mean beats the published likelihood (of the published kind) and RMSE; by set,
    whether our likelihood is at most a standard error below that of every method."""
    mean, error = (one.loc[family] for one in means_and_errors(table))
    ll, rmse = (published(measure)["value"][METHODS].reindex(mean.index).dropna() for measure in ("ll", "rmse"))
    kinds = ["ll_gaussian" if method in BY_GAUSSIAN else "ll_mixture" for method in METHODS]
    ours, margin = (one.loc[ll.index, kinds].set_axis(METHODS, axis=1) for one in (mean, error))
    return ours > ll, rmse.gt(mean.loc[ll.index, "rmse"], axis=0), (ours + margin >= ll).all(axis=1)


def _counts(table: Table, families: list[str]) -> list[str]:
    rows = []
    for family in families:
        likelihood, rmse, best = wins(table, family)
        rows.append([f"{family}: likelihood, of {len(best)}", *map(str, likelihood.sum()), str(best.sum())])
        rows.append([f"{family}: RMSE, of {len(best)}", *map(str, rmse.sum()), ""])
    return markdown_table(["better than", *METHODS, "best of all, within a standard error"], rows)


def _calibration(table: Table, families: list[str]) -> list[str]:
    """The coverage is that of the test rows of all splits."""
    head = ["", "q(L)", "50 %", "90 %", "95 %", "E[L]", "its sd over splits", "epochs", "splits"]
    splits, rows = dict(iter(table.groupby(level=["depth", "name"]))), []
    for family, name in ((f, name) for name in table.loc["normal"].index.unique("name") for f in families):
        if (some := splits.get((family, name))) is not None:
            inside = [np.average(some[f"coverage_{level}"], weights=some["n_test"]) for level in (50, 90, 95)]
            depth = [f"{some['depth_mean'].mean():.2f}", f"{some['depth_mean'].std():.2f}" if len(some) > 1 else ""]
            cells = [*(f"{100 * share:.1f}" for share in inside), *depth, f"{some['epochs'].mean():.0f}"]
            rows.append([name, family, *cells, str(len(some))])
    return markdown_table(head, rows)


def chosen_depths(some: Table) -> Table | None:
    """Of a set, the fixed depth that the validation likelihood of each split prefers; None unless every fixed depth was
    trained on the splits of the learned one."""
    if not all(_on_the_same_splits(some, depth) for depth in GRID):
        return None
    return some.loc[GRID, "validation_ll"].unstack("depth").idxmax(axis=1)


def _on_the_same_splits(some: Table, depth: str) -> bool:
    return depth in some.index and some.loc[depth].index.equals(some.loc["normal"].index)


def _against_grid(table: Table, families: list[str]) -> list[str]:
    """The paired difference of the mixture's likelihoods, and the time of one training against that of six."""
    rows, totals = [], {family: np.zeros((2, 2)) for family in families}
    for name in table.loc["normal"].index.unique("name"):
        some = table.xs(name, level="name")
        if (chosen := chosen_depths(some)) is None:
            continue
        grid = some.loc[list(zip(chosen, chosen.index, strict=True)), "ll_mixture"].droplevel("depth")
        row = [name, " ".join(str((chosen == depth).sum()) for depth in GRID), f"{grid.mean():.3f}"]
        for family in families:
            if not _on_the_same_splits(some, family):
                row += [""] * 4
                continue
            difference = some.loc[family, "ll_mixture"] - grid
            mean, error = difference.mean(), difference.sem()
            took = np.array([_seconds(some.loc[[family]]), _seconds(some.loc[GRID])])
            totals[family] += took
            ratios = [f"{ratio:.2f}" for ratio in took[0] / took[1]]
            row += [f"{mean:+.3f} ± {error:.3f}", f"{mean / error:+.1f}", *ratios]
        rows.append(row)
    if not rows:
        return ["The grid 0 .. 5 has not been trained."]
    head, last = ["", "chosen depths 0 .. 5", "their mixture"], ["all", "", ""]
    for family, took in totals.items():
        head += [f"{family}, difference", "in standard errors", f"{family}, seconds / grid's", "with compiling"]
        last += ["", "", *(f"{one / six:.2f}" if six else "" for one, six in took.T)]
    return markdown_table(head, [*rows, last])


def _seconds(some: Table) -> np.ndarray:
    """Of a training of each depth, without compiling, and with it."""
    return some.groupby(level="depth")[["seconds", "compile_seconds"]].mean().sum().cumsum().to_numpy()
