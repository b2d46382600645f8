"""The mean-field Gaussian convolution, and what stands between convolutions. An image batch is [batch, height, width,
channels]."""

from collections.abc import Iterable, Iterator
from itertools import count
from typing import Any, get_args

import equinox as eqx
import jax
import jax.numpy as jnp
from jax import lax
from jax.ad_checkpoint import checkpoint_name
from jaxtyping import Array, Float, Key

from leadline._checks import InvalidArgumentError, check_choice, check_integer
from leadline.backend.device import backend
from leadline.backend.loops import KEPT
from leadline.backend.random import AnyKey, fold_in, normal
from leadline.network.layers import Draw, GaussianLinear

Images = Float[Array, "batch _ _ _"]
"""[batch, height, width, channels]"""

Shape = tuple[int, int, int]
"""Of an image: height, width, channels. As a row, the channels of a place come next to each other, then its neighbours
to the right."""

KERNEL = 3
"""Side of the patches of blocks."""

SMALLEST = 8
"""The shorter side of the images in the last stage, at most."""

LEAST_VARIANCE = 1e-5
"""Beside that of an image which is divided by its deviation: an even one stays what it is."""


class GaussianConvolution(eqx.Module):
    """A convolution with independent Gaussian weights: a `GaussianLinear` that every patch of an image goes through.

    Around the image there are zeros, so that with a stride of 1 it keeps its size. `local` noise is drawn for every
    place on its own: its mean and its variance are those of the weights' draws, but two places share no draw.

    Args:
        n_in: channels that come in.
        n_out: channels that go out.
        kernel: side of a patch, an odd number.
        stride: how far the next patch is; the sides are divided by it, rounded up.
        key: of the weights at the start.
        weights: how they start and what their prior is, in `GaussianLinear`'s own arguments.

    Examples:
        >>> import jax
        >>> import jax.numpy as jnp
        >>> from leadline.network.convolutions import GaussianConvolution
        >>> convolution = GaussianConvolution(3, 8, stride=2, key=jax.random.key(0))
        >>> convolution.filters.size, convolution(jnp.ones((5, 9, 9, 3)), key=jax.random.key(1), draw="local").shape
        ((8, 27), (5, 5, 5, 8))
    """

    filters: GaussianLinear
    """From a patch, row by row, its channels next to each other, to the channels that go out."""
    kernel: int = eqx.field(static=True)
    stride: int = eqx.field(static=True)

    def __init__(self, n_in: int, n_out: int, *, kernel: int = KERNEL, stride: int = 1, key: AnyKey, **weights: Any):
        self.filters = GaussianLinear(kernel * kernel * n_in, n_out, key=key, **weights)
        self.kernel, self.stride = kernel, stride

    def __check_init__(self) -> None:
        check_integer("kernel", self.kernel, 1)
        check_integer("stride", self.stride, 1)
        if self.kernel % 2 == 0:
            raise InvalidArgumentError(f"must be odd, so that a patch has a middle, got {self.kernel}.", "kernel")

    def __call__(self, images: Images, *, key: Key[Array, ""], draw: Draw) -> Images:
        check_choice("draw", draw, get_args(Draw))
        if draw == "weights":
            # Behind a barrier: else XLA would draw the bias anew for every place.
            matrix = lax.optimization_barrier(self.filters.sample(key))
            return checkpoint_name(_convolved(images, matrix, self.kernel, self.stride), KEPT)
        mean, variance = self.filters.moments()
        height, width = (-(-side // self.stride) for side in images.shape[1:3])
        noise = normal(key, (len(images), height, width, mean.shape[0]), images.dtype)
        return _local_convolution(self.kernel, self.stride, images, mean, variance, noise)

    def kl(self) -> Float[Array, ""]:
        """KL[q(w) || p(w)], summed over the filters."""
        return self.filters.kl()

    @property
    def stack(self) -> tuple[int, ...]:
        """The axes in front, where this is not one convolution but a stack of them."""
        return self.filters.stack

    @property
    def channels(self) -> tuple[int, int]:
        """How many go out and come in."""
        n_out, n_in = self.filters.size
        return n_out, n_in // self.kernel**2

    def check_sizes(self, stack: tuple[int, ...], n_out: int, n_in: int, kernel: int, stride: int) -> None:
        """Refuse, with a ValueError, arrays of other sizes, and steps of another length.

        Args:
            stack: the axes in front.
            n_out: channels that go out.
            n_in: channels that come in.
            kernel: side of a patch.
            stride: how far the next is.
        """
        if (self.kernel, self.stride) != (kernel, stride):
            raise ValueError(f"a convolution has patches of {self.kernel}, {self.stride} apart")
        self.filters.check_sizes(stack, n_out, kernel * kernel * n_in)


def convolve(images: Images, weights: Float[Array, "out patch"], kernel: int, stride: int) -> Images:
    """Every patch times the weights.

    An accelerator has convolutions. XLA's on a CPU are slow within loops and for several networks at once, where a
    product of matrices is not: there the patches are laid out.

    Args:
        images: what the patches are of.
        weights: from a patch, row by row, its channels next to each other.
        kernel: side of a patch.
        stride: how far the next is.
    """
    margin, channels = kernel // 2, images.shape[-1]
    if not backend().loops_are_dynamic:
        filters = weights.reshape(-1, kernel, kernel, channels).transpose(1, 2, 3, 0)
        sizes = {"window_strides": (stride, stride), "padding": [(margin, margin)] * 2}
        return lax.conv_general_dilated(images, filters, **sizes, dimension_numbers=("NHWC", "HWIO", "NHWC"))
    return patches(images, kernel, stride) @ weights.T


def patches(images: Images, kernel: int, stride: int) -> Images:
    """Those of every place, row by row, as its channels."""
    margin = kernel // 2
    padded = jnp.pad(images, ((0, 0), (margin, margin), (margin, margin), (0, 0)))
    n, height, width, channels = images.shape
    strides = (1, stride, stride, 1)

    def shifted(i: int, j: int) -> Images:
        return lax.slice(padded, (0, i, j, 0), (n, i + height, j + width, channels), strides)

    return jnp.concatenate([shifted(i, j) for i in range(kernel) for j in range(kernel)], axis=-1)


def _convolved(images: Images, matrix: Float[Array, "out patch_and_one"], kernel: int, stride: int) -> Images:
    """With the bias in the last column."""
    return convolve(images, matrix[:, :-1], kernel, stride) + matrix[:, -1]


def _local_forward(kernel, stride, images, mean, variance, noise):
    centre = _convolved(images, mean, kernel, stride)
    spread = _convolved(jnp.square(images), variance, kernel, stride)
    spread = jnp.maximum(spread, jnp.finfo(images.dtype).tiny)  # without any noise the mean is left, not 0 / 0
    slope = checkpoint_name(noise / (2 * jnp.sqrt(spread)), KEPT)
    return checkpoint_name(centre + 2 * spread * slope, KEPT), (images, mean, variance, slope)


def _local(kernel, stride, images, mean, variance, noise):
    """M * x + b + sqrt(V * x^2 + v) noise, where * convolves: a sample of the pre-activations under independent
    weights. As for a dense layer, its reverse pass keeps two arrays of the batch's size."""
    return _local_forward(kernel, stride, images, mean, variance, noise)[0]


def _local_reverse(kernel, stride, residuals, d_centre):
    images, mean, variance, slope = residuals

    def back(images: Images, matrix: Array, d: Images) -> tuple[Images, Array]:
        _, pullback = jax.vjp(lambda images, matrix: _convolved(images, matrix, kernel, stride), images, matrix)
        return pullback(d)

    d_images, d_mean = back(images, mean, d_centre)
    d_squares, d_variance = back(jnp.square(images), variance, d_centre * slope)
    return d_images + 2 * images * d_squares, d_mean, d_variance, None


_local_convolution = jax.custom_vjp(_local, nondiff_argnums=(0, 1))
_local_convolution.defvjp(_local_forward, _local_reverse)


def pooled(images: Images) -> Images:
    """The largest of every two by two places; sides that are odd end with one."""
    height, width = (side % 2 for side in images.shape[1:3])
    images = jnp.pad(images, ((0, 0), (0, height), (0, width), (0, 0)), mode="edge")
    corners = [images[:, i::2, j::2] for i in range(2) for j in range(2)]
    return jnp.maximum(jnp.maximum(corners[0], corners[1]), jnp.maximum(corners[2], corners[3]))


def standardised(images: Images) -> Images:
    """Every image with mean 0 and deviation 1, all its places and channels together: nothing is learned of it, and no
    image depends on those beside it."""
    axes = (1, 2, 3)
    centred = images - images.mean(axes, keepdims=True)
    return centred * lax.rsqrt(jnp.square(centred).mean(axes, keepdims=True) + LEAST_VARIANCE)


class Stages(eqx.Module):
    """Modules after each other, as one layer that rows of images enter: a stem, and the stages that are fixed.

    Args:
        shape: of the images.
        parts: the modules.
    """

    parts: tuple[Any, ...]
    height: int = eqx.field(static=True)
    width: int = eqx.field(static=True)
    channels: int = eqx.field(static=True)

    def __init__(self, shape: Shape, parts: Iterable[Any]):
        self.height, self.width, self.channels = shape
        self.parts = tuple(parts)

    def __check_init__(self) -> None:
        for name in ("height", "width", "channels"):
            check_integer(name, getattr(self, name), 1)

    def enter(self, x: Float[Array, "batch in"]) -> Images:
        """Rows as images."""
        return x.reshape(len(x), self.height, self.width, self.channels)

    @property
    def n_inputs(self) -> int:
        """The numbers of a row."""
        return self.height * self.width * self.channels

    def kl(self) -> Float[Array, ""]:
        """That of all parts together."""
        kl = self.parts[0].kl()
        for part in self.parts[1:]:
            kl = kl + part.kl()
        return kl

    @property
    def stack(self) -> tuple[int, ...]:
        """The axes in front, where this is not one layer but a stack."""
        return self.parts[0].stack


def stages_of(shape: Shape, width: int) -> list[int]:
    """The channels of every stage. Each has half the sides of the one before and twice its channels, until the shorter
    side is `SMALLEST` at most; the last has `width`."""
    side, n_halved = min(shape[:2]), 0
    while side > SMALLEST:
        side, n_halved = -(-side // 2), n_halved + 1
    return [max(1, width >> n) for n in range(n_halved, -1, -1)]


def keys_of_draws(key: Key[Array, ""]) -> Iterator[Key[Array, ""]]:
    """Those of the layers of a block, one after the other in the order of its fields, as `known.point` has them."""
    return (fold_in(key, i) for i in count())
