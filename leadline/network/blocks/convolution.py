"""A block for images: every layer is a convolution, then LeakyReLU(0.1)."""

from itertools import pairwise
from typing import Any, ClassVar

from jaxtyping import Array, Float, Key

from leadline.backend.random import AnyKey, fold_in
from leadline.network.blocks.base import Block
from leadline.network.convolutions import (
    KERNEL,
    GaussianConvolution,
    Images,
    Shape,
    Stages,
    keys_of_draws,
    pooled,
    stages_of,
)
from leadline.network.layers import Draw, GaussianLinear, leaky_relu


class Convolution(Block):
    """f_l(h) = LeakyReLU(W * h + b), and a head that is affine in the means of the channels.

    f_0 is a stem and the stages that are fixed: a convolution, and, until the images are `SMALLEST` high or wide, a
    pooling and a convolution to twice the channels. Then comes the last stage, in which images keep their size and
    their `width` channels: that one has no end.
    """

    name: ClassVar[str] = "convolution"
    takes_images: ClassVar[bool] = True
    parts: ClassVar[tuple[type, ...]] = (GaussianConvolution, Stages, GaussianLinear)

    layer: GaussianConvolution | Stages
    """The latter in the first block."""
    head: GaussianLinear

    def __init__(self, n_in: int | Shape, width: int, n_outputs: int, *, key: AnyKey, **weights: Any):
        of_layer = fold_in(key, 0)
        if isinstance(n_in, tuple):
            channels = [n_in[2], *stages_of(n_in, width)]
            pairs = enumerate(pairwise(channels))
            convolutions = (GaussianConvolution(*pair, key=fold_in(of_layer, i), **weights) for i, pair in pairs)
            self.layer = Stages(n_in, convolutions)
        else:
            self.layer = GaussianConvolution(width, width, kernel=KERNEL, key=of_layer, **weights)
        self.head = GaussianLinear(width, n_outputs, key=fold_in(key, 1), **weights)

    @staticmethod
    def enter(x: Float[Array, "batch in"]) -> Float[Array, "batch in"]:
        return x

    def step(self, state: Float[Array, "batch ..."], *, key: Key[Array, ""], draw: Draw) -> Images:
        keys = keys_of_draws(key)
        if not isinstance(self.layer, Stages):
            return leaky_relu(self.layer(state, key=next(keys), draw=draw))
        stem, *others = self.layer.parts
        images = leaky_relu(stem(self.layer.enter(state), key=next(keys), draw=draw))
        for one in others:
            images = leaky_relu(one(pooled(images), key=next(keys), draw=draw))
        return images

    def read(self, state: Images, *, key: Key[Array, ""], draw: Draw) -> Float[Array, "batch out"]:
        return self.head(state.mean((1, 2)).T, key=key, draw=draw).T

    @property
    def sizes(self) -> tuple[int, int, int]:
        n_outputs, width = self.head.size
        return self.layer.n_inputs if isinstance(self.layer, Stages) else width, width, n_outputs

    def check_sizes(self, stack: tuple[int, ...], n_in: int, width: int, n_outputs: int) -> None:
        self.head.check_sizes(stack, n_outputs, width)
        layer = self.layer
        if not isinstance(layer, Stages):
            layer.check_sizes(stack, width, width, KERNEL, 1)
            return
        channels = [layer.channels, *stages_of((layer.height, layer.width, layer.channels), width)]
        for one, (n_from, n_to) in zip(layer.parts, pairwise(channels), strict=True):
            one.check_sizes(stack, n_to, n_from, KERNEL, 1)
