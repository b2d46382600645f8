"""Training: problems and settings, state, one step, whole epochs, the loop."""

from leadline.training.drawing import init_models
from leadline.training.growth import grow
from leadline.training.loop import Training, train
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
    "grow",
    "init_models",
    "train",
]
