"""As many chunks at a time as there are cores: a chunk of one network is trained by one."""

from collections.abc import Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, ThreadPoolExecutor, wait
from typing import Any

from leadline.backend.device import n_cores
from leadline.studies.runners.base import Runner, Work, share_of
from leadline.training.interruption import Interruption


class AllCores(Runner):
    """Threads: the engine and XLA compute without Python's lock."""

    def run(self, chunks: Sequence[Any], work: Work) -> Iterator[Any]:
        stopped = work.stopped

        def begin(i: int, chunk: Any) -> Any:
            if stopped.is_set():
                return None
            return work.train(chunk, work.made(chunk), lambda now: work.report(i, share_of(now), ""), stopped.is_set)

        with Interruption() as interruption, ThreadPoolExecutor(n_cores()) as pool:
            waiting = {pool.submit(begin, i, chunk) for i, chunk in enumerate(chunks)}
            try:
                while waiting:
                    finished, waiting = wait(waiting, timeout=0.2, return_when=FIRST_COMPLETED)
                    for future in finished:
                        done = future.result()
                        if done is not None:
                            yield done
                    if interruption.asked:
                        stopped.set()  # those at work end soon, and those that wait do not begin
            finally:
                if waiting:
                    stopped.set()
