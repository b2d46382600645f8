"""Ctrl-C loses nothing."""

import signal
import threading


class Interruption:
    """Turns the first Ctrl-C into a question asked between compiled calls, where nothing is half done.

    The second one is an ordinary KeyboardInterrupt. Only the main thread can hear Ctrl-C. One inside another asks the
    other, too.
    """

    def __init__(self) -> None:
        self.asked = False

    def __enter__(self) -> "Interruption":
        self._listening = threading.current_thread() is threading.main_thread()
        if self._listening:
            self._before = signal.signal(signal.SIGINT, self._hear)
        return self

    def __exit__(self, *_: object) -> None:
        if self._listening:
            signal.signal(signal.SIGINT, self._before)
            outer = getattr(self._before, "__self__", None)
            if self.asked and isinstance(outer, Interruption):
                outer.asked = True

    def _hear(self, *_: object) -> None:
        if self.asked:
            raise KeyboardInterrupt
        self.asked = True
