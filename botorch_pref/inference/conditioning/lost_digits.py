"""Digits of a posterior that the rounding of its prior covariance takes."""

from __future__ import annotations

import torch

from botorch_pref.inference.conditioning.site_solver import SitePosterior, SiteSolver

# Below this share of a posterior variance the exact value is of no interest.
_NEGLIGIBLE = 1e-4


@torch.no_grad()
def lost_digits(solver: SiteSolver, posterior: SitePosterior) -> float:
    r"""Rounding of prior variances beside what answers leave of them, at the worst row.

    .. math::
        \max_i \epsilon \, c_i \, \frac{1 - \Sigma_{ii} / C_{ii}}
        {\Sigma_{ii} + (1 - C_{ii} / c_i) / \max_j \tau_j},

    where :math:`c_i` is the sum of the prior variances that cancel in :math:`C_{ii}`. A
    prediction :math:`K_{**} - k A' W A k'` is off by about this share of itself and a
    mean by at most about as many posterior standard deviations, whatever the algorithm,
    since the prior covariance itself is known to rounding only. The second term in the
    denominator is for near-copies: a difference that no answer can tell from zero need
    not be known to its own scale.

    Args:
        solver: Of prior and rows.
        posterior: Conditioned on the answers.

    Returns:
        It, or an upper bound where that is negligible.
    """
    eps, prior = torch.finfo(posterior.tau.dtype).eps, solver.variance
    tau = posterior.tau.clamp_min(0.0)
    sharpest = tau.amax(-1, keepdim=True).clamp_min(torch.finfo(tau.dtype).tiny)
    # C_ii / Sigma_ii is at most one more than the largest eigenvalue of C T.
    largest = (tau * prior.clamp_min(0.0)).sum(-1, keepdim=True)
    bound = 2 * eps * float(torch.maximum(largest, sharpest * solver.terms).max())
    if bound <= _NEGLIGIBLE:
        return bound
    left = posterior.variance().maximum(solver.rounding_given(tau))
    blur = (1 - prior / solver.terms).clamp_min(0.0) / sharpest
    lost = solver.terms * (1 - left / prior).clamp_min(0.0) / (left + blur)
    return eps * float(torch.where(solver.resolved, lost, 0.0).max())
