"""Model files: one safetensors file with the numbers, and their configuration as JSON in its header. Never a pickle."""

import dataclasses
import hashlib
import json
import os
from pathlib import Path
from typing import Any

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save

from leadline._checks import InvalidArgumentError
from leadline._files import write_whole
from leadline._version import __version__
from leadline.distributions import CategoricalDepth, FixedDepth, NormalDepth, PoissonDepth
from leadline.layers import GaussianLinear
from leadline.likelihoods import CategoricalLikelihood, GaussianLikelihood, HeteroscedasticLikelihood
from leadline.model import Model
from leadline.network import Block, UnboundedNetwork
from leadline.recipes import Recipe

FORMAT = 1
"""Grows when older versions could no longer read a file rightly."""

_MODULES = {
    module.__name__: module
    for module in (
        *(Model, UnboundedNetwork, Block, GaussianLinear),
        *(CategoricalLikelihood, GaussianLikelihood, HeteroscedasticLikelihood),
        *(NormalDepth, PoissonDepth, CategoricalDepth, FixedDepth),
    )
}
"""What a file may hold: nothing else is ever built from one."""

Tensors = dict[str, np.ndarray]


def describe(module: eqx.Module, name: str, tensors: Tensors) -> dict[str, Any]:
    """A module as JSON, its arrays put among the tensors."""
    kind = type(module).__name__
    if _MODULES.get(kind) is not type(module):
        raise InvalidArgumentError(
            f"`{name}` is a {kind}, which a model file cannot hold; pickle the estimator instead."
        )
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
    kind = _MODULES.get(description["module"])
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
            value = jnp.asarray(tensors[given["tensor"]]) if "tensor" in given else given["value"]
        object.__setattr__(module, field.name, value)
    return module


def describe_parameters(parameters: dict[str, Any], tensors: Tensors) -> dict[str, Any]:
    """An estimator's parameters as JSON; what only Python knows is left out."""
    result = {**parameters, "callback": None, "checkpoint_dir": None}
    if not isinstance(result["random_state"], int | np.integer):
        result["random_state"] = None
    if isinstance(result["recipe"], Recipe):
        result["recipe"] = dataclasses.asdict(result["recipe"])
    if isinstance(result["depth"], tuple):
        prior, posterior = result["depth"]
        result["depth"] = {
            "prior": describe(prior, "parameters.prior", tensors),
            "posterior": describe(posterior, "parameters.posterior", tensors),
        }
    if isinstance(result.get("class_weight"), dict):
        result["class_weight"] = {"pairs": [[_plain(k), _plain(v)] for k, v in result["class_weight"].items()]}
    return {name: _plain(value) for name, value in result.items()}


def rebuild_parameters(parameters: dict[str, Any], tensors: Tensors) -> dict[str, Any]:
    """The parameters that were described."""
    result = dict(parameters)
    if isinstance(result["recipe"], dict):
        result["recipe"] = Recipe(**{**result["recipe"], "initial_depth": tuple(result["recipe"]["initial_depth"])})
    if isinstance(result["depth"], dict):
        result["depth"] = tuple(rebuild(result["depth"][name], tensors) for name in ("prior", "posterior"))
    if isinstance(result.get("class_weight"), dict):
        result["class_weight"] = dict(result["class_weight"]["pairs"])
    return result


def _plain(value: Any) -> Any:
    """NumPy's numbers as Python's, which JSON knows."""
    return value.item() if isinstance(value, np.generic) else value


def write(path: str | os.PathLike[str], config: dict[str, Any], tensors: Tensors) -> None:
    """Write the file whole or not at all."""
    path = Path(path)
    if path.exists() and not path.is_file():
        raise InvalidArgumentError(f"`path` must be a file, got {path}, which is something else.")
    tensors = {name: np.asarray(tensor, order="C") for name, tensor in tensors.items()}
    header = {"leadline": __version__, "format": str(FORMAT), "config": json.dumps(config)}
    header["checksum"] = _checksum(header, tensors)
    try:
        write_whole(path, save(tensors, metadata=header))
    except (OSError, SafetensorError) as error:
        raise InvalidArgumentError(
            f"`path`: cannot write {path}: {getattr(error, 'strerror', None) or error}."
        ) from error


def read(path: str | os.PathLike[str]) -> tuple[dict[str, Any], Tensors]:
    """The configuration and the tensors of a file, checked."""
    if not Path(path).is_file():
        raise InvalidArgumentError(f"`path`: there is no model file {path}.")
    try:
        with safe_open(path, framework="numpy") as file:
            header = file.metadata() or {}
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    except (SafetensorError, OSError, ValueError, TypeError) as error:
        raise InvalidArgumentError(f"`path`: {path} is no model file, or is damaged: {error}.") from error
    if "leadline" not in header or not header.get("format", "").isdigit():
        raise InvalidArgumentError(f"`path`: {path} is a safetensors file, but not one of Leadline's.")
    if int(header["format"]) > FORMAT:
        raise InvalidArgumentError(
            f"`path`: {path} was written by Leadline {header['leadline']} in format {header['format']}, and this "
            f"version ({__version__}) reads formats up to {FORMAT}; install a newer one."
        )
    if header.get("checksum") != _checksum(header, tensors):
        raise InvalidArgumentError(f"`path`: {path} is damaged: its contents do not match its checksum.")
    return json.loads(header["config"]), tensors


def _checksum(header: dict[str, str], tensors: Tensors) -> str:
    said = [header.get(name, "") for name in ("leadline", "format", "config")]
    digest = hashlib.sha256(json.dumps(said).encode())
    for name in sorted(tensors):
        digest.update(f"{name} {tensors[name].dtype} {tensors[name].shape}".encode())
        digest.update(tensors[name].tobytes())
    return digest.hexdigest()
