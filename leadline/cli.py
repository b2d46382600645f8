"""The command line: arguments in, one call, text out."""

import re
import sys
from contextlib import nullcontext, suppress
from pathlib import Path
from typing import Annotated, Any, NoReturn

import typer
from rich.console import Console

from leadline._checks import InvalidArgumentError
from leadline._version import __version__
from leadline.experiments.records import check_out, write_record, writing
from leadline.experiments.spiral import SpiralSettings, draw, run_spiral
from leadline.report.summary import summarise
from leadline.training import TrainingDivergedError
from leadline.training.progress import ProgressLine

app = typer.Typer(
    help="Bayesian neural networks that learn their own depth.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"leadline {__version__}")
        raise typer.Exit


@app.callback()
def _app(
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None: ...


@app.command()
def spiral(
    omega: Annotated[float, typer.Option(help="Rotation speed of the spiral: 0 is easy, 30 is hard.")] = 10.0,
    depth: Annotated[
        str, typer.Option(help="Family of q(L): normal, poisson, categorical, or a fixed number of hidden layers.")
    ] = "normal",
    recipe: Annotated[
        str,
        typer.Option(help="leadline, published (the code behind the paper's figures) or written (the paper's text)."),
    ] = "leadline",
    temperature: Annotated[
        str | None,
        typer.Option(help="Factor on the weight KL, or auto: chosen by validation likelihood. Default: the recipe's."),
    ] = None,
    restarts: Annotated[
        int | None, typer.Option(help="Networks trained side by side and averaged. Default: the recipe's.")
    ] = None,
    epochs: Annotated[
        int | None,
        typer.Option(help="Passes of each network over the 1024 training points. Default: the recipe's."),
    ] = None,
    seed: Annotated[int, typer.Option(help="Decides the data, the initial weights and the noise.")] = 1,
    width: Annotated[int, typer.Option(help="Units per hidden layer.")] = 32,
    out: Annotated[Path | None, typer.Option(help="Where record.json and spiral.png go.")] = None,
    force: Annotated[bool, typer.Option("--force", help="Overwrite a finished record.")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", help="No progress, no summary.")] = False,
) -> None:
    """Train on the paper's spiral data and write a record and a picture.

    Examples: leadline spiral --omega 10 --epochs 1000 --out runs/ten; leadline spiral --omega 25 --temperature auto
    """
    settings = SpiralSettings(
        omega,
        int(depth) if re.fullmatch("-?[0-9]+", depth) else depth,
        recipe,
        _number(temperature),
        restarts,
        epochs,
        seed,
        width,
    ).resolved()
    assert settings.epochs is not None  # resolved
    given = {"temperature": temperature, "restarts": restarts, "epochs": epochs}
    more = "".join(f"-{name}{value}" for name, value in given.items() if value is not None)
    out = out or Path("runs") / f"spiral-omega{omega:g}-{depth}-{recipe}{more}-seed{seed}"
    check_out(out, force)

    console = Console(stderr=True)
    try:
        with nullcontext() if quiet else ProgressLine(settings.epochs, console) as line:
            run = run_spiral(settings, line)
    except KeyboardInterrupt:
        with suppress(OSError):  # not empty, if something else is in it
            out.rmdir()
        _fail("interrupted; nothing was written.", 130)
    path = write_record(out, run.record)
    with writing(out / "spiral.png"), nullcontext() if quiet else console.status("drawing ..."):
        draw(run, out / "spiral.png")
    if not quiet:
        typer.echo(summarise(run.record))
        typer.echo(f"wrote          {path} and {out / 'spiral.png'}")
    if run.record.get("interrupted"):
        raise typer.Exit(130)


def _number(text: str | None) -> Any:
    """A number where the text is one; else the text, for the library to judge."""
    try:
        return None if text is None else float(text)
    except ValueError:
        return text


def main() -> None:
    """Run the command line; a wrong argument is one sentence on standard error and exit status 2."""
    try:
        app()
    except InvalidArgumentError as error:
        _fail(str(error), 2)
    except TrainingDivergedError as error:
        _fail(str(error), 1)


def _fail(message: str, status: int) -> NoReturn:
    typer.echo(f"leadline: {message}", err=True)
    sys.exit(status)
