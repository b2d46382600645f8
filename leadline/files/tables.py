"""Files become tables: CSV in its many shapes, and Parquet."""

import csv
import encodings.cp1252
import encodings.utf_16
import encodings.utf_16_be
import encodings.utf_16_le
import encodings.utf_32  # noqa: F401  # so that nothing is imported because of what stands in a file
import gzip
import io
import re
import warnings
import zlib
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

from leadline._checks import WRONG, InvalidArgumentError, check_choice, tell
from leadline._foreign import some
from leadline.files.formats import TableFormat
from leadline.files.learning import NAMELESS, learn_decimal
from leadline.files.whole import check_room, open_regular, open_text, within_memory

if TYPE_CHECKING:  # at run time inside the functions: it is slow to import
    import pandas

_USUAL = {".csv": ",", ".tsv": "\t", ".tab": "\t", ".txt": "\t", ".data": ",", ".dat": "\t"}
"""What separates the cells of a text, by how its name ends (also before .gz)."""

_SEPARATORS = (",", ";", "\t", "|")

_WORDS = {"comma": ",", "semicolon": ";", "tab": "\t", "\\t": "\t", "pipe": "|", "space": r"\s+", " ": r"\s+"}
"""How separators may be called."""

_SAID = re.compile(r'"?sep=(.)"?')
"""What Excel writes above the names, and reads there."""

_ZIPPED = b"\x1f\x8b"
"""How a file begins that is zipped, whatever its name is."""

_SAMPLE = 1 << 16
"""Bytes that tell how a text is written."""


def read_table(
    path: Path, fmt: TableFormat | None = None, *, sep: str | None = None, encoding: str | None = None
) -> "pandas.DataFrame":
    """The table in a text file (.csv, .tsv, .tab, .txt, .data or .dat, each also .gz) or in a .parquet file.

    What can be a number is one, unless it would lose characters ("01234", "1.234,5"): then all is text, as it stands in
    the file.

    Args:
        path: of the file.
        fmt: of the training table: with it, categories and dates are text in any case, so that no row changes how
            another is read.
        sep: what separates the cells; None: what gives the most columns, alike in the first lines.
        encoding: of a text; None: UTF-32, UTF-16 or UTF-8 as it begins, or else Windows-1252, which is said.
    """
    name = path.name.lower().removesuffix(".gz")
    ending = next((end for end in (*_USUAL, ".parquet") if name.endswith(end)), None)
    if ending is None or (ending == ".parquet" and path.name.lower().endswith(".gz")):
        raise InvalidArgumentError(f"`{path}` must end in {', '.join(_USUAL)} (also .gz) or .parquet.")
    of_text = ending != ".parquet"
    try:
        with within_memory(path), (open_text if of_text else open_regular)(path) as file:
            frame = _Text(file, path, ending, sep, encoding).frame(fmt) if of_text else _read_parquet(file)
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


