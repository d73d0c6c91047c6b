"""The solution of engines whose posterior is a Gaussian with sites."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

from torch import Tensor

from botorch_pref.inference.engine import Engine
from botorch_pref.inference.gaussian_result import GaussianResult
from botorch_pref.inference.gaussian_tangent import GaussianTangent
from botorch_pref.inference.posterior_terms import PosteriorTerms
from botorch_pref.inference.solution import Solution
from botorch_pref.inference.utility_prior import UtilityPrior
from botorch_pref.inference.warm_start import FurtherAnswers, Sites, WarmStart

# In posterior standard deviations, of which a hundredth is never missed.
_MOST_ROUNDING = 1e-2


@dataclass(frozen=True, eq=False)
class GaussianSolution(Solution[PosteriorTerms]):
    """A Gaussian posterior, in terms of sites on rows of utilities.

    Attributes:
        engine: What found it.
        prior: What it was found from.
        result: The numbers.
    """

    engine: Engine
    prior: UtilityPrior
    result: GaussianResult

    @property
    def log_evidence(self) -> Tensor:
        """See base class."""
        return self.result.log_evidence

    @cached_property
    def terms(self) -> PosteriorTerms:
        """See base class."""
        result = self.result
        return PosteriorTerms(
            self.prior.points,
            result.weights.unsqueeze(-1),
            result.factor.root(),
            result.factor.widening(),
        )

    @property
    def sites(self) -> Sites:
        """The sites, where the engine may start again."""
        return Sites(self.result.site_precision, self.result.site_shift)

    def diagnostics(self) -> dict[str, Any]:
        """See base class."""
        return {
            "converged": not self.failures,
            "iterations": self.result.iterations,
            "residual": self.result.residual,
            "rounding": self.result.rounding,
            "log_evidence": self.log_evidence.detach(),
        }

    @property
    def failures(self) -> tuple[str, ...]:
        """See base class."""
        known = self.result
        text = (
            f"did not converge: after {known.iterations} iterations the residual is "
            f"{known.residual:.1e} posterior standard deviations. Check for extreme "
            "noise or output scale."
        )
        stopped = () if known.converged else (text,)
        lost = (
            "did not converge: its digits are gone. Answers are so precise beside the "
            f"prior that rounding in {self.prior.covar.dtype} may move the posterior "
            f"by {known.rounding:.1e} posterior standard deviations. Use double "
            "precision, a larger noise or a smaller output scale."
        )
        rounded = () if known.rounding <= _MOST_ROUNDING else (lost,)
        finite = self.evidence_failures(self.log_evidence)
        finite = finite or self.weight_failures(known.weights)
        return stopped + rounded + finite

    def tangent(self, mean: Tensor) -> GaussianTangent:
        """See base class."""
        return GaussianTangent(mean, self.result)

    def warm_start(self, further: FurtherAnswers | None = None) -> WarmStart:
        """See base class."""
        start = WarmStart(self.sites)
        if further is None:
            return start
        first = self.engine.initial_sites(further.factors, further.moments)
        return start.followed_by(further.sources, first)
