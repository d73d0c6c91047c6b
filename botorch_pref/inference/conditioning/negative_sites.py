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

a Gaussian if and only if ``L`` exists. With :math:`V = E T_2^{1/2} L^{-T} - T_1 U`,
which is :math:`(I - W_1 C) E T_2^{1/2} L^{-T}`, the covariance of utilities anywhere
grows by :math:`(k A' V)(k A' V)'`: :math:`W = W_1 - V V'`.
"""

from __future__ import annotations

import torch
from torch import Tensor

from botorch_pref.inference.conditioning.site_solver import SitePosterior, SiteSolver
from botorch_pref.linalg.noise_blocks import NoiseBlocks
from botorch_pref.linalg.sparse_design import SparseDesign


class NegativeSites(SitePosterior):
    """The posterior of sites with precisions of either sign.

    Args:
        base: Conditioned on the non-negative part of ``tau``.
        rows: ``A``.
        tau: Precisions, ``batch_shape x m``.

    Attributes:
        proper: ``batch_shape``, whether there is a posterior. Where there is none, the
            factor is that of the non-negative precisions alone, and ``tau`` says so.
    """

    proper: Tensor

    def __init__(self, base: SitePosterior, rows: SparseDesign, tau: Tensor) -> None:
        self._base, self._rows = base, rows
        where = (tau < 0).view(-1, tau.shape[-1]).any(0).nonzero().squeeze(-1)
        scale = (-tau[..., where]).clamp_min(0.0).sqrt()
        columns = torch.zeros(
            *tau.shape, len(where), dtype=tau.dtype, device=tau.device
        )
        columns[..., where, torch.arange(len(where))] = scale
        narrow = base.covariance_times(columns)
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
        both = torch.cat([narrow, columns], dim=-2).mT
        both = torch.linalg.solve_triangular(cholesky, both, upper=False).mT
        both = torch.where(keep.unsqueeze(-1), both, 0.0)
        self._rows_widening, direct = both.chunk(2, dim=-2)
        self._weights_widening = direct - base.tau.unsqueeze(-1) * self._rows_widening

    @property
    def log_det(self) -> Tensor:
        """See base class."""
        return self._base.log_det + self._log_det

    @property
    def batch_shape(self) -> torch.Size:
        """See base class."""
        return self._log_det.shape

    def covariance_times(self, values: Tensor) -> Tensor:
        """See base class."""
        u = self._rows_widening
        return self._base.covariance_times(values) + u @ (u.mT @ values)

    def variance(self) -> Tensor:
        """See base class."""
        return self._base.variance() + self._rows_widening.square().sum(-1)

    def weights(self, targets: Tensor) -> Tensor:
        """See base class."""
        v = self._weights_widening
        explained = self._rows.adjoint_matrix(v @ (v.mT @ targets))
        return self._base.weights(targets) - explained

    def root(self) -> Tensor:
        """``Q`` of the non-negative precisions; :meth:`widening` is the rest."""
        return self._base.root()

    def widening(self) -> Tensor:
        """See base class."""
        return self._rows.adjoint_matrix(self._weights_widening)

    def precision(self) -> Tensor:
        """See base class."""
        p = self.widening()
        return self._base.precision() - p @ p.mT

    def noise_precision(self, noise: NoiseBlocks) -> Tensor:
        """See base class."""
        v = noise.take(self._weights_widening)
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
    widened = NegativeSites(solver.factor(tau.clamp_min(0.0)), solver.rows, tau)
    return widened, widened.proper
