"""How long one training step takes, beside its peers and the least that its arithmetic and its random numbers can take.

One core, one run, interleaved repeats, so that a busy machine slows all alike; the ratios are what counts. The floor is
the same matrix products and the same number of normal draws in NumPy, and nothing else: no element-wise work, no Adam.
The floor of `published`, which draws weights and not activations, would be lower; its ratio is to the same floor.

The peers: the same Bayesian network in eager PyTorch, and the unbounded network with point weights and a Poisson q(L)
(`torch_peers.py`; `pip install leadline[bench]`), and a quarter of an epoch of scikit-learn's MLPClassifier with as
many layers, which has neither noise nor heads.

    python benchmarks/step_time.py [--json FILE] [--repeats N] [--capacity C] [--highest L]
"""

import argparse
import contextlib
import dataclasses
import json
import os
import platform
import subprocess
import sys
import time
from collections.abc import Callable
from functools import partial

# XLA sizes its thread pool by the cores it is given when it starts, so this comes before everything else.
ALL_CORES = os.sched_getaffinity(0)
if "--compile-only" not in sys.argv:
    os.sched_setaffinity(0, {min(ALL_CORES)})
for name in ("OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "OMP_NUM_THREADS"):
    os.environ[name] = "1"
os.environ["JAX_ENABLE_COMPILATION_CACHE"] = "0"  # what is read from disk is not compiled

started = time.perf_counter()
import jax  # noqa: E402
import jax.numpy as jnp  # noqa: E402

jax_seconds = time.perf_counter() - started
import leadline  # noqa: E402

import_seconds = time.perf_counter() - started

import equinox as eqx  # noqa: E402
import numpy as np  # noqa: E402

from leadline.inference.restarts import keys_of  # noqa: E402
from leadline.training import native  # noqa: E402
from leadline.training.data import make_parts, make_tables  # noqa: E402
from leadline.training.epochs import Plan, train_step  # noqa: E402
from leadline.training.pace import Clock  # noqa: E402
from leadline.training.state import TrainingState, init_state  # noqa: E402
from leadline.training.storage import Storage  # noqa: E402

BATCH, WIDTH, N_DATA, N_INPUTS, N_CLASSES = 256, 32, 1024, 2, 2
STEPS = 100


def leadline_steps(
    recipe_name: str, *, capacity: int, highest: int, batch: int = BATCH, width: int = WIDTH, runs: int = 1
) -> Callable[[], None]:
    """STEPS training steps with depths 0 .. highest active, in one compiled call.

    Layers far below them wait on a shelf, as in every training.
    """
    # A q(L) with support 0 .. highest (the 0.975 quantile lies at highest + 1/2) that learns but does not move.
    recipe = dataclasses.replace(leadline.RECIPES[recipe_name], depth_learning_rate=0.0, unfreeze=False)
    scale = (highest + 0.5) / 2.2414
    depth = (leadline.NormalDepth(0.0, 1.15), leadline.NormalDepth(0.0, scale, 0.025, 0.975, recipe.bounds))
    keys = jax.random.split(jax.random.key(0), runs)
    draw_models = partial(
        leadline.init_models,
        N_INPUTS,
        leadline.CategoricalLikelihood(N_CLASSES),
        depth=depth,
        recipe=recipe,
        width=width,
        key=keys,
    )
    temperature = jnp.full(runs, recipe.temperature)
    begin = lambda capacity: init_state(draw_models(capacity=capacity), keys, temperature)  # noqa: E731
    state = Storage(begin).fit(begin(capacity=capacity))
    assert (int(state.support.lowest[0]), int(state.support.highest[0])) == (0, highest)
    x = jax.random.normal(keys[0], (runs, batch, N_INPUTS))
    y = (x[..., 0] > 0).astype(jnp.int32)
    arrays, static = eqx.partition(state, eqx.is_array)

    def one_step(i: jax.Array, arrays: TrainingState) -> TrainingState:
        state = eqx.combine(arrays, static)
        key = jax.vmap(lambda key: jax.random.fold_in(key, i))(keys)
        weight, n_data = jnp.ones((runs, batch)), jnp.full(runs, float(N_DATA))
        rates = (jnp.array(0.005), jnp.array(0.0))
        state = train_step(state, x, y, weight, n_data, key, jnp.array(0.5), rates, recipe)
        return eqx.filter(state, eqx.is_array)

    program = jax.jit(lambda arrays: jax.lax.fori_loop(0, STEPS, one_step, arrays))
    return lambda: jax.block_until_ready(program(arrays))


def engine_steps(recipe_name: str, *, highest: int) -> Callable[[], None]:
    """STEPS training steps with depths 0 .. highest active, by the engine."""
    recipe = dataclasses.replace(leadline.RECIPES[recipe_name], depth_learning_rate=0.0, unfreeze=False)
    scale = (highest + 0.5) / 2.2414
    depth = (leadline.NormalDepth(0.0, 1.15), leadline.NormalDepth(0.0, scale, 0.025, 0.975, recipe.bounds))
    words = np.array([[0, 1]], np.uint32)
    likelihood = leadline.CategoricalLikelihood(N_CLASSES)
    models = leadline.init_models(N_INPUTS, likelihood, depth=depth, recipe=recipe, width=WIDTH, key=words)
    state = native.init_state(models, keys_of(words), np.full(1, recipe.temperature))
    state = eqx.tree_at(lambda s: s.epoch, state, np.array(1, np.int32))  # the first epoch looks at the validation part
    x = np.random.default_rng(0).normal(size=(N_DATA, N_INPUTS))
    rows = x, (x[:, 0] > 0).astype(int)
    problem = leadline.Problem(rows, (rows[0][:8], rows[1][:8]), likelihood)
    parts, _ = make_parts(make_tables([problem]), [problem], (1, 1, 1), [0])
    plan = Plan(
        **parts,
        clock=jax.tree.map(lambda a: np.asarray(a)[None], Clock(0, 2e6, 10**6)),
        validate_every=jnp.array(10**6),
        learning_rate=jnp.array(0.005),
        depth_learning_rate=jnp.array(0.0),
        recipe=recipe.compiled(),
        batch_size=BATCH,
    )

    def run() -> None:
        native.train_epochs(plan, state, STEPS * BATCH // N_DATA)

    return run


class Compiled(Exception):  # noqa: N818
    """The first compiled call is over; nothing is wrong."""


def compile_training() -> float:
    """Seconds until a long training of `written` has its first epoch, on all cores: tracing and compilation."""

    def stop(state: TrainingState) -> None:
        raise Compiled

    rng = np.random.default_rng(0)
    data = (rng.normal(size=(N_DATA, N_INPUTS)), rng.integers(2, size=N_DATA))
    start = time.perf_counter()
    with contextlib.suppress(Compiled):
        problem = leadline.Problem(data, data, leadline.CategoricalLikelihood(N_CLASSES))
        settings = leadline.Settings(recipe="written", width=WIDTH, seed=0)
        leadline.train(problem, settings, watch=leadline.Watch(on_call=stop))
    return time.perf_counter() - start


def compile_elsewhere() -> float:
    """The same in a process of its own that has all cores."""
    os.sched_setaffinity(0, ALL_CORES)
    command = [sys.executable, __file__, "--compile-only"]
    seconds = float(subprocess.run(command, capture_output=True, text=True, check=True).stdout)
    os.sched_setaffinity(0, {min(ALL_CORES)})
    return seconds


def floor_steps(highest: int) -> Callable[[], None]:
    """The matrix products and normal draws of STEPS such steps, in NumPy."""
    rng = np.random.default_rng(0)

    def normal(*shape: int) -> np.ndarray:
        return rng.standard_normal(shape, dtype=np.float32)

    def products(n_in: int, n_out: int, gradient_for_input: bool) -> list[tuple[np.ndarray, np.ndarray]]:
        """Forward, and reverse for the weights and the input; for the means and again for the variances."""
        x, w, d = normal(BATCH, n_in), normal(n_in, n_out), normal(BATCH, n_out)
        pairs = [(x, w), (np.ascontiguousarray(x.T), d)]
        if gradient_for_input:
            pairs.append((d, np.ascontiguousarray(w.T)))
        return pairs * 2

    pairs = products(N_INPUTS, WIDTH, gradient_for_input=False)
    for _ in range(highest):
        pairs += products(WIDTH, WIDTH, gradient_for_input=True)
    for _ in range(highest + 1):
        pairs += products(WIDTH, N_CLASSES, gradient_for_input=True)
    n_normals = (highest + 1) * BATCH * (WIDTH + N_CLASSES)

    def run() -> None:
        for _ in range(STEPS):
            for a, b in pairs:
                np.matmul(a, b)
            rng.standard_normal(n_normals, dtype=np.float32)

    return run


def peers(highest: int) -> dict[str, Callable[[], None]]:
    """What else there is, as far as it is installed."""
    from sklearn.neural_network import MLPClassifier

    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(N_DATA, N_INPUTS)), rng.integers(N_CLASSES, size=N_DATA)
    mlp = MLPClassifier((WIDTH,) * (highest + 1), batch_size=BATCH)  # pyright: ignore[reportArgumentType]

    def mlp_steps() -> None:
        for _ in range(STEPS * BATCH // N_DATA):
            mlp.partial_fit(x, y, classes=[0, 1])

    found: dict[str, Callable[[], None]] = {"scikit-learn MLP": mlp_steps}
    try:
        import torch_peers  # pyright: ignore
    except ModuleNotFoundError as error:
        print(f"no PyTorch ({error}): pip install leadline[bench]", file=sys.stderr)
        return found
    sizes = (BATCH, WIDTH, N_INPUTS, N_CLASSES, N_DATA, highest, STEPS)
    found["PyTorch, Bayesian"] = torch_peers.bayesian_steps(*sizes)
    found["PyTorch, point weights"] = torch_peers.unbounded_steps(*sizes)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", help="write the figures to this file too")
    parser.add_argument("--repeats", type=int, default=15)
    parser.add_argument("--capacity", type=int, default=8)
    parser.add_argument("--highest", type=int, default=3, help="depths 0 .. HIGHEST are active")
    parser.add_argument("--compile-only", action="store_true", help="print the seconds to compile training, and stop")
    arguments = parser.parse_args()

    if arguments.compile_only:
        print(compile_training())
        return
    compile_seconds = compile_elsewhere()
    contestants = {"floor": floor_steps(arguments.highest)}
    for name in leadline.RECIPES:
        contestants[f"{name}, engine"] = engine_steps(name, highest=arguments.highest)
        contestants[name] = leadline_steps(name, capacity=arguments.capacity, highest=arguments.highest)
    contestants |= peers(arguments.highest)
    seconds: dict[str, list[float]] = {name: [] for name in contestants}
    for run in contestants.values():
        run()
    for _ in range(arguments.repeats):
        for name, run in contestants.items():
            start = time.perf_counter()
            run()
            seconds[name].append(time.perf_counter() - start)

    median = {name: 1000 * float(np.median(s)) / STEPS for name, s in seconds.items()}
    result = {
        "milliseconds_per_step": median,
        "ratio_to_floor": {name: value / median["floor"] for name, value in median.items()},
        "ratio_to_leadline": {name: value / median["leadline"] for name, value in median.items()},
        "compile_training_seconds": compile_seconds,
        "import_seconds": import_seconds,
        "import_jax_seconds": jax_seconds,
        "settings": {
            "batch": BATCH,
            "width": WIDTH,
            "capacity": arguments.capacity,
            "highest": arguments.highest,
            "repeats": arguments.repeats,
        },
        "machine": {"processor": platform.processor() or platform.machine(), "python": sys.version.split()[0]},
    }
    print(
        f"batch {BATCH}, width {WIDTH}, depths 0..{arguments.highest} active, capacity {arguments.capacity}, one core"
    )
    print(f"{'':24s}{'ms a step':>12s}{'x floor':>10s}{'x leadline':>12s}")
    for name, value in median.items():
        print(f"{name:24s}{value:12.3f}{value / median['floor']:10.2f}{value / median['leadline, engine']:12.2f}")
    print(f"first epoch of a training on {len(ALL_CORES)} cores: {compile_seconds:.1f} s")
    print(f"import leadline: {import_seconds:.2f} s, of which jax {jax_seconds:.2f} s")
    if arguments.json:
        with open(arguments.json, "w") as file:
            json.dump(result, file, indent=1)


if __name__ == "__main__":
    main()
