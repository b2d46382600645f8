"""The command that tries many settings."""

import inspect
import tomllib
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass, replace
from functools import partial, wraps
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console

from leadline._checks import InvalidArgumentError, check_at_least, check_entries, check_integer
from leadline._foreign import shown
from leadline.cli.app import app, directory, say
from leadline.cli.options import CheckpointEvery, On, Out, Quiet, Reads, number_of, numbers_of, takes_reads
from leadline.cli.spirals import train_sweep
from leadline.cli.tables import Noise, OwnLikelihood, read_parts, task_of
from leadline.files.checkpoints import EVERY
from leadline.files.directories import MODEL, put_results
from leadline.files.whole import MOST_BYTES, read_regular, reason
from leadline.inference.recipes import TABLE as OF_TABLES
from leadline.studies.runners import runner_on
from leadline.studies.search import TABLE, check_measure, swept_from
from leadline.studies.space import choices_of, every, some
from leadline.studies.sweep import CHUNKS, RunsMissingError
from leadline.training.settings import Settings, options

if TYPE_CHECKING:  # they bring scikit-learn
    from leadline.studies.trials import SpiralTrials, TableTrials

PAGE = f"{TABLE}.html"

KEYS = ("table", "target", "omegas", "seeds", "folds", "test", "random", "by", "settings")
"""Of a plan."""


@dataclass(frozen=True)
class Asked:
    """What is said of a sweep, by its flags and its plan."""

    table: str | None = None
    target: str | None = None
    omegas: Any = None
    seeds: Any = None
    folds: int | None = None
    test: float | None = None
    random: int | None = None
    by: str | None = None
    settings: Any = None


def takes_lists(command: Callable[..., None]) -> Callable[..., None]:
    """Give a command, in the place of its argument `lists`, the options of `Settings`, of each of which several values
    may be given."""
    made = {name: one for name, one in options("command line").items() if name != "seed"}
    signature = inspect.signature(command, eval_str=True)

    @wraps(command)
    def with_options(**given: Any) -> None:
        said = {name: given.pop(name) for name in made}
        command(**given, lists={name: text.split(",") for name, text in said.items() if text is not None})

    kind = inspect.Parameter.KEYWORD_ONLY
    own = [one.replace(kind=kind) for one in signature.parameters.values() if one.name != "lists"]
    flags = [
        inspect.Parameter(name, kind, default=None, annotation=Annotated[str | None, typer.Option(help=_help(one))])
        for name, one in made.items()
    ]
    with_options.__signature__ = signature.replace(parameters=[*own, *flags])  # pyright: ignore[reportAttributeAccessIssue]
    with_options.__annotations__ = {one.name: one.annotation for one in [*own, *flags]}
    return with_options


def _help(one: Any) -> str:
    return f"Several, with commas between. {one.metadata['help']}"


@app.command()
@takes_lists
@takes_reads
def sweep(
    out: Out,
    lists: Any,
    reads: Reads,
    table: Annotated[Path | None, typer.Argument(help="A table, as `fit` takes it.", show_default=False)] = None,
    target: Annotated[str | None, typer.Option(help="The column to predict.")] = None,
    omegas: Annotated[
        str | None, typer.Option(help="Spirals of these speeds, instead of a table: 5,10 or 0:31.")
    ] = None,
    seeds: Annotated[str | None, typer.Option(help="Each of the settings with these: 1,2 or 1:6. Default: 1.")] = None,
    folds: Annotated[int | None, typer.Option(help="Of a cross-validation. Default: 5.")] = None,
    test: Annotated[
        float | None, typer.Option(help="The share of the rows that is kept apart to measure on, instead of folds.")
    ] = None,
    random: Annotated[int | None, typer.Option(help="So many combinations are drawn. Default: all are tried.")] = None,
    by: Annotated[str | None, typer.Option(help="The measure that decides. Default: the likelihood.")] = None,
    plan: Annotated[Path | None, typer.Option(help="All of this in a file, .toml or .yaml.")] = None,
    likelihood: OwnLikelihood = None,
    noise: Noise = "auto",
    task: Annotated[str, typer.Option(help="classification, regression or auto.")] = "auto",
    on: On = "local",
    checkpoint_every: CheckpointEvery = EVERY,
    quiet: Quiet = False,
) -> None:
    """Try many settings on a table or on spirals.

    Each combination is trained with each seed in each fold. It writes sweep.csv with a row for each, sweep.html with
    the settings in their order, and a model with the best, trained on all rows. Started again, the command goes on
    where it was stopped.

    Examples: leadline sweep wine.csv --target cultivar --width 8,16,32 --depth normal,poisson --out runs/sweep;
    leadline sweep --omegas 5,10 --plan plan.toml --on ray --out runs/spirals
    """
    given = {"table": table, "target": target, "omegas": numbers_of("omegas", omegas), "seeds": seeds}
    given |= {"folds": folds, "test": test, "random": random, "by": by}
    asked = _asked(plan, {name: value for name, value in given.items() if value is not None}, lists)
    runner, settings = runner_on(on), _settings(asked)
    how = {"likelihood": likelihood, "noise": noise}
    trials = _of_spirals(asked) if asked.table is None else _of_table(asked, reads, how, task, settings[0].seed)
    tried = trials.plan(settings)
    by = check_measure(tried, asked.by)
    with directory(out, [CHUNKS, f"{TABLE}.csv", PAGE, MODEL]):
        failures = ""
        try:
            if not train_sweep(tried.sweep(), out, runner, checkpoint_every, quiet):
                raise KeyboardInterrupt
        except RunsMissingError as error:
            failures = str(error)
        swept = swept_from(tried, out, by, failures)
        from leadline.report.search import page, value, words

        with nullcontext() if quiet else Console(stderr=True).status("training the best on all rows ..."):
            files = {MODEL: trials.best_model(swept.best), PAGE: page(swept).encode(errors="backslashreplace")}
        put_results(out, files, None)
        if not quiet:
            best = swept.ranking[0]
            say(f"best of {len(swept.ranking)} settings: {words(swept, best)}")
            say(f"{swept.measure.label} {value(swept, best)}, mean of {best.runs} runs")
            say(f"wrote {', '.join([f'{TABLE}.csv', *files])} to {out}")
        if failures:
            raise RunsMissingError(failures)


