"""Points of a group of raters, and moments of its utility without those of each."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial, reduce
from typing import NamedTuple, Self

import torch
from gpytorch.kernels import Kernel, ProductKernel
from gpytorch.means import Mean
from torch import Tensor
from torch.nn.functional import pad

from botorch_pref.errors import FeedbackError
from botorch_pref.inference.engine import PosteriorTerms, conditioned, cross_covariance
from botorch_pref.linalg.covariance import dense_covariance
from botorch_pref.posteriors.gaussian import Moments


class RaterProduct(NamedTuple):
    """Factors of a kernel of stimuli and raters, one or more of each."""

    of_stimuli: list[Kernel]
    of_raters: list[Kernel]

    @classmethod
    def of(cls, kernel: Kernel, num_stimulus: int) -> Self | None:
        """Splits a product; None where a factor depends on both, or on any columns.

        Args:
            kernel: Of points, the rater's columns last.
            num_stimulus: Number of columns of a stimulus.
        """
        parts = cls([], [])
        for factor in _factors(kernel):
            if factor.active_dims is None:
                return None
            is_of_rater = factor.active_dims >= num_stimulus
            if bool(is_of_rater.any()) and not bool(is_of_rater.all()):
                return None
            (parts.of_raters if is_of_rater.all() else parts.of_stimuli).append(factor)
        return parts if all(parts) else None


def _factors(kernel: Kernel) -> list[Kernel]:
    if not isinstance(kernel, ProductKernel) or kernel.active_dims is not None:
        return [kernel]
    return [factor for part in kernel.kernels for factor in _factors(part)]


def predict_group(
    mean: Mean,
    kernel: RaterProduct,
    terms: PosteriorTerms | None,
    X: Tensor,
    raters: Tensor,
    weights: Tensor,
) -> Moments:
    r"""Predicts moments of a weighted sum of raters' utilities.

    A product :math:`k(x, x') \, k(u, u')` sums over raters by itself,

    .. math:: \operatorname{cov}\Big(\sum_r w_r f(x, u_r), \sum_r w_r f(x', u_r)\Big)
        = k(x, x') \sum_{r, s} w_r w_s \, k(u_r, u_s),

    and so do covariances with the points of answers. So there is no covariance of all
    ``q R`` utilities, which of thousands is too large.

    Args:
        mean: Of the prior.
        kernel: Factors of its covariance.
        terms: See :func:`~botorch_pref.inference.engine.predict`.
        X: Stimuli, ``batch_shape x q x d``.
        raters: Columns of each rater behind a stimulus, ``R x r``.
        weights: ``batch_shape x R``.
    """
    num_raters = len(raters)
    # Factors select columns of points: others are those of any rater, and zeros.
    stimuli = at_raters(X, raters[:1])
    people = pad(raters.to(X), (X.shape[-1], 0))
    of_each = mean(at_raters(X, raters)).unflatten(-1, (-1, num_raters))
    prior_mean = (of_each * weights.unsqueeze(-2)).sum(-1)
    rows, columns = weights.unsqueeze(-2), weights.unsqueeze(-1)
    total = rows @ _product(dense_covariance, kernel.of_raters, people) @ columns
    prior = total * _product(dense_covariance, kernel.of_stimuli, stimuli)
    if terms is None:
        return Moments(prior_mean.unsqueeze(0), prior)
    with_points = partial(_cross, points=terms.points)
    shares = rows @ _product(with_points, kernel.of_raters, people)
    cross = shares * _product(with_points, kernel.of_stimuli, stimuli)
    return conditioned(prior_mean, prior, cross, terms)


def _cross(kernel: Kernel, x: Tensor, points: Tensor) -> Tensor:
    return cross_covariance(kernel, x, points)


def _product(
    covariance: Callable[[Kernel, Tensor], Tensor], factors: Sequence[Kernel], x: Tensor
) -> Tensor:
    """Multiplies covariances under all factors, element by element."""
    return reduce(Tensor.mul, (covariance(factor, x) for factor in factors))


def at_raters(X: Tensor, raters: Tensor) -> Tensor:
    """Repeats every stimulus for each rater, ``batch_shape x (q R) x (d + r)``.

    All raters of the first stimulus come first, and so on: callers split the ``q R``
    into ``q x R``. The raters' columns stand behind the stimulus.
    """
    columns = rater_columns(raters).to(X)
    shape = (*X.shape[:-1], len(columns))
    stimuli = X.unsqueeze(-2).expand(*shape, X.shape[-1])
    points = torch.cat([stimuli, columns.expand(*shape, columns.shape[-1])], dim=-1)
    return points.flatten(-3, -2)


def rater_columns(raters: Tensor) -> Tensor:
    """Returns the columns of each rater, ``R x r``; numbers, ``R``, are one column."""
    if not isinstance(raters, Tensor):
        raise FeedbackError(
            f"raters is a {type(raters).__name__}; give a tensor, such as "
            "torch.arange(3), and their names, where they are taken, as names=."
        )
    return raters.unsqueeze(-1) if raters.dim() == 1 else raters
