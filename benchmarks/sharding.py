"""What a step costs where devices share the rows or the runs, beside the same step by one device that shares nothing.

python benchmarks/sharding.py [--devices 1] [--batch 256] [--width 32] [--json results/cluster/sharding.json]

On a CPU, `XLA_FLAGS=--xla_force_host_platform_device_count=2` makes two devices of it, for `--devices 2`; both have the
same cores as the one, so that only what sharing costs is to be seen, and not what it gains. All are trained by JAX, in
turns, some epochs each; the ratios are those of neighbouring turns.
"""

import argparse
import json
import time
from contextlib import nullcontext
from pathlib import Path
from statistics import median
from typing import Any

import jax
import numpy as np

import leadline
from leadline.backend.device import Backend, n_cores, pretending

ROWS, COLUMNS, RUNS = 4096, 16, 4
EPOCHS = 4
"""Of a turn."""


def training(by: Any, arguments: argparse.Namespace) -> leadline.Training:
    """That goes on as long as it is asked to, of a table large enough for several steps an epoch."""
    x = np.random.default_rng(0).normal(size=(ROWS, COLUMNS))
    problem = leadline.Problem((x, (x[:, 0] * x[:, 1] > 0).astype(int)), 0.1, leadline.CategoricalLikelihood(2))
    sizes = {"width": arguments.width, "batch_size": arguments.batch}
    # Next to no learning of weights, so that no run diverges however long it goes on.
    settings = leadline.Settings(n_restarts=RUNS, epochs=10**6, learning_rate=1e-12, **sizes)
    shared = leadline.sharded(by, arguments.devices) if by else nullcontext()
    is_cpu = jax.default_backend() == "cpu"
    with shared, pretending(Backend("cpu")) if is_cpu and not by else nullcontext():
        begun = leadline.Training(problem, settings)
        begun.advance(EPOCHS)
    return begun


def turn(one: leadline.Training) -> float:
    """Its seconds."""
    begin = time.perf_counter()
    one.advance(EPOCHS)
    return time.perf_counter() - begin


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name, default in (("devices", 1), ("batch", 256), ("width", 32), ("repeats", 21)):
        parser.add_argument(f"--{name}", type=int, default=default)
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    ways = {by or "alone": training(by, arguments) for by in (None, "rows", "runs")}
    for one in ways.values():  # the number of epochs of a call finds its length
        turn(one)
    took = [{name: turn(one) for name, one in ways.items()} for _ in range(arguments.repeats)]
    steps = EPOCHS * -(-round(0.9 * ROWS) // arguments.batch)
    measured = {
        "devices": arguments.devices,
        "batch": arguments.batch,
        "width": arguments.width,
        "runs": RUNS,
        "ms_a_step": {name: round(1000 * median(turn[name] for turn in took) / steps, 3) for name in ways},
        "times_alone": {},
        "repeats": arguments.repeats,
        "device": jax.devices()[0].device_kind,
        "cores": n_cores(),
        "version": leadline.__version__,
    }
    for by in ("rows", "runs"):
        ratios = sorted(turn[by] / turn["alone"] for turn in took)
        quartiles = [ratios[len(ratios) // 4], median(ratios), ratios[-1 - len(ratios) // 4]]
        measured["times_alone"][by] = [round(ratio, 3) for ratio in quartiles]
        print(f"{by}: {quartiles[1]:.3f} times alone (half of the turns: {quartiles[0]:.3f} to {quartiles[2]:.3f})")
    if arguments.json:
        before = json.loads(arguments.json.read_text()) if arguments.json.exists() else []
        same = ("devices", "batch", "width", "device")
        others = [one for one in before if any(one[name] != measured[name] for name in same)]
        arguments.json.parent.mkdir(parents=True, exist_ok=True)
        arguments.json.write_text(json.dumps([*others, measured], indent=1) + "\n")


if __name__ == "__main__":
    main()
