r"""Coordinates in which the posterior of boxed rows is nearly Gaussian.

Rows ``z = A f(X)`` are a Gaussian approximation times a mild ratio,

.. math::
    p(z) \propto N(z; \mu, \Sigma) \, e^{\ell(z)}, \quad
    \ell(z) = \sum_i \log p(y_i \mid z_i) - \nu_i z_i + \tfrac12 \tau_i z_i^2,

as long as noise blurs the ends of their boxes. Where there is little, the ratio is a
wall. The boxed values ``v = z + e`` are then better seen through quantiles: with the
cavity :math:`N(m_i, \sigma_i^2)` of expectation propagation kept to its box as
distribution function :math:`F_i`, the coordinates

.. math::
    s_i = \Phi^{-1}(F_i(v_i)), \qquad p(s) \propto N(v(s); A m, \Gamma)
    \prod_i \frac{N(s_i; 0, 1)}{N(v_i; m_i, \sigma_i^2)},

have no walls, whatever the noise. One row is exactly normal, and several nearly have
the correlations ``C`` of expectation propagation, so that their ratio to ``N(0, C)`` is
mild: a Gaussian copula as the transport of a sampler (Parno and Marzouk 2018,
"Transport map accelerated Markov chain Monte Carlo", SIAM/ASA Journal on Uncertainty
Quantification 6(2)). Rows that almost determine each other, such as many differences of
few utilities, bend each other's coordinates; the rows themselves suit those.
"""

from __future__ import annotations

import math
from typing import NamedTuple, Protocol, Self

import torch
from torch import Tensor

from botorch_pref.inference.conditioning import log_det
from botorch_pref.inference.gaussian_solution import GaussianSolution
from botorch_pref.likelihoods.factors import BoxFactors, MergedBoxFactors
from botorch_pref.numerics.normal import hazard, interval_derivatives, log_ndtr

_LOG_2 = math.log(2.0)
_SQRT_2 = math.sqrt(2.0)
_SQRT_2_OVER_PI = math.sqrt(2.0 / math.pi)


class LogRatio(Protocol):
    r"""A log ratio :math:`\ell` of coordinates; the caller owns what it returns."""

    def __call__(self, z: Tensor, /) -> tuple[Tensor, Tensor]:
        """Computes the value, ``num_chains x batch_shape``, and the gradient.

        ``z`` is ``num_chains x batch_shape x m``.
        """

    def gradient(self, z: Tensor, /) -> Tensor:
        """Computes the gradient alone."""


def box_log_ratio(
    variance: Tensor, lower: Tensor, upper: Tensor, nu: Tensor, tau: Tensor
) -> LogRatio:
    r"""Makes the log ratio of boxed factors to Gaussian sites, :math:`\ell(z)`.

    ``variance`` is that of the noise of rows, ``lower`` and ``upper`` the ends of their
    boxes, ``nu`` and ``tau`` the shifts and precisions of their sites.
    """
    return _BoxLogRatio(*torch.broadcast_tensors(variance, lower, upper, nu, tau))


class _BoxLogRatio:
    """See :func:`box_log_ratio`."""

    def __init__(
        self, variance: Tensor, lower: Tensor, upper: Tensor, nu: Tensor, tau: Tensor
    ) -> None:
        """Prepares probabilities of rows of one end: ``erfc(offset + steepness z)/2``.

        ``variance`` is that of the noise of rows, ``nu`` and ``tau`` are their sites.
        Rows that have two ends in any element of the batch are computed apart.
        """
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
        # Beyond this argument of erfc the probability underflows, and below minus it
        # the density: processors take twenty times as long for numbers that do.
        tiny = torch.finfo(lower.dtype).tiny
        self._end = math.sqrt(-0.9 * math.log(tiny))

    def __call__(self, z: Tensor) -> tuple[Tensor, Tensor]:
        r"""Computes the log ratio :math:`\ell(z)`, a sum of rows, and its gradient."""
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
        """Computes the gradient in ``z``, both ``num_chains x batch_shape x m``.

        ``y`` is the argument of ``erfc`` there.
        """
        pull = torch.addcmul(self._minus_nu, self._tau, z)
        if self._is_far(y):
            slope = self._force * hazard(y.mul(-_SQRT_2)) / _SQRT_2_OVER_PI
        else:
            # An exponential that underflows is slow; the slope is negligible before.
            y = y.clamp_min(-self._end)
            slope = y.square().neg_().exp_().div_(torch.erfc(y)).mul_(self._force)
        if self._boxed.numel():
            slope[..., self._boxed] = self._boxed_terms(z)[1]
        return slope.add_(pull)

    def _is_far(self, y: Tensor) -> bool:
        return float(y.amax()) > self._end

    def _boxed_terms(self, z: Tensor) -> tuple[Tensor, Tensor]:
        """Computes log probability and slope in ``z`` of rows with two ends."""
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


