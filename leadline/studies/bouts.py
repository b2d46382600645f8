"""A contest that is carried out by a runner: every candidate in every fold is trained by itself, wherever there is
room."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import takewhile
from typing import Any, NamedTuple

from leadline._checks import InvalidArgumentError
from leadline._foreign import shown
from leadline.estimators.said import NoPredictionError
from leadline.studies.runners import Failed, Runner, Work
from leadline.training.bursts import Progress

Bout = tuple[int, str]
"""The number of a fold, and the name of a candidate."""


class Came(NamedTuple):
    """What came of a bout: an outcome, or why there is none."""

    bout: Bout
    outcome: Any
    notes: Sequence[str] = ()
    error: str = ""
    of_argument: bool = False
    """Whether the error is one of what the user gave."""


@dataclass(frozen=True)
class _Fight:
    """Trains a candidate in a fold of a contest, wherever it is called."""

    contest: Any

    def __call__(
        self, bout: Bout, made: Sequence[Any], report: Callable[[Progress], None], stop: Callable[[], bool]
    ) -> Came | None:
        notes = len(self.contest.notes)
        try:
            outcome = self.contest.measured_in(*bout, watch=lambda now: report(now) or stop())
        except Exception as error:
            mine = isinstance(error, InvalidArgumentError | NoPredictionError)
            said = str(error) if mine else f"{type(error).__name__}: {shown(str(error).strip())}"
            return Came(bout, None, error=said, of_argument=mine)
        return None if stop() else Came(bout, outcome, self.contest.notes[notes:])


def fight(contest: Any, runner: Runner, tell: Callable[[int, int, str, float | None], None] | None = None) -> None:
    """Carry out a `Contest` by a runner. What is through counts from the first fold on, as if it had been done in turn;
    Ctrl-C is a KeyboardInterrupt when all have ended."""
    names, n_folds = list(contest.candidates), len(contest.folds)
    bouts = [(i, name) for i in range(n_folds) for name in names]
    work = Work(_Fight(contest), lambda bout: None, lambda i, share, who: None)
    outcomes: dict[Bout, Any] = {}
    with runner.ready():
        for came in runner.run(bouts, work):
            came = Came(came.chunk, None, error=shown(came.error)) if isinstance(came, Failed) else came
            i, name = came.bout
            if came.error and name == names[0]:
                raise InvalidArgumentError(came.error) if came.of_argument else RuntimeError(came.error)
            if came.error:
                contest.failures[name] = came.error
                continue
            outcomes[came.bout] = came.outcome
            contest.notes += [note for note in came.notes if note not in contest.notes]
            through = takewhile(outcomes.__contains__, [(k, name) for k in range(n_folds)])
            contest.outcomes[name] = [outcomes[bout] for bout in through]
            if tell is not None:
                tell(i, n_folds, f"{len(outcomes)} of {len(bouts)} done, {name}", None)
    if work.stopped.is_set():
        raise KeyboardInterrupt
