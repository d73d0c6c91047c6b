"""Preference models behind BoTorch's and GPyTorch's interfaces."""

import botorch_pref.models.predictions.pathwise  # noqa: F401 (registers function draws)
from botorch_pref.models.answers.engine_table import engine_table
from botorch_pref.models.duel_kernel import DuelKernel
from botorch_pref.models.ep_preference_gp import EPPreferenceGP
from botorch_pref.models.fully_bayesian.fully_bayesian_preference_gp import (
    FullyBayesianEPPreferenceGP,
    FullyBayesianLaplacePreferenceGP,
)
from botorch_pref.models.laplace_preference_gp import LaplacePreferenceGP
from botorch_pref.models.predictions.choice_probability import choice_probability
from botorch_pref.models.predictions.validity_probability import (
    log_validity_probability,
)
from botorch_pref.models.preference_gp import PreferenceGP
from botorch_pref.models.preference_marginal_log_likelihood import (
    PreferenceMarginalLogLikelihood,
)
from botorch_pref.models.raters.group_utility import GroupUtility
from botorch_pref.models.raters.rater_kernel import AgreementKernel, rater_covar_module
from botorch_pref.models.registry import register_model
from botorch_pref.models.regression.plackett_luce_regression import (
    PlackettLuceRegression,
)
from botorch_pref.models.skew_preference_gp import SkewPreferenceGP
from botorch_pref.models.utility_model import UtilityModel
from botorch_pref.models.variational_preference_gp import VariationalPreferenceGP

__all__ = [
    "AgreementKernel",
    "DuelKernel",
    "EPPreferenceGP",
    "FullyBayesianEPPreferenceGP",
    "FullyBayesianLaplacePreferenceGP",
    "GroupUtility",
    "LaplacePreferenceGP",
    "PlackettLuceRegression",
    "PreferenceGP",
    "PreferenceMarginalLogLikelihood",
    "SkewPreferenceGP",
    "UtilityModel",
    "VariationalPreferenceGP",
    "choice_probability",
    "engine_table",
    "log_validity_probability",
    "rater_covar_module",
    "register_model",
]
