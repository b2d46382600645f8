"""What follows a training: lines of JSON, TensorBoard, MLflow. `fit` takes one as its `callback`, or a list of them.

Any function of a `Progress` is a callback. These take the epochs of a compiled call at once (`burst`), and close what
they have opened (`close`). An estimator that is cloned, as in a search, clones its callbacks: give each fit a place
of its own where all are to be kept.
"""

import json
import os
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np

from leadline._checks import InvalidArgumentError, check_integer
from leadline.files.directories import writing
from leadline.files.lines import NotWrittenWarning, add_lines
from leadline.files.ours import check_ours
from leadline.training.bursts import Burst

VALIDATED = ("free_energy", "expected_nll", "depth_kl", "weight_kl", "validation_nll")
"""What every restart says, as of the last epoch that was validated."""

MOVING = ("depth_mean", "depth_std")
"""What it says after every epoch."""


DEPTH_EVERY = 0.2
"""Seconds from one q(L) in the lines to the next: short trainings have more calls than anybody can see."""


class JsonLines:
    """Write a line of JSON for every epoch and restart, as they come.

    A training that goes on from a checkpoint, or goes back because it diverged, cuts the lines off that it does again.

    Args:
        path: of the file, .jsonl. What stands there and is not Leadline's is refused.
    """

    def __init__(self, path: str | os.PathLike[str]):
        if not isinstance(path, str | os.PathLike) or Path(path).suffix != ".jsonl":
            raise InvalidArgumentError(f"must be a file that ends in .jsonl, got {path!r}.", "path")
        self.path = Path(path)
        with writing(self.path, "path"):
            check_ours(self.path)
        self._last: int | None = None
        self._depth_at = 0.0
        self._in_trouble = False

    def burst(self, epochs: Burst) -> None:
        """Write them."""
        if self._in_trouble:
            return
        follows = self._last is not None and epochs.first == self._last + 1
        now, last = float(epochs.seconds[-1]), epochs.first + len(epochs) - 1
        with_depth = not follows or last == epochs.end or now - self._depth_at >= DEPTH_EVERY
        self._depth_at = now if with_depth else self._depth_at
        stays = None if follows else lambda line: _epoch_of(line) < epochs.first
        try:
            add_lines(self.path, lines(epochs, with_depth), stays)
        except OSError as error:
            said = f"Cannot write {self.path}: {error.strerror or error}. Training goes on without."
            warnings.warn(said, NotWrittenWarning, stacklevel=2)
            self._in_trouble = True
        self._last = last

    def close(self) -> None:
        """The training is over."""
        self._last, self._in_trouble = None, False


def lines(epochs: Burst, with_depth: bool = True) -> str:
    """A line for every epoch and restart. Most epochs are not validated: what these say is that of the one before.

    Args:
        epochs: of a compiled call.
        with_depth: whether the last of them says q(L) as well, and how many epochs there will be, null as long as that
            is not decided.

    Returns:
        The text.
    """
    columns = epochs.columns
    validated = np.stack([columns[name] for name in VALIDATED], axis=-1)
    is_new = np.ones(len(epochs), bool)
    is_new[1:] = (validated[1:] != validated[:-1]).any(axis=(1, 2))
    form = '"temperature": %.7g, ' + ", ".join(f'"{name}": %.7g' for name in VALIDATED)
    texts = [
        [form % (temperature, *row) for temperature, row in zip(epochs.temperature.tolist(), rows, strict=True)]
        for rows in validated[is_new].tolist()
    ]
    support = np.moveaxis(columns["depth_support"], -1, 0)
    moving = [a.tolist() for a in (epochs.phases, *(columns[name] for name in MOVING), *support)]
    heads, text = [f'{{"restart": {restart}, "epoch": ' for restart in range(len(epochs.temperature))], []
    rows = zip((np.cumsum(is_new) - 1).tolist(), epochs.seconds.tolist(), *moving, strict=True)
    ends, last = [""] * len(heads), epochs.first + len(epochs) - 1
    for epoch, (which, seconds, *now) in enumerate(rows, epochs.first):
        at, ends = f'{epoch}, "phase": "', _of_last(epochs) if with_depth and epoch == last else ends
        text += [
            f'{head}{at}{phase}", {said}, "depth_mean": {mean:.7g}, "depth_std": {std:.7g}, '
            f'"depth_support": [{low}, {high}], "seconds": {seconds:.3f}{end}}}\n'
            for head, said, phase, mean, std, low, high, end in zip(heads, texts[which], *now, ends, strict=True)
        ]
    return "".join(text)


def _of_last(epochs: Burst) -> list[str]:
    """What the last epoch of a call says more, of every restart."""
    end = "null" if epochs.end is None else epochs.end
    masses = [", ".join(f"{mass:.5g}" for mass in np.trim_zeros(pmf, "b")) for pmf in epochs.masses()]
    return [f', "epochs": {end}, "depth_pmf": [{pmf}]' for pmf in masses]


