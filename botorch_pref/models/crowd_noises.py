r"""Curvature of a crowd's evidence in the noises of its raters.

Rows are :math:`z = y + C w`: the utilities of items, in deviations of the rater's
noise, and covariates times their weights. With :math:`E_u`, which picks the rows of a
rater, a log noise moves the prior covariance :math:`K` of ``y`` by :math:`-\tfrac12
(E_u K + K E_u)`, so that the evidence has the gradient

.. math:: -\tfrac12 \sum_{i \in u} \big(a_i E[y_i] - \tau_i \Sigma^{yz}_{ii}\big)

with the forces ``a`` and precisions :math:`\tau` of sites, and covariances of the
posterior. Its derivative follows from those of the moments. While the sites stay, they
are, with :math:`S^y = I - \Sigma^{yz} T` and :math:`S^z` alike,

.. math::
    \partial E[z] = -\tfrac12 \big(S^z E_v E[y] + \Sigma^{zy} E_v a\big), \qquad
    \partial \Sigma^{yz} = -\tfrac12 \big(S^y E_v \Sigma^{yz}
    + \Sigma^{yy} E_v S^{z\prime}\big),

and sites that move add :math:`\Sigma f` to means and :math:`-(\Sigma \circ \Sigma)
d\tau` to variances, see :mod:`botorch_pref.inference.gaussian_solution`. Squares of
covariances of two raters are left out: these are small, and what they say of all noises
alike is no part of the ratio of two.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple, Self, cast

import torch
from torch import Tensor

from botorch_pref.inference import GaussianSolution
from botorch_pref.inference.engine import in_double
from botorch_pref.inference.gaussian_solution import Slopes, site_slopes
from botorch_pref.inference.solvers import ConditionedNoise
from botorch_pref.likelihoods.factors import ScalarFactors
from botorch_pref.linalg.krylov import krylov_solution
from botorch_pref.linalg.sparse_design import BlockRows, NoiseBlocks
from botorch_pref.models.crowd import CrowdPreferenceGP


class _Squares(NamedTuple):
    r"""Products of the entries of two posterior covariances, of the rows of each rater.

    With ``y`` and ``z`` of the module these are :math:`\Sigma^{zz} \circ
    \Sigma^{zz}`, :math:`\Sigma^{zz} \circ \Sigma^{zy}` and :math:`\Sigma^{zy} \circ
    \Sigma^{yz} + \Sigma^{zz} \circ \Sigma^{yy}`: a block for each bucket of raters,
    ``b x k x k``.
    """

    rows: list[Tensor]
    mixed: list[Tensor]
    utilities: list[Tensor]


@dataclass(frozen=True, eq=False)
class _Response:
    """Response to the noises: moments of ``m`` rows, and the slopes of their sites.

    ``covariates`` is ``C`` and ``between`` is the posterior covariance of ``z`` with
    the weights, ``m x p``; ``weight_covar`` is that of these, and ``utility_mean`` are
    the means of ``y``.
    """

    solution: GaussianSolution
    mean: Tensor
    variance: Tensor
    utility_mean: Tensor
    covariates: Tensor
    between: Tensor
    weight_covar: Tensor
    slopes: list[Slopes]
    parts: Sequence[NoiseBlocks]
    squares: _Squares

    @classmethod
    def from_model(cls, model: CrowdPreferenceGP, solution: GaussianSolution) -> Self:
        r"""Collects posterior moments of rows, at the present noises of all raters.

        With ``y``, the part of the rows ``z`` that utilities make, ``c`` the covariates
        of rows and ``b`` the covariance of ``z`` with their weights: :math:`\Sigma^{zy}
        = \Sigma^{zz} - b c'`, and :math:`\Sigma^{yy}` likewise from both sides.
        """
        factors = cast("ScalarFactors", in_double(model.factors()))
        factor, (_, prior_mean, covar) = solution.factor, solution.prior.in_double()
        start = len(covar) - model.num_covariates
        covariates = factor.rows.dense()[:, start:]
        mean, variance = solution.row_means(prior_mean), factor.variance()
        of_points = covar - covar @ factor.precision() @ covar
        weight_covar = of_points[start:, start:]
        between = factor.shrunk(covariates @ covar[start:, start:], variance)
        weights = (covar @ solution.weights)[start:]
        noise = ConditionedNoise(factors.noise, factor.tau)
        squares = _Squares([], [], [])
        for part in noise.parts:
            rows = BlockRows.from_design(factor.rows, part.blocks.rows)
            zz = part.softened(rows.congruence(of_points)) + part.covariance
            c, b = part.blocks.take(covariates), part.blocks.take(between)
            zy = zz - b @ c.mT
            yy = zy - c @ b.mT + c @ weight_covar @ c.mT
            squares.rows.append(zz.square())
            squares.mixed.append(zz * zy)
            squares.utilities.append(zy * zy.mT + zz * yy)
        arguments = mean, variance, factor.tau, solution.sites.shift
        is_resolved = torch.ones_like(mean, dtype=torch.bool)
        return cls(
            solution=solution,
            mean=mean,
            variance=variance,
            utility_mean=mean - covariates @ weights,
            covariates=covariates,
            between=between,
            weight_covar=weight_covar,
            slopes=site_slopes(factors.tilted, is_resolved, *arguments),
            parts=[part.blocks for part in noise.parts],
            squares=squares,
        )

    def of_noises(self, rater: Tensor, raters: Tensor) -> Tensor:
        r"""Computes derivatives in log noises of each row's share of a gradient.

        A rater's rows sum to the derivative of the log evidence in the rater's log
        noise. The share of a row ``z``, whose part without covariates is ``y``, is
        :math:`-\tfrac12 (a E[y] - \tau \Sigma^{yz})` with its force :math:`a = \nu -
        \tau E[z]`. Moments change first while the sites stay, then the sites react, and
        the product rule joins the changes of the four factors. The result is ``m x R``.

        Args:
            rater: Of each row, ``m`` numbers.
            raters: Whose log noises move, ``R`` numbers.
        """
        tau, nu = self.solution.factor.tau, self.solution.sites.shift
        force, tau = (nu - tau * self.mean).unsqueeze(-1), tau.unsqueeze(-1)
        moving = (rater.unsqueeze(-1) == raters).to(tau)
        y_mean, moving_tau = self.utility_mean.unsqueeze(-1), tau * moving
        overlap = (self.covariates * self.between).sum(-1)
        cross_variance = self.variance - overlap
        spread = ((self.covariates @ self.weight_covar) * self.covariates).sum(-1)
        # Variances of y and covariances of y with z, of each row.
        diagonal = (2 * cross_variance - overlap + spread).unsqueeze(-1)
        cross_variance = cross_variance.unsqueeze(-1)
        # E[z] and var z, while sites stay; then with their reaction.
        moved = -0.5 * (
            moving * y_mean
            - self._rows_times(moving_tau * y_mean)
            + self._cross_times(moving * force)
        )
        widened = (
            self._blocks_times(self.squares.mixed, moving_tau) - moving * cross_variance
        )
        mean, variance = self._with_reaction(moved, widened)
        of_tau, of_force = self._site_changes(mean, variance)
        # E[y] and cov(y, z) of each row, with the reaction.
        of_y = -0.5 * (
            moving * y_mean
            - self._cross_times(moving_tau * y_mean, transposed=True)
            + self._utilities_times(moving * force)
        ) + self._cross_times(of_force, transposed=True)
        of_cross = -0.5 * (
            moving * diagonal - self._blocks_times(self.squares.utilities, moving_tau)
        )
        mixed = [square.mT for square in self.squares.mixed]
        of_cross = of_cross - self._blocks_times(mixed, of_tau)
        forces = of_force - tau * mean
        return -0.5 * (
            forces * y_mean + force * of_y - of_tau * cross_variance - tau * of_cross
        )

    def _with_reaction(self, mean: Tensor, variance: Tensor) -> tuple[Tensor, Tensor]:
        r"""Adds to changes of row moments, ``m x R`` each, those that sites make.

        Sites move with the moments of their rows, and move these in turn: the changes
        solve :math:`d\mu = \partial\mu + \Sigma f` and :math:`dv = \partial v -
        (\Sigma \circ \Sigma) d\tau`, where the forces :math:`f` and precisions
        :math:`d\tau` are linear in :math:`d\mu` and :math:`dv`.
        """
        # In posterior deviations: the solver compares means with variances.
        scale = torch.cat([self.variance.sqrt(), self.variance])

        def lacking(scaled: Tensor) -> Tensor:
            """Subtracts from scaled changes those that sites make of them."""
            changes = (scaled * scale).mT.chunk(2)
            of_tau, of_force = self._site_changes(*changes)
            rows = (
                self._rows_times(of_force),
                -self._blocks_times(self.squares.rows, of_tau),
            )
            return scaled - torch.cat(rows).mT / scale

        right = torch.cat([mean, variance]).mT / scale
        changes, _ = krylov_solution(lacking, right, _TOLERANCE, _MOST_PRODUCTS)
        of_mean, of_variance = (changes * scale).mT.chunk(2)
        return of_mean, of_variance

    def _site_changes(self, mean: Tensor, variance: Tensor) -> tuple[Tensor, Tensor]:
        r"""Computes changes of sites from those of moments of their rows, ``m x R``.

        The ``slopes`` are those of a site's new precision and shift: in the mean and
        variance of its row, and in its former precision and shift. At a fixed point new
        and former are equal, which is two linear equations for their changes. Returned
        are :math:`d\tau` and the force :math:`d\nu - E[z] d\tau`.
        """
        (tau_mean, nu_mean), (tau_var, nu_var), (tau_tau, nu_tau), (tau_nu, nu_nu) = (
            (tau.unsqueeze(-1), nu.unsqueeze(-1)) for tau, nu in self.slopes[:4]
        )
        tau = tau_mean * mean + tau_var * variance
        nu = nu_mean * mean + nu_var * variance
        det = (1 - tau_tau) * (1 - nu_nu) - tau_nu * nu_tau
        of_tau = ((1 - nu_nu) * tau + tau_nu * nu) / det
        of_nu = ((1 - tau_tau) * nu + nu_tau * tau) / det
        return of_tau, of_nu - self.mean.unsqueeze(-1) * of_tau

    def _rows_times(self, values: Tensor) -> Tensor:
        r"""Multiplies :math:`\Sigma^{zz}` by values of rows, ``m x R``."""
        return self.solution.factor.covariance_times(values)

    def _cross_times(self, values: Tensor, transposed: bool = False) -> Tensor:
        r"""Multiplies :math:`\Sigma^{zy}` or its transpose by values, ``m x R``.

        It is the covariance of rows ``z`` with their part ``y`` without covariates,
        :math:`\Sigma^{zz} - b c'`: ``c`` are covariates of the rows, and ``b`` is the
        covariance of ``z`` with their weights.
        """
        left, right = self.between, self.covariates
        if transposed:
            left, right = right, left
        return self._rows_times(values) - left @ (right.mT @ values)

    def _utilities_times(self, values: Tensor) -> Tensor:
        r"""Multiplies :math:`\Sigma^{yy}` by values of rows, ``m x R``.

        It is the covariance of ``y``, the part of rows ``z`` without covariates,
        :math:`\Sigma^{zz} - b c' - c b' + c V c'`: ``c`` are covariates of the rows,
        ``b`` is the covariance of ``z`` with their weights, and ``V`` that of these.
        """
        weights = self.weight_covar @ (self.covariates.mT @ values)
        weights = weights - self.between.mT @ values
        return self._cross_times(values) + self.covariates @ weights

    def _blocks_times(self, squares: list[Tensor], values: Tensor) -> Tensor:
        """Multiplies a matrix with a block for each rater's rows by values, ``m x R``.

        Entries between two raters, which are small, count as zero.
        """
        total = torch.zeros_like(values)
        for part, square in zip(self.parts, squares, strict=True):
            total = part.put(square @ part.take(values), total)
        return total


_TOLERANCE, _MOST_PRODUCTS = 1e-6, 100
_AT_ONCE = 64
"""Raters whose noises move at once, for memory."""


@torch.no_grad()
def crowd_noise_curvature(model: CrowdPreferenceGP) -> Tensor | None:
    """Computes the Hessian of the log evidence in the raters' log noises, ``R x R``.

    From it a table of raters tells whose noise differs. It neglects squares of
    covariances between two raters. None where answers share noise or a site has no
    positive precision, and where the model has no such noises or no answers.

    Args:
        model: Its kernel has a `ReliabilityKernel`, of ``R`` raters.
    """
    solution, kernel = model.solution(), model.covar_module.reliability
    if kernel is None or not isinstance(solution, GaussianSolution):
        return None
    if model.shares_noise or bool((solution.factor.tau <= 0).any()):
        return None
    response = _Response.from_model(model, solution)
    rater, is_listed = kernel.places(model.raters_of_rows())
    count = len(kernel.raters)
    # Rows of raters whose noise is not learned go to a last line, which is dropped.
    rater = torch.where(is_listed, rater, count)
    hessian = response.mean.new_zeros(count + 1, count)
    for raters in torch.arange(count, device=rater.device).split(_AT_ONCE):
        hessian[:, raters] = hessian[:, raters].index_add(
            0, rater, response.of_noises(rater, raters)
        )
    # Neglected covariances of raters leave it not quite symmetric.
    return 0.5 * (hessian[:-1] + hessian[:-1].mT)
