"""Raw tables as people have them, and what must happen with each."""

import gzip
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np


@dataclass(frozen=True)
class Raw:
    """One table in a file.

    Args:
        file: its name.
        rows: the cells, names first.
        sep: between them.
        encode: from text to what stands in the file.
        flags: said to `leadline fit`.
        columns: what each input is taken for; those not named are left out.
        left_out: why each other column is.
        says: what else must be said, on either stream.
        refused: what must be said instead of all this.
        pandas: how someone else reads the file, if it is to be read by Python, too.
        target: its name.
        task: what it turns out to be.
    """

    file: str
    rows: list[list[Any]]
    sep: str = ","
    encode: Callable[[str], bytes] = str.encode
    flags: tuple[Any, ...] = ()
    columns: dict[str, str] = field(default_factory=dict)
    left_out: dict[str, str] = field(default_factory=dict)
    says: tuple[str, ...] = ()
    refused: str = ""
    pandas: dict[str, Any] | None = None
    target: str = "y"
    task: str = "classification"

    @property
    def content(self) -> bytes:
        """Of the file."""
        return self.encode("\n".join(self.sep.join(map(str, row)) for row in self.rows) + "\n")


DRAW = np.random.default_rng(0)
N = 60
SIZE = DRAW.normal(size=N).round(3)
GROUP = DRAW.choice(["red", "green", "blue"], N)
CLASS = np.where(SIZE + (GROUP == "red") > 0.4, "yes", "no")
NUMBER = (10 * SIZE + 3 * (GROUP == "red")).round(2)
DAYS = np.datetime64("2020-01-15") + 17 * np.arange(N)
CODES = np.array(["01234", "04109", "10115", "99999"])[np.arange(N) % 4]


def table(*columns: Any, names: str) -> list[list[Any]]:
    """Names, and rows."""
    return [names.split(), *map(list, zip(*columns, strict=True))]


def comma(values: Any) -> list[str]:
    """1234.5 is 1.234,5."""
    return [f"{value:,}".translate(str.maketrans(",.", ".,")) for value in values]


def dates(pattern: str) -> list[str]:
    """As people write them."""
    return [day.strftime(pattern) for day in DAYS.tolist()]


