"""The paper's figures from the tables of `leadline reproduce`, beside the published numbers."""

from functools import partial
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from leadline.depth import FAMILIES, DepthDistribution, NormalDepth, PoissonDepth
from leadline.files.directories import picture, write_whole
from leadline.files.records import read_rows
from leadline.inference.recipes import get_recipe
from leadline.report.words import markdown_table
from leadline.studies.reproduce import Grid, table_name
from leadline.studies.sweep import CHUNKS

DataFrame = Any
"""Of pandas."""

RECIPE_COLOURS = {"published": "#c75100", "written": "#717581", "leadline": "#117a5b"}
PAPER_COLOUR = "#9e9e9e"
PAPER_STYLES = {"normal": "-", "poisson": (0, (4, 2))}

PAPER_RUNS = 5
"""Behind every published mean."""

CLOSE = 2.3
"""Standard errors of a difference that chance explains, at thirty-one comparisons or so."""
POINTS = 0.3
"""Percentage points that never count as a difference: a test part has only 1024 rows."""


def figure_3() -> dict[str, dict[str, DepthDistribution]]:
    """The distributions of the paper's Figure 3, not cut at quantiles."""
    return {
        "prior_logpmf": {"normal": NormalDepth(0.0, 1.15), "poisson": PoissonDepth(0.5)},
        "initial_logpmf": {"normal": NormalDepth(0.0, 1.8), "poisson": PoissonDepth(1.0)},
    }


def published(name: str) -> DataFrame:
    """A file of the paper's own numbers."""
    with (files("leadline") / "published" / f"published_{name}.csv").open() as file:
        return pd.read_csv(file, dtype=str).astype(float)


def compare(grid: Grid, out: Path) -> DataFrame:
    """What the tables hold of the grid: a row for every recipe, family and speed, beside the paper's; NaN where it has
    nothing to say.

    Accuracies are in percent, `accuracy_std` over the runs; `difference` is ours less the published, `standard_errors`
    the same in standard errors of a difference of two means; `depth_mean`, `_min` and `_max` are of E[L] over the runs,
    and the published depth is that of the paper's first run.
    """
    tables = {family: read_rows(out / f"{table_name(*family)}.csv") for family in grid.families()}
    rows = [{**row, "recipe": recipe, "depth": depth} for (recipe, depth), some in tables.items() for row in some]
    measured = ["omega", "seed", "accuracy", "nll", "ece", "depth_mean", "depth_std"]
    runs: DataFrame = pd.DataFrame(rows, columns=["recipe", "depth", *measured])
    runs = runs.astype(dict.fromkeys(measured, float))
    runs = runs[runs["omega"].isin(grid.omegas) & (runs["seed"] <= grid.runs)]
    ours = runs.groupby(["recipe", "depth", "omega"], sort=False, as_index=False).agg(
        runs=("seed", "size"),
        accuracy_mean=("accuracy", "mean"),
        accuracy_std=("accuracy", "std"),
        nll_mean=("nll", "mean"),
        ece_mean=("ece", "mean"),
        depth_mean=("depth_mean", "mean"),
        depth_mean_min=("depth_mean", "min"),
        depth_mean_max=("depth_mean", "max"),
        depth_std_median=("depth_std", "median"),
    )
    for name, ends in (("accuracy", ""), ("depth_run1", "depth_")):
        paper, columns = published(name), ["omega", f"published_{ends}mean", f"published_{ends}std"]
        of_family = [paper[["omega", f"{depth}_mean", f"{depth}_std"]] for depth in PAPER_STYLES]
        known = [one.set_axis(columns, axis=1) for one in of_family]
        ours = ours.merge(pd.concat(known, keys=PAPER_STYLES, names=["depth"]), "left", ["depth", "omega"])
    ours["difference"] = ours["accuracy_mean"] - ours["published_mean"]
    own = ours["accuracy_std"].fillna(ours["published_std"])  # a single run has none: the paper's stands for it
    error = np.sqrt(own**2 / ours["runs"] + ours["published_std"] ** 2 / PAPER_RUNS)
    with np.errstate(divide="ignore", invalid="ignore"):
        ours["standard_errors"] = np.where(ours["difference"] == 0, 0.0, ours["difference"] / error)
    ours.loc[ours["difference"].isna(), "standard_errors"] = np.nan
    ours["close"] = (ours["standard_errors"].abs() <= CLOSE) | (ours["difference"].abs() <= POINTS)
    return ours


COLUMNS = [
    *("recipe", "depth", "omega", "runs", "accuracy_mean", "accuracy_std", "published_mean", "published_std"),
    *("difference", "standard_errors", "nll_mean", "ece_mean", "depth_mean", "depth_mean_min", "depth_mean_max"),
    *("depth_std_median", "published_depth_mean", "published_depth_std"),
]
"""Of comparison.csv."""


def names(grid: Grid) -> list[str]:
    """Of the files that `write_comparison` writes."""
    figures = [f"figure2-{recipe}.png" for recipe in grid.recipes]
    return ["comparison.csv", "comparison.md", *figures, "figure3.png", *["recipes.png"] * (len(grid.recipes) > 1)]


