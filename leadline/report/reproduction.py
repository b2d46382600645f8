"""The paper's figures from the tables of `leadline reproduce`, beside the published numbers."""

import csv
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from leadline.distributions import NormalDepth, PoissonDepth
from leadline.experiments.records import read_rows, write_picture, write_rows, write_whole
from leadline.experiments.reproduce import CHUNKS, Grid, table_path

if TYPE_CHECKING:
    from matplotlib.axes import Axes
else:
    Axes = Any

COLOURS = {"normal": "#c75100", "poisson": "#5e57a6", "categorical": "#117a5b"}
RECIPE_COLOURS = {"published": "#c75100", "written": "#717581", "leadline": "#117a5b"}
PAPER_COLOUR = "#9e9e9e"
PAPER_STYLES = {"normal": "-", "poisson": (0, (4, 2))}

PAPER_RUNS = 5
"""Behind every published mean."""

CLOSE = 2.3
"""Standard errors of a difference that chance explains, at thirty-one comparisons or so."""
POINTS = 0.3
"""Percentage points that never count as a difference: a test part has only 1024 rows."""


FIGURE_3 = {
    "prior_logpmf": {"normal": NormalDepth(0.0, 1.15), "poisson": PoissonDepth(0.5)},
    "initial_logpmf": {"normal": NormalDepth(0.0, 1.8), "poisson": PoissonDepth(1.0)},
}
"""Not cut at quantiles."""


def published(name: str) -> dict[str, np.ndarray]:
    """The columns of a file of the paper's own numbers."""
    text = (files("leadline") / "published" / f"published_{name}.csv").read_text()
    rows = list(csv.DictReader(text.splitlines()))
    return {column: np.array([float(row[column]) for row in rows]) for column in rows[0]}


@dataclass(frozen=True)
class Comparison:
    """One recipe and family at one rotation speed, ours beside the paper's; accuracies in percent."""

    recipe: str
    depth: str
    omega: float
    runs: int
    accuracy_mean: float
    accuracy_std: float | None
    """Over the runs; None for one run."""
    published_mean: float | None
    published_std: float | None
    difference: float | None
    """Ours less the published."""
    standard_errors: float | None
    """The same in standard errors of a difference of two means."""
    nll_mean: float
    ece_mean: float
    depth_mean: float
    """Mean, lowest and highest over the runs of E[L]."""
    depth_mean_min: float
    depth_mean_max: float
    depth_std_median: float
    published_depth_mean: float | None
    """Of the paper's first run."""
    published_depth_std: float | None

    @property
    def close(self) -> bool:
        """Whether chance explains the difference."""
        assert self.difference is not None
        assert self.standard_errors is not None
        return abs(self.standard_errors) <= CLOSE or abs(self.difference) <= POINTS


def compare(grid: Grid, out: Path) -> list[Comparison]:
    """What the tables hold of the grid."""
    return [
        _compare(recipe, depth, omega, rows)
        for recipe, depth in grid.families()
        for omega, rows in _by_omega(read_rows(table_path(out, recipe, depth)), grid)
    ]


def _by_omega(rows: list[dict[str, Any]], grid: Grid) -> Iterator[tuple[float, list[dict[str, Any]]]]:
    for omega in grid.omegas:
        some = [row for row in rows if float(row["omega"]) == omega and int(row["seed"]) <= grid.runs]
        if some:
            yield omega, some


def _compare(recipe: str, depth: str, omega: float, rows: list[dict[str, Any]]) -> Comparison:
    column = lambda name: np.array([float(row[name]) for row in rows])  # noqa: E731
    accuracy, depths = column("accuracy"), column("depth_mean")
    mean, spread = accuracy.mean(), float(accuracy.std(ddof=1)) if len(rows) > 1 else None
    paper_mean, paper_std, paper_depth, paper_depth_std = _paper(depth, omega)
    difference = errors = None
    if paper_mean is not None:
        difference = float(mean - paper_mean)
        errors = _standard_errors(difference, spread, len(rows), paper_std or 0.0)
    return Comparison(
        recipe=recipe,
        depth=depth,
        omega=omega,
        runs=len(rows),
        accuracy_mean=float(mean),
        accuracy_std=spread,
        published_mean=paper_mean,
        published_std=paper_std,
        difference=difference,
        standard_errors=errors,
        nll_mean=float(column("nll").mean()),
        ece_mean=float(column("ece").mean()),
        depth_mean=float(depths.mean()),
        depth_mean_min=float(depths.min()),
        depth_mean_max=float(depths.max()),
        depth_std_median=float(np.median(column("depth_std"))),
        published_depth_mean=paper_depth,
        published_depth_std=paper_depth_std,
    )