def with_gaps(values: Any, *marks: str) -> list[str]:
    """Every seventh cell is a mark that says that there is nothing."""
    return [marks[i // 7 % len(marks)] if i % 7 == 3 else str(value) for i, value in enumerate(values)]


CATEGORY = "category of 3: blue, green, red"

TABLES: dict[str, Raw] = {
    "German Excel": Raw(
        "preise.csv",
        table(comma((1e4 * SIZE).round(1)), GROUP, comma(NUMBER), names="Größe group y"),
        sep=";",
        encode=lambda text: text.encode("cp1252"),
        columns={"Größe": "number", "group": CATEGORY},
        says=("is not UTF-8 and was read as Windows-1252",),
        pandas={"sep": ";", "decimal": ",", "thousands": ".", "encoding": "cp1252"},
        task="regression",
    ),
    "French prices": Raw(
        "prix.csv",
        [
            ["sep=;"],
            *table(
                with_gaps([f"{comma([price])[0].replace('.', chr(0x202F))} €" for price in (1e4 * SIZE).round(2)], "-"),
                [f"{str(value).replace('.', ',')} %" for value in SIZE],
                [f"{1 + i % 28} Feb 2020" for i in range(N)],
                [f"{str(value).replace('.', ',').replace('-', chr(0x2212))} kg" for value in NUMBER],
                names="prix part jour y",
            ),
        ],
        sep=";",
        encode=lambda text: text.encode("utf-16-le"),
        columns={"prix": "number in €; missing → ", "part": "number in %", "jour": "date: time, time of year, day of"},
        pandas={"sep": ";", "encoding": "utf-16-le", "skiprows": 1},
        task="regression",
    ),
    "tabs and question marks": Raw(
        "heart.txt",
        table(with_gaps(SIZE, "?"), with_gaps(GROUP, "?", "NA"), CLASS, names="size group y"),
        sep="\t",
        columns={
            "size": "number; missing → ",
            "group": 'category of 4: (missing), blue, green, red; missing → "(missing)"',
        },
        pandas={"sep": "\t"},
    ),
    "Unicode text": Raw(
        "unicode.tsv",
        table(SIZE, GROUP, np.where(CLASS == "yes", "はい", "いいえ"), names="サイズ group y"),
        sep="\t",
        encode=lambda text: text.encode("utf-16"),
        columns={"サイズ": "number", "group": CATEGORY},
        pandas={"sep": "\t", "encoding": "utf-16"},
    ),
    "quoted thousands and a mark": Raw(
        "sales.csv",
        table([f'"{1e4 * value:,.2f}"' for value in SIZE], GROUP, NUMBER, names="turnover group y"),
        encode=lambda text: text.encode("utf-8-sig"),
        columns={"turnover": "number", "group": CATEGORY},
        pandas={"thousands": ","},
        task="regression",
    ),
    "thousands or fractions": Raw(
        "unclear.csv",
        table(['"1,234"', '"5,678"', '"9,876"'] * 20, CLASS, names="amount y"),
        refused="`amount` has 1,234, whose comma may begin a fraction or set thousands apart "
        "(`--decimal ,` or `--decimal .` may help)",
    ),
    "thousands, as said": Raw(
        "said.csv",
        table([f'"{i + 1},234"' for i in range(N)], SIZE.astype(int), CLASS, names="amount whole y"),
        flags=("--decimal", "."),
        columns={"amount": "number", "whole": "number"},
    ),
    "times with a zone": Raw(
        "log.csv",
        table(SIZE, [f"{day} {i % 24:02d}:15:30+02:00" for i, day in enumerate(DAYS)], CLASS, names="size when y"),
        sep="|",
        columns={"size": "number", "when": "date: time, time of year, day of week, time of day"},
        pandas={"sep": "|", "parse_dates": ["when"]},
    ),
    "days first": Raw(
        "tage.csv",
        table(SIZE, with_gaps(dates("%d.%m.%Y"), "-", ""), CLASS, names="size day y"),
        sep=";",
        columns={"size": "number", "day": "date: time, time of year, day of week; missing → 2021-"},
        pandas={"sep": ";"},
    ),
    "days or months": Raw(
        "dates.csv",
        table(SIZE, [f"0{1 + i % 9}/0{1 + i % 7}/2020" for i in range(N)], CLASS, names="size day y"),
        refused="`day` has dates such as 01/01/2020, of which day and month cannot be told apart (write them as "
        "year-month-day) (`--category day` may help); correct it, or leave it out with `--ignore day`",
    ),
    "ids and zip codes": Raw(
        "customers.csv",
        table(
            [1000 + 7 * i for i in range(N)],
            [f"u-{i}" for i in range(N)],
            CODES,
            SIZE,
            CLASS,
            names="customer_id login zip size y",
        ),
        columns={"zip": "category of 4: 01234, 04109, 10115, 99999", "size": "number"},
        left_out={
            "customer_id": "an id: another number in every row",
            "login": "60 different texts in 60 rows, such as 'u-0'",
        },
        pandas={},
    ),
    "an id that means something": Raw(
        "patients.csv",
        table(range(N), CODES, CLASS, names="patientId zip y"),
        flags=("--number", "patientId", "--ignore", "zip"),
        columns={"patientId": "number"},
        left_out={"zip": "as asked"},
    ),
    "its own word for nothing": Raw(
        "unknown.csv",
        table(with_gaps(SIZE, "unbekannt"), CLASS, names="size y"),
        refused="`size` has numbers, but for 'unbekannt' in 9 of 60 rows: 4, 11, 18, ... (`--na unbekannt` may help)",
    ),
    "its own word, as said": Raw(
        "unknown.csv",
        table(with_gaps(SIZE, "unbekannt", "-999"), CLASS, names="size y"),
        flags=("--na", "unbekannt", "--na", "-999"),
        columns={"size": "number; missing → "},
        pandas={"na_values": ["unbekannt"]},
    ),
    "numbers that mean nothing": Raw(
        "codes.csv",
        table(with_gaps(SIZE, "-999"), GROUP, CLASS, names="size group y"),
        columns={"size": "number", "group": CATEGORY},
        says=("column `size` has -999 in 9 of 60 rows, far from all other values; if that means that there is none",),
    ),
    "rare classes": Raw(
        "rare.csv",
        table(SIZE, ["rare", "rarer", *CLASS[2:]], names="size y"),
        columns={"size": "number"},
        flags=("--class-weight", "balanced"),
        says=("fewer than 5 rows are of class rare (1), rarer (1)", "Of class rare, rarer no row is kept apart"),
    ),
    "tiny": Raw(
        "tiny.csv",
        table(SIZE[:6], list("ababab"), names="size y"),
        columns={"size": "number"},
        says=(
            "there are 5 rows to train on",
            "fewer than 5 rows are of class a (2), b (3)",
            "Only one row is kept apart",
        ),
    ),
    "wide": Raw(
        "wide.csv",
        table(
            *DRAW.normal(size=(300, 20)).round(3), list("ab" * 10), names=f"{' '.join(f'x{i}' for i in range(300))} y"
        ),
        columns={f"x{i}": "number" for i in range(300)},
        says=("Only 4 rows are kept apart",),
    ),
    "truth in many words": Raw(
        "truth.csv",
        table(
            np.where(SIZE > 0, "TRUE", "FALSE"),
            np.where(GROUP == "red", "y", "n"),
            np.arange(N) % 2 == 0,
            names="big red y",
        ),
        columns={"big": "number", "red": "category of 2: n, y"},
        pandas={},
    ),
    "columns that say nothing": Raw(
        "index.csv",
        [["", "size", "one", "none", "y"], *map(list, zip(range(N), SIZE, [5] * N, [""] * N, CLASS, strict=True))],
        columns={"size": "number"},
        left_out={"Unnamed: 0": "no name", "one": "a single value", "none": "empty"},
        pandas={},
    ),
    "four problems": Raw(
        "problems.csv",
        table(
            with_gaps(SIZE, "n/k"),
            [f"0{1 + i % 9}/0{1 + i % 7}/2020" for i in range(N)],
            ["inf" if i == 5 else value for i, value in enumerate(SIZE)],
            with_gaps(CLASS, ""),
            names="size day more y",
        ),
        refused="The table has 4 problems: (1) column `size` has numbers, but for 'n/k'",
    ),
    "a class of question marks": Raw(
        "vote.csv",
        table(SIZE, with_gaps(CLASS, "?"), names="size y"),
        columns={"size": "number"},
        says=("target `y` has a class ? (9 of 60 rows: 4, 11, 18, ...); if that means that there is none, name it",),
        pandas={},
    ),
    "question marks for no class": Raw(
        "vote.csv",
        table(SIZE, with_gaps(CLASS, "?"), names="size y"),
        flags=("--na", "?", "--drop-missing-target"),
        columns={"size": "number"},
        says=("9 of 60 rows: 4, 11, 18, ... have no `y` and are left out",),
    ),
    "rows without a target": Raw(
        "targets.csv",
        table(SIZE, GROUP, with_gaps(CLASS, ""), names="size group y"),
        flags=("--drop-missing-target",),
        columns={"size": "number", "group": CATEGORY},
        says=("9 of 60 rows: 4, 11, 18, ... have no `y` and are left out",),
    ),
    "spaces between": Raw(
        "old.data",
        table([f"  {value:9.3f}" for value in SIZE], [f"{i:4d}  " for i in range(N)], NUMBER, names="size i y"),
        sep="  ",
        columns={"size": "number", "i": "number"},
        pandas={"sep": r"\s+"},
        task="regression",
    ),
    "zipped, quoted, with Windows' line ends": Raw(
        "packed.csv.gz",
        table(SIZE, [f'"{one},""\nso"' for one in GROUP], CLASS, names="size group y"),
        encode=lambda text: gzip.compress(text.replace("\n", "\r\n").encode(), mtime=0),
        columns={
            "size": "number",
            "group": 'category of 3: blue,"\\r\\nso, green,"\\r\\nso, red,"\\r\\nso',
        },
        pandas={},
    ),
    "too many levels": Raw(
        "cities.csv",
        table(
            [f"city {min(i, j)}" for i, j in zip(np.arange(N) % 19, np.arange(N) % 23, strict=True)],
            SIZE,
            CLASS,
            names="city size y",
        ),
        columns={"city": "category of 12 of 19", "size": "number"},
        says=("column `city` has categories that were not trained on, or too rare: city 1",),
    ),
    "weights": Raw(
        "weights.csv",
        table(SIZE, 1 + np.arange(N) % 3, CLASS, names="size counts y"),
        flags=("--weight", "counts"),
        columns={"size": "number"},
        left_out={"counts": "as asked"},
    ),
}
