"""A failure leaves what was there before: an exception at any call inside `fit`, and at any write inside `--force`."""

import random
import shutil
import sys
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any

import numpy as np

import leadline as library
from leadline import DepthClassifier, DepthRegressor, load
from leadline.files.ours import digest
from leadline.files.records import read_record
from tests.promises.command import leadline

PACKAGE = str(Path(library.__file__).parent)
WRITES = {"open", "fsync", "replace", "rename", "link", "unlink", "write", "flush", "mkdir", "rmdir", "chmod", "close"}
"""Calls of the system's that may fail when something is written."""


class PlannedError(Exception):
    """What goes wrong."""


@contextmanager
def failing(at: int, counts: Callable[[FrameType, str, Any], bool], error: BaseException) -> Iterator[list[int]]:
    """Raise the error at a call, the so manieth of those that count; gives how many there were."""
    calls = [0]

    def hear(frame: FrameType, event: str, argument: Any) -> None:
        if counts(frame, event, argument):
            calls[0] += 1
            if calls[0] == at:
                raise error

    sys.setprofile(hear)
    try:
        yield calls
    finally:
        sys.setprofile(None)


def inside_package(frame: FrameType, event: str, _: Any) -> bool:
    """A call of one of Leadline's functions."""
    code = frame.f_code
    return event == "call" and code.co_filename.startswith(PACKAGE) and code.co_name != "<genexpr>"


def of_the_system(frame: FrameType, event: str, function: Any) -> bool:
    """A call of the system's by Leadline, or for it, that writes."""
    if event != "c_call" or getattr(function, "__name__", "") not in WRITES:
        return False
    if isinstance(getattr(function, "__self__", None), str | bytes):  # which replace letters
        return False
    caller: FrameType | None = frame
    while caller is not None and not caller.f_code.co_filename.startswith(f"{PACKAGE}/files/"):
        caller = caller.f_back
    return caller is not None


class Failures:
    """Fits and commands that fail at a random place."""

    def __init__(self, folder: Path, seed: int) -> None:
        self.folder, self.rng = folder, random.Random(seed)
        rng = np.random.default_rng(0)
        self.x, self.y = rng.normal(size=(40, 3)), rng.integers(0, 2, 40)
        self.table = folder / "table.csv"
        rows = [f"{a:.3f},{b:.3f},{'yes' if c else 'no'}" for (a, b, _), c in zip(self.x, self.y, strict=True)]
        self.table.write_text("\n".join(["a,b,y", *rows]) + "\n")
        self.calls: dict[str, int] = {}

    def error(self) -> BaseException:
        return self.rng.choice([PlannedError("planned"), MemoryError(), KeyboardInterrupt(), OSError(5, "planned")])

    def fit(self, number: int) -> str | None:
        """A second fit, to other rows, that fails."""
        regression = number % 2 == 1
        options = {"width": 4, "n_restarts": 1, "max_iter": 3, "random_state": 0}
        model = DepthRegressor(**options) if regression else DepthClassifier(**options)
        model.fit(self.x, self.x[:, 0] if regression else self.y)
        answer = lambda: (model.predict(self.x).tobytes(), sorted(vars(model)), model.n_features_in_)  # noqa: E731
        before = answer()
        other = (5 * self.x[:, :2] + 3, 7 + self.x[:, 1] if regression else self.y + np.arange(40) % 3 + 5)
        kind = type(model).__name__
        if kind not in self.calls:
            with failing(0, inside_package, PlannedError()) as calls:
                type(model)(**options).fit(*other)
            self.calls[kind] = calls[0]
        at = self.rng.randint(1, self.calls[kind])
        try:
            with failing(at, inside_package, self.error()):
                model.fit(*other)
        except (PlannedError, MemoryError, KeyboardInterrupt, OSError, ValueError):
            if answer() != before:
                return f"{kind}: after a failure at call {at} of {self.calls[kind]} it predicts something else"
        return None

    def force(self, number: int) -> str | None:
        """A forced fit over a finished one, where a write fails: the old files or the new ones, never some of each."""
        out = self.folder / f"run{number}"
        arguments = ["fit", self.table, "--target", "y", "--out", out, "--epochs", 3, "--restarts", 1, "--width", 4]
        finished = self.folder / "finished"
        if not finished.exists():
            leadline(*arguments[:5], finished, *arguments[6:], "--quiet")
        shutil.copytree(finished, out)
        names = ("record.json", "model.safetensors")
        old = [(out / name).read_bytes() for name in names]
        again = [*arguments, "--force", "--seed", 2, "--quiet", "--checkpoint-every", 0]
        if "force" not in self.calls:
            with failing(0, of_the_system, PlannedError()) as calls:
                leadline(*again)
            self.calls["force"] = calls[0]
            shutil.rmtree(out)
            shutil.copytree(finished, out)
        at = self.rng.randint(1, self.calls["force"])
        error = self.rng.choice(
            [OSError(28, "No space left on device"), OSError(5, "Input/output error"), MemoryError()]
        )
        code = 1
        try:
            with failing(at, of_the_system, error):
                code = leadline(*again).code
        except MemoryError:
            pass
        new = [(out / name).read_bytes() if (out / name).exists() else None for name in names]
        said = f"write {at} of {self.calls['force']} failed with {error!r}, exit status {code}"
        if code == 0 and (new[0] == old[0] or new[1] == old[1]):
            return f"{said}: done, and the old files are there"
        if new != old:
            if None in new or read_record(out).model != digest((out / names[1]).read_bytes()) or new[0] == old[0]:
                return f"{said}: some files are old, some new"
            load(out / names[1])
        left = [path.name for path in out.iterdir() if path.name not in (*names, "checkpoints")]
        again = leadline(*again)  # and all is free for the next
        shutil.rmtree(out)
        return f"{said}: the next gave {again}, {left} were left" if again.code else None


def campaign(folder: Path, n_cases: int, seed: int) -> dict[str, Any]:
    """So many failures, half of them inside `fit`, half while something is written."""
    failures = Failures(folder, seed)
    with warnings.catch_warnings(action="ignore"):
        outcomes = [(failures.fit if i % 4 < 2 else failures.force)(i) for i in range(n_cases)]
    failed = [outcome for outcome in outcomes if outcome]
    return {"tried": n_cases, "failed": failed, "places": failures.calls}
