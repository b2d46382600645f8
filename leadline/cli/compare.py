"""The command that sets ours beside what else one would use."""

import csv
import io
import json
from contextlib import nullcontext
from dataclasses import replace
from itertools import product
from pathlib import Path
from shutil import get_terminal_size
from typing import TYPE_CHECKING, Annotated, Any

import typer

from leadline._checks import InvalidArgumentError, check_choice, check_entries
from leadline._foreign import some
from leadline.cli.app import app, ending, say
from leadline.cli.options import On, Quiet, Reads, depth_of, names_of, number_of, takes_reads, takes_settings
from leadline.cli.tables import ClassWeight, Kind, Noise, OwnLikelihood, Table, Target, read_parts, task_of
from leadline.files.directories import output, put_results
from leadline.inference.recipes import TABLE
from leadline.likelihoods import CategoricalLikelihood
from leadline.studies.baselines import BASELINES
from leadline.studies.comparison import WIDE, Comparison
from leadline.studies.runners import runner_on
from leadline.training.settings import Settings

if TYPE_CHECKING:  # it brings scikit-learn
    from leadline.studies.compare import Contest

NAMES = ("compared.csv", "compared.json", "compared.html")
"""What it writes."""


@app.command()
@takes_settings("depth", "temperature", recipe=TABLE.name)
@takes_reads
def compare(
    table: Table,
    target: Target,
    settings: Settings,
    reads: Reads,
    against: Annotated[
        str, typer.Option(help="linear, boosting, forest, mlp, with commas between; all or none.")
    ] = "all",
    depth: Annotated[
        str | None,
        typer.Option(help="Families of q(L) and numbers of hidden layers, with commas between. Default: normal."),
    ] = None,
    temperature: Annotated[
        str | None, typer.Option(help="Factors on the weight KL, with commas between. Default: the recipe's.")
    ] = None,
    folds: Annotated[int | None, typer.Option(help="Of the cross-validation. Default: 5.")] = None,
    test: Annotated[
        float | None, typer.Option(help="The share of the rows that is kept apart to measure on, instead of folds.")
    ] = None,
    out: Annotated[Path | None, typer.Option(help="Where a table and a page of it go, if anywhere.")] = None,
    force: Annotated[bool, typer.Option("--force", help="Overwrite a comparison that is there.")] = False,
    likelihood: OwnLikelihood = None,
    noise: Noise = "auto",
    class_weight: ClassWeight = None,
    task: Kind = "auto",
    on: On = "local",
    quiet: Quiet = False,
) -> None:
    """Set ours beside what else one would use.

    Or depth families and temperatures side by side. By accuracy or typical error, likelihood and calibration on rows
    that were not trained on, with their errors; with `--test` also by free energy.

    Examples: leadline compare wine.csv --target cultivar --out runs/compared; leadline compare wine.csv --target
    cultivar --against none --depth normal,poisson,2 --temperature 0.15,1 --test 0.2
    """
    others, ours, runner = _others(against, test), _ours(settings, depth, temperature), runner_on(on)
    for one in ours.values():
        one.resolved(CategoricalLikelihood)  # what is wrong is said before the table is read
    if out is not None and (out / NAMES[0]).exists() and not force:
        raise InvalidArgumentError(f"`out` {out} holds a comparison already; choose another or use --force.")
    if reads.weight is not None:
        raise InvalidArgumentError(
            f"must be left out of a comparison, whose rows count alike, got {reads.weight!r}.", "weight"
        )
    fmt, parts = read_parts(table, target, reads, task_of(task, likelihood), 0.0, settings.seed)
    from leadline.studies.compare import Contest, folds_of, make_candidate
    from leadline.studies.tables import make_estimator, naming_cells
    from leadline.training.progress import CandidateLine

    cut, notes = folds_of(parts.y, fmt.task, folds, test, settings.seed)
    more = {"likelihood": likelihood, "noise": noise, "class_weight": class_weight}
    candidates: dict[str, Any] = {name: make_estimator(fmt.task, one, **more) for name, one in ours.items()}
    candidates |= {name: make_candidate(name, fmt.task, settings.seed, len(cut[0][0])) for name in others}
    if fmt.encoding.ignored:
        left_out = some(f"{name} ({why})" for name, why in fmt.encoding.ignored.items())
        notes.append(f"Columns that are left out: {left_out}.")
    contest = Contest(candidates, parts.x, parts.y, cut, fmt.task, notes, fmt.encoding)
    about = {"name": table.name, "target": fmt.target, "seed": settings.seed}
    with nullcontext() if out is None else output(out, None, None, NAMES):
        with ending(lambda: _cut_off(contest)), naming_cells(), nullcontext() if quiet else CandidateLine() as line:
            contest.run(line, runner)
        comparison = contest.comparison(**about)
        assert comparison is not None
        if out is None or not quiet:
            say(*comparison.lines(get_terminal_size((WIDE, 24)).columns))
        if out is not None:
            put_results(out, _files(comparison), None)
            if not quiet:
                say("", f"wrote {', '.join(str(out / name) for name in NAMES)}")


def _others(against: str, test: float | None) -> tuple[str, ...]:
    """The baselines that are meant."""
    named = names_of(against) or ()
    for name in named:
        check_choice("against", name, BASELINES if len(named) > 1 else (*BASELINES, "all", "none"))
    check_entries("against", named)
    others = {"all": BASELINES, "none": ()}.get(named[0], named)
    if test == 0 and others:
        raise InvalidArgumentError(f"must keep rows apart to compare with {some(others)}, got {test}.", "test")
    return others


def _ours(settings: Settings, depth: str | None, temperature: str | None) -> dict[str, Settings]:
    """Those of ours that were asked for, by their names."""
    depths, temperatures = ([one.strip() for one in text.split(",")] if text else [""] for text in (depth, temperature))
    check_entries("depth", depths)
    check_entries("temperature", temperatures)
    named = {}
    for kind, degree in product(depths, temperatures):
        one = replace(settings, depth=depth_of(kind)) if kind else settings
        one = replace(one, temperature=number_of(degree)) if degree else one
        named[" ".join(["leadline", *[kind] * bool(kind), *[f"T={degree}"] * bool(degree)])] = one
    return named


def _cut_off(contest: "Contest") -> str:
    """What is finished is shown."""
    comparison = contest.comparison()
    if comparison is None:
        return "interrupted; nothing was written."
    say(*comparison.lines(get_terminal_size((WIDE, 24)).columns))
    return "interrupted; what was finished is shown, and nothing was written."


def _files(comparison: Comparison) -> dict[str, bytes]:
    """A table, all of it, and a page."""
    from leadline.report.comparison import page

    content, text = comparison.to_json(), io.StringIO()
    columns = list(dict.fromkeys(name for row in content["candidates"] for name in row))
    writer = csv.DictWriter(text, columns, lineterminator="\n")
    writer.writeheader()
    writer.writerows(content["candidates"])
    whole = json.dumps(content, indent=1, allow_nan=False) + "\n"
    return dict(
        zip(
            NAMES,
            (one.encode(errors="backslashreplace") for one in (text.getvalue(), whole, page(comparison))),
            strict=True,
        )
    )
