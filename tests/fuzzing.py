"""Files that were never written so: mutations of real ones, and what a reader may do with them.

A reader takes a file, or refuses it with one sentence. It raises nothing else, writes nothing, runs nothing, and needs
no more memory than the file has bytes, times a constant.
"""

import gzip
import json
import random
import sys
import tracemalloc
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pandas as pd

from leadline import InvalidArgumentError
from leadline.files import models as modelfile
from tests.training_of import train_on

FORBIDDEN = ("exec", "os.system", "os.exec", "os.spawn", "subprocess.Popen", "pickle.find_class", "socket.connect")
"""Events that Python announces, and that no reader may cause."""

_PROGRAMS = str(jax.config.jax_compilation_cache_dir)
"""Where compiled programs are kept: those who read have written, too."""

WRITING = ("w", "a", "x", "+")

MEMORY = (64, 8_000_000)
"""Bytes that a reader may need: so many times the file's size, and so many more."""


class Watchman:
    """Hears what the interpreter does while a file is read."""

    def __init__(self) -> None:
        self.listening = False
        self.seen: list[str] = []
        sys.addaudithook(self._hear)

    def _hear(self, event: str, given: tuple[Any, ...]) -> None:
        if not self.listening:
            return
        if event in FORBIDDEN:
            self.seen.append(f"{event} {str(given)[:200]}")
        elif event == "open" and isinstance(given[1], str) and any(letter in given[1] for letter in WRITING):
            self.seen += [f"open {given[0]} to write"] * (not str(given[0]).startswith(_PROGRAMS))


def refuse_or_take(read: Callable[[], Any], watchman: Watchman | None, size: int, measure_memory: bool = False) -> str:
    """What a reader did: "taken", "refused", or how it failed."""
    if measure_memory:
        tracemalloc.start()
    if watchman is not None:
        watchman.listening = True
    try:
        with warnings.catch_warnings(action="ignore"):
            read()
        outcome = "taken"
    except InvalidArgumentError as error:
        outcome = "refused" if str(error) and "\n" not in str(error).strip() else f"a sentence of two lines: {error}"
    except BaseException as error:
        outcome = f"{type(error).__name__}: {error}"
    finally:
        if watchman is not None:
            watchman.listening = False
    if measure_memory:
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        if peak > MEMORY[0] * size + MEMORY[1]:
            outcome = f"{peak} bytes of memory for a file of {size}"
    if watchman is not None and watchman.seen:
        outcome = "; ".join(watchman.seen)
        watchman.seen.clear()
    return outcome


def mutated(content: bytes, rng: random.Random) -> bytes:
    """A few small harms: bits, bytes, pieces cut, doubled, moved or put in."""
    result = bytearray(content)
    for _ in range(rng.choice([1, 1, 1, 2, 3, 8])):
        if not result:
            return bytes(result)
        at = rng.randrange(len(result)) if rng.random() < 0.5 else min(rng.randrange(400), len(result) - 1)
        length = rng.choice([1, 2, 8, 64, 1000])
        kind = rng.randrange(7)
        if kind == 0:
            result[at] ^= 1 << rng.randrange(8)
        elif kind == 1:
            result[at] = rng.choice([0, 1, 10, 34, 44, 127, 128, 255, rng.randrange(256)])
        elif kind == 2:
            del result[at:]
        elif kind == 3:
            del result[at : at + length]
        elif kind == 4:
            result[at:at] = result[at : at + length]
        elif kind == 5:
            result[at:at] = rng.randbytes(length)
        else:
            other = rng.randrange(len(result))
            result[at : at + length] = result[other : other + length]
    return bytes(result)


STRANGE: list[Any] = [
    *(None, True, False, 0, 1, -1, 2**31, 2**63, -(2**63), 10**400, 0.5, -0.0, 1e308, float("nan"), float("inf")),
    *("", "a", "../../x", "/etc/passwd", "\x00", "é" * 50, "os.system", "__class__", [], [[]], {}, {"tensor": "x"}),
    *({"module": "Model"}, {"value": [1] * 50}, [None] * 100, "1" * 5000),
]


