"""The network as scikit-learn's estimators: `DepthClassifier` and `DepthRegressor`."""

from leadline.estimators.classifier import DepthClassifier
from leadline.estimators.regressor import DepthRegressor

__all__ = ["DepthClassifier", "DepthRegressor"]
