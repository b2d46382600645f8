"""The beta-binomial distribution: bounded, with numbers that are real where the hypergeometric's are whole."""

from typing import ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float
from scipy.special import gammaln

from leadline._checks import InvalidArgumentError, check_integer, check_positive, is_traced
from leadline.backend.numerics import as_float, log_softplus, softplus_inverse
from leadline.depth.base import N_DEPTHS, DepthDistribution, Pair, Start
from leadline.depth.matching import pair_like_normal
from leadline.depth.poisson import lowest_rate
from leadline.depth.truncation import check_upper_quantile, truncated

MOST_G = 1.0
"""Of an unfrozen q(L): beyond, the mass goes to both ends."""


class BetaBinomialDepth(DepthDistribution):
    """Of `max_depth` layers, each is there with a probability that is itself drawn from a beta distribution; cut at
    `upper_quantile` as a Poisson is.

    With n = max_depth, p = mean / n and g = dispersion / n > 0,

        P(L) = C(n, L) product over i < L of (p + i g) product over i < n - L of (1 - p + i g) / product over i < n of
        (1 + i g),

    where alpha = p / g and beta = (1 - p) / g, and the variance is mean (1 - p) (1 + dispersion) / (1 + g). As g goes
    to 0 it is binomial; with whole alpha and beta it is the negative hypergeometric, and with g = -1 / M the same
    formula is the hypergeometric of M balls.

    Args:
        mean: before it is cut.
        dispersion: above 0; the wider.
        max_depth: n.
        upper_quantile: where it is cut.

    Examples:
        >>> from leadline import BetaBinomialDepth
        >>> [round(float(p), 3) for p in BetaBinomialDepth(2.0, 0.5).pmf(4)]
        [0.163, 0.261, 0.245, 0.17]
    """

    name: ClassVar[str] = "beta-binomial"
    colour: ClassVar[str] = "#0b8794"

    raw_mean: Float[Array, ""]
    raw_dispersion: Float[Array, ""]
    max_depth: int = eqx.field(static=True)
    upper_quantile: float = eqx.field(static=True)

    def __init__(
        self,
        mean: float | Float[Array, ""] = 1.0,
        dispersion: float | Float[Array, ""] = 0.5,
        max_depth: int = 10,
        upper_quantile: float = 1.0,
    ):
        check_integer("max_depth", max_depth, 1, N_DEPTHS - 2)
        check_positive("mean", mean)
        check_positive("dispersion", dispersion)
        if not is_traced(mean) and not np.all(np.asarray(mean) < max_depth):
            raise InvalidArgumentError(f"must be below `max_depth`, {max_depth}, got {mean}.", "mean")
        self.raw_mean = jax.scipy.special.logit(as_float(mean) / max_depth)
        self.raw_dispersion = softplus_inverse(as_float(dispersion))
        self.max_depth = max_depth
        self.upper_quantile = upper_quantile

    def __check_init__(self) -> None:
        check_upper_quantile(self.upper_quantile)

    @classmethod
    def pair(cls, start: Start) -> Pair:
        """On 0 .. 10, as the categorical: the normal's mean; its mass at 0 where that is at least the binomial's of
        that mean, (1 - mean / 10)^10, which is the least that the family has."""
        return pair_like_normal(cls, start)

    def unfrozen(self) -> "DepthDistribution":
        """Mass beside both ends: P(0), the product over i < n of 1 - p / (1 + i g), is below upper_quantile if p times
        the sum of 1 / (1 + i g) is large enough; and so is P(n)."""
        n = self.max_depth
        raw_dispersion = jnp.minimum(self.raw_dispersion, softplus_inverse(as_float(MOST_G * n)))
        harmonic = jnp.sum(1 / (1 + jnp.arange(n) / n * jax.nn.softplus(raw_dispersion)))
        lowest = jax.scipy.special.logit(jnp.minimum(lowest_rate(self.upper_quantile) / harmonic, 0.5))
        raw_mean = jnp.clip(self.raw_mean, lowest, -lowest)
        return eqx.tree_at(lambda q: (q.raw_mean, q.raw_dispersion), self, (raw_mean, raw_dispersion))

    def log_masses(self, n_depths: int) -> Float[Array, " depths"]:
        n = self.max_depth
        log_binomial = gammaln(n + 1) - gammaln(np.arange(1, n + 2)) - gammaln(np.arange(n + 1, 0, -1))
        steps = jnp.asarray(np.log(np.arange(1, n) / n), self.raw_mean.dtype)

        def products(log_p: Float[Array, ""]) -> Float[Array, " depths"]:
            """ln of the product over i < L of (p + i g) for L = 0 .. n."""
            factors = jnp.concatenate([log_p[None], jnp.logaddexp(log_p, log_softplus(self.raw_dispersion) + steps)])
            return jnp.concatenate([jnp.zeros(1, factors.dtype), jnp.cumsum(factors)])

        ups, downs = products(jax.nn.log_sigmoid(self.raw_mean)), products(jax.nn.log_sigmoid(-self.raw_mean))
        log_masses = jnp.asarray(log_binomial, ups.dtype) + ups + downs[::-1]
        log_masses = truncated(log_masses - jax.nn.logsumexp(log_masses), upper=self.upper_quantile)[:n_depths]
        return jnp.pad(log_masses, (0, n_depths - log_masses.shape[0]), constant_values=-jnp.inf)
