"""Log losses of held-out answers, for each precision of a prior of weights."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from botorch_pref.feedback import Feedback
from botorch_pref.inference.weight_space.weight_engine import WeightEngine
from botorch_pref.inference.weight_space.weight_posterior import WeightPosterior
from botorch_pref.models.regression.set_folds import SetFold
from botorch_pref.models.regression.stages import (
    comparisons_of,
    stage_counts_of,
    stages_of,
)
from botorch_pref.numerics.logistic_normal import log_expected_sigmoid


class EtaLosses(NamedTuple):
    """Held-out log losses of comparisons, by the precision of the prior.

    Attributes:
        etas: ``E`` precisions.
        log_losses: ``E x batch_shape``, nats a comparison.
    """

    etas: Tensor
    log_losses: Tensor


def held_out_losses(
    engine: WeightEngine,
    features: Tensor,
    folds: Iterable[SetFold],
    etas: Tensor,
) -> EtaLosses:
    """The log loss of the comparisons in held-out answers, all candidates at once.

    Args:
        engine: Of the posterior of weights.
        features: ``batch_shape x n x d``.
        folds: Answers to learn from and answers held out.
        etas: ``E`` positive precisions and as many dimensions of size one as there are
            batch dimensions.
    """
    losses, counts = [], []
    for train, held_out in folds:
        with torch.no_grad():
            weights = engine.solve(
                features, stages_of(train), etas, _counts_of(train)
            ).terms
        stages, often = stages_of(held_out), _counts_of(held_out)
        pairs = comparisons_of(stages)
        there = (pairs[..., 0] >= 0).to(features)
        if often is not None:
            there = there * often.repeat_interleave(stages.shape[-1] - 1, dim=-1)
        log_wins = _log_win_probability(features, pairs, weights)
        losses.append(-torch.where(there > 0, there * log_wins, 0.0).sum(-1))
        counts.append(there.sum(-1))
    mean = torch.stack(losses).sum(0) / torch.stack(counts).sum(0)
    return EtaLosses(etas.flatten(), mean)


def _counts_of(blocks: Sequence[Feedback]) -> Tensor | None:
    counts = [b.answer_counts if b.is_counted else None for b in blocks]
    return stage_counts_of(blocks, counts)


def _log_win_probability(
    features: Tensor, pairs: Tensor, weights: WeightPosterior
) -> Tensor:
    """Log probability that the first of each pair wins, ``E x batch_shape x m``."""
    batch = torch.broadcast_shapes(features.shape[:-2], pairs.shape[:-2])
    features = features.expand(*batch, *features.shape[-2:])
    index = pairs.clamp_min(0).expand(*batch, *pairs.shape[-2:]).unsqueeze(-1)
    rows = [
        features.gather(-2, i.expand(*i.shape[:-1], features.shape[-1]))
        for i in index.unbind(-2)
    ]
    gap = rows[0] - rows[1]
    mean = (gap @ weights.mean.unsqueeze(-1)).squeeze(-1)
    variance = ((gap @ weights.covariance) * gap).sum(-1)
    return log_expected_sigmoid(mean, variance)
