"""Commands that use a model: predict, evaluate."""

import csv
import gzip
import io
import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from leadline._checks import InvalidArgumentError, check_choice
from leadline._foreign import no_formula, shown
from leadline.cli.app import app, ending, say
from leadline.cli.options import Encoding, Quiet, Sep, several
from leadline.cli.tables import Table
from leadline.files.directories import MODEL, RECORD, write_named, writing
from leadline.files.formats import TableFormat
from leadline.files.tables import read_table
from leadline.files.whole import within_memory
from leadline.report.summary import entry, summarise_measures
from leadline.report.words import plural

if TYPE_CHECKING:  # it brings scikit-learn
    import pandas

    from leadline.studies.tables import Estimator

Run = Annotated[
    Path, typer.Argument(help="The directory that `leadline fit` wrote, or a model file.", show_default=False)
]

NewDecimal = Annotated[
    str | None, typer.Option(help="What begins the fraction of a number: . or , Default: as in the training table.")
]

_ENDINGS = (".csv", ".csv.gz", ".parquet")


@app.command()
def predict(
    run: Run,
    table: Table,
    out: Annotated[
        Path | None,
        typer.Option(help="The predictions to write, .csv, .csv.gz or .parquet. Default: standard output, as CSV."),
    ] = None,
    keep: Annotated[
        list[str] | None,
        several("A column of the table to write, too"),
    ] = None,
    sep: Sep = None,
    encoding: Encoding = None,
    decimal: NewDecimal = None,
    force: Annotated[bool, typer.Option("--force", help="Overwrite a file that is there.")] = False,
    quiet: Quiet = False,
) -> None:
    """Predict the rows of a table.

    With probabilities or intervals, and where the uncertainty comes from. Where the table has the target, it is scored.

    Example: leadline predict runs/wine new.csv --keep id --out predictions.csv
    """
    to_stdout = out is None or str(out) == "-"
    if out is not None and not to_stdout:
        _check_out(out, table, force)
    estimator, fmt, frame = _model_and_rows(run, table, sep, encoding, decimal)
    from leadline.studies.tables import naming_cells, predictions

    absent = [name for name in keep or [] if name not in frame.columns]
    if absent:
        raise InvalidArgumentError(f"must be a column of the table, got {absent[0]!r}.", "keep")
    as_text = out is None or out.suffix != ".parquet"
    with ending(), within_memory(table), naming_cells():
        columns = predictions(estimator, frame, fmt.target, as_text=as_text)
    if f"{fmt.target}_" in columns:
        name = shown(fmt.target)
        say(f"note: the target is called `{name}`, so the other column of that name is `{name}_`.", err=True)
    kept = {f"{name} (given)" if name in columns else name: frame[name] for name in keep or []}
    columns = {**kept, **columns}
    if out is None or to_stdout:
        sys.stdout.write(_written(columns, {fmt.target, *kept}))
    else:
        with writing(out):
            out.parent.mkdir(parents=True, exist_ok=True)
            write_named(out, _content(out, columns, {fmt.target, *kept}))
    if quiet:
        return
    say(f"wrote {len(frame)} predictions of `{shown(fmt.target)}`{'' if to_stdout else f' to {out}'}", err=to_stdout)
    if fmt.target in frame.columns:
        try:
            _say_scores(estimator, frame, err=to_stdout)
        except InvalidArgumentError as error:
            say(f"note: not scored. {error}", err=True)


@app.command()
def evaluate(run: Run, table: Table, sep: Sep = None, encoding: Encoding = None, decimal: NewDecimal = None) -> None:
    """Measure a model on a table with known targets.

    It prints the measures, beside what a simpler answer would give.

    Example: leadline evaluate runs/wine new.csv
    """
    estimator, fmt, frame = _model_and_rows(run, table, sep, encoding, decimal)
    if fmt.target not in frame.columns:
        raise InvalidArgumentError(f"`{table}` must have the target `{shown(fmt.target)}` to measure on.")
    _say_scores(estimator, frame)


def _check_out(out: Path, table: Path, force: bool) -> None:
    if not out.name.endswith(_ENDINGS):
        raise InvalidArgumentError(f"must end in {', '.join(_ENDINGS[:-1])} or {_ENDINGS[-1]}, got {out}.", "out")
    if out.exists() and table.exists() and out.samefile(table):
        raise InvalidArgumentError(f"must be another file than the table, got {out} for both.", "out")
    if out.is_file() and not force:
        raise InvalidArgumentError(f"must be a new file, got {out}; choose another or use --force.", "out")


def _model_and_rows(
    run: Path, table: Path, sep: str | None, encoding: str | None, decimal: Any
) -> "tuple[Estimator, TableFormat, pandas.DataFrame]":
    if not run.is_file() and not any((run / name).exists() for name in (RECORD, MODEL)):  # a sweep has a model alone
        raise InvalidArgumentError(f"`run` must be a directory with a {RECORD} or a model file, got {run}.")
    from leadline.estimators.encoder import TableEncoder
    from leadline.estimators.loading import load
    from leadline.studies.tables import format_of

    try:
        estimator = load(run)
    except InvalidArgumentError as error:
        raise InvalidArgumentError(str(error).replace("`path`", "`run`", 1)) from error
    fmt = format_of(estimator)
    if decimal is not None:
        check_choice("decimal", decimal, [".", ","])
        assert estimator.encoder_ is not None  # or it has no format
        read = replace(fmt.encoding, reading=replace(fmt.encoding.reading, decimal=decimal))
        estimator.encoder_ = TableEncoder.of(read, estimator.encoder_.names_)
        fmt = format_of(estimator)
    return estimator, fmt, read_table(table, fmt, sep=sep, encoding=encoding)


def _say_scores(estimator: "Estimator", frame: "pandas.DataFrame", err: bool = False) -> None:
    from leadline.studies.tables import measured_on, naming_cells

    with naming_cells():
        measures, about = measured_on(estimator, frame)
    say(
        *summarise_measures(measures, about),
        entry("", f"on {plural(about['n_test'], 'rows')} with a known target"),
        err=err,
    )


def _content(out: Path, columns: dict[str, Any], foreign: set[str]) -> bytes:
    """What is to stand in a file of that name."""
    if out.suffix == ".parquet":
        return _as_parquet(columns)
    text = _written(columns, foreign).encode(errors="backslashreplace")
    return gzip.compress(text, mtime=0) if out.suffix == ".gz" else text


def _written(columns: dict[str, Any], foreign: set[str]) -> str:
    """As CSV, in which no text of others is a formula."""
    import pandas

    guarded = {name: [no_formula(v) for v in values] if name in foreign else values for name, values in columns.items()}
    frame = pandas.DataFrame(guarded).rename(columns=no_formula)
    changed = any(guarded[name] != list(columns[name]) for name in foreign if name in columns)
    if changed or list(frame.columns) != list(columns):
        say("note: text that begins with =, +, - or @ has ' before it, or spreadsheets would run it.", err=True)
    text = frame.to_csv(index=False)
    if "\r" in text:  # where it stands alone, Python 3.11 and 3.12 write it without quotes
        text = frame.to_csv(index=False, quoting=csv.QUOTE_ALL)
    return text


def _as_parquet(columns: dict[str, Any]) -> bytes:
    import pandas

    file = io.BytesIO()
    try:
        pandas.DataFrame({name: list(values) for name, values in columns.items()}).to_parquet(file, index=False)
    except ImportError as error:
        way_out = 'install it with `pip install "leadline[parquet]"`, or write .csv'
        raise InvalidArgumentError(f"ends in .parquet, which needs pyarrow; {way_out}.", "out") from error
    return file.getvalue()
