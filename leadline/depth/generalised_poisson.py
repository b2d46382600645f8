"""The generalised Poisson distribution of Consul & Jain (1973), whose variance may be below its mean."""

from typing import ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float
from scipy.special import gammaln

from leadline._checks import InvalidArgumentError, check_finite, check_positive, is_traced
from leadline.backend.numerics import as_float, log_softplus, softplus_inverse
from leadline.depth.base import N_DEPTHS, DepthDistribution, Pair, Start
from leadline.depth.matching import normal_facts, pair_like_normal
from leadline.depth.normal import PRIOR
from leadline.depth.poisson import lowest_rate
from leadline.depth.truncation import check_upper_quantile, truncated

LEAST_DEPTHS = 4
"""The depths up to this one have mass, whatever the numbers are."""


class GeneralisedPoissonDepth(DepthDistribution):
    """P(L) proportional to t (t + d L)^(L - 1) exp(-t - d L) / L! with the rate t > 0 and the dispersion d, cut at
    `upper_quantile` as a Poisson is.

    Mean t / (1 - d), variance t / (1 - d)^3: 0 is the Poisson's, above 0 it is wider, below 0 narrower. Below 0 the
    mass ends where t + d L is no longer positive, and the formula sums to a little more or less than 1; so it is
    divided by its sum, and d is at least -min(1, t / 4), so that five depths have mass (Consul & Shoukri, 1985). Hence
    the variance is a quarter of the mean at least, and hardly below it where the mean is small.

    Args:
        rate: t.
        dispersion: d, below 1.
        upper_quantile: where it is cut.

    Examples:
        >>> from leadline import GeneralisedPoissonDepth
        >>> [round(float(p), 3) for p in GeneralisedPoissonDepth(2.0, dispersion=-0.2).pmf(4)]
        [0.135, 0.331, 0.323, 0.161]
    """

    name: ClassVar[str] = "generalised-poisson"
    label: ClassVar[str] = "generalised Poisson"
    colour: ClassVar[str] = "#c2408f"

    raw_rate: Float[Array, ""]
    raw_dispersion: Float[Array, ""]
    upper_quantile: float = eqx.field(static=True)

    def __init__(
        self,
        rate: float | Float[Array, ""] = 1.0,
        dispersion: float | Float[Array, ""] = 0.0,
        upper_quantile: float = 1.0,
    ):
        check_positive("rate", rate)
        check_finite("dispersion", dispersion)
        least = _least(as_float(rate))
        if not is_traced(rate) and not is_traced(dispersion) and not least < dispersion < 1:
            must = f"must lie above -min(1, rate / {LEAST_DEPTHS}) = {float(least):g} and below 1"
            raise InvalidArgumentError(f"{must}, got {dispersion}.", "dispersion")
        self.raw_rate = softplus_inverse(as_float(rate))
        self.raw_dispersion = jax.scipy.special.logit((as_float(dispersion) - least) / (1 - least))
        self.upper_quantile = upper_quantile

    def __check_init__(self) -> None:
        check_upper_quantile(self.upper_quantile)

    @classmethod
    def pair(cls, start: Start) -> Pair:
        """The normal's mean, and for q(L) its mass at 0 where t / 4 allows for it.

        p(L) is the one with a dispersion of 0. With the normal's mass at 0 it would end, at depth 25, and q(L) can pass
        that.
        """
        _, posterior = pair_like_normal(cls, start)
        return cls(normal_facts(*PRIOR)[0]), posterior

    @property
    def rate(self) -> Float[Array, ""]:
        """t."""
        return jax.nn.softplus(self.raw_rate)

    @property
    def dispersion(self) -> Float[Array, ""]:
        """d, as far below 0 as the rate allows."""
        least = _least(self.rate)
        return least + (1 - least) * jax.nn.sigmoid(self.raw_dispersion)

    def unfrozen(self) -> "DepthDistribution":
        """A rate at which depth 1 is in the support: P(0) = exp(-t) < upper_quantile, but for the sum."""
        raw_rate = jnp.maximum(self.raw_rate, softplus_inverse(as_float(lowest_rate(self.upper_quantile))))
        return eqx.tree_at(lambda q: q.raw_rate, self, raw_rate)

    def log_masses(self, n_depths: int) -> Float[Array, " depths"]:
        n = max(n_depths, N_DEPTHS)  # the sum is over all of them
        depth = jnp.arange(1, n)
        log_factorial = jnp.asarray(gammaln(np.arange(2, n + 1)), self.raw_rate.dtype)
        reach = self.rate + self.dispersion * depth
        inside = reach > 0
        powers = (depth - 1) * jnp.log(jnp.where(inside, reach, 1.0))
        beyond_0 = log_softplus(self.raw_rate) + powers - reach - log_factorial
        log_weights = jnp.concatenate([-self.rate[None], jnp.where(inside, beyond_0, -jnp.inf)])
        log_masses = log_weights - jax.nn.logsumexp(log_weights)
        return truncated(log_masses[:n_depths], upper=self.upper_quantile)


def _least(rate: Float[Array, ""]) -> Float[Array, ""]:
    return -jnp.minimum(1.0, rate / LEAST_DEPTHS)
