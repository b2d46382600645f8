"""The unbounded network of eq. 2 and Figure 1: shared layers, and a head at every depth."""

import math
from collections.abc import Callable
from functools import partial
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, Key, PyTree

from leadline._checks import InvalidArgumentError, check_choice, check_integer
from leadline._registry import is_own
from leadline.backend.device import backend
from leadline.backend.loops import bounded_scan, choose
from leadline.backend.random import AnyKey, fold_in
from leadline.network.blocks import BLOCKS, Block, Shape
from leadline.network.layers import Draw, GaussianLinear, Packable

Readout = Callable[[PyTree, PyTree, Float[Array, "batch out"]], PyTree]


class UnboundedNetwork(Packable):
    """Omega_L = g_L o f_L o ... o f_0 for every L up to the capacity.

    `deeper` holds the blocks 1 .. capacity, stacked. The capacity is only how much is stored at the moment: `grow` adds
    layers and changes nothing else, and the cost of `depths` follows the deepest layer asked for.

    Examples:
        >>> import numpy as np
        >>> from leadline import UnboundedNetwork
        >>> network = UnboundedNetwork(3, 2, width=4, capacity=2, key=np.array([0, 1], np.uint32))
        >>> network.n_inputs, network.width, network.n_outputs, network.capacity
        (3, 4, 2, 2)
    """

    first: Block
    deeper: Block

    def __init__(
        self,
        n_inputs: int | Shape,
        n_outputs: int,
        *,
        width: int = 32,
        capacity: int = 8,
        block: str = "dense",
        key: AnyKey,
        **weights: Any,
    ):
        """An untrained network.

        Args:
            n_inputs: columns of x; for a block that takes images, their height, width and channels.
            n_outputs: numbers that a head puts out.
            width: units of a layer.
            capacity: hidden layers stored beyond the first.
            block: the name of what it is made of.
            key: block l is drawn from it, folded with l: the same weights whenever the block is added.
            weights: how the weights start and what their prior is, in `GaussianLinear`'s own arguments.
        """
        check_choice("block", block, BLOCKS)
        kind = BLOCKS[block]
        check_inputs(kind, n_inputs)
        for name, size in {"width": width, "capacity": capacity, "n_outputs": n_outputs}.items():
            check_integer(name, size, 1)
        check_block(kind, n_inputs, width, n_outputs, **weights)
        self.first = kind.first(n_inputs, width, n_outputs, key=fold_in(key, 0), **weights)
        self.deeper = _draw(kind, (width, n_outputs), range(1, capacity + 1), key, **weights)

    def grow(self, capacity: int, *, key: AnyKey, **weights: Any) -> "UnboundedNetwork":
        """The same network with more layers: those that it would have had from the start.

        Args:
            capacity: hidden layers to store beyond the first, at least as many as there are.
            key: that the network was drawn with.
            weights: likewise.

        Returns:
            A network whose first layers are these.
        """
        check_integer("capacity", capacity, self.capacity)
        if capacity == self.capacity:
            return self
        sizes, new = (self.width, self.n_outputs), range(self.capacity + 1, capacity + 1)
        more = _draw(type(self.deeper), sizes, new, key, **weights)
        if jax.tree.structure(more) != jax.tree.structure(self.deeper):
            raise InvalidArgumentError(
                "`weights` must be those that the network was drawn with, with the same kind and scale of the prior."
            )
        deeper = jax.tree.map(lambda a, b: jnp.concatenate([a, b]), self.deeper, more)
        return eqx.tree_at(lambda network: network.deeper, self, deeper)

    @property
    def capacity(self) -> int:
        """Hidden layers stored beyond the first."""
        return self.deeper.stack[-1]

    @property
    def width(self) -> int:
        """Units of a layer."""
        return self.deeper.sizes[1]

    @property
    def n_inputs(self) -> int:
        """Columns of x."""
        return self.first.sizes[0]

    @property
    def n_outputs(self) -> int:
        """Numbers that a head puts out."""
        return self.first.sizes[2]

    def depths(
        self,
        x: Float[Array, "batch in"],
        readout: Readout = lambda fixed, params, output: output,
        fixed: PyTree = None,
        params: PyTree = None,
        *,
        highest: int | Int[Array, ""],
        key: Key[Array, ""],
        draw: Draw,
    ) -> tuple[PyTree, Float[Array, " depths"]]:
        """One pass: `readout(fixed, params, Omega_L(x))` and KL[q(theta | L) || p(theta | L)] for L = 0 .. capacity.

        Only the layers and heads up to `highest` are evaluated; the other rows are zero.
        `readout` runs inside the loop over depths and must take what it needs as `fixed` (not differentiated) or
        `params`. Every layer and head draws its noise from `key` folded with a number of its own (2L and
        2L + 1), so a larger capacity changes no draw.

        Args:
            x: rows.
            readout: what is to be known of the output at a depth; the output itself unless given.
            fixed: what it needs and is not learned.
            params: what it needs and is learned.
            highest: the depth to go to.
            key: of the draw.
            draw: of noise on the pre-activations, or of the weights.

        Returns:
            Both, with an axis of depths in front.
        """
        highest = jnp.asarray(highest)
        if self.first.has_kernel and backend().kernels_fit(self.n_inputs, self.width, self.n_outputs):
            return self._depths_by_kernels(x, partial(readout, fixed, params), highest, key, draw)
        body = partial(_visit, readout, draw)
        shared = (fixed, key)
        start = (self.first.enter(x), jnp.zeros((), x.dtype))
        carry, first = body(jnp.array(-1), shared, params, start, self.first)
        _, deeper = bounded_scan(body, shared, params, carry, self.deeper, highest)
        return jax.tree.map(_join, first, deeper)

    def _depths_by_kernels(
        self,
        x: Float[Array, "batch in"],
        readout: Callable[[Float[Array, "batch out"]], PyTree],
        highest: Int[Array, ""],
        key: Key[Array, ""],
        draw: Draw,
    ) -> tuple[PyTree, Float[Array, " depths"]]:
        """`depths`, with all layers walked by one kernel (`backend/kernels.py`)."""
        from leadline.backend.kernels import Weights, walk, widened  # takes long to import

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

        if draw == "weights":
            mean, variance = weights(lambda layer, key: layer.sample(key)), None
        else:
            mean, variance = (weights(lambda layer, _, i=i: layer.moments()[i]) for i in range(2))
        x = jnp.pad(x, ((0, 0), (0, units - self.n_inputs)))
        outputs = walk(x.T, mean, variance, jax.random.key_data(key), highest)
        layer_kl, head_kl = jax.tree.map(_join, *of_all(lambda block, _: (block.layer.kl(), block.head.kl())))
        values = jax.vmap(lambda output: readout(output.T))(outputs)
        of_all_depths = (values, jnp.cumsum(layer_kl) + head_kl)
        return choose(depth <= highest, of_all_depths, jax.tree.map(jnp.zeros_like, of_all_depths))


