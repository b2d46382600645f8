"""Why q(L) of a network ends where it began on tables, and what follows the rows held out.

    python -m benchmarks.depth_study --data TABLES [--splits 2] [--arms table faster ...]    # trains, and looks
    python -m benchmarks.depth_study --data TABLES --candidates [--kind numbers]             # whole estimators
    python -m benchmarks.depth_study --summary                                               # as docs/tables.md has it

Tables of the choosing half alone (`benchmarks/tables.py`), those with up to 1,000 rows, classes. An arm is the recipe
`table` with one thing changed; `depth-0` to `depth-3` are the grid. Every training is looked at depth by depth: what a
head explains of the rows trained on, what its layers cost, and how it predicts the rows held out and the test part.
Then q(L) is made anew from that in several ways (`REWEIGHED`), without training again. A row per table, split, arm and
way goes to results/depth/predictions.csv, one per kind and depth to networks.csv, of whole estimators to
candidates.csv.
"""

import argparse
import itertools
import warnings
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import joblib
import numpy as np
import pandas as pd
import scipy.special

from benchmarks.tables import LEAST, Split, by_leadline, names, of_classes, of_numbers, split
from leadline import RECIPES, CategoricalDepth, CategoricalLikelihood, DepthClassifier, DepthRegressor, metrics
from leadline.inference import native
from leadline.inference.calibration import BELIEF, best_spread, share_of_restarts, stacked
from leadline.inference.predict import depth_masses, sample_outputs
from leadline.inference.restarts import Restarts
from leadline.likelihoods import EitherNoiseLikelihood
from leadline.likelihoods.mixture import ClassMixture, softened
from leadline.training.problem import Problem
from leadline.training.trained import Trained

N_SAMPLES = 32
"""Draws of the weights of every network."""

MOST_ROWS = 1_000
"""Of the tables."""


def free(max_depth: int) -> tuple[CategoricalDepth, CategoricalDepth]:
    """A free mass for every depth, uniform prior and start."""
    return CategoricalDepth(max_depth), CategoricalDepth(max_depth)


def changed(name: str, **changes: Any) -> Any:
    return replace(RECIPES["table"], name=name, **changes)


ARMS: dict[str, dict[str, Any]] = {
    "table": {"recipe": "table"},
    "faster": {"recipe": changed("faster", depth_learning_rate=0.002)},
    "much faster": {"recipe": changed("much faster", depth_learning_rate=0.008)},
    "wider": {"recipe": changed("wider", depth_learning_rate=0.002, initial_depth=(0.5, 1.5))},
    "free": {"recipe": changed("free", depth_learning_rate=0.002), "depth": free(3)},
    "prior per weight": {"recipe": changed("prior per weight", prior="weight")},
    "later": {"recipe": changed("later", depth_learning_rate=0.008, warm_up=0.5)},
    **{f"depth-{depth}": {"depth": depth} for depth in range(4)},
}


@dataclass(frozen=True)
class ByDepth:
    """What trained networks say of rows, depth by depth; zero where q(L) is."""

    q: np.ndarray
    """[runs, depths]"""
    p: np.ndarray
    """Class probabilities, [runs, depths, rows, classes]."""
    log_p: np.ndarray
    """E[ln p(y | x, theta, L)], [runs, depths, rows]."""


def fitted(rows: Split, seed: int, **options: Any) -> tuple[Problem, Trained]:
    estimator = DepthClassifier(random_state=seed, **options)
    with warnings.catch_warnings(action="ignore"):
        problem = estimator.problem(rows.x, rows.y)
        return problem, estimator._train(problem)


def kept(path: Path, rows: Split, seed: int, **options: Any) -> tuple[Problem, Trained]:
    """The same, from where an earlier call left it."""
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        joblib.dump(fitted(rows, seed, **options), path)
    return joblib.load(path)


