"""How honest the defaults are on real tables, beside what else one would use, all in one run.

    python benchmarks/tables.py --data ../shared/data/tables [--half report] [--kind classes] [--methods leadline ...]
    python benchmarks/tables_summary.py [--picture docs/tables.png]      # of what is in results/tables

Tables whose name has an even number of characters are for choosing settings (`--half choose`), the others for
reporting. Three splits of 75/25, stratified, at most 5,000 rows to train on; everything at its defaults, inputs
standardised where a method needs it; on as many cores as the process may use (`taskset -c 0` for one). A row per table,
split and method goes to results/tables/KIND/METHOD.csv; rows that are there are not computed again. No probability
counts as less than 1e-6. `before` is the default up to version 0.1; bde needs `pip install "leadline[bench]"`.
"""

import argparse
import csv
import time
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import scipy.special
import scipy.stats
from sklearn.ensemble import (
    HistGradientBoostingClassifier,
    HistGradientBoostingRegressor,
    RandomForestClassifier,
    RandomForestRegressor,
)
from sklearn.gaussian_process import GaussianProcessClassifier, GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, WhiteKernel
from sklearn.linear_model import BayesianRidge, LogisticRegression
from sklearn.model_selection import cross_val_predict, train_test_split
from sklearn.neural_network import MLPClassifier, MLPRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from leadline import DepthClassifier, DepthRegressor, metrics

MOST_TRAINED = 5_000
"""Rows to train on."""

LEAST = 1e-6
"""The smallest probability that counts."""

MOST_ROWS = {"gp": 1_000, "bde": 2_500}
"""Rows to train on up to which a method is tried: beyond, a fit takes many minutes."""

BDE = {"n_members": 8, "hidden_layers": [16, 16], "epochs": 1000, "warmup_steps": 2000}
BDE |= {"n_samples": 500, "n_thinning": 5, "patience": 10}


@dataclass(frozen=True)
class Split:
    """The rows to train on and those to measure on; classes by number."""

    x: np.ndarray
    y: np.ndarray
    x_test: np.ndarray
    y_test: np.ndarray


def split(path: Path, kind: str, number: int) -> Split:
    frame = pd.read_csv(path)
    y = frame.pop("target").to_numpy()
    y = np.unique(y, return_inverse=True)[1] if kind == "classes" else y.astype(float)
    stratify = y if kind == "classes" else None
    x = frame.to_numpy(float)
    train, test = train_test_split(np.arange(len(x)), test_size=0.25, random_state=number, stratify=stratify)
    train = train[:MOST_TRAINED]
    return Split(x[train], y[train], x[test], y[test])


# Classes: probabilities of the test rows.


def probabilities(estimator: Any, rows: Split, seconds: list[float]) -> tuple[np.ndarray, Any]:
    """Of every class there is, known or not."""
    timed(lambda: estimator.fit(rows.x, rows.y), seconds)
    p = np.zeros((len(rows.x_test), max(rows.y.max(), rows.y_test.max()) + 1))
    p[:, estimator.classes_] = estimator.predict_proba(rows.x_test)
    p = np.maximum(p, LEAST)
    return p / p.sum(axis=1, keepdims=True), estimator


def of_classes(make: Callable[[int], Any]) -> Callable[[Split, int], dict[str, Any]]:
    def run(rows: Split, seed: int) -> dict[str, Any]:
        seconds: list[float] = []
        p, estimator = probabilities(make(seed), rows, seconds)
        cost = -np.log(p[np.arange(len(p)), rows.y_test])
        said = metrics.OfClasses(p, rows.y_test)
        return {**metrics.measured(said), "nll_error": standard_error(cost), "seconds": seconds[0], **depth(estimator)}

    return run


# Numbers: the predictive distribution of the test rows.


@dataclass(frozen=True)
class Said:
    """A distribution for every row."""

    mean: np.ndarray
    std: np.ndarray
    log_density: Callable[[np.ndarray], np.ndarray]
    cdf: Callable[[np.ndarray], np.ndarray]


def gaussian(mean: np.ndarray, std: Any) -> Said:
    one: Any = scipy.stats.norm(mean, np.broadcast_to(std, mean.shape))
    return Said(mean, np.broadcast_to(std, mean.shape), one.logpdf, one.cdf)


def by_residuals(estimator: Any, rows: Split) -> Said:
    """A Gaussian of the cross-validated residuals around what an estimator says."""
    residuals = rows.y - cross_val_predict(estimator, rows.x, rows.y, cv=5)
    return gaussian(estimator.fit(rows.x, rows.y).predict(rows.x_test), np.sqrt(np.mean(residuals**2)))


