"""Values of a duel from draws of the utilities, with their standard errors.

Each takes ``win``, as in ``duel_values``, and draws of utilities of the challenger, the
reference and whatever other points count, ``num_draws x n``.
"""

import math
from collections.abc import Callable

from torch import Tensor
from truths.duel_values import Win, entropy

Estimate = tuple[float, float]


def _mean(draws: Tensor) -> Estimate:
    return float(draws.mean()), float(draws.std()) / math.sqrt(len(draws))


def information(win: Win, f: Tensor) -> Estimate:
    return probable_information(0.0)(win, f)


def probable_information(k: float) -> Callable[..., Estimate]:
    def estimate(win: Win, f: Tensor) -> Estimate:
        p = win(f[:, 0] - f[:, 1])
        mean = p.mean()
        value = k * mean.log() + entropy(mean) - entropy(p).mean()
        # To first order, that is a mean of (k / P + h'(P)) p - h(p) over the draws.
        slope = k / mean + ((1 - mean) / mean).log()
        return float(value), _mean(slope * p - entropy(p))[1]

    return estimate


def win_variance(win: Win, f: Tensor) -> Estimate:
    p = win(f[:, 0] - f[:, 1])
    return _mean((p - p.mean()).square())


def improvement(win: Win, f: Tensor) -> Estimate:
    return _mean((f[:, 0] - f[:, 1]).clamp_min(0.0))


def knowledge(win: Win, f: Tensor) -> Estimate:
    """Of choices that are the points after the pair."""
    u = f[:, 0] - f[:, 1]
    now = f.mean(0)[2:].argmax() + 2
    # Gains on the choice that is the best now, as the answer is a win or a loss.
    gain = f - f[:, now : now + 1]
    parts = [gain * win(sign * u).unsqueeze(-1) for sign in (1, -1)]
    value = sum(float(part.mean(0).amax()) for part in parts)
    error = sum(float(part.std(0).amax()) for part in parts) / math.sqrt(len(f))
    return value, error
