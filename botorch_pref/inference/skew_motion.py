r"""How draws of an exact posterior move with the prior, to first order.

Given a draw of ``v``, utilities are a Gaussian process regression on it: its weights
:math:`w_s = A' \Gamma^{-1} (v_s - A m)` and the precision :math:`M = A' \Gamma^{-1} A`
change by

.. math:: \partial w_s = -M (dm + dK w_s), \qquad dM = -M \, dK M .

The draws themselves are of a truncated Gaussian, whose boxes stay and whose log density
changes by, up to what is the same for all,

.. math:: \ell_s = \tfrac12 w_s' dK w_s + w_s' dm .

Draws of equal weight cannot be weighted by :math:`(1 + \ell_s - \bar\ell) / S`. They
are moved instead, by the affine map that gives them the mean and the covariance of
the weighted ones.
"""

from __future__ import annotations

import torch
from torch import Tensor

from botorch_pref.inference.posterior_motion import TermsChange
from botorch_pref.inference.skew_gaussian import SkewResult


class SkewMotion:
    r"""The motion of the draws behind an exact posterior.

    Posterior means and covariances get the gradient of the importance-weighted
    estimates with the same draws, exactly: it is unbiased, but for the sampling error.
    Higher moments, and with them probabilities, move as in an affine map, which leaves
    skewness as it is.

    With the centred weights :math:`\tilde W`, whose right singular vectors are ``V``,
    the map is :math:`\tfrac1S \tilde W \ell 1' + \tfrac12 \tilde W
    \mathrm{diag}(\ell - \bar\ell) V V'`, in which nothing is inverted.

    Args:
        result: The draws.
    """

    def __init__(self, result: SkewResult) -> None:
        self._weights, self._precision = result.weights, result.factor.precision()
        w = self._weights
        self._centred = w - w.mean(-1, keepdim=True)
        _, spread, right = torch.linalg.svd(self._centred, full_matrices=False)
        floor = max(w.shape[-2:]) * torch.finfo(w.dtype).eps
        real = spread > floor * spread[..., :1]
        self._right = right * real.unsqueeze(-1)

    def __call__(self, covar: Tensor, mean: Tensor) -> TermsChange:
        """See :class:`botorch_pref.inference.posterior_motion.PosteriorMotion`."""
        covar, mean = covar - covar.detach(), (mean - mean.detach()).unsqueeze(-1)
        w, precision = self._weights, self._precision
        pulled = covar @ w
        score = (w * (0.5 * pulled + mean)).sum(-2, keepdim=True)
        weighted = self._centred * (score - score.mean(-1, keepdim=True))
        shift = weighted.mean(-1, keepdim=True)
        stretch = 0.5 * (weighted @ self._right.mT) @ self._right
        own = -precision @ (mean + pulled)
        return TermsChange(own + shift + stretch, -precision @ covar @ precision)
