"""The one predictive equation of all engines."""

from __future__ import annotations

from typing import NamedTuple

import torch
from botorch.posteriors.gpytorch import GPyTorchPosterior
from gpytorch.kernels import Kernel
from gpytorch.means import Mean
from torch import Tensor

from botorch_pref.linalg.semidefinite_operator import SemidefiniteLinearOperator
from botorch_pref.posteriors.semidefinite_normal import SemidefiniteNormal


class Moments(NamedTuple):
    """Posterior means and the covariance around them at some points.

    Attributes:
        means: ``s x batch_shape x q``, one row a draw; ``s = 1`` for a Gaussian.
        covariance: ``batch_shape x q x q``, shared by the draws.
    """

    means: Tensor
    covariance: Tensor


class PosteriorTerms(NamedTuple):
    """What prediction needs of a posterior; computed once.

    Attributes:
        points: ``X``, ``batch_shape x n x d``, transformed.
        weights: ``w``, ``batch_shape x n x s``, one column a draw; ``s = 1`` for a
            Gaussian.
        root: ``Q``, ``batch_shape x n x r``.
        widening: ``P``, ``batch_shape x n x p``, where answers of factors that are not
            log-concave make the posterior wider; mostly None.
        precision_change: ``dM``, ``batch_shape x n x n``, zero in value: carries the
            derivatives of ``Q Q' - P P'``; None where there are none.
    """

    points: Tensor
    weights: Tensor
    root: Tensor
    widening: Tensor | None = None
    precision_change: Tensor | None = None


def _cross_covariance(kernel: Kernel, x: Tensor, points: Tensor) -> Tensor:
    """``K(x, X)``, ``batch_shape x q x n``.

    Without model batches all t-batches go through the kernel as one matrix: fifty times
    less memory than the copies of ``X`` that a batched call makes.
    """
    if points.dim() == 2 and not kernel.batch_shape:
        flat = kernel(x.reshape(-1, x.shape[-1]), points).to_dense()
        return flat.reshape(*x.shape[:-1], points.shape[-2])
    return kernel(x, points).to_dense()


def _times(k: Tensor, matrix: Tensor) -> Tensor:
    """``k @ matrix``, for a batch of models without a copy for each t-batch."""
    if matrix.dim() != 3 or k.dim() < 4:
        return k @ matrix
    return torch.einsum("...sqn,snr->...sqr", k, matrix)


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
    prior_mean, prior_covariance = mean(x), kernel(x).to_dense()
    if terms is None:
        return Moments(prior_mean.unsqueeze(0), prior_covariance)
    k = _cross_covariance(kernel, x, terms.points)
    shift = _times(k, terms.weights).movedim(-1, 0)
    explained = _times(k, terms.root)
    covariance = prior_covariance - explained @ explained.mT
    if terms.widening is not None:
        widened = _times(k, terms.widening)
        covariance = covariance + widened @ widened.mT
    if terms.precision_change is not None:
        covariance = covariance - k @ terms.precision_change @ k.mT
    return Moments(prior_mean + shift, covariance)


def contrast(moments: Moments, q: int) -> Moments:
    """Moments of the first ``q`` points minus the rest.

    Args:
        moments: Of ``q`` points followed by one reference for all or one each.
        q: How many points there are before the references.

    Returns:
        The moments of ``q`` differences.
    """
    means, c = moments
    cross = c[..., :q, q:]
    covariance = c[..., :q, :q] - cross - cross.mT + c[..., q:, q:]
    return Moments(means[..., :q] - means[..., q:], covariance)


def gaussian_posterior(moments: Moments) -> GPyTorchPosterior:
    """A Gaussian as BoTorch's posterior.

    Args:
        moments: Of one component.
    """
    # An operator, because a tensor is factored at once, needed or not.
    covariance = SemidefiniteLinearOperator(moments.covariance)
    return GPyTorchPosterior(SemidefiniteNormal(moments.means[0], covariance))
