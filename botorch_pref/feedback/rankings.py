"""Answers to "put these in order"."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass
from typing import ClassVar

import torch
from torch import Tensor

from botorch_pref.feedback.concatenate_answers import PADDING
from botorch_pref.feedback.feedback import Feedback
from botorch_pref.feedback.padded_sets import check_padded_sets


@dataclass(frozen=True, eq=False)
class Rankings(Feedback):
    """Rankings of items, best first, of equal or different lengths.

    Attributes:
        orders: ``batch_shape x m x k`` integers, at least two different items a row,
            best first; shorter rankings end in -1.
        counts: ``batch_shape x m`` integers, how often each answer was given; None for
            once.

    Raises:
        FeedbackError: Wrong type or shape, no rows, fewer than two items or an item
            twice in a ranking, padding before an item, or a count that is not positive.
    """

    relative: ClassVar[bool] = True
    padded: ClassVar[bool] = True
    wide_fields: ClassVar[tuple[str, ...]] = ("orders",)
    counted: ClassVar[Mapping[str | None, tuple[str, ...]]] = {"counts": ("orders",)}

    orders: Tensor
    _: KW_ONLY
    counts: Tensor | None = None

    def __post_init__(self) -> None:
        """Validates the fields."""
        super().__post_init__()
        orders = check_padded_sets("Rankings.orders", self.orders, "ranking")
        object.__setattr__(self, "orders", orders)
        self._check_counts()

    @property
    def index_fields(self) -> tuple[str, ...]:
        """See base class."""
        return ("orders",)

    def stages(self) -> Tensor:
        r"""The rankings as choices of the best, the second best and so on.

        A ranking :math:`a_1 \succ \dots \succ a_k` breaks into k - 1 stages: choose
        :math:`a_1` from all, :math:`a_2` from the rest, up to :math:`a_{k-1}` from the
        last two (Guo et al. 2020, eq. 4).

        Returns:
            ``batch_shape x s x k`` long, where :math:`s \le m (k - 1)`; in each row the
            first item was chosen from all items of the row, which ends in -1. A
            ranking's stages follow each other. A ranking shorter than ``k`` has fewer
            stages: rows without a stage are left out where no batch has one, else they
            are -1 throughout. So without batch dimensions there are none.
        """
        stages, there = self._padded_stages()
        return stages[..., there, :]

    def answers_of_stages(self) -> Tensor:
        """The ranking that each row of :meth:`stages` is of, ``s`` long."""
        _, there = self._padded_stages()
        k, m = self.orders.shape[-1], self.orders.shape[-2]
        answers = torch.arange(m, device=there.device).repeat_interleave(k - 1)
        return answers[there]

    def _padded_stages(self) -> tuple[Tensor, Tensor]:
        """The stages of all rankings, and which of them there are in some batch."""
        k = self.orders.shape[-1]
        padded = torch.nn.functional.pad(self.orders, (0, k - 2), value=PADDING)
        stages = padded.unfold(-1, k, 1)
        is_stage = stages[..., 1] != PADDING
        stages = stages.masked_fill(~is_stage.unsqueeze(-1), PADDING).flatten(-3, -2)
        return stages, is_stage.flatten(-2).unsqueeze(0).flatten(end_dim=-2).any(0)
