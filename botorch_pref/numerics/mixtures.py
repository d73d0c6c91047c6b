"""Equal-weight mixtures of Gaussians, and of Student's t, that share one scale.

The marginal of a skew-normal process given ``S`` draws of its latent variables is

    F(x) = 1/S sum_s Phi(u_s),    u_s = (x - m_s) / sigma,

with component means ``m_s`` and one component variance ``sigma^2``. Everywhere
``means`` is ``num_components x batch_shape`` and ``variance`` ``batch_shape``. At a
variance of 0, as of a point compared with itself, the mixture is the discrete
distribution on its means, and derivatives in the variance are 0 by convention.

Derivatives of roots of equations come from the implicit function theorem: the equation
is solved without a graph, and the first-order change of its root, linear in the changes
of ``m_s`` and ``sigma``, is attached to the solution.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

_LOG_SQRT_2PI = 0.5 * math.log(2 * math.pi)
_MAX_ITERATIONS = 200
_UNGUARDED_ITERATIONS = 5


def solve_quantile(p: Tensor, means: Tensor, deviation: Tensor) -> Tensor:
    """Solves for quantiles of a flat batch without a graph; see :func:`quantile`.

    ``p`` and the deviation, one for all components, are ``n``, means ``num_components x
    n``.
    """
    # Mirror the columns above the median: then the tail asked for is the lower one.
    sign = torch.where(p > 0.5, -1.0, 1.0).to(means)
    return sign * _solve_lower_quantile(
        torch.where(p > 0.5, 1 - p, p), sign * means, deviation
    )


def _solve_lower_quantile(p: Tensor, means: Tensor, deviation: Tensor) -> Tensor:
    """Solves for quantiles, ``p <= 1/2``, between those of the outermost components.

    Where sigma is 0 the quantile is one of the means.
    """
    z = torch.special.ndtri(p)
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


def _halley(
    means: Tensor, p: Tensor, deviation: Tensor, low: Tensor, high: Tensor
) -> Tensor:
    """Solves ``log F(x) = log p`` by Halley's steps, which a bracket keeps safe.

    Columns leave the batch as they are solved: all tensors shrink together.
    """
    eps = torch.finfo(means.dtype).eps
    x = _cornish_fisher(torch.special.ndtri(p), means, deviation).clamp(low, high)
    root, index = x.clone(), torch.arange(len(p), device=p.device)
    for iteration in range(_MAX_ITERATIONS):
        if iteration == _UNGUARDED_ITERATIONS:
            low, high = _bracket_by_order(p, means, deviation, low, high)
            x = x.clamp(low, high)
        lower, log_f, slope = tail_terms((x - means) / deviation, deviation)
        excess = lower.log() - p.log()
        # The derivative of log F, whose own is this times (slope - rate).
        rate = log_f.exp() / lower
        low, high = torch.where(excess <= 0, x, low), torch.where(excess > 0, x, high)
        step = excess / rate
        new = x - step / (1 - 0.5 * step * (slope - rate)).clamp(min=0.5)
        inside = (new >= low) & (new <= high)
        # Every second step halves the bracket, where steps may not contract.
        if iteration > _UNGUARDED_ITERATIONS and iteration % 2:
            inside = torch.zeros_like(inside)
        new = torch.where(inside, new, low + 0.5 * (high - low))
        root[index] = new
        # Cubic convergence: a step taken from this near lands at rounding, where the
        # slope hardly changes along it. In a gap between components it does.
        turn = (step * (slope - rate)).abs()
        solved = inside & (excess.abs() <= eps**0.4) & (turn <= eps**0.4)
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
    """Tightens a bracket where components are narrow beside their distances.

    With ``t = Phi(-c)`` negligible and ordered means ``m_(1) <= m_(2) ..`` of S
    components,

        F(m_(k) + c sigma) >= (1 - t) k / S,    F(m_(k) - c sigma) <= t + (k - 1) / S,

    of which the least ``k`` for a value of at least ``p`` gives the upper end, and the
    largest one for a value of at most ``p`` the lower end.
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
    """Computes ``F(x)``, ``log f(x)`` and the slope of the latter in ``x``.

    They are those of the mixture, from ``u_s = (x - m_s) / sigma``, ``num_components x
    n``, and the components' deviation sigma, ``n``.
    """
    # Subnormal numbers take a processor 20 times longer. Stopping short of them leaves
    # tails beyond 1e-290 in float64, and 1e-35 in float32, as they are.
    reach = math.sqrt(-math.log(torch.finfo(u.dtype).tiny)) - 0.3
    lower = torch.erfc((u * -math.sqrt(0.5)).clamp_(max=reach)).mean(0).mul_(0.5)
    return lower, *log_density_terms(u, deviation)


