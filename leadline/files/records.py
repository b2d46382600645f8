"""A record: what was trained, how it predicts, what was learned; as JSON, and as a row of a table."""

import csv
import io
import json
import math
from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

from leadline._checks import InvalidArgumentError, refusing
from leadline.files.directories import RECORD, write_whole
from leadline.files.whole import MOST_BYTES, read_regular, reason
from leadline.metrics import MEASURES, measures_of

MOST_ENTRIES = 4096
"""Of a list in a record, but for what a table has many of: restarts, layers and epochs are fewer."""

_MANY = ("columns", "table", "classes", "class_shares")


@dataclass(frozen=True)
class Record:
    """One fit. What does not apply is None, and is not written; a measure's label and format are its `Measure`'s."""

    # The settings
    recipe: str
    depth: str | int
    width: int
    temperature: float
    n_restarts: int
    epochs: int
    seed: Any
    # What was learned
    depth_pmf: list[float]
    depth_mean: float
    depth_std: float
    depth_mode: int
    depth_support: list[int]
    # Where and when
    seconds: float
    device: str
    version: str
    measures: dict[str, float] = field(default_factory=dict)
    """On the test part, by their names; in a file they stand among the others."""
    block: str = "dense"
    learning_rate: float | None = None
    batch_size: int | None = None
    precision: str | None = None
    crop: int | None = None
    flip: bool | None = None
    """How images were moved at random."""
    interrupted: bool | None = None
    """There, and true, only if training was ended before its time."""
    compile_seconds: float | None = None
    depth_prior_pmf: list[float] | None = None
    effective_width: list[list[int]] | None = None
    """Units in use, for every restart and layer."""
    free_energy: float | None = None
    free_energy_terms: dict[str, Any] | None = None
    validation_nll: dict[str, float] | None = None
    """For every temperature tried, where there was a choice."""
    validation_ll: float | None = None
    """Of the rows that calibrate, in nats per row."""
    restart_shares: list[float] | None = None
    restart_temperatures: list[float] | None = None
    """Of every restart, where the rows held out weigh them."""
    spread: float | None = None
    largest_share: float | None = None
    """What these rows said of the restarts."""
    history: dict[str, Any] | None = None
    reliability: dict[str, Any] | None = None
    coverage_curve: dict[str, Any] | None = None
    # What it goes by (`studies/inspection.py`), from the test part; lists of its rows have at most a thousand
    errors: dict[str, float] | None = None
    """Standard errors of the measures, by their names."""
    train_nll: float | None = None
    """Nats per row, of all networks together, on rows that they were trained on."""
    confusion: dict[str, Any] | None = None
    """For every class its rows, those predicted, those right, its areas; and pairs that are taken for each other."""
    predictions: dict[str, Any] | None = None
    """Truths, means and the ends of 90 % intervals."""
    importance: dict[str, Any] | None = None
    """The rise of the NLL for every column that is shuffled, nats per row, with standard errors."""
    dependence: list[dict[str, Any]] | None = None
    """Mean predictions for values of the most important columns, and deviations of single networks from them."""
    uncertainty: dict[str, Any] | None = None
    """Of every row by noise, weights and depth: nats for classes, variances for numbers."""
    hardest: list[dict[str, Any]] | None = None
    """The most uncertain and the most surprising rows, and whether more data would help."""
    depth_share: float | None = None
    """Of the uncertainty of the test rows, all together."""
    auroc: dict[str, float] | None = None
    """How well the entropy tells the test rows from others, by what these are."""
    # The problem
    omega: float | None = None
    name: str | None = None
    split: int | None = None
    task: str | None = None
    target: str | None = None
    columns: list[dict[str, str]] | None = None
    table: dict[str, Any] | None = None
    n_rows: int | None = None
    n_test: int | None = None
    n_features: int | None = None
    classes: list[Any] | None = None
    class_shares: dict[str, float] | None = None
    target_std: float | None = None
    one_rate: dict[str, float] | None = None
    """What one Poisson rate for all test rows would give, by measure; of counts alone."""
    max_epochs: int | str | None = None
    settings: dict[str, Any] | None = None
    """The estimator's parameters."""
    model: str | None = None
    """The digest of its model file."""

    def to_json(self) -> dict[str, Any]:
        """What a file holds."""
        own = {one.name: getattr(self, one.name) for one in fields(self) if one.name != "measures"}
        return {name: value for name, value in {**own, **self.measures}.items() if value is not None}

    @staticmethod
    def from_json(content: Any) -> "Record":
        """What a file says, of this version or of an older one; what this version does not know is passed over."""
        known = {one.name for one in fields(Record)} - {"measures"}
        own = {name: value for name, value in content.items() if name in known}
        for name, value in own.items():
            if name not in _MANY and _longest(value) > MOST_ENTRIES:
                raise ValueError(f"its {name} has more than {MOST_ENTRIES} entries")
        return Record(**own, measures={name: content[name] for name in MEASURES if content.get(name) is not None})

    def row(self, columns: Sequence[str]) -> dict[str, Any]:
        """As a row of a table; the terms of the free energy have columns of their own."""
        told = {f"auroc_{name}": value for name, value in (self.auroc or {}).items()}
        flat = {**self.to_json(), **(self.free_energy_terms or {}), **told}
        flat["effective_width"] = json.dumps(self.effective_width)
        return {name: flat.get(name, "") for name in columns}


