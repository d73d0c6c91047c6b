"""Preference learning with a variational lower bound."""

from __future__ import annotations

from typing import ClassVar

from botorch_pref.feedback import Choices, Comparisons, Rankings
from botorch_pref.inference.variational import variational
from botorch_pref.likelihoods.logit_factors import LogitFactors
from botorch_pref.likelihoods.pairwise_logit import PairwiseLogitLikelihood
from botorch_pref.likelihoods.plackett_luce import PlackettLuceLikelihood
from botorch_pref.likelihoods.plackett_luce_factors import PlackettLuceFactors
from botorch_pref.models.gaussian_preference_gp import GaussianPreferenceGP


class VariationalPreferenceGP(GaussianPreferenceGP):
    """A preference model with a lower bound of its evidence (Guo et al. 2020).

    Logistic and softmax answers are replaced by Gaussian lower bounds: Jaakkola and
    Jordan's of pairs, Bouchard's of larger sets. The bound never falls from step to
    step, and hyper-parameters maximise it.

    Bouchard's bound is far from tight, and the more so the larger the set: utilities
    are drawn towards zero, and their stated deviations are too small. For choices and
    rankings of more than two prefer :class:`LaplacePreferenceGP`; for pairs the two are
    close.

    The arguments are those of :class:`PreferenceGP`.
    """

    takes: ClassVar = frozenset({LogitFactors, PlackettLuceFactors})
    default_likelihoods: ClassVar = {
        Comparisons: PairwiseLogitLikelihood,
        Choices: PlackettLuceLikelihood,
        Rankings: PlackettLuceLikelihood,
    }
    _engine = staticmethod(variational)
