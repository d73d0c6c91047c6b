"""The state in which expectation propagation starts."""

from __future__ import annotations

from contextlib import suppress

import torch
from torch import Tensor

from botorch_pref.errors import PrecisionError
from botorch_pref.inference.conditioning.site_solver import SiteSolver
from botorch_pref.inference.ep.ep_state import EPState, ep_state
from botorch_pref.inference.ep.moment_matching import matching_sites
from botorch_pref.likelihoods.factors.factors import ScalarFactors


def _prior_sites(solver: SiteSolver, prior: Tensor, factors: ScalarFactors) -> Tensor:
    """The sites that the prior alone suggests, which need no factorisation.

    A row that the prior knows exactly (a point compared with its duplicate) has no
    moments to match: its site is empty at first.
    """
    variance = torch.maximum(solver.variance, solver.rounding)
    mean = prior.expand_as(variance)
    sites = matching_sites(mean, variance, factors.tilted_slopes(mean, variance))
    if solver.resolves_all:
        return sites
    moving = torch.cat([solver.resolved, solver.resolved], dim=-1)
    return torch.where(moving, sites, 0.0)


def _non_negative(state: EPState) -> Tensor:
    """The sites, without negative precisions where these leave no posterior."""
    tau, nu = state.sites.chunk(2, dim=-1)
    positive = torch.where(state.proper.unsqueeze(-1), tau, tau.clamp_min(0.0))
    return torch.cat([positive, nu], dim=-1)


def _start(
    solver: SiteSolver, prior: Tensor, factors: ScalarFactors, sites: Tensor
) -> EPState:
    """The state of sites to start from, without those that leave no posterior."""
    state = ep_state(solver, prior, factors, sites)
    if state.is_proper:
        return state
    # Sites of other hyper-parameters, or all at once, may widen too much to start.
    return ep_state(solver, prior, factors, _non_negative(state))


def first_state(
    solver: SiteSolver,
    prior: Tensor,
    factors: ScalarFactors,
    initial_sites: tuple[Tensor, Tensor] | None,
) -> EPState:
    """State at the initial sites, if they leave a posterior; else at the prior's.

    Args:
        solver: Of prior and rows.
        prior: Prior mean of the rows, ``batch_shape x m``.
        factors: One for each row.
        initial_sites: Precisions and shifts, each ``batch_shape x m``; None for the
            sites that the prior alone suggests.
    """
    if initial_sites is not None:
        # They may be so precise, beside a prior that is so wide, that they do not.
        with suppress(PrecisionError):
            state = _start(solver, prior, factors, torch.cat(initial_sites, dim=-1))
            if state.is_proper:
                return state
    return _start(solver, prior, factors, _prior_sites(solver, prior, factors))
