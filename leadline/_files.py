"""Files are written whole or not at all, and a directory has one writer."""

import errno
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from leadline._checks import InvalidArgumentError

LOCK = ".lock"

PART = ".part"
"""How the name of a file ends that is not whole yet."""


def write_whole(path: Path, content: bytes) -> Path:
    """Write beside the file, have it on the disk, then put it in the file's place: whoever reads, and whenever the
    machine stops, finds the old file or the new one."""
    if path.exists() and not path.is_file():  # a pipe, say
        path.write_bytes(content)
        return path
    place = path.resolve()  # a link stays one
    part = place.with_name(f".{place.name}.{os.getpid()}{PART}")
    try:
        with part.open("wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        part.replace(place)
    except BaseException:
        with suppress(OSError):
            part.unlink()
        raise
    _sync_folder(place.parent)
    return path


def _sync_folder(folder: Path) -> None:
    """Have the new name on the disk, too, where the system can say so."""
    with suppress(OSError):
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


@contextmanager
def only_writer(folder: Path) -> Iterator[None]:
    """Refuse a directory that another process writes into. Whatever ends this process, the directory is free again."""
    path = folder / LOCK
    while True:
        with path.open("a+") as file:
            if not _lock(file.fileno()):
                file.seek(0)
                who = file.read().strip()
                raise InvalidArgumentError(
                    f"`out`: another process{f' ({who})' if who else ''} is writing into {folder}; wait for it, or "
                    "choose another directory."
                )
            if not _is_at(file.fileno(), path):
                continue  # the one before has just removed it
            _remove_parts(folder)
            try:
                with suppress(OSError):  # of a full disk
                    file.truncate(0)
                    file.write(f"process {os.getpid()}")
                    file.flush()
                yield
            finally:
                with suppress(OSError):
                    path.unlink()
            return


def _remove_parts(folder: Path) -> None:
    """Of processes that were killed."""
    for part in folder.glob(f".*{PART}"):
        with suppress(OSError):
            part.unlink()


def _is_at(handle: int, path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(handle), path.stat())
    except FileNotFoundError:
        return False


def _lock(handle: int) -> bool:
    """Whether the file is this process's now; the system takes it back when the process ends. A file system that knows
    no locks is taken at its word: there, two processes are their user's to keep apart."""
    try:
        if sys.platform == "win32":
            import msvcrt

            msvcrt.locking(handle, msvcrt.LK_NBLCK, 1)
        else:
            import fcntl

            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        return error.errno not in (errno.EAGAIN, errno.EACCES, errno.EDEADLK)
    return True
