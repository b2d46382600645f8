"""Files are written whole or not at all and read within bounds, and a directory has one writer."""

import errno
import hashlib
import json
import mmap
import os
import re
import secrets
import shutil
import stat
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from filelock import FileLock, Timeout
from safetensors import SafetensorError
from safetensors.numpy import load, save

from leadline._checks import InvalidArgumentError

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None

LOCK = ".leadline.lock"

_HELD_BY = re.compile(r"leadline: (process \d+)\n")
"""What stands in a lock of ours."""

NO_LOCKS = (errno.ENOLCK, errno.EOPNOTSUPP, errno.ENOSYS)
"""What a file system says that cannot lock."""

PART = ".part"
"""How the name of a file ends that is not whole yet."""

PATIENCE = 5.0
"""Seconds for a reader of a pipe to come."""

_KINDS = {stat.S_IFLNK: "a link, which is not followed", stat.S_IFDIR: "a directory", stat.S_IFIFO: "a pipe"}

_NO_MEMORY = "it is larger than the memory that is left"

MOST_BYTES = 64 * 2**20
"""Of a small file: records have some kilobytes, and those of the widest tables some megabytes."""


def check_place(path: Path) -> None:
    """Refuse to write where there is something else than a file: behind a link there may be anything."""
    with suppress(FileNotFoundError):
        kind = stat.S_IFMT(path.lstat().st_mode)
        if kind != stat.S_IFREG:
            raise OSError(errno.EEXIST, f"it is {_KINDS.get(kind, 'no file')}")


def put_whole(path: Path, content: bytes) -> None:
    """Write beside the file, have it on the disk, then put it in the file's place: whoever reads, and whenever the
    machine stops, finds the old file or the new one."""
    put_all({path: content})


def put_all(contents: Mapping[Path, bytes]) -> None:
    """Several files of one directory, all on the disk before the first is put in its place. Whatever goes wrong, but
    for a kill between two of them, leaves all of them as they were."""
    with ExitStack() as stack:
        parts = {path: stack.enter_context(_written(path, content)) for path, content in contents.items()}
        old = [path for path in contents if len(contents) > 1 and path.exists()]
        before = {path: stack.enter_context(_kept(path)) for path in old}
        try:
            for path, part in parts.items():
                part.replace(path)
        except BaseException:
            for path in contents if len(contents) > 1 else ():
                if path in before:
                    before[path].replace(path)
                else:
                    path.unlink(missing_ok=True)
            raise
    for folder in {path.parent for path in contents}:
        with suppress(OSError):  # have the new names on the disk, too, where the system can say so
            handle = os.open(folder, os.O_RDONLY)
            try:
                os.fsync(handle)
            finally:
                os.close(handle)


def put_named(path: Path, content: bytes) -> None:
    """The same where the user himself named the file: a link stays one, and a pipe is written into."""
    if path.is_symlink() and not path.exists():
        raise OSError(errno.EEXIST, "it is a link to nothing")
    if path.exists() and not path.is_file():
        with os.fdopen(_opened(path), "wb") as file:
            file.write(content)
    else:
        put_whole(path.resolve(), content)


def _opened(path: Path) -> int:
    """To write into: a pipe that soon has somebody who reads, or a device."""
    give_up = time.monotonic() + PATIENCE
    while True:
        try:
            handle = os.open(path, os.O_WRONLY | getattr(os, "O_NONBLOCK", 0))
        except OSError as error:
            if error.errno != errno.ENXIO:
                raise
            if time.monotonic() > give_up:
                raise OSError(errno.ENXIO, "nobody reads this pipe") from error
            time.sleep(0.05)
        else:
            os.set_blocking(handle, True)
            return handle


@contextmanager
def _written(path: Path, content: bytes) -> Iterator[Path]:
    """A part with such content, on the disk, with the permissions of the file whose place it is for."""
    check_place(path)
    sweep(path.parent)
    mode = stat.S_IMODE(path.stat().st_mode) if path.exists() else None
    part, file = _new_part(path.parent, 0o666 if mode is None else mode & 0o600)
    try:
        with file:
            if mode is not None:
                with suppress(OSError):  # of a file system without
                    os.chmod(part, mode)
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
            if fcntl is not None:
                yield part  # open, and so locked, until it is in its place
                return
        yield part
    finally:
        with suppress(OSError):
            part.unlink()


