"""Answers split into folds, each answer as a whole."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import torch

from botorch_pref.errors import FeedbackError
from botorch_pref.feedback import Feedback


class SetFold(NamedTuple):
    """Answers to learn from, and answers held out."""

    train: tuple[Feedback, ...]
    held_out: tuple[Feedback, ...]


def set_folds(
    blocks: Sequence[Feedback], num_folds: int, generator: torch.Generator
) -> Iterator[SetFold]:
    """Random folds of about equal size; the stages of a ranking stay together.

    An answer with a count is held out as a whole too.

    Args:
        blocks: Comparisons, choices and rankings.
        num_folds: How often answers are held out, at least 2.
        generator: The source of randomness, on the processor.

    Raises:
        FeedbackError: There are fewer answers than folds, or fewer than two folds.
    """
    sizes = [block.answer_counts.shape[-1] for block in blocks]
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
                    side.append(block.take(keep))
        yield SetFold(tuple(train), tuple(held_out))
