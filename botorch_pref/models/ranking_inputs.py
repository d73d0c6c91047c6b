"""BoTorch's data set of comparisons as constructor arguments."""

from __future__ import annotations

import torch
from botorch.utils.containers import BotorchContainer, SliceContainer
from botorch.utils.datasets import RankingDataset, SupervisedDataset
from torch import Tensor

from botorch_pref.errors import UnsupportedFeedbackError


def inputs_from_ranking(
    training_data: SupervisedDataset,
) -> dict[str, BotorchContainer | Tensor]:
    """Datapoints and comparisons of a ``RankingDataset`` of pairs.

    Args:
        training_data: The data set.

    Returns:
        ``datapoints``, ``batch_shape x n x d``, and ``comparisons``,
        ``batch_shape x m x 2``, winner first.

    Raises:
        UnsupportedFeedbackError: Another data set, or rankings of three and more.
    """
    if not isinstance(training_data, RankingDataset):
        raise UnsupportedFeedbackError(
            "A preference model needs a RankingDataset, got "
            f"{type(training_data).__name__}."
        )
    order = training_data.Y
    if order.shape[-1] != 2:
        raise UnsupportedFeedbackError(
            f"The RankingDataset ranks {order.shape[-1]} items at a time; preference "
            "models take pairs."
        )
    items = training_data._X
    assert isinstance(items, SliceContainer)
    indices = items.indices
    return {
        "datapoints": items.values,
        "comparisons": torch.gather(indices, dim=-1, index=order),
    }
