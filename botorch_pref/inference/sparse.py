r"""Expectation propagation on inducing points: utilities of thousands of points.

In the symbols of :mod:`.inducing`, with the weights :math:`w = A' a` of the datapoints,
:math:`w_Z = J E[v]` and :math:`P = \Phi J'`, the evidence has the derivative

.. math::
    d \log Z = w' dm + \langle w w_Z' - M P, dK_{XZ} \rangle
    - \tfrac12 \langle w_Z w_Z' - P' M P, dK_{ZZ} \rangle
    + \langle \gamma, dD \rangle + \sum_i \partial_\theta \log Z_i \, d\theta,
    \qquad M = A' W A,

where :math:`dD = \mathrm{diag}(dK_{XX} - 2 P dK_{ZX} + P dK_{ZZ} P')`, and
:math:`\gamma` adds up the derivatives in the shared noise and in the blur of the rows,
:math:`\partial \log Z_i / \partial \delta_i = \tfrac12 (\partial^2 \log Z_i + (\partial
\log Z_i)^2)`.

The posterior at datapoints is that of the prior covariance :math:`C = P K_{ZX}`, and
moves as :class:`.GaussianTangent` does, by

.. math::
    dC = dK_{XZ} P' + P \, dK_{ZX} - P \, dK_{ZZ} P', \qquad
    dP = (dK_{XZ} - P \, dK_{ZZ}) K_{ZZ}^{-1},

with the weights :math:`P' w` and the precision :math:`P' M P` of predictions. What is
left open, :math:`dD = \mathrm{diag}(dK_{XX} - dC)`, moves the blur :math:`\delta` of
rows and the noise ``N`` that rows of an answer share, which moves the moments of the
rows, while sites stay, by

.. math::
    \partial \mu = L \, dN a, \qquad \partial v = \mathrm{diag}(L \, dN L'), \qquad
    L = I - \Sigma T .

The blur moves the sites themselves, :math:`s = G(\mu, v, s, \delta)`. Their change
solves :math:`2 m` linear equations by products alone, so that no matrix of answers by
answers is made.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import Any, NamedTuple, cast

import torch
from torch import Tensor

from botorch_pref.errors import BotorchPrefError
from botorch_pref.inference import ep
from botorch_pref.inference.conditioning import lost_digits
from botorch_pref.inference.engine import (
    Sites,
    TermsChange,
    UtilityPrior,
    WarmStart,
    in_double,
)
from botorch_pref.inference.gaussian_solution import (
    GaussianSolution,
    site_adjoint,
    site_slopes,
    with_gradient_of,
)
from botorch_pref.inference.inducing import (
    BlurredFactors,
    FeatureFactor,
    FeatureSolver,
    InducingPrior,
    OpenPart,
    SharedFeatureSolver,
    inverse_root,
)
from botorch_pref.likelihoods.factors import Factors, ScalarFactors
from botorch_pref.linalg.sparse_design import NoiseBlocks
from botorch_pref.numerics.quadrature import LogDerivatives, TiltedMoments

# --- Solutions


class PriorSlopes(NamedTuple):
    """A process' share of the evidence's derivatives in parts of `InducingPrior`."""

    mean: Tensor
    covar: Tensor
    cross: Tensor
    variance: Tensor

    def forms(self, prior: InducingPrior) -> tuple[Tensor, ...]:
        """Multiplies each derivative by its part of the prior, entry by entry.

        The sum of all products has the gradient of the evidence in that prior.
        """
        return tuple(
            slope * getattr(prior, name) for name, slope in self._asdict().items()
        )


@dataclass(frozen=True, eq=False)
class SparseSolution(GaussianSolution):
    """A Gaussian posterior by way of inducing points, with its ``fixed`` point."""

    fixed: FixedPoint = field(kw_only=True)
    # The tangent is another one.
    site_tangent: Any = field(init=False, default=None)

    @torch.no_grad()
    def evidence_rounding(self) -> Tensor:
        r"""Estimates how far the prior's rounding may move the evidence, in nats.

        The sum of :math:`\epsilon |\partial \log Z / \partial K_{ij}| |K_{ij}|` over
        all parts of the prior but the mean, ``batch_shape``, and over processes.
        """
        prior = cast("Any", self.prior)
        eps = torch.finfo(prior.covar.dtype).eps
        _, *of_matrices, of_variance = self.fixed.slopes.forms(prior.in_double())
        total = sum(part.abs().sum((-2, -1)) for part in of_matrices)
        return eps * self.fixed.solver.total(total + of_variance.abs().sum(-1))

    def diagnostics(self) -> dict[str, Any]:
        """See base class; with ``left_open``, ``batch_shape``.

        That is the share of the prior variance of the datapoints that the inducing
        points do not explain.
        """
        prior, total = cast("Any", self.prior), self.fixed.solver.total
        # Weights of covariates stand behind the utilities.
        behind = prior.covar.shape[-1] - prior.points.shape[-2]
        count = prior.variance.shape[-1] - behind
        open_variance, prior_variance = (
            self.fixed.open_part.variance,
            prior.variance.detach().double(),
        )
        open_variance, prior_variance = (
            total(part[..., :count].sum(-1)) for part in (open_variance, prior_variance)
        )
        return {**super().diagnostics(), "left_open": open_variance / prior_variance}

    def tangent(self, mean: Tensor) -> SparseTangent:
        """See base class; refused where processes share the answers."""
        if self.fixed.solver.num_processes > 1:
            raise BotorchPrefError(
                "Processes that share answers have no derivatives in the points that "
                "answers are about, which look-ahead wants; detach them, or give one "
                "process all answers."
            )
        return SparseTangent(self.fixed)


@dataclass(frozen=True, eq=False)
class FixedPoint:
    """Point at which tilted and posterior moments agree, in this module's symbols."""

    solver: FeatureSolver
    factors: BlurredFactors
    open_part: OpenPart
    state: ep.EPState
    tilted: LogDerivatives

    @cached_property
    def whole(self) -> FeatureFactor:
        """The posterior in one factor, also where some precisions are negative.

        EP has :class:`.NegativeSites` then, which lack the products with features.
        """
        posterior = self.state.posterior
        if isinstance(posterior, FeatureFactor):
            return posterior
        return self.solver.factor(posterior.tau)

    @cached_property
    def noise_slope(self) -> Tensor | None:
        """The derivative of the evidence in the shared noise; None without any.

        It is ``(a a' - W) / 2`` with the forces ``a`` in each block, ``... x k x k``.
        """
        noise, state = self.factors.noise, self.state
        if noise is None:
            return None
        block_forces = noise.take(state.force.unsqueeze(-1))
        return 0.5 * (
            block_forces @ block_forces.mT - state.posterior.noise_precision(noise)
        )

    @cached_property
    def slopes(self) -> PriorSlopes:
        """The derivatives of the evidence in the parts of the inducing prior.

        With the weights ``w`` of datapoints and ``w_Z`` of inducing points, ``M = A' W
        A`` of datapoints, the projection ``P = K_XZ K_ZZ^-1`` and the derivative ``g``
        in open variances they are ``w`` in the mean; ``w w_Z' - M P - 2 g P`` in
        ``K_XZ``; ``-(w_Z w_Z' - P' M P) / 2 + P' g P`` in ``K_ZZ``; ``g`` in the
        variance.
        """
        solver, state = self.solver, self.state
        pulls, weights = solver.rows.adjoint(state.force), state.balance.weights
        of_cross, of_covar = self.whole.point_precision()
        of_cross = pulls.unsqueeze(-1) * weights.unsqueeze(-2) - of_cross
        of_covar = weights.unsqueeze(-1) * weights.unsqueeze(-2) - of_covar
        # Each process has all of this part, and only its rows' share of the others.
        of_covar = of_covar / solver.num_processes
        _, first, second = (part.detach() for part in self.tilted)
        open_slope = self.open_part.slope(
            0.5 * (second + first.square()), self.noise_slope
        )
        projection = solver.features @ solver.root.mT
        weighted = open_slope.unsqueeze(-1) * projection
        return PriorSlopes(
            mean=pulls,
            covar=projection.mT @ weighted - 0.5 * of_covar,
            cross=of_cross - 2 * weighted,
            variance=open_slope,
        )

    def surrogate(self, prior: InducingPrior, noise: NoiseBlocks | None) -> Tensor:
        """Makes a linear form with the gradient of the evidence, ``batch_shape``.

        ``prior`` and ``noise``, that of the likelihood, have their graphs. Of several
        processes each has its share, times their number, since
        `DistributedDataParallel` takes the mean of their gradients.
        """
        with torch.no_grad():
            slopes = self.slopes
        mean, covar, cross, variance = slopes.forms(prior)
        form = mean.sum(-1) + covar.sum((-2, -1)) + cross.sum((-2, -1))
        form = form + variance.sum(-1) + self.tilted.value.sum(-1)
        if noise is not None and self.noise_slope is not None:
            slope = self.noise_slope.detach()
            form = form + (slope * noise.covariance).sum((-3, -2, -1))
        return form * self.solver.num_processes


