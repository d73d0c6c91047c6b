"""Digits of a posterior that rounding takes."""

from __future__ import annotations

import torch
from torch import Tensor

from botorch_pref.inference.conditioning.site_solver import (
    Balance,
    SitePosterior,
    SiteSolver,
)
from botorch_pref.linalg.sparse_design import SparseDesign

# Below this share of a posterior variance the exact value is of no interest.
_NEGLIGIBLE = 1e-4


@torch.no_grad()
def lost_digits(
    solver: SiteSolver, posterior: SitePosterior, balance: Balance
) -> float:
    r"""Rounding errors of a posterior at the worst row, in posterior deviations.

    The largest of three.

    .. math::
        \max_i \epsilon \, c_i \, \frac{1 - \Sigma_{ii} / C_{ii}}
        {\Sigma_{ii} + (1 - C_{ii} / c_i) / t},

    where :math:`c_i` is the sum of the prior variances that cancel in :math:`C_{ii}`,
    and ``t`` the largest precision of all answers about one point together. A
    prediction :math:`K_{**} - k A' W A k'` is off by about this share of itself,
    whatever the algorithm, since the prior covariance itself is known to rounding only.
    The second term in the denominator is for near-copies: a difference that the answers
    cannot tell from zero need not be known to its own scale.

    A mean is a sum over points too, of terms that may be far larger than it where
    answers about near points contradict each other:
    :math:`\epsilon \, (|A| |K| |w|)_i`, over the root of the same denominator. And
    weights ``w`` that could not be solved for miss the means that the sites ask for,
    by :math:`(A K w - E[u])_i`.

    Args:
        solver: Of prior and rows.
        posterior: Conditioned on the answers.
        balance: Of the sites' shifts with the prior.

    Returns:
        It, or an upper bound where that is negligible.
    """
    eps, prior = torch.finfo(posterior.tau.dtype).eps, solver.variance
    tau = posterior.tau.clamp_min(0.0)
    sharpest = solver.squares.adjoint(tau).amax(-1, keepdim=True)
    sharpest = sharpest.clamp_min(torch.finfo(tau.dtype).tiny)
    left = posterior.variance().maximum(solver.rounding_given(tau))
    blur = (1 - prior / solver.terms).clamp_min(0.0) / sharpest
    of_means = _rounding_of_means(solver, balance) / (left + blur).sqrt()
    # A point and its copy differ by nothing, whatever the sums are.
    means = float(torch.where(prior > 0, of_means, 0.0).max())
    # C_ii / Sigma_ii is at most one more than the largest eigenvalue of C T.
    largest = (tau * prior.clamp_min(0.0)).sum(-1, keepdim=True)
    bound = 2 * eps * float(torch.maximum(largest, sharpest * solver.terms).max())
    if bound <= _NEGLIGIBLE:
        return max(bound, means)
    lost = solver.terms * (1 - left / prior).clamp_min(0.0) / (left + blur)
    return max(means, eps * float(torch.where(solver.resolved, lost, 0.0).max()))


def _rounding_of_means(solver: SiteSolver, balance: Balance) -> Tensor:
    """Rounding errors of the rows' means as they are predicted, ``batch_shape x m``."""
    missed = solver.predict(balance.forces, balance.weights) - balance.moved
    sums = (solver.covar.abs() @ balance.weights.abs().unsqueeze(-1)).squeeze(-1)
    rows = SparseDesign(
        solver.rows.indices, solver.rows.coefficients.abs(), solver.rows.num_points
    )
    eps = torch.finfo(sums.dtype).eps
    return missed.abs().maximum(eps * rows.apply(sums))
