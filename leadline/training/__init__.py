"""Training: state, one step, whole epochs, the loop."""

from leadline.training.loop import Training, TrainingDivergedError, init_models, run_model, train

__all__ = ["Training", "TrainingDivergedError", "init_models", "run_model", "train"]
