"""Files are written whole or not at all, and a directory has one writer."""

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from filelock import FileLock, Timeout

from leadline._checks import InvalidArgumentError

LOCK = ".lock"

NO_LOCKS = (errno.ENOLCK, errno.EOPNOTSUPP, errno.ENOSYS)
"""What a file system says that cannot lock."""

PART = ".part"
"""How the name of a file ends that is not whole yet."""


def put_whole(path: Path, content: bytes) -> None:
    """Write beside the file, have it on the disk, then put it in the file's place: whoever reads, and whenever the
    machine stops, finds the old file or the new one."""
    if path.exists() and not path.is_file():  # a pipe, say
        path.write_bytes(content)
        return
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
    with suppress(OSError):  # have the new name on the disk, too, where the system can say so
        handle = os.open(place.parent, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


@contextmanager
def only_writer(folder: Path) -> Iterator[None]:
    """Refuse a directory that another process writes into. Whatever ends this process, the directory is free again.

    A link in the place of the lock is never followed.
    """
    path = folder / LOCK
    lock = FileLock(path)
    try:
        lock.acquire(timeout=0)
    except Timeout:
        who = ""
        with suppress(OSError, ValueError):
            who = path.read_text().strip()
        raise InvalidArgumentError(
            f"`out`: another process{f' ({who})' if who else ''} is writing into {folder}; wait for it, or choose "
            "another directory."
        ) from None
    except (NotImplementedError, OSError) as error:
        if isinstance(error, OSError) and error.errno not in NO_LOCKS:
            raise
        yield  # a file system that knows no locks is taken at its word: two processes are their user's to keep apart
        return
    try:
        for part in folder.glob(f".*{PART}"):  # of processes that were killed
            with suppress(OSError):
                part.unlink()
        with suppress(OSError):  # of a full disk
            if path.stat().st_size == 0:
                path.write_text(f"process {os.getpid()}")
        yield
    finally:
        with suppress(OSError):
            path.unlink()
        lock.release()
