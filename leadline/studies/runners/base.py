"""What carries out the chunks of a sweep."""

import abc
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from leadline.training.bursts import Progress


@dataclass(frozen=True)
class Done:
    """What came of a chunk: the jobs that are done, their rows of the tables, and why there are none of others."""

    chunk: Any
    jobs: Sequence[Any]
    rows: list[dict[str, Any]]
    seconds: float
    diverged: Sequence[tuple[Any, Exception]] = ()


@dataclass(frozen=True)
class Work:
    """What a runner is given to do with chunks."""

    train: Callable[[Any, Callable[[Progress], None], Callable[[], bool]], Done | None]
    """A chunk: told whom to report to, and whom to ask whether to stop. None: it was stopped."""
    prepare: Callable[[Any], None]
    """Compile what a chunk needs, if it can be."""
    report: Callable[[int, Progress], None]
    """Told how far the chunk of a number is."""
    stopped: threading.Event = field(default_factory=threading.Event)
    """To be set on Ctrl-C; what is at work then ends soon, and is not done."""


class Runner(abc.ABC):
    """Carries out chunks, in any order and place; the sweep owns what is done, the tables and the checkpoints."""

    @abc.abstractmethod
    def run(self, chunks: Sequence[Any], work: Work) -> Iterator[Done]:
        """Yield what came of the chunks, as soon as it did."""
