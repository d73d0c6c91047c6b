"""Engine of unified skew-normal posteriors, with its solutions and their starts."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, ClassVar, Self, cast

import torch
from botorch.posteriors.posterior import Posterior
from torch import Tensor

from botorch_pref.inference.engine import (
    Engine,
    FurtherAnswers,
    PosteriorTerms,
    Solution,
    UtilityPrior,
    WarmStart,
    in_double,
    not_finite,
)
from botorch_pref.inference.ep import ExpectationPropagation
from botorch_pref.inference.gaussian_solution import GaussianSolution
from botorch_pref.inference.skew.posterior import (
    BoxProblem,
    ContinuedDraws,
    SkewResult,
    SkewTangent,
    continue_draws,
)
from botorch_pref.likelihoods.factors import BoxFactors, Factors, MergedBoxFactors
from botorch_pref.numerics.argument_checks import check_count
from botorch_pref.posteriors import Moments, SkewNormalPosterior


@dataclass(frozen=True)
class SkewStart(WarmStart):
    """A start of expectation propagation, and draws that go on from earlier ones.

    The draws are given all answers, under the hyper-parameters of the earlier solution;
    ``continued`` counts how many times they went on since those of chains.
    """

    draws: ContinuedDraws | None = None
    continued: int = 0

    def at_other_parameters(self) -> Self:
        """Keeps the sites alone."""
        return replace(self, draws=None)


@dataclass(frozen=True, eq=False)
class SkewSolution(Solution[PosteriorTerms]):
    """A unified skew-normal posterior, sampled at first use.

    ``ep_solution`` is that of expectation propagation, or None, where ``start`` has
    draws that make both it and chains unnecessary.
    """

    engine: UnifiedSkewNormal
    prior: UtilityPrior
    factors: BoxFactors | MergedBoxFactors
    ep_solution: GaussianSolution | None
    start: SkewStart | None = None

    @cached_property
    def approximation(self) -> GaussianSolution:
        """The solution of expectation propagation, found now where it is not known."""
        if self.ep_solution is not None:
            return self.ep_solution
        with torch.no_grad():
            return self.engine.approximation.solve(self.prior, self.factors)

    @cached_property
    def log_evidence(self) -> Tensor:
        """The log evidence, expectation propagation's unless ``exact_evidence``.

        That one is estimated from draws. Both have their gradient.
        """
        if not self.engine.exact_evidence:
            return self.approximation.log_evidence
        generator = self.engine.generator(self.prior.mean)
        evidence = self._problem.log_evidence(self.sampled, generator)
        return evidence.to(self.prior.covar)

    @property
    def _problem(self) -> BoxProblem:
        _, mean, covar = self.prior.in_double()
        return BoxProblem(covar, mean, in_double(self.factors))

    @cached_property
    def sampled(self) -> SkewResult:
        """Draws of new chains, which start at expectation propagation's solution."""
        generator = self.engine.generator(self.prior.mean)
        return self._problem.sample(
            self.approximation, self.engine.num_draws, generator
        )

    @cached_property
    def mixture(self) -> SkewResult:
        """The draws that prediction uses: those of ``start``, or of new chains.

        Beside an ``ep_solution``, as in a fit, those of ``start`` may have been drawn
        under other hyper-parameters.
        """
        if (
            self.ep_solution is not None
            or self.start is None
            or self.start.draws is None
        ):
            return self.sampled
        return self._problem.mixture(*self.start.draws)

    @cached_property
    def terms(self) -> PosteriorTerms:
        """The weights of draws, ``... x n x num_draws``, and their common root."""
        mixture, like = self.mixture, self.prior.covar
        weights, root = mixture.weights.to(like), mixture.factor.root().to(like)
        return PosteriorTerms(self.prior.points, weights, root)

    def diagnostics(self) -> dict[str, Any]:
        """See base class; with ``r_hat`` and ``effective_sample_size``.

        Both are those of the worst row; ``acceptance_rate`` and ``num_draws`` follow.
        An exact evidence has no ``evidence_error``, which is expectation propagation's.
        """
        entries = self.approximation.diagnostics()
        if self.engine.exact_evidence:
            entries["log_evidence"] = self.log_evidence.detach()
            del entries["evidence_error"]
        latent, size = self.mixture.latent, self.mixture.effective_sample_size
        return entries | {
            "converged": not self.failures
            and entries["converged"]
            and latent.converged,
            "r_hat": float(latent.r_hat.max()),
            "effective_sample_size": float(size.min()),
            "acceptance_rate": float(latent.acceptance_rate.min()),
            "num_draws": self.engine.num_draws,
        }

    @property
    def mean_error(self) -> float:
        """See base class."""
        of_draws = float(self.mixture.effective_sample_size.min()) ** -0.5
        return self.approximation.mean_error + of_draws

    @property
    def failures(self) -> tuple[str, ...]:
        """Sentences on what did not converge, of what was computed so far.

        To ask for them computes nothing: chains run when something is predicted.
        """
        failures = () if self.ep_solution is None else self.ep_solution.failures
        # Properties that are cached are here once they were asked for.
        computed = vars(self)
        exact = self.engine.exact_evidence and "log_evidence" in computed
        failures += not_finite(
            self.log_evidence if exact else None,
            self.mixture.weights if "mixture" in computed else None,
        )
        sampled = computed.get("sampled")
        if sampled is None or sampled.latent.converged:
            return failures
        size = float(sampled.latent.effective_sample_size.min())
        text = (
            f"did not converge: R-hat is {float(sampled.latent.r_hat.max()):.3f} and "
            f"the smallest effective sample size {size:.0f} of "
            f"{self.engine.num_draws} draws. Its means and variances are less exact "
            "than they claim."
        )
        return (*failures, text)

    def tangent(self, mean: Tensor) -> SkewTangent:
        """See base class."""
        mean, factors = in_double((mean, self.factors))
        return SkewTangent(factors, mean, self.approximation, self.mixture)

    def warm_start(self, further: FurtherAnswers | None = None) -> SkewStart:
        """Makes the start of a later solve: sites, and draws that go on if they can.

        They can where the moments of further answers are known, these are boxes that
        are not merged, and each row of all has a source: see :func:`.continue_draws`.
        """
        before = self.start
        if before is None:
            start = SkewStart(self.approximation.sites)
        elif self.ep_solution is None:
            start = before
        else:
            start = replace(before, sites=self.approximation.sites)
        if further is None:
            return start
        first = self.engine.approximation.initial_sites(further.factors)
        start = start.at_other_parameters().followed_by(further.sources, first)
        if further.moments is None or not isinstance(further.factors, BoxFactors):
            return start
        if not further.sources.complete:
            return start
        continued = start.continued + 1
        generator = self.engine.generator(self.prior.mean, offset=continued)
        moments = further.moments
        means, covariance, factors = in_double(
            (moments.means, moments.covariance, further.factors)
        )
        noise = self.factors.variance.double()
        draws = continue_draws(
            self.mixture, noise, means, covariance, factors, further.sources, generator
        )
        return replace(start, draws=draws, continued=continued)


