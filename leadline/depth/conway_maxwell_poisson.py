"""The Conway-Maxwell-Poisson distribution: a Poisson whose masses are taken to a power."""

from typing import ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float
from scipy.special import gammaln

from leadline._checks import check_positive
from leadline.backend.numerics import as_float, log_softplus, softplus_inverse
from leadline.depth.base import N_DEPTHS, DepthDistribution, Pair, Start
from leadline.depth.matching import pair_like_normal
from leadline.depth.truncation import check_upper_quantile, truncated

LEAST_RATIO = 0.05
"""Of the mass beside an unfrozen q(L)'s most probable depth to the mass there, at least."""


class ConwayMaxwellPoissonDepth(DepthDistribution):
    """P(L) proportional to (rate^L / L!)^power with rate and power > 0, cut at `upper_quantile` as a Poisson is.

    The power 1 is the Poisson's; above 1 it is narrower, below 1 wider: the variance is about rate / power. rate^power
    is the usual lambda: in these numbers (Guikema & Coffelt, 2008) the mode is at the whole part of the rate, whatever
    the power. The sum has no closed form; here it is one.

    Args:
        rate: above 0.
        power: above 0; the narrower.
        upper_quantile: where it is cut.

    Examples:
        >>> from leadline import ConwayMaxwellPoissonDepth
        >>> [round(float(p), 3) for p in ConwayMaxwellPoissonDepth(2.0, power=4.0).pmf(4)]
        [0.028, 0.44, 0.44, 0.087]
    """

    name: ClassVar[str] = "com-poisson"
    label: ClassVar[str] = "Conway-Maxwell-Poisson"
    colour: ClassVar[str] = "#d13438"

    raw_rate: Float[Array, ""]
    raw_power: Float[Array, ""]
    upper_quantile: float = eqx.field(static=True)

    def __init__(
        self,
        rate: float | Float[Array, ""] = 1.0,
        power: float | Float[Array, ""] = 1.0,
        upper_quantile: float = 1.0,
    ):
        check_positive("rate", rate)
        check_positive("power", power)
        self.raw_rate = softplus_inverse(as_float(rate))
        self.raw_power = softplus_inverse(as_float(power))
        self.upper_quantile = upper_quantile

    def __check_init__(self) -> None:
        check_upper_quantile(self.upper_quantile)

    @classmethod
    def pair(cls, start: Start) -> Pair:
        """The normal's mean and mass at 0."""
        return pair_like_normal(cls, start)

    def unfrozen(self) -> "DepthDistribution":
        """A power at which the mass beside the most probable depth is at least a share of the mass there.

        Below a rate of 1 the masses at 1 and 0 are as rate^power to 1. Above, the worst rate is the root of k (k + 1),
        where the masses at k - 1 and k + 1 are as exp(-power / (2 rate)) to the mass at k, and a little more.
        """
        cut = (1 - self.upper_quantile) / self.upper_quantile  # depth 1 is inside: P(0) = 1 / (1 + ratio) at most
        most = -np.log(max(LEAST_RATIO, 1.05 * cut))
        log_rate = log_softplus(self.raw_rate)
        power = jnp.where(
            log_rate < 0,
            jnp.minimum(2 * most, most / jnp.where(log_rate < 0, -log_rate, 1.0)),
            2 * most * jax.nn.softplus(self.raw_rate),
        )
        return eqx.tree_at(lambda q: q.raw_power, self, jnp.minimum(self.raw_power, softplus_inverse(power)))

    def log_masses(self, n_depths: int) -> Float[Array, " depths"]:
        n = max(n_depths, N_DEPTHS)  # the sum is over all of them
        log_factorial = jnp.asarray(gammaln(np.arange(1, n + 1)), self.raw_rate.dtype)
        log_weights = jax.nn.softplus(self.raw_power) * (jnp.arange(n) * log_softplus(self.raw_rate) - log_factorial)
        log_masses = log_weights - jax.nn.logsumexp(log_weights)
        return truncated(log_masses[:n_depths], upper=self.upper_quantile)
