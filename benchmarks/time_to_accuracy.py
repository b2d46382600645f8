"""Seconds until the spiral with omega = 10 is learned, for the recipes `leadline` and `published`, on one core.

    python benchmarks/time_to_accuracy.py [--target 99] [--json results/recipes/time-to-accuracy.json]

Each recipe trains as it would by default, all restarts included, until its prediction on the 1024 test points reaches
the target; `leadline` also as one network, like `published`. Looking does not count. The seconds are given without
compilation (the first compiled call, one epoch) and with it.
"""

import argparse
import contextlib
import json
import os
import sys
import time
from pathlib import Path
from typing import Any

os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})  # before XLA starts its threads
os.environ["JAX_ENABLE_COMPILATION_CACHE"] = "0"  # what is read from disk is not compiled

import leadline  # noqa: E402
from leadline import metrics  # noqa: E402
from leadline.inference.restarts import Restarts  # noqa: E402
from leadline.studies.spiral import spiral_problem  # noqa: E402
from leadline.training.state import TrainingState  # noqa: E402

OMEGA = 10
CONTENDERS = [("leadline", 4), ("leadline", 1), ("published", 1)]  # a recipe and its number of networks


class Reached(Exception):  # noqa: N818
    """The target is reached: nothing is wrong, and training need not go on."""


class Clock:
    """Looks at the training after every compiled call and adds up the seconds between its looks."""

    def __init__(self, seed: int, test: tuple[Any, Any], target: float):
        self.seed, self.test, self.target = seed, test, target
        self.calls: list[float] = []
        self.accuracy, self.epoch = 0.0, 0
        self._resumed = time.perf_counter()

    def __call__(self, state: TrainingState) -> None:
        self.calls.append(time.perf_counter() - self._resumed)
        probabilities = Restarts(state.model.unpack(), self.seed, 40).moments(self.test[0])
        self.accuracy, self.epoch = metrics.accuracy(probabilities, self.test[1]), int(state.epoch)
        if self.accuracy >= self.target:
            raise Reached
        self._resumed = time.perf_counter()


def run(name: str, n_restarts: int, seed: int, target: float) -> dict[str, Any]:
    problem = spiral_problem(OMEGA, seed)
    assert problem.test is not None
    clock = Clock(seed, problem.test, target)
    with contextlib.suppress(Reached):
        settings = leadline.Settings(recipe=name, n_restarts=n_restarts, seed=seed)
        leadline.train(problem, settings, watch=leadline.Watch(on_call=clock))
        raise SystemExit(f"{name}, seed {seed}: {clock.accuracy:.2f} % after {clock.epoch} epochs, below the target.")
    return {
        "recipe": name,
        "omega": OMEGA,
        "seed": seed,
        "n_restarts": n_restarts,
        "accuracy": clock.accuracy,
        "epoch": clock.epoch,
        "seconds": round(sum(clock.calls[1:]), 2),
        "seconds_with_compilation": round(sum(clock.calls), 2),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--target", type=float, default=99.0)
    parser.add_argument("--seeds", type=int, nargs="*", default=[1, 2, 3])
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    records = [run(*contender, seed, arguments.target) for seed in arguments.seeds for contender in CONTENDERS]
    for record in records:
        print(
            f"seed {record['seed']}  {record['recipe']:10s} x {record['n_restarts']}  {record['accuracy']:.2f} % after "
            f"{record['epoch']} epochs: {record['seconds']:.1f} s ({record['seconds_with_compilation']:.1f} s with "
            "compilation)"
        )
    total = {c: sum(r["seconds"] for r in records if (r["recipe"], r["n_restarts"]) == c) for c in CONTENDERS}
    ratios = {f"leadline x {n}": round(total["published", 1] / total["leadline", n], 2) for n in (4, 1)}
    print("times faster than published:", ratios)
    if arguments.json:
        result = {"times faster than published": ratios, "runs": records, "python": sys.version.split()[0]}
        arguments.json.write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()
