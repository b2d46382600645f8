"""The paper's block: every layer is affine, then LeakyReLU(0.1)."""

from typing import Any, ClassVar

from jaxtyping import Array, Float, Key

from leadline.backend.random import AnyKey, fold_in
from leadline.network.blocks.base import Block, Units
from leadline.network.layers import Draw, GaussianLinear, leaky_relu


class Dense(Block):
    """f_l(h) = LeakyReLU(W h + b) and an affine head; a state has a data point per column."""

    name: ClassVar[str] = "dense"
    has_kernel: ClassVar[bool] = True
    units: ClassVar[Units | None] = "layer"
    parts: ClassVar[tuple[type, ...]] = (GaussianLinear,)

    layer: GaussianLinear
    head: GaussianLinear

    def __init__(self, n_in: int, width: int, n_outputs: int, *, key: AnyKey, **weights: Any):
        self.layer = GaussianLinear(n_in, width, key=fold_in(key, 0), **weights)
        self.head = GaussianLinear(width, n_outputs, key=fold_in(key, 1), **weights)

    @staticmethod
    def enter(x: Float[Array, "batch in"]) -> Float[Array, "in batch"]:
        return x.T

    def step(self, state: Float[Array, "in batch"], *, key: Key[Array, ""], draw: Draw) -> Float[Array, "units batch"]:
        return leaky_relu(self.layer(state, key=key, draw=draw))

    def read(self, state: Float[Array, "units batch"], *, key: Key[Array, ""], draw: Draw) -> Float[Array, "batch out"]:
        return self.head(state, key=key, draw=draw).T

    @property
    def sizes(self) -> tuple[int, int, int]:
        (width, n_in), (n_outputs, _) = self.layer.size, self.head.size
        return n_in, width, n_outputs

    def check_sizes(self, stack: tuple[int, ...], n_in: int, width: int, n_outputs: int) -> None:
        self.layer.check_sizes(stack, width, n_in)
        self.head.check_sizes(stack, n_outputs, width)
