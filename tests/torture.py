"""Everything that must not lose anything, put to the test for a quarter of an hour: `make torture`.

    python -m tests.torture --out results/reliability

Processes are killed at random moments and in the middle of writing, checkpoints are damaged, disks fill up, and readers
get files that were never written so. What a command gives in the end is compared, bit by bit, with what it gives when
it is left alone. The figures go into torture.json.
"""

import argparse
import csv
import importlib
import json
import os
import platform
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from pathlib import Path
from typing import Any

PYTHON = sys.executable
ROOT = Path(__file__).parents[1]

TIMES = {"seconds", "training_seconds", "compile_seconds"}
"""What two runs of a command never agree in."""

OF_TIMES = "chunks.csv"
"""A table of nothing but what took how long: a process that is killed before it adds a line does not add it later."""

COMMANDS = {
    "spiral": "spiral --omega 5 --epochs 700 --restarts 2",
    "fit": "fit {table} --target label --epochs 1500",
    "fit numbers": "fit {table} --target number --epochs 1500",
    "reproduce": "reproduce --omegas 5,10 --runs 1 --recipe written --epochs 400",
    "benchmark": "benchmark uci --data {sets} --names line --depth normal,1 --epochs 600",
}

RUN = "from leadline.cli import main; main()"

KILL_WHILE_WRITING = """
import os, signal, sys
from leadline.files import whole as _files
from leadline.cli import main
calls, (kind, at) = 0, (sys.argv[1], int(sys.argv[2]))
def dying(function, name_of):
    def call(*given):
        global calls
        calls += ("checkpoint" in name_of(given)) == (kind == "checkpoints")
        if calls == at and at % 2:
            os.kill(os.getpid(), signal.SIGKILL)
        result = function(*given)
        if calls == at:
            os.kill(os.getpid(), signal.SIGKILL)
        return result
    return call
os.fsync = dying(os.fsync, lambda given: os.readlink(f"/proc/self/fd/{given[0]}"))
_files.Path.replace = dying(_files.Path.replace, lambda given: str(given[1]))
sys.argv = ["leadline", *sys.argv[3:]]
main()
"""


OF_CALLS = ("epochs", "depth_pmf")
"""What metrics.jsonl says after the last epoch of a compiled call, which are as long as the machine makes them."""


def outputs(out: Path) -> dict[str, Any]:
    """What a command wrote, but for the time that it took; pictures and pages are drawn from it."""
    found: dict[str, Any] = {}
    for path in sorted(out.rglob("*")):
        name = str(path.relative_to(out))
        if path.suffix == ".json":
            found[name] = _untimed(json.loads(path.read_text()))
        elif path.suffix == ".jsonl":
            lines = (_untimed(json.loads(line)) for line in path.read_text().splitlines())
            found[name] = [{key: line[key] for key in line if key not in OF_CALLS} for line in lines]
        elif path.suffix == ".csv" and path.name != OF_TIMES:
            with path.open(newline="") as file:
                found[name] = [{key: row[key] for key in row if key not in TIMES} for row in csv.DictReader(file)]
        elif path.suffix == ".safetensors":
            found[name] = path.read_bytes()
        elif path.is_file() and path.suffix not in (".png", ".md", ".csv", ".html"):
            found[name] = "something else"
    return found


def _untimed(value: Any) -> Any:
    if isinstance(value, list):
        return [_untimed(one) for one in value]
    return {key: _untimed(one) for key, one in value.items() if key not in TIMES} if isinstance(value, dict) else value


