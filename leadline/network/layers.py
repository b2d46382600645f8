"""The mean-field Gaussian linear layer."""

import math
from collections.abc import Callable
from functools import lru_cache
from typing import Any, Literal, get_args

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.ad_checkpoint import checkpoint_name
from jaxtyping import Array, Float, Key

from leadline._checks import InvalidArgumentError, check_choice, check_positive
from leadline.backend.loops import KEPT
from leadline.backend.numerics import AnyArray, product, raw_of
from leadline.backend.random import AnyKey, normal

Draw = Literal["local", "weights"]
"""How a layer draws: `local` noise on the pre-activations, one draw per data point (local reparameterisation), or one
sample of the `weights` shared by the whole batch (Bayes by backprop). Their means and variances per point are equal."""

Prior = Literal["fixed", "unit", "weight"]
"""The scale of the weights' prior: `fixed`, or learned with the posterior (empirical Bayes), two numbers per `unit` or
one per `weight`. A learned scale shrinks where a weight is of no use; what is not used then costs nothing."""

InitialMeans = Literal["glorot", "he"]
"""The spread e of the initial means: sqrt(2 / (in + out)), as in the paper, or sqrt(2 / in)."""


class GaussianLinear(eqx.Module):
    """y = W x + b with independent Gaussian weights: q(w) = N(mean, scale^2), p(w) = N(0, prior_scale^2).

    The scales are kept as `raw` values: scale = softplus(raw). With a prior per `unit`, the weight from input i to
    output j has prior_scale exp(u_i + v_j), and the bias of output j has prior_scale exp(v_j).

    Args:
        n_in: inputs.
        n_out: outputs.
        key: of the weights at the start.
        initial_scale: standard deviation of q(w) at the start.
        initial_means: how far the means of q(w) lie apart at the start.
        prior_scale: standard deviation of p(w).
        prior: whether it is fixed, or learned per unit or per weight.

    Examples:
        >>> import numpy as np
        >>> from leadline import GaussianLinear
        >>> layer = GaussianLinear(3, 2, key=np.array([0, 1], np.uint32), prior="unit")
        >>> layer.size, layer.weight_mean.shape, bool(layer.kl() > 0)
        ((2, 3), (2, 3), True)
    """

    weight_mean: Float[AnyArray, "out in"]
    weight_raw: Float[AnyArray, "out in"]
    bias_mean: Float[AnyArray, " out"]
    bias_raw: Float[AnyArray, " out"]
    log_input_scale: Float[AnyArray, " in"] | None
    """u, for a prior per unit."""
    log_output_scale: Float[AnyArray, " out"] | None
    """v, likewise."""
    prior: Prior = eqx.field(static=True)
    prior_scale: float = eqx.field(static=True)

    def __init__(
        self,
        n_in: int,
        n_out: int,
        *,
        key: AnyKey,
        initial_scale: float = 1.0,
        initial_means: InitialMeans = "glorot",
        prior_scale: float = 1.0,
        prior: Prior = "fixed",
    ):
        """Means start at e N(0, 1), raw scales at softplus^-1(initial_scale) + sqrt(2 / (in + out)) N(0, 1)."""
        check_positive("initial_scale", initial_scale)
        check_choice("initial_means", initial_means, get_args(InitialMeans))
        scatter = (2 / (n_in + n_out)) ** 0.5
        spread = (2 / n_in) ** 0.5 if initial_means == "he" else scatter
        numpy = np if isinstance(key, np.ndarray) else jnp  # where nothing is compiled
        centre = numpy.asarray(raw_of(initial_scale))
        spreads = numpy.array([[[spread]], [[scatter]]], centre.dtype)
        mean, shift = spreads * normal(key, (2, n_out, n_in + 1), centre.dtype)
        self.weight_mean, self.bias_mean = mean[:, :-1], mean[:, -1]
        self.weight_raw, self.bias_raw = centre + shift[:, :-1], centre + shift[:, -1]
        scales = [numpy.zeros(n, centre.dtype) for n in (n_in, n_out)] if prior == "unit" else (None, None)
        self.log_input_scale, self.log_output_scale = scales
        self.prior, self.prior_scale = prior, prior_scale

    def __check_init__(self) -> None:
        check_positive("prior_scale", self.prior_scale)
        check_choice("prior", self.prior, get_args(Prior))

    def __call__(self, x: Float[Array, "in batch"], *, key: Key[Array, ""], draw: Draw) -> Float[Array, "out batch"]:
        """A data point is a column: loops along the batch are long whatever the width, and a CPU vectorises them."""
        check_choice("draw", draw, get_args(Draw))
        n_in = self.weight_mean.shape[1]
        if x.ndim != 2 or x.shape[0] != n_in:
            raise InvalidArgumentError(f"`x` must have {n_in} rows, and a column per data point, got shape {x.shape}.")
        if draw == "weights":
            # The bias as the weight of one more input: added on its own, XLA would draw it anew for every point.
            x = jnp.concatenate([x, jnp.ones((1, x.shape[1]), x.dtype)])
            return checkpoint_name(product(self.sample(key), x), KEPT)
        weight_variance = jnp.square(jax.nn.softplus(self.weight_raw))
        bias_variance = jnp.square(jax.nn.softplus(self.bias_raw))
        noise = normal(key, (*self.bias_mean.shape, x.shape[1]), x.dtype)
        return _local_linear(x, self.weight_mean, weight_variance, self.bias_mean, bias_variance, noise)

    def sample(self, key: Key[Array, ""]) -> Float[Array, "out in_and_one"]:
        """One draw of the weights, with the bias in the last column.

        Args:
            key: of the draw.
        """
        mean, raw = self._matrices()
        draw = checkpoint_name(normal(key, mean.shape, mean.dtype), KEPT)
        return mean + jax.nn.softplus(raw) * draw

    def moments(self) -> tuple[Float[Array, "out in_and_one"], Float[Array, "out in_and_one"]]:
        """The means and the variances of the weights, with the bias in the last column."""
        mean, raw = self._matrices()
        return mean, jnp.square(jax.nn.softplus(raw))

    def _matrices(self) -> tuple[Array, Array]:
        join = lambda weight, bias: jnp.concatenate([weight, bias[:, None]], axis=1)  # noqa: E731
        return join(self.weight_mean, self.bias_mean), join(self.weight_raw, self.bias_raw)

    def pack(self) -> "PackedLinear":
        """The same layer, or stack of layers, as one array."""
        arrays, structure = jax.tree.flatten(self)
        shapes = tuple(array.shape[len(self.stack) :] for array in arrays)
        numpy = np if isinstance(arrays[0], np.ndarray) else jnp
        numbers = numpy.concatenate([array.reshape(*self.stack, -1) for array in arrays], axis=-1)
        return PackedLinear(numbers, structure, shapes)

    @property
    def stack(self) -> tuple[int, ...]:
        """The axes in front, where this is not one layer but a stack of them."""
        return self.bias_mean.shape[:-1]

    @property
    def size(self) -> tuple[int, int]:
        """How many outputs and inputs."""
        n_out, n_in = self.weight_mean.shape[-2:]
        return n_out, n_in

    def check_sizes(self, stack: tuple[int, ...], n_out: int, n_in: int) -> None:
        """Refuse, with a ValueError, arrays of other sizes; `stack` has the axes in front.

        Args:
            stack: the axes in front.
            n_out: outputs.
            n_in: inputs.
        """
        sizes = {"weight_mean": (n_out, n_in), "weight_raw": (n_out, n_in), "bias_mean": (n_out,), "bias_raw": (n_out,)}
        sizes |= {"log_input_scale": (n_in,), "log_output_scale": (n_out,)} if self.prior == "unit" else {}
        for name, shape in sizes.items():
            array = getattr(self, name)
            if array.shape != (*stack, *shape) or array.dtype.kind != "f":
                raise ValueError(f"{name} is {array.dtype}{list(array.shape)}, not float{[*stack, *shape]}")

    def kl(self) -> Float[Array, ""]:
        """KL[q(w) || p(w)], summed over the weights and biases of the layer."""
        if self.prior == "weight":
            weight_kl = _kl_at_best_scale(self.weight_mean, self.weight_raw)
            return weight_kl + _kl_at_best_scale(self.bias_mean, self.bias_raw)
        weight_scale, bias_scale = self.prior_scales()
        return _kl(self.weight_mean, self.weight_raw, weight_scale) + _kl(self.bias_mean, self.bias_raw, bias_scale)

    def prior_scales(self) -> tuple[Float[Array, "*out_in"], Float[Array, "*out"]]:
        """The standard deviations of the prior of the weights and of the biases."""
        if self.log_input_scale is not None and self.log_output_scale is not None:
            bias_scale = self.prior_scale * jnp.exp(self.log_output_scale)
            return bias_scale[:, None] * jnp.exp(self.log_input_scale), bias_scale
        if self.prior == "weight":
            return _best_scale(self.weight_mean, self.weight_raw), _best_scale(self.bias_mean, self.bias_raw)
        return jnp.array(self.prior_scale), jnp.array(self.prior_scale)


