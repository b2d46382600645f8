"""Ctrl-C loses nothing, nor does any other way of asking a process to end."""

import math
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

TOGETHER = 1.0
"""Seconds."""


class Interruption:
    """Turns the first Ctrl-C into a question asked between compiled calls, where nothing is half done.

    The second one is an ordinary KeyboardInterrupt, and with `at_once` the first is, too: what swallows it, as JAX may
    while it compiles, is asked later. Only the main thread can hear Ctrl-C. One inside another asks the other, too, and
    is asked what the other was.
    """

    def __init__(self, at_once: bool = False) -> None:
        self.asked = False
        self._at_once = at_once

    def __enter__(self) -> "Interruption":
        self._listening = threading.current_thread() is threading.main_thread()
        if self._listening:
            self._before = signal.signal(signal.SIGINT, self._hear)
            outer = self._outer()
            self.asked = outer is not None and outer.asked
        return self

    def __exit__(self, *_: object) -> None:
        if self._listening:
            signal.signal(signal.SIGINT, self._before)
            outer = self._outer()
            if self.asked and outer is not None:
                outer.asked = True

    @property
    def is_alone(self) -> bool:
        """Whether it hears Ctrl-C for nobody else: no command is around it that says what becomes of it."""
        return self._listening and self._outer() is None

    def _outer(self) -> "Interruption | None":
        owner = getattr(self._before, "__self__", None)
        return owner if isinstance(owner, Interruption) else None

    def _hear(self, *_: object) -> None:
        again, self.asked = self.asked, True
        if again or self._at_once:
            raise KeyboardInterrupt


@contextmanager
def ending_like_ctrl_c() -> Iterator[None]:
    """The other signals that ask a process to end are Ctrl-C, unless they are ignored already, as `nohup` has it.

    Supervisors send more than one: those within TOGETHER are one. In the background of a shell Ctrl-C is ignored, and
    they are not.
    """
    last = -math.inf

    def hear(*_: object) -> None:
        nonlocal last
        before, last = last, time.monotonic()
        if last - before < TOGETHER:
            return
        if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
            raise KeyboardInterrupt
        signal.raise_signal(signal.SIGINT)

    others = [getattr(signal, name) for name in ("SIGTERM", "SIGHUP", "SIGBREAK") if hasattr(signal, name)]
    main = threading.current_thread() is threading.main_thread()
    heard = [one for one in others if main and signal.getsignal(one) is signal.SIG_DFL]
    for one in heard:
        signal.signal(one, hear)
    try:
        yield
    finally:
        for one in heard:
            signal.signal(one, signal.SIG_DFL)
