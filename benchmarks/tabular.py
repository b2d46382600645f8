"""The estimators on scikit-learn's tables, beside scikit-learn's own networks; everything at its defaults.

    python benchmarks/tabular.py [--repeats 5] [--names wine digits] [--json results/users/tabular.json]
    python benchmarks/tabular.py --markdown results/users/tabular.json     # the tables of a finished run

Five folds, repeated, the same for both; `DepthClassifier()` and `DepthRegressor()`, which standardise inside, against
`MLPClassifier()` and `MLPRegressor()` in a standardising pipeline. The error of a difference is that of the folds' mean
paired difference, corrected for overlapping training parts (Nadeau & Bengio 2003: 1/n + 1/4 instead of 1/n). The first
fit of a table compiles: no programs are read from disk.
"""

import argparse
import json
import os
import platform
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np
from sklearn import datasets
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics import log_loss
from sklearn.model_selection import RepeatedKFold, RepeatedStratifiedKFold
from sklearn.neural_network import MLPClassifier, MLPRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

os.environ["JAX_ENABLE_COMPILATION_CACHE"] = "0"

from leadline import DepthClassifier, DepthRegressor

CLASSES = ("iris", "wine", "breast_cancer", "digits")
NUMBERS = ("diabetes",)
N_FOLDS = 5


def fit(estimator: Any, x: np.ndarray, y: np.ndarray) -> tuple[Any, float]:
    start = time.perf_counter()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        estimator.fit(x, y)
    return estimator, time.perf_counter() - start


def classes(x: np.ndarray, y: np.ndarray, train: np.ndarray, test: np.ndarray, seed: int) -> dict[str, dict[str, Any]]:
    """What one fold gives."""
    row = {}
    estimators = {
        "leadline": DepthClassifier(random_state=seed),
        "sklearn": make_pipeline(StandardScaler(), MLPClassifier(random_state=seed)),
    }
    for name, estimator in estimators.items():
        estimator, seconds = fit(estimator, x[train], y[train])
        probabilities = estimator.predict_proba(x[test])
        right = estimator.classes_[probabilities.argmax(axis=1)] == y[test]
        nll = log_loss(y[test], probabilities, labels=estimator.classes_)
        row[name] = {"accuracy": 100 * right.mean(), "nll": nll, "seconds": seconds}
        if name == "leadline":
            row[name] |= {"depth_mean": estimator.depth_mean_, "epochs": estimator.n_iter_}
    return row


def numbers(x: np.ndarray, y: np.ndarray, train: np.ndarray, test: np.ndarray, seed: int) -> dict[str, dict[str, Any]]:
    ours, seconds = fit(DepthRegressor(random_state=seed), x[train], y[train])
    theirs, their_seconds = fit(make_pipeline(StandardScaler(), MLPRegressor(random_state=seed)), x[train], y[train])
    below, above = ours.predict_interval(x[test], 0.9).T
    return {
        "leadline": {
            "rmse": _rmse(ours.predict(x[test]), y[test]),
            "nll": -ours.log_likelihood(x[test], y[test]).mean(),
            "coverage_90": np.mean((below <= y[test]) & (y[test] <= above)),
            "seconds": seconds,
            "depth_mean": ours.depth_mean_,
            "epochs": ours.n_iter_,
        },
        "sklearn": {"rmse": _rmse(theirs.predict(x[test]), y[test]), "seconds": their_seconds},
    }


def _rmse(prediction: np.ndarray, y: np.ndarray) -> float:
    return float(np.sqrt(np.mean((prediction - y) ** 2)))


