"""A runner on Ray that writes down each chunk that a worker begins; and a process with such a sweep, to be killed."""

import os
import sys
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from leadline.studies.reproduce import Grid
from leadline.studies.runners import RayRunner


@dataclass(frozen=True)
class Counted:
    """Trains a chunk, once its jobs are in the log."""

    train: Any
    log: Path
    deadly: tuple[Any, ...] = ()
    """Keys of jobs that kill their worker."""

    def __call__(self, chunk, problems, report, stop):
        with self.log.open("a") as file:
            file.write("".join(f"{job.table} {job.key}\n" for job in chunk))
        if any(job.key in self.deadly for job in chunk):
            os.kill(os.getpid(), 9)
        return self.train(chunk, problems, report, stop)


@dataclass(frozen=True)
class CountingRunner(RayRunner):
    """Has a log."""

    log: Path = Path()
    deadly: tuple[Any, ...] = ()

    def run(self, chunks, work):
        return super().run(chunks, replace(work, train=Counted(work.train, self.log, self.deadly)))


def begun(log):
    """How often each job was begun."""
    lines = log.read_text().splitlines() if log.exists() else []
    return {line: lines.count(line) for line in lines}


if __name__ == "__main__":
    address, out, log, n_omegas, epochs = sys.argv[1:]
    grid = Grid(("published",), omegas=tuple(range(int(n_omegas))), runs=1, epochs=int(epochs))
    grid.sweep().run(Path(out), None, 0.5, CountingRunner(address, log=Path(log)))
