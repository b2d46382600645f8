"""What cannot be printed is no reason to stop."""

import errno
import io
import os
import sys
from typing import Any

INTERRUPTED = 130
"""The exit status after Ctrl-C."""


class _Forgiving(io.FileIO):
    """A stream that loses what it cannot write, and remembers why."""

    lost: OSError | None = None

    def write(self, data: Any, /) -> int:
        try:
            written = super().write(data)
            if written is None:  # it does not block, and is full
                raise BlockingIOError(errno.EAGAIN, os.strerror(errno.EAGAIN))
        except OSError as error:
            self.lost, written = error, len(data)
        return written


def forgive() -> None:
    """Have standard output and error lose what they cannot write: to a full disk, a closed pipe, a terminal that is
    gone. A letter that their encoding does not know stands there as its number."""
    for name, handle in (("stdout", 1), ("stderr", 2)):
        stream = getattr(sys, name)
        if stream is None:  # it was closed before the process began
            setattr(sys, name, open(os.devnull, "w"))  # noqa: SIM115
        elif stream is getattr(sys, f"__{name}__") and isinstance(stream, io.TextIOWrapper):
            stream.flush()
            raw = io.BufferedWriter(_Forgiving(handle, "w", closefd=False))
            options: Any = {"encoding": stream.encoding, "errors": "backslashreplace", "line_buffering": True}
            setattr(sys, name, io.TextIOWrapper(raw, **options))


def lost() -> str | None:
    """Why something of the standard output was lost, unless nobody reads it any more."""
    sys.stdout.flush()
    raw = getattr(getattr(sys.stdout, "buffer", None), "raw", None)
    error = raw.lost if isinstance(raw, _Forgiving) else None
    return None if error is None or error.errno == errno.EPIPE else error.strerror
