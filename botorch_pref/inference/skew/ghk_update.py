r"""Exact draws given a few answers more, from draws given the earlier ones.

Draws of boxed rows ``v`` stay draws of what the earlier answers leave open. The rows
``v'`` of further answers are Gaussian given them, and kept to a box: a draw counts as
much as it expected that box, and goes on with a draw from it. For one further row this
is a draw of a component in proportion to its probability of the answer, followed by a
draw of a truncated Gaussian; for more, the probability of their box is built up row by
row (Geweke 1991; Hajivassiliou and McFadden 1998).
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from botorch_pref.inference.skew.skew_gaussian import SkewResult
from botorch_pref.inference.skew.split_hamiltonian import LatentDraws
from botorch_pref.inference.warm_start import RowSources, carry_rows
from botorch_pref.likelihoods.factors.box_factors import BoxFactors
from botorch_pref.numerics.normal import interval_derivatives
from botorch_pref.numerics.truncated_normal import truncated_normal_quantile


class GHKUpdate(NamedTuple):
    """Draws given all answers.

    Attributes:
        chosen: ``S x batch_shape`` long, the earlier draw that each continues.
        further: ``S x batch_shape x p``, the further rows.
        share: ``batch_shape``, the effective number of earlier draws over ``S``.
    """

    chosen: Tensor
    further: Tensor
    share: Tensor


def ghk_update(
    means: Tensor,
    covariance: Tensor,
    lower: Tensor,
    upper: Tensor,
    generator: torch.Generator,
) -> GHKUpdate:
    """Continues draws with the rows of further answers.

    Elements of a batch share random numbers, so that none depends on the others.

    Args:
        means: Of the further rows given each earlier draw, ``S x batch_shape x p``.
        covariance: Of the further rows given any, noise included,
            ``batch_shape x p x p``.
        lower: Ends of the box, ``batch_shape x p``, ``-inf`` for none.
        upper: The other ends, ``inf`` for none.
        generator: The source of randomness, on the device of ``means``.

    Returns:
        The draws, of equal weight.
    """
    root = torch.linalg.cholesky(covariance)
    scale = root.diagonal(dim1=-2, dim2=-1)
    shape = (means.shape[0], *[1] * (means.dim() - 2), means.shape[-1])
    uniform, offset = (
        torch.rand(size, generator=generator, dtype=means.dtype, device=means.device)
        for size in (shape, ())
    )
    log_weight = torch.zeros_like(means[..., 0])
    centres, values = means.clone(), torch.empty_like(means)
    for j in range(means.shape[-1]):
        ends = lower[..., j], upper[..., j]
        inverse = scale[..., j].reciprocal()
        standard = [(end - centres[..., j]) * inverse for end in ends]
        log_weight = log_weight + interval_derivatives(standard[0], standard[1])[0]
        if j + 1 == means.shape[-1]:
            break
        drawn = _drawn(uniform[..., j], centres[..., j], scale[..., j], *ends)
        values[..., j] = drawn
        excess = (drawn - centres[..., j]) * inverse
        below = root[..., j + 1 :, j]
        centres[..., j + 1 :] += excess.unsqueeze(-1) * below
    chosen, share = _systematic(log_weight, offset)
    index = chosen.unsqueeze(-1).expand_as(values)
    centres, values = centres.gather(0, index), values.gather(0, index)
    # After the choice, so that draws which continue one earlier draw still differ.
    values[..., -1] = _drawn(
        uniform[..., -1],
        centres[..., -1],
        scale[..., -1],
        lower[..., -1],
        upper[..., -1],
    )
    return GHKUpdate(chosen, values, share)


def _drawn(
    uniform: Tensor, mean: Tensor, scale: Tensor, lower: Tensor, upper: Tensor
) -> Tensor:
    return truncated_normal_quantile(uniform, mean, scale.square(), lower, upper)


def _systematic(log_weight: Tensor, offset: Tensor) -> tuple[Tensor, Tensor]:
    """Equal-weight choice in proportion to weights, and the effective share of all.

    Systematic resampling (Kitagawa 1996): each draw is chosen as often as its weight
    says, rounded up or down.
    """
    count = log_weight.shape[0]
    weights = log_weight.movedim(0, -1).softmax(-1)
    share = 1 / (count * weights.square().sum(-1))
    grid = (torch.arange(count, device=offset.device) + offset) / count
    cumulative = weights.cumsum(-1)
    chosen = torch.searchsorted(
        cumulative, grid.expand(cumulative.shape).contiguous(), right=True
    )
    return chosen.clamp_max(count - 1).movedim(-1, 0), share


class ContinuedDraws(NamedTuple):
    """Draws of the rows of all answers.

    Attributes:
        truncated: ``S x batch_shape x m``.
        latent: The chains that the draws of earlier rows come from.
        effective_sample_size: ``batch_shape``.
    """

    truncated: Tensor
    latent: LatentDraws
    effective_sample_size: Tensor


@torch.no_grad()
def continue_draws(
    earlier: SkewResult,
    noise: Tensor,
    means: Tensor,
    covariance: Tensor,
    factors: BoxFactors,
    sources: RowSources,
    generator: torch.Generator,
) -> ContinuedDraws:
    """Draws given all answers, from the posterior given the earlier ones.

    Where further answers join earlier ones about the same row, the mean of what was
    heard is that of both, weighted by their precisions.

    Args:
        earlier: The posterior.
        noise: Of the earlier rows, ``batch_shape x m``.
        means: Of utilities at the points of the further answers, given each draw,
            ``S x batch_shape x n``.
        covariance: Around them, ``batch_shape x n x n``.
        factors: The further answers, on rows of these points.
        sources: Where all rows go; complete.
        generator: The source of randomness, on the device of ``means``.
    """
    batch = torch.broadcast_shapes(
        sources.batch_shape,
        means.shape[1:-1],
        covariance.shape[:-2],
        factors.lower.shape[:-1],
        factors.rows.coefficients.shape[:-2],
        earlier.truncated.shape[1:-1],
    )
    rows = factors.rows
    own = torch.diag_embed(factors.variance)
    if factors.noise is not None:
        own = own + factors.noise.dense()
    given = rows.apply(_with_batch(means, batch))
    draws = ghk_update(
        _with_batch(given, batch).contiguous(),
        rows.congruence(covariance) + own,
        factors.lower,
        factors.upper,
        generator,
    )
    truncated = _with_batch(earlier.truncated, batch)
    index = draws.chosen.unsqueeze(-1).expand_as(truncated)
    tau, tau_further = noise.reciprocal(), factors.variance.reciprocal()
    weighted = tau * truncated.gather(0, index), tau_further * draws.further
    total = carry_rows(sources, tau, tau_further, signed=False)
    truncated = carry_rows(sources, *weighted, signed=True) / total
    size = earlier.effective_sample_size.clamp_max(len(truncated)) * draws.share
    return ContinuedDraws(truncated, earlier.latent, size)


def _with_batch(draws: Tensor, batch: torch.Size) -> Tensor:
    """``S x batch_shape' x k`` as ``S x batch_shape x k``."""
    count, *own, width = draws.shape
    missing = len(batch) - len(own)
    draws = draws.reshape(count, *[1] * missing, *own, width)
    return draws.expand(count, *batch, width)
