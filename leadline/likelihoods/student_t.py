"""Numbers of which a few lie far from the others."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

import jax
import jax.numpy as jnp
import numpy as np
import scipy.optimize
import scipy.special
from jaxtyping import Array, Float

from leadline._checks import InvalidArgumentError
from leadline.backend.numerics import as_float, softplus_inverse
from leadline.likelihoods.mixture import LocationScaleMixture, Mixture
from leadline.likelihoods.robust import RobustLikelihood

LEAST = 2.1
"""Degrees of freedom: with two there is no variance."""

START = 6.0
"""The same, as training begins."""


@dataclass(frozen=True)
class StudentTMixture(LocationScaleMixture):
    """Of Student's t distributions; `scale` is the standard deviation."""

    freedom: Float[np.ndarray, "components rows targets"]

    @property
    def width(self) -> Float[np.ndarray, "components rows targets"]:
        """What distances are measured in."""
        return self.scale * np.sqrt(1 - 2 / self.freedom)

    def component_cdf(self, y: Float[np.ndarray, "rows targets"]) -> Float[np.ndarray, "components rows targets"]:
        return scipy.special.stdtr(self.freedom, (y - self.mean) / self.width)

    def log_densities(self, y: Float[np.ndarray, "rows targets"]) -> Float[np.ndarray, "components rows targets"]:
        return log_density(y, self.mean, self.width, self.freedom)


class StudentTLikelihood(RobustLikelihood):
    """t(y | output, width, freedom): tails that fall as a power of the distance, so that rows far from the others count
    little. Width and degrees of freedom, more than LEAST, are learned, one of each per target."""

    name: ClassVar[str] = "student-t"
    mixture: ClassVar[Callable[..., Mixture]] = StudentTMixture

    raw_freedom: Float[Array, " targets"]

    def __init__(self, n_targets: int = 1, width: float = 1.0, freedom: float = START):
        super().__init__(n_targets, width)
        if not freedom > LEAST:
            raise InvalidArgumentError(f"must be more than {LEAST}, got {freedom}.", "freedom")
        self.raw_freedom = softplus_inverse(as_float(np.full(n_targets, freedom - LEAST)))

    @property
    def freedom(self) -> Float[Array, "*runs targets"]:
        """The degrees of freedom: the fewer, the heavier the tails."""
        return LEAST + jax.nn.softplus(self.raw_freedom)

    @property
    def noise_scale(self) -> Float[Array, "*runs targets"]:
        return self.width * jnp.sqrt(self.freedom / (self.freedom - 2))

    def log_prob(self, output: Float[Array, "*batch out"], y: Float[Array, "*batch targets"]) -> Float[Array, "*batch"]:
        half, distance = self.freedom / 2, self.distance(output, y)
        about = (
            jax.lax.lgamma(half + 0.5) - jax.lax.lgamma(half) - 0.5 * jnp.log(2 * jnp.pi * half) - jnp.log(self.width)
        )
        return jnp.sum(about - (half + 0.5) * jnp.log1p(jnp.square(distance) / (2 * half)), axis=-1)

    def components(self, output: Float[Array, "*batch out"]) -> tuple[Array, Array, Array]:
        return *self.mean_and_scale(output), jnp.broadcast_to(self.freedom, output.shape)

    def nll_of_guessing(self, y: np.ndarray, weight: np.ndarray) -> float:
        return sum(_guessing(one, weight) for one in y.reshape(len(y), -1).T)


def log_density(y: np.ndarray, centre: np.ndarray, width: np.ndarray, freedom: np.ndarray) -> np.ndarray:
    """ln t(y | centre, width, freedom)."""
    half = freedom / 2
    about = scipy.special.gammaln(half + 0.5) - scipy.special.gammaln(half) - 0.5 * np.log(2 * np.pi * half)
    return about - np.log(width) - (half + 0.5) * np.log1p(np.square((y - centre) / width) / freedom)


def _guessing(y: np.ndarray, weight: np.ndarray) -> float:
    """Nats per row of the best t distribution for all."""
    centre, width = RobustLikelihood.scaling(y, weight)

    def nll(x: np.ndarray) -> float:
        return -float(np.average(log_density(y, x[0], np.exp(x[1]), LEAST + np.exp(x[2])), weights=weight))

    start = [float(centre), float(np.log(width)), np.log(START - LEAST)]
    bounds = [(float(y.min()), float(y.max())), (start[1] - 8, start[1] + 8), (-8.0, 8.0)]
    return float(scipy.optimize.minimize(nll, start, bounds=bounds).fun)
