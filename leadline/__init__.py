"""Leadline: Bayesian neural networks that learn their own depth."""
# ruff: noqa: F401

from importlib import import_module
from typing import TYPE_CHECKING, Any

from leadline._version import __version__

if TYPE_CHECKING:
    from leadline import callbacks, datasets, metrics
    from leadline._checks import DataWarning, InvalidArgumentError, UnfinishedWarning
    from leadline._registry import PluginWarning, register
    from leadline.backend.sharding import sharded
    from leadline.depth import (
        BetaBinomialDepth,
        CategoricalDepth,
        ConwayMaxwellPoissonDepth,
        DepthDistribution,
        DiscreteGammaDepth,
        FixedDepth,
        GeneralisedPoissonDepth,
        NegativeBinomialDepth,
        NormalDepth,
        PoissonDepth,
        truncated,
    )
    from leadline.estimators import DepthClassifier, DepthRegressor
    from leadline.estimators.encoder import TableEncoder
    from leadline.estimators.loading import load
    from leadline.inference.free_energy import FreeEnergy, free_energy
    from leadline.inference.joint import log_joint, outputs_by_depth, sample_weights
    from leadline.inference.model import Model, run_model
    from leadline.inference.predict import evaluate_free_energy, log_likelihood, predict
    from leadline.inference.pruning import Pruning, effective_width, prune
    from leadline.inference.recipes import RECIPES, Recipe
    from leadline.inference.uncertainty import Uncertainty, uncertainty
    from leadline.likelihoods import (
        CategoricalLikelihood,
        GaussianLikelihood,
        HeteroscedasticLikelihood,
        Likelihood,
        NumberLikelihood,
    )
    from leadline.network.blocks import Block
    from leadline.network.layers import GaussianLinear
    from leadline.network.unbounded import UnboundedNetwork
    from leadline.studies.compare import compare
    from leadline.studies.comparison import Comparison
    from leadline.studies.runners.ray import RayRunner
    from leadline.studies.search import Swept, sweep
    from leadline.training import (
        Problem,
        Settings,
        Trained,
        Training,
        TrainingDivergedError,
        Units,
        Watch,
        grow,
        init_models,
        train,
    )
    from leadline.training.bursts import Progress

_PLACES = {
    "_checks": "DataWarning InvalidArgumentError UnfinishedWarning",
    "_registry": "PluginWarning register",
    "backend.sharding": "sharded",
    "depth": (
        "BetaBinomialDepth CategoricalDepth ConwayMaxwellPoissonDepth DepthDistribution DiscreteGammaDepth FixedDepth "
        "GeneralisedPoissonDepth NegativeBinomialDepth NormalDepth PoissonDepth truncated"
    ),
    "estimators": "DepthClassifier DepthRegressor",
    "estimators.encoder": "TableEncoder",
    "estimators.loading": "load",
    "inference.free_energy": "FreeEnergy free_energy",
    "inference.joint": "log_joint outputs_by_depth sample_weights",
    "inference.model": "Model run_model",
    "inference.predict": "evaluate_free_energy log_likelihood predict",
    "inference.pruning": "Pruning effective_width prune",
    "inference.recipes": "RECIPES Recipe",
    "inference.uncertainty": "Uncertainty uncertainty",
    "likelihoods": ("CategoricalLikelihood GaussianLikelihood HeteroscedasticLikelihood Likelihood NumberLikelihood"),
    "network.blocks": "Block",
    "network.layers": "GaussianLinear",
    "network.unbounded": "UnboundedNetwork",
    "studies.compare": "compare",
    "studies.comparison": "Comparison",
    "studies.runners.ray": "RayRunner",
    "studies.search": "Swept sweep",
    "training.bursts": "Progress",
    "training": "Problem Settings Trained Training TrainingDivergedError Units Watch grow init_models train",
}
_MODULES = ("callbacks", "datasets", "metrics")
_PLACE_OF = {name: place for place, names in _PLACES.items() for name in names.split()}

__all__ = ["__version__", *_PLACE_OF]  # pyright: ignore[reportUnsupportedDunderAll]


def __getattr__(name: str) -> Any:
    """What is public comes when it is asked for: JAX and scikit-learn take a second to import."""
    if name in _MODULES:
        return import_module(f"leadline.{name}")
    if name not in _PLACE_OF:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    globals()[name] = value = getattr(import_module(f"leadline.{_PLACE_OF[name]}"), name)
    return value


def __dir__() -> list[str]:
    return sorted([*__all__, *_MODULES])
