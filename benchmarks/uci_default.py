"""The default regressor on the UCI sets, beside the recipe that the tables in docs/uci.md were made with.

    python benchmarks/uci_default.py --data PATH [--splits N] [--large-splits N] [--cores N] [--each N] [--names A,B]
    python benchmarks/uci_default.py --compare [--out results/uci]

`DepthRegressor()`, nothing said, on the standard splits, `--each` cores a fit; a row per set and split goes to
`results/uci/default.csv` (`--out`) as it ends, and rows that are there are not computed again. `--compare` prints, for
every set, the differences from `normal.csv` on the same splits. Sets with more than 5,000 rows take minutes a split: of
these, `--large-splits`.
"""

import argparse
import csv
import multiprocessing
import os
import time
import warnings
from pathlib import Path
from typing import Any

import pandas as pd

from leadline import DepthRegressor, _version, metrics
from leadline.datasets import load_uci, uci_splits
from leadline.studies.uci import NAMES

LARGE = ("protein-tertiary-structure", "naval-propulsion-plant", "power-plant", "kin8nm")
"""The slowest first: they are begun first."""

COMPARED = ("ll_mixture", "ll_gaussian", "rmse")


def row(data: Path, name: str, split: int) -> dict[str, Any]:
    parts = load_uci(data, name, split)
    start = time.perf_counter()
    with warnings.catch_warnings(action="ignore"):
        model = DepthRegressor(random_state=split).fit(*parts["train"])
        seconds = time.perf_counter() - start
        found = metrics.measured(model.said_of(*parts["test"]))
    learned = {"depth_mean": model.depth_mean_, "depth_mode": model.depth_mode_, "spread": float(model.spread_[0])}
    return {"name": name, "split": split, **found, **learned, "seconds": seconds, "version": _version.__version__}


def begin(cores: Any) -> None:
    """A process has some cores to itself."""
    os.sched_setaffinity(0, cores.get())


def train(args: argparse.Namespace) -> None:
    path = args.out / "default.csv"
    path.parent.mkdir(parents=True, exist_ok=True)
    done = set(pd.read_csv(path)[["name", "split"]].itertuples(index=False, name=None)) if path.exists() else set()
    most = {
        name: min(uci_splits(args.data, name), args.large_splits if name in LARGE else args.splits) for name in NAMES
    }
    chosen = [name for name in (*LARGE, *NAMES) if not args.names or name in args.names.split(",")]
    ordered = list(dict.fromkeys(chosen))
    jobs = [(name, i) for name in ordered for i in range(most[name]) if (name, i) not in done]
    cores: Any = multiprocessing.get_context("spawn").Queue()
    some = sorted(os.sched_getaffinity(0))[-args.cores :]
    parts = [set(some[i : i + args.each]) for i in range(0, len(some) - args.each + 1, args.each)]
    for part in parts:
        cores.put(part)
    with multiprocessing.get_context("spawn").Pool(len(parts), begin, [cores]) as pool:
        waiting = [pool.apply_async(row, (args.data, *job)) for job in jobs]
        while waiting:
            for one in [one for one in waiting if one.ready()]:
                waiting.remove(one)
                write(path, one.get())
            time.sleep(0.2)


def write(path: Path, found: dict[str, Any]) -> None:
    new = not path.exists()
    with path.open("a", newline="") as file:
        table = csv.DictWriter(file, found)
        if new:
            table.writeheader()
        table.writerow(found)
    print(found["name"], found["split"], f"ll {found['ll_mixture']:.3f}, {found['seconds']:.0f} s", flush=True)


def compare(out: Path) -> None:
    """Ours now less ours then; a set is worse where that is below zero by more than two standard errors."""
    tables = [pd.read_csv(out / f"{name}.csv").set_index(["name", "split"]) for name in ("default", "normal")]
    now, then = (table.loc[tables[0].index.intersection(tables[1].index)] for table in tables)
    print(
        "|  | splits | " + " | ".join(f"{what}, then | default | difference" for what in COMPARED) + " | 90 % | E[L] |"
    )
    print("| --- " * (4 + 3 * len(COMPARED)) + "|")
    for name in (name for name in NAMES if name in now.index.get_level_values("name")):
        a, b = now.loc[name], then.loc[name]
        cells = [name, str(len(a))]
        for what in COMPARED:
            difference = a[what] - b[what]
            cells += [
                f"{b[what].mean():.4g}",
                f"{a[what].mean():.4g}",
                f"{difference.mean():+.3g} ± {difference.sem():.2g}",
            ]
        cells += [f"{100 * a.coverage_90.mean():.1f}", f"{a.depth_mean.mean():.2f}"]
        print("| " + " | ".join(cells) + " |")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path)
    parser.add_argument("--splits", type=int, default=20)
    parser.add_argument("--large-splits", type=int, default=5)
    parser.add_argument("--cores", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--each", type=int, default=1, help="cores of a fit; its seconds are those of so many")
    parser.add_argument("--names", default="", help="of these sets alone")
    parser.add_argument("--out", type=Path, default=Path("results/uci"))
    parser.add_argument("--compare", action="store_true")
    given = parser.parse_args()
    if given.compare:
        compare(given.out)
    else:
        train(given)
