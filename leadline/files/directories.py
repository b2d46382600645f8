"""A directory that a command writes into: checked before anything is trained, one writer at a time, nothing lost."""

import errno
import io
import json
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from leadline._checks import InvalidArgumentError
from leadline.files import whole
from leadline.files.checkpoints import ARGUMENTS, clear, epochs_done

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
    if out.exists() and not out.is_dir():
        raise InvalidArgumentError(f"must be a directory, got the file {out}.", "out")
    try:
        with ExitStack() as stack:
            with writing(out):
                out.mkdir(parents=True, exist_ok=True)
                stack.enter_context(whole.only_writer(out))
            record, checkpoints = out / RECORD, out / CHECKPOINTS
            if force is False and record.exists() and not _said_in(record).get("interrupted"):
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
    """These checkpoints are, or will be, of a training with such arguments; its `identity` is among them."""
    path = checkpoints / ARGUMENTS
    before = _said_in(path) or arguments
    other = [
        f"no {name}" if value is None else f"{name} {value}"
        for name, value in before.items()
        if value != arguments.get(name) and name != "identity"
    ]
    if not other and before.get("identity") != arguments.get("identity"):
        other = ["other rows"]
    if other and epochs_done(checkpoints) is not None:
        if not force:
            raise InvalidArgumentError(
                f"`out` {checkpoints.parent} holds an unfinished training with {', '.join(other)}; give it the same, "
                "choose another directory or use --force."
            )
        clear(checkpoints)
    with suppress(OSError):  # of a full disk
        checkpoints.mkdir(exist_ok=True)
        whole.put_whole(path, json.dumps(arguments).encode())


def _said_in(path: Path) -> dict[str, Any]:
    """What a file of JSON says; nothing where it cannot be read."""
    with suppress(OSError, ValueError, TypeError, RecursionError):
        return dict(json.loads(path.read_text()))
    return {}


@contextmanager
def writing(path: Path, argument: str = "out") -> Iterator[None]:
    """Whatever the file system says against it becomes one sentence."""
    try:
        yield
    except OSError as error:
        way_out = "make room" if error.errno in (errno.ENOSPC, errno.EDQUOT) else "choose another place"
        said = f"`{argument}`: cannot write {path}: {error.strerror or error}; {way_out}."
        raise InvalidArgumentError(said) from error


def replace_record(out: Path) -> None:
    """What is written next belongs to another record than the one that is there, which goes first."""
    with writing(out):
        (out / RECORD).unlink(missing_ok=True)


def write_whole(path: Path, content: str | bytes) -> Path:
    """Write the file whole or not at all."""
    with writing(path):
        whole.put_whole(path, content.encode() if isinstance(content, str) else content)
    return path


def write_picture(path: Path, figure: "Figure", dpi: int) -> Path:
    """Write the file whole or not at all."""
    picture = io.BytesIO()
    figure.savefig(picture, format="png", dpi=dpi)
    return write_whole(path, picture.getvalue())
