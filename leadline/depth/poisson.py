"""The Poisson distribution of Nazaret & Blei (2022), truncated at an upper quantile."""

from typing import ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float
from scipy.special import gammaln

from leadline._checks import check_positive
from leadline.backend.numerics import as_float, at_least, softplus_inverse
from leadline.depth.base import DepthDistribution, Pair, Start
from leadline.depth.truncation import check_upper_quantile, truncated

MIN_RATE = 0.01
"""The lowest rate of an unfrozen q(L)."""


class PoissonDepth(DepthDistribution):
    """Poisson(rate) on 0 .. u, renormalised.

    u is the smallest depth with CDF >= `upper_quantile`; it carries no gradient.

    Args:
        rate: lambda_L.
        upper_quantile: p_u, where it is cut.

    Examples:
        >>> from leadline import PoissonDepth
        >>> q = PoissonDepth(0.5, upper_quantile=0.95)
        >>> [round(float(p), 3) for p in q.pmf(4)]
        [0.615, 0.308, 0.077, 0.0]
    """

    name: ClassVar[str] = "poisson"
    label: ClassVar[str] = "Poisson"
    colour: ClassVar[str] = "#5e57a6"

    raw_rate: Float[Array, ""]
    upper_quantile: float = eqx.field(static=True)

    def __init__(self, rate: float | Float[Array, ""] = 1.0, upper_quantile: float = 1.0):
        check_positive("rate", rate)
        self.raw_rate = softplus_inverse(as_float(rate))
        self.upper_quantile = upper_quantile

    def __check_init__(self) -> None:
        check_upper_quantile(self.upper_quantile)

    @classmethod
    def pair(cls, start: Start) -> Pair:
        """The paper's, wherever a normal q(L) would start."""
        return cls(0.5), cls(1.0, 0.95)

    @property
    def rate(self) -> Float[Array, ""]:
        """lambda_L."""
        return jax.nn.softplus(self.raw_rate)

    def unfrozen(self) -> "DepthDistribution":
        """A rate at which depth 1 is in the support: P(0) = exp(-rate) < upper_quantile, and its mass is not tiny."""
        lowest_raw_rate = softplus_inverse(as_float(self.lowest))
        return eqx.tree_at(lambda q: q.raw_rate, self, at_least(self.raw_rate, lowest_raw_rate))

    @property
    def lowest(self) -> float:
        """The lowest rate of an unfrozen one."""
        return lowest_rate(self.upper_quantile)

    def log_masses(self, n_depths: int) -> Float[Array, " depths"]:
        log_factorial = jnp.asarray(gammaln(np.arange(1, n_depths + 1)), self.raw_rate.dtype)
        log_masses = jnp.arange(n_depths) * jnp.log(self.rate) - self.rate - log_factorial
        return truncated(log_masses, upper=self.upper_quantile)


def lowest_rate(upper_quantile: float) -> float:
    """The rate at which a little more than what is cut lies above depth 0; never tiny."""
    return max(MIN_RATE, -1.05 * float(np.log(upper_quantile)))
