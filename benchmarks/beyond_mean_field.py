"""Better than mean field? Tried on networks that are trained, on tables of the choosing half.

    python -m benchmarks.beyond_mean_field --data TABLES [--splits 2]        # a row per table, split and way
    python -m benchmarks.beyond_mean_field --spiral 20 --splits 3            # the same for spirals
    python -m benchmarks.beyond_mean_field --summary                         # the differences, with their errors

Everything starts from the twelve networks of the recipe `table`, as `benchmarks/depth_study.py` keeps them, and ends in
the same shares and spread (stacking, rows held out), so that differences are paired. Seconds are the processor's, with
what is compiled; of the networks as trained, the clock's. The ways:

- `last layer`: the heads of every depth are refitted on what the hidden units say at their mean weights: the most
  probable softmax weights under the head's own learned prior, and a Gaussian with the full covariance around them
  (Laplace), at temperature 1. `last layer, own temperature`: at that of the network's kind.
- `sampled`: STEPS steps of Langevin dynamics (underdamped, BAOAB, all rows) of all weights together from a draw of q
  on, in units of its scales, with the learned prior and q(L) as they are, at the network's own temperature; `longer`:
  LONGER steps; `at temperature 1`: the cold networks, too.
- `sharpened`, on spirals, which have no rows held out: nothing but one spread, chosen by the validation part.
"""

import argparse
import time
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import joblib
import numpy as np
import pandas as pd
import scipy.optimize
import scipy.special

from benchmarks.depth_study import ARMS, add, compared, done, kept, looked, measured_of, small_tables
from benchmarks.tables import split
from leadline import Model, Settings, metrics, train
from leadline.inference.calibration import BELIEF, best_spread
from leadline.inference.predict import depth_masses
from leadline.likelihoods.mixture import ClassMixture, softened
from leadline.studies.spiral import spiral_problem
from leadline.training.problem import Problem
from leadline.training.trained import Trained

HEADS = 32
"""Draws of a head."""

N_TEST = 10_000
"""Test points of a spiral."""

STEPS, LONGER, N_KEPT = 400, 1_600, 12
"""Of the sampling; a quarter of them comes before the first sample. Samples that are kept."""

STEP, KEPT_MOMENTUM = 0.1, 0.9
"""In units of q's scales."""

Weights = list[tuple[np.ndarray, np.ndarray]]
"""The layer and the head of every depth, [runs, out, in and one]."""


@dataclass(frozen=True)
class Networks:
    """Trained ones, and the rows."""

    models: Model
    seen: list[np.ndarray]
    """The rows that each was trained on, by their numbers."""
    temperature: np.ndarray
    """Of each."""
    x: np.ndarray
    y: np.ndarray
    x_test: np.ndarray

    @property
    def q(self) -> np.ndarray:
        """Of every network, [runs, depths]."""
        q = depth_masses(self.models)
        return q[:, : np.flatnonzero(q.any(axis=0))[-1] + 1]


def moments(models: Model, n_depths: int) -> tuple[Weights, Weights, Weights]:
    """Means, scales and prior scales of all layers and heads down to a depth."""
    network = jax.tree.map(np.asarray, models).network
    of_parts: tuple[Weights, Weights, Weights] = ([], [], [])
    for depth in range(n_depths):
        block = network.first if depth == 0 else jax.tree.map(lambda a, i=depth - 1: a[:, i], network.deeper)
        for i, which in enumerate((_mean, _scale, _prior_scale)):
            of_parts[i].append((which(block.layer), which(block.head)))
    return of_parts


def _mean(layer: Any) -> np.ndarray:
    return np.concatenate([layer.weight_mean, layer.bias_mean[..., None]], axis=-1)


def _scale(layer: Any) -> np.ndarray:
    return np.logaddexp(0, np.concatenate([layer.weight_raw, layer.bias_raw[..., None]], axis=-1))


def _prior_scale(layer: Any) -> np.ndarray:
    bias = np.exp(layer.log_output_scale)
    return np.concatenate([bias[..., None] * np.exp(layer.log_input_scale)[:, None, :], bias[..., None]], axis=-1)


