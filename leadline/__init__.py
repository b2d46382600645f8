"""Leadline: Bayesian neural networks that learn their own depth."""

from typing import TYPE_CHECKING, Any

from leadline._checks import InvalidArgumentError
from leadline._version import __version__
from leadline.backend.compilation import keep_programs
from leadline.depth import CategoricalDepth, DepthDistribution, FixedDepth, NormalDepth, PoissonDepth
from leadline.inference.free_energy import FreeEnergy, free_energy
from leadline.inference.model import Model, run_model
from leadline.inference.predict import Uncertainty, evaluate_free_energy, log_likelihood, predict, uncertainty
from leadline.inference.pruning import Pruning, effective_width, prune
from leadline.inference.recipes import RECIPES, Recipe
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
from leadline.training import Problem, Settings, Trained, TrainingDivergedError, Units, Watch, init_models, train

if TYPE_CHECKING:
    from leadline.estimators import DepthClassifier, DepthRegressor
    from leadline.estimators.loading import load

__all__ = [
    "RECIPES",
    "Block",
    "CategoricalDepth",
    "CategoricalLikelihood",
    "DepthClassifier",
    "DepthDistribution",
    "DepthRegressor",
    "FixedDepth",
    "FreeEnergy",
    "GaussianLikelihood",
    "GaussianLinear",
    "HeteroscedasticLikelihood",
    "InvalidArgumentError",
    "Likelihood",
    "Model",
    "NormalDepth",
    "NumberLikelihood",
    "PoissonDepth",
    "Problem",
    "Pruning",
    "Recipe",
    "Settings",
    "Trained",
    "TrainingDivergedError",
    "UnboundedNetwork",
    "Uncertainty",
    "Units",
    "Watch",
    "__version__",
    "effective_width",
    "evaluate_free_energy",
    "free_energy",
    "init_models",
    "load",
    "log_likelihood",
    "predict",
    "prune",
    "run_model",
    "train",
    "uncertainty",
]

keep_programs()  # before JAX compiles for the first time: later it would not be heard


def __getattr__(name: str) -> Any:
    """The estimators come when asked for: scikit-learn takes a second to import, and not everybody needs it."""
    if name in ("DepthClassifier", "DepthRegressor", "load"):
        from leadline import estimators
        from leadline.estimators import loading

        return getattr(loading if name == "load" else estimators, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
