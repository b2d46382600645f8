"""A model file becomes an estimator again; nothing in it is believed before it is checked."""

import os
import re
from copy import copy
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import numpy as np

from leadline._checks import InvalidArgumentError, check_integer
from leadline.estimators import DepthClassifier, DepthRegressor, images
from leadline.estimators.encoder import TableEncoder
from leadline.files import models as modelfile
from leadline.files.directories import MODEL, RECORD
from leadline.files.formats import TableFormat
from leadline.files.ours import digest
from leadline.files.records import Record, read_record
from leadline.files.whole import read_regular
from leadline.inference.calibration import no_calibration
from leadline.inference.recipes import get_recipe
from leadline.training.trained import History

LARGEST_MOMENT = 1e30
"""Of a prediction in the network's units: other draws and other rows than those that are tried still have room."""

ORDINARY = np.array([[0.0], [1.0], [-1.0], [10.0], [-10.0]])
"""Rows that are tried, in standard deviations of the columns."""

_NAMES: dict[str, Any] = {"feature_names_in_": object, "classes_": None}
"""The arrays that may hold text, and their types; all other arrays are tensors."""


def load(path: str | os.PathLike[str]) -> DepthClassifier | DepthRegressor:
    """The estimator that `save` or `leadline fit` wrote.

    Args:
        path: of the model file, or the directory that `leadline fit` wrote.

    Returns:
        An estimator with the same predictions, to the bit. What was fitted to a raw table takes raw tables: frames with
        these columns, in any order.

    Examples:
        >>> from leadline import DepthClassifier, load
        >>> clf = DepthClassifier(width=4, n_restarts=1, max_iter=5).fit([[-1.0], [1.0]] * 8, [0, 1] * 8)
        >>> clf.save("small.safetensors")
        >>> bool((load("small.safetensors").predict_proba([[0.5]]) == clf.predict_proba([[0.5]])).all())
        True
    """
    record, folder = None, Path(path)
    if folder.is_dir():
        path = folder / MODEL
        record = read_record(folder) if (folder / RECORD).exists() else None
    config, tensors = modelfile.read(path)
    with modelfile.reading(path):
        estimator = _rebuilt(config, tensors, path)
        if record is not None:
            _check_together(estimator, record, path)
    return estimator


def _check_together(estimator: DepthClassifier | DepthRegressor, record: Record, path: Any) -> None:
    """The record and the model are of one training; of an older version, the record says how its table is read."""
    other = record.model is not None and record.model != digest(read_regular(path))
    if record.table is not None and not other:
        fmt = TableFormat.from_json(record.table)
        if estimator.encoder_ is None:
            names = [column.name for column in fmt.encoding.columns]
            estimator.encoder_ = TableEncoder.of(fmt.encoding, names)
            estimator.n_features_in_, estimator.feature_names_in_ = len(names), np.array(names, object)
            estimator.target_name_ = fmt.target
        learned = estimator.encoder_.encoding_.features()
        other = learned != fmt.encoding.features() or len(learned) != estimator.model_.network.n_inputs
        other |= (fmt.task == "classification") != hasattr(estimator, "classes_")
    if other:
        raise InvalidArgumentError(f"the record and the model in {path.parent} are not of one training; fit again.")


def _rebuilt(config: dict[str, Any], tensors: modelfile.Tensors, path: Any) -> DepthClassifier | DepthRegressor:
    kinds = {"DepthClassifier": DepthClassifier, "DepthRegressor": DepthRegressor}
    if config.get("estimator") not in kinds:
        raise InvalidArgumentError(
            f"`path`: {path} holds {config.get('estimator')!r}, which this version does not know."
        )
    parameters = modelfile.rebuild_parameters(config["parameters"], tensors)
    if parameters.get("encoder") is not None:
        parameters["encoder"] = TableEncoder(**parameters["encoder"])
    estimator = kinds[config["estimator"]](**parameters)
    estimator.encoder_ = estimator.target_name_ = None  # of an older version, or of arrays
    fitted = config["fitted"] | {name: tensor for name, tensor in tensors.items() if "." not in name}
    if (encoder := fitted.pop("encoder_", None)) is not None:
        estimator.encoder_ = TableEncoder.from_json(encoder)
    for name, value in fitted.items():
        if not re.fullmatch("[a-z][a-z0-9_]*_", name) or hasattr(type(estimator), name):
            raise ValueError(f"it has a {name!r}")  # what `fit` learns ends in an underscore
        setattr(estimator, name, np.array(value, _NAMES[name]) if name in _NAMES else value)
    estimator.depth_support_ = tuple(estimator.depth_support_)
    estimator.image_shape_ = getattr(estimator, "image_shape_", None)  # an older version has no images
    history = {name: column for name, column in tensors.items() if name.startswith("history.")}
    estimator.history_ = History({name.removeprefix("history."): column for name, column in history.items()})
    estimator.model_ = modelfile.check_fits_together(modelfile.rebuild(config["model"], tensors))
    _check_fitted(estimator)
    _check_predicts(estimator)
    return estimator


