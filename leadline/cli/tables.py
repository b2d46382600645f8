"""Commands on one's own tables: fit, report."""

import shlex
from dataclasses import replace
from pathlib import Path
from textwrap import wrap
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
import typer

from leadline._checks import InvalidArgumentError, check_choice, tell
from leadline._foreign import shown
from leadline.cli.app import app, conclude, directory, say, say_what_is_begun
from leadline.cli.options import CheckpointEvery, Force, Out, Quiet, Reads, takes_reads, takes_settings
from leadline.files.checkpoints import EVERY
from leadline.files.columns import nearest
from leadline.files.columns import rows as rows_in_words
from leadline.files.directories import MODEL, RECORD, writing
from leadline.files.formats import Asked, TableFormat, learn_format, missing_in
from leadline.files.learning import relearned
from leadline.files.lines import METRICS
from leadline.files.ours import check_ours, digest
from leadline.files.records import read_record
from leadline.files.tables import read_table
from leadline.files.values import Reading, numbers
from leadline.files.whole import within_memory
from leadline.inference.recipes import TABLE
from leadline.likelihoods import LIKELIHOODS, CategoricalLikelihood
from leadline.training.settings import Settings

if TYPE_CHECKING:  # it brings scikit-learn, and only the commands on tables need it
    from leadline.studies.tables import Parts

MOST_LINES, WIDE = 40, 100
"""Columns with a line each: of more, those that are taken for the same share one; and the letters of such a line."""

Table = Annotated[
    Path, typer.Argument(help="A table: .csv, .tsv, .txt, .data (also .gz) or .parquet.", show_default=False)
]
Target = Annotated[str, typer.Option(metavar="<column>", help="The column to predict.", show_default=False)]
Kind = Annotated[str, typer.Option(help="classification, regression or auto: what the target looks like.")]
OwnLikelihood = Annotated[
    str | None,
    typer.Option(
        help="Of a number gaussian, student-t, laplace, or of counts poisson, negative-binomial; of a class "
        "categorical, ordinal (classes in order). Default: gaussian or categorical."
    ),
]
Noise = Annotated[
    str,
    typer.Option(
        help="Of a Gaussian: constant, input (it depends on the columns), or auto (restarts with either, and the rows "
        "decide)."
    ),
]
ClassWeight = Annotated[
    str | None, typer.Option(help="balanced: rare classes count as much as common ones. Default: all rows are alike.")
]
Test = Annotated[float, typer.Option(help="The share of the rows that is kept apart to measure on.")]


@app.command()
@takes_settings(recipe=TABLE.name)
@takes_reads
def fit(
    table: Table,
    target: Target,
    out: Out,
    settings: Settings,
    reads: Reads,
    likelihood: OwnLikelihood = None,
    noise: Noise = "auto",
    class_weight: ClassWeight = None,
    task: Kind = "auto",
    test: Test = 0.1,
    checkpoint_every: CheckpointEvery = EVERY,
    force: Force = False,
    quiet: Quiet = False,
) -> None:
    """Learn a column of a table from the others.

    It writes the model and its record. Numbers, dates and categories may stand in the columns, and values be missing.

    Examples: leadline fit wine.csv --target cultivar --out runs/wine; leadline fit houses.parquet --target price
    --ignore id --category zip --out runs/houses
    """
    settings.resolved(CategoricalLikelihood)  # what is wrong is said before the table is read
    fmt, parts = read_parts(table, target, reads, task_of(task, likelihood), test, settings.seed)
    import pandas

    from leadline.callbacks import JsonLines
    from leadline.estimators.encoder import TableEncoder
    from leadline.studies.tables import expected_cost, make_estimator, record_of, warn_of_test_part

    encoder = TableEncoder.of(fmt.encoding, [*parts.x.columns])
    more = {"likelihood": likelihood, "noise": noise, "class_weight": class_weight, "encoder": encoder}
    estimator = make_estimator(fmt.task, settings, **more, verbose=not quiet)
    said = {**settings.in_words(), "noise": noise, "class_weight": class_weight, "task": fmt.task}
    said |= {} if likelihood is None else {"likelihood": likelihood}
    rows = parts.x, pandas.Series(parts.y, name=fmt.target), parts.weight
    training = settings.resolved(estimator._likelihood).identity(estimator.problem(*rows))[:16]
    with directory(out, (MODEL, RECORD, METRICS), force, {**said, "identity": training}) as checkpoints:
        estimator.set_params(checkpoint_dir=checkpoints, checkpoint_every=checkpoint_every)
        estimator.set_params(callback=JsonLines(out / METRICS))
        if not quiet:
            _say_what_is_read(fmt, len(parts.x), len(parts.x_test))
            least, most, memory = expected_cost(parts, fmt, estimator)
            seconds = " to ".join(dict.fromkeys(map(_duration, (least, most))))
            say(f"expecting {seconds}, and {memory / 1e9:.1f} GB of memory")
        warn_of_test_part(parts, fmt.task)
        say_what_is_begun(checkpoints, quiet)
        estimator.fit(*rows)
        model = estimator.model_file()
        record = replace(record_of(estimator, parts, fmt, table.name), model=digest(model))
        conclude(out, checkpoints, record, {MODEL: model}, quiet, f"; see also: leadline report {out}")


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