# Chains run anew where fewer than this share of the draws is left.
_LEAST_SHARE = 0.25


@dataclass(frozen=True)
class UnifiedSkewNormal(Engine):
    """Exact posteriors of boxed answers (Benavoli et al. 2021, theorem 1).

    Attributes:
        num_draws: Draws of the truncated ``v``.
        seed: Of the draws. Equal seeds give equal results; the global random state is
            neither read nor changed.
        exact_evidence: Whether the evidence is exact up to sampling error instead of
            that of expectation propagation.
        approximation: Finds where draws start, and the approximate evidence.

    Raises:
        FeedbackError: The number of draws or the seed is none.
    """

    takes: ClassVar = frozenset({BoxFactors})

    num_draws: int = 1024
    seed: int = 0
    exact_evidence: bool = False
    approximation: ExpectationPropagation = field(
        default_factory=ExpectationPropagation
    )

    def __post_init__(self) -> None:
        check_count("num_draws", self.num_draws, at_least=1)
        check_count("seed", self.seed, at_least=0)

    def solve(
        self, prior: UtilityPrior, factors: Factors, start: WarmStart | None = None
    ) -> SkewSolution:
        """See base class.

        Draws of ``start`` are used if enough are left. Else the result depends on data
        and hyper-parameters alone: only a fit, which records gradients, starts from an
        earlier solution.
        """
        boxes = cast("BoxFactors | MergedBoxFactors", factors)
        skew_start = start if isinstance(start, SkewStart) else None
        # A fit; else draws that go on, or new chains.
        if torch.is_grad_enabled():
            approximation = self.approximation.solve(prior, boxes, start)
        elif skew_start is not None and self._goes_on(skew_start):
            approximation = None
        else:
            approximation, skew_start = self.approximation.solve(prior, boxes), None
        return SkewSolution(self, prior, boxes, approximation, skew_start)

    @property
    def of_evidence(self) -> Engine:
        """See base class."""
        return self if self.exact_evidence else self.approximation

    def generator(self, like: Tensor, offset: int = 0) -> torch.Generator:
        """Makes a source of randomness, of a seed that ``offset`` changes."""
        return torch.Generator(device=like.device).manual_seed(self.seed + offset)

    def _goes_on(self, start: SkewStart) -> bool:
        """Tells whether there are draws, and enough of them, to run no chains.

        An effective size of a quarter of `num_draws` is enough.
        """
        if start.draws is None:
            return False
        # A batch is sampled as a whole, so what its elements have left is averaged.
        size = float(start.draws.effective_sample_size.mean())
        return size >= _LEAST_SHARE * self.num_draws

    def posterior(self, moments: Moments) -> Posterior:
        """See base class: a mixture over the draws."""
        return SkewNormalPosterior.from_moments(moments)
