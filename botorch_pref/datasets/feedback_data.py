"""Tables of answers of any kind, with features of the items."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Generic, TypeVar

import torch
from torch import Tensor

from botorch_pref.errors import FeedbackError
from botorch_pref.feedback import Comparisons, Feedback

Kind = TypeVar("Kind", bound=Feedback)


@dataclass(frozen=True, eq=False)
class FeedbackData(Generic[Kind]):
    """Answers of one kind about items with named features.

    Attributes:
        datapoints: `n x d` features of the distinct items, in their natural units.
        feedback: `m` answers about them, without batch dimensions.
        feature_names: `d` names, one a column of `datapoints`.
        raters: `m` long ids of who answered, or `None` where that is not known.

    Raises:
        FeedbackError: Answers with batch dimensions or ties, an index that is out of
            range, or raters or names that do not fit.
    """

    datapoints: Tensor
    feedback: Kind
    feature_names: tuple[str, ...]
    raters: Tensor | None = None

    def __post_init__(self) -> None:
        """Checks that answers, names and raters fit together."""
        num_points, num_features = self.datapoints.shape
        if self.feedback.batch_shape:
            raise FeedbackError(
                f"feedback has batch shape {tuple(self.feedback.batch_shape)}; a table "
                "holds one list of answers: give one table a batch."
            )
        if isinstance(self.feedback, Comparisons) and self.feedback.ties is not None:
            raise FeedbackError(
                "feedback holds ties beside pairs, so its rows are not one list: give "
                "each a table."
            )
        self.feedback.check_indices(num_points)
        if len(self.feature_names) != num_features:
            raise FeedbackError(
                f"there are {len(self.feature_names)} feature_names for the "
                f"{num_features} columns of datapoints: give one a column."
            )
        if self.raters is not None and self.raters.shape != (len(self),):
            raise FeedbackError(
                f"raters has shape {tuple(self.raters.shape)} for {len(self)} answers: "
                "give one id an answer."
            )

    def __len__(self) -> int:
        first = self.feedback.index_fields[0]
        return getattr(self.feedback, first).shape[0]

    def subset(self, rows: Tensor) -> FeedbackData[Kind]:
        """The answers of some rows, over the items that they mention.

        Args:
            rows: Long indices of answers, or a bool mask of length `m`.

        Returns:
            The smaller table; items that no row mentions are left out.
        """
        chosen = self.feedback.map_tensors(lambda values: values[rows])
        indices = {name: getattr(chosen, name) for name in chosen.index_fields}
        mentioned = torch.cat([values.flatten() for values in indices.values()])
        kept = torch.unique(mentioned[mentioned >= 0])
        # The extra last place is where index -1, the padding, looks itself up.
        place = torch.full((len(self.datapoints) + 1,), -1)
        place[kept] = torch.arange(len(kept))
        moved = {name: place[values] for name, values in indices.items()}
        return FeedbackData(
            self.datapoints[kept],
            dataclasses.replace(chosen, **moved),  # type: ignore[type-var]
            self.feature_names,
            None if self.raters is None else self.raters[rows],
        )


def distinct_items(features: Tensor) -> tuple[Tensor, Tensor]:
    """Stores items with exactly the same features once.

    A utility is a function of the features, so such items are one item.

    Args:
        features: `... x d`.

    Returns:
        The `n x d` distinct items, and `...` long indices into them.
    """
    datapoints, inverse = torch.unique(
        features.reshape(-1, features.shape[-1]), dim=0, return_inverse=True
    )
    return datapoints, inverse.reshape(features.shape[:-1])
