"""What every container of answers has in common."""

from __future__ import annotations

import dataclasses
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import ClassVar, Self

import torch
from torch import Tensor

from botorch_pref.errors import FeedbackError


class Feedback(ABC):
    """A frozen, validated block of answers of one kind.

    Subclasses are frozen dataclasses of tensors whose indices point into the
    ``datapoints`` of a model.

    Attributes:
        relative: Whether only differences of utilities are seen.
        padded: Whether rows of indices may end in -1, for sets of unequal size.
    """

    relative: ClassVar[bool]
    padded: ClassVar[bool] = False

    @property
    @abstractmethod
    def index_fields(self) -> tuple[str, ...]:
        """Names of the fields that hold indices into ``datapoints``."""

    @property
    @abstractmethod
    def batch_shape(self) -> torch.Size:
        """The batch shape of the answers."""

    def check_indices(self, num_points: int) -> None:
        """Checks that every answer is about one of the datapoints.

        Args:
            num_points: ``n``, the number of datapoints.

        Raises:
            FeedbackError: An index is negative (and no padding) or not below ``n``.
        """
        for name in self.index_fields:
            indices = getattr(self, name)
            bad = (indices < (-1 if self.padded else 0)) | (indices >= num_points)
            if bool(bad.any()):
                where = bad.nonzero()[0].tolist()
                raise FeedbackError(
                    f"{type(self).__name__}.{name}{where} is "
                    f"{int(indices[tuple(where)])}, but there are {num_points} "
                    f"datapoints: indices go from 0 to {num_points - 1}."
                )

    def map_tensors(self, function: Callable[[Tensor], Tensor]) -> Self:
        """The same answers with ``function`` applied to every tensor.

        Args:
            function: Takes and returns a tensor, for example ``lambda t: t.cuda()``.
        """
        fields = {
            field.name: function(value)
            for field in dataclasses.fields(self)  # type: ignore[arg-type]
            if isinstance(value := getattr(self, field.name), Tensor)
        }
        return dataclasses.replace(self, **fields)  # type: ignore[type-var]


def check_index_tensor(name: str, value: object, width: int | None) -> Tensor:
    """Checks that a field is a non-empty integer tensor of the right width.

    Args:
        name: What to call it in messages, for example ``Comparisons.pairs``.
        value: What was given.
        width: The size of the last dimension, or None for a vector of indices.

    Returns:
        The value as a ``long`` tensor.

    Raises:
        FeedbackError: It is not a tensor, not of an integer dtype, of another shape, or
            has no rows.
    """
    shape = "m" if width is None else f"m x {width}"
    value = check_integers(name, value, shape, "indices into datapoints")
    min_dim = 1 if width is None else 2
    if value.dim() < min_dim or (width is not None and value.shape[-1] != width):
        raise FeedbackError(
            f"{name} has shape {tuple(value.shape)}, expected batch_shape x {shape}."
        )
    if value.numel() == 0:
        raise FeedbackError(f"{name} has no rows; pass None where nothing was said.")
    return value


def check_integers(name: str, value: object, shape: str, meaning: str) -> Tensor:
    """Checks that a field is a tensor of an integer dtype.

    Args:
        name: What to call it in messages, for example ``Comparisons.pairs``.
        value: What was given.
        shape: The shape to ask for, without the batch shape, for example ``m x 2``.
        meaning: What the integers are, for example ``indices into datapoints``.

    Returns:
        The value as a ``long`` tensor.

    Raises:
        FeedbackError: It is not a tensor, or not of an integer dtype.
    """
    if not isinstance(value, Tensor):
        raise FeedbackError(
            f"{name} must be a tensor of integers of shape batch_shape x {shape}, got "
            f"{type(value).__name__}; use torch.tensor(...)."
        )
    if value.is_floating_point() or value.is_complex() or value.dtype == torch.bool:
        raise FeedbackError(
            f"{name} holds {meaning} but has dtype {value.dtype}; pass "
            "integers, for example with .long()."
        )
    return value.long()


def check_same_shape(name: str, value: Tensor, expected: torch.Size, of: str) -> None:
    """Checks that there is one answer for each row of indices.

    Args:
        name: The field of the answers, for example ``Ratings.ratings``.
        value: The answers.
        expected: The shape they must have.
        of: What that is the shape of, for example ``Ratings.indices``.

    Raises:
        FeedbackError: The shapes differ.
    """
    if value.shape != expected:
        raise FeedbackError(
            f"{name} has shape {tuple(value.shape)}, but {of} has "
            f"{tuple(expected)}: one answer a row."
        )


def check_distinct(name: str, pairs: Tensor) -> None:
    """Checks that no point is compared with itself.

    Args:
        name: What to call it in messages.
        pairs: ``batch_shape x m x 2``.

    Raises:
        FeedbackError: Both indices of a row are the same.
    """
    same = pairs[..., 0] == pairs[..., 1]
    if bool(same.any()):
        where = same.nonzero()[0].tolist()
        index = int(pairs[(*where, 0)])
        raise FeedbackError(
            f"{name}{where} compares point {index} with itself, which says nothing; "
            "remove the row. (Two different points with equal coordinates are fine.)"
        )
