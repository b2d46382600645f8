"""One name for one thing: the same bits and words have the same digest, in every process."""

import dataclasses
import hashlib
import sys
from collections.abc import Iterable, Mapping
from functools import partial
from types import CodeType, FunctionType
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from leadline._version import __version__

_SETTLED = {*sys.stdlib_module_names, "equinox", "jax", "jaxlib", "jaxtyping", "leadline", "numpy", "optax", "scipy"}
"""Whose code is that of a version: theirs is known by its name."""

_PLAIN = (bool, int, float, complex, str, bytes, np.ndarray, jax.Array, np.generic)
"""Of what a function finds outside of itself, what decides what it does, beside other functions and classes."""


def identity(*given: Any) -> str:
    """A digest of all arrays by their bits, of functions and classes by what they do, and of the rest by what it says
    of itself.

    Of a function or a class that is not of Leadline or what it is made with, the compiled code is meant: with the
    functions, classes and numbers that it takes from its own module, and as it runs, which a source that was edited
    since does not say.

    Args:
        given: arrays, keys, numbers, text, functions, classes, and pytrees, dataclasses, lists and dicts of these.

    Returns:
        Sixty-four hexadecimal digits: the same for the same, in every process of one version.
    """
    digest, seen = hashlib.sha256(__version__.encode()), set[int]()
    for part in _said(given, seen):
        digest.update(part + b";")
    return digest.hexdigest()


def _said(value: Any, seen: set[int]) -> list[bytes]:
    """What a value says of itself, part by part; of a function or a class in `seen`, its name alone."""
    if is_key(value):
        value = jax.random.key_data(value)
    if isinstance(value, np.ndarray | jax.Array | np.generic):
        array = np.asarray(value)
        return [f"{array.dtype} {array.shape}".encode(), np.ascontiguousarray(array).tobytes()]
    if dataclasses.is_dataclass(value) and not isinstance(value, type):  # so are all modules
        fields = [(one.name, getattr(value, one.name, None)) for one in dataclasses.fields(value)]
        return _each([type(value), *fields], seen)
    if isinstance(value, list | tuple):
        return [f"{type(value).__name__} {len(value)}".encode(), *_each(value, seen)]
    if isinstance(value, set | frozenset):
        return [f"set {len(value)}".encode(), *sorted(b"".join(_said(one, seen)) for one in value)]
    if isinstance(value, Mapping):
        return [f"mapping {len(value)}".encode(), *_each([part for pair in value.items() for part in pair], seen)]
    if isinstance(value, partial):
        return [b"partial", *_each([value.func, value.args, value.keywords], seen)]
    if isinstance(value, CodeType):
        return [value.co_code, *_each([*value.co_names, *value.co_consts], seen)]
    if isinstance(value, FunctionType | type):
        return _said_of_code(value, seen)
    if isinstance(value, property):
        return [b"property", *_each([value.fget, value.fset], seen)]
    if isinstance(value, classmethod | staticmethod):
        return [type(value).__name__.encode(), *_said(value.__func__, seen)]
    if " at 0x" in repr(value):  # of its place in memory, which says nothing
        inside = getattr(value, "__wrapped__", None) or getattr(value, "__dict__", {})
        return [f"{type(value).__module__}.{type(value).__qualname__}".encode(), *_said(inside, seen)]
    return [repr(value).encode()]


def _said_of_code(value: Any, seen: set[int]) -> list[bytes]:
    """What a function or a class does."""
    name, settled = f"{value.__module__}.{value.__qualname__}".encode(), is_settled(value)
    if id(value) in seen or (settled and isinstance(value, type)):
        return [name]
    seen.add(id(value))
    if isinstance(value, type):
        strange = [one for one in value.__mro__ if not is_settled(one)]
        return [name, *_each([(n, v) for one in strange for n, v in sorted(vars(one).items()) if _acts(n, v)], seen)]
    cells = [cell.cell_contents for cell in value.__closure__ or ()]
    around = [] if settled else [(n, v) for n, v in _taken(value) if _decides(v)]
    return [name, *_each([value.__code__, value.__defaults__, value.__kwdefaults__, cells, around], seen)]


def is_settled(value: Any) -> bool:
    """Whether a class or a function is of a version of Leadline, or of what it is made with."""
    return str(value.__module__).partition(".")[0] in _SETTLED


def _acts(name: str, value: Any) -> bool:
    """Whether what a class has under a name is somebody's, and not what Python and Equinox put there."""
    return not (name.startswith("__") and name.endswith("__")) or isinstance(value, FunctionType)


def _decides(value: Any) -> bool:
    """Whether what a function finds in its module is somebody's code, or a number."""
    value = getattr(value, "__wrapped__", value)
    if isinstance(value, FunctionType | type):
        return not is_settled(value)
    return isinstance(value, _PLAIN) or (isinstance(value, tuple) and all(map(_decides, value)))


def _taken(function: FunctionType) -> Iterable[tuple[str, Any]]:
    """What a function takes from its module, by name."""
    codes, names = [function.__code__], set[str]()
    while codes:
        code = codes.pop()
        names.update(code.co_names)
        codes += [one for one in code.co_consts if isinstance(one, CodeType)]
    return [(name, function.__globals__[name]) for name in sorted(names) if name in function.__globals__]


def _each(values: Any, seen: set[int]) -> list[bytes]:
    return [part for value in values for part in _said(value, seen)]


def is_key(leaf: Any) -> bool:
    """Whether it is an array of JAX's random keys."""
    return eqx.is_array(leaf) and jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key)
