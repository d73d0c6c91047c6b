"""Stopping of chains: long enough, or out of reach."""

from __future__ import annotations

import torch
from torch import Tensor

from botorch_pref.numerics.mcmc_diagnostics import (
    effective_sample_size,
    split_r_hat,
)

# With many short chains this already means that a chain forgets its start many times
# within its run; it leaves R-hat's own noise, of order 1 / (steps sqrt(chains)), room.
_R_HAT_TARGET = 1.05
# By how much a forecast of either target may be off before it ends a run.
_SLACK = 2.0


def worst_row(rows: Tensor, fixed: Tensor) -> tuple[Tensor, Tensor]:
    """R-hat and effective sample size of the worst row; rows without variance pass.

    Args:
        rows: ``num_steps x batch_shape x num_chains x m``.
        fixed: ``batch_shape x m``, whether a row has no variance.

    Returns:
        Two tensors, each ``batch_shape``.
    """
    steps = rows.movedim(-2, 1)
    size = effective_sample_size(steps).masked_fill(fixed, torch.inf)
    r_hat = split_r_hat(steps).masked_fill(fixed, 1.0)
    return r_hat.amax(-1), size.amin(-1)


def reached(r_hat: Tensor, size: Tensor, num_draws: int) -> Tensor:
    """Whether there are as many effective draws and R-hat is at most 1.05.

    Args:
        r_hat: Any shape.
        size: The effective sample size, like ``r_hat``.
        num_draws: How many draws are wanted.
    """
    return (size >= num_draws) & (r_hat <= _R_HAT_TARGET)


def out_of_reach(r_hat: Tensor, size: Tensor, num_draws: int, longer: int) -> Tensor:
    """Whether a run so many times longer would still be far from its targets.

    Of chains that mix, length divides what R-hat has above one and multiplies the
    effective size. Where walls are too steep for the steps, more of the same would be
    minutes for nothing.

    Args:
        r_hat: Any shape.
        size: The effective sample size, like ``r_hat``.
        num_draws: How many draws are wanted.
        longer: Over the run so far.
    """
    above = (r_hat - 1) / longer > _SLACK * (_R_HAT_TARGET - 1)
    return above | (_SLACK * longer * size < num_draws)