def log_density_terms(u: Tensor, deviation: Tensor) -> tuple[Tensor, Tensor]:
    """Computes ``log f(x)`` of the mixture and its slope, ``-sum_s w_s u_s / sigma``.

    They are from ``u_s = (x - m_s) / sigma``, with weights ``w_s`` in proportion to
    ``phi(u_s)``, which sum to 1.
    """
    exponent = u.square().mul_(-0.5)
    largest = exponent.amax(0)
    # Beside the largest weight, 1, the smallest normal number is as good as 0.
    smallest = math.log(torch.finfo(u.dtype).tiny) + 1
    weights = exponent.sub_(largest).clamp_(min=smallest).exp_()
    # Before the weights are overwritten.
    total = weights.sum(0)
    slope = -(weights.mul_(u)).sum(0) / (total * deviation)
    log_f = largest + (total / u.shape[0]).log() - deviation.log() - _LOG_SQRT_2PI
    return log_f, slope


def _cornish_fisher(z: Tensor, means: Tensor, deviation: Tensor) -> Tensor:
    """Expands the quantile to third order in the mixture's moments (Cornish-Fisher)."""
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
    """Finds the smallest mean with at least a fraction ``p`` of the means up to it."""
    count = means.shape[0]
    rank = (p * count).ceil().long().clamp(1, count) - 1
    return means.sort(dim=0).values.gather(0, rank.unsqueeze(0)).squeeze(0)


# The normal density is 0 in double precision from 38.6 on.
_NO_DENSITY = 40.0


def standard_deviation(variance: Tensor) -> Tensor:
    """Computes the square root with derivative 0, instead of infinity, at 0."""
    positive = variance > 0
    return torch.where(positive, torch.where(positive, variance, 1.0).sqrt(), 0.0)


def central_moments(means: Tensor, variance: Tensor) -> tuple[Tensor, Tensor]:
    """Computes variance and skewness of the mixture.

    With ``d_s = m_s - mean(m)``

        Var = sigma^2 + mean(d^2),    skewness = mean(d^3) / Var^(3/2),

    and the skewness is 0 where the standard deviation is within four roundings of the
    mean: for a point mass.
    """
    center = means.mean(0)
    deviation = means - center
    total = variance + deviation.square().mean(0)
    positive = total > (4 * torch.finfo(means.dtype).eps * center.detach()).square()
    safe_total = torch.where(positive, total, 1.0)
    # Standardise first: the cube of a small deviation would underflow in float32.
    skewness = (deviation / safe_total.sqrt()).pow(3).mean(0)
    return total, torch.where(positive, skewness, 0.0)


def expected_positive_part(means: Tensor, variance: Tensor) -> Tensor:
    """Computes the mean of ``max(u, 0)``, the expected improvement of a difference.

    With Mills' ratio ``R(a) = Phi(-a) / phi(a)`` a component has

        max(m, 0) + phi(a) (sigma - |m| R(a)),    a = |m| / sigma,

    where neither small values nor small slopes are the difference of large ones. The
    slope at a mean of 0 is a half, also at a variance of 0.
    """
    distance, deviation = means.abs(), standard_deviation(variance)
    # Farther off, and at a deviation of 0, there is nothing but max(m, 0).
    near = distance < _NO_DENSITY * deviation
    scale = torch.where(near, deviation, 1.0)
    a = distance / scale
    density = torch.exp(-0.5 * a.square() - _LOG_SQRT_2PI)
    mills = math.sqrt(0.5 * math.pi) * torch.special.erfcx(a * math.sqrt(0.5))
    spread = torch.where(near, density * (scale - distance * mills), 0.0)
    # Not the mean of m and |m|, whose slopes would cancel to no digits of Phi(-a).
    part = means * torch.heaviside(means.detach(), means.new_tensor(0.5))
    return (part + spread).mean(0)


