"""What p(L) and q(L) can be: one file a family."""

from leadline._discovery import import_all
from leadline.depth.base import FAMILIES, DepthDistribution, Pair, Start
from leadline.depth.fixed import FixedDepth

# isort: off
from leadline.depth.normal import NormalDepth  # the order in which families are named
from leadline.depth.poisson import PoissonDepth
from leadline.depth.categorical import CategoricalDepth
from leadline.depth.negative_binomial import NegativeBinomialDepth
from leadline.depth.generalised_poisson import GeneralisedPoissonDepth
from leadline.depth.conway_maxwell_poisson import ConwayMaxwellPoissonDepth
from leadline.depth.discrete_gamma import DiscreteGammaDepth
from leadline.depth.beta_binomial import BetaBinomialDepth
from leadline.depth.truncation import truncated
# isort: on

__all__ = [
    "FAMILIES",
    "BetaBinomialDepth",
    "CategoricalDepth",
    "ConwayMaxwellPoissonDepth",
    "DepthDistribution",
    "DiscreteGammaDepth",
    "FixedDepth",
    "GeneralisedPoissonDepth",
    "NegativeBinomialDepth",
    "NormalDepth",
    "Pair",
    "PoissonDepth",
    "Start",
    "truncated",
]

import_all(__name__, __path__)
