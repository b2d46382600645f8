"""Training recipes by name: the choices that the paper's text and its published code make differently."""

from dataclasses import dataclass
from typing import Literal, get_args

import jax.numpy as jnp
import numpy as np

from leadline._checks import (
    InvalidArgumentError,
    check_at_least,
    check_choice,
    check_integer,
    check_positive,
    is_traced,
)
from leadline.distributions import CategoricalDepth, DepthDistribution, FixedDepth, NormalDepth, PoissonDepth
from leadline.distributions.base import N_DEPTHS
from leadline.distributions.normal import Bounds
from leadline.layers import Noise

Keep = Literal["lowest_free_energy", "last"]


@dataclass(frozen=True)
class Recipe:
    """How a network is trained. Two systems hide behind the paper; each is one instance of this class."""

    name: str
    temperature: float
    """Factor on the weight KL in the objective: 1 is the free energy, 0 leaves the weight KL out."""
    noise: Noise
    """Local reparameterisation, or one weight sample per layer and batch."""
    bounds: Bounds
    """Whether the quantile window of a normal q(L) has real or integer edges."""
    keep: Keep
    """Which model training returns: the one of the lowest validation free energy, or the last iterate."""
    initial_scale: float = 1.0
    """Standard deviation of the weights' posterior at the start."""
    prior_scale: float = 1.0
    """Standard deviation of the weights' prior."""
    learning_rate: float = 0.005
    depth_learning_rate: float = 0.0005
    """Adam's rates for the weights and for the parameters of q(L)."""
    n_samples: int = 100
    """Weight samples behind a prediction (eq. 10)."""

    def __post_init__(self) -> None:
        check_choice("noise", self.noise, get_args(Noise))
        check_choice("bounds", self.bounds, get_args(Bounds))
        check_choice("keep", self.keep, get_args(Keep))
        for name in ("temperature", "learning_rate", "depth_learning_rate"):
            check_at_least(name, getattr(self, name), 0)
        for name in ("initial_scale", "prior_scale"):
            check_positive(name, getattr(self, name))
        check_integer("n_samples", self.n_samples, 1)


PUBLISHED = Recipe("published", temperature=0.0, noise="weights", bounds="integer", keep="last")
"""The code behind Figure 2: the weight KL is computed and left out, and the last iterate is evaluated."""

WRITTEN = Recipe("written", temperature=1.0, noise="local", bounds="real", keep="lowest_free_energy")
"""The paper's text: the full free energy, local reparameterisation, the model of the lowest validation free energy."""

RECIPES = {recipe.name: recipe for recipe in (PUBLISHED, WRITTEN)}

DEPTHS = ("normal", "poisson", "categorical")


def get_recipe(recipe: str | Recipe) -> Recipe:
    if isinstance(recipe, Recipe):
        return recipe
    check_choice("recipe", recipe, RECIPES)
    return RECIPES[recipe]


def depth_distributions(
    depth: str | int | np.integer | tuple[DepthDistribution, DepthDistribution], recipe: Recipe
) -> tuple[DepthDistribution, DepthDistribution]:
    """p(L) and the initial q(L).

    The paper's for `normal` and `poisson`, uniform over 0 .. 10 for `categorical`, one depth for a whole number; a pair
    of distributions (prior, initial posterior) is taken as it is.
    """
    match depth:
        case (DepthDistribution() as prior, DepthDistribution() as posterior):
            return _checked(prior, posterior)
        case "normal":
            return NormalDepth(0.0, 1.15), NormalDepth(0.0, 1.8, 0.025, 0.975, recipe.bounds)
        case "poisson":
            return PoissonDepth(0.5), PoissonDepth(1.0, 0.95)
        case "categorical":
            return CategoricalDepth(), CategoricalDepth()
        case int() | np.integer() if not isinstance(depth, bool):
            return FixedDepth(int(depth)), FixedDepth(int(depth))
    raise InvalidArgumentError(
        f"`depth` must be one of {', '.join(DEPTHS)}, a whole number of at least 0, or a pair of depth distributions "
        f"(prior, posterior), got {depth!r}."
    )


def _checked(prior: DepthDistribution, posterior: DepthDistribution) -> tuple[DepthDistribution, DepthDistribution]:
    """A posterior whose support ends and lies within the prior's: otherwise there is nothing finite to minimise."""
    highest = posterior.support()[1]
    if is_traced(highest):
        return prior, posterior
    if not jnp.all(highest < N_DEPTHS - 1):
        raise InvalidArgumentError(
            f"`depth`: the support of the posterior must end, got {posterior}; give it an upper quantile below 1."
        )
    if not jnp.all(jnp.isfinite(posterior.kl(prior))):
        raise InvalidArgumentError(
            f"`depth`: the prior must have mass wherever the posterior has, got {prior} for {posterior}."
        )
    return prior, posterior
