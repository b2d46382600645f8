"""A file that grows by lines while a training runs, and is cut back where the training has gone back."""

import errno
import os
import stat
from collections.abc import Callable
from pathlib import Path

from leadline.files.ours import check_ours

METRICS = "metrics.jsonl"
"""Beside a record."""


class NotWrittenWarning(UserWarning):
    """Something beside the result could not be written; the training goes on all the same."""


def add_lines(path: Path, text: str, stays: Callable[[str], bool] | None = None) -> None:
    """Write lines to the end of a file of ours, behind the first of those there that `stays`, and all of them do.

    What is written half, because the disk is full, goes again.
    """
    check_ours(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    flags = os.O_RDWR | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)
    with os.fdopen(os.open(path, flags | getattr(os, "O_BINARY", 0), 0o666), "r+b", buffering=0) as file:
        if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
            raise OSError(errno.EEXIST, "it is no file")
        end = file.seek(0, os.SEEK_END) if stays is None else _end_of_those(path, stays)
        file.truncate(end)
        file.seek(end)
        left = memoryview(text.encode())
        try:
            while left:
                left = left[file.write(left) :]
        except BaseException:
            file.truncate(end)
            raise


def _end_of_those(path: Path, stays: Callable[[str], bool]) -> int:
    """Where the first line begins that does not stay, or is not whole."""
    end = 0
    with path.open("rb") as file:
        for line in file:
            if not line.endswith(b"\n") or not stays(line.decode(errors="replace")):
                break
            end += len(line)
    return end
