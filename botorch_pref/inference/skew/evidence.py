"""The exact evidence of boxed rows."""

from __future__ import annotations

import math
from typing import Protocol

import torch
from torch import Tensor

from botorch_pref.likelihoods.box_factors import MergedBoxFactors
from botorch_pref.numerics.normal import hazard, interval_derivatives, log_ndtr

_LOG_2 = math.log(2.0)
_SQRT_2 = math.sqrt(2.0)
_SQRT_2_OVER_PI = math.sqrt(2.0 / math.pi)


class LogRatio(Protocol):
    r"""A log ratio :math:`\ell` of rows ``z``; the caller owns what it returns."""

    def __call__(self, z: Tensor) -> tuple[Tensor, Tensor]:
        """The value, ``num_chains x batch_shape``, and the gradient, like ``z``.

        ``z`` is ``num_chains x batch_shape x m``.
        """

    def gradient(self, z: Tensor) -> Tensor:
        """The gradient alone."""


def box_log_ratio(
    variance: Tensor, lower: Tensor, upper: Tensor, nu: Tensor, tau: Tensor
) -> LogRatio:
    r"""The log ratio of boxed factors to their Gaussian sites, and its gradient.

    .. math::
        \ell(z) = \sum_i \log\Big[\Phi\Big(\frac{u_i - z_i}{\sqrt{r_i}}\Big)
        - \Phi\Big(\frac{l_i - z_i}{\sqrt{r_i}}\Big)\Big]
        - \nu_i z_i + \tfrac12 \tau_i z_i^2
    """
    return _BoxLogRatio(*torch.broadcast_tensors(variance, lower, upper, nu, tau))


class _BoxLogRatio:
    """See :func:`box_log_ratio`."""

    def __init__(
        self, variance: Tensor, lower: Tensor, upper: Tensor, nu: Tensor, tau: Tensor
    ) -> None:
        self._lower, self._upper, self._minus_nu, self._tau = lower, upper, -nu, tau
        self._scale = variance.sqrt()
        is_win = lower.isfinite() & upper.isinf()
        slope = torch.where(is_win, 1.0, -1.0).to(lower) / self._scale
        # Where no element of the batch has two ends the probability is
        # erfc(y) / 2, y = offset + steepness z.
        self._steepness = -slope / _SQRT_2
        self._offset = -self._steepness * torch.where(is_win, lower, upper)
        self._force = slope * _SQRT_2_OVER_PI
        two_sided = lower.isfinite() & upper.isfinite()
        two_sided = two_sided.view(-1, lower.shape[-1]).any(0)
        (self._boxed,) = two_sided.nonzero(as_tuple=True)
        # The probability loses digits to underflow beyond, and on the other side the
        # density does, for which processors take twenty times as long.
        tiny = torch.finfo(lower.dtype).tiny
        self._end = math.sqrt(-0.9 * math.log(tiny))

    def __call__(self, z: Tensor) -> tuple[Tensor, Tensor]:
        """See :class:`LogRatio`."""
        y = torch.addcmul(self._offset, self._steepness, z)
        if self._is_far(y):
            value = log_ndtr(y.mul(-_SQRT_2))
        else:
            value = torch.erfc(y).log_().sub_(_LOG_2)
        if self._boxed.numel():
            value[..., self._boxed] = self._boxed_terms(z)[0]
        # -nu z + tau z^2 / 2 = z (pull - nu) / 2
        pull = torch.addcmul(self._minus_nu, self._tau, z)
        value.add_((pull + self._minus_nu).mul_(z), alpha=0.5)
        return value.sum(-1), self._gradient(z, y)

    def gradient(self, z: Tensor) -> Tensor:
        """See :class:`LogRatio`."""
        return self._gradient(z, torch.addcmul(self._offset, self._steepness, z))

    def _gradient(self, z: Tensor, y: Tensor) -> Tensor:
        pull = torch.addcmul(self._minus_nu, self._tau, z)
        if self._is_far(y):
            slope = self._force * hazard(y.mul(-_SQRT_2)) / _SQRT_2_OVER_PI
        else:
            y = y.clamp_min(-self._end)
            slope = y.square().neg_().exp_().div_(torch.erfc(y)).mul_(self._force)
        if self._boxed.numel():
            slope[..., self._boxed] = self._boxed_terms(z)[1]
        return slope.add_(pull)

    def _is_far(self, y: Tensor) -> bool:
        return float(y.amax()) > self._end

    def _boxed_terms(self, z: Tensor) -> tuple[Tensor, Tensor]:
        """Log probability and slope of rows with two ends."""
        low, high = self._lower[..., self._boxed], self._upper[..., self._boxed]
        z, sd = z[..., self._boxed], self._scale[..., self._boxed]
        value, first, _, _ = interval_derivatives(
            (low - z) / sd, (high - z) / sd, (high - low) / sd
        )
        return value, -first / sd


class MergedLogRatio:
    """The log ratio of rows with several answers to their Gaussian sites."""

    def __init__(self, factors: MergedBoxFactors, nu: Tensor, tau: Tensor) -> None:
        self._factors, self._nu, self._tau = factors, nu, tau

    def __call__(self, z: Tensor) -> tuple[Tensor, Tensor]:
        """See :class:`LogRatio`."""
        value, slope, _ = self._factors.log_prob(z)
        site = (0.5 * self._tau * z - self._nu) * z
        return (value + site).sum(-1), slope + self._tau * z - self._nu

    def gradient(self, z: Tensor) -> Tensor:
        """See :class:`LogRatio`."""
        return self(z)[1]