def by_depth(restarts: Restarts, x: np.ndarray, y: np.ndarray) -> ByDepth:
    outputs = sample_outputs(restarts.models, x, n_samples=N_SAMPLES, key=restarts.keys())
    q = depth_masses(restarts.models)
    log_p = scipy.special.log_softmax(outputs.astype(float), axis=-1)
    own = np.take_along_axis(log_p, np.asarray(y)[None, None, None, :, None], axis=-1)[..., 0].mean(axis=1)
    some = q[:, :, None] > 0
    log_p, own = log_p[:, :, : q.shape[1]], own[:, : q.shape[1]]
    return ByDepth(q, np.where(some[..., None], np.exp(log_p).mean(axis=1), 0.0), np.where(some, own, 0.0))


@dataclass(frozen=True)
class Looked:
    """A training, seen from the rows trained on and held out, and from the test part."""

    held: np.ndarray
    """The rows held out by each run, [runs, rows]."""
    train: ByDepth
    test: ByDepth
    y: np.ndarray
    y_test: np.ndarray
    temperature: np.ndarray
    weight_kl: np.ndarray
    """Of a network that ends at a depth, [runs, depths]."""
    log_prior: np.ndarray
    """ln p(L)."""
    steps: int
    seconds: float

    @property
    def n_kinds(self) -> int:
        return len(RECIPES["table"].kinds)

    @property
    def kind(self) -> np.ndarray:
        return np.arange(len(self.held)) % self.n_kinds

    def honest(self, values: np.ndarray) -> np.ndarray:
        """Of every row held out, by the runs of every kind that were not trained on it: [kinds, ..., rows, ...] of
        [runs, depths, rows, ...]."""
        n = self.n_kinds
        parts = [values[i : i + n][:, :, self.held[i]] for i in range(0, len(values) - n + 1, n)]
        return np.concatenate(parts, axis=2)

    @property
    def y_honest(self) -> np.ndarray:
        return np.concatenate([self.y[rows] for rows in self.held[:: self.n_kinds]])

    def nll_trained_on(self) -> np.ndarray:
        """E[-ln p(y | x, theta, L)] of all rows that a run was trained on, [runs, depths]."""
        seen = np.ones((len(self.held), len(self.y)))
        np.put_along_axis(seen, self.held, 0.0, axis=1)
        return -np.einsum("rdn,rn->rd", self.train.log_p, seen)


