"""The discrete gamma distribution of Chakraborty & Chakravarty (2012)."""

from typing import ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float
from scipy.special import ndtri

from leadline._checks import InvalidArgumentError, check_positive, is_traced
from leadline.backend.numerics import as_float, softplus_inverse
from leadline.depth.base import DepthDistribution, Pair, Start
from leadline.depth.matching import pair_like_normal
from leadline.depth.normal import MAX_EDGE, WINDOW
from leadline.depth.truncation import check_upper_quantile, truncated

LEAST_MEAN, LEAST_DISPERSION = 1e-3, 0.02
"""What is added to the learned numbers: nothing narrower than this can be told from all mass at one depth."""

LEAST_SHAPE = 0.2
"""Of an unfrozen q(L)."""

NODES, WEIGHTS = np.polynomial.legendre.leggauss(32)
"""Of Gauss and Legendre, on [-1, 1]."""

TERMS = 128
"""Of the series for P(0): x^j / (k + 1) ... (k + j) for x up to 1 / LEAST_DISPERSION."""


class DiscreteGammaDepth(DepthDistribution):
    """P(L) = mass of [L, L + 1] under the gamma distribution of a mean m > 0 and a variance m s, cut at
    `upper_quantile` as a Poisson is.

    The shape is k = m / s, the scale s. The paper passes over this family because derivatives by the shape are hard
    where masses are differences of incomplete gamma functions. Here they are integrals: with r = x / m,

        ln density(x) = k (ln r - r + 1) - ln x - [ln Gamma(k) - k ln k + k],

    by 32 points in each bin above 0, and by the series of the incomplete gamma function in the bin at 0, where the
    density may have a pole. Both are sums of positive terms, in logarithms, and so are their derivatives.

    Args:
        mean: m, of the gamma distribution.
        dispersion: s, its variance over its mean.
        upper_quantile: where it is cut.

    Examples:
        >>> from leadline import DiscreteGammaDepth
        >>> [round(float(p), 3) for p in DiscreteGammaDepth(2.0, 0.5).pmf(4)]
        [0.143, 0.424, 0.282, 0.109]
    """

    name: ClassVar[str] = "discrete-gamma"
    label: ClassVar[str] = "discrete gamma"
    colour: ClassVar[str] = "#8f7a00"

    raw_mean: Float[Array, ""]
    raw_dispersion: Float[Array, ""]
    upper_quantile: float = eqx.field(static=True)

    def __init__(
        self,
        mean: float | Float[Array, ""] = 1.5,
        dispersion: float | Float[Array, ""] = 0.7,
        upper_quantile: float = 1.0,
    ):
        for name, value, least in (("mean", mean, LEAST_MEAN), ("dispersion", dispersion, LEAST_DISPERSION)):
            check_positive(name, value)
            if not is_traced(value) and not np.all(np.asarray(value) > least):
                raise InvalidArgumentError(f"must be above {least}, got {value}.", name)
        self.raw_mean = softplus_inverse(as_float(mean - LEAST_MEAN))
        self.raw_dispersion = softplus_inverse(as_float(dispersion - LEAST_DISPERSION))
        self.upper_quantile = upper_quantile

    def __check_init__(self) -> None:
        check_upper_quantile(self.upper_quantile)

    @classmethod
    def pair(cls, start: Start) -> Pair:
        """The normal's mean and mass at 0."""
        return pair_like_normal(cls, start)

    def unfrozen(self) -> "DepthDistribution":
        """As the normal: a mean of at least 1/2 and a standard deviation with which the density reaches over a bin; and
        a shape at which it is not all at 0."""
        raw_mean = jnp.maximum(self.raw_mean, softplus_inverse(as_float(0.5 - LEAST_MEAN)))
        mean = jax.nn.softplus(raw_mean) + LEAST_MEAN
        edge = min(ndtri(self.upper_quantile), MAX_EDGE)
        least, most = (WINDOW / (2 * edge)) ** 2 / mean, mean / LEAST_SHAPE
        ends = (jnp.maximum(end - LEAST_DISPERSION, LEAST_DISPERSION) for end in (least, most))
        raw_dispersion = jnp.clip(self.raw_dispersion, *map(softplus_inverse, ends))
        return eqx.tree_at(lambda q: (q.raw_mean, q.raw_dispersion), self, (raw_mean, raw_dispersion))

    def log_masses(self, n_depths: int) -> Float[Array, " depths"]:
        mean = jax.nn.softplus(self.raw_mean) + LEAST_MEAN
        scale = jax.nn.softplus(self.raw_dispersion) + LEAST_DISPERSION
        shape = mean / scale
        further = _log_series(shape, 1 / scale) - jnp.log(shape)
        log_at_0 = shape * (1 - jnp.log(mean) - 1 / mean) + further
        points, weights = (jnp.asarray(a, mean.dtype) for a in ((NODES + 1) / 2, np.log(WEIGHTS / 2)))
        x = jnp.arange(1, n_depths)[:, None] + points
        log_ratio = jnp.log(x) - jnp.log(mean)
        log_density = shape * (log_ratio - x / mean + 1) - jnp.log(x)
        above_0 = jax.nn.logsumexp(log_density + weights, axis=1)
        log_masses = jnp.concatenate([log_at_0[None], above_0]) - _stirling_rest(shape)
        return truncated(log_masses, upper=self.upper_quantile)


def _log_series(shape: Float[Array, ""], x: Float[Array, ""]) -> Float[Array, ""]:
    """ln of the sum over j >= 0 of x^j / (k + 1) ... (k + j): what the incomplete gamma function is made of."""
    j = jnp.arange(1, TERMS)
    log_terms = jnp.cumsum(jnp.log(x) - jnp.log(shape + j))
    return jax.nn.logsumexp(jnp.concatenate([jnp.zeros(1, log_terms.dtype), log_terms]))


def _stirling_rest(k: Float[Array, ""]) -> Float[Array, ""]:
    """ln Gamma(k) - k ln k + k, which is small beside its terms where k is large."""
    large = k > 8
    far, near = jnp.where(large, k, 8.0), jnp.where(large, 1.0, k)
    w = 1 / jnp.square(far)
    series = (1 / 12 - w * (1 / 360 - w * (1 / 1260 - w * (1 / 1680 - w / 1188)))) / far
    by_series = 0.5 * jnp.log(2 * np.pi / far) + series
    return jnp.where(large, by_series, jax.lax.lgamma(near) - near * jnp.log(near) + near)