class PackedLinear(eqx.Module):
    """A layer (or a stack of them) as one array of numbers: a training step then moves one array, not four or six."""

    numbers: Float[AnyArray, "*stack n"]
    structure: Any = eqx.field(static=True)
    shapes: tuple[Any, ...] = eqx.field(static=True)

    @property
    def without_numbers(self) -> GaussianLinear:
        """What the layer is, but for its numbers."""
        return _without_numbers(self.structure)

    def unpack(self) -> GaussianLinear:
        sizes, axis = [math.prod(shape) for shape in self.shapes], len(self.stack)
        if isinstance(self.numbers, np.ndarray):
            parts = np.split(self.numbers, np.cumsum(sizes)[:-1], axis=axis)
        else:
            parts = jax.lax.split(self.numbers, sizes, axis=axis)
        arrays = [part.reshape(*self.stack, *shape) for part, shape in zip(parts, self.shapes, strict=True)]
        return jax.tree.unflatten(self.structure, arrays)

    @property
    def stack(self) -> tuple[int, ...]:
        return self.numbers.shape[:-1]

    @property
    def size(self) -> tuple[int, int]:
        return self.shapes[0]  # of the first field, `weight_mean`


@lru_cache(64)
def _without_numbers(structure: Any) -> GaussianLinear:
    return jax.tree.unflatten(structure, [None] * structure.num_leaves)


