"""Answers to "which of these is best?"."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass
from typing import ClassVar

import torch
from torch import Tensor

from botorch_pref.errors import FeedbackError
from botorch_pref.feedback.feedback import (
    Feedback,
    check_integers,
    check_same_shape,
)
from botorch_pref.feedback.padded_sets import check_padded_sets


@dataclass(frozen=True, eq=False)
class Choices(Feedback):
    """Sets of items and the best of each.

    Nothing is said about the order of the others. Sets may differ in size.

    Attributes:
        sets: ``batch_shape x m x k`` integers, at least two different items a row;
            shorter sets end in -1.
        chosen: ``batch_shape x m`` integers: which of the datapoints was chosen. An
            index into ``datapoints``, as in ``sets``, not a place in the set.
        counts: ``batch_shape x m`` integers, how often each answer was given; None for
            once.

    Raises:
        FeedbackError: Wrong type or shape, no rows, fewer than two items or an item
            twice in a set, padding before an item, a choice outside its set, or a
            count that is not positive.
    """

    relative: ClassVar[bool] = True
    padded: ClassVar[bool] = True
    wide_fields: ClassVar[tuple[str, ...]] = ("sets",)
    counted: ClassVar[Mapping[str | None, tuple[str, ...]]] = {
        "counts": ("sets", "chosen")
    }

    sets: Tensor
    chosen: Tensor
    _: KW_ONLY
    counts: Tensor | None = None

    def __post_init__(self) -> None:
        """Validates the fields."""
        super().__post_init__()
        sets = check_padded_sets("Choices.sets", self.sets, "set")
        chosen = check_integers(
            "Choices.chosen", self.chosen, "m", "indices into datapoints"
        )
        check_same_shape(
            "Choices.chosen", chosen, sets.shape[:-1], "Choices.sets without items"
        )
        outside = (sets != chosen.unsqueeze(-1)).all(-1) | (chosen < 0)
        if bool(outside.any()):
            where = outside.nonzero()[0].tolist()
            members = [i for i in sets[tuple(where)].tolist() if i >= 0]
            raise FeedbackError(
                f"Choices.chosen{where} is {int(chosen[tuple(where)])}, which is not "
                f"in its set {members}; give the index into datapoints, not the place "
                "in the set, or add the item to the set."
            )
        object.__setattr__(self, "sets", sets)
        object.__setattr__(self, "chosen", chosen)
        self._check_counts()

    @property
    def index_fields(self) -> tuple[str, ...]:
        """See base class."""
        return ("sets", "chosen")

    def answers_of_stages(self) -> Tensor:
        """The answer that each row of :meth:`stages` is of, ``m`` long."""
        return torch.arange(self.chosen.shape[-1], device=self.chosen.device)

    def stages(self) -> Tensor:
        """Every set with the chosen item in front.

        The form that ``Rankings.stages`` has too: in each row the first item was chosen
        from all items of the row.

        Returns:
            ``batch_shape x m x k`` long: the chosen item, the others in the order of
            ``sets``, then -1.
        """
        others_last = (self.sets != self.chosen.unsqueeze(-1)).long()
        return self.sets.gather(-1, others_last.argsort(dim=-1, stable=True))
