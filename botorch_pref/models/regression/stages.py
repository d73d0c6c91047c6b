"""Comparisons, choices and rankings as choices of one out of each set."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from botorch_pref.errors import FeedbackError, UnsupportedFeedbackError
from botorch_pref.feedback import Choices, Comparisons, Feedback, Rankings
from botorch_pref.linalg.joint_shape import join_rows


def check_stages(blocks: Sequence[Feedback]) -> None:
    """Checks that all answers are choices of one out of a set.

    Args:
        blocks: Answers.

    Raises:
        UnsupportedFeedbackError: Answers of another kind.
        FeedbackError: There are ties.
    """
    for block in blocks:
        if not isinstance(block, Comparisons | Choices | Rankings):
            raise UnsupportedFeedbackError(
                f"PlackettLuceRegression does not take {type(block).__name__}; "
                "EPPreferenceGP with a linear kernel does."
            )
        if isinstance(block, Comparisons) and block.ties is not None:
            raise FeedbackError(
                "PlackettLuceRegression has no probability for ties; use "
                "EPPreferenceGP with a linear kernel."
            )


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


def stage_counts_of(
    blocks: Sequence[Feedback], counts: Sequence[Tensor | None]
) -> Tensor | None:
    """The counts of the sets of :func:`stages_of`: how often each was chosen so.

    Args:
        blocks: As of :func:`stages_of`.
        counts: For each how often its answers were given, ``batch_shape x m``; None for
            once.

    Returns:
        ``batch_shape x L`` long; None where each was once.
    """
    if all(count is None for count in counts):
        return None
    parts = []
    for block, count in zip(blocks, counts, strict=True):
        often = block.answer_counts if count is None else count
        if isinstance(block, Choices | Rankings):
            often = often[..., block.answers_of_stages()]
        parts.append(often)
    return join_rows(parts)


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
