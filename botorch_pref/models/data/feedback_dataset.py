"""BoTorch's data set for every kind of answer."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields
from typing import Any, Self

import torch
from botorch.utils.datasets import SupervisedDataset
from torch import Tensor

from botorch_pref.errors import UnsupportedFeedbackError
from botorch_pref.feedback import Feedback
from botorch_pref.models.data.training_set import TrainingSet


class FeedbackDataset(SupervisedDataset):
    """Datapoints and everything that was said about them.

    What ``RankingDataset`` is for comparisons and rankings, for all containers of
    `botorch_pref.feedback`. ``Y`` is zero: the answers are in ``feedback``.

    Args:
        datapoints: ``n x d``.
        feedback: Containers whose indices point into ``datapoints``, at most one of a
            kind.
        feature_names: ``d`` names.
        outcome_names: The name of the utility, in a list.
        raters: ``n`` numbers of who met each datapoint, where that is to count.

    Raises:
        FeedbackError: Datapoints or answers that cannot mean anything.
    """

    def __init__(
        self,
        datapoints: Tensor,
        feedback: Sequence[Feedback],
        *,
        feature_names: list[str],
        outcome_names: list[str],
        raters: Tensor | None = None,
    ) -> None:
        self.feedback = TrainingSet(datapoints, tuple(feedback)).feedback
        self.raters = raters
        super().__init__(
            datapoints,
            torch.zeros_like(datapoints[..., :1]),
            feature_names=feature_names,
            outcome_names=outcome_names,
        )

    @property
    def points(self) -> Tensor:
        """Datapoints as a model takes them: with raters in a last column, if any."""
        if self.raters is None:
            return self.X
        return torch.cat([self.X, self.raters.to(self.X).unsqueeze(-1)], dim=-1)

    def __eq__(self, other: Any) -> bool:
        return (
            bool(super().__eq__(other))
            and (_same_value(self.raters, other.raters))
            and (
                len(self.feedback) == len(other.feedback)
                and all(map(_same_answers, self.feedback, other.feedback))
            )
        )

    __hash__ = None  # type: ignore[assignment]

    def clone(self, deepcopy: bool = False, mask: Tensor | None = None) -> Self:
        """Copy of the data set.

        Args:
            deepcopy: Whether to copy the tensors too.
            mask: None: answers connect datapoints, so that none can be left out.

        Raises:
            UnsupportedFeedbackError: There is a mask.
        """
        if mask is not None:
            raise UnsupportedFeedbackError(
                "A FeedbackDataset cannot leave out datapoints, which answers refer "
                "to; leave out answers and make another one."
            )
        copied = (lambda t: t.clone()) if deepcopy else (lambda t: t)
        return type(self)(
            copied(self.X),
            [block.map_tensors(copied) for block in self.feedback],
            feature_names=self.feature_names,
            outcome_names=self.outcome_names,
            raters=None if self.raters is None else copied(self.raters),
        )


def _same_answers(first: Feedback, second: Feedback) -> bool:
    return type(first) is type(second) and all(
        _same_value(getattr(first, field.name), getattr(second, field.name))
        for field in fields(first)  # type: ignore[arg-type]
    )


def _same_value(first: Any, second: Any) -> bool:
    if isinstance(first, Tensor) and isinstance(second, Tensor):
        return torch.equal(first, second)
    return type(first) is type(second) and bool(first == second)
