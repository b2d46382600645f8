"""A training from compiled call to compiled call: growth, a way back, checkpoints, and a word to whoever watches."""

import os
import time
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Bool, PyTree

from leadline._checks import InvalidArgumentError
from leadline.backend.compilation import jit, jit_lightly
from leadline.backend.numerics import AnyArray
from leadline.backend.sharding import local
from leadline.files.checkpoints import EVERY, Checkpoints
from leadline.inference.predict import depth_masses
from leadline.training.bursts import Burst, Callback, phases
from leadline.training.checkpoint import Checkpoint
from leadline.training.epochs import MAX_EPOCHS, MOST_SLOWED, SLOWER, History, Plan
from leadline.training.interruption import Interruption
from leadline.training.pace import Paces
from leadline.training.progress import Reporter
from leadline.training.state import TrainingState
from leadline.training.storage import Storage

FIRST_MARK = 16
"""Epochs before there is a state to go back to, other than the first."""

SECONDS_PER_CALL = 0.3
"""Python looks at the training about this often."""


class TrainingDivergedError(RuntimeError):
    """The free energy or its gradient stopped being a finite number, again and again, in some of the runs.

    Args:
        message: what happened.
        diverged: for each run, whether it did.

    Examples:
        >>> import numpy as np
        >>> from leadline import TrainingDivergedError
        >>> error = TrainingDivergedError("the training diverged", diverged=np.array([False, False, True, False]))
        >>> error.fits(2)  # of two fits of two restarts each, the second
        [1]
    """

    def __init__(self, message: str, diverged: Bool[np.ndarray, " runs"] | None = None):
        super().__init__(message)
        self._diverged = np.array([True]) if diverged is None else diverged

    def fits(self, n_fits: int) -> list[int]:
        """Which of so many fits side by side these are runs of.

        Args:
            n_fits: how many fits there were.
        """
        return np.flatnonzero(self._diverged.reshape(n_fits, -1).any(axis=1)).tolist()


class TrainingSlowedWarning(UserWarning):
    """The same for the first few times: training goes on with a smaller learning rate."""


@dataclass(frozen=True)
class Watch:
    """Who is told what while a training runs, and where it is written to.

    Args:
        report: told the mean over runs a few times a second.
        on_epoch: one or several that are told of every epoch, in bursts, and end the training by returning True. One
            with a method `burst` is given all epochs of a `Burst` at once instead, and one with a method `close` hears
            when the training is over, whatever ended it.
        on_call: sees the whole state after every compiled call (its models are packed: `state.model.unpack()`); ends
            the training by returning True.
        checkpoint_dir: where the training is written to, if anywhere. The same training, started again, goes on from
            there: to the same bits, on the same CPU.
        checkpoint_every: seconds between checkpoints.

    Examples:
        >>> import numpy as np
        >>> from leadline import CategoricalLikelihood, Problem, Settings, Watch, train
        >>> x = np.linspace(-1, 1, 40)[:, None]
        >>> problem = Problem((x, (x[:, 0] > 0).astype(int)), 0.25, CategoricalLikelihood(2))
        >>> watch = Watch(on_epoch=lambda progress: progress.epoch >= 10)  # True ends the training
        >>> train(problem, Settings(width=4, n_restarts=1, epochs=10_000), watch=watch).interrupted
        True
    """

    report: Reporter | None = None
    on_epoch: Callback | Sequence[Callback] | None = None
    on_call: Callable[[TrainingState], Any] | None = None
    checkpoint_dir: str | os.PathLike[str] | None = None
    checkpoint_every: float = EVERY

    def __post_init__(self) -> None:
        for one in self._callbacks:
            if isinstance(one, type) or (not callable(one) and not hasattr(one, "burst")):
                raise InvalidArgumentError(f"must be a callable, or a list of callables, got {one!r}.", "on_epoch")

    @property
    def _callbacks(self) -> list[Any]:
        one = self.on_epoch
        return list(one) if isinstance(one, list | tuple) else [] if one is None else [one]

    @property
    def is_kept(self) -> bool:
        """Whether there is anybody to tell."""
        return bool(self.report or self._callbacks or self.on_call)

    def tell(self, burst: Burst, state: TrainingState) -> bool:
        """Whether somebody wants the training to end.

        Args:
            burst: the epochs of a compiled call.
            state: after it.
        """
        if self.report is not None and len(burst):
            self.report(burst[-1])
        answers = []
        for one in self._callbacks if len(burst) else ():
            answers += [one.burst(burst)] if hasattr(one, "burst") else [one(now) for now in burst]
        if self.on_call is not None:
            answers.append(self.on_call(state))
        return True in answers

    def close(self) -> None:
        """The training is over."""
        for one in self._callbacks:
            if hasattr(one, "close"):
                one.close()

    def checkpoints(self, identity: Callable[[], str]) -> Checkpoints | None:
        """Those of a training, by its identity.

        Args:
            identity: gives the name of the training.
        """
        folder = self.checkpoint_dir
        return None if folder is None else Checkpoints(folder, identity(), self.checkpoint_every)


