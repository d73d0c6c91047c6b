r"""The exact posterior of boxed rows from draws of their latent values.

Boxed rows ``v = A f(X) + e`` make ``f`` given ``v`` Gaussian and ``v`` a truncated
Gaussian with covariance :math:`\Gamma = A K A' + R` (Benavoli et al. 2021, theorem 1
and proposition 1, where ``R = I``, without its ``D_Omega``). Given a draw of ``v``,
utilities are a Gaussian process regression on ``v`` with noise ``R``: the weights and
root are those of sites of precision :math:`R^{-1}`.

To first order, draws of ``v`` move with the prior as those of expectation propagation's
Gaussian would, by the affine flow of its mean :math:`\mu_v` and covariance
:math:`\Sigma_v`,

.. math::
    dv = d\mu_v + \tfrac12 d\Sigma_v \Sigma_v^{-1} (v - \mu_v) .

In the symbols of :mod:`.gaussian_solution`, and with :math:`M_\Gamma = A'
\Gamma^{-1} A`, the weights :math:`w_s = A' \Gamma^{-1} (v_s - A m)` then change,
without an inverse, by

.. math::
    dw_s = dw_q - \tfrac12 (M_\Gamma + M_q) \, dK (w_s - w_q)
    - \tfrac12 S' \frac{d\tau \circ (v_s - \mu_v)}{1 - r \circ \tau}, \qquad
    dM_\Gamma = -M_\Gamma \, dK M_\Gamma .

Given a few answers more, the rows ``v'`` of these are Gaussian given earlier draws, and
kept to a box: a draw counts as much as it expected that box, and goes on with a draw
from it. Of several rows the probability of the box is built up row by row (Geweke 1991;
Hajivassiliou and McFadden 1998).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from botorch_pref.inference.conditioning import SitePosterior
from botorch_pref.inference.engine import (
    RowSources,
    TermsChange,
    UtilityPrior,
    carry_rows,
)
from botorch_pref.inference.gaussian_solution import (
    GaussianSolution,
    GaussianTangent,
    with_gradient_of,
)
from botorch_pref.inference.skew.coordinates import (
    BoxCopula,
    LogRatio,
    MergedLogRatio,
    Target,
    box_log_ratio,
    normal_draws,
)
from botorch_pref.inference.skew.sampler import LatentDraws, sample_latent
from botorch_pref.inference.solvers import choose_solver
from botorch_pref.likelihoods.factors import BoxFactors, MergedBoxFactors
from botorch_pref.linalg.sparse_design import NoiseBlocks
from botorch_pref.numerics.mixtures import systematic_sample
from botorch_pref.numerics.normal import interval_derivatives, truncated_normal_quantile

_POWER_ITERATIONS = 8
_BRIDGE_ITERATIONS = 30


@dataclass(frozen=True)
class SkewResult:
    """Draws that make a unified skew-normal posterior a mixture of Gaussians.

    Component means are :math:`m(x) + K(x, X) w` with the ``weights``, ``batch_shape x n
    x num_draws``, in the order of the direction in which they vary most, so that a
    quasi-random choice of component is a stratified one; ``truncated`` are their draws
    of ``v``, ``num_draws x batch_shape x m``. ``factor.root()`` is ``Q`` of the shared
    covariance, and ``latent`` the chains that draws come or go on from. The effective
    sample size is that of the mean of the worst row.
    """

    weights: Tensor
    factor: SitePosterior
    truncated: Tensor
    latent: LatentDraws
    effective_sample_size: Tensor


@dataclass(frozen=True)
class BoxProblem:
    """Boxed answers, and the prior of utilities that they are about."""

    covar: Tensor
    mean: Tensor
    factors: BoxFactors | MergedBoxFactors

    @torch.no_grad()
    def sample(
        self,
        approximation: GaussianSolution,
        num_draws: int,
        generator: torch.Generator,
    ) -> SkewResult:
        """Samples the exact posterior of utilities by chains.

        Chains start at expectation propagation's solution of the problem, in the
        coordinates in which they are faster; ``latent.converged`` of the result says
        whether they mixed.
        """
        rows = self._rows(approximation)
        copula = self._copula(approximation, rows, generator)
        target = rows if copula is None else copula.target
        latent = sample_latent(target, num_draws=num_draws, generator=generator)
        if copula is None:
            # The boxed values v, given the rows z that were drawn.
            truncated = self.factors.heard(latent.draws, generator)
        else:
            truncated = copula.values(latent.draws)
        return self.mixture(truncated, latent, latent.effective_sample_size)

    def _copula(
        self, approximation: GaussianSolution, rows: Target, generator: torch.Generator
    ) -> BoxCopula | None:
        """Makes the coordinates of quantiles; None where the rows suit better."""
        factors = self.factors
        if not isinstance(factors, BoxFactors):
            return None
        covariance = factors.rows.congruence(self.covar)
        if factors.noise is not None:
            covariance = covariance + factors.noise.dense()
        prior = factors.rows.apply(self.mean), covariance
        copula = BoxCopula.from_solution(factors, prior, approximation, rows.mean)
        if copula is None or not copula.suits(rows, generator):
            return None
        return copula

    def _rows(self, approximation: GaussianSolution) -> Target:
        """Makes the target of rows, near the Gaussian of expectation propagation.

        Its Gaussian ``N(z; centre, Sigma)`` is the prior of rows times the sites, whose
        log integral is the target's ``log_scale``; its log ratio is that of factors to
        sites.
        """
        factors, (tau, nu) = self.factors, approximation.sites
        ratio: LogRatio
        if isinstance(factors, BoxFactors):
            ends = factors.lower, factors.upper
            ratio = box_log_ratio(factors.variance, *ends, nu, tau)
        else:
            ratio = MergedLogRatio(factors, nu, tau)
        centre = approximation.row_means(self.mean)
        prior = factors.rows.apply(self.mean)
        linear = nu - tau * prior
        log_sites = (
            nu * prior - 0.5 * tau * prior.square() + 0.5 * linear * (centre - prior)
        ).sum(-1) - 0.5 * approximation.factor.log_det
        return Target(ratio, centre, approximation.factor.row_root(), log_sites)

    @torch.no_grad()
    def mixture(
        self, truncated: Tensor, latent: LatentDraws, effective_sample_size: Tensor
    ) -> SkewResult:
        """Makes the posterior of utilities, a mixture over draws of ``v`` of chains.

        ``truncated`` are ``num_draws x batch_shape x m``. Given one of them utilities
        are a regression on it with the rows' noise; the result has the draws in another
        order, that of their leading direction, weights and ``v`` alike.
        """
        solver = choose_solver(self.covar, self.factors.rows, self.factors.noise)
        batch = truncated.shape[1:]
        factor = solver.factor(self.factors.variance.reciprocal().expand(batch))
        targets = (truncated - self.factors.rows.apply(self.mean)).movedim(0, -1)
        weights = factor.weights(targets)
        order = _leading_scores(self.covar @ weights).argsort(dim=-1)
        truncated = truncated.gather(
            0, order.movedim(-1, 0).unsqueeze(-1).expand_as(truncated)
        )
        weights = weights.gather(-1, order.unsqueeze(-2).expand_as(weights))
        return SkewResult(weights, factor, truncated, latent, effective_sample_size)

    def log_evidence(self, result: SkewResult, generator: torch.Generator) -> Tensor:
        r"""Estimates the evidence without approximation, with its gradient.

        The value is :math:`\log \int N(z) \prod_i \mathrm{site}_i(z_i) dz + \log
        E[e^{\ell(z)}]`, over the EP Gaussian of rows, by bridge sampling with the draws
        of ``result``. The gradient is Fisher's identity over the draws that predict,

        .. math::
            \nabla \log p(\mathcal{Y}) = E\Big[\tfrac12 \langle w w' - A' \Gamma^{-1} A,
            \nabla K \rangle + w' \nabla m
            + \tfrac12 \langle a a' - \Gamma^{-1}, \nabla N \rangle
            + \sum_i \nabla_\theta \log p(y_i \mid z_i)\Big], \quad w = A' a,

        with the prior covariance :math:`\Gamma` of the boxed values ``v``, the forces
        :math:`a = \Gamma^{-1} (v - A m)` of a draw, and the noise ``N`` that rows
        share.
        """
        covar, mean, factors = self.covar, self.mean, self.factors
        with torch.no_grad():
            draws = self._rows_given(result, generator)
            value = _bridge_estimate(result.latent, generator)

        def surrogate() -> Tensor:
            """Makes a form with the gradient of Fisher's identity."""
            with torch.no_grad():
                w = result.weights
                second_moment = w @ w.mT / w.shape[-1]
                covar_gradient = 0.5 * (second_moment - result.factor.precision())
            likelihood = factors.log_prob(draws).value.sum(-1).mean(0)
            form = (
                (covar_gradient * covar).sum((-2, -1))
                + (w.mean(-1) * mean).sum(-1)
                + likelihood
            )
            if factors.noise is None:
                return form
            with torch.no_grad():
                noise_gradient = self._noise_gradient(factors.noise, result)
            return form + (noise_gradient * factors.noise.covariance).sum((-3, -2, -1))

        return with_gradient_of(value, surrogate)

    def _rows_given(self, result: SkewResult, generator: torch.Generator) -> Tensor:
        """Draws the rows ``z``, an antithetic pair given each draw of ``v``."""
        prior, factor = self.factors.rows.apply(self.mean), result.factor
        pull = factor.tau * (result.truncated - prior)
        means = prior + factor.covariance_times(pull.movedim(0, -1)).movedim(-1, 0)
        deviations = normal_draws(factor.row_root(), len(pull), generator)
        return torch.cat([means + deviations, means - deviations])

    def _noise_gradient(self, noise: NoiseBlocks, result: SkewResult) -> Tensor:
        """Differentiates the evidence in the noise that rows of one answer share.

        It is ``(E[a a'] - W) / 2`` in each block, ``... x k x k``, over the draws'
        forces.
        """
        factors = self.factors
        tau = factors.variance.reciprocal().unsqueeze(-1)
        shifts = tau * (result.truncated - factors.rows.apply(self.mean)).movedim(0, -1)
        block_forces = noise.take(result.factor.solve(shifts).forces)
        second_moment = block_forces @ block_forces.mT / block_forces.shape[-1]
        return 0.5 * (second_moment - result.factor.noise_precision(noise))