class _Text:
    """A text file with a line of names, and how it is written."""

    def __init__(self, file: BinaryIO, path: Path, ending: str, sep: str | None, encoding: str | None):
        self._file = file
        self._zipped = path.name.lower().endswith(".gz") or file.read(2) == _ZIPPED
        sample = self._bytes().read(_SAMPLE)
        self._encoding = encoding or self._found_encoding(sample, path)
        try:
            lines = io.StringIO(sample.decode(self._encoding, errors="ignore"), newline="").read().splitlines()
        except LookupError as error:
            raise InvalidArgumentError(f"must be one that Python knows, got {encoding!r}.", "encoding") from error
        whole_lines = lines if len(sample) < _SAMPLE else lines[:-1]
        said = _SAID.fullmatch(whole_lines[0]) if whole_lines else None
        self._lines_above = 1 if said else 0
        sep = said[1] if said and sep is None else sep
        self._sep = _found_separator(whole_lines, _USUAL[ending]) if sep is None else _WORDS.get(sep, sep)
        if sep is not None:
            check_choice("sep", self._sep, (*_SEPARATORS, r"\s+", *_WORDS) if len(self._sep) != 1 else (self._sep,))

    def frame(self, fmt: TableFormat | None) -> "pandas.DataFrame":
        """With numbers where nothing is lost by it."""
        if fmt is not None:
            text = {column.name for column in fmt.encoding.columns if column.kind != "number"}
            text |= {fmt.target} if fmt.target_kind == "text" else set()
            return self._read(lambda name: fmt.encoding.reading.decimal != "." or name in text)
        frame = self._read(lambda name: False)
        return self._read(lambda name: True) if learn_decimal(frame) != "." or self._has_codes() else frame

    def _read(self, is_text: Callable[[str], bool]) -> "pandas.DataFrame":
        import pandas as pd

        # Whole columns at once (low_memory) and no row names (index_col), so that no row changes how another is read.
        options: dict[str, Any] = {"low_memory": False, "index_col": False, "encoding": self._encoding}
        options |= {"sep": self._sep, "skipinitialspace": True, "compression": "gzip" if self._zipped else None}
        options |= {"skiprows": self._lines_above}
        self._file.seek(0)
        header = pd.read_csv(self._file, **options, header=None, nrows=1, dtype=object, keep_default_na=False)
        names = _clean(header.iloc[0])
        self._file.seek(0)
        with warnings.catch_warnings():
            warnings.simplefilter("error", pd.errors.ParserWarning)  # what it says of rows longer than the header
            # By place, not by name, because a name may stand there twice.
            options["dtype"] = {i: object for i, name in enumerate(names) if is_text(name)}
            options |= {"header": 0, "names": range(len(names))}
            return pd.read_csv(self._file, **options).set_axis(names, axis=1)

    def _has_codes(self) -> bool:
        """Whether a cell may be made of digits of which the first is a zero."""
        if self._encoding.startswith(("utf-16", "utf-32")):
            return True  # or not; as text nothing is lost
        edge = re.escape(self._sep.encode()) if len(self._sep) == 1 else rb"\s"
        code = re.compile(rb'[\n"%b] *0\d+ *["%b\r\n]' % (edge, edge))
        raw, before = self._bytes(), b"\n"
        while part := raw.read(1 << 22):
            if code.search(before + part):
                return True
            before = part[-64:]
        return False

    def _bytes(self) -> Any:
        """What can be read, from its beginning."""
        self._file.seek(0)
        return gzip.GzipFile(fileobj=self._file) if self._zipped else self._file

    @contextmanager
    def _text(self, encoding: str, errors: str = "strict") -> Iterator[io.TextIOWrapper]:
        text = io.TextIOWrapper(self._bytes(), encoding, errors)
        try:
            yield text
        finally:
            text.detach()  # or the file would be closed with it

    def _found_encoding(self, sample: bytes, path: Path) -> str:
        if sample[:4] in (b"\xff\xfe\x00\x00", b"\x00\x00\xfe\xff"):
            return "utf-32"
        if sample[:2] in (b"\xff\xfe", b"\xfe\xff"):
            return "utf-16"
        for name, zeros in (("utf-16-le", sample[1:200:2]), ("utf-16-be", sample[0:200:2])):
            if zeros.count(0) > len(zeros) / 2:  # every other byte of Latin letters, where no mark says so
                return name
        try:
            with self._text("utf-8-sig") as text:
                while text.read(1 << 20):
                    pass
        except UnicodeDecodeError:
            tell(f"`{path}` is not UTF-8 and was read as Windows-1252; if letters are wrong, use `--encoding`.")
            return "cp1252"
        return "utf-8-sig"  # which drops the mark that Excel puts first


def _found_separator(lines: list[str], usual: str) -> str:
    """What gives the most columns, the first lines having as many as the names; else the usual one."""
    found = {sep: _columns(lines, sep) for sep in (usual, *_SEPARATORS)}
    best = max(found, key=lambda sep: found[sep])
    if found[best] > 1:
        return best
    by_space = [len(line.split()) for line in lines[:20] if line.strip()]
    return r"\s+" if len(by_space) > 1 and by_space[0] > 1 and len(set(by_space)) == 1 else usual


def _columns(lines: list[str], sep: str) -> int:
    """How many there would be, or 0 if lines differ; a last cell may be empty."""
    try:
        cells = [row for row in csv.reader(lines[:50], delimiter=sep, skipinitialspace=True) if row][:20]
    except csv.Error:
        return 0
    n = len(cells[0]) if cells else 0
    return n if all(len(row) in (n, n + 1) for row in cells[1:]) else 0


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
    return [str(name).strip() or f"{NAMELESS}{i}" for i, name in enumerate(names)]


def _reason(error: BaseException) -> str:
    from pandas.errors import EmptyDataError, ParserError, ParserWarning

    if isinstance(error, ImportError):
        return 'it needs pyarrow; install it with `pip install "leadline[parquet]"`'
    if isinstance(error, EmptyDataError):
        return "it is empty; it must start with a line of column names"
    if isinstance(error, UnicodeDecodeError):
        return "its letters are in another encoding; name it with `--encoding`"
    if isinstance(error, ParserError) and (row := re.search(r"EOF inside string starting at row (\d+)", str(error))):
        where = f"row {row[1]}" if int(row[1]) else "the line of column names"  # which pandas counts, too
        return f"the quote that opens in {where} never closes; close it"
    if isinstance(error, ParserWarning) or (isinstance(error, ParserError) and "fields" in str(error)):
        line = re.search(r"line (\d+)", str(error))
        where = f"line {line[1]} has" if line else "rows have"
        way_out = "check separators and quotes there, and take lines away that stand above the names"
        return f"{where} more fields than the line of column names; {way_out}"
    words = getattr(error, "strerror", None) or re.split(r"\.\s|\n", str(error))[0].rstrip(".")
    return f"{words}; check the file"
