"""Values of a duel by brute force, for a utility that is linear with normal weights.

Each takes ``win``, the probability that the first item wins given the difference of
utilities; the weights' ``centers``, one for each component of a mixture, and their
deviation ``scale``; and the ``pair`` of points, the challenger before the reference. It
returns the value and how far off it may be.
"""

import math
from collections.abc import Callable

import torch
from scipy.integrate import quad
from scipy.stats import norm
from scipy.stats import t as student
from torch import Tensor

Win = Callable[[Tensor], Tensor]
Value = tuple[float, float]
# Of the closed forms of the expected entropy, in nats, with 40,001 points of a grid.
ENTROPY_ERROR = 1.1e-7


def entropy(p: Tensor) -> Tensor:
    return -(torch.xlogy(p, p) + torch.xlogy(1 - p, 1 - p))


def differences(centers: Tensor, scale: float, pair: Tensor) -> tuple[Tensor, float]:
    """Computes means and the deviation of the difference of utilities."""
    step = pair[0] - pair[1]
    return centers @ step, scale * float(step.norm())


def density(centers: Tensor, scale: float, pair: Tensor) -> tuple[Tensor, Tensor]:
    """Makes a grid of differences of utilities, and their density."""
    means, deviation = differences(centers, scale, pair)
    ends = float(means.min()) - 10 * deviation, float(means.max()) + 10 * deviation
    u = torch.linspace(*ends, 40_001, dtype=torch.double)
    z = (u - means.unsqueeze(-1)) / deviation
    return u, torch.exp(-0.5 * z.square()).mean(0) / (
        deviation * math.sqrt(2 * math.pi)
    )


def information(win: Win, centers: Tensor, scale: float, pair: Tensor) -> Value:
    """Computes ``h(P) - E[h]``."""
    u, weight = density(centers, scale, pair)
    p = win(u)
    remaining = torch.trapezoid(entropy(p) * weight, u)
    return float(entropy(torch.trapezoid(p * weight, u)) - remaining), ENTROPY_ERROR


def probable_information(k: float) -> Callable[..., Value]:
    """Makes ``k log P + h(P) - E[h]``."""

    def value(win: Win, centers: Tensor, scale: float, pair: Tensor) -> Value:
        u, weight = density(centers, scale, pair)
        gain, error = information(win, centers, scale, pair)
        return k * math.log(float(torch.trapezoid(win(u) * weight, u))) + gain, error

    return value


def win_variance(win: Win, centers: Tensor, scale: float, pair: Tensor) -> Value:
    """Computes ``Var[g(u)]``."""
    u, weight = density(centers, scale, pair)
    p = win(u)
    mean = torch.trapezoid(p * weight, u)
    value = float(torch.trapezoid((p - mean).square() * weight, u))
    return value, 1e-6 * value


def improvement(win: Win, centers: Tensor, scale: float, pair: Tensor) -> Value:
    """Computes ``E[max(u, 0)]``; the kink costs the square of a step of the grid."""
    u, weight = density(centers, scale, pair)
    step = float(u[1] - u[0])
    value = float(torch.trapezoid(u.clamp_min(0.0) * weight, u))
    return value, step**2 * float(weight.amax()) + 1e-9 * abs(float(u[-1]))


def tailed_improvement(win: Win, centers: Tensor, scale: float, pair: Tensor) -> Value:
    """Computes ``E[max(t, 0)]`` of Student's t, the integral of ``P(t > u)``."""
    means, deviation = differences(centers, scale, pair)
    parts = [
        quad(lambda u, m=m: student.sf((u - m) / deviation, 3), 0, math.inf, limit=200)
        for m in means.tolist()
    ]
    values, errors = zip(*parts, strict=True)
    return math.fsum(values) / len(parts), max(errors) + 1e-9


def upper_end(level: float) -> Callable[..., Value]:
    """Makes the upper end of the shortest interval that has the level."""

    def value(win: Win, centers: Tensor, scale: float, pair: Tensor) -> Value:
        means, deviation = differences(centers, scale, pair)
        ends = float(means.min()) - 5 * deviation, float(means.max()) + 5 * deviation
        u = torch.linspace(*ends, 8_001, dtype=torch.double)
        z = (u.unsqueeze(-1) - means) / deviation
        below = torch.from_numpy(norm.cdf(z.numpy())).mean(1)
        ends = torch.searchsorted(below, below + level)
        inside = ends < len(u)
        width = torch.where(inside, u[ends.clamp_max(8_000)] - u, torch.inf)
        best = int(width.argmin())
        # The width is flat at its minimum: the ends are known to a few grid steps.
        return float(u[ends[best]]), 30 * float(u[1] - u[0])

    return value


def knowledge(choices: Tensor) -> Callable[..., Value]:
    """Makes the gain of the best mean: ``E[f(x) | u]`` is linear in ``u``."""

    def value(win: Win, centers: Tensor, scale: float, pair: Tensor) -> Value:
        candidates = torch.cat([choices, pair])
        step = pair[0] - pair[1]
        variance = scale**2 * float(step.square().sum())
        total = [torch.zeros(len(candidates), dtype=torch.double) for _ in range(2)]
        for center in centers:
            mean = float(center @ step)
            u = torch.linspace(-9, 9, 4001, dtype=torch.double) * variance**0.5 + mean
            weight = torch.exp(-0.5 * (u - mean).square() / variance)
            weight = weight / weight.sum()
            slope = scale**2 * (candidates @ step) / variance
            utility = candidates @ center + slope * (u - mean).unsqueeze(-1)
            for i, sign in enumerate((1, -1)):
                total[i] += (weight * win(sign * u)) @ utility / len(centers)
        now = (choices @ centers.mean(0)).amax()
        return float(total[0].amax() + total[1].amax() - now), 1e-9

    return value
