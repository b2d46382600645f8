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
    """Where the training is; means over the runs, on the validation part.

    Examples:
        >>> from leadline import DepthClassifier
        >>> seen = []
        >>> clf = DepthClassifier(width=2, n_restarts=1, max_iter=3, early_stopping=False, callback=seen.append)
        >>> clf.fit([[-1.0], [1.0]] * 10, [0, 1] * 10).n_iter_
        3
        >>> [progress.epoch for progress in seen], seen[-1].support[0] <= seen[-1].depth_mean <= seen[-1].support[1]
        ([1, 2, 3], True)
    """

    epoch: int
    """The number of epochs done."""
    epochs: int | None
    """The last one; None as long as it is not decided."""
    free_energy: float
    """F, in nats."""
    nll: float
    """Of the prediction, in nats per row."""
    depth_mean: float
    """E[L] under q(L)."""
    depth_std: float
    """The standard deviation of q(L)."""
    support: tuple[int, int]
    """The lowest and the highest depth with mass, in any run."""
    phase: str = "training"
    """One of PHASES."""
    seconds: float = 0.0
    """Since the training began."""
    restarts: dict[str, np.ndarray] = field(default_factory=dict)
    """What every restart says, under the names of `history_`; and its `seed`, `temperature` and `phase`."""

    def by_run(self) -> "list[Progress]":
        """Where each run is, by itself: in the order of `Trained.model`, the restarts of a fit side by side.

        Returns:
            One for each, whose `restarts` hold that run alone (`one.restarts["seed"][0]` says which fit it is of).

        Examples:
            >>> from leadline import CategoricalLikelihood, Problem, Settings, Watch, train
            >>> problem = Problem(([[-1.0], [1.0]] * 10, [0, 1] * 10), 0.2, CategoricalLikelihood(2))
            >>> fits = [Settings(width=2, n_restarts=1, epochs=3, seed=seed) for seed in (5, 6)]
            >>> seen = []
            >>> trained = train(problem, fits, watch=Watch(on_epoch=seen.append))
            >>> [int(run.restarts["seed"][0]) for run in seen[-1].by_run()]
            [5, 6]
        """
        each = []
        for run in range(len(self.restarts["seed"])):
            own = {name: column[run : run + 1] for name, column in self.restarts.items()}
            low, high = own["depth_support"][0]
            names = ("free_energy", "validation_nll", "depth_mean", "depth_std")
            numbers: list[Any] = [float(own[name][0]) for name in names]
            of_run = {"support": (int(low), int(high)), "phase": str(own["phase"][0]), "restarts": own}
            each.append(Progress(self.epoch, self.epochs, *numbers, **of_run, seconds=self.seconds))
        return each

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
    seed: np.ndarray
    """Of the fit that a run is of."""
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
            restarts=now | {"seed": self.seed, "temperature": self.temperature, "phase": self.phases[i]},
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
