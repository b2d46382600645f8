"""The UCI regression sets on their standard splits; a set and a depth family become a table's rows on disk."""

from dataclasses import dataclass
from functools import partial
from pathlib import Path

from leadline._checks import InvalidArgumentError, check_entries, check_integer
from leadline.backend.numerics import mean_and_scale
from leadline.datasets import load_uci, uci_splits
from leadline.depth import FAMILIES
from leadline.files.records import columns_of
from leadline.likelihoods import HeteroscedasticLikelihood
from leadline.studies.sweep import Job, Row, Sweep
from leadline.training.problem import Problem, Units
from leadline.training.settings import Settings

NAMES = (
    *("bostonHousing", "concrete", "energy", "kin8nm", "naval-propulsion-plant"),
    *("power-plant", "protein-tertiary-structure", "wine-quality-red", "yacht"),
)

COLUMNS = columns_of(
    "numbers",
    ("name", "split", "depth", "max_epochs"),
    (
        *("depth_mean", "depth_std", "validation_ll", "spread", "largest_share", "n_test", "epochs", "seconds"),
        *("compile_seconds", "device", "version"),
    ),
)
"""Of a table."""


def uci_problem(data: Path, name: str, split: int, max_epochs: int | None = None) -> Problem:
    """One of the standard splits of a set; a tenth of its training part is held out, the same for all restarts.

    Args:
        data: the directory of the sets.
        name, split: which.
        max_epochs: what the table says of its length.

    Returns:
        The problem, in units in which columns and targets have mean 0 and deviation 1.
    """
    parts = load_uci(data, name, split)
    (x, y), test = parts["train"], parts["test"]
    y_mean, y_scale = (float(number) for number in mean_and_scale(y))
    units = Units(*mean_and_scale(x), y_mean, y_scale)
    rows, test = ((units.inputs(x), units.targets(y)) for x, y in ((x, y), test))
    about = {"name": name, "split": split, "n_test": len(test[1])}
    about["max_epochs"] = "" if max_epochs is None else max_epochs
    return Problem(rows, 0.1, HeteroscedasticLikelihood(1), test=test, units=units, about=about)


@dataclass(frozen=True)
class UciSettings:
    """What to train: every set with every depth, all splits side by side. One setting for all sets."""

    data: Path
    names: tuple[str, ...] = NAMES
    depths: tuple[str | int, ...] = ("normal", "poisson", *range(6))
    """Families of q(L), and fixed numbers of hidden layers."""
    splits: tuple[int, ...] | None = None
    """All there are where None."""
    epochs: int | None = None
    """At most; as many as `train` thinks right where None."""

    def __post_init__(self) -> None:
        for name in ("names", "depths", "splits"):
            if getattr(self, name) is not None:
                check_entries(name, getattr(self, name))
        for depth in self.depths:
            if isinstance(depth, int):
                check_integer("depth", depth, 0)
            elif depth not in FAMILIES:
                raise InvalidArgumentError(
                    f"must be one of {', '.join(FAMILIES)} or a whole number, got {depth!r}.", "depth"
                )
        for name in self.names:
            for split in self.splits_of(name):
                check_integer("splits", split, 0, uci_splits(self.data, name) - 1)

    def splits_of(self, name: str) -> tuple[int, ...]:
        """The splits of a set that are asked for."""
        return tuple(range(uci_splits(self.data, name))) if self.splits is None else self.splits

    def sweep(self) -> Sweep:
        """All splits of a set and a depth train together."""
        makers = {
            (name, split): partial(uci_problem, self.data, name, split, self.epochs)
            for name in self.names
            for split in self.splits_of(name)
        }
        jobs = [
            Job(
                makers[name, split],
                Settings(depth=depth, epochs=self.epochs, own_length=True, seed=1 + split),
                str(depth),
                _place(name, split),
            )
            for name in self.names
            for depth in self.depths
            for split in self.splits_of(name)
        ]
        side_by_side = {"whole": True, "brief": True, "compiled_apart": True}
        return Sweep(jobs, COLUMNS, _key, lambda job: (job.table, job.key[:2]), self._check, **side_by_side)

    def _check(self, path: Path, row: Row) -> None:
        """Trainings with another limit are not mixed in."""
        given = "" if self.epochs is None else str(self.epochs)
        if row["name"] in self.names and row["max_epochs"] != given:
            was, now = (f"--epochs {most}" if most else "no --epochs" for most in (row["max_epochs"], given))
            raise InvalidArgumentError(
                f"`out`: {path} has runs with {was}, got {now}; choose another directory or the same."
            )


def _place(name: str, split: int) -> tuple[int, str, int]:
    """The sets in the order of the published tables, others after them."""
    return NAMES.index(name) if name in NAMES else len(NAMES), name, split


def _key(row: Row) -> tuple[int, str, int]:
    return _place(row["name"], int(row["split"]))
