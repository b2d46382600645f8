"""One live line while training runs."""

import time
from collections.abc import Callable
from dataclasses import dataclass

from rich.console import Console
from rich.progress import BarColumn, TextColumn, TimeRemainingColumn
from rich.progress import Progress as Bar


@dataclass(frozen=True)
class Progress:
    """Where the training is; means over the runs, on the validation part."""

    epoch: int
    free_energy: float
    depth_mean: float
    depth_std: float
    support: tuple[int, int]


Reporter = Callable[[Progress], None]
"""Told about the training a few times a second."""


class ProgressLine:
    """Epoch, validation free energy, E[L] +- sd, support and time left, in one line on standard error.

    On a terminal the line is redrawn in place; elsewhere a plain line appears every ten seconds.
    """

    def __init__(self, epochs: int, console: Console | None = None):
        console = console or Console(stderr=True)
        self._epochs = epochs
        self._console = console
        self._live = console.is_terminal
        self._last = time.monotonic()
        self._bar = Bar(
            TextColumn("epoch {task.completed:>6.0f}/{task.total:.0f}"),
            BarColumn(bar_width=20),
            TextColumn("{task.description}"),
            TimeRemainingColumn(compact=True),
            console=console,
            disable=not self._live,
            transient=True,
        )
        self._task = self._bar.add_task("compiling ...", total=epochs)

    def __enter__(self) -> "ProgressLine":
        self._bar.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._bar.stop()

    def __call__(self, now: Progress) -> None:
        lowest, highest = now.support
        text = f"F {now.free_energy:.1f}  depth {now.depth_mean:.2f} ± {now.depth_std:.2f} in {lowest}..{highest}"
        self._bar.update(self._task, completed=now.epoch, description=text)
        if not self._live and time.monotonic() - self._last >= 10:
            self._last = time.monotonic()
            left = self._bar.tasks[0].time_remaining
            self._console.print(f"epoch {now.epoch}/{self._epochs}  {text}" + (f"  {left:.0f} s left" if left else ""))
