r"""The exact posterior of boxed answers: a unified skew-normal, through draws of ``v``.

Boxed rows ``v = A f(X) + e`` make ``f`` given ``v`` Gaussian and ``v`` a truncated
Gaussian with covariance :math:`\Gamma = A K A' + R` (Benavoli et al. 2021, theorem 1
and proposition 1, where ``R = I``, without its ``D_Omega``). For each draw of ``v``,
utilities are a Gaussian process regression on ``v`` with noise ``R``: the same weights
and root as for sites of precision :math:`R^{-1}`.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from botorch_pref.inference.conditioning.choose_solver import choose_solver
from botorch_pref.inference.conditioning.site_solver import SitePosterior
from botorch_pref.inference.derivatives.evidence_surrogate import with_gradient_of
from botorch_pref.inference.gaussian_result import GaussianResult
from botorch_pref.inference.skew.box_log_ratio import (
    LogRatio,
    MergedLogRatio,
    box_log_ratio,
)
from botorch_pref.inference.skew.split_hamiltonian import LatentDraws, sample_latent
from botorch_pref.likelihoods.factors.box_factors import BoxFactors, MergedBoxFactors
from botorch_pref.linalg.noise_blocks import NoiseBlocks

_POWER_ITERATIONS = 8
_BRIDGE_ITERATIONS = 30


@dataclass(frozen=True)
class SkewResult:
    r"""Draws that make a unified skew-normal posterior a mixture of Gaussians.

    Attributes:
        weights: ``w``, ``batch_shape x n x num_draws``: component means are
            :math:`m(x) + K(x, X) w`. Columns are in the order of the direction in which
            component means vary most, so that a quasi-random choice of component is a
            stratified one.
        factor: ``factor.root()`` is ``Q`` of the shared covariance.
        truncated: Draws of ``v``, ``num_draws x batch_shape x m``, in the same order.
        latent: Draws of ``z = A f(X)`` and the sampler's diagnostics. Of draws that go
            on from earlier ones, those of the chains that these come from.
        effective_sample_size: ``batch_shape``, of the mean of the worst row.
    """

    weights: Tensor
    factor: SitePosterior
    truncated: Tensor
    latent: LatentDraws
    effective_sample_size: Tensor


def _approximation(
    factors: BoxFactors | MergedBoxFactors, mean: Tensor, approximation: GaussianResult
) -> tuple[LogRatio, Tensor, Tensor]:
    """The log ratio to the EP Gaussian of the rows, its mean and its root."""
    tau, nu = approximation.site_precision, approximation.site_shift
    prior = factors.rows.apply(mean)
    centre = prior + approximation.factor.mean(nu - tau * prior)
    ratio: LogRatio
    if isinstance(factors, BoxFactors):
        ratio = box_log_ratio(factors.variance, factors.lower, factors.upper, nu, tau)
    else:
        ratio = MergedLogRatio(factors, nu, tau)
    return ratio, centre, approximation.factor.row_root()


@torch.no_grad()
def skew_gaussian(
    covar: Tensor,
    mean: Tensor,
    factors: BoxFactors | MergedBoxFactors,
    approximation: GaussianResult,
    num_draws: int,
    generator: torch.Generator,
) -> SkewResult:
    """The exact posterior of utilities given boxed answers.

    Args:
        covar: Prior covariance ``K`` of the points, ``batch_shape x n x n``.
        mean: Prior mean, ``batch_shape x n``.
        factors: m boxed factors on rows of the n points.
        approximation: The EP result for the same arguments, where chains start.
        num_draws: How many draws of ``v``.
        generator: The source of randomness, on the device of ``covar``.

    Returns:
        The result; ``latent.converged`` says whether the chains mixed.
    """
    ratio, centre, root = _approximation(factors, mean, approximation)
    latent = sample_latent(
        ratio, centre, root, num_draws=num_draws, generator=generator
    )
    truncated = factors.heard(latent.draws, generator)
    size = latent.effective_sample_size
    return skew_mixture(covar, mean, factors, truncated, latent, size)


@torch.no_grad()
def skew_mixture(
    covar: Tensor,
    mean: Tensor,
    factors: BoxFactors | MergedBoxFactors,
    truncated: Tensor,
    latent: LatentDraws,
    effective_sample_size: Tensor,
) -> SkewResult:
    """The posterior of utilities as a mixture over draws of ``v``.

    Args:
        covar: Prior covariance ``K`` of the points, ``batch_shape x n x n``.
        mean: Prior mean, ``batch_shape x n``.
        factors: m boxed factors on rows of the n points.
        truncated: Draws of ``v`` in its box, ``num_draws x batch_shape x m``.
        latent: The chains that they come from.
        effective_sample_size: Of the draws, ``batch_shape``.
    """
    solver = choose_solver(covar, factors.rows, factors.noise)
    batch = truncated.shape[1:]
    factor = solver.factor(factors.variance.reciprocal().expand(batch))
    targets = (truncated - factors.rows.apply(mean)).movedim(0, -1)
    weights = factor.weights(targets)
    order = _leading_scores(covar @ weights).argsort(dim=-1)
    truncated = truncated.gather(
        0, order.movedim(-1, 0).unsqueeze(-1).expand_as(truncated)
    )
    weights = weights.gather(-1, order.unsqueeze(-2).expand_as(weights))
    return SkewResult(weights, factor, truncated, latent, effective_sample_size)


def _leading_scores(columns: Tensor) -> Tensor:
    """Scores of columns along about their first principal direction.

    Args:
        columns: ``batch_shape x n x s``.

    Returns:
        ``batch_shape x s``.
    """
    centred = columns - columns.mean(-1, keepdim=True)
    scores = centred[..., :1, :]
    for _ in range(_POWER_ITERATIONS):
        scores = (centred @ scores.mT).mT @ centred
        scores = torch.nn.functional.normalize(scores, dim=-1)
    return scores.squeeze(-2)


def exact_log_evidence(
    covar: Tensor,
    mean: Tensor,
    factors: BoxFactors | MergedBoxFactors,
    approximation: GaussianResult,
    result: SkewResult,
    generator: torch.Generator,
) -> Tensor:
    r"""The evidence without approximation: estimates of its value and its gradient.

    The value is :math:`\log \int N(z) \prod_i \mathrm{site}_i(z_i) dz
    + \log E[e^{\ell(z)}]`, the expectation being over the EP Gaussian and estimated by
    bridge sampling with the draws of ``result``. The gradient is Fisher's identity, the
    expected gradient of the complete log likelihood over the draws that prediction uses
    anyway,

    .. math::
        \nabla \log p(\mathcal{Y}) = E\Big[\tfrac12 \langle w w' - A' \Gamma^{-1} A,
        \nabla K \rangle + w' \nabla m
        + \tfrac12 \langle a a' - \Gamma^{-1}, \nabla N \rangle
        + \sum_i \nabla_\theta \log p(y_i \mid z_i)\Big], \quad w = A' a.

    Args:
        covar: Prior covariance ``K`` of the points, ``batch_shape x n x n``.
        mean: Prior mean, ``batch_shape x n``.
        factors: m boxed factors on rows of the n points.
        approximation: The EP result for the same arguments.
        result: The exact result for the same arguments.
        generator: The source of randomness, on the device of ``covar``.

    Returns:
        ``batch_shape``.
    """
    with torch.no_grad():
        value = _bridge_estimate(mean, factors, approximation, result, generator)

    def surrogate() -> Tensor:
        with torch.no_grad():
            w = result.weights
            second_moment = w @ w.mT / w.shape[-1]
            covar_gradient = 0.5 * (second_moment - result.factor.precision())
        likelihood = factors.log_prob(result.latent.draws).value.sum(-1).mean(0)
        form = (
            (covar_gradient * covar).sum((-2, -1))
            + (w.mean(-1) * mean).sum(-1)
            + likelihood
        )
        if factors.noise is None:
            return form
        with torch.no_grad():
            noise_gradient = _noise_gradient(mean, factors, factors.noise, result)
        return form + (noise_gradient * factors.noise.covariance).sum((-3, -2, -1))

    return with_gradient_of(value, surrogate)


def _noise_gradient(
    mean: Tensor,
    factors: BoxFactors | MergedBoxFactors,
    noise: NoiseBlocks,
    result: SkewResult,
) -> Tensor:
    """The derivative of the evidence in the noise that rows of one answer share."""
    tau = factors.variance.reciprocal().unsqueeze(-1)
    seen = tau * (result.truncated - factors.rows.apply(mean)).movedim(0, -1)
    own = noise.take(result.factor.solve(seen).forces)
    second_moment = own @ own.mT / own.shape[-1]
    return 0.5 * (second_moment - result.factor.noise_precision(noise))


def _bridge_estimate(
    mean: Tensor,
    factors: BoxFactors | MergedBoxFactors,
    approximation: GaussianResult,
    result: SkewResult,
    generator: torch.Generator,
) -> Tensor:
    r"""The log evidence from draws of both the EP Gaussian and the posterior.

    Bridge sampling with equal numbers of draws (Meng and Wong 1996, eq. 4.1): with
    :math:`\ell` the log ratio of the two up to its constant, :math:`r` solves
    :math:`r = \sum_q \frac{e^\ell}{e^\ell + r} / \sum_p \frac{1}{e^\ell + r}`.
    """
    ratio, centre, root = _approximation(factors, mean, approximation)
    tau, nu = approximation.site_precision, approximation.site_shift
    prior = factors.rows.apply(mean)
    linear = nu - tau * prior
    log_sites = (
        nu * prior - 0.5 * tau * prior.square() + 0.5 * linear * (centre - prior)
    ).sum(-1) - 0.5 * approximation.factor.log_det
    shape = (len(result.truncated), *root.shape[:-2], root.shape[-1], 1)
    normal = torch.randn(
        shape, generator=generator, dtype=root.dtype, device=root.device
    )
    at_gaussian, _ = ratio(centre + (root @ normal).squeeze(-1))
    at_posterior, _ = ratio(result.latent.draws)
    log_r = at_gaussian.mean(0)
    for _ in range(_BRIDGE_ITERATIONS):
        above = at_gaussian - torch.logaddexp(at_gaussian, log_r)
        below = -torch.logaddexp(at_posterior, log_r)
        log_r = above.logsumexp(0) - below.logsumexp(0)
    return log_sites + log_r