def columns_of(kind: str, settings: Sequence[str], more: Sequence[str]) -> tuple[str, ...]:
    """Of a table of records: the settings, the measures of their kind, and more."""
    return (*settings, *(measure.name for measure in measures_of(kind)), *more)


def record_file(record: Record) -> bytes:
    """What stands in record.json; a number that is not finite, which JSON does not know, is null."""
    return (json.dumps(_finite(record.to_json()), indent=1, allow_nan=False) + "\n").encode()


def _longest(value: Any) -> int:
    """The entries of the longest list in a value."""
    if isinstance(value, dict):
        value = [*value.values()]
    return max([len(value), *map(_longest, value)]) if isinstance(value, list) else 0


def _finite(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _finite(one) for name, one in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(one) for one in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def read_record(out: Path) -> Record:
    """The record in a directory."""
    path = out / RECORD
    try:
        content = json.loads(read_regular(path, MOST_BYTES))
    except (FileNotFoundError, NotADirectoryError) as error:
        raise InvalidArgumentError(f"`run` must be a directory with a {RECORD}, got {out}.") from error
    except (OSError, ValueError, RecursionError, MemoryError) as error:
        raise InvalidArgumentError(f"`run`: {path} cannot be read: {reason(error)}.") from error
    if not isinstance(content, dict) or "depth_pmf" not in content:
        raise InvalidArgumentError(f"`run`: {path} is not a record of Leadline's.")
    with refusing(f"`run`: {path} does not hold what Leadline writes"):
        return Record.from_json(content)


def read_rows(path: Path, columns: Sequence[str] | None = None) -> list[dict[str, Any]]:
    """The rows of a table, all of them text; none if there is no such file. It must have the columns, if given."""
    if not path.exists():
        return []
    with reading(path):
        table = csv.DictReader(io.StringIO(read_regular(path, MOST_BYTES).decode(), newline=""))
        rows = list(table)
        if columns is not None and list(table.fieldnames or []) != list(columns):
            raise InvalidArgumentError(
                f"`out`: {path} has other columns than this version writes; choose another directory."
            )
        if any(None in row or None in row.values() for row in rows):
            raise ValueError("its rows are not of one length")
    return rows


def reading(path: Path) -> AbstractContextManager[None]:
    """Whatever is wrong with a table becomes one sentence."""
    return refusing(f"`out`: {path} is not a table of Leadline's, or is damaged")


def write_rows(path: Path, rows: list[dict[str, Any]]) -> Path:
    """Write the table whole or not at all."""
    text = io.StringIO()
    writer = csv.DictWriter(text, list(rows[0]), lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return write_whole(path, text.getvalue())