class Target(NamedTuple):
    r"""The density to sample: :math:`N(x; \mathrm{mean}, H H') e^{\ell(x)}`.

    The root ``H``, ``batch_shape x m x k``, may have any rank. The probability of the
    answers is the integral times :math:`e^{\mathrm{log\_scale}}`, ``batch_shape``.
    """

    log_ratio: LogRatio
    mean: Tensor
    root: Tensor
    log_scale: Tensor | float = 0.0

    def divergence(self, generator: torch.Generator) -> Tensor:
        r"""Estimates how far the Gaussian is from the target by Fisher information.

        It is :math:`E |H' \nabla \ell|^2` at draws of the Gaussian, ``batch_shape``:
        the squared length of the force on a trajectory, which limits its steps.
        """
        x = self.mean + normal_draws(self.root, _PROBES, generator)
        slope = self.log_ratio.gradient(x).movedim(0, -1)
        return (self.root.mT @ slope).square().sum(-2).mean(-1)


def normal_draws(root: Tensor, count: int, generator: torch.Generator) -> Tensor:
    """Draws ``N(0, H H')`` of a root ``H``, ``count x batch_shape x m``."""
    shape = (*root.shape[:-2], root.shape[-1], count)
    white = torch.randn(
        shape, generator=generator, dtype=root.dtype, device=root.device
    )
    return (root @ white).movedim(-1, 0)


_PROBES = 32
# A kick takes twice as long, and how many there are goes with the root of this ratio.
_COST = 5.0
_SQRT_HALF = math.sqrt(0.5)


