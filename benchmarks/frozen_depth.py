"""Can q(L) find its way back from a single wrong depth? Start it at depth 0 on the spiral with omega = 10.

python benchmarks/frozen_depth.py [--json results/recipes/frozen-depth.json]
"""

import argparse
import json
from pathlib import Path
from typing import Any

import jax

import leadline
from leadline import metrics
from leadline.studies.spiral import spiral_problem
from leadline.training.progress import ProgressLine

OMEGA, SEED = 10, 1


def run(name: str) -> dict[str, Any]:
    recipe = leadline.RECIPES[name]
    problem = spiral_problem(OMEGA, SEED, n_test=100_000)
    depth = (leadline.NormalDepth(0.0, 1.15), leadline.NormalDepth(0.0, 0.05, 0.025, 0.975, recipe.bounds))
    with ProgressLine(recipe.epochs) as line:
        settings = leadline.Settings(depth=depth, recipe=recipe, seed=SEED)
        training = leadline.train(problem, settings, watch=leadline.Watch(line))
    if training.interrupted:
        raise SystemExit("interrupted; nothing is recorded.")
    assert problem.test is not None
    x, y = problem.test
    probabilities, summary = training.restarts().moments(x), training.restarts().depth()
    return {
        "recipe": name,
        "omega": OMEGA,
        "seed": SEED,
        "epochs": training.epochs,
        "n_restarts": training.n_restarts,
        "accuracy": metrics.accuracy(probabilities, y),
        "nll": metrics.nll(probabilities, y),
        **{key: summary[key] for key in ("depth_mean", "depth_std", "depth_support")},
        "seconds": round(training.seconds, 1),
        "device": jax.devices()[0].device_kind,
        "version": leadline.__version__,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    records = [run(name) for name in ("published", "leadline")]
    for record in records:
        print(
            f"{record['recipe']:10s} accuracy {record['accuracy']:.2f} %, NLL {record['nll']:.4f}, depth "
            f"{record['depth_mean']:.2f} ± {record['depth_std']:.2f} in {record['depth_support']}"
        )
    if arguments.json:
        arguments.json.write_text(json.dumps(records, indent=1) + "\n")


if __name__ == "__main__":
    main()
