"""One depth, known in advance: an ordinary Bayesian network."""

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from leadline._checks import check_integer, is_traced
from leadline.depth.base import N_DEPTHS, DepthDistribution


class FixedDepth(DepthDistribution):
    """All mass at one depth; nothing to learn.

    Args:
        depth: the number of hidden layers beyond the first.

    Examples:
        >>> from leadline import FixedDepth
        >>> print(FixedDepth(2).pmf(4))
        [0. 0. 1. 0.]
    """

    depth: Int[Array, ""]

    def __init__(self, depth: int | Int[Array, ""]):
        if not is_traced(depth):
            check_integer("depth", np.asarray(depth).item(), 0, N_DEPTHS - 2)
        self.depth = jnp.asarray(depth, jnp.int32) if is_traced(depth) else jax.device_put(np.asarray(depth, np.int32))

    def log_masses(self, n_depths: int) -> Float[Array, " depths"]:
        return jnp.where(jnp.arange(n_depths) == self.depth, 0.0, -jnp.inf)