def _paper(depth: str, omega: float) -> tuple[float | None, ...]:
    """Accuracy and depth, each mean and deviation, where the paper has that omega and family."""
    numbers = []
    for name in ("accuracy", "depth_run1"):
        columns = published(name)
        at = np.flatnonzero(columns["omega"] == omega)
        found = len(at) == 1 and f"{depth}_mean" in columns
        numbers += [float(columns[f"{depth}_{part}"][at[0]]) if found else None for part in ("mean", "std")]
    return tuple(numbers)


def _standard_errors(difference: float, spread: float | None, runs: int, paper_spread: float) -> float:
    """A single run has no spread of its own: the paper's stands for it."""
    own = paper_spread if spread is None else spread
    error = float(np.sqrt(own**2 / runs + paper_spread**2 / PAPER_RUNS))
    return difference / error if error else 0.0 if difference == 0 else float(np.copysign(np.inf, difference))


def write_comparison(grid: Grid, out: Path) -> list[Path]:
    """Tables and figures of what is there."""
    from matplotlib.figure import Figure

    comparisons = compare(grid, out)
    written = [out / "comparison.csv", out / "comparison.md"]
    rows = [{name: _cell(value) for name, value in asdict(one).items()} for one in comparisons]
    write_rows(written[0], rows)
    write_whole(written[1], markdown(comparisons, read_rows(out / CHUNKS)))

    def save(figure: Figure, name: str) -> None:
        written.append(write_picture(out / name, figure, dpi=130))

    for recipe in grid.recipes:
        figure = Figure(figsize=(11, 4.2), layout="constrained")
        left, right = figure.subplots(1, 2)
        some = [one for one in comparisons if one.recipe == recipe]
        draw_accuracy(left, some)
        draw_depth(right, some)
        figure.suptitle(f"Figure 2 with the recipe `{recipe}`; the paper's own curves in grey", fontsize=11)
        save(figure, f"figure2-{recipe}.png")
    figure = Figure(figsize=(8, 3.6), layout="constrained")
    left, right = figure.subplots(1, 2)
    draw_priors(left, right)
    save(figure, "figure3.png")
    if len(grid.recipes) > 1:
        figure = Figure(figsize=(11, 4.2), layout="constrained")
        left, right = figure.subplots(1, 2)
        draw_recipes(left, right, [one for one in comparisons if one.depth == grid.depths[0]])
        figure.suptitle(f"the recipes side by side, depth {grid.depths[0]}", fontsize=11)
        save(figure, "recipes.png")
    return written


def _cell(value: Any) -> Any:
    return "" if value is None else f"{value:.6g}" if isinstance(value, float) else value


def markdown(comparisons: list[Comparison], chunks: list[dict[str, Any]]) -> str:
    """A summary, how long it took, and a table for every recipe and family."""
    families = list(dict.fromkeys((one.recipe, one.depth) for one in comparisons))
    lines = ["# Ours and the published numbers", "", *_summary(comparisons, families), ""]
    lines += _timing(chunks)
    for recipe, depth in families:
        lines += ["", f"## Recipe `{recipe}`, depth {depth}", "", *HEADER]
        lines += [_line(one) for one in comparisons if (one.recipe, one.depth) == (recipe, depth)]
    return "\n".join([*lines, "", *EXPLANATION, ""])


HEADER = [
    "| omega | accuracy | published | difference | in standard errors | NLL | depth, mean [range] | its sd | published "
    "depth ± sd |",
    "|---|---|---|---|---|---|---|---|---|",
]

