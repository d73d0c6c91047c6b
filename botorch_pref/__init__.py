"""Preferential Bayesian optimisation in BoTorch.

Finding the best design when the only measurement is what a person says of it.
What is for those who write their own stays with its part, and so do raters.
"""

from botorch_pref.acquisition import (
    DuelingBALD,
    DuelingEIIG,
    DuelingEUBO,
    DuelingHBEI,
    DuelingHBUCB,
    DuelingKG,
    DuelingMUC,
    DuelingThompson,
    DuelingUCB,
    FeasibilityWeighted,
    HallucinatedModel,
    champion,
    champion_index,
    incumbent,
    incumbent_index,
)
from botorch_pref.errors import (
    BotorchPrefError,
    ExperimentError,
    FeedbackError,
    InferenceWarning,
    PrecisionError,
    StorageError,
    UnsupportedFeedbackError,
)
from botorch_pref.feedback import (
    Choices,
    Comparisons,
    OrdinalRatings,
    Rankings,
    Ratings,
    Strengths,
    Validity,
)
from botorch_pref.likelihoods import (
    AffineProbitLikelihood,
    BetaRatingLikelihood,
    OrdinalProbitLikelihood,
    PairwiseBetaLikelihood,
    PairwiseLogitLikelihood,
    PairwiseProbitLikelihood,
    PlackettLuceLikelihood,
)
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
    log_validity_probability,
)
from botorch_pref.posteriors import (
    DuelSampler,
    SkewNormalPosterior,
)

__version__ = "0.1.0"

__all__ = [
    "AffineProbitLikelihood",
    "BetaRatingLikelihood",
    "BotorchPrefError",
    "Choices",
    "Comparisons",
    "DuelSampler",
    "DuelingBALD",
    "DuelingEIIG",
    "DuelingEUBO",
    "DuelingHBEI",
    "DuelingHBUCB",
    "DuelingKG",
    "DuelingMUC",
    "DuelingThompson",
    "DuelingUCB",
    "EPPreferenceGP",
    "ExperimentError",
    "FeasibilityWeighted",
    "FeedbackError",
    "FullyBayesianEPPreferenceGP",
    "FullyBayesianLaplacePreferenceGP",
    "HallucinatedModel",
    "InferenceWarning",
    "LaplacePreferenceGP",
    "OrdinalProbitLikelihood",
    "OrdinalRatings",
    "PairwiseBetaLikelihood",
    "PairwiseLogitLikelihood",
    "PairwiseProbitLikelihood",
    "PlackettLuceLikelihood",
    "PlackettLuceRegression",
    "PrecisionError",
    "PreferenceMarginalLogLikelihood",
    "Rankings",
    "Ratings",
    "SkewNormalPosterior",
    "SkewPreferenceGP",
    "StorageError",
    "Strengths",
    "UnsupportedFeedbackError",
    "Validity",
    "VariationalPreferenceGP",
    "champion",
    "champion_index",
    "choice_probability",
    "incumbent",
    "incumbent_index",
    "log_validity_probability",
]
