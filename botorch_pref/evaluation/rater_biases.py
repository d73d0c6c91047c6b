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
    """Adds a covariate for each rater: that of being first, in the rater's answers.

    Its weight is how far the rater's bias for what is first differs from that of all,
    see `RaterWeights`. Answers without covariates stay as they are.

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
    r"""Computes posterior means and deviations of what being first adds, ``R`` each.

    Each is the first weight, which all raters share, and a rater's own difference to
    it. The spread :math:`\tau` of these is averaged over: few raters leave it open, and
    where it is taken for small all intervals are too short. Its logarithm has the nodes
    of a trapezoid rule, two deviations :math:`1 / \sqrt{2 R}` apart: that is how well
    ``R`` differences would show it if they were seen without error.

    Args:
        model: Fitted, with `RaterWeights`. It stays as it is.
    """
    model = deepcopy(model).train()
    module = cast("RaterWeights", model.covariate_module)
    count, best = module.num_raters, float(module.spread.detach())
    # A row for each rater: the first weight plus the rater's, which are the last ones.
    sums = pad(torch.eye(count), (module.num_covariates - count, 0)).double()
    sums[:, 0] = 1.0
    step = 2 / (2 * count) ** 0.5
    nodes = {}
    # Down from below the fitted spread, then up from that, until nodes weigh nothing.
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
    """Computes how probable the spread of raters' weights is, and moments under it.

    Args:
        model: With the spread in its `RaterWeights`.
        sums: Of its weights, whose moments are computed, ``R x w``.

    Returns:
        The log density of the logarithm of the spread, up to a constant; and the means
        and variances of the sums, ``R`` each.
    """
    objective = PreferenceMarginalLogLikelihood(model.likelihood, model)
    module = cast("RaterWeights", model.covariate_module)
    # One solution has both: a posterior of its own would be solved for again.
    solution: Any = model.evidence_solution()
    # The density of the logarithm is that of the spread times the spread.
    value = float(objective.with_priors(solution.log_evidence) + module.spread.log())
    # Weights of covariates stand behind the utilities of points.
    prior, count = module.covariance.double(), module.num_covariates
    precision = solution.factor.precision()[-count:, -count:]
    moved = sums @ prior
    variance = (moved * sums).sum(-1) - ((moved @ precision) * moved).sum(-1)
    return value, moved @ solution.weights[-count:], variance