EXPLANATION = [
    "Accuracy in percent, mean ± standard deviation over the runs; the published ones over five runs (Figure 2, left). "
    "The difference is ours less the published, in points and in standard errors of a difference of two means (for a "
    "single run with the published standard deviation). NLL in "
    "nats per test point. Depth: the mean and the range over the runs of E[L], and the median over the runs of the "
    "standard deviation of q(L); the published depth is that of the paper's first run (Figure 2, right).",
]


def _summary(comparisons: list[Comparison], families: list[tuple[str, str]]) -> list[str]:
    lines = [
        f"| recipe | depth | speeds | within {CLOSE:g} standard errors or {POINTS:g} points | rms difference | mean "
        "difference | mean NLL |",
        "|---|---|---|---|---|---|---|",
    ]
    for recipe, depth in families:
        some = [one for one in comparisons if (one.recipe, one.depth) == (recipe, depth)]
        known = [one for one in some if one.difference is not None]
        nll = f"{np.mean([one.nll_mean for one in some]):.3f}"
        if known:
            difference = np.array([one.difference for one in known])
            cells = [
                f"{sum(one.close for one in known)} of {len(known)}",
                f"{np.sqrt(np.mean(difference**2)):.2f}",
                f"{difference.mean():+.2f}",
            ]
        else:
            cells = ["-"] * 3
        lines.append(f"| {' | '.join([recipe, depth, str(len(some)), *cells, nll])} |")
    return lines


def _timing(chunks: list[dict[str, Any]]) -> list[str]:
    """How long the training took, where, chunk after chunk."""
    total: dict[tuple[str, ...], list[float]] = {}
    for chunk in chunks:
        key = (chunk["recipe"], chunk["depth"], chunk["epochs"], chunk["device"])
        total.setdefault(key, [0, 0.0, 0.0])
        for i, name in enumerate(("runs", "training_seconds", "seconds")):
            total[key][i] += float(chunk[name])
    lines = [
        "| recipe | depth | epochs | runs | seconds of training, summed over chunks | with evaluation | on |",
        "|---|---|---|---|---|---|---|",
    ]
    return lines + [
        f"| {recipe} | {depth} | {epochs} | {runs:.0f} | {training:.1f} | {seconds:.1f} | {device} |"
        for (recipe, depth, epochs, device), (runs, training, seconds) in total.items()
    ]


def _line(one: Comparison) -> str:
    paper = "-" if one.published_mean is None else f"{one.published_mean:.2f} ± {one.published_std:.2f}"
    difference = "-" if one.difference is None else f"{one.difference:+.2f}"
    errors = "-" if one.standard_errors is None else f"{one.standard_errors:+.1f}"
    spread = "" if one.accuracy_std is None else f" ± {one.accuracy_std:.2f}"
    depth = f"{one.depth_mean:.2f} [{one.depth_mean_min:.2f}, {one.depth_mean_max:.2f}]"
    paper_depth = (
        "-" if one.published_depth_mean is None else f"{one.published_depth_mean:.2f} ± {one.published_depth_std:.2f}"
    )
    return (
        f"| {one.omega:g} | {one.accuracy_mean:.2f}{spread} | {paper} | {difference} | {errors} | "
        f"{one.nll_mean:.3f} | {depth} | {one.depth_std_median:.2f} | {paper_depth} |"
    )


def _draw(ax: Axes, x: np.ndarray, low: np.ndarray, middle: np.ndarray, high: np.ndarray, **style: Any) -> None:
    """A line in its band."""
    ax.plot(x, middle, **style)
    ax.fill_between(x, low, high, color=style["color"], alpha=0.18, linewidth=0)


def _series(comparisons: list[Comparison], *names: str) -> tuple[np.ndarray, ...]:
    return tuple(np.array([getattr(one, name) or 0.0 for one in comparisons], float) for name in names)


def _name(depth: str) -> str:
    return "Poisson" if depth == "poisson" else depth


def _paper_curve(ax: Axes, name: str, depth: str, omegas: np.ndarray) -> None:
    columns = published(name)
    if f"{depth}_mean" not in columns:
        return
    inside = (columns["omega"] >= omegas.min()) & (columns["omega"] <= omegas.max())
    x, middle, spread = (columns[key][inside] for key in ("omega", f"{depth}_mean", f"{depth}_std"))
    style = {"color": PAPER_COLOUR, "linestyle": PAPER_STYLES[depth], "linewidth": 2.2}
    style["label"] = f"paper, {_name(depth)}" + (": run 1, sd of q(L)" if name == "depth_run1" else "")
    _draw(ax, x, middle - spread, middle, middle + spread, **style)


