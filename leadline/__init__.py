"""Leadline: Bayesian neural networks that learn their own depth."""

from typing import TYPE_CHECKING, Any

from leadline._checks import InvalidArgumentError
from leadline._compilation import keep_programs
from leadline._version import __version__
from leadline.distributions import CategoricalDepth, DepthDistribution, FixedDepth, NormalDepth, PoissonDepth
from leadline.free_energy import FreeEnergy, free_energy
from leadline.layers import GaussianLinear
from leadline.likelihoods import CategoricalLikelihood, GaussianLikelihood, HeteroscedasticLikelihood, Likelihood
from leadline.model import Model
from leadline.network import UnboundedNetwork
from leadline.predict import Uncertainty, evaluate_free_energy, log_likelihood, predict, uncertainty
from leadline.pruning import Pruning, effective_width, prune
from leadline.recipes import RECIPES, Recipe
from leadline.training import Training, TrainingDivergedError, init_models, run_model, train

if TYPE_CHECKING:
    from leadline.estimators import DepthClassifier, DepthRegressor
    from leadline.loading import load

__all__ = [
    "RECIPES",
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
    "PoissonDepth",
    "Pruning",
    "Recipe",
    "Training",
    "TrainingDivergedError",
    "UnboundedNetwork",
    "Uncertainty",
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
        from leadline import estimators, loading

        return getattr(loading if name == "load" else estimators, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
