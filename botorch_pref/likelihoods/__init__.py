"""Likelihoods of answers, and the factors that engines see."""

from botorch_pref.feedback import Comparisons, Feedback, Validity
from botorch_pref.likelihoods.affine_probit import AffineProbitLikelihood
from botorch_pref.likelihoods.pairwise_logit import PairwiseLogitLikelihood
from botorch_pref.likelihoods.pairwise_probit import PairwiseProbitLikelihood
from botorch_pref.likelihoods.preference_likelihood import PreferenceLikelihood

DEFAULT_LIKELIHOODS: dict[type[Feedback], type[PreferenceLikelihood]] = {
    Comparisons: PairwiseProbitLikelihood,
    Validity: AffineProbitLikelihood,
}
"""The likelihood of each kind of answer where the user names none."""

__all__ = [
    "DEFAULT_LIKELIHOODS",
    "AffineProbitLikelihood",
    "PairwiseLogitLikelihood",
    "PairwiseProbitLikelihood",
    "PreferenceLikelihood",
]
