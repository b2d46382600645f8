"""The command line: arguments in, one call, text out."""

import gzip
import os
import re
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NoReturn

import typer
from rich.console import Console

from leadline._checks import InvalidArgumentError
from leadline._version import __version__
from leadline.experiments.records import (
    CHECKPOINTS,
    RECORD,
    output,
    read_record,
    replace_record,
    write_record,
    write_whole,
    writing,
)
from leadline.experiments.reproduce import QUICK, Grid, missing
from leadline.experiments.reproduce import reproduce as train_grid
from leadline.experiments.spiral import SpiralSettings, draw, run_spiral
from leadline.recipes import get_recipe
from leadline.report.page import write_page
from leadline.report.reproduction import write_comparison
from leadline.report.summary import summarise, summarise_comparison, summarise_table
from leadline.tables import TableFormat, encode, learn_format, read_table, unseen_levels
from leadline.training import TrainingDivergedError
from leadline.training.checkpoint import EVERY, SUFFIX, CheckpointWarning, clear, epochs_done, fingerprint
from leadline.training.interruption import Interruption
from leadline.training.progress import GridLine, ProgressLine
from leadline.training.run import TrainingSlowedWarning

if TYPE_CHECKING:  # these bring scikit-learn, and only the commands on tables need them
    from leadline.experiments.table import Parts

MODEL = "model.safetensors"

INTERRUPTED = 130
"""The exit status after Ctrl-C."""

