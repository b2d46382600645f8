"""The paper's grid: several runs at every rotation speed, side by side; a run becomes a row of a table on disk."""

import os
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import jax

from leadline._checks import InvalidArgumentError, check_at_least, check_choice, check_entries, check_integer
from leadline.experiments.records import CHECKPOINTS, COLUMNS, Unfinished, as_row, read_rows, reading, write_rows
from leadline.experiments.spiral import SpiralSettings, run_spirals
from leadline.recipes import DEPTHS, get_recipe
from leadline.training.checkpoint import EVERY
from leadline.training.interruption import Interruption
from leadline.training.progress import Progress, Teller
from leadline.training.run import TrainingDivergedError

AT_ONCE = 2048
"""Networks trained side by side on a GPU, at most: some 2 MB each."""

CHUNKS = "chunks.csv"
"""What was trained together, and how long it took."""


@dataclass(frozen=True)
class Grid:
    """What to train: so many `runs` of each combination, with the seeds 1, 2, ..."""

    recipes: tuple[str, ...] = ("published", "written", "leadline")
    depths: tuple[str, ...] = ("normal", "poisson")
    omegas: tuple[float, ...] = tuple(range(31))
    runs: int = 5
    epochs: int | None = None
    """Of every network; the recipe's where None."""

    def __post_init__(self) -> None:
        for name in ("recipes", "depths", "omegas"):
            check_entries(name, getattr(self, name))
        for depth in self.depths:
            check_choice("depth", depth, DEPTHS)
        for omega in self.omegas:
            check_at_least("omegas", omega, 0)
        check_integer("runs", self.runs, 1)
        if self.epochs is not None:
            check_integer("epochs", self.epochs, 1)
        for recipe in self.recipes:
            get_recipe(recipe)

    def families(self) -> list[tuple[str, str]]:
        """What goes into one table, recipe and depth family; in the order of training."""
        return [(recipe, depth) for recipe in self.recipes for depth in self.depths]

    def settings(self, recipe: str, depth: str) -> list[SpiralSettings]:
        return [
            SpiralSettings(omega, depth, recipe, epochs=self.epochs, seed=seed)
            for seed in range(1, self.runs + 1)
            for omega in self.omegas
        ]


QUICK = Grid(recipes=("published",), omegas=tuple(range(5, 31, 5)), runs=1)
"""A small version of the figure: one run at six rotation speeds, trained as long as in the paper."""


def table_path(out: Path, recipe: str, depth: str) -> Path:
    return out / f"{recipe}-{depth}.csv"


Chunk = list[SpiralSettings]


