"""The UCI regression sets on their standard splits; a set and a depth family become a table's rows on disk."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import jax
import numpy as np

from leadline import metrics
from leadline._checks import InvalidArgumentError, check_entries, check_integer
from leadline._numerics import mean_and_scale
from leadline._version import __version__
from leadline.datasets import load_uci, uci_splits
from leadline.ensemble import by_mixture, calibration_of, depth_summary
from leadline.experiments.records import CHECKPOINTS, Unfinished, read_rows, reading, write_rows
from leadline.likelihoods import HeteroscedasticLikelihood
from leadline.mixture import GaussianMixture
from leadline.model import Model
from leadline.recipes import DEPTHS, recipe_for_numbers
from leadline.training.checkpoint import EVERY
from leadline.training.interruption import Interruption
from leadline.training.loop import Training, train
from leadline.training.progress import Progress, Teller

NAMES = (
    *("bostonHousing", "concrete", "energy", "kin8nm", "naval-propulsion-plant"),
    *("power-plant", "protein-tertiary-structure", "wine-quality-red", "yacht"),
)

RECIPE = recipe_for_numbers("leadline", "input")


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
            elif depth not in DEPTHS:
                raise InvalidArgumentError(
                    f"`depth` must be one of {', '.join(DEPTHS)} or a whole number, got {depth!r}."
                )
        for name in self.names:
            for split in self.splits_of(name):
                check_integer("splits", split, 0, uci_splits(self.data, name) - 1)

    @property
    def max_epochs(self) -> str:
        """As the tables have it."""
        return "" if self.epochs is None else str(self.epochs)

    def splits_of(self, name: str) -> tuple[int, ...]:
        return tuple(range(uci_splits(self.data, name))) if self.splits is None else self.splits


COLUMNS = (
    *("name", "split", "depth", "max_epochs", "rmse", "ll_mixture", "ll_gaussian"),
    *("coverage_50", "coverage_90", "coverage_95", "depth_mean", "depth_std", "validation_ll", "spread"),
    *("largest_share", "n_test", "epochs", "seconds", "compile_seconds", "device", "version"),
)
"""Of a table."""

Chunk = tuple[str, str | int, list[int]]
"""A set, a depth, and the splits to train together."""


def table_path(out: Path, depth: str | int) -> Path:
    return out / f"{depth}.csv"


def missing(settings: UciSettings, out: Path) -> list[Chunk]:
    """What is not in the tables yet."""
    chunks = []
    for name in settings.names:
        for depth in settings.depths:
            path = table_path(out, depth)
            rows = [row for row in read_rows(path, COLUMNS) if row["name"] == name]
            for row in rows:
                if row["max_epochs"] != settings.max_epochs:
                    was, now = (
                        f"--epochs {most}" if most else "no --epochs"
                        for most in (row["max_epochs"], settings.max_epochs)
                    )
                    raise InvalidArgumentError(
                        f"`out`: {path} has runs with {was}, got {now}; choose another directory or the same."
                    )
            with reading(path):
                done = {int(row["split"]) for row in rows}
            left = [split for split in settings.splits_of(name) if split not in done]
            chunks += [(name, depth, left)] if left else []
    return chunks


def benchmark(settings: UciSettings, out: Path, tell: Teller | None = None, checkpoint_every: float = EVERY) -> bool:
    """Train what is missing; a table has the rows of a set as soon as its splits are done. Whether all is done: Ctrl-C
    leaves the set in hand to the next time, which goes on from its checkpoint."""
    chunks = missing(settings, out)
    unfinished = Unfinished(out / CHECKPOINTS, checkpoint_every)
    for name in settings.names:
        for depth in settings.depths:
            whole = (name, depth, list(settings.splits_of(name)))
            if whole not in chunks:  # killed, perhaps, between the table and this
                unfinished.no_more(whole)
    for i, (name, depth, splits) in enumerate(chunks):

        def report(now: Progress, i: int = i) -> None:
            if tell is not None:
                tell((i + (now.epoch / now.epochs if now.epochs else 0.0)) / len(chunks), i, len(chunks))

        what = (name, depth, splits)
        rows = run_splits(settings.data, *what, settings.epochs, report, unfinished.place(what), unfinished.every)
        if rows is None:
            return False
        path = table_path(out, depth)
        order = {known: i for i, known in enumerate(NAMES)}
        every = read_rows(path) + [{key: str(value) for key, value in row.items()} for row in rows]
        every.sort(key=lambda row: (order.get(row["name"], len(order)), row["name"], int(row["split"])))
        write_rows(path, every)
        unfinished.no_more(what)
    return True


def run_splits(
    data: Path,
    name: str,
    depth: str | int,
    splits: list[int],
    epochs: int | None = None,
    report: Callable[[Progress], None] | None = None,
    checkpoint_dir: Path | None = None,
    checkpoint_every: float = EVERY,
) -> list[dict[str, Any]] | None:
    """Train on the splits of a set side by side, a row for each; nothing if interrupted.

    `seconds` is what the training took, all splits together, `compile_seconds` what the first epoch took before.

    A tenth of a split's training part is held out, the same for all restarts: it decides the length of the training,
    and calibrates the restarts. The test part is looked at when all is done.
    """
    parts = [load_uci(data, name, split) for split in splits]
    scales = [_Scales(*part["train"]) for part in parts]
    tables = [scale.apply(*part["train"]) for scale, part in zip(scales, parts, strict=True)]
    train_for = partial(
        train,
        ([x for x, _ in tables], [y for _, y in tables]),
        0.1,
        HeteroscedasticLikelihood(1),
        depth=depth,
        recipe=RECIPE,
        common_validation=True,
        own_length=True,
        seeds=[1 + split for split in splits],
    )
    with Interruption() as interruption:
        compiling = train_for(epochs=1)
    if interruption.asked:
        return None
    training = train_for(epochs=epochs, report=report, checkpoint_dir=checkpoint_dir, checkpoint_every=checkpoint_every)
    if training.interrupted:
        return None
    described = {"depth": depth, "max_epochs": "" if epochs is None else epochs}
    took = {"seconds": round(training.seconds, 3), "compile_seconds": round(compiling.seconds, 3)}
    where = {"device": jax.devices()[0].device_kind, "version": __version__}

    def row(i: int) -> dict[str, Any]:
        measured = _evaluated(training, i, 1 + splits[i], tables[i], scales[i], parts[i]["test"])
        return {"name": name, "split": splits[i], **described, **measured, **took, **where}

    with ThreadPoolExecutor() as pool:
        return list(pool.map(row, range(len(splits))))


class _Scales:
    """The units of a training part: the network sees columns and targets of mean 0 and deviation 1."""

    def __init__(self, x: np.ndarray, y: np.ndarray):
        self.x_mean, self.x_scale = mean_and_scale(x)
        self.y_mean, self.y_scale = (float(number) for number in mean_and_scale(y))

    def apply(self, x: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        return (x - self.x_mean) / self.x_scale, (y - self.y_mean) / self.y_scale


def _evaluated(
    training: Training,
    i: int,
    seed: int,
    table: tuple[np.ndarray, np.ndarray],
    scales: _Scales,
    test: tuple[np.ndarray, np.ndarray],
) -> dict[str, Any]:
    """What the restarts of seed number i make of the test part, in the units of the targets."""
    k = training.n_restarts
    own = slice(i * k, (i + 1) * k)
    models: Model = jax.tree.map(lambda a: a[own], training.model)
    held = training.validation_rows[own][0]
    kept_apart = table[0][held], table[1][held]
    calibration = calibration_of(models, *kept_apart, RECIPE.n_samples, seed)

    def measure(x: np.ndarray, y: np.ndarray) -> np.ndarray:
        return by_mixture(_measured, models, RECIPE.n_samples, seed, calibration, x, y[:, None]).T

    error, mixture, gaussian, edge = measure(*scales.apply(*test))
    shift = np.log(scales.y_scale)
    depth = depth_summary(models, calibration.share)
    return {
        **metrics.of_numbers(scales.y_scale * error, mixture - shift, gaussian - shift, edge),
        "depth_mean": depth["depth_mean"],
        "depth_std": depth["depth_std"],
        "validation_ll": float(np.mean(measure(*kept_apart)[1]) - shift),
        "spread": float(calibration.spread[0]),
        "largest_share": float(calibration.share.max()),
        "n_test": len(error),
        "epochs": training.epochs_of_seeds[i],
    }


def _measured(mixture: GaussianMixture, y: np.ndarray) -> np.ndarray:
    """For every row: the error of the mean, the log densities of the mixture and of the Gaussian with its moments, and
    the level of the central interval that y is on the edge of."""
    mean, variance = mixture.moments()
    error = (y - mean)[:, 0]
    gaussian = -0.5 * (error**2 / variance[:, 0] + np.log(2 * np.pi * variance[:, 0]))
    edge = np.abs(2 * mixture.cdf(y)[:, 0] - 1)
    return np.stack([error, mixture.log_density(y), gaussian, edge], axis=1)
