"""Quantiles of equal-weight Gaussian mixtures with one variance, without a graph.

The solver behind `gaussian_mixture.quantile` and `narrowest_interval`, on flat batches:
``means`` is ``num_components x n`` and everything else ``n``. An evaluation of
everything that a step needs is one pass over the components.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

_LOG_SQRT_2PI = 0.5 * math.log(2 * math.pi)
_MAX_ITERATIONS = 200
_UNGUARDED_ITERATIONS = 5


def solve_quantile(p: Tensor, means: Tensor, deviation: Tensor) -> Tensor:
    """Quantiles of a flat batch; see `gaussian_mixture.quantile`.

    Args:
        p: ``n``.
        means: ``num_components x n``.
        deviation: ``n``, nonnegative.

    Returns:
        Quantiles, ``n``.
    """
    # Mirror the columns above the median: then the tail asked for is the lower one.
    sign = torch.where(p > 0.5, -1.0, 1.0).to(means)
    return sign * _solve_lower_quantile(
        torch.where(p > 0.5, 1 - p, p), sign * means, deviation
    )


def _solve_lower_quantile(p: Tensor, means: Tensor, deviation: Tensor) -> Tensor:
    """`solve_quantile` for ``p <= 1/2``: brackets, start, and what is not to solve."""
    z = _normal_quantile(p)
    low = means.amin(0) + z * deviation
    high = means.amax(0) + z * deviation
    root = low.clone()
    discrete = deviation == 0
    if bool(discrete.any()):
        root = torch.where(discrete, _order_statistic(p, means), root)
    index = ((low < high) & ~discrete).nonzero().squeeze(-1)
    if len(index) == 0:
        return root
    state = [p, deviation, low, high]
    if len(index) < len(p):
        state, means = [t[index] for t in state], means[:, index]
    root[index] = _halley(means, *state)
    return root


def _normal_quantile(p: Tensor) -> Tensor:
    """Standard normal quantile for ``0 < p <= 1/2``, also where `ndtri` gives up."""
    z = torch.special.ndtri(p)
    lost = z.isinf() & (p > 0)
    if bool(lost.any()):
        # Newton on log Phi(z) = log p from its leading asymptote.
        square = -2 * p.log()
        tail = (
            -(square - (2 * math.pi * square).clamp(min=1.0).log()).clamp(min=1).sqrt()
        )
        for _ in range(4):
            log_cdf = (0.5 * torch.erfc(tail * -math.sqrt(0.5))).log()
            log_density = -0.5 * tail.square() - _LOG_SQRT_2PI
            tail = tail - (log_cdf - p.log()) * (log_cdf - log_density).exp()
        z = torch.where(lost, tail, z)
    return z


def _halley(
    means: Tensor, p: Tensor, deviation: Tensor, low: Tensor, high: Tensor
) -> Tensor:
    """Safeguarded Halley iteration on ``log F(x) = log p`` from a bracket."""
    eps = torch.finfo(means.dtype).eps
    x = _cornish_fisher(_normal_quantile(p), means, deviation).clamp(low, high)
    root, index = x.clone(), torch.arange(len(p), device=p.device)
    for iteration in range(_MAX_ITERATIONS):
        if iteration == _UNGUARDED_ITERATIONS:
            low, high = _bracket_by_order(p, means, deviation, low, high)
            x = x.clamp(low, high)
        lower, log_f, slope = tail_terms((x - means) / deviation, deviation)
        excess = lower.log() - p.log()
        rate = log_f.exp() / lower
        low, high = torch.where(excess <= 0, x, low), torch.where(excess > 0, x, high)
        step = excess / rate
        new = x - step / (1 - 0.5 * step * (slope - rate)).clamp(min=0.5)
        inside = (new >= low) & (new <= high)
        if iteration > _UNGUARDED_ITERATIONS and iteration % 2:
            inside = torch.zeros_like(inside)
        new = torch.where(inside, new, low + 0.5 * (high - low))
        root[index] = new
        # Cubic convergence: a step taken from this near lands at rounding.
        solved = inside & (excess.abs() <= eps**0.4)
        closed = high - low <= 2 * eps * torch.maximum(low.abs(), high.abs())
        keep = ~(solved | closed)
        x = new
        if not bool(keep.any()):
            break
        if not bool(keep.all()):
            index, means = index[keep], means[:, keep]
            p, deviation, x, low, high = (t[keep] for t in (p, deviation, x, low, high))
    return root


def _bracket_by_order(
    p: Tensor, means: Tensor, deviation: Tensor, low: Tensor, high: Tensor
) -> tuple[Tensor, Tensor]:
    """Tighten a bracket where components are narrow beside their distances.

    With ``t = Phi(-c)`` negligible and ordered means ``m_(1) <= m_(2) ..``,

        F(m_(k) + c sigma) >= (1 - t) k / S,    F(m_(k) - c sigma) <= t + (k - 1) / S.
    """
    count = means.shape[0]
    tail = p.new_tensor(8 * torch.finfo(p.dtype).eps)
    reach = -torch.special.ndtri(tail) * deviation
    ordered = means.sort(dim=0).values
    above = (count * p / (1 - tail)).ceil().long()
    below = (count * (p - tail)).floor().long()
    at_above = ordered.gather(0, above.clamp(1, count).unsqueeze(0) - 1).squeeze(0)
    at_below = ordered.gather(0, below.clamp(0, count - 1).unsqueeze(0)).squeeze(0)
    low = torch.where(below >= 0, torch.maximum(low, at_below - reach), low)
    return low, torch.minimum(high, at_above + reach)


def tail_terms(u: Tensor, deviation: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Lower tail, log density and its slope from standardised distances.

    Args:
        u: ``num_components x n``, ``(x - m_s) / sigma``.
        deviation: ``n``, positive.

    Returns:
        ``F(x)``, ``log f(x)`` and ``(log f)'(x)``, ``n`` each.
    """
    # Subnormal numbers take a processor 20 times longer. Stopping short of them leaves
    # tails beyond 1e-290 in float64, and 1e-35 in float32, as they are.
    reach = math.sqrt(-math.log(torch.finfo(u.dtype).tiny)) - 0.3
    lower = torch.erfc((u * -math.sqrt(0.5)).clamp_(max=reach)).mean(0).mul_(0.5)
    return lower, *log_density_terms(u, deviation)