class BoxCopula:
    """The ratio in the coordinates ``s``, to a Gaussian with the correlations of EP.

    The ``box`` has the ends of ``v``, ``batch_shape x m``, the ``cavity`` means and
    deviations of ``v`` without its own box, the ``prior`` means of ``v`` and the
    Cholesky factor of their covariance; ``root`` is that of the correlations ``C``.
    """

    def __init__(
        self,
        box: tuple[Tensor, Tensor],
        cavity: tuple[Tensor, Tensor],
        prior: tuple[Tensor, Tensor],
        root: Tensor,
    ) -> None:
        """Standardises the boxes by their cavities, and mirrors those on the right.

        The coordinate ``s_i`` is the normal score of the quantile of ``v_i`` within its
        box, under its cavity. `_excess` is ``C^-1 - I``, with the correlations ``C`` of
        ``s`` under expectation propagation, and `_precision` the prior precision of
        ``v``; `_log_scale` is the log of the probability of the answers over the
        integral of the target.
        """
        self._box, self._root = box, root
        self._mean, self._scale = cavity
        self._prior, prior_root = prior
        self._precision = torch.cholesky_inverse(prior_root)
        # Beside the precision of independent s, which the density in s has already.
        self._excess = torch.cholesky_inverse(root)
        self._excess.diagonal(dim1=-2, dim2=-1).sub_(1.0)
        low, high = ((end - self._mean) / self._scale for end in box)
        # Boxes right of the cavity's mean are mirrored to the left, where distribution
        # functions keep their digits.
        mirrored = low + high > 0
        self._sign = torch.where(mirrored, -1.0, 1.0).to(low)
        below = torch.where(mirrored, -high, low)
        self._below = 0.5 * torch.erfc(-_SQRT_HALF * below)
        log_mass = interval_derivatives(low, high)[0]
        self._mass = log_mass.exp()
        self._log_scale = (log_mass + self._scale.log()).sum(-1) + 0.5 * (
            log_det(root) - log_det(prior_root)
        )

    @classmethod
    def from_solution(
        cls,
        factors: BoxFactors,
        prior: tuple[Tensor, Tensor],
        approximation: GaussianSolution,
        means: Tensor,
    ) -> Self | None:
        """Makes the copula of a solution by EP; None where rounding leaves no factor.

        Args:
            factors: The boxes.
            prior: Means of rows, ``batch_shape x m``, and their covariance without the
                boxes' own noise.
            approximation: The solution of expectation propagation.
            means: Its posterior means of rows, ``batch_shape x m``.
        """
        r, (tau, nu) = factors.variance, approximation.sites
        root = approximation.factor.row_root()
        variance = root.square().sum(-1)
        cavity_ratio = approximation.factor.cavity_ratio(variance)
        # Of v: the cavity of z, without the site of its row, and the noise r.
        cavity = (
            (means - nu * variance) / cavity_ratio,
            (variance / cavity_ratio + r).sqrt(),
        )
        # v given z and the site has mean z + r (nu - tau z), variance r (1 - r tau).
        share = 1 - r * tau
        spread = share.unsqueeze(-1) * root
        joint = spread @ spread.mT + torch.diag_embed(r * share)
        inverse = joint.diagonal(dim1=-2, dim2=-1).rsqrt()
        correlation = inverse.unsqueeze(-1) * joint * inverse.unsqueeze(-2)
        covariance = prior[1] + torch.diag_embed(r)
        factors_and_info, info = zip(
            *map(torch.linalg.cholesky_ex, (correlation, covariance)), strict=True
        )
        if any(bool(failed.any()) for failed in info):
            return None
        box = factors.lower, factors.upper
        return cls(box, cavity, (prior[0], factors_and_info[1]), factors_and_info[0])

    @property
    def target(self) -> Target:
        """The coordinates, near a Gaussian of mean 0."""
        mean = torch.zeros_like(self._mean)
        return Target(self, mean, self._root, self._log_scale)

    def suits(self, rows: Target, generator: torch.Generator) -> bool:
        """Tells whether all elements are so near a Gaussian that this is faster."""
        copula = self.target.divergence(generator)
        nearer = _COST * copula < rows.divergence(generator)
        return bool((nearer & (copula < rows.mean.shape[-1])).all())

    def values(self, s: Tensor) -> Tensor:
        """Computes the boxed values ``v``, both ``num_chains x batch_shape x m``."""
        v = torch.addcmul(self._mean, self._scale * self._sign, self._standard(s))
        # Rounding alone can leave the box.
        return torch.minimum(torch.maximum(v, self._box[0]), self._box[1])

    def _standard(self, s: Tensor) -> Tensor:
        r"""Computes :math:`(v - m) / \sigma`, mirrored: the quantile within the box."""
        share = torch.erfc(s * (-_SQRT_HALF * self._sign))
        p = torch.addcmul(self._below, 0.5 * self._mass, share)
        return torch.special.ndtri(p)

    def __call__(self, s: Tensor) -> tuple[Tensor, Tensor]:
        """Computes the log ratio to ``N(0, C)`` at coordinates ``s``, and its gradient.

        The boxed values ``v(s)`` are ``y`` when standardised by their cavities, and
        ``r`` less their prior means, of prior covariance ``G``. The log ratio is ``(y'
        y - r' G^-1 r + s' (C^-1 - I) s) / 2``, without constants, ``num_chains x
        batch_shape``.
        """
        y = self._standard(s)
        residual, force, pull = self._forces(s, y)
        value = (y.square() - residual * force + s * pull).sum(-1)
        return 0.5 * value, self._gradient(s, y, force, pull)

    def gradient(self, s: Tensor) -> Tensor:
        """See :class:`LogRatio`."""
        y = self._standard(s)
        _, force, pull = self._forces(s, y)
        return self._gradient(s, y, force, pull)

    def _forces(self, s: Tensor, y: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Computes ``v - A m``, its prior force, and that between both Gaussians."""
        residual = torch.addcmul(self._mean - self._prior, self._scale * self._sign, y)
        return (residual, _times(residual, self._precision), _times(s, self._excess))

    def _gradient(self, s: Tensor, y: Tensor, force: Tensor, pull: Tensor) -> Tensor:
        """Computes the gradient in ``s``: ``pull`` and ``dv / ds`` times that in ``v``.

        ``pull`` is ``(C^-1 - I) s``, of the two Gaussians of ``s``; ``force`` is the
        prior's on ``v``, and ``y`` are the standardised values.
        """
        # dv / ds is a ratio of densities.
        slope = (y.square() - s.square()).mul_(0.5).exp_().mul_(self._mass)
        along = torch.addcmul(self._sign * y, self._scale, force, value=-1.0)
        return pull.addcmul_(slope, along)


def _times(x: Tensor, matrix: Tensor) -> Tensor:
    """Multiplies ``num_chains x batch_shape x m`` by ``batch_shape x m x m``."""
    if x.dim() == 2:
        return x @ matrix
    return (x.movedim(0, -2) @ matrix).movedim(-2, 0)
