"""How programs are compiled, and how long they are kept."""

import os
import stat
import sys
import time
import warnings
import zlib
from collections.abc import Callable
from contextlib import suppress
from functools import wraps
from pathlib import Path
from typing import Any, ParamSpec, TypeVar

import equinox as eqx
import jax

from leadline.backend.forks import check_threads

P = ParamSpec("P")
T = TypeVar("T")

_MOST_BYTES = 512 * 2**20
"""On disk; one shape of training takes 1 to 2 MB."""

_LOOKED = ".looked"
"""A file whose time is that of the last look at the programs."""

_OF_ZLIB = b"\x78"
"""How what JAX packs with zlib begins."""


def jit(function: Callable[P, T], **options: Any) -> Callable[P, T]:
    """`eqx.filter_jit`; in a process that was forked, where it would wait for ever, one sentence."""
    compiled = eqx.filter_jit(function, **options)

    @wraps(function)
    def call(*args: P.args, **kwargs: P.kwargs) -> T:
        check_threads()
        return compiled(*args, **kwargs)

    return call


def jit_lightly(function: Callable[P, T], **options: Any) -> Callable[P, T]:
    """`jit` for what runs briefly: half to two thirds of the compile time, for slower code."""
    return jit(function, compiler_options={"xla_backend_optimization_level": 1}, **options)


class ProgramsNotKeptWarning(UserWarning):
    """Others could write where compiled programs are kept, so none are: the next process compiles again."""


def keep_programs() -> None:
    """Have JAX keep compiled programs in the user's cache directory: the next process reads what this one compiled.

    JAX's own settings come first: `JAX_COMPILATION_CACHE_DIR` names another place, `JAX_ENABLE_COMPILATION_CACHE=0`
    turns it off.
    """
    if jax.config.values["jax_compilation_cache_dir"] or not jax.config.values["jax_enable_compilation_cache"]:
        return
    try:
        folder = _own_folder()
    except (OSError, RuntimeError):  # no home
        return
    if folder is None or not os.access(folder, os.W_OK):
        return
    with suppress(OSError):
        _tidy(folder)
    jax.config.update("jax_compilation_cache_dir", str(folder))
    if "JAX_COMPILATION_CACHE_MAX_SIZE" not in os.environ:  # JAX then locks the directory, and forgets the oldest
        jax.config.update("jax_compilation_cache_max_size", _MOST_BYTES)
    if "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS" not in os.environ:
        jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.1)


def _own_folder() -> Path | None:
    """The user's alone, since what lies there is run; None, and a word about it, where others can write."""
    folder = _user_cache() / "leadline" / "programs"
    for one in (folder.parent, folder):
        one.mkdir(0o700, parents=True, exist_ok=True)
        about = one.stat()
        if os.name != "posix":
            continue
        others = about.st_uid != os.geteuid()
        if others or about.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
            why = f"{one} is another user's" if others else f"others can write into {one}"
            way_out = "name a directory of your own in XDG_CACHE_HOME" if others else "remove it, and it is made anew"
            said = f"compiled programs are not kept, since {why}; {way_out}."
            warnings.warn(said, ProgramsNotKeptWarning, stacklevel=3)
            return None
        if about.st_mode & 0o077:
            one.chmod(0o700)
    return folder


def _tidy(folder: Path) -> None:
    """Remove programs that JAX cannot read, which it would neither use nor replace: what a process was killed over, an
    older version wrote, or a machine that stopped cut short.

    Whether a program is whole is seen once, by the next process, in half a percent of the time that it took to compile.
    """
    looked = folder / _LOOKED
    since = looked.stat().st_mtime_ns if looked.exists() else time.time_ns()
    looked.touch(0o600)
    with os.scandir(folder) as entries:
        found = {entry.name: entry for entry in entries}
    for name, entry in found.items():
        if name.endswith("-cache") and (
            name.removesuffix("-cache") + "-atime" not in found
            or (entry.stat().st_mtime_ns >= since and not _is_whole(Path(entry)))
        ):
            Path(entry).unlink(missing_ok=True)


def _is_whole(program: Path) -> bool:
    """Whether it unpacks; what is not packed by zlib is taken at its word."""
    content = program.read_bytes()
    if content[:1] not in (b"", _OF_ZLIB):
        return True
    try:
        zlib.decompress(content)
    except zlib.error:
        return False
    return True


def _user_cache() -> Path:
    if sys.platform == "win32":
        return Path(os.environ.get("LOCALAPPDATA") or Path.home() / "AppData" / "Local")
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Caches"
    given = os.environ.get("XDG_CACHE_HOME", "")
    return Path(given) if os.path.isabs(given) else Path.home() / ".cache"  # its standard has others passed over


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
