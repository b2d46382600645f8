"""How long until a person has an answer, beside an earlier version: first fits, new processes, cores, memory.

    git worktree add ../before 571e459
    python benchmarks/startup.py [--before ../before] [--json FILE] [--repeats N] [--only NAME ...]

Every figure is the median over processes of their own, the two versions in turn, with the default settings and an empty
cache of compiled programs where it says `cold`. What matters are the ratios within one run. `--only` takes the measures
with these words in their names; a file that is there already keeps the others: a long run can be cut into parts.
scikit-learn's MLP is timed beside them, and `sklearn-contrib-bde` where it is installed. On a machine of two cores that
does nothing else.
"""

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from statistics import median
from typing import Any

from tables import BDE

HERE = Path(__file__).resolve().parents[1]
TABLES = ("iris", "wine", "digits", "diabetes")
BEGIN = "import time; begin = time.perf_counter()\n"
LOAD = """
from sklearn.datasets import load_{name} as data
from leadline import DepthClassifier, DepthRegressor
x, y = data(return_X_y=True)
model = (DepthRegressor if "{name}" == "diabetes" else DepthClassifier)(random_state=0)
"""
FIT = LOAD + "begin = time.perf_counter(); model.fit(x, y); print(time.perf_counter() - begin)"
AGAIN = LOAD + "model.fit(x, y); begin = time.perf_counter(); model.fit(x, y); print(time.perf_counter() - begin)"
MLP = """
from sklearn.datasets import load_{name} as data
from sklearn.neural_network import MLPClassifier, MLPRegressor
import warnings; warnings.simplefilter("ignore")
x, y = data(return_X_y=True)
model = (MLPRegressor if "{name}" == "diabetes" else MLPClassifier)(random_state=0)
begin = time.perf_counter(); model.fit(x, y); print(time.perf_counter() - begin)
"""
PEER = """
from sklearn.datasets import load_{name} as data
from bde import BdeClassifier, BdeRegressor
x, y = data(return_X_y=True)
x = (x - x.mean(axis=0)) / (x.std(axis=0) + 1e-9)
model = (BdeRegressor if "{name}" == "diabetes" else BdeClassifier)(**{settings}, seed=0)
begin = time.perf_counter(); model.fit(x, y); print(time.perf_counter() - begin)
"""
COMPILED = """
import jax, numpy as np
from leadline import DepthClassifier
counted = []
jax.monitoring.register_event_duration_secs_listener(
    lambda name, *_, **__: counted.append(name) if name.endswith("backend_compile_duration") else None
)
rng = np.random.default_rng(0)
for columns, classes in ((4, 3), (5, 4)):
    counted.clear()
    x = rng.normal(size=(150, columns))
    DepthClassifier(max_iter=20, random_state=0).fit(x, np.arange(150) % classes).predict(x)
print(len(counted))
"""
VERSION = """
import sys; sys.argv[1:] = ["--version"]
from leadline.cli import main
try: main()
except SystemExit: pass
"""
RESTARTS = """
import numpy as np
from sklearn.datasets import load_digits
from leadline import DepthClassifier
x, y = load_digits(return_X_y=True)
model = DepthClassifier(recipe="leadline", n_restarts=4, max_iter=60, early_stopping=False, random_state=0)
model.fit(x[:300], y[:300])
begin = time.perf_counter(); model.fit(x, y); print(time.perf_counter() - begin)
"""
GRID = """
from sklearn.datasets import load_iris
from sklearn.model_selection import GridSearchCV
from leadline import DepthClassifier
x, y = load_iris(return_X_y=True)
grid = {{"width": [8, 16], "learning_rate_init": [0.002, 0.005]}}
search = GridSearchCV(DepthClassifier(random_state=0), grid, cv=3, n_jobs={jobs}, refit=False)
begin = time.perf_counter(); search.fit(x, y); print(time.perf_counter() - begin)
"""
BY_INPUT = """
import numpy as np
from leadline import DepthRegressor
rng = np.random.default_rng(0)
x = rng.normal(size=(3000, 8))
y = np.sin(2 * x[:, 0]) + x[:, 1] * x[:, 2] + (0.1 + 0.3 * np.abs(x[:, 3])) * rng.normal(size=3000)
begin = time.perf_counter(); DepthRegressor(noise="input", random_state=0).fit(x, y); print(time.perf_counter() - begin)
"""