def by_std(estimator: Any, rows: Split) -> Said:
    """Of an estimator that says how sure it is."""
    return gaussian(*estimator.fit(rows.x, rows.y).predict(rows.x_test, return_std=True))


def by_leadline(estimator: Any, rows: Split) -> Said:
    mean, std = estimator.fit(rows.x, rows.y).predict(rows.x_test, return_std=True)
    return Said(
        mean, std, lambda y: estimator.log_likelihood(rows.x_test, y), lambda y: estimator.predict_cdf(rows.x_test, y)
    )


def by_bde(estimator: Any, rows: Split) -> Said:
    """It takes standardised targets; its draws are equal parts of a mixture."""
    inside = StandardScaler().fit(rows.x)
    centre, unit = rows.y.mean(), rows.y.std()
    estimator.fit(inside.transform(rows.x), (rows.y - centre) / unit)
    raw = np.asarray(estimator.predict(inside.transform(rows.x_test), raw=True), float)
    raw = raw.reshape(-1, len(rows.x_test), 2)
    means, scales = centre + unit * raw[..., 0], unit * (np.logaddexp(0, raw[..., 1]) + 1e-6)
    parts: Any = scipy.stats.norm(means, scales)
    mean = means.mean(axis=0)
    return Said(
        mean,
        np.sqrt(np.mean(scales**2 + (means - mean) ** 2, axis=0)),
        lambda y: scipy.special.logsumexp(parts.logpdf(y), axis=0) - np.log(len(means)),
        lambda y: parts.cdf(y).mean(axis=0),
    )


def crps(said: Said, y: np.ndarray, n: int = 301) -> np.ndarray:
    """The integral of (F(z) - [z >= y])^2, by the trapezoidal rule on both sides of y."""
    low, high = (y + sign * (8 * said.std + np.abs(y - said.mean)) for sign in (-1, 1))
    total = np.zeros(len(y))
    for end, target in ((low, 0.0), (high, 1.0)):
        at = y + np.linspace(0, 1, n)[:, None] ** 2 * (end - y)  # denser near y
        squares = np.stack([(said.cdf(z) - target) ** 2 for z in at])
        total += np.abs(np.trapezoid(squares, at, axis=0))
    return total


def of_numbers(say: Callable[[Any, Split], Said], make: Callable[[int], Any]) -> Callable[[Split, int], dict[str, Any]]:
    def run(rows: Split, seed: int) -> dict[str, Any]:
        seconds, estimator, y = [], make(seed), rows.y_test
        said = timed(lambda: say(estimator, rows), seconds)
        cost, level = -said.log_density(y), np.abs(2 * said.cdf(y) - 1)
        unit = rows.y.std()
        return {
            "rmse": np.sqrt(np.mean((said.mean - y) ** 2)) / unit,
            "nll": cost.mean() - np.log(unit),
            "crps": crps(said, y).mean() / unit,
            **{f"coverage_{c}": np.mean(level <= c / 100) for c in (50, 90, 95)},
            "nll_error": standard_error(cost),
            "seconds": seconds[0],
            **depth(estimator),
        }

    return run


def timed(do: Callable[[], Any], seconds: list[float]) -> Any:
    start = time.perf_counter()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        result = do()
    seconds.append(time.perf_counter() - start)
    return result


def standard_error(values: np.ndarray) -> float:
    return float(values.std(ddof=1) / np.sqrt(len(values)))


def depth(estimator: Any) -> dict[str, Any]:
    """What ours has learned beside."""
    names = ("depth_mean", "depth_mode", "temperature", "held_out_nll")
    return {name: getattr(estimator, f"{name}_", "") for name in names}


def scaled(estimator: Any) -> Any:
    return make_pipeline(StandardScaler(), estimator)


def gp_kernel() -> Any:
    return ConstantKernel() * RBF() + WhiteKernel(0.1)


def bde(name: str) -> Callable[[int], Any]:
    def make(seed: int) -> Any:
        import bde as package  # pyright: ignore[reportMissingImports]

        return getattr(package, name)(**BDE, seed=seed)

    return make


def fixed(kind: Any, depth: int) -> Callable[[int], Any]:
    """Ours with so many hidden layers, and all else alike: for the grid that a learned depth replaces."""
    return lambda seed: kind(depth=depth, random_state=seed)


