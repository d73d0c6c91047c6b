r"""Choices and rankings heard with Gaussian noise: boxed rows with correlated noise.

Each item of a set is heard as :math:`f_i + \epsilon_i` with
:math:`\epsilon_i \sim N(0, \sigma^2)`, once for the whole answer (Thurstone 1927).
Differences of what was heard share the noise of their items. That noise ``R`` is split
into its smallest eigenvalue, which is independent, and the rest: the larger the
independent part, the smoother the factors.
"""

from __future__ import annotations

import math
from dataclasses import replace

import torch
from torch import Tensor

from botorch_pref.likelihoods.factors.box_factors import CorrelatedBoxFactors
from botorch_pref.linalg.noise_blocks import NoiseBlocks
from botorch_pref.linalg.sparse_design import pair_rows


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
    losers = stages[..., 1:]
    winners = stages[..., :1].expand_as(losers)
    ones = torch.ones_like(losers, dtype=noise.dtype)
    shared = ones.unsqueeze(-1) * ones.unsqueeze(-2)
    return _boxed(winners, losers, ones, shared, num_points, noise)


def ranking_factors(
    orders: Tensor, num_points: int, noise: Tensor
) -> CorrelatedBoxFactors:
    r"""Neighbours in a ranking, of which the first was heard as the better one.

    ``R`` is :math:`\sigma^2` times the tridiagonal matrix of -1, 2, -1, whose smallest
    eigenvalue for k items is :math:`2 - 2 \cos(\pi / k)`.

    Args:
        orders: ``batch_shape x m x k`` long, best first, padded with -1.
        num_points: ``n``.
        noise: :math:`\sigma^2`, ``batch_shape x 1``.
    """
    better, worse = orders[..., :-1], orders[..., 1:]
    lengths = (orders >= 0).sum(-1, keepdim=True).to(noise)
    independent = (2 - 2 * (math.pi / lengths).cos()).expand(worse.shape)
    neighbours = torch.ones(worse.shape[-1] - 1, dtype=noise.dtype, device=noise.device)
    neighbours = neighbours.diag(1) + neighbours.diag(-1)
    shared = torch.diag_embed(2 - independent) - neighbours
    return _boxed(better, worse, independent, shared, num_points, noise)


def _boxed(
    better: Tensor,
    worse: Tensor,
    independent: Tensor,
    shared: Tensor,
    num_points: int,
    noise: Tensor,
) -> CorrelatedBoxFactors:
    r"""Rows that must be positive, without those that are padding.

    Where elements of a batch are padded in different places a row of padding stays: it
    has no coefficients, and every value of it is in its box.

    Args:
        better: ``batch_shape x m x k`` long.
        worse: Like ``better``, padded with -1.
        independent: Like ``better``, the independent part of the noise over ``noise``.
        shared: ``batch_shape x m x k x k``, the rest.
        num_points: ``n``.
        noise: :math:`\sigma^2`, ``batch_shape x 1``.
    """
    present = worse >= 0
    both = present.unsqueeze(-1) & present.unsqueeze(-2)
    shared = torch.where(both, shared, 0.0)
    used = present.reshape(-1, *present.shape[-2:]).any(0)
    num_rows = int(used.sum())
    places = torch.full_like(used, num_rows, dtype=torch.long)
    places[used] = torch.arange(num_rows, device=used.device)
    pairs = torch.stack([better, worse], dim=-1).clamp_min(0)[..., used, :]
    present, independent = present[..., used], independent[..., used]
    rows = pair_rows(pairs, num_points, noise)
    coefficients = torch.where(present.unsqueeze(-1), rows.coefficients, 0.0)
    batch = torch.broadcast_shapes(noise.shape[:-1], present.shape[:-1])
    variance = (noise * independent).expand(*batch, -1)
    lower = torch.where(present, 0.0, -torch.inf).to(variance).expand_as(variance)
    return CorrelatedBoxFactors(
        replace(rows, coefficients=coefficients),
        variance,
        lower,
        torch.full_like(variance, torch.inf),
        NoiseBlocks(places, noise[..., None, None] * shared, num_rows),
    )
