"""The probability that each item of a set is heard as the best."""

from __future__ import annotations

import math

import torch
from botorch.utils.probability.utils import log_ndtr
from torch import Tensor

from botorch_pref.numerics.log_concave_quadrature import (
    log_concave_integral,
    tilted_mode,
)
from botorch_pref.numerics.normal import log_ndtr_derivatives

# On an integrand like exp(k y^2 / 2) in the complex plane the trapezoidal rule with
# spacing h errs by exp(-2 pi^2 / (h^2 k)): rounding at h = 0.16 * 4.6 / sqrt(k).
_STRIP = 4.6


def best_of_log_probability(utilities: Tensor, noise: Tensor) -> Tensor:
    r"""Log probabilities of all items under Thurstone's noise.

    .. math::
        P(i) = P(f_i + \epsilon_i > f_j + \epsilon_j \;\forall j \ne i)
        = \int \phi(t) \prod_{j \ne i} \Phi\Big(\frac{f_i - f_j}{\sigma} + t\Big) dt,
        \quad \epsilon \sim N(0, \sigma^2 I)

    (Thurstone 1927, case V; for two items :math:`\Phi((f_1 - f_2) / \sqrt{2}\sigma)`).

    Args:
        utilities: ``f``, ``... x k``, k at least 2.
        noise: :math:`\sigma^2`, positive, broadcastable with ``utilities``.

    Returns:
        ``... x k``, of probabilities that sum to one.
    """
    scaled = utilities / noise.sqrt()
    k = scaled.shape[-1]
    rivals = ~torch.eye(k, dtype=torch.bool, device=scaled.device)
    gaps = scaled.unsqueeze(-1) - scaled.unsqueeze(-2)

    def log_rivals(t: Tensor, gaps: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        x = t.unsqueeze(-1) + gaps
        first, second, _ = log_ndtr_derivatives(x)
        parts = (torch.where(rivals, p, 0.0) for p in (log_ndtr(x), first, second))
        value, slope, curvature = (part.sum(-1) for part in parts)
        return value, slope, curvature

    zero = torch.zeros_like(scaled)
    with torch.no_grad():
        mode = tilted_mode(
            lambda t: log_rivals(t, gaps.detach())[1:], zero, torch.ones_like(zero)
        )
    value, _, _ = log_concave_integral(
        lambda t: log_rivals(t, gaps),
        zero,
        torch.ones_like(zero),
        mode,
        strip=_STRIP / math.sqrt(k),
    )
    return value