def draw_accuracy(ax: Axes, comparisons: list[Comparison]) -> None:
    """Figure 2, left: accuracy against rotation speed, mean and standard deviation."""
    for depth in dict.fromkeys(one.depth for one in comparisons):
        some = [one for one in comparisons if one.depth == depth]
        omega, mean, spread = _series(some, "omega", "accuracy_mean", "accuracy_std")
        _paper_curve(ax, "accuracy", depth, omega)
        style = {"color": COLOURS[depth], "marker": ".", "linewidth": 1.2, "label": f"ours, {_name(depth)}"}
        _draw(ax, omega, mean - spread, mean, mean + spread, **style)
    ax.set(xlabel="rotation speed ω", ylabel="test accuracy (%)", ylim=(None, 101))
    ax.legend(frameon=False, loc="lower left")


def draw_depth(ax: Axes, comparisons: list[Comparison]) -> None:
    """Figure 2, right: E[L]; ours mean and range over the runs, the paper's first run with its sd."""
    for depth in dict.fromkeys(one.depth for one in comparisons):
        some = [one for one in comparisons if one.depth == depth]
        omega, mean, low, high = _series(some, "omega", "depth_mean", "depth_mean_min", "depth_mean_max")
        _paper_curve(ax, "depth_run1", depth, omega)
        style = {
            "color": COLOURS[depth],
            "marker": ".",
            "linewidth": 1.2,
            "label": f"ours, {_name(depth)}: mean, range of runs",
        }
        _draw(ax, omega, low, mean, high, **style)
    ax.set(xlabel="rotation speed ω", ylabel="depth E[L]", ylim=(0, None))
    ax.legend(frameon=False, loc="upper left", fontsize=8)


def draw_priors(left: Axes, right: Axes) -> None:
    """Figure 3: the log masses of the priors and of the initial posteriors, exact and as published."""
    for ax, title, name in ((left, "prior p(L)", "prior_logpmf"), (right, "initial q(L)", "initial_logpmf")):
        columns = published(name)
        for depth, marker in (("normal", "o"), ("poisson", "s")):
            style = {"ms": 8, "color": PAPER_COLOUR, "mfc": "none", "linestyle": "none"}
            ax.plot(columns["depth"], columns[depth], marker, **style, label=f"paper, {_name(depth)}")
            exact = np.asarray(FIGURE_3[name][depth].log_masses(len(columns["depth"])))
            ax.plot(columns["depth"], exact, ".-", color=COLOURS[depth], linewidth=1.2, label=f"ours, {_name(depth)}")
        ax.set(xlabel="hidden layers L", ylabel="log mass", title=title)
    left.legend(frameon=False, fontsize=9)


def draw_recipes(left: Axes, right: Axes, comparisons: list[Comparison]) -> None:
    """Accuracy and NLL of every recipe."""
    _paper_curve(left, "accuracy", comparisons[0].depth, _series(comparisons, "omega")[0])
    for recipe in dict.fromkeys(one.recipe for one in comparisons):
        some = [one for one in comparisons if one.recipe == recipe]
        omega, mean, spread, nll = _series(some, "omega", "accuracy_mean", "accuracy_std", "nll_mean")
        style = {"color": RECIPE_COLOURS[recipe], "marker": ".", "linewidth": 1.2, "label": recipe}
        _draw(left, omega, mean - spread, mean, mean + spread, **style)
        right.plot(omega, nll, **style)
    right.axhline(np.log(2), color=PAPER_COLOUR, linewidth=1, linestyle=":")
    right.text(0.02, np.log(2), "guessing", transform=right.get_yaxis_transform(), va="bottom", color="#717581")
    left.set(xlabel="rotation speed ω", ylabel="test accuracy (%)", ylim=(None, 101))
    right.set(xlabel="rotation speed ω", ylabel="test NLL (nats per point)", yscale="log")
    right.legend(*left.get_legend_handles_labels(), frameon=False, loc="lower right")
