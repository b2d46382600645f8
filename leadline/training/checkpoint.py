"""Where a training was, between two compiled calls: one that was killed goes on from there to the same bits."""

from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import PyTree

from leadline.files.checkpoints import Checkpoints, DamagedError
from leadline.training.epochs import History
from leadline.training.state import TrainingState


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


def first_checkpoint(state: TrainingState) -> Checkpoint:
    """Of a training that has not begun."""
    return Checkpoint(state, jax.tree.map(jnp.copy, state), jax.tree.map(np.asarray, _no_history(state)), 0.0)


def last_checkpoint(checkpoints: Checkpoints, like: TrainingState) -> Checkpoint | None:
    """The newest that is whole, for a training whose state is like that."""
    return checkpoints.last(trees_like(like), understood)


def trees_like(state: TrainingState) -> dict[str, PyTree]:
    """What the file of such a training holds, but for the number of layers and of epochs."""
    return {"state": state, "good": state, "history": _no_history(state)}


def understood(trees: dict[str, PyTree], seconds: float) -> Checkpoint:
    """What the trees of a file say together."""
    history = jax.tree.map(np.asarray, trees["history"])
    state, good = trees["state"], trees["good"]
    if not 0 <= int(good.epoch) <= int(state.epoch) == len(history.depth_mean):
        raise DamagedError("its history is not that of its epochs")
    return Checkpoint(state, good, history, seconds)


def _no_history(state: TrainingState) -> History:
    shape = (0, state.key.shape[0])
    return History(*[jnp.empty(shape)] * 6, *[jnp.empty(shape, int)] * 2)
