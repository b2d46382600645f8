"""How the time of a training step grows with the depth in use, the layers in store, the width, the batch and the runs.

    python benchmarks/scaling.py [--json FILE] [--plot FILE] [--only depth,capacity,width,batch,runs]

One core. One thing is varied at a time from batch 256, width 32, depths 0 .. 3, one run, recipe `written` (the full
free energy, local reparameterisation). Layers in store are handled as training handles them: those far below the depth
in use wait on a shelf. Repeats are interleaved over the points of a line.
"""

import argparse
import json
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
from step_time import STEPS, leadline_steps  # pins this process to one core

BASE = {"batch": 256, "width": 32, "highest": 3, "capacity": 8, "runs": 1}

LINES = {
    "depth": ("highest", [0, 1, 2, 3, 4, 6, 8, 12, 16]),
    "capacity": ("capacity", [4, 8, 16, 32, 64]),
    "width": ("width", [8, 16, 32, 64, 128, 256, 512]),
    "batch": ("batch", [32, 64, 128, 256, 512, 1024, 2048, 4096]),
    "runs": ("runs", [1, 2, 4, 8, 16, 32, 64]),
}


def measure(field: str, values: list[int], repeats: int) -> list[float]:
    """Milliseconds of a step at each value, medians of interleaved repeats."""
    programs: list[Callable[[], None]] = []
    for value in values:
        settings = BASE | {field: value}
        settings["capacity"] = max(settings["capacity"], settings["highest"])
        programs.append(leadline_steps("written", **settings))
        programs[-1]()  # compiles
        print(".", end="", file=sys.stderr, flush=True)
    taken: list[list[float]] = [[] for _ in values]
    for _ in range(repeats):
        for seconds, program in zip(taken, programs, strict=True):
            start = time.perf_counter()
            program()
            seconds.append(time.perf_counter() - start)
    print(file=sys.stderr)
    return [1000 * float(np.median(seconds)) / STEPS for seconds in taken]


def plot(results: dict[str, dict[int, float]], path: Path) -> None:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(15, 3.4), layout="constrained")
    axes = figure.subplots(1, len(results), squeeze=False, sharey=True)[0]
    for ax, (name, line) in zip(axes, results.items(), strict=True):
        x = np.array(list(line)) + (name == "depth")
        ax.loglog(x, list(line.values()), ".-", color="#c75100")
        ax.set_xticks(x, labels=map(str, x), fontsize=8)
        ax.minorticks_off()
        ax.set(xlabel="layers in use (depth + 1)" if name == "depth" else name)
        ax.grid(alpha=0.3)
    axes[0].set(ylabel="ms a step")
    axes[0].set_yticks([0.1, 1, 10, 100], labels=["0.1", "1", "10", "100"])
    figure.savefig(path, dpi=130)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--plot", type=Path)
    parser.add_argument("--only", default=",".join(LINES))
    parser.add_argument("--repeats", type=int, default=7)
    arguments = parser.parse_args()
    # Lines measured earlier stay: a noisy machine may be asked for some of them again.
    earlier = json.loads(arguments.json.read_text()) if arguments.json and arguments.json.exists() else {}
    results = {name: {int(value): ms for value, ms in line.items()} for name, line in earlier.items()}
    for name in arguments.only.split(","):
        field, values = LINES[name]
        results[name] = dict(zip(values, measure(field, values, arguments.repeats), strict=True))
        first = next(iter(results[name].values()))
        print(f"| {name} | " + " | ".join(map(str, results[name])) + " |")
        print("| ms a step | " + " | ".join(f"{ms:.3f}" for ms in results[name].values()) + " |")
        print("| times the first | " + " | ".join(f"{ms / first:.2f}" for ms in results[name].values()) + " |\n")
    if arguments.json:
        arguments.json.write_text(json.dumps(results, indent=1) + "\n")
    if arguments.plot:
        plot(results, arguments.plot)


if __name__ == "__main__":
    main()
