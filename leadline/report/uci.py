"""The tables of `leadline benchmark uci` beside the published ones."""

import csv
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from pathlib import Path

import numpy as np

from leadline.depth import FAMILIES
from leadline.files.directories import write_whole
from leadline.files.records import read_rows
from leadline.report.words import markdown_table
from leadline.studies.uci import NAMES

METHODS = ("VI", "PBP", "MCD16", "MCD18", "DE", "BBB", "DUN", "MFVI", "Ens5")

BY_GAUSSIAN = ("DUN", "MFVI", "Ens5")
"""Their likelihood is that of one Gaussian with the moments of the prediction; the others' is the mixture's."""

GRID = tuple(str(depth) for depth in range(6))
"""Fixed depths, of which the validation likelihood chooses one."""


@dataclass(frozen=True)
class Splits:
    """The rows of one set and one depth, by split."""

    columns: dict[str, np.ndarray]

    def __len__(self) -> int:
        return len(self.columns["split"])

    def mean(self, name: str) -> float:
        return float(self.columns[name].mean())

    def error(self, name: str) -> float:
        """The standard error of the mean over the splits."""
        return float(self.columns[name].std(ddof=1) / np.sqrt(len(self))) if len(self) > 1 else np.nan

    def pooled(self, name: str) -> float:
        """The mean over the test rows of all splits."""
        return float(np.average(self.columns[name], weights=self.columns["n_test"]))


Tables = dict[str, dict[str, Splits]]
"""For every depth, and every set that it has rows of."""


def read_tables(out: Path) -> Tables:
    tables: Tables = {}
    for depth in (*FAMILIES, *GRID):
        rows = read_rows(out / f"{depth}.csv")
        numbers = [name for name in (rows[0] if rows else {}) if name not in TEXT]
        names = sorted({row["name"] for row in rows}, key=lambda name: (name not in NAMES, name))
        tables[depth] = {
            name: Splits({key: np.array([float(row[key]) for row in rows if row["name"] == name]) for key in numbers})
            for name in names
        }
    return tables


TEXT = ("name", "depth", "max_epochs", "device", "version")


@cache
def published() -> dict[tuple[str, str, str], tuple[float, float]]:
    """Value and spread (or NaN) by set, measure ("ll" or "rmse") and method."""
    rows = csv.DictReader((files("leadline") / "published" / "uci.csv").read_text().splitlines())
    return {
        (row["name"], row["measure"], row["method"]): (float(row["value"]), float(row["spread"] or "nan"))
        for row in rows
    }


def has_grid(tables: Tables, name: str) -> bool:
    """Whether every fixed depth was trained on the splits of the learned one."""
    splits = tables["normal"][name].columns["split"]
    return all(name in tables[d] and np.array_equal(tables[d][name].columns["split"], splits) for d in GRID)


def chosen_depths(tables: Tables, name: str) -> np.ndarray:
    """The fixed depth that the validation likelihood of each split prefers."""
    return np.argmax([tables[depth][name].columns["validation_ll"] for depth in GRID], axis=0)


def of_chosen(tables: Tables, name: str, column: str) -> np.ndarray:
    """What the chosen depth gives, split by split."""
    chosen = chosen_depths(tables, name)
    return np.choose(chosen, [tables[depth][name].columns[column] for depth in GRID])


def write_comparison(out: Path) -> Path | None:
    """Write comparison.md, if there is something to compare."""
    tables = read_tables(out)
    if not tables["normal"]:
        return None
    families = [family for family in FAMILIES if tables[family]]
    lines = ["# The UCI sets: ours beside the published", "", *EXPLANATION, ""]
    lines += ["## Test log-likelihood (nats per row, higher is better)", "", *_likelihoods(tables, families), ""]
    lines += ["## Test RMSE", "", *_errors(tables, families), ""]
    lines += ["## How many sets", "", *_counts(tables, families), ""]
    lines += ["## Intervals, depth, length", "", *_calibration(tables, families), ""]
    lines += ["## Learned depth against a grid of fixed ones", "", *_against_grid(tables, families), ""]
    return write_whole(out / "comparison.md", "\n".join(lines))


EXPLANATION = [
    "Mean over the splits ± its standard error. `mixture` is the log density under the mixture over restarts, weights, "
    "depths and noise; `gaussian` that under one Gaussian with the mixture's mean and variance, as DUN, MFVI and Ens5 "
    "report it. The ± of the published columns are as published: standard errors, or standard deviations over "
    "the splits (DE, DUN, MFVI, Ens5)."
]


def _ours(splits: Splits | None, column: str, digits: int) -> str:
    return "" if splits is None else f"{splits.mean(column):.{digits}f} ± {splits.error(column):.{digits}f}"


def _published_cells(name: str, measure: str) -> list[str]:
    known = published()
    cells = []
    for method in METHODS:
        value, spread = known.get((name, measure, method), (np.nan, np.nan))
        cells.append("" if np.isnan(value) else f"{value:g}" + ("" if np.isnan(spread) else f" ± {spread:g}"))
    return cells


