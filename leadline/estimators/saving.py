"""What a fitted estimator's model file holds."""

from typing import Any

import numpy as np

from leadline._checks import InvalidArgumentError
from leadline.estimators.encoder import TableEncoder
from leadline.files import models as modelfile

Estimator = Any
"""One of ours, fitted."""


def _parameters(estimator: Estimator) -> dict[str, Any]:
    """Its arguments as a model file holds them: what an encoder has learned is among what was fitted."""
    said = estimator.get_params(deep=False)
    return said if estimator.encoder is None else {**said, "encoder": estimator.encoder.options()}


def model_file(estimator: Estimator) -> bytes:
    """All that is needed to predict with it, and what it says of its training."""
    tensors: modelfile.Tensors = {}
    fitted: dict[str, Any] = {}
    for name, value in vars(estimator).items():
        if not name.endswith("_") or name in ("model_", "history_", "fit_seconds_"):
            continue
        if isinstance(value, TableEncoder):
            fitted[name] = value.to_json()
        elif name == "image_shape_":
            fitted |= {} if value is None else {name: list(value)}
        elif isinstance(value, np.ndarray) and value.dtype.kind in "iufb":
            tensors[name] = value
        elif isinstance(value, np.ndarray) and value.dtype.kind not in "OU":
            raise InvalidArgumentError(
                f"`y` has classes of the type {value.dtype}, which no model file holds; fit with text for them."
            )
        else:
            fitted[name] = value.tolist() if isinstance(value, np.ndarray) else value
    tensors |= {f"history.{name}": column for name, column in estimator.history_.items()}
    config = {
        "estimator": type(estimator).__name__,
        "parameters": modelfile.describe_parameters(_parameters(estimator), tensors),
        "fitted": fitted,
        "model": modelfile.describe(estimator.model_, "model", tensors),
    }
    return modelfile.file_of(config, tensors)
