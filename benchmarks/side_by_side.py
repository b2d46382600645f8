"""What a training costs beside others: seconds per run against the number of runs trained together.

    python benchmarks/side_by_side.py --json results/spiral/side_by_side.json

On a GPU all runs are one program, and the time of a step is taken between compiled calls, after compilation. On a CPU
the runs are spread over the cores, as `leadline reproduce` does it, and whole trainings are timed after a first one has
compiled. The recipe is `published` with a normal q(L), the spirals turn at omega 0, 1, .. 30.
"""

import argparse
import json
import tempfile
import time
from pathlib import Path

import jax

from leadline import Settings, Watch, train
from leadline.studies.reproduce import Grid
from leadline.studies.spiral import spiral_problem

STEPS_PER_EPOCH = 4


def on_a_gpu(runs: int, epochs: int) -> float:
    """Seconds of a step, over the second half of the compiled calls."""
    calls = []
    train(
        [spiral_problem(i % 31, 1 + i // 31) for i in range(runs)],
        [Settings(recipe="published", epochs=epochs, seed=1 + i // 31) for i in range(runs)],
        watch=Watch(on_call=lambda state: calls.append((time.perf_counter(), int(state.epoch)))),
    )
    (start, first), (end, last) = calls[len(calls) // 2], calls[-1]
    return (end - start) / (last - first) / STEPS_PER_EPOCH


def on_all_cores(runs: int, epochs: int) -> float:
    """The same from a whole training of so many runs."""
    grid = Grid(recipes=("published",), depths=("normal",), omegas=(20,), runs=runs, epochs=epochs)
    with tempfile.TemporaryDirectory() as folder:
        start = time.perf_counter()
        grid.sweep().run(Path(folder))
        return (time.perf_counter() - start) / epochs / STEPS_PER_EPOCH


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    gpu = jax.default_backend() != "cpu"
    parser.add_argument("--runs", default="1,31,155,310" if gpu else "1,2,4,8")
    parser.add_argument("--epochs", type=int, default=3000)
    parser.add_argument("--repeats", type=int, default=1 if gpu else 3)
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    numbers = [int(n) for n in arguments.runs.split(",")]
    measure = on_a_gpu if gpu else on_all_cores
    if not gpu:
        on_all_cores(1, arguments.epochs)  # compiles
    taken: dict[int, list[float]] = {n: [] for n in numbers}
    for _ in range(arguments.repeats):
        for n in numbers:
            taken[n].append(measure(n, arguments.epochs))
    device = jax.devices()[0].device_kind
    rows = [{"runs": n, "step_seconds": min(seconds), "device": device} for n, seconds in taken.items()]
    alone = rows[0]["step_seconds"]
    print(f"{device}\n  runs   ms a step   ms a step and run   times one run")
    for row in rows:
        step = 1e3 * row["step_seconds"]
        ratio = row["step_seconds"] / alone
        print(f"  {row['runs']:4d}   {step:9.3f}   {step / row['runs']:17.4f}   {ratio:13.2f}", flush=True)
    if arguments.json:
        arguments.json.write_text(json.dumps(rows, indent=1) + "\n")


if __name__ == "__main__":
    main()
