"""A CSV or Parquet file becomes numbers for an estimator, and new rows become numbers in the same way."""

import difflib
import re
import shlex
import warnings
import zlib
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, Literal, get_args

import numpy as np

from leadline._checks import LARGEST, WRONG, InvalidArgumentError, check_choice, refusing
from leadline._foreign import LONGEST, shown, some
from leadline.backend.numerics import mean_and_scale
from leadline.files.whole import check_room, open_regular, open_text, within_memory

if TYPE_CHECKING:  # at run time inside the functions: it is slow to import
    import pandas

MISSING = "(missing)"
Task = Literal["classification", "regression"]
TargetKind = Literal["number", "boolean", "text"]
_SEPARATORS = {".csv": ",", ".csv.gz": ",", ".tsv": "\t", ".tsv.gz": "\t"}
_NAMELESS = "Unnamed: "
_TRUTH = {"true": 1.0, "false": 0.0}
_DATE = re.compile(r"\d{4}[-/.]\d{1,2}[-/.]\d{1,2}(\b|T\d)|\d{1,2}[-/.]\d{1,2}[-/.]\d{4}\b")


@dataclass(frozen=True)
class Column:
    """One input column; `fill` replaces a missing value, None makes it an error."""

    name: str
    kind: Literal["number", "category"]
    levels: tuple[str, ...] = ()
    fill: float | str | None = None

    def check(self) -> None:
        """What the types say, where it comes from a file."""
        _check_text([self.name, *self.levels])
        check_choice("kind", self.kind, ("number", "category"))
        number = isinstance(self.fill, int | float) and np.isfinite(self.fill)
        if self.fill is not None and not (number if self.kind == "number" else isinstance(self.fill, str)):
            raise ValueError(f"fill is {self.fill!r}")

    def features(self) -> list[str]:
        return [self.name] if self.kind == "number" else [f"{self.name}={level}" for level in self.levels]

    def words(self) -> str:
        """What the column is taken for."""
        words = "number" if self.kind == "number" else f"category of {len(self.levels)}: {some(self.levels)}"
        fill = f'"{self.fill}"' if isinstance(self.fill, str) else f"{self.fill}"
        return words if self.fill is None else f"{words}; missing -> {fill}"


@dataclass(frozen=True)
class TableFormat:
    """How the columns of a table are read; learned from the training table, kept as JSON beside the model."""

    columns: tuple[Column, ...]
    target: str
    task: Task
    ignored: dict[str, str] = field(default_factory=dict)  # why each column is left out
    target_kind: TargetKind = "number"  # so that labels have one type in every file

    def features(self) -> list[str]:
        return [feature for column in self.columns for feature in column.features()]

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    @staticmethod
    def from_json(content: Any) -> "TableFormat":
        with refusing("The format of a table must be what `to_json` wrote; fit again to write it anew"):
            columns = tuple(Column(**{**column, "levels": tuple(column["levels"])}) for column in content["columns"])
            fmt = TableFormat(**{**content, "columns": columns})
            for column in columns:
                column.check()
            for name, value, choices in (("task", fmt.task, Task), ("target_kind", fmt.target_kind, TargetKind)):
                check_choice(name, value, get_args(choices))
            _check_text([fmt.target, *fmt.ignored.keys(), *fmt.ignored.values()])
        return fmt


def _check_text(values: Iterable[Any]) -> None:
    for value in values:
        if not isinstance(value, str):
            raise TypeError(f"{value!r} is no text")


