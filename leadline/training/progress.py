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
    epochs: int | None
    """The last one; None as long as it is not decided."""
    free_energy: float
    nll: float
    """Of the prediction, in nats per row."""
    depth_mean: float
    depth_std: float
    support: tuple[int, int]


Reporter = Callable[[Progress], None]
"""Told about the training a few times a second."""


class ProgressLine:
    """Epoch, validation free energy and NLL, E[L] +- sd, support and time left, in one line on standard error.

    On a terminal the line is redrawn in place; elsewhere a plain line appears at the start and every ten seconds.
    """

    def __init__(self, epochs: int | None = None, console: Console | None = None):
        console = console or Console(stderr=True)
        self._console = console
        self._live = console.is_terminal
        self._last = time.monotonic()
        self._bar = Bar(
            TextColumn("epoch {task.completed:>6.0f}{task.fields[of]}"),
            BarColumn(bar_width=20),
            TextColumn("{task.description}"),
            TimeRemainingColumn(compact=True),
            console=console,
            disable=not self._live,
            transient=True,
        )
        self._task = self._bar.add_task("compiling ...", total=epochs, of=_of(epochs))

    def __enter__(self) -> "ProgressLine":
        self._bar.start()
        if not self._live:
            self._console.print("compiling ...")
        return self

    def __exit__(self, *_: object) -> None:
        self._bar.stop()

    def __call__(self, now: Progress) -> None:
        lowest, highest = now.support
        depth = f"depth {now.depth_mean:.2f} ± {now.depth_std:.2f} in {lowest}..{highest}"
        text = f"F {now.free_energy:.1f}  NLL {now.nll:.3f}  {depth}"
        self._bar.update(self._task, completed=now.epoch, total=now.epochs, description=text, of=_of(now.epochs))
        if not self._live and time.monotonic() - self._last >= 10:
            self._last = time.monotonic()
            left = self._bar.tasks[0].time_remaining
            self._console.print(
                f"epoch {now.epoch}{_of(now.epochs)}  {text}" + (f"  {left:.0f} s left" if left else "")
            )


Teller = Callable[[float, int, int], None]
"""Told the share of the work that is done, and how many trainings are finished, of how many."""


class GridLine:
    """The share of many trainings that is done, and the time left, in one line on standard error."""

    def __init__(self, console: Console | None = None):
        self._console = console or Console(stderr=True)
        self._live = self._console.is_terminal
        self._last = time.monotonic()
        self._bar = Bar(
            TextColumn("{task.percentage:>3.0f} %"),
            BarColumn(bar_width=30),
            TextColumn("{task.description}"),
            TimeRemainingColumn(),
            console=self._console,
            disable=not self._live,
            transient=True,
            speed_estimate_period=120,
        )
        self._task = self._bar.add_task("compiling ...", total=1.0)

    def __enter__(self) -> "GridLine":
        self._bar.start()
        if not self._live:
            self._console.print("compiling ...")
        return self

    def __exit__(self, *_: object) -> None:
        self._bar.stop()

    def __call__(self, share: float, done: int, runs: int) -> None:
        text = f"{done} of {runs} runs done"
        self._bar.update(self._task, completed=share, description=text)
        if not self._live and time.monotonic() - self._last >= 10:
            self._last = time.monotonic()
            left = self._bar.tasks[0].time_remaining
            self._console.print(f"{100 * share:.0f} %  {text}" + (f"  {left:.0f} s left" if left else ""))


def _of(epochs: int | None) -> str:
    return "" if epochs is None else f"/{epochs}"