class Packable(eqx.Module):
    """What has layers in it."""

    def pack(self) -> Any:
        """The same with every layer, or stack of layers, as one array: how training keeps it."""
        return _each(GaussianLinear, GaussianLinear.pack, self)

    def unpack(self) -> Any:
        """What was packed."""
        return _each(PackedLinear, PackedLinear.unpack, self)


def _each(kind: type, function: Callable[[Any], Any], tree: Any) -> Any:
    is_one = lambda node: isinstance(node, kind)  # noqa: E731
    return jax.tree.map(lambda node: function(node) if is_one(node) else node, tree, is_leaf=is_one)


def _kl(mean: Float[Array, "*shape"], raw: Float[Array, "*shape"], prior_scale: Array) -> Float[Array, ""]:
    """Sum of ln(s_p / s) + (s^2 + m^2) / (2 s_p^2) - 1/2."""
    ratio = jax.nn.softplus(raw) / prior_scale
    return jnp.sum(0.5 * (jnp.square(ratio) + jnp.square(mean / prior_scale) - 1) - jnp.log(ratio))


def _kl_at_best_scale(mean: Float[Array, "*shape"], raw: Float[Array, "*shape"]) -> Float[Array, ""]:
    """The same at the s_p of each weight that makes it smallest, s_p^2 = m^2 + s^2: sum of ln(1 + m^2 / s^2) / 2."""
    return 0.5 * jnp.sum(jnp.log1p(jnp.square(mean / jax.nn.softplus(raw))))


def _best_scale(mean: Float[Array, "*shape"], raw: Float[Array, "*shape"]) -> Float[Array, "*shape"]:
    return jnp.sqrt(jnp.square(mean) + jnp.square(jax.nn.softplus(raw)))


@jax.custom_vjp
def _local_linear(
    x: Float[Array, "in batch"],
    weight_mean: Float[AnyArray, "out in"],
    weight_variance: Float[Array, "out in"],
    bias_mean: Float[AnyArray, " out"],
    bias_variance: Float[Array, " out"],
    draw: Float[Array, "out batch"],
) -> Float[Array, "out batch"]:
    """Wx + b + sqrt(V x^2 + v) draw: a sample of the pre-activation under independent Gaussian weights.

    Its reverse pass is written out so that it keeps two arrays of the batch's size, x and draw / (2 sqrt(...)), where
    automatic differentiation keeps five.
    """
    return _local_forward(x, weight_mean, weight_variance, bias_mean, bias_variance, draw)[0]


def _local_forward(x, weight_mean, weight_variance, bias_mean, bias_variance, draw):
    mean = product(weight_mean, x) + bias_mean[:, None]
    variance = product(weight_variance, jnp.square(x)) + bias_variance[:, None]
    variance = jnp.maximum(variance, jnp.finfo(x.dtype).tiny)  # without any noise the mean is left, not 0 / 0
    slope = checkpoint_name(draw / (2 * jnp.sqrt(variance)), KEPT)
    return checkpoint_name(mean + 2 * variance * slope, KEPT), (x, weight_mean, weight_variance, slope)


def _local_reverse(residuals, d_mean):
    x, weight_mean, weight_variance, slope = residuals
    d_variance = d_mean * slope
    d_x = product(weight_mean.T, d_mean) + 2 * x * product(weight_variance.T, d_variance)
    d_weights = product(d_mean, x.T), product(d_variance, jnp.square(x).T)
    return d_x, *d_weights, d_mean.sum(axis=1), d_variance.sum(axis=1), None


_local_linear.defvjp(_local_forward, _local_reverse)


@jax.custom_vjp
def leaky_relu(x: Float[Array, "*shape"]) -> Float[Array, "*shape"]:
    """max(0.1 x, x). Its reverse pass needs the sign alone, which the output has too: nothing more is kept."""
    return jnp.maximum(0.1 * x, x)


leaky_relu.defvjp(lambda x: (leaky_relu(x),) * 2, lambda y, d: (jnp.where(y > 0, d, 0.1 * d),))
