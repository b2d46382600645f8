"""A run becomes a record on disk."""

import csv
import errno
import hashlib
import io
import json
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from leadline import _files
from leadline._checks import InvalidArgumentError, refusing
from leadline.training.checkpoint import ARGUMENTS, clear, epochs_done

if TYPE_CHECKING:
    from matplotlib.figure import Figure

RECORD = "record.json"

CHECKPOINTS = "checkpoints"
"""The folder of a run that is not finished."""


@contextmanager
def output(out: Path, force: bool | None, arguments: dict[str, Any] | None = None) -> Iterator[Path]:
    """A directory to write into, checked, that no other process writes into; gives the place of its checkpoints.

    A finished record is refused, or with `force` kept until there is another (`replace_record`): a forced run that is
    cut off goes on with the same command. None: what is written there has no record. An unfinished training with other
    `arguments` is refused, too, or with `force` given up.
    """
    _check_place(out)
    try:
        with ExitStack() as stack:
            with writing(out):
                stack.enter_context(_files.only_writer(out))
            record, checkpoints = out / RECORD, out / CHECKPOINTS
            if force is False and record.exists() and not _interrupted(record):
                clear(checkpoints)  # if it was killed when all was done
                raise InvalidArgumentError(
                    f"`out` {out} holds a finished record already; choose another or use --force."
                )
            if arguments is not None:
                _claim(checkpoints, arguments, bool(force))
            try:
                yield checkpoints
            finally:
                if epochs_done(checkpoints) is None:
                    clear(checkpoints)
    finally:
        with suppress(OSError):
            out.rmdir()  # if nothing came of it


def _claim(checkpoints: Path, arguments: dict[str, Any], force: bool) -> None:
    """These checkpoints are, or will be, of a training with such arguments."""
    path, before = checkpoints / ARGUMENTS, {}
    with suppress(OSError, ValueError, TypeError, RecursionError):
        before = dict(json.loads(path.read_text()))
    other = [
        f"no {name}" if value is None else f"{name} {value}"
        for name, value in before.items()
        if value != arguments.get(name)
    ]
    if other and epochs_done(checkpoints) is not None:
        if not force:
            raise InvalidArgumentError(
                f"`out` {checkpoints.parent} holds an unfinished training with {', '.join(other)}; give it the same, "
                "choose another directory or use --force."
            )
        clear(checkpoints)
    with suppress(OSError):  # of a full disk
        checkpoints.mkdir(exist_ok=True)
        _files.write_whole(path, json.dumps(arguments).encode())


@dataclass(frozen=True)
class Unfinished:
    """Trainings that are not in the tables yet: where their checkpoints are, and how often they are written."""

    folder: Path
    every: float

    def place(self, what: object) -> Path:
        return self.folder / hashlib.sha256(repr(what).encode()).hexdigest()[:16]

    def no_more(self, what: object) -> None:
        """It is in the tables now."""
        clear(self.place(what))
        with suppress(OSError):
            self.folder.rmdir()  # the last one's


def _check_place(out: Path) -> None:
    """Refuse what cannot be written into before any work is done."""
    if out.exists() and not out.is_dir():
        raise InvalidArgumentError(f"`out` must be a directory, got the file {out}.")
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
        way_out = "make room" if error.errno in (errno.ENOSPC, errno.EDQUOT) else "choose another place"
        raise InvalidArgumentError(f"`out`: cannot write {path}: {error.strerror or error}; {way_out}.") from error


def replace_record(out: Path) -> None:
    """What is written next belongs to another record than the one that is there, which goes first."""
    with writing(out):
        (out / RECORD).unlink(missing_ok=True)


def write_record(out: Path, record: dict[str, Any]) -> Path:
    return write_whole(out / RECORD, json.dumps(record, indent=1, allow_nan=False) + "\n")


def write_whole(path: Path, content: str | bytes) -> Path:
    """Write the file whole or not at all."""
    with writing(path):
        return _files.write_whole(path, content.encode() if isinstance(content, str) else content)


def write_picture(path: Path, figure: "Figure", dpi: int) -> Path:
    """Write the file whole or not at all."""
    picture = io.BytesIO()
    figure.savefig(picture, format="png", dpi=dpi)
    return write_whole(path, picture.getvalue())


def read_record(out: Path) -> dict[str, Any]:
    """The record in a directory."""
    path = out / RECORD
    if not path.is_file():
        raise InvalidArgumentError(f"`run` must be a directory with a {RECORD}, got {out}.")
    with refusing(f"`run`: {path} cannot be read"):
        record = json.loads(path.read_text())
    if not isinstance(record, dict) or "depth_pmf" not in record:
        raise InvalidArgumentError(f"`run`: {path} is not a record of Leadline's.")
    return record


def _interrupted(path: Path) -> bool:
    try:
        return bool(json.loads(path.read_text()).get("interrupted"))
    except (OSError, ValueError, AttributeError, RecursionError):
        return False


COLUMNS = [
    *("recipe", "depth", "omega", "seed", "epochs", "width", "temperature", "n_restarts"),
    *("accuracy", "nll", "brier", "ece", "depth_mean", "depth_std", "depth_mode"),
    *("free_energy", "expected_nll", "depth_kl", "weight_kl", "effective_width"),
    *("seconds", "device", "version"),
]
"""Of a table of spirals' records."""


def as_row(record: dict[str, Any]) -> dict[str, Any]:
    """A spiral's record as a row of such a table."""
    flat = {**record, **record["free_energy_terms"], "effective_width": json.dumps(record["effective_width"])}
    return {name: flat[name] for name in COLUMNS}


def read_rows(path: Path, columns: Sequence[str] | None = None) -> list[dict[str, Any]]:
    """The rows of a table, all of them text; none if there is no such file. It must have the columns, if given."""
    if not path.exists():
        return []
    with reading(path), path.open(newline="") as file:
        table = csv.DictReader(file)
        rows = list(table)
        if columns is not None and list(table.fieldnames or []) != list(columns):
            raise InvalidArgumentError(
                f"`out`: {path} has other columns than this version writes; choose another directory."
            )
        if any(None in row or None in row.values() for row in rows):
            raise ValueError("its rows are not of one length")
    return rows


def reading(path: Path) -> AbstractContextManager[None]:
    """Whatever is wrong with a table becomes one sentence."""
    return refusing(f"`out`: {path} is not a table of Leadline's, or is damaged")


def write_rows(path: Path, rows: list[dict[str, Any]]) -> None:
    """Write the table whole or not at all."""
    text = io.StringIO()
    writer = csv.DictWriter(text, list(rows[0]), lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    write_whole(path, text.getvalue())
