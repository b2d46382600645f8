"""A prediction is a finite number or a refusal, and what stands in the CSV is what the model says."""

import csv
import random
import re
import shutil
import traceback
import warnings
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas

from leadline import DepthClassifier, InvalidArgumentError, load
from leadline._checks import LARGEST
from leadline.files.formats import TableFormat
from leadline.files.records import read_record
from leadline.files.tables import read_table
from tests.promises.command import leadline
from tests.promises.foreign_files import TooLong, within

SMALL = ("--epochs", 3, "--restarts", 1, "--width", 4, "--quiet")
N_ROWS = 30

TARGETS = [
    *("price", "std", "low_90", "high_90", "noise_nats", "noise_variance", "weights_nats", "depth_variance", "p(no)"),
    *(
        "p(0)",
        "std_",
        "a,b",
        'the "best"',
        "two\nlines",
        "a\rb",
        "价格",
        "=1+1",
        "Unnamed: 3",
        "0",
        "p(True)",
        "p(a,b)",
    ),
]
CLASSES: list[list[Any]] = [
    *(["no", "yes"], ["std", "low_90"], ["a,b", 'c"d'], ["two\nlines", "价格"], ["a\rb", "b"], ["=1+1", "-2", "1e5x"]),
    *(
        [0, 1],
        [-3, 7, 2**40],
        [True, False],
        ["x" * 300, "y"],
        ["no", "no_", "p(no)"],
        ["\ufeff", "é"],
        ["'", '"', ","],
    ),
]
COLUMNS = ["size", "a,b", 'x"y', "new\nline", "大小", "std", "p(no)", "1e5", "\x07bell", "C" * 200]
SIZES = [0.0, 1.0, 1e-308, 5e-324, 1e-30, 1e-5, 1e5, 1e15, 1e19, 1e30, 3e37, 4e38, 1e39, 1e100, 1e155, 1e300, 1e308]
"""Of cells, with either sign."""
NOTES = ("the target is called", "text that begins with =, +, - or @ has ' before it")
FORMULA = re.compile(r"^'('*[=+@\-\t\r].)", re.DOTALL)
"""What text becomes that a spreadsheet would run: without the first apostrophe it is itself again."""


class Fitted(NamedTuple):
    """A run on the disk, its model, and what is known of its table."""

    run: Path
    estimator: Any
    fmt: TableFormat
    x_mean: np.ndarray
    x_scale: np.ndarray


