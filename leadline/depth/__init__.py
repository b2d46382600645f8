"""What p(L) and q(L) can be: one file a family."""

from leadline._discovery import import_all
from leadline.depth.base import FAMILIES, DepthDistribution, Pair, Start
from leadline.depth.fixed import FixedDepth

# isort: off
from leadline.depth.normal import NormalDepth  # the order in which families are named
from leadline.depth.poisson import PoissonDepth
from leadline.depth.categorical import CategoricalDepth
# isort: on

__all__ = [
    "FAMILIES",
    "CategoricalDepth",
    "DepthDistribution",
    "FixedDepth",
    "NormalDepth",
    "Pair",
    "PoissonDepth",
    "Start",
]

import_all(__name__, __path__)
