"""Checkpoints: a training that was killed goes on where it was, and ends as if nothing had happened."""

import hashlib
import json
import os
import time
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import PyTree
from safetensors import SafetensorError
from safetensors.numpy import load, save

from leadline._checks import InvalidArgumentError, check_at_least
from leadline._files import PART, write_whole
from leadline._version import __version__
from leadline.training.epochs import History
from leadline.training.state import TrainingState

MAGIC = b"leadline checkpoint 1\n"

KEPT = 2
"""Checkpoints of a training: if the last is damaged, there is the one before."""

EVERY = 60.0
"""Seconds between checkpoints."""

SUFFIX = ".checkpoint"

ARGUMENTS = "arguments.json"
"""In a directory with the checkpoints of one command: what it was given."""


class CheckpointWarning(UserWarning):
    """A checkpoint could not be written or read; the training goes on all the same."""


@dataclass(frozen=True)
class Checkpoint:
    """Where a training was, between two compiled calls."""

    state: TrainingState
    good: TrainingState
    """The state to go back to if a run diverges. Both have every layer there is."""
    history: History
    """Of all epochs so far."""
    seconds: float
    """That the training had taken."""


def first_checkpoint(state: TrainingState) -> Checkpoint:
    """Of a training that has not begun."""
    return Checkpoint(state, jax.tree.map(jnp.copy, state), jax.tree.map(np.asarray, _no_history(state)), 0.0)


def _no_history(state: TrainingState) -> History:
    shape = (0, state.key.shape[0])
    return History(*[jnp.empty(shape)] * 6, *[jnp.empty(shape, int)] * 2)


class Checkpoints:
    """Those of one training in a directory, which others may share: `training` says which it is."""

    def __init__(self, folder: str | os.PathLike[str], training: str, every: float = EVERY):
        check_at_least("checkpoint_every", every, 0)
        if not isinstance(folder, str | os.PathLike):
            raise InvalidArgumentError(f"`checkpoint_dir` must be a path, got {folder!r}.")
        self._folder, self._training, self._every = Path(folder), training[:16], every
        self._last = time.monotonic()
        self._trouble = ""
        if self._folder.exists() and not self._folder.is_dir():
            raise InvalidArgumentError(f"`checkpoint_dir` must be a directory, got the file {folder}.")

    def due(self) -> bool:
        return time.monotonic() - self._last >= self._every

    def save(self, checkpoint: Checkpoint) -> None:
        """Write it, and forget all but the one before. A disk that is full is no reason to stop."""
        state = checkpoint.state
        # A training that has gone back is further on than before it.
        place = f"{int(state.slowed.sum()):04d}-{int(state.epoch):09d}-{int(state.step):06d}"
        path = self._folder / f"{self._training}-{place}{SUFFIX}"
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
            write_whole(path, _encode(checkpoint))
            before = [other for other in self._files() if other != path]
            half = self._folder.glob(f".{self._training}-*{SUFFIX}.*{PART}")  # of a process that was killed
            for old in [*before[: 1 - KEPT], *half]:
                old.unlink(missing_ok=True)
        except OSError as error:
            trouble = error.strerror or str(error)
            if trouble != self._trouble:  # once is enough
                warnings.warn(
                    f"Cannot write the checkpoint {path}: {trouble}. Training goes on without.",
                    CheckpointWarning,
                    stacklevel=2,
                )
            self._trouble = trouble
        self._last = time.monotonic()

    def last(self, like: TrainingState) -> Checkpoint | None:
        """The newest that is whole, for a training whose state is like that."""
        for path in reversed(self._files()):
            try:
                return _decode(path.read_bytes(), like)
            except (OSError, _DamagedError) as error:
                warnings.warn(
                    f"Cannot go on from the checkpoint {path}: {error}. Trying the one before.",
                    CheckpointWarning,
                    stacklevel=2,
                )
                if isinstance(error, _DamagedError):
                    path.unlink(missing_ok=True)  # it would take the place of one that is whole
        return None

    def _files(self) -> list[Path]:
        """Oldest first."""
        return sorted(self._folder.glob(f"{self._training}-*{SUFFIX}"))


def clear(folder: Path) -> None:
    """Remove all checkpoints in a directory, and the directory if nothing else is in it."""
    if not folder.is_dir():
        return
    for path in folder.iterdir():
        if path.name == ARGUMENTS or path.name.endswith((SUFFIX, PART)):
            path.unlink(missing_ok=True)
    if not any(folder.iterdir()):
        folder.rmdir()


