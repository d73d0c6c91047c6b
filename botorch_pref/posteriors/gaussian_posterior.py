"""Gaussian moments as BoTorch's posterior."""

from __future__ import annotations

from botorch.posteriors.gpytorch import GPyTorchPosterior

from botorch_pref.linalg.semidefinite_operator import SemidefiniteLinearOperator
from botorch_pref.posteriors.moments import Moments
from botorch_pref.posteriors.semidefinite_normal import SemidefiniteNormal


def gaussian_posterior(moments: Moments) -> GPyTorchPosterior:
    """A Gaussian posterior of utilities.

    Args:
        moments: Of one component.
    """
    # An operator, because a tensor is factored at once, needed or not.
    covariance = SemidefiniteLinearOperator(moments.covariance)
    return GPyTorchPosterior(SemidefiniteNormal(moments.mean, covariance))
