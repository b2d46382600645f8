"""One live line while training runs."""

import math
import time
from collections.abc import Callable
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, ProgressColumn, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from rich.progress import Progress as Bar

from leadline._foreign import on_one_line
from leadline.backend.device import backend
from leadline.training.bursts import Progress

Reporter = Callable[[Progress], None]
"""Told about the training a few times a second."""


class _Line:
    """One line on standard error. On a terminal it is redrawn in place; elsewhere a plain line appears at the start and
    every ten seconds."""

    def __init__(self, console: Console | None, total: float | None, *columns: ProgressColumn, **fields: Any):
        self._console = console or Console(stderr=True)
        self._live = self._console.is_terminal
        self._last = time.monotonic()
        given: dict[str, Any] = {"console": self._console, "disable": not self._live, "transient": True}
        self._bar = Bar(*columns, **given, speed_estimate_period=120)
        self._row = self._bar.add_task(_beginning(), total=total, **fields)

    def __enter__(self) -> Any:
        self._bar.start()
        if not self._live:
            self._console.print(_beginning())
        return self

    def __exit__(self, *_: object) -> None:
        self._bar.stop()

    def show(self, plain: str, **now: Any) -> None:
        """What the line says now; elsewhere than on a terminal the plain text, and the time left."""
        self._bar.update(self._row, **now)
        if not self._live and time.monotonic() - self._last >= 10:
            self._last = time.monotonic()
            left = self._bar.tasks[0].time_remaining
            self._console.print(plain + (f"  {left:.0f} s left" if left else ""))


class ProgressLine(_Line):
    """Epoch, phase, the lowest validation NLL so far, E[L] +- sd, support and time left.

    The NLL is that of the median restart. Of the last epoch alone it would look like divergence where all is well:
    without the weight KL networks learn by heart, and single ones of a low temperature stay far too sure to the end.
    """

    def __init__(self, epochs: int | None = None, console: Console | None = None):
        epoch, text = TextColumn("epoch {task.completed:>6.0f}{task.fields[of]}"), TextColumn("{task.description}")
        columns = (epoch, BarColumn(bar_width=20), text, TimeRemainingColumn(compact=True))
        self._lowest = math.inf
        super().__init__(console, epochs, *columns, of=_of(epochs))

    def __call__(self, now: Progress) -> None:
        lowest, highest = now.support
        self._lowest = min(self._lowest, now.median_nll)
        depth = f"depth {now.depth_mean:.2f} ± {now.depth_std:.2f} in {lowest}..{highest}"
        text, of = f"{now.phase:<9}  NLL {self._lowest:.3f} at best  {depth}", _of(now.epochs)
        plain = f"epoch {now.epoch}{of}  {text}"
        self.show(plain, completed=now.epoch, total=now.epochs, description=text, of=of)


Teller = Callable[[float, int, int, str], None]
"""Told the share of the work that is done, how many trainings are finished, of how many, and who of several machines is
the last to be done; nothing of the latter where there is one machine."""


class GridLine(_Line):
    """The share of many trainings that is done, and the time left."""

    def __init__(self, console: Console | None = None):
        done, text = TextColumn("{task.percentage:>3.0f} %"), TextColumn("{task.description}")
        super().__init__(console, 1.0, done, BarColumn(bar_width=30), text, TimeRemainingColumn())

    def __call__(self, share: float, done: int, runs: int, slowest: str = "") -> None:
        text = f"{done} of {runs} runs done" + (f", slowest {slowest}" if slowest else "")
        self.show(f"{100 * share:.0f} %  {text}", completed=share, description=text)


class CandidateLine(_Line):
    """The candidate and the fold of a comparison, the time since it began, and the time left."""

    def __init__(self, console: Console | None = None):
        super().__init__(console, None, TimeElapsedColumn(), TextColumn("{task.description}"))
        self._bar.update(self._row, description=_beginning())

    def __call__(self, fold: int, n_folds: int, name: str, seconds: float | None) -> None:
        left = "" if seconds is None else f", about {seconds:.0f} s left"
        text = f"{name}{f', fold {fold + 1} of {n_folds}' if n_folds > 1 else ''}{left}"
        self.show(text, description=on_one_line(escape(text)))


def _of(epochs: int | None) -> str:
    return "" if epochs is None else f"/{epochs}"


def _beginning() -> str:
    """What happens before the first epoch; what the engine does not know is compiled all the same."""
    return "beginning ..." if backend().has_engine else "compiling ..."
