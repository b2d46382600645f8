"""What the device at hand can do: all questions about it are asked here."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp

from leadline.backend.forks import in_use
from leadline.backend.native import library
from leadline.backend.numerics import rounds_factors
from leadline.backend.sharding import rows_are_split, sharing

NETWORK_BYTES = 2 * 2**20
"""Of the memory of a GPU, for one of many networks that train in one program."""

MOST_UNITS = 64
"""Wider layers do not fit into the registers of a kernel's program."""


@dataclass(frozen=True)
class Backend:
    """A kind of device, and what follows from it."""

    platform: str
    """As JAX calls it: `cpu`, `gpu`, `tpu`."""
    has_kernels: bool = False
    """Whether it is a GPU that `kernels.py` is written for: NVIDIA's, from the A100's generation on."""
    interprets_kernels: bool = False
    """Without a GPU the kernels can be tried, slowly."""
    n_devices: int = 1
    """That share the runs of a program (`sharding.py`)."""
    has_engine: bool = False
    """Whether it is a CPU for which the engine (`native`) was built; it computes in single precision."""

    @property
    def loops_are_dynamic(self) -> bool:
        """Whether a loop may have a length that is data; else all rows are walked, and masked."""
        return self.platform == "cpu"

    @property
    def rows_at_once(self) -> int:
        """Rows are predicted in pieces of this size: memory does not grow with their number, and a cache holds one."""
        return 1024 if self.platform == "cpu" else 16384

    @property
    def networks_at_once(self) -> int:
        """Networks that are best trained in one program; on a GPU some `NETWORK_BYTES` each, on a CPU a core has
        enough of one."""
        return self.n_devices * (1 if self.platform == "cpu" else 2048)

    def kernels_fit(self, n_inputs: int, width: int, n_outputs: int) -> bool:
        """Whether the layers of such a network are walked by kernels."""
        small = max(n_inputs, width, n_outputs) <= MOST_UNITS
        single = jax.dtypes.canonicalize_dtype(float) == jnp.float32 and not rounds_factors()
        return small and single and self.has_kernels


_PRETENDED: list[Backend] = []


def backend() -> Backend:
    """The device that JAX computes on by default (`jax_default_device` counts).

    `LEADLINE_KERNELS=0` in the environment leaves everything on a GPU to XLA, `LEADLINE_NATIVE=0` on a CPU.
    """
    in_use()
    if _PRETENDED:
        return _PRETENDED[-1]
    device = jax.config.jax_default_device  # a device, a name or None  # pyright: ignore[reportAttributeAccessIssue]
    platform = jax.default_backend() if device is None else getattr(device, "platform", device)
    is_cpu = platform == "cpu"
    kernels = not is_cpu and os.environ.get("LEADLINE_KERNELS") != "0" and _is_written_for()
    kernels = kernels and not rows_are_split()  # XLA cannot divide what a kernel does
    native = is_cpu and os.environ.get("LEADLINE_NATIVE") != "0" and library.engine() is not None
    single = not jax.config.jax_enable_x64  # pyright: ignore[reportAttributeAccessIssue]
    shared = sharing()
    n_devices = shared.mesh.size if shared is not None and shared.by == "runs" else 1
    return Backend(platform, kernels, is_cpu, n_devices, has_engine=native and single)


def _device() -> Any:
    device = jax.config.jax_default_device  # pyright: ignore[reportAttributeAccessIssue]
    return jax.devices(device)[0] if device is None or isinstance(device, str) else device


def _is_written_for() -> bool:
    try:
        return float(_device().compute_capability) >= 8
    except (RuntimeError, AttributeError, ValueError):  # another maker's
        return False


@contextmanager
def pretending(other: Backend) -> Iterator[None]:
    """Compute as on another device, to test what is done there."""
    _PRETENDED.append(other)
    try:
        yield
    finally:
        _PRETENDED.pop()


def missing() -> str | None:
    """What is wrong with the devices that JAX was told to use, if there are none."""
    try:
        jax.devices()
    except (RuntimeError, AssertionError) as error:  # the latter where it has no words
        why = f" ({error})" if str(error) else ""
        asked = os.environ.get("JAX_PLATFORMS", "")
        return f"`JAX_PLATFORMS`: JAX finds no device of {asked!r} here{why}; " + ("unset it." if asked else "set it.")


def device_name() -> str:
    """Of the device, for a record."""
    return _device().device_kind


def networks_that_fit() -> int:
    """Of those that are best trained in one program, as many as half of the device's memory has room for."""
    memory = (_device().memory_stats() or {}).get("bytes_limit")
    most = backend().networks_at_once
    return most if memory is None else max(1, min(most, memory // (2 * NETWORK_BYTES)))


def n_cores() -> int:
    """That this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def n_threads() -> int:
    """Of the engine: a core each, but `OMP_NUM_THREADS` at most, by which pools of processes share the cores."""
    asked = os.environ.get("OMP_NUM_THREADS", "")
    return max(1, min(n_cores(), int(asked))) if asked.isdigit() else n_cores()
