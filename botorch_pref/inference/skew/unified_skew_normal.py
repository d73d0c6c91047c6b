"""The exact engine, by draws of unified skew-normal posteriors."""

from __future__ import annotations

from typing import ClassVar, cast

import torch
from botorch.posteriors.posterior import Posterior

from botorch_pref.inference.engine import Engine
from botorch_pref.inference.ep.expectation_propagation import ExpectationPropagation
from botorch_pref.inference.skew.skew_solution import (
    SamplingSettings,
    SkewSolution,
    SkewStart,
)
from botorch_pref.inference.utility_prior import UtilityPrior
from botorch_pref.inference.warm_start import WarmStart
from botorch_pref.likelihoods.factors.box_factors import BoxFactors, MergedBoxFactors
from botorch_pref.likelihoods.factors.factors import Factors
from botorch_pref.posteriors.moments import Moments
from botorch_pref.posteriors.skew_normal_posterior import SkewNormalPosterior

# Chains run anew where fewer than this share of the draws is left.
_LEAST_SHARE = 0.25


class UnifiedSkewNormal(Engine):
    """Exact posteriors of boxed answers (Benavoli et al. 2021, theorem 1).

    Args:
        num_draws: Draws of the truncated ``v``.
        seed: Of the draws. Equal seeds give equal results; the global random state is
            neither read nor changed.
        exact_evidence: Whether the evidence is exact up to sampling error instead of
            that of expectation propagation.
    """

    takes: ClassVar = frozenset({BoxFactors})

    def __init__(
        self, num_draws: int = 1024, seed: int = 0, exact_evidence: bool = False
    ) -> None:
        self.settings = SamplingSettings(num_draws, seed, exact_evidence)

    def solve(
        self, prior: UtilityPrior, factors: Factors, start: WarmStart | None = None
    ) -> SkewSolution:
        """See base class.

        Draws depend on data and hyper-parameters, not on what was solved before: only a
        fit, which records gradients, starts from there.
        """
        boxes = cast("BoxFactors | MergedBoxFactors", factors)
        own = start if isinstance(start, SkewStart) else None
        if torch.is_grad_enabled():
            found = ExpectationPropagation().solve(prior, boxes, start)
        elif own is not None and self._goes_on(own):
            found = None
        else:
            found, own = ExpectationPropagation().solve(prior, boxes), None
        return SkewSolution(self.settings, prior, boxes, found, own)

    def _goes_on(self, start: SkewStart) -> bool:
        """Whether there are draws, and enough of them."""
        if start.draws is None:
            return False
        # A batch is sampled as a whole, so what its elements have left is averaged.
        size = float(start.draws.effective_sample_size.mean())
        return size >= _LEAST_SHARE * self.settings.num_draws

    def posterior(self, moments: Moments) -> Posterior:
        """See base class: a mixture over the draws."""
        return SkewNormalPosterior.from_moments(moments)
