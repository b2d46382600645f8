"""Checkpoints on disk: written whole, checked when read, and removed by whoever made them."""

import errno
import hashlib
import os
import re
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, TypeVar

import jax
import numpy as np
from jaxtyping import PyTree

from leadline._checks import InvalidArgumentError, check_at_least
from leadline._identity import is_key
from leadline.backend.forks import on_device
from leadline.files.ours import is_ours
from leadline.files.whole import open_regular, packed, put_whole, read_regular, reason, sweep, unpacked

T = TypeVar("T")

_WRITTEN_BY = b"leadline checkpoint "
MAGIC = _WRITTEN_BY + b"1\n"

KEPT = 2
"""Checkpoints of a training: if the last is damaged, there is the one before."""

EVERY = 60.0
"""Seconds between checkpoints."""

SUFFIX = ".checkpoint"

_NAME = re.compile(r"([0-9a-f]{16})-\d{4,}-(\d{9,})-\d{6,}\.checkpoint")
"""The training, how often it has gone back, the epoch, the step."""

ARGUMENTS = "arguments.json"
"""In a directory with the checkpoints of one command: what it was given."""


class CheckpointWarning(UserWarning):
    """A checkpoint could not be written or read; the training goes on all the same."""


class DamagedError(ValueError):
    """The file is not what was written."""


class Checkpoints:
    """Those of one training in a directory, which others may share: its identity says which they are."""

    def __init__(self, folder: str | os.PathLike[str], training: str, every: float = EVERY):
        check_at_least("checkpoint_every", every, 0)
        if not isinstance(folder, str | os.PathLike) or not os.fspath(folder):
            raise InvalidArgumentError(f"must be a path, got {folder!r}.", "checkpoint_dir")
        self._folder, self._training, self._every = Path(folder), training[:16], every
        self._last = time.monotonic()
        self._trouble = ""
        if self._folder.exists() and not self._folder.is_dir():
            raise InvalidArgumentError(f"must be a directory, got the file {folder}.", "checkpoint_dir")

    def due(self) -> bool:
        """Whether it is time for another."""
        return time.monotonic() - self._last >= self._every

    def save(self, trees: dict[str, PyTree], place: tuple[int, int, int], seconds: float) -> None:
        """Write one, and forget all but the one before. A disk that is full is no reason to stop.

        Args:
            trees: what the training is made of, by name.
            place: how far it is: numbers that grow. The second is the epoch.
            seconds: that it has taken.
        """
        times, epoch, step = place
        path = self._folder / f"{self._training}-{times:04d}-{epoch:09d}-{step:06d}{SUFFIX}"
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
            if os.path.lexists(path) and not is_checkpoint(path):
                raise OSError(errno.EEXIST, "what is there is not Leadline's")
            put_whole(path, encode(trees, seconds))
            before = [other for other in self._files() if other != path and is_checkpoint(other)]
            for old in before[: 1 - KEPT]:
                old.unlink(missing_ok=True)
        except OSError as error:
            trouble = error.strerror or str(error)
            if trouble != self._trouble:  # once is enough
                said = f"Cannot write the checkpoint {path}: {trouble}. Training goes on without."
                warnings.warn(said, CheckpointWarning, stacklevel=2)
            self._trouble = trouble
        self._last = time.monotonic()

    def last(self, like: dict[str, PyTree], understood: Callable[[dict[str, PyTree], float], T]) -> T | None:
        """The newest that is whole, as it is understood: from its trees, which are like those, and its seconds."""
        for path in reversed(self._files()):
            try:
                return understood(*decode(read_regular(path), like))
            except (OSError, MemoryError, DamagedError) as error:
                said = f"Cannot go on from the checkpoint {path}: {reason(error)}. Trying the one before."
                warnings.warn(said, CheckpointWarning, stacklevel=2)
                if isinstance(error, DamagedError) and is_checkpoint(path):
                    path.unlink(missing_ok=True)  # it would take the place of one that is whole
        return None

    def _files(self) -> list[Path]:
        """Oldest first."""
        return [path for path in _named_so(self._folder) if path.name.startswith(f"{self._training}-")]


def _named_so(folder: Path) -> list[Path]:
    """The files in a directory that are called what checkpoints are, oldest first."""
    with suppress(OSError):
        files = (path for path in folder.iterdir() if _NAME.fullmatch(path.name))
        return sorted(path for path in files if path.is_file() and not path.is_symlink())
    return []


