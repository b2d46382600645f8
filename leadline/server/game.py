"""A game: a training that goes on as its page asks for the next frame, and what such a frame shows."""

import secrets
import time
from dataclasses import dataclass
from typing import Any

import numpy as np

from leadline._checks import InvalidArgumentError, check_integer
from leadline.inference.native import log_masses_of
from leadline.inference.predict import depth_masses
from leadline.inference.restarts import evaluation_keys
from leadline.inference.uncertainty import moments_by_depth, uncertainty_by_depth
from leadline.metrics import accuracy
from leadline.server.rules import REACH, Rules
from leadline.training import Training, Watch
from leadline.training.bursts import Burst

SECONDS = 0.25
"""A step ends after the epochs that take so long, however many were asked for: the page waits for it."""

AT_LEAST = 5
"""Depths 0 to 4 have a place of their own, whether they have mass or not; others from when they had some on."""

TERMS = ("free_energy", "expected_nll", "weight_kl", "depth_kl")
CURVES = ("epoch", *TERMS, "depth_mean", "depth_std")
"""What is noted after every epoch."""


@dataclass(frozen=True)
class Detail:
    """How fine a frame is: points of the grid both ways, and draws of the weights."""

    grid: int
    n_samples: int


DETAILS = {"moving": Detail(64, 8), "still": Detail(128, 32)}
"""While it trains, and when it pauses."""


@dataclass(frozen=True)
class Frame:
    """What is seen of a game at one moment."""

    epoch: int
    end: int
    depth_posterior: np.ndarray
    depth_prior: np.ndarray
    """From 0 to the deepest with a place of its own."""
    mixture: np.ndarray
    """The probability of class 1 on the grid, [rows, columns], the lowest row first."""
    by_depth: np.ndarray
    """The same for every Omega_L, [depths, rows, columns]; 1/2 where q(L) has no mass and it says nothing."""
    parts: dict[str, np.ndarray]
    """Of the uncertainty, in nats, on the grid."""
    means: dict[str, float]
    """The same, a mean over the fresh points."""
    accuracy: float
    """Percent of the fresh points."""
    noted: dict[str, float]
    """The last of the curves; nothing before the first epoch."""
    trained_at: float
    """The time of day, when its last epoch was done."""


