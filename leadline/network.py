"""The unbounded network of eq. 2 and Figure 1: shared layers, and a head at every depth."""

from collections.abc import Callable
from functools import partial
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int, Key, PyTree

from leadline import _loops
from leadline._checks import check_integer
from leadline._loops import bounded_scan
from leadline._random import fold_in
from leadline.layers import GaussianLinear, Noise

Readout = Callable[[PyTree, PyTree, Float[Array, "batch out"]], PyTree]


class Block(eqx.Module):
    """f_l and g_l: one more layer, and the head that reads the network off at its depth."""

    layer: GaussianLinear
    head: GaussianLinear

    def __init__(self, n_in: int, width: int, n_outputs: int, *, key: Key[Array, ""], **weights: Any):
        self.layer = GaussianLinear(n_in, width, key=fold_in(key, 0), **weights)
        self.head = GaussianLinear(width, n_outputs, key=fold_in(key, 1), **weights)

    def pack(self) -> "Block":
        """The same block with `PackedLinear`s in the place of its layer and head."""
        return self._replace(self.layer.pack(), self.head.pack())

    def unpack(self) -> "Block":
        return self._replace(self.layer.unpack(), self.head.unpack())

    def _replace(self, *parts: Any) -> "Block":
        return eqx.tree_at(lambda block: (block.layer, block.head), self, parts)


class UnboundedNetwork(eqx.Module):
    """Omega_L = g_L o f_L o ... o f_0 for every L up to the capacity; each f_l is affine, then LeakyReLU(0.1).

    `deeper` holds the blocks 1 .. capacity, stacked. The capacity is only how much is stored at the moment: `grow` adds
    layers and changes nothing else, and the cost of `depths` follows the deepest layer asked for.
    """

    first: Block
    deeper: Block

    def __init__(
        self,
        n_inputs: int,
        n_outputs: int,
        *,
        width: int = 32,
        capacity: int = 8,
        key: Key[Array, ""],
        **weights: Any,
    ):
        """`weights` says how the weights start and what their prior is, in `GaussianLinear`'s own arguments."""
        check_integer("n_inputs", n_inputs, 1)
        check_integer("width", width, 1)
        check_integer("capacity", capacity, 1)
        check_integer("n_outputs", n_outputs, 1)
        # Block l is drawn from the key folded with l: the same weights whenever it is added.
        self.first = Block(n_inputs, width, n_outputs, key=fold_in(key, 0), **weights)
        draw = eqx.filter_vmap(lambda key: Block(width, width, n_outputs, key=key, **weights))
        self.deeper = draw(jax.vmap(partial(fold_in, key))(jnp.arange(1, capacity + 1)))

    def pack(self) -> "UnboundedNetwork":
        """The same network with every layer and head as one array: how training keeps it."""
        return self._replace(self.first.pack(), jax.vmap(Block.pack)(self.deeper))

    def unpack(self) -> "UnboundedNetwork":
        return self._replace(self.first.unpack(), self.deeper.unpack())

    def _replace(self, *blocks: Block) -> "UnboundedNetwork":
        return eqx.tree_at(lambda network: (network.first, network.deeper), self, blocks)

    @property
    def capacity(self) -> int:
        return self.deeper.layer.stack[-1]

    @property
    def width(self) -> int:
        return self.deeper.layer.size[0]

    @property
    def n_inputs(self) -> int:
        return self.first.layer.size[1]

    @property
    def n_outputs(self) -> int:
        return self.first.head.size[0]

    def depths(
        self,
        x: Float[Array, "batch in"],
        readout: Readout = lambda fixed, params, output: output,
        fixed: PyTree = None,
        params: PyTree = None,
        *,
        highest: int | Int[Array, ""],
        key: Key[Array, ""],
        noise: Noise,
    ) -> tuple[PyTree, Float[Array, " depths"]]:
        """One pass: `readout(fixed, params, Omega_L(x))` and KL[q(theta | L) || p(theta | L)] for L = 0 .. capacity.

        Only the layers and heads up to `highest` are evaluated; the other rows are zero.
        `readout` runs inside the loop over depths and must take what it needs as `fixed` (not differentiated) or
        `params`. Every layer and head draws its noise from `key` folded with a number of its own (2L and
        2L + 1), so a larger capacity changes no draw.
        """
        highest = jnp.asarray(highest)
        if _loops.kernels_fit(self.n_inputs, self.width, self.n_outputs):
            return self._depths_by_kernels(x, partial(readout, fixed, params), highest, key, noise)
        body = partial(_visit, readout, noise)
        shared = (fixed, key)
        carry, first = body(jnp.array(-1), shared, params, (x.T, jnp.zeros((), x.dtype)), self.first)
        _, deeper = bounded_scan(body, shared, params, carry, self.deeper, highest)
        return jax.tree.map(_join, first, deeper)

    def _depths_by_kernels(
        self,
        x: Float[Array, "batch in"],
        readout: Callable[[Float[Array, "batch out"]], PyTree],
        highest: Int[Array, ""],
        key: Key[Array, ""],
        noise: Noise,
    ) -> tuple[PyTree, Float[Array, " depths"]]:
        """`depths`, with all layers walked by one kernel (`_kernels.py`)."""
        from leadline._kernels import Weights, walk, widened  # takes long to import

        depth = jnp.arange(self.capacity + 1)
        highest = jnp.minimum(highest, self.capacity)  # a step that will not be taken may ask for more
        units = max(self.n_inputs, self.width)

        def of_all(function: Callable[[Block, Array], PyTree]) -> tuple[PyTree, PyTree]:
            """What a function says of the first block, and of the others."""
            return function(self.first.unpack(), depth[0]), jax.vmap(function)(self.deeper.unpack(), depth[1:])

        def weights(read: Callable[[GaussianLinear, Key[Array, ""]], Array]) -> Weights:
            def matrices(block: Block, depth: Array) -> Weights:
                layer = read(block.layer, fold_in(key, 2 * depth))
                head = read(block.head, fold_in(key, 2 * depth + 1))
                return Weights(widened(layer, units, units), widened(head, self.n_outputs, units))

            return jax.tree.map(_join, *of_all(matrices))

        if noise == "weights":
            mean, variance = weights(lambda layer, key: layer.sample(key)), None
        else:
            mean, variance = (weights(lambda layer, _, i=i: layer.moments()[i]) for i in range(2))
        x = jnp.pad(x, ((0, 0), (0, units - self.n_inputs)))
        outputs = walk(x.T, mean, variance, jax.random.key_data(key), highest)
        layer_kl, head_kl = jax.tree.map(_join, *of_all(lambda block, _: (block.layer.kl(), block.head.kl())))
        values = jax.vmap(lambda output: readout(output.T))(outputs)
        inside = depth <= highest
        return jax.tree.map(
            lambda a: jnp.where(inside.reshape(-1, *[1] * (a.ndim - 1)), a, jnp.zeros_like(a)),
            (values, jnp.cumsum(layer_kl) + head_kl),
        )