def log_density_terms(u: Tensor, deviation: Tensor) -> tuple[Tensor, Tensor]:
    """Log density and its derivative from standardised distances.

    Args:
        u: ``num_components x n``, ``(x - m_s) / sigma``.
        deviation: ``n``, positive.

    Returns:
        ``log f(x)`` and ``(log f)'(x) = -sum_s w_s u_s / sigma``, ``n`` each.
    """
    exponent = u.square().mul_(-0.5)
    largest = exponent.amax(0)
    # Beside the largest weight, 1, the smallest normal number is as good as 0.
    smallest = math.log(torch.finfo(u.dtype).tiny) + 1
    weights = exponent.sub_(largest).clamp_(min=smallest).exp_()
    total = weights.sum(0)
    slope = -(weights.mul_(u)).sum(0) / (total * deviation)
    log_f = largest + (total / u.shape[0]).log() - deviation.log() - _LOG_SQRT_2PI
    return log_f, slope


def _cornish_fisher(z: Tensor, means: Tensor, deviation: Tensor) -> Tensor:
    """Third-order Cornish-Fisher quantile from the mixture's first four moments."""
    center = means.mean(0)
    offset = means - center
    square = offset.square()
    second = square.mean(0)
    total = deviation.square() + second
    skewness = (square * offset).mean(0) / total.pow(1.5)
    kurtosis = (square.square().mean(0) - 3 * second.square()) / total.square()
    normal_score = (
        z
        + skewness * (z.square() - 1) / 6
        + kurtosis * (z.pow(3) - 3 * z) / 24
        - skewness.square() * (2 * z.pow(3) - 5 * z) / 36
    )
    return center + total.sqrt() * normal_score


def _order_statistic(p: Tensor, means: Tensor) -> Tensor:
    """Smallest mean with at least a fraction ``p`` of the means at or below it."""
    count = means.shape[0]
    rank = (p * count).ceil().long().clamp(1, count) - 1
    return means.sort(dim=0).values.gather(0, rank.unsqueeze(0)).squeeze(0)