def epochs_done(folder: Path) -> int | None:
    """The epochs of the newest checkpoint in the directory of one training; None if there is none."""
    names = sorted(path.name for path in folder.glob(f"*-*-*-*{SUFFIX}"))
    return int(names[-1].split("-")[2]) if names else None


def fingerprint(*given: Any) -> str:
    """The same for the same training: of all arrays by their bits, and of the rest by what it says of itself."""
    digest = hashlib.sha256(__version__.encode())
    for leaf in jax.tree.leaves(given, is_leaf=lambda leaf: leaf is None):
        leaf = jax.random.key_data(leaf) if _is_key(leaf) else leaf
        if eqx.is_array_like(leaf) and not isinstance(leaf, bool | int | float | complex):
            array = np.asarray(leaf)
            digest.update(f"{array.dtype} {array.shape}".encode())
            digest.update(np.ascontiguousarray(array).tobytes())
        else:
            digest.update(repr(leaf).encode())
        digest.update(b";")
    digest.update(str(jax.tree.structure(given)).encode())
    return digest.hexdigest()


class _DamagedError(ValueError):
    """The file is not what was written."""


def _is_key(leaf: Any) -> bool:
    return eqx.is_array(leaf) and jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key)


def _named(tree: PyTree, prefix: str) -> dict[str, Any]:
    paths, _ = jax.tree_util.tree_flatten_with_path(tree)
    return {prefix + jax.tree_util.keystr(path): leaf for path, leaf in paths}


def _encode(checkpoint: Checkpoint) -> bytes:
    trees = {"state": checkpoint.state, "good": checkpoint.good, "history": checkpoint.history}
    arrays = {name: leaf for prefix, tree in trees.items() for name, leaf in _named(tree, prefix).items()}
    tensors = {
        name: np.array(jax.random.key_data(leaf) if _is_key(leaf) else leaf, order="C") for name, leaf in arrays.items()
    }
    payload = save(tensors, metadata={"seconds": repr(checkpoint.seconds)})
    return _wrapped(payload)


def _wrapped(payload: bytes) -> bytes:
    """With its checksum before it."""
    return MAGIC + hashlib.sha256(payload).hexdigest().encode() + b"\n" + payload


def _unwrapped(content: bytes) -> bytes:
    """What the checksum is of."""
    head, payload = content[: len(MAGIC) + 65], content[len(MAGIC) + 65 :]
    if not head.startswith(MAGIC):
        raise _DamagedError("it is no checkpoint of this version's")
    if head[len(MAGIC) :] != hashlib.sha256(payload).hexdigest().encode() + b"\n":
        raise _DamagedError("its contents do not match its checksum")
    return payload


def _decode(content: bytes, like: TrainingState) -> Checkpoint:
    payload = _unwrapped(content)
    try:
        tensors = load(payload)
        header = json.loads(payload[8 : 8 + int.from_bytes(payload[:8], "little")])
        seconds = float(header["__metadata__"]["seconds"])
    except (SafetensorError, ValueError, KeyError, TypeError, RecursionError) as error:
        raise _DamagedError(str(error)) from error
    state, good = (_filled(like, prefix, tensors) for prefix in ("state", "good"))
    history = jax.tree.map(np.asarray, _filled(_no_history(like), "history", tensors))
    if not 0 <= int(good.epoch) <= int(state.epoch) == len(history.depth_mean):
        raise _DamagedError("its history is not that of its epochs")
    return Checkpoint(state, good, history, seconds)


def _filled(like: PyTree, prefix: str, tensors: dict[str, np.ndarray]) -> PyTree:
    """The tree with the arrays of the file; how many layers (after the runs) or epochs (before them) there are is the
    file's to say, once."""
    leaves, numbers = [], set[int]()
    for name, leaf in _named(like, prefix).items():
        if name not in tensors:
            raise _DamagedError(f"it has no {name}")
        array, expected = tensors[name], jax.random.key_data(leaf) if _is_key(leaf) else leaf
        sizes = list(expected.shape)
        free = 0 if prefix == "history" else 1 if ".deeper" in name else None
        if free is not None and array.ndim > free:
            sizes[free] = array.shape[free]
            numbers.add(array.shape[free])
        if array.dtype != expected.dtype or list(array.shape) != sizes or len(numbers) > 1:
            raise _DamagedError(f"its {name} is of another kind")
        leaves.append(jax.random.wrap_key_data(jnp.asarray(array)) if _is_key(leaf) else jnp.asarray(array))
    return jax.tree.unflatten(jax.tree.structure(like), leaves)
