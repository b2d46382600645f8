"""What can be predicted: one file a likelihood."""

from leadline._discovery import import_all
from leadline.likelihoods.base import LIKELIHOODS, Likelihood, get_likelihood, likelihoods_of
from leadline.likelihoods.categorical import CategoricalLikelihood
from leadline.likelihoods.classes import ClassLikelihood
from leadline.likelihoods.counting import CountLikelihood
from leadline.likelihoods.gaussian import GaussianLikelihood
from leadline.likelihoods.heteroscedastic import EitherNoiseLikelihood, HeteroscedasticLikelihood
from leadline.likelihoods.laplace import LaplaceLikelihood
from leadline.likelihoods.negative_binomial import NegativeBinomialLikelihood
from leadline.likelihoods.numbers import NumberLikelihood
from leadline.likelihoods.ordinal import OrdinalLikelihood
from leadline.likelihoods.poisson import PoissonLikelihood
from leadline.likelihoods.student_t import StudentTLikelihood

__all__ = [
    "LIKELIHOODS",
    "CategoricalLikelihood",
    "ClassLikelihood",
    "CountLikelihood",
    "EitherNoiseLikelihood",
    "GaussianLikelihood",
    "HeteroscedasticLikelihood",
    "LaplaceLikelihood",
    "Likelihood",
    "NegativeBinomialLikelihood",
    "NumberLikelihood",
    "OrdinalLikelihood",
    "PoissonLikelihood",
    "StudentTLikelihood",
    "get_likelihood",
    "likelihoods_of",
]

import_all(__name__, __path__)
