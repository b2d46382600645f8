"""What can be predicted: one file a likelihood."""

from leadline._discovery import import_all
from leadline.likelihoods.base import LIKELIHOODS, Likelihood
from leadline.likelihoods.categorical import CategoricalLikelihood
from leadline.likelihoods.gaussian import GaussianLikelihood
from leadline.likelihoods.heteroscedastic import EitherNoiseLikelihood, HeteroscedasticLikelihood
from leadline.likelihoods.numbers import NumberLikelihood

__all__ = [
    "LIKELIHOODS",
    "CategoricalLikelihood",
    "EitherNoiseLikelihood",
    "GaussianLikelihood",
    "HeteroscedasticLikelihood",
    "Likelihood",
    "NumberLikelihood",
]

import_all(__name__, __path__)
