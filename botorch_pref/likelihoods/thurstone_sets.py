r"""Choices and rankings heard with Gaussian noise: boxed rows with correlated noise.

Each item of a set is heard as :math:`f_i + \epsilon_i` with
:math:`\epsilon_i \sim N(0, \sigma^2)`, once for the whole answer (Thurstone 1927).
Differences of what was heard share the noise of their items. Here that noise ``R`` is
split into :math:`r I + S S' \sigma^2` with the largest possible independent part, so
that few shared variables remain and they enter few rows.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from botorch_pref.feedback.sparse_rows import SparseRows
from botorch_pref.likelihoods.box_factors import CorrelatedBoxFactors


def choice_factors(
    stages: Tensor, num_points: int, noise: Tensor
) -> CorrelatedBoxFactors:
    r"""The best of a set: :math:`f_c + \epsilon_c > f_j + \epsilon_j` for all others.

    ``R`` is :math:`\sigma^2 (I + 1 1')`: the rows of a set share the noise of its
    winner.

    Args:
        stages: ``batch_shape x m x k`` long, the winner first, padded with -1.
        num_points: ``n``.
        noise: :math:`\sigma^2`, ``batch_shape x 1``.
    """
    num_sets = stages.shape[-2]
    losers = stages[..., 1:]
    winners = stages[..., :1].expand_as(losers)
    shared = torch.arange(num_sets, device=stages.device).unsqueeze(-1) + num_points
    indices = torch.stack([winners, losers, shared.expand_as(losers)], dim=-1)
    signs = torch.tensor([1.0, -1.0, 1.0], dtype=noise.dtype, device=noise.device)
    return _boxed(
        indices.flatten(-3, -2),
        signs.expand(*indices.shape).flatten(-3, -2),
        (losers >= 0).flatten(-2),
        torch.ones_like(losers, dtype=noise.dtype).flatten(-2),
        num_points,
        noise,
    )


def ranking_factors(
    orders: Tensor, num_points: int, noise: Tensor
) -> CorrelatedBoxFactors:
    r"""Neighbours in a ranking, of which the first was heard as the better one.

    ``R`` is :math:`\sigma^2` times the tridiagonal matrix of -1, 2, -1, whose smallest
    eigenvalue for k items is :math:`2 - 2 \cos\theta`, :math:`\theta = \pi / k`. What
    is left of it has a bidiagonal Cholesky factor with the squared pivots
    :math:`\sin((i + 1) \theta) / \sin(i \theta)`, the last of which is zero.

    Args:
        orders: ``batch_shape x m x k`` long, best first, padded with -1.
        num_points: ``n``.
        noise: :math:`\sigma^2`, ``batch_shape x 1``.
    """
    num_orders, width = orders.shape[-2:]
    better, worse = orders[..., :-1], orders[..., 1:]
    present = worse >= 0
    lengths = 1 + present.sum(-1, keepdim=True)
    theta = math.pi / lengths.to(noise)
    row = torch.arange(1, width, device=orders.device)
    ratio = ((row + 1) * theta).sin() / (row * theta).sin()
    inner = row < lengths - 1
    pivot = torch.where(inner, ratio, 0.0).sqrt()
    before = torch.where(inner, -torch.where(inner, ratio, 1.0).rsqrt(), 0.0)
    before = torch.nn.functional.pad(before[..., :-1], (1, 0))
    # One shared variable a row but the last, which needs none.
    first = torch.arange(num_orders, device=orders.device).unsqueeze(-1) * (width - 1)
    own = (num_points + first + row - 1).expand_as(better)
    previous = torch.where(row > 1, own - 1, own)
    indices = torch.stack([better, worse, own, previous], dim=-1)
    ones = torch.ones_like(pivot)
    coefficients = torch.stack([ones, -ones, pivot, before], dim=-1)
    independent = (2 - 2 * theta.cos()).expand_as(pivot)
    return _boxed(
        indices.flatten(-3, -2),
        coefficients.flatten(-3, -2),
        present.flatten(-2),
        independent.flatten(-2),
        num_points,
        noise,
    )


def _boxed(
    indices: Tensor,
    coefficients: Tensor,
    present: Tensor,
    independent: Tensor,
    num_points: int,
    noise: Tensor,
) -> CorrelatedBoxFactors:
    """Rows that must be positive, without those and the variables that are padding.

    Where elements of a batch are padded in different places a row of padding stays: it
    has no coefficients, and every value of it is in its box.
    """
    used = present.reshape(-1, present.shape[-1]).any(0)
    indices, coefficients = indices[..., used, :], coefficients[..., used, :]
    present, independent = present[..., used], independent[..., used]
    coefficients = torch.where(present.unsqueeze(-1), coefficients, 0.0)
    indices, num_shared = _without_idle_variables(
        indices.clamp_min(0), coefficients, num_points
    )
    batch = torch.broadcast_shapes(noise.shape[:-1], present.shape[:-1])
    variance = (noise * independent).expand(*batch, -1)
    lower = torch.where(present, 0.0, -torch.inf).to(variance).expand_as(variance)
    return CorrelatedBoxFactors(
        SparseRows(indices, coefficients, num_points + num_shared),
        variance,
        lower,
        torch.full_like(variance, torch.inf),
        noise.expand(*batch, num_shared),
    )


def _without_idle_variables(
    indices: Tensor, coefficients: Tensor, num_points: int
) -> tuple[Tensor, int]:
    """Indices in which shared variables that no row uses are not counted."""
    used = coefficients != 0
    variables = indices[used & (indices >= num_points)].unique()
    places = num_points + torch.searchsorted(variables, indices)
    indices = torch.where(used, indices, indices[..., :1])
    renumbered = torch.where(indices >= num_points, places, indices)
    return renumbered, len(variables)
