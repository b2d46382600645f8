"""How programs are compiled, and how long they are kept."""

import os
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, ParamSpec, TypeVar

import equinox as eqx
import jax

P = ParamSpec("P")
T = TypeVar("T")

_MOST_BYTES = 512 * 2**20
"""On disk; one shape of training takes 1 to 2 MB."""


def jit_lightly(function: Callable[P, T], **options: Any) -> Callable[P, T]:
    """`eqx.filter_jit` for what runs briefly: half to two thirds of the compile time, for slower code."""
    return eqx.filter_jit(function, compiler_options={"xla_backend_optimization_level": 1}, **options)  # pyright: ignore[reportCallIssue]


def keep_programs() -> None:
    """Have JAX keep compiled programs in the user's cache directory: the next process reads what this one compiled.

    JAX's own settings come first: `JAX_COMPILATION_CACHE_DIR` names another place, `JAX_ENABLE_COMPILATION_CACHE=0`
    turns it off.
    """
    if jax.config.values["jax_compilation_cache_dir"] or not jax.config.values["jax_enable_compilation_cache"]:
        return
    try:
        folder = _user_cache() / "leadline" / "programs"
        folder.mkdir(parents=True, exist_ok=True)
    except (OSError, RuntimeError):  # no home
        return
    if not os.access(folder, os.W_OK):
        return
    with suppress(OSError):  # what a process was killed over, or an older version wrote: JAX would write no more
        for program in folder.glob("*-cache"):
            if not program.with_name(program.name.removesuffix("-cache") + "-atime").exists():
                program.unlink(missing_ok=True)
    jax.config.update("jax_compilation_cache_dir", str(folder))
    if "JAX_COMPILATION_CACHE_MAX_SIZE" not in os.environ:  # JAX then locks the directory, and forgets the oldest
        jax.config.update("jax_compilation_cache_max_size", _MOST_BYTES)
    if "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS" not in os.environ:
        jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.1)


def _user_cache() -> Path:
    if sys.platform == "win32":
        return Path(os.environ.get("LOCALAPPDATA") or Path.home() / "AppData" / "Local")
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Caches"
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")


def make_room(most_mappings: int | None = None) -> None:
    """Forget the compiled programs of this process where they would soon be too many.

    XLA takes three memory mappings for every kernel on a CPU, some 2,000 for one shape of training. Linux allows a
    process 65,530, and one more is a segmentation fault: a search over thirty widths would end in it.
    """
    with suppress(OSError):
        if most_mappings is None:
            most_mappings = int(Path("/proc/sys/vm/max_map_count").read_text()) // 2
        with open("/proc/self/maps") as mappings:
            if sum(1 for _ in mappings) > most_mappings:
                jax.clear_caches()
