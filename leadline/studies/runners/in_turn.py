"""One chunk after the other, in this process: for a GPU, and where a chunk is large."""

from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import dataclass
from typing import Any

from leadline.studies.runners.base import Runner, Work, share_of
from leadline.training.bursts import Progress


@dataclass(frozen=True)
class InTurn(Runner):
    """With `ahead`, the programs of a chunk's evaluation and of the next chunk are compiled while it trains."""

    ahead: bool = False

    def run(self, chunks: Sequence[Any], work: Work) -> Iterator[Any]:
        with ThreadPoolExecutor(1) as aside:
            prepared: list[Future[None]] = []

            for i, chunk in enumerate(chunks):

                def tell(now: Progress, i: int = i) -> None:
                    work.report(i, share_of(now), "")  # this one's training is compiled
                    if self.ahead:
                        prepared.extend(aside.submit(work.prepare, one) for one in chunks[len(prepared) : i + 2])

                wait(prepared)
                done = work.train(chunk, work.made(chunk), tell, work.stopped.is_set)
                if done is None:
                    work.stopped.set()
                    return
                yield done