def _bridge_estimate(latent: LatentDraws, generator: torch.Generator) -> Tensor:
    r"""Estimates the log evidence from draws of both the Gaussian and the target.

    It is bridge sampling (Meng and Wong 1996, eq. 4.1): with the log ratio :math:`\ell`
    and as many draws of the Gaussian ``q`` as of the target ``p``, :math:`r =
    E_q[e^\ell]` solves :math:`r = \sum_q \frac{e^\ell}{e^\ell + r} / \sum_p
    \frac{1}{e^\ell + r}`. The log of ``r`` and the target's own scale are summed.
    """
    ratio, mean, root, log_scale = latent.target
    draws = latent.draws
    at_gaussian, _ = ratio(mean + normal_draws(root, len(draws), generator))
    at_target, _ = ratio(draws)
    log_r = at_gaussian.mean(0)
    for _ in range(_BRIDGE_ITERATIONS):
        above = at_gaussian - torch.logaddexp(at_gaussian, log_r)
        below = -torch.logaddexp(at_target, log_r)
        log_r = above.logsumexp(0) - below.logsumexp(0)
    return log_scale + log_r


def _leading_scores(columns: Tensor) -> Tensor:
    """Scores ``s`` columns on their first principal component, ``batch_shape x s``.

    It takes a few steps of the power method: the scores only order draws, so that each
    lies near its neighbours.
    """
    centred = columns - columns.mean(-1, keepdim=True)
    scores = centred[..., :1, :]
    for _ in range(_POWER_ITERATIONS):
        scores = (centred @ scores.mT).mT @ centred
        scores = torch.nn.functional.normalize(scores, dim=-1)
    return scores.squeeze(-2)


