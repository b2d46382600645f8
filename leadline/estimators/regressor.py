"""The network as scikit-learn's regressor."""

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.base import RegressorMixin
from sklearn.utils import check_consistent_length, check_random_state

from leadline import metrics, plots
from leadline._checks import InvalidArgumentError, check_choice, check_integer, check_number, check_size
from leadline.estimators.base import estimator
from leadline.estimators.inspection import InspectedNumbers
from leadline.inference.recipes import get_recipe
from leadline.inference.uncertainty import Uncertainty
from leadline.judged import OF_NUMBERS
from leadline.likelihoods import (
    EitherNoiseLikelihood,
    GaussianLikelihood,
    Likelihood,
    get_likelihood,
    likelihoods_of,
)
from leadline.likelihoods.mixture import Mixture
from leadline.plots import axes_or_new
from leadline.training.problem import Problem, Units
from leadline.training.trained import Trained

if TYPE_CHECKING:
    from matplotlib.axes import Axes

GAUSSIAN = "gaussian"
"""The likelihood whose `noise` may be one of several."""


@estimator
class DepthRegressor(RegressorMixin, InspectedNumbers):
    """A Bayesian neural network that learns its own depth, for a number, or several, with learned noise.

    The targets are standardised inside; everything that is predicted, and the free energy, is in their own units. With
    several targets, y [rows, targets], what is said of a target has an axis more.

    Parameters
    ----------
    likelihood : "gaussian"; "student-t" or "laplace", which rows far from the others do not lead astray (of "laplace"
        the median is predicted); "poisson" or "negative-binomial" for counts, whole numbers of at least 0, the latter
        where they vary more than their mean; or the name of another likelihood of numbers.
    noise : of Gaussians: "constant" (one learned standard deviation per target), "input" (it depends on X too) or
        "auto" (some restarts have the one, some the other, where the recipe has such kinds; else constant).
    {inherited}

    Attributes
    ----------
    noise_scale_ : the standard deviation of the noise (where it depends on X, the root of its mean square over the
        rows).
    spread_ : a factor on the deviations from the mean prediction, for every target.
    others : those of `DepthClassifier`, but for the classes.

    Examples
    --------
    >>> import numpy as np
    >>> from leadline import DepthRegressor
    >>> X = np.linspace(-2, 2, 60)[:, None]
    >>> y = np.sin(2 * X[:, 0])
    >>> reg = DepthRegressor(width=8, n_restarts=2, max_iter=200, random_state=0).fit(X, y)  # small, to be quick
    >>> mean, std = reg.predict(X, return_std=True)
    >>> mean.shape, std.shape, reg.predict_interval(X, coverage=0.9).shape
    ((60,), (60,), (60, 2))
    """

    likelihood: Any = GAUSSIAN
    noise: Any = EitherNoiseLikelihood.name

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = True
        return tags

    @property
    def _likelihood(self) -> type[Likelihood]:
        gaussians = likelihoods_of("numbers", "noise")
        others = (GAUSSIAN, *likelihoods_of("numbers"))
        if isinstance(self.likelihood, str) and self.likelihood in gaussians:
            got = f"got {self.likelihood!r}, which is what `noise` can be"
            raise InvalidArgumentError(f"must be one of {', '.join(others)}, {got}.", "likelihood")
        check_choice("likelihood", self.likelihood, others)
        check_choice("noise", self.noise, gaussians)
        if self.likelihood != GAUSSIAN and self.noise != EitherNoiseLikelihood.name:
            must = f"must be left out of a likelihood that is not {GAUSSIAN}, and has a noise of its own"
            raise InvalidArgumentError(f"{must}, got {self.noise!r}.", "noise")
        if self.likelihood != GAUSSIAN:
            return get_likelihood("numbers", self.likelihood)
        if self.noise == EitherNoiseLikelihood.name and not get_recipe(self.recipe).kinds:
            return GaussianLikelihood  # there are no restarts that could have the other
        return gaussians[self.noise]

    def problem(self, X: Any, y: Any, sample_weight: Any = None) -> Problem:
        """What `fit` learns from such rows, which are checked."""
        kind: Any = self._likelihood
        x, y, weight = self._checked_rows(X, y, sample_weight, y_numeric=True, multi_output=True)
        y = np.asarray(y, float)
        check_size("y", y)
        likelihood = kind(1 if y.ndim == 1 else y.shape[1])
        likelihood.check_targets("y", y, len(y))
        return self._problem(x, y, weight, likelihood)

    def _targets(self, problem: Problem, y: Any) -> np.ndarray:
        y = np.asarray(y, float)
        check_size("y", y)
        return y

    def _take(self, problem: Problem, trained: Trained) -> None:
        assert problem.units is not None
        units, weight = problem.units, problem.weight
        super()._take(problem, trained)
        self.y_mean_, self.y_scale_ = units.y_mean, units.y_scale
        # The densities of the targets in their own units.
        shift = units.shift
        self.free_energy_terms_["expected_nll"] += weight.sum() * shift
        self.free_energy_ += weight.sum() * shift
        if self.held_out_nll_ is not None:
            self.held_out_nll_ += shift
        self.validation_nll_ = {name: nll + shift for name, nll in self.validation_nll_.items()}
        likelihood: Any = self.model_.likelihood
        if (scale := likelihood.noise_scale) is not None:
            variance = self.restart_shares_ @ np.square(np.asarray(scale, float))
            noise = self.y_scale_ * self._as_y((self.spread_ * np.sqrt(variance))[None])[0]
        else:
            of_rows = self._as_y(self._restarts.uncertainty(problem.train[0]).noise)
            noise = self.y_scale_ * np.sqrt(np.average(of_rows, axis=0, weights=weight))
        self.noise_scale_ = float(noise) if np.ndim(self.y_mean_) == 0 else noise

    @property
    def _units(self) -> Units:
        return replace(super()._units, y_mean=self.y_mean_, y_scale=self.y_scale_)

    def predict(self, X: Any, return_std: bool = False, quantiles: Any = None) -> Any:
        """The mean of the predictive distribution (of "laplace" the median), or what else is asked for.

        Args:
            X: rows to predict.
            return_std: whether to give its standard deviation, too, noise included.
            quantiles: levels between 0 and 1: gives the quantiles there instead, of counts whole numbers.

        Returns:
            [rows]; the mean and the deviation; or [rows, quantiles]. With several targets [rows, targets] and [rows,
            targets, quantiles], of each alone.
        """
        if quantiles is not None:
            return self._quantiles(X, quantiles, return_std)
        mean, std = np.moveaxis(self._said(lambda x: np.stack(self._mean_and_std(x), axis=1), X), 1, 0)
        return (mean, std) if return_std else mean

    def _quantiles(self, X: Any, levels: Any, return_std: bool) -> np.ndarray:
        if return_std:
            raise InvalidArgumentError(f"must be None where `return_std` is asked for, got {levels!r}.", "quantiles")
        try:
            given = np.asarray(levels, float)
        except (TypeError, ValueError):
            given = np.empty(0)
        if given.ndim != 1 or len(given) == 0 or not np.all((given > 0) & (given < 1)):
            raise InvalidArgumentError(f"must be a list of numbers between 0 and 1, got {levels!r}.", "quantiles")
        return self._at_levels(X, given.tolist())

    def _at_levels(self, X: Any, levels: list[float]) -> np.ndarray:
        def of_mixture(mixture: Mixture) -> np.ndarray:
            return np.stack([self._in_units(mixture.quantile(level)) for level in levels], axis=-1)

        return self._by_mixture(of_mixture, X)

    def _mean_and_std(self, x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        def of_mixture(mixture: Mixture) -> np.ndarray:
            mean, variance = mixture.moments()
            return np.stack([mixture.point(mean), variance], axis=1)

        moments = self._restarts.by_mixture(of_mixture, x)
        return self._in_units(moments[:, 0]), self.y_scale_ * np.sqrt(self._as_y(moments[:, 1]))

    def _as_y(self, values: np.ndarray) -> np.ndarray:
        """Without the axis of targets, if y has none."""
        return values[:, 0] if np.ndim(self.y_mean_) == 0 else values

    def _in_units(self, values: np.ndarray) -> np.ndarray:
        return self.y_mean_ + self.y_scale_ * self._as_y(values)

    def predict_interval(self, X: Any, coverage: float = 0.9) -> np.ndarray:
        """The central interval of the predictive distribution that holds the target so often.

        Args:
            X: rows to predict.
            coverage: how often, between 0 and 1.

        Returns:
            [rows, 2]; with several targets [rows, targets, 2], of each alone.
        """
        check_number("coverage", coverage)
        if not 0 < coverage < 1:
            raise InvalidArgumentError(f"must lie between 0 and 1, got {coverage}.", "coverage")
        return self._at_levels(X, [0.5 - coverage / 2, 0.5 + coverage / 2])

    def predict_cdf(self, X: Any, y: Any) -> np.ndarray:
        """How much of the predictive distribution lies at or below y, row by row; uniform where the network is
        calibrated, but for counts, whose distribution has steps.

        Args:
            X: rows that were not trained on.
            y: their targets.

        Returns:
            Levels between 0 and 1, for every row (and target).
        """
        return self._by_mixture(lambda mixture, y: self._as_y(mixture.cdf(y)), X, y)

    def log_likelihood(self, X: Any, y: Any) -> np.ndarray:
        """ln p(y | x), row by row, in the units of y; of all targets together. Of counts it is a probability, else a
        density.

        Args:
            X: rows that were not trained on.
            y: their targets.

        Returns:
            Nats, for every row.
        """
        said = self._by_mixture(lambda mixture, y: mixture.log_density(y), X, y)
        return said - np.sum(np.log(self.y_scale_))

    def sample_y(self, X: Any, n_samples: int = 1, random_state: Any = 0) -> np.ndarray:
        """Draws from the predictive distribution of every row.

        Args:
            X: rows to predict.
            n_samples: draws.
            random_state: seed.

        Returns:
            [rows, draws]; with several targets [rows, targets, draws].
        """
        check_integer("n_samples", n_samples, 1)
        rng = np.random.default_rng(check_random_state(random_state).randint(np.iinfo(np.int32).max))

        def of_mixture(mixture: Mixture) -> np.ndarray:
            return np.stack([self._in_units(mixture.sample(rng)) for _ in range(n_samples)], axis=-1)

        return self._by_mixture(of_mixture, X)

    def _by_mixture(self, function: Callable[..., np.ndarray], X: Any, *y: Any) -> np.ndarray:
        """`function(mixture, *y)` for the predictive distributions of the rows, y with an axis of targets."""
        check_consistent_length(X, *y)
        return self._said(lambda *rows: self._restarts.by_mixture(function, *rows), X, *y)

    def said_of(self, X: Any, y: Any) -> metrics.OfNumbers:
        """What is said of rows whose target is known, for the measures (`leadline.metrics`).

        Args:
            X: rows that were not trained on.
            y: their targets.
        """
        said = self._by_mixture(lambda mixture, y: mixture.said_of(y), X, y)
        of = OF_NUMBERS[self.model_.likelihood.judged]
        return of.of_units(said, np.asarray(y, float), self.y_scale_)

    def _uncertainty(self, x: np.ndarray) -> Uncertainty:
        parts = super()._uncertainty(x)
        unit = np.square(self.y_scale_)
        if not np.all((unit >= np.finfo(float).tiny) & np.isfinite(unit)):
            what = f"no float holds the variances of a target whose standard deviation is {self.y_scale_}"
            raise InvalidArgumentError(f"`uncertainty`: {what}; fit it in another unit.")
        in_units = lambda part: unit * self._as_y(part)  # noqa: E731
        return Uncertainty(*(in_units(part) for part in (parts.noise, parts.weights, parts.depth)))

    def training_rows(self, X: Any, y: Any) -> tuple[np.ndarray, np.ndarray]:
        """Rows as the network itself takes them: standardised inputs and targets."""
        return self._checked(X), self._units.targets(np.asarray(y, float))

    def plot_fit(self, X: Any, y: Any, ax: "Axes | None" = None) -> "Axes":
        """The rows and the prediction, with bands for noise, weights and depth; one column, one target.

        Args:
            X: rows.
            y: their targets.
            ax: to draw in; new ones unless given.
        """
        x = self._raw(X)
        if x.shape[1] != 1:
            raise InvalidArgumentError(f"must have one column to draw the fit, got {x.shape[1]}.", "X")
        if np.ndim(self.y_mean_) > 0:
            raise InvalidArgumentError(f"must be one number to draw the fit, got {np.size(self.y_mean_)} targets.", "y")
        margin = 0.1 * np.ptp(x)
        grid = np.linspace(x.min() - margin, x.max() + margin, 300)
        names = getattr(self, "feature_names_in_", ["x"])
        rows = self._units.inputs(grid[:, None])
        mean, parts = self._mean_and_std(rows)[0], self._uncertainty(rows)
        bands = (parts.noise, parts.weights, parts.depth)
        return plots.plot_fit(axes_or_new(ax), grid, mean, *bands, x[:, 0], np.asarray(y, float), name=str(names[0]))
