"""Several devices for one training: each has some of its runs, or some of the rows of every step."""

import os
import threading
import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Literal, get_args

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as Spec
from jaxtyping import Array, Bool, PyTree

from leadline._checks import InvalidArgumentError, check_choice, check_integer
from leadline._identity import is_key

By = Literal["runs", "rows"]

ASKED = "LEADLINE_SHARD"
"""In the environment: what all devices share, where nothing is said in Python."""

_GIVEN: list["Sharing | None"] = []
_TRACED: list["Sharing"] = []
_IN_TURN = threading.RLock()


@dataclass(frozen=True)
class Sharing:
    """What devices share of a training: its runs, or the rows of every step."""

    by: By
    mesh: Mesh
    """The devices, on one axis that is called so."""

    def of_runs(self, n_runs: int) -> "Sharing":
        """The same, by as many of the devices as have equally many runs each."""
        if self.by == "rows":
            return self
        return _of(self.by, self.mesh.devices.ravel()[: evenly(n_runs, self.mesh.size)])

    def state(self, tree: PyTree) -> PyTree:
        """What runs have, on an axis of their own before all others: each device has its runs, or everything."""
        return jax.tree.map(lambda a: self._put(a, self._spec(a)), tree)

    def table(self, tree: PyTree) -> PyTree:
        """Arrays [tables, rows, ...]: each device has its rows, or all. Rows are put below, so that all have as many;
        no run knows of them."""

        def put(array: Array) -> Array:
            if self.by == "runs":
                return self._put(array, Spec())
            more = -array.shape[1] % self.mesh.size
            filled = np.pad(np.asarray(array), [(0, 0), (0, more)] + [(0, 0)] * (array.ndim - 2))
            return self._put(filled, Spec(None, self.by))

        return jax.tree.map(put, tree)

    def begun(self, begin: Callable[..., PyTree]) -> Callable[..., PyTree]:
        """What makes states, for states that are where they belong."""
        return lambda models: self.state(begin(models))

    def _put(self, array: Any, spec: Spec) -> Array:
        there = NamedSharding(self.mesh, spec)
        if getattr(array, "sharding", None) == there:
            return array
        if not self.has_others:
            return jax.device_put(array, there)
        if is_key(array):
            return jax.random.wrap_key_data(self._put(jax.random.key_data(array), spec))
        known = np.asarray(array)
        return jax.make_array_from_callback(known.shape, there, lambda part: known[part])

    def _spec(self, array: Any) -> Spec:
        return Spec(self.by) if self.by == "runs" and array.ndim else Spec()

    def batch(self, rows: PyTree) -> PyTree:
        """Inside a program, rows [runs, rows, ...] of a step: each device has some, and XLA adds up what it has to."""
        if self.by == "runs":
            return rows
        some = NamedSharding(self.mesh, Spec(None, self.by))
        return jax.tree.map(lambda a: lax.with_sharding_constraint(a, some), rows)

    def run(self, function: Callable[[PyTree, Any], tuple[Any, Any]], alike: PyTree, own: PyTree) -> tuple[Any, Any]:
        """Inside a program: `function(alike, own)`, which gives back what `own` has last, and a history [epochs, runs].

        Each device has `own` of its runs (see `state`), or all devices carry it out together.
        """
        if self.by == "rows":
            with _traced(self):
                result = function(alike, own)
            whole = NamedSharding(self.mesh, Spec())
            return jax.tree.map(lambda a: lax.with_sharding_constraint(a, whole), result)

        def of_some(alike: PyTree, own: PyTree) -> tuple[Any, Any]:
            with _traced(self):
                return function(alike, own)

        specs = jax.tree.map(self._spec, own)
        given, returned = (Spec(), specs), (specs[-1], Spec(None, self.by))
        return jax.shard_map(of_some, mesh=self.mesh, in_specs=given, out_specs=returned, check_vma=False)(alike, own)

    def in_turn(self, function: Callable[..., tuple[Any, Any]], *args: Any) -> tuple[Any, Any]:
        """A program that all devices carry out; two at a time could wait for each other for ever."""
        with _IN_TURN:
            return jax.block_until_ready(function(*args))

    def agreed(self, number: int) -> int:
        """The largest that any process says: their clocks differ, and all have to do the same."""
        return int(self._of_all(number).max()) if self.has_others else number

    def check_alike(self, tree: PyTree) -> None:
        """Refuse to begin where processes have different rows, settings or checkpoints."""
        if not self.has_others:
            return
        words = (jax.random.key_data(a) if is_key(a) else a for a in jax.tree.leaves(tree))
        said = self._of_all(zlib.crc32(b"".join(np.asarray(a).tobytes() for a in words)))
        if len(set(said.tolist())) > 1:
            raise InvalidArgumentError(
                "must be given the same problem, settings and checkpoints in all processes, and they differ.", "sharded"
            )

    def _of_all(self, number: int) -> np.ndarray:
        from jax.experimental import multihost_utils  # which others do without

        return multihost_utils.process_allgather(np.array(number, np.uint32))

    @property
    def has_others(self) -> bool:
        """Whether other processes have some of the devices."""
        return self.mesh.is_multi_process

    @property
    def writes(self) -> bool:
        """Whether it is this process that writes checkpoints."""
        return not self.has_others or jax.process_index() == 0


