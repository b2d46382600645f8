"""Options of the command line: those of `Settings` are made from it."""

import inspect
import re
from collections.abc import Callable
from dataclasses import dataclass, fields
from functools import wraps
from pathlib import Path
from typing import Annotated, Any

import typer

from leadline._checks import InvalidArgumentError
from leadline.training.settings import Settings, options


def several(what: str, metavar: str = "column") -> Any:
    """An option that may be given several times.

    Args:
        what: its help.
        metavar: what each is.
    """
    return typer.Option(metavar=f"<{metavar}>", help=f"{what}; may be given several times.")


CheckpointEvery = Annotated[
    float,
    typer.Option(
        min=0,
        metavar="<seconds>",
        help="Seconds between checkpoints, from which the same command goes on if it is cut off.",
    ),
]
Force = Annotated[bool, typer.Option("--force", help="Overwrite a finished record.")]
Quiet = Annotated[bool, typer.Option("--quiet", help="No progress, no summary.")]
Out = Annotated[Path, typer.Option(help="Where what is made goes.", show_default=False)]
On = Annotated[
    str,
    typer.Option(
        help="Where it is trained: local (this process), cores (a run per core), ray (Ray on this machine), "
        "ray://HOST:PORT (a cluster), auto (the cluster around this job)."
    ),
]
Sep = Annotated[
    str | None,
    typer.Option(help="What separates the cells of a text: , ; | tab or space. Default: what the first lines show."),
]
Encoding = Annotated[
    str | None,
    typer.Option(help="The encoding of a text. Default: UTF-8, or UTF-16 as it begins, or else Windows-1252."),
]


@dataclass(frozen=True)
class Reads:
    """How a training table is read; what is not said is as it looks."""

    sep: Sep = None
    encoding: Encoding = None
    decimal: Annotated[
        str | None, typer.Option(help="What begins the fraction of a number: . or , Default: what the columns show.")
    ] = None
    na: Annotated[
        list[str] | None,
        typer.Option(
            metavar="<text>", help="What means that a value is missing, beside the usual; may be given several times."
        ),
    ] = None
    category: Annotated[
        list[str] | None,
        several("A column to take for a category"),
    ] = None
    number: Annotated[
        list[str] | None,
        several("A column to take for a number"),
    ] = None
    ignore: Annotated[list[str] | None, several("A column to leave out")] = None
    impute: Annotated[
        bool,
        typer.Option(
            "--impute/--no-impute",
            help="Whether missing values are filled in (with the median, or a category of their own) or refused.",
        ),
    ] = True
    drop_missing_target: Annotated[
        bool, typer.Option("--drop-missing-target", help="Leave rows out whose target is missing.")
    ] = False
    weight: Annotated[
        str | None,
        typer.Option(
            metavar="<column>", help="A column that says how much each row counts: one of weight 2 is as two rows."
        ),
    ] = None


def takes_reads(command: Callable[..., None]) -> Callable[..., None]:
    """Give a command, in the place of its argument `reads`, the options of `Reads`."""
    signature = inspect.signature(command, eval_str=True)

    @wraps(command)
    def with_options(**given: Any) -> None:
        said = {one.name: given.pop(one.name) for one in fields(Reads)}
        command(**given, reads=Reads(**said))

    kind = inspect.Parameter.KEYWORD_ONLY
    own = [one.replace(kind=kind) for one in signature.parameters.values() if one.name != "reads"]
    made = [inspect.Parameter(one.name, kind, default=one.default, annotation=one.type) for one in fields(Reads)]
    with_options.__signature__ = signature.replace(parameters=[*own, *made])  # pyright: ignore[reportAttributeAccessIssue]
    with_options.__annotations__ = {one.name: one.annotation for one in [*own, *made]}
    return with_options


def takes_settings(*without: str, **defaults: Any) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Give a command, in the place of its argument `settings`, the options of `Settings`, but for some, and with other
    defaults where it has its own."""
    made = {name: one for name, one in options("command line").items() if one.name not in without}

    def decorate(command: Callable[..., None]) -> Callable[..., None]:
        signature = inspect.signature(command, eval_str=True)

        @wraps(command)
        def with_options(**given: Any) -> None:
            said = {one.name: _value(given.pop(name), one.metadata["type"]) for name, one in made.items()}
            command(**given, settings=Settings(**said))

        own = [parameter for parameter in signature.parameters.values() if parameter.name != "settings"]
        parameters = [
            *(one.replace(kind=inspect.Parameter.KEYWORD_ONLY) for one in own),
            *(_parameter(name, one, defaults.get(name, one.default)) for name, one in made.items()),
        ]
        with_options.__signature__ = signature.replace(parameters=parameters)  # pyright: ignore[reportAttributeAccessIssue]
        with_options.__annotations__ = {one.name: one.annotation for one in parameters}
        return with_options

    return decorate


def _parameter(name: str, one: Any, default: Any) -> inspect.Parameter:
    kind = one.metadata["type"] or str
    annotation = Annotated[kind if default is not None else kind | None, typer.Option(help=one.metadata["help"])]
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=annotation)


def _value(text: Any, kind: Any) -> Any:
    """What may be a number or a word is a number where it is one; else the library judges."""
    if kind is not None or text is None:
        return text
    if re.fullmatch("-?[0-9]+", text):
        return int(text)
    try:
        return float(text)
    except ValueError:
        return text


def depth_of(text: str) -> str | int:
    """A family's name, or a number of hidden layers."""
    return _value(text.strip(), None) if re.fullmatch("-?[0-9]+", text.strip()) else text.strip()


def number_of(text: str) -> Any:
    """What may be a number or a word, as `auto`."""
    return _value(text.strip(), None)


def names_of(text: str | None) -> tuple[str, ...] | None:
    """What stands between commas."""
    return None if text is None else tuple(name.strip() for name in text.split(","))


def numbers_of(name: str, text: str | None) -> tuple[float, ...] | None:
    """`0:31`, `0:31:5` or `5,10`."""
    if text is None:
        return None
    try:
        if ":" in text:
            return tuple(range(*(int(part) for part in text.split(":"))))
        return tuple(float(part) for part in text.split(","))
    except (ValueError, TypeError):
        raise InvalidArgumentError(f"must be like 0:31, 0:31:5 or 5,10,15, got {text!r}.", name) from None