METHODS: dict[str, dict[str, Callable[[Split, int], dict[str, Any]]]] = {
    "classes": {
        "leadline": of_classes(lambda seed: DepthClassifier(random_state=seed)),
        **{f"depth-{d}": of_classes(fixed(DepthClassifier, d)) for d in range(6)},
        "residual": of_classes(lambda seed: DepthClassifier(block="residual", random_state=seed)),
        "before": of_classes(lambda seed: DepthClassifier(recipe="leadline", random_state=seed)),
        "mlp": of_classes(lambda seed: scaled(MLPClassifier(random_state=seed))),
        "logistic": of_classes(lambda seed: scaled(LogisticRegression())),
        "boosting": of_classes(lambda seed: HistGradientBoostingClassifier(random_state=seed)),
        "forest": of_classes(lambda seed: RandomForestClassifier(300, random_state=seed)),
        "gp": of_classes(lambda seed: scaled(GaussianProcessClassifier(ConstantKernel() * RBF(), random_state=seed))),
        "bde": of_classes(lambda seed: scaled(bde("BdeClassifier")(seed))),
    },
    "numbers": {
        "leadline": of_numbers(by_leadline, lambda seed: DepthRegressor(random_state=seed)),
        **{f"depth-{d}": of_numbers(by_leadline, fixed(DepthRegressor, d)) for d in range(6)},
        "residual": of_numbers(by_leadline, lambda seed: DepthRegressor(block="residual", random_state=seed)),
        "before": of_numbers(
            by_leadline, lambda seed: DepthRegressor(recipe="leadline", noise="constant", random_state=seed)
        ),
        "mlp": of_numbers(by_residuals, lambda seed: scaled(MLPRegressor(random_state=seed))),
        "ridge": of_numbers(by_std, lambda seed: scaled(BayesianRidge())),
        "boosting": of_numbers(by_residuals, lambda seed: HistGradientBoostingRegressor(random_state=seed)),
        "forest": of_numbers(by_residuals, lambda seed: RandomForestRegressor(300, random_state=seed)),
        "gp": of_numbers(
            by_std, lambda seed: scaled(GaussianProcessRegressor(gp_kernel(), normalize_y=True, random_state=seed))
        ),
        "bde": of_numbers(by_bde, bde("BdeRegressor")),
    },
}


def names(data: Path, kind: str, half: str) -> list[str]:
    """The tables of a half, the small ones first."""
    index = pd.read_csv(data / "index.csv").sort_values("rows")
    return [name for name in index.name[index.kind == kind] if (len(name) % 2 == 0) == (half == "choose")]


def run(args: argparse.Namespace) -> None:
    for kind in args.kind:
        for method in args.methods or METHODS[kind]:
            run_method(args, kind, method)


def run_method(args: argparse.Namespace, kind: str, method: str) -> None:
    path = args.out / kind / f"{method}.csv"
    path.parent.mkdir(parents=True, exist_ok=True)
    done = pd.read_csv(path) if path.exists() else pd.DataFrame(columns=["table", "split"])
    done = set(zip(done.table, done.split, strict=True))
    for name, number in wanted(args, kind):
        if (name, number) in done:
            continue
        rows = split(args.data / kind / f"{name}.csv.gz", kind, number)
        if len(rows.x) > min(args.most_rows, MOST_ROWS.get(method, MOST_TRAINED)):
            continue
        found = METHODS[kind][method](rows, number)
        row = {"table": name, "split": number, "n_rows": len(rows.x), **found}
        new = not path.exists()
        with path.open("a", newline="") as file:
            table = csv.DictWriter(file, row)
            if new:
                table.writeheader()
            table.writerow({key: f"{v:.6g}" if isinstance(v, float) else v for key, v in row.items()})
        print(kind, method, name, number, f"nll {row['nll']:.4f}, {row['seconds']:.1f} s", flush=True)


def wanted(args: argparse.Namespace, kind: str) -> Iterator[tuple[str, int]]:
    return ((name, number) for name in names(args.data, kind, args.half) for number in range(args.splits))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True, help="the directory of the tables")
    parser.add_argument("--most-rows", type=int, default=MOST_TRAINED, help="leave out tables with more to train on")
    parser.add_argument("--half", choices=("choose", "report"), default="report")
    parser.add_argument("--kind", nargs="+", choices=METHODS, default=list(METHODS))
    parser.add_argument("--methods", nargs="+")
    parser.add_argument("--splits", type=int, default=3)
    parser.add_argument("--out", type=Path, default=Path("results/tables"))
    run(parser.parse_args())
