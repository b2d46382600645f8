"""Nothing that a stranger writes runs, blocks or outgrows its size: numbers of every type and value with right
checksums, wide headers, hostile words, and what is no file under every name that is read."""

import contextlib
import faulthandler
import json
import os
import random
import resource
import shutil
import socket
import time
import warnings
from collections.abc import Callable, Iterator
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from safetensors.numpy import save

from leadline import CategoricalLikelihood, GaussianLikelihood, InvalidArgumentError, load
from leadline.backend import compilation
from leadline.files import checkpoints
from leadline.files import models as modelfile
from leadline.files.records import Record
from leadline.files.whole import unpacked
from leadline.report.page import page
from leadline.training.run import TrainingDivergedError
from tests.fuzzing import Targets, Watchman, refuse_or_take
from tests.promises.command import leadline
from tests.promises.foreign_files import IDENTITY, SMALL, Decoys, within
from tests.report.test_page import RECORDS
from tests.training_of import train_on

SECONDS, MEMORY = 20, 2**31
"""That a case may take; files are small, but for their holes."""

BITS = {"BOOL": 8, "F4": 4, "F6_E2M3": 6, "F6_E3M2": 6, "C64": 64, "U8": 8, "I8": 8, "U16": 16, "I16": 16, "U32": 32}
BITS |= {f"F8_{kind}": 8 for kind in ("E5M2", "E4M3", "E8M0", "E4M3FNUZ", "E5M2FNUZ")}
BITS |= {"I32": 32, "U64": 64, "I64": 64, "F16": 16, "BF16": 16, "F32": 32, "F64": 64}
"""All types that safetensors has."""

CASTS = (np.float16, np.float64, np.int8, np.int32, np.int64, np.uint8, np.uint64, np.complex64, bool)

INTEGERS = (0, 1, -1, 2, 3, 7, 9, 100, 307, 2**15, 2**31 - 1, -(2**31), 2**63 - 1)
NUMBERS = (0.0, 1.0, -1.0, 0.5, -0.5, 1e-300, 1e-38, 1e5, -1e5, 1e10, -1e10, 1e17, 1e18, -1e18, 1e30, 3e38, 1e308)
NUMBERS += (1e-45, float("nan"), float("inf"), -float("inf"), 1.0000001, 1e3, 12.7, -88.0, 700.0)

HOSTILE = (
    *("<script>alert(1)</script>", '"><img src=x onerror=alert(1)>', "' onmouseover='alert(1)", "</title></style>"),
    *("]]><svg onload=alert(1)>", "{{ 7 * 7 }}{% raw %}", "&lt;b&gt;&#60;b>", "javascript:alert(1)", "--><b>"),
    *("$\\frac{1}{", "\x1b]0;x\x07", "\u202e\x00\n\r", "</pre></code><iframe src=//x>", "a" * 5000, "url(//x)"),
)

NO_FILES = ("pipe", "socket", "zero", "random", "full", "loop", "dangling", "directory", "sparse", "sparse after")


class Elements(HTMLParser):
    """The kinds of elements of a page, and their attributes; `told` has the values of those that are no text."""

    def __init__(self, text: str):
        super().__init__()
        self.kinds: set[tuple[str, str]] = set()
        self.told: set[str] = set()
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: Any) -> None:
        self.kinds |= {(tag, "")} | {(tag, name) for name, _ in attrs}
        self.told |= {value or "" for name, value in attrs if name != "aria-label"}

    def handle_comment(self, data: str) -> None:
        self.kinds.add(("!--", data))

    handle_pi = handle_decl = unknown_decl = handle_comment


def leaves(document: Any) -> list[tuple[Any, Any]]:
    """All places in a document that hold no others: a container and a key."""
    keys = list(document) if isinstance(document, dict) else range(len(document))
    inside = [(document[key], (document, key)) for key in keys]
    return [x for value, at in inside for x in (leaves(value) if isinstance(value, dict | list) and value else [at])]


