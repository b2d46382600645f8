"""What Ray costs, and a sweep that is killed.

    python benchmarks/cluster.py --out results/cluster

`overhead.json`: 64 chunks of one second each on two slots of a Ray on this machine, against the ideal of 32 seconds.
The chunks sleep, so that what else the machine does is not in it; Ray, two workers and their imports are there before
the clock runs. `sweep.json`: `leadline sweep` of 200 settings, drawn from a space, on the wine table; it is killed by
SIGKILL when a third is in the table, and started again.
"""

import argparse
import json
import os
import platform
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from datetime import date
from importlib.metadata import version
from pathlib import Path
from typing import Any

from leadline.backend.device import n_cores
from leadline.files.records import read_rows
from leadline.studies.runners import RayRunner, Work
from leadline.training.bursts import Progress

CHUNKS, SECONDS, SLOTS, SETTINGS = 64, 1.0, 2, 200
PLAN = """
folds = 2
random = 200
[settings]
recipe = "leadline"
restarts = 1
epochs = 30
width = [4, 8, 16, 32]
depth = ["normal", "poisson", 0, 1, 2, 3]
temperature = [0.05, 0.15, 1.0]
learning_rate = {low = 0.001, high = 0.1, log = true}
"""


def sleep(
    chunk: float, made: Sequence[Any], report: Callable[[Progress], None], stop: Callable[[], bool]
) -> tuple[float, float]:
    """When it began and ended."""
    begin = time.time()
    time.sleep(chunk)
    return begin, time.time()


def overhead() -> dict[str, Any]:
    """Of chunks of a second."""
    runner = RayRunner(cores=max(1, n_cores() // SLOTS))
    work = Work(sleep, lambda chunk: None, lambda i, share, who: None)
    with runner.ready() as slots:
        assert slots.n == SLOTS, f"needs {SLOTS} slots, and there are {slots.n}"
        list(runner.run([0.0] * 4 * SLOTS, work))  # the workers start, and import
        begin = time.perf_counter()
        came = list(runner.run([SECONDS] * CHUNKS, work))
        took = time.perf_counter() - begin
    assert len(came) == CHUNKS
    ideal = CHUNKS * SECONDS / SLOTS
    return {"chunks": CHUNKS, "seconds_each": SECONDS, "slots": SLOTS, "seconds": round(took, 2), "ideal": ideal} | {
        "ratio": round(took / ideal, 3)
    }


def killed_sweep(on: str) -> dict[str, Any]:
    """Rows before the kill and after the second start, and whether the former are still there, to the letter."""
    from sklearn.datasets import load_wine

    with tempfile.TemporaryDirectory() as folder:
        table, out, plan = (Path(folder) / name for name in ("wine.csv", "out", "plan.toml"))
        wine: Any = load_wine(as_frame=True)
        wine.frame.to_csv(table, index=False)
        plan.write_text(PLAN)
        command = [sys.executable, "-m", "leadline", "sweep", str(table), "--target", "target", "--plan", str(plan)]
        command += ["--task", "classification", "--out", str(out), "--on", on, "--quiet"]
        runs = 2 * SETTINGS
        begin = time.perf_counter()
        process = subprocess.Popen(command)
        while len(read_rows(out / "sweep.csv")) < runs // 3:
            assert process.poll() is None, "the sweep has ended too soon"
            time.sleep(0.05)
        process.send_signal(signal.SIGKILL)
        process.wait()
        before = read_rows(out / "sweep.csv")
        first = time.perf_counter() - begin
        begin = time.perf_counter()
        subprocess.run(command, check=True)
        after = read_rows(out / "sweep.csv")
        return {
            "on": on,
            "settings": SETTINGS,
            "runs": runs,
            "rows_when_killed": len(before),
            "rows_at_the_end": len(after),
            "different_runs": len({row["run"] for row in after}),
            "rows_that_changed": sum(row not in after for row in before),
            "seconds_until_killed": round(first, 1),
            "seconds_after": round(time.perf_counter() - begin, 1),
            "files": sorted(path.name for path in out.iterdir()),
        }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--only", choices=["overhead", "sweep"])
    parser.add_argument("--on", default="local", help="where the sweep is trained")
    given = parser.parse_args()
    versions = {name: version(name) for name in ("leadline", "jax", "ray")} | {"python": platform.python_version()}
    where = {"cores": n_cores(), "load": round(os.getloadavg()[0], 1), "date": str(date.today()), **versions}
    given.out.mkdir(parents=True, exist_ok=True)
    for name, measure in (("overhead", overhead), ("sweep", lambda: killed_sweep(given.on))):
        if given.only in (None, name):
            content = measure() | where
            (given.out / f"{name}.json").write_text(json.dumps(content, indent=1) + "\n")
            print(json.dumps(content, indent=1))


if __name__ == "__main__":
    main()
