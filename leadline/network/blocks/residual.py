"""A residual block: every layer adds to a state that goes on as it is, so that fifty of them train."""

from typing import Any, ClassVar

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float, Key

from leadline.backend.random import AnyKey, fold_in
from leadline.network.blocks.base import Block, Units
from leadline.network.layers import Draw, GaussianLinear, leaky_relu

START = 0.1
"""What is left of the initial means of a layer that adds to the state: all layers together then add little at first,
and a network of fifty begins nearly as one of none."""

MOST_UNITS = 2**20
"""Wider than any network: a file may not say anything."""

LEAST = 1e-6
"""What is added to the mean square of a state, which may be 0."""


class Rows(eqx.Module):
    """What comes into the first block, which adds it to nothing."""

    x: Float[Array, "in batch"]


class Residual(Block):
    """f_0(x) = W x + b, f_l(h) = h + W a(h) + b and g_l(h) = W a(h) + b, with a(h) = LeakyReLU(h / rms(h)).

    The norm is that of Zhang & Sennrich (2019): the root of the mean square over the units of a data point. Without it,
    the state of a deep network would grow with every layer. It has no weights of its own: a positive factor for each
    unit passes through the rectifier into W, whose prior per unit has one already, and where a unit bends the biases
    say that were added before. What is 0 stays 0, so that a unit which nobody writes can go (`n_units` stays what it
    was); a norm that takes the mean away as well was no better in a short trial.
    """

    name: ClassVar[str] = "residual"
    units: ClassVar[Units | None] = "state"
    parts: ClassVar[tuple[type, ...]] = (GaussianLinear,)

    layer: GaussianLinear
    head: GaussianLinear
    n_units: int = eqx.field(static=True)
    """That the mean is over: those that it was drawn with."""

    def __init__(self, n_in: int, width: int, n_outputs: int, *, key: AnyKey, start: float = START, **weights: Any):
        layer = GaussianLinear(n_in, width, key=fold_in(key, 0), **weights)
        scaled = [start * means for means in (layer.weight_mean, layer.bias_mean)]
        self.layer = eqx.tree_at(lambda m: (m.weight_mean, m.bias_mean), layer, scaled)
        self.head = GaussianLinear(width, n_outputs, key=fold_in(key, 1), **weights)
        self.n_units = width

    @classmethod
    def first(cls, n_in: int, width: int, n_outputs: int, *, key: AnyKey, **weights: Any) -> "Residual":
        return cls(n_in, width, n_outputs, key=key, start=1.0, **weights)

    @staticmethod
    def enter(x: Float[Array, "batch in"]) -> Rows:
        return Rows(x.T)

    def step(
        self, state: Rows | Float[Array, "units batch"], *, key: Key[Array, ""], draw: Draw
    ) -> Float[Array, "units batch"]:
        if isinstance(state, Rows):
            return self.layer(state.x, key=key, draw=draw)
        return state + self.layer(self._activation(state), key=key, draw=draw)

    def read(self, state: Float[Array, "units batch"], *, key: Key[Array, ""], draw: Draw) -> Float[Array, "batch out"]:
        return self.head(self._activation(state), key=key, draw=draw).T

    def _activation(self, state: Float[Array, "units batch"]) -> Float[Array, "units batch"]:
        mean_square = jnp.sum(jnp.square(state), axis=0) / self.n_units
        return leaky_relu(state / jnp.sqrt(mean_square + LEAST))

    @property
    def sizes(self) -> tuple[int, int, int]:
        (width, n_in), (n_outputs, _) = self.layer.size, self.head.size
        return n_in, width, n_outputs

    def check_sizes(self, stack: tuple[int, ...], n_in: int, width: int, n_outputs: int) -> None:
        self.layer.check_sizes(stack, width, n_in)
        self.head.check_sizes(stack, n_outputs, width)
        if not width <= self.n_units <= MOST_UNITS:
            raise ValueError(f"n_units is {self.n_units} for a width of {width}")
