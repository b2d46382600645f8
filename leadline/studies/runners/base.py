"""What carries out the chunks of a sweep."""

import abc
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from typing import Any, ClassVar

from leadline.backend.device import networks_that_fit
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
class Failed:
    """A chunk of which nothing came, however often it was tried: its error, in words."""

    chunk: Any
    error: str


@dataclass(frozen=True)
class Slots:
    """Where chunks are carried out."""

    n: int = 1
    """How many at a time, as far as that decides how large chunks are."""
    networks: int = 1
    """That are best trained in one program, in each."""


def _nothing(chunk: Any) -> tuple[()]:
    return ()


@dataclass(frozen=True)
class Work:
    """What a runner is given to do with chunks."""

    train: Callable[[Any, Sequence[Any], Callable[[Progress], None], Callable[[], bool]], Any]
    """A chunk, with the data that it needs: told whom to report to, and whom to ask whether to stop. None: it was
    stopped. A runner that trains elsewhere pickles it, and what it gives."""
    prepare: Callable[[Any], None]
    """Compile what a chunk needs, if it can be."""
    report: Callable[[int, float, str], None]
    """Told which share of the chunk of a number is done, and by whom, where that is worth a word."""
    stopped: threading.Event = field(default_factory=threading.Event)
    """To be set on Ctrl-C; what is at work then ends soon, and is not done."""
    needs: Callable[[Any], Sequence[Callable[[], Any]]] = _nothing
    """What makes the data of a chunk. The same maker gives the same data, which need not be sent twice."""

    def made(self, chunk: Any) -> list[Any]:
        """The data of a chunk, made here."""
        return [make() for make in self.needs(chunk)]


class Runner(abc.ABC):
    """Carries out chunks, in any order and place; the sweep owns what is done, the tables and the checkpoints."""

    is_elsewhere: ClassVar[bool] = False
    """Whether chunks may be trained on other machines, which may not see the files of this one."""

    @abc.abstractmethod
    def run(self, chunks: Sequence[Any], work: Work) -> Iterator[Any]:
        """Yield what came of the chunks, as soon as it did; a `Failed` for one that was given up."""

    def ready(self) -> AbstractContextManager[Slots]:
        """Be ready for chunks while it lasts; gives what there is to carry them out."""
        return nullcontext(Slots(networks=networks_that_fit()))


def share_of(now: Progress) -> float:
    """Of a training, that is done; 0 where nobody knows how long it will be."""
    return now.epoch / now.epochs if now.epochs else 0.0
