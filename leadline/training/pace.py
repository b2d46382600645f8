"""How long training takes, and where in the recipe's schedules it is."""

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

HOLD = 0.3
"""The share of the schedules at which training waits until the validation likelihood no longer improves."""

MIN_STEPS = 150
"""Steps before that share is reached."""

FLAT_STEPS = 600
"""Steps that training waits at least where the likelihood neither improves nor gets worse: hard data start slowly."""

STEPS_BETWEEN_LOOKS = 10
"""The validation likelihood is estimated about this often."""

MIN_LOOKS = 8

LEAST_GAIN = 0.003
"""A change by less than this share of the NLL, or of 0.3 nats, is none."""

WORSE = 0.05
"""A rise by more than this share of it is overfitting."""


class Clock(eqx.Module):
    """The share of the schedules that is over: `share` at the epoch `start`, and all of it `length` epochs later, were
    it to begin at 0. The clock is good until the epoch `end`."""

    start: Int[Array, ""]
    share: Float[Array, ""]
    length: Float[Array, ""]
    end: Int[Array, ""]

    def __init__(self, start: int, share: float, length: float, end: int):
        self.start, self.end = jnp.array(start, jnp.int32), jnp.array(end, jnp.int32)
        self.share, self.length = jnp.array(share, float), jnp.array(length, float)

    def at(self, epoch: Float[Array, ""]) -> Float[Array, ""]:
        return self.share + (epoch - self.start) / self.length


class FixedLength:
    """So many epochs."""

    def __init__(self, epochs: int, validate_every: int):
        self.end: int | None = epochs
        self.next_look, self.validate_every = epochs, validate_every
        self.clock = Clock(0, 0.0, epochs, epochs)

    def look(self, nll: np.ndarray) -> None:
        """There is nothing to decide."""


class OwnLength:
    """As many epochs as the data ask for, `most` at most.

    The schedules advance to the share HOLD and wait there, with the weight KL still almost out, while the validation
    likelihood improves. When it has not for half of the time (and, unless it got worse, for FLAT_STEPS), the rest
    follows at the pace so far, so that the whole takes 1 / HOLD times as long as the first part: the weight KL comes
    in, the rate decays, and training ends.
    """

    def __init__(self, most: int, steps_per_epoch: int):
        self.validate_every = max(1, STEPS_BETWEEN_LOOKS // steps_per_epoch)
        least = max(-(-MIN_STEPS // steps_per_epoch), MIN_LOOKS * self.validate_every)
        self._flat = -(-FLAT_STEPS // steps_per_epoch)
        self._last_hold = max(1, int(HOLD * most))  # the rest needs its time
        self.next_look = min(least, self._last_hold)
        self.end: int | None = None
        self.clock = Clock(0, 0.0, self.next_look / HOLD, self.next_look)

    def look(self, nll: np.ndarray) -> None:
        """Decide how to go on from the validation NLL of the epochs so far."""
        epoch = len(nll)
        if self.end is not None:
            return
        if epoch >= self._last_hold or _is_over(nll[:: self.validate_every], epoch < self._flat):
            self.end = self.next_look = max(epoch + 1, round(epoch / HOLD))
            self.clock = Clock(epoch, HOLD, epoch / HOLD, self.end)
        else:
            self.next_look = min(epoch + 5 * self.validate_every, self._last_hold)
            self.clock = Clock(epoch, HOLD, np.inf, self.next_look)


Pace = FixedLength | OwnLength


def _is_over(values: np.ndarray, only_if_worse: bool) -> bool:
    """Whether the second half of the values, smoothed over a fifth of the way so far, has no new low."""
    n = np.arange(1, len(values) + 1)
    window = np.maximum(3, n // 5).clip(max=n)
    total = np.concatenate([[0.0], np.cumsum(values)])
    smooth = (total[n] - total[n - window]) / window
    half = len(values) // 2
    low = smooth[:half].min()
    unit = max(abs(low), 0.3)
    if only_if_worse:
        return bool(smooth[half:].min() > low and smooth[-1] > low + WORSE * unit)
    return bool(smooth[half:].min() > low - LEAST_GAIN * unit)
