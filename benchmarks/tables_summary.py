"""The tables and the picture of docs/tables.md, from what `benchmarks/tables.py` wrote.

python benchmarks/tables_summary.py [--out results/tables] [--picture docs/tables.png]
"""

import argparse
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

KINDS = ("classes", "numbers")
MARKERS = {
    "bde": "s",
    "before": "D",
    "mlp": "^",
    "logistic": "v",
    "ridge": "v",
    "boosting": "P",
    "forest": "X",
    "gp": "*",
}


def table_of(out: Path, kind: str) -> Any:
    """All rows of a kind, with their method."""
    parts = [pd.read_csv(path).assign(method=path.stem) for path in sorted((out / kind).glob("*.csv"))]
    return pd.concat(parts, ignore_index=True)


def by_table(rows: Any, column: str) -> Any:
    """The mean over the splits: tables by methods."""
    return rows.pivot_table(index="table", columns="method", values=column)


def near_the_best(rows: Any) -> Any:
    """Whether a method's NLL is the lowest on a table, or within one standard error (of the lowest's mean) of it."""
    nll = by_table(rows, "nll")
    squares = rows.assign(nll_error=rows.nll_error**2)
    n = rows.groupby(["table", "method"]).size().unstack()
    error = np.sqrt(squares.groupby(["table", "method"]).nll_error.sum().unstack()) / n
    best = nll.idxmin(axis=1)
    limit = pd.Series({name: nll.loc[name, best[name]] + error.loc[name, best[name]] for name in nll.index})
    return nll.le(limit, axis=0).where(nll.notna())


def summary(args: argparse.Namespace) -> None:
    """Means over all tables, and over those that bde was tried on: of the methods that were tried on all of these."""
    for kind in args.kind:
        rows = table_of(args.out, kind)
        rows = rows[~rows.method.str.startswith("depth-")]
        nll, near = by_table(rows, "nll"), near_the_best(rows)
        print(f"\n{kind}\n\nLowest NLL of all, or within a standard error of it:")
        print(", ".join(f"{name} {int(near[name].sum())} of {near[name].count()}" for name in near))
        for tables, what in ((nll.index, "there are"), (nll.index[nll.bde.notna()], "bde was tried on")):
            some = rows[rows.table.isin(tables) & rows.method.isin(nll.columns[nll.loc[tables].notna().all()])]
            print(f"\n{kind}: the {len(tables)} tables that {what}; means over tables\n")
            print(_markdown(means_of(some, kind).sort_values("nll")))
        if kind == "numbers":
            ours = rows[rows.method == "leadline"]
            held = [f"{c} %: {np.average(ours[f'coverage_{c}'], weights=ours.n_rows):.4f}" for c in (50, 90, 95)]
            print(f"\nour intervals hold, over all rows: {', '.join(held)}")
        else:
            ece, seconds = (by_table(rows, column)[["leadline", "bde"]].dropna() for column in ("ece", "seconds"))
            ratio = (seconds.leadline / seconds.bde).median()
            print(f"\nece, ours and bde's: {ece.mean().round(4).to_dict()}; seconds, the median ratio: {ratio:.2f}")
        print("\nNLL by table\n")
        print(_markdown(nll))
    regret(args)
    if args.picture:
        draw(args)


def means_of(rows: Any, kind: str) -> Any:
    """Of every method; and by how much its NLL lies above ours, with the error over tables, and on how many."""
    shown = ["accuracy", "nll", "brier", "ece"] if kind == "classes" else ["rmse", "nll", "crps", "coverage_90"]
    means = pd.DataFrame({column: by_table(rows, column).mean() for column in (*shown, "seconds")})
    above = by_table(rows, "nll").pipe(lambda nll: nll.sub(nll.leadline, axis=0))
    means["above leadline"] = [f"{above[name].mean():+.3f} ± {above[name].sem():.3f}" for name in means.index]
    means["on"] = [f"{int((above[name] > 0).sum())} of {len(above)}" for name in means.index]
    return means


def regret(args: argparse.Namespace) -> None:
    """NLL of the learned depth less that of the fixed depth that rows held out choose, all else alike."""
    for kind in args.kind:
        rows = table_of(args.out, kind)
        grid = rows[rows.method.str.startswith("depth-")]
        if grid.empty:
            continue
        chosen = grid.loc[grid.groupby(["table", "split"]).held_out_nll.idxmin()].set_index(["table", "split"])
        ours = rows[rows.method == "leadline"].set_index(["table", "split"]).loc[chosen.index]
        difference = (ours.nll - chosen.nll).groupby("table")
        found = pd.DataFrame({"regret": difference.mean(), "error": difference.std() / np.sqrt(difference.size())})
        found["grid"] = chosen.method.str[6:].astype(int).groupby("table").median()
        found["learned, mode"] = ours.depth_mode.groupby("table").median()
        found["learned, mean"] = ours.depth_mean.groupby("table").mean()
        mean, error = found.regret.mean(), found.regret.std() / np.sqrt(len(found))
        time = ours.seconds.sum() / grid.seconds.sum()
        lost = int((found.regret > 2 * found.error).sum())
        said = f"lost by more than two errors: {lost}; {time:.2f} of the time"
        print(f"\n{kind}: depth regret {mean:+.4f} ± {error:.4f} nats; {said}\n")
        print(_markdown(found))


def _markdown(frame: Any) -> str:
    cells = frame.map(lambda value: f"{value:.3f}" if isinstance(value, float) else str(value))
    head = ["", *map(str, frame.columns)]
    lines = [[str(name), *row] for name, row in zip(frame.index, cells.to_numpy().tolist(), strict=True)]
    return "\n".join(f"| {' | '.join(line)} |" for line in (head, ["---"] * len(head), *lines))


def draw(args: argparse.Namespace) -> None:
    """Table by table, how much each method's NLL lies above the lowest."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(12, 7.5), layout="constrained")
    colours = {"leadline": "#c75100", "bde": "#2a5db0", "before": "#c9a227"}
    for ax, kind in zip(figure.subplots(1, 2), KINDS, strict=True):
        nll = by_table(table_of(args.out, kind), "nll")
        nll = nll[[name for name in nll.columns if not name.startswith("depth-")]]
        above = nll.sub(nll.min(axis=1), axis=0)
        above = above.loc[above.leadline.sort_values(ascending=False).index]
        for method in [name for name in above if name != "leadline"] + ["leadline"]:
            colour = colours.get(method, "#9aa0aa")
            style = {"s": 70, "zorder": 3} if method == "leadline" else {"s": 32, "marker": MARKERS.get(method, "o")}
            ax.scatter(above[method].clip(upper=1.0), range(len(above)), color=colour, label=method, **style)
        ax.set_yticks(range(len(above)), above.index, fontsize=8)
        ax.set_xscale("symlog", linthresh=0.02)
        ax.set_xticks([0, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0], ["best", ".01", ".02", ".05", ".1", ".2", ".5", "1 +"])
        ax.set_xlim(left=-0.002)
        ax.set_xlabel("NLL above the lowest, nats per row")
        ax.set_title(kind)
        ax.grid(axis="y", alpha=0.25)
        ax.spines[["top", "right"]].set_visible(False)
    handles, labels = figure.axes[0].get_legend_handles_labels()
    figure.legend(handles, labels, ncols=len(labels), fontsize=9, loc="outside lower center", frameon=False)
    figure.savefig(args.picture, dpi=110)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=Path("results/tables"))
    parser.add_argument("--kind", nargs="+", choices=KINDS, default=list(KINDS))
    parser.add_argument("--picture", type=Path)
    summary(parser.parse_args())
