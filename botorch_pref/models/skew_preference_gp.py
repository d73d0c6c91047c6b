"""Preference learning with the exact posterior."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any, ClassVar, Self, cast

import torch
from botorch.models.transforms.input import InputTransform
from gpytorch.kernels import Kernel
from gpytorch.means import Mean
from torch import Tensor

from botorch_pref.errors import InferenceWarning
from botorch_pref.feedback import Comparisons, Feedback
from botorch_pref.inference.derivatives.posterior_tangent import PosteriorTangent
from botorch_pref.inference.derivatives.skew_tangent import SkewTangent
from botorch_pref.inference.ep.expectation_propagation import expectation_propagation
from botorch_pref.inference.gaussian_result import GaussianResult
from botorch_pref.inference.skew.ghk_update import ContinuedDraws, continue_draws
from botorch_pref.inference.skew.skew_gaussian import (
    SkewResult,
    exact_log_evidence,
    skew_gaussian,
    skew_mixture,
)
from botorch_pref.likelihoods.factors.box_factors import (
    BoxFactors,
    CorrelatedBoxFactors,
)
from botorch_pref.likelihoods.factors.factors import Factors
from botorch_pref.likelihoods.factors.joint_factors import joint_factors
from botorch_pref.likelihoods.resolve import LikelihoodArgument
from botorch_pref.models.data.training_set import TrainingSet
from botorch_pref.models.prediction import Moments, PosteriorTerms
from botorch_pref.models.preference_gp import PreferenceGP
from botorch_pref.models.registry import register_model
from botorch_pref.posteriors.skew_normal_posterior import SkewNormalPosterior

# Chains run anew where fewer than this share of the draws is left.
_LEAST_SHARE = 0.25


@register_model("skew")
class SkewPreferenceGP(PreferenceGP):
    r"""A preference model with the exact, unified skew-normal posterior.

    Skew Gaussian processes (Benavoli et al. 2021) for every boxed kind of feedback.
    What the answers leave open is sampled once per fit, ``num_draws`` draws of the
    truncated ``v``; given them the posterior anywhere is a mixture of Gaussians in
    closed form, smooth in ``x``.

    Hyper-parameters maximise EP's evidence, which is within 0.3 nats of the exact one,
    or the exact evidence with ``exact_evidence=True``, which samples at every step.

    Args:
        datapoints: ``batch_shape x n x d``; None for a model of the prior alone.
        comparisons: ``batch_shape x m x 2`` integers into ``datapoints``, winner first.
        feedback: Other answers, at most one container of a kind.
        likelihood: A likelihood instead of the default of its kind of feedback, or a
            mapping from kinds to likelihoods.
        mean_module: The prior mean; see :class:`PreferenceGP`.
        covar_module: The kernel; see :class:`PreferenceGP`.
        input_transform: Applied to all inputs.
        num_draws: Draws of ``v``. Means carry a sampling error of at most one posterior
            standard deviation over the square root of it.
        seed: Of the draws. Equal seeds give equal results; the global random state is
            neither read nor changed.
        exact_evidence: Whether ``log_evidence`` is exact up to sampling error (value by
            bridge sampling, gradient by Fisher's identity) instead of EP's.
    """

    takes: ClassVar = frozenset({BoxFactors, CorrelatedBoxFactors})

    def __init__(
        self,
        datapoints: Tensor | None = None,
        comparisons: Tensor | Comparisons | None = None,
        *,
        feedback: Sequence[Feedback] = (),
        likelihood: LikelihoodArgument = None,
        mean_module: Mean | None = None,
        covar_module: Kernel | None = None,
        input_transform: InputTransform | None = None,
        num_draws: int = 1024,
        seed: int = 0,
        exact_evidence: bool = False,
    ) -> None:
        super().__init__(
            datapoints,
            comparisons,
            feedback=feedback,
            likelihood=likelihood,
            mean_module=mean_module,
            covar_module=covar_module,
            input_transform=input_transform,
        )
        self._num_draws, self._seed = num_draws, seed
        self.exact_evidence = exact_evidence
        self._skew: SkewResult | None = None
        self._continued: ContinuedDraws | None = None

    def _infer(self, covar: Tensor, mean: Tensor, factors: Factors) -> GaussianResult:
        boxes = cast("BoxFactors", factors)
        # Draws depend on data and hyper-parameters, not on what was solved before: only
        # a fit, which records gradients, starts from there.
        start = self._sites if torch.is_grad_enabled() else None
        return expectation_propagation(covar, mean, boxes, start)

    def _generator(self, offset: int = 0) -> torch.Generator:
        device = self.train_inputs[0].device
        return torch.Generator(device=device).manual_seed(self._seed + offset)

    def _sample(self, approximation: GaussianResult) -> SkewResult:
        prior = self._prior(self._points())
        result = skew_gaussian(
            prior.covariance_matrix,
            prior.mean,
            cast("BoxFactors", self._factors()),
            approximation,
            self._num_draws,
            self._generator(),
        )
        if not result.latent.converged:
            size = float(result.latent.effective_sample_size.min())
            warnings.warn(
                f"SkewPreferenceGP did not converge: R-hat is "
                f"{float(result.latent.r_hat.max()):.3f} and the smallest effective "
                f"sample size {size:.0f} of {self._num_draws} draws. Its means and "
                "variances are less exact than they claim.",
                InferenceWarning,
                stacklevel=3,
            )
        return result

    def log_evidence(self) -> Tensor:
        """See base class; EP's evidence, or the exact one with ``exact_evidence``."""
        approximation = self._solve()
        if not self.exact_evidence:
            return approximation.log_evidence
        prior = self._prior(self._points())
        return exact_log_evidence(
            prior.covariance_matrix,
            prior.mean,
            cast("BoxFactors", self._factors()),
            approximation,
            self._sample(approximation),
            self._generator(),
        )

    def _forget(self) -> None:
        super()._forget()
        self._continued = None

    def _hand_on(self, new: Self, more: TrainingSet, sources: Tensor) -> None:
        super()._hand_on(new, more, sources)
        if self.training or self._terms is None:
            return
        with torch.no_grad():
            moments = self._moments(more.datapoints)
        new._continued = continue_draws(
            cast("SkewResult", self._skew),
            *moments,
            cast("BoxFactors", joint_factors(self._factor_blocks(more))),
            sources,
            # Numbers that no earlier answer has used.
            self._generator(sources.shape[-1]),
        )

    def _compute_terms(self) -> PosteriorTerms:
        """See base class; without EP where draws go on from earlier ones."""
        draws = self._continued
        if draws is None or self._has_changed:
            return super()._compute_terms()
        # A batch is sampled as a whole, so what its elements have left is averaged.
        if float(draws.effective_sample_size.mean()) < _LEAST_SHARE * self._num_draws:
            return super()._compute_terms()
        prior = self._prior(self._points())
        boxes = cast("BoxFactors", self._factors())
        self._result = None
        return self._mixture_terms(
            skew_mixture(prior.covariance_matrix, prior.mean, boxes, *draws)
        )

    def _terms_of(self, result: GaussianResult) -> PosteriorTerms:
        return self._mixture_terms(self._sample(result))

    def _mixture_terms(self, skew: SkewResult) -> PosteriorTerms:
        self._skew = skew
        return PosteriorTerms(self._points(), skew.weights, skew.factor.root())

    def _motion_of(self, mean: Tensor) -> PosteriorTangent:
        return SkewTangent(
            cast("BoxFactors", self._factors()),
            mean,
            self._known_result(),
            cast("SkewResult", self._skew),
        )

    def diagnostics(self) -> dict[str, Any]:
        """See base class.

        Returns:
            Besides what EP says: ``r_hat`` and ``effective_sample_size`` of the worst
            row, ``acceptance_rate`` and ``num_draws``.
        """
        known = super().diagnostics()
        if self._skew is None:
            return known
        latent, size = self._skew.latent, self._skew.effective_sample_size
        return known | {
            "converged": known["converged"] and latent.converged,
            "r_hat": float(latent.r_hat.max()),
            "effective_sample_size": float(size.min()),
            "acceptance_rate": float(latent.acceptance_rate.min()),
            "num_draws": self._num_draws,
        }

    def _make_posterior(self, moments: Moments) -> SkewNormalPosterior:
        return SkewNormalPosterior(moments.means, moments.covariance)