def looked(problem: Problem, trained: Trained, rows: Split) -> Looked:
    restarts, (x, y) = trained.restarts(), problem.train
    assert problem.units is not None
    layers, heads = native.kl_by_part(restarts.models)
    n_depths = restarts.models.capacity + 1
    n_batches = -(-(len(x) - trained.validation_rows.shape[1]) // trained.settings[0].batch_size)
    return Looked(
        trained.validation_rows,
        by_depth(restarts, x, y),
        by_depth(restarts, problem.units.inputs(rows.x_test), rows.y_test),
        np.asarray(y),
        rows.y_test,
        trained.temperatures[0],
        layers.cumsum(axis=1) + heads,
        native.log_masses(restarts.models.depth_prior, len(trained.temperatures[0]), n_depths + 1)[:, :-1],
        trained.epochs * n_batches,
        trained.seconds,
    )


# q(L) made anew.


def as_trained(one: Looked) -> np.ndarray:
    return one.train.q


def alike(one: Looked) -> np.ndarray:
    """All depths that have mass, equally."""
    return normalised(np.where(one.train.q > 0, 0.0, -np.inf))


def closed(one: Looked, charged: float | np.ndarray) -> np.ndarray:
    """The best q(L) given the weights: p(L) exp(-E[NLL] - charged KL), exactly."""
    free_energy = one.nll_trained_on() + np.reshape(charged, (-1, 1)) * one.weight_kl
    return normalised(np.where(one.train.q > 0, one.log_prior - free_energy, -np.inf))


def stacked_depths(one: Looked) -> np.ndarray:
    """The shares of every kind's depths under which the rows held out are most probable; what q(L) says counts as
    BELIEF rows of each kind."""
    kind, q = one.kind, one.train.q
    mean = np.stack([q[kind == k].mean(axis=0) for k in range(one.n_kinds)])
    p = np.take_along_axis(one.honest(one.train.p), one.y_honest[None, None, :, None], axis=-1)[..., 0]
    share = mean / len(mean)
    for _ in range(500):
        explains = share[..., None] * p
        rows = BELIEF * mean + (explains / explains.sum(axis=(0, 1))).sum(axis=-1)
        share = rows / rows.sum()
    with np.errstate(divide="ignore", invalid="ignore"):
        factor = np.where(mean > 0, share / mean, 0.0)
    new = q * factor[kind]
    return new / new.sum(axis=1, keepdims=True)


def normalised(log_q: np.ndarray) -> np.ndarray:
    return scipy.special.softmax(log_q, axis=1)


REWEIGHED = {
    "as trained": as_trained,
    "alike": alike,
    "closed form": lambda one: closed(one, one.temperature),
    "closed form, weights free": lambda one: closed(one, 0.0),
    "depths stacked": stacked_depths,
}


# What is predicted.


@dataclass(frozen=True)
class Together:
    share: np.ndarray
    """Of the runs."""
    spread: float
    held_out_nll: float
    p: np.ndarray
    """Of the test rows."""


def together(held: np.ndarray, test: np.ndarray, y: np.ndarray, kind: np.ndarray) -> Together:
    """As `inference/calibration.py` does it: of kinds that predict the rows held out by `held` [kinds, rows, classes],
    and runs that predict others by `test` [runs, rows, classes]."""
    density = np.take_along_axis(held, y[None, :, None], axis=2)[..., 0]
    share = stacked(np.log(np.maximum(density, 1e-38)), np.ones(len(y)))
    mixture, target = ClassMixture(share, held), y[:, None]
    spread = best_spread([(mixture, target, np.ones(len(y)))], BELIEF * len(share))
    of_runs = share_of_restarts(share, kind)
    nll = -float(np.mean(mixture.widened(np.array([spread])).log_density(target)))
    return Together(of_runs, spread, nll, softened(np.tensordot(of_runs, test, axes=1), spread))


def measured(one: Looked, q: np.ndarray) -> dict[str, Any]:
    """What is predicted, and believed of the depth, with such q(L)."""
    train, test = (np.einsum("rd,rdnc->rnc", q, part.p) for part in (one.train, one.test))
    return measured_of(one, train, test, q)


def measured_of(one: Looked, train: np.ndarray, test: np.ndarray, q: np.ndarray | None = None) -> dict[str, Any]:
    """The same of what the runs predict of all rows and of the test rows, [runs, rows, classes]."""
    found = together(one.honest(train[:, None])[:, 0], test, one.y_honest, one.kind)
    p = np.maximum(found.p, LEAST)
    said = metrics.measured(metrics.OfClasses(p / p.sum(axis=1, keepdims=True), one.y_test))
    depth = found.share @ (one.train.q if q is None else q)
    return {
        **{name: said[name] for name in ("accuracy", "nll", "brier", "ece")},
        "held_out_nll": found.held_out_nll,
        "depth_mean": depth @ np.arange(len(depth)),
        "depth_mode": int(depth.argmax()),
    }


def networks(one: Looked) -> list[dict[str, Any]]:
    """By kind and depth: q(L), what a row costs and the weights cost, and the NLL of rows held out."""
    held = one.honest(one.train.p)
    right = np.take_along_axis(held, one.y_honest[None, None, :, None], axis=-1)[..., 0]
    n_seen = len(one.y) - one.held.shape[1]
    said = []
    for k in range(one.n_kinds):
        own = one.kind == k
        trained = one.nll_trained_on()[own].mean(axis=0) / n_seen
        weight_kl = one.weight_kl[own].mean(axis=0) / n_seen
        held_out = -np.log(np.maximum(right[k], LEAST)).mean(axis=1)
        q, some = one.train.q[own].mean(axis=0), (one.train.q[own] > 0).all(axis=0)
        by_depth = {"q": q, "trained_nll": trained, "weight_kl": weight_kl, "held_out_nll": held_out}
        columns = {name: column[some] for name, column in by_depth.items()}
        said.append(pd.DataFrame({"kind": k, "depth": np.flatnonzero(some), **columns, "steps": one.steps}))
    return pd.concat(said).to_dict("records")


def small_tables(data: Path) -> list[str]:
    rows = pd.read_csv(data / "index.csv").set_index("name").rows
    return [name for name in names(data, "classes", "choose") if rows[name] <= MOST_ROWS]


def study(args: argparse.Namespace) -> None:
    args.out.mkdir(parents=True, exist_ok=True)
    for number in range(args.splits):
        for name in args.tables or small_tables(args.data):
            rows = split(args.data / "classes" / f"{name}.csv.gz", "classes", number)
            for arm in args.arms:
                where = {"table": name, "split": number, "arm": arm}
                if done(args.out / "predictions.csv", where):
                    continue
                path = args.networks / arm.replace(" ", "-") / f"{name}-{number}.joblib"
                one = looked(*kept(path, rows, number, **ARMS[arm]), rows)
                ways = {"as trained": as_trained} if arm.startswith("depth-") else REWEIGHED
                found = [{"way": way, **measured(one, make(one)), "seconds": one.seconds} for way, make in ways.items()]
                add(args.out / "networks.csv", [{**where, **row} for row in networks(one)])
                add(args.out / "predictions.csv", [{**where, **row} for row in found])
                said = (f"{row['way']} {row['nll']:.4f} ({row['depth_mean']:.2f})" for row in found)
                print(name, number, arm, f"{one.seconds:.1f} s:", ", ".join(said), flush=True)


def candidates(args: argparse.Namespace) -> None:
    """Whole estimators, whose recipe weighs the depths: classes and numbers."""
    index = pd.read_csv(args.data / "index.csv").set_index("name").rows
    for kind in args.kind:
        make, likelihood = KINDS[kind]
        small = [name for name in names(args.data, kind, "choose") if index[name] <= MOST_ROWS]
        for number, name in itertools.product(range(args.splits), small):
            rows = split(args.data / kind / f"{name}.csv.gz", kind, number)
            for what in args.what:
                where = {"kind": kind, "table": name, "split": number, "what": what}
                if done(args.out / "candidates.csv", where):
                    continue
                recipe = replace(RECIPES["table"].suited(likelihood), name=what, **CANDIDATES[what])
                found = make(recipe)(rows, number)
                row = {column: found[column] for column in ("nll", "depth_mean", "depth_mode", "seconds")}
                add(args.out / "candidates.csv", [{**where, **row}])
                print(kind, name, number, what, f"{row['nll']:.4f}, {row['depth_mean']:.2f}", flush=True)


CANDIDATES: dict[str, dict[str, Any]] = {
    "as it is": {},
    "weighed": {"weigh_depths": True},
    "wider, weighed": {"initial_depth": (0.5, 1.5), "depth_learning_rate": 0.002, "weigh_depths": True},
}

KINDS: dict[str, tuple[Any, Any]] = {
    "numbers": (
        lambda recipe: of_numbers(by_leadline, lambda seed: DepthRegressor(recipe=recipe, random_state=seed)),
        EitherNoiseLikelihood,
    ),
    "classes": (
        lambda recipe: of_classes(lambda seed: DepthClassifier(recipe=recipe, random_state=seed)),
        CategoricalLikelihood,
    ),
}


def done(path: Path, where: dict[str, Any]) -> bool:
    if not path.exists():
        return False
    rows = pd.read_csv(path)
    return bool(np.logical_and.reduce([rows[name] == value for name, value in where.items()]).any())


def add(path: Path, rows: list[dict[str, Any]]) -> None:
    pd.DataFrame(rows).to_csv(path, mode="a", header=not path.exists(), index=False, float_format="%.6g")


def compared(rows: Any, what: str, base: str) -> Any:
    """NLL less that of `base`, the mean over tables with its error, and on how many it is less; what else is known."""
    nll = rows.pivot_table(index=["table", "split"], columns=what, values="nll")
    above = nll.sub(nll[base], axis=0).groupby("table").mean()
    found = {"above": above.mean(), "error": above.sem(), "lower": (above < 0).sum(), "tables": above.count()}
    means = rows.groupby(what)[[name for name in ("depth_mean", "ece", "accuracy") if name in rows]].mean()
    return pd.DataFrame(found).join(means).round(4)


def summary(args: argparse.Namespace) -> None:
    """What moves q(L), what every arm and way predicts, and which depth the grid and the learned ones choose."""
    looks: Any = pd.read_csv(args.out / "networks.csv")
    of_table = looks[looks.arm == "table"]
    print(f"steps of a training: {of_table.groupby('table').steps.median().describe().round().to_dict()}\n")
    start = of_table.sort_values("depth").groupby(["table", "split", "kind"])[list(COSTS)]
    than = of_table[list(COSTS)] - start.shift(1)
    print("a layer more, as trained: nats a row, the mean over tables\n")
    than = than.assign(kind=of_table.kind, depth=of_table.depth).groupby(["kind", "depth"]).mean()
    print(than.dropna().round(4), "\n")

    rows: Any = pd.read_csv(args.out / "predictions.csv")
    rows["what"] = rows.arm + ": " + rows.way
    print(compared(rows, "what", "table: as trained").to_string(), "\n")

    grid = rows[rows.arm.str.startswith("depth-")].assign(depth=lambda part: part.arm.str[6:].astype(int))
    chosen = grid.loc[grid.groupby(["table", "split"]).held_out_nll.idxmin()].set_index(["table", "split"])
    learned = (
        rows[~rows.arm.str.startswith("depth-")]
        .set_index(["table", "split"])
        .join(chosen[["nll", "depth"]].add_suffix("_grid"))
    )
    learned["regret"] = learned.nll - learned.nll_grid
    by_table = learned.groupby(["what", "table"])[["regret", "depth_grid", "depth_mode", "depth_mean"]].mean()
    found = by_table.groupby("what").regret.agg(["mean", "sem"])
    found["above 0"] = (by_table.depth_mode > 0).groupby("what").sum()
    near = (by_table.depth_mode > 0) & ((by_table.depth_mode - by_table.depth_grid).abs() <= 1)
    found["and near the grid's"] = near.groupby("what").sum()
    found["rank correlation"] = (
        by_table.groupby("what")[["depth_grid", "depth_mean"]].corr("spearman").iloc[::2, 1].droplevel(1)
    )
    print(found.round(4).to_string())

    candidates: Any = pd.read_csv(args.out / "candidates.csv")
    for kind, part in candidates.groupby("kind"):
        print(f"\nwhole estimators, {kind}\n\n{compared(part, 'what', 'as it is').to_string()}")
        print(part.pivot_table(index="table", columns="what", values="nll").round(3).to_string())


COSTS = ("trained_nll", "weight_kl", "held_out_nll")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, help="the directory of the tables")
    parser.add_argument("--tables", nargs="+")
    parser.add_argument("--arms", nargs="+", choices=ARMS, default=list(ARMS))
    parser.add_argument("--splits", type=int, default=2)
    parser.add_argument("--networks", type=Path, default=Path("runs/depth-study"), help="where they are kept")
    parser.add_argument("--out", type=Path, default=Path("results/depth"))
    parser.add_argument("--candidates", action="store_true", help="whole estimators instead of arms")
    parser.add_argument("--kind", nargs="+", choices=KINDS, default=list(KINDS))
    parser.add_argument("--what", nargs="+", choices=CANDIDATES, default=list(CANDIDATES))
    parser.add_argument("--summary", action="store_true")
    args = parser.parse_args()
    (summary if args.summary else candidates if args.candidates else study)(args)
