"""How many layers are in training at a time."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from leadline.backend.device import backend
from leadline.inference.model import Model
from leadline.inference.recipes import ADAM
from leadline.network.blocks import Block, Dense
from leadline.training.optimiser import Optimiser
from leadline.training.state import TrainingState, fresh_layers, grow, shelve


def first_capacity(n_inputs: int, width: int, n_outputs: int, block: type[Block] = Dense) -> int:
    """Hidden layers stored at first. Where kernels walk them, room costs little, and another program ten seconds."""
    return 16 if block.has_kernel and backend().kernels_fit(n_inputs, width, n_outputs) else 8


class Storage:
    """Keeps as many layers in training as q(L) needs.

    The compiled program has room for `capacity` layers, and that room costs time even where q(L) has no mass. So the
    capacity doubles when q(L) reaches it, and when q(L) has moved far down, the deep layers wait on a shelf.
    """

    def __init__(self, draw_models: Callable[..., Model], optimiser: Optimiser = ADAM):
        self._draw_models, self._optimiser = draw_models, optimiser
        self._shelf: list[Any] | None = None

    def fit(self, state: TrainingState) -> TrainingState:
        while not state.support.fits:
            state = self.all_of(state) if self._shelf else self._doubled(state)
        network = state.model.network
        least = first_capacity(network.n_inputs, network.width, network.n_outputs, type(network.first))
        needed = max(least, 2 ** int(2 * state.support.deepest).bit_length())
        if state.capacity >= 2 * needed:
            state = self.all_of(state)
            self._shelved_at = np.array(state.best_free_energy)
            state, self._shelf = shelve(state, needed)
        return state

    def whole(self, state: TrainingState) -> TrainingState:
        """A state with every layer there is; what is on the shelf stays there."""
        if self._shelf is None:
            return state
        model, best, optimiser = self._shelf
        improved = state.best_free_energy < self._shelved_at  # with the layers on the shelf as they are
        best = jax.tree.map(
            lambda new, old: jnp.where(improved.reshape(-1, *[1] * (new.ndim - 1)), new, old), model, best
        )
        return grow(state, [model, best, optimiser])

    def all_of(self, state: TrainingState) -> TrainingState:
        """The same, and nothing is left on the shelf."""
        state, self._shelf = self.whole(state), None
        return state

    def forget(self) -> None:
        """What is on the shelf: the state has gone back to one that has all layers."""
        self._shelf = None

    def _doubled(self, state: TrainingState) -> TrainingState:
        network = self._draw_models(capacity=2 * state.capacity).network
        return grow(state, fresh_layers(network, state.capacity, self._optimiser))
