"""Model files: one safetensors file with the numbers, and their configuration as JSON in its header. Never a pickle."""

import dataclasses
import hashlib
import json
import os
import re
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, Literal, cast, get_args, get_origin

import equinox as eqx
import jax
import numpy as np

from leadline._checks import InvalidArgumentError, refusing
from leadline._version import __version__
from leadline.backend.forks import on_device
from leadline.depth import FixedDepth
from leadline.depth.base import FAMILIES, DepthDistribution
from leadline.files import whole
from leadline.files.directories import writing
from leadline.inference.model import Model
from leadline.inference.recipes import Recipe
from leadline.likelihoods import LIKELIHOODS
from leadline.network.blocks import BLOCKS, Dense
from leadline.network.unbounded import UnboundedNetwork

Tensors = dict[str, np.ndarray]

FORMAT = 3
"""Grows when older versions could no longer read a file rightly."""

LARGEST = 1e18
"""Of the numbers in a model: no training comes near, and the squares of larger ones are no numbers of float32."""


def known_modules() -> dict[str, type]:
    """What a file may hold, by name: nothing else is ever built from one."""
    parts = (Model, UnboundedNetwork, FixedDepth)
    parts += tuple(part for block in BLOCKS.values() for part in block.parts)
    named = (*FAMILIES.values(), *LIKELIHOODS.values(), *BLOCKS.values())
    return {"Block": Dense, **{kind.__name__: kind for kind in (*parts, *named)}}  # `Block` is its name in format 1


def describe(module: eqx.Module, name: str, tensors: Tensors) -> dict[str, Any]:
    """A module as JSON, its arrays put among the tensors.

    Args:
        module: of the kinds that a file may hold, as are the modules inside it.
        name: what the names of its tensors begin with.
        tensors: where they go.

    Returns:
        What `rebuild` takes.
    """
    kind = type(module).__name__
    if known_modules().get(kind) is not type(module):
        raise InvalidArgumentError(f"is a {kind}, which a model file cannot hold; pickle the estimator instead.", name)
    fields: dict[str, Any] = {}
    for field in dataclasses.fields(module):
        value, path = getattr(module, field.name), f"{name}.{field.name}"
        if isinstance(value, eqx.Module):
            fields[field.name] = describe(value, path, tensors)
        elif eqx.is_array(value):
            tensors[path] = np.asarray(value)
            fields[field.name] = {"tensor": path}
        else:
            fields[field.name] = {"value": value}
    return {"module": kind, "fields": fields}


def rebuild(description: dict[str, Any], tensors: Tensors) -> Any:
    """The module that was described."""
    kind = known_modules().get(description["module"])
    if kind is None:
        raise InvalidArgumentError(
            f"`path`: the file holds a {description['module']!r}, which this version does not know."
        )
    module = object.__new__(kind)
    for field in dataclasses.fields(kind):
        given = description["fields"][field.name]
        if "module" in given:
            value = rebuild(given, tensors)
        else:
            value = on_device(tensors[given["tensor"]]) if "tensor" in given else _checked(field, given["value"])
        object.__setattr__(module, field.name, value)
    getattr(module, "__check_init__", lambda: None)()  # as Equinox does with one that is built
    return module


def _checked(field: dataclasses.Field[Any], value: Any) -> Any:
    """A value that the field may have."""
    choices = get_args(field.type)
    fits = {float: isinstance(value, int | float), int: isinstance(value, int) and not isinstance(value, bool)}
    if not (value in choices if get_origin(field.type) is Literal else fits.get(field.type, value is None)):
        raise ValueError(f"{field.name} is {value!r}")
    return value


def reading(path: str | os.PathLike[str]) -> AbstractContextManager[None]:
    """Whatever is wrong with what a file says becomes one sentence."""
    return refusing(f"`path`: {path} does not hold what Leadline writes")


def check_fits_together(models: Any) -> Model:
    """The models, if their parts are such, and of such sizes, as one training makes."""
    if not isinstance(models, Model):
        raise TypeError(f"the model is a {type(models).__name__}")
    for name in ("depth_prior", "depth_posterior"):
        if not isinstance(getattr(models, name), DepthDistribution):
            raise TypeError(f"{name} is a {type(getattr(models, name)).__name__}")
    first, deeper = models.network.first, models.network.deeper
    (runs,), (n_inputs, width, _) = first.stack, first.sizes
    layers, n_outputs = models.capacity, models.likelihood.n_outputs
    first.check_sizes((runs,), n_inputs, width, n_outputs)
    deeper.check_sizes((runs, layers), width, width, n_outputs)
    if 0 in (runs, width, n_inputs):
        raise ValueError(f"a network of {runs} runs, {width} wide, for {n_inputs} columns")
    for array in jax.tree.leaves(models):
        if array.shape[:1] != (runs,):
            raise ValueError(f"there are {runs} runs, and an array of shape {array.shape}")
        if array.dtype.name not in ("float32", "float64", "int32", "int64"):
            raise ValueError(f"there are numbers of the type {array.dtype} in the model")
        if not (np.abs(array) <= LARGEST).all():
            raise ValueError(f"there is a number in the model that is not finite, or beyond {LARGEST:g}")
    for part in (models.likelihood, models.depth_prior, models.depth_posterior):
        for field in dataclasses.fields(part):
            value, annotation = getattr(part, field.name), cast("Any", field.type)
            sizes = getattr(annotation, "dim_str", None)  # jaxtyping's, to which the runs come
            if eqx.is_array(value) and sizes is not None and value.ndim != 1 + len(sizes.split()):
                raise ValueError(f"{field.name} has the shape {value.shape}")
    return models


