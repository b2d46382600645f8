"""What rows that were kept apart say of the restarts: how much to believe each, and how wide they are together."""

from dataclasses import dataclass, replace

import numpy as np
import scipy.optimize
import scipy.special
from jaxtyping import Float

from leadline.likelihoods.mixture import Mixture

BELIEF = 1.0
"""Rows for every restart that count for what is thought before any is seen: equal restarts, of the right width."""

MOST_ROWS = 1024
"""That are looked at: more would change shares and spreads by less than a percent."""

_WIDEST = 8.0
"""A spread lies between this and one over it."""


@dataclass(frozen=True)
class Calibration:
    """Restarts by how well they predict rows that none of them was trained on, and one spread for each target.

    Networks that are averaged are better than each of them, and their disagreement then says too much; a network whose
    noise depends on the input has explained its own rows too well, and says too little; and one of several trainings
    may have gone astray. Rows kept apart show all three.
    """

    share: Float[np.ndarray, " restarts"]
    """Of each restart in the prediction."""
    spread: Float[np.ndarray, " targets"]
    """The factor on the deviations from the mean prediction."""

    def of(self, mixture: Mixture) -> Mixture:
        """The calibrated one; the components come restart by restart."""
        n_restarts = len(self.share)
        factor = np.repeat(n_restarts * self.share, len(mixture.share) // n_restarts)
        return replace(mixture, share=mixture.share * factor).widened(self.spread)


def no_calibration(n_restarts: int, n_targets: int) -> Calibration:
    """All alike, as they are."""
    return Calibration(np.full(n_restarts, 1 / n_restarts), np.ones(n_targets))


def calibrate(
    mixture: Mixture, y: Float[np.ndarray, "rows targets"], weight: Float[np.ndarray, " rows"], n_restarts: int
) -> Calibration:
    """The most probable calibration given rows kept apart, each of which counts as much as `weight` such rows.

    First the shares (stacking), then the spreads; BELIEF holds both back where rows are few.
    """
    by_component = mixture.log_densities(y).sum(axis=2).reshape(n_restarts, -1, len(y))
    inside = n_restarts * mixture.share.reshape(n_restarts, -1, 1)
    share = stacked(np.asarray(scipy.special.logsumexp(by_component, axis=1, b=inside)), weight)
    found = Calibration(share, np.ones(y.shape[1]))
    if not mixture.can_widen:
        return found
    mixture, belief = found.of(mixture), BELIEF * n_restarts
    spread = [best_spread(mixture.target(i), y[:, i : i + 1], weight, belief) for i in range(y.shape[1])]
    return Calibration(share, np.array(spread))


def stacked(
    log_density: Float[np.ndarray, "restarts rows"], weight: Float[np.ndarray, " rows"]
) -> Float[np.ndarray, " restarts"]:
    """The shares under which the rows are most probable: each restart has those of the rows that it explains best."""
    density = np.exp(log_density - log_density.max(axis=0))
    share = np.full(len(density), 1 / len(density))
    for _ in range(200):
        explains = share[:, None] * density
        rows = BELIEF + (explains / explains.sum(axis=0)) @ weight
        share = rows / rows.sum()
    return share


def best_spread(
    mixture: Mixture, y: Float[np.ndarray, "rows 1"], weight: Float[np.ndarray, " rows"], belief: float
) -> float:
    """The factor on a target's deviations under which the rows are most probable, beside `belief` rows that lie one
    standard deviation of a Gaussian away."""

    def cost(log_spread: float) -> float:
        seen = weight @ mixture.widened(np.exp([log_spread])).log_density(y)
        return belief * (log_spread + 0.5 * np.exp(-2 * log_spread)) - seen

    ends = (-np.log(_WIDEST), np.log(_WIDEST))
    found = scipy.optimize.minimize_scalar(cost, bounds=ends, method="bounded", options={"xatol": 1e-3})
    return float(np.exp(found.x))