class SkewTangent:
    """Tangent of the draws behind an exact posterior.

    It is exact where expectation propagation is: for the mean and covariance of one
    answer. For more it leaves out how the error of expectation propagation and the
    skewness change. Of 30 answers and 1,024 draws the gradient of a mean is 1 % off and
    that of a variance 11 %, mostly because the draws are; the unbiased score estimate
    is 10 % and 30 % off (``benchmarks/conditioned_gradients.py``).
    """

    def __init__(
        self,
        factors: BoxFactors | MergedBoxFactors,
        mean: Tensor,
        approximation: GaussianSolution,
        result: SkewResult,
    ) -> None:
        """Computes the constants of the tangent, in the symbols of the module.

        ``mean`` is the prior mean of the points, ``approximation`` is expectation
        propagation's solution, and ``result`` has the draws.
        """
        # A' Gamma^-1 A of the prior covariance of v, weights of draws less that of the
        # approximation, w_s - w_q, then its means mu_v of v and the fraction
        # (v_s - mu_v) / (1 - r tau) behind d tau, with r the noise of the rows.
        self._gaussian = q = GaussianTangent(mean, approximation)
        self._shared = result.factor.precision()
        self._from_mean = result.weights - q.weights.unsqueeze(-1)
        centre = q.rows_mean + factors.variance * (q.nu - q.tau * q.rows_mean)
        offset = (result.truncated - centre) / (1 - factors.variance * q.tau)
        self._offset = offset.movedim(0, -1)

    def __call__(self, prior: UtilityPrior) -> TermsChange:
        """Computes the change of each draw's weights and of the precision, of value 0.

        In the symbols of the module these are ``dw_s``, ``batch_shape x n x
        num_draws``, and ``dM_Gamma``, linear in the change of the prior.
        """
        q, like, covar = self._gaussian, prior.covar, prior.covar.double()
        change, sites = q.with_sites(covar, prior.mean.double())
        covar = covar - covar.detach()
        tau = sites.precision.unsqueeze(-1)
        pulled = (self._shared + q.precision) @ (covar @ self._from_mean)
        spread = pulled + q.influence.mT @ (tau * self._offset)
        shared = -self._shared @ covar @ self._shared
        return TermsChange((change.weights - 0.5 * spread).to(like), shared.to(like))


