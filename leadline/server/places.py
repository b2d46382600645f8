"""The directory that is watched: what Leadline wrote there is found and read, and nothing else is."""

import csv
import io
import os
import re
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, BinaryIO

from leadline.files.checkpoints import SUFFIX
from leadline.files.directories import CHECKPOINTS, RECORD
from leadline.files.lines import METRICS
from leadline.files.ours import is_ours
from leadline.files.whole import LOCK, MOST_BYTES, open_regular

MOST_RUNS, MOST_ROWS, DEEPEST = 2000, 5000, 4
"""Directories of runs, rows of tables, and folders inside folders that are looked at."""

_COLUMNS = {"depth_mean", "seconds"}
"""Of any table of records; others of Leadline's say something else."""

_WRITER = re.compile(r"leadline: process (\d+)\n")


class Place:
    """A directory, and nothing outside it: no link inside is followed."""

    def __init__(self, folder: Path):
        self.folder = folder
        self._root = folder.resolve()

    @property
    def is_there(self) -> bool:
        """Whether it is still a directory."""
        return self._root.is_dir()

    def path(self, name: str) -> Path:
        """Of something inside, by its name relative to the directory; an OSError where that leads anywhere else."""
        path = self._root / name
        if path.resolve() != path or not path.is_relative_to(self._root):
            raise OSError("it is not in the directory, or is a link")
        return path

    def open(self, name: str) -> BinaryIO:
        """A file inside."""
        return open_regular(self.path(name))

    def read(self, name: str, most: int = MOST_BYTES) -> bytes:
        """What a file inside holds; an OSError where it holds more than that."""
        with self.open(name) as file:
            content = file.read(most + 1)
        if len(content) > most:
            raise OSError(f"it has more than {most} bytes")
        return content

    def changed(self, name: str) -> tuple[int, int, int] | None:
        """What changes when another file, or more, stands there; None where there is none."""
        with suppress(OSError):
            said = self.path(name).stat()
            return said.st_ino, said.st_size, said.st_mtime_ns
        return None

    def find(self) -> tuple[list[str], list[str]]:
        """The directories of runs, and the tables, by their names."""
        runs, tables = [], []
        for name, files in self._walk("", DEEPEST):
            if (RECORD in files or METRICS in files) and len(runs) < MOST_RUNS:
                runs.append(name)
            tables += [_joined(name, one) for one in files if one.endswith(".csv")]
        return runs, [name for name in tables if self._is_ours(name)]

    def _walk(self, name: str, deep: int) -> Iterator[tuple[str, list[str]]]:
        folders, files = [], []
        with suppress(OSError), os.scandir(self.path(name)) as entries:
            for entry in entries:
                if entry.is_dir(follow_symlinks=False) and not entry.name.startswith("."):
                    folders.append(entry.name)
                elif entry.is_file(follow_symlinks=False):
                    files.append(entry.name)
        yield name, sorted(files)
        for one in sorted(folders) if deep else ():
            if one != CHECKPOINTS:
                yield from self._walk(_joined(name, one), deep - 1)

    def _is_ours(self, name: str) -> bool:
        with suppress(OSError):
            return is_ours(self.path(name))
        return False

    def rows(self, name: str) -> list[dict[str, str]]:
        """Of a table of records; none where it is no such table."""
        with suppress(OSError, ValueError, csv.Error):
            table = csv.DictReader(io.StringIO(self.read(name).decode(), newline=""))
            if set(table.fieldnames or ()) >= _COLUMNS:
                return [row for row, _ in zip(table, range(MOST_ROWS), strict=False)]
        return []

    def writer(self, name: str) -> bool:
        """Whether a process that is alive writes into a directory inside.

        The lock itself is not tried: for that moment it would be ours.
        """
        with suppress(OSError, ValueError):
            found = _WRITER.fullmatch(self.read(_joined(name, LOCK), 100).decode())
            return found is not None and _is_alive(int(found[1]))
        return False

    def checkpoints(self, name: str) -> dict[str, list[str]]:
        """Those of the trainings that a directory inside has begun, oldest first, by the folder that they are in."""
        folder, found = _joined(name, CHECKPOINTS), dict[str, list[str]]()
        for one, files in self._walk(folder, 1):
            those = [_joined(one, file) for file in files if file.endswith(SUFFIX)]
            if those:
                found[one] = those
        return found


def _joined(folder: str, name: str) -> str:
    return f"{folder}/{name}" if folder else name


def _is_alive(process: int) -> bool:
    if os.name != "posix":  # there is no asking without harm
        return True
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except OSError:
        return True
    return True


def number(text: Any) -> Any:
    """A cell of a table that is a finite number as one, any other as text."""
    with suppress(ValueError, TypeError):
        value = float(text)
        if value - value == 0:
            return int(value) if value.is_integer() and abs(value) < 2**53 and "." not in str(text) else value
    return text