def task_of(task: str, likelihood: str | None) -> str:
    """What a likelihood that is asked for says of the target, where the user has not said what it is."""
    if task != "auto" or likelihood is None or likelihood not in LIKELIHOODS:
        return task
    return "classification" if LIKELIHOODS[likelihood].kind == "classes" else "regression"


def read_parts(
    table: Path, target: str, reads: Reads, task: Any, test: float, seed: int
) -> "tuple[TableFormat, Parts]":
    """A table as the user says it is, and its rows to train on and to measure on. What is learned of its columns, but
    for their kinds, is of the rows to train on."""
    said: dict[str, Any] = {name: tuple(getattr(reads, name) or ()) for name in ("category", "number", "ignore", "na")}
    if reads.decimal is not None:
        check_choice("decimal", reads.decimal, [".", ","])
    said["ignore"] += () if reads.weight is None else (reads.weight,)
    said |= {"decimal": reads.decimal, "impute": reads.impute, "task": task}
    with within_memory(table):
        frame = read_table(table, sep=reads.sep, encoding=reads.encoding)
        if reads.weight is not None:
            _check_weight_column(reads.weight, frame.columns, target)
        if reads.drop_missing_target and target in frame.columns:
            missing = missing_in(frame[target], Reading(na=said["na"]))
            frame = frame.loc[~missing].reset_index(drop=True)
            if missing.any():
                tell(f"{rows_in_words(missing)} have no `{shown(target)}` and are left out.")
        fmt = learn_format(frame, target, Asked(**said), flags_of)
        for note in fmt.notes:
            tell(note)
        from leadline.studies.tables import split  # what is slow to import waits until the table is one

        weight = None if reads.weight is None else _weights(frame[reads.weight], fmt)
        parts = split(frame, fmt, test, seed, weight)
        return replace(fmt, encoding=relearned(fmt.encoding, parts.x)), parts


def _check_weight_column(name: str, names: Any, target: str) -> None:
    if name not in names or name == target:
        got = f"got the target, {name!r}" if name == target else f"got {name!r}; {nearest(name, names)}"
        raise InvalidArgumentError(f"must be a column of the table beside the target, {got}.", "weight")


def _weights(column: Any, fmt: TableFormat) -> np.ndarray:
    """What each row counts."""
    values, missing = numbers(column, fmt.encoding.reading)
    wrong = missing | ~(values >= 0) | (values == np.inf)
    if wrong.any():
        must = (
            f"must be a column of numbers of at least 0, got {shown(column[wrong].iloc[0])!r} in `{shown(column.name)}`"
        )
        raise InvalidArgumentError(f"{must}, {rows_in_words(wrong)}.", "weight")
    return values


def flags_of(option: str, values: list[str]) -> str:
    """As on the command line."""
    flag = f"--{option.replace('_', '-')}"
    return flag if values == [""] else " ".join(f"{flag} {shlex.quote(shown(value))}" for value in values)


def _say_what_is_read(fmt: TableFormat, n_train: int, n_test: int) -> None:
    say(f"{n_train} rows to train on, {n_test} kept apart; {fmt.task} of `{shown(fmt.target)}` from")
    taken = [(shown(column.name), column.words()) for column in fmt.encoding.columns]
    taken += [(shown(name), f"left out ({reason})") for name, reason in fmt.encoding.ignored.items()]
    if len(taken) <= MOST_LINES:
        say(*(f"  {name}: {words}" for name, words in taken))
        return
    alike: dict[str, list[str]] = {}
    for name, words in taken:
        alike.setdefault(words, []).append(name)
    for words, names in alike.items():
        say(*wrap(f"{', '.join(names)}: {words}", WIDE, initial_indent="  ", subsequent_indent="    "))


def _duration(seconds: float) -> str:
    return f"{max(1, round(seconds))} s" if seconds < 90 else f"{seconds / 60:.0f} min"
