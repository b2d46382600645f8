"""The generative model and its posterior, in one place: network, likelihood, p(L), q(L)."""

from typing import Any

import equinox as eqx
import jax
import numpy as np
from jaxtyping import Array, Float, Int

from leadline._checks import InvalidArgumentError, check_integer, is_traced
from leadline.backend.device import backend
from leadline.backend.forks import check_threads, on_device
from leadline.backend.numerics import AnyArray
from leadline.depth import DepthDistribution
from leadline.likelihoods import Likelihood
from leadline.network.layers import Packable
from leadline.network.unbounded import UnboundedNetwork


def check_fits(name: str, highest: Int[AnyArray, "*runs"], capacity: int) -> Int[AnyArray, "*runs"]:
    """The deepest depth of the support of q(L), which must lie within the layers that a model stores."""
    if not is_traced(highest) and np.any(np.asarray(highest) > capacity):
        raise InvalidArgumentError(
            f"must store all layers that q(L) needs, but its capacity is {capacity} and q(L) reaches depth "
            f"{highest.max()}; `leadline.grow` stores more.",
            name,
        )
    return highest


class Model(Packable):
    """All that is learned (network, likelihood, depth_posterior), and the depth prior, which is not.

    Examples:
        >>> import numpy as np
        >>> from leadline import CategoricalLikelihood, init_models
        >>> models = init_models(2, CategoricalLikelihood(3), capacity=4, key=np.array([[0, 1], [0, 2]], np.uint32))
        >>> models.runs, models.capacity, models.network.width, models.likelihood.n_classes
        ((2,), 4, 32, 3)
    """

    network: UnboundedNetwork
    """With q(theta)."""
    likelihood: Likelihood
    """p(y | output)."""
    depth_posterior: DepthDistribution
    """q(L)."""
    depth_prior: DepthDistribution
    """p(L)."""

    def scheduled(self, share: Float[Array, ""]) -> "Model":
        """The model with its likelihood as it is at a share of the recipe's schedules.

        Args:
            share: of the training that is done.
        """
        return eqx.tree_at(lambda model: model.likelihood, self, self.likelihood.scheduled(share))

    @property
    def runs(self) -> tuple[int, ...]:
        """How many runs these are the models of; nothing, for one model alone."""
        return self.network.first.stack

    def some(self, runs: Any) -> "Model":
        """Those of some runs, by their numbers or a slice.

        Args:
            runs: their numbers, or a slice.
        """
        if backend().has_engine:  # where an index would be a program
            return jax.tree.map(lambda a: on_device(np.asarray(a)[runs]), self)
        check_threads()
        return jax.tree.map(lambda a: a[runs], self)

    @property
    def capacity(self) -> int:
        """Hidden layers stored beyond the first."""
        return self.network.capacity

    @property
    def n_depths(self) -> int:
        """How many depths q(L) is evaluated at: more than are stored.

        The number is one for all capacities below it, so that sums over the depths round alike before and after growth.
        """
        return max(128, self.capacity + 2)

    def support(self) -> tuple[Int[Array, ""], Int[Array, ""]]:
        """The lowest and the highest depth with mass under q(L)."""
        return self.depth_posterior.support(self.n_depths)


def run_model(models: Model, run: int) -> Model:
    """One run's model out of a batch.

    Args:
        models: with a leading axis of runs.
        run: its number.

    Returns:
        The model, without that axis.

    Examples:
        >>> import numpy as np
        >>> from leadline import CategoricalLikelihood, init_models, run_model
        >>> models = init_models(2, CategoricalLikelihood(3), key=np.array([[0, 1], [0, 2]], np.uint32))
        >>> models.runs, run_model(models, 1).runs
        ((2,), ())
    """
    check_integer("run", run, 0, models.runs[0] - 1)
    return models.some(run)
