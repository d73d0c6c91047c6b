"""Preferential Bayesian optimisation in BoTorch.

Finding the best design when the only measurement is what a person says of it.
"""

from botorch_pref import acquisition, feedback, likelihoods
from botorch_pref.acquisition import *  # noqa: F403
from botorch_pref.errors import (
    BotorchPrefError,
    ExperimentError,
    FeedbackError,
    InferenceWarning,
    PrecisionError,
    StorageError,
    UnsupportedFeedbackError,
)
from botorch_pref.feedback import *  # noqa: F403
from botorch_pref.likelihoods import *  # noqa: F403
from botorch_pref.models import (
    EPPreferenceGP,
    FullyBayesianEPPreferenceGP,
    FullyBayesianLaplacePreferenceGP,
    LaplacePreferenceGP,
    PlackettLuceRegression,
    PreferenceMarginalLogLikelihood,
    SkewPreferenceGP,
    VariationalPreferenceGP,
    choice_probability,
)
from botorch_pref.models.validity_probability import log_validity_probability
from botorch_pref.posteriors.duel_sampler import DuelSampler
from botorch_pref.posteriors.skew_normal_posterior import SkewNormalPosterior

__version__ = "0.1.0"

__all__ = [
    "BotorchPrefError",
    "DuelSampler",
    "EPPreferenceGP",
    "ExperimentError",
    "FeedbackError",
    "FullyBayesianEPPreferenceGP",
    "FullyBayesianLaplacePreferenceGP",
    "InferenceWarning",
    "LaplacePreferenceGP",
    "PlackettLuceRegression",
    "PrecisionError",
    "PreferenceMarginalLogLikelihood",
    "SkewNormalPosterior",
    "SkewPreferenceGP",
    "StorageError",
    "UnsupportedFeedbackError",
    "VariationalPreferenceGP",
    "choice_probability",
    "log_validity_probability",
]
__all__ += acquisition.__all__
__all__ += feedback.__all__
__all__ += likelihoods.__all__
# What is for those who write their own stays with its part.
for _name in (
    "DensityFactors",
    "Feedback",
    "PositiveParameter",
    "PreferenceLikelihood",
    "register_acquisition",
    "register_likelihood",
    "register_positive",
):
    __all__.remove(_name)
__all__.sort()
