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


def last_checkpoint(checkpoints: Checkpoints | None, state: TrainingState) -> Checkpoint:
    """The newest that is whole, of a training that begins with that state; if there is none, its beginning."""
    last = None if checkpoints is None else checkpoints.last(trees_like(state), understood)
    history = trees_like(state)["history"]
    return last or Checkpoint(state, state if state.is_native else jax.tree.map(jnp.copy, state), history, 0.0)


def trees_like(state: TrainingState) -> dict[str, PyTree]:
    """What the file of such a training holds, but for the number of layers and of epochs."""
    return {"state": state, "good": state, "history": History.zeros(0, len(state.key), np)}


def understood(trees: dict[str, PyTree], seconds: float) -> Checkpoint:
    """What the trees of a file say together."""
    history, state, good = (trees[name] for name in ("history", "state", "good"))
    if not 0 <= int(good.epoch) <= int(state.epoch) == len(history.depth_mean):
        raise DamagedError("its history is not that of its epochs")
    return Checkpoint(state, good, history, seconds)
