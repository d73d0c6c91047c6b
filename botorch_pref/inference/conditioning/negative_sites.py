r"""Conditioning on sites some of whose precisions are negative.

A factor that is not log-concave may say that a row is *less* certain than its
neighbours make it. With :math:`T = T_1 - E T_2 E'`, where ``T1`` and ``T2`` are
non-negative and ``E`` picks the few rows with a negative precision, conditioning on
``T1`` gives :math:`\Sigma_1`, and widening that by the rest

.. math::
    \Sigma = \Sigma_1 + U U', \qquad
    U = \Sigma_1 E T_2^{1/2} L^{-T}, \qquad
    L L' = I - T_2^{1/2} E' \Sigma_1 E T_2^{1/2}, \qquad
    |B| = |B_1| \, |L L'|,

a Gaussian if and only if ``L`` exists. With
:math:`V = (I + T_1 C)^{-1} E T_2^{1/2} L^{-T}`, the covariance of utilities anywhere
grows by :math:`(k A' V)(k A' V)'`: :math:`W = W_1 - V V'`. A negative precision acts as
a shift in the direction in which the answer's row has moved, so that shifts ``s`` which
``T1`` alone turns into the forces :math:`a_1` and moves the rows by :math:`u_1` have

.. math::
    a = a_1 + V g, \qquad \Sigma s = u_1 + U g, \qquad
    g = L^{-1} T_2^{1/2} E' u_1 .
"""

from __future__ import annotations

import torch
from torch import Tensor

from botorch_pref.inference.conditioning.site_solver import (
    Balance,
    Response,
    SitePosterior,
    SiteSolver,
)
from botorch_pref.linalg.noise_blocks import NoiseBlocks


class NegativeSites(SitePosterior):
    """The posterior of sites with precisions of either sign.

    Args:
        base: Conditioned on the non-negative part of ``tau``.
        solver: Of prior and rows.
        tau: Precisions, ``batch_shape x m``.

    Attributes:
        proper: ``batch_shape``, whether there is a posterior. Where there is none, the
            factor is that of the non-negative precisions alone, and ``tau`` says so.
    """

    proper: Tensor

    def __init__(self, base: SitePosterior, solver: SiteSolver, tau: Tensor) -> None:
        self._base, self._solver = base, solver
        where = (tau < 0).view(-1, tau.shape[-1]).any(0).nonzero().squeeze(-1)
        scale = (-tau[..., where]).clamp_min(0.0).sqrt()
        columns = torch.zeros(
            *tau.shape, len(where), dtype=tau.dtype, device=tau.device
        )
        columns[..., where, torch.arange(len(where))] = scale
        forces, narrow, weights, _ = base.solve(columns)
        cholesky, info = torch.linalg.cholesky_ex(
            torch.eye(len(where), dtype=tau.dtype, device=tau.device)
            - columns.mT @ narrow
        )
        self.proper = info == 0
        keep = self.proper.unsqueeze(-1)
        self.tau = torch.where(keep, tau, tau.clamp_min(0.0))
        diagonal = cholesky.diagonal(dim1=-2, dim2=-1)
        log_det = 2.0 * torch.where(keep, diagonal, 1.0).log().sum(-1)
        self._log_det = log_det
        parts = torch.cat([narrow, forces, columns, weights], dim=-2).mT
        parts = torch.linalg.solve_triangular(cholesky, parts, upper=False).mT
        parts = torch.where(keep.unsqueeze(-1), parts, 0.0)
        m, n = tau.shape[-1], weights.shape[-2]
        self._rows_widening, self._forces_widening, self._seen, self._widening = (
            parts.split([m, m, m, n], dim=-2)
        )

    @property
    def log_det(self) -> Tensor:
        """See base class."""
        return self._base.log_det + self._log_det

    @property
    def batch_shape(self) -> torch.Size:
        """See base class."""
        return self._log_det.shape

    def solve(self, shifts: Tensor) -> Balance:
        """See base class."""
        forces, moved, weights, _ = self._base.solve(shifts)
        g = self._seen.mT @ moved
        forces = forces + self._forces_widening @ g
        moved = moved + self._rows_widening @ g
        energy = (forces * moved).sum(-2)
        return Balance(forces, moved, weights + self._widening @ g, energy)

    def respond(self, pull: Tensor) -> Response:
        """See base class."""
        solver, (opposed, moved, decrement) = self._solver, self._base.respond(pull)
        g = self._seen.mT @ solver.rows_of(moved).unsqueeze(-1)
        more = solver.gather((self._forces_widening @ g).squeeze(-1))
        return Response(
            opposed + more,
            moved + solver.moved_by(more),
            decrement + g.square().sum((-2, -1)),
        )

    def influence(self) -> Tensor:
        """See base class."""
        return self._base.influence() + self._rows_widening @ self._widening.mT

    def variance(self) -> Tensor:
        """See base class."""
        return self._base.variance() + self._rows_widening.square().sum(-1)

    def cavity_ratio(self) -> Tensor:
        """See base class."""
        widened = self.tau * self._rows_widening.square().sum(-1)
        # Of the rows that are widened the base knows no precision.
        own = self._base.cavity_ratio() - self._base.variance() * (
            self.tau.clamp_max(0.0)
        )
        return own - widened

    def weights(self, targets: Tensor) -> Tensor:
        """See base class."""
        return self.solve(self.tau.unsqueeze(-1) * targets).weights

    def root(self) -> Tensor:
        """``Q`` of the non-negative precisions; :meth:`widening` is the rest."""
        return self._base.root()

    def widening(self) -> Tensor:
        """See base class."""
        return self._widening

    def precision(self) -> Tensor:
        """See base class."""
        p = self.widening()
        return self._base.precision() - p @ p.mT

    def noise_precision(self, noise: NoiseBlocks) -> Tensor:
        """See base class."""
        v = noise.take(self._forces_widening)
        return self._base.noise_precision(noise) - v @ v.mT

    def row_root(self) -> Tensor:
        """See base class."""
        return torch.cat([self._base.row_root(), self._rows_widening], dim=-1)


def site_posterior(solver: SiteSolver, tau: Tensor) -> tuple[SitePosterior, Tensor]:
    """The posterior of sites whose precisions may have either sign.

    Costs what non-negative precisions cost where all are.

    Args:
        solver: Of prior and rows.
        tau: Precisions, ``batch_shape x m``.

    Returns:
        It, and for each element of the batch whether it is proper; where it is not,
        the negative precisions are left out.
    """
    if not bool((tau < 0).any()):
        base = solver.factor(tau)
        proper = torch.ones(base.batch_shape, dtype=torch.bool, device=tau.device)
        return base, proper
    widened = NegativeSites(solver.factor(tau.clamp_min(0.0)), solver, tau)
    return widened, widened.proper