CheckpointEvery = Annotated[
    float,
    typer.Option(min=0, help="Seconds between checkpoints, from which the same command goes on if it is cut off."),
]

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
    checkpoint_every: CheckpointEvery = EVERY,
    force: Annotated[bool, typer.Option("--force", help="Overwrite a finished record.")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", help="No progress, no summary.")] = False,
) -> None:
    """Train on the paper's spiral data.

    It writes a record and a picture.

    Examples: leadline spiral --omega 10 --epochs 1000 --out runs/ten; leadline spiral --omega 25 --temperature auto
    """
    settings = SpiralSettings(
        omega,
        _depth(depth),
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
    console = Console(stderr=True)
    arguments = {
        "omega": omega,
        "depth": depth,
        "recipe": recipe,
        "temperature": settings.temperature,
        "seed": seed,
        "restarts": settings.n_restarts,
        "epochs": settings.epochs,
        "width": width,
        "version": __version__,
    }
    with _directory(out, force, arguments) as checkpoints:
        _say_what_is_begun(checkpoints, quiet)
        with nullcontext() if quiet else ProgressLine(settings.epochs, console) as line:
            run = run_spiral(settings, line, checkpoints, checkpoint_every)
        replace_record(out)
        picture, trouble = out / "spiral.png", None
        with nullcontext() if quiet else console.status("drawing ..."):
            try:
                draw(run, picture)
            except InvalidArgumentError as error:  # no reason to lose the record
                trouble = str(error)
        path = write_record(out, run.record)
        if not quiet:
            typer.echo(summarise(run.record))
            typer.echo(f"wrote          {path}{'' if trouble else f' and {picture}'}")
        if trouble:
            typer.echo(f"leadline: note: {trouble}", err=True)
        if run.record.get("interrupted"):
            _fail(_cut_off(out), INTERRUPTED)
        clear(checkpoints)


@contextmanager
def _directory(out: Path, force: bool | None = None, arguments: dict[str, Any] | None = None) -> Iterator[Path]:
    """`output`, where Ctrl-C, whenever it comes, says how to go on."""
    with output(out, force, arguments) as checkpoints:
        try:
            with Interruption(at_once=True):
                yield checkpoints
        except KeyboardInterrupt:
            _fail(_cut_off(out), INTERRUPTED)


def _say_what_is_begun(checkpoints: Path, quiet: bool) -> None:
    done = epochs_done(checkpoints)
    if done is not None and not quiet:
        typer.echo(f"going on with the unfinished training in {checkpoints}, from epoch {done}", err=True)


def _cut_off(out: Path) -> str:
    """What to do after Ctrl-C."""
    record = (out / RECORD).exists()
    if any((out / CHECKPOINTS).rglob(f"*{SUFFIX}")) or (any(out.glob("*.csv")) and not record):
        return f"interrupted; what is finished is in {out}, and the same command goes on from there."
    return f"interrupted; the record in {out} stays." if record else "interrupted; nothing was written."


@app.command()
def reproduce(
    out: Annotated[Path, typer.Option(help="Where tables and figures go.", show_default=False)],
    omegas: Annotated[
        str | None, typer.Option(help="Rotation speeds: first:end or first:end:step, or numbers with commas between.")
    ] = None,
    runs: Annotated[int | None, typer.Option(help="Runs at every speed, with the seeds 1, 2, ...")] = None,
    epochs: Annotated[int | None, typer.Option(help="Passes of each network. Default: the recipe's.")] = None,
    depth: Annotated[str | None, typer.Option(help="Families of q(L), with commas between.")] = None,
    recipe: Annotated[str | None, typer.Option(help="Recipes, with commas between.")] = None,
    quick: Annotated[
        bool, typer.Option("--quick", help="A small version: published, one run at 5, 10, .. 30; minutes on a CPU.")
    ] = False,
    checkpoint_every: CheckpointEvery = EVERY,
    quiet: Annotated[bool, typer.Option("--quiet", help="No progress, no summary.")] = False,
) -> None:
    """Train the paper's grid and set it beside the published numbers.

    All runs train side by side, on a GPU if there is one, else on all cores. Tables fill as runs finish; started again,
    the command goes on where it was stopped.

    The whole grid is 31 speeds x 5 runs x 2 families for each of published,written,leadline.

    Examples: leadline reproduce --out runs/paper --quick; leadline reproduce --out runs/paper --recipe published
    """
    grid = QUICK if quick else Grid()
    given = {
        "recipes": _names(recipe),
        "depths": _names(depth),
        "omegas": None if omegas is None else _numbers("omegas", omegas),
        "runs": runs,
        "epochs": epochs,
    }
    grid = replace(grid, **{name: value for name, value in given.items() if value is not None})
    with _directory(out):
        left = missing(grid, out)
        if not quiet:
            n_left, n_all = sum(map(len, left)), len(grid.families()) * len(grid.omegas) * grid.runs
            typer.echo(f"{n_all} runs, {n_all - n_left} of them done already, {n_left} to train")
        done = True
        if left:
            with nullcontext() if quiet else GridLine() as line:
                done = train_grid(grid, out, line, checkpoint_every)
        if not done:
            _fail(_cut_off(out), INTERRUPTED)
        with nullcontext() if quiet else Console(stderr=True).status("drawing ..."):
            written = write_comparison(grid, out)
        if not quiet:
            typer.echo(f"wrote {', '.join(path.name for path in written)} to {out}")


benchmarks = typer.Typer(help="Train on public data and write tables to compare.", no_args_is_help=True)
app.add_typer(benchmarks, name="benchmark")


@benchmarks.command()
def uci(
    data: Annotated[
        Path,
        typer.Option(help="The directory of the UCI sets with their standard splits.", show_default=False),
    ],
    out: Annotated[Path, typer.Option(help="Where the tables go.", show_default=False)],
    names: Annotated[str | None, typer.Option(help="Sets, with commas between. Default: all nine.")] = None,
    splits: Annotated[str | None, typer.Option(help="Like 0:20 or 0,3. Default: all of a set's.")] = None,
    depth: Annotated[
        str, typer.Option(help="Families of q(L) and fixed numbers of hidden layers, with commas between.")
    ] = "normal,poisson,0,1,2,3,4,5",
    epochs: Annotated[
        int | None,
        typer.Option(help="At most, of each network. Default: 5,000, or 62,500 steps (fixed depth: 50,000)."),
    ] = None,
    checkpoint_every: CheckpointEvery = EVERY,
    quiet: Annotated[bool, typer.Option("--quiet", help="No progress.")] = False,
) -> None:
    """Train on the UCI regression sets.

    The splits of a set train side by side; their rows are written when all are done, and comparison.md sets them beside
    published tables. Started again, the command goes on where it was stopped.

    Example: leadline benchmark uci --data uci --out results/uci --names yacht,energy --depth normal
    """
    from leadline.experiments import uci as sets
    from leadline.report.uci import write_comparison

    given = {"names": _names(names), "splits": None if splits is None else tuple(map(int, _numbers("splits", splits)))}
    depths = tuple(_depth(one.strip()) for one in depth.split(","))
    settings = sets.UciSettings(
        data, depths=depths, epochs=epochs, **{name: value for name, value in given.items() if value is not None}
    )
    with _directory(out):
        left = sets.missing(settings, out)
        if not quiet:
            n_left, n_all = len(left), len(settings.names) * len(settings.depths)
            typer.echo(f"{n_all} trainings of all splits, {n_all - n_left} of them done already, {n_left} to do")
        with nullcontext() if quiet or not left else GridLine() as line:
            done = sets.benchmark(settings, out, line, checkpoint_every)
        comparison = write_comparison(out)
        if not done:
            _fail(_cut_off(out), INTERRUPTED)
        if not quiet:
            typer.echo(f"wrote {', '.join(f'{one}.csv' for one in depths)} to {out}")
            if comparison is not None:
                typer.echo(f"wrote {comparison}: beside the published tables")


def _names(text: str | None) -> tuple[str, ...] | None:
    return None if text is None else tuple(name.strip() for name in text.split(","))


def _numbers(name: str, text: str) -> tuple[float, ...]:
    """`0:31`, `0:31:5` or `5,10`."""
    try:
        if ":" in text:
            return tuple(range(*(int(part) for part in text.split(":"))))
        return tuple(float(part) for part in text.split(","))
    except (ValueError, TypeError):
        raise InvalidArgumentError(f"`{name}` must be like 0:31, 0:31:5 or 5,10,15, got {text!r}.") from None


Table = Annotated[Path, typer.Argument(help="A table: .csv, .tsv (also .gz) or .parquet.", show_default=False)]
Target = Annotated[str, typer.Option(help="The column to predict.", show_default=False)]
Task = Annotated[str, typer.Option(help="classification, regression or auto: what the target looks like.")]
Impute = Annotated[
    bool, typer.Option("--impute", help="Fill missing values in: the median, or a category of their own.")
]
Ignore = Annotated[list[str] | None, typer.Option(help="A column to leave out; may be given several times.")]
Test = Annotated[float, typer.Option(help="The share of the rows that is kept apart to measure on.")]
Seed = Annotated[int, typer.Option(help="Decides the rows kept apart, the initial weights and the noise.")]
Recipe = Annotated[str, typer.Option(help="leadline, published or written.")]
Temperature = Annotated[
    str | None, typer.Option(help="Factor on the weight KL, or auto. Default: the recipe's; for numbers 1.")
]
Restarts = Annotated[
    int | None, typer.Option(help="Networks trained side by side and averaged. Default: the recipe's.")
]
Epochs = Annotated[int | None, typer.Option(help="Passes over the rows, at most. Default: the recipe's.")]
Width = Annotated[int, typer.Option(help="Units per hidden layer.")]
Quiet = Annotated[bool, typer.Option("--quiet", help="No progress, no summary.")]


@app.command()
def fit(
    table: Table,
    target: Target,
    out: Annotated[Path, typer.Option(help="Where the model and the record go.", show_default=False)],
    depth: Annotated[str, typer.Option(help="normal, poisson, categorical, or a number of hidden layers.")] = "normal",
    recipe: Recipe = "leadline",
    temperature: Temperature = None,
    restarts: Restarts = None,
    epochs: Epochs = None,
    width: Width = 32,
    task: Task = "auto",
    impute: Impute = False,
    ignore: Ignore = None,
    test: Test = 0.1,
    seed: Seed = 1,
    checkpoint_every: CheckpointEvery = EVERY,
    force: Annotated[bool, typer.Option("--force", help="Overwrite a finished record.")] = False,
    quiet: Quiet = False,
) -> None:
    """Learn a column of a table from the others.

    It writes the model and its record.

    Examples: leadline fit wine.csv --target cultivar --out runs/wine; leadline fit houses.parquet --target price
    --ignore id --impute --out runs/houses
    """
    from leadline.experiments.table import expected_cost, make_estimator, record_of

    fmt, parts = _read(table, target, task, impute, ignore, test, seed)
    estimator = make_estimator(
        fmt.task,
        depth=_depth(depth),
        width=width,
        recipe=recipe,
        temperature=_number(temperature),
        n_restarts=restarts,
        max_iter=epochs,
        random_state=seed,
        verbose=not quiet,
    )
    arguments = {
        "depth": depth,
        "recipe": recipe,
        "temperature": temperature,
        "restarts": restarts,
        "epochs": epochs,
        "width": width,
        "task": fmt.task,
        "seed": seed,
        "version": __version__,
        "row fingerprint": fingerprint(parts.x, parts.y)[:16],
    }
    with _directory(out, force, arguments) as checkpoints:
        estimator.set_params(checkpoint_dir=checkpoints, checkpoint_every=checkpoint_every)
        if not quiet:
            _say_what_is_read(fmt, len(parts.x), len(parts.x_test))
            n_restarts = get_recipe(recipe).n_restarts if restarts is None else restarts
            least, most, memory = expected_cost(parts, fmt, width, n_restarts)
            typer.echo(
                f"expecting {_duration(least)} to {_duration(most)} on one core, compilation included, and "
                f"{memory / 1e9:.1f} GB of memory"
            )
        _say_what_is_begun(checkpoints, quiet)
        estimator.fit(parts.x, parts.y)
        record = record_of(estimator, parts, fmt, table.name)
        replace_record(out)
        with writing(out / MODEL):
            estimator.save(out / MODEL)
        path = write_record(out, record)
        if not quiet:
            typer.echo(summarise_table(record))
            typer.echo(f"wrote          {out / MODEL} and {path}; see also: leadline report {out}")
        if record.get("interrupted"):
            _fail(_cut_off(out), INTERRUPTED)
        clear(checkpoints)


@app.command()
def predict(
    run: Annotated[Path, typer.Argument(help="The directory that `leadline fit` wrote.", show_default=False)],
    table: Table,
    out: Annotated[Path, typer.Option(help="The table of predictions to write, .csv.", show_default=False)],
    quiet: Quiet = False,
) -> None:
    """Predict the rows of a table.

    With probabilities or intervals, and where the uncertainty comes from.

    Example: leadline predict runs/wine new.csv --out predictions.csv
    """
    from leadline.experiments.table import predictions
    from leadline.loading import load

    if not out.name.endswith((".csv", ".csv.gz")):
        raise InvalidArgumentError(f"`out` must end in .csv or .csv.gz, got {out}.")
    if out.exists() and table.exists() and out.samefile(table):
        raise InvalidArgumentError(f"`out` must be another file than the table, got {out} for both.")
    record = read_record(run)
    if "table" not in record:
        raise InvalidArgumentError(f"`run` {run} is not a fit to a table; `leadline fit` makes one.")
    fmt = TableFormat.from_json(record["table"])
    frame = read_table(table, fmt)
    estimator = load(run / MODEL)
    of_classes = hasattr(estimator, "classes_")
    if (len(fmt.features()), fmt.task == "classification") != (estimator.model_.network.n_inputs, of_classes):
        raise InvalidArgumentError(f"`run`: the record and the model in {run} are not of one training; fit again.")
    for name, levels in unseen_levels(frame, fmt).items():
        typer.echo(
            f"note: column `{name}` has categories that were not trained on: {', '.join(levels)}; "
            "they count as none of those that were.",
            err=True,
        )
    columns = predictions(estimator, encode(frame, fmt), fmt.target)
    import pandas

    with writing(out):
        out.parent.mkdir(parents=True, exist_ok=True)
        text = pandas.DataFrame(columns).to_csv(index=False, float_format="%.6g")
        write_whole(out, gzip.compress(text.encode(), mtime=0) if out.suffix == ".gz" else text)
    if not quiet:
        typer.echo(f"wrote {len(frame)} predictions of `{fmt.target}` to {out}")


@app.command()
def report(
    run: Annotated[Path, typer.Argument(help="A directory with a record.", show_default=False)],
    out: Annotated[Path | None, typer.Option(help="The page to write. Default: report.html there.")] = None,
) -> None:
    """Write one self-contained web page.

    It has the measures, the depth, the training and the settings.

    Example: leadline report runs/wine
    """
    path = write_page(read_record(run), out or run / "report.html")
    typer.echo(f"wrote {path}")


@app.command()
def compare(
    table: Table,
    target: Target,
    depth: Annotated[
        str, typer.Option(help="Families and numbers of hidden layers, with commas between.")
    ] = "normal,poisson,categorical",
    recipe: Recipe = "leadline",
    temperature: Temperature = None,
    restarts: Restarts = None,
    epochs: Epochs = None,
    width: Width = 32,
    task: Task = "auto",
    impute: Impute = False,
    ignore: Ignore = None,
    test: Test = 0.2,
    seed: Seed = 1,
    quiet: Quiet = False,
) -> None:
    """Set depth families side by side.

    By free energy, likelihood of rows kept apart, and depth.

    Example: leadline compare wine.csv --target cultivar --depth normal,poisson,2
    """
    from leadline.experiments.table import compare_depths

    fmt, parts = _read(table, target, task, impute, ignore, test, seed)
    rows = compare_depths(
        parts.x,
        parts.y,
        parts.x_test,
        parts.y_test,
        [_depth(name.strip()) for name in depth.split(",")],
        task=fmt.task,
        width=width,
        recipe=recipe,
        temperature=_number(temperature),
        n_restarts=restarts,
        max_iter=epochs,
        random_state=seed,
        verbose=not quiet,
    )
    typer.echo(summarise_comparison(rows, len(parts.x), len(parts.x_test)))


def _read(
    table: Path, target: str, task: Any, impute: bool, ignore: list[str] | None, test: float, seed: int
) -> "tuple[TableFormat, Parts]":
    from leadline.experiments.table import split

    frame = read_table(table)
    fmt = learn_format(frame, target, task=task, impute=impute, ignore=ignore or [])
    return fmt, split(frame, fmt, test, seed)


def _say_what_is_read(fmt: TableFormat, n_train: int, n_test: int) -> None:
    typer.echo(f"{n_train} rows to train on, {n_test} kept apart; {fmt.task} of `{fmt.target}` from")
    for column in fmt.columns:
        typer.echo(f"  {column.name}: {column.words()}")
    for name, reason in fmt.ignored.items():
        typer.echo(f"  {name}: left out ({reason})")


def _duration(seconds: float) -> str:
    return f"{seconds:.0f} s" if seconds < 90 else f"{seconds / 60:.0f} min"


def _depth(text: str) -> Any:
    return int(text) if re.fullmatch("-?[0-9]+", text) else text


def _number(text: str | None) -> Any:
    """A number where the text is one; else the text, for the library to judge."""
    try:
        return None if text is None else float(text)
    except ValueError:
        return text


def main() -> None:
    """Run the command line; a wrong argument is one sentence on standard error and exit status 2."""
    warnings.showwarning = _show_warning
    try:
        app()
    except InvalidArgumentError as error:
        _fail(_in_options(str(error)), 2)
    except TrainingDivergedError as error:
        _fail(str(error), 1)
    except SystemExit as end:
        if end.code != INTERRUPTED:
            raise
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(INTERRUPTED)  # JAX may be compiling still, and would crash in what the interpreter takes down


def _in_options(message: str) -> str:
    """The library's names of arguments, as the command line has them."""
    for name, option in {"n_restarts": "restarts", "max_iter": "epochs", "name": "names"}.items():
        message = message.replace(f"`{name}`", f"`{option}`")
    return message


def _show_warning(message: Warning | str, category: type[Warning], *where: Any) -> None:
    """Ours is a note to the user; all others look as ever."""
    if issubclass(category, CheckpointWarning | TrainingSlowedWarning):
        typer.echo(f"leadline: note: {message}", err=True)
    else:
        _show_any_warning(message, category, *where)


_show_any_warning = warnings.showwarning


def _fail(message: str, status: int) -> NoReturn:
    typer.echo(f"leadline: {message}", err=True)
    sys.exit(status)
