"""Many fits, each a row of a table on disk: what is there is not trained again, and what was cut off goes on."""

import threading
import time
from collections.abc import Callable, Hashable, Mapping, Sequence
from contextlib import nullcontext, suppress
from dataclasses import dataclass, field, replace
from itertools import groupby
from pathlib import Path
from typing import Any

import numpy as np

from leadline._identity import identity
from leadline.backend.device import backend, networks_that_fit
from leadline.files.checkpoints import EVERY, clear
from leadline.files.directories import CHECKPOINTS, check_folder
from leadline.files.records import read_rows, reading, write_rows
from leadline.files.whole import marked
from leadline.inference.recipes import get_recipe
from leadline.studies.evaluate import run_fits
from leadline.studies.runners import AllCores, Done, Failed, InTurn, Runner, Slots, Work
from leadline.training.bursts import Progress
from leadline.training.problem import Problem
from leadline.training.progress import Teller
from leadline.training.run import TrainingDivergedError, Watch
from leadline.training.settings import Settings

CHUNKS = "chunks.csv"
"""What was trained together, and how long it took."""

Row = dict[str, Any]


class RunsMissingError(TrainingDivergedError):
    """Some runs of a sweep diverged, or failed as often as they were tried; all others are in its tables."""


@dataclass(frozen=True)
class Job:
    """One fit of a sweep: how its problem is made, its settings, and where its record goes."""

    problem: Callable[[], Problem]
    settings: Settings
    table: str
    """The name of its table, without .csv."""
    key: Any
    """That of its row (`Sweep.key`)."""
    said: str = ""
    """What tells it from the others of its table, beside what its problem says, in words."""
    beside: Mapping[str, str] = field(default_factory=dict)
    """Columns of its row that its record does not have, or has otherwise."""

    def __reduce__(self) -> Any:
        """Pickled without what makes its problem, which travels by itself: once for all jobs that share it."""
        return Job, (_none, self.settings, self.table, self.key, self.said, self.beside)

    @property
    def name(self) -> str:
        """For a sentence about it."""
        about = [f"{name} {value}" for name, value in self.problem().about.items()]
        return ", ".join([self.table, *about, *[self.said] * bool(self.said), f"seed {self.settings.seed}"])

    @property
    def n_restarts(self) -> int:
        return self.settings.n_restarts or get_recipe(self.settings.recipe).n_restarts

    @property
    def cost(self) -> int:
        """Epochs, all restarts together."""
        return self.n_restarts * (self.settings.epochs or get_recipe(self.settings.recipe).epochs)


