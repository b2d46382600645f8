"""Training: state, one step, whole epochs, the loop."""

from leadline.training.loop import Training, init_models, run_model, train

__all__ = ["Training", "init_models", "run_model", "train"]