def raw_rows(columns: Any, x: np.ndarray) -> pd.DataFrame:
    """Rows of a raw table, near those that were trained on."""
    rows, place = {}, 0
    for column in columns:
        of_levels = column.kind == "category"
        rows[column.name] = [*column.levels, "new"][:1] * len(x) if of_levels else x[:, place]
        if column.kind == "date":
            rows[column.name] = pd.to_datetime(np.clip(x[:, place], -1e5, 1e5), unit="D")
        place += len(column.features())
    return pd.DataFrame(rows)


def asked(model: Any, rng: random.Random) -> None:
    """A model that was taken says finite numbers of ordinary rows."""
    draw = np.random.default_rng(rng.getrandbits(32))
    x = model.x_mean_ + draw.normal(size=(3, len(model.x_mean_))) * model.x_scale_
    if model.encoder_ is not None:
        x = raw_rows(model.encoder_.encoding_.columns, x)
    said = [model.uncertainty(x).total]
    said += [model.predict_proba(x)] if hasattr(model, "classes_") else [*model.predict(x, return_std=True)]
    said += [] if hasattr(model, "classes_") else [model.predict_interval(x)]
    assert all(np.isfinite(a).all() for a in said), f"it predicts {said}"


class Strangers:
    """Real files, and what strangers make of them."""

    def __init__(self, folder: Path, seed: int) -> None:
        self.folder, self.rng, self.n = folder, random.Random(seed), 0
        for name in ("targets", "decoys"):
            (folder / name).mkdir()
        self.targets, self.decoys = Targets(folder / "targets"), Decoys(folder / "decoys", seed)
        self.models = [modelfile.read(path) for path in self.targets.models]
        draw = np.random.default_rng(0)
        self.x = draw.normal(size=(40, 2))
        self.trainings: list[tuple[Path, Any]] = []
        for own_length in (False, True):
            for calls in (1, 2):
                left, out = iter(range(calls - 1)), folder / f"kept{own_length}{calls}"
                self.train(out, own_length, on_call=lambda _, left=left: next(left, None) is None)
                self.trainings.append((sorted(out.iterdir())[-1], own_length))
        self.honest: set[tuple[str, str]] = set()
        for make in RECORDS.values():
            self.honest |= Elements(page(Record.from_json({**make(), "interrupted": True}))).kinds
        load(self.targets.models[0]).predict(np.zeros((2, 4)))

    def train(self, out: Path, own_length: bool, **more: Any) -> Any:
        """A small training, of classes, or of numbers that decide how long."""
        y = (self.x[:, 0] * self.x[:, 1] > 0).astype(int)
        kind = GaussianLikelihood(1) if own_length else CategoricalLikelihood(2)
        y = self.x[:, :1] if own_length else y
        sizes = {"width": 4, "epochs": 40 if own_length else 8, "seeds": [1], "n_restarts": 2, "own_length": own_length}
        return train_on((self.x, y), 0.2, kind, checkpoint_dir=out, checkpoint_every=0.0, **sizes, **more)

    # Each gives what is to be read, and reads it: it is refused in one sentence, or else it raises what is wrong.

    def number_types(self) -> tuple[str, Callable[[], Any]]:
        """Every type in the place of every tensor of a model or a checkpoint, one after the other."""
        self.n += 1
        which = self.n % 3
        kind, bits = list(BITS.items())[self.n // 3 % len(BITS)]
        if which == 2:
            kept, own_length = self.rng.choice(self.trainings)
            content = checkpoints.unwrapped(kept.read_bytes())
            name, content = self.retyped(content, kind, bits, self.n // (3 * len(BITS)))
            return f"{kind} for {name} of a checkpoint", lambda: self.gone_on(kept, content, own_length)
        path = self.folder / "model"
        if which == 1:
            config, tensors = self.rng.choice(self.models)
            name, cast = list(tensors)[self.n // 3 % len(tensors)], self.rng.choice(CASTS)
            path.write_bytes(modelfile.file_of(config, {**tensors, name: tensors[name].astype(cast)}))
            return f"{cast.__name__} for {name}", lambda: asked(load(path), self.rng)
        content = self.rng.choice(self.targets.models).read_bytes()
        name, content = self.retyped(content, kind, bits, self.n // (3 * len(BITS)))
        path.write_bytes(content)
        return f"{kind} for {name}", lambda: asked(load(path), self.rng)

    def retyped(self, content: bytes, kind: str, bits: int, place: int) -> tuple[str, bytes]:
        """Of a safetensors file, one tensor in another type, with as many numbers or as many bytes."""
        n = int.from_bytes(content[:8], "little")
        header, body = json.loads(content[8 : 8 + n]), content[8 + n :]
        names = sorted(header.keys() - {"__metadata__"})
        name, same_size = names[place % len(names)], self.rng.random() < 0.5
        parts, end = [], 0
        for one in sorted(names, key=lambda one: header[one]["data_offsets"]):
            part = body[slice(*header[one]["data_offsets"])]
            if one == name:
                header[one]["dtype"] = kind
                if same_size:
                    header[one]["shape"] = [8 * len(part) // bits]
                part = part.ljust(8, b"\1") * 8
                part = part[: int(np.prod(header[one]["shape"], dtype=int)) * bits // 8]
            header[one]["data_offsets"] = [end, end := end + len(part)]
            parts.append(part)
        text = json.dumps(header).encode()
        return name, len(text).to_bytes(8, "little") + text + b"".join(parts)

    def checkpoint_numbers(self) -> tuple[str, Callable[[], Any]]:
        """A few numbers of a checkpoint changed, most of them whole ones, and then gone on with."""
        kept, own_length = self.rng.choice(self.trainings)
        words, tensors = unpacked(checkpoints.unwrapped(kept.read_bytes()))
        tensors = {name: tensor.copy() for name, tensor in tensors.items()}
        counts = [name for name, tensor in tensors.items() if tensor.dtype.kind in "iub"]
        said = []
        for _ in range(self.rng.choice([1, 1, 2, 4])):
            name = self.rng.choice(counts if self.rng.random() < 0.6 else list(tensors))
            said.append(f"{name} {self.changed(tensors[name])}")
            good = name.replace("state.", "good.")
            if name != good and good in tensors and self.rng.random() < 0.5:
                tensors[good] = tensors[name].copy()
        if self.rng.random() < 0.1:
            words["seconds"] = self.rng.choice(["nan", "inf", "-1e308", "1e308", "", "9" * 5000, "1_0", "0x1"])
        content = save(tensors, metadata=words)
        return f"{', '.join(said)} of {kept.name}", lambda: self.gone_on(kept, content, own_length)

    def changed(self, tensor: np.ndarray) -> Any:
        """One number of an array, or all, becomes another; gives which."""
        if tensor.size == 0:
            return "empty"
        integer = tensor.dtype.kind in "iub"
        value = self.rng.choice(INTEGERS if integer else NUMBERS)
        place = np.unravel_index(self.rng.randrange(tensor.size), tensor.shape) if self.rng.random() < 0.6 else ...
        with np.errstate(all="ignore"):
            if integer and self.rng.random() < 0.5:
                value = int(np.ravel(tensor[place])[0]) + self.rng.choice([1, -1, 1, -1, 4, 299, -(2**30)])
            tensor[place] = np.array(value).astype(tensor.dtype)
        return f"{tuple(map(int, place)) if place is not ... else 'all'} is {value}"

    def gone_on(self, kept: Path, payload: bytes, own_length: bool) -> None:
        """The training that the checkpoint is of, to its end."""
        out = self.folder / "on"
        shutil.rmtree(out, ignore_errors=True)
        out.mkdir()
        (out / kept.name).write_bytes(checkpoints.wrapped(payload))
        try:
            trained = self.train(out, own_length)
        except TrainingDivergedError as error:
            raise InvalidArgumentError(str(error)) from error
        assert trained.epochs == 8 or (own_length and 0 < trained.epochs <= 40), f"{trained.epochs} epochs"
        numbers = [np.asarray(a) for part in (trained.model, trained.history) for a in _arrays(part)]
        assert all(np.isfinite(a).all() for a in numbers), "it ends with what is no number"
        assert np.isfinite(trained.seconds)

    def model_numbers(self) -> tuple[str, Callable[[], Any]]:
        """A few numbers of a model's description, or of its tensors, with a right checksum."""
        config, tensors = self.rng.choice(self.models)
        config, tensors = json.loads(json.dumps(config)), {name: tensor.copy() for name, tensor in tensors.items()}
        said = []
        for _ in range(self.rng.choice([1, 1, 2, 3])):
            if self.rng.random() < 0.5:
                numeric = [(at, key) for at, key in leaves(config) if isinstance(at[key], int | float)]
                at, key = self.rng.choice(numeric)
                at[key] = self.rng.choice([*NUMBERS, *INTEGERS, 10**400, True])
                said.append(f"{key} {str(at[key])[:20]}")
            elif self.rng.random() < 0.3:  # all layers alike
                kind, value = self.rng.choice(["weight_mean", "weight_raw", "bias_mean"]), self.rng.choice(NUMBERS)
                with np.errstate(over="ignore"):
                    tensors |= {name: np.full_like(a, value) for name, a in tensors.items() if name.endswith(kind)}
                said.append(f"{kind} {value}")
            else:
                name = self.rng.choice(list(tensors))
                said.append(f"{name} {self.changed(tensors[name])}")
        path = self.folder / "model"
        path.write_bytes(modelfile.file_of(config, tensors))
        return ", ".join(said), lambda: asked(load(path), self.rng)

    def words(self) -> tuple[str, Callable[[], Any]]:
        """A record with hostile words for values and names: a page has no element that the honest one has not."""
        record = json.loads(json.dumps(self.rng.choice(list(RECORDS.values()))()))
        said = []
        for _ in range(self.rng.choice([1, 1, 2, 5])):
            words_only = self.rng.random() < 0.6
            places = [(at, key) for at, key in leaves(record) if isinstance(at[key], str) or not words_only]
            at, key = self.rng.choice(places if words_only else [*places, *[(record, k) for k in record]])
            word = self.rng.choice(HOSTILE)
            said.append(f"{key}: {word[:40]!r}")
            if isinstance(at, dict) and self.rng.random() < 0.2:
                at[word] = at.pop(key)
            else:
                at[key] = self.rng.choice([word, word, word, word, [word] * 3, {word: word}, [[word] * 4]])

        def read() -> None:
            path = self.folder / "record.json"
            path.write_text(json.dumps(record))
            done = leadline("report", self.folder, "--out", self.folder / "page.html")
            if done.code:
                assert done.refused, done.err
                raise InvalidArgumentError(done.err)
            read = Elements((self.folder / "page.html").read_text())
            assert read.kinds <= self.honest, f"the page has {read.kinds - self.honest}"
            assert not [value for value in read.told if "alert(" in value or "//x" in value]

        return ", ".join(said), read

    def wide_headers(self) -> tuple[str, Callable[[], Any]]:
        """Thousands of names: what takes a second for each thousand would take a minute here."""
        n, kind = 20_000, self.rng.choice(["fitted", "history", "model", "others", "checkpoint", "columns"])
        more = {"fitted": "a{}_", "history": "history.{}", "model": "model.{}", "others": "a.{}"}
        if kind == "columns":
            record = RECORDS["classification"]() | {"columns": [{"name": f"c{i}", "words": f"w{i}"} for i in range(n)]}
            return kind, lambda: self.soon(lambda: page(Record.from_json(record)))
        if kind == "checkpoint":
            kept, own_length = self.rng.choice(self.trainings)
            words, tensors = unpacked(checkpoints.unwrapped(kept.read_bytes()))
            content = save({**tensors, **{f"state.{i}": np.zeros(1) for i in range(n)}}, metadata=words)
            return kind, lambda: self.soon(lambda: self.gone_on(kept, content, own_length))
        config, tensors = self.rng.choice(self.models)
        path = self.folder / "model"
        names = [more[kind].format(i) for i in range(n)]
        path.write_bytes(modelfile.file_of(config, {**tensors, **{name: np.zeros(1, np.float32) for name in names}}))
        return kind, lambda: self.soon(lambda: load(path))

    def soon(self, read: Callable[[], Any]) -> None:
        start = time.process_time()
        with contextlib.suppress(InvalidArgumentError):
            read()
        seconds = time.process_time() - start
        assert seconds < 4, f"20,000 names took {seconds:.1f} s"

    def no_files(self) -> tuple[str, Callable[[], Any]]:
        """What has no end, or never begins, under a name that a command reads."""
        place = self.folder / "place"
        shutil.rmtree(place, ignore_errors=True)
        place.mkdir()
        shutil.copytree(self.decoys.finished, place / "run")
        shutil.copytree(self.decoys.sets, place / "sets")
        checkpoint = f"out/checkpoints/{IDENTITY}-0000-000000003-000000.checkpoint"
        small = ("--target", "y", *SMALL, "--quiet")
        uci = ["benchmark", "uci", "--data", place / "sets", "--out", place / "out", "--depth", 1, "--epochs", 2]
        uci += ["--names", "line", "--quiet"]
        grid = ["--omegas", 4, "--runs", 1, "--epochs", 2, "--depth", "normal", "--recipe", "published", "--quiet"]
        table, out = self.decoys.table, place / "out"
        commands: dict[str, list[list[Any]]] = {
            "run/record.json": [
                ["report", place / "run"],
                ["predict", place / "run", table, "--out", place / "p.csv"],
                ["fit", table, "--out", place / "run", *small],
            ],
            "run/model.safetensors": [["predict", place / "run", table, "--out", place / "p.csv"]],
            **{
                f"t{end}": [
                    ["fit", place / f"t{end}", "--out", out, *small],
                    ["predict", place / "run", place / f"t{end}", "--out", place / "p.csv"],
                    ["compare", place / f"t{end}", "--against", "none", "--folds", 2, *small],
                ]
                for end in (".csv", ".tsv", ".csv.gz", ".parquet")
            },
            **{name: [["fit", table, "--out", out, *small]] for name in ("out/checkpoints/arguments.json", checkpoint)},
            **{f"sets/line/{one.name}": [uci] for one in sorted((place / "sets" / "line").iterdir())},
            **{name: [uci] for name in ("out/1.csv", "out/chunks.csv", "out/comparison.csv", "sets/line")},
            **{f"out/{n}.csv": [["reproduce", "--out", out, *grid]] for n in ("chunks", "published-normal")},
        }
        name = self.rng.choice(list(commands))
        path, kind, command = place / name, self.rng.choice(NO_FILES), self.rng.choice(commands[name])
        path.parent.mkdir(parents=True, exist_ok=True)
        if path.is_dir():
            shutil.rmtree(path)
        path.unlink(missing_ok=True)
        put(path, kind, table)

        def read() -> None:
            done = leadline(*command)
            assert done.code == 0 or done.refused, f"exit status {done.code}: {done.err[-300:]}"
            if done.code:
                raise InvalidArgumentError(done.err)

        return f"{kind} as {name} for {command[0]}", read

    def cache(self) -> tuple[str, Callable[[], Any]]:
        """Compiled programs are taken from a place that no other can write to, and nobody else can read."""
        home = self.folder / "cache"
        shutil.rmtree(home, ignore_errors=True)
        folders = [home / "leadline", home / "leadline" / "programs"]
        given = self.rng.randrange(3)
        modes, owner = [self.rng.choice([0o700, 0o755, 0o770, 0o775, 0o777, 0o1777, 0o702]) for _ in folders], None
        for folder, mode in zip(folders[:given], modes, strict=False):
            folder.mkdir(parents=True)
            folder.chmod(mode)
        if given and os.geteuid() == 0 and self.rng.random() < 0.3:
            owner = self.rng.choice(folders[:given])
            os.chown(owner, 65534, 65534)

        def read() -> None:
            safe = owner is None and not any(mode & 0o022 for mode in modes[:given])
            with warnings.catch_warnings(action="ignore"), _environment("XDG_CACHE_HOME", str(home)):
                taken = compilation._own_folder()
            assert (taken == folders[1]) if safe else taken is None, f"takes {taken}"
            assert not safe or all(folder.stat().st_mode & 0o777 == 0o700 for folder in folders), "others can read it"

        return f"modes {[oct(mode) for mode in modes[:given]]}, owner {owner}", read


def put(path: Path, kind: str, table: Path) -> None:
    """What is no file, or one with holes."""
    if kind == "pipe":
        os.mkfifo(path)
    elif kind == "socket":
        with socket.socket(socket.AF_UNIX) as one, contextlib.chdir(path.parent):
            one.bind(path.name)
    elif kind == "directory":
        path.mkdir()
    elif kind.startswith("sparse"):
        with path.open("wb") as file:
            file.write(table.read_bytes() if kind == "sparse after" else b"")
            file.truncate(2**40)
    else:
        path.symlink_to({"loop": path.name, "dangling": "nowhere"}.get(kind, f"/dev/{kind}"))


def _arrays(part: Any) -> list[Any]:
    import jax

    return [a for a in jax.tree.leaves(part) if hasattr(a, "dtype")]


@contextlib.contextmanager
def _environment(name: str, value: str) -> Iterator[None]:
    before = os.environ.get(name)
    os.environ[name] = value
    try:
        yield
    finally:
        os.environ.pop(name)
        if before is not None:
            os.environ[name] = before


@contextlib.contextmanager
def bounded(more: int) -> Iterator[None]:
    """No more memory than what there is and so many bytes."""
    now = int(Path("/proc/self/statm").read_text().split()[0]) * os.sysconf("SC_PAGE_SIZE")
    limits = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (now + more, limits[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, limits)


KINDS = {"number_types": 22, "checkpoint_numbers": 25, "model_numbers": 25, "words": 15, "no_files": 18, "cache": 3}
KINDS |= {"wide_headers": 1}
"""What strangers do, and how often."""

HEARD = ("number_types", "model_numbers", "wide_headers")
"""Readers that run and write nothing."""


def campaign(folder: Path, n_cases: int, seed: int) -> dict[str, Any]:
    """So many files, each under a limit of memory and of time."""
    strangers, watchman = Strangers(folder, seed), Watchman()
    figures: dict[str, Any] = {"tried": n_cases, "failed": []}
    for _ in range(n_cases):
        kind = strangers.rng.choices(list(KINDS), list(KINDS.values()))[0]
        said, read = getattr(strangers, kind)()
        faulthandler.dump_traceback_later(3 * SECONDS, exit=True)  # where no Python runs that could be late
        with bounded(MEMORY):
            hears = watchman if kind in HEARD and not {"checkpoint", "columns"} & set(said.split()) else None
            outcome = refuse_or_take(lambda read=read: _in_time(read), hears, 0)
        faulthandler.cancel_dump_traceback_later()
        counts = figures.setdefault(kind, {"taken": 0, "refused": 0})
        if outcome in counts:
            counts[outcome] += 1
        else:
            figures["failed"].append(f"{kind}: {said.replace(str(folder), '')}: {outcome[:600]}")
    return figures


def _in_time(read: Callable[[], Any]) -> None:
    with within(SECONDS):
        read()
