"""The discrete truncated normal distribution of the paper (eq. 3, 6, 7)."""

from typing import ClassVar, get_args

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float
from scipy.special import ndtri

from leadline._checks import check_choice, check_finite, check_positive, check_quantiles
from leadline.backend.numerics import as_float, at_least, log_ndtr, log_sub_exp, softplus_inverse
from leadline.depth.base import Bounds, DepthDistribution, Pair, Start

PRIOR = (0.0, 1.15)
"""loc and scale of the paper's p(L)."""

QUANTILES = (0.025, 0.975)
"""Where the paper cuts q(L)."""

WINDOW = 1.05
"""The length of an unfrozen q(L)'s window, at least: a bin and a little more, so that it touches two bins wherever it
lies."""

MAX_EDGE = 3.0
"""Scales from loc to the edge of the window, at most, for this purpose: beyond that there is hardly any mass."""


class NormalDepth(DepthDistribution):
    """P(L) = mass of [L, L + 1] under N(loc, scale^2) cut to x >= 0 (eq. 3), optionally cut to a quantile window.

    With the default quantiles 0 and 1 nothing more is cut. Otherwise the window [a, b] reaches from the
    `lower_quantile` to the `upper_quantile` of the normal on x >= 0, and `bounds` says how it meets the bins:

    - `real` (eq. 6, 7): a and b are real numbers that move with loc and scale. The bins at the edges are cut, so a new
      depth enters with mass 0, and all masses are continuous in loc and scale.
    - `integer` (the code behind the published figures): the window is widened to whole bins, floor(a) to ceil(b), and
      the masses are divided by their sum. The window's edges carry no gradient.

    Args:
        loc: mu_L, of the normal before it is cut.
        scale: sigma_L, likewise.
        lower_quantile: p_l, where the window begins.
        upper_quantile: p_u, where it ends.
        bounds: how its ends meet the bins.

    Examples:
        >>> from leadline import NormalDepth
        >>> q = NormalDepth(1.5, 0.5, lower_quantile=0.025, upper_quantile=0.975)
        >>> [round(float(p), 2) for p in q.pmf(4)]
        [0.14, 0.72, 0.14, 0.0]
    """

    name: ClassVar[str] = "normal"
    colour: ClassVar[str] = "#c75100"

    loc: Float[Array, ""]
    raw_scale: Float[Array, ""]
    lower_quantile: float = eqx.field(static=True)
    upper_quantile: float = eqx.field(static=True)
    bounds: Bounds = eqx.field(static=True)

    def __init__(
        self,
        loc: float | Float[Array, ""] = 0.0,
        scale: float | Float[Array, ""] = 1.0,
        lower_quantile: float = 0.0,
        upper_quantile: float = 1.0,
        bounds: Bounds = "real",
    ):
        check_finite("loc", loc)
        check_positive("scale", scale)
        self.loc = as_float(loc)
        self.raw_scale = softplus_inverse(as_float(scale))
        self.lower_quantile = lower_quantile
        self.upper_quantile = upper_quantile
        self.bounds = bounds

    def __check_init__(self) -> None:
        check_quantiles(self.lower_quantile, self.upper_quantile)
        check_choice("bounds", self.bounds, get_args(Bounds))

    @classmethod
    def pair(cls, start: Start) -> Pair:
        """The paper's prior, and its window of quantiles for q(L)."""
        return cls(*PRIOR), cls(start.loc, start.scale, *QUANTILES, start.bounds)

    @property
    def scale(self) -> Float[Array, ""]:
        """sigma_L."""
        return jax.nn.softplus(self.raw_scale)

    def unfrozen(self) -> "DepthDistribution":
        """loc >= 1/2, the middle of the first bin, and a scale with which the window is longer than a bin.

        A floor on the scale alone would not do: far below zero, any window lies inside the first bin.
        """
        floors = (0.5, softplus_inverse(as_float(self.lowest)))
        floored = [at_least(a, least) for a, least in zip((self.loc, self.raw_scale), floors, strict=True)]
        return eqx.tree_at(lambda q: (q.loc, q.raw_scale), self, tuple(floored))

    @property
    def lowest(self) -> float:
        """The scale of the narrowest unfrozen one."""
        edges = np.clip(ndtri([self.lower_quantile, self.upper_quantile]), -MAX_EDGE, MAX_EDGE)
        return float(WINDOW / (edges[1] - edges[0]))

    def log_masses(self, n_depths: int) -> Float[Array, " depths"]:
        z = (jnp.arange(n_depths + 1) - self.loc) / self.scale
        # F and 1 - F of the normal on x >= 0 at the bins' edges: differences keep their digits in the smaller tail.
        log_below, log_above = log_ndtr(jnp.stack([z, -z]))
        log_survival = log_above - log_above[0]
        log_cdf = log_sub_exp(log_below, jnp.broadcast_to(log_below[0], z.shape)) - log_above[0]
        upper_tail = z[:-1] + z[1:] > 0

        with np.errstate(divide="ignore"):  # ln 0 = -inf is meant: no cut
            log_lower, log_upper = np.log(self.lower_quantile), np.log(self.upper_quantile)
            log_above_lower, log_above_upper = np.log1p(-self.lower_quantile), np.log1p(-self.upper_quantile)

        if self.bounds == "integer":
            log_masses = _bin_masses(log_cdf, log_survival, upper_tail)
            inside = (log_survival[:-1] > log_above_upper) & (log_survival[1:] < log_above_lower)
            log_masses = jnp.where(inside, log_masses, -jnp.inf)
            return log_masses - jax.nn.logsumexp(log_masses)

        # F(a) and F(b) are the quantiles themselves, so to cut the bins at a and b is to clip F at their edges.
        log_cdf = jnp.clip(log_cdf, log_lower, log_upper)
        log_survival = jnp.clip(log_survival, log_above_upper, log_above_lower)
        return _bin_masses(log_cdf, log_survival, upper_tail) - np.log(self.upper_quantile - self.lower_quantile)


def _bin_masses(
    log_cdf: Float[Array, " edges"], log_survival: Float[Array, " edges"], upper_tail: Array
) -> Float[Array, " depths"]:
    from_below = log_sub_exp(log_cdf[1:], log_cdf[:-1])
    from_above = log_sub_exp(log_survival[:-1], log_survival[1:])
    return jnp.where(upper_tail, from_above, from_below)
