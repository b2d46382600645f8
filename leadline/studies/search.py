"""Settings on problems: each is trained on each, what came of it is a row, and the best settings are found."""

import tempfile
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, fields, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from leadline._checks import InvalidArgumentError, check_choice
from leadline.files.records import Record, read_rows
from leadline.judged import OF_CLASSES, OF_NUMBERS
from leadline.metrics import MEASURES, Measure
from leadline.studies.runners import Runner
from leadline.studies.sweep import Job, Row, RunsMissingError, Sweep
from leadline.training.problem import Problem
from leadline.training.progress import GridLine
from leadline.training.settings import Settings

if TYPE_CHECKING:
    import pandas

TABLE = "sweep"
"""The name of the table, without .csv."""

ASKED = ("recipe", "depth", "block", "width", "temperature", "n_restarts", "learning_rate", "batch_size", "max_epochs")
"""Columns that say what was asked for; those of one row have the same in all."""

_LEARNED = (
    *("depth_mean", "depth_std", "depth_mode", "free_energy", "expected_nll", "depth_kl", "weight_kl"),
    *("epochs", "seconds", "device", "version", "run"),
)

_FIRST = ("nll", "ll_mixture")
"""Measures by which settings are judged if nothing is said: those of likelihood."""


@dataclass(frozen=True, eq=False)
class _Given:
    """What makes a problem that there is already."""

    problem: Problem

    def __call__(self) -> Problem:
        return self.problem


@dataclass(frozen=True)
class Plan:
    """Every one of the settings, trained on every one of the problems.

    Args:
        problems: with a test part each, of one kind of target; `about` has the name and the split of each.
        settings: no two alike.
        held_out: the share of the training rows that is held out, where it depends on the settings.
    """

    problems: Sequence[Problem]
    settings: Sequence[Settings]
    held_out: Callable[[Settings], float] | None = None

    def __post_init__(self) -> None:
        kinds = {one.likelihood.judged for one in self.problems}
        if len(kinds) != 1:
            raise InvalidArgumentError(f"must be of one kind of target, got {len(kinds)}.", "problems")
        for one in self.problems:
            if one.test is None:
                raise InvalidArgumentError("must have rows to measure on (`test`), got one without.", "problems")
        if not self.settings:
            raise InvalidArgumentError("must have at least one entry, got none.", "settings")

    @property
    def measures(self) -> list[Measure]:
        """Of the problems' targets."""
        likelihood = self.problems[0].likelihood
        of = OF_CLASSES if likelihood.kind == "classes" else OF_NUMBERS
        return [one for one in MEASURES.values() if one.kind in of[likelihood.judged].kinds]

    @property
    def columns(self) -> tuple[str, ...]:
        """Of the table."""
        recipe, depth, *others = ASKED
        return (recipe, depth, "name", "split", *others, "seed", *(one.name for one in self.measures), *_LEARNED)

    @cached_property
    def jobs(self) -> list[Job]:
        """A run each, by its identity."""
        jobs, makers = dict[str, Job](), dict[tuple[int, Any], _Given]()
        for i, whole in enumerate(self.problems):
            for one in self.settings:
                share = whole.validation if self.held_out is None else self.held_out(one)
                own = (i, None if self.held_out is None else share)
                make = makers.setdefault(own, _Given(replace(whole, validation=share)))
                problem, resolved = make.problem, one.resolved(whole.likelihood)
                run, asked = resolved.identity(problem)[:16], asked_of(resolved)
                words = ", ".join(f"{name} {value}" for name, value in asked.items() if value)
                beside = asked | {"run": run}
                row = {**dict.fromkeys(self.columns, ""), **_in_text(problem.about), "seed": str(one.seed)}
                jobs[run] = Job(make, one, TABLE, _key({**row, **beside}), words, beside)
        return list(jobs.values())

    def sweep(self) -> Sweep:
        """Settings that differ in depth and seed alone may train together on problems of one shape."""
        shapes = {job.problem: repr(_shape(job.problem())) for job in self.jobs}

        def together(job: Job) -> tuple[str, str]:
            return shapes[job.problem], _alike(job.settings)

        return Sweep(sorted(self.jobs, key=together), self.columns, _key, together)


