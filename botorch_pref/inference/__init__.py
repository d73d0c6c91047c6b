"""Engines: posteriors and evidences of utilities, on tensors and never on models."""

from botorch_pref.inference.engine import (
    Engine,
    FurtherAnswers,
    PosteriorTangent,
    PosteriorTerms,
    Sites,
    Solution,
    TermsChange,
    UtilityPrior,
    WarmStart,
)
from botorch_pref.inference.ep import ExpectationPropagation
from botorch_pref.inference.gaussian_solution import GaussianSolution
from botorch_pref.inference.laplace import Laplace
from botorch_pref.inference.skew.unified_skew_normal import UnifiedSkewNormal
from botorch_pref.inference.variational import VariationalBound

__all__ = [
    "Engine",
    "ExpectationPropagation",
    "FurtherAnswers",
    "GaussianSolution",
    "Laplace",
    "PosteriorTangent",
    "PosteriorTerms",
    "Sites",
    "Solution",
    "TermsChange",
    "UnifiedSkewNormal",
    "UtilityPrior",
    "VariationalBound",
    "WarmStart",
]
