"""What training gives back."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import jax
import numpy as np

from leadline.backend.forks import on_device
from leadline.depth import FixedDepth
from leadline.inference.model import Model
from leadline.inference.predict import depth_masses
from leadline.inference.recipes import Recipe, get_recipe
from leadline.inference.restarts import Part, Restarts
from leadline.likelihoods import Likelihood
from leadline.training.problem import Problem
from leadline.training.settings import Settings

if TYPE_CHECKING:
    import pandas


class History(dict[str, np.ndarray]):
    """What was noted after every epoch, for every restart: arrays [epochs, restarts] by their names."""

    def to_frame(self) -> "pandas.DataFrame":
        """A row for every epoch and restart."""
        import pandas

        n_epochs, n_restarts = self["free_energy"].shape
        columns = {"epoch": np.repeat(np.arange(1, n_epochs + 1), n_restarts)}
        columns["restart"] = np.tile(np.arange(n_restarts), n_epochs)
        for name, values in self.items():
            if values.ndim == 2:
                columns[name] = values.ravel()
            else:
                columns |= {f"{name}_{end}": values[..., i].ravel() for i, end in enumerate(("lowest", "highest"))}
        return pandas.DataFrame(columns)


@dataclass(frozen=True)
class Trained:
    """What training gives back.

    Examples:
        >>> import numpy as np
        >>> from leadline import CategoricalLikelihood, Problem, Settings, train
        >>> x = np.linspace(-1, 1, 40)[:, None]
        >>> y = (x[:, 0] > 0).astype(int)
        >>> problem = Problem((x, y), (x, y), CategoricalLikelihood(2))
        >>> trained = train(problem, Settings(width=4, n_restarts=2, epochs=20))
        >>> trained.n_restarts, trained.epochs, trained.history["free_energy"].shape
        (2, 20, (20, 2))
    """

    model: Model
    """The models kept, with a leading axis of runs, the restarts of a fit together (see `run_model`)."""
    history: History
    """Epochs by runs, under the names of the record."""
    settings: tuple[Settings, ...]
    """Of every fit, resolved."""
    temperatures: np.ndarray
    """Of every fit's restarts, fits by restarts; those kept."""
    validation_nll: dict[float, np.ndarray]
    """For every temperature tried, where there was a choice: nats per validation row, all restarts, for every fit."""
    validation_rows: np.ndarray
    """The numbers of the rows held out from every run, runs by rows; no columns where the validation part was given."""
    epochs_of_fits: list[int]
    """The epochs done: fewer than planned only if interrupted. With a length of their own they differ, and the rows of
    the history after its last repeat a fit's end."""
    seconds: float
    """Of training."""
    compile_seconds: float
    """Of these, before the second call of the compiled program."""
    interrupted: bool
    """Whether it was ended before its time."""

    @property
    def epochs(self) -> int:
        """Of the fit that took most."""
        return max(self.epochs_of_fits)

    @property
    def n_restarts(self) -> int:
        """Of every fit."""
        return self.model.runs[0] // len(self.settings)

    @property
    def temperature(self) -> np.ndarray:
        """Of every fit, the mean over its restarts."""
        return self.temperatures.mean(axis=1)

    def to_frame(self) -> "pandas.DataFrame":
        """The history of all runs as one table.

        Returns:
            A row for every epoch and run, each fit's down to its own last epoch: `epoch` (from 1), `run` (as in
            `model`), `fit` (as in `settings`), `seed`, `depth` and `temperature` of it, `restart` (from 0), and then
            what `history` has.

        Examples:
            >>> from leadline import CategoricalLikelihood, Problem, Settings, train
            >>> problem = Problem(([[-1.0], [1.0]] * 10, [0, 1] * 10), 0.2, CategoricalLikelihood(2))
            >>> fits = [Settings(width=2, n_restarts=1, epochs=3, seed=seed) for seed in (5, 6)]
            >>> frame = train(problem, fits).to_frame()
            >>> frame.groupby(["seed", "epoch"]).depth_mean.mean().unstack("seed").shape  # epochs by seeds
            (3, 2)
        """
        frame = self.history.to_frame().rename(columns={"restart": "run"})
        fit, restart = np.divmod(frame.run.to_numpy(), self.n_restarts)
        of_fits = [one.in_words() for one in self.settings]
        more = {"fit": fit}
        more |= {name: np.array([words[name] for words in of_fits], object)[fit] for name in ("seed", "depth")}
        more |= {"restart": restart, "temperature": self.temperatures[fit, restart]}
        for place, (name, column) in enumerate(more.items(), 2):
            frame.insert(place, name, column)
        done = frame.epoch <= np.array(self.epochs_of_fits)[fit]
        return frame.loc[done].infer_objects().reset_index(drop=True)

    def runs_of(self, fit: int) -> slice:
        """The restarts of one fit.

        Args:
            fit: its number among the fits.
        """
        return slice(fit * self.n_restarts, (fit + 1) * self.n_restarts)

    def restarts(self, fit: int = 0) -> Restarts:
        """The networks of one fit, not calibrated.

        Args:
            fit: its number among the fits.
        """
        settings = self.settings[fit]
        return Restarts(self.model.some(self.runs_of(fit)), settings.seed, get_recipe(settings.recipe).n_samples)

    def calibrated(self, problem: Problem, fit: int = 0) -> Restarts:
        """The same, calibrated by the training rows that were held out, or by the validation part where it has other
        rows; those of classes only if of several kinds, or if the recipe softens and there is such a part.

        Args:
            problem: what was learned.
            fit: its number among the fits.
        """
        restarts, recipe = self.restarts(fit), get_recipe(self.settings[fit].recipe)
        softens = recipe.soften and problem.validates_on_its_own
        if not (recipe.kinds or problem.likelihood.common_validation or softens):
            return restarts
        return restarts.calibrated(*self._held_out(problem, fit))

    def weighed(self, problems: Sequence[Problem]) -> "Trained":
        """With q(L) as the rows held out have it, where a recipe asks for that.

        Args:
            problems: what was learned, by the fits.
        """
        if not get_recipe(self.settings[0].recipe).weigh_depths or isinstance(self.model.depth_posterior, FixedDepth):
            return self
        held_out = [self._held_out(problem, fit) for fit, problem in enumerate(problems)]
        if not all(parts for parts, _ in held_out):
            return self
        n_depths = int(np.flatnonzero(depth_masses(self.model).any(axis=0))[-1]) + 1
        fits = [self.restarts(fit).weighed(*given, n_depths).models for fit, given in enumerate(held_out)]
        return replace(self, model=fits[0] if len(fits) == 1 else _together(fits))

    def _held_out(self, problem: Problem, fit: int) -> tuple[list[Part], np.ndarray]:
        """The rows that say how much to believe the restarts of a fit, and of which kind each of these is."""
        recipe, n = get_recipe(self.settings[fit].recipe), self.n_restarts
        n_kinds = min(held_out_together(recipe, problem.likelihood, n), n)
        held = self.validation_rows[self.runs_of(fit)]
        (x, y), weight = problem.train, np.ones(len(problem.train[0])) if problem.weight is None else problem.weight
        whole = [slice(first, first + n_kinds) for first in range(0, n - n_kinds + 1, n_kinds)]
        if held.size:
            parts = [Part(runs, x[i], y[i], weight[i]) for runs, i in zip(whole, held[::n_kinds], strict=False)]
        elif problem.validates_on_its_own and isinstance(problem.validation, tuple):
            x, y = problem.validation
            if not recipe.kinds and not problem.likelihood.common_validation:
                return [Part(slice(0, n), x, y, np.ones(len(x)))], np.zeros(n, int)
            parts = [Part(runs, x, y, np.full(len(x), 1 / len(whole))) for runs in whole]  # a row counts once
        else:
            parts = []
        return parts, np.arange(n) % n_kinds


def _together(fits: list[Model]) -> Model:
    """The models of several fits on one axis of runs."""
    return jax.tree.map(lambda *arrays: on_device(np.concatenate([np.asarray(a) for a in arrays])), *fits)


def held_out_together(recipe: Recipe, likelihood: Likelihood, n_restarts: int) -> int:
    """Restarts that hold out the same rows: one of every kind, so that every row has an honest prediction of each."""
    return len(recipe.kinds) or (n_restarts if likelihood.common_validation else 1)
