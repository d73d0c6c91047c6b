"""Preferential Bayesian optimisation in BoTorch.

Finding the best design when the only measurement is what a person says of it.
What is for those who write their own stays with its part, and so do raters.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    # For type checkers; all names that are public are in the list below.
    from botorch_pref.acquisition import *
    from botorch_pref.asking import *
    from botorch_pref.errors import *
    from botorch_pref.feedback import *
    from botorch_pref.likelihoods import *
    from botorch_pref.models import *
    from botorch_pref.posteriors import *

__version__ = "0.1.0"
__citation__ = (
    "Made with botorch_pref. To cite it: The botorch_pref authors (2026). "
    "botorch_pref: preference Gaussian processes and duels behind BoTorch's interface. "
    f"Version {__version__}."
)
"""The last line of reports and boards, by which readers can cite the package."""

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
    "DuelingJointEUBO",
    "DuelingJointKG",
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
    "LapsingProbitLikelihood",
    "LineChoices",
    "LineLogitLikelihood",
    "LineProbitLikelihood",
    "LineQuestion",
    "OrdinalProbitLikelihood",
    "OrdinalRatings",
    "PairwiseBetaLikelihood",
    "PairwiseLogitLikelihood",
    "PairwiseProbitLikelihood",
    "PlackettLuceLikelihood",
    "PlackettLuceRegression",
    "PrecisionError",
    "PreferenceMarginalLogLikelihood",
    "Question",
    "Rankings",
    "RaoKupperLikelihood",
    "Ratings",
    "Recommendation",
    "SkewNormalPosterior",
    "SkewPreferenceGP",
    "SparsePreferenceGP",
    "StorageError",
    "Strengths",
    "UnsupportedFeedbackError",
    "Validity",
    "VariationalPreferenceGP",
    "champion",
    "champion_index",
    "choice_probability",
    "default_model",
    "incumbent",
    "incumbent_index",
    "log_validity_probability",
    "next_question",
    "recommend",
]

_PARTS = (
    "errors",
    "feedback",
    "likelihoods",
    "posteriors",
    "models",
    "acquisition",
    "asking",
)
"""Parts with these names, in the order in which one part imports another."""


def __getattr__(name: str) -> Any:
    """Imports a name when it is first used: imports take seconds."""
    if name in _PARTS:
        return import_module(f"{__name__}.{name}")
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    # One after the other: parts behind the one that has the name are not imported.
    parts = (import_module(f"{__name__}.{part}") for part in _PARTS)
    public_object = next(getattr(part, name) for part in parts if hasattr(part, name))
    globals()[name] = public_object
    return public_object


def __dir__() -> list[str]:
    return [*globals(), *__all__]
