"""What a sweep costs: runs x epochs x width x depth -> device hours, by what was measured.

python benchmarks/cost.py [--json results/cluster/cost.json]

A CPU core, JAX's code (`results/speed/scaling.json`): the seconds of a step of some runs side by side are

    a + runs (depth + 1) (b + c batch + d batch width + e batch width^2 + f width^2)

with factors of at least 0 that make the squares of the relative errors smallest. The largest of each series and every
third one are held out, and tell how far to believe it.

A GPU, width 32 and batch 256 alone: max(a, b + c runs) for the recipe `published`, from the steps of
`results/spiral/side_by_side_gpu.json` with 1, 31 and 310 runs; held out are 155 runs, and the whole training of
`results/spiral/chunks.csv`. Of the recipes `written` and `leadline` that table has one training each, which gives their
factor: it is what they took, and was not checked.
"""

import argparse
import csv
import json
from pathlib import Path
from typing import Any

import numpy as np
from scipy.optimize import nnls

RESULTS = Path(__file__).parents[1] / "results"

USUAL = {"depth": 3, "width": 32, "batch": 256, "runs": 1}
"""What `scaling.json` has where it varies another."""

STEPS_AN_EPOCH = 4
"""Of a spiral: 1,024 rows, batches of 256."""

COMPILATION = 14.0
"""Seconds of the GPU's trainings in `chunks.csv`, as docs/performance.md says."""

MILLION = 10**6


def features(depth: float, width: float, batch: float, runs: float) -> list[float]:
    """What the factors are of."""
    layers = runs * (depth + 1)
    return [1.0, *(layers * size for size in (1.0, batch, batch * width, batch * width**2, width**2))]


def cpu_points() -> list[tuple[dict[str, int], float, bool]]:
    """What was varied, the seconds of a step, and whether it is held out."""
    series = json.loads((RESULTS / "speed" / "scaling.json").read_text())
    points = []
    for name in USUAL:
        values = [(int(size), ms / 1000) for size, ms in series[name].items()]
        for i, (size, seconds) in enumerate(values):
            points.append(({**USUAL, name: size}, seconds, i == len(values) - 1 or i % 3 == 1))
    return points


def cpu_factors() -> np.ndarray:
    """Fitted to what is not held out."""
    known = [(features(**sizes), seconds) for sizes, seconds, held in cpu_points() if not held]
    scaled = np.array([np.array(row) / seconds for row, seconds in known])
    unit = scaled.max(axis=0)
    return nnls(scaled / unit, np.ones(len(known)))[0] / unit


def cpu_check(factors: np.ndarray) -> list[dict[str, Any]]:
    """What was held out, beside what the model says of it."""
    held = [(sizes, seconds) for sizes, seconds, is_held in cpu_points() if is_held]
    said = [float(np.dot(features(**sizes), factors)) for sizes, _ in held]
    return [
        {**sizes, "measured_ms": round(1000 * seconds, 3), "model_ms": round(1000 * model, 3)}
        for (sizes, seconds), model in zip(held, said, strict=True)
    ]


def gpu_step() -> tuple[float, float, float]:
    """The seconds of the least step, and of any step: a constant, and a run's."""
    steps = {one["runs"]: one["step_seconds"] for one in _read("spiral/side_by_side_gpu.json")}
    least = (steps[1] + steps[31]) / 2
    # A line through the end of the flat part and the largest.
    of_run = (steps[310] - least) / (310 - 31)
    return least, least - 31 * of_run, of_run


def gpu_seconds(runs: int, steps: int, factor: float = 1.0) -> float:
    """Of a training, without compilation."""
    least, constant, of_run = gpu_step()
    return steps * max(least, factor * (constant + of_run * runs))