class Torture:
    """Commands in a folder of their own."""

    def __init__(self, folder: Path, seed: int) -> None:
        self.folder, self.rng = folder, random.Random(seed)
        self.table, self.sets = folder / "table.csv", folder / "sets"
        _write_data(self.table, self.sets)
        self.alone: dict[str, tuple[dict[str, Any], float]] = {}

    def arguments(self, command: str, out: Path, *more: str) -> list[str]:
        given = COMMANDS[command].format(table=self.table, sets=self.sets).split()
        return [*given, "--quiet", "--out", str(out), *more]

    def start(self, arguments: list[str], code: str = RUN) -> subprocess.Popen[bytes]:
        given = [PYTHON, "-c", code, *arguments]
        return subprocess.Popen(given, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE)

    def finish(self, arguments: list[str]) -> str:
        """Run to the end; what it says on standard error."""
        done = self.start(arguments)
        said = done.communicate()[1].decode()
        if done.returncode != 0:
            raise SystemExit(f"{' '.join(arguments)}: exit status {done.returncode}: {said}")
        return said

    def left_alone(self, command: str) -> tuple[dict[str, Any], float]:
        """What a command gives, twice the same, and how long it takes when its programs are compiled."""
        if command not in self.alone:
            found = []
            for i in range(2):
                out = self.folder / f"alone-{command.replace(' ', '-')}-{i}"
                begin = time.monotonic()
                self.finish(self.arguments(command, out))
                found.append(outputs(out))
            if found[0] != found[1]:
                raise SystemExit(f"{command}: two runs differ")
            self.alone[command] = found[0], time.monotonic() - begin
        return self.alone[command]

    def all_killed(self, how: Callable[[str, int], Any], rounds: int) -> dict[str, Any]:
        """All commands, two at a time: a process that is killed may be in the middle of anything."""
        with ThreadPoolExecutor(2) as pool:
            return dict(zip(COMMANDS, pool.map(lambda command: how(command, rounds), COMMANDS), strict=True))

    def killed(self, command: str, rounds: int) -> dict[str, int]:
        """Kill a command at random moments, start it again each time, let it end, and compare."""
        expected, seconds = self.left_alone(command)
        out = self.folder / f"killed-{command.replace(' ', '-')}"
        arguments = self.arguments(command, out, "--checkpoint-every", "0")
        kills = resumed = 0
        while kills < rounds:
            shutil.rmtree(out, ignore_errors=True)
            while kills < rounds:
                resumed += any((out / "checkpoints").rglob("*.checkpoint"))
                process = self.start(arguments)
                try:
                    process.communicate(timeout=self.rng.uniform(0.1, 1.1) * seconds)
                    break  # it was done before its time
                except subprocess.TimeoutExpired:
                    process.kill()
                    process.communicate()
                    kills += 1
            self.finish_and_compare(command, arguments, out, expected)
        return {"kills": kills, "started from a checkpoint": resumed}

    def finish_and_compare(self, command: str, arguments: list[str], out: Path, expected: dict[str, Any]) -> None:
        if (out / "record.json").exists():  # it was killed when all was done
            again = self.start(arguments)
            said = again.communicate()[1].decode()
            if again.returncode != 2 or "holds a finished record already" not in said:
                raise SystemExit(f"{command}: a finished run was started again: {said}")
        else:
            self.finish(arguments)
        found = outputs(out)
        if found != expected:
            different = [name for name in {*found, *expected} if found.get(name) != expected.get(name)]
            raise SystemExit(f"{command}: after kills these differ: {different}")

    def killed_while_writing(self, command: str, rounds: int) -> dict[str, int]:
        """Kill a command when it has a file written or put in its place, before or after: a checkpoint at first, then
        one of what it gives in the end."""
        expected, _ = self.left_alone(command)
        kills = {"checkpoints": 0, "the rest": 0}
        for _ in range(rounds):
            out = self.folder / f"killed-writing-{command.replace(' ', '-')}"
            shutil.rmtree(out, ignore_errors=True)
            arguments = self.arguments(command, out, "--checkpoint-every", "0")
            for kind in kills:
                process = self.start([kind, str(self.rng.randint(1, 6)), *arguments], KILL_WHILE_WRITING)
                said = process.communicate()[1].decode()
                kills[kind] += process.returncode == -signal.SIGKILL
                if process.returncode not in (0, -signal.SIGKILL):
                    raise SystemExit(f"{command}: exit status {process.returncode}: {said}")
            self.finish_and_compare(command, arguments, out, expected)
        return kills

    def damaged(self, rounds: int) -> int:
        """Cut a command off, truncate its last checkpoint or flip a bit of it, and go on."""
        expected, seconds = self.left_alone("spiral")
        done = 0
        while done < rounds:
            out = self.folder / "damaged"
            shutil.rmtree(out, ignore_errors=True)
            arguments = self.arguments("spiral", out, "--checkpoint-every", "0")
            process = self.start(arguments)
            try:
                process.communicate(timeout=self.rng.uniform(0.5, 0.9) * seconds)
            except subprocess.TimeoutExpired:
                process.kill()
                process.communicate()
            files = sorted((out / "checkpoints").glob("*.checkpoint"))
            if not files or (out / "record.json").exists():
                continue  # too early, or too late
            content = bytearray(files[-1].read_bytes())
            if done % 2:
                content[self.rng.randrange(len(content))] ^= 1 << self.rng.randrange(8)
            else:
                content = content[: self.rng.randrange(len(content))]
            files[-1].write_bytes(content)
            said = self.finish(arguments)
            if "Cannot go on from the checkpoint" not in said:
                raise SystemExit(f"a damaged checkpoint was not named: {said}")
            if outputs(out) != expected:
                raise SystemExit("after a damaged checkpoint the result differs")
            done += 1
        return done

    def full_disk(self) -> str:
        """A command on a disk with no room for its checkpoints, and then with room."""
        expected, _ = self.left_alone("spiral")
        disk = self.folder / "disk"
        disk.mkdir()
        mounted = (
            os.geteuid() == 0
            and not subprocess.run(
                ["mount", "-t", "tmpfs", "-o", "size=600k", "tmpfs", str(disk)], capture_output=True, check=False
            ).returncode
        )
        if not mounted:
            return "not tried: only root can make a small disk"
        try:
            filler = disk / "filler"
            filler.write_bytes(b"x" * 550_000)
            arguments = self.arguments("spiral", disk / "out", "--checkpoint-every", "0")
            process = self.start(arguments)
            said = process.communicate()[1].decode()
            if "No space left on device. Training goes on without." not in said:
                raise SystemExit(f"a full disk was not named: {said}")
            filler.unlink()
            subprocess.run(["mount", "-o", "remount,size=100m", str(disk)], check=True)
            recorded = (disk / "out" / "record.json").exists()
            if not recorded:
                self.finish(arguments)
            shutil.rmtree(disk / "out" / "checkpoints", ignore_errors=True)
            if outputs(disk / "out") != expected:
                raise SystemExit("after a full disk the result differs")
        finally:
            subprocess.run(["umount", str(disk)], check=True)
        then = "the record was written all the same" if recorded else "the next start gave the result"
        return f"ended with status {process.returncode}, and {then}"

    def two_at_once(self) -> str:
        """The second process is refused, and the first is not disturbed."""
        expected, _ = self.left_alone("spiral")
        out = self.folder / "two"
        first = self.start(self.arguments("spiral", out))
        while not (out / ".leadline.lock").exists():
            time.sleep(0.05)
        second = self.start(self.arguments("spiral", out))
        said = second.communicate()[1].decode()
        first.communicate()
        if second.returncode != 2 or "is writing into" not in said or outputs(out) != expected:
            raise SystemExit(f"two processes on one directory: {second.returncode}, {said}")
        return said.strip().replace(str(self.folder), "...")

    def long_run(self, epochs: int, kills: int) -> dict[str, Any]:
        """The paper's own length, killed so often, against the same left alone."""
        given = ["spiral", "--omega", "10", "--recipe", "published", "--epochs", str(epochs), "--quiet"]
        alone, out = self.folder / "long-alone", self.folder / "long"
        self.finish([*given, "--out", str(alone)])
        arguments = [*given, "--out", str(out), "--checkpoint-every", "0.2"]

        def last_epoch() -> int:
            found = (out / "checkpoints").glob("*.checkpoint")
            return max((int(path.name.split("-")[2]) for path in found), default=0)

        epochs_at = []
        for i in range(kills):
            until = epochs * (i + self.rng.uniform(0.2, 0.8)) / kills
            process = self.start(arguments)
            while last_epoch() < until:
                if process.poll() is not None:
                    raise SystemExit(f"the long run ended after {i} kills")
                time.sleep(0.01)
            process.kill()
            process.communicate()
            epochs_at.append(last_epoch())
        self.finish(arguments)
        if outputs(out) != outputs(alone):
            raise SystemExit("the long run differs")
        return {"epochs": epochs, "kills": kills, "epochs at the kills": epochs_at, "identical": True}


