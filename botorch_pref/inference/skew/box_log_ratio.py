r"""Log ratio of boxed factors to the Gaussian sites that stand in for them."""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from botorch.utils.probability.utils import log_ndtr
from torch import Tensor

from botorch_pref.numerics.normal import hazard, interval_derivatives

LogRatio = Callable[[Tensor], tuple[Tensor, Tensor]]

_LOG_2 = math.log(2.0)
_SQRT_HALF = math.sqrt(0.5)
_SQRT_2_OVER_PI = math.sqrt(2.0 / math.pi)


def _log_ndtr_and_hazard(x: Tensor, floor: float) -> tuple[Tensor, Tensor]:
    """``log Phi`` and its derivative; above ``floor`` at a tenth of the tail's cost."""
    if bool((x < floor).any()):
        return log_ndtr(x), hazard(x)
    twice = torch.erfc(-_SQRT_HALF * x)
    density = (-0.5 * x.square()).exp_()
    return twice.log() - _LOG_2, density.div_(twice).mul_(_SQRT_2_OVER_PI)


def box_log_ratio(
    variance: Tensor, lower: Tensor, upper: Tensor, nu: Tensor, tau: Tensor
) -> LogRatio:
    r"""The log ratio of boxed factors to their Gaussian sites, and its gradient.

    .. math::
        \ell(z) = \sum_i \log\Big[\Phi\Big(\frac{u_i - z_i}{\sqrt{r_i}}\Big)
        - \Phi\Big(\frac{l_i - z_i}{\sqrt{r_i}}\Big)\Big]
        - \nu_i z_i + \tfrac12 \tau_i z_i^2

    Args:
        variance: ``r``, ``batch_shape x m``, positive.
        lower: ``l``, ``batch_shape x m``, ``-inf`` for none.
        upper: ``u``, ``batch_shape x m``, ``inf`` for none.
        nu: Site shifts, ``batch_shape x m``.
        tau: Site precisions, ``batch_shape x m``.

    Returns:
        A function from ``z``, ``num_chains x batch_shape x m``, to the pair of
        :math:`\ell`, ``num_chains x batch_shape``, and its gradient, like ``z``.
    """
    variance, lower, upper, nu, tau = torch.broadcast_tensors(
        variance, lower, upper, nu, tau
    )
    scale = variance.sqrt()
    is_win = lower.isfinite() & upper.isinf()
    # Where no element of the batch has two ends: x = sign (z - bound) / scale.
    sign = torch.where(is_win, 1.0, -1.0).to(scale)
    slope = sign / scale
    offset = -slope * torch.where(is_win, lower, upper)
    two_sided = (lower.isfinite() & upper.isfinite()).view(-1, lower.shape[-1]).any(0)
    (boxed,) = two_sided.nonzero(as_tuple=True)
    # Phi loses digits to underflow below about sqrt(-2 log tiny).
    floor = -math.sqrt(-1.8 * math.log(torch.finfo(scale.dtype).tiny))

    def boxed_terms(z: Tensor) -> tuple[Tensor, Tensor]:
        z, sd = z[..., boxed], scale[..., boxed]
        low, high = lower[..., boxed], upper[..., boxed]
        value, first, _, _ = interval_derivatives(
            (low - z) / sd, (high - z) / sd, (high - low) / sd
        )
        return value, -first / sd

    def log_ratio(z: Tensor) -> tuple[Tensor, Tensor]:
        value, gradient = _log_ndtr_and_hazard(torch.addcmul(offset, slope, z), floor)
        gradient.mul_(slope)
        if boxed.numel():
            value[..., boxed], gradient[..., boxed] = boxed_terms(z)
        pull = torch.addcmul(-nu, tau, z)
        # -nu z + tau z^2 / 2 = z (pull - nu) / 2
        value.add_((pull - nu).mul_(z), alpha=0.5)
        return value.sum(-1), gradient.add_(pull)

    return log_ratio
