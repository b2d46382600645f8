"""The network as scikit-learn's estimators: `DepthClassifier` and `DepthRegressor`."""

import abc
import os
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin
from sklearn.utils import check_consistent_length, check_random_state, compute_class_weight
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import _check_sample_weight, check_is_fitted, validate_data

from leadline import ensemble, metrics, modelfile, plots
from leadline._checks import InvalidArgumentError, check_choice, check_integer, check_share
from leadline._numerics import mean_and_scale
from leadline.calibration import Calibration, no_calibration
from leadline.likelihoods import (
    CategoricalLikelihood,
    GaussianLikelihood,
    HeteroscedasticLikelihood,
    Likelihood,
    RegressionLikelihood,
)
from leadline.mixture import GaussianMixture
from leadline.model import Model
from leadline.predict import Uncertainty, uncertainty
from leadline.pruning import Pruning, effective_widths, prune
from leadline.recipes import FOR_NUMBERS, Depth, Recipe, get_recipe, recipe_for_numbers
from leadline.training.checkpoint import EVERY
from leadline.training.data import as_bytes
from leadline.training.loop import run_model, train
from leadline.training.progress import Progress, ProgressLine

if TYPE_CHECKING:
    from matplotlib.axes import Axes


class DepthEstimator(BaseEstimator):
    """What the classifier and the regressor share: a Bayesian neural network that learns its own depth.

    Parameters
    ----------
    depth : family of q(L): "normal", "poisson", "categorical"; a whole number of hidden layers; or a pair of depth
        distributions (prior, initial posterior).
    width : units per hidden layer.
    recipe : "leadline", "published", "written" or a `Recipe`.
    temperature : factor on the weight KL, or "auto" (chosen by validation likelihood). None: the recipe's, which for
        numbers is 1, or 0.4 where the noise depends on the input: the network would otherwise learn the noise.
    n_restarts : networks trained side by side and averaged. None: the recipe's.
    max_iter : epochs, at most. None: the recipe's, and 62,500 steps (50,000 for a fixed depth) where the validation
        likelihood decides.
    learning_rate_init : None: the recipe's.
    batch_size : "auto": the recipe's.
    early_stopping : whether the validation likelihood decides the number of epochs. Otherwise it is `max_iter`, on all
        rows.
    validation_fraction : of the rows, for that purpose. For classes every restart holds out other rows; for numbers
        all hold out the same, which then tell how much to believe each restart, and how wide the predictions are to be.
    random_state : seed; the same seed gives the same bits on one CPU.
    warm_start : whether `fit` starts from the network that the last `fit` left.
    checkpoint_dir : where the training is written to as it goes on, if anywhere. The same `fit` (with a number for
        `random_state`), cut off and started again, goes on from there, to the same bits on one CPU. What is there may
        go when the fitted estimator is saved.
    checkpoint_every : seconds between checkpoints.
    verbose : whether a progress line is shown.
    callback : called with a `Progress` for every epoch; returning True ends the training.
    """

    def __init__(
        self,
        *,
        depth: Depth = "normal",
        width: int = 32,
        recipe: str | Recipe = "leadline",
        temperature: float | Literal["auto"] | None = None,
        n_restarts: int | None = None,
        max_iter: int | None = None,
        learning_rate_init: float | None = None,
        batch_size: int | Literal["auto"] = "auto",
        early_stopping: bool = True,
        validation_fraction: float = 0.1,
        random_state: Any = None,
        warm_start: bool = False,
        checkpoint_dir: str | os.PathLike[str] | None = None,
        checkpoint_every: float = EVERY,
        verbose: bool = False,
        callback: Callable[[Progress], Any] | None = None,
    ):
        self.depth = depth
        self.width = width
        self.recipe = recipe
        self.temperature = temperature
        self.n_restarts = n_restarts
        self.max_iter = max_iter
        self.learning_rate_init = learning_rate_init
        self.batch_size = batch_size
        self.early_stopping = early_stopping
        self.validation_fraction = validation_fraction
        self.random_state = random_state
        self.warm_start = warm_start
        self.checkpoint_dir = checkpoint_dir
        self.checkpoint_every = checkpoint_every
        self.verbose = verbose
        self.callback = callback

    @property
    def _recipe(self) -> Recipe:
        """By which to train and to predict."""
        return get_recipe(self.recipe)

    def _fit(self, x: np.ndarray, y: np.ndarray, weight: np.ndarray, likelihood: Likelihood) -> np.ndarray:
        """Train on numbers; equal rows are one row that counts more, so neither their order nor their copies matter.

        Returns how many rows each restart trained on, counted by their weights.
        """
        x, y, weight = _distinct_rows(x, y, weight)
        self.x_mean_, self.x_scale_ = mean_and_scale(x, weight)
        x = self._standardised(x)
        recipe = self._recipe
        if self.learning_rate_init is not None:
            recipe = replace(recipe, learning_rate=self.learning_rate_init)
        check_share("validation_fraction", self.validation_fraction)
        if self.max_iter is not None:
            check_integer("max_iter", self.max_iter, 1)
        if self.checkpoint_dir is not None and self.random_state is None:
            raise InvalidArgumentError(
                "`random_state` must be given with a `checkpoint_dir`, got None: without, no training is like another."
            )
        own_length = self.early_stopping and len(x) > 1
        self.seed_ = int(check_random_state(self.random_state).randint(np.iinfo(np.int32).max))
        temperature: Any = self.temperature
        batch_size: Any = None if self.batch_size == "auto" else self.batch_size
        with ProgressLine() if self.verbose else nullcontext() as line:
            training = train(
                (x, y),
                self.validation_fraction if own_length else (x, y),
                likelihood,
                weight=weight,
                depth=self.depth,
                recipe=recipe,
                temperature=temperature,
                n_restarts=self.n_restarts,
                common_validation=isinstance(likelihood, RegressionLikelihood),
                epochs=self.max_iter,
                own_length=own_length,
                batch_size=batch_size,
                width=self.width,
                seeds=[self.seed_],
                start=self.model_ if self.warm_start and hasattr(self, "model_") else None,
                checkpoint_dir=self.checkpoint_dir,
                checkpoint_every=self.checkpoint_every,
                report=line,
                on_epoch=self.callback,
            )
        self.model_: Model = training.model
        self.history_ = training.history
        self.n_iter_ = training.epochs
        self.temperature_ = float(training.temperature[0])
        self.interrupted_ = training.interrupted
        self.fit_seconds_ = training.seconds
        self._take_together(x, y, weight, training.validation_rows[0])
        self._summarise(x, y, weight)
        return weight.sum() - weight[training.validation_rows].sum(axis=1)

    def _take_together(self, x: np.ndarray, y: np.ndarray, weight: np.ndarray, held: np.ndarray) -> None:
        """See what the restarts make of the rows that the first of them held out."""

    @property
    def _shares(self) -> np.ndarray | None:
        """Of the restarts in a prediction; None where all are equal."""
        return None

    def _summarise(self, x: np.ndarray, y: np.ndarray, weight: np.ndarray) -> None:
        """What is known of the models."""
        depth = ensemble.depth_summary(self.model_, self._shares)
        self.depth_pmf_ = np.array(depth["depth_pmf"])
        self.depth_mean_, self.depth_std_ = depth["depth_mean"], depth["depth_std"]
        self.depth_mode_, self.depth_support_ = depth["depth_mode"], tuple(depth["depth_support"])
        cost = ensemble.free_energy_summary(self.model_, x, y, self.seed_, weight)
        self.free_energy_, self.free_energy_terms_ = cost["free_energy"], cost["free_energy_terms"]

    def _standardised(self, x: np.ndarray) -> np.ndarray:
        return (x - self.x_mean_) / self.x_scale_

    def _checked(self, X: Any) -> np.ndarray:  # noqa: N803
        """Rows to predict, as the network takes them."""
        check_is_fitted(self)
        return self._standardised(np.asarray(validate_data(self, X, reset=False, dtype="numeric"), float))

    @property
    def _n_samples(self) -> int:
        return self._recipe.n_samples

    def _uncertainty(self, x: np.ndarray) -> Uncertainty:
        n_samples = ensemble.samples_each(self.model_, self._n_samples)
        keys = ensemble.evaluation_keys(self.model_, self.seed_)
        return uncertainty(self.model_, x, n_samples=n_samples, key=keys, share=self._shares)

    def effective_width(self) -> list[list[int]]:
        """The units in use, for every restart and layer."""
        check_is_fitted(self)
        return effective_widths(self.model_)

    @abc.abstractmethod
    def training_rows(self, X: Any, y: Any) -> tuple[np.ndarray, np.ndarray]:  # noqa: N803
        """Rows as the network itself takes them."""

    def prune(
        self,
        X: Any,  # noqa: N803
        y: Any,
        *,
        tolerance: float = 0.01,
        most_probable_depth: bool = False,
    ) -> Pruning:
        """A smaller network whose predictions on X differ by less than `tolerance`, and what it costs on (X, y).

        The tolerance is for probabilities, or for means in predictive deviations (see `leadline.prune`).
        """
        check_is_fitted(self)
        return prune(
            self.model_,
            *self.training_rows(X, y),
            tolerance=tolerance,
            most_probable_depth=most_probable_depth,
            n_samples=ensemble.samples_each(self.model_, self._n_samples),
            key=ensemble.evaluation_keys(self.model_, self.seed_),
        )

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write a model file: `leadline.load(path)` gives an estimator with the same predictions, to the bit.

        It holds numbers and JSON, no code. A callback and a `random_state` that is not a number are left out.
        """
        check_is_fitted(self)
        tensors: modelfile.Tensors = {}
        fitted: dict[str, Any] = {}
        for name, value in vars(self).items():
            if not name.endswith("_") or name in ("model_", "history_", "fit_seconds_"):
                continue
            if isinstance(value, np.ndarray) and value.dtype.kind in "iufb":
                tensors[name] = value
            else:
                fitted[name] = value.tolist() if isinstance(value, np.ndarray) else value
        tensors |= {f"history.{name}": column for name, column in self.history_.items()}
        config = {
            "estimator": type(self).__name__,
            "parameters": modelfile.describe_parameters(self.get_params(deep=False), tensors),
            "fitted": fitted,
            "model": modelfile.describe(self.model_, "model", tensors),
        }
        modelfile.write(path, config, tensors)

    def plot_depth(self, ax: "Axes | None" = None) -> "Axes":
        """The prior and the posterior of the depth."""
        check_is_fitted(self)
        prior = np.asarray(run_model(self.model_, 0).depth_prior.pmf())
        return plots.plot_depth(_axes(ax), self.depth_pmf_, prior)

    def plot_history(self, axes: "tuple[Axes, Axes] | None" = None) -> "tuple[Axes, Axes]":
        """The free energy by its parts, and E[L] with its band, over the epochs."""
        check_is_fitted(self)
        if axes is None:
            from matplotlib import pyplot

            axes = tuple(pyplot.subplots(1, 2, figsize=(11, 4), layout="constrained")[1])
        return plots.plot_history(axes, self.history_)


class DepthClassifier(ClassifierMixin, DepthEstimator):
    """A Bayesian neural network that learns its own depth, for classes.

    Beside the parameters of `DepthEstimator`: `class_weight`, None, "balanced" or a dict from class to weight.

    Attributes of a fitted one: `classes_`; `depth_pmf_`, `depth_mean_`, `depth_std_`, `depth_mode_`, `depth_support_`
    (q(L), the mixture over the restarts); `free_energy_`, `free_energy_terms_` (nats, all training rows, at temperature
    1); `history_` (epochs by restarts); `n_iter_`; `fit_seconds_` (not in a model file); `temperature_`;
    `n_features_in_`, `feature_names_in_`.
    """

    def __init__(
        self,
        *,
        depth: Depth = "normal",
        width: int = 32,
        recipe: str | Recipe = "leadline",
        temperature: float | Literal["auto"] | None = None,
        n_restarts: int | None = None,
        max_iter: int | None = None,
        learning_rate_init: float | None = None,
        batch_size: int | Literal["auto"] = "auto",
        early_stopping: bool = True,
        validation_fraction: float = 0.1,
        class_weight: Any = None,
        random_state: Any = None,
        warm_start: bool = False,
        checkpoint_dir: str | os.PathLike[str] | None = None,
        checkpoint_every: float = EVERY,
        verbose: bool = False,
        callback: Callable[[Progress], Any] | None = None,
    ):
        super().__init__(
            depth=depth,
            width=width,
            recipe=recipe,
            temperature=temperature,
            n_restarts=n_restarts,
            max_iter=max_iter,
            learning_rate_init=learning_rate_init,
            batch_size=batch_size,
            early_stopping=early_stopping,
            validation_fraction=validation_fraction,
            random_state=random_state,
            warm_start=warm_start,
            checkpoint_dir=checkpoint_dir,
            checkpoint_every=checkpoint_every,
            verbose=verbose,
            callback=callback,
        )
        self.class_weight = class_weight

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> "DepthClassifier":  # noqa: N803
        """Train. A row with `sample_weight` 2 counts as two such rows."""
        x, y = validate_data(self, X, y, dtype="numeric", ensure_min_samples=2)
        check_classification_targets(y)
        weight = _check_sample_weight(sample_weight, x, dtype=np.float64, ensure_non_negative=True)
        some = weight > 0
        x, y, weight = np.asarray(x, float)[some], y[some], weight[some]
        classes, labels = np.unique(y, return_inverse=True)
        if len(classes) < 2:
            raise InvalidArgumentError(f"`y` must hold at least two classes, got one class: {classes.tolist()}.")
        if self.warm_start and hasattr(self, "classes_") and not np.array_equal(classes, self.classes_):
            raise InvalidArgumentError(
                f"`y` must have the classes of the last fit for a warm start, {self.classes_.tolist()}, "
                f"got {classes.tolist()}."
            )
        self.classes_ = classes
        by_class = compute_class_weight(self.class_weight, classes=classes, y=y, sample_weight=weight)
        weight = weight * by_class[labels]
        self._fit(x, labels, weight, CategoricalLikelihood(len(classes)))
        return self

    def predict_proba(self, X: Any) -> np.ndarray:  # noqa: N803
        """Probabilities of the classes (eq. 10), the mean over restarts, weight samples and depths."""
        x = self._checked(X)
        probabilities = ensemble.predict_restarts(self.model_, x, self._n_samples, self.seed_).astype(float)
        return probabilities / probabilities.sum(axis=1, keepdims=True)

    def predict_log_proba(self, X: Any) -> np.ndarray:  # noqa: N803
        return np.log(np.maximum(self.predict_proba(X), np.finfo(float).tiny))

    def predict(self, X: Any) -> np.ndarray:  # noqa: N803
        probabilities = self.predict_proba(X)
        return self.classes_[probabilities.argmax(axis=1)]

    def uncertainty(self, X: Any) -> Uncertainty:  # noqa: N803
        """For every row, entropies in nats: noise, weights and depth, which sum to that of `predict_proba`."""
        return self._uncertainty(self._checked(X))

    def training_rows(self, X: Any, y: Any) -> tuple[np.ndarray, np.ndarray]:  # noqa: N803
        """Rows as the network itself takes them: standardised inputs, and classes by number."""
        return self._checked(X), self._labels(y)

    def _labels(self, y: Any) -> np.ndarray:
        y = np.asarray(y)
        unknown = y[~np.isin(y, self.classes_)]
        if len(unknown):
            raise InvalidArgumentError(
                f"`y` must hold the classes {self.classes_.tolist()}, got {unknown.tolist()[0]!r}."
            )
        return np.searchsorted(self.classes_, y)

    def plot_reliability(self, X: Any, y: Any, ax: "Axes | None" = None) -> "Axes":  # noqa: N803
        """Accuracy against confidence on rows that were not trained on."""
        probabilities = self.predict_proba(X)
        return plots.plot_reliability(_axes(ax), *metrics.reliability(probabilities, self._labels(y)))

    def plot_decision(self, X: Any, y: Any, ax: "Axes | None" = None) -> "Axes":  # noqa: N803
        """The rows over what the network makes of their plane; X must have two columns."""
        check_is_fitted(self)
        x = np.asarray(validate_data(self, X, reset=False, dtype="numeric"), float)
        if x.shape[1] != 2:
            raise InvalidArgumentError(f"`X` must have two columns to draw its plane, got {x.shape[1]}.")
        grid, extent = plots.decision_grid(x)
        names = getattr(self, "feature_names_in_", ("x1", "x2"))
        probabilities = ensemble.predict_restarts(self.model_, self._standardised(grid), self._n_samples, self.seed_)
        return plots.plot_decision(
            _axes(ax),
            probabilities,
            extent,
            x,
            self._labels(y),
            classes=[str(name) for name in self.classes_],
            names=(str(names[0]), str(names[1])),
        )


class DepthRegressor(RegressorMixin, DepthEstimator):
    """A Bayesian neural network that learns its own depth, for a number, or several, with learned Gaussian noise.

    Beside the parameters of `DepthEstimator`: `noise`, "constant" (one learned standard deviation per target) or
    "input" (it depends on X too). The targets are standardised inside; everything that is predicted, and the free
    energy, is in their own units. With several targets, y [rows, targets], what is said of a target has an axis more.

    Attributes of a fitted one: as `DepthClassifier`'s; `noise_scale_`, the standard deviation of the noise (where it
    depends on X, the root of its mean square over the rows); and what the rows held out say of the restarts: the
    `restart_shares_` of each in a prediction, and the `spread_`, a factor on the deviations from its mean, for every
    target. (With `early_stopping=False` no rows are held out: equal shares, and 1.)
    """

    def __init__(
        self,
        *,
        depth: Depth = "normal",
        width: int = 32,
        recipe: str | Recipe = "leadline",
        temperature: float | Literal["auto"] | None = None,
        n_restarts: int | None = None,
        max_iter: int | None = None,
        learning_rate_init: float | None = None,
        batch_size: int | Literal["auto"] = "auto",
        early_stopping: bool = True,
        validation_fraction: float = 0.1,
        noise: Literal["constant", "input"] = "constant",
        random_state: Any = None,
        warm_start: bool = False,
        checkpoint_dir: str | os.PathLike[str] | None = None,
        checkpoint_every: float = EVERY,
        verbose: bool = False,
        callback: Callable[[Progress], Any] | None = None,
    ):
        super().__init__(
            depth=depth,
            width=width,
            recipe=recipe,
            temperature=temperature,
            n_restarts=n_restarts,
            max_iter=max_iter,
            learning_rate_init=learning_rate_init,
            batch_size=batch_size,
            early_stopping=early_stopping,
            validation_fraction=validation_fraction,
            random_state=random_state,
            warm_start=warm_start,
            checkpoint_dir=checkpoint_dir,
            checkpoint_every=checkpoint_every,
            verbose=verbose,
            callback=callback,
        )
        self.noise = noise

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = True
        return tags

    @property
    def _recipe(self) -> Recipe:
        return recipe_for_numbers(self.recipe, self.noise)

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> "DepthRegressor":  # noqa: N803
        """Train. A row with `sample_weight` 2 counts as two such rows."""
        check_choice("noise", self.noise, FOR_NUMBERS)
        x, y = validate_data(self, X, y, dtype="numeric", ensure_min_samples=2, y_numeric=True, multi_output=True)
        weight = _check_sample_weight(sample_weight, x, dtype=np.float64, ensure_non_negative=True)
        some = weight > 0
        x, y, weight = _distinct_rows(np.asarray(x, float)[some], np.asarray(y, float)[some], weight[some])
        # A number each, or an array with one for each target: as y is.
        self.y_mean_, self.y_scale_ = mean_and_scale(y, weight)
        if y.ndim == 1:
            self.y_mean_, self.y_scale_ = float(self.y_mean_), float(self.y_scale_)
        n_targets = 1 if y.ndim == 1 else y.shape[1]
        likelihood = HeteroscedasticLikelihood(n_targets) if self.noise == "input" else GaussianLikelihood(n_targets)
        n_data = self._fit(x, self._targets(y), weight, likelihood)
        # The densities of the targets in their own units.
        shift = np.sum(np.log(self.y_scale_))
        self.free_energy_terms_["expected_nll"] += weight.sum() * shift
        self.free_energy_ += weight.sum() * shift
        for name, n in {"free_energy": n_data, "expected_nll": n_data, "validation_nll": 1.0}.items():
            self.history_[name] = self.history_[name] + n * shift
        if isinstance(self.model_.likelihood, GaussianLikelihood):
            variance = self.restart_shares_ @ np.square(np.asarray(self.model_.likelihood.scale, float))
            noise = self.y_scale_ * self._as_y((self.spread_ * np.sqrt(variance))[None])[0]
        else:
            noise = np.sqrt(np.average(self._uncertainty(self._standardised(x)).noise, axis=0, weights=weight))
        self.noise_scale_ = float(noise) if y.ndim == 1 else noise
        return self

    def _take_together(self, x: np.ndarray, y: np.ndarray, weight: np.ndarray, held: np.ndarray) -> None:
        n_restarts, n_targets = self.model_.runs[0], np.size(self.y_mean_)
        found = no_calibration(n_restarts, n_targets)
        if len(held):
            found = ensemble.calibration_of(self.model_, x[held], y[held], self._n_samples, self.seed_, weight[held])
        self.restart_shares_, self.spread_ = found.share, found.spread

    @property
    def _shares(self) -> np.ndarray:
        return self.restart_shares_

    def predict(self, X: Any, return_std: bool = False) -> Any:  # noqa: N803
        """The mean of the predictive distribution; with `return_std` also its standard deviation, noise included."""
        mean, std = self._mean_and_std(self._checked(X))
        return (mean, std) if return_std else mean

    def _mean_and_std(self, x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        moments = ensemble.predict_restarts(self.model_, x, self._n_samples, self.seed_, self.restart_shares_)
        mean, square = moments[:, 0], moments[:, 1]
        variance = self._as_y(np.square(self.spread_) * np.maximum(square - mean**2, 0.0))
        return self._in_units(mean), self.y_scale_ * np.sqrt(variance)

    def _as_y(self, values: np.ndarray) -> np.ndarray:
        """Without the axis of targets, if y has none."""
        return values[:, 0] if np.ndim(self.y_mean_) == 0 else values

    def _in_units(self, values: np.ndarray) -> np.ndarray:
        return self.y_mean_ + self.y_scale_ * self._as_y(values)

    def predict_interval(self, X: Any, coverage: float = 0.9) -> np.ndarray:  # noqa: N803
        """The central interval of the predictive distribution that holds the target so often, [rows, 2]; with several
        targets [rows, targets, 2], of each alone."""
        check_is_fitted(self)
        if not 0 < coverage < 1:
            raise InvalidArgumentError(f"`coverage` must lie between 0 and 1, got {coverage}.")
        levels = (0.5 - coverage / 2, 0.5 + coverage / 2)
        ends = self._by_mixture(lambda mixture: np.stack([mixture.quantile(level) for level in levels], axis=2), X)
        return np.stack([self._in_units(ends[..., i]) for i in range(2)], axis=-1)

    def predict_cdf(self, X: Any, y: Any) -> np.ndarray:  # noqa: N803
        """How much of the predictive distribution lies below y, row by row; uniform where the network is calibrated."""
        check_consistent_length(X, y)
        return self._as_y(self._by_mixture(GaussianMixture.cdf, X, self._columns(y)))

    def log_likelihood(self, X: Any, y: Any) -> np.ndarray:  # noqa: N803
        """ln p(y | x), row by row, in the units of y; of all targets together."""
        check_consistent_length(X, y)
        return self._by_mixture(GaussianMixture.log_density, X, self._columns(y)) - np.sum(np.log(self.y_scale_))

    def _by_mixture(self, function: Callable[..., np.ndarray], X: Any, *columns: np.ndarray) -> np.ndarray:  # noqa: N803
        """`function(mixture, *columns)` for the predictive distributions of the rows."""
        calibration = Calibration(self.restart_shares_, self.spread_)
        drawn = (self.model_, self._n_samples, self.seed_, calibration)
        return ensemble.by_mixture(function, *drawn, self._checked(X), *columns)

    def uncertainty(self, X: Any) -> Uncertainty:  # noqa: N803
        """For every row, variances: noise, weights and depth, which sum to the square of the predicted deviation."""
        return self._uncertainty(self._checked(X))

    def _uncertainty(self, x: np.ndarray) -> Uncertainty:
        parts = super()._uncertainty(x)
        in_units = lambda part: np.square(self.y_scale_) * self._as_y(np.square(self.spread_) * part)  # noqa: E731
        return Uncertainty(*(in_units(part) for part in (parts.noise, parts.weights, parts.depth)))

    def training_rows(self, X: Any, y: Any) -> tuple[np.ndarray, np.ndarray]:  # noqa: N803
        """Rows as the network itself takes them: standardised inputs and targets."""
        return self._checked(X), self._targets(y)

    def _targets(self, y: Any) -> np.ndarray:
        check_is_fitted(self)
        return (np.asarray(y, float) - self.y_mean_) / self.y_scale_

    def _columns(self, y: Any) -> np.ndarray:
        """The same, checked, always with an axis of targets."""
        y = self._targets(y)
        return self.model_.likelihood.check_targets("y", y, len(y))

    def plot_fit(self, X: Any, y: Any, ax: "Axes | None" = None) -> "Axes":  # noqa: N803
        """The rows and the prediction, with bands for noise, weights and depth; one column, one target."""
        check_is_fitted(self)
        x = np.asarray(validate_data(self, X, reset=False, dtype="numeric"), float)
        if x.shape[1] != 1:
            raise InvalidArgumentError(f"`X` must have one column to draw the fit, got {x.shape[1]}.")
        if np.ndim(self.y_mean_) > 0:
            raise InvalidArgumentError(f"`y` must be one number to draw the fit, got {np.size(self.y_mean_)} targets.")
        margin = 0.1 * np.ptp(x)
        grid = np.linspace(x.min() - margin, x.max() + margin, 300)
        names = getattr(self, "feature_names_in_", ["x"])
        rows = self._standardised(grid[:, None])
        mean, parts = self._mean_and_std(rows)[0], self._uncertainty(rows)
        bands = (parts.noise, parts.weights, parts.depth)
        return plots.plot_fit(_axes(ax), grid, mean, *bands, x[:, 0], np.asarray(y, float), name=str(names[0]))


def _distinct_rows(x: np.ndarray, y: np.ndarray, weight: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Equal rows merged, their weights added, in an order that depends on their values alone."""
    _, first, which = np.unique(as_bytes(np.column_stack([x, y])), return_index=True, return_inverse=True)
    return x[first], y[first], np.bincount(which, weights=weight)


def _axes(ax: "Axes | None") -> "Axes":
    if ax is not None:
        return ax
    from matplotlib import pyplot

    return pyplot.subplots(layout="constrained")[1]