def _write_data(table: Path, sets: Path) -> None:
    rng = random.Random(0)
    points = [(rng.gauss(0, 1), rng.gauss(0, 1)) for _ in range(120)]
    lines = [f"{a:.4f},{b:.4f},{'yes' if a * b > 0 else 'no'},{a + 0.1 * rng.gauss(0, 1):.4f}" for a, b in points]
    table.write_text("\n".join(["first,second,label,number", *lines]) + "\n")
    folder = sets / "line"
    folder.mkdir(parents=True)
    files: dict[str, Any] = {
        "data": "\n".join(line.replace("yes", "1").replace("no", "0").replace(",", " ") for line in lines),
        "index_features": "0\n1",
        "index_target": "3",
        "n_splits": "2",
    }
    for split in range(2):
        order = rng.sample(range(120), 120)
        files |= {f"index_train_{split}": "\n".join(map(str, order[:100]))}
        files |= {f"index_test_{split}": "\n".join(map(str, order[100:]))}
    for name, text in files.items():
        (folder / f"{name}.txt").write_text(text + "\n")


PROMISES = {
    "foreign_files": 1500,
    "predictions": 400,
    "failures": 1200,
    "kept_apart": 400,
    "stopping": 40,
    "strangers": 1200,
}
"""Those of docs/reliability.md with a generator of their own in `tests/promises`, and cases of each."""