def mutated_json(value: Any, rng: random.Random) -> Any:
    """The same document with a few of its values changed, lost, moved or made strange."""
    document = json.loads(json.dumps(value))
    for _ in range(rng.choice([1, 1, 2, 4])):
        place, key = _somewhere(document, rng)
        if place is None:
            return rng.choice(STRANGE)
        kind = rng.randrange(5)
        if kind == 0:
            place[key] = rng.choice(STRANGE)
        elif kind == 1:
            del place[key]
        elif kind == 2:
            other, there = _somewhere(document, rng)
            place[key] = json.loads(json.dumps(other[there])) if other is not None else None
        elif kind == 3 and isinstance(place, dict):
            place[rng.choice(["x", "__init__", "predict", "model_", "a.b", "fit_", str(key) + "_"])] = place[key]
        else:
            nested: Any = place[key]
            for _ in range(rng.choice([1, 20])):
                nested = [nested]
            place[key] = nested
    return document


def _somewhere(document: Any, rng: random.Random) -> tuple[Any, Any]:
    """A container in the document, and one of its keys."""
    place, key, inside = None, None, document
    while isinstance(inside, dict | list) and inside:
        place = inside
        key = rng.choice(list(inside)) if isinstance(inside, dict) else rng.randrange(len(inside))
        inside = place[key]
        if rng.random() < 0.3:
            break
    return place, key


def mutated_model(path: Path, out: Path, rng: random.Random) -> None:
    """A model file with other numbers or another description, whose checksum is right."""
    config, tensors = modelfile.read(path)
    if rng.random() < 0.6:
        config = mutated_json(config, rng)
    else:
        name = rng.choice(list(tensors))
        tensor = tensors[name]
        tensors[name] = rng.choice(
            [
                lambda: tensor.reshape(-1),
                lambda: tensor[None],
                lambda: tensor[:0],
                lambda: tensor.astype(np.float64),
                lambda: np.full_like(tensor, np.nan) if tensor.dtype.kind == "f" else tensor * 0 - 1,
                lambda: tensor.repeat(2, axis=0) if tensor.ndim else tensor,
                lambda: tensors[rng.choice(list(tensors))],
            ]
        )()
        if rng.random() < 0.3:
            tensors.pop(rng.choice(list(tensors)))
    try:
        out.write_bytes(modelfile.file_of(config, tensors))
    except (RecursionError, ValueError, InvalidArgumentError, TypeError):
        out.write_bytes(mutated(path.read_bytes(), rng))


CELLS = [
    *("", " ", "NaN", "nan", "NA", "inf", "-inf", "1e309", "1e-400", "0x10", "1,5", '"', '""', '"a', "a\nb", '"a\nb"'),
    *(
        "9" * 400,
        "é",
        "\x00",
        "\ufeff",
        "2024-01-01",
        "True",
        "yes",
        "=cmd()",
        "-",
        "\t",
        ";",
        "a" * 3000,
        "1_000",
        "٣",
    ),
]


def mutated_table(text: str, rng: random.Random) -> bytes:
    """A CSV file with strange cells, lines and column names, or harmed as bytes."""
    if rng.random() < 0.3:
        return mutated(text.encode(), rng)
    rows = [line.split(",") for line in text.splitlines()]
    for _ in range(rng.choice([1, 1, 2, 5])):
        row = rng.randrange(len(rows)) if rng.random() < 0.7 else 0
        kind = rng.randrange(7)
        if not rows[row]:
            continue
        cell = rng.randrange(len(rows[row]))
        if kind <= 2:
            rows[row][cell] = rng.choice(CELLS)
        elif kind == 3:
            del rows[row][cell]
        elif kind == 4:
            rows[row].insert(cell, rng.choice(CELLS))
        elif kind == 5:
            rows = rows[: max(1, row)]
        else:
            for one in rows[1:]:
                if cell < len(one):
                    one[cell] = rng.choice(CELLS)
    newline = rng.choice(["\n", "\n", "\n", "\r\n", "\r"])
    return newline.join(",".join(row) for row in rows).encode(
        rng.choice(["utf-8", "utf-8", "utf-16", "latin-1"]), "replace"
    )


def _states(x: np.ndarray, y: np.ndarray, folder: Path) -> Any:
    """The last state of a training that has left its checkpoints in the folder."""
    from leadline import CategoricalLikelihood

    states = []
    given = {"width": 4, "epochs": 3, "seeds": [0], "n_restarts": 2, "on_call": states.append}
    train_on((x, y), (x, y), CategoricalLikelihood(2), checkpoint_dir=folder, **given)
    return states[-1]


