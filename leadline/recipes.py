"""Training recipes by name: the choices that the paper's text and its published code make differently."""

from dataclasses import dataclass
from typing import Literal

from leadline._checks import InvalidArgumentError, check_choice, check_integer
from leadline.distributions import CategoricalDepth, DepthDistribution, FixedDepth, NormalDepth, PoissonDepth
from leadline.distributions.normal import Bounds
from leadline.layers import Noise


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
    keep: Literal["lowest_free_energy", "last"]
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
    depth: str | int | tuple[DepthDistribution, DepthDistribution], recipe: Recipe
) -> tuple[DepthDistribution, DepthDistribution]:
    """p(L) and the initial q(L).

    The paper's for `normal` and `poisson`, uniform over 0 .. 10 for `categorical`, one depth for a whole number; a pair
    of distributions (prior, initial posterior) is taken as it is.
    """
    match depth:
        case (DepthDistribution() as prior, DepthDistribution() as posterior):
            return prior, posterior
        case "normal":
            return NormalDepth(0.0, 1.15), NormalDepth(0.0, 1.8, 0.025, 0.975, recipe.bounds)
        case "poisson":
            return PoissonDepth(0.5), PoissonDepth(1.0, 0.95)
        case "categorical":
            return CategoricalDepth(), CategoricalDepth()
        case int() if not isinstance(depth, bool):
            check_integer("depth", depth, 0)
            return FixedDepth(depth), FixedDepth(depth)
    raise InvalidArgumentError(
        f"`depth` must be one of {', '.join(DEPTHS)}, a whole number of at least 0, or a pair of depth distributions "
        f"(prior, posterior), got {depth!r}."
    )
