"""Answers to "put these in order"."""

from __future__ import annotations

from dataclasses import dataclass
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

    Raises:
        FeedbackError: Wrong type or shape, no rows, fewer than two items or an item
            twice in a ranking, or padding before an item.
    """

    relative: ClassVar[bool] = True
    padded: ClassVar[bool] = True
    wide_fields: ClassVar[tuple[str, ...]] = ("orders",)

    orders: Tensor

    def __post_init__(self) -> None:
        """Validates the fields."""
        super().__post_init__()
        orders = check_padded_sets("Rankings.orders", self.orders, "ranking")
        object.__setattr__(self, "orders", orders)

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
        k = self.orders.shape[-1]
        padded = torch.nn.functional.pad(self.orders, (0, k - 2), value=PADDING)
        stages = padded.unfold(-1, k, 1)
        is_stage = stages[..., 1] != PADDING
        stages = stages.masked_fill(~is_stage.unsqueeze(-1), PADDING).flatten(-3, -2)
        in_some_batch = is_stage.flatten(-2).unsqueeze(0).flatten(end_dim=-2).any(0)
        return stages[..., in_some_batch, :]
