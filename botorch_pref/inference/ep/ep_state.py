"""One look at all sites of expectation propagation."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from botorch_pref.inference.conditioning.negative_sites import signed_factor
from botorch_pref.inference.conditioning.site_solver import SitePosterior, SiteSolver
from botorch_pref.inference.ep.moment_matching import matching_sites
from botorch_pref.likelihoods.factors.factors import LogPartition, ScalarFactors


@dataclass(frozen=True)
class Sweep:
    """One look at all sites: the posterior, its cavities and the tilted moments.

    Attributes:
        sites: Precisions before shifts, ``batch_shape x 2 m``.
        factor: Conditioned on the precisions.
        mean: Of the rows, ``batch_shape x m``.
        variance: Of the rows, ``batch_shape x m``, no less than its rounding error.
        cavity_mean: ``batch_shape x m``.
        cavity_variance: ``batch_shape x m``.
        tilted: Log partitions of the factors under the cavities.
        resolved: ``batch_shape x m``, False for rows that the prior knows exactly.
        proper: ``batch_shape``, whether posterior and cavities are Gaussian; else no
            moments.
        residual: Largest mismatch of tilted and posterior moments, ``batch_shape``.
        scale: What makes changes of sites comparable, ``batch_shape x 2 m``.
        target: Sites that match the tilted moments, ``batch_shape x 2 m``.
        step: The way there, ``batch_shape x 2 m``; zero for rows that the prior knows.
        step_length: Summed over sites, since those of equal answers add up:
            ``batch_shape``.
    """

    sites: Tensor
    factor: SitePosterior
    mean: Tensor
    variance: Tensor
    cavity_mean: Tensor
    cavity_variance: Tensor
    tilted: LogPartition
    resolved: Tensor
    proper: Tensor

    @cached_property
    def residual(self) -> Tensor:
        """Largest mismatch of tilted and posterior moments, ``batch_shape``.

        Or how far matching them all would move the posterior: many equal answers miss
        by little each, and by their number together.
        """
        s = self.cavity_variance
        mean = self.cavity_mean + s * self.tilted.first
        variance = s + s.square() * self.tilted.second
        shift = (mean - self.mean).abs() / self.variance.sqrt()
        ratio = (variance / self.variance - 1).abs()
        worst = (torch.maximum(shift, ratio) * self.resolved).amax(-1)
        worst = torch.maximum(worst, self._movement)
        return worst.masked_fill(~self.proper, torch.inf)

    @property
    def _movement(self) -> Tensor:
        """Of the posterior by a full step, to first order, ``batch_shape``."""
        tau, nu = self.step.chunk(2, dim=-1)
        moved = self.factor.mean(nu - tau * self.mean).abs() / self.variance.sqrt()
        spread = (tau.abs() * self.variance).sum(-1)
        return torch.maximum((moved * self.resolved).amax(-1), spread)

    @cached_property
    def scale(self) -> Tensor:
        """See above."""
        return torch.cat([self.variance, self.variance.sqrt()], dim=-1)

    @cached_property
    def target(self) -> Tensor:
        """See above."""
        return matching_sites(self.cavity_mean, self.cavity_variance, self.tilted)

    @cached_property
    def step(self) -> Tensor:
        """See above."""
        moves = torch.cat([self.resolved, self.resolved], dim=-1)
        return torch.where(moves, self.target - self.sites, 0.0)

    @cached_property
    def step_length(self) -> Tensor:
        """See above."""
        return (self.step * self.scale).abs().sum(-1)


def sweep_sites(
    solver: SiteSolver, prior: Tensor, factors: ScalarFactors, sites: Tensor
) -> Sweep:
    """Looks at sites.

    Args:
        solver: Of prior and rows.
        prior: Prior mean of the rows, ``batch_shape x m``.
        factors: One for each row.
        sites: Precisions before shifts, ``batch_shape x 2 m``.
    """
    tau, nu = sites.chunk(2, dim=-1)
    factor, proper = signed_factor(solver, tau)
    mean = prior + factor.mean(nu - tau * prior)
    rounding = solver.rounding
    resolved = solver.variance > rounding
    # What is left of the variance of a row may be less than the rounding of it.
    variance = torch.where(
        resolved, torch.maximum(factor.variance(), rounding), rounding
    )
    left = 1 - tau * variance
    proper = proper & (left > 0).all(-1)
    # Any Gaussian will do where there is no cavity: its moments are not used.
    left = torch.where(proper.unsqueeze(-1), left, 1.0)
    cavity_variance = variance / left
    cavity_mean = (mean - variance * nu) / left
    tilted = factors.log_partition(cavity_mean, cavity_variance)
    return Sweep(
        sites=sites,
        factor=factor,
        mean=mean,
        variance=variance,
        cavity_mean=cavity_mean,
        cavity_variance=cavity_variance,
        tilted=tilted,
        resolved=resolved,
        proper=proper,
    )
