"""After a fork: none of the threads of JAX are in the new process, which would wait for them for ever."""

import os
from functools import cache
from threading import Event
from typing import Any

import jax
import numpy as np

_ALIGNED = 64
"""Bytes; an array that begins at a multiple of so many is taken as it is, without a thread that copies it."""

_FORKED = Event()


class AfterForkError(RuntimeError):
    """What is asked for needs JAX, and this process was forked from one that had used it."""


@cache
def in_use() -> None:
    """JAX has its threads, or will soon: whoever is forked from here on is not to wait for them."""
    if hasattr(os, "register_at_fork"):
        os.register_at_fork(after_in_child=_mark)


def _mark() -> None:
    if _FORKED.is_set():  # the child of a child
        return
    _FORKED.set()
    jax.monitoring.register_event_duration_secs_listener(lambda *_, **__: check_threads())  # heard before it compiles


def is_forked() -> bool:
    """Whether JAX was in use before this process was forked."""
    return _FORKED.is_set()


def check_threads() -> None:
    """Refuse what JAX would have to compute, where it cannot."""
    in_use()
    if is_forked():
        raise AfterForkError(
            "JAX was in use before this process was forked, and would wait for threads that are not here; start "
            'processes by "forkserver" or "spawn", as `multiprocessing.set_start_method` does.'
        )


def on_device(tree: Any) -> Any:
    """NumPy's arrays as JAX keeps them, after a fork, too."""
    return jax.device_put(jax.tree.map(_aligned, tree) if is_forked() else tree)


def _aligned(array: Any) -> Any:
    array = np.asarray(array)
    room = np.empty(array.nbytes + _ALIGNED, np.uint8)
    begin = -room.ctypes.data % _ALIGNED
    copy = room[begin : begin + array.nbytes].view(array.dtype).reshape(array.shape)
    copy[...] = array
    return copy
