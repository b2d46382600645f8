"""Training: state, one step, whole epochs, the loop."""

from leadline.training.loop import Training, init_models, run_model, train
from leadline.training.run import TrainingDivergedError

__all__ = ["Training", "TrainingDivergedError", "init_models", "run_model", "train"]