# --- The tangent


def _blurred_slopes(fixed: FixedPoint) -> list[tuple[Tensor, ...]]:
    """Computes the :func:`.site_slopes` at a fixed point, those in the blur last.

    These are the derivatives of matching sites in means and variances of rows, in the
    former sites and in the blur, each of precisions and of shifts.
    """
    state, factors = fixed.state, fixed.factors

    def tilted(mean: Tensor, variance: Tensor, blur: Tensor) -> TiltedMoments:
        return BlurredFactors(factors.exact, blur, None).tilted(mean, variance)

    arguments = state.mean, state.variance, *state.sites.chunk(2, dim=-1), factors.blur
    return site_slopes(tilted, fixed.solver.resolved, *arguments)


class _MovedSites(torch.autograd.Function):
    """The change of sites by what moves them directly: zero, with its derivative."""

    @staticmethod
    def forward(
        ctx: Any, direct: Tensor, adjoint: Callable[[Tensor], Tensor]
    ) -> Tensor:
        """Returns zeros whose gradient is the adjoint, both ``batch_shape x 2 m``."""
        ctx.adjoint = adjoint
        return torch.zeros_like(direct)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None]:
        """See base class."""
        return ctx.adjoint(gradients[0]), None


class SparseTangent:
    """The tangent of a posterior by way of inducing points, in the symbols above."""

    def __init__(self, fixed: FixedPoint) -> None:
        """Computes the constants of the tangent, in the symbols of the module.

        `_projection` is ``P = K_XZ K_ZZ^-1``, ``n x r``, `_in_rows` is ``L A P`` with
        ``L = I - Sigma T`` of rows, `_of_cross` and `_precision` are ``M P`` and ``P' M
        P`` with ``M = A' W A``, and `_pulls` are the datapoints' weights ``w = A' a``.
        """
        solver, state = fixed.solver, fixed.state
        self._fixed, self._rows, self._whole = fixed, solver.rows, fixed.whole
        self._tau = self._whole.tau.unsqueeze(-1)
        self._slopes, self._row_root = _blurred_slopes(fixed), self._whole.row_root()
        self._shrunk = partial(self._whole.shrunk, variance=state.variance)
        self._projection = solver.features @ solver.root.mT
        self._in_rows = self._shrunk(self._rows.apply_matrix(self._projection))
        self._of_cross, self._precision = self._whole.point_precision()
        self._pulls = self._rows.adjoint(state.force)

    def _adjoint(self, gradient: Tensor) -> Tensor:
        """Pulls the gradient in the change of sites back to what moves them."""
        state = self._fixed.state
        return site_adjoint(
            self._slopes, self._whole, state.mean, state.scale, gradient
        )

    def __call__(self, prior: Any) -> TermsChange:
        """Computes the posterior's derivative in an inducing prior with a graph.

        Its value is zero. It has the change of the inducing points' weights,
        ``batch_shape x r x 1``, and that of their precision ``P' M P``.
        """
        double_prior = prior.in_double()
        mean, covar, cross, variance = (
            part - part.detach() for part in tuple(double_prior)[1:]
        )
        state, p = self._fixed.state, self._projection
        w, weights = self._pulls.unsqueeze(-1), state.balance.weights.unsqueeze(-1)
        # In turn dK_ZX w - dK_ZZ w_Z; dm + dC w, since P' w = w_Z; and 2 dK_XZ - P
        # dK_ZZ, whose product with P' has the diagonal of dC.
        towards = cross.mT @ w - covar @ weights
        pull = mean.unsqueeze(-1) + cross @ weights + p @ towards
        half = 2 * cross - p @ covar
        open_variance = variance - (half * p).sum(-1)
        blur, shared = self._fixed.open_part.row_noise(open_variance)
        noise = self._fixed.factors.noise
        if noise is not None and shared is not None:
            noise = replace(noise, covariance=shared)
        rows, projected_rows = self._rows, self._in_rows
        of_mean = self._shrunk(rows.apply_matrix(pull))
        of_variance = (self._shrunk(rows.apply_matrix(half)) * projected_rows).sum(-1)
        noise_pull = torch.zeros_like(of_mean)
        if noise is not None:
            noise_pull, noise_spread = self._by_noise(noise)
            of_mean = of_mean + self._shrunk(noise_pull)
            of_variance = of_variance + noise_spread
        # Slopes in the former sites are left to `_MovedSites`: they tell how sites move
        # each other after this.
        by_mean, by_variance, _, _, by_blur = self._slopes
        # Of precisions, then of shifts.
        of_each = [
            by_mean[i] * of_mean.squeeze(-1)
            + by_variance[i] * of_variance
            + by_blur[i] * blur
            for i in range(2)
        ]
        direct = torch.cat(of_each, dim=-1)
        tau, nu = _MovedSites.apply(direct, self._adjoint).chunk(2, dim=-1)
        force = (nu - state.mean * tau).unsqueeze(-1) - self._tau * noise_pull
        root = self._fixed.solver.root
        moved = root @ (root.mT @ towards)
        moved = moved + projected_rows.mT @ force - self._of_cross.mT @ pull
        change = TermsChange(moved, self._precision_change(covar, cross, tau, noise))
        return TermsChange(*(part.to(prior.covar) for part in change))

    def _by_noise(self, blocks: NoiseBlocks) -> tuple[Tensor, Tensor]:
        r"""Computes :math:`dN a`, and :math:`\mathrm{diag}(L \, dN L')`, of rows.

        ``blocks`` has the change ``dN`` of the noise that rows share. With a root ``h``
        of the posterior covariance of rows, ``L = I - h h' T``, so that no matrix of
        rows by rows is made.
        """
        h, noise = self._row_root, blocks.covariance
        block_root, tau = blocks.take(h), blocks.take(self._tau)
        crossed = (block_root @ (tau * block_root).mT * noise).sum(-1, keepdim=True)
        inner = ((tau * block_root).mT @ noise @ (tau * block_root)).sum(-3)
        spread = blocks.put(-2 * crossed, torch.zeros_like(self._tau)).squeeze(-1)
        spread = spread + blocks.diagonal() + ((h @ inner) * h).sum(-1)
        return blocks.times(self._fixed.state.force.unsqueeze(-1)), spread

    def _precision_change(
        self, covar: Tensor, cross: Tensor, tau: Tensor, noise: NoiseBlocks | None
    ) -> Tensor:
        """Computes ``d(P' M P)``: by ``dP`` and ``dC``, by the sites, by the noise.

        ``covar``, ``cross`` and ``tau`` are the changes ``dK_ZZ``, ``dK_XZ`` and that
        of site precisions, and ``noise`` has that of shared noise: all zero in value.
        """
        root, precision = self._fixed.solver.root, self._precision
        cross_precision = self._of_cross
        # dP' M P, and the first part of -P' M dC M P; their transposes follow.
        turned = root @ (root.mT @ (cross.mT @ cross_precision - covar @ precision))
        turned = turned - cross_precision.mT @ cross @ precision
        change = turned + turned.mT + precision @ covar @ precision
        change = change + self._in_rows.mT @ (tau.unsqueeze(-1) * self._in_rows)
        if noise is not None:
            block_part = noise.take(self._tau * self._in_rows)
            change = change - (block_part.mT @ noise.covariance @ block_part).sum(-3)
        return change


