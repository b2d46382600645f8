"""Families whose support does not end by itself, cut at quantiles."""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from leadline._checks import InvalidArgumentError


def truncated(log_masses: Float[Array, " depths"], lower: float = 0.0, upper: float = 1.0) -> Float[Array, " depths"]:
    """The masses cut at two quantiles and divided by what is left; for a family's `log_masses`, where q(L) must end.

    The quantile of p is the smallest depth with CDF >= p. The depths from the quantile of `lower` to that of `upper`
    stay, both included; where the cuts lie carries no gradient. Nothing is cut at 0 and 1.

    Args:
        log_masses: ln P(L) for L = 0 .. n - 1, normalised over all depths, of which these n may be only the first: the
            result is right for as many as n, however many there are.
        lower: at least 0.
        upper: above lower, and at most 1.

    Returns:
        ln P(L), of the same length; -inf outside.

    Examples:
        >>> import jax.numpy as jnp
        >>> from leadline import truncated
        >>> log_masses = (jnp.arange(5) + 1) * jnp.log(0.5)  # 1/2, 1/4, 1/8, ...
        >>> [round(float(p), 3) for p in jnp.exp(truncated(log_masses, 0.0, 0.8))]
        [0.571, 0.286, 0.143, 0.0, 0.0]
    """
    if not 0 <= lower < upper <= 1:
        raise InvalidArgumentError(
            f"`lower` and `upper` must satisfy 0 <= lower < upper <= 1, got {lower} and {upper}."
        )
    if (lower, upper) == (0.0, 1.0):
        return log_masses
    cdf = jnp.cumsum(jnp.exp(jax.lax.stop_gradient(log_masses)))
    inside = jnp.concatenate([jnp.array([True]), cdf[:-1] < upper])
    if lower > 0:
        inside &= cdf >= lower
    log_masses = jnp.where(inside, log_masses, -jnp.inf)
    return log_masses - jax.nn.logsumexp(log_masses)


def check_upper_quantile(value: float) -> None:
    """Of a family that is cut there."""
    if not 0 < value <= 1:
        raise InvalidArgumentError(f"`upper_quantile` must be above 0 and at most 1, got {value}.")
