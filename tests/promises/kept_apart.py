"""Every row kept apart is counted: measures against those recomputed from the model file, and from what `predict` says
of the rows of the table that were not trained on."""

import csv
import json
import random
import re
import shutil
import traceback
import warnings
from collections import Counter, defaultdict
from pathlib import Path
from typing import Any

import numpy as np

from leadline import DepthClassifier, load
from leadline.files.formats import Asked, learn_format, targets
from leadline.files.tables import read_table
from leadline.studies.tables import split
from tests.promises.command import leadline

SMALL = ("--epochs", 3, "--restarts", 1, "--width", 4, "--quiet")
NAMES = [
    *("a", "b", "B", "yes", "no", "1", "1.0", "01", "-1", "x y", "+", "-", "1_0", "0x10", "1e5x", "?"),
    *("=1+1", "'=1+1", "-a", "@x", "é", "名", "nothing", "2024-01-01", "p(a)", "True!", "two\nlines", "tab\tin"),
    *('a "quoted" one', "a, b"),
]
"""Of classes."""

WHOLE = [*range(-3, 10), 2**40, -(2**40), 10**6]


class Tables:
    """Tables with classes of one row and of many, or numbers, of which some rows are kept apart."""

    def __init__(self, folder: Path, seed: int) -> None:
        self.folder, self.rng = folder, random.Random(seed)
        self.figures: Counter[str] = Counter()

    def labels(self, n: int, pool: list[Any]) -> list[str]:
        """A few classes have most of the rows, some have one or two."""
        pool = self.rng.sample(pool, min(len(pool), n // 2))
        common = self.rng.choice([1, 2, 2, 3])
        rare = [label for label in pool[common:][: self.rng.randrange(8)] for _ in range(self.rng.choice([1, 1, 1, 2]))]
        rare = (rare or [pool[-1]])[: n - 2]
        few = rare + [self.rng.choice(pool[:common]) for _ in range(n - len(rare))]
        return [*map(str, self.rng.sample(few, n))]

    def target(self, n: int) -> tuple[str, list[str]]:
        """What it is learned as, and its values."""
        kind, gauss = self.rng.choice(["text", "text", "whole", "truth", "number", "number"]), self.rng.gauss
        if kind == "text":
            return "classification", ["a" if label == "b" else label for label in self.labels(n - 1, NAMES)] + ["b"]
        if kind == "whole":
            return "classification", self.labels(n, WHOLE)
        if kind == "truth":
            spelling = self.rng.choice([("true", "false"), ("True", "False"), ("TRUE", "false")])
            return "classification", [spelling[self.rng.random() < 0.2] for _ in range(n - 2)] + [*spelling]
        scale, place = 10 ** self.rng.uniform(-6, 6), self.rng.choice([0.0, 100.0])
        if self.rng.random() < 0.3:
            return "regression", [str(self.rng.choice(WHOLE[:-3])) for _ in range(n - 2)] + ["0", "11"]
        return "regression", [repr(scale * (gauss(0, 1) + place)) for _ in range(n)]

    def rows(self, n: int) -> list[list[str]]:
        """Of inputs: numbers, a category or none, some rows twice."""
        levels = self.rng.choice([[], ["red"], ["red", "blue", "=x"]])
        numbers = [[f"{self.rng.gauss(0, 1):.4f}", f"{self.rng.gauss(0, 9):.1f}"] for _ in range(n)]
        made = [[*row, self.rng.choice(levels)] if levels else row for row in numbers]
        return [made[self.rng.randrange(n)] if self.rng.random() < 0.1 else row for row in made]

    def case(self, number: int) -> str | None:
        """One fit and one comparison; what they do not say right, if anything."""
        place, n = self.folder / f"case{number}", self.rng.choice([6, 10, 20, 40, 80])
        place.mkdir()
        task, values = self.target(n)
        rows = self.rows(n)
        table = written(place / "table.csv", [[*row, value] for row, value in zip(rows, values, strict=True)])
        share = self.rng.choice([0.0, 0.1, 0.2, 0.2, 0.3, 0.5, round(self.rng.random(), 3)])
        seed, depth = self.rng.randrange(1000), self.rng.choice(["normal", "0", "poisson"])
        asked = ("--target", "y", "--task", task, "--test", share, "--seed", seed, "--depth", depth, *SMALL)
        said = f"{n} rows of {dict(Counter(values))} as {task}, {' '.join(map(str, asked))}"
        try:
            wrong = self.checked(place, table, task, values, share, seed, asked)
        except Exception:
            return f"{said}: {traceback.format_exc(limit=-3)}"
        shutil.rmtree(place)
        return f"{said}: {wrong}" if wrong else None

    def checked(
        self, place: Path, table: Path, task: str, values: list[str], share: float, seed: int, asked: tuple[Any, ...]
    ) -> str | None:
        n_test, of_classes = round(share * len(values)), task == "classification"
        fitted = leadline("fit", table, "--out", place / "run", *asked)
        compared = leadline("compare", table, *asked, "--against", "none", "--out", place / "compared", "--quiet")
        frame = read_table(table)
        fmt = learn_format(frame, "y", Asked(task=task))
        x, y = fmt.encoding.encode(frame)[0], targets(frame, fmt)
        if n_test and len(y) - n_test < max(2, len(np.unique(y)) if of_classes else 2):
            self.figures["refused"] += 1
            refused = fitted.refused and compared.refused and "`test` must leave" in fitted.err
            return None if refused else f"it was not refused: {fitted}, {compared}"
        if fitted.code or compared.code:
            return f"exit status {fitted.code}, {compared.code}: {fitted.err}{compared.err}"
        record, model = json.loads((place / "run" / "record.json").read_text()), load(place / "run/model.safetensors")
        parts = split(frame, fmt, share, seed)
        where = defaultdict(list)
        for i, key in enumerate(map(_key, x, y)):
            where[key].append(i)
        trained, kept = (
            [where[key].pop() for key in map(_key, fmt.encoding.encode(part[0])[0], part[1])] for part in both(parts)
        )
        if sorted(trained + kept) != [*range(len(y))] or (record["n_test"], len(kept)) != (n_test, n_test):
            return f"of {len(y)} rows, {len(trained)} are trained on and {record['n_test']} kept apart"
        learned = model.encoder_.encoding_.encode(frame)[0]  # whose categories are those that were trained on
        if not np.allclose(model.x_mean_, learned[trained].mean(axis=0)):
            return "other rows were trained on than those that were not kept apart"
        if of_classes and model.classes_.tolist() != np.unique(y).tolist():
            return f"it knows {model.classes_} of {np.unique(y)}"
        [row] = json.loads((place / "compared" / "compared.json").read_text())["candidates"]
        if not kept:
            self.figures["nothing kept"] += 1
            measured = {"accuracy", "rmse", "nll"} & {*record, *row}
            return f"it measures {measured} of nothing" if measured else None
        self.figures["rows kept"] += n_test
        self.figures["with a class of one row"] += of_classes and 1 in np.unique(y, return_counts=True)[1]
        told = self.of_predict(place, table, kept, values, of_classes)
        for source, expected, tolerance in (
            ("the model", of_the_model(model, frame.iloc[kept], y[kept]), 1e-9),
            ("`predict`", told, 1e-5 if of_classes else 2e-3),  # it writes six digits
        ):
            for name, value in expected.items():
                if not np.isclose(record[name], value, rtol=tolerance, atol=0 if name == "rmse" else tolerance):
                    return f"by {source} {name} is {value}, recorded is {record[name]}"
        expected_nll = record["nll"] if of_classes else -record["ll_mixture"]
        close = abs(row["nll"] - expected_nll) < 1e-4
        return None if close else f"compared is {row['nll']}, recorded {expected_nll}"

    def of_predict(
        self, place: Path, table: Path, kept: list[int], values: list[str], of_classes: bool
    ) -> dict[str, float]:
        """From the table of predictions for the rows that were kept."""
        with table.open(newline="", encoding="utf-8") as file:
            _, *rows = csv.reader(file)
        new = written(place / "kept.csv", [rows[i] for i in kept])
        done = leadline("predict", place / "run", new, "--out", place / "p.csv", "--quiet")
        assert done.code == 0, done.err
        with (place / "p.csv").open(newline="", encoding="utf-8") as file:
            predicted = list(csv.DictReader(file))
        if not of_classes:
            error = [float(row["y"]) - float(values[i]) for row, i in zip(predicted, kept, strict=True)]
            return {"rmse": float(np.sqrt(np.mean(np.square(error))))}
        labels = [name[2:-1] for name in predicted[0] if re.fullmatch(r"p\(.*\)", name, re.DOTALL)]
        p = np.array([[float(row[f"p({label})"]) for label in labels] for row in predicted])
        right = np.array([[same(label, values[i]) for label in labels] for i in kept])
        assert (right.sum(axis=1) == 1).all(), (labels, [values[i] for i in kept])
        chosen = [re.sub(r"^'('*[=+\-@].)", r"\1", row["y"], flags=re.DOTALL) for row in predicted]
        return {
            "accuracy": 100 * float(np.mean([same(one, values[i]) for one, i in zip(chosen, kept, strict=True)])),
            "nll": float(-np.mean(np.log(p[right]))),
            "brier": float(np.mean(np.sum((p - right) ** 2, axis=1))),
        }


def of_the_model(model: Any, x: Any, y: np.ndarray) -> dict[str, float]:
    """Row by row, as one would by hand."""
    if not isinstance(model, DepthClassifier):
        errors = np.array([of_row - truth for of_row, truth in zip(model.predict(x), y, strict=True)])
        return {
            "rmse": float(np.sqrt(np.mean(errors**2))),
            "ll_mixture": float(np.mean(model.log_likelihood(x, y))),
        }
    classes, nll, brier, right = model.classes_.tolist(), 0.0, 0.0, 0
    for p, label in zip(model.predict_proba(x), y.tolist(), strict=True):
        right += classes[int(p.argmax())] == label
        nll -= np.log(p[classes.index(label)])
        brier += sum((p[i] - (one == label)) ** 2 for i, one in enumerate(classes))
    return {"accuracy": 100 * right / len(y), "nll": float(nll / len(y)), "brier": float(brier / len(y))}


def both(parts: Any) -> tuple[tuple[Any, Any], tuple[Any, Any]]:
    """The rows to train on, and those kept apart."""
    return (parts.x, parts.y), (parts.x_test, parts.y_test)


def same(label: str, value: str) -> bool:
    """Whether a class is the one that stands in the table."""
    if label in ("True", "False"):
        return label.lower() == value.lower()
    return label == value


def written(path: Path, rows: list[list[str]]) -> Path:
    """A table with such rows."""
    with path.open("w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows([[*"abcdefg"[: len(rows[0]) - 1], "y"], *rows])
    return path


def _key(x: np.ndarray, y: Any) -> tuple[Any, ...]:
    return (*x.tolist(), y)


def campaign(folder: Path, n_cases: int, seed: int) -> dict[str, Any]:
    """So many tables, fitted and compared."""
    tables = Tables(folder, seed)
    with warnings.catch_warnings(action="ignore"):
        outcomes = [tables.case(i) for i in range(n_cases)]
    return {"tried": n_cases, "failed": [outcome for outcome in outcomes if outcome], **tables.figures}