def read_table(path: Path, fmt: TableFormat | None = None) -> "pandas.DataFrame":
    """The table in a .csv, .tsv (either also .gz) or .parquet file.

    With `fmt`, categories keep the characters that stand in the file: where all of them happen to look like numbers
    ("01", "02"), they would lose the zeros otherwise.
    """
    suffix = next((s for s in (*_SEPARATORS, ".parquet") if path.name.lower().endswith(s)), None)
    if suffix is None:
        raise InvalidArgumentError(f"`{path}` must end in .csv, .tsv, .csv.gz, .tsv.gz or .parquet.")
    try:
        with within_memory(path), (open_text if suffix in _SEPARATORS else open_regular)(path) as file:
            frame = _read_csv(file, suffix, fmt) if suffix in _SEPARATORS else _read_parquet(file)
    except InvalidArgumentError:
        raise
    except (IsADirectoryError, FileNotFoundError, NotADirectoryError) as error:
        got = "a directory; name one file in it" if path.is_dir() else "none there; check the path"
        raise InvalidArgumentError(f"`{path}` must be a file, got {got}.") from error
    except (*WRONG, ImportError, RuntimeError, Warning, zlib.error) as error:
        raise InvalidArgumentError(f"`{path}` cannot be read: {_reason(error)}.") from error
    names = _clean(frame.columns)
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise InvalidArgumentError(f"`{path}` must name each column once, got {some(twice)} repeatedly; rename them.")
    if len(frame) == 0:
        raise InvalidArgumentError(f"`{path}` must hold at least one row of values, got none; add rows.")
    return frame.set_axis(names, axis=1)


def _read_csv(file: BinaryIO, suffix: str, fmt: TableFormat | None) -> "pandas.DataFrame":
    import pandas as pd

    # Whole columns at once (low_memory) and no row names (index_col), so that no row changes how another is read;
    # utf-8-sig drops the mark that Excel puts first.
    options: dict[str, Any] = {"low_memory": False, "index_col": False, "encoding": "utf-8-sig"}
    options |= {"sep": _SEPARATORS[suffix], "skipinitialspace": True}
    options |= {"compression": "gzip" if suffix.endswith(".gz") else None}
    first: dict[str, Any] = {"header": None, "nrows": 1, "dtype": object, "keep_default_na": False}
    header = pd.read_csv(file, **options, **first)
    if header.shape[1] == 1 and ";" in header.iloc[0, 0]:
        options["sep"] = ";"
        file.seek(0)
        header = pd.read_csv(file, **options, **first)
    file.seek(0)
    names = _clean(header.iloc[0])
    text = {column.name for column in fmt.columns if column.kind == "category"} if fmt else set()
    text |= {fmt.target} if fmt and fmt.target_kind == "text" else set()
    with warnings.catch_warnings():
        warnings.simplefilter("error", pd.errors.ParserWarning)  # what it says of rows longer than the header
        # By place, not by name, because a name may stand there twice.
        options["dtype"] = {i: object for i, name in enumerate(names) if name in text}
        return pd.read_csv(file, **options, header=0, names=range(len(names))).set_axis(names, axis=1)


def _read_parquet(file: BinaryIO) -> "pandas.DataFrame":
    """If there is less memory than the file says it takes, its reader may end the process, or never end."""
    import pandas as pd
    from pyarrow.parquet import read_metadata

    said = read_metadata(file)
    check_room(4 * 8 * said.num_rows * said.num_columns)  # as it is read, as numbers, all in one, and split
    check_room(sum(said.row_group(i).total_byte_size for i in range(said.num_row_groups)))
    file.seek(0)
    return pd.read_parquet(file, engine="pyarrow").reset_index(drop=True)


def _clean(names: Iterable[object]) -> list[str]:
    return [str(name).strip() or f"{_NAMELESS}{i}" for i, name in enumerate(names)]


def _reason(error: BaseException) -> str:
    from pandas.errors import EmptyDataError, ParserError, ParserWarning

    if isinstance(error, ImportError):
        return 'it needs pyarrow; install it with `pip install "leadline[parquet]"`'
    if isinstance(error, EmptyDataError):
        return "it is empty; it must start with a line of column names"
    if isinstance(error, UnicodeDecodeError):
        return "it is not UTF-8 text; save it as UTF-8"
    if isinstance(error, ParserError) and (row := re.search(r"EOF inside string starting at row (\d+)", str(error))):
        return f"the quote that opens in row {row[1]} never closes; close it"
    if isinstance(error, ParserWarning) or (isinstance(error, ParserError) and "fields" in str(error)):
        line = re.search(r"line (\d+)", str(error))
        where = f"line {line[1]} has" if line else "rows have"
        return f"{where} more fields than the line of column names; check separators and quotes there"
    words = getattr(error, "strerror", None) or re.split(r"\.\s|\n", str(error))[0].rstrip(".")
    return f"{words}; check the file"


