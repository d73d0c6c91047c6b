"""The one predictive equation of all engines."""

from __future__ import annotations

from gpytorch.kernels import Kernel
from gpytorch.means import Mean
from torch import Tensor

from botorch_pref.inference.posterior_terms import PosteriorTerms
from botorch_pref.linalg.batched_product import batched_product
from botorch_pref.linalg.dense_covariance import dense_covariance
from botorch_pref.posteriors.moments import Moments
from botorch_pref.posteriors.weighted_moments import WeightedMoments


def _cross_covariance(kernel: Kernel, x: Tensor, points: Tensor) -> Tensor:
    """``K(x, X)``, ``batch_shape x q x n``.

    Without model batches all t-batches go through the kernel as one matrix: fifty times
    less memory than the copies of ``X`` that a batched call makes.
    """
    if points.dim() == 2 and not kernel.batch_shape:
        flat = dense_covariance(kernel, x.reshape(-1, x.shape[-1]), points)
        return flat.reshape(*x.shape[:-1], points.shape[-2])
    return dense_covariance(kernel, x, points)


def predict(
    mean: Mean, kernel: Kernel, terms: PosteriorTerms | None, x: Tensor
) -> Moments:
    r"""Means and covariance of utilities anywhere.

    .. math:: m(x) + k w, \qquad K_{**} - (k Q)(k Q)^T + (k P)(k P)^T

    Args:
        mean: The prior mean.
        kernel: The prior covariance.
        terms: Of the posterior; None for the prior itself.
        x: ``batch_shape x q x d``, transformed.

    Returns:
        The moments of utilities at ``x``.
    """
    prior_mean, prior_covariance = mean(x), dense_covariance(kernel, x)
    if terms is None:
        return Moments(prior_mean.unsqueeze(0), prior_covariance)
    k = _cross_covariance(kernel, x, terms.points)
    explained = batched_product(k, terms.root)
    covariance = prior_covariance - explained @ explained.mT
    if terms.widening is not None:
        widened = batched_product(k, terms.widening)
        covariance = covariance + widened @ widened.mT
    if terms.precision_change is not None:
        covariance = covariance - k @ terms.precision_change @ k.mT
    if terms.weights.shape[-1] > 1:
        return WeightedMoments(prior_mean, k, terms.draws, covariance)
    shift = batched_product(k, terms.weights).movedim(-1, 0)
    return Moments(prior_mean + shift, covariance)