# --- The engine


@dataclass(frozen=True)
class SparseExpectationPropagation(ep.ExpectationPropagation):
    """Expectation propagation that takes a prior by way of inducing points too.

    With ``shared`` each process of torch's default process group has some of the
    answers, and all have the same inducing points and hyper-parameters. Each finds the
    posterior and the evidence of all answers. Gradients are for
    :class:`torch.nn.parallel.DistributedDataParallel`: their mean over processes is
    that of the evidence.
    """

    shared: bool = False

    def solve(
        self,
        prior: UtilityPrior | InducingPrior,
        factors: Factors,
        start: WarmStart | None = None,
    ) -> GaussianSolution:
        """Solves by way of inducing points where the prior has them; see base class.

        It computes in double precision and without a graph; the evidence of the
        solution has its gradient all the same.
        """
        if isinstance(prior, UtilityPrior):
            if self.shared:
                raise BotorchPrefError(
                    "Processes share answers by way of inducing points, and this model "
                    "has none; assign the same inducing_points in all of them."
                )
            return super().solve(prior, factors, start)
        double_prior, eps = prior.in_double(), torch.finfo(prior.covar.dtype).eps
        double_factors, start = in_double((factors, start))
        scalar_factors = cast("ScalarFactors", double_factors)
        prior.check_finite()
        with torch.no_grad():
            root = inverse_root(double_prior.covar, eps)
            explained = (double_prior.cross @ root).square().sum(-1)
            # Of a point that features determine, rounding leaves less than nothing.
            open_variance = (double_prior.variance - explained).clamp_min(0.0)
            open_part = OpenPart(scalar_factors, open_variance)
            blurred = open_part.blurred()
            kind = SharedFeatureSolver if self.shared else FeatureSolver
            solver = kind(double_prior, root, scalar_factors.rows, blurred.noise)
            problem = ep.EPProblem(
                solver, scalar_factors.rows.apply(double_prior.mean), blurred
            )
            state, iterations = self.fixed_point(problem, start)
        tilted = blurred.log_partition(state.cavity_mean, state.cavity_variance)
        fixed = FixedPoint(solver, blurred, open_part, state, tilted)
        return SparseSolution(
            engine=self,
            prior=cast("Any", prior),
            evidence=with_gradient_of(
                ep.ep_log_evidence(state, tilted.value.detach()),
                lambda: fixed.surrogate(double_prior, scalar_factors.noise),
            ),
            weights=state.balance.weights,
            sites=Sites(*state.sites.chunk(2, dim=-1)),
            factor=state.posterior,
            converged=bool((state.residual <= self.tolerance).all()),
            iterations=iterations,
            residual=float(state.residual.max()),
            rounding=lost_digits(solver, state.posterior, state.balance, eps),
            fixed=fixed,
        )