class Targets:
    """Real files of every kind, and the readers of their mutations; each gives a file's name and its reading."""

    def __init__(self, folder: Path) -> None:
        from sklearn.datasets import make_classification

        from leadline import DepthClassifier, DepthRegressor

        self.folder = folder
        x, y = make_classification(40, 4, random_state=0)
        options = {"width": 4, "n_restarts": 2, "max_iter": 3, "random_state": 0}
        self.models = [folder / f"{name}.safetensors" for name in ("classes", "numbers", "raw")]
        DepthClassifier(**options).fit(x, y).save(self.models[0])
        DepthRegressor(**options).fit(x, np.column_stack([y, x[:, 0]])).save(self.models[1])
        days = pd.date_range("2024-01-01", periods=40, freq="31h")
        raw = pd.DataFrame({"first": x[:, 0], "colour": ["red", "blue", None, "red"] * 10, "day": days})
        DepthClassifier(**options).fit(raw, y).save(self.models[2])
        self.state = _states(x, y, folder / "kept")
        self.checkpoint = next((folder / "kept").iterdir()).read_bytes()
        rows = [f"{a:.3f},{b:.2f},{'red' if c > 0 else 'blue'},{d}" for (a, b, c, _), d in zip(x, y, strict=True)]
        self.table = "\n".join(["first,second,colour,label", *rows]) + "\n"
        (folder / "table.csv").write_text(self.table)
        frame = pd.read_csv(folder / "table.csv")
        frame.to_parquet(folder / "table.parquet")
        self.parquet = (folder / "table.parquet").read_bytes()
        pd.read_parquet(folder / "table.parquet")  # imports what it needs
        self.splits = {
            "data.txt": "\n".join(" ".join(f"{v:.4f}" for v in row) for row in x),
            **{f"index_{name}.txt": text for name, text in {"features": "0\n1", "target": "3"}.items()},
            "index_train_0.txt": "\n".join(map(str, range(30))),
            "index_test_0.txt": "30\n31",
            "n_splits.txt": "1",
        }
        self.harmed: str | None = None
        (folder / "set").mkdir()
        for name, text in self.splits.items():
            (folder / "set" / name).write_text(text)

    def model(self, rng: random.Random) -> tuple[Path, Callable[[], Any]]:
        """Half of them with a right checksum: those are read to the end."""
        from leadline import load

        path = self.folder / "model"
        if rng.random() < 0.5:
            mutated_model(rng.choice(self.models), path, rng)
        else:
            path.write_bytes(mutated(rng.choice(self.models).read_bytes(), rng))
        return path, lambda: load(path)

    def csv(self, rng: random.Random) -> tuple[Path, Callable[[], Any]]:
        """As `leadline fit` reads a table, and then `leadline predict`."""
        from leadline.files.formats import Asked, learn_format, targets
        from leadline.files.tables import read_table

        path = self.folder / rng.choice(["t.csv", "t.csv", "t.tsv", "t.csv.gz", "t.parquet"])
        if path.suffix == ".parquet":
            path.write_bytes(mutated(self.parquet, rng))
        elif path.suffix == ".gz":
            packed = gzip.compress(mutated_table(self.table, rng), mtime=0)
            path.write_bytes(mutated(packed, rng) if rng.random() < 0.3 else packed)
        else:
            path.write_bytes(mutated_table(self.table, rng))
        impute = rng.random() < 0.5

        def read() -> None:
            fmt = learn_format(read_table(self.folder / "table.csv"), "label", Asked(impute=impute))
            try:
                fmt.encoding.encode(read_table(path, fmt))
            finally:
                frame = read_table(path)
                mine = learn_format(frame, "label", Asked(impute=impute))
                mine.encoding.encode(frame), targets(frame, mine)

        return path, read

    def checkpoint_file(self, rng: random.Random) -> tuple[Path, Callable[[], Any]]:
        """Half of them with a right checksum."""
        from leadline.files import checkpoints
        from leadline.files.checkpoints import DamagedError
        from leadline.training.checkpoint import trees_like, understood

        if rng.random() < 0.5:
            content = mutated(self.checkpoint, rng)
        else:
            payload = mutated(checkpoints.unwrapped(self.checkpoint), rng)
            content = checkpoints.wrapped(payload)

        def read() -> None:
            try:
                understood(*checkpoints.decode(content, trees_like(self.state)))
            except DamagedError as error:
                raise InvalidArgumentError(str(error).splitlines()[0]) from error

        return self.folder / "kept", read

    def record(self, rng: random.Random) -> tuple[Path, Callable[[], Any]]:
        from leadline.files.formats import TableFormat
        from leadline.files.records import read_record
        from leadline.files.tables import read_table

        path = self.folder / "record.json"
        columns = [
            {"name": "first", "kind": "number", "levels": [], "fill": 0.5},
            {"name": "colour", "kind": "category", "levels": ["red", "blue"], "fill": None},
        ]
        table = {"columns": columns, "target": "label", "task": "regression"}
        table |= {"ignored": {"second": "it is left out"}, "target_kind": "number"}
        settings = {"recipe": "leadline", "depth": "normal", "width": 4, "temperature": 0.15, "n_restarts": 2}
        settings |= {"epochs": 3, "seed": 1, "seconds": 1.0, "device": "cpu", "version": "0.1.0"}
        depth = {"depth_pmf": [0.5, 0.5], "depth_mean": 0.5, "depth_std": 0.5, "depth_mode": 0, "depth_support": [0, 1]}
        record = {**settings, **depth, "table": table}
        if rng.random() < 0.02:
            path.write_text('{"depth_pmf": ' + "[" * 100_000 + "]" * 100_000 + "}")
        elif rng.random() < 0.5:
            path.write_text(json.dumps(mutated_json(record, rng)))
        else:
            path.write_bytes(mutated(json.dumps(record).encode(), rng))

        def read() -> None:
            """As `leadline predict` does."""
            fmt = TableFormat.from_json(read_record(self.folder).table or {})
            frame = read_table(self.folder / "table.csv", fmt)
            fmt.encoding.encode(frame)

        return path, read

    def split(self, rng: random.Random) -> tuple[Path, Callable[[], Any]]:
        from leadline.datasets import load_uci

        if self.harmed is not None:
            (self.folder / "set" / self.harmed).write_text(self.splits[self.harmed])
        self.harmed = rng.choice(list(self.splits))
        path = self.folder / "set" / self.harmed
        path.write_bytes(mutated(self.splits[self.harmed].encode(), rng))
        return path, lambda: load_uci(self.folder, "set", 0)