class Run:
    """Compiled calls until all epochs are done or Ctrl-C is heard.

    Where a call ends depends on how fast the machine is, and nothing else may: the states to go back to are those of
    certain epochs.
    """

    def __init__(
        self,
        plan: Plan,
        begun: Checkpoint,
        storage: Storage,
        make_pace: Callable[[], Paces],
        seeds: np.ndarray,
        watch: Watch,
        train_epochs: Callable[[Plan, TrainingState, Any], tuple[TrainingState, History]],
        checkpoints: Checkpoints | None,
        in_units: dict[str, np.ndarray],
    ):
        self._plan, self._storage, self._make_pace = plan, storage, make_pace
        self._seeds, self._watch, self._train_epochs, self._checkpoints = seeds, watch, train_epochs, checkpoints
        self._in_units = in_units
        self._since = time.perf_counter() - begun.seconds
        self.compile_seconds: float | None = None
        self._next = 1
        """Epochs of the next call."""
        self._begin(begun.state, begun.good, begun.history)

    def _begin(self, state: TrainingState, good: TrainingState, history: History) -> None:
        self._state, self._good, self._rows = state, good, [history]
        self._done = int(state.epoch)
        self.pace = self._make_pace()
        self.pace.catch_up(self.history.validation_nll)
        self._set_clock()

    def _set_clock(self) -> None:
        self._plan = eqx.tree_at(lambda p: p.clock, self._plan, self.pace.clock)

    @property
    def history(self) -> Any:
        """One `History` of NumPy's arrays, a row for every epoch."""
        return jax.tree.map(lambda *parts: np.concatenate(parts), *self._rows)

    @property
    def seconds(self) -> float:
        return time.perf_counter() - self._since

    @property
    def epoch(self) -> int:
        """Epochs done."""
        return self._done

    @property
    def state(self) -> TrainingState:
        """After the last epoch; layers that q(L) has left behind may be missing."""
        return self._state

    def advance(self, until: int | None = None) -> None:
        """Train until that epoch is done; without one, or sooner, to the end, or till somebody asks for it."""
        asked = False
        with Interruption() as interruption:
            while self._done not in (self.pace.end, until) and not (
                self._agreed(interruption.asked or asked) and self._done
            ):
                self._next, asked = self._call(self._next if until is None else min(self._next, until - self._done))
                if self._checkpoints is not None and self._agreed(self._checkpoints.due()):
                    self._save(self._checkpoints)

    def finish(self) -> TrainingState:
        """Train to the end; the last state, with all layers there are."""
        self.advance()
        self._state = self._storage.all_of(self._storage.fit(self._state))
        if self._checkpoints is not None:
            self._save(self._checkpoints)
        return self._state

    def _save(self, checkpoints: Checkpoints) -> None:
        sharing, states = self._plan.sharing, (self._storage.whole(self._state), self._good)
        state, good = states if sharing is None else local(states)
        if sharing is None or sharing.writes:
            Checkpoint(state, good, self.history, self.seconds).save(checkpoints)

    def _agreed(self, number: int) -> int:
        """What all processes do that train this together (`Sharing.agreed`)."""
        return number if self._plan.sharing is None else self._plan.sharing.agreed(number)

    def _call(self, n_epochs: int) -> tuple[int, bool]:
        """Train for up to so many epochs. How many to take next, and whether somebody wants the training to end."""
        if is_way_mark(self._done) and int(self._good.epoch) != self._done:
            self._good = copied(self._storage.whole(self._state))
        most = min(self._agreed(n_epochs), self.pace.next_look - self._done, next_way_mark(self._done) - self._done)
        fitted = self._storage.fit(self._state)
        if not fitted.support.fits:
            self._go_back(np.asarray(fitted.support.highest) > fitted.capacity, self._done)
            return 1, False
        begin = time.perf_counter()
        state, history = self._train_epochs(self._plan, fitted, np.array(most))
        finished = int(state.epoch) - self._done  # waits for the device
        seconds = time.perf_counter() - begin
        if self.compile_seconds is None:  # one epoch is nothing beside it
            self.compile_seconds = 0.0 if state.is_native else seconds
        rows = jax.tree.map(lambda a: np.asarray(a)[:finished], history)
        moved = (state.model, state.optimiser)
        diverged = ~np.asarray(_finite_runs(moved, np) if state.is_native else _finite_runs_quickly(moved))
        for column in jax.tree.leaves(rows):  # of every epoch: what was not a number may be one again at the end
            diverged |= ~np.isfinite(column).all(axis=0)
        if np.any(diverged):
            self._go_back(diverged, int(state.epoch))
            return 1, False
        self._state, self._done = state, self._done + finished
        self._rows.append(rows)
        if self._done == self.pace.next_look:
            self.pace.look(np.concatenate([rows.validation_nll for rows in self._rows]))
            self._set_clock()
        asked = self._watch.is_kept and self._watch.tell(self._burst(rows, seconds), state)
        return _next_call(max(finished, 1), seconds), asked

    def _burst(self, rows: History, seconds: float) -> Burst:
        """The last epochs, which took so long."""
        n = len(rows.depth_mean)
        first = self._done - n + 1
        return Burst(
            *(first, self.pace.end, rows.columns(self._in_units)),
            phases(first, n, self._plan.clock, self._plan.recipe),
            self.seconds - seconds * (1 - np.arange(1, n + 1) / max(n, 1)),
            np.asarray(self._state.temperature),
            self._seeds,
            partial(depth_masses, self._state.model if self._plan.sharing is None else local(self._state.model)),
        )

    def _go_back(self, diverged: Bool[np.ndarray, " runs"], epoch: int) -> None:
        """To the last good state, with smaller learning rates for the runs that diverged from it."""
        slowed = np.asarray(self._good.slowed) + diverged
        what = f"Training diverged by epoch {epoch} for the seeds {np.unique(self._seeds[diverged]).tolist()}"
        if slowed.max() > MOST_SLOWED:
            raise TrainingDivergedError(
                f"{what}, {MOST_SLOWED} times with smaller and smaller learning rates: the free energy or its gradient "
                "is not a finite number, or q(L) asks for too many layers; try a smaller learning rate or initial "
                "scale, or rescale the data.",
                slowed > MOST_SLOWED,
            )
        back = int(self._good.epoch)
        said = f"{what}; going on from epoch {back} with {SLOWER:g} of the learning rate."
        warnings.warn(said, TrainingSlowedWarning, stacklevel=2)
        self._storage.forget()
        good = eqx.tree_at(lambda s: s.slowed, self._good, np.asarray(slowed, self._good.slowed.dtype))
        self._begin(copied(good), good, jax.tree.map(lambda a: a[:back], self.history))


