"""How many layers are in training at a time."""

from collections.abc import Callable
from typing import Any

import numpy as np

from leadline.backend.device import backend
from leadline.backend.loops import choose
from leadline.depth.base import N_DEPTHS
from leadline.network.blocks import Block, Dense
from leadline.training.state import TrainingState, grow, shelve


def first_capacity(n_inputs: int, width: int, n_outputs: int, block: type[Block] = Dense) -> int:
    """Hidden layers stored at first. Where kernels walk them, room costs little, and another program ten seconds."""
    return 16 if block.has_kernel and backend().kernels_fit(n_inputs, width, n_outputs) else 8


class Storage:
    """Keeps as many layers in training as q(L) needs.

    The compiled program has room for `capacity` layers, and that room costs time even where q(L) has no mass. So the
    capacity doubles when q(L) reaches it, and when q(L) has moved far down, the deep layers wait on a shelf.
    """

    def __init__(self, begin: Callable[..., TrainingState]):
        self._begin = begin  # an untrained state of some capacity
        self._shelf: list[Any] | None = None

    def fit(self, state: TrainingState) -> TrainingState:
        """A state that q(L) fits into; one that asks for more layers than there are depths stays as it is."""
        while not state.support.fits and state.capacity < N_DEPTHS:
            if self._shelf:
                state = self.all_of(state)
            else:
                _, fresh = shelve(self._begin(capacity=2 * state.capacity), state.capacity)
                state = grow(state, fresh)
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
        return grow(state, [model, choose(improved, model, best), optimiser])

    def all_of(self, state: TrainingState) -> TrainingState:
        """The same, and nothing is left on the shelf."""
        state, self._shelf = self.whole(state), None
        return state

    def forget(self) -> None:
        """What is on the shelf: the state has gone back to one that has all layers."""
        self._shelf = None