def walk(weights: Any, x: Any, numpy: Any = np) -> tuple[list[Any], list[Any]]:
    """What the hidden units say after every layer, with a one beside, and what the heads make of it."""
    one, hidden, outputs = numpy.ones((len(x), 1), x.dtype), [], []
    state = numpy.concatenate([x, one], axis=1)
    for layer, head in weights:
        state = state @ layer.T
        state = numpy.concatenate([numpy.maximum(0.1 * state, state), one], axis=1)
        hidden.append(state)
        outputs.append(state @ head.T)
    return hidden, outputs


def of_run(weights: Weights, run: int) -> Weights:
    return [(layer[run], head[run]) for layer, head in weights]


# The last layer in closed form.


def laplace(
    h: np.ndarray, y: np.ndarray, mean: np.ndarray, prior: np.ndarray, temperature: float
) -> tuple[np.ndarray, np.ndarray]:
    """The most probable head [classes, units] from `mean` on, and a root of its covariance."""
    n_classes, precision = len(mean), temperature / np.square(prior)
    hot = np.eye(n_classes)[y]

    def cost(flat: np.ndarray) -> tuple[float, np.ndarray]:
        head = flat.reshape(mean.shape)
        log_p = scipy.special.log_softmax(h @ head.T, axis=1)
        slope = (np.exp(log_p) - hot).T @ h + precision * head
        return -(hot * log_p).sum() + 0.5 * (precision * head**2).sum(), slope.ravel()

    head = scipy.optimize.minimize(cost, mean.ravel(), jac=True, method="L-BFGS-B", options={"maxiter": 200}).x
    p = scipy.special.softmax(h @ head.reshape(mean.shape).T, axis=1)
    curvature = np.einsum("nc,cd->ncd", p, np.eye(n_classes)) - p[:, :, None] * p[:, None, :]
    hessian = np.einsum("ncd,ni,nj->cidj", curvature, h, h, optimize=True).reshape(head.size, head.size)
    root = np.linalg.cholesky((hessian + np.diag(precision.ravel())) / temperature)
    return head.reshape(mean.shape), np.linalg.inv(root).T


def last_layer(given: Networks, *, own: bool = False) -> np.ndarray:
    """Class probabilities of all rows, those of the test part last, [runs, rows, classes]."""
    q, both = given.q, np.concatenate([given.x, given.x_test])
    means, _, priors = moments(given.models, q.shape[1])
    rng, found = np.random.default_rng(0), []
    for run, seen in enumerate(given.seen):
        mean, prior = of_run(means, run), of_run(priors, run)
        hidden, _ = walk(mean, both)
        temperature, total = float(given.temperature[run]) if own else 1.0, 0.0
        for depth in np.flatnonzero(q[run] > 0):
            h = hidden[depth]
            head, root = laplace(h[seen], given.y[seen], mean[depth][1], prior[depth][1], temperature)
            draws = (head.ravel() + rng.standard_normal((HEADS, head.size)) @ root.T).reshape(-1, *head.shape)
            p = sum(scipy.special.softmax(h @ draw.T, axis=1) for draw in draws) / HEADS
            total = total + q[run, depth] * p
        found.append(total)
    return np.stack(found)


# Sampling around the end.