def _epoch_of(line: str) -> float:
    try:
        return int(json.loads(line)["epoch"])
    except (ValueError, TypeError, KeyError):
        return np.inf


class TensorBoard:
    """Write what TensorBoard shows: means over the restarts, and every restart's numbers. Needs tensorboardX
    (`pip install "leadline[tensorboard]"`).

    Args:
        log_dir: where its event files go.
        every: epochs from one point to the next.
    """

    def __init__(self, log_dir: str | os.PathLike[str], every: int = 10):
        if not isinstance(log_dir, str | os.PathLike):
            raise InvalidArgumentError(f"must be a directory, got {log_dir!r}.", "log_dir")
        check_integer("every", every, 1)
        _needed("tensorboardX", "tensorboard")
        self.log_dir, self.every = Path(log_dir), every
        self._writer: Any = None

    def burst(self, epochs: Burst) -> None:
        """Write them."""
        from tensorboardX import SummaryWriter
        from tensorboardX.proto import summary_pb2

        summary: Any = vars(summary_pb2)["Summary"]
        if self._writer is None:  # what is there of later epochs is done again
            self._writer = SummaryWriter(str(self.log_dir), purge_step=epochs.first)
        begun = time.time() - epochs.seconds[-1]
        for epoch, values in _points(epochs, self.every):
            said = [summary.Value(tag=name, simple_value=value) for name, value in values.items()]
            at = begun + epochs.seconds[epoch - epochs.first]
            self._writer.file_writer.add_summary(summary(value=said), epoch, at)
        self._writer.flush()

    def close(self) -> None:
        """The training is over."""
        if self._writer is not None:
            self._writer.close()
        self._writer = None


class MLflow:
    """Log to MLflow: to the run that is active, or to one of its own. Needs mlflow or mlflow-skinny
    (`pip install "leadline[mlflow]"`).

    Args:
        tracking_uri: where MLflow keeps it; None: where it says itself.
        experiment: its name; None: the one that is active.
        run_name: of the run, if it begins one.
        every: epochs from one point to the next.
    """

    def __init__(
        self,
        tracking_uri: str | None = None,
        experiment: str | None = None,
        run_name: str | None = None,
        every: int = 10,
    ):
        check_integer("every", every, 1)
        _needed("mlflow", "mlflow")
        self.tracking_uri, self.experiment, self.run_name, self.every = tracking_uri, experiment, run_name, every
        self._client: Any = None

    def burst(self, epochs: Burst) -> None:
        """Log them."""
        from mlflow.entities import Metric

        if self._client is None:
            self._client = self._begin()
        begun = time.time() - epochs.seconds[-1]
        metrics = [
            Metric(name, value, round(1000 * (begun + epochs.seconds[epoch - epochs.first])), epoch)
            for epoch, values in _points(epochs, self.every)
            for name, value in values.items()
        ]
        for i in range(0, len(metrics), 1000):  # as many as MLflow takes at once
            self._client.log_batch(self._run, metrics[i : i + 1000])

    def _begin(self) -> Any:
        import mlflow
        from mlflow import MlflowClient

        client = MlflowClient(self.tracking_uri)
        active = mlflow.active_run()
        self._own = active is None or self.tracking_uri is not None or self.experiment is not None
        if active is not None and not self._own:
            self._run = active.info.run_id
            return client
        name = self.experiment or "Default"
        found = client.get_experiment_by_name(name)
        place = client.create_experiment(name) if found is None else found.experiment_id
        self._run = client.create_run(place, run_name=self.run_name).info.run_id
        return client

    def close(self) -> None:
        """The training is over."""
        if self._client is not None and self._own:
            self._client.set_terminated(self._run)
        self._client = None


def _points(epochs: Burst, every: int) -> list[tuple[int, dict[str, float]]]:
    """Of every so manieth epoch, and of the last of the training, its number, the means, and every restart's."""
    columns = {name: (a := epochs.columns[name], a.mean(axis=1)) for name in (*VALIDATED, *MOVING)}
    points = []
    for i, epoch in enumerate(range(epochs.first, epochs.first + len(epochs))):
        if epoch % every and epoch != epochs.end and epoch != 1:
            continue
        values = {name: float(mean[i]) for name, (_, mean) in columns.items()}
        for name, (each, _) in columns.items():
            values |= {f"restart_{k}/{name}": float(value) for k, value in enumerate(each[i])}
        points.append((epoch, values))
    return points


def _needed(module: str, extra: str) -> None:
    from importlib.util import find_spec

    if find_spec(module) is None:
        raise ImportError(f'{module} is not installed; `pip install "leadline[{extra}]"` brings it.')