def learn_format(
    frame: "pandas.DataFrame",
    target: str,
    *,
    task: Literal["auto", "classification", "regression"] = "auto",
    impute: bool = False,
    ignore: Sequence[str] = (),
) -> TableFormat:
    """What each column is.

    Numbers, truth values (as 0 and 1) and text that reads as numbers throughout are numbers; other text is a category,
    with at most a fifth as many levels as rows (10 are always allowed, 100 at most). Columns without a name, without a
    value or with a single one are left out. With `impute` a missing number becomes the median of its column and a
    missing category the level "(missing)", in new rows too.

    `task="auto"` classifies text, truth values, and whole numbers of few values: at most 20 and at most half the rows
    (two values always are few).
    """
    check_choice("task", task, ["auto", "classification", "regression"])
    for argument, name in [("target", target), *(("ignore", name) for name in ignore)]:
        if name not in frame.columns:
            nearest = _nearest(name, frame.columns)
            raise InvalidArgumentError(f"`{argument}` must be a column of the table, got {name!r}; {nearest}.")
    if target in ignore:
        raise InvalidArgumentError(f"`ignore` must not hold the target, got {target!r}; name another target.")
    chosen, target_kind = _learn_target(frame[target], task)
    inputs = [name for name in frame.columns if name != target and name not in ignore]
    learned = {name: _learn_column(name, frame[name], impute) for name in inputs}
    columns = tuple(column for column in learned.values() if isinstance(column, Column))
    reasons = {name: reason for name, reason in learned.items() if isinstance(reason, str)}
    fmt = TableFormat(columns, target, chosen, {**dict.fromkeys(ignore, "as asked"), **reasons}, target_kind)
    _check_variety(targets(frame, fmt), fmt)
    _check_categories(columns, len(frame))
    _check_missing(frame, columns, "fill them in, leave the columns out with `--ignore`, or use `--impute`")
    if not columns:
        why = ", ".join(f"{shown(name)}: {reason}" for name, reason in fmt.ignored.items()) or "there is no other"
        raise InvalidArgumentError(f"The table must have a column to learn from beside `{target}`, got none ({why}).")
    return fmt


def encode(frame: "pandas.DataFrame", fmt: TableFormat) -> np.ndarray:
    """Float64 [rows, features]: numbers as they are, one column of 0 and 1 for each level, unseen levels all 0."""
    absent = [column.name for column in fmt.columns if column.name not in frame.columns]
    if absent:
        lack = f"got none named {some(absent)}; {_nearest(absent[0], frame.columns)}"
        raise InvalidArgumentError(f"The table must have all columns of the training table, {lack}.")
    _check_missing(frame, fmt.columns, "fill them in or fit again with `--impute`")
    blocks = [np.empty((len(frame), 0))]
    for column in fmt.columns:
        if column.kind == "number":
            values, missing = _numbers(frame[column.name])
            _check_finite(frame[column.name], np.where(missing, 0.0, values))
            blocks.append(np.where(missing, np.nan if column.fill is None else column.fill, values)[:, None])
        else:
            places = {level: i for i, level in enumerate(column.levels)}
            found = [places.get(text, -1) for text in _text(frame[column.name], MISSING)]
            blocks.append((np.array(found, int)[:, None] == np.arange(len(places))).astype(float))
    return np.concatenate(blocks, axis=1)


