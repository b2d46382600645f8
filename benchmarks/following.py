"""What it costs to follow a training: fits with `JsonLines` beside fits without, in turn.

python benchmarks/following.py
"""

import argparse
import tempfile
import time
from pathlib import Path

import numpy as np
from sklearn.datasets import load_digits, load_iris

from leadline import DepthClassifier
from leadline.callbacks import JsonLines


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--iris", type=int, default=20, help="fits of either kind")
    parser.add_argument("--digits", type=int, default=5)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "metrics.jsonl"
        for load in (load_iris, load_digits):
            name = load.__name__.removeprefix("load_")
            x, y = load(return_X_y=True)
            DepthClassifier(random_state=0).fit(x, y)
            seconds = np.empty((getattr(arguments, name), 2))
            for row in seconds:
                for i, callback in enumerate((None, JsonLines(path))):
                    begin = time.perf_counter()
                    DepthClassifier(random_state=0, callback=callback).fit(x, y)
                    row[i] = time.perf_counter() - begin
            ratio = np.median(seconds[:, 1] / seconds[:, 0])
            without, with_lines = np.median(seconds, axis=0)
            n_lines = path.read_text().count("\n")
            print(
                f"{name}: {without:.2f} s without, {with_lines:.2f} s with {n_lines:,} lines; median ratio {ratio:.3f}"
            )


if __name__ == "__main__":
    main()
