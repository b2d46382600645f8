"""The models that a training starts from: their weights, p(L), q(L) and likelihoods, run by run."""

import math
from collections.abc import Sequence
from functools import partial
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Shaped

from leadline.backend.compilation import jit_lightly
from leadline.backend.numerics import AnyArray
from leadline.backend.random import fold_in
from leadline.depth import Pair
from leadline.depth.side_by_side import side_by_side
from leadline.inference.model import Model
from leadline.inference.recipes import Depth, Recipe, depth_distributions, get_recipe
from leadline.inference.restarts import keys_of
from leadline.likelihoods import Likelihood
from leadline.network.blocks import BLOCKS
from leadline.network.blocks import Shape as ImageShape
from leadline.network.unbounded import UnboundedNetwork
from leadline.training.growth import WEIGHTS, weights_of
from leadline.training.settings import Settings
from leadline.training.storage import first_capacity

Shape = tuple[int, int, int]
"""The runs, as a grid: fits x temperatures x restarts."""


def init_models(
    n_inputs: int | ImageShape,
    likelihood: Likelihood,
    *,
    depth: Depth = "normal",
    recipe: str | Recipe = "leadline",
    block: str = "dense",
    width: int = 32,
    capacity: int | None = None,
    key: Shaped[AnyArray, "runs ..."],
) -> Model:
    """Untrained models, one per key, on a leading axis of runs.

    Args:
        n_inputs: columns of x; of images, their height, width and channels.
        likelihood: of the targets.
        depth: as in `Settings`, and so are the next three.
        recipe: how the weights and q(L) start.
        block: what a layer is.
        width: units of a layer.
        capacity: the number of hidden layers stored.
        key: one for every run, or its two words: then the engine draws, and the arrays are NumPy's.

    Returns:
        The models, as `train` takes them to start from.

    Examples:
        >>> import numpy as np
        >>> from leadline import CategoricalLikelihood, init_models
        >>> two_keys = np.array([[0, 1], [0, 2]], np.uint32)
        >>> init_models(2, CategoricalLikelihood(3), width=4, key=two_keys).runs
        (2,)
    """
    recipe = get_recipe(recipe)
    prior, posterior = depth_distributions(depth, recipe)
    sizes = (n_inputs, likelihood.n_outputs)
    n_numbers = math.prod(n_inputs) if isinstance(n_inputs, tuple) else n_inputs
    capacity = capacity or first_capacity(n_numbers, width, likelihood.n_outputs, BLOCKS[block])
    build = partial(UnboundedNetwork, *sizes, width=width, block=block, capacity=capacity, **weights_of(recipe))
    rest, n_runs = (likelihood, posterior, prior), key.shape[0]
    if isinstance(key, np.ndarray):
        each = [build(key=fold_in(words, WEIGHTS)) for words in key]
        networks = jax.tree.map(lambda *arrays: np.stack(arrays), *each)
        return Model(networks, *jax.tree.map(lambda a: np.array(np.broadcast_to(a, (n_runs, *a.shape))), rest))
    networks = eqx.filter_vmap(lambda key: build(key=fold_in(key, WEIGHTS)))(key)
    # Of a definite type: a user's weakly typed array would change its type, and the program, after the first step.
    definite = lambda a: jnp.broadcast_to(jax.lax.convert_element_type(a, a.dtype), (n_runs, *a.shape))  # noqa: E731
    return Model(networks, *jax.tree.map(definite, rest))


_init_models_quickly = jit_lightly(init_models)


def draw_models(
    depths: list[Pair],
    n_inputs: int | ImageShape,
    likelihoods: list[Likelihood],
    *,
    words: np.ndarray,
    natively: bool,
    **options: Any,
) -> Model:
    """`init_models` with p(L), q(L) and likelihood for all keys, or for each; `natively` by the engine's draws."""
    if natively:
        models = init_models(n_inputs, likelihoods[0], depth=depths[0], key=words, **options)
    else:
        models = _init_models_quickly(n_inputs, likelihoods[0], depth=depths[0], key=keys_of(words), **options)
    if len(likelihoods) > 1:
        stacked = jax.tree.map(lambda *arrays: np.stack(arrays), *likelihoods)
        models = eqx.tree_at(lambda m: m.likelihood, models, stacked if natively else jax.device_put(stacked))
    if len(depths) == 1:
        return models
    both = [side_by_side(column) for column in zip(*depths, strict=True)]
    return eqx.tree_at(lambda m: (m.depth_prior, m.depth_posterior), models, both)


def depths_of_runs(settings: Sequence[Settings], recipe: Recipe, shape: Shape) -> list[Pair]:
    """p(L) and the initial q(L) of all runs, or of each where they differ."""
    n_fits, n_temperatures, n_restarts = shape
    depths = [one.depth for one in settings]
    alike = all(depth is depths[0] or (isinstance(depth, str | int) and depth == depths[0]) for depth in depths)
    different = min(len(recipe.kinds) or n_restarts, n_restarts)  # kinds take turns
    by_restart = [
        [depth_distributions(depth, each) for each in recipe.by_restart(different)]
        for depth in (depths[:1] if alike else depths)
    ]
    if len(by_restart) == len(by_restart[0]) == 1:
        return by_restart[0]
    turns = -(-n_restarts // len(by_restart[0]))
    of_fits = [(pairs * turns)[:n_restarts] * n_temperatures for pairs in by_restart]
    return [pair for pairs in of_fits * (n_fits // len(of_fits)) for pair in pairs]


def likelihoods_of_runs(likelihood: Likelihood, recipe: Recipe, shape: Shape) -> list[Likelihood]:
    """Of all runs, or of each where they differ."""
    n_fits, n_temperatures, n_restarts = shape
    of_kinds = [likelihood.of_kind(kind) for kind in recipe.kinds]
    if all(one is likelihood for one in of_kinds):
        return [likelihood]
    return [of_kinds[i % len(of_kinds)] for i in range(n_restarts)] * (n_fits * n_temperatures)
