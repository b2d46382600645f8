"""Networks whose weights are known: drawn from q(theta), or found by another method."""

import math
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Key, PyTree

from leadline._checks import InvalidArgumentError
from leadline.backend.random import fold_in
from leadline.network.layers import Draw, GaussianLinear
from leadline.network.unbounded import UnboundedNetwork


class KnownLinear(eqx.Module):
    """y = W x + b, where W and b are known: a `GaussianLinear` at one point."""

    weights: Float[Array, "*stack out in_and_one"]
    """With the bias in the last column."""
    prior_scale: Float[Array, "*stack out in_and_one"]

    @classmethod
    def of(cls, layer: GaussianLinear, weights: Float[Array, "out in_and_one"]) -> "KnownLinear":
        """A layer at a point, with its prior."""
        weight_scale, bias_scale = layer.prior_scales()
        n_out, n_in = layer.size
        columns = jnp.broadcast_to(weight_scale, (n_out, n_in)), jnp.broadcast_to(bias_scale, n_out)[:, None]
        return cls(weights, jnp.concatenate(columns, axis=1))

    def __call__(self, x: Float[Array, "in batch"], *, key: Key[Array, ""], draw: Draw) -> Float[Array, "out batch"]:
        """A data point is a column; nothing is drawn."""
        return self.weights @ jnp.concatenate([x, jnp.ones((1, x.shape[1]), x.dtype)])

    def sample(self, key: Key[Array, ""]) -> Float[Array, "out in_and_one"]:
        """The weights: no draw is another."""
        return self.weights

    def kl(self) -> Float[Array, ""]:
        """-ln p(w): what stands of KL[q(w) || p(w)] for a point beside the entropy, which does not depend on it."""
        scaled = jnp.square(self.weights / self.prior_scale)
        return jnp.sum(0.5 * (scaled + math.log(2 * math.pi)) + jnp.log(self.prior_scale))

    @property
    def stack(self) -> tuple[int, ...]:
        """The axes in front, where this is not one layer but a stack of them."""
        return self.weights.shape[:-2]

    @property
    def size(self) -> tuple[int, int]:
        """How many outputs and inputs."""
        n_out, in_and_one = self.weights.shape[-2:]
        return n_out, in_and_one - 1


def _is_linear(node: Any) -> bool:
    return isinstance(node, GaussianLinear)


def point(network: UnboundedNetwork, key: Key[Array, ""]) -> PyTree[Float[Array, "..."]]:
    """A draw of all weights: the network with a matrix in place of every `GaussianLinear`, and nothing else.

    Where layers and heads are `GaussianLinear`s themselves, it is what `UnboundedNetwork.depths` draws by that key.
    """
    _check_parts(network)

    def of_part(part: PyTree, key: Key[Array, ""]) -> PyTree:
        if _is_linear(part):
            return part.sample(key)
        linears, structure = jax.tree.flatten(part, is_leaf=_is_linear)
        return jax.tree.unflatten(structure, [one.sample(fold_in(key, i)) for i, one in enumerate(linears)])

    def of_block(layer: PyTree, head: PyTree, depth: Array) -> tuple[PyTree, PyTree]:
        return of_part(layer, fold_in(key, 2 * depth)), of_part(head, fold_in(key, 2 * depth + 1))

    first, deeper = network.first, network.deeper
    depths = jnp.arange(network.capacity + 1)
    drawn = (
        *of_block(first.layer, first.head, depths[0]),
        *jax.vmap(of_block)(deeper.layer, deeper.head, depths[1:]),
    )
    empty = jax.tree.map(lambda _: None, network, is_leaf=_is_linear)
    return eqx.tree_at(_parts, empty, drawn, is_leaf=lambda node: node is None)


def known(network: UnboundedNetwork, weights: PyTree[Float[Array, "..."]]) -> UnboundedNetwork:
    """The network at a point, as `point` gives one."""
    _check_parts(network)

    def of_linear(node: Any, weights: Any) -> Any:
        return KnownLinear.of(node, weights) if _is_linear(node) else node

    def of_stack(node: Any, weights: Any) -> Any:
        return jax.vmap(KnownLinear.of)(node, weights) if _is_linear(node) else node

    first = jax.tree.map(of_linear, network.first, weights.first, is_leaf=_is_linear)
    deeper = jax.tree.map(of_stack, network.deeper, weights.deeper, is_leaf=_is_linear)
    return eqx.tree_at(lambda n: (n.first, n.deeper), network, (first, deeper))


def log_prior(network: UnboundedNetwork) -> Float[Array, ""]:
    """ln p(theta) of all weights of a network that is known, whichever depth uses them."""
    first, deeper = network.first, network.deeper
    of_deeper = jax.vmap(lambda block: block.layer.kl() + block.head.kl())(deeper)
    return -(first.layer.kl() + first.head.kl() + of_deeper.sum())


def _parts(network: UnboundedNetwork) -> tuple[Any, ...]:
    return network.first.layer, network.first.head, network.deeper.layer, network.deeper.head


def _check_parts(network: UnboundedNetwork) -> None:
    """Other modules have weights that only they know how to draw."""
    for part in _parts(network):
        if not all(map(_is_linear, jax.tree.leaves(part, is_leaf=_is_linear))):
            got = f"got the block {type(network.first).__name__}, which has others, too"
            raise InvalidArgumentError(f"must have layers and heads that are made of GaussianLinear, {got}.", "model")


def check_weights(network: UnboundedNetwork, weights: Any, several: bool = False) -> None:
    """They must be those of one point of this network, or of several on a leading axis."""
    shapes = jax.tree.map(_shape, network, is_leaf=_is_linear)
    expected = [shape for shape in jax.tree.leaves(shapes, is_leaf=_is_shape) if shape]
    got = [tuple(a.shape) for a in jax.tree.leaves(weights)]
    if several and got:
        expected = [(*got[0][:1], *shape) for shape in expected]
    if not isinstance(weights, UnboundedNetwork) or got != expected:
        which = "with their axis of samples" if several else "one of them (for several there is `jax.vmap`)"
        must = f"must be as `sample_weights` draws them from this model, {which}, of shapes {expected}"
        raise InvalidArgumentError(f"{must}, got {got}.", "weights")


def _is_shape(node: Any) -> bool:
    return isinstance(node, tuple) and all(isinstance(size, int) for size in node)


def _shape(node: Any) -> tuple[int, ...]:
    if not _is_linear(node):
        return ()
    n_out, n_in = node.size
    return (*node.stack, n_out, n_in + 1)
