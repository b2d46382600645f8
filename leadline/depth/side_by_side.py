"""A distribution for every run of a batch; the runs may differ in its family."""

from collections.abc import Sequence

import jax
import numpy as np
from jaxtyping import Array, Float, Int, PyTree

from leadline.depth.base import DepthDistribution


class OneOf(DepthDistribution):
    """One of several families, and which one is data: one program then trains runs of all of them."""

    families: tuple[DepthDistribution, ...]
    which: Int[Array, "*runs"]

    def unfrozen(self) -> "OneOf":
        return OneOf(tuple(family.unfrozen() for family in self.families), self.which)

    def log_masses(self, n_depths: int) -> Float[Array, " depths"]:
        return jax.lax.select_n(self.which, *(family.log_masses(n_depths) for family in self.families))


def side_by_side(distributions: Sequence[DepthDistribution]) -> DepthDistribution:
    """All of them on a leading axis, one per run: for `jax.vmap`."""
    kinds = [kind_of(one) for one in distributions]
    order = list(dict.fromkeys(kinds))
    which = np.array([order.index(kind) for kind in kinds])
    families = []
    for i in range(len(order)):
        some = distributions[int(np.argmax(which == i))]  # stands in where a run is of another family
        of_each = [one if k == i else some for one, k in zip(distributions, which, strict=True)]
        families.append(jax.tree.map(lambda *arrays: jax.device_put(np.stack(arrays)), *of_each))
    return families[0] if len(families) == 1 else OneOf(tuple(families), jax.device_put(which))


def kind_of(tree: PyTree) -> tuple:
    """What has to be alike for two to be stacked."""
    return jax.tree.structure(tree), tuple((a.shape, a.dtype) for a in jax.tree.leaves(tree))
