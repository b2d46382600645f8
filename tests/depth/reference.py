"""The same distributions, slowly and to fifty digits."""

import mpmath

mpmath.mp.dps = 50


def normal_survival(x, loc, scale):
    """P(X > x) of the normal on x >= 0."""
    z = (mpmath.mpf(x) - mpmath.mpf(loc)) / mpmath.mpf(scale)
    zero = -mpmath.mpf(loc) / mpmath.mpf(scale)
    return mpmath.erfc(z / mpmath.sqrt(2)) / mpmath.erfc(zero / mpmath.sqrt(2))


def normal_cdf(x, loc, scale):
    """P(X <= x) of the normal on x >= 0, exact for tiny values too."""
    z = (mpmath.mpf(x) - mpmath.mpf(loc)) / mpmath.mpf(scale) / mpmath.sqrt(2)
    zero = -mpmath.mpf(loc) / mpmath.mpf(scale) / mpmath.sqrt(2)
    return (mpmath.erfc(-z) - mpmath.erfc(-zero)) / mpmath.erfc(zero)


def normal_mass(lower, upper, loc, scale):
    """Mass of [lower, upper], from the tail where it keeps its digits."""
    if lower + upper > 2 * loc:
        return normal_survival(lower, loc, scale) - normal_survival(upper, loc, scale)
    return normal_cdf(upper, loc, scale) - normal_cdf(lower, loc, scale)


def normal_quantile(p, loc, scale):
    """The x with P(X <= x) = p, by bisection."""
    low, high = mpmath.mpf(0), mpmath.mpf(max(loc, 0) + 50 * scale + 1)
    for _ in range(200):
        middle = (low + high) / 2
        if normal_cdf(middle, loc, scale) < p:
            low = middle
        else:
            high = middle
    return low


def log(x):
    return float(mpmath.log(x)) if x > 0 else -float("inf")