def _check_fitted(estimator: DepthClassifier | DepthRegressor) -> None:
    """What predictions need is there, of the right size and in its range."""
    models = estimator.model_
    n_inputs, likelihood = models.network.n_inputs, cast("Any", models.likelihood)
    (n_restarts,), n_targets = models.runs, likelihood.n_spreads
    if not hasattr(estimator, "spread_"):  # of an older version
        equal = no_calibration(n_restarts, n_targets)
        estimator.restart_shares_, estimator.spread_ = equal.share, equal.spread
    if not hasattr(estimator, "restart_temperatures_"):
        estimator.held_out_nll_ = None
        estimator.restart_temperatures_ = np.full(n_restarts, float(estimator.temperature_))
    sizes: dict[str, tuple[int, ...]] = {"x_mean_": (n_inputs,), "x_scale_": (n_inputs,)}
    asked = estimator._likelihood
    if (likelihood.kind, likelihood.judged) != (asked.kind, asked.judged):
        raise TypeError(f"a {type(estimator).__name__} with a {type(likelihood).__name__}")
    if isinstance(estimator, DepthClassifier):
        sizes["classes_"] = (likelihood.n_classes,)
    else:
        each = () if n_targets == 1 and np.ndim(estimator.y_mean_) == 0 else (n_targets,)
        sizes |= {"y_mean_": each, "y_scale_": each}
    sizes |= {"restart_shares_": models.runs, "restart_temperatures_": models.runs, "spread_": (n_targets,)}
    for name, size in sizes.items():
        value = np.asarray(getattr(estimator, name))
        if value.shape != size:
            raise ValueError(f"{name} has the shape {value.shape}, not {size}")
        if name == "classes_":
            continue
        if value.dtype.kind not in "iuf" or not np.isfinite(value).all():
            raise ValueError(f"{name} is not made of finite numbers")
        if not name.endswith("_mean_") and np.any(value < 0):
            raise ValueError(f"{name} has a number below 0")
        if name == "spread_" and np.any(value == 0):
            raise ValueError(f"{name} is 0")
    if not np.isclose(np.sum(estimator.restart_shares_), 1):
        raise ValueError("restart_shares_ are not shares of 1")
    check_integer("seed_", estimator.seed_, 0)
    if not isinstance(estimator.target_name_, str | None):
        raise TypeError(f"the target is called {estimator.target_name_!r}")
    get_recipe(estimator.recipe)  # which is checked
    estimator.image_shape_ = images.check_shape(estimator.image_shape_, n_inputs, estimator.block)
    encoder = estimator.encoder_
    if encoder is not None and len(encoder.encoding_.features()) != n_inputs:
        raise ValueError("its table does not give the numbers that the network takes")
    if getattr(estimator, "n_features_in_", None) != (n_inputs if encoder is None else len(encoder.names_)):
        raise ValueError("n_features_in_ is not the network's")


def _check_predicts(estimator: DepthClassifier | DepthRegressor) -> None:
    """What is taken predicts finite numbers, here from one draw of the weights for every restart."""
    trial = copy(estimator)
    trial.recipe = replace(get_recipe(estimator.recipe), n_samples=1)
    with np.errstate(all="ignore"):
        x = trial._units.inputs(trial.x_mean_ + ORDINARY * trial.x_scale_)
        moments = trial._restarts.moments(x) if np.isfinite(x).all() else np.array(np.inf)
        said = trial._mean_and_std(x) if isinstance(trial, DepthRegressor) and moments.ndim else ()
    if not (np.abs(moments) <= LARGEST_MOMENT).all() or not np.isfinite(said).all():
        raise ValueError("what it predicts for ordinary rows is not finite")
