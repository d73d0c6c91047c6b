"""The items of choices out of sets of any size, one after the other."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True)
class StageItems:
    """Ragged sets as one row of items, without padding where there are no batches.

    An item takes a place in the row if its set has it in some element of the batch;
    elements without it hold a phantom there.

    Attributes:
        points: ``batch_shape x M`` long, which point each item is; 0 for a phantom.
        stage: ``M`` long, the set that each item is in.
        place: ``M`` long, where it stands in its set; the chosen item is at 0.
        present: ``batch_shape x M`` booleans, False for phantoms.
        num_stages: ``L``, the number of sets.
    """

    points: Tensor
    stage: Tensor
    place: Tensor
    present: Tensor
    num_stages: int

    def total(self, values: Tensor) -> Tensor:
        """Sums over each set; ``batch_shape x M`` to ``batch_shape x L``."""
        out = values.new_zeros(*values.shape[:-1], self.num_stages)
        return out.index_add_(-1, self.stage, values)

    def largest(self, values: Tensor) -> Tensor:
        """Maxima of each set; ``batch_shape x M`` to ``batch_shape x L``."""
        out = values.new_full((*values.shape[:-1], self.num_stages), -torch.inf)
        return out.scatter_reduce(-1, self.stage.expand_as(values), values, "amax")

    def spread(self, values: Tensor) -> Tensor:
        """The value of its set for each item; ``batch_shape x L`` to ``... x M``."""
        return values.index_select(-1, self.stage)

    def padded(self, values: Tensor) -> Tensor:
        """Values of items with a row for each set, 0 where it has no more items."""
        widest = int(self.place.max()) + 1
        out = values.new_zeros(*values.shape[:-1], self.num_stages, widest)
        out[..., self.stage, self.place] = values
        return out


def in_some_element(mask: Tensor, num_dims: int) -> Tensor:
    """Whether any element of the batch has a True there.

    Args:
        mask: ``batch_shape`` and ``num_dims`` more dimensions of booleans.
        num_dims: How many dimensions are no batch dimensions.
    """
    return mask.flatten(0, -num_dims - 1).any(0) if mask.dim() > num_dims else mask


def stage_items(stages: Tensor) -> StageItems:
    """The items of padded sets.

    Args:
        stages: ``batch_shape x L x k`` long, the chosen point first, padded with -1.

    Returns:
        Items of the sets that have some, which are renumbered; order is kept.
    """
    keep = in_some_element(stages >= 0, 2)
    real = keep.any(-1)
    stages = stages[..., real, :]
    stage, position = keep[real].nonzero(as_tuple=True)
    points = stages[..., stage, position]
    return StageItems(
        points=points.clamp_min(0),
        stage=stage,
        place=position,
        present=points >= 0,
        num_stages=stages.shape[-2],
    )