def _join(first: Array, others: Array) -> Array:
    return jnp.concatenate([first[None], others])


def _visit(
    readout: Readout, noise: Noise, i: Any, shared: PyTree, params: PyTree, carry: PyTree, block: Block
) -> tuple[PyTree, PyTree]:
    """Block i + 1: one layer further, and what its head says."""
    fixed, key = shared
    hidden, path_kl = carry
    depth = i + 1
    layer, head = block.layer.unpack(), block.head.unpack()
    hidden = leaky_relu(layer(hidden, key=fold_in(key, 2 * depth), noise=noise))
    path_kl = path_kl + layer.kl()  # sum over l = 0 .. L of KL[q(f_l) || p(f_l)], eq. 9
    output = head(hidden, key=fold_in(key, 2 * depth + 1), noise=noise)
    return (hidden, path_kl), (readout(fixed, params, output.T), path_kl + head.kl())


@jax.custom_vjp
def leaky_relu(x: Float[Array, "*shape"]) -> Float[Array, "*shape"]:
    """max(0.1 x, x). Its reverse pass needs the sign alone, which the output has too: nothing more is kept."""
    return jnp.maximum(0.1 * x, x)


leaky_relu.defvjp(lambda x: (leaky_relu(x),) * 2, lambda y, d: (jnp.where(y > 0, d, 0.1 * d),))