class GHKUpdate(NamedTuple):
    """Places of earlier draws, their further rows, and the share that is left."""

    chosen: Tensor
    further: Tensor
    share: Tensor


def ghk_update(
    means: Tensor,
    covariance: Tensor,
    lower: Tensor,
    upper: Tensor,
    generator: torch.Generator,
) -> GHKUpdate:
    """Continues draws with the rows of further answers; all have equal weight again.

    Given each earlier draw these rows have ``means``, ``S x batch_shape x p``, and
    ``covariance``, noise included, and fell into the box of ``lower`` and ``upper``. A
    draw is chosen as often as its weight says, the probability of that box. ``share``,
    ``batch_shape``, is the effective number of weighted draws over ``S``. Elements of a
    batch share random numbers, so that none depends on the others.
    """
    root = torch.linalg.cholesky(covariance)
    scale = root.diagonal(dim1=-2, dim2=-1)
    shape = (means.shape[0], *[1] * (means.dim() - 2), means.shape[-1])
    uniform, offset = (
        torch.rand(size, generator=generator, dtype=means.dtype, device=means.device)
        for size in (shape, ())
    )
    log_weight = torch.zeros_like(means[..., 0])
    centres, values = means.clone(), torch.empty_like(means)
    # Row by row: each is drawn from its box given those before it.
    for j in range(means.shape[-1]):
        ends = lower[..., j], upper[..., j]
        inverse = scale[..., j].reciprocal()
        standard = [(end - centres[..., j]) * inverse for end in ends]
        log_weight = log_weight + interval_derivatives(standard[0], standard[1])[0]
        if j + 1 == means.shape[-1]:
            break
        drawn = _drawn(uniform[..., j], centres[..., j], scale[..., j], *ends)
        values[..., j] = drawn
        excess = (drawn - centres[..., j]) * inverse
        below = root[..., j + 1 :, j]
        centres[..., j + 1 :] += excess.unsqueeze(-1) * below
    weights = log_weight.movedim(0, -1).softmax(-1)
    share = 1 / (len(log_weight) * weights.square().sum(-1))
    chosen = systematic_sample(weights, len(log_weight), offset).movedim(-1, 0)
    index = chosen.unsqueeze(-1).expand_as(values)
    centres, values = centres.gather(0, index), values.gather(0, index)
    # After the choice, so that draws which continue one earlier draw still differ.
    values[..., -1] = _drawn(
        uniform[..., -1],
        centres[..., -1],
        scale[..., -1],
        lower[..., -1],
        upper[..., -1],
    )
    return GHKUpdate(chosen, values, share)


