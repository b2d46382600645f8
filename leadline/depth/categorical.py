"""A free mass for every depth up to a bound, as in Antoran et al. (2020)."""

from typing import Any, ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from leadline._checks import check_integer, is_traced
from leadline.backend.numerics import as_float, at_least
from leadline.depth.base import N_DEPTHS, DepthDistribution, Pair, Start


class CategoricalDepth(DepthDistribution):
    """P(L) = softmax(logits) on 0 .. max_depth, uniform at first.

    Args:
        max_depth: the deepest depth that it can have.

    Examples:
        >>> from leadline import CategoricalDepth
        >>> print(CategoricalDepth(max_depth=3).pmf(5).round(3))
        [0.25 0.25 0.25 0.25 0.  ]
    """

    name: ClassVar[str] = "categorical"
    colour: ClassVar[str] = "#117a5b"

    logits: Float[Array, " options"]

    def __init__(self, max_depth: int = 10):
        check_integer("max_depth", max_depth, 0, N_DEPTHS - 2)
        self.logits = as_float(np.zeros(max_depth + 1))

    @classmethod
    def pair(cls, start: Start) -> Pair:
        """Uniform over 0 .. 10, both."""
        return cls(), cls()

    def unfrozen(self) -> "DepthDistribution":
        """No mass below a thousandth of the largest."""
        return eqx.tree_at(lambda q: q.logits, self, at_least(self.logits, _largest(self.logits) - np.log(1000)))

    def log_masses(self, n_depths: int) -> Float[Array, " depths"]:
        log_masses = jax.nn.log_softmax(self.logits)[:n_depths]
        return jnp.pad(log_masses, (0, n_depths - log_masses.shape[0]), constant_values=-jnp.inf)


def _largest(logits: Float[Array, " options"]) -> Any:
    return logits.max() if is_traced(logits) else np.asarray(logits).max()
