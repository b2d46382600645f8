"""Many fits, each a row of a table on disk: what is there is not trained again, and what was cut off goes on."""

import threading
import time
from collections.abc import Callable, Hashable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import groupby
from pathlib import Path
from typing import Any

import numpy as np

from leadline._identity import identity
from leadline.backend.device import backend
from leadline.files.checkpoints import EVERY, clear
from leadline.files.directories import CHECKPOINTS, check_folder
from leadline.files.records import read_rows, reading, write_rows
from leadline.inference.recipes import get_recipe
from leadline.studies.evaluate import run_fits
from leadline.studies.runners import AllCores, Done, InTurn, Runner, Work
from leadline.training.bursts import Progress
from leadline.training.problem import Problem
from leadline.training.progress import Teller
from leadline.training.run import TrainingDivergedError, Watch
from leadline.training.settings import Settings

CHUNKS = "chunks.csv"
"""What was trained together, and how long it took."""

Row = dict[str, Any]


@dataclass(frozen=True)
class Job:
    """One fit of a sweep: how its problem is made, its settings, and where its record goes."""

    problem: Callable[[], Problem]
    settings: Settings
    table: str
    """The name of its table, without .csv."""
    key: Any
    """That of its row (`Sweep.key`)."""

    @property
    def n_restarts(self) -> int:
        return self.settings.n_restarts or get_recipe(self.settings.recipe).n_restarts

    @property
    def cost(self) -> int:
        """Epochs, all restarts together."""
        return self.n_restarts * (self.settings.epochs or get_recipe(self.settings.recipe).epochs)


Chunk = tuple[Job, ...]
"""Jobs that train side by side in one program."""


