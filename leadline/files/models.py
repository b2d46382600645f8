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
from leadline._foreign import shown
from leadline._registry import is_own
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


REGISTRIES = (FAMILIES, LIKELIHOODS, BLOCKS)


def known_modules() -> dict[str, type]:
    """What a file may hold, by name: nothing else is ever built from one.

    Leadline's own classes are called as they are; one that is registered by what it is and its name, as `depth family
    geometric`, wherever it is defined, and the parts of such a block by its name and theirs.
    """
    parts = (Model, UnboundedNetwork, FixedDepth)
    known: dict[str, type] = {kind.__name__: kind for kind in parts}
    for registry in REGISTRIES:
        for name, kind in registry.items():
            called = f"{registry.what} {name}"
            known[kind.__name__ if is_own(kind) else called] = kind
            for part in getattr(kind, "parts", ()):
                known[part.__name__ if is_own(part) else f"{called} {part.__name__}"] = part
    return {"Block": Dense, **known}  # its name in format 1


def describe(module: eqx.Module, name: str, tensors: Tensors) -> dict[str, Any]:
    """A module as JSON, its arrays put among the tensors.

    Args:
        module: of the kinds that a file may hold, as are the modules inside it.
        name: what the names of its tensors begin with.
        tensors: where they go.

    Returns:
        What `rebuild` takes.
    """
    called = {kind: name for name, kind in known_modules().items()}.get(type(module))
    if called is None:
        raise InvalidArgumentError(_not_held(type(module)), name)
    fields: dict[str, Any] = {}
    for field in dataclasses.fields(module):
        value, path = getattr(module, field.name), f"{name}.{field.name}"
        if isinstance(value, eqx.Module):
            fields[field.name] = describe(value, path, tensors)
        elif isinstance(value, tuple) and value and all(isinstance(one, eqx.Module) for one in value):
            fields[field.name] = {"modules": [describe(one, f"{path}.{i}", tensors) for i, one in enumerate(value)]}
        elif isinstance(value, jax.Array | np.ndarray):
            tensors[path] = np.asarray(value)
            fields[field.name] = {"tensor": path}
        elif isinstance(value, tuple) and all(map(_is_plain, value)):
            fields[field.name] = {"values": [_plain(one) for one in value]}
        elif _is_plain(value):
            fields[field.name] = {"value": _plain(value)}
        else:
            kinds = "numbers, text, arrays and tuples of numbers or text"
            raise InvalidArgumentError(f"is a {type(value).__name__}, and a model file holds {kinds} alone.", path)
    return {"module": called, "fields": fields}


def _not_held(kind: type) -> str:
    """Why, and how to make a file hold it."""
    registry = getattr(kind, "registry", None)
    if registry is None or is_own(kind):
        return f"is a {kind.__name__}, which a model file cannot hold; pickle the estimator instead."
    return (
        f"is a {kind.__name__}, which a model file holds only where it is registered: call "
        f"`leadline.register({kind.__name__}, name=...)`, or pickle the estimator instead."
    )


def _is_plain(value: Any) -> bool:
    """Whether JSON has it as it is."""
    return value is None or isinstance(value, bool | int | float | str | np.bool_ | np.integer | np.floating)


def rebuild(description: dict[str, Any], tensors: Tensors) -> Any:
    """The module that was described."""
    called = description["module"]
    kind = known_modules().get(called)
    if kind is None:
        raise InvalidArgumentError(_not_known(called))
    module, fields = object.__new__(kind), dataclasses.fields(kind)
    if not is_own(kind) and set(description["fields"]) != {field.name for field in fields}:
        has, given = (", ".join(sorted(names)) for names in ({field.name for field in fields}, description["fields"]))
        raise InvalidArgumentError(
            f"`path`: the file has the {called} with the fields {given}, and {kind.__name__}, which is registered so, "
            f"has {has}; register the class that was saved."
        )
    for field in fields:
        given = description["fields"][field.name]
        if "module" in given:
            value = rebuild(given, tensors)
        elif "modules" in given:
            value = tuple(rebuild(one, tensors) for one in given["modules"])
        elif "tensor" in given:
            value = on_device(tensors[given["tensor"]])
        else:
            value = _checked(field, given["value"]) if is_own(kind) else _checked_plain(field, given)
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


def _checked_plain(field: dataclasses.Field[Any], given: dict[str, Any]) -> Any:
    """What a field of a registered class may have: plain values, whatever they are to it."""
    values = given["values"] if "values" in given else [given["value"]]
    if not isinstance(values, list) or not all(map(_is_plain, values)):
        raise ValueError(f"{field.name} is {values!r}")
    return tuple(values) if "values" in given else values[0]


def _not_known(called: Any) -> str:
    """What to do about a file that holds such a thing."""
    for registry in REGISTRIES:
        if isinstance(called, str) and called.startswith(f"{registry.what} "):
            name = shown(called.removeprefix(f"{registry.what} ").split(" ")[0])
            way_out = f"import what registers it, or call `leadline.register` with its class and the name {name!r}"
            return f"`path`: the file holds the {registry.what} {name!r}, which is not registered; {way_out}."
    return f"`path`: the file holds a {called!r}, which this version does not know."


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
            sizes = getattr(annotation, "dim_str", "...")  # jaxtyping's, to which the runs come
            fixed = "*" not in sizes and "..." not in sizes
            if eqx.is_array(value) and fixed and value.ndim != 1 + len(sizes.split()):
                raise ValueError(f"{field.name} has the shape {value.shape}")
    return models


def describe_parameters(parameters: dict[str, Any], tensors: Tensors) -> dict[str, Any]:
    """An estimator's parameters as JSON; what only Python knows is left out."""
    result = {name: value for name, value in parameters.items() if not name.startswith("checkpoint_")}
    result |= {"callback": None, "verbose": False}  # neither decides what is learned
    if not isinstance(result["random_state"], int | np.integer):
        result["random_state"] = None
    if isinstance(result["recipe"], Recipe):
        fields = {one.name: getattr(result["recipe"], one.name) for one in dataclasses.fields(Recipe)}
        # Without what only Python knows: functions, and what a subclass adds, are of no use to a prediction.
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