def is_way_mark(epoch: int) -> bool:
    """Whether the state of that epoch is one to go back to: powers of two, FIRST_MARK or more, and multiples of
    MAX_EPOCHS."""
    return epoch % MAX_EPOCHS == 0 or (epoch >= FIRST_MARK and epoch & (epoch - 1) == 0)


def next_way_mark(epoch: int) -> int:
    """The first after that epoch."""
    return min(max(FIRST_MARK, 2 ** epoch.bit_length()), (epoch // MAX_EPOCHS + 1) * MAX_EPOCHS)


def copied(state: TrainingState) -> TrainingState:
    """A state that stays when the other is trained on: a compiled call writes where it reads, the engine does not."""
    return state if state.is_native else _copied(state)


_copied = jit(lambda state: jax.tree.map(jnp.copy, state))


def _next_call(n_epochs: int, seconds: float) -> int:
    """So many epochs that a call takes about SECONDS_PER_CALL, at most four times as many as in the last."""
    wanted = int(n_epochs * SECONDS_PER_CALL / max(seconds, 1e-6))
    return max(1, min(wanted, 4 * n_epochs, MAX_EPOCHS))


def _finite_runs(batch: PyTree, numpy: Any = jnp) -> Bool[AnyArray, " runs"]:
    """For every run, whether all of its numbers are finite."""
    arrays = [a for a in jax.tree.leaves(batch) if numpy.issubdtype(a.dtype, numpy.inexact)]
    finite = [numpy.isfinite(a).reshape(a.shape[0], -1).all(axis=1) for a in arrays]
    return numpy.all(numpy.stack(finite), axis=0)


_finite_runs_quickly = jit_lightly(_finite_runs)