@contextmanager
def _kept(path: Path) -> Iterator[Path]:
    """A file under another name, for as long as it may have to come back."""
    part = path.with_name(_part_name())
    try:
        try:
            os.link(path, part)
        except OSError:  # a file system without such links
            shutil.copy2(path, part)
        yield part
    finally:
        with suppress(OSError):
            part.unlink()


def _part_name(token: str | None = None) -> str:
    """No two are alike, whatever processes and threads write, and none but ours looks so."""
    token = token or secrets.token_hex(8)
    return f".leadline-{token}{hashlib.sha256(token.encode()).hexdigest()[:16]}{PART}"


def _new_part(folder: Path, mode: int) -> tuple[Path, BinaryIO]:
    """A new file, locked as long as it is open: it is not for others to clear away."""
    while True:
        part = folder / _part_name()
        file = os.fdopen(os.open(part, os.O_RDWR | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0), mode), "w+b")
        if _locked(file.fileno()) is not False and os.fstat(file.fileno()).st_nlink:
            return part, file
        file.close()  # another process has found it before it was locked, and takes it away
        part.unlink(missing_ok=True)


@contextmanager
def marked(folder: Path) -> Iterator[str]:
    """The name of an empty file in a directory while it lasts: who finds it sees the same directory. What a killed
    process leaves of it is cleared away like a part of a file, at the latest by the next mark."""
    sweep(folder)
    part, file = _new_part(folder, 0o666)
    try:
        with file:
            yield part.name
    finally:
        part.unlink(missing_ok=True)


def _locked(handle: int) -> bool | None:
    """Whether the file is locked by us now; None where files cannot be."""
    if fcntl is None:
        return None
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        return False if error.errno in (errno.EWOULDBLOCK, errno.EACCES) else None
    return True


def sweep(folder: Path) -> None:
    """Remove the parts that processes left which were killed: those that nobody holds."""
    with suppress(OSError):
        for path in folder.glob(f".leadline-*{PART}"):
            token = path.name.removeprefix(".leadline-")[:16]
            if path.name != _part_name(token) or not stat.S_ISREG(path.lstat().st_mode):
                continue
            with suppress(OSError):
                handle = os.open(path, os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0))
                try:
                    if _locked(handle):
                        path.unlink()
                finally:
                    os.close(handle)


def open_regular(path: str | os.PathLike[str]) -> BinaryIO:
    """A file to read from, or an OSError: what may have no end, or never begin, is not waited for, be it a pipe, a
    device, or a link to one."""
    at_once = getattr(os, "O_NONBLOCK", 0)
    file = open(path, "rb", opener=lambda name, flags: os.open(name, flags | at_once))  # noqa: SIM115
    if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
        file.close()
        raise OSError(errno.EINVAL, "it is no regular file")
    return file


def open_text(path: str | os.PathLike[str]) -> BinaryIO:
    """A file of text, which has no holes: they would be read as zeros, as many as it says."""
    file = open_regular(path)
    size = hole = os.fstat(file.fileno()).st_size
    with suppress(OSError, AttributeError):  # of an empty file, or where nobody knows
        hole = os.lseek(file.fileno(), 0, os.SEEK_HOLE)
    file.seek(0)
    if hole < size:
        file.close()
        raise OSError(errno.EINVAL, "there are holes in it")
    return file


def read_regular(path: str | os.PathLike[str], most: int | None = None) -> bytes:
    """What a file holds, of `most` bytes if given; or an OSError.

    The file is not mapped: if another process cuts it short meanwhile, what is read is short, too.
    """
    with open_regular(path) as file:
        size = os.fstat(file.fileno()).st_size
        if most is not None and size > most:
            raise OSError(errno.EFBIG, f"it has more than {most // 2**20} MB")
        try:
            return file.read(size)
        except MemoryError:
            raise OSError(errno.ENOMEM, _NO_MEMORY) from None