def run(name: str, repeats: int) -> dict[str, Any]:
    x, y = getattr(datasets, f"load_{name}")(return_X_y=True)
    splitter = RepeatedStratifiedKFold if name in CLASSES else RepeatedKFold
    one_fold = classes if name in CLASSES else numbers
    rows = []
    for seed, (train, test) in enumerate(splitter(n_splits=N_FOLDS, n_repeats=repeats, random_state=0).split(x, y)):
        rows.append(one_fold(x, y, train, test, seed))
        print(f"\r{name} {seed + 1}/{N_FOLDS * repeats}", end="", flush=True)
    metrics = ["accuracy", "nll"] if name in CLASSES else ["rmse"]
    summary: dict[str, Any] = {"name": name, "rows": len(x), "columns": x.shape[1]}
    for who in ("leadline", "sklearn"):
        summary[who] = {key: float(np.mean([row[who][key] for row in rows])) for key in rows[0][who]}
    # What a user waits for: the first fit compiles, the others do not.
    summary["leadline"]["seconds"] = float(np.mean([row["leadline"]["seconds"] for row in rows[1:]]))
    summary["leadline"]["seconds_first"] = rows[0]["leadline"]["seconds"]
    for key in metrics:
        difference = np.array([row["leadline"][key] - row["sklearn"][key] for row in rows])
        error = difference.std(ddof=1) * np.sqrt(1 / len(rows) + 1 / (N_FOLDS - 1))
        summary[f"{key}_difference"] = [float(difference.mean()), float(error)]
    print("\r" + _line(summary, metrics), flush=True)
    return summary


def _line(summary: dict[str, Any], metrics: list[str]) -> str:
    parts = []
    for key in metrics:
        mean, error = summary[f"{key}_difference"]
        ours, theirs = summary["leadline"][key], summary["sklearn"][key]
        parts.append(f"{key} {ours:.4g} against {theirs:.4g} ({mean:+.3g} ± {error:.2g})")
    if "coverage_90" in summary["leadline"]:
        parts.append(f"coverage {100 * summary['leadline']['coverage_90']:.1f} %")
    ours, theirs = summary["leadline"], summary["sklearn"]
    parts.append(f"{ours['seconds']:.1f} s (first {ours['seconds_first']:.1f} s) against {theirs['seconds']:.1f} s")
    return f"{summary['name']:14s} " + ", ".join(parts)


def markdown(tables: list[dict[str, Any]]) -> str:
    """Both tables of the README."""

    def pair(table: dict[str, Any], key: str, digits: int) -> str:
        mean, error = table[f"{key}_difference"]
        both = " / ".join(f"{table[who][key]:.{digits}f}" for who in ("leadline", "sklearn"))
        return f"{both} ({mean:+.{digits}f} ± {error:.{digits}f})"

    def row(table: dict[str, Any], *cells: str) -> str:
        ours, theirs = table["leadline"], table["sklearn"]
        seconds = f"{ours['seconds']:.1f} ({ours['seconds_first']:.0f}) / {theirs['seconds']:.1f}"
        what = (table["name"].replace("_", " "), f"{table['rows']} x {table['columns']}")
        return "| " + " | ".join([*what, *cells, seconds]) + " |"

    lines = [
        "| | rows x columns | accuracy %, Leadline / MLP (difference) | NLL, Leadline / MLP (difference) | "
        "seconds, Leadline / MLP |",
        "|---|---|---|---|---|",
        *[row(t, pair(t, "accuracy", 2), pair(t, "nll", 3)) for t in tables if t["name"] in CLASSES],
        "",
        "| | rows x columns | RMSE, Leadline / MLP (difference) | 90 % intervals hold | seconds, Leadline / MLP |",
        "|---|---|---|---|---|",
        *[
            row(t, pair(t, "rmse", 1), f"{100 * t['leadline']['coverage_90']:.1f} %")
            for t in tables
            if t["name"] in NUMBERS
        ],
    ]
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--names", nargs="*", default=[*CLASSES, *NUMBERS], choices=[*CLASSES, *NUMBERS])
    parser.add_argument("--json", type=Path)
    parser.add_argument("--markdown", type=Path, metavar="JSON")
    arguments = parser.parse_args()
    if arguments.markdown:
        print(markdown(json.loads(arguments.markdown.read_text())["tables"]))
        return
    results = [run(name, arguments.repeats) for name in arguments.names]
    if arguments.json:
        arguments.json.parent.mkdir(parents=True, exist_ok=True)
        arguments.json.write_text(json.dumps({"python": platform.python_version(), "tables": results}, indent=1) + "\n")


if __name__ == "__main__":
    main()