def evenly(n_runs: int, n_devices: int) -> int:
    """The most devices, of so many, that have equally many runs each."""
    return max(n for n in range(1, min(n_devices, n_runs) + 1) if n_runs % n == 0)


def local(tree: PyTree) -> PyTree:
    """The same on one device of this process."""

    def fetched(array: Any) -> Array:
        if is_key(array):
            return jax.random.wrap_key_data(fetched(jax.random.key_data(array)))
        return jax.device_put(np.asarray(array))

    return jax.tree.map(fetched, tree)


def on_all(condition: Bool[Array, ""]) -> Bool[Array, ""]:
    """Inside a program: whether something holds for the runs of all devices."""
    if not (_TRACED and _TRACED[-1].by == "runs"):
        return condition
    return lax.pmin(condition.astype(jnp.int32), "runs") > 0


def rows_are_split() -> bool:
    """Whether a program is being made whose rows are on several devices."""
    return bool(_TRACED) and _TRACED[-1].by == "rows" and _TRACED[-1].mesh.size > 1


@contextmanager
def _traced(sharing: Sharing) -> Iterator[None]:
    _TRACED.append(sharing)
    try:
        yield
    finally:
        _TRACED.pop()


def sharing() -> Sharing | None:
    """What devices share of the trainings that begin now, if they do."""
    if _GIVEN:
        return _GIVEN[-1]
    asked = os.environ.get(ASKED, "")
    return _asked(ASKED, asked, None) if asked else None


@contextmanager
def sharded(by: By, devices: int | Sequence[Any] | None = None) -> Iterator[None]:
    """Have several devices share every training of this process that begins inside.

    `runs`: each device trains some of the runs (restarts, seeds, settings side by side), to the same bits as one. As
    many devices take part as have equally many runs each. `rows`: each device has some of the rows of the table, and of
    every step; what is summed over rows is rounded otherwise. With `jax.distributed`, `rows` takes the devices of all
    processes, which then must all do the same: the same rows, settings and calls. Only the first writes checkpoints,
    and all read them.

    On a CPU it is JAX that trains then, and not the engine. Without Python, `LEADLINE_SHARD=runs` or `rows` in the
    environment says the same for all devices there are.

    Args:
        by: what they share.
        devices: how many, or which, as `jax.devices()` gives them; all, unless given.

    Returns:
        What `with` takes.

    Examples:
        >>> from leadline import CategoricalLikelihood, Problem, Settings, sharded, train
        >>> problem = Problem(([[-1.0], [1.0]] * 10, [0, 1] * 10), 0.2, CategoricalLikelihood(2))
        >>> with sharded("rows", devices=1):
        ...     trained = train(problem, Settings(width=2, n_restarts=1, epochs=3))
        >>> trained.epochs
        3
    """
    _GIVEN.append(_asked("by", by, devices))
    try:
        yield
    finally:
        _GIVEN.pop()


def _asked(name: str, by: Any, devices: int | Sequence[Any] | None) -> Sharing:
    check_choice(name, by, get_args(By))
    there = jax.devices()
    if devices is None:
        devices = there
    elif isinstance(devices, int):
        check_integer("devices", devices, 1, len(there))
        devices = there[:devices]
    elif not len(devices):
        raise InvalidArgumentError(f"must be a number or a list of devices, got {devices!r}.", "devices")
    found = _of(by, devices)
    if by == "runs" and found.has_others:
        raise InvalidArgumentError("must be `rows` for the devices of several processes, got 'runs'.", name)
    return found


def _of(by: By, devices: Any) -> Sharing:
    return Sharing(by, Mesh(np.array(list(devices)), (by,)))
