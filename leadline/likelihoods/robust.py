"""What likelihoods of numbers share that are not led astray by a few rows far from the others."""

from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from leadline._checks import InvalidArgumentError, check_integer, check_positive
from leadline.backend.numerics import as_float, mean_and_scale, softplus_inverse
from leadline.likelihoods.numbers import NumberLikelihood

GAUSSIAN = 1.4826
"""The standard deviation of a Gaussian, in units of the median distance from its median."""


class RobustLikelihood(NumberLikelihood):
    """A density of (y - output) / width that is symmetric about 0, with one learned width per target.

    Targets are standardised by their median and their median distance from it. A subclass says which density it is,
    and how many widths its standard deviation has.
    """

    recipe_changes: ClassVar[dict[str, dict[str, Any]]] = {
        **NumberLikelihood.recipe_changes,
        "leadline": {"temperature": 1.0},  # a colder network would learn the noise
    }

    raw_width: Float[Array, " targets"]

    def __init__(self, n_targets: int = 1, width: float = 1.0):
        check_integer("n_targets", n_targets, 1)
        check_positive("width", width)
        self.raw_width = softplus_inverse(as_float(np.full(n_targets, width)))

    @property
    def n_targets(self) -> int:
        return self.raw_width.shape[-1]

    @property
    def n_outputs(self) -> int:
        return self.n_targets

    @property
    def width(self) -> Float[Array, "*runs targets"]:
        """What distances from the output are measured in."""
        return jax.nn.softplus(self.raw_width)

    @property
    def least_scale(self) -> Float[Array, "*runs targets"]:
        scale = self.noise_scale
        assert scale is not None
        return scale

    def mean_and_scale(self, output: Float[Array, "*batch out"]) -> tuple[Array, Array]:
        return output, jnp.broadcast_to(self.least_scale, output.shape)

    def distance(self, output: Float[Array, "*batch out"], y: Float[Array, "*batch targets"]) -> Array:
        """(y - output) / width."""
        if y.shape != output.shape:
            raise InvalidArgumentError(f"must have the shape of the outputs, {output.shape}, got {y.shape}.", "y")
        return (y - output) / self.width

    @staticmethod
    def scaling(y: np.ndarray, weight: np.ndarray | None = None) -> tuple[Any, Any]:
        """The median, and the deviation of a Gaussian with the same median distance from it; where more than half of
        the targets are equal, their mean and their deviation."""
        weight = np.ones(len(y)) if weight is None else weight
        mean, deviation = mean_and_scale(y, weight)
        centre = weighted_median(y, weight)
        width = GAUSSIAN * weighted_median(np.abs(y - centre), weight)
        some = width > 1e-9 * deviation
        return np.where(some, centre, mean), np.where(some, width, deviation)


def weighted_median(values: np.ndarray, weight: np.ndarray) -> np.ndarray:
    """Of every column, or of one: the least value that has half of the weight at or below it."""
    columns = values.reshape(len(values), -1)
    order = np.argsort(columns, axis=0, kind="stable")
    below = np.cumsum(weight[order], axis=0)
    first = np.argmax(below >= 0.5 * below[-1], axis=0)
    places = np.arange(columns.shape[1])
    return columns[order[first, places], places].reshape(values.shape[1:])