def _promise(given: tuple[str, int, int]) -> dict[str, Any]:
    name, n_cases, seed = given
    with tempfile.TemporaryDirectory() as folder:
        return importlib.import_module(f"tests.promises.{name}").campaign(Path(folder), n_cases, seed)


def promises(times: float, seed: int) -> dict[str, Any]:
    """Cases of every promise, on two cores; those that take longest begin first."""
    with ProcessPoolExecutor(2) as pool:
        given = [(name, max(1, round(times * n)), seed) for name, n in PROMISES.items()]
        figures = dict(zip(PROMISES, pool.map(_promise, given), strict=True))
    failed = {name: one["failed"] for name, one in figures.items() if one["failed"]}
    if failed:
        raise SystemExit(f"promises failed: {json.dumps(failed, indent=1)[:5000]}")
    return {name: {**one, "failed": 0} for name, one in figures.items()}


def _fuzz(given: tuple[int, int]) -> dict[str, Any]:
    from tests.fuzzing import campaign

    n_files, seed = given
    with tempfile.TemporaryDirectory() as folder:
        return campaign(Path(folder), n_files, seed)


def fuzz(n_files: int, n_processes: int = 2) -> dict[str, Any]:
    """So many mutated files, on several cores."""
    total: dict[str, Any] = {}
    with ProcessPoolExecutor(n_processes) as pool:
        for result in pool.map(_fuzz, [(n_files // n_processes, seed) for seed in range(n_processes)]):
            for kind, counts in result.items():
                mine = total.setdefault(kind, {"taken": 0, "refused": 0, "failed": []})
                for name in mine:
                    mine[name] += counts[name]
    failed = {kind: counts["failed"] for kind, counts in total.items() if counts["failed"]}
    if failed:
        raise SystemExit(f"readers failed: {json.dumps(failed, indent=1)[:3000]}")
    for counts in total.values():
        counts["failed"] = 0
    return {"files": sum(counts["taken"] + counts["refused"] for counts in total.values()), **total}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=Path("runs/torture"))
    parser.add_argument("--kills", type=int, default=60)
    parser.add_argument("--files", type=int, default=100_000)
    parser.add_argument("--epochs", type=int, default=20_000)
    parser.add_argument("--cases", type=float, default=1.0, help="of every promise, in units of the usual number")
    parser.add_argument("--seed", type=int, default=int(time.time()))
    arguments = parser.parse_args()
    figures: dict[str, Any] = {"seed": arguments.seed, "python": platform.python_version()}
    begin = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        torture = Torture(Path(folder), arguments.seed)
        each = -(-arguments.kills // (len(COMMANDS) + 1))
        one_by_one: list[dict[str, Callable[[], Any]]] = [
            {"promises": lambda: promises(arguments.cases, arguments.seed)},
            {"mutated files": lambda: fuzz(arguments.files)},
            {"killed": lambda: torture.all_killed(torture.killed, each)},
            {"killed while writing": lambda: torture.all_killed(torture.killed_while_writing, max(1, each // 4))},
            {
                "damaged checkpoints": lambda: torture.damaged(max(2, each // 2)),
                "full disk": torture.full_disk,
                "two processes on one directory": torture.two_at_once,
            },
            {"long run": lambda: torture.long_run(arguments.epochs, 10)},
        ]
        for side_by_side in one_by_one:
            start = time.monotonic()
            with ThreadPoolExecutor(2) as pool:
                running = {name: pool.submit(step) for name, step in side_by_side.items()}
            for name, step in running.items():
                figures[name] = step.result()
                print(f"{time.monotonic() - start:6.0f} s  {name}: {json.dumps(figures[name])}", flush=True)
    figures["seconds"] = round(time.monotonic() - begin)
    arguments.out.mkdir(parents=True, exist_ok=True)
    (arguments.out / "torture.json").write_text(json.dumps(figures, indent=1) + "\n")
    print(f"nothing lost in {figures['seconds']} s; wrote {arguments.out / 'torture.json'}")


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    main()
