"""Commands on one's own tables: fit, predict, report, compare."""

import csv
import gzip
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from leadline._checks import InvalidArgumentError
from leadline._foreign import no_formula, shown, some
from leadline.cli.app import app, conclude, directory, ending, say, say_what_is_begun
from leadline.cli.options import CheckpointEvery, Force, Out, Quiet, depth_of, takes_settings
from leadline.files.checkpoints import EVERY
from leadline.files.directories import RECORD, write_named, writing
from leadline.files.lines import METRICS
from leadline.files.ours import check_ours, digest
from leadline.files.records import read_record
from leadline.files.tables import TableFormat, encode, learn_format, read_table, unseen_levels
from leadline.files.whole import read_regular, within_memory
from leadline.inference.recipes import TABLE
from leadline.training.settings import Settings

if TYPE_CHECKING:  # it brings scikit-learn, and only the commands on tables need it
    from leadline.studies.tables import Parts

MODEL = "model.safetensors"

Table = Annotated[Path, typer.Argument(help="A table: .csv, .tsv (also .gz) or .parquet.", show_default=False)]
Target = Annotated[str, typer.Option(help="The column to predict.", show_default=False)]
Kind = Annotated[str, typer.Option(help="classification, regression or auto: what the target looks like.")]
Noise = Annotated[
    str,
    typer.Option(
        help="Of a number: constant, input (it depends on the columns), auto (restarts with either, and the rows "
        "decide), or another likelihood's name."
    ),
]
Impute = Annotated[
    bool, typer.Option("--impute", help="Fill missing values in: the median, or a category of their own.")
]
Ignore = Annotated[list[str] | None, typer.Option(help="A column to leave out; may be given several times.")]
Test = Annotated[float, typer.Option(help="The share of the rows that is kept apart to measure on.")]


@app.command()
@takes_settings(recipe=TABLE.name)
def fit(
    table: Table,
    target: Target,
    out: Out,
    settings: Settings,
    noise: Noise = "auto",
    task: Kind = "auto",
    impute: Impute = False,
    ignore: Ignore = None,
    test: Test = 0.1,
    checkpoint_every: CheckpointEvery = EVERY,
    force: Force = False,
    quiet: Quiet = False,
) -> None:
    """Learn a column of a table from the others.

    It writes the model and its record.

    Examples: leadline fit wine.csv --target cultivar --out runs/wine; leadline fit houses.parquet --target price
    --ignore id --impute --out runs/houses
    """
    fmt, parts = _read(table, target, task, impute, ignore, test, settings.seed)
    from leadline.callbacks import JsonLines
    from leadline.studies.tables import expected_cost, make_estimator, record_of, warn_of_test_part

    estimator = make_estimator(fmt.task, settings, noise=noise, verbose=not quiet)
    said = {**settings.in_words(), "noise": noise, "task": fmt.task}
    training = settings.resolved(estimator._likelihood).identity(estimator.problem(parts.x, parts.y))[:16]
    with directory(out, (MODEL, RECORD, METRICS), force, {**said, "identity": training}) as checkpoints:
        estimator.set_params(checkpoint_dir=checkpoints, checkpoint_every=checkpoint_every)
        estimator.set_params(callback=JsonLines(out / METRICS))
        if not quiet:
            _say_what_is_read(fmt, len(parts.x), len(parts.x_test))
            least, most, memory = expected_cost(parts, fmt, estimator)
            say(f"expecting {_duration(least)} to {_duration(most)}, and {memory / 1e9:.1f} GB of memory")
        warn_of_test_part(parts, fmt.task)
        say_what_is_begun(checkpoints, quiet)
        estimator.fit(parts.x, parts.y)
        model = estimator.model_file()
        record = replace(record_of(estimator, parts, fmt, table.name), model=digest(model))
        conclude(out, checkpoints, record, {MODEL: model}, quiet, f"; see also: leadline report {out}")