def write_comparison(grid: Grid, out: Path) -> list[Path]:
    """Tables and figures of what is there."""
    table, length = compare(grid, out), of_another_length(grid)
    written = [
        write_whole(out / "comparison.csv", table.to_csv(columns=COLUMNS, index=False, float_format="%.6g")),
        write_whole(out / "comparison.md", markdown(table, read_rows(out / CHUNKS), length)),
    ]

    def draw(name: str, title: str, panels: Any, size: tuple[float, float] = (11, 4.2)) -> None:
        figure = Figure(figsize=size, layout="constrained")
        panels(*figure.subplots(1, 2))
        figure.suptitle(title, fontsize=11)
        written.append(write_whole(out / name, picture(figure, dpi=130)))

    for recipe in grid.recipes:
        some = table[table["recipe"] == recipe]
        trained = f", {grid.epochs:,} epochs" if length else ""
        title = f"Figure 2 with the recipe `{recipe}`{trained}; the paper's own curves in grey"
        draw(f"figure2-{recipe}.png", title, partial(draw_figure_2, table=some))
    draw("figure3.png", "", draw_priors, (8, 3.6))
    if len(grid.recipes) > 1:
        some = table[table["depth"] == grid.depths[0]]
        title = f"the recipes side by side, depth {grid.depths[0]}"
        draw("recipes.png", title, partial(draw_recipes, table=some))
    return written


def of_another_length(grid: Grid) -> str:
    """What to say where networks are not trained for as long as their recipes say; else nothing."""
    usual = {recipe: get_recipe(recipe).epochs for recipe in grid.recipes}
    if grid.epochs is None or set(usual.values()) == {grid.epochs}:
        return ""
    instead = ", ".join(f"`{recipe}` {epochs:,}" for recipe, epochs in usual.items())
    trained = f"every network was trained for {grid.epochs:,} epochs (`--epochs`); the recipes take {instead}"
    return f"**Not the paper's length**: {trained}. The published numbers are those of 20,000 epochs."


EXPLANATION = (
    "Accuracy in percent, mean ± standard deviation over the runs; the published ones over five runs (Figure 2, left). "
    "The difference is ours less the published, in points and in standard errors of a difference of two means (for a "
    "single run with the published standard deviation). NLL in nats per test point. Depth: the mean and the range over "
    "the runs of E[L], and the median over the runs of the standard deviation of q(L); the published depth is that of "
    "the paper's first run (Figure 2, right)."
)


CELLS = {
    "omega": "{0.omega:g}",
    "accuracy": "{0.accuracy_mean:.2f} ± {0.accuracy_std:.2f}",
    "published": "{0.published_mean:.2f} ± {0.published_std:.2f}",
    "difference": "{0.difference:+.2f}",
    "in standard errors": "{0.standard_errors:+.1f}",
    "NLL": "{0.nll_mean:.3f}",
    "depth, mean [range]": "{0.depth_mean:.2f} [{0.depth_mean_min:.2f}, {0.depth_mean_max:.2f}]",
    "its sd": "{0.depth_std_median:.2f}",
    "published depth ± sd": "{0.published_depth_mean:.2f} ± {0.published_depth_std:.2f}",
}
"""Of comparison.md."""


def markdown(table: DataFrame, chunks: list[dict[str, Any]], length: str = "") -> str:
    """A summary, how long it took, and a table for every recipe and family; before them, if the `length` of the
    trainings is not the paper's, a word about that."""
    families = [(*names, some) for names, some in table.groupby(["recipe", "depth"], sort=False)]
    first = [length, ""] if length else []
    lines = ["# Ours and the published numbers", "", *first, *_summary(families), "", *_timing(chunks)]
    for recipe, depth, some in families:
        lines += ["", f"## Recipe `{recipe}`, depth {depth}", "", *_table(some, CELLS)]
    return "\n".join([*lines, "", EXPLANATION, ""])


def _table(table: DataFrame, columns: dict[str, str]) -> list[str]:
    """A column has a head and a format, a dash stands where there is no number."""
    rows = [[cell.format(one).removesuffix(" ± nan") for cell in columns.values()] for one in table.itertuples()]
    return markdown_table(list(columns), [["-" if cell in ("nan", "+nan") else cell for cell in row] for row in rows])


def _summary(families: list[tuple[str, str, DataFrame]]) -> list[str]:
    within = f"within {CLOSE:g} standard errors or {POINTS:g} points"
    rows = []
    for recipe, depth, some in families:
        difference, cells = some["difference"].dropna(), ["-"] * 3
        if len(difference):
            cells = [f"{some['close'].sum()} of {len(difference)}", f"{np.sqrt(np.mean(difference**2)):.2f}"]
            cells.append(f"{difference.mean():+.2f}")
        rows.append([recipe, depth, str(len(some)), *cells, f"{some['nll_mean'].mean():.3f}"])
    return markdown_table(["recipe", "depth", "speeds", within, "rms difference", "mean difference", "mean NLL"], rows)