def log_density(x: Tensor, means: Tensor, variance: Tensor) -> Tensor:
    """Computes the log density at ``x``; the variance must be positive."""
    deviation = variance.sqrt()
    u = (x - _align(means, x.dim())) / deviation
    log_sum = torch.logsumexp(-0.5 * u.square(), dim=0)
    return log_sum - math.log(means.shape[0]) - deviation.log() - _LOG_SQRT_2PI


def cdf(x: Tensor, means: Tensor, variance: Tensor) -> Tensor:
    """Computes the distribution function, to all digits in the lower tail.

    For the upper tail, mirror the mixture.
    """
    positive = variance > 0
    deviation = torch.where(positive, variance, 1.0).sqrt()
    distance = x - _align(means, x.dim())
    # `torch.special.ndtr` is 0 below -8.3 in float64; the complementary error
    # function keeps its relative precision to the underflow and is ten times faster.
    smooth = 0.5 * torch.erfc(distance / (-math.sqrt(2) * deviation))
    step = (distance.detach() >= 0).to(smooth.dtype)
    return torch.where(positive, smooth, step).mean(0)


def quantile(p: Tensor | float, means: Tensor, variance: Tensor) -> Tensor:
    """Solves ``F(x) = p`` for the quantile of the mixture, for ``p`` in (0, 1).

    Halley steps on ``log F`` (on the smaller tail) from a Cornish-Fisher start, inside
    the bracket ``min_s m_s + z_p sigma <= x <= max_s m_s + z_p sigma``. Where
    components are so far apart that steps do not contract, order statistics tighten the
    bracket and bisections alternate with the steps. With responsibilities ``w_s =
    phi(u_s) / sum_t phi(u_t)`` and density ``f``,

        dx = sum_s w_s (dm_s + u_s dsigma) + dp / f(x).
    """
    p = torch.as_tensor(p, dtype=means.dtype, device=means.device)
    shape = torch.broadcast_shapes(p.shape, variance.shape)
    p, variance = p.expand(shape), variance.expand(shape)
    means = _align(means, len(shape)).expand(-1, *shape)
    with torch.no_grad():
        flat = solve_quantile(
            p.reshape(-1), means.reshape(means.shape[0], -1), variance.sqrt().flatten()
        )
        root = flat.reshape(shape)
    differentiated = p.requires_grad or means.requires_grad or variance.requires_grad
    if not (torch.is_grad_enabled() and differentiated):
        return root
    deviation = standard_deviation(variance)
    with torch.no_grad():
        u, weights = responsibilities(root, means, deviation)
    root = attach_root(root, means, deviation, weights, (weights * u).sum(0))
    if p.requires_grad:
        inverse_density = (-log_density(root, means, variance)).exp().detach()
        root = root + (p - p.detach()) * inverse_density
    return root


def responsibilities(
    x: Tensor, means: Tensor, deviation: Tensor
) -> tuple[Tensor, Tensor]:
    """Computes ``u_s = (x - m_s) / sigma``, and the shares of components in ``f(x)``.

    These are the weights ``w_s``, which sum to 1. Where sigma is 0, the means at ``x``
    have equal shares, and ``u_s`` is 0.
    """
    positive = deviation > 0
    u = (x - means) / torch.where(positive, deviation, 1.0)
    weights = torch.softmax(-0.5 * u.square(), dim=0)
    if not bool(positive.all()):
        tied = (means == x).to(weights.dtype)
        weights = torch.where(positive, weights, tied / tied.sum(0))
        u = torch.where(positive, u, 0.0)
    return u, weights


def attach_root(
    root: Tensor,
    means: Tensor,
    deviation: Tensor,
    mean_coefficients: Tensor,
    deviation_coefficient: Tensor,
) -> Tensor:
    """Attaches derivatives in the means and sigma to a root without a graph.

    The coefficients are these derivatives, ``num_components x ...`` and ``...``; the
    value of the root stays the same.
    """
    shift = (mean_coefficients * (means - means.detach())).sum(0)
    return root + shift + deviation_coefficient * (deviation - deviation.detach())


def _align(means: Tensor, dim: int) -> Tensor:
    """Inserts dimensions behind the components' so that the batch broadcasts."""
    missing = max(dim - (means.dim() - 1), 0)
    return means.reshape(means.shape[0], *[1] * missing, *means.shape[1:])