@partial(jax.jit, static_argnums=9)
def _dynamics(
    start: Any, mean: Any, scale: Any, prior: Any, q: Any, x: Any, y: Any, temperature: Any, key: Any, steps: int
) -> Any:
    """Samples of one run's weights, in units of q's scales around its means."""

    def cost(at: Any) -> Any:
        weights = jax.tree.map(lambda m, s, z: m + s * z, mean, scale, at)
        _, outputs = walk(weights, x, jnp)
        log_p = jnp.stack([jax.nn.log_softmax(output)[jnp.arange(len(y)), y].sum() for output in outputs])
        held = sum(jnp.sum(jnp.square(w / p)) for w, p in zip(*map(jax.tree.leaves, (weights, prior)), strict=True))
        return -(q @ log_p) / temperature + 0.5 * held

    slope = jax.grad(cost)

    def step(carry: Any, key: Any) -> Any:
        at, momentum = carry
        move = lambda a, b, by: jax.tree.map(lambda a, b: a + by * b, a, b)  # noqa: E731
        keys = jax.tree.unflatten(jax.tree.structure(at), list(jax.random.split(key, len(jax.tree.leaves(at)))))
        momentum = move(momentum, slope(at), -STEP / 2)
        at = move(at, momentum, STEP / 2)
        momentum = jax.tree.map(
            lambda p, k: KEPT_MOMENTUM * p + (1 - KEPT_MOMENTUM**2) ** 0.5 * jax.random.normal(k, p.shape),
            momentum,
            keys,
        )
        at = move(at, momentum, STEP / 2)
        momentum = move(momentum, slope(at), -STEP / 2)
        return (at, momentum), None

    def some(carry: Any, key: Any) -> Any:
        carry, _ = jax.lax.scan(step, carry, jax.random.split(key, steps * 3 // 4 // N_KEPT))
        return carry, carry[0]

    momentum = jax.tree.map(jnp.zeros_like, start)
    keys = jax.random.split(key, N_KEPT * 4 // 3)
    _, samples = jax.lax.scan(some, (start, momentum), keys)
    return jax.tree.map(lambda a: a[-N_KEPT:], samples)


def sampled(given: Networks, *, steps: int = STEPS, temperature: float | None = None) -> np.ndarray:
    """As `last_layer`."""
    q, both = given.q, np.concatenate([given.x, given.x_test])
    means, scales, priors = moments(given.models, q.shape[1])
    rng, found = np.random.default_rng(0), []
    for run, seen in enumerate(given.seen):
        mean, scale, prior = (of_run(part, run) for part in (means, scales, priors))
        start = jax.tree.map(lambda m: rng.standard_normal(m.shape).astype(np.float32), mean)
        rows = given.x[seen].astype(np.float32), given.y[seen], np.float32(temperature or given.temperature[run])
        samples = _dynamics(start, mean, scale, prior, q[run].astype(np.float32), *rows, jax.random.key(run), steps)
        samples, each = jax.tree.map(np.asarray, samples), []
        for i in range(N_KEPT):
            _, outputs = walk(jax.tree.map(lambda m, s, z, i=i: m + s * z[i], mean, scale, samples), both)
            p = np.tensordot(q[run], scipy.special.softmax(np.stack(outputs), axis=-1), axes=1)
            each += [p] * bool(np.isfinite(p).all())  # a step can be too long for a cold network
        if not each:
            _, outputs = walk(mean, both)
            each = [np.tensordot(q[run], scipy.special.softmax(np.stack(outputs), axis=-1), axes=1)]
        found.append(np.mean(each, axis=0))
    return np.stack(found)


WAYS = {
    "last layer": last_layer,
    "last layer, own temperature": partial(last_layer, own=True),
    "sampled": sampled,
    "sampled, longer": partial(sampled, steps=LONGER),
    "sampled, at temperature 1": partial(sampled, temperature=1.0),
}


def study(args: argparse.Namespace) -> None:
    path = args.out / "beyond-mean-field.csv"
    for number in range(args.splits):
        for name in args.tables or small_tables(args.data):
            if done(path, {"table": name, "split": number}):
                continue
            rows = split(args.data / "classes" / f"{name}.csv.gz", "classes", number)
            problem, trained = kept(args.networks / "table" / f"{name}-{number}.joblib", rows, number, **ARMS["table"])
            one = looked(problem, trained, rows)
            assert problem.units is not None
            n = len(one.y)
            given = Networks(
                trained.restarts().models,
                [np.setdiff1d(np.arange(n), rows) for rows in one.held],
                one.temperature,
                np.asarray(problem.train[0], float),
                one.y,
                problem.units.inputs(rows.x_test),
            )
            parts = [np.einsum("rd,rdnc->rnc", one.train.q, part.p) for part in (one.train, one.test)]
            found = [{"way": "as trained", **measured_of(one, *parts), "seconds": one.seconds}]
            for way in args.ways:
                start = time.process_time()
                p = WAYS[way](given)
                seconds = time.process_time() - start
                found.append({"way": way, **measured_of(one, p[:, :n], p[:, n:]), "seconds": seconds})
            add(path, [{"table": name, "split": number, **row} for row in found])
            print(name, number, {row["way"]: f"{row['nll']:.4f}, {row['seconds']:.1f} s" for row in found}, flush=True)


def sharpened(problem: Problem, trained: Trained) -> np.ndarray:
    """What the networks of a spiral predict, with one spread that its validation part chooses, as rows held out do."""
    assert isinstance(problem.validation, tuple)
    assert problem.test is not None
    (x, y), restarts = problem.validation, trained.restarts()
    mixture = ClassMixture(np.ones(1), restarts.moments(x)[None])
    spread = best_spread([(mixture, np.asarray(y)[:, None], np.ones(len(y)))], BELIEF)
    return softened(restarts.moments(problem.test[0]), spread)


def spiral(args: argparse.Namespace) -> None:
    """The recipe `leadline` on spirals: its four networks, equally."""
    for seed in range(1, args.splits + 1):
        problem = spiral_problem(args.spiral, seed, N_TEST)
        path = args.networks / f"spiral-{args.spiral:g}-{seed}.joblib"
        if not path.exists():
            joblib.dump(train(problem, Settings(seed=seed)), path)
        trained: Trained = joblib.load(path)
        assert problem.test is not None
        (x, y), (x_test, y_test), models = problem.train, problem.test, trained.restarts().models
        given = Networks(models, [np.arange(len(x))] * models.runs[0], trained.temperatures[0], x, y, x_test)
        found, seconds = [], {"as trained": trained.seconds, "sharpened": trained.seconds}
        said_by = {"as trained": trained.restarts().moments(x_test), "sharpened": sharpened(problem, trained)}
        for way in args.ways:
            start = time.process_time()
            said_by[way] = WAYS[way](given)[:, -len(x_test) :].mean(axis=0)
            seconds[way] = time.process_time() - start
        for way, p in said_by.items():
            said = metrics.measured(metrics.OfClasses(p, y_test))
            found.append(
                {"table": f"spiral {args.spiral:g}", "split": seed, "way": way, **said, "seconds": seconds[way]}
            )
        names = ("table", "split", "way", "accuracy", "nll", "brier", "ece", "seconds")
        add(args.out / "spirals.csv", [{name: row[name] for name in names} for row in found])
        print(seed, {row["way"]: f"{row['accuracy']:.2f} / {row['nll']:.4f}" for row in found}, flush=True)


def summary(args: argparse.Namespace) -> None:
    """The NLL of every way less that of the networks as trained: means over tables, their errors, and on how many."""
    rows: Any = pd.read_csv(args.out / "beyond-mean-field.csv")
    print(rows.pivot_table(index="table", columns="way", values="nll").round(4).to_string())
    print(compared(rows, "way", "as trained").to_string())
    spirals = args.out / "spirals.csv"
    if spirals.exists():
        of_spirals: Any = pd.read_csv(spirals)
        print(of_spirals.groupby(["table", "way"])[["accuracy", "nll", "ece", "seconds"]].mean().round(4))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, help="the directory of the tables")
    parser.add_argument("--tables", nargs="+")
    parser.add_argument("--ways", nargs="+", choices=WAYS, default=list(WAYS))
    parser.add_argument("--splits", type=int, default=2)
    parser.add_argument("--networks", type=Path, default=Path("runs/depth-study"), help="where they are kept")
    parser.add_argument("--out", type=Path, default=Path("results/depth"))
    parser.add_argument("--spiral", type=float, help="omega: spirals instead of tables, with seeds 1, 2, ...")
    parser.add_argument("--summary", action="store_true")
    args = parser.parse_args()
    (summary if args.summary else spiral if args.spiral else study)(args)
