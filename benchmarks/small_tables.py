"""The `leadline` recipe as it stands on scikit-learn's small tables, beside scikit-learn's own network.

    python benchmarks/small_tables.py [--folds 5] [--json results/recipes/small-tables.json]

Stratified folds, inputs standardised by the training part, nothing tuned: `leadline.train` with its defaults, and
`MLPClassifier()` in a standardising pipeline. Accuracy in percent, NLL in nats per row, over all folds together.
"""

import argparse
import json
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.datasets import load_breast_cancer, load_digits, load_wine
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import StratifiedKFold
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import leadline
from leadline import metrics

TABLES = {"wine": load_wine, "breast cancer": load_breast_cancer, "digits": load_digits}


def ours(x: np.ndarray, y: np.ndarray, x_test: np.ndarray, seed: int) -> tuple[np.ndarray, float]:
    scaler = StandardScaler().fit(x)
    data = (scaler.transform(x), y)
    likelihood = leadline.CategoricalLikelihood(int(y.max()) + 1)
    # The recipe keeps the last iterate: the validation part only feeds the history.
    training = leadline.train(leadline.Problem(data, data, likelihood), leadline.Settings(seed=seed))
    if training.interrupted:
        raise SystemExit("interrupted; nothing is recorded.")
    x_test = np.asarray(scaler.transform(x_test))
    restarts = training.restarts()
    return restarts.moments(x_test), restarts.depth()["depth_mean"]


def theirs(x: np.ndarray, y: np.ndarray, x_test: np.ndarray, seed: int) -> np.ndarray:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return make_pipeline(StandardScaler(), MLPClassifier(random_state=seed)).fit(x, y).predict_proba(x_test)


def run(name: str, n_folds: int) -> dict[str, Any]:
    x, y = TABLES[name](return_X_y=True)
    probabilities = {"leadline": np.empty((len(y), y.max() + 1)), "MLPClassifier": np.empty((len(y), y.max() + 1))}
    seconds, depths = dict.fromkeys(probabilities, 0.0), []
    for seed, (train, test) in enumerate(StratifiedKFold(n_folds, shuffle=True, random_state=0).split(x, y)):
        start = time.perf_counter()
        probabilities["leadline"][test], depth = ours(x[train], y[train], x[test], seed)
        seconds["leadline"] += time.perf_counter() - start
        depths.append(depth)
        start = time.perf_counter()
        probabilities["MLPClassifier"][test] = theirs(x[train], y[train], x[test], seed)
        seconds["MLPClassifier"] += time.perf_counter() - start
    measured = {
        model: {
            **{metric.__name__: metric(p, y) for metric in (metrics.accuracy, metrics.nll, metrics.brier, metrics.ece)},
            "seconds": round(seconds[model], 1),
        }
        for model, p in probabilities.items()
    }
    for model, values in measured.items():
        print(
            f"{name:14s} {model:14s} accuracy {values['accuracy']:6.2f}  NLL {values['nll']:.4f}  "
            f"calibration error {100 * values['ece']:.1f} %  {values['seconds']:.0f} s",
            flush=True,
        )
    return {"name": name, "rows": len(y), "columns": x.shape[1], "depth_mean": float(np.mean(depths)), **measured}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--folds", type=int, default=5)
    parser.add_argument("--names", nargs="*", default=list(TABLES), choices=TABLES)
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    results = [run(name, arguments.folds) for name in arguments.names]
    if arguments.json:
        arguments.json.write_text(json.dumps(results, indent=1) + "\n")


if __name__ == "__main__":
    main()
