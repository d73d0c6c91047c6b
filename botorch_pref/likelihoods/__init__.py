"""Likelihoods of answers, and the factors that engines see."""

from botorch_pref.likelihoods.answer_density import DensityFactors, seen_answers
from botorch_pref.likelihoods.beta import BetaRatingLikelihood, PairwiseBetaLikelihood
from botorch_pref.likelihoods.factors import (
    Factors,
    ScalarFactors,
)
from botorch_pref.likelihoods.lapses import LapsingProbitLikelihood
from botorch_pref.likelihoods.lines import (
    LineLogitLikelihood,
    LineProbitLikelihood,
)
from botorch_pref.likelihoods.logit import (
    LogitLink,
    PairwiseLogitLikelihood,
    PlackettLuceLikelihood,
    RaoKupperLikelihood,
)
from botorch_pref.likelihoods.ordinal import OrdinalProbitLikelihood
from botorch_pref.likelihoods.probit import (
    AffineProbitLikelihood,
    PairwiseProbitLikelihood,
    ProbitLink,
)
from botorch_pref.likelihoods.protocol import (
    DuelLink,
    PositiveParameter,
    PreferenceLikelihood,
    register_likelihood,
    register_positive,
)
from botorch_pref.numerics.quadrature import LogDerivatives

__all__ = [
    "AffineProbitLikelihood",
    "BetaRatingLikelihood",
    "DensityFactors",
    "DuelLink",
    "Factors",
    "LapsingProbitLikelihood",
    "LineLogitLikelihood",
    "LineProbitLikelihood",
    "LogDerivatives",
    "LogitLink",
    "OrdinalProbitLikelihood",
    "PairwiseBetaLikelihood",
    "PairwiseLogitLikelihood",
    "PairwiseProbitLikelihood",
    "PlackettLuceLikelihood",
    "PositiveParameter",
    "PreferenceLikelihood",
    "ProbitLink",
    "RaoKupperLikelihood",
    "ScalarFactors",
    "register_likelihood",
    "register_positive",
    "seen_answers",
]
