r"""The logistic function of a Gaussian variable: closed forms by fast series.

With :math:`u \sim N(\mu, \tau^2)` and :math:`t = |u|`, everything wanted is a power
series in :math:`e^{-t}` with alternating signs, for u > 0

.. math::
    \sigma(u) = \sum_{k \ge 0} (-1)^k e^{-kt}, \qquad
    \log(1 + e^{-t}) = \sum_{k \ge 1} (-1)^{k-1} e^{-kt} / k ,

of whose terms the expectations are

.. math::
    b_k(\mu) = E[e^{-kt}; u > 0]
    = e^{-k \mu + k^2 \tau^2 / 2} \, \Phi(\mu / \tau - k \tau),
    \qquad E[e^{-kt}; u < 0] = b_k(-\mu).

As functions of k these are moments of a positive measure on [0, 1], for which algorithm
1 of Cohen, Rodriguez Villegas and Zagier (2000) sums n terms with a relative error
below :math:`2 \cdot 5.83^{-n}`: rounding from 20 terms.
"""

from __future__ import annotations

import math

import torch
from botorch.utils.probability.utils import log_ndtr
from torch import Tensor
from torch.nn.functional import logsigmoid

from botorch_pref.numerics.normal import hazard_excess, with_slope

_NUM_TERMS = 20
# Below it a Taylor step in the variance (relative error tau^4 / 8 or less) is exact to
# rounding in effect, and the series, which divides by tau, loses digits.
_SMALL_DEVIATION = 1e-3


def _acceleration_weights(num_terms: int) -> tuple[float, ...]:
    """Computes weights of the first terms of an alternating series, signs included.

    The sum of ``num_terms`` terms with these weights approximates the limit: algorithm
    1 of Cohen, Rodriguez Villegas and Zagier (2000).
    """
    d = 0.5 * ((3 + math.sqrt(8)) ** num_terms + (3 - math.sqrt(8)) ** num_terms)
    b, c, weights = -1.0, -d, []
    for k in range(num_terms):
        c = b - c
        weights.append(c / d)
        b *= (k + num_terms) * (k - num_terms) / ((k + 0.5) * (k + 1))
    return tuple(weights)


_WEIGHTS = _acceleration_weights(_NUM_TERMS)


def _log_scaled_tail(z: Tensor) -> Tensor:
    r"""Computes :math:`\log \Phi(z) + z^2 / 2`, z < 0, of slope :math:`z + h(z)`."""
    return torch.log(0.5 * torch.special.erfcx(z * -math.sqrt(0.5)))


def _log_half_moments(mean: Tensor, deviation: Tensor, first: int) -> Tensor:
    r"""Computes :math:`\log b_k`, ``k = first, first + 1, ..``, the last dimension.

    With a Gaussian ``u``, :math:`b_k = E[e^{-k u}; u > 0]`; there are `_NUM_TERMS`.
    """
    k = torch.arange(first, first + _NUM_TERMS, dtype=mean.dtype, device=mean.device)
    mean, deviation = mean.unsqueeze(-1), deviation.unsqueeze(-1)
    z = mean / deviation - k * deviation
    in_tail = z <= 0
    # Two forms of the same, each without the cancellation of the other.
    tail = with_slope(torch.where(in_tail, z, 0.0), _log_scaled_tail, hazard_excess)
    tail = tail - 0.5 * (mean / deviation).square()
    body = k * (0.5 * k * deviation.square() - mean)
    body = torch.where(in_tail, 0.0, body) + log_ndtr(torch.where(in_tail, 0.0, z))
    return torch.where(in_tail, tail, body)


def _log_alternating_sum(log_terms: Tensor) -> Tensor:
    """Computes ``log sum_k (-1)^k exp(log_terms_k)`` of an infinite series.

    Of its terms the first `_NUM_TERMS`, ``k`` from 0, are along the last dimension.
    """
    weights = log_terms.new_tensor(_WEIGHTS)
    first = log_terms[..., :1]
    ratio = torch.exp(log_terms - first)
    return first.squeeze(-1) + (ratio * weights).sum(-1).log()


