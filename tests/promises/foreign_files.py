"""Foreign files are never changed: decoys under every name that Leadline uses, before and after every command."""

import contextlib
import hashlib
import os
import random
import shutil
import signal
import traceback
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tests.promises.command import leadline

SMALL = ("--epochs", 3, "--restarts", 1, "--width", 4)
IDENTITY = "0123456789abcdef"

NAMES = [
    *(".leadline.lock", ".lock", ".write-test", ".record.json.4711.part", ".download.iso.part"),
    *(f".leadline-{IDENTITY}{IDENTITY}.part", "record.json", "model.safetensors", "spiral.png", "report.html"),
    *("chunks.csv", "comparison.csv", "comparison.md", "figure2-published.png", "figure3.png", "recipes.png"),
    *("published-normal.csv", "published-poisson.csv", "normal.csv", "1.csv", "predictions.csv", "metrics.jsonl"),
    *("checkpoints", "checkpoints/arguments.json", "checkpoints/bert.checkpoint", "checkpoints/movie.part"),
    *("checkpoints/my-best-run-v2.checkpoint", f"checkpoints/{IDENTITY}-0000-000000003-000000.checkpoint"),
    f"checkpoints/.leadline-{IDENTITY}{IDENTITY}.part",
]
"""What Leadline writes, or once wrote, or looks for."""

KINDS = ("file", "link", "dangling link", "pipe", "directory")


def seen(path: Path) -> tuple[Any, ...]:
    """All that could be changed about what is there."""
    if path.is_symlink():
        return "link", os.readlink(path)
    if not os.path.lexists(path):
        return ("nothing",)
    mode = path.lstat().st_mode
    if path.is_dir():
        inside = path / "mine.txt"  # others may write into a directory: what was there is what counts
        return "directory", mode, inside.read_bytes() if inside.exists() else None
    if not path.is_file():
        return "special", mode
    return "file", mode, hashlib.sha256(path.read_bytes()).hexdigest()


class Decoys:
    """Tables, finished runs, and directories with decoys in them."""

    def __init__(self, folder: Path, seed: int) -> None:
        self.folder, self.rng = folder, random.Random(seed)
        self.table = folder / "table.csv"
        draw = random.Random(0).gauss
        points = [(draw(0, 1), draw(0, 1)) for _ in range(60)]
        rows = [f"{a:.3f},{b:.3f},{'yes' if a + b > 0 else 'no'}" for a, b in points]
        self.table.write_text("\n".join(["a,b,y", *rows]) + "\n")
        self.sets = folder / "sets"
        (self.sets / "line").mkdir(parents=True)
        files = {"data": "\n".join(f"{a:.3f} {b:.3f} {a - b:.3f}" for a, b in points), "index_features": "0\n1"}
        files |= {"index_target": "2", "n_splits": "1", "index_train_0": "\n".join(map(str, range(50)))}
        files |= {"index_test_0": "\n".join(map(str, range(50, 60)))}
        for name, text in files.items():
            (self.sets / "line" / f"{name}.txt").write_text(text + "\n")
        self.finished = folder / "finished"
        assert leadline("fit", self.table, "--target", "y", "--out", self.finished, *SMALL, "--quiet").code == 0

    def command(self, out: Path) -> list[Any]:
        """One that writes into the directory, or beside what is in it."""
        grid = [
            "--omegas",
            "4",
            "--runs",
            "1",
            "--epochs",
            "2",
            "--depth",
            "normal",
            "--recipe",
            "published",
            "--quiet",
        ]
        quick = ("--depth", "1", "--epochs", 3, "--names", "line", "--quiet")
        return self.rng.choice(
            [
                ["fit", self.table, "--target", "y", "--out", out, *SMALL, "--quiet", "--checkpoint-every", 0],
                ["fit", self.table, "--target", "y", "--out", out, *SMALL, "--quiet", "--force"],
                ["spiral", "--omega", 4, "--out", out, *SMALL, "--quiet", "--force", "--checkpoint-every", 0],
                ["predict", self.finished, self.table, "--out", out / "predictions.csv", "--quiet"],
                ["predict", out, self.table, "--out", out / "new.csv", "--quiet"],
                ["report", out],
                ["report", self.finished, "--out", out / "report.html"],
                ["benchmark", "uci", "--data", self.sets, "--out", out, *quick],
                ["reproduce", "--out", out, *grid],
            ]
        )

    def put(self, path: Path, kind: str, precious: Path) -> None:
        path.parent.mkdir(exist_ok=True)
        if kind == "file":
            path.write_bytes(self.rng.choice([b"mine\n", b"\x00\xff mine", b'{"mine": 1}', b"a,b\n1,2\n"]))
            path.chmod(self.rng.choice([0o644, 0o600]))
        elif kind == "link":
            path.symlink_to(precious)
        elif kind == "dangling link":
            path.symlink_to(precious.with_name("nowhere"))
        elif kind == "pipe":
            os.mkfifo(path)
        else:
            path.mkdir()
            (path / "mine.txt").write_text("mine")

    def case(self, number: int) -> str | None:
        """One command among decoys; what it changed, if anything."""
        place = self.folder / f"case{number}"
        out, precious = place / "out", place / "precious.txt"
        place.mkdir()
        precious.write_text("precious")
        if self.rng.random() < 0.4:
            shutil.copytree(self.finished, out)
        else:
            out.mkdir()
        decoys = {}
        for name in self.rng.sample(NAMES, self.rng.choice([1, 2, 3, 6])):
            path, kind = out / name, self.rng.choice(KINDS)
            if not os.path.lexists(path) and (path.parent == out or not os.path.lexists(path.parent)):
                with contextlib.suppress(FileExistsError):
                    self.put(path, kind, precious)
                    decoys[path] = kind
        before = {path: seen(path) for path in [*decoys, precious, precious.with_name("nowhere")]}
        arguments = self.command(out)
        said = " ".join(map(str, arguments)).replace(str(place), "") + f" among {decoys}".replace(str(place), "")
        try:
            with within(20):
                done = leadline(*arguments)
        except (Exception, TooLong):
            return f"{said}: {traceback.format_exc(limit=-3)}"
        changed = [path.name for path, what in before.items() if seen(path) != what]
        if changed:
            return f"{said}: changed {changed}"
        if done.code not in (0, 2) or (done.code == 2 and not done.refused):
            return f"{said}: exit status {done.code}: {done.err[-300:]}"
        shutil.rmtree(place)
        return None


class TooLong(BaseException):  # that no reader takes for something wrong with the file
    """A case is not done in its time."""


@contextlib.contextmanager
def within(seconds: int) -> Iterator[None]:
    """Or `TooLong`."""

    def late(*_: object) -> None:
        raise TooLong(f"it took more than {seconds} s")

    heard = signal.signal(signal.SIGALRM, late)
    signal.setitimer(signal.ITIMER_REAL, seconds, 1)  # again and again: some callbacks let nothing out
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, heard)


def campaign(folder: Path, n_cases: int, seed: int) -> dict[str, Any]:
    """So many commands among decoys."""
    decoys = Decoys(folder, seed)
    outcomes = [decoys.case(i) for i in range(n_cases)]
    return {"tried": n_cases, "failed": [outcome for outcome in outcomes if outcome]}