def gpu_check() -> list[dict[str, Any]]:
    """What was held out, beside what the model says of it."""
    steps = {one["runs"]: one["step_seconds"] for one in _read("spiral/side_by_side_gpu.json")}
    published = gpu_trainings()["published"]
    rows = [{"what": "a step of 155 runs, ms", "measured": 1000 * steps[155], "model": 1000 * gpu_seconds(155, 1)}]
    seconds = gpu_seconds(published["runs"], published["steps"])
    rows.append({"what": "310 trainings, s", "measured": published["seconds"], "model": seconds})
    return [{**row, "measured": round(row["measured"], 3), "model": round(row["model"], 3)} for row in rows]


def gpu_trainings() -> dict[str, dict[str, Any]]:
    """Of the spirals: runs, steps, and seconds without compilation."""
    restarts = {"published": 1, "written": 1, "leadline": 4}
    with (RESULTS / "spiral" / "chunks.csv").open() as file:
        return {
            row["recipe"]: {
                "fits": int(row["runs"]),
                "runs": int(row["runs"]) * restarts[row["recipe"]],
                "steps": int(row["epochs"]) * STEPS_AN_EPOCH,
                "seconds": float(row["training_seconds"]) - COMPILATION,
            }
            for row in csv.DictReader(file)
        }


def million(factors: np.ndarray) -> dict[str, dict[str, float]]:
    """Device hours of as many spirals, as `reproduce` trains them, in chunks of the size that was measured."""
    hours = {}
    for recipe, one in gpu_trainings().items():
        core = one["steps"] * one["runs"] / one["fits"] * float(np.dot(features(**USUAL), factors))
        hours[recipe] = {"gpu": round(MILLION / one["fits"] * one["seconds"] / 3600, 1)}
        if recipe == "written":  # the one that `scaling.json` is of
            hours[recipe]["core"] = round(MILLION * core / 3600, -2)
            hours[recipe]["core, by the engine"] = round(MILLION * core * engine() / 3600, -2)
    return hours


def engine() -> float:
    """A step of the engine beside one of JAX's code, on one core."""
    steps = _read("speed/step_time.json")["milliseconds_per_step"]
    return steps["written, engine"] / steps["written"]


def by_size(factors: np.ndarray) -> dict[str, dict[str, float]]:
    """Core hours of a million trainings of 20,000 steps, by width and depth."""
    return {
        f"width {width}": {
            f"depth {depth}": round(
                MILLION * 20_000 * float(np.dot(features(depth, width, 256, 1), factors)) / 3600, -2
            )
            for depth in (1, 3, 8)
        }
        for width in (16, 32, 64)
    }


def _read(name: str) -> Any:
    return json.loads((RESULTS / name).read_text())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    factors, trainings = cpu_factors(), gpu_trainings()
    checked = cpu_check(factors)
    errors = sorted(abs(one["model_ms"] / one["measured_ms"] - 1) for one in checked)
    said = {
        "core": {
            "factors": dict(zip("abcdef", factors.tolist(), strict=True)),
            "held_out": checked,
            "median_error": round(float(np.median(errors)), 3),
            "largest_error": round(errors[-1], 3),
        },
        "gpu": {
            "factors": dict(zip("abc", gpu_step(), strict=True)),
            "held_out": gpu_check(),
            "times_published": {
                recipe: round(one["seconds"] / gpu_seconds(one["runs"], one["steps"]), 2)
                for recipe, one in trainings.items()
            },
        },
        "hours_of_a_million": million(factors),
        "core_hours_of_a_million_by_size": by_size(factors),
    }
    for one in checked:
        print("core:", ", ".join(f"{name} {value}" for name, value in one.items()))
    print(f"core: held out, the error is {errors[len(errors) // 2]:.0%} in the middle, {errors[-1]:.0%} at most")
    for name in ("held_out", "times_published"):
        print("gpu:", said["gpu"][name])
    for name in ("hours_of_a_million", "core_hours_of_a_million_by_size"):
        print(f"{name}:", said[name])
    if arguments.json:
        arguments.json.parent.mkdir(parents=True, exist_ok=True)
        arguments.json.write_text(json.dumps(said, indent=1) + "\n")


if __name__ == "__main__":
    main()