class Game:
    """One network that learns.

    Args:
        rules: its settings.
    """

    def __init__(self, rules: Rules | None = None):
        self._points_seen = 0
        self.begin(rules or Rules())

    def begin(self, rules: Rules) -> None:
        """Begin, or begin again, with new weights."""
        problem = rules.problem
        training = Training(problem, rules.settings, watch=Watch(on_epoch=self))
        self.rules, self._problem, self._training, self._before = rules, problem, training, 0
        self.script: list[tuple[int, Rules]] = [(0, rules)]
        """What was changed after which epoch: enough to play it again, to the bit."""
        self._places = AT_LEAST
        self._set_out()
        self._cut(0)

    def change(self, rules: Rules) -> None:
        """Go on with other points, or at another temperature: the weights stay, the recipe's schedules begin again."""
        fixed = self.rules.changes(rules)
        if fixed:
            raise InvalidArgumentError("cannot change under way; begin again.", fixed[0])
        if rules == self.rules:
            return
        problem, epoch = rules.problem, self.epoch
        training = Training(problem, rules.settings, watch=Watch(on_epoch=self), start=self._training.models)
        self.rules, self._problem, self._training, self._before = rules, problem, training, epoch
        if self.script[-1][0] == epoch and len(self.script) > 1:
            self.script.pop()
        self.script.append((epoch, rules))
        self._set_out()

    def _set_out(self) -> None:
        self._points_seen += 1
        self._prior = np.exp(log_masses_of(_first(self._training.models.depth_prior), 64))
        self._trained_at = time.time()
        self._pace = 1.0

    def _cut(self, epoch: int) -> None:
        """The story from that epoch on is told anew."""
        self._story = secrets.randbits(31)
        self._rows = [row for row in getattr(self, "_rows", []) if 0 < row[0] <= epoch]

    @property
    def epoch(self) -> int:
        """Epochs done, whatever has changed meanwhile."""
        return self._before + self._training.epoch

    @property
    def end(self) -> int:
        """The last one."""
        return self._before + self.rules.epochs

    def burst(self, epochs: Burst) -> None:
        """Hear of epochs, as one who follows the training."""
        first = self._before + epochs.first
        if self._rows and first <= self._rows[-1][0]:  # it diverged, and went back
            self._cut(first - 1)
        numbers = np.arange(first, first + len(epochs))
        self._places = max(self._places, int(epochs.columns["depth_support"][..., 1].max()) + 1)
        self._rows += np.column_stack([numbers, *(epochs.columns[name][:, 0] for name in CURVES[1:])]).tolist()

    def step(self, n_epochs: int = 1) -> None:
        """Train for so many epochs more; fewer at the end, or where they take longer than SECONDS."""
        check_integer("epochs", n_epochs, 1, 1000)
        begin, until = time.perf_counter(), min(self.epoch + n_epochs, self.end)
        while self.epoch < until and (left := SECONDS - (time.perf_counter() - begin)) > 0:
            since, before = time.perf_counter(), self.epoch
            self._training.advance(max(1, min(until - before, int(self._pace * left))))
            self._pace = max(1, self.epoch - before) / max(time.perf_counter() - since, 1e-6)
            self._trained_at = time.time()

    def frame(self, detail: Detail = DETAILS["moving"]) -> Frame:
        """What there is to see."""
        models, rules = self._training.models, self.rules
        (x, y), n = self._problem.validation, detail.grid**2
        rows = np.concatenate([grid(detail.grid), x])
        moments, noise = moments_by_depth(
            models, rows, n_samples=detail.n_samples, key=evaluation_keys(models, rules.seed)
        )
        q = depth_masses(models)
        parts = uncertainty_by_depth(models, moments, noise)
        q, moments = q[0], moments[0, : q.shape[1]]
        together = np.tensordot(q, moments, axes=1)
        deepest = max(self._places, int(np.flatnonzero(q)[-1]) + 1)
        q, moments = (np.concatenate([a, np.zeros((deepest, *a.shape[1:]))])[:deepest] for a in (q, moments))
        alone = np.where((q > 0)[:, None], moments[:, :n, 1], 0.5)
        side = (detail.grid, detail.grid)
        named = {name: getattr(parts, name) for name in ("noise", "weights", "depth")}
        return Frame(
            self.epoch,
            self.end,
            q,
            self._prior[:deepest],
            together[:n, 1].reshape(side),
            alone.reshape(-1, *side),
            {name: part[:n].reshape(side) for name, part in named.items()},
            {name: float(part[n:].mean()) for name, part in named.items()},
            accuracy(together[n:], y),
            dict(zip(CURVES, self._rows[-1], strict=True)) if self._rows else {},
            self._trained_at,
        )

    def news(self, story: int, n_rows: int, points: int) -> dict[str, Any]:
        """What a page does not know yet, which has heard so many rows of a story, and seen points of a number."""
        known = n_rows if story == self._story else 0
        new: dict[str, Any] = {
            "story": self._story,
            "known": known,
            "rows": self._rows[known:],
            "points": self._points_seen,
        }
        if points != self._points_seen:
            x, y = self._problem.train
            new["train"] = np.column_stack([x, y]).round(4).tolist()
        return new

    @property
    def rows(self) -> list[list[float]]:
        """The curves, a row for every epoch."""
        return self._rows

    @property
    def points(self) -> tuple[np.ndarray, np.ndarray]:
        """To learn from; somebody's own are the last."""
        return self._problem.train

    @property
    def models(self) -> Any:
        """Of the network as it is, on an axis of one run."""
        return self._training.models


def grid(n: int) -> np.ndarray:
    """n x n points of the plane, the middles of its cells, row by row from the lowest."""
    at = (np.arange(n) + 0.5) / n * 2 * REACH - REACH
    across, up = np.meshgrid(at, at)
    return np.stack([across.ravel(), up.ravel()], axis=1)


def _first(distribution: Any) -> Any:
    """That of the first run."""
    import jax

    return jax.tree.map(lambda a: np.asarray(a)[0], distribution)
