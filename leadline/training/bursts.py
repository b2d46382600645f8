"""The epochs of one compiled call, as those see them who follow a training."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np

from leadline.inference.recipes import Recipe
from leadline.training.pace import Clock

PHASES = {
    "learning": "without the weight KL, until rows held out say that this is enough, and how long the rest will take",
    "warm-up": "the weight KL comes in",
    "training": "the whole objective, at the whole learning rate",
    "annealing": "the learning rate falls; what is left of the weight KL comes in",
}
"""Where a run is in its recipe's schedules."""


@dataclass(frozen=True)
class Progress:
    """Where the training is; means over the runs, on the validation part."""

    epoch: int
    epochs: int | None
    """The last one; None as long as it is not decided."""
    free_energy: float
    nll: float
    """Of the prediction, in nats per row."""
    depth_mean: float
    depth_std: float
    support: tuple[int, int]
    phase: str = "training"
    """One of PHASES."""
    seconds: float = 0.0
    """Since the training began."""
    restarts: dict[str, np.ndarray] = field(default_factory=dict)
    """What every restart says, under the names of `history_`; and its `temperature`."""

    @property
    def median_nll(self) -> float:
        """Of the restart in the middle, or of the better of two: some that are far too sure are no reason to worry."""
        nll = self.restarts.get("validation_nll")
        return self.nll if nll is None else float(np.quantile(nll, 0.5, method="lower"))


@dataclass(frozen=True)
class Burst:
    """The epochs of one compiled call, for every run; as a sequence, the `Progress` of each epoch."""

    first: int
    """The number of its first epoch; those of a training begin with 1."""
    end: int | None
    """The last of the training; None as long as it is not decided."""
    columns: dict[str, np.ndarray]
    """Epochs by runs, under the names of the history."""
    phases: np.ndarray
    """Names, epochs by runs."""
    seconds: np.ndarray
    """Since the training began, after every epoch."""
    temperature: np.ndarray
    """Of every run."""
    masses: Callable[[], np.ndarray]
    """q(L) after the last of these epochs, runs by depths; to be asked before the training goes on."""

    def __len__(self) -> int:
        return len(self.seconds)

    def __iter__(self) -> Iterator[Progress]:
        return map(self.__getitem__, range(len(self)))

    def __getitem__(self, i: int) -> Progress:
        i = range(len(self))[i]
        now = {name: column[i] for name, column in self.columns.items()}
        names = ("free_energy", "validation_nll", "depth_mean", "depth_std")
        means: list[Any] = [float(now[name].mean()) for name in names]
        low, high = now["depth_support"].T
        return Progress(
            *(self.first + i, self.end, *means),
            support=(int(low.min()), int(high.max())),
            phase=str(self.phases[i, 0]),
            seconds=float(self.seconds[i]),
            restarts=now | {"temperature": self.temperature},
        )


class Follower(Protocol):
    """Who is told of many epochs at once."""

    def burst(self, epochs: Burst) -> Any:
        """Hear of them; True ends the training."""


Callback = Callable[[Progress], Any] | Follower


def phases(first: int, n_epochs: int, clock: Clock, recipe: Recipe) -> np.ndarray:
    """The phase of every run in so many epochs, of which the first has that number."""
    before = np.arange(first - 1, first - 1 + n_epochs)[:, None]
    share = (before - np.asarray(clock.start)) / np.asarray(clock.length)
    waits = (share < 0) | np.isinf(clock.length)
    falls = (share >= recipe.decay_from) & (recipe.decay_from < 1) & (recipe.schedule is None)
    rises = (share < recipe.warm_up) & (recipe.temperature > 0)
    return np.select([waits, falls, rises], ["learning", "annealing", "warm-up"], "training")