def describe_parameters(parameters: dict[str, Any], tensors: Tensors) -> dict[str, Any]:
    """An estimator's parameters as JSON; what only Python knows is left out."""
    result = {name: value for name, value in parameters.items() if not name.startswith("checkpoint_")}
    result |= {"callback": None, "verbose": False}  # neither decides what is learned
    if not isinstance(result["random_state"], int | np.integer):
        result["random_state"] = None
    if isinstance(result["recipe"], Recipe):
        fields = {one.name: getattr(result["recipe"], one.name) for one in dataclasses.fields(result["recipe"])}
        # Without what only Python knows: functions are of no use to a prediction.
        result["recipe"] = {name: fields[name] for name in fields if name not in ("optimiser", "schedule")}
    if isinstance(result["depth"], tuple):
        pair = zip(("prior", "posterior"), result["depth"], strict=True)
        result["depth"] = {name: describe(one, f"parameters.{name}", tensors) for name, one in pair}
    if isinstance(result.get("class_weight"), dict):
        result["class_weight"] = {"pairs": [[_plain(k), _plain(v)] for k, v in result["class_weight"].items()]}
    return {name: _plain(value) for name, value in result.items()}


def rebuild_parameters(parameters: dict[str, Any], tensors: Tensors) -> dict[str, Any]:
    """The parameters that were described."""
    result = dict(parameters)
    if any(name.startswith("checkpoint_") for name in result) or result["callback"] is not None:
        raise ValueError("its parameters are not those that are kept")  # nor may it say where to write
    if isinstance(result["recipe"], dict):
        fields = dict(result["recipe"])
        if "noise" in fields:  # its name in format 1
            fields["draw"] = fields.pop("noise")
        result["recipe"] = Recipe(**{**fields, "initial_depth": tuple(fields["initial_depth"])})
    if isinstance(result["depth"], dict):
        result["depth"] = tuple(rebuild(result["depth"][name], tensors) for name in ("prior", "posterior"))
    if isinstance(result.get("class_weight"), dict):
        result["class_weight"] = dict(result["class_weight"]["pairs"])
    return result


def _plain(value: Any) -> Any:
    """NumPy's numbers as Python's, which JSON knows."""
    return value.item() if isinstance(value, np.generic) else value


def write(path: str | os.PathLike[str], content: bytes) -> None:
    """Write the file whole or not at all."""
    path = Path(path)
    if path.exists() and not path.is_file():
        raise InvalidArgumentError(f"`path` must be a file, got {path}, which is something else.")
    with writing(path, "path"):
        whole.put_named(path, content)


def file_of(config: dict[str, Any], tensors: Tensors) -> bytes:
    """What stands in a model file."""
    tensors = {name: np.asarray(tensor, order="C") for name, tensor in tensors.items()}
    header = {"leadline": __version__, "format": str(FORMAT), "config": json.dumps(config)}
    header["checksum"] = _checksum(header, tensors)
    return _in_order(whole.packed(tensors, header))


def _in_order(content: bytes) -> bytes:
    """A safetensors file whose header is sorted, so that the same model is the same file."""
    n = int.from_bytes(content[:8], "little")
    header = json.dumps(json.loads(content[8 : 8 + n]), sort_keys=True, separators=(",", ":")).encode()
    header += b" " * (-len(header) % 8)
    return len(header).to_bytes(8, "little") + header + content[8 + n :]


def read(path: str | os.PathLike[str]) -> tuple[dict[str, Any], Tensors]:
    """The configuration and the tensors of a file, checked."""
    try:
        header, tensors = whole.unpacked(whole.read_regular(path))
    except IsADirectoryError as error:
        raise InvalidArgumentError(f"`path`: {path} is a directory, no model file; name the file in it.") from error
    except (FileNotFoundError, NotADirectoryError) as error:
        raise InvalidArgumentError(f"`path`: there is no model file {path}.") from error
    except OSError as error:
        raise InvalidArgumentError(f"`path`: {path} cannot be read: {whole.reason(error)}.") from error
    except ValueError as error:
        raise InvalidArgumentError(f"`path`: {path} is no model file, or is damaged: {whole.reason(error)}.") from error
    if "leadline" not in header or not re.fullmatch("[0-9]{1,9}", header.get("format", "")):
        raise InvalidArgumentError(f"`path`: {path} is a safetensors file, but not one of Leadline's.")
    if int(header["format"]) > FORMAT:
        raise InvalidArgumentError(
            f"`path`: {path} was written by Leadline {header['leadline']} in format {header['format']}, and this "
            f"version ({__version__}) reads formats up to {FORMAT}; install a newer one."
        )
    if header.get("checksum") != _checksum(header, tensors):
        raise InvalidArgumentError(f"`path`: {path} is damaged: its contents do not match its checksum.")
    with reading(path):
        config = json.loads(header["config"])
        if not isinstance(config, dict):
            raise TypeError(f"its configuration is a {type(config).__name__}")
    return config, tensors


def _checksum(header: dict[str, str], tensors: Tensors) -> str:
    """Of everything that a file says."""
    said = [header.get(name, "") for name in ("leadline", "format", "config")]
    digest = hashlib.sha256(json.dumps(said).encode())
    for name in sorted(tensors):
        digest.update(f"{name} {tensors[name].dtype} {tensors[name].shape}".encode())
        digest.update(tensors[name].tobytes())
    return digest.hexdigest()
