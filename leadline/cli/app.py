"""The command, and what a wrong argument, a warning and Ctrl-C become."""

import os
import sys
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import fields
from pathlib import Path
from typing import Annotated, Any, NoReturn

import typer
from typer.core import TyperGroup

from leadline._checks import DataWarning, InvalidArgumentError, UnfinishedWarning, naming
from leadline._foreign import on_one_line
from leadline._registry import PluginWarning
from leadline._version import __version__
from leadline.backend.compilation import ProgramsNotKeptWarning
from leadline.backend.device import missing
from leadline.backend.native.library import EngineMissingWarning
from leadline.cli.streams import INTERRUPTED, lost
from leadline.files.checkpoints import SUFFIX, CheckpointWarning, clear, epochs_done
from leadline.files.directories import CHECKPOINTS, RECORD, output, put_results
from leadline.files.lines import METRICS, NotWrittenWarning
from leadline.files.ours import is_ours
from leadline.files.records import Record, record_file
from leadline.report.summary import entry, summarise
from leadline.training.interruption import Interruption
from leadline.training.run import TrainingDivergedError, TrainingSlowedWarning
from leadline.training.settings import Settings

_NOTES = (
    *(CheckpointWarning, DataWarning, EngineMissingWarning, NotWrittenWarning, PluginWarning),
    *(ProgramsNotKeptWarning, TrainingSlowedWarning, UnfinishedWarning),
)
"""Warnings of ours."""

COMMANDS = (
    "fit",
    "predict",
    "evaluate",
    "report",
    "compare",
    "sweep",
    "watch",
    "play",
    "spiral",
    "reproduce",
    "benchmark",
)
"""As `leadline --help` lists them: in the order in which one needs them."""


class _InOrder(TyperGroup):
    """The commands in their order, whatever module is imported first."""

    def list_commands(self, ctx: Any) -> list[str]:
        known = {name: place for place, name in enumerate(COMMANDS)}
        return sorted(super().list_commands(ctx), key=lambda name: known.get(name, len(known)))


app = typer.Typer(
    cls=_InOrder,
    help="Bayesian neural networks that learn their own depth.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)


def say(*lines: str, err: bool = False) -> None:
    """Print lines. What commands say goes through here: names from files cannot steer the terminal."""
    for line in lines:
        typer.echo(on_one_line(line), err=err)


def _print_version(wanted: bool) -> None:
    if wanted:
        say(f"leadline {__version__}")
        raise typer.Exit


@app.callback()
def _app(
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None: ...


def flags() -> dict[str, str]:
    """How the command line calls what the library and the estimators call otherwise."""
    names = {"random_state": "seed", "name": "names", "class_weight": "class_weight"}
    for one in fields(Settings):
        flag = one.metadata["flag"] or one.name
        names |= {one.name: flag, one.metadata["argument"] or one.name: flag}
    return {name: flag.replace("_", "-") for name, flag in names.items()}


@contextmanager
def directory(
    out: Path, writes: Iterable[str], force: bool | None = None, arguments: dict[str, Any] | None = None
) -> Iterator[Path]:
    """`output`, where Ctrl-C, whenever it comes, says how to go on."""
    if arguments is not None:
        arguments = {flags().get(name, name): value for name, value in arguments.items()} | {"version": __version__}
    with output(out, force, arguments, writes) as checkpoints, ending(lambda: _cut_off(out)):
        yield checkpoints


@contextmanager
def ending(words: Callable[[], str] = lambda: "interrupted; nothing was written.") -> Iterator[None]:
    """Ctrl-C ends the command, and says what became of it."""
    try:
        with Interruption(at_once=True):
            yield
    except KeyboardInterrupt:
        _fail(words(), INTERRUPTED)


def say_what_is_begun(checkpoints: Path, quiet: bool) -> None:
    """That a training goes on, and from where."""
    done = epochs_done(checkpoints)
    if done is not None and not quiet:
        say(f"going on with the unfinished training in {checkpoints}, from epoch {done}", err=True)


def conclude(
    out: Path, checkpoints: Path, record: Record, beside: dict[str, bytes], quiet: bool, more: str = ""
) -> None:
    """The record and what stands beside it are written and told, and what was there to go on from is cleared away, or
    needed after Ctrl-C."""
    put_results(out, {**beside, RECORD: record_file(record)}, None if record.interrupted else checkpoints)
    if not quiet:
        wrote = " and ".join(str(out / name) for name in (*beside, RECORD))
        say(*summarise(record), entry("wrote", f"{wrote}{more}"))
    if record.interrupted:
        raise KeyboardInterrupt
    clear(checkpoints)


def _cut_off(out: Path) -> str:
    """What to do after Ctrl-C."""
    record = (out / RECORD).exists()
    if any((out / CHECKPOINTS).rglob(f"*{SUFFIX}")) or (any(out.glob("*.csv")) and not record):
        return f"interrupted; what is finished is in {out}, and the same command goes on from there."
    if record:
        return f"interrupted; the record in {out} stays."
    with suppress(OSError):
        if is_ours(out / METRICS):
            (out / METRICS).unlink()  # of epochs that will be done again
    return "interrupted; nothing was written."


def run(early: Sequence[warnings.WarningMessage] = ()) -> None:
    """Run the command line; a wrong argument is one sentence on standard error and exit status 2."""
    told: set[str] = set()

    def show(message: Warning | str, category: type[Warning], *where: Any) -> None:
        """Ours is a note to the user, once; all others look as ever."""
        if not issubclass(category, _NOTES):
            _show_any_warning(message, category, *where)
        elif str(message) not in told:
            told.add(str(message))
            say(f"leadline: note: {message}", err=True)

    warnings.showwarning = show
    for kind in _NOTES:
        warnings.simplefilter("always", kind)
    os.environ["MPLBACKEND"] = "agg"  # all that commands draw goes into files, whatever a notebook left there
    for one in early:
        show(one.message, one.category, one.filename, one.lineno)
    try:
        with naming(flags()):
            app()
    except InvalidArgumentError as error:
        _fail(str(error), 2)
    except TrainingDivergedError as error:
        _fail(str(error), 1)
    except (RuntimeError, AssertionError):
        if why := missing():
            _fail(why, 2)
        raise
    except MemoryError as error:
        _fail(f"there is not enough memory: {error or 'take fewer rows, restarts or units'}.".replace("..", "."), 1)
    except SystemExit as end:
        if end.code in (0, None) and (why := lost()):
            _fail(f"standard output could not be written: {why}.", 1)
        if end.code != INTERRUPTED:
            raise
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(INTERRUPTED)  # JAX may be compiling still, and would crash in what the interpreter takes down


_show_any_warning = warnings.showwarning


def _fail(message: str, status: int) -> NoReturn:
    """End with one sentence."""
    say(f"leadline: {message}", err=True)
    sys.exit(status)