def asked_of(settings: Settings) -> dict[str, str]:
    """The columns of resolved settings."""
    words = settings.in_words()
    words["max_epochs"] = words["epochs"]
    return _in_text({name: words[name] for name in ASKED})


def _in_text(values: Mapping[str, Any]) -> dict[str, str]:
    return {name: "" if value is None else str(value) for name, value in values.items()}


def _key(row: Row) -> tuple[str, ...]:
    return tuple(row[name] for name in ("name", "split", *ASKED, "seed", "run"))


def _shape(problem: Problem) -> tuple[Any, ...]:
    """What problems must have in common to train side by side."""
    assert problem.test is not None
    rows = [np.shape(one) for one in (*problem.train, *problem.test)]
    held_out = problem.validation
    held_out = [np.shape(one) for one in held_out] if isinstance(held_out, tuple) else held_out
    return rows, held_out, problem.weight is None, repr(problem.likelihood)


def _alike(settings: Settings) -> str:
    return repr([getattr(settings, one.name) for one in fields(Settings) if one.name not in ("depth", "seed")])


@dataclass(frozen=True)
class Ranked:
    """What came of one of the settings, over all problems and seeds."""

    asked: dict[str, str]
    """Its columns."""
    mean: float
    """Of the measure."""
    error: float | None
    """The standard error of that over the runs; None of a single one."""
    runs: int
    row: dict[str, float]
    """Means of the other columns that are numbers."""


@dataclass(frozen=True)
class Swept:
    """What came of a sweep.

    Examples:
        >>> import numpy as np
        >>> from leadline import CategoricalLikelihood, Problem, Settings, sweep
        >>> x = np.linspace(-1, 1, 60)[:, None]
        >>> rows = x, (np.abs(x[:, 0]) > 0.5).astype(int)
        >>> problem = Problem(rows, 0.2, CategoricalLikelihood(2), test=rows)
        >>> tried = [Settings(width=width, n_restarts=1, epochs=5) for width in (2, 4)]
        >>> swept = sweep(problem, tried)
        >>> swept.to_frame()[["width", "max_epochs"]].values.tolist()
        [[2, 5], [4, 5]]
        >>> swept.best in tried
        True
    """

    plan: Plan
    """The problems and the settings."""
    rows: list[Row]
    """Of the table: a run each."""
    by: str
    """The measure by which settings are judged."""
    failures: str = ""
    """Which runs there are not, and why; nothing where all are."""
    finished: bool = True
    """Whether all was tried: Ctrl-C leaves the rest to the next time."""

    @property
    def measure(self) -> Measure:
        """By which settings are judged."""
        return MEASURES[self.by]

    def to_frame(self) -> "pandas.DataFrame":
        """A table of all runs.

        Returns:
            A row for every run, with the settings, the measures and what was learned.
        """
        import pandas

        rows = pandas.DataFrame(self.rows, columns=[*self.plan.columns])
        return pandas.DataFrame({name: _as_numbers(rows[name]) for name in rows})

    @property
    def ranking(self) -> list[Ranked]:
        """The settings, the best first; behind them those that have fewer runs than others."""
        groups = dict[tuple[str, ...], list[Row]]()
        for row in self.rows:
            groups.setdefault(tuple(row[name] for name in ASKED), []).append(row)
        most = max(map(len, groups.values()), default=0)
        ranked = [self._ranked(asked, rows) for asked, rows in groups.items()]
        sign = -1 if self.measure.better == "higher" else 1
        return sorted(ranked, key=lambda one: (one.runs < most, sign * one.mean))

    def _ranked(self, asked: tuple[str, ...], rows: list[Row]) -> Ranked:
        values = np.array([float(row[self.by]) for row in rows])
        error = float(np.std(values, ddof=1) / np.sqrt(len(values))) if len(values) > 1 else None
        names = [*(one.name for one in self.plan.measures), "depth_mean", "epochs", "seconds"]
        means = {
            name: float(np.mean([float(row[name]) for row in rows])) for name in names if all(r[name] for r in rows)
        }
        return Ranked(dict(zip(ASKED, asked, strict=True)), float(values.mean()), error, len(rows), means)

    @property
    def best(self) -> Settings:
        """The settings with the best mean of the measure."""
        if not self.rows:
            raise InvalidArgumentError(f"No run of the sweep is finished: {self.failures or 'it was interrupted'}.")
        first, likelihood = self.ranking[0].asked, self.plan.problems[0].likelihood
        return next(one for one in self.plan.settings if asked_of(one.resolved(likelihood)) == first)

    @property
    def varied(self) -> list[str]:
        """Columns of settings that are not the same in all runs."""
        return [name for name in ASKED if len({row[name] for row in self.rows}) > 1]


