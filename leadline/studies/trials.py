"""Plans of sweeps on a table or on spirals, and the model with the best settings."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from leadline.estimators.encoder import TableEncoder
from leadline.files.formats import TableFormat
from leadline.files.learning import relearned
from leadline.studies.folds import Fold
from leadline.studies.search import Plan
from leadline.studies.spiral import spiral_problem
from leadline.studies.tables import Estimator, Parts, make_estimator, naming_cells
from leadline.training.settings import Settings


@dataclass(frozen=True)
class TableTrials:
    """A table, and how estimators for it are made.

    Args:
        name: of the table.
        fmt: what its columns are.
        parts: its rows.
        cut: which of them are trained on and measured on.
        make: an estimator with such settings, and an encoder if one is given.
    """

    name: str
    fmt: TableFormat
    parts: Parts
    cut: Sequence[Fold]
    make: Callable[..., Estimator]

    def plan(self, settings: Sequence[Settings]) -> Plan:
        """Each fold is a problem; the rows held out decide how long to train, as in a fit."""
        own = [replace(one, own_length=True) for one in settings]
        problems = []
        for i, (train, kept) in enumerate(self.cut):
            estimator = self._maker(own[0], train)
            problem = estimator.problem(*self._rows(train))
            with naming_cells():
                x, y = estimator._evaluation_rows(problem, (self.parts.x.iloc[kept], self.parts.y[kept]))
            test = x, y.astype(int) if self.fmt.task == "classification" else y
            problems.append(replace(problem, test=test, about={"name": self.name, "split": i}))
        likelihood = problems[0].likelihood
        return Plan(problems, own, lambda one: self.make(one)._held_out_share(likelihood))

    def best_model(self, settings: Settings) -> bytes:
        """A model file of all rows, with such settings."""
        every = np.arange(len(self.parts.x))
        return self._maker(settings, every).fit(*self._rows(every)).model_file()

    def _maker(self, settings: Settings, rows: np.ndarray) -> Estimator:
        encoding = relearned(self.fmt.encoding, self.parts.x.iloc[rows])
        return self.make(settings, encoder=TableEncoder.of(encoding, [*self.parts.x.columns]))

    def _rows(self, rows: np.ndarray) -> tuple[Any, Any, Any]:
        import pandas

        weight = None if self.parts.weight is None else self.parts.weight[rows]
        return self.parts.x.iloc[rows], pandas.Series(self.parts.y[rows], name=self.fmt.target), weight


@dataclass(frozen=True)
class SpiralTrials:
    """The paper's spirals of some rotation speeds, each drawn once."""

    omegas: Sequence[float]

    def plan(self, settings: Sequence[Settings]) -> Plan:
        """Each spiral is a problem."""
        problems = [spiral_problem(omega) for omega in self.omegas]
        named = [replace(one, about={**one.about, "name": f"spiral {one.about['omega']:g}"}) for one in problems]
        return Plan(named, settings)

    def best_model(self, settings: Settings) -> bytes:
        """A model file of the spiral that turns fastest, with such settings."""
        problem = spiral_problem(max(self.omegas))
        estimator = make_estimator("classification", settings)
        return estimator.fit(*problem.train, eval_set=problem.validation).model_file()
