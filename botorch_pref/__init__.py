"""Preferential Bayesian optimisation in BoTorch.

Finding the best design when the only measurement is what a person says of it.
What is for those who write their own stays with its part, and so do raters.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

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
    DuelKernel,
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

if TYPE_CHECKING:
    from botorch_pref.acquisition import (
        ChanceConstrained,
        DistinctOptions,
        DuelingBALD,
        DuelingEIIG,
        DuelingEUBO,
        DuelingExploringEIIG,
        DuelingHBEI,
        DuelingHBUCB,
        DuelingKG,
        DuelingMUC,
        DuelingTailedEI,
        DuelingThompson,
        DuelingUCB,
        FeasibilityWeighted,
        HallucinatedModel,
        champion,
        champion_index,
        incumbent,
        incumbent_index,
    )

__version__ = "0.1.0"

__all__ = [
    "AffineProbitLikelihood",
    "BetaRatingLikelihood",
    "BotorchPrefError",
    "ChanceConstrained",
    "Choices",
    "Comparisons",
    "DistinctOptions",
    "DuelKernel",
    "DuelSampler",
    "DuelingBALD",
    "DuelingEIIG",
    "DuelingEUBO",
    "DuelingExploringEIIG",
    "DuelingHBEI",
    "DuelingHBUCB",
    "DuelingKG",
    "DuelingMUC",
    "DuelingTailedEI",
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


# Acquisition functions are registered with BoTorch's input constructors, which bring
# JAX and SciPy's distributions: half of the time of importing everything. They come
# when somebody names one, as the parts of BoTorch itself do.
def __getattr__(name: str) -> Any:
    """Imports acquisition functions when the first of them is wanted."""
    if name != "acquisition" and name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    acquisition = import_module(f"{__name__}.acquisition")
    return acquisition if name == "acquisition" else getattr(acquisition, name)


def __dir__() -> list[str]:
    """Names that can be imported, those that have not been among them."""
    return sorted({*globals(), *__all__})
