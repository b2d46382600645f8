"""The engine as Python sees it: its structures, named as in `engine.cpp`, and the build for this machine."""

import ctypes
import warnings
from ctypes import POINTER, Structure, c_double, c_float, c_int32, c_int64, c_uint32, c_void_p
from functools import cache
from typing import Any

import numpy as np

from leadline.backend.native import build

PRIORS = {"fixed": 0, "unit": 1, "weight": 2}
DRAWS = {"local": 0, "weights": 1}
WANTS = {"outputs": 0, "components": 1, "moments": 2, "log_likelihood": 3, "nll": 4}


def _structure(name: str, **fields: Any) -> type[Structure]:
    return type(name, (Structure,), {"_fields_": list(fields.items())})


def _each(kind: Any, *names: str) -> dict[str, Any]:
    return dict.fromkeys(names, kind)


Learned = _structure("Learned", **_each(c_void_p, "numbers", "mu", "nu", "best", "count"))
DepthKind = _structure(
    "DepthKind",
    **_each(c_int32, "family", "n_numbers"),
    **_each(c_double, "lower_quantile", "upper_quantile"),
    **_each(c_int32, "integer_bounds", "depth"),
    floor=c_double,
)
Network = _structure(
    "Network",
    **_each(c_int32, "n_runs", "n_in", "width", "n_out", "capacity", "n_targets", "likelihood", "prior"),
    prior_scale=c_float,
    **_each(Learned, "first_layer", "first_head", "deeper_layer", "deeper_head", "noise", "depth"),
    posterior=POINTER(DepthKind),
    **_each(c_void_p, "log_prior", "opening", "best_opening", "most_opening", "key"),
)
Rows = _structure("Rows", **_each(c_void_p, "x", "y", "label", "weight"), n_rows=c_int64)
Part = _structure("Part", rows=c_void_p, **_each(c_int32, "n_rows", "size"))
Plan = _structure(
    "Plan",
    network=Network,
    data=Rows,
    **_each(Part, "train", "validation"),
    **_each(c_void_p, "table", "slowed", "clock_start", "clock_end", "clock_length", "temperature"),
    **_each(c_int32, "batch_size", "n_samples", "validate_every", "draw", "unfreeze", "keep_best", "has_temperature"),
    **_each(c_float, "learning_rate", "depth_learning_rate", "slower"),
    **_each(c_double, "warm_up", "warm_up_power", "decay_from"),
    **_each(c_int32, "epoch", "step", "end_epoch", "stop_epoch", "stop_step", "n_threads"),
    **_each(c_void_p, "validated", "best_free_energy", "history", "history_support", "reached"),
)
Question = _structure(
    "Question",
    network=Network,
    rows=Rows,
    rows_by_run=c_int64,
    log_mass=c_void_p,
    **_each(c_int32, "n_rows", "n_samples", "highest", "want", "n_threads"),
    **_each(c_void_p, "first", "second", "sums"),
)


class EngineMissingWarning(UserWarning):
    """The engine was not built: a training on a CPU has to be compiled first, and is slower."""


@cache
def engine() -> Any:
    """The library for this machine; None, and a word about it, where it was not built, or not from these sources."""
    library = _found()
    if library is None:
        warnings.warn(
            "the engine for CPUs is not built, and everything goes through JAX, which compiles first and is slower; "
            "`python -m leadline.backend.native.build` builds it with a C++ compiler, LEADLINE_NATIVE=0 leaves it out.",
            EngineMissingWarning,
            stacklevel=2,
        )
    return library


def _found() -> Any:
    try:
        can = ctypes.CDLL(str(build.library(0))).leadline_level()
        level = max(level for level in build.LEVELS if level <= can and build.library(level).exists())
        library = ctypes.CDLL(str(build.library(level)))
        library.leadline_source.restype = ctypes.c_char_p
        if library.leadline_source().decode() != build.source():
            return None
    except (OSError, AttributeError):
        return None
    library.leadline_train.argtypes = [POINTER(Plan)]
    library.leadline_evaluate.argtypes = [POINTER(Question)]
    library.leadline_kl.argtypes = [POINTER(Network), c_void_p, c_void_p]
    library.leadline_masses.argtypes = [POINTER(DepthKind), c_void_p, c_int32, c_void_p, c_void_p]
    library.leadline_normals.argtypes = [c_uint32, c_uint32, c_int64, c_void_p]
    for name in ("kl", "masses", "normals"):
        getattr(library, f"leadline_{name}").restype = None
    for name in ("train", "evaluate"):
        getattr(library, f"leadline_{name}").errcheck = _check_memory
    return library


def _check_memory(enough: int, function: Any, arguments: Any) -> None:
    if not enough:
        raise MemoryError("the engine has not enough memory; take fewer restarts, a smaller batch or a smaller width")


def at(array: np.ndarray | None) -> int | None:
    """Where an array's numbers are; whoever asks keeps the array."""
    if array is None:
        return None
    assert array.flags.c_contiguous
    return array.ctypes.data


def log_masses(kinds: Any, numbers: np.ndarray, n_depths: int) -> np.ndarray:
    """ln P(L) for L = 0 .. n_depths - 1 of every run, [runs, depths]."""
    result = np.empty((len(kinds), n_depths))
    for kind, own, row in zip(kinds, np.ascontiguousarray(numbers, np.float32), result, strict=True):
        slope = np.empty((n_depths, kind.n_numbers))
        engine().leadline_masses(kind, at(own), n_depths, at(row), at(slope))
    return result


def normals(words: np.ndarray, n: int) -> np.ndarray:
    """The first n standard normals of a key, given by its two words."""
    result = np.empty(n, np.float32)
    engine().leadline_normals(int(words[0]), int(words[1]), n, at(result))
    return result