class Predictions:
    """Tables of all kinds, models of a few, and what these say."""

    def __init__(self, folder: Path, seed: int) -> None:
        self.folder, self.rng = folder, random.Random(seed)
        self.fitted: list[Fitted] = []
        self.counts = {"fitted": 0, "predicted": 0, "refused": 0}

    def power(self, low: float, high: float) -> float:
        return 10 ** self.rng.uniform(low, high)

    def write(self, path: Path, columns: dict[str, list[Any]]) -> Path:
        with path.open("w", newline="", encoding="utf-8") as file:
            writer = csv.writer(file, quoting=csv.QUOTE_ALL)
            writer.writerow(columns)
            writer.writerows(zip(*columns.values(), strict=True))
        return path

    def fit(self, number: int) -> str | None:
        """A model of a new table."""
        rng, draw = self.rng, np.random.default_rng(number)
        target = rng.choice(TARGETS)
        names = rng.sample([name for name in COLUMNS if name != target], rng.choice([1, 2, 3]))
        wide = rng.random() < 0.3
        mean = np.array([rng.choice([0.0, 1.0, -self.power(-300, 300) if wide else 1e6]) for _ in names])
        scale = np.array([self.power(-300, 300) if wide else self.power(-3, 3) for _ in names])
        standard = draw.normal(size=(N_ROWS, len(names)))
        numbers = number % 2 == 0
        if numbers:
            offset = rng.choice([0.0, 1.7e9, -1e-5, rng.choice([-1, 1]) * self.power(-150, 150)])
            spread = rng.choice([1.0, 100.0, self.power(-12, 3) * abs(offset), self.power(-200, 200)])
            y = (offset + spread * (standard[:, 0] + 0.1 * draw.normal(size=N_ROWS))).tolist()
        else:
            labels = rng.choice(CLASSES)
            y = [labels[i % len(labels)] for i in np.argsort(standard[:, 0])]
        columns: dict[str, list[Any]] = {target: y}
        columns |= {name: (mean + scale * standard)[:, i].tolist() for i, name in enumerate(names)}
        table, run = self.write(self.folder / "train.csv", columns), self.folder / f"run{number}"
        task = "regression" if numbers else "classification"
        done = leadline("fit", table, "--target", target, "--task", task, "--out", run, *SMALL)
        if done.refused:
            self.counts["refused"] += 1
            shutil.rmtree(run, ignore_errors=True)
            return None
        if done.code != 0:
            return f"exit status {done.code}: {done.err[-300:]}"
        self.counts["fitted"] += 1
        fmt = TableFormat.from_json(read_record(run).table)
        model = load(run / "model.safetensors")
        kept = [
            names.index(column.name) for column in fmt.encoding.columns
        ]  # others have a single value, as far as floats go
        self.fitted.append(Fitted(run, model, fmt, mean[kept], scale[kept]))
        return None

    def rows(self, model: Fitted) -> np.ndarray:
        """New rows, near and far."""
        n, rng = self.rng.choice([1, 3, 20]), np.random.default_rng(self.rng.getrandbits(32))
        x = model.x_mean + model.x_scale * rng.normal(size=(n, len(model.x_mean)))
        with np.errstate(over="ignore"):
            for _ in range(self.rng.choice([0, 1, 1, 3])):
                i, j = self.rng.randrange(n), self.rng.randrange(x.shape[1])
                far = self.rng.choice([-1, 1]) * self.rng.choice(SIZES)
                x[i, j] = self.rng.choice([far, model.x_mean[j] + model.x_scale[j] * far])
        return np.clip(x, -1.7e308, 1.7e308)

    def predict(self, number: int) -> str | None:
        """A table of new rows, on the command line and in Python."""
        model = self.rng.choice(self.fitted[-6:])
        x = self.rows(model)
        features = [column.name for column in model.fmt.encoding.columns]
        table = self.write(self.folder / "new.csv", {name: x[:, i].tolist() for i, name in enumerate(features)})
        out = self.folder / "predictions.csv"
        done = leadline("predict", model.run, table, "--out", out, "--quiet", "--force")
        said = f"{model.fmt.target!r}, {getattr(model.estimator, 'classes_', None)}, {x.tolist()}"
        if done.code not in (0, 2) or (done.code == 2 and not done.refused):
            return f"{said}: exit status {done.code}: {done.err[-300:]}"
        if any("note: " in line and not any(note in line for note in NOTES) for line in done.err.splitlines()):
            return f"{said}: {done.err}"
        wrong = self.in_python(model, x)
        if wrong is not None:
            return f"{said}: {wrong}"
        if done.refused:
            self.counts["refused"] += 1
            with np.errstate(over="ignore"):
                far = np.abs((x - model.estimator.x_mean_) / model.estimator.x_scale_).max()
            far = far > 1e15 or far * getattr(model.estimator, "y_scale_", 1.0) > 1e145  # whose square no float holds
            far = far or np.abs(x).max() > LARGEST
            named = any(f"in row {i + 1}" in done.err for i in range(len(x)))
            return None if far and named else f"{said}: refused: {done.err}"
        self.counts["predicted"] += 1
        wrong = self.differs(model, read_table(table, model.fmt), out)
        return None if wrong is None else f"{said}: {wrong}"

    def differs(self, model: Fitted, x: Any, out: Path) -> str | None:
        """What the table of predictions says otherwise than the model."""
        with out.open(newline="", encoding="utf-8") as file:
            header, *rows = [[FORMULA.sub(r"\1", cell) for cell in row] for row in csv.reader(file)]
        if len(set(header)) != len(header) or any(len(row) != len(header) for row in rows) or len(rows) != len(x):
            return f"a table of {len(rows)} rows with the columns {header}"
        columns = dict(zip(header, zip(*rows, strict=True), strict=True))
        own = lambda name: columns.pop(f"{name}_" if name == model.fmt.target else name)  # noqa: E731
        one, parts = model.estimator, model.estimator.uncertainty(x)
        unit = "nats" if isinstance(one, DepthClassifier) else "variance"
        values = {f"{name}_{unit}": (getattr(parts, name), 1e-5) for name in ("noise", "weights", "depth")}
        if isinstance(one, DepthClassifier):
            predicted = [str(label) for label in one.predict(x)]
            if list(columns.pop(model.fmt.target)) != predicted:
                return "other classes"
            probabilities = one.predict_proba(x)
            values |= {f"p({label})": (probabilities[:, i], 1e-5) for i, label in enumerate(one.classes_)}
        else:
            mean, std = one.predict(x, return_std=True)
            low, high = one.predict_interval(x, 0.9).T
            if not np.all(np.abs(np.array(columns.pop(model.fmt.target), float) - mean) <= 1e-3 * std):
                return f"a mean of {mean} with a deviation of {std}"
            values |= {"std": (std, 1e-5)}
            for name, end in {"low_90": low, "high_90": high}.items():
                if not np.all(np.abs(np.array(own(name), float) - end) <= 1e-3 * std):
                    return f"{name} of {end} with a deviation of {std}"
        for name, (value, tolerance) in values.items():
            written = np.array(own(name), float)
            if not np.all(np.isfinite(written) & (np.abs(written - value) <= tolerance * np.abs(value))):
                return f"{name} of {value}, written {written}"
        return f"more columns: {list(columns)}" if columns else None

    def in_python(self, model: Fitted, numbers: np.ndarray) -> str | None:
        """What is not finite and not refused."""
        one, rng = model.estimator, np.random.default_rng(len(numbers))
        x = pandas.DataFrame(numbers, columns=[column.name for column in model.fmt.encoding.columns])
        asked = {"uncertainty": lambda: [getattr(one.uncertainty(x), name) for name in ("noise", "weights", "depth")]}
        if isinstance(one, DepthClassifier):
            asked |= {
                "predict_proba": lambda: one.predict_proba(x),
                "predict_log_proba": lambda: one.predict_log_proba(x),
            }
        else:
            with np.errstate(over="ignore"):
                y = one.y_mean_ + one.y_scale_ * self.rng.choice([1.0, *SIZES]) * rng.normal(size=len(x))
            y = np.clip(y, -1.7e308, 1.7e308)
            asked |= {"predict": lambda: one.predict(x, return_std=True), "interval": lambda: one.predict_interval(x)}
            asked |= {"log_likelihood": lambda: one.log_likelihood(x, y), "cdf": lambda: one.predict_cdf(x, y)}
        for name, ask in asked.items():
            with warnings.catch_warnings():
                warnings.simplefilter("error")
                warnings.filterwarnings("ignore", module="sklearn")  # which adds up what it checks
                try:
                    got = np.asarray(ask())
                except InvalidArgumentError as error:
                    sentence = str(error)
                    if not (sentence.endswith(".") and sentence.isprintable() and "in row " in sentence):
                        return f"{name}: {sentence}"
                    continue
            if not np.all(np.isfinite(got)):
                return f"{name} is {got}"
        return None

    def case(self, number: int) -> str | None:
        """A fit where there is no model, and now and then; else predictions."""
        try:
            with within(20):
                if not self.fitted or number % 12 == 0:
                    return self.fit(self.rng.getrandbits(16))
                return self.predict(number)
        except (Exception, TooLong):
            return traceback.format_exc(limit=-4)


def campaign(folder: Path, n_cases: int, seed: int) -> dict[str, Any]:
    """So many tables, most of them to predict."""
    predictions = Predictions(folder, seed)
    with warnings.catch_warnings(action="ignore"):
        outcomes = [predictions.case(i) for i in range(n_cases)]
    return {"tried": n_cases, "failed": [one for one in outcomes if one], **predictions.counts}