def _asked(plan: Path | None, given: dict[str, Any], lists: dict[str, list[str]]) -> Asked:
    """What the plan says, and the flags, which have the last word."""
    said = {} if plan is None else _read(plan)
    for name in said:
        if name not in KEYS:
            raise InvalidArgumentError(f"must say {', '.join(KEYS)} alone, got {shown(str(name))!r} in {plan}.", "plan")
    if not isinstance(said.get("settings", {}), dict):
        raise InvalidArgumentError(f"must have `settings` as a table of lists, got another in {plan}.", "plan")
    known = options("command line")
    read = {
        name: [_value(name, one.strip(), known[name].metadata["type"]) for one in values]
        for name, values in lists.items()
    }
    if given.get("omegas") is not None:
        said.pop("table", None)
    if given.get("table") is not None:
        said.pop("omegas", None)
    asked = Asked(**{**said, **given, "settings": {**said.get("settings", {}), **read}})
    if (asked.table is None) == (asked.omegas is None):
        raise InvalidArgumentError("`table` or `omegas` must be given, and not both.")
    return asked


def _value(name: str, text: str, kind: Any) -> Any:
    """A number where the setting is one, or looks so."""
    try:
        return number_of(text) if kind is None else kind(text)
    except ValueError:
        must = "whole numbers" if kind is int else "numbers"
        raise InvalidArgumentError(f"must be {must} with commas between, got {text!r}.", name) from None


def _read(plan: Path) -> dict[str, Any]:
    """What stands in a plan."""
    try:
        text = read_regular(plan, MOST_BYTES).decode()
        if plan.suffix == ".toml":
            return tomllib.loads(text)
        if plan.suffix not in (".yaml", ".yml"):
            raise InvalidArgumentError(f"must be a .toml or a .yaml, got {plan}.", "plan")
        try:
            import yaml
        except ImportError as error:
            raise InvalidArgumentError(
                f"{plan} needs PyYAML; write it as .toml, or `pip install pyyaml`.", "plan"
            ) from error
        try:
            said = yaml.safe_load(text)
        except yaml.YAMLError as error:
            raise ValueError(str(error)) from error
        if not isinstance(said, dict):
            raise ValueError("it is no table of names and values")
        return said
    except InvalidArgumentError:
        raise
    except (OSError, ValueError, RecursionError) as error:
        raise InvalidArgumentError(f"`plan`: {plan} cannot be read: {reason(error)}.") from error


def _settings(asked: Asked) -> list[Settings]:
    """Those to try, each with every seed."""
    base = Settings(recipe=OF_TABLES.name) if asked.table is not None else Settings()
    choices = choices_of(asked.settings)
    seeds = (
        asked.seeds
        if isinstance(asked.seeds, list)
        else numbers_of("seeds", None if asked.seeds is None else str(asked.seeds))
    )
    seeds = [1] if seeds is None else [int(one) if isinstance(one, float) and one == int(one) else one for one in seeds]
    check_entries("seeds", tuple(seeds))
    for one in seeds:
        check_integer("seeds", one, 0)
    tried = every(choices, base) if asked.random is None else some(choices, asked.random, int(seeds[0]), base)
    return [replace(one, seed=seed) for one in tried for seed in seeds]


def _of_spirals(asked: Asked) -> "SpiralTrials":
    from leadline.studies.trials import SpiralTrials

    for name in ("target", "folds", "test"):
        if getattr(asked, name) is not None:
            raise InvalidArgumentError(
                f"is that of a table, and spirals are asked for, got {getattr(asked, name)!r}.", name
            )
    omegas = asked.omegas if isinstance(asked.omegas, list | tuple) else [asked.omegas]
    check_entries("omegas", tuple(omegas))
    for one in omegas:
        check_at_least("omegas", one, 0)
    return SpiralTrials(tuple(map(float, omegas)))


def _of_table(asked: Asked, reads: Reads, how: dict[str, Any], task: str, seed: int) -> "TableTrials":
    if asked.target is None:
        raise InvalidArgumentError("must be given with a table, got none.", "target")
    fmt, parts = read_parts(Path(str(asked.table)), asked.target, reads, task_of(task, how["likelihood"]), 0.0, seed)
    from leadline.studies.compare import folds_of
    from leadline.studies.tables import make_estimator
    from leadline.studies.trials import TableTrials

    cut, notes = folds_of(parts.y, fmt.task, asked.folds, asked.test, seed)
    for note in notes:
        say(f"leadline: note: {note}", err=True)
    if not all(len(kept) for _, kept in cut):
        raise InvalidArgumentError(f"must keep rows apart to measure on, got {asked.test}.", "test")
    return TableTrials(Path(str(asked.table)).name, fmt, parts, cut, partial(make_estimator, fmt.task, **how))