def _draw(kind: type[Block], sizes: tuple[int, int], depths: range, key: AnyKey, **weights: Any) -> Block:
    """The blocks of these depths, stacked: block l is drawn from the key folded with l."""
    width, n_outputs = sizes
    draw = lambda key: kind(width, width, n_outputs, key=key, **weights)  # noqa: E731
    if isinstance(key, np.ndarray):
        blocks = [draw(fold_in(key, depth)) for depth in depths]
        return jax.tree.map(lambda *arrays: np.stack(arrays), *blocks)
    return eqx.filter_vmap(draw)(jax.vmap(partial(fold_in, key))(jnp.array(depths)))


def check_inputs(kind: type[Block], n_inputs: int | Shape) -> None:
    """Images for a block that takes such, and columns for the others."""
    is_image = isinstance(n_inputs, tuple)
    if kind.takes_images != is_image:
        takes, size = ("images", " x ".join(map(str, n_inputs))) if is_image else ("columns", f"{n_inputs} columns")
        raise InvalidArgumentError(
            f"must be one that takes {takes}, got {kind.name or kind.__name__} for {size}.", "block"
        )
    for size in n_inputs if is_image else (n_inputs,):
        check_integer("n_inputs", size, 1)


def check_block(kind: type[Block], n_inputs: int | Shape, width: int, n_outputs: int, **weights: Any) -> None:
    """A block of one's own, by the shapes of what it does; nothing is computed.

    All layers beyond the first are walked by one loop, whose state cannot change its shape.
    """
    if is_own(kind):
        return

    def walk() -> list[Any]:
        key = jax.random.key(0)
        first = kind.first(n_inputs, width, n_outputs, key=key, **weights)
        deeper = kind(width, width, n_outputs, key=key, **weights)
        state, states, read = kind.enter(jnp.zeros((3, math.prod(np.atleast_1d(n_inputs))))), [], []
        for block in (first, deeper):
            state = block.step(state, key=key, draw="local")
            states.append(state)
            read.append(block.read(state, key=key, draw="local"))
        kl = [part.kl() for part in (first.layer, first.head, deeper.layer, deeper.head)]
        return [states, read, kl]

    try:
        (after, further), read, kl = jax.eval_shape(walk)
    except Exception as error:
        for_sizes = f"for {n_inputs} inputs, a width of {width} and {n_outputs} outputs"
        why = f"{type(error).__name__}: {error}".rstrip(".")
        raise InvalidArgumentError(
            f"must take two steps and be read after each, and {kind.__name__} does not, {for_sizes}: {why}.", "block"
        ) from error
    if _shapes(after) != _shapes(further):
        got = f"{_shapes(after)} and then {_shapes(further)}"
        raise InvalidArgumentError(
            f"must leave its state in one shape, and the steps of {kind.__name__} make {got} of 3 rows.", "block"
        )
    if _shapes(read) != [(3, n_outputs)] * 2:
        raise InvalidArgumentError(
            f"must put out {n_outputs} numbers for each of 3 rows, and `read` of {kind.__name__} gives the shapes "
            f"{_shapes(read)}.",
            "block",
        )
    if _shapes(kl) != [()] * 4:
        raise InvalidArgumentError(
            f"must have layers and heads whose `kl()` is a number, and those of {kind.__name__} have the shapes "
            f"{_shapes(kl)}.",
            "block",
        )


def _shapes(tree: PyTree) -> Any:
    return [a.shape for a in jax.tree.leaves(tree)]


def _join(first: Array, others: Array) -> Array:
    return jnp.concatenate([first[None], others])


def _visit(
    readout: Readout, draw: Draw, i: Any, shared: PyTree, params: PyTree, carry: PyTree, block: Block
) -> tuple[PyTree, PyTree]:
    """Block i + 1: one layer further, and what its head says."""
    fixed, key = shared
    state, path_kl = carry
    depth = i + 1
    block = block.unpack()
    state = block.step(state, key=fold_in(key, 2 * depth), draw=draw)
    path_kl = path_kl + block.layer.kl()  # sum over l = 0 .. L of KL[q(f_l) || p(f_l)], eq. 9
    output = block.read(state, key=fold_in(key, 2 * depth + 1), draw=draw)
    return (state, path_kl), (readout(fixed, params, output), path_kl + block.head.kl())