def _none() -> Problem:
    raise LookupError("the problem of a job that was sent is not with it")


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

    def missing(self, out: Path, slots: Slots | None = None) -> list[Chunk]:
        """What is not in the tables yet, in chunks to train together: as large as suits the slots that there are, and
        not so large that one of these has nothing to do."""
        slots = slots or Slots(networks=networks_that_fit())
        done = {table: self._done(out / f"{table}.csv") for table in {job.table for job in self.jobs}}
        left = [job for job in self.jobs if job.key not in done[job.table]]
        chunks: list[Chunk] = []
        for _, group in groupby(left, self.together):
            jobs = tuple(group)
            most = min(slots.networks // jobs[0].n_restarts, -(-len(jobs) // slots.n))
            size = len(jobs) if self.whole else max(1, most)
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
        if not self.missing(out):  # no cluster is needed for that
            self._forget_done(out, [])
            return True
        is_gpu = backend().networks_at_once > 1
        runner = runner or (InTurn(ahead=not self.whole) if self.whole or is_gpu else AllCores())
        stopped, missed = threading.Event(), list[str]()
        with runner.ready() as slots:
            chunks = self.missing(out, slots)
            for chunk in chunks:
                check_folder(_place(out, chunk))
            self._forget_done(out, chunks)
            out.mkdir(parents=True, exist_ok=True)
            with marked(out) if runner.is_elsewhere else nullcontext() as mark:
                trainer = Trainer(
                    out.absolute(), mark, checkpoint_every, tuple(self.columns), self.brief, self.compiled_apart
                )
                work = Work(trainer, trainer.prepare, _meter(chunks, tell, stopped), stopped, _makers)
                try:
                    for done in runner.run(chunks, work):
                        missed += self._missed(done)
                        if isinstance(done, Done) and done.jobs:
                            self._write(out, done)
                            _clear(out, done.chunk)
                except KeyboardInterrupt:
                    stopped.set()
            if runner.is_elsewhere:  # where one may have written that was given up for dead
                self._forget_done(out, self.missing(out, slots))
        if missed:
            raise RunsMissingError("; ".join(missed))
        return not stopped.is_set()

    def _missed(self, done: Done | Failed) -> list[str]:
        """What there are no rows of, and why."""
        mine = {(job.table, job.key): job for job in self.jobs}
        if isinstance(done, Done):
            return [f"{mine[job.table, job.key].name}: {error}" for job, error in done.diverged]
        first, *more = done.chunk
        others = f" and {len(more)} more" if more else ""
        return [f"{mine[first.table, first.key].name}{others}: {done.error.rstrip('.')}, as often as it was tried."]

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


@dataclass(frozen=True)
class Trainer:
    """Trains a chunk of jobs, wherever it is called.

    Args:
        out: where the tables are.
        mark: a file there that tells whether that directory is the same here; None: it is.
        checkpoint_every: seconds between checkpoints.
        columns, brief, compiled_apart: as in `Sweep`.
    """

    out: Path
    mark: str | None
    checkpoint_every: float
    columns: tuple[str, ...]
    brief: bool
    compiled_apart: bool

    def __call__(
        self,
        chunk: Chunk,
        problems: Sequence[Problem],
        report: Callable[[Progress], None],
        stop: Callable[[], bool],
    ) -> Done | None:
        """What came of it; None if it was stopped, or the sweep that asked for it is no more."""
        mark = None if self.mark is None else self.out / self.mark
        is_here = mark is None or mark.exists()
        place = _place(self.out, chunk) if is_here else None

        def over(_: Any) -> bool:
            return stop() or (is_here and mark is not None and not mark.exists())

        return self._train(chunk, problems, Watch(report, None, over, place, self.checkpoint_every))

    def prepare(self, chunk: Chunk) -> None:
        """Train for a moment, and evaluate, for the sake of the programs. What goes wrong is heard later, again."""
        with suppress(Exception):
            self._train(chunk, [job.problem() for job in chunk], Watch(on_call=lambda _: True))

    def _train(self, chunk: Chunk, problems: Sequence[Problem], watch: Watch) -> Done | None:
        start = time.perf_counter()
        left, fits, diverged = list(range(len(chunk))), [], list[tuple[Job, Exception]]()
        while left and not fits:
            try:
                settings = [chunk[i].settings for i in left]
                fits = run_fits([problems[i] for i in left], settings, watch, brief=self.brief)
            except TrainingDivergedError as error:
                gone = [left[i] for i in error.fits(len(left))]
                diverged += [(chunk[i], error) for i in gone]
                left = [i for i in left if i not in gone]
        if any(fit.record.interrupted for fit in fits):
            return None
        records = [fit.record for fit in fits]
        if self.compiled_apart:
            records = [replace(one, seconds=round(one.seconds - (one.compile_seconds or 0.0), 3)) for one in records]
        jobs = [chunk[i] for i in left]
        both = zip((one.row(self.columns) for one in records), jobs, strict=True)
        rows = [{name: str(value) for name, value in {**row, **job.beside}.items()} for row, job in both]
        return Done(chunk, jobs, rows, time.perf_counter() - start, diverged)


def _makers(chunk: Chunk) -> list[Callable[[], Problem]]:
    return [job.problem for job in chunk]


def _place(out: Path, chunk: Chunk) -> Path:
    """Of its checkpoints."""
    return out / CHECKPOINTS / identity([(job.table, job.key) for job in chunk])[:16]


def _clear(out: Path, chunk: Chunk) -> None:
    clear(_place(out, chunk))
    with suppress(OSError):
        (out / CHECKPOINTS).rmdir()  # the last one's


def _meter(chunks: list[Chunk], tell: Teller | None, stopped: threading.Event) -> Callable[[int, float, str], None]:
    """Adds up what the chunks report."""
    runs, share, lock = np.array([len(chunk) for chunk in chunks]), np.zeros(len(chunks)), threading.Lock()
    cost = runs * [chunk[0].cost for chunk in chunks]
    by: dict[int, tuple[str, float]] = {}

    def report(i: int, done: float, who: str) -> None:
        """Which share of chunk i is done."""
        with lock:
            share[i] = done
            if who != by.get(i, ("",))[0]:
                by[i] = who, time.monotonic()
            if tell is not None and not stopped.is_set():
                slowest = _slowest({i: one for i, one in by.items() if share[i] < 1}, share)
                tell(float(cost @ share / cost.sum()), int(runs[share == 1].sum()), int(runs.sum()), slowest)

    return report


def _slowest(by: dict[int, tuple[str, float]], share: np.ndarray) -> str:
    """Who needs longest for what is in hand, of several."""
    now = time.monotonic()
    left = {i: (now - since) * (1 - share[i]) / max(share[i], 1e-6) for i, (_, since) in by.items()}
    if len(left) < 2:
        return ""
    last = max(left, key=lambda i: left[i])
    return f"{by[last][0]} at {100 * share[last]:.0f} %"