def run(code: str, version: Path, cache: Path, cores: int | None = None) -> tuple[float, float]:
    """What a process of its own prints (or the seconds it took), and its peak of memory in MB."""
    environment = {key: value for key, value in os.environ.items() if not key.startswith("JAX_")}
    path = os.pathsep.join([str(version), *filter(None, [os.environ.get("PYTHONPATH")])])
    environment |= {"PYTHONPATH": path, "XDG_CACHE_HOME": str(cache)}
    all_cores = sorted(os.sched_getaffinity(0))

    def prepare() -> None:
        os.sched_setaffinity(0, all_cores[:cores])

    start = time.perf_counter()
    process = subprocess.Popen(
        [sys.executable, "-c", BEGIN + code],
        env=environment,
        cwd=cache,
        stdout=subprocess.PIPE,
        text=True,
        preexec_fn=prepare,
    )
    said = process.stdout.read() if process.stdout else ""
    _, status, usage = os.wait4(process.pid, 0)
    seconds = time.perf_counter() - start
    if status:
        raise RuntimeError(f"{code}\nended with {status}")
    numbers = re.findall(r"^[\d.]+(?:e-?\d+)?$", said, re.MULTILINE)
    return float(numbers[-1]) if numbers else seconds, usage.ru_maxrss / 1024


Measure = Callable[[Path, Path], float]


def measures() -> dict[str, Measure]:
    """Under their names: what is measured, of a version, with a cache directory that is empty at first."""

    def timed(code: str, again: bool = False, memory: bool = False, cores: int | None = None) -> Measure:
        def measure(version: Path, cache: Path) -> float:
            if again:
                run(code, version, cache, cores)
            return run(code, version, cache, cores)[1 if memory else 0]

        return measure

    found: dict[str, Measure] = {
        "import jax": timed("import jax"),
        "import leadline": timed("import leadline"),
        "import DepthClassifier": timed("from leadline import DepthClassifier"),
        "--version": timed(VERSION),
    }
    for name in TABLES:
        found[f"{name}: cold"] = timed(FIT.format(name=name))
        found[f"{name}: new process"] = timed(FIT.format(name=name), again=True)
        found[f"{name}: again"] = timed(AGAIN.format(name=name))
        found[f"{name}: MLP"] = timed(MLP.format(name=name))
        if find_spec("bde"):
            found[f"{name}: bde"] = timed(PEER.format(name=name, settings=BDE))
    return found | {
        "peak of a cold fit, MB": timed(FIT.format(name="iris"), memory=True),
        "programs for a second table": timed(COMPILED),
        "four restarts, one core": timed(RESTARTS, cores=1),
        "four restarts, two cores": timed(RESTARTS, cores=2),
        "grid of 12 fits, one job": timed(GRID.format(jobs=1)),
        "grid of 12 fits, two jobs": timed(GRID.format(jobs=2)),
        "noise by input, one core": timed(BY_INPUT, cores=1),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--before", type=Path, help="a checkout of an earlier version")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--only", nargs="*", help="measures whose names have one of these words")
    arguments = parser.parse_args()
    versions = {"now": HERE} | ({"before": arguments.before.resolve()} if arguments.before else {})
    taken: dict[str, dict[str, list[float]]] = {}
    for name, measure in measures().items():
        if arguments.only and not any(word in name for word in arguments.only):
            continue
        for _ in range(arguments.repeats):
            for version, checkout in versions.items():
                if version == "before" and name.endswith(("MLP", "bde", "import jax")):
                    continue
                with tempfile.TemporaryDirectory() as cache:
                    taken.setdefault(name, {}).setdefault(version, []).append(measure(checkout, Path(cache)))
        row = {version: median(values) for version, values in taken[name].items()}
        ratio = f"{row['now'] / row['before']:8.2f}" if row.get("before") else ""
        print(f"{name:32s}" + "".join(f"{value:10.2f}" for value in row.values()) + ratio, flush=True)
    if arguments.json:
        record: dict[str, Any] = {"cores": len(os.sched_getaffinity(0)), "repeats": arguments.repeats, "medians": {}}
        if arguments.json.exists():
            record["medians"] = json.loads(arguments.json.read_text())["medians"]
        for name, by_version in taken.items():
            record["medians"][name] = {version: round(median(values), 3) for version, values in by_version.items()}
        arguments.json.write_text(json.dumps(record, indent=1) + "\n")


if __name__ == "__main__":
    main()
