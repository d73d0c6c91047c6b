r"""Probabilities of choices and rankings that are heard with Gaussian noise.

Item i of a set is heard as :math:`u_i = f_i + \epsilon_i` with
:math:`\epsilon_i \sim N(0, \sigma^2)` (Thurstone 1927). Given the heard value of one
item the others are independent, which leaves integrals on a line, here by rules on one
grid for all items of a set.
"""

from __future__ import annotations

import math

import torch
from botorch.utils.probability.utils import log_ndtr
from torch import Tensor

_LOG_SQRT_2PI = 0.5 * math.log(2 * math.pi)
# Beyond it the integrand of an item is 2e-17 of its maximum.
_HALF_WIDTH = 8.5
# An integrand of k items is as narrow as 1 / sqrt(k): at 0.7 / sqrt(k) the trapezoidal
# rule, which errs by exp(-2 pi^2 / (h^2 k)), is right to rounding in effect.
_TRAPEZOIDAL_SPACING = 0.7


def thurstone_choice_log_probability(utilities: Tensor, noise: Tensor) -> Tensor:
    r"""Log probabilities that each item of a set is heard as its best, ``... x k``.

    .. math:: \log P(i) = \log \int \phi(t - f_i) \prod_{j \ne i} \Phi(t - f_j) \, dt
        \quad \text{for } \sigma = 1

    (Thurstone 1927, case V). Right to rounding in effect in both tails.
    """
    items = utilities / noise.sqrt()
    spacing = _TRAPEZOIDAL_SPACING / math.sqrt(items.shape[-1])
    grid = heard_grid(items, spacing)
    gaps = [grid - item.unsqueeze(-1) for item in items.unbind(-1)]
    below = [log_ndtr(gap) for gap in gaps]
    all_below = torch.stack(below).sum(0)
    integrals = [
        (log_density(gap) + all_below - own).logsumexp(-1)
        for gap, own in zip(gaps, below, strict=True)
    ]
    return torch.stack(integrals, dim=-1) + math.log(spacing)


def heard_grid(items: Tensor, spacing: float) -> Tensor:
    """Equidistant values around the items of each set, as many for every set.

    Items are ``... x k`` in units of the noise, and values ``... x g``. They are
    constants: moving the nodes of a rule changes no integral.
    """
    items = items.detach()
    low, high = items.amin(-1, keepdim=True), items.amax(-1, keepdim=True)
    count = math.ceil((float((high - low).max()) + 2 * _HALF_WIDTH) / spacing) + 1
    steps = torch.arange(count, dtype=items.dtype, device=items.device)
    return low - _HALF_WIDTH + spacing * steps


def log_density(x: Tensor) -> Tensor:
    """Log density of a standard normal."""
    return -0.5 * x.square() - _LOG_SQRT_2PI


# Cumulative integrals are of sixth order in the spacing.
_CUMULATIVE_SPACING = 0.1
# The integral of the polynomial through six nodes over the panel in the middle.
_PANEL = tuple(weight / 1440 for weight in (11, -93, 802, 802, -93, 11))


def thurstone_ranking_log_probability(utilities: Tensor, noise: Tensor) -> Tensor:
    r"""Log probability that all items of a set are heard in their order, best first.

    With :math:`G_{k + 1}(t) = 1` the probability is :math:`G_1(\infty)` of

    .. math:: G_j(t) = \int_{-\infty}^t \phi(u - f_j) \, G_{j+1}(u) \, du
        \quad \text{for } \sigma = 1,

    the probability of the items from j on in their order, with j below t. The integrals
    accumulate panels of the polynomial through the six nearest nodes. They are right to
    1e-5 for orders against which neighbours stand by up to three noise deviations, and
    to 1e-2 at twelve. Utilities are ``... x k``, and the noise broadcasts with ``...``.
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
