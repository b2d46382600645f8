"""A directory that a command writes into: checked before anything is trained, one writer at a time, nothing lost."""

import errno
import io
import json
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from leadline._checks import InvalidArgumentError
from leadline.files import whole
from leadline.files.checkpoints import ARGUMENTS, clear, epochs_done, given_up
from leadline.files.ours import GENERATOR, check_ours

if TYPE_CHECKING:
    from matplotlib.figure import Figure

RECORD = "record.json"

MODEL = "model.safetensors"

NO_ROOM = (errno.ENOSPC, errno.EDQUOT)
"""What a full disk says."""

CHECKPOINTS = "checkpoints"
"""The folder of a run that is not finished."""


@contextmanager
def output(
    out: Path, force: bool | None, arguments: dict[str, Any] | None = None, writes: Iterable[str] = ()
) -> Iterator[Path]:
    """A directory to write into, checked, that no other process writes into; gives the place of its checkpoints.

    A finished record is refused, or with `force` kept until there is another (`put_results`): a forced run that is cut
    off goes on with the same command. None: what is written there has no record. An unfinished training with other
    `arguments` is refused, too, or with `force` given up. What `writes` names, and Leadline did not make, is refused in
    any case.
    """
    if out.exists() and not out.is_dir():
        raise InvalidArgumentError(f"must be a directory, got the file {out}.", "out")
    made = not out.exists()
    try:
        with ExitStack() as stack:
            record, checkpoints = out / RECORD, out / CHECKPOINTS
            with writing(out):
                out.mkdir(parents=True, exist_ok=True)
                stack.enter_context(whole.only_writer(out))
            check_folder(checkpoints)
            for path in (checkpoints / ARGUMENTS, *(out / name for name in writes)):
                with writing(path, way_out="move it away, or choose another directory"):
                    check_ours(path)
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
        if made:
            with suppress(OSError):
                out.rmdir()  # if nothing came of it


def check_folder(path: Path) -> None:
    """Refuse to write into what is no directory, or a link to one: behind it there may be anything."""
    if path.is_symlink() or (path.exists() and not path.is_dir()):
        raise InvalidArgumentError(f"`out`: {path} must be a directory; move what is there away.")


def _claim(checkpoints: Path, arguments: dict[str, Any], force: bool) -> None:
    """These checkpoints are, or will be, of a training with such arguments; its `identity` is among them."""
    path = checkpoints / ARGUMENTS
    before = _said_in(path) or arguments
    other = [
        f"no {name}" if value is None else f"{name} {value}"
        for name, value in before.items()
        if value != arguments.get(name) and name not in ("identity", "leadline")
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
        whole.put_whole(path, json.dumps({"leadline": "arguments", **arguments}).encode())


def _said_in(path: Path) -> dict[str, Any]:
    """What a file of JSON says; nothing where it cannot be read."""
    with suppress(OSError, ValueError, TypeError, RecursionError):
        return dict(json.loads(whole.read_regular(path, whole.MOST_BYTES)))
    return {}


@contextmanager
def writing(path: Path, argument: str = "out", way_out: str = "choose another place") -> Iterator[None]:
    """Whatever the file system says against it becomes one sentence."""
    try:
        yield
    except OSError as error:
        way_out = "make room" if error.errno in NO_ROOM else way_out
        said = f"`{argument}`: cannot write {path}: {error.strerror or error}; {way_out}."
        raise InvalidArgumentError(said) from error


def put_results(out: Path, contents: dict[str, bytes], checkpoints: Path | None) -> None:
    """All take the place of what is there, or, unless it is killed in between, none does. Where there is no room for
    them, the checkpoints make some, and come back if that is not enough."""
    paths = {out / name: content for name, content in contents.items()}
    for path in paths:
        with writing(path):
            check_ours(path)
    with writing(out):
        try:
            whole.put_all(paths)
        except OSError as error:
            if error.errno not in NO_ROOM or checkpoints is None:
                raise
            with given_up(checkpoints):
                whole.put_all(paths)


def write_whole(path: Path, content: str | bytes) -> Path:
    """Write a file of ours whole or not at all."""
    with writing(path):
        check_ours(path)
        whole.put_whole(path, _encoded(content))
    return path


def write_named(path: Path, content: str | bytes) -> Path:
    """The same, of whatever was there, where the user himself named the file."""
    with writing(path):
        whole.put_named(path, _encoded(content))
    return path


def _encoded(content: str | bytes) -> bytes:
    """Half a letter, as in a file's name that is no UTF-8, stands there as its number."""
    return content.encode(errors="backslashreplace") if isinstance(content, str) else content


def picture(figure: "Figure", dpi: int) -> bytes:
    """A figure as a file that Leadline knows again."""
    file = io.BytesIO()
    figure.savefig(file, format="png", dpi=dpi, metadata={"Software": GENERATOR})
    return file.getvalue()
