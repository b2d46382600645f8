"""Decision regions of a training with two inputs: from its newest checkpoint, or from the model that it left."""

import tempfile
import threading
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from leadline._checks import WRONG
from leadline._foreign import shown
from leadline.backend.device import backend
from leadline.files.directories import MODEL
from leadline.files.whole import MOST_BYTES
from leadline.plots import CLASS_COLOURS, MORE_CLASS_COLOURS, decision_grid
from leadline.server.places import Place
from leadline.server.runs import Run

N = 72
"""Points of the grid in either direction."""

MOST_DOTS = 400

N_SAMPLES = 8
"""Draws of the weights behind a prediction, all restarts together."""

REACH = 2.5
"""Deviations from the mean of a column that are shown."""


class Regions:
    """Draws those of one run at a time, and keeps the last."""

    def __init__(self, place: Place):
        self._place, self._lock = place, threading.Lock()
        self._last: tuple[Any, dict[str, Any] | None] = None, None

    @staticmethod
    def source(run: Run) -> str | None:
        """A word for what they would be drawn from now; None where there is nothing."""
        if run.is_running:
            return run.checkpoint if "omega" in run.arguments and backend().has_engine else None
        record = run.record
        if record is None or record.task != "classification" or len(record.columns or ()) != 2:
            return None
        return run.stamp(MODEL) if all(one.get("words") == "number" for one in record.columns or ()) else None

    def of(self, run: Run) -> dict[str, Any] | None:
        """What a page draws; None where there is nothing, or nothing that can be understood."""
        with self._lock:
            source = self.source(run)
            if source is not None and self._last[0] != (run.name, source):
                said = None
                with suppress(*WRONG):
                    said = self._spiral(run, source) if run.is_running else self._model(run)
                self._last = (run.name, source), said
            return self._last[1] if source is not None else None

    def _spiral(self, run: Run, checkpoint: str) -> dict[str, Any] | None:
        """The training goes on from a copy of the checkpoint, for an epoch, and predicts."""
        from leadline.inference.restarts import Restarts
        from leadline.studies.spiral import spiral_problem
        from leadline.training.loop import train
        from leadline.training.run import Watch

        said = run.arguments
        settings = _settings(said)
        problem = spiral_problem(float(said["omega"]), settings.seed)
        if settings.identity(problem)[:16] != said["identity"]:
            return None
        with tempfile.TemporaryDirectory() as folder:
            copy = Path(folder) / checkpoint.rpartition("/")[2]
            copy.write_bytes(self._place.read(checkpoint))
            trained = train(problem, settings, watch=Watch(on_call=lambda _: True, checkpoint_dir=folder))
        x, y = problem.train
        grid, extent = decision_grid(x, N)
        probabilities = Restarts(trained.model, settings.seed, N_SAMPLES).moments(grid)
        dots = [[*map(_short, row), int(label)] for row, label in zip(x[:MOST_DOTS], y, strict=False)]
        about = {"epoch": trained.epochs, "classes": ["class 0", "class 1"], "columns": ["x₁", "x₂"], "dots": dots}
        return about | _drawn(probabilities, extent)

    def _model(self, run: Run) -> dict[str, Any] | None:
        """The estimator predicts."""
        import pandas

        from leadline.estimators.loading import load

        path = self._place.path(run.file(MODEL))
        self._place.read(run.file(MODEL), MOST_BYTES)  # which is not larger
        estimator = load(path)
        assert estimator.encoder_ is not None
        names = list(estimator.encoder_.names_)
        low, high = (estimator.x_mean_ + side * REACH * estimator.x_scale_ for side in (-1, 1))
        grid, extent = decision_grid(np.stack([low, high]), N, margin=0)
        estimator.recipe = replace(estimator._recipe, n_samples=N_SAMPLES * len(estimator.restart_shares_))
        probabilities = estimator.predict_proba(pandas.DataFrame(grid, columns=names))
        classes = [shown(name) for name in estimator.classes_]
        about = {"epoch": estimator.n_iter_, "classes": classes, "columns": [*map(shown, names)], "dots": []}
        return about | _drawn(probabilities, extent)


def _settings(said: Mapping[str, Any]) -> Any:
    """As `leadline spiral` was given them."""
    from leadline.likelihoods import CategoricalLikelihood
    from leadline.training.settings import Settings, options

    names = [one.name for one in options("command line").values()]
    return Settings(**{name: said[name] for name in names}).resolved(CategoricalLikelihood)


def _drawn(probabilities: np.ndarray, extent: tuple[float, ...]) -> dict[str, Any]:
    """The most probable class of every point of the grid, and how far it is from undecided, 0 to 255."""
    n_classes = probabilities.shape[1]
    even = 1 / n_classes
    sure = (probabilities.max(axis=1) - even) / (1 - even)
    colours = CLASS_COLOURS if n_classes == 2 else [MORE_CLASS_COLOURS[k % 10] for k in range(n_classes)]
    return {
        "n": N,
        "extent": [*map(_short, extent)],
        "class": probabilities.argmax(axis=1).tolist(),
        "sure": np.rint(255 * sure).astype(int).tolist(),
        "colours": list(colours),
    }


def _short(value: float) -> float:
    return float(f"{value:.5g}")
