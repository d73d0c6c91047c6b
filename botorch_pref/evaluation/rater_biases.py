"""Biases of raters for what is first: covariates of each, and their posterior."""

from __future__ import annotations

from collections.abc import Sequence
from copy import deepcopy
from dataclasses import replace
from typing import Any, cast

import torch
from torch import Tensor
from torch.nn.functional import one_hot, pad

from botorch_pref.feedback import Comparisons, Feedback
from botorch_pref.models import LaplacePreferenceGP, PreferenceMarginalLogLikelihood
from botorch_pref.models.raters import RaterWeights


def with_rater_biases(
    points: Tensor, feedback: Sequence[Feedback], num_raters: int
) -> tuple[Feedback, ...]:
    """Adds covariates of each rater: the first one, where the rater answered.

    Args:
        points: With the numbers of raters in the last column, ``n x (d + 1)``.
        feedback: About the points.
        num_raters: ``R``, how many covariates are added.
    """
    raters = points[:, -1].long()
    biased = []
    for block in feedback:
        if isinstance(block, Comparisons) and block.covariates is not None:
            tables = [rows for rows in (block.pairs, block.ties) if rows is not None]
            of_rater = one_hot(raters[torch.cat(tables)[:, 0]], num_raters)
            columns = [block.covariates, block.covariates[:, :1] * of_rater]
            block = replace(block, covariates=torch.cat(columns, dim=-1))
        biased.append(block)
    return tuple(biased)


_NEGLIGIBLE = 6.0
"""Nats below the most probable spread from which a spread is left out."""


def bias_moments(model: LaplacePreferenceGP) -> tuple[Tensor, Tensor]:
    r"""Computes means and deviations of the first weight of each rater, ``R`` each.

    The spread :math:`\tau` of the raters is averaged over: few of them leave it open,
    and where it is taken for small all intervals are too short. Its logarithm has the
    nodes of a trapezoid rule, twice :math:`1 / \sqrt{2 R}` apart: no data say more of
    it than ``R`` weights that are seen.

    Args:
        model: Fitted, with `RaterWeights`.
    """
    model = deepcopy(model).train()
    module = cast("RaterWeights", model.covariate_module)
    count, best = module.num_raters, float(module.spread.detach())
    sums = pad(torch.eye(count), (module.num_covariates - count, 0)).double()
    sums[:, 0] = 1.0
    step = 2 / (2 * count) ** 0.5
    nodes = {}
    for direction in (-1, 1):
        place, highest, value = min(direction, 0), -torch.inf, torch.inf
        while value > highest - _NEGLIGIBLE:
            spread = best * torch.tensor(step * place, dtype=torch.double).exp()
            module.spread = spread
            value, *moments = _at_spread(model, sums)
            highest = max(highest, value)
            nodes[place] = (value, *moments)
            place += direction
    values, means, variances = zip(*nodes.values(), strict=True)
    weights = torch.tensor(values).softmax(0).unsqueeze(-1)
    mean = (weights * torch.stack(means)).sum(0)
    squares = torch.stack(variances) + torch.stack(means).square()
    return mean, ((weights * squares).sum(0) - mean.square()).sqrt()


@torch.no_grad()
def _at_spread(
    model: LaplacePreferenceGP, sums: Tensor
) -> tuple[float, Tensor, Tensor]:
    """Computes the log density of the log of a spread, and the moments under it."""
    objective = PreferenceMarginalLogLikelihood(model.likelihood, model)
    module = cast("RaterWeights", model.covariate_module)
    # One solution has both: a posterior of its own would be solved for again.
    solution: Any = model.evidence_solution()
    value = float(objective.with_priors(solution.log_evidence) + module.spread.log())
    prior, count = module.covariance.double(), module.num_covariates
    precision = solution.factor.precision()[-count:, -count:]
    moved = sums @ prior
    variance = (moved * sums).sum(-1) - ((moved @ precision) * moved).sum(-1)
    return value, moved @ solution.weights[-count:], variance
