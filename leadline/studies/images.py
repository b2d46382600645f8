"""Sets of images: a network that learns its depth, fixed depths, deterministic networks and ensembles of them."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import scipy.ndimage

from leadline._checks import InvalidArgumentError, check_choice, check_entries, check_integer
from leadline.backend.numerics import mean_and_scale
from leadline.datasets import load_images
from leadline.depth import FAMILIES
from leadline.files.records import columns_of, read_rows
from leadline.inference.recipes import IMAGE, Recipe
from leadline.likelihoods import CategoricalLikelihood
from leadline.network.blocks import BLOCKS
from leadline.studies.sweep import Job, Row, Sweep
from leadline.training.problem import Problem, Units
from leadline.training.settings import Settings

DETERMINISTIC = replace(
    IMAGE, name="deterministic", temperature=0.0, initial_scale=1e-12, prior="fixed", warm_up=0.0, n_samples=1
)
"""Maximum likelihood by the same steps: the noise of the weights is a millionth of a millionth, and nothing pulls at
it."""

HELD_OUT = 0.1
"""The share of the training rows that chooses among fixed depths; the same for all methods of a seed."""

TURNED, BLURRED, NOISE = 45.0, 1.5, 0.1
"""Degrees by which digits are turned; pixels over which, and the share of the range by which, photographs are."""


class Kind(NamedTuple):
    """What is particular to a set."""

    source: str
    """Its folder."""
    epochs: int
    crop: int
    flip: bool
    others: tuple[str, ...]
    """What it is told from."""
    classes: tuple[int, ...] | None = None
    """Those that are learned; all where None."""


_OF_CIFAR = ("noise", "blur")

SETS = {
    "mnist": Kind("mnist", 60, 2, False, ("fashion-mnist", "turned")),
    "fashion-mnist": Kind("fashion-mnist", 100, 2, True, ("mnist",)),
    "cifar10": Kind("cifar10", 200, 4, True, _OF_CIFAR),
    "cifar10-automobile-deer": Kind("cifar10", 200, 4, True, _OF_CIFAR, (1, 4)),
    "cifar10-cat-dog": Kind("cifar10", 200, 4, True, _OF_CIFAR, (3, 5)),
}
"""By their names; of the two pairs of classes the first is easy, the second hard (Nazaret & Blei 2022)."""

OTHERS = tuple(dict.fromkeys(other for kind in SETS.values() for other in kind.others))

COLUMNS = columns_of(
    "classes",
    ("name", "seed", "depth", "block", "width", "n_restarts", "max_epochs", "n_rows"),
    (
        *("depth_mean", "depth_std", "depth_share", *(f"auroc_{other}" for other in OTHERS), "validation_ll", "n_test"),
        *("epochs", "seconds", "compile_seconds", "device", "version"),
    ),
)
"""Of a table."""

Images = tuple[np.ndarray, np.ndarray]
"""[rows, height, width, channels] of bytes, and their classes."""


@lru_cache(maxsize=len(SETS))
def _read(data: Path, source: str) -> dict[str, Images]:
    return load_images(data, source)


def _some(part: Images, kind: Kind, most: int | None, order: np.random.Generator | None = None) -> Images:
    """The classes of a set, by new numbers; at most so many rows."""
    images, labels = part
    places = _places(labels, kind)
    places = (places if order is None else order.permutation(places))[:most]
    labels = labels[places].astype(int)
    return images[places], labels if kind.classes is None else np.searchsorted(kind.classes, labels)


def _places(labels: np.ndarray, kind: Kind) -> np.ndarray:
    """Of the images whose class is learned."""
    return np.arange(len(labels)) if kind.classes is None else np.flatnonzero(np.isin(labels, kind.classes))


def image_problem(data: Path, name: str, seed: int, rows: int | None = None, epochs: int | None = None) -> Problem:
    """A set of images, and what it is to be told from.

    Args:
        data: the directory of the sets.
        name: which.
        seed: decides which rows are held out, and which are taken where there are more than `rows`.
        rows: of either part, at most; all where None.
        epochs: what the table says of its length.

    Returns:
        The problem, in units in which every channel has mean 0 and deviation 1.
    """
    kind, order = SETS[name], np.random.default_rng(seed)
    parts = _read(data, kind.source)
    images, labels = _some(parts["train"], kind, rows, order)
    test, test_labels = _some(parts["test"], kind, rows)
    n_classes = int(parts["train"][1].max()) + 1 if kind.classes is None else len(kind.classes)
    n_held, shape = round(HELD_OUT * len(labels)), images.shape[1:]
    places = images.reshape(-1, shape[2])
    units = Units(*(np.tile(one, shape[0] * shape[1]).astype(np.float32) for one in mean_and_scale(places)))

    def as_rows(images: np.ndarray) -> np.ndarray:
        return units.inputs(images.reshape(len(images), -1).astype(np.float32))

    x = as_rows(images)
    others = {one: _OTHERS[one](data, test, rows) for one in kind.others}
    about = {"name": name, "n_rows": len(images), "n_test": len(test), "max_epochs": epochs or kind.epochs}
    return Problem(
        (x[n_held:], labels[n_held:]),
        (x[:n_held], labels[:n_held]),
        CategoricalLikelihood(n_classes),
        test=(as_rows(test), test_labels),
        units=units,
        about=about,
        shape=shape,
        others={one: as_rows(made) for one, made in others.items()},
    )


def _of_set(data: Path, test: np.ndarray, rows: int | None, *, name: str) -> np.ndarray:
    return _read(data, name)["test"][0][:rows]


def _turned(data: Path, test: np.ndarray, rows: int | None) -> np.ndarray:
    return np.clip(scipy.ndimage.rotate(test.astype(np.float32), TURNED, (2, 1), reshape=False, order=1), 0, 255)


def _blurred(data: Path, test: np.ndarray, rows: int | None) -> np.ndarray:
    return scipy.ndimage.gaussian_filter(test.astype(np.float32), (0, BLURRED, BLURRED, 0))


def _noisy(data: Path, test: np.ndarray, rows: int | None) -> np.ndarray:
    noise = np.random.default_rng(0).normal(scale=255 * NOISE, size=test.shape)
    return np.clip(test + noise, 0, 255)


_OTHERS: dict[str, Callable[[Path, np.ndarray, int | None], np.ndarray]] = {
    "mnist": partial(_of_set, name="mnist"),
    "fashion-mnist": partial(_of_set, name="fashion-mnist"),
    "turned": _turned,
    "noise": _noisy,
    "blur": _blurred,
}


@dataclass(frozen=True)
class ImageSettings:
    """What to train: every set by every method, seed by seed."""

    data: Path
    names: tuple[str, ...] = tuple(SETS)
    depths: tuple[str | int, ...] = ("normal",)
    """Families of q(L), and fixed depths."""
    grid: tuple[int, ...] = (0, 1, 2, 4, 8)
    """Fixed depths, of Bayesian networks and of deterministic ones: held-out rows choose among them."""
    members: int = 5
    """Networks of an ensemble; there is none of fewer than 2."""
    seeds: tuple[int, ...] = (1, 2, 3)
    block: str = "residual-convolution"
    width: int = 128
    epochs: int | None = None
    """Of every set its own where None."""
    rows: int | None = None
    """Of either part, at most; all where None."""

    def __post_init__(self) -> None:
        for name in ("names", "depths", "grid", "seeds"):
            check_entries(name, getattr(self, name))
        for name in self.names:
            check_choice("names", name, SETS)
            kind = SETS[name]
            for source in (kind.source, *(set(kind.others) & set(SETS))):
                _read(self.data, source)
        for depth in (*self.depths, *self.grid):
            if isinstance(depth, int):
                check_integer("depth", depth, 0)
            else:
                check_choice("depth", depth, FAMILIES)
        for name, least in {"members": 0, "width": 1}.items():
            check_integer(name, getattr(self, name), least)
        for name, least in {"epochs": 1, "rows": 20}.items():
            if getattr(self, name) is not None:
                check_integer(name, getattr(self, name), least)
        check_choice("block", self.block, [name for name, kind in BLOCKS.items() if kind.takes_images])

    def sweep(self) -> Sweep:
        """The networks that learn their depth, and those of the grid."""
        learned = [(str(depth), depth, IMAGE, 1) for depth in dict.fromkeys((*self.depths, *self.grid))]
        fixed = [(f"deterministic-{depth}", depth, DETERMINISTIC, 1) for depth in self.grid]
        return self._sweep(
            [self._job(name, seed, *one) for name in self.names for one in [*learned, *fixed] for seed in self.seeds]
        )

    def ensembles(self, out: Path) -> Sweep | None:
        """Of every set and seed, of the depth that the rows held out prefer of the deterministic networks in the
        tables; None where none is asked for."""
        if self.members < 2:
            return None
        best = {}
        for depth in self.grid:
            for row in read_rows(out / f"deterministic-{depth}.csv"):
                best.setdefault(_key(row), {})[float(row["validation_ll"])] = depth
        return self._sweep(
            [
                self._job(name, seed, "ensemble", of_depths[max(of_depths)], DETERMINISTIC, self.members)
                for name in self.names
                for seed in self.seeds
                if (of_depths := best.get(_place(name, seed)))
            ]
        )

    def _job(self, name: str, seed: int, table: str, depth: str | int, recipe: Recipe, n_restarts: int) -> Job:
        kind = SETS[name]
        how = {"block": self.block, "width": self.width, "crop": kind.crop, "flip": kind.flip}
        settings = Settings(
            depth=depth, recipe=recipe, n_restarts=n_restarts, epochs=self.epochs or kind.epochs, seed=seed, **how
        )
        problem = partial(image_problem, self.data, name, seed, self.rows, self.epochs)
        return Job(problem, settings, table, _place(name, seed))

    def _sweep(self, jobs: list[Job]) -> Sweep:
        """One network after the other: each fills a device."""
        return Sweep(
            jobs, COLUMNS, _key, lambda job: (job.table, job.key), self._check, brief=True, compiled_apart=True
        )

    def _check(self, path: Path, row: Row) -> None:
        """Trainings of another kind are not mixed in."""
        if row["name"] not in self.names:
            return
        kind = SETS[row["name"]]
        given = {"block": self.block, "width": self.width, "max_epochs": self.epochs or kind.epochs}
        given["n_rows"] = len(_places(_read(self.data, kind.source)["train"][1], kind)[: self.rows])
        for name, value in given.items():
            if row[name] != str(value):
                raise InvalidArgumentError(
                    f"`out`: {path} has runs of {row['name']} with {name} {row[name]}, got {value}; choose another "
                    "directory or the same."
                )


def _place(name: str, seed: int) -> tuple[int, str, int]:
    """The sets in their order here."""
    return list(SETS).index(name) if name in SETS else len(SETS), name, seed


def _key(row: dict[str, Any]) -> tuple[int, str, int]:
    return _place(row["name"], int(row["seed"]))
