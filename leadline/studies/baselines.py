"""What else one would use: scikit-learn's estimators, with settings that suit most tables."""

from typing import Any

from leadline.backend.device import n_threads

BASELINES = ("linear", "boosting", "forest", "mlp")
"""Their names."""

LARGE = 10_000
"""Rows beyond which boosting and the network hold some out, and stop early. In smaller tables that costs more than it
gives."""


def baseline(name: str, task: str, seed: int, n_rows: int, *, raw: bool = False) -> Any:
    """An estimator for the rows of a table, not fitted yet.

    Args:
        name: one of `BASELINES`.
        task: classification or regression.
        seed: of what is random in it.
        n_rows: to train on.
        raw: whether rows are those of a frame, with text, dates and missing values, which `TableEncoder` encodes.

    Returns:
        Logistic or ridge regression; gradient boosting; a forest of 200 trees; or a network with one hidden layer of
        100 units and a weight decay of 1, whose targets, if they are numbers, are standardised.
    """
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    from leadline.estimators.encoder import TableEncoder

    model = _model(name, task == "classification", seed, n_rows)
    return make_pipeline(*[TableEncoder()] * raw, StandardScaler(), model)


def _model(name: str, of_classes: bool, seed: int, n_rows: int) -> Any:
    if name == "linear":
        from sklearn.linear_model import LogisticRegression, Ridge

        return LogisticRegression(max_iter=1000) if of_classes else Ridge()
    if name == "mlp":
        return _mlp(of_classes, random_state=seed, early_stopping=n_rows > LARGE)
    from sklearn import ensemble

    if name == "boosting":
        kind = ensemble.HistGradientBoostingClassifier if of_classes else ensemble.HistGradientBoostingRegressor
        return kind(random_state=seed)
    kind = ensemble.RandomForestClassifier if of_classes else ensemble.RandomForestRegressor
    return kind(200, n_jobs=n_threads(), random_state=seed)


def _mlp(of_classes: bool, **how: Any) -> Any:
    from sklearn.compose import TransformedTargetRegressor
    from sklearn.neural_network import MLPClassifier, MLPRegressor
    from sklearn.preprocessing import StandardScaler

    how |= {"alpha": 1.0, "max_iter": 500}
    if of_classes:
        return MLPClassifier(**how)
    return TransformedTargetRegressor(MLPRegressor(**how), transformer=StandardScaler())
