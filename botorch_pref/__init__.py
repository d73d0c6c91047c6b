"""Preferential Bayesian optimisation in BoTorch.

Finding the best design when the only measurement is what a person says of it.
"""

from botorch_pref import acquisition, feedback, likelihoods, models
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
from botorch_pref.models import *  # noqa: F403
from botorch_pref.posteriors.duel_sampler import DuelSampler
from botorch_pref.posteriors.skew_normal_posterior import SkewNormalPosterior

__version__ = "0.1.0"

# What is for those who write their own stays with its part, and so do raters.
_OF_THEIR_PARTS = {
    "AgreementKernel",
    "DensityFactors",
    "DifferenceAcquisition",
    "DuelingAcquisition",
    "Factors",
    "Feedback",
    "GroupUtility",
    "LogDerivatives",
    "LogPartition",
    "PositiveParameter",
    "PreferenceGP",
    "PreferenceLikelihood",
    "ScalarFactors",
    "UtilityModel",
    "check_distinct",
    "check_index_tensor",
    "check_same_shape",
    "engine_table",
    "rater_covar_module",
    "register_acquisition",
    "register_likelihood",
    "register_model",
    "register_positive",
    "seen_answers",
}
__all__ = [
    "BotorchPrefError",
    "DuelSampler",
    "ExperimentError",
    "FeedbackError",
    "InferenceWarning",
    "PrecisionError",
    "SkewNormalPosterior",
    "StorageError",
    "UnsupportedFeedbackError",
]
__all__ += {
    *acquisition.__all__,
    *feedback.__all__,
    *likelihoods.__all__,
    *models.__all__,
} - _OF_THEIR_PARTS
__all__.sort()
