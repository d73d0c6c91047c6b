"""Answers split into folds, each answer as a whole."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import NamedTuple

import torch
from torch import Tensor

from botorch_pref.errors import FeedbackError
from botorch_pref.feedback import Choices, Comparisons, Feedback, Rankings


class SetFold(NamedTuple):
    """Answers to learn from, and answers held out."""

    train: tuple[Feedback, ...]
    held_out: tuple[Feedback, ...]


def stages_of(blocks: Sequence[Feedback]) -> Tensor:
    """Comparisons, choices and rankings as choices of the first out of each set.

    Args:
        blocks: At least one block; comparisons have no ties.

    Returns:
        ``batch_shape x L x k`` long, the chosen point first, padded with -1.
    """
    stages = [_stages(block) for block in blocks]
    batch = torch.broadcast_shapes(*(s.shape[:-2] for s in stages))
    widest = max(s.shape[-1] for s in stages)
    padded = [
        torch.nn.functional.pad(s, (0, widest - s.shape[-1]), value=-1) for s in stages
    ]
    return torch.cat([p.expand(*batch, *p.shape[-2:]) for p in padded], dim=-2)


def _stages(block: Feedback) -> Tensor:
    if isinstance(block, Comparisons):
        assert block.pairs is not None, "comparisons without ties have pairs"
        return block.pairs
    assert isinstance(block, Choices | Rankings), "checked by the model"
    return block.stages()


def comparisons_of(stages: Tensor) -> Tensor:
    """Every pair of a chosen item and another of its set.

    Args:
        stages: ``batch_shape x L x k`` long, the chosen point first, padded with -1.

    Returns:
        ``batch_shape x L (k - 1) x 2`` long; -1 in pairs that there are none of.
    """
    others = stages[..., 1:]
    winners = torch.where(others >= 0, stages[..., :1], -1)
    return torch.stack([winners, others], dim=-1).flatten(-3, -2)


def _take(block: Feedback, keep: Tensor) -> Feedback:
    if isinstance(block, Comparisons):
        assert block.pairs is not None, "comparisons without ties have pairs"
        return Comparisons(block.pairs[..., keep, :])
    if isinstance(block, Choices):
        return Choices(block.sets[..., keep, :], block.chosen[..., keep])
    assert isinstance(block, Rankings), "checked by the model"
    return replace(block, orders=block.orders[..., keep, :])


def _num_answers(block: Feedback) -> int:
    if isinstance(block, Rankings):
        return block.orders.shape[-2]
    return _stages(block).shape[-2]


def set_folds(
    blocks: Sequence[Feedback], num_folds: int, generator: torch.Generator
) -> Iterator[SetFold]:
    """Random folds of about equal size; the stages of a ranking stay together.

    Args:
        blocks: Comparisons, choices and rankings.
        num_folds: How often answers are held out, at least 2.
        generator: The source of randomness, on the processor.

    Raises:
        FeedbackError: There are fewer answers than folds, or fewer than two folds.
    """
    sizes = [_num_answers(block) for block in blocks]
    if not 2 <= num_folds <= sum(sizes):
        raise FeedbackError(
            f"num_folds={num_folds} of {sum(sizes)} answers; take at least 2 folds and "
            "at most one for each answer."
        )
    order = torch.randperm(sum(sizes), generator=generator)
    parts = (order % num_folds).split(sizes)
    for fold in range(num_folds):
        train: list[Feedback] = []
        held_out: list[Feedback] = []
        for block, part in zip(blocks, parts, strict=True):
            for side, keep in ((train, part != fold), (held_out, part == fold)):
                if bool(keep.any()):
                    side.append(_take(block, keep))
        yield SetFold(tuple(train), tuple(held_out))
