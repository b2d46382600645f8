"""One name for one thing: the same bits and words have the same digest, in every process."""

import dataclasses
import hashlib
from collections.abc import Mapping
from functools import partial
from types import CodeType, FunctionType
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from leadline._version import __version__


def identity(*given: Any) -> str:
    """A digest of all arrays by their bits, of functions by what they do, and of the rest by what it says of itself.

    Args:
        given: arrays, keys, numbers, text, functions, and pytrees, dataclasses, lists and dicts of these.

    Returns:
        Sixty-four hexadecimal digits: the same for the same, in every process of one version.
    """
    digest = hashlib.sha256(__version__.encode())
    for part in _said(given):
        digest.update(part + b";")
    return digest.hexdigest()


def _said(value: Any) -> list[bytes]:
    """What a value says of itself, part by part."""
    if is_key(value):
        value = jax.random.key_data(value)
    if isinstance(value, np.ndarray | jax.Array | np.generic):
        array = np.asarray(value)
        return [f"{array.dtype} {array.shape}".encode(), np.ascontiguousarray(array).tobytes()]
    if isinstance(value, eqx.Module):
        leaves, structure = jax.tree.flatten(value)
        return [str(structure).encode(), *_each(leaves)]
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return [type(value).__name__.encode(), *_each([getattr(value, one.name) for one in dataclasses.fields(value)])]
    if isinstance(value, list | tuple):
        return [f"{type(value).__name__} {len(value)}".encode(), *_each(value)]
    if isinstance(value, Mapping):
        return [f"mapping {len(value)}".encode(), *_each([part for pair in value.items() for part in pair])]
    if isinstance(value, partial):
        return [b"partial", *_each([value.func, value.args, value.keywords])]
    if isinstance(value, CodeType):
        return [value.co_code, *_each([*value.co_names, *value.co_consts])]
    if isinstance(value, FunctionType):
        cells = [cell.cell_contents for cell in value.__closure__ or ()]
        name = f"{value.__module__}.{value.__qualname__}".encode()
        return [name, *_each([value.__code__, value.__defaults__, value.__kwdefaults__, cells])]
    if " at 0x" in repr(value):  # of its place in memory, which says nothing
        return [f"{type(value).__module__}.{type(value).__qualname__}".encode(), *_said(getattr(value, "__dict__", {}))]
    return [repr(value).encode()]


def _each(values: Any) -> list[bytes]:
    return [part for value in values for part in _said(value)]


def is_key(leaf: Any) -> bool:
    """Whether it is an array of JAX's random keys."""
    return eqx.is_array(leaf) and jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key)
