"""What it costs to follow a training: fits with `JsonLines` beside fits without, in turn, and the time in it alone.

python benchmarks/following.py
"""

import argparse
import tempfile
import time
import warnings
from pathlib import Path

import numpy as np
from sklearn.datasets import load_digits, load_iris

from leadline import DataWarning, DepthClassifier
from leadline.callbacks import JsonLines
from leadline.training.bursts import Burst


class Timed(JsonLines):
    """Knows how long it took."""

    seconds = 0.0

    def burst(self, epochs: Burst) -> None:
        begin = time.perf_counter()
        super().burst(epochs)
        self.seconds += time.perf_counter() - begin


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--iris", type=int, default=20, help="fits of either kind")
    parser.add_argument("--digits", type=int, default=5)
    arguments = parser.parse_args()
    warnings.simplefilter("ignore", DataWarning)  # some pixels are always white
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "metrics.jsonl"
        for load in (load_iris, load_digits):
            name = load.__name__.removeprefix("load_")
            x, y = load(return_X_y=True)
            DepthClassifier(random_state=0).fit(x, y)
            seconds = np.empty((getattr(arguments, name), 3))
            for row in seconds:
                follower = Timed(path)
                for i, callback in enumerate((None, follower)):
                    begin = time.perf_counter()
                    DepthClassifier(random_state=0, callback=callback).fit(x, y)
                    row[i] = time.perf_counter() - begin
                row[2] = follower.seconds
            without, followed, inside = np.median(seconds, axis=0)
            ratio = np.median(seconds[:, 1] / seconds[:, 0])
            n_lines = path.read_text().count("\n")
            print(f"{name}: {without:.2f} s; {followed:.2f} s with {n_lines:,} lines, {1000 * inside:.0f} ms for them")
            print(f"    median ratio of the pairs {ratio:.3f}; share of the lines {inside / followed:.1%}")


if __name__ == "__main__":
    main()
