"""What carries out the chunks of a sweep."""

import abc
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from leadline.training.progress import Progress


@dataclass(frozen=True)
class Done:
    """What came of a chunk: the rows of its table, or why there are none."""

    chunk: Any
    rows: list[dict[str, Any]]
    seconds: float
    error: Exception | None = None


Work = Callable[[Any, Callable[[Progress], None], Callable[[], bool]], Done | None]
"""Trains a chunk: told whom to report to, and whom to ask whether to stop. None: it was stopped."""


class Runner(abc.ABC):
    """Carries out chunks, in any order and place; the sweep owns what is done, the tables and the checkpoints.

    A runner sets `stopped` when it was interrupted; what is at work then ends soon, and is not done.
    """

    @abc.abstractmethod
    def run(
        self,
        chunks: Sequence[Any],
        work: Work,
        prepare: Callable[[Any], None],
        report: Callable[[int, Progress], None],
        stopped: threading.Event,
    ) -> Iterator[Done]:
        """Yield what came of the chunks, as soon as it did.

        Args:
            chunks: to train.
            work: trains one.
            prepare: compiles what one needs.
            report: told how far the chunk of a number is.
            stopped: to be set on Ctrl-C.
        """
