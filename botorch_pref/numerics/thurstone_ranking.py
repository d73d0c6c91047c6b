r"""The probability that all items of a set are heard in their order."""

from __future__ import annotations

import torch
from botorch.utils.probability.utils import log_ndtr
from torch import Tensor

from botorch_pref.numerics.thurstone_choice import heard_grid, log_density

# Cumulative integrals are of sixth order in the spacing.
_CUMULATIVE_SPACING = 0.1
# The integral of the polynomial through six nodes over the panel in the middle.
_PANEL = tuple(weight / 1440 for weight in (11, -93, 802, 802, -93, 11))


def thurstone_ranking_log_probability(utilities: Tensor, noise: Tensor) -> Tensor:
    r"""Log probability that all items of a set are heard in their order, best first.

    With :math:`G_k(t) = \Phi(t - f_k)` the probability is :math:`G_1(\infty)` of

    .. math:: G_j(t) = \int_{-\infty}^t \phi(u - f_j) \, G_{j+1}(u) \, du
        \quad \text{for } \sigma = 1,

    the probability of the items from j on in their order, with j below t. The integrals
    accumulate panels of the polynomial through the six nearest nodes.

    Args:
        utilities: ``f``, ``... x k``, k at least 2.
        noise: :math:`\sigma^2`, positive, broadcastable with ``...``.

    Returns:
        ``...``, right to 1e-5 for orders against which neighbours stand by up to three
        noise deviations, and to 1e-2 at twelve.
    """
    items = utilities / noise.sqrt().unsqueeze(-1)
    grid = heard_grid(items, _CUMULATIVE_SPACING)
    *before, worst = items.unbind(-1)
    below = log_ndtr(grid - worst.unsqueeze(-1)).exp()
    log_scale = torch.zeros_like(worst)
    for item in reversed(before):
        integrand = log_density(grid - item.unsqueeze(-1)).exp() * below
        # In units of the largest, or improbable orders would underflow.
        largest = integrand.amax(-1, keepdim=True)
        below = _cumulative_integral(integrand / largest, _CUMULATIVE_SPACING)
        log_scale = log_scale + largest.squeeze(-1).log()
    return below[..., -1].log() + log_scale


def _cumulative_integral(values: Tensor, spacing: float) -> Tensor:
    """Cumulative integral from the first node to each; beyond the nodes it is 0."""
    n = values.shape[-1]
    outer = torch.nn.functional.pad(values, (3, 2))
    # Not one matrix product: its windows would be copied.
    panels = outer[..., :n] * _PANEL[0]
    for step, weight in enumerate(_PANEL[1:], 1):
        panels.add_(outer[..., step : step + n], alpha=weight)
    return spacing * panels.cumsum(-1)
