"""What the lines of a training say together, epoch by epoch: few enough points for a picture."""

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

MOST_POINTS = 800
"""Of a curve; where there are more epochs, every second point goes."""

MEANS = ("free_energy", "expected_nll", "depth_kl", "weight_kl")
"""Of which a picture shows the mean over the restarts."""

EACH = ("validation_nll", "depth_mean")
"""Of which it shows every restart."""


class Curves:
    """The points of one training. A point is an epoch: seconds, means, E[L] and its deviation, and every restart's."""

    def __init__(self) -> None:
        self.generation = 0
        """Grows when points have gone that were there."""
        self.points: list[dict[str, Any]] = []
        self.last: dict[str, Any] | None = None
        """The newest, which is not always among them."""
        self.restarts: list[dict[str, Any]] = []
        """What each said last."""
        self.epochs: int | None = None
        """How many there will be, as far as it is decided."""
        self.depth: dict[str, Any] | None = None
        """q(L), the mean over the restarts and of each, and the epoch after which it was so."""
        self._stride, self._lines = 1, list[dict[str, Any]]()

    def forget(self) -> None:
        """Nothing is known any more."""
        generation = self.generation + 1
        self.__init__()
        self.generation = generation

    def add(self, lines: Iterable[bytes]) -> None:
        """Take lines as they come; one that says something else than ours is passed over."""
        for line in lines:
            said = _understood(line)
            if said is None:
                continue
            if self._lines and (said["epoch"] != self._lines[0]["epoch"] or said["restart"] != len(self._lines)):
                self._finish()
            if said["restart"] == len(self._lines):
                self._lines.append(said)
        if self._lines and len(self._lines) >= len(self.restarts):
            self._finish(for_now=True)

    def add_history(self, history: Mapping[str, Any], epochs: int) -> None:
        """Take what a record keeps of them instead, an even choice from first to last."""
        columns = {name: history[name] for name in (*MEANS, *EACH, "depth_std")}
        n = len(columns["free_energy"])
        for i in range(n):
            epoch = round(1 + i * (epochs - 1) / max(n - 1, 1))
            rows = zip(*(columns[name][i] for name in columns), strict=True)
            self._add([{"epoch": epoch, "seconds": None, **dict(zip(columns, row, strict=True))} for row in rows])

    def since(self, n: int) -> dict[str, list[Any]]:
        """The points from that number on, by columns."""
        some = self.points[n:]
        return {name: [point[name] for point in some] for name in some[0]} if some else {}

    def seconds_left(self) -> float | None:
        """At the pace of the last tenth."""
        if self.last is None or self.epochs is None or len(self.points) < 2:
            return None
        before = self.points[min(int(0.9 * len(self.points)), len(self.points) - 2)]
        done = self.last["epoch"] - before["epoch"]
        if done <= 0 or before["seconds"] is None:
            return None
        return max(0.0, (self.epochs - self.last["epoch"]) * (self.last["seconds"] - before["seconds"]) / done)

    def _finish(self, for_now: bool = False) -> None:
        """All restarts have said what they say of an epoch."""
        lines = self._lines
        self._add(lines)
        self.restarts = lines if not for_now else list(lines)
        if all("depth_pmf" in line for line in lines):
            self.epochs = lines[0]["epochs"]
            size = max(len(line["depth_pmf"]) for line in lines)
            each = [line["depth_pmf"] + [0.0] * (size - len(line["depth_pmf"])) for line in lines]
            mean = [_short(sum(column) / len(each)) for column in zip(*each, strict=True)]
            self.depth = {"epoch": lines[0]["epoch"], "mean": mean, "each": each}
        if not for_now:
            self._lines = []

    def _add(self, lines: Sequence[Mapping[str, Any]]) -> None:
        epoch = lines[0]["epoch"]
        while self.points and self.points[-1]["epoch"] > epoch:  # the training has gone back
            self.points.pop()
            self.generation += 1
        self.last = point = {
            "epoch": epoch,
            "seconds": lines[0]["seconds"],
            **{name: _short(_mean(line[name] for line in lines)) for name in MEANS},
            **_mixed(lines),
            **{f"{name}_each": [_short(line[name]) for line in lines] for name in EACH},
        }
        if self.points and self.points[-1]["epoch"] == epoch:
            if self.points[-1] != point:
                self.points[-1] = point
                self.generation += 1
        elif epoch % self._stride == 0 or epoch == 1:
            self.points.append(point)
        if len(self.points) > MOST_POINTS:
            self._stride *= 2
            self.points = [one for one in self.points if one["epoch"] % self._stride == 0 or one["epoch"] == 1]
            self.generation += 1


def _understood(line: bytes) -> dict[str, Any] | None:
    """A line as it is written, with numbers where numbers are to be."""
    try:
        said = json.loads(line)
        out: dict[str, Any] = {name: float(said[name]) for name in (*MEANS, *EACH, "depth_std", "seconds")}
        out |= {name: int(said[name]) for name in ("epoch", "restart")}
        out |= {"phase": str(said["phase"])[:20], "temperature": float(said["temperature"])}
        low, high = said["depth_support"]
        out["depth_support"] = [int(low), int(high)]
        if "depth_pmf" in said:
            out["depth_pmf"] = [float(mass) for mass in said["depth_pmf"]]
            out["epochs"] = None if said["epochs"] is None else int(said["epochs"])
    except (ValueError, TypeError, KeyError, RecursionError, OverflowError):
        return None
    numbers = [*(value for value in out.values() if isinstance(value, float)), *out.get("depth_pmf", ())]
    return out if out["epoch"] >= 1 and all(map(math.isfinite, numbers)) else None


def _mixed(lines: Sequence[Mapping[str, Any]]) -> dict[str, float]:
    """E[L] and its deviation, of the mixture of the restarts."""
    mean = _mean(line["depth_mean"] for line in lines)
    variance = _mean(line["depth_std"] ** 2 + (line["depth_mean"] - mean) ** 2 for line in lines)
    nll = _mean(line["validation_nll"] for line in lines)
    return {"depth_mean": _short(mean), "depth_std": _short(math.sqrt(variance)), "validation_nll": _short(nll)}


def _mean(values: Iterable[float]) -> float:
    values = list(values)
    return sum(values) / len(values)


def _short(value: float) -> float:
    """In as many digits as the lines have."""
    return float(f"{value:.7g}")
