"""Engines: posteriors and evidences of utilities, on tensors and never on models."""

from botorch_pref.inference.derivatives.posterior_tangent import (
    PosteriorTangent,
    TermsChange,
)
from botorch_pref.inference.engine import Engine
from botorch_pref.inference.ep.expectation_propagation import ExpectationPropagation
from botorch_pref.inference.gaussian_solution import GaussianSolution
from botorch_pref.inference.laplace import Laplace
from botorch_pref.inference.posterior_terms import PosteriorTerms
from botorch_pref.inference.skew.unified_skew_normal import UnifiedSkewNormal
from botorch_pref.inference.solution import Solution
from botorch_pref.inference.utility_prior import UtilityPrior
from botorch_pref.inference.variational.variational import VariationalBound
from botorch_pref.inference.warm_start import FurtherAnswers, Sites, WarmStart

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
