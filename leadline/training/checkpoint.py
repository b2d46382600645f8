"""Where a training was, between two compiled calls: one that was killed goes on from there to the same bits."""

from collections.abc import Callable
from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jaxtyping import PyTree

from leadline._identity import is_key
from leadline.backend.compilation import jit_lightly
from leadline.files.checkpoints import Checkpoints, DamagedError
from leadline.inference import native
from leadline.inference.model import Model
from leadline.training.epochs import MOST_SLOWED, History
from leadline.training.pace import Paces
from leadline.training.state import TrainingState

MOST_MOVED = 1000.0
"""7.3 with Adam's own constants; a user may have others."""

VANISHING = 1e-15
"""Of a first moment: where the second is that of gradients whose squares float32 has no numbers for."""


@dataclass(frozen=True)
class Checkpoint:
    """A training between two compiled calls."""

    state: TrainingState
    good: TrainingState
    """The state to go back to if a run diverges. Both have every layer there is."""
    history: History
    """Of all epochs so far."""
    seconds: float
    """That the training had taken."""

    def save(self, checkpoints: Checkpoints) -> None:
        """Write it."""
        state = self.state
        # A training that has gone back is further on than before it.
        place = int(state.slowed.sum()), int(state.epoch), int(state.step)
        checkpoints.save({"state": state, "good": self.good, "history": self.history}, place, self.seconds)


def last_checkpoint(
    checkpoints: Checkpoints | None, state: TrainingState, make_pace: Callable[[], Paces], n_steps: int
) -> Checkpoint:
    """The newest that is whole, of a training that begins with that state; if there is none, its beginning.

    Args:
        checkpoints: of this training, if there may be any.
        state: its beginning.
        make_pace: what decides how long it takes.
        n_steps: of an epoch.
    """

    def checked(trees: dict[str, PyTree], seconds: float) -> Checkpoint:
        found = understood(trees, seconds)
        _check_place(found, state, make_pace(), n_steps)
        return found

    last = None if checkpoints is None else checkpoints.last(trees_like(state), checked)
    history = trees_like(state)["history"]
    return last or Checkpoint(state, state if state.is_native else jax.tree.map(jnp.copy, state), history, 0.0)


def trees_like(state: TrainingState) -> dict[str, PyTree]:
    """What the file of such a training holds, but for the number of layers and of epochs."""
    return {"state": state, "good": state, "history": History.zeros(0, len(state.key), np)}


def understood(trees: dict[str, PyTree], seconds: float) -> Checkpoint:
    """What the trees of a file say together, if a training can have been there."""
    history, state, good = (trees[name] for name in ("history", "state", "good"))
    if not 0 <= int(good.epoch) <= int(state.epoch) == len(history.depth_mean):
        raise DamagedError("its history is not that of its epochs")
    slowed = np.asarray(state.slowed)
    if not np.array_equal(slowed, good.slowed) or slowed.min() < 0 or slowed.max() > MOST_SLOWED:
        raise DamagedError(f"no training is slowed down {slowed.tolist()} times")
    for one in (state, good):
        numbers = (one.model, one.best, one.optimiser, one.validated, history)
        if not all(np.isfinite(a).all() for a in _arrays(numbers, "f")):
            raise DamagedError("it has a number that is not finite")
        lowest, highest = np.asarray(one.support.lowest), np.asarray(one.support.highest)
        deepest = one.capacity if one.support.fits else 2 * one.model.n_depths
        if one.capacity < 1 or lowest.min() < 0 or np.any(lowest > highest) or highest.max() > deepest:
            raise DamagedError("its support is not within its layers")
        if not _follow_gradients(one.optimiser):
            raise DamagedError("its moments are not those of gradients")
        if not all(_ends(model, one.is_native) for model in (one.model, one.best)):
            raise DamagedError("its q(L) does not end")
    return Checkpoint(state, good, history, seconds)


def _arrays(tree: PyTree, kind: str) -> list[np.ndarray]:
    """Those of floats (`f`) or of whole numbers (`i`)."""
    return [np.asarray(a) for a in jax.tree.leaves(tree) if not is_key(a) and np.dtype(a.dtype).kind == kind]


def _follow_gradients(optimiser: PyTree) -> bool:
    """Whether Adam's moments are such as gradients give: by Cauchy and Schwarz |mu| is a few times sqrt(nu) at most.
    Others would throw q(L) as far as they please."""
    is_adam = lambda node: isinstance(node, optax.ScaleByAdamState)  # noqa: E731
    adams = [node for node in jax.tree.leaves(optimiser, is_leaf=is_adam) if is_adam(node)]
    pairs = zip(*(_arrays([getattr(one, name) for one in adams], "f") for name in ("mu", "nu")), strict=True)
    with np.errstate(invalid="ignore"):
        return all(np.all(np.abs(mu) <= MOST_MOVED * np.sqrt(nu) + VANISHING) for mu, nu in pairs)


def _ends(model: Model, natively: bool) -> bool:
    """Whether q(L) has no mass far below the layers: training would store as many as it asks for."""
    posterior, n_depths = model.depth_posterior, 2 * model.n_depths
    log_q = native.log_masses(posterior, model.runs[0], n_depths) if natively else _log_masses(posterior, n_depths)
    inside = np.asarray(log_q) > -np.inf
    return bool(np.all(inside.any(axis=1) & ~inside[:, -1]))


_log_masses = jit_lightly(lambda posterior, n_depths: jax.vmap(lambda q: q.log_masses(n_depths))(posterior))


def _check_place(found: Checkpoint, begun: TrainingState, pace: Paces, n_steps: int) -> None:
    """Whether the training that begins with that state comes to this place."""
    pace.catch_up(found.history.validation_nll)
    if pace.end is not None and int(found.state.epoch) > pace.end:
        raise DamagedError(f"it is of the epoch {found.state.epoch} of {pace.end}")
    for one in (found.state, found.good):
        step, done = int(one.step), int(one.epoch) * n_steps + int(one.step)
        counts = _arrays(one.optimiser, "i")
        if not 0 <= step <= n_steps or any(np.any((a < 0) | (a > done)) for a in counts):
            raise DamagedError(f"it counts other steps than {done}")
        if not all(np.array_equal(a, b) for a, b in zip(_constant(one), _constant(begun), strict=True)):
            raise DamagedError("it is of another training")


def _constant(state: TrainingState) -> list[np.ndarray]:
    """What training does not change: keys, temperatures, p(L), and what no rate moves of q(L)."""
    fixed = [_arrays(model.depth_posterior, "i") for model in (state.model, state.best)]
    parts = (jax.random.key_data(state.key), state.temperature, state.model.depth_prior, state.best.depth_prior, fixed)
    return [np.asarray(a) for a in jax.tree.leaves(parts)]
