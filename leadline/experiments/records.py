"""A run becomes a record on disk."""

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from leadline._checks import InvalidArgumentError

RECORD = "record.json"


def check_out(out: Path, force: bool) -> None:
    """Refuse a directory that holds a finished record, or that cannot be one, before any work is done."""
    if out.exists() and not out.is_dir():
        raise InvalidArgumentError(f"`out` must be a directory, got the file {out}.")
    if not force and (out / RECORD).exists() and not _interrupted(out / RECORD):
        raise InvalidArgumentError(f"`out` {out} holds a finished record already; choose another or use --force.")
    with writing(out):
        out.mkdir(parents=True, exist_ok=True)
        probe = out / ".write-test"
        probe.touch()
        probe.unlink()


@contextmanager
def writing(path: Path) -> Iterator[None]:
    """Whatever the file system says against it becomes one sentence."""
    try:
        yield
    except OSError as error:
        raise InvalidArgumentError(f"`out` must be writable, got {path}: {error.strerror or error}.") from error


def write_record(out: Path, record: dict[str, Any]) -> Path:
    """Write the record whole or not at all."""
    path = out / RECORD
    part = path.with_suffix(".part")
    with writing(path), part.open("w") as file:
        json.dump(record, file, indent=1, allow_nan=False)
        file.write("\n")
        file.flush()
        os.fsync(file.fileno())
    with writing(path):
        part.replace(path)
    return path


def read_record(out: Path) -> dict[str, Any]:
    """The record in a directory."""
    path = out / RECORD
    if not path.is_file():
        raise InvalidArgumentError(f"`run` must be a directory with a {RECORD}, got {out}.")
    try:
        record = json.loads(path.read_text())
    except (OSError, ValueError) as error:
        raise InvalidArgumentError(f"`run`: {path} cannot be read: {error}.") from error
    if not isinstance(record, dict) or "depth_pmf" not in record:
        raise InvalidArgumentError(f"`run`: {path} is not a record of Leadline's.")
    return record


def _interrupted(path: Path) -> bool:
    try:
        return bool(json.loads(path.read_text()).get("interrupted"))
    except (json.JSONDecodeError, AttributeError):
        return False
