"""How long training takes, and where in the recipe's schedules it is."""

from collections.abc import Sequence

import equinox as eqx
import jax
import numpy as np
from jaxtyping import Array, Float, Int

from leadline.backend.numerics import as_float

SCHEDULED = 2.0
"""How long the recipe's schedules take, in units of the time that the network took to learn without the weight KL."""

MIN_STEPS = 150
"""Steps without it, at least."""

FLAT_STEPS = 600
"""The same as long as the network does little better than to guess: hard data start slowly."""

LITTLE = 0.7
"""An NLL above this share of that of guessing is little better."""

STEPS_BETWEEN_LOOKS = 10
"""The validation likelihood is estimated about this often."""

MIN_LOOKS = 8
"""Estimates before the first decision, at least."""

LEAST_GAIN = 0.02
"""An improvement by less than this share of the NLL, or of 0.3 nats, is not worth twice the time."""

LEAST_START = 0.003
"""The same as long as the network does little better than to guess: every sign of learning counts."""

WORSE = 0.02
"""A rise by more than this share is overfitting."""


class Clock(eqx.Module):
    """The share of the schedules that is over: nothing at the epoch `start`, all of it `length` epochs later.

    Training ends, as far as is known, at the epoch `end`. Several runs have a clock each, on one axis.
    """

    start: Int[Array, "*runs"]
    length: Float[Array, "*runs"]
    end: Int[Array, "*runs"]

    def __init__(self, start: int, length: float, end: int):
        self.start, self.end = jax.device_put((np.array(start, np.int32), np.array(end, np.int32)))
        self.length = as_float(length)

    def at(self, epoch: Float[Array, ""]) -> Float[Array, "*runs"]:
        return (epoch - self.start) / self.length


class FixedLength:
    """So many epochs."""

    def __init__(self, epochs: int, validate_every: int):
        self.end: int | None = epochs
        self.next_look, self.validate_every = epochs, validate_every
        self.clock = Clock(0, epochs, epochs)

    def look(self, nll: np.ndarray) -> None:
        """There is nothing to decide."""


class OwnLength:
    """As many epochs as the data ask for, `most` at most.

    The network first learns with the weight KL out, while the validation likelihood improves. When it has not for half
    of the time, the recipe's schedules follow, SCHEDULED times as long as it took so far: the weight KL comes in, the
    rate decays, and training ends. Training never ends before the weight KL is fully in.
    """

    def __init__(self, most: int, steps_per_epoch: int, nll_of_guessing: float):
        self.validate_every = max(1, STEPS_BETWEEN_LOOKS // steps_per_epoch)
        least = max(-(-MIN_STEPS // steps_per_epoch), MIN_LOOKS * self.validate_every)
        self._slow = -(-FLAT_STEPS // steps_per_epoch)
        self._most = most
        self._little = LITTLE * nll_of_guessing
        self._last_look = max(1, int(most / (1 + SCHEDULED)))  # the schedules need their time
        self.next_look = min(least, self._last_look)
        self.end: int | None = None
        self.clock = Clock(0, np.inf, most)

    def look(self, nll: np.ndarray) -> None:
        """Decide how to go on from the validation NLL of the epochs so far."""
        epoch = len(nll)
        if self.end is not None:
            return
        at_last = epoch >= self._last_look
        if at_last or self._has_learned(nll[:: self.validate_every], epoch):
            scheduled = epoch + max(1, round(SCHEDULED * epoch))
            self.end = self.next_look = self._most if at_last else min(self._most, scheduled)
            self.clock = Clock(epoch, max(1, self.end - epoch), self.end)
        else:
            self.next_look = min(epoch + 5 * self.validate_every, self._last_look)

    def _has_learned(self, nll: np.ndarray, epoch: int) -> bool:
        """Whether the second half of the values, smoothed over a fifth of the way so far, has no new low."""
        n = np.arange(1, len(nll) + 1)
        window = np.maximum(3, n // 5).clip(max=n)
        total = np.concatenate([[0.0], np.cumsum(nll)])
        smooth = (total[n] - total[n - window]) / window
        half = len(nll) // 2
        low, later = smooth[:half].min(), smooth[half:].min()
        unit = max(abs(low), 0.3)
        if later > self._little and epoch < self._slow and smooth[-1] < low + WORSE * unit:
            return False
        return bool(later > low - (LEAST_START if later > self._little else LEAST_GAIN) * unit)


class Paces:
    """Several paces, each for `n_runs` of the runs side by side, which wait for the last of them."""

    def __init__(self, paces: Sequence[FixedLength | OwnLength], n_runs: int):
        self._paces, self._n_runs = paces, n_runs
        self.validate_every = paces[0].validate_every

    @property
    def end(self) -> int | None:
        """The end of the last, once all are known."""
        ends = [pace.end for pace in self._paces if pace.end is not None]
        return max(ends) if len(ends) == len(self._paces) else None

    def done(self, epoch: int) -> list[int]:
        """The epochs of each, when so many are over."""
        return [epoch if pace.end is None else min(epoch, pace.end) for pace in self._paces]

    @property
    def next_look(self) -> int:
        return self.end or min(pace.next_look for pace in self._paces if pace.end is None)

    @property
    def clock(self) -> Clock:
        """Of every run."""
        clocks = [pace.clock for pace in self._paces]
        return jax.tree.map(lambda *arrays: jax.device_put(np.repeat(np.stack(arrays), self._n_runs)), *clocks)

    def catch_up(self, nll: np.ndarray) -> None:
        """Decide again what was decided in the epochs so far."""
        while self.end is None and self.next_look <= len(nll):
            self.look(nll[: self.next_look])

    def look(self, nll: np.ndarray) -> None:
        """Let those decide that are to now, from the validation NLL [epochs, runs]."""
        for i, pace in enumerate(self._paces):
            if pace.end is None and len(nll) == pace.next_look:
                pace.look(nll[:, i * self._n_runs : (i + 1) * self._n_runs].mean(axis=1))
