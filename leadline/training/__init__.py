"""Training: problems and settings, state, one step, whole epochs, the loop."""

from leadline.training.loop import Training, init_models, train
from leadline.training.problem import Problem, Units
from leadline.training.run import TrainingDivergedError, Watch
from leadline.training.settings import Settings
from leadline.training.trained import Trained

__all__ = [
    "Problem",
    "Settings",
    "Trained",
    "Training",
    "TrainingDivergedError",
    "Units",
    "Watch",
    "init_models",
    "train",
]
