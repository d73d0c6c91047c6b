"""Likelihoods of answers, and the factors that engines see."""

from botorch_pref.likelihoods.affine_probit import AffineProbitLikelihood
from botorch_pref.likelihoods.answer_density import seen_answers
from botorch_pref.likelihoods.beta_rating import BetaRatingLikelihood
from botorch_pref.likelihoods.factors.density_factors import DensityFactors
from botorch_pref.likelihoods.factors.factors import (
    Factors,
    LogDerivatives,
    LogPartition,
    ScalarFactors,
)
from botorch_pref.likelihoods.ordinal_probit import OrdinalProbitLikelihood
from botorch_pref.likelihoods.pairwise_beta import PairwiseBetaLikelihood
from botorch_pref.likelihoods.pairwise_logit import PairwiseLogitLikelihood
from botorch_pref.likelihoods.pairwise_probit import PairwiseProbitLikelihood
from botorch_pref.likelihoods.plackett_luce import PlackettLuceLikelihood
from botorch_pref.likelihoods.positive_parameter import (
    PositiveParameter,
    register_positive,
)
from botorch_pref.likelihoods.preference_likelihood import PreferenceLikelihood
from botorch_pref.likelihoods.registry import register_likelihood

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
