"""Base class of containers of answers, and checks of their fields."""

from __future__ import annotations

import dataclasses
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, ClassVar, Self

import torch
from torch import Tensor

from botorch_pref.errors import FeedbackError
from botorch_pref.feedback.concatenate_answers import concatenate_answers


class Feedback(ABC):
    """A frozen, validated block of answers of one kind.

    Subclasses are frozen dataclasses of tensors whose indices point into the
    ``datapoints`` of a model. The tensors are copies: what happens later to those that
    were given changes nothing here.

    Attributes:
        relative: Whether only differences of utilities are seen.
        padded: Whether rows of indices may end in -1, for sets of unequal size.
        wide_fields: Names of the fields with several indices an answer,
            ``batch_shape x m x k``. Other tensors hold one entry an answer.
    """

    relative: ClassVar[bool]
    padded: ClassVar[bool] = False
    wide_fields: ClassVar[tuple[str, ...]] = ()

    def __post_init__(self) -> None:
        """Copies the tensors; subclasses validate them after it."""
        for name, value in self._fields().items():
            if isinstance(value, Tensor):
                object.__setattr__(self, name, value.clone())

    @property
    @abstractmethod
    def index_fields(self) -> tuple[str, ...]:
        """Names of the fields that hold indices into ``datapoints``."""

    @property
    def batch_shape(self) -> torch.Size:
        """The batch shape of the answers."""
        return torch.broadcast_shapes(*self._batch_shapes)

    @property
    def _batch_shapes(self) -> list[torch.Size]:
        return [
            value.shape[: -2 if name in self.wide_fields else -1]
            for name, value in self._fields().items()
            if isinstance(value, Tensor)
        ]

    def _fields(self) -> dict[str, Any]:
        names = dataclasses.fields(self)  # type: ignore[arg-type]
        return {field.name: getattr(self, field.name) for field in names}

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

        Returns:
            The block itself, where the function gives back every tensor that it is
            given.
        """
        given = {n: v for n, v in self._fields().items() if isinstance(v, Tensor)}
        fields = {name: function(value) for name, value in given.items()}
        if all(fields[name] is value for name, value in given.items()):
            return self
        return dataclasses.replace(self, **fields)  # type: ignore[type-var]

    def shifted(self, offset: int) -> Self:
        """The same answers with every index moved by an offset.

        Args:
            offset: How many points come before. Padding stays.
        """
        indices = {name: getattr(self, name) for name in self.index_fields}
        moved = {n: torch.where(v < 0, v, v + offset) for n, v in indices.items()}
        return dataclasses.replace(self, **moved)  # type: ignore[type-var]

    def reindexed(self, places: Tensor) -> Self:
        """The same answers about points in other places.

        Args:
            places: ``n`` integers, the new place of each point. Padding stays.
        """
        indices = {name: getattr(self, name) for name in self.index_fields}
        moved = {n: torch.where(v < 0, v, places[v]) for n, v in indices.items()}
        return dataclasses.replace(self, **moved)  # type: ignore[type-var]

    def followed_by(self, other: Self) -> Self:
        """Concatenation of these answers and those of another block.

        Args:
            other: Of the same kind, about the same ``datapoints``. Batch shapes
                broadcast; sets of unequal size are padded to the largest.

        Raises:
            FeedbackError: A block of another kind, batch shapes that do not broadcast,
                or another scale (``num_levels``).
        """
        kind = type(self).__name__
        if type(other) is not type(self):
            raise FeedbackError(
                f"{kind} cannot be followed by {type(other).__name__}; give a model "
                "both in feedback=[...]."
            )
        try:
            torch.broadcast_shapes(self.batch_shape, other.batch_shape)
        except RuntimeError as error:
            raise FeedbackError(
                f"{kind} of batch shape {tuple(self.batch_shape)} cannot be followed "
                f"by batch shape {tuple(other.batch_shape)}, which does not broadcast "
                "with it; give both the same, or none."
            ) from error
        theirs = other._fields()
        joined = {
            name: self._joined(name, mine, theirs[name])
            for name, mine in self._fields().items()
        }
        return dataclasses.replace(self, **joined)  # type: ignore[type-var]

    def _joined(self, name: str, first: Any, second: Any) -> Any:
        if first is None or second is None:
            return second if first is None else first
        if isinstance(first, Tensor):
            along = -2 if name in self.wide_fields else -1
            return concatenate_answers(first, second, along)
        if first != second:
            raise FeedbackError(
                f"{type(self).__name__}.{name} is {first} in one block and {second} in "
                "the other; answers on different scales cannot be one block."
            )
        return first


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
