"""Univariate equal-weight Gaussian mixtures whose components share one variance.

The marginal of a skew-normal process given ``S`` draws of its latent variables is

    F(x) = 1/S sum_s Phi(u_s),    u_s = (x - m_s) / sigma,

with component means ``m_s`` and one component variance ``sigma^2``. Everywhere
``means`` is ``num_components x batch_shape`` and ``variance`` is ``batch_shape``,
nonnegative. A variance of 0 is legal where a point is compared with itself: the
mixture is then the discrete distribution on its means, and derivatives with respect
to the variance, which are infinite there, are 0 by convention.

Derivatives of quantities defined by an equation come from the implicit function
theorem: the equation is solved without a graph and the first-order change of its
root, linear in the changes of ``m_s`` and ``sigma``, is attached to the solution.
They are exact to first order; second derivatives are not available.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from botorch_pref.numerics.mixtures.mixture_quantile_solver import solve_quantile

_LOG_SQRT_2PI = 0.5 * math.log(2 * math.pi)
# The normal density is 0 in double precision from 38.6 on.
_NO_DENSITY = 40.0


def standard_deviation(variance: Tensor) -> Tensor:
    """Square root with derivative 0, instead of infinity, at 0.

    Args:
        variance: Any shape, nonnegative.

    Returns:
        The square root, same shape.
    """
    positive = variance > 0
    return torch.where(positive, torch.where(positive, variance, 1.0).sqrt(), 0.0)


def central_moments(means: Tensor, variance: Tensor) -> tuple[Tensor, Tensor]:
    """Variance and skewness of the mixture.

    With ``d_s = m_s - mean(m)`` the shared variance gives

        Var = sigma^2 + mean(d^2),    skewness = mean(d^3) / Var^(3/2).

    Args:
        means: ``num_components x batch_shape``.
        variance: ``batch_shape``.

    Returns:
        Variance and skewness, each ``batch_shape``. The skewness is 0 for a point mass:
        where the standard deviation is within four roundings of the mean.
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
    """Mean of ``max(u, 0)``: the expected improvement of a difference ``u``.

    A component has ``E[max(u, 0)] = m Phi(m / sigma) + sigma phi(m / sigma)``, here

        max(m, 0) + phi(a) (sigma - |m| R(a)),    a = |m| / sigma,

    with Mills' ratio ``R(a) = Phi(-a) / phi(a)``, so that neither small values nor
    small slopes are the difference of large ones: both are right to about ``a^2``
    roundings of themselves.

    Args:
        means: ``num_components x batch_shape``.
        variance: ``batch_shape``, nonnegative.

    Returns:
        ``batch_shape``, nonnegative. The slope with respect to a mean of 0 is a half,
        also at a variance of 0.
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
    """Logarithm of the mixture density, by log-sum-exp over the components.

    Args:
        x: Broadcastable with ``batch_shape``.
        means: ``num_components x batch_shape``.
        variance: ``batch_shape``, positive (a point mass has no density).

    Returns:
        Log density, the shape of ``x`` broadcast with ``batch_shape``.
    """
    deviation = variance.sqrt()
    u = (x - _align(means, x.dim())) / deviation
    log_sum = torch.logsumexp(-0.5 * u.square(), dim=0)
    return log_sum - math.log(means.shape[0]) - deviation.log() - _LOG_SQRT_2PI


def cdf(x: Tensor, means: Tensor, variance: Tensor) -> Tensor:
    """Distribution function ``F(x) = 1/S sum_s Phi((x - m_s) / sigma)``.

    Its relative error stays at rounding in the lower tail; take
    ``cdf(-x, -means, variance)`` for the upper one.

    Args:
        x: Broadcastable with ``batch_shape``.
        means: ``num_components x batch_shape``.
        variance: ``batch_shape``, nonnegative.

    Returns:
        Probabilities, the shape of ``x`` broadcast with ``batch_shape``.
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
    """Quantile of the mixture: the root of ``F(x) = p``.

    Halley steps on ``log F`` (on the smaller tail) from a Cornish-Fisher start, inside
    the bracket ``min_s m_s + z_p sigma <= x <= max_s m_s + z_p sigma``; one component
    closes the bracket, so a Gaussian gets ``m + z_p sigma`` exactly. Where
    components are so far apart that steps do not contract, order statistics tighten
    the bracket and bisections alternate with the steps.

    The derivative follows from ``F(x; m, sigma) = p``: with responsibilities
    ``w_s = phi(u_s) / sum_t phi(u_t)`` and density ``f``,

        dx = sum_s w_s (dm_s + u_s dsigma) + dp / f(x).

    Args:
        p: Probability in (0, 1), broadcastable with ``batch_shape``.
        means: ``num_components x batch_shape``.
        variance: ``batch_shape``, nonnegative.

    Returns:
        Quantiles, the shape of ``p`` broadcast with ``batch_shape``, differentiable in
        all three arguments.
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
    if not _needs_graph(p, means, variance):
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
    """Standardised distances and posterior component weights at a point.

    Args:
        x: ``batch_shape``.
        means: ``num_components x batch_shape``.
        deviation: ``batch_shape``, nonnegative.

    Returns:
        ``u_s = (x - m_s) / sigma`` and ``w_s = phi(u_s) / sum_t phi(u_t)``, each
        ``num_components x batch_shape``. Where the deviation is 0 the weight is shared
        by the components at ``x`` exactly, and ``u`` is 0.
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
    """Give a root found without a graph its first-order dependence on the mixture.

    Args:
        root: ``batch_shape``, the solution.
        means: ``num_components x batch_shape``.
        deviation: ``batch_shape``.
        mean_coefficients: d root / d m_s, ``num_components x batch_shape``.
        deviation_coefficient: d root / d sigma, ``batch_shape``.

    Returns:
        ``root`` in value, with these derivatives.
    """
    shift = (mean_coefficients * (means - means.detach())).sum(0)
    return root + shift + deviation_coefficient * (deviation - deviation.detach())


def _align(means: Tensor, dim: int) -> Tensor:
    """Insert dimensions behind the components' so that the batch broadcasts."""
    missing = max(dim - (means.dim() - 1), 0)
    return means.reshape(means.shape[0], *[1] * missing, *means.shape[1:])


def _needs_graph(*tensors: Tensor) -> bool:
    """Whether any of these tensors asks for a derivative now."""
    return torch.is_grad_enabled() and any(t.requires_grad for t in tensors)
