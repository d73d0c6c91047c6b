"""Exact draws of a normal variable kept to an interval, in every tail."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from botorch_pref.numerics.log_ndtr import hazard

_SQRT_HALF = math.sqrt(0.5)
# The interval is in the tail if its likelier end is so many deviations from the mean.
_TAIL = 5.0
# Phi(10) is 1 in double precision, and exp(10^2 / 2) is finite in single.
_ALL_MASS = 10.0
# From E / h(beta) the error of Newton's method falls as 2, 0.2, 3e-3, 3e-7, 5e-15 in
# the worst case, beta = -5 and E = -log 2^-53.
_NEWTON_STEPS = 6


def _log_decay(beta: Tensor, distance: Tensor) -> Tensor:
    r""":math:`\log \Phi(\beta) - \log \Phi(\beta - \delta)` without cancellation.

    With the scaled :math:`\mathrm{erfcx}(t) = e^{t^2} \mathrm{erfc}(t)` the squares in
    the exponents subtract to :math:`\delta (\delta / 2 - \beta)`.
    """
    near = torch.special.erfcx(-_SQRT_HALF * beta)
    far = torch.special.erfcx(_SQRT_HALF * (distance - beta))
    return distance * (0.5 * distance - beta) + torch.log(near / far)


def _distance_in_tail(beta: Tensor, energy: Tensor) -> Tensor:
    r"""Solves :math:`\log \Phi(\beta) - \log \Phi(\beta - \delta) = E` for a deep beta.

    The left side is convex and increasing in :math:`\delta`, so Newton's method falls
    monotonely from :math:`E / h(\beta)`, which lies above the solution.
    """
    distance = energy / hazard(beta)
    for _ in range(_NEWTON_STEPS):
        excess = _log_decay(beta, distance) - energy
        distance = distance - excess / hazard(beta - distance)
    return distance


def _log_mass_ratio(alpha: Tensor, beta: Tensor, width: Tensor) -> Tensor:
    r""":math:`\log \Phi(\beta) - \log \Phi(\alpha)`, infinite for infinite alpha."""
    bounded = alpha.isfinite()
    if not bool(bounded.any()):
        return torch.full_like(beta, torch.inf)
    near = beta.clamp(max=_ALL_MASS)
    distance = torch.where(beta > _ALL_MASS, near - alpha, width)
    finite = torch.where(bounded, distance, torch.ones_like(distance))
    return torch.where(bounded, _log_decay(near, finite), torch.inf)


def truncated_normal_quantile(
    uniform: Tensor, mean: Tensor, variance: Tensor, lower: Tensor, upper: Tensor
) -> Tensor:
    r"""Draws of :math:`N(\mu_i, r_i)` kept to :math:`[l_i, u_i]` from uniform draws.

    Each interval is mirrored so that its mass lies towards its upper standardised end
    :math:`\beta`, and the quantile solves :math:`\Phi(x) = \Phi(\beta) q`. Where
    :math:`\beta < -5` the distance :math:`\beta - x` to the bound is solved for
    instead of :math:`x`, in log space, so that draws next to a bound that is hundreds
    of deviations away keep their digits.

    Args:
        uniform: In [0, 1).
        mean: :math:`\mu`, any shape.
        variance: :math:`r`, positive.
        lower: :math:`l`, ``-inf`` for none.
        upper: :math:`u`, ``inf`` for none; ``l < u``. All five broadcast.

    Returns:
        Values of the broadcast shape, inside their intervals.
    """
    uniform, mean, variance, lower, upper = torch.broadcast_tensors(
        uniform, mean, variance, lower, upper
    )
    scale = variance.sqrt()
    below, above = (lower - mean) / scale, (upper - mean) / scale
    mirrored = below + above > 0
    alpha = torch.where(mirrored, -above, below)
    beta = torch.where(mirrored, -below, above)
    # q = 1 - u (1 - Phi(alpha) / Phi(beta)), and p - 1 of it.
    shortfall = uniform * torch.expm1(
        -_log_mass_ratio(alpha, beta, (upper - lower) / scale)
    )
    x = torch.special.ndtri(torch.special.ndtr(beta) * (1 + shortfall))
    sign = torch.where(mirrored, -scale, scale)
    draws = mean + sign * x
    tail = beta < -_TAIL
    if bool(tail.any()):
        bound = torch.where(mirrored, lower, upper)[tail]
        distance = _distance_in_tail(beta[tail], -torch.log1p(shortfall[tail]))
        draws[tail] = bound - sign[tail] * distance
    # Rounding alone can leave the interval.
    return torch.minimum(torch.maximum(draws, lower), upper)


def sample_truncated_normal(
    mean: Tensor,
    variance: Tensor,
    lower: Tensor,
    upper: Tensor,
    generator: torch.Generator | None = None,
) -> Tensor:
    r"""One draw of each :math:`N(\mu_i, r_i)` kept to :math:`[l_i, u_i]`.

    Inverts the distribution function at a uniform draw, see
    :func:`truncated_normal_quantile`.

    Args:
        mean: :math:`\mu`, any shape.
        variance: :math:`r`, positive.
        lower: :math:`l`, ``-inf`` for none.
        upper: :math:`u`, ``inf`` for none; ``l < u``. All four broadcast.
        generator: Source of randomness on the device of ``mean``; ``None`` for torch's
            own.

    Returns:
        Draws of the broadcast shape, inside their intervals.
    """
    shape = torch.broadcast_shapes(mean.shape, variance.shape, lower.shape, upper.shape)
    uniform = torch.rand(
        shape, generator=generator, dtype=mean.dtype, device=mean.device
    )
    return truncated_normal_quantile(uniform, mean, variance, lower, upper)
