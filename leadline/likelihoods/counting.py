"""What all likelihoods of counts share: whole numbers of at least 0."""

import abc
from typing import Any, ClassVar

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from leadline._checks import InvalidArgumentError, check_integer
from leadline.backend.numerics import as_float
from leadline.likelihoods.mixture import Mixture
from leadline.likelihoods.numbers import NumberLikelihood

MOST_SHIFT = 7.0
"""How far a network moves the log of the rate, at most: to a thousandth of the mean, or to a thousand times. Far from
the rows that were trained on a mean of exponentials would otherwise be that of its largest."""


class CountMixture(Mixture):
    """A mixture of distributions of counts: its quantiles are whole numbers."""

    def below(self, y: Float[np.ndarray, "rows targets"]) -> Float[np.ndarray, "rows targets"]:
        return self.cdf(np.ceil(y) - 1)

    def quantile(self, level: Any) -> Float[np.ndarray, "rows targets"]:
        """The smallest count with cdf(y) >= level."""
        low, high = np.full(self.mean.shape[1:], -1.0), np.ceil(np.maximum(self.ends(level)[1], 0.0))
        while np.any(high - low > 1):  # low is too small, and high is not
            middle = np.floor(0.5 * (low + high))
            below = self.cdf(middle) < level
            low, high = np.where(below, middle, low), np.where(below, high, middle)
        return high


class CountLikelihood(NumberLikelihood):
    """Counts whose rate is exp(log_rate + output), with the output held within MOST_SHIFT by a tanh.

    Counts are not standardised: `log_rate`, which is learned, begins at the log of their mean. A subclass says which
    distribution they have, with such a mean.
    """

    judged: ClassVar[str] = "counts"
    recipe_changes: ClassVar[dict[str, dict[str, Any]]] = {}  # cold networks have no noise to learn

    log_rate: Float[Array, " targets"]

    def __init__(self, n_targets: int = 1):
        check_integer("n_targets", n_targets, 1)
        self.log_rate = as_float(np.zeros(n_targets))

    @property
    def n_targets(self) -> int:
        return self.log_rate.shape[-1]

    @property
    def n_outputs(self) -> int:
        return self.n_targets

    @property
    def least_scale(self) -> Float[Array, "*runs targets"]:
        return jnp.exp(0.5 * (self.log_rate - MOST_SHIFT))

    def log_mean(self, output: Float[Array, "*batch targets"]) -> Float[Array, "*batch targets"]:
        """ln E[y | output]."""
        return self.log_rate + MOST_SHIFT * jnp.tanh(output / MOST_SHIFT)

    @abc.abstractmethod
    def log_masses(
        self, output: Float[Array, "*batch targets"], y: Float[Array, "*batch targets"]
    ) -> Float[Array, "*batch targets"]:
        """ln p(y | output) of every target alone."""

    def log_prob(self, output: Float[Array, "*batch out"], y: Float[Array, "*batch targets"]) -> Float[Array, "*batch"]:
        if y.shape != output.shape:
            raise InvalidArgumentError(f"must have the shape of the outputs, {output.shape}, got {y.shape}.", "y")
        return jnp.sum(self.log_masses(output, y), axis=-1)

    @staticmethod
    def scaling(y: np.ndarray, weight: np.ndarray | None = None) -> tuple[Any, Any]:
        """Counts stay counts."""
        return np.zeros(y.shape[1:]), np.ones(y.shape[1:])

    def starting(self, y: np.ndarray, weight: np.ndarray) -> "CountLikelihood":
        """At the mean, or where all are 0 at a count of one half in all rows together."""
        total = np.maximum(weight @ y.reshape(len(y), -1), 0.5)
        return eqx.tree_at(lambda one: one.log_rate, self, as_float(np.log(total / weight.sum())))

    def check_targets(self, name: str, y: Any, n_rows: int) -> np.ndarray:
        y = super().check_targets(name, y, n_rows)
        wrong = y[(y < 0) | (y != np.round(y))]
        if len(wrong):
            raise InvalidArgumentError(f"must hold counts, whole numbers of at least 0, got {wrong[0]}.", name)
        return y