def _likelihoods(tables: Tables, families: list[str]) -> list[str]:
    head = ["", *(f"{family}, {kind}" for family in families for kind in ("mixture", "gaussian")), *METHODS]
    rows = [
        [
            name,
            *(_ours(tables[f].get(name), column, 3) for f in families for column in ("ll_mixture", "ll_gaussian")),
            *_published_cells(name, "ll"),
        ]
        for name in tables["normal"]
    ]
    return markdown_table(head, rows)


def _errors(tables: Tables, families: list[str]) -> list[str]:
    def digits(name: str) -> int:
        return max(2, 2 - int(np.floor(np.log10(tables["normal"][name].mean("rmse")))))

    rows = [
        [name, *(_ours(tables[f].get(name), "rmse", digits(name)) for f in families), *_published_cells(name, "rmse")]
        for name in tables["normal"]
    ]
    return markdown_table(["", *families, *METHODS], rows)


def better(splits: Splits, name: str, measure: str, method: str) -> bool:
    """Whether the mean is better than the published one, by the published kind of likelihood."""
    value, _ = published().get((name, measure, method), (np.nan, np.nan))
    if measure == "rmse":
        return splits.mean("rmse") < value
    return splits.mean(_kind(method)) > value


def _kind(method: str) -> str:
    return "ll_gaussian" if method in BY_GAUSSIAN else "ll_mixture"


def equals_best(splits: Splits, name: str) -> bool:
    """Whether the likelihood is at most a standard error below that of every published method."""
    known = published()
    return all(
        splits.mean(_kind(method)) + splits.error(_kind(method)) >= known[name, "ll", method][0]
        for method in METHODS
        if (name, "ll", method) in known
    )


def _counts(tables: Tables, families: list[str]) -> list[str]:
    rows = []
    for family in families:
        some = {name: splits for name, splits in tables[family].items() if (name, "ll", "DUN") in published()}
        count = lambda measure, method, some=some: sum(  # noqa: E731
            better(splits, name, measure, method) for name, splits in some.items()
        )
        cells = [str(count("ll", method)) for method in METHODS]
        best = str(sum(equals_best(splits, name) for name, splits in some.items()))
        rows.append([f"{family}: likelihood, of {len(some)}", *cells, best])
        rows.append([f"{family}: RMSE, of {len(some)}", *(str(count("rmse", method)) for method in METHODS), ""])
    return markdown_table(["better than", *METHODS, "best of all, within a standard error"], rows)


def _calibration(tables: Tables, families: list[str]) -> list[str]:
    head = ["", "q(L)", "50 %", "90 %", "95 %", "E[L]", "its sd over splits", "epochs", "splits"]
    rows = []
    for name in tables["normal"]:
        for family in families:
            if name not in tables[family]:
                continue
            splits = tables[family][name]
            inside = [f"{100 * splits.pooled(f'coverage_{level}'):.1f}" for level in (50, 90, 95)]
            varies = f"{splits.columns['depth_mean'].std(ddof=1):.2f}" if len(splits) > 1 else ""
            depth = [f"{splits.mean('depth_mean'):.2f}", varies]
            rows.append([name, family, *inside, *depth, f"{splits.mean('epochs'):.0f}", str(len(splits))])
    return markdown_table(head, rows)


def _against_grid(tables: Tables, families: list[str]) -> list[str]:
    """The paired difference of the mixture's likelihoods, and the time of one training against that of six."""
    names = [name for name in tables["normal"] if has_grid(tables, name)]
    if not names:
        return ["The grid 0 .. 5 has not been trained."]
    head = ["", "chosen depths 0 .. 5", "their mixture"]
    for family in families:
        head += [f"{family}, difference", "in standard errors", f"{family}, seconds / grid's", "with compiling"]
    rows, totals = [], {family: np.zeros((2, 2)) for family in families}
    for name in names:
        counts = np.bincount(chosen_depths(tables, name), minlength=len(GRID))
        grid = of_chosen(tables, name, "ll_mixture")
        row = [name, " ".join(map(str, counts)), f"{grid.mean():.3f}"]
        for family in families:
            splits = tables[family].get(name)
            if splits is None or not np.array_equal(splits.columns["split"], tables["0"][name].columns["split"]):
                row += [""] * 4
                continue
            difference = splits.columns["ll_mixture"] - grid
            error = difference.std(ddof=1) / np.sqrt(len(difference)) if len(difference) > 1 else np.nan
            took = np.array([_seconds([splits]), _seconds([tables[depth][name] for depth in GRID])])
            totals[family] += took
            ratios = [f"{ratio:.2f}" for ratio in took[0] / took[1]]
            row += [f"{difference.mean():+.3f} ± {error:.3f}", f"{difference.mean() / error:+.1f}", *ratios]
        rows.append(row)
    last = ["all", "", ""]
    for family in families:
        mine, all_depths = totals[family]
        last += ["", "", *(f"{one / six:.2f}" if six else "" for one, six in zip(mine, all_depths, strict=True))]
    return markdown_table(head, [*rows, last])


def _seconds(trainings: list[Splits]) -> np.ndarray:
    """Without compiling, and with it."""
    seconds = sum(one.mean("seconds") for one in trainings)
    return np.array([seconds, seconds + sum(one.mean("compile_seconds") for one in trainings)])
