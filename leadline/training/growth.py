"""More layers for models that are trained by a loop of one's own."""

from typing import Any

import equinox as eqx
import jax
import numpy as np
from jaxtyping import Array, Key

from leadline._checks import InvalidArgumentError, is_traced
from leadline.backend.compilation import jit_lightly
from leadline.backend.random import fold_in
from leadline.depth.base import N_DEPTHS
from leadline.inference.model import Model
from leadline.inference.recipes import Recipe, get_recipe
from leadline.network.unbounded import UnboundedNetwork

WEIGHTS = 0
"""What the key of a run is folded with where its network is drawn."""


def grow(
    models: Model, *, key: Key[Array, "*runs"], recipe: str | Recipe = "leadline", capacity: int | None = None
) -> Model:
    """The models with all the layers that q(L) needs; for a training loop of one's own, between compiled steps.

    `train` does so by itself. A model stores a number of layers, its capacity, and q(L) can come to reach further.

    Args:
        models: as `init_models` gives them, or one run's.
        key: those that they were drawn from, or the one: the new layers are those that a larger capacity would have
            had from the start.
        recipe: that they were drawn for.
        capacity: how many layers to store, where it is more than q(L) needs.

    Returns:
        The models themselves where q(L) fits; else with twice the capacity, or twice that, ..., and all that was
        learned as it is.

    Examples:
        >>> import jax
        >>> from leadline import CategoricalLikelihood, grow, init_models
        >>> key = jax.random.split(jax.random.key(0), 1)
        >>> models = init_models(2, CategoricalLikelihood(2), width=4, capacity=4, key=key)
        >>> grow(models, key=key) is models, grow(models, key=key, capacity=16).capacity
        (True, 16)
    """
    if any(map(is_traced, jax.tree.leaves(models))):
        raise InvalidArgumentError("must be numbers: call `grow` between compiled steps, not inside one.", "models")
    log_q = np.asarray(_log_masses(models)).reshape(-1, N_DEPTHS)
    deepest = int(np.flatnonzero((log_q > -np.inf).any(axis=0)).max(initial=0))
    if deepest == N_DEPTHS - 1:
        raise InvalidArgumentError("must have a q(L) that ends, and its support does not.", "models")
    needed = models.capacity
    while needed < max(deepest, capacity or 0):
        needed *= 2
    if needed == models.capacity:
        return models
    if key.shape != models.runs:
        must = f"must be one for each of the runs {models.runs}, as the models were drawn from"
        raise InvalidArgumentError(f"{must}, got shape {key.shape}.", "key")
    network = _grown(models.network, key, weights_of(get_recipe(recipe)), needed)
    return eqx.tree_at(lambda m: m.network, models, network)


@jit_lightly
def _log_masses(models: Model) -> Array:
    of_one = lambda q: q.log_masses(N_DEPTHS)  # noqa: E731
    return (jax.vmap(of_one) if models.runs else of_one)(models.depth_posterior)


@jit_lightly
def _grown(networks: UnboundedNetwork, key: Key[Array, "*runs"], weights: dict[str, Any], capacity: int) -> Any:
    def of_one(network: UnboundedNetwork, key: Key[Array, ""]) -> UnboundedNetwork:
        return network.grow(capacity, key=fold_in(key, WEIGHTS), **weights)

    return (eqx.filter_vmap(of_one) if key.ndim else of_one)(networks, key)


def weights_of(recipe: Recipe) -> dict[str, Any]:
    """How a recipe has weights start, and what their prior is."""
    return {name: getattr(recipe, name) for name in ("initial_scale", "initial_means", "prior", "prior_scale")}