def is_checkpoint(path: Path) -> bool:
    """Whether Leadline wrote a file that is called so, or nothing at all is in it."""
    with suppress(OSError), open_regular(path) as file:
        return file.read(len(_WRITTEN_BY)) in (b"", _WRITTEN_BY)
    return False


def clear(folder: Path, arguments: bool = True) -> None:
    """Remove all checkpoints in a directory, and the directory if nothing else is in it; what cannot go stays."""
    sweep(folder)
    ours = [path for path in _named_so(folder) if is_checkpoint(path)]
    with suppress(OSError):
        if arguments and is_ours(folder / ARGUMENTS):
            ours.append(folder / ARGUMENTS)
        for path in ours:
            path.unlink(missing_ok=True)
        if ours:
            folder.rmdir()


@contextmanager
def given_up(folder: Path) -> Iterator[None]:
    """Without the checkpoints in a directory, for the sake of the room they take; the last comes back on an error."""
    last = {path: read_regular(path) for path in _named_so(folder)[-1:] if is_checkpoint(path)}
    clear(folder, arguments=False)
    try:
        yield
    except BaseException:
        folder.mkdir(exist_ok=True)
        for path, content in last.items():
            put_whole(path, content)
        raise


def epochs_done(folder: Path) -> int | None:
    """The epochs of the newest checkpoint in the directory of one training; None if there is none."""
    names = [path.name for path in _named_so(folder)]
    return epochs_of(names[-1]) if names else None


def epochs_of(name: str) -> int | None:
    """The epochs of a checkpoint, by its name; None if it is not called as one is."""
    found = _NAME.fullmatch(name)
    return None if found is None else int(found[2])


def encode(trees: dict[str, PyTree], seconds: float) -> bytes:
    """A checkpoint as it is written; random keys as their words."""
    tensors = {name: np.array(_words(leaf), order="C") for name, leaf in _named(trees).items()}
    return wrapped(packed(tensors, {"seconds": repr(seconds)}))


def _words(leaf: Any) -> Any:
    return jax.random.key_data(leaf) if is_key(leaf) else leaf


def _named(trees: dict[str, PyTree]) -> dict[str, Any]:
    """All arrays by their trees and their places in them."""
    paths, _ = jax.tree_util.tree_flatten_with_path(trees)
    return {path[0].key + jax.tree_util.keystr(path[1:]): leaf for path, leaf in paths}


def wrapped(payload: bytes) -> bytes:
    """With its checksum before it."""
    return MAGIC + hashlib.sha256(payload).hexdigest().encode() + b"\n" + payload


def unwrapped(content: bytes) -> bytes:
    """What the checksum is of."""
    head, payload = content[: len(MAGIC) + 65], content[len(MAGIC) + 65 :]
    if not head.startswith(MAGIC):
        raise DamagedError("it is no checkpoint of this version's")
    if head[len(MAGIC) :] != hashlib.sha256(payload).hexdigest().encode() + b"\n":
        raise DamagedError("its contents do not match its checksum")
    return payload


def decode(content: bytes, like: dict[str, PyTree]) -> tuple[dict[str, PyTree], float]:
    """The trees of a checkpoint, and the seconds that the training had taken; or a `DamagedError`.

    The trees have the structure, types and sizes of those that they are `like`, but for one: a history has its epochs
    before the runs, a network its layers after them, and how many, the file says, once for each tree.
    """
    payload = unwrapped(content)
    try:
        words, tensors = unpacked(payload)
        seconds = float(words["seconds"])
    except (ValueError, KeyError) as error:
        raise DamagedError(str(error)) from error
    if not np.isfinite(seconds):  # below 0 where a clock has jumped
        raise DamagedError(f"it says that the training took {seconds} seconds")
    leaves, said = [], dict[str, int]()
    for name, leaf in _named(like).items():
        if name not in tensors:
            raise DamagedError(f"it has no {name}")
        array, expected, tree = tensors[name], _words(leaf), name.partition(".")[0]
        sizes, free = list(expected.shape), 0 if tree == "history" else 1 if ".deeper" in name else None
        if free is not None and array.ndim > free:
            sizes[free] = said.setdefault(tree, array.shape[free])
        if array.dtype != expected.dtype or list(array.shape) != sizes:
            raise DamagedError(f"its {name} is of another kind")
        array: Any = array if isinstance(leaf, np.ndarray) else on_device(array)
        leaves.append(jax.random.wrap_key_data(array) if is_key(leaf) else array)
    return jax.tree.unflatten(jax.tree.structure(like), leaves), seconds
