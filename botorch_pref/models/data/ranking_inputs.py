"""Data sets of comparisons, rankings and other answers as constructor arguments."""

from __future__ import annotations

from typing import Any

import torch
from botorch.utils.containers import SliceContainer
from botorch.utils.datasets import RankingDataset, SupervisedDataset
from torch import Tensor

from botorch_pref.errors import UnsupportedFeedbackError
from botorch_pref.feedback import Rankings
from botorch_pref.models.data.feedback_dataset import FeedbackDataset


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
