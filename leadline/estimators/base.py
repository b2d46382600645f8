"""What the classifier and the regressor share."""

import abc
import inspect
import os
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass, field, make_dataclass, replace
from typing import TYPE_CHECKING, Any, cast

import numpy as np
from sklearn.base import BaseEstimator, clone
from sklearn.utils import check_consistent_length, check_random_state
from sklearn.utils.validation import _check_sample_weight, check_is_fitted, check_X_y, validate_data

from leadline import plots
from leadline._checks import InvalidArgumentError, UnfinishedWarning, check_size, check_weights, naming, tell
from leadline.estimators import checks, images
from leadline.estimators.encoder import TableEncoder, frame_of, is_frame, learn_names
from leadline.estimators.said import check_said
from leadline.estimators.saving import model_file
from leadline.files import models as modelfile
from leadline.files.checkpoints import EVERY
from leadline.inference.calibration import Calibration, no_calibration
from leadline.inference.model import Model, run_model
from leadline.inference.pruning import Pruning, effective_widths, prune
from leadline.inference.recipes import TABLE, Recipe, get_recipe
from leadline.inference.restarts import Restarts
from leadline.inference.uncertainty import Uncertainty
from leadline.likelihoods import Likelihood
from leadline.plots import axes_or_new
from leadline.training.data import as_bytes
from leadline.training.interruption import Interruption
from leadline.training.loop import train
from leadline.training.problem import Problem, Rows, Units
from leadline.training.progress import ProgressLine
from leadline.training.run import Watch
from leadline.training.settings import Settings, options
from leadline.training.trained import Trained

if TYPE_CHECKING:
    from matplotlib.axes import Axes

estimator = dataclass(kw_only=True, eq=False, repr=False)
"""Makes the constructor of an estimator from its fields, as scikit-learn wants it."""

Options = make_dataclass(
    "Options",
    [(name, Any, field(default=one.default)) for name, one in options("estimator").items()],
    kw_only=True,
    eq=False,
    repr=False,
)
"""Those of `Settings`, under scikit-learn's names."""


