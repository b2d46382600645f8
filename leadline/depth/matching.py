"""Where a family of two numbers starts: as near to the discrete normal as it can."""

from collections.abc import Callable
from functools import cache
from typing import TypeVar

import equinox as eqx
import jax
import numpy as np
from scipy.special import log_ndtr

from leadline.backend.compilation import jit
from leadline.backend.numerics import as_float
from leadline.depth.base import N_DEPTHS, DepthDistribution, Pair, Start
from leadline.depth.normal import PRIOR, QUANTILES

Family = TypeVar("Family", bound=DepthDistribution)

CENTRES = (-500.0, 300.0)
SPREADS = (-4.6, 20.0)
"""Where raw numbers are looked for. At the lower end a positive number is 0.01: as good as 0, and one from which
learning still moves it."""

DIGITS = 4
"""Of what is found: what is beyond depends on the device."""


def pair_like_normal(family: type[Family], start: Start) -> Pair:
    """p(L) and the q(L) to start from, whose mean and mass at 0 are those of the normal ones, none of them cut; then
    q(L) is cut at the normal's upper quantile.

    The mean is the same, the mass at 0 as near as the family gets.

    Args:
        family: with two learned numbers, its centre and its spread, in this order, and an `upper_quantile`.
        start: what the recipe says of a normal q(L).
    """
    prior, posterior = family(), family(upper_quantile=QUANTILES[1])  # pyright: ignore[reportCallIssue]
    return _with(prior, *_matched(family, *PRIOR)), _with(posterior, *_matched(family, start.loc, start.scale))


def normal_facts(loc: float, scale: float) -> tuple[float, float]:
    """Mean and mass at 0 of the paper's normal (eq. 3), not cut: E[L] = sum over k >= 1 of P(L >= k)."""
    at_least = np.exp(log_ndtr((loc - np.arange(1, N_DEPTHS)) / scale) - log_ndtr(loc / scale))
    return float(at_least.sum()), float(1 - at_least[0])


@cache
def _matched(family: type[DepthDistribution], loc: float, scale: float) -> tuple[float, float]:
    """The raw numbers: for every spread there is one centre with the mean, and of those one has the mass at 0."""
    mean, at_0 = normal_facts(loc, scale)
    uncut, depth = family(), np.arange(N_DEPTHS)

    def log_masses(centre: float, spread: float) -> np.ndarray:
        return np.asarray(_log_masses(_with(uncut, centre, spread)), float)

    def centre_at(spread: float) -> float:
        return _root(lambda centre: float(np.exp(log_masses(centre, spread)) @ depth) - mean, *CENTRES)

    spread = _root(lambda spread: log_masses(centre_at(spread), spread)[0] - np.log(at_0), *SPREADS)
    return round(centre_at(spread), DIGITS), round(spread, DIGITS)


def _root(function: Callable[[float], float], low: float, high: float) -> float:
    """Where a monotone function is 0, or the end where it is nearest to 0."""
    from scipy.optimize import brentq  # only here: it takes a fifth of a second to import

    at_low, at_high = function(low), function(high)
    if at_low * at_high > 0:
        return low if abs(at_low) < abs(at_high) else high
    return float(brentq(function, low, high, xtol=1e-6))  # pyright: ignore[reportArgumentType]


_log_masses = jit(lambda distribution: distribution.log_masses(N_DEPTHS))


def _with(distribution: Family, centre: float, spread: float) -> Family:
    """The same with other numbers."""
    learned, rest = eqx.partition(distribution, eqx.is_inexact_array)
    structure = jax.tree.structure(learned)
    return eqx.combine(jax.tree.unflatten(structure, [as_float(centre), as_float(spread)]), rest)