def _predicted(path: Path) -> str:
    """What comes of a prediction by a model file that was taken."""
    from leadline import load

    try:
        with warnings.catch_warnings(action="ignore"):
            estimator = load(path)
            estimator.predict(np.zeros((2, estimator.n_features_in_)))
    except InvalidArgumentError:
        return "refused"
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    return "taken"


SHARES = {"model": 0.45, "csv": 0.25, "checkpoint_file": 0.1, "record": 0.1, "split": 0.1}
"""Of the files, by kind."""


def campaign(folder: Path, n_files: int, seed: int) -> dict[str, dict[str, Any]]:
    """Read so many mutated files. For every kind: how many were taken and refused, and what went wrong."""
    targets, watchman, rng = Targets(folder), Watchman(), random.Random(seed)
    results: dict[str, dict[str, Any]] = {}
    for kind, share in SHARES.items():
        counts = results[kind] = {"taken": 0, "refused": 0, "failed": []}
        for i in range(round(share * n_files)):
            path, read = getattr(targets, kind)(rng)
            size = path.stat().st_size if path.is_file() else 0
            # The first ones import what is needed; then all are heard, and the memory of a few is measured.
            outcome = refuse_or_take(read, watchman if i >= 5 else None, size, measure_memory=i % 50 == 10)
            if kind == "model" and outcome == "taken" and i % 5 == 0:
                outcome = _predicted(path)
            if outcome in ("taken", "refused"):
                counts[outcome] += 1
            else:
                counts["failed"].append({"number": i, "outcome": outcome[:300]})
                if len(counts["failed"]) <= 3 and path.is_file():
                    (folder / f"failed-{kind}-{i}").write_bytes(path.read_bytes())
    return results