# Below it the series is right within 3e-13, above it the difference within 7e-12.
_SERIES = 0.01


def tailed_positive_part(means: Tensor, variance: Tensor) -> Tensor:
    r"""Computes the mean of ``max(u, 0)`` of t components, 3 degrees of freedom.

    Such a t is a Gaussian whose variance is :math:`\tau^2 / V` with :math:`3 V \sim
    \chi^2_3`: what is left of a prediction when its scale may be wrong. A component of
    location m and scale :math:`\tau` has, with :math:`a = \sqrt3 \tau`,

    .. math:: E[\max(u, 0)] = \max(m, 0)
        + \frac{1}{\pi} \Big(a - |m| \arctan \frac{a}{|m|}\Big) .
    """
    distance, width = means.abs(), math.sqrt(3.0) * standard_deviation(variance)
    distance, width = torch.broadcast_tensors(distance, width)
    far = width <= _SERIES * distance
    # Where both are 0, the angle has no derivative; there is no spread either.
    open_ = (width > 0) & ~far
    a, d = torch.where(open_, width, 1.0), torch.where(open_, distance, 1.0)
    near_spread = a - d * torch.atan2(a, d)
    ratio = torch.where(far & (distance > 0), width, 0.0) / torch.where(
        far & (distance > 0), distance, 1.0
    )
    square = ratio.square()
    # a - |m| arctan(a / |m|) by the series of the arctangent.
    far_spread = width * square * (1 / 3 - square * (1 / 5 - square / 7))
    spread = torch.where(open_, near_spread, torch.where(far, far_spread, 0.0))
    # Not the mean of m and |m|, whose slopes would cancel to no digits in the tail.
    part = means * torch.heaviside(means.detach(), means.new_tensor(0.5))
    return (part + spread / math.pi).mean(0)


# --- The narrowest interval

_MAX_NEWTON_STEPS = 10
_MAX_ROUNDS = 8
_BISECTIONS_PER_ROUND = 8


def narrowest_interval(
    means: Tensor, variance: Tensor, level: float
) -> tuple[Tensor, Tensor]:
    """Computes the ends ``a < b`` of the narrowest interval of probability ``level``.

    They satisfy ``F(b) - F(a) = level`` and ``f(a) = f(b)``. The marginals of a
    skew-normal process are log-concave, so that this point is unique; a finite mixture
    may have ripples, and then the interval is a local minimum of the width, never wider
    than the central interval. Where an end falls into a gap without probability, equal
    densities are lost in rounding. Where the variance is 0 it is the shortest interval
    with at least ``level`` of the means.

    By Newton steps from the central interval moved by ``-skewness / 3`` standard
    deviations (Cornish-Fisher); what does not converge to such a minimum is found by
    bisection, downhill in width from the central interval. A level outside (0, 1) is a
    ``ValueError``.
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
    """Attaches to both ends of the narrowest interval their derivatives.

    With ``l = log f``, ``dA = sum_s w_s (dm_s + u_s dsigma)`` at ``a``, ``dB`` the same
    at ``b`` and ``dl`` the change of ``l`` at a fixed point,

        db - da = dB - dA,    l'(b) db - l'(a) da = dl(a) - dl(b).
    """
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
    """Solves for both ends of narrowest intervals, of a flat batch without a graph.

    Means are ``num_components x n``; the deviation, one for all components, is ``n``.
    """
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
    unsolved = (positive & ~good).nonzero().squeeze(-1)
    if len(unsolved) > 0:
        lower[unsolved], upper[unsolved] = _descend(
            central_low[unsolved],
            central_up[unsolved],
            means[:, unsolved],
            deviation[unsolved],
            level,
        )
    if not bool(positive.all()):
        window_low, window_up = _shortest_window(means, level)
        lower = torch.where(positive, lower, window_low)
        upper = torch.where(positive, upper, window_up)
    return lower, upper


def _newton(
    lower: Tensor, upper: Tensor, means: Tensor, deviation: Tensor, level: float
) -> tuple[Tensor, Tensor, Tensor]:
    """Solves for level and equal densities by Newton; also tells which converged.

    ``mass`` is by how much the log of both tails together is above that of ``1 -
    level``, and ``height`` the difference of log densities at the ends: both are to
    be 0.
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
    """Descends from the central interval to a minimum of the width.

    With ``b(a)`` set by the level, the width has the slope ``f(a) / f(b) - 1``, after
    mirroring negative at the central interval; beyond ``a = F^-1(1 - level)`` no
    interval exists. Bisection brackets a minimum, and Newton steps finish it.
    """
    log_f_low = log_density_terms((lower - means) / deviation, deviation)[0]
    log_f_up = log_density_terms((upper - means) / deviation, deviation)[0]
    mirror = log_f_low > log_f_up
    means = torch.where(mirror, -means, means)
    a = torch.where(mirror, -upper, lower)
    b = torch.where(mirror, -lower, upper)
    bracket_high = solve_quantile(torch.full_like(a, 1 - level), means, deviation)
    index = torch.arange(len(a), device=a.device)
    bracket_low, upper_end = a.clone(), b.clone()
    slack = 1 + 4 * torch.finfo(means.dtype).eps
    for _ in range(_MAX_ROUNDS):
        bracket_low, upper_end, bracket_high = _bisect(
            bracket_low, upper_end, bracket_high, means, deviation, level
        )
        near_a, near_b, good = _newton(bracket_low, upper_end, means, deviation, level)
        good = good & (near_b - near_a <= slack * (upper_end - bracket_low))
        a[index] = torch.where(good, near_a, bracket_low)
        b[index] = torch.where(good, near_b, upper_end)
        if bool(good.all()):
            break
        index, bracket_low, upper_end, bracket_high = (
            t[~good] for t in (index, bracket_low, upper_end, bracket_high)
        )
        means, deviation = means[:, ~good], deviation[~good]
    return torch.where(mirror, -b, a), torch.where(mirror, -a, b)