def log_expected_sigmoid(mean: Tensor, variance: Tensor) -> Tensor:
    r"""Computes :math:`\log E[1 / (1 + e^{-u})]` to rounding, differentiable once.

    The variable ``u`` is Gaussian, with this mean and variance.
    """
    mean, variance = torch.broadcast_tensors(mean, variance)
    small = variance < _SMALL_DEVIATION**2
    step = 0.5 * torch.where(small, variance, 0.0)
    deviation = torch.where(small, 1.0, variance).sqrt()
    # The parts of the expectation with u < 0 and with u > 0.
    below = _log_alternating_sum(_log_half_moments(-mean, deviation, 1))
    above = _log_alternating_sum(_log_half_moments(mean, deviation, 0))
    loss = torch.sigmoid(-mean)
    curvature = loss * (2 * loss - 1)
    taylor = logsigmoid(mean) + torch.log1p(step * curvature)
    return torch.where(small, taylor, torch.logaddexp(below, above))


def _normal_scales() -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Computes deviations and weights of normals whose mixture is the logistic.

    A logistic variable is normal with twice a deviation of Kolmogorov's distribution
    (Andrews and Mallows 1974), by the trapezoidal rule in its logarithm.
    """
    logs = torch.linspace(math.log(0.25), math.log(4.0), 10, dtype=torch.float64)
    scale = logs.exp()
    k = torch.arange(1.0, 60.0, dtype=torch.float64).unsqueeze(-1)
    terms = -((-1) ** k) * k.square() * torch.exp(-2 * (k * scale).square())
    weights = scale.square() * terms.sum(0)
    return tuple((2 * scale).tolist()), tuple((weights / weights.sum()).tolist())


_SCALES, _SCALE_WEIGHTS = _normal_scales()


def smooth_sigmoid(mean: Tensor, variance: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    r"""Computes :math:`\log E[1 / (1 + e^{-u})]` and two derivatives in the mean of u.

    The logistic function is a mixture of ten normal distribution functions here, for
    speed: within ``3e-5`` of itself where u is above -5, and within a tenth at -20.
    """
    scales, weights = mean.new_tensor(_SCALES), mean.new_tensor(_SCALE_WEIGHTS).log()
    sharpness = (scales.square() + variance.unsqueeze(-1)).rsqrt()
    z = mean.unsqueeze(-1) * sharpness
    value = (weights + log_ndtr(z)).logsumexp(-1)
    density = torch.exp(weights - 0.5 * z.square() - value.unsqueeze(-1))
    density = density * sharpness / math.sqrt(2 * math.pi)
    first = density.sum(-1)
    return value, first, -(density * z * sharpness).sum(-1) - first.square()


def expected_sigmoid_entropy(mean: Tensor, variance: Tensor) -> Tensor:
    r"""Computes :math:`E[H(\sigma(u))]` in nats, right to rounding.

    ``H`` is the entropy of a coin with this probability, :math:`\sigma` the logistic
    function and :math:`u \sim N(\mu, \tau^2)`. With :math:`t = |u|`,
    :math:`H(\sigma(u)) = \log(1 + e^{-t}) + t \sigma(-t)`, and with the hazard
    :math:`h = \phi / \Phi` and :math:`z_k = \mu / \tau - k \tau`

    .. math:: E[t e^{-kt}; u > 0] = E[e^{-kt}; u > 0] \, \tau \, (z_k + h(z_k)).

    Differentiable once in ``mean`` and ``variance``, which broadcast.
    """
    mean, variance = torch.broadcast_tensors(mean, variance)
    small = variance < _SMALL_DEVIATION**2
    step = 0.5 * torch.where(small, variance, 0.0)
    deviation = torch.where(small, 1.0, variance).sqrt()
    series = _half_entropy(mean, deviation) + _half_entropy(-mean, deviation)
    win, loss = torch.sigmoid(mean), torch.sigmoid(-mean)
    entropy = -(win * logsigmoid(mean) + loss * logsigmoid(-mean))
    curvature = -win * loss * (1 + mean * (loss - win))
    return torch.where(small, entropy + step * curvature, series)


def _half_entropy(mean: Tensor, deviation: Tensor) -> Tensor:
    r"""Computes the part with ``u > 0`` of `expected_sigmoid_entropy`.

    It is the alternating sum, from k = 1, of :math:`E[e^{-k u} (1 / k + u); u > 0]`.
    """
    moments = _log_half_moments(mean, deviation, 1).exp()
    k = torch.arange(1, 1 + _NUM_TERMS, dtype=mean.dtype, device=mean.device)
    mean, deviation = mean.unsqueeze(-1), deviation.unsqueeze(-1)
    distance = deviation * hazard_excess(mean / deviation - k * deviation)
    weights = moments.new_tensor(_WEIGHTS)
    return (weights * moments * (1 / k + distance)).sum(-1)
