"""What all likelihoods of numbers share, and those with Gaussian noise."""

import abc
from collections.abc import Callable
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PyTree

from leadline._checks import InvalidArgumentError, check_integer, check_positive
from leadline.backend.numerics import as_float, mean_and_scale, softplus_inverse
from leadline.likelihoods.base import Likelihood
from leadline.likelihoods.mixture import GaussianMixture, Mixture


class NumberLikelihood(Likelihood):
    """p(y | output) for `n_targets` numbers that are independent given the output.

    A subclass says which distribution they have (`log_prob`, `mean_and_scale`) and, with `components` and `mixture`,
    what many of them are together.

    Examples:
        >>> import jax.numpy as jnp
        >>> from leadline import GaussianLikelihood, NumberLikelihood
        >>> isinstance(GaussianLikelihood(), NumberLikelihood)
        True
        >>> print(GaussianLikelihood(scale=0.5).moments(jnp.array([[2.0]])).round(3))  # E[y] and E[y^2]
        [[[2.  ]
          [4.25]]]
    """

    common_validation: ClassVar[bool] = True
    # Without the weight KL a network learns the noise too, and then says that there is none; so it comes in soon.
    # A cold network learns it anyway, and is right where there is little.
    recipe_changes: ClassVar[dict[str, dict[str, Any]]] = {
        "table": {"kinds": ((1.0, 0.5), (0.1, 2.5), (0.4, 0.5, "constant")), "warm_up": 0.1}
    }
    mixture: ClassVar[Callable[..., Mixture]]
    """The predictive distribution from the shares of its components and what `components` says of each."""

    def __init_subclass__(cls, **options: object) -> None:
        super().__init_subclass__(**options)
        owners = ([one for one in cls.__mro__ if name in vars(one)] for name in ("log_prob", "mixture"))
        (trained_by, *_), predicted_by = owners
        if predicted_by and trained_by is not predicted_by[0] and issubclass(trained_by, predicted_by[0]):
            must = "must have a `mixture` of its own as it has a `log_prob`"
            raise InvalidArgumentError(f"{must}, got that of {predicted_by[0].__name__}.", cls.__name__)

    @property
    @abc.abstractmethod
    def n_targets(self) -> int:
        """How many numbers a row has to predict."""

    @property
    def n_spreads(self) -> int:
        return self.n_targets

    @property
    @abc.abstractmethod
    def least_scale(self) -> Float[Array, "*runs targets"]:
        """The smallest noise that there can be."""

    @property
    def noise_scale(self) -> Float[Array, "*runs targets"] | None:
        """The standard deviation of the noise, where it is one for all rows."""
        return None

    @abc.abstractmethod
    def mean_and_scale(
        self, output: Float[Array, "*batch out"]
    ) -> tuple[Float[Array, "*batch targets"], Float[Array, "*batch targets"]]:
        """The mean and the standard deviation of y, given the output.

        Args:
            output: what the network puts out, a row per data point.
        """

    def components(self, output: Float[Array, "*batch out"]) -> PyTree[Float[Array, "*batch targets"]]:
        """What a component of the `mixture` is made of.

        Args:
            output: what the network puts out, a row per data point.
        """
        return self.mean_and_scale(output)

    def moments(self, output: Float[Array, "*batch out"]) -> Float[Array, "*batch 2 targets"]:
        """E[y] and E[y^2]; averaged, they give the predictive mean and variance."""
        mean, scale = self.mean_and_scale(output)
        return jnp.stack([mean, jnp.square(mean) + jnp.square(scale)], axis=-2)

    def noise(self, output: Float[Array, "*batch out"]) -> Float[Array, "*batch targets"]:
        """The variance of y."""
        return jnp.square(self.mean_and_scale(output)[1])

    def uncertainty(self, moments: np.ndarray) -> np.ndarray:
        """The variance of y."""
        return moments[..., 1, :] - np.square(moments[..., 0, :])

    def widened(self, moments: np.ndarray, spread: np.ndarray) -> np.ndarray:
        """With the same mean, and all deviations from it so many times as large."""
        mean, square = moments[..., 0, :].astype(float), moments[..., 1, :]
        return np.stack([mean, mean**2 + spread**2 * np.maximum(square - mean**2, 0.0)], axis=-2)

    def change(self, expected: np.ndarray, got: np.ndarray, spread: np.ndarray) -> float:
        """Of a mean or a deviation, in predictive deviations, which the spread stretches.

        The noise is a floor: far from zero, the difference of the moments has no digits left.
        """
        least = np.square(np.asarray(self.least_scale)).reshape(-1, self.n_targets).min(axis=0)
        (mean, deviation), (new_mean, new_deviation) = (
            (moments[:, 0], spread * np.sqrt(np.maximum(self.uncertainty(moments), least)))
            for moments in (expected, got)
        )
        return float(np.max(np.abs([new_mean - mean, new_deviation - deviation]) / deviation))

    @staticmethod
    def scaling(y: np.ndarray, weight: np.ndarray | None = None) -> tuple[Any, Any]:
        """What is subtracted from the targets, and what they are divided by, before the network sees them.

        Args:
            y: the targets.
            weight: how much each row counts; alike unless given.
        """
        return mean_and_scale(y, weight)

    def labels(self, y: np.ndarray) -> None:
        return None

    def nll_of_guessing(self, y: np.ndarray, weight: np.ndarray) -> float:
        variance = np.average(np.square(y - np.average(y, axis=0, weights=weight)), axis=0, weights=weight)
        return float(np.sum(0.5 * np.log(2 * np.pi * np.e * np.maximum(variance, 1e-12))))

    def check_targets(self, name: str, y: Any, n_rows: int) -> np.ndarray:
        y = np.asarray(y, float)
        y = y[:, None] if y.ndim == 1 else y
        if y.shape != (n_rows, self.n_targets):
            must = f"must hold {self.n_targets} numbers for each of {n_rows} rows"
            raise InvalidArgumentError(f"{must}, got shape {y.shape}.", name)
        if not np.all(np.isfinite(y)):
            raise InvalidArgumentError(f"must be finite, got {y[~np.isfinite(y)][0]}.", name)
        return y


class GaussianNoise(NumberLikelihood):
    """N(y | mean, diag(scale^2)) (eq. 1a); a subclass says how an output has mean and scale."""

    argument: ClassVar[str] = "noise"
    mixture: ClassVar[Callable[..., Mixture]] = GaussianMixture

    raw_scale: Float[Array, " targets"]

    def __init__(self, n_targets: int = 1, scale: float = 1.0):
        check_integer("n_targets", n_targets, 1)
        check_positive("scale", scale)
        self.raw_scale = softplus_inverse(as_float(np.full(n_targets, scale)))

    @property
    def n_targets(self) -> int:
        return self.raw_scale.shape[-1]

    def log_prob(self, output: Float[Array, "*batch out"], y: Float[Array, "*batch targets"]) -> Float[Array, "*batch"]:
        mean, scale = self.mean_and_scale(output)
        if y.shape != mean.shape:
            raise InvalidArgumentError(f"must have the shape of the predicted means, {mean.shape}, got {y.shape}.", "y")
        return jnp.sum(jax.scipy.stats.norm.logpdf(y, mean, scale), axis=-1)
