"""Likelihoods of answers, and the factors that engines see."""

from botorch_pref.likelihoods.answer_density import seen_answers
from botorch_pref.likelihoods.base import (
    PositiveParameter,
    PreferenceLikelihood,
    register_likelihood,
    register_positive,
)
from botorch_pref.likelihoods.beta import BetaRatingLikelihood, PairwiseBetaLikelihood
from botorch_pref.likelihoods.factors import (
    DensityFactors,
    Factors,
    LogDerivatives,
    LogPartition,
    ScalarFactors,
)
from botorch_pref.likelihoods.logit import (
    PairwiseLogitLikelihood,
    PlackettLuceLikelihood,
)
from botorch_pref.likelihoods.ordinal import OrdinalProbitLikelihood
from botorch_pref.likelihoods.probit import (
    AffineProbitLikelihood,
    PairwiseProbitLikelihood,
)

__all__ = [
    "AffineProbitLikelihood",
    "BetaRatingLikelihood",
    "DensityFactors",
    "Factors",
    "LogDerivatives",
    "LogPartition",
    "OrdinalProbitLikelihood",
    "PairwiseBetaLikelihood",
    "PairwiseLogitLikelihood",
    "PairwiseProbitLikelihood",
    "PlackettLuceLikelihood",
    "PositiveParameter",
    "PreferenceLikelihood",
    "ScalarFactors",
    "register_likelihood",
    "register_positive",
    "seen_answers",
]