@app.command()
def predict(
    run: Annotated[Path, typer.Argument(help="The directory that `leadline fit` wrote.", show_default=False)],
    table: Table,
    out: Annotated[Path, typer.Option(help="The table of predictions to write, .csv.", show_default=False)],
    force: Annotated[bool, typer.Option("--force", help="Overwrite a file that is there.")] = False,
    quiet: Quiet = False,
) -> None:
    """Predict the rows of a table.

    With probabilities or intervals, and where the uncertainty comes from.

    Example: leadline predict runs/wine new.csv --out predictions.csv
    """
    from leadline.estimators.loading import load
    from leadline.studies.tables import naming_cells, predictions

    if not out.name.endswith((".csv", ".csv.gz")):
        raise InvalidArgumentError(f"must end in .csv or .csv.gz, got {out}.", "out")
    if out.exists() and table.exists() and out.samefile(table):
        raise InvalidArgumentError(f"must be another file than the table, got {out} for both.", "out")
    if out.is_file() and not force:
        raise InvalidArgumentError(f"must be a new file, got {out}; choose another or use --force.", "out")
    record = read_record(run)
    if record.table is None:
        raise InvalidArgumentError(f"`run` {run} is not a fit to a table; `leadline fit` makes one.")
    fmt = TableFormat.from_json(record.table)
    frame = read_table(table, fmt)
    estimator = load(run / MODEL)
    of_classes = hasattr(estimator, "classes_")
    other = record.model is not None and record.model != digest(read_regular(run / MODEL))
    if other or (len(fmt.features()), fmt.task == "classification") != (estimator.model_.network.n_inputs, of_classes):
        raise InvalidArgumentError(f"`run`: the record and the model in {run} are not of one training; fit again.")
    for name, levels in unseen_levels(frame, fmt).items():
        new = some(levels) if len(levels) <= 10 else f"{some(levels)} ({len(levels):,} in all)"
        note = f"note: column `{shown(name)}` has categories that were not trained on: {new}"
        say(f"{note}; they count as none of those that were.", err=True)
    with ending(), within_memory(table), naming_cells(fmt):
        columns = predictions(estimator, encode(frame, fmt), fmt.target)
    if f"{fmt.target}_" in columns:
        name = shown(fmt.target)
        say(f"note: the target is called `{name}`, so the other column of that name is `{name}_`.", err=True)
    import pandas

    predicted = [no_formula(value) for value in columns[fmt.target]]
    written = pandas.DataFrame({**columns, fmt.target: predicted}).rename(columns=no_formula)
    if fmt.target not in written or predicted != list(columns[fmt.target]):
        say("note: text that begins with =, +, - or @ has ' before it, or spreadsheets would run it.", err=True)
    with writing(out):
        out.parent.mkdir(parents=True, exist_ok=True)
        text = written.to_csv(index=False)
        if "\r" in text:  # where it stands alone, Python 3.11 and 3.12 write it without quotes
            text = written.to_csv(index=False, quoting=csv.QUOTE_ALL)
        write_named(
            out, gzip.compress(text.encode(errors="backslashreplace"), mtime=0) if out.suffix == ".gz" else text
        )
    if not quiet:
        say(f"wrote {len(frame)} predictions of `{shown(fmt.target)}` to {out}")


@app.command()
def report(
    run: Annotated[Path, typer.Argument(help="A directory with a record.", show_default=False)],
    out: Annotated[Path | None, typer.Option(help="The page to write. Default: report.html there.")] = None,
) -> None:
    """Write one self-contained web page.

    It has the measures, the depth, the training and the settings.

    Example: leadline report runs/wine
    """
    from leadline.report.page import write_page

    path = out or run / "report.html"
    with writing(path):
        check_ours(path.resolve() if out else path)  # a link that was named is followed
    say(f"wrote {write_page(read_record(run), path)}")


@app.command()
@takes_settings("depth", recipe=TABLE.name)
def compare(
    table: Table,
    target: Target,
    settings: Settings,
    depth: Annotated[
        str, typer.Option(help="Families and numbers of hidden layers, with commas between.")
    ] = "normal,poisson,categorical",
    noise: Noise = "auto",
    task: Kind = "auto",
    impute: Impute = False,
    ignore: Ignore = None,
    test: Test = 0.2,
    quiet: Quiet = False,
) -> None:
    """Set depth families side by side.

    By free energy, likelihood of rows kept apart, and depth.

    Example: leadline compare wine.csv --target cultivar --depth normal,poisson,2
    """
    fmt, parts = _read(table, target, task, impute, ignore, test, settings.seed)
    from leadline.report.summary import summarise_comparison
    from leadline.studies.tables import compare_depths

    depths = [depth_of(name) for name in depth.split(",")]
    with ending():
        rows = compare_depths(parts, depths, settings, task=fmt.task, noise=noise, verbose=not quiet)
    say(*summarise_comparison(rows, len(parts.x), len(parts.x_test)))


def _read(
    table: Path, target: str, task: Any, impute: bool, ignore: list[str] | None, test: float, seed: int
) -> "tuple[TableFormat, Parts]":
    with within_memory(table):
        frame = read_table(table)
        fmt = learn_format(frame, target, task=task, impute=impute, ignore=ignore or [])
        from leadline.studies.tables import split  # what is slow to import waits until the table is one

        return fmt, split(frame, fmt, test, seed)


def _say_what_is_read(fmt: TableFormat, n_train: int, n_test: int) -> None:
    say(f"{n_train} rows to train on, {n_test} kept apart; {fmt.task} of `{shown(fmt.target)}` from")
    for column in fmt.columns:
        say(f"  {shown(column.name)}: {column.words()}")
    for name, reason in fmt.ignored.items():
        say(f"  {shown(name)}: left out ({reason})")


def _duration(seconds: float) -> str:
    return f"{max(1, round(seconds))} s" if seconds < 90 else f"{seconds / 60:.0f} min"
