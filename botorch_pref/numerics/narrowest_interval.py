"""Narrowest credible interval of an equal-weight Gaussian mixture, shared variance.

Notation and conventions are those of :mod:`~botorch_pref.numerics.mixtures`.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from botorch_pref.numerics.mixtures import (
    attach_root,
    central_moments,
    log_density_terms,
    responsibilities,
    solve_quantile,
    standard_deviation,
    tail_terms,
)

_MAX_NEWTON_STEPS = 10
_MAX_ROUNDS = 8
_BISECTIONS_PER_ROUND = 8


def narrowest_interval(
    means: Tensor, variance: Tensor, level: float
) -> tuple[Tensor, Tensor]:
    """Ends ``a < b`` of the narrowest interval of probability ``level``.

    They satisfy ``F(b) - F(a) = level`` and ``f(a) = f(b)``. The marginals of a
    skew-normal process are log-concave, so this point is unique; a finite mixture may
    have further ripples, and then the interval is a local minimum of the width, never
    wider than the central interval but not always the narrowest of all. Where the
    components are so narrow that an end falls into a gap without probability, the level
    holds to rounding and the equal densities are lost in it. Where the variance is 0
    the interval is the shortest one with at least ``level`` of the means.

    Newton steps on both equations from the central interval moved by its skewness
    (``-skewness / 3`` standard deviations, the first-order Cornish-Fisher shift); what
    does not converge to a minimum at most as wide as the central interval is found by
    bisection, downhill in width from the central interval.

    With ``l = log f``, ``dA = sum_s w_s (dm_s + u_s dsigma)`` at ``a`` (see
    :func:`.mixtures.quantile`), ``dB`` the same at ``b`` and ``dl`` the change of ``l``
    at a fixed point, the implicit function theorem gives

        db - da = dB - dA,    l'(b) db - l'(a) da = dl(a) - dl(b).

    Raises:
        ValueError: ``level`` is not in (0, 1).
    """
    if not 0 < level < 1:
        raise ValueError(f"level is {level}; give a probability between 0 and 1.")
    if means.shape[0] == 1:
        z = -torch.special.ndtri(variance.new_tensor(0.5 * (1 - level)))
        half_width = z * standard_deviation(variance)
        return means[0] - half_width, means[0] + half_width
    with torch.no_grad():
        flat_means = means.reshape(means.shape[0], -1)
        flat_deviation = variance.sqrt().flatten()
        lower, upper = _solve(flat_means, flat_deviation, level)
        lower, upper = lower.reshape(variance.shape), upper.reshape(variance.shape)
    if torch.is_grad_enabled() and (means.requires_grad or variance.requires_grad):
        return _attach_interval(lower, upper, means, variance)
    return lower, upper


def _attach_interval(
    lower: Tensor, upper: Tensor, means: Tensor, variance: Tensor
) -> tuple[Tensor, Tensor]:
    """First-order dependence of both ends on the mixture, see `narrowest_interval`."""
    deviation = standard_deviation(variance)
    with torch.no_grad():
        positive = deviation > 0
        scale = torch.where(positive, deviation, 1.0)
        u_low, w_low = responsibilities(lower, means, deviation)
        u_up, w_up = responsibilities(upper, means, deviation)
        wu_low, wu_up = w_low * u_low, w_up * u_up
        mean_low, mean_up = wu_low.sum(0), wu_up.sum(0)
        slope_low, slope_up = -mean_low / scale, -mean_up / scale
        # Changes of (width) and of (l(a) - l(b) at fixed ends), per m_s and per sigma.
        width_m, width_s = w_up - w_low, mean_up - mean_low
        level_m = (wu_low - wu_up) / scale
        level_s = ((wu_low * u_low).sum(0) - (wu_up * u_up).sum(0)) / scale
        # Ends in flat density, or of a discrete mixture, have nothing to balance: they
        # move like quantiles.
        curvature = slope_up - slope_low
        balanced = positive & (curvature < 0)
        curvature = torch.where(balanced, curvature, -1.0)
        low_m = (level_m - slope_up * width_m) / curvature
        low_s = (level_s - slope_up * width_s) / curvature
        low_m = torch.where(balanced, low_m, w_low)
        low_s = torch.where(balanced, low_s, mean_low)
    return (
        attach_root(lower, means, deviation, low_m, low_s),
        attach_root(upper, means, deviation, low_m + width_m, low_s + width_s),
    )


def _solve(means: Tensor, deviation: Tensor, level: float) -> tuple[Tensor, Tensor]:
    """Both ends for a flat batch of mixtures: ``num_components x n`` and ``n``."""
    tail = deviation.new_full(deviation.shape, 0.5 * (1 - level))
    central_low = solve_quantile(tail, means, deviation)
    central_up = -solve_quantile(tail, -means, deviation)
    total, skewness = central_moments(means, deviation.square())
    shift = total.sqrt() * skewness / 3
    lower, upper, good = _newton(
        central_low - shift, central_up - shift, means, deviation, level
    )
    slack = 1 + 16 * torch.finfo(means.dtype).eps ** 0.75
    good = good & (upper - lower <= slack * (central_up - central_low))
    positive = deviation > 0
    rest = (positive & ~good).nonzero().squeeze(-1)
    if len(rest) > 0:
        lower[rest], upper[rest] = _descend(
            central_low[rest], central_up[rest], means[:, rest], deviation[rest], level
        )
    if not bool(positive.all()):
        window_low, window_up = _shortest_window(means, level)
        lower = torch.where(positive, lower, window_low)
        upper = torch.where(positive, upper, window_up)
    return lower, upper


def _newton(
    lower: Tensor, upper: Tensor, means: Tensor, deviation: Tensor, level: float
) -> tuple[Tensor, Tensor, Tensor]:
    """Newton on ``log((F(a) + 1 - F(b)) / (1 - level)) = 0`` and ``l(a) = l(b)``.

    Returns both ends and whether each column reached a minimum of the width. Columns
    leave the iteration when they are solved or when a step leads nowhere.
    """
    lower, upper = lower.clone(), upper.clone()
    good = torch.zeros_like(lower, dtype=torch.bool)
    tolerance = torch.finfo(means.dtype).eps ** 0.5
    log_tail = math.log1p(-level)
    index = torch.arange(len(lower), device=lower.device)
    a, b = lower, upper
    for _ in range(_MAX_NEWTON_STEPS):
        tail_a, log_f_a, slope_a = tail_terms((a - means) / deviation, deviation)
        # The upper tail at b is the lower tail of the mirrored mixture at -b.
        tail_b, log_f_b, mirrored = tail_terms((means - b) / deviation, deviation)
        slope_b = -mirrored
        tail = tail_a + tail_b
        rate_a, rate_b = log_f_a.exp() / tail, log_f_b.exp() / tail
        mass, height = tail.log() - log_tail, log_f_a - log_f_b
        determinant = rate_b * slope_a - rate_a * slope_b
        step_a = -(rate_b * height - slope_b * mass) / determinant
        step_b = -(rate_a * height - slope_a * mass) / determinant
        a, b = a + step_a, b + step_b
        lower[index], upper[index] = a, b
        largest = torch.maximum(step_a.abs(), step_b.abs())
        downhill = (determinant > 0) & (b > a) & largest.isfinite()
        rounding = 4 * tolerance**2 * torch.maximum(a.abs(), b.abs())
        small = largest <= tolerance * deviation + rounding
        good[index] = small & downhill
        keep = downhill & ~small
        if not bool(keep.any()):
            break
        if not bool(keep.all()):
            index, means, deviation = index[keep], means[:, keep], deviation[keep]
            a, b = a[keep], b[keep]
    return lower, upper, good


def _descend(
    lower: Tensor, upper: Tensor, means: Tensor, deviation: Tensor, level: float
) -> tuple[Tensor, Tensor]:
    """A minimum of the width reached downhill from the central interval.

    With ``b(a)`` set by the level, the width has the slope ``f(a) / f(b) - 1``. After
    mirroring, the slope at the central interval is negative and the minimum lies at a
    greater ``a``; beyond ``a = F^-1(1 - level)`` no interval exists. Bisection brackets
    a minimum, and Newton steps finish it once they lead to one that is no wider.
    """
    log_f_low = log_density_terms((lower - means) / deviation, deviation)[0]
    log_f_up = log_density_terms((upper - means) / deviation, deviation)[0]
    mirror = log_f_low > log_f_up
    means = torch.where(mirror, -means, means)
    a = torch.where(mirror, -upper, lower)
    b = torch.where(mirror, -lower, upper)
    right = solve_quantile(torch.full_like(a, 1 - level), means, deviation)
    index = torch.arange(len(a), device=a.device)
    left, end = a.clone(), b.clone()
    slack = 1 + 4 * torch.finfo(means.dtype).eps
    for _ in range(_MAX_ROUNDS):
        left, end, right = _bisect(left, end, right, means, deviation, level)
        near_a, near_b, good = _newton(left, end, means, deviation, level)
        good = good & (near_b - near_a <= slack * (end - left))
        a[index] = torch.where(good, near_a, left)
        b[index] = torch.where(good, near_b, end)
        if bool(good.all()):
            break
        index, left, end, right = (t[~good] for t in (index, left, end, right))
        means, deviation = means[:, ~good], deviation[~good]
    return torch.where(mirror, -b, a), torch.where(mirror, -a, b)


def _bisect(
    left: Tensor,
    end: Tensor,
    right: Tensor,
    means: Tensor,
    deviation: Tensor,
    level: float,
) -> tuple[Tensor, Tensor, Tensor]:
    """Halve the bracket ``[left, right]`` of the lower end ``a`` a few times.

    The width falls to the right of ``left``, whose upper end is ``end``; at ``right``
    it rises, or is greater than at ``left``. Both stay true, so that a minimum lies
    between them and the width at ``left`` only falls.
    """
    for _ in range(_BISECTIONS_PER_ROUND):
        middle = left + 0.5 * (right - left)
        below, log_f_low, _ = tail_terms((middle - means) / deviation, deviation)
        # Any tail far below the rounding of the level will do where none is left.
        above = (1 - level - below).clamp(min=torch.finfo(means.dtype).tiny ** 0.5)
        opposite = -solve_quantile(above, -means, deviation)
        log_f_up = log_density_terms((opposite - means) / deviation, deviation)[0]
        advance = (log_f_low < log_f_up) & (opposite - middle < end - left)
        left = torch.where(advance, middle, left)
        end = torch.where(advance, opposite, end)
        right = torch.where(advance, right, middle)
    return left, end, right


def _shortest_window(means: Tensor, level: float) -> tuple[Tensor, Tensor]:
    """Shortest interval holding at least a fraction ``level`` of the means."""
    ordered = means.sort(dim=0).values
    count = means.shape[0]
    inside = min(max(math.ceil(level * count), 1), count)
    first = (ordered[inside - 1 :] - ordered[: count - inside + 1]).argmin(0, True)
    return ordered.gather(0, first)[0], ordered.gather(0, first + inside - 1)[0]
