"""The negative binomial distribution: a Poisson whose variance is larger than its mean, never smaller."""

from typing import ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float
from scipy.special import gammaln

from leadline._checks import check_positive
from leadline.backend.numerics import as_float, log_softplus, softplus_inverse
from leadline.depth.base import DepthDistribution, Pair, Start
from leadline.depth.matching import pair_like_normal
from leadline.depth.poisson import MIN_RATE
from leadline.depth.truncation import check_upper_quantile, truncated

LEAST_DISPERSION = 1e-12
"""What a dispersion below counts as: at 0 the formula is 0 / 0."""

MOST_DISPERSION = 10.0
"""Of an unfrozen q(L): beyond, what is not at 0 is far away."""


class NegativeBinomialDepth(DepthDistribution):
    """Mean m and variance m + a m^2 with the dispersion a > 0, cut at `upper_quantile` as a Poisson is.

    ln P(L) = sum over k < L of ln(1 + a k) + L ln m - (L + 1/a) ln(1 + a m) - ln L!, in which nothing is lost as a goes
    to 0, where it is the Poisson's; r = 1/a and p = 1 / (1 + a m) are the usual numbers.

    Args:
        mean: m, before it is cut.
        dispersion: a.
        upper_quantile: where it is cut.

    Examples:
        >>> from leadline import NegativeBinomialDepth
        >>> [round(float(p), 3) for p in NegativeBinomialDepth(2.0, 0.5).pmf(4)]
        [0.25, 0.25, 0.187, 0.125]
    """

    name: ClassVar[str] = "negative-binomial"
    label: ClassVar[str] = "negative binomial"
    colour: ClassVar[str] = "#2a7fb8"

    raw_mean: Float[Array, ""]
    raw_dispersion: Float[Array, ""]
    upper_quantile: float = eqx.field(static=True)

    def __init__(
        self,
        mean: float | Float[Array, ""] = 1.0,
        dispersion: float | Float[Array, ""] = 0.5,
        upper_quantile: float = 1.0,
    ):
        check_positive("mean", mean)
        check_positive("dispersion", dispersion)
        self.raw_mean = softplus_inverse(as_float(mean))
        self.raw_dispersion = softplus_inverse(as_float(dispersion))
        self.upper_quantile = upper_quantile

    def __check_init__(self) -> None:
        check_upper_quantile(self.upper_quantile)

    @classmethod
    def pair(cls, start: Start) -> Pair:
        """The normal's mean; its mass at 0 where that is at least a Poisson's of that mean, exp(-mean), which is the
        least that the family has (the paper's prior has less: it becomes a Poisson's)."""
        return pair_like_normal(cls, start)

    @property
    def dispersion(self) -> Float[Array, ""]:
        """a."""
        return jnp.maximum(jax.nn.softplus(self.raw_dispersion), LEAST_DISPERSION)

    def unfrozen(self) -> "DepthDistribution":
        """Depth 1 is in the support: P(0) = (1 + a m)^(-1/a) < upper_quantile, which is so for a mean above
        (upper_quantile^-a - 1) / a."""
        raw_dispersion = jnp.minimum(self.raw_dispersion, softplus_inverse(as_float(MOST_DISPERSION)))
        dispersion = jnp.maximum(jax.nn.softplus(raw_dispersion), LEAST_DISPERSION)
        lowest = jnp.maximum(MIN_RATE, 1.05 * jnp.expm1(-np.log(self.upper_quantile) * dispersion) / dispersion)
        raw_mean = jnp.maximum(self.raw_mean, softplus_inverse(lowest))
        return eqx.tree_at(lambda q: (q.raw_mean, q.raw_dispersion), self, (raw_mean, raw_dispersion))

    def log_masses(self, n_depths: int) -> Float[Array, " depths"]:
        depth, a = jnp.arange(n_depths), self.dispersion
        log_factorial = jnp.asarray(gammaln(np.arange(1, n_depths + 1)), self.raw_mean.dtype)
        products = jnp.cumsum(jnp.log1p(a * depth)) - jnp.log1p(a * depth)
        log_growth = jnp.log1p(a * jax.nn.softplus(self.raw_mean))
        log_masses = products + depth * (log_softplus(self.raw_mean) - log_growth) - log_growth / a - log_factorial
        return truncated(log_masses, upper=self.upper_quantile)
