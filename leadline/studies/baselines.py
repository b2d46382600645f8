"""What else one would use: scikit-learn's estimators, with settings that suit most tables."""

from typing import Any

from leadline.backend.device import n_threads

BASELINES = ("linear", "boosting", "forest", "mlp")
"""Their names."""

LARGE = 10_000
"""Rows beyond which boosting and the network hold some out, and stop early. In smaller tables that costs more than it
gives."""


def baseline(name: str, task: str, seed: int, n_rows: int) -> Any:
    """An estimator for the rows of a table, not fitted yet.

    Args:
        name: one of `BASELINES`.
        task: classification or regression.
        seed: of what is random in it.
        n_rows: to train on.

    Returns:
        Logistic or ridge regression; gradient boosting; a forest of 200 trees; or a network with one hidden layer of
        100 units and a weight decay of 1, whose targets, if they are numbers, are standardised.
    """
    of_classes = task == "classification"
    if name == "linear":
        from sklearn.linear_model import LogisticRegression, Ridge

        return _after_encoding(LogisticRegression(max_iter=1000) if of_classes else Ridge())
    if name == "mlp":
        return _after_encoding(_mlp(of_classes, random_state=seed, early_stopping=n_rows > LARGE))
    from sklearn import ensemble

    if name == "boosting":
        kind = ensemble.HistGradientBoostingClassifier if of_classes else ensemble.HistGradientBoostingRegressor
        return _after_encoding(kind(random_state=seed))
    kind = ensemble.RandomForestClassifier if of_classes else ensemble.RandomForestRegressor
    return _after_encoding(kind(200, n_jobs=n_threads(), random_state=seed))


def _mlp(of_classes: bool, **how: Any) -> Any:
    from sklearn.compose import TransformedTargetRegressor
    from sklearn.neural_network import MLPClassifier, MLPRegressor
    from sklearn.preprocessing import StandardScaler

    how |= {"alpha": 1.0, "max_iter": 500}
    if of_classes:
        return MLPClassifier(**how)
    return TransformedTargetRegressor(MLPRegressor(**how), transformer=StandardScaler())


def _after_encoding(model: Any) -> Any:
    """A model behind what makes of rows as they are columns of mean 0 and deviation 1."""
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    return make_pipeline(StandardScaler(), model)
