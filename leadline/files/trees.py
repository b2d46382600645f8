"""Pytrees become named tensors, and named tensors the same pytrees again; for model files and checkpoints."""

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any, Literal, get_args, get_origin

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import PyTree

from leadline._checks import InvalidArgumentError
from leadline._identity import is_key

Tensors = dict[str, np.ndarray]


class DamagedError(ValueError):
    """The file is not what was written."""


def flatten(tree: PyTree, prefix: str) -> Tensors:
    """All arrays of a tree by their places in it; random keys as their words."""
    return {
        name: np.array(jax.random.key_data(leaf) if is_key(leaf) else leaf, order="C")
        for name, leaf in _named(tree, prefix).items()
    }


def _named(tree: PyTree, prefix: str) -> dict[str, Any]:
    paths, _ = jax.tree_util.tree_flatten_with_path(tree)
    return {prefix + jax.tree_util.keystr(path): leaf for path, leaf in paths}


def fill(
    like: PyTree, prefix: str, tensors: Tensors, free_axis: Callable[[str], int | None] = lambda name: None
) -> PyTree:
    """The tree with the arrays of a file.

    Args:
        like: a tree of the same structure, types and sizes.
        prefix: as it was flattened with.
        tensors: what the file holds.
        free_axis: the axis of an array, by its name, whose size is the file's to say, once for all of them.

    Returns:
        The tree that was flattened, or a `DamagedError`.
    """
    leaves, sizes_said = [], set[int]()
    for name, leaf in _named(like, prefix).items():
        if name not in tensors:
            raise DamagedError(f"it has no {name}")
        array, expected = tensors[name], jax.random.key_data(leaf) if is_key(leaf) else leaf
        sizes, free = list(expected.shape), free_axis(name)
        if free is not None and array.ndim > free:
            sizes[free] = array.shape[free]
            sizes_said.add(array.shape[free])
        if array.dtype != expected.dtype or list(array.shape) != sizes or len(sizes_said) > 1:
            raise DamagedError(f"its {name} is of another kind")
        leaves.append(jax.random.wrap_key_data(jnp.asarray(array)) if is_key(leaf) else jnp.asarray(array))
    return jax.tree.unflatten(jax.tree.structure(like), leaves)


def describe(module: eqx.Module, name: str, tensors: Tensors, known: Mapping[str, type]) -> dict[str, Any]:
    """A module as JSON, its arrays put among the tensors.

    Args:
        module: of the `known` kinds, as are the modules inside it.
        name: what the names of its tensors begin with.
        tensors: where they go.
        known: what a file may hold, by name.

    Returns:
        What `rebuild` takes.
    """
    kind = type(module).__name__
    if known.get(kind) is not type(module):
        raise InvalidArgumentError(f"is a {kind}, which a model file cannot hold; pickle the estimator instead.", name)
    fields: dict[str, Any] = {}
    for field in dataclasses.fields(module):
        value, path = getattr(module, field.name), f"{name}.{field.name}"
        if isinstance(value, eqx.Module):
            fields[field.name] = describe(value, path, tensors, known)
        elif eqx.is_array(value):
            tensors[path] = np.asarray(value)
            fields[field.name] = {"tensor": path}
        else:
            fields[field.name] = {"value": value}
    return {"module": kind, "fields": fields}


def rebuild(description: dict[str, Any], tensors: Tensors, known: Mapping[str, type]) -> Any:
    """The module that was described; nothing but what is `known` is ever built."""
    kind = known.get(description["module"])
    if kind is None:
        raise InvalidArgumentError(
            f"`path`: the file holds a {description['module']!r}, which this version does not know."
        )
    module = object.__new__(kind)
    for field in dataclasses.fields(kind):
        given = description["fields"][field.name]
        if "module" in given:
            value = rebuild(given, tensors, known)
        else:
            value = jnp.asarray(tensors[given["tensor"]]) if "tensor" in given else _checked(field, given["value"])
        object.__setattr__(module, field.name, value)
    return module


def _checked(field: dataclasses.Field[Any], value: Any) -> Any:
    """A value that the field may have."""
    choices = get_args(field.type)
    fits = {float: isinstance(value, int | float), int: isinstance(value, int) and not isinstance(value, bool)}
    if not (value in choices if get_origin(field.type) is Literal else fits.get(field.type, value is None)):
        raise ValueError(f"{field.name} is {value!r}")
    return value
