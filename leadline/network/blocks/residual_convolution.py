"""A block for images that adds to what goes by: convolutions beside which the state goes on as it is."""

from collections.abc import Iterator
from typing import Any, ClassVar

import equinox as eqx
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
    stages_of,
    standardised,
)
from leadline.network.layers import Draw, GaussianLinear, leaky_relu


class ResidualUnit(eqx.Module):
    """h + V * a(U * a(h)), where a standardises every image, then LeakyReLU(0.1) (pre-activation, He et al. 2016).

    With a stride, or with other channels going out, it is not h that is added to but a convolution of h, with patches
    of one place.

    Args:
        n_in: channels that come in.
        n_out: channels that go out.
        stride: of the first convolution.
        key: of the weights at the start.
        weights: how they start and what their prior is, in `GaussianLinear`'s own arguments.
    """

    inner: GaussianConvolution
    outer: GaussianConvolution
    beside: GaussianConvolution | None

    def __init__(self, n_in: int, n_out: int, *, stride: int = 1, key: AnyKey, **weights: Any):
        self.inner = GaussianConvolution(n_in, n_out, kernel=KERNEL, stride=stride, key=fold_in(key, 0), **weights)
        self.outer = GaussianConvolution(n_out, n_out, kernel=KERNEL, key=fold_in(key, 1), **weights)
        changes = stride > 1 or n_in != n_out
        size = {"kernel": 1, "stride": stride}
        self.beside = GaussianConvolution(n_in, n_out, **size, key=fold_in(key, 2), **weights) if changes else None

    def __call__(self, images: Images, *, keys: Iterator[Key[Array, ""]], draw: Draw) -> Images:
        inside = self.inner(activated(images), key=next(keys), draw=draw)
        more = self.outer(activated(inside), key=next(keys), draw=draw)
        return more + (images if self.beside is None else self.beside(images, key=next(keys), draw=draw))

    def kl(self) -> Float[Array, ""]:
        """That of all its convolutions."""
        kl = self.inner.kl() + self.outer.kl()
        return kl if self.beside is None else kl + self.beside.kl()

    @property
    def stack(self) -> tuple[int, ...]:
        """The axes in front, where this is not one unit but a stack of them."""
        return self.inner.stack

    def check_sizes(self, stack: tuple[int, ...], n_out: int, n_in: int, stride: int) -> None:
        """Refuse, with a ValueError, arrays of other sizes.

        Args:
            stack: the axes in front.
            n_out: channels that go out.
            n_in: channels that come in.
            stride: of the first convolution.
        """
        self.inner.check_sizes(stack, n_out, n_in, KERNEL, stride)
        self.outer.check_sizes(stack, n_out, n_out, KERNEL, 1)
        if (self.beside is not None) != (stride > 1 or n_in != n_out):
            raise ValueError("a residual unit adds to something else")
        if self.beside is not None:
            self.beside.check_sizes(stack, n_out, n_in, 1, stride)


def activated(images: Images) -> Images:
    """Standardised, image by image, then LeakyReLU(0.1)."""
    return leaky_relu(standardised(images))


class ResidualConvolution(Block):
    """Every layer is a `ResidualUnit`; the head is affine in the means of the channels, activated.

    f_0 is a stem and the stages that are fixed: a convolution and a unit, and, until the images are `SMALLEST` high or
    wide, a unit with stride 2 to twice the channels. Then comes the last stage, which has no end.
    """

    name: ClassVar[str] = "residual-convolution"
    takes_images: ClassVar[bool] = True
    parts: ClassVar[tuple[type, ...]] = (GaussianConvolution, ResidualUnit, Stages, GaussianLinear)

    layer: ResidualUnit | Stages
    """The latter in the first block."""
    head: GaussianLinear

    def __init__(self, n_in: int | Shape, width: int, n_outputs: int, *, key: AnyKey, **weights: Any):
        of_layer = fold_in(key, 0)
        if isinstance(n_in, tuple):
            first, *others = stages_of(n_in, width)
            stem = GaussianConvolution(n_in[2], first, kernel=KERNEL, key=fold_in(of_layer, 0), **weights)
            units = [ResidualUnit(first, first, key=fold_in(of_layer, 1), **weights)]
            for i, (n_from, n_to) in enumerate(zip([first, *others], others, strict=False), 2):
                units.append(ResidualUnit(n_from, n_to, stride=2, key=fold_in(of_layer, i), **weights))
            self.layer = Stages(n_in, [stem, *units])
        else:
            self.layer = ResidualUnit(width, width, key=of_layer, **weights)
        self.head = GaussianLinear(width, n_outputs, key=fold_in(key, 1), **weights)

    @staticmethod
    def enter(x: Float[Array, "batch in"]) -> Float[Array, "batch in"]:
        return x

    def step(self, state: Float[Array, "batch ..."], *, key: Key[Array, ""], draw: Draw) -> Images:
        keys = keys_of_draws(key)
        if not isinstance(self.layer, Stages):
            return self.layer(state, keys=keys, draw=draw)
        stem, *units = self.layer.parts
        images = stem(self.layer.enter(state), key=next(keys), draw=draw)
        for unit in units:
            images = unit(images, keys=keys, draw=draw)
        return images

    def read(self, state: Images, *, key: Key[Array, ""], draw: Draw) -> Float[Array, "batch out"]:
        return self.head(activated(state).mean((1, 2)).T, key=key, draw=draw).T

    @property
    def sizes(self) -> tuple[int, int, int]:
        n_outputs, width = self.head.size
        return self.layer.n_inputs if isinstance(self.layer, Stages) else width, width, n_outputs

    def check_sizes(self, stack: tuple[int, ...], n_in: int, width: int, n_outputs: int) -> None:
        self.head.check_sizes(stack, n_outputs, width)
        if not isinstance(self.layer, Stages):
            self.layer.check_sizes(stack, width, width, 1)
            return
        stem, unit, *others = self.layer.parts
        first, *channels = stages_of((self.layer.height, self.layer.width, self.layer.channels), width)
        stem.check_sizes(stack, first, self.layer.channels, KERNEL, 1)
        unit.check_sizes(stack, first, first, 1)
        for one, n_from, n_to in zip(others, [first, *channels], channels, strict=False):
            one.check_sizes(stack, n_to, n_from, 2)
        if len(others) != len(channels):
            raise ValueError(f"there are {len(others)} fixed stages, not {len(channels)}")
