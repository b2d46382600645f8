"""One depth, known in advance: an ordinary Bayesian network."""

import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from leadline._checks import check_integer, is_traced
from leadline.distributions.base import DepthDistribution


class FixedDepth(DepthDistribution):
    """All mass at one depth; nothing to learn."""

    depth: Int[Array, ""]

    def __init__(self, depth: int | Int[Array, ""]):
        if not is_traced(depth):
            check_integer("depth", depth if isinstance(depth, int) else int(depth), 0)
        self.depth = jnp.asarray(depth, jnp.int32)

    def log_masses(self, n_depths: int) -> Float[Array, " depths"]:
        return jnp.where(jnp.arange(n_depths) == self.depth, 0.0, -jnp.inf)
