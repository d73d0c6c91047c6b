"""What models with a Gaussian posterior have in common."""

from __future__ import annotations

from typing import Any, ClassVar, Protocol

from botorch.posteriors.gpytorch import GPyTorchPosterior
from torch import Tensor

from botorch_pref.inference.gaussian_result import GaussianResult
from botorch_pref.likelihoods.factors.factors import Factors
from botorch_pref.models.prediction import Moments, gaussian_posterior
from botorch_pref.models.preference_gp import PreferenceGP


class GaussianEngine(Protocol):
    """The signature of Laplace and EP."""

    def __call__(
        self,
        covar: Tensor,
        mean: Tensor,
        factors: Any,
        initial_sites: tuple[Tensor, Tensor] | None = None,
    ) -> GaussianResult:
        """See :func:`botorch_pref.inference.laplace.laplace`."""


class GaussianPreferenceGP(PreferenceGP):
    """A preference model whose engine approximates the posterior by a Gaussian."""

    _engine: ClassVar[GaussianEngine]

    def _infer(self, covar: Tensor, mean: Tensor, factors: Factors) -> GaussianResult:
        return type(self)._engine(covar, mean, factors, self._sites)

    def _make_posterior(self, moments: Moments) -> GPyTorchPosterior:
        return gaussian_posterior(moments)