def _drawn(
    uniform: Tensor, mean: Tensor, scale: Tensor, lower: Tensor, upper: Tensor
) -> Tensor:
    return truncated_normal_quantile(uniform, mean, scale.square(), lower, upper)


class ContinuedDraws(NamedTuple):
    """Draws of the rows of all answers: the last three arguments of a mixture."""

    truncated: Tensor
    latent: LatentDraws
    effective_sample_size: Tensor


@torch.no_grad()
def continue_draws(
    earlier: SkewResult,
    noise: Tensor,
    means: Tensor,
    covariance: Tensor,
    factors: BoxFactors,
    sources: RowSources,
    generator: torch.Generator,
) -> ContinuedDraws:
    """Draws given all answers, from the posterior given the earlier ones.

    ``noise`` is that of the earlier rows. Given each earlier draw, utilities at the
    points of the further answers have ``means``, ``S x batch_shape x n``, and around
    them this ``covariance``. Where further answers join earlier ones about the same
    row, its boxed value is the mean of both, weighted by the precisions of their noise.
    """
    batch = torch.broadcast_shapes(
        sources.batch_shape,
        means.shape[1:-1],
        covariance.shape[:-2],
        factors.lower.shape[:-1],
        factors.rows.coefficients.shape[:-2],
        earlier.truncated.shape[1:-1],
    )
    rows = factors.rows
    noise_covariance = torch.diag_embed(factors.variance)
    if factors.noise is not None:
        noise_covariance = noise_covariance + factors.noise.dense()
    row_means = rows.apply(_with_batch(means, batch))
    draws = ghk_update(
        _with_batch(row_means, batch).contiguous(),
        rows.congruence(covariance) + noise_covariance,
        factors.lower,
        factors.upper,
        generator,
    )
    truncated = _with_batch(earlier.truncated, batch)
    index = draws.chosen.unsqueeze(-1).expand_as(truncated)
    tau, tau_further = noise.reciprocal(), factors.variance.reciprocal()
    weighted = tau * truncated.gather(0, index), tau_further * draws.further
    total = carry_rows(sources, tau, tau_further, signed=False)
    truncated = carry_rows(sources, *weighted, signed=True) / total
    # Chains that alternate may have more effective draws than draws.
    size = earlier.effective_sample_size.clamp_max(len(truncated)) * draws.share
    return ContinuedDraws(truncated, earlier.latent, size)


def _with_batch(draws: Tensor, batch: torch.Size) -> Tensor:
    """Expands ``S x batch_shape' x k`` to ``S x batch_shape x k``, draws first."""
    count, *batch_part, width = draws.shape
    missing = len(batch) - len(batch_part)
    draws = draws.reshape(count, *[1] * missing, *batch_part, width)
    return draws.expand(count, *batch, width)
