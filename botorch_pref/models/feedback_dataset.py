"""BoTorch's data sets of answers, as constructor arguments of models."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields
from typing import Any, Self

import torch
from botorch.utils.containers import SliceContainer
from botorch.utils.datasets import RankingDataset, SupervisedDataset
from torch import Tensor

from botorch_pref.errors import UnsupportedFeedbackError
from botorch_pref.feedback import Feedback, Rankings
from botorch_pref.models.data import TrainingSet


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


def inputs_from_dataset(training_data: SupervisedDataset) -> dict[str, Any]:
    """Constructor arguments from a data set of answers.

    Args:
        training_data: A ``FeedbackDataset`` of whatever kinds of answers, or BoTorch's
            ``RankingDataset``.

    Returns:
        ``datapoints``, ``batch_shape x n x d``, and ``feedback`` or ``comparisons``.

    Raises:
        UnsupportedFeedbackError: Another data set, or equal ranks among three and more.
    """
    if isinstance(training_data, FeedbackDataset):
        return {"datapoints": training_data.points, "feedback": training_data.feedback}
    return inputs_from_ranking(training_data)


def inputs_from_ranking(training_data: SupervisedDataset) -> dict[str, Any]:
    """Datapoints and answers of a ``RankingDataset``.

    ``Y`` holds the rank of each item, 0 for the best.

    Args:
        training_data: The data set.

    Returns:
        ``datapoints``, ``batch_shape x n x d``; and for pairs ``comparisons``,
        ``batch_shape x m x 2``, winner first; for rankings of three and more
        ``feedback``, one block of ``Rankings``.

    Raises:
        UnsupportedFeedbackError: Another data set, or equal ranks among three and more.
    """
    if not isinstance(training_data, RankingDataset):
        raise UnsupportedFeedbackError(
            "A preference model needs a RankingDataset or a FeedbackDataset, got "
            f"{type(training_data).__name__}."
        )
    ranks = training_data.Y
    items = training_data._X
    assert isinstance(items, SliceContainer)
    if ranks.shape[-1] == 2:
        comparisons = torch.gather(items.indices, dim=-1, index=ranks)
        return {"datapoints": items.values, "comparisons": comparisons}
    _refuse_ties(ranks)
    orders = torch.gather(items.indices, dim=-1, index=ranks.argsort(dim=-1))
    return {"datapoints": items.values, "feedback": (Rankings(orders),)}


def _refuse_ties(ranks: Tensor) -> None:
    tied = (ranks.sort(dim=-1).values.diff(dim=-1) == 0).any(dim=-1)
    if bool(tied.any()):
        where = tied.nonzero()[0].tolist()
        raise UnsupportedFeedbackError(
            f"The ranking Y{where} = {ranks[tuple(where)].tolist()} has equal ranks; "
            "ties are taken between two items only. Break the ranking into pairs: "
            "Comparisons(pairs, ties)."
        )