@dataclass(frozen=True)
class Sweep:
    """What to train, and how the tables are laid out.

    Args:
        jobs: in the order of training.
        columns: of the tables.
        key: what tells a row of a table from the others, and orders them.
        together: what jobs must have in common to train side by side.
        check: refuses a row that another command has written.
        whole: whether all jobs that can train side by side do, also on a CPU.
        brief: whether records go without the free energy and the units in use.
        compiled_apart: whether `seconds` is without those that it took to compile.
    """

    jobs: Sequence[Job]
    columns: Sequence[str]
    key: Callable[[Row], Any]
    together: Callable[[Job], Hashable]
    check: Callable[[Path, Row], None] = lambda path, row: None
    whole: bool = False
    brief: bool = False
    compiled_apart: bool = False

    def missing(self, out: Path) -> list[Chunk]:
        """What is not in the tables yet, in chunks to train together."""
        done = {table: self._done(out / f"{table}.csv") for table in {job.table for job in self.jobs}}
        left = [job for job in self.jobs if job.key not in done[job.table]]
        chunks: list[Chunk] = []
        for _, group in groupby(left, self.together):
            jobs = tuple(group)
            size = len(jobs) if self.whole else max(1, backend().networks_at_once // jobs[0].n_restarts)
            chunks += [jobs[i : i + size] for i in range(0, len(jobs), size)]
        return chunks

    def _done(self, path: Path) -> set[Any]:
        rows = read_rows(path, self.columns)
        with reading(path):
            for row in rows:
                self.check(path, row)
            return {self.key(row) for row in rows}

    def run(
        self, out: Path, tell: Teller | None = None, checkpoint_every: float = EVERY, runner: Runner | None = None
    ) -> bool:
        """Train what is missing; every chunk is on disk as soon as it is done.

        A training that diverges does not stop the others, which are trained once more without it where they were beside
        it; at the end it is an error.

        Args:
            out: where the tables are.
            tell: told how far it is.
            checkpoint_every: seconds between checkpoints.
            runner: what carries chunks out; by default all cores of a CPU, or one program at a time.

        Returns:
            Whether all is done: Ctrl-C leaves the chunks in hand to the next time, which goes on from their
            checkpoints.
        """
        chunks = self.missing(out)
        for chunk in chunks:
            check_folder(_place(out, chunk))
        self._forget_done(out, chunks)
        stopped = threading.Event()
        diverged: list[str] = []

        def train(chunk: Chunk, report: Callable[[Progress], None], stop: Callable[[], bool]) -> Done | None:
            return self._train(chunk, Watch(report, None, lambda _: stop(), _place(out, chunk), checkpoint_every))

        def prepare(chunk: Chunk) -> None:
            """Train for a moment, and evaluate, for the sake of the programs. What goes wrong is heard later, again."""
            with suppress(Exception):
                self._train(chunk, Watch(on_call=lambda _: True))

        is_gpu = backend().networks_at_once > 1
        runner = runner or (InTurn(ahead=not self.whole) if self.whole or is_gpu else AllCores())
        try:
            for done in runner.run(chunks, Work(train, prepare, _meter(chunks, tell, stopped), stopped)):
                for job, error in done.diverged:
                    about = ", ".join(f"{name} {value}" for name, value in job.problem().about.items())
                    diverged.append(f"{job.table}, {about}, seed {job.settings.seed}: {error}")
                if done.jobs:
                    self._write(out, done)
                    _clear(out, done.chunk)
        except KeyboardInterrupt:
            stopped.set()
        if diverged:
            raise TrainingDivergedError("; ".join(diverged))
        return not stopped.is_set()

    def _train(self, chunk: Chunk, watch: Watch) -> Done | None:
        start = time.perf_counter()
        jobs, fits, diverged = list(chunk), [], list[tuple[Job, Exception]]()
        while jobs and not fits:
            problems = [job.problem() for job in jobs]
            try:
                fits = run_fits(problems, [job.settings for job in jobs], watch, brief=self.brief)
            except TrainingDivergedError as error:
                gone = error.fits(len(jobs))
                diverged += [(jobs[i], error) for i in gone]
                jobs = [job for i, job in enumerate(jobs) if i not in gone]
        if any(fit.record.interrupted for fit in fits):
            return None
        records = [fit.record for fit in fits]
        if self.compiled_apart:
            records = [replace(one, seconds=round(one.seconds - (one.compile_seconds or 0.0), 3)) for one in records]
        rows = [{name: str(value) for name, value in record.row(self.columns).items()} for record in records]
        return Done(chunk, jobs, rows, time.perf_counter() - start, diverged)

    def _write(self, out: Path, done: Done) -> None:
        """The time that they took goes into a table, and the rows into theirs, in order. What is killed in between is
        done again, and has one line all the same."""
        first, name = done.rows[0], _place(out, done.chunk).name
        depths = " + ".join(dict.fromkeys(row["depth"] for row in done.rows))
        took = {"recipe": done.jobs[0].settings.in_words()["recipe"], "depth": depths, "runs": len(done.jobs)}
        took |= {"epochs": first["epochs"], "training_seconds": first["seconds"], "seconds": round(done.seconds, 3)}
        before = [{**row, "chunk": row.get("chunk", "")} for row in read_rows(out / CHUNKS)]
        others = [row for row in before if row["chunk"] != name]
        write_rows(out / CHUNKS, [*others, took | {"device": first["device"], "chunk": name}])
        for table in dict.fromkeys(job.table for job in done.jobs):
            path = out / f"{table}.csv"
            new = [row for job, row in zip(done.jobs, done.rows, strict=True) if job.table == table]
            write_rows(path, sorted(read_rows(path) + new, key=self.key))

    def _forget_done(self, out: Path, chunks: list[Chunk]) -> None:
        """Checkpoints of what is in the tables: it was killed, perhaps, between the table and this."""
        left = {(job.table, job.key) for chunk in chunks for job in chunk}
        for _, group in groupby(self.jobs, self.together):
            jobs = tuple(group)
            for chunk in [jobs] if self.whole else [(job,) for job in jobs]:
                if not any((job.table, job.key) in left for job in chunk):
                    _clear(out, chunk)


def _place(out: Path, chunk: Chunk) -> Path:
    """Of its checkpoints."""
    return out / CHECKPOINTS / identity([(job.table, job.key) for job in chunk])[:16]


def _clear(out: Path, chunk: Chunk) -> None:
    clear(_place(out, chunk))
    with suppress(OSError):
        (out / CHECKPOINTS).rmdir()  # the last one's


def _meter(chunks: list[Chunk], tell: Teller | None, stopped: threading.Event) -> Callable[[int, Progress], None]:
    """Adds up what the chunks report."""
    runs, share, lock = np.array([len(chunk) for chunk in chunks]), np.zeros(len(chunks)), threading.Lock()
    cost = runs * [chunk[0].cost for chunk in chunks]

    def report(i: int, now: Progress) -> None:
        """Where chunk i is."""
        with lock:
            share[i] = now.epoch / now.epochs if now.epochs else 0.0
            if tell is not None and not stopped.is_set():
                tell(float(cost @ share / cost.sum()), int(runs[share == 1].sum()), int(runs.sum()))

    return report