def targets(frame: "pandas.DataFrame", fmt: TableFormat) -> np.ndarray:
    """Labels (text, whole numbers or truth values) for classification, float64 for regression."""
    if fmt.target not in frame.columns:
        nearest = _nearest(fmt.target, frame.columns)
        raise InvalidArgumentError(f"The table must have the target, got no column {fmt.target!r}; {nearest}.")
    column = frame[fmt.target]
    values, missing = _numbers(column)
    if missing.any():
        where = f"`{shown(fmt.target)}` is missing in {_rows(missing)}"
        raise InvalidArgumentError(f"The target {where}; fill it in or remove such rows.")
    if fmt.target_kind == "text":
        return np.array(_text(column, MISSING), dtype=str)
    if fmt.target_kind == "boolean":
        _check_values(column, np.isin(values, [0, 1]), "true or false")
        return values.astype(bool)
    if fmt.task == "classification":
        _check_values(column, _whole(values), "whole numbers or text to be classes (else use `--task regression`)")
        return values.astype(np.int64)
    _check_finite(column, values, " for regression")
    return values


def unseen_levels(frame: "pandas.DataFrame", fmt: TableFormat) -> dict[str, list[str]]:
    """Levels that the training table did not have, by column."""
    categories = [c for c in fmt.columns if c.kind == "category" and c.name in frame.columns]
    unseen = {c.name: sorted(set(_text(frame[c.name], MISSING)) - set(c.levels)) for c in categories}
    return {name: levels for name, levels in unseen.items() if levels}


def _learn_target(column: Any, task: str) -> tuple[Task, TargetKind]:
    """The task and the kind of its target."""
    values, missing = _numbers(column)
    known = values[~missing]
    few = len(np.unique(known)) <= min(20, max(2, len(column) / 2))
    if task == "regression":
        return "regression", "number"
    if np.isnan(known).any():
        return "classification", "text"
    if all(text.lower() in _TRUTH for text in _text(column[~missing], MISSING)):
        return "classification", "boolean"
    return "classification" if task == "classification" or (few and _whole(known).all()) else "regression", "number"


def _learn_column(name: str, column: Any, impute: bool) -> Column | str:
    """How a column is read, or why it is left out."""
    values, missing = _numbers(column)
    if name.startswith(_NAMELESS):  # row numbers, as pandas writes them; in a sorted file they give the target away
        return "no name"
    if missing.all():
        return "empty"
    if np.isnan(values[~missing]).any():
        levels = sorted(set(_text(column, MISSING)))
        fill = MISSING if impute else None
        return Column(name, "category", tuple(levels), fill) if len(levels) > 1 else "a single value"
    _check_finite(column, np.where(missing, 0.0, values))
    fill = float(np.median(values[~missing])) if impute else None
    return Column(name, "number", fill=fill) if np.ptp(values[~missing]) > 0 else "a single value"


def _text(column: Any, missing: str) -> list[str]:
    """Values as they are written; 1.0 is "1" again, which it was until a missing value made floats of its column."""
    values = zip(column.tolist(), column.isna().tolist(), strict=True)
    texts = ("" if gone else str(int(v)) if isinstance(v, float) and v.is_integer() else str(v) for v, gone in values)
    return [text.strip() or missing for text in texts]


def _numbers(column: Any) -> tuple[np.ndarray, np.ndarray]:
    """Values as float64, NaN where there is no number; and where values are missing."""
    from pandas.api.types import is_numeric_dtype

    if is_numeric_dtype(column.dtype):
        values = column.to_numpy(np.float64, na_value=np.nan)
        return values, np.isnan(values)
    texts = _text(column, "")
    known = {text: _number(text) for text in set(texts)}
    return np.array([known[text] for text in texts], np.float64), np.array([not text for text in texts], bool)


def _number(text: str) -> float:
    try:
        return _TRUTH[text.lower()] if text.lower() in _TRUTH else float(text.replace("_", "?"))  # 1_0 is no number
    except ValueError:
        return np.nan


def _whole(values: np.ndarray) -> np.ndarray:
    return (values == np.floor(values)) & (np.abs(values) < 2**53)  # beyond, floats skip whole numbers