@estimator
class DepthEstimator(Options, BaseEstimator):
    """A Bayesian neural network that learns its own depth.

    Parameters
    ----------
    {options}
    early_stopping : whether the validation likelihood decides the number of epochs. Otherwise it is `max_iter`, on all
        rows.
    validation_fraction : of the rows, held out from every restart for that purpose. Restarts of one kind hold out other
        rows each, so that every row is predicted by networks that have not seen it: these tell how much to believe each
        kind, and how sure all may be together. (Where there are no kinds, for numbers all hold out the same rows.)
        Default: one over the number of restarts of a kind, a quarter at most; a tenth where there is one of each.
    random_state : seed; the same seed gives the same bits on one CPU.
    warm_start : whether `fit` starts from the network that the last `fit` left.
    checkpoint_dir : where the training is written to as it goes on, if anywhere. The same `fit` (with a number for
        `random_state`), cut off and started again, goes on from there, to the same bits on one CPU. What is there may
        go when the fitted estimator is saved.
    checkpoint_every : seconds between checkpoints.
    encoder : how a frame becomes numbers: a `TableEncoder` with options of one's own, or one that has learned them
        already, which is then taken as it is. None: one with its defaults. Arrays are numbers already.
    verbose : whether a progress line is shown.
    callback : called with a `Progress` for every epoch; returning True ends the training. Or a list of such; some are
        in `leadline.callbacks`.
    """

    recipe: Any = TABLE.name
    early_stopping: bool = True
    validation_fraction: float | None = None
    random_state: Any = None
    warm_start: bool = False
    checkpoint_dir: str | os.PathLike[str] | None = None
    checkpoint_every: float = EVERY
    encoder: TableEncoder | None = None
    verbose: bool = False
    callback: Any = None

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        _, _, parameters = (DepthEstimator.__doc__ or "").partition("----------\n")
        if cls.__doc__:
            cls.__doc__ = inspect.cleandoc(cls.__doc__).replace("{inherited}", parameters)

    def settings(self, seed: int = 1) -> Settings:
        """How it trains, before the recipe has its say.

        Args:
            seed: what decides the weights and the noise.
        """
        said = {one.name: getattr(self, name) for name, one in options("estimator").items()}
        said["recipe"] = images.recipe_for(self.recipe, self.block)
        return Settings(**said, own_length=self.early_stopping, seed=seed)

    @property
    @abc.abstractmethod
    def _likelihood(self) -> type[Likelihood]:
        """Of its targets."""

    @property
    def _recipe(self) -> Recipe:
        """By which it trains and predicts."""
        return get_recipe(images.recipe_for(self.recipe, self.block)).suited(self._likelihood)

    def _checked_rows(self, X: Any, y: Any, sample_weight: Any, **options: Any) -> tuple[np.ndarray, ...]:
        """Rows that count, and how much."""
        before, self.encoder_ = getattr(self, "encoder_", None), None
        self.target_name_ = str(getattr(y, "name", None) or "") or None
        checks.check_beside(X, y, sample_weight, numbers=self._likelihood.kind == "numbers")
        X, self.image_shape_ = images.learned(X, self.block)
        if is_frame(X):
            return self._rows_of_frame(X, y, sample_weight, before if self.warm_start else None, options)
        with checks.naming_text(X):
            x, y = validate_data(self, X, y, dtype="numeric", ensure_min_samples=2, ensure_all_finite=False, **options)
        weight = _check_sample_weight(sample_weight, x, dtype=np.float64, ensure_non_negative=True)
        some, x = weight > 0, checks.finite_array(x)
        check_weights("sample_weight", weight[some])
        check_size("X", x)
        return x[some], np.asarray(y)[some], weight[some]

    def _rows_of_frame(
        self, X: Any, y: Any, sample_weight: Any, learned: TableEncoder | None, options: dict[str, Any]
    ) -> tuple[np.ndarray, ...]:
        """The same of a raw table, whose columns are encoded: as `learned`, if they are already."""
        if y is None:
            raise InvalidArgumentError("must be given, got None.", "y")
        frame = frame_of(X)
        learn_names(self, X, frame)
        weight = _check_sample_weight(sample_weight, frame, dtype=np.float64, ensure_non_negative=True)
        check_weights("sample_weight", weight[weight > 0])
        check_consistent_length(frame, y)
        learned = self.encoder if hasattr(self.encoder, "encoding_") else learned
        rows = X if (counts := weight > 0).all() else frame[counts]
        self.encoder_ = learned or cast("TableEncoder", clone(self.encoder or TableEncoder())).fit(rows)
        encoded, _ = self.encoder_.encoding_.encode(frame_of(rows))
        x, y = check_X_y(encoded, np.asarray(y)[counts], ensure_min_samples=2, estimator=self, **options)
        return x, np.asarray(y), weight[counts]

    @np.errstate(all="ignore")  # whatever the caller has NumPy raise: what is not finite is looked for
    def fit(self, X: Any, y: Any, sample_weight: Any = None, eval_set: Any = None) -> Any:
        """Train.

        Args:
            X: a frame, whose columns may be raw (numbers, text, categories, dates, gaps), or an array of numbers.
            y: a class for every row, or a number, or several.
            sample_weight: a row with weight 2 counts as two such rows.
            eval_set: a pair (X, y) of other rows, which decide instead of rows that are held out: how long to train,
                how much to believe each restart, and how sure all may be. All rows of X are then trained on.

        Returns:
            Itself, fitted.
        """
        checks.check_parameters(self)
        fitted = object.__new__(type(self))  # a fit that fails leaves all as it was
        fitted.__dict__.update(self.__dict__)
        problem = fitted.problem(X, y, sample_weight)
        if eval_set is not None:
            problem = replace(problem, validation=fitted._evaluation_rows(problem, eval_set))
        fitted._take(problem, fitted._train(problem))
        self.__dict__ = fitted.__dict__
        return self

    def _evaluation_rows(self, problem: Problem, eval_set: Any) -> Rows:
        """As the network takes them."""
        pair = checks.evaluation_pair(eval_set, numbers=problem.likelihood.kind == "numbers")
        assert problem.units is not None
        with naming({"X": "eval_set", "y": "eval_set"}):
            x = self._raw(pair[0])
            check_size("X", x)
            y = problem.likelihood.check_targets("y", self._targets(problem, pair[1]), len(x))
        return problem.units.inputs(x), problem.units.targets(y)

    @abc.abstractmethod
    def _targets(self, problem: Problem, y: Any) -> np.ndarray:
        """Those of other rows of a problem: numbers of classes, or numbers."""

    @abc.abstractmethod
    def problem(self, X: Any, y: Any, sample_weight: Any = None) -> Problem:
        """What `fit` learns from such rows, which are checked.

        Args:
            X: rows.
            y: their targets.
            sample_weight: how much each row counts.
        """

    def _problem(
        self, x: np.ndarray, y: np.ndarray, weight: np.ndarray, likelihood: Likelihood, **about: Any
    ) -> Problem:
        """Equal rows are one row that counts more, so neither their order nor their copies matter."""
        encoded = self.encoder_ is not None or self.image_shape_ is not None
        checks.warn_of_rows(x, y, about.get("classes"), encoded=encoded)
        _, first, which = np.unique(as_bytes(np.column_stack([x, y])), return_index=True, return_inverse=True)
        x, y, weight = x[first], y[first], np.bincount(which, weights=weight)
        units = Units(*images.scales(x, weight, self.image_shape_))
        if (scaling := likelihood.scaling(y, weight)) is not None:
            y_mean, y_scale = (part.tolist() if y.ndim == 1 else part for part in scaling)
            units = replace(units, y_mean=y_mean, y_scale=y_scale)
            y = units.targets(y)
        rows, likelihood = (units.inputs(x), y), likelihood.starting(y, weight)
        validation = self._held_out_share(likelihood) if self.early_stopping and len(x) > 1 else rows
        return Problem(rows, validation, likelihood, weight, units=units, about=about, shape=self.image_shape_)

    def _held_out_share(self, likelihood: Likelihood) -> float:
        if self.validation_fraction is not None:
            return self.validation_fraction
        with checks.as_arguments():
            settings = self.settings().resolved(likelihood)
        n_kinds = len(get_recipe(settings.recipe).kinds)
        of_each_kind = (settings.n_restarts or 1) // n_kinds if n_kinds else 0
        return 1 / max(of_each_kind, 4) if of_each_kind > 1 else 0.1

    def _train(self, problem: Problem) -> Trained:
        seed = int(check_random_state(self.random_state).randint(np.iinfo(np.int32).max))
        start = self.model_ if self.warm_start and hasattr(self, "model_") else None
        with checks.as_arguments(), ProgressLine() if self.verbose else nullcontext() as line:
            decided = self.early_stopping and problem.validation is not problem.train  # by rows that can decide it
            settings = replace(self.settings(seed), own_length=decided)
            watch = Watch(line, self.callback, None, self.checkpoint_dir, self.checkpoint_every)
            with Interruption() as interruption:
                trained = train(problem, settings, watch=watch, start=start)
                if interruption.asked and interruption.is_alone:
                    raise KeyboardInterrupt  # a loop of fits ends, too
        self.cut_off_ = trained.interrupted and interruption.asked
        return trained

    def _take(self, problem: Problem, trained: Trained) -> None:
        """What is learned becomes attributes."""
        (x, y), restarts = problem.train, trained.calibrated(problem)
        calibration = restarts.calibration or no_calibration(trained.n_restarts, problem.likelihood.n_spreads)
        self.restart_shares_, self.spread_ = calibration.share, calibration.spread
        self.restart_temperatures_ = trained.temperatures[0]
        self.held_out_nll_ = calibration.nll
        depth, cost = restarts.depth(), restarts.free_energy(x, y, problem.weight)
        assert problem.units is not None
        self.x_mean_, self.x_scale_ = problem.units.x_mean, problem.units.x_scale
        self.seed_ = restarts.seed
        self.model_: Model = trained.model
        self.history_, self.n_iter_ = trained.history, trained.epochs
        self.temperature_ = restarts.mean_of(self.restart_temperatures_)
        self.validation_nll_ = {str(t): float(nll[0]) for t, nll in trained.validation_nll.items()}
        self.interrupted_, self.fit_seconds_ = trained.interrupted, trained.seconds
        self.depth_pmf_, self.depth_support_ = np.array(depth["depth_pmf"]), tuple(depth["depth_support"])
        self.depth_mean_, self.depth_std_, self.depth_mode_ = (
            depth[f"depth_{what}"] for what in ("mean", "std", "mode")
        )
        self.free_energy_, self.free_energy_terms_ = cost["free_energy"], cost["free_energy_terms"]

    @property
    def _restarts(self) -> Restarts:
        check_is_fitted(self)
        return Restarts(
            self.model_, self.seed_, self._recipe.n_samples, Calibration(self.restart_shares_, self.spread_)
        )

    @property
    def _units(self) -> Units:
        check_is_fitted(self)
        return Units(self.x_mean_, self.x_scale_)

    def _raw(self, X: Any) -> np.ndarray:
        """Rows to predict, in their own units."""
        check_is_fitted(self)
        X = images.like_learned(X, self.image_shape_)
        if self.encoder_ is None:
            with checks.naming_text(X):
                x = validate_data(self, X, reset=False, dtype="numeric", ensure_all_finite=False)
            return checks.finite_array(x)
        if not is_frame(X):
            x = np.asarray(validate_data(self, X, reset=False, dtype=None, ensure_all_finite=False))
            X = frame_of(x, getattr(self, "feature_names_in_", self.encoder_.names_))
        return self.encoder_.transform(X)

    def _checked(self, X: Any) -> np.ndarray:
        """Rows to predict, as the network takes them."""
        return self._units.inputs(self._raw(X))

    def _said(self, function: Callable[..., np.ndarray], X: Any, *y: Any) -> np.ndarray:
        """`function` of rows and targets as the network takes them: finite numbers, or one sentence about a row."""
        raw, units = self._raw(X), self._units
        if getattr(self, "cut_off_", getattr(self, "interrupted_", False)):
            cut_off = "The training of this model was cut off: expect it to be too sure; fit it to the end."
            tell(cut_off, UnfinishedWarning)
        names = self.encoder_.encoding_.features() if self.encoder_ is not None else None
        given = raw, *(self.model_.likelihood.check_targets("y", one, len(raw)) for one in y)
        with np.errstate(all="ignore"):  # what is not finite then is refused
            x, *targets = standardised = units.inputs(raw), *map(units.targets, given[1:])
            check_said(x.astype(np.float32), given, standardised, names)
            said = function(x, *targets)
        check_said(said, given, standardised, names)
        return said

    def _uncertainty(self, x: np.ndarray) -> Uncertainty:
        return self._restarts.uncertainty(x)

    def uncertainty(self, X: Any) -> Uncertainty:
        """Where the uncertainty of every row comes from.

        Returns:
            Noise, weights and depth: for classes entropies in nats, which sum to that of `predict_proba`; for numbers
            variances, which sum to the square of the predicted deviation.

        Args:
            X: rows.
        """

        def of_rows(x: np.ndarray) -> np.ndarray:
            parts = self._uncertainty(x)
            return np.stack([parts.noise, parts.weights, parts.depth], axis=1)

        noise, weights, depth = np.moveaxis(self._said(of_rows, X), 1, 0)
        return Uncertainty(noise, weights, depth).of_rows(getattr(X, "index", None) if is_frame(X) else None)

    def effective_width(self) -> list[list[int]]:
        """The units in use, for every restart and layer."""
        check_is_fitted(self)
        return effective_widths(self.model_)

    @abc.abstractmethod
    def training_rows(self, X: Any, y: Any) -> tuple[np.ndarray, np.ndarray]:
        """Rows as the network itself takes them.

        Args:
            X: rows.
            y: their targets.
        """

    def prune(self, X: Any, y: Any, *, tolerance: float = 0.01, most_probable_depth: bool = False) -> Pruning:
        """A smaller network whose predictions on X differ by less than `tolerance`, and what it costs on (X, y).

        The tolerance is for probabilities, or for means in predictive deviations (see `leadline.prune`).

        Args:
            X: rows to compare predictions on.
            y: their targets, for the free energy.
            tolerance: how much a prediction may change.
            most_probable_depth: whether every restart keeps its most probable depth alone.

        Returns:
            The smaller models, and what the smaller size costs.
        """
        draws = {"n_samples": self._restarts.samples_each, "key": self._restarts.keys()}
        draws |= {"share": self.restart_shares_, "spread": self.spread_}
        asked = {"tolerance": tolerance, "most_probable_depth": most_probable_depth}
        return prune(self.model_, *self.training_rows(X, y), **asked, **draws)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write a model file: `leadline.load(path)` gives an estimator with the same predictions, to the bit.

        It holds numbers and JSON, no code. A callback, an optimiser or a schedule of one's own and a `random_state`
        that is not a number are left out.

        Args:
            path: of the file.
        """
        modelfile.write(path, self.model_file())

    def model_file(self) -> bytes:
        """What `save` writes."""
        check_is_fitted(self)
        return model_file(self)

    def plot_depth(self, ax: "Axes | None" = None) -> "Axes":
        """The prior and the posterior of the depth.

        Args:
            ax: to draw in; new ones unless given.
        """
        check_is_fitted(self)
        prior = np.asarray(run_model(self.model_, 0).depth_prior.pmf())
        return plots.plot_depth(axes_or_new(ax), self.depth_pmf_, prior)

    def plot_history(self, axes: "tuple[Axes, Axes] | None" = None) -> "tuple[Axes, Axes]":
        """The free energy by its parts, and E[L] with its band, over the epochs.

        Args:
            axes: two of them to draw in; new ones unless given.
        """
        check_is_fitted(self)
        return plots.plot_history(plots.pair_or_new(axes), self.history_)


if DepthEstimator.__doc__:  # there are none with `python -OO`
    _HELP = (f"{name} : {one.metadata['help']}" for name, one in options("estimator").items())
    DepthEstimator.__doc__ = inspect.cleandoc(DepthEstimator.__doc__).replace("{options}", "\n".join(_HELP))
