"""What rows that were held out say of the restarts: how much to believe each kind, and how sure all are together."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import scipy.optimize
import scipy.special
from jaxtyping import Float, Int

from leadline.likelihoods.mixture import ClassMixture, Mixture

BELIEF = 1.0
"""Rows for every kind that count for what is thought before any is seen: equal kinds, of the right spread."""

MOST_ROWS = 1024
"""Of a part that are looked at: more would change shares and spreads by less than a percent."""

_WIDEST = 8.0
"""A spread lies between this and one over it."""


@dataclass(frozen=True)
class Calibration:
    """Restarts by how well their kind predicts rows that they were not trained on, and one spread for each target.

    Networks that are averaged are better than each of them, and their disagreement then says too much; a network that
    has explained its own rows too well says too little; and one of several kinds may be the wrong one for a table. Rows
    held out show all three.
    """

    share: Float[np.ndarray, " restarts"]
    """Of each restart in the prediction."""
    spread: Float[np.ndarray, " targets"]
    """For numbers the factor on the deviations from the mean prediction; for classes what the logs of the probabilities
    are divided by."""
    nll: float | None = None
    """Nats per row held out, as calibrated; None where there were none."""

    def of(self, mixture: Any) -> Any:
        """The calibrated one; the components come restart by restart."""
        n_restarts = len(self.share)
        factor = np.repeat(n_restarts * self.share, len(mixture.share) // n_restarts)
        return replace(mixture, share=mixture.share * factor).widened(self.spread)


@dataclass(frozen=True)
class HeldOut:
    """Rows that some restarts were not trained on, and what these say of them."""

    mixture: Mixture | ClassMixture
    """The components come restart by restart."""
    kind: Int[np.ndarray, " restarts"]
    """Of each of these restarts; every kind is among them."""
    y: np.ndarray
    weight: Float[np.ndarray, " rows"]
    """A row counts as much as so many."""

    def log_density(self) -> Float[np.ndarray, "kinds rows"]:
        """Of every kind alone."""
        of_components = np.repeat(self.kind, len(self.mixture.share) // len(self.kind))
        log_densities = self.mixture.log_densities(self.y).sum(axis=2)
        each = []
        for kind in range(self.kind.max() + 1):
            own = of_components == kind
            share = self.mixture.share[own] / self.mixture.share[own].sum()
            each.append(scipy.special.logsumexp(log_densities[own], axis=0, b=share[:, None]))
        return np.stack(each)

    def with_shares(self, share: Float[np.ndarray, " kinds"]) -> Any:
        """The mixture where each kind has its share."""
        return Calibration(share_of_restarts(share, self.kind), np.ones(1)).of(self.mixture)


def share_of_restarts(share: Float[np.ndarray, " kinds"], kind: Int[np.ndarray, " restarts"]) -> np.ndarray:
    """Those of a kind have its share in equal parts."""
    return share[kind] / np.bincount(kind, minlength=len(share))[kind]


def no_calibration(n_restarts: int, n_targets: int) -> Calibration:
    """All alike, as they are."""
    return Calibration(np.full(n_restarts, 1 / n_restarts), np.ones(n_targets))


def calibrate(parts: Sequence[HeldOut], kind: Int[np.ndarray, " restarts"], n_targets: int) -> Calibration:
    """The most probable calibration of restarts of these kinds, given rows held out: first the shares of the kinds
    (stacking), then the spreads. BELIEF holds both back where rows are few."""
    weight = np.concatenate([part.weight for part in parts])
    share = stacked(np.concatenate([part.log_density() for part in parts], axis=1), weight)
    mixtures, spread = [part.with_shares(share) for part in parts], np.ones(n_targets)
    both = list(zip(mixtures, parts, strict=True))
    if mixtures[0].can_widen:
        for i in range(n_targets):
            rows = [(mixture.target(i), part.y[:, i : i + 1], part.weight) for mixture, part in both]
            spread[i] = best_spread(rows, BELIEF * len(share))
    seen = sum(part.weight @ mixture.widened(spread).log_density(part.y) for mixture, part in both)
    return Calibration(share_of_restarts(share, kind), spread, -float(seen / weight.sum()))


def stacked(
    log_density: Float[np.ndarray, "kinds rows"],
    weight: Float[np.ndarray, " rows"],
    belief: Float[np.ndarray, " kinds"] | None = None,
) -> Float[np.ndarray, " kinds"]:
    """The shares under which the rows are most probable: each kind has those of the rows that it explains best. What is
    thought before counts as so many rows of each, BELIEF unless given."""
    density = np.exp(log_density - log_density.max(axis=0))
    belief = np.full(len(density), BELIEF) if belief is None else belief
    share = belief / belief.sum()
    for _ in range(200):
        explains = share[:, None] * density
        rows = belief + (explains / explains.sum(axis=0)) @ weight
        share = rows / rows.sum()
    return share


def weighed_depths(
    log_density: Float[np.ndarray, "kinds depths rows"],
    weight: Float[np.ndarray, " rows"],
    q: Float[np.ndarray, "restarts depths"],
    kind: Int[np.ndarray, " restarts"],
) -> Float[np.ndarray, "restarts depths"]:
    """q(L) of every restart, weighed by the shares of its kind's depths under which rows held out are most probable.

    What the training made of the depths is what is thought before: q(L) of a kind counts as BELIEF rows.
    """
    before = np.stack([q[kind == one].mean(axis=0) for one in range(kind.max() + 1)])
    share = stacked(log_density.reshape(before.size, -1), weight, BELIEF * before.ravel()).reshape(before.shape)
    factor = np.divide(share, before, out=np.zeros_like(before), where=before > 0)
    weighed = q * factor[kind]
    return weighed / weighed.sum(axis=1, keepdims=True)


def best_spread(rows: Sequence[tuple[Any, np.ndarray, np.ndarray]], belief: float) -> float:
    """The spread under which a target is most probable, from mixtures, targets and weights, beside `belief` rows that
    lie one standard deviation of a Gaussian away."""

    def cost(log_spread: float) -> float:
        seen = sum(weight @ mixture.widened(np.exp([log_spread])).log_density(y) for mixture, y, weight in rows)
        return belief * (log_spread + 0.5 * np.exp(-2 * log_spread)) - seen

    ends = (-np.log(_WIDEST), np.log(_WIDEST))
    found = scipy.optimize.minimize_scalar(cost, bounds=ends, method="bounded", options={"xatol": 1e-3})
    return float(np.exp(found.x))