def reason(error: Exception) -> str:
    """Why a file cannot be read, for a sentence about it."""
    return (isinstance(error, OSError) and error.strerror) or str(error).rstrip(".") or _NO_MEMORY


@contextmanager
def within_memory(path: Path) -> Iterator[None]:
    """A file with more in it than there is memory for is one sentence."""
    try:
        yield
    except (MemoryError, OSError, ValueError) as error:
        of_pandas = "C error: out of memory" in str(error)
        if not (isinstance(error, MemoryError) or of_pandas or getattr(error, "errno", 0) == errno.ENOMEM):
            raise
        said = f"`{path}` holds more than there is memory for; take fewer rows or columns."
        raise InvalidArgumentError(said) from error


def check_room(n_bytes: int) -> None:
    """Have so much memory for a moment, untouched, or an OSError."""
    mmap.mmap(-1, max(1, n_bytes)).close()


@contextmanager
def _not_panicking() -> Iterator[None]:
    """What safetensors raises where there is no memory left is no `Exception`: Rust's panic."""
    try:
        yield
    except BaseException as error:
        if type(error).__name__ != "PanicException":
            raise
        raise MemoryError(str(error)) from error


def packed(tensors: dict[str, np.ndarray], words: dict[str, str]) -> bytes:
    """A safetensors file."""
    with _not_panicking():
        return save(tensors, metadata=words)


def unpacked(content: bytes) -> tuple[dict[str, str], dict[str, np.ndarray]]:
    """The words and the arrays of a safetensors file; or a ValueError, or an OSError where they do not fit."""
    try:
        with _not_panicking():
            tensors: dict[str, Any] = load(content)
        header = json.loads(content[8 : 8 + int.from_bytes(content[:8], "little")])
    except MemoryError as error:
        raise OSError(errno.ENOMEM, _NO_MEMORY) from error
    except KeyError as error:  # which NumPy does not have
        raise ValueError(f"it has numbers of the type {error.args[0]}") from error
    except (SafetensorError, TypeError, RecursionError) as error:
        raise ValueError(str(error)) from error
    for name, tensor in tensors.items():
        if tensor.dtype.kind not in "iufb":
            raise ValueError(f"its {name} is made of {tensor.dtype}")
    return header.get("__metadata__", {}), tensors


@contextmanager
def only_writer(folder: Path) -> Iterator[None]:
    """Refuse a directory that another process writes into. Whatever ends this process, the directory is free again.

    What has the name of the lock, and is none, is left alone.
    """
    path = folder / LOCK
    check_place(path)
    with suppress(FileNotFoundError):
        said = read_regular(path, MOST_BYTES).decode(errors="replace")
        if said and not _HELD_BY.fullmatch(said):
            raise OSError(errno.EEXIST, f"{LOCK} there is not Leadline's")
    lock = FileLock(path)
    try:
        lock.acquire(timeout=0)
    except Timeout:
        who = None
        with suppress(OSError, ValueError):
            who = _HELD_BY.fullmatch(path.read_text())
        raise InvalidArgumentError(
            f"`out`: another process{f' ({who[1]})' if who else ''} is writing into {folder}; wait for it, or choose "
            "another directory."
        ) from None
    except (NotImplementedError, OSError) as error:
        if isinstance(error, OSError) and error.errno not in NO_LOCKS:
            raise
        yield  # a file system that knows no locks is taken at its word: two processes are their user's to keep apart
        return
    try:
        sweep(folder)
        opened = os.O_WRONLY | os.O_TRUNC | getattr(os, "O_NOFOLLOW", 0)
        with suppress(OSError), os.fdopen(os.open(path, opened), "w") as file:  # of a full disk
            file.write(f"leadline: process {os.getpid()}\n")
        yield
    finally:
        try:
            with suppress(OSError):
                path.unlink()
        finally:
            lock.release()
