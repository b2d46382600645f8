"""What p(L) and q(L) can be."""

from leadline.distributions.base import DepthDistribution
from leadline.distributions.categorical import CategoricalDepth
from leadline.distributions.fixed import FixedDepth
from leadline.distributions.normal import NormalDepth
from leadline.distributions.poisson import PoissonDepth

__all__ = ["CategoricalDepth", "DepthDistribution", "FixedDepth", "NormalDepth", "PoissonDepth"]
