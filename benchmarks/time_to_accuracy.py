"""Seconds until the spiral with omega = 10 is learned, for the recipes `leadline` and `published`, on one core.

    python benchmarks/time_to_accuracy.py [--target 99] [--json results/recipes/time-to-accuracy.json]

Each recipe trains as it would by default, all restarts included, until its prediction on the 1024 test points reaches
the target; looking does not count. The seconds are given without compilation (the first compiled call, one epoch) and
with it.
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

import leadline  # noqa: E402
from leadline import metrics  # noqa: E402
from leadline.datasets import spiral_parts  # noqa: E402
from leadline.experiments.spiral import predict_restarts  # noqa: E402
from leadline.training.state import TrainingState  # noqa: E402

OMEGA = 10


class Reached(Exception):  # noqa: N818
    """The target is reached: nothing is wrong, and training need not go on."""


class Clock:
    """Looks at the training after every compiled call and adds up the seconds between its looks."""

    def __init__(self, recipe: leadline.Recipe, seed: int, test: tuple[Any, Any], target: float):
        self.recipe, self.seed, self.test, self.target = recipe, seed, test, target
        self.calls: list[float] = []
        self.accuracy, self.epoch = 0.0, 0
        self._resumed = time.perf_counter()

    def __call__(self, state: TrainingState) -> None:
        self.calls.append(time.perf_counter() - self._resumed)
        probabilities = predict_restarts(state.model, self.test[0], 40, self.seed)
        self.accuracy, self.epoch = metrics.accuracy(probabilities, self.test[1]), int(state.epoch)
        if self.accuracy >= self.target:
            raise Reached
        self._resumed = time.perf_counter()


def run(name: str, seed: int, target: float) -> dict[str, Any]:
    recipe = leadline.RECIPES[name]
    parts = spiral_parts(OMEGA, seed)
    clock = Clock(recipe, seed, parts["test"], target)
    with contextlib.suppress(Reached):
        leadline.train(
            parts["train"],
            parts["validation"],
            leadline.CategoricalLikelihood(2),
            recipe=recipe,
            seeds=[seed],
            on_call=clock,
        )
        raise SystemExit(f"{name}, seed {seed}: {clock.accuracy:.2f} % after {clock.epoch} epochs, below the target.")
    return {
        "recipe": name,
        "omega": OMEGA,
        "seed": seed,
        "n_restarts": recipe.n_restarts,
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
    records = [run(name, seed, arguments.target) for seed in arguments.seeds for name in ("leadline", "published")]
    for record in records:
        print(
            f"seed {record['seed']}  {record['recipe']:10s} {record['accuracy']:.2f} % after {record['epoch']} epochs: "
            f"{record['seconds']:.1f} s ({record['seconds_with_compilation']:.1f} s with compilation)"
        )
    total = {name: sum(r["seconds"] for r in records if r["recipe"] == name) for name in ("leadline", "published")}
    ratio = total["published"] / total["leadline"]
    print(f"published / leadline: {ratio:.1f}")
    if arguments.json:
        result = {"ratio": round(ratio, 2), "runs": records, "python": sys.version.split()[0]}
        arguments.json.write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()
