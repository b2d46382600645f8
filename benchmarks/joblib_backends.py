"""A grid search over 12 small fits: in turn, and by two processes of joblib's backends, when they begin and once more.

python benchmarks/joblib_backends.py [--backends loky dask ray] [--repeats 3] [--json results/cluster/joblib.json]

In turn, every fit has all cores, its restarts being divided among them; two processes have half of them each, and
import first what a fit needs. All that is said is beside the search in turn of the same round.
"""

import argparse
import json
import os
import subprocess
import sys
import time
from contextlib import ExitStack, contextmanager
from pathlib import Path
from statistics import median
from typing import Any

import joblib
from sklearn.datasets import load_iris
from sklearn.model_selection import GridSearchCV

import leadline
from leadline.backend.device import n_cores

N_JOBS = 2
GRID = {"width": [8, 16], "learning_rate_init": [0.002, 0.005]}


def search() -> float:
    """Its seconds."""
    begin = time.perf_counter()
    GridSearchCV(leadline.DepthClassifier(random_state=0), GRID, cv=3, refit=False).fit(*load_iris(return_X_y=True))
    return time.perf_counter() - begin


@contextmanager
def processes(backend: str) -> Any:
    """Those of a backend; they have imported nothing of ours."""
    with ExitStack() as stack:
        if backend == "dask":
            from distributed import Client, LocalCluster  # pyright: ignore[reportMissingImports]

            sizes = {"n_workers": N_JOBS, "threads_per_worker": 1, "dashboard_address": None}
            stack.enter_context(Client(stack.enter_context(LocalCluster(**sizes))))
        elif backend == "ray":
            os.environ["RAY_worker_niceness"] = "0"  # as all others have it  # noqa: SIM112
            import ray  # pyright: ignore[reportMissingImports]
            from ray.util.joblib import register_ray  # pyright: ignore[reportMissingImports]

            ray.init(num_cpus=N_JOBS, include_dashboard=False, log_to_driver=False)
            stack.callback(ray.shutdown)
            register_ray()
        else:
            from joblib.externals.loky import get_reusable_executor

            stack.callback(lambda: get_reusable_executor().shutdown())  # what the searches have begun
        with joblib.parallel_config(backend=backend, n_jobs=N_JOBS):
            yield


def round_of(backends: list[str]) -> dict[str, float]:
    """Seconds of each search."""
    took = {"in turn": search()}
    for backend in backends:
        with processes(backend):
            took[backend] = search()
            took[f"{backend}, again"] = search()
    return took


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--backends", nargs="+", default=["loky", "dask", "ray"])
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    leadline.DepthClassifier(random_state=0, max_iter=1).fit(*load_iris(return_X_y=True))  # imports
    rounds = [round_of(arguments.backends) for _ in range(arguments.repeats)]
    begin = time.perf_counter()
    subprocess.run([sys.executable, "-c", "from leadline import DepthClassifier"], check=True)
    said = {
        "fits": 12,
        "n_jobs": N_JOBS,
        "seconds_in_turn": round(median(one["in turn"] for one in rounds), 2),
        "times_in_turn": {name: round(median(one[name] / one["in turn"] for one in rounds), 2) for name in rounds[0]},
        "seconds_of_an_import": round(time.perf_counter() - begin, 2),
        "repeats": arguments.repeats,
        "cores": n_cores(),
        "version": leadline.__version__,
    }
    for name, value in said.items():
        print(f"{name}: {value}")
    if arguments.json:
        arguments.json.parent.mkdir(parents=True, exist_ok=True)
        arguments.json.write_text(json.dumps(said, indent=1) + "\n")


if __name__ == "__main__":
    main()