def missing(grid: Grid, out: Path) -> list[Chunk]:
    """What is not in the tables yet, in chunks to train together: a recipe's, of both families."""
    chunks = []
    for recipe in grid.recipes:
        left = []
        for depth in grid.depths:
            done = {_identity(row) for row in _checked_rows(table_path(out, recipe, depth), grid)}
            left += [one for one in grid.settings(recipe, depth) if (float(one.omega), one.seed) not in done]
        size = max(1, AT_ONCE // get_recipe(recipe).n_restarts) if _on_accelerator() else 1
        chunks += [left[i : i + size] for i in range(0, len(left), size)]
    return chunks


def _checked_rows(path: Path, grid: Grid) -> list[dict[str, str]]:
    rows = read_rows(path, COLUMNS)
    with reading(path):
        for row in rows:
            epochs = get_recipe(row["recipe"]).epochs if grid.epochs is None else grid.epochs
            if int(row["epochs"]) != epochs:
                raise InvalidArgumentError(
                    f"`out`: {path} has runs of {row['epochs']} epochs, not {epochs}; choose another directory or use "
                    f"--epochs {row['epochs']}."
                )
            _identity(row)
    return rows


def _identity(row: dict[str, str]) -> tuple[float, int]:
    return float(row["omega"]), int(row["seed"])


def reproduce(grid: Grid, out: Path, tell: Teller | None = None, checkpoint_every: float = EVERY) -> bool:
    """Train what is missing; every chunk is on disk as soon as it is done. Whether all is done: Ctrl-C leaves the
    chunks in hand to the next time, which goes on from their checkpoints.

    A training that diverges does not stop the others; at the end it is an error.
    """
    chunks = missing(grid, out)
    stopped = threading.Event()
    diverged: list[str] = []
    meter = _Meter(chunks, tell, stopped)
    work = _on_a_gpu if _on_accelerator() else _on_all_cores
    unfinished = Unfinished(out / CHECKPOINTS, checkpoint_every)
    left = {one for chunk in chunks for one in chunk}
    for recipe, depth in grid.families():
        for one in grid.settings(recipe, depth):
            if one not in left:  # killed, perhaps, between the table and this
                unfinished.no_more([one])
    try:
        for chunk, rows, seconds in work(chunks, meter, stopped, unfinished):
            if isinstance(rows, TrainingDivergedError):
                first = chunk[0]
                diverged.append(f"{first.recipe}, {first.depth}, omega {first.omega:g} and beside it: {rows}")
                continue
            depths = list(dict.fromkeys(row["depth"] for row in rows))
            for depth in depths:
                path = table_path(out, rows[0]["recipe"], depth)
                every = read_rows(path) + [row for row in rows if row["depth"] == depth]
                write_rows(path, sorted(every, key=_identity))
            took = {"recipe": rows[0]["recipe"], "depth": " + ".join(depths), "runs": len(chunk)}
            took |= {"epochs": rows[0]["epochs"], "training_seconds": rows[0]["seconds"], "seconds": round(seconds, 3)}
            write_rows(out / CHUNKS, [*read_rows(out / CHUNKS), took | {"device": rows[0]["device"]}])
            unfinished.no_more(chunk)
    except KeyboardInterrupt:
        stopped.set()
    if diverged:
        raise TrainingDivergedError("\n".join(diverged))
    return not stopped.is_set()


Done = tuple[Chunk, list[dict[str, str]] | TrainingDivergedError, float]
Trained = Iterator[Done]


def _on_a_gpu(chunks: list[Chunk], meter: "_Meter", stopped: threading.Event, unfinished: Unfinished) -> Trained:
    """One after the other; while one trains, the programs of its evaluation and of the next one are compiled."""
    with ThreadPoolExecutor(1) as aside:
        prepared: list[Future[None]] = []

        def watch(i: int, now: Progress) -> None:
            meter.report(i, now)  # this one's training is compiled
            prepared.extend(aside.submit(_compile, one) for one in chunks[len(prepared) : i + 2])

        for i, chunk in enumerate(chunks):
            wait(prepared)
            done = _train(chunk, partial(watch, i), stopped, unfinished)
            if done is None:
                stopped.set()
                return
            yield done


def _compile(chunk: Chunk) -> None:
    """Train for a moment, and evaluate, for the sake of the programs. What goes wrong here goes wrong again there, and
    is heard."""
    with suppress(Exception):
        run_spirals(chunk, None, lambda: True)


def _on_all_cores(chunks: list[Chunk], meter: "_Meter", stopped: threading.Event, unfinished: Unfinished) -> Trained:
    """As many at a time as there are cores: a second core gains nothing within one small training."""
    with Interruption() as interruption, ThreadPoolExecutor(_n_cores()) as pool:
        waiting = {
            pool.submit(_train, chunk, partial(meter.report, i), stopped, unfinished) for i, chunk in enumerate(chunks)
        }
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


def _train(
    chunk: Chunk, report: Callable[[Progress], None], stopped: threading.Event, unfinished: Unfinished
) -> Done | None:
    if stopped.is_set():
        return None
    start = time.perf_counter()
    try:
        runs = run_spirals(chunk, report, stopped.is_set, unfinished.place(chunk), unfinished.every)
    except TrainingDivergedError as error:
        return chunk, error, time.perf_counter() - start
    if any(run.record.get("interrupted") for run in runs):
        return None
    rows = [{name: str(value) for name, value in as_row(run.record).items()} for run in runs]
    return chunk, rows, time.perf_counter() - start


class _Meter:
    """Adds up what the chunks report."""

    def __init__(self, chunks: list[Chunk], tell: Teller | None, stopped: threading.Event):
        self._runs = [len(chunk) for chunk in chunks]
        self._cost = [len(chunk) * _cost(chunk[0]) for chunk in chunks]
        self._share = [0.0] * len(chunks)
        self._tell, self._stopped = tell, stopped
        self._lock = threading.Lock()

    def report(self, i: int, now: Progress) -> None:
        """Where chunk i is."""
        with self._lock:
            self._share[i] = now.epoch / (now.epochs or now.epoch)
            if self._tell is not None and not self._stopped.is_set():
                done = sum(n for n, share in zip(self._runs, self._share, strict=True) if share == 1)
                worked = sum(cost * share for cost, share in zip(self._cost, self._share, strict=True))
                self._tell(worked / sum(self._cost), done, sum(self._runs))


def _cost(settings: SpiralSettings) -> int:
    """Epochs, all restarts together."""
    recipe = get_recipe(settings.recipe)
    return recipe.n_restarts * (recipe.epochs if settings.epochs is None else settings.epochs)


def _on_accelerator() -> bool:
    return jax.default_backend() != "cpu"


def _n_cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
