"""The sites of expectation propagation, and what follows from them."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from botorch_pref.inference.conditioning.negative_sites import site_posterior
from botorch_pref.inference.conditioning.site_solver import (
    Balance,
    SitePosterior,
    SiteSolver,
)
from botorch_pref.inference.ep.moment_matching import matching_sites
from botorch_pref.likelihoods.factors.factors import ScalarFactors, TiltedSlopes


@dataclass(frozen=True)
class EPState:
    """Sites with their posterior, its cavities and the slopes of tilted factors.

    Attributes:
        sites: Precisions before shifts, ``batch_shape x 2 m``.
        posterior: Conditioned on the precisions.
        mean: Posterior means of the rows, ``batch_shape x m``.
        force: Of the sites at these means, ``batch_shape x m``.
        balance: Of the sites' shifts with the prior, of which the force is a part.
        variance: Of the rows, ``batch_shape x m``, no less than its rounding error.
        cavity_ratio: Variances over cavity variances, ``batch_shape x m``.
        cavity_mean: ``batch_shape x m``.
        cavity_variance: ``batch_shape x m``.
        slopes: Of the factors' log partitions in the cavity means.
        moving: ``batch_shape x 2 m``, False for sites of rows that the prior knows
            exactly; None where there are no such rows.
        proper: ``batch_shape``, whether posterior and cavities are Gaussian; else no
            moments.
        is_proper: Whether they are in every element of the batch.
    """

    sites: Tensor
    posterior: SitePosterior
    mean: Tensor
    force: Tensor
    balance: Balance
    variance: Tensor
    cavity_ratio: Tensor
    cavity_mean: Tensor
    cavity_variance: Tensor
    slopes: TiltedSlopes
    moving: Tensor | None
    proper: Tensor
    is_proper: bool

    @cached_property
    def mismatch(self) -> Tensor:
        """Largest mismatch of tilted and posterior moments of a row, ``batch_shape``.

        In posterior standard deviations and relative to the variance; infinite where
        there is no posterior.
        """
        s = self.cavity_variance
        shift = s * (self.slopes.first - self.force) / self._deviation
        ratio = self.slopes.ratio / self.cavity_ratio - 1
        both = torch.maximum(shift.abs(), ratio.abs())
        if self.moving is not None:
            both = both * self.moving.chunk(2, dim=-1)[0]
        worst = both.amax(-1)
        return worst if self.is_proper else worst.masked_fill(~self.proper, torch.inf)

    @cached_property
    def residual(self) -> Tensor:
        """Mismatch of moments that is left, ``batch_shape``.

        The largest mismatch, or how far matching all would move the posterior: many
        equal answers miss by little each, and by their number together.
        """
        return torch.maximum(self.mismatch, self._movement)

    @property
    def _movement(self) -> Tensor:
        """Movement of the posterior by a full step, to first order, ``batch_shape``."""
        tau, nu = self.step.chunk(2, dim=-1)
        force = torch.addcmul(nu, tau, self.mean, value=-1.0)
        moved = self.posterior.mean(force).abs() / self._deviation
        if self.moving is not None:
            moved = moved * self.moving.chunk(2, dim=-1)[0]
        spread = (tau.abs() * self.variance).sum(-1)
        return torch.maximum(moved.amax(-1), spread)

    @cached_property
    def _deviation(self) -> Tensor:
        return self.variance.sqrt()

    @cached_property
    def scale(self) -> Tensor:
        """Units in which changes of sites compare, ``batch_shape x 2 m``."""
        return torch.cat([self.variance, self._deviation], dim=-1)

    @property
    def target(self) -> Tensor:
        """Sites that match the tilted moments, ``batch_shape x 2 m``."""
        return matching_sites(self.cavity_mean, self.cavity_variance, self.slopes)

    @cached_property
    def step(self) -> Tensor:
        """Step from sites to target, ``batch_shape x 2 m``; zero where sites stay."""
        step = self.target - self.sites
        return step if self.moving is None else torch.where(self.moving, step, 0.0)

    @cached_property
    def step_length(self) -> Tensor:
        """The step summed over sites, since those of equal answers add up."""
        return (self.step * self.scale).abs().sum(-1)


def ep_state(
    solver: SiteSolver, prior: Tensor, factors: ScalarFactors, sites: Tensor
) -> EPState:
    """The state of some sites.

    Args:
        solver: Of prior and rows.
        prior: Prior mean of the rows, ``batch_shape x m``.
        factors: One for each row.
        sites: Precisions before shifts, ``batch_shape x 2 m``.
    """
    tau, nu = sites.chunk(2, dim=-1)
    posterior, proper = site_posterior(solver, tau)
    variance = torch.maximum(posterior.variance(), solver.rounding_given(tau))
    left, moving = posterior.cavity_ratio(), None
    if not solver.resolves_all:
        # What is left of the variance of a row may be less than the rounding of it.
        variance = torch.where(solver.resolved, variance, solver.rounding)
        left = torch.where(solver.resolved, left, 1 - tau * variance)
        moving = torch.cat([solver.resolved, solver.resolved], dim=-1)
    shift = torch.addcmul(nu, tau, prior, value=-1.0).unsqueeze(-1)
    balance = posterior.solve(shift).of_column()
    force, mean = balance.forces, prior + balance.moved
    proper = proper & (left > 0).all(-1)
    is_proper = bool(proper.all())
    if not is_proper:
        # Any Gaussian will do where there is no cavity: its moments are not used.
        left = torch.where(proper.unsqueeze(-1), left, 1.0)
    cavity_variance = variance / left
    cavity_mean = torch.addcmul(mean, cavity_variance, force, value=-1.0)
    return EPState(
        sites=sites,
        posterior=posterior,
        mean=mean,
        force=force,
        balance=balance,
        variance=variance,
        cavity_ratio=left,
        cavity_mean=cavity_mean,
        cavity_variance=cavity_variance,
        slopes=factors.tilted_slopes(cavity_mean, cavity_variance),
        moving=moving,
        proper=proper,
        is_proper=is_proper,
    )
