"""Datapoints and everything that was said about them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Self

import torch
from torch import Tensor

from botorch_pref.errors import FeedbackError
from botorch_pref.feedback import Comparisons, Feedback
from botorch_pref.feedback.feedback import check_index_tensor
from botorch_pref.linalg.row_groups import RowFinder, distinct_rows
from botorch_pref.models.data.distinct_points import (
    DistinctPoints,
    distinct_points,
    first_copies,
)

# Rows of answers that cannot be counted: five hundred megabytes where they see a
# thousand draws each.
_MOST_ROWS = 50_000


@dataclass(frozen=True, eq=False)
class MergedAnswers:
    """Answers of one kind, and how often each was given.

    Attributes:
        given: The block as it was given.
        block: The distinct answers, without counts.
        counts: ``batch_shape x M`` long; None where each was given once.
    """

    given: Feedback
    block: Feedback
    counts: Tensor | None

    @cached_property
    def repeated(self) -> Feedback:
        """The answers one by one, for factors that take no counts.

        Raises:
            FeedbackError: There are too many.
        """
        return self.given.repeated(_MOST_ROWS) if self.given.is_counted else self.given


@dataclass(frozen=True, eq=False)
class TrainingSet:
    """Validated training data of a model.

    Attributes:
        datapoints: ``batch_shape x n x d``, floating point; a copy of those given, or
            these themselves where they require a gradient: with their graph, of which
            torch sees changes in place.
        feedback: Blocks of answers, comparisons first, at most one of a kind.

    Raises:
        FeedbackError: Datapoints of the wrong type or shape or not finite, an index
            that is out of range, or two blocks of the same kind.
    """

    datapoints: Tensor
    feedback: tuple[Feedback, ...]

    def __post_init__(self) -> None:
        """Validates the fields."""
        _check_datapoints(self.datapoints)
        if not self.datapoints.requires_grad:
            object.__setattr__(self, "datapoints", self.datapoints.clone())
        kinds = [type(block) for block in self.feedback]
        for kind in kinds:
            if kinds.count(kind) > 1:
                raise FeedbackError(
                    f"feedback holds {kinds.count(kind)} blocks of {kind.__name__}; "
                    "concatenate them into one, first.followed_by(second) (the "
                    "comparisons= argument counts)."
                )
        ordered = sorted(self.feedback, key=lambda b: not isinstance(b, Comparisons))
        object.__setattr__(self, "feedback", tuple(ordered))
        batch = self.datapoints.shape[:-2]
        for block in self.feedback:
            block.check_indices(self.datapoints.shape[-2])
            batch = _join_batches(batch, block)

    @property
    def batch_shape(self) -> torch.Size:
        """The joint batch shape of datapoints and answers."""
        shapes = [block.batch_shape for block in self.feedback]
        return torch.broadcast_shapes(self.datapoints.shape[:-2], *shapes)

    @property
    def shapes(self) -> dict[str, tuple[int, ...]]:
        """The shapes of all tensors, by name."""
        shapes = {"datapoints": tuple(self.datapoints.shape)}
        for block in self.feedback:
            for name, value in vars(block).items():
                if isinstance(value, Tensor):
                    shapes[f"{type(block).__name__}.{name}"] = tuple(value.shape)
        return shapes

    @cached_property
    def distinct(self) -> DistinctPoints | None:
        """Places of the distinct datapoints; None where nothing is gained by them."""
        return distinct_points(self.datapoints)

    @cached_property
    def first_copies(self) -> Tensor | None:
        """The first copy of each datapoint of a batch; None where there are none."""
        return first_copies(self.datapoints)

    @cached_property
    def answers(self) -> tuple[MergedAnswers, ...]:
        """The distinct answers of each block, about the datapoints as they are."""
        return tuple(merged_answers(block, None) for block in self.feedback)

    @cached_property
    def distinct_answers(self) -> tuple[MergedAnswers, ...]:
        """The distinct answers of each block, equal datapoints being one."""
        if self.distinct is None:
            return self.answers
        places = self.distinct.inverse
        return tuple(merged_answers(block, places) for block in self.feedback)

    @cached_property
    def equal_rows(self) -> RowFinder:
        """Finds rows of these data that are equal up to their sign, once."""
        return RowFinder()

    @property
    def comparisons(self) -> Comparisons | None:
        """The block of comparisons, if there is one."""
        for block in self.feedback:
            if isinstance(block, Comparisons):
                return block
        return None

    def in_order_of(self, feedback: Sequence[Feedback]) -> Self:
        """The same data with kinds of answers in another order.

        Args:
            feedback: Blocks of at least these kinds.
        """
        blocks = {type(block): block for block in self.feedback}
        ordered = [blocks[type(b)] for b in feedback if type(b) in blocks]
        return type(self)(self.datapoints, tuple(ordered))

    def followed_by(self, more: TrainingSet) -> Self:
        """The same data and more answers, about more points.

        Args:
            more: Points and answers about them. Batch shapes broadcast.

        Raises:
            FeedbackError: Batch shapes that do not broadcast, or answers that cannot
                join those of their kind.
        """
        more = more.map_tensors(lambda t: t.to(self.datapoints.device))
        points = _cat_points(self.datapoints, more.datapoints)
        before = self.datapoints.shape[-2]
        blocks: dict[type[Feedback], Feedback] = {type(b): b for b in self.feedback}
        for block in more.feedback:
            kind, later = type(block), block.shifted(before)
            old = blocks.get(kind)
            blocks[kind] = later if old is None else old.followed_by(later)
        return type(self)(points, tuple(blocks.values()))

    def map_tensors(self, function: Callable[[Tensor], Tensor]) -> Self:
        """The same data with ``function`` applied to every tensor.

        Args:
            function: Takes and returns a tensor, for example ``lambda t: t.cuda()``.

        Returns:
            These data themselves, where the function gives back every tensor that it is
            given.
        """
        points = function(self.datapoints)
        feedback = tuple(block.map_tensors(function) for block in self.feedback)
        blocks = zip(feedback, self.feedback, strict=True)
        if points is self.datapoints and all(new is old for new, old in blocks):
            return self
        return type(self)(points, feedback)


def _cat_points(first: Tensor, second: Tensor) -> Tensor:
    try:
        batch = torch.broadcast_shapes(first.shape[:-2], second.shape[:-2])
        parts = [t.expand(*batch, *t.shape[-2:]) for t in (first, second)]
        return torch.cat(parts, dim=-2)
    except RuntimeError as error:
        raise FeedbackError(
            f"Datapoints of shape {tuple(first.shape)} cannot be followed by "
            f"{tuple(second.shape)}: batch shapes must broadcast, and the number of "
            "features (the last dimension) must be the same."
        ) from error


def _join_batches(batch: torch.Size, block: Feedback) -> torch.Size:
    try:
        return torch.broadcast_shapes(batch, block.batch_shape)
    except RuntimeError as error:
        raise FeedbackError(
            f"{type(block).__name__} has batch shape {tuple(block.batch_shape)}, "
            f"which does not broadcast with {tuple(batch)} of the datapoints and of "
            "earlier feedback; give all the same batch shape, or none."
        ) from error


def _check_datapoints(datapoints: object) -> None:
    if not isinstance(datapoints, Tensor) or not datapoints.is_floating_point():
        kind = type(datapoints).__name__
        if isinstance(datapoints, Tensor):
            kind = f"a tensor of {datapoints.dtype}"
        raise FeedbackError(
            f"datapoints must be a floating point tensor, got {kind}; use "
            "torch.as_tensor(datapoints, dtype=torch.float64)."
        )
    if datapoints.layout != torch.strided:
        raise FeedbackError("datapoints is sparse; pass datapoints.to_dense().")
    if datapoints.dim() < 2 or 0 in datapoints.shape:
        raise FeedbackError(
            f"datapoints has shape {tuple(datapoints.shape)}, expected "
            "batch_shape x n x d with at least one point and one feature."
        )
    bad = ~datapoints.isfinite()
    if bool(bad.any()):
        where = bad.nonzero()[0].tolist()
        value = float(datapoints[tuple(where)])
        raise FeedbackError(
            f"datapoints{where} is {value}: row {where[-2]} needs finite features; "
            "remove the point together with the answers about it, or impute it."
        )


def replaced_data(
    old: TrainingSet | None,
    datapoints: Tensor | None,
    comparisons: Tensor | Comparisons | None,
    feedback: Sequence[Feedback] | None,
    strict: bool,
) -> TrainingSet:
    """Training data some of which are new.

    Args:
        old: The present data, if there are any.
        datapoints: ``batch_shape x n x d``; None for the present ones.
        comparisons: ``batch_shape x m x 2``; None for the present ones.
        feedback: All other answers; None for the present ones.
        strict: Whether shapes must stay as they are.

    Raises:
        FeedbackError: Data that cannot mean anything, or of another shape under
            ``strict``.
    """
    if datapoints is None:
        if old is None:
            raise FeedbackError("There are no datapoints yet; pass datapoints=.")
        datapoints = old.datapoints
    if strict and (old is None or datapoints.shape != old.datapoints.shape):
        raise FeedbackError(
            f"strict=True, but datapoints has shape {tuple(datapoints.shape)}."
        )
    given = () if old is None else old.feedback
    if comparisons is None and old is not None:
        comparisons = old.comparisons
    if feedback is None:
        feedback = [b for b in given if not isinstance(b, Comparisons)]
    new = TrainingSet(datapoints, collect_feedback(comparisons, feedback))
    if strict and old is not None and new.shapes != old.shapes:
        raise FeedbackError(
            f"strict=True, but the data have the shapes {new.shapes}, and those "
            f"before them {old.shapes}."
        )
    return new


def collect_feedback(
    comparisons: Tensor | Comparisons | None, feedback: Sequence[Feedback]
) -> tuple[Feedback, ...]:
    """The ``comparisons=`` and ``feedback=`` arguments of a model as one sequence.

    Args:
        comparisons: ``batch_shape x m x 2`` integers, winner first; or a container; or
            None.
        feedback: Other containers.

    Raises:
        FeedbackError: ``feedback`` is no sequence, or something in it no container.
    """
    if isinstance(feedback, Feedback) or not isinstance(feedback, Iterable):
        raise FeedbackError(
            f"feedback is one {type(feedback).__name__}; pass a sequence, "
            "feedback=[...]."
        )
    blocks = tuple(feedback)  # once: an iterator has nothing left the second time
    for block in blocks:
        if not isinstance(block, Feedback):
            raise FeedbackError(
                f"feedback holds a {type(block).__name__}; wrap answers in a container "
                "such as botorch_pref.Validity."
            )
    if comparisons is None:
        return blocks
    if not isinstance(comparisons, Comparisons):
        pairs = check_index_tensor("comparisons", comparisons, width=2)
        comparisons = Comparisons(pairs)
    return (comparisons, *blocks)


def collect_answers(
    answers: Tensor | Feedback | Sequence[Feedback],
) -> tuple[Feedback, ...]:
    """The ``Y`` of ``condition_on_observations`` as a sequence of containers.

    Args:
        answers: ``batch_shape x m x 2`` integers, winner first; or a container; or a
            sequence of containers.

    Raises:
        FeedbackError: Something else.
    """
    if isinstance(answers, Feedback):
        return (answers,)
    if isinstance(answers, Tensor):
        return (Comparisons(check_index_tensor("Y", answers, width=2)),)
    return collect_feedback(None, answers)


def merged_answers(block: Feedback, places: Tensor | None) -> MergedAnswers:
    """The distinct answers of a block, those that are equal in all of a batch.

    Args:
        block: Answers of one kind.
        places: For each datapoint the distinct point that it is; None where all are.
    """
    firsts, counts = [], []
    for name, fields in block.tables.items():
        first, group = distinct_rows(_table(block, fields, places))
        given = None if name is None else getattr(block, name)
        often = torch.ones_like(group) if given is None else given
        total = often.new_zeros(*often.shape[:-1], len(first))
        counts.append(total.index_add(-1, group, often))
        firsts.append(first)
    if not block.is_counted and all(bool((c == 1).all()) for c in counts):
        return MergedAnswers(block, block, None)
    batch = torch.broadcast_shapes(*(c.shape[:-1] for c in counts))
    joined = torch.cat([c.expand(*batch, c.shape[-1]) for c in counts], dim=-1)
    without = replace(block, **dict.fromkeys(map(str, block.counted)))  # type: ignore[type-var]
    return MergedAnswers(block, without.take(*firsts), joined)


def _table(block: Feedback, fields: tuple[str, ...], places: Tensor | None) -> Tensor:
    """The fields of answers as one table, ``m x k``, of distinct points."""
    columns = []
    for name in fields:
        value: Tensor = getattr(block, name)
        if places is not None and name in block.index_fields:
            value = torch.where(value < 0, value, places[value])
        along = -2 if name in block.wide_fields else -1
        rows = value.movedim(along, 0)
        columns.append(rows.reshape(len(rows), -1).double())
    return torch.cat(columns, dim=-1)