def _as_numbers(column: Any) -> Any:
    """A column of text as numbers, where all that stands there are some."""
    import pandas

    try:
        return pandas.to_numeric(column.where(column != ""))
    except ValueError:
        return column


def check_measure(plan: Plan, by: str | None) -> str:
    """The measure by which settings are judged."""
    names = [one.name for one in plan.measures if one.better != "equal"]
    if by is not None:
        check_choice("by", by, names)
        return by
    return next(name for name in (*_FIRST, *names) if name in names)


def swept_from(plan: Plan, out: Path, by: str, failures: str = "", finished: bool = True) -> Swept:
    """What a directory has of a plan; rows of others are left out."""
    mine = {job.key for job in plan.jobs}
    rows = [row for row in read_rows(out / f"{TABLE}.csv", plan.columns) if _key(row) in mine]
    return Swept(plan, rows, by, failures, finished)


def sweep(
    problems: Problem | Sequence[Problem] | Mapping[str, Problem],
    settings: Settings | Sequence[Settings],
    *,
    runner: Runner | None = None,
    out: Any = None,
    by: str | None = None,
    verbose: bool = False,
) -> Swept:
    """Train every one of the settings on every one of the problems, wherever the runner has them trained.

    With a directory, what is in its table is not trained again, and what was cut off goes on.

    Args:
        problems: with a test part (`Problem.test`), of one kind of target; in a dict by their names.
        settings: to try; seeds are among them.
        runner: what carries the trainings out. None: all cores of this process, or one program on a GPU; a `RayRunner`
            those of a cluster.
        out: the directory of its table and checkpoints. None: they are forgotten.
        by: the measure that decides which settings are best. None: the likelihood.
        verbose: whether a progress line is shown.

    Returns:
        The runs and the settings in their order. What diverged or failed is in `failures`.

    Examples:
        >>> import numpy as np
        >>> from leadline import CategoricalLikelihood, Problem, Settings, sweep
        >>> x = np.linspace(-1, 1, 60)[:, None]
        >>> rows = x, (np.abs(x[:, 0]) > 0.5).astype(int)
        >>> problem = Problem(rows, 0.2, CategoricalLikelihood(2), test=rows)
        >>> tried = [Settings(depth=depth, n_restarts=1, epochs=5, width=2) for depth in ("normal", 0)]
        >>> [one.asked["depth"] for one in sweep({"steps": problem}, tried, by="accuracy").ranking] in (
        ...     ["normal", "0"],
        ...     ["0", "normal"],
        ... )
        True
    """
    named = (
        problems
        if isinstance(problems, Mapping)
        else dict(enumerate([problems] if isinstance(problems, Problem) else problems))
    )
    given = [
        replace(one, about={"name": str(one.about.get("name", name)), **_of_record(one.about)})
        for name, one in named.items()
    ]
    plan = Plan(given, [settings] if isinstance(settings, Settings) else list(settings))
    by, failures, finished = check_measure(plan, by), "", True
    with tempfile.TemporaryDirectory() if out is None else nullcontext(out) as place:
        try:
            with GridLine() if verbose else nullcontext() as line:
                finished = plan.sweep().run(Path(place), line, runner=runner)
        except RunsMissingError as error:
            failures = str(error)
        return swept_from(plan, Path(place), by, failures, finished)


def _of_record(about: Mapping[str, Any]) -> dict[str, Any]:
    known = {one.name for one in fields(Record)} - {"name"}
    return {name: value for name, value in about.items() if name in known}