def _timing(chunks: list[dict[str, Any]]) -> list[str]:
    """How long the training took, where, chunk after chunk."""
    numbers, names = ["runs", "training_seconds", "seconds"], ["recipe", "depth", "epochs", "device"]
    table: DataFrame = pd.DataFrame(chunks, columns=[*names, *numbers]).astype(dict.fromkeys(numbers, float))
    columns = {name: f"{{0.{name}}}" for name in names[:3]} | {"runs": "{0.runs:.0f}"}
    columns |= {"seconds of training, summed over chunks": "{0.training_seconds:.1f}"}
    columns |= {"with evaluation": "{0.seconds:.1f}", "on": "{0.device}"}
    return _table(table.groupby(names, sort=False, as_index=False).sum(), columns)


# Figures


def _draw(ax: Axes, x: Any, low: Any, middle: Any, high: Any, **style: Any) -> None:
    """A line in its band."""
    ax.plot(x, middle, **style)
    ax.fill_between(x, low, high, color=style["color"], alpha=0.18, linewidth=0)


def _name(depth: str) -> str:
    return FAMILIES[depth].label or depth


def _paper_curve(ax: Axes, name: str, depth: str, omegas: Any) -> None:
    paper = published(name)
    if f"{depth}_mean" not in paper:
        return
    paper = paper[paper["omega"].between(omegas.min(), omegas.max())]
    middle, deviation = paper[f"{depth}_mean"], paper[f"{depth}_std"]
    style = {"color": PAPER_COLOUR, "linestyle": PAPER_STYLES[depth], "linewidth": 2.2}
    style["label"] = f"paper, {_name(depth)}" + (": run 1, sd of q(L)" if name == "depth_run1" else "")
    _draw(ax, paper["omega"], middle - deviation, middle, middle + deviation, **style)


def draw_figure_2(left: Axes, right: Axes, table: DataFrame) -> None:
    """Accuracy against rotation speed, mean and standard deviation; and E[L], ours mean and range over the runs, the
    paper's first run with its sd."""
    for depth, some in table.groupby("depth", sort=False):
        omega, mean, deviation = some["omega"], some["accuracy_mean"], some["accuracy_std"].fillna(0.0)
        _paper_curve(left, "accuracy", str(depth), omega)
        _paper_curve(right, "depth_run1", str(depth), omega)
        style = {"color": FAMILIES[str(depth)].colour, "marker": ".", "linewidth": 1.2}
        style["label"] = f"ours, {_name(str(depth))}"
        _draw(left, omega, mean - deviation, mean, mean + deviation, **style)
        style["label"] += ": mean, range of runs"
        _draw(right, omega, some["depth_mean_min"], some["depth_mean"], some["depth_mean_max"], **style)
    left.set(xlabel="rotation speed ω", ylabel="test accuracy (%)", ylim=(None, 101))
    left.legend(frameon=False, loc="lower left")
    right.set(xlabel="rotation speed ω", ylabel="depth E[L]", ylim=(0, None))
    right.legend(frameon=False, loc="upper left", fontsize=8)


def draw_priors(left: Axes, right: Axes) -> None:
    """Figure 3: the log masses of the priors and of the initial posteriors, exact and as published."""
    for ax, title, name in ((left, "prior p(L)", "prior_logpmf"), (right, "initial q(L)", "initial_logpmf")):
        paper = published(name)
        for depth, marker in (("normal", "o"), ("poisson", "s")):
            style = {"ms": 8, "color": PAPER_COLOUR, "mfc": "none", "linestyle": "none"}
            ax.plot(paper["depth"], paper[depth], marker, **style, label=f"paper, {_name(depth)}")
            exact = np.asarray(figure_3()[name][depth].log_masses(len(paper)))
            style = {"color": FAMILIES[depth].colour, "linewidth": 1.2, "label": f"ours, {_name(depth)}"}
            ax.plot(paper["depth"], exact, ".-", **style)
        ax.set(xlabel="depth L", ylabel="log mass", title=title)
    left.legend(frameon=False, fontsize=9)


def draw_recipes(left: Axes, right: Axes, table: DataFrame) -> None:
    """Accuracy and NLL of every recipe."""
    _paper_curve(left, "accuracy", table["depth"].iloc[0], table["omega"])
    for recipe, some in table.groupby("recipe", sort=False):
        omega, mean, deviation = some["omega"], some["accuracy_mean"], some["accuracy_std"].fillna(0.0)
        style = {"color": RECIPE_COLOURS.get(str(recipe), "#717581"), "marker": ".", "linewidth": 1.2, "label": recipe}
        _draw(left, omega, mean - deviation, mean, mean + deviation, **style)
        right.plot(omega, some["nll_mean"], **style)
    right.axhline(np.log(2), color=PAPER_COLOUR, linewidth=1, linestyle=":")
    right.text(0.02, np.log(2), "guessing", transform=right.get_yaxis_transform(), va="bottom", color="#717581")
    left.set(xlabel="rotation speed ω", ylabel="test accuracy (%)", ylim=(None, 101))
    right.set(xlabel="rotation speed ω", ylabel="test NLL (nats per row)", yscale="log")
    right.legend(*left.get_legend_handles_labels(), frameon=False, loc="lower right")
