"""What it takes to look into a fit, beside the fit: importances, partial dependences, standard errors, hardest rows.

python benchmarks/inspection.py
"""

import time
from typing import Any

import numpy as np
from sklearn import datasets
from sklearn.model_selection import train_test_split

from leadline import DepthClassifier, DepthRegressor
from leadline.studies.inspection import inspected

TABLES = ("iris", "wine", "diabetes", "breast_cancer", "digits")


def main() -> None:
    print(f"{'table':14s} {'rows':>5s} {'columns':>7s} {'test':>5s} {'fit, s':>7s} {'inspection, s':>14s}")
    for name in TABLES:
        x, y = getattr(datasets, f"load_{name}")(return_X_y=True)
        x, x_test, y, y_test = map(np.asarray, train_test_split(x, y, test_size=0.1, random_state=1))
        estimator: Any = (DepthRegressor if name == "diabetes" else DepthClassifier)(random_state=1)
        begin = time.perf_counter()
        estimator.fit(x, y)
        fitted = time.perf_counter()
        said = estimator.said_of(x_test, y_test)
        content = inspected(estimator, (x, y), (x_test, y_test), said, target="y")
        end = time.perf_counter()
        assert np.isfinite(content["train_nll"])
        sizes = f"{len(x) + len(x_test):5d} {x.shape[1]:7d} {len(x_test):5d}"
        print(f"{name:14s} {sizes} {fitted - begin:7.2f} {end - fitted:14.2f}", flush=True)


if __name__ == "__main__":
    main()
