"""Preference models behind BoTorch's and GPyTorch's interfaces."""

import botorch_pref.models.pathwise  # noqa: F401 (registers function draws)
from botorch_pref.models.answer_likelihoods import register_model
from botorch_pref.models.crowd import CrowdPreferenceGP
from botorch_pref.models.crowd_kernels import CrowdKernel, TasteKernel
from botorch_pref.models.engines import (
    EPPreferenceGP,
    LaplacePreferenceGP,
    SkewPreferenceGP,
    SparsePreferenceGP,
    VariationalPreferenceGP,
    engine_table,
)
from botorch_pref.models.fitting import PreferenceMarginalLogLikelihood
from botorch_pref.models.fully_bayesian import (
    FullyBayesianEPPreferenceGP,
    FullyBayesianLaplacePreferenceGP,
)
from botorch_pref.models.kernels import DuelKernel, RelevanceKernel
from botorch_pref.models.plausible import (
    AveragedUtility,
    averaged_utility,
    guessing_probability,
    plausible_models,
)
from botorch_pref.models.predictions import choice_probability, log_validity_probability
from botorch_pref.models.preference_gp import PreferenceGP
from botorch_pref.models.raters import (
    AgreementKernel,
    GroupUtility,
    ReliabilityKernel,
    rater_covar_module,
)
from botorch_pref.models.regression import PlackettLuceRegression
from botorch_pref.models.utility_model import UtilityModel

__all__ = [
    "AgreementKernel",
    "AveragedUtility",
    "CrowdKernel",
    "CrowdPreferenceGP",
    "DuelKernel",
    "EPPreferenceGP",
    "FullyBayesianEPPreferenceGP",
    "FullyBayesianLaplacePreferenceGP",
    "GroupUtility",
    "LaplacePreferenceGP",
    "PlackettLuceRegression",
    "PreferenceGP",
    "PreferenceMarginalLogLikelihood",
    "RelevanceKernel",
    "ReliabilityKernel",
    "SkewPreferenceGP",
    "SparsePreferenceGP",
    "TasteKernel",
    "UtilityModel",
    "VariationalPreferenceGP",
    "averaged_utility",
    "choice_probability",
    "engine_table",
    "guessing_probability",
    "log_validity_probability",
    "plausible_models",
    "rater_covar_module",
    "register_model",
]