def _check_values(column: Any, right: np.ndarray, must: str) -> None:
    if not right.all():
        got = f"got '{shown(column.iloc[np.argmin(right)])}' in row {np.argmin(right) + 1}"
        raise InvalidArgumentError(f"Column `{shown(column.name)}` must hold {must}, {got}; correct that value.")


def _check_finite(column: Any, values: np.ndarray, purpose: str = "") -> None:
    _check_values(column, np.isfinite(values), f"finite numbers{purpose}")
    _check_values(column, np.abs(values) <= LARGEST, f"numbers of at most {LARGEST:g} in size")


def _check_missing(frame: "pandas.DataFrame", columns: Iterable[Column], way_out: str) -> None:
    missing = {column.name: _numbers(frame[column.name])[1] for column in columns if column.fill is None}
    found = [f"`{shown(name)}` ({_rows(where)})" for name, where in missing.items() if where.any()]
    if found:
        raise InvalidArgumentError(f"Values are missing in {', '.join(found)}; {way_out}.")


def _check_categories(columns: Iterable[Column], rows: int) -> None:
    """No dates, names or free text among the categories."""
    most = min(100, max(10, rows // 5))
    trouble: dict[str, str] = {}
    for column in columns:
        levels = [level for level in column.levels if level != MISSING]
        example = next((level for level in levels if np.isnan(_number(level))), "")
        if levels and all(_DATE.match(level) for level in levels):
            trouble[column.name] = f"dates such as {shown(example)!r}, which are neither numbers nor a category"
        elif len(levels) > most:
            what = f"{len(levels)} different values, not all of them numbers (such as {shown(example)!r})"
            trouble[column.name] = f"{what}, where a category of {rows} rows may have {most}"
    if trouble:
        name, what = next(iter(trouble.items()))
        more = f" (and so do {', '.join(f'`{shown(other)}`' for other in [*trouble][1:])})" if len(trouble) > 1 else ""
        flags = " ".join(f"--ignore {shlex.quote(shown(name))}" for name in trouble)
        raise InvalidArgumentError(
            f"Column `{shown(name)}` holds {what}{more}; correct it or leave it out with `{flags}`."
        )


def _check_variety(labels: np.ndarray, fmt: TableFormat) -> None:
    values = np.unique(labels)
    if len(labels) < 2:
        raise InvalidArgumentError(f"The table must have at least two rows, got {len(labels)}.")
    if len(values) < 2:
        must = f"must have at least two different values, got '{shown(values[0])}' in all rows"
        raise InvalidArgumentError(f"The target `{shown(fmt.target)}` {must}; name another target.")
    if fmt.task == "regression":
        _, deviation = mean_and_scale(labels)
        if not 1e-150 <= deviation <= 1e150:
            what = f"a standard deviation of {deviation:.3g}, whose square no float holds"
            raise InvalidArgumentError(f"The target `{shown(fmt.target)}` has {what}; take another unit.")
    if fmt.task == "classification" and len(values) > max(2, len(labels) / 2):
        example = next((value for value in values if np.isnan(_number(str(value)))), values[0])
        got = f"has {len(values)} classes in {len(labels)} rows (such as '{shown(example)}')"
        way_out = "name another target, or correct what is not a number and use `--task regression`"
        raise InvalidArgumentError(f"The target `{shown(fmt.target)}` {got}; {way_out}.")


def _nearest(name: str, names: Iterable[str]) -> str:
    words = {other: other[:LONGEST].lower() for other in names}  # whatever stands in a file, it does not take long
    close = difflib.get_close_matches(name[:LONGEST].lower(), words.values())
    near = [other for other in names if words[other] in close]
    return f"near it are {some(near)}" if near else f"the columns are {some(names)}"


def _rows(where: np.ndarray) -> str:
    rows = np.flatnonzero(where) + 1
    return f"{len(rows)} of {len(where)} rows: {some(rows, 3)}"
