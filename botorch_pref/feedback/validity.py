"""Answers to "did this trial work at all?"."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from botorch_pref.errors import FeedbackError
from botorch_pref.feedback.feedback import Feedback, check_index_tensor


@dataclass(frozen=True, eq=False)
class Validity(Feedback):
    """Labels of trials as valid or failed.

    On the shared utility (Benavoli et al. 2021, section 3.2): a valid point has utility
    above zero, a failed one below.

    Attributes:
        indices: ``batch_shape x m`` integers.
        valid: ``batch_shape x m`` booleans.

    Raises:
        FeedbackError: Wrong type or shape, or no rows.
    """

    relative: ClassVar[bool] = False

    indices: Tensor
    valid: Tensor

    def __post_init__(self) -> None:
        """Validates the fields."""
        super().__post_init__()
        indices = check_index_tensor("Validity.indices", self.indices, width=None)
        object.__setattr__(self, "indices", indices)
        if not isinstance(self.valid, Tensor) or self.valid.dtype != torch.bool:
            kind = getattr(self.valid, "dtype", type(self.valid).__name__)
            raise FeedbackError(
                f"Validity.valid must be a tensor of booleans, got {kind}; "
                "use for example labels == 1."
            )
        if self.valid.shape != indices.shape:
            raise FeedbackError(
                f"Validity.valid has shape {tuple(self.valid.shape)}, but "
                f"Validity.indices has {tuple(indices.shape)}: one label a point."
            )

    @property
    def index_fields(self) -> tuple[str, ...]:
        """See base class."""
        return ("indices",)