def _bisect(
    bracket_low: Tensor,
    upper_end: Tensor,
    bracket_high: Tensor,
    means: Tensor,
    deviation: Tensor,
    level: float,
) -> tuple[Tensor, Tensor, Tensor]:
    """Halves the bracket of the lower end ``a`` of the narrowest interval a few times.

    The width falls to the right of ``bracket_low``, whose upper end is ``upper_end``;
    at ``bracket_high`` it rises, or is greater than at ``bracket_low``. Both stay true.
    """
    for _ in range(_BISECTIONS_PER_ROUND):
        middle = bracket_low + 0.5 * (bracket_high - bracket_low)
        below, log_f_low, _ = tail_terms((middle - means) / deviation, deviation)
        # Any tail far below the rounding of the level will do where none is left.
        above = (1 - level - below).clamp(min=torch.finfo(means.dtype).tiny ** 0.5)
        opposite = -solve_quantile(above, -means, deviation)
        log_f_up = log_density_terms((opposite - means) / deviation, deviation)[0]
        advance = (log_f_low < log_f_up) & (opposite - middle < upper_end - bracket_low)
        bracket_low = torch.where(advance, middle, bracket_low)
        upper_end = torch.where(advance, opposite, upper_end)
        bracket_high = torch.where(advance, bracket_high, middle)
    return bracket_low, upper_end, bracket_high


def _shortest_window(means: Tensor, level: float) -> tuple[Tensor, Tensor]:
    """Finds the shortest interval with at least a fraction ``level`` of the means."""
    ordered = means.sort(dim=0).values
    count = means.shape[0]
    inside = min(max(math.ceil(level * count), 1), count)
    first = (ordered[inside - 1 :] - ordered[: count - inside + 1]).argmin(0, True)
    return ordered.gather(0, first)[0], ordered.gather(0, first + inside - 1)[0]


def systematic_sample(weights: Tensor, count: int, offset: Tensor) -> Tensor:
    """Draws components by systematic resampling (Kitagawa 1996).

    Each comes up ``count`` times its weight, rounded up or down.

    Args:
        weights: ``batch_shape x n``, which sum to 1.
        count: How many are drawn.
        offset: Uniform in [0, 1), of ``batch_shape x 1`` or one for all.

    Returns:
        Places of components, increasing, ``batch_shape x count``.
    """
    steps = torch.arange(count, dtype=weights.dtype, device=weights.device)
    grid = ((steps + offset) / count).expand(*weights.shape[:-1], count).contiguous()
    places = torch.searchsorted(weights.cumsum(-1), grid, right=True)
    return places.clamp_max(weights.shape[-1] - 1)
