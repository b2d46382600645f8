"""The paper's grid: several runs at every rotation speed, side by side; a run becomes a row of a table on disk."""

from dataclasses import dataclass
from functools import partial
from pathlib import Path

from leadline._checks import InvalidArgumentError, check_at_least, check_choice, check_entries, check_integer
from leadline.depth import FAMILIES
from leadline.files.records import columns_of
from leadline.inference.recipes import get_recipe
from leadline.studies.spiral import spiral_problem
from leadline.studies.sweep import Job, Row, Sweep
from leadline.training.settings import Settings

COLUMNS = columns_of(
    "classes",
    ("recipe", "depth", "omega", "seed", "epochs", "width", "temperature", "n_restarts"),
    (
        *("depth_mean", "depth_std", "depth_mode", "free_energy", "expected_nll", "depth_kl", "weight_kl"),
        *("effective_width", "seconds", "device", "version"),
    ),
)
"""Of a table of spirals' records."""


@dataclass(frozen=True)
class Grid:
    """What to train: so many `runs` of each combination, with the seeds 1, 2, ..."""

    recipes: tuple[str, ...] = ("published", "written", "leadline")
    depths: tuple[str, ...] = ("normal", "poisson")
    omegas: tuple[float, ...] = tuple(range(31))
    runs: int = 5
    epochs: int | None = None
    """Of every network; the recipe's where None."""

    def __post_init__(self) -> None:
        for name in ("recipes", "depths", "omegas"):
            check_entries(name, getattr(self, name))
        for depth in self.depths:
            check_choice("depth", depth, FAMILIES)
        for omega in self.omegas:
            check_at_least("omegas", omega, 0)
        check_integer("runs", self.runs, 1)
        if self.epochs is not None:
            check_integer("epochs", self.epochs, 1)
        for recipe in self.recipes:
            get_recipe(recipe)

    def families(self) -> list[tuple[str, str]]:
        """What goes into one table, recipe and depth family; in the order of training."""
        return [(recipe, depth) for recipe in self.recipes for depth in self.depths]

    def sweep(self) -> Sweep:
        """All runs of a recipe, of all its families, may train together."""
        seeds = range(1, self.runs + 1)
        makers = {(omega, seed): partial(spiral_problem, omega, seed) for omega in self.omegas for seed in seeds}
        jobs = [
            Job(
                makers[omega, seed],
                Settings(depth=depth, recipe=recipe, epochs=self.epochs, seed=seed),
                table_name(recipe, depth),
                (float(omega), seed),
            )
            for recipe, depth in self.families()
            for seed in seeds
            for omega in self.omegas
        ]
        return Sweep(jobs, COLUMNS, _key, lambda job: job.settings.recipe, self._check)

    def _check(self, path: Path, row: Row) -> None:
        """Runs of another length are not mixed in."""
        epochs = get_recipe(row["recipe"]).epochs if self.epochs is None else self.epochs
        if int(row["epochs"]) != epochs:
            raise InvalidArgumentError(
                f"`out`: {path} has runs of {row['epochs']} epochs, not {epochs}; choose another directory or use "
                f"--epochs {row['epochs']}."
            )


QUICK = Grid(recipes=("published",), omegas=tuple(range(5, 31, 5)), runs=1)
"""A small version of the figure: one run at six rotation speeds, trained as long as in the paper."""


def table_name(recipe: str, depth: str) -> str:
    """Of the table of a recipe and a family."""
    return f"{recipe}-{depth}"


def _key(row: Row) -> tuple[float, int]:
    return float(row["omega"]), int(row["seed"])
