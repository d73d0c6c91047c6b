"""Training data of a model: datapoints and answers, validated, merged and joined."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple, Self

import torch
from botorch.utils.containers import SliceContainer
from botorch.utils.datasets import RankingDataset, SupervisedDataset
from torch import Tensor

from botorch_pref.errors import FeedbackError, UnsupportedFeedbackError
from botorch_pref.feedback import (
    Comparisons,
    Feedback,
    Options,
    Rankings,
    check_index_tensor,
    rankings_with_ties,
)
from botorch_pref.linalg.covariance import join_rows
from botorch_pref.linalg.sparse_design import RowFinder, distinct_rows
from botorch_pref.numerics.argument_checks import (
    check_finite,
    check_points,
    in_precision_of,
)

# --- Points and answers that were given more than once


class DistinctPoints(NamedTuple):
    """The first copy of each distinct point; and for each point its distinct one."""

    first: Tensor
    inverse: Tensor


# Rows of answers that cannot be counted: five hundred megabytes where they see a
# thousand draws each.
_MOST_ROWS = 50_000


@dataclass(frozen=True, eq=False)
class MergedAnswers:
    """Answers of one kind as they were given; and the distinct ones, without counts.

    ``counts`` says how often each distinct one was given, ``batch_shape x M`` long;
    None for once.
    """

    source: Feedback
    block: Feedback
    counts: Tensor | None

    @cached_property
    def repeated(self) -> Feedback:
        """The answers one by one, for factors that take no counts.

        So many that they would fill the memory are an error.
        """
        return (
            self.source.repeated(_MOST_ROWS) if self.source.is_counted else self.source
        )

    @cached_property
    def options(self) -> Options:
        """The options of the distinct answers, of such as have covariates."""
        return self.block.options()

    @cached_property
    def repeated_options(self) -> Options:
        """The options of the answers one by one."""
        return self.repeated.options()


def _merged_answers(block: Feedback, places: Tensor | None) -> MergedAnswers:
    """Merges equal answers of a block, and counts them, so that engines see each once.

    Answers are equal if they are so in all elements of a batch. ``places`` has the
    distinct point of each datapoint, and equal points make equal answers; None for
    datapoints as they are. A block without equal answers and counts comes back itself.
    """
    firsts, counts = [], []
    for name, columns in block.tables.items():
        first, group = distinct_rows(_table(block, columns, places))
        column = None if name is None else getattr(block, name)
        row_counts = torch.ones_like(group) if column is None else column
        total = row_counts.new_zeros(*row_counts.shape[:-1], len(first))
        counts.append(total.index_add(-1, group, row_counts))
        firsts.append(first)
    if not block.is_counted and all(bool((c == 1).all()) for c in counts):
        return MergedAnswers(block, block, None)
    without = replace(block, **dict.fromkeys(map(str, block.counted)))  # type: ignore[type-var]
    return MergedAnswers(block, without.take(*firsts), join_rows(counts))


def _table(block: Feedback, columns: tuple[str, ...], places: Tensor | None) -> Tensor:
    """Writes answers as rows of numbers, ``m x k``, equal where the answers are equal.

    They are the fields of one table of the block, each answer with its values in all
    elements of a batch. Indices become those of distinct points by ``places``, if any.
    """
    parts = []
    for name in columns:
        value: Tensor | None = getattr(block, name)
        if value is None:
            continue
        if places is not None and name in block.index_fields:
            value = torch.where(value < 0, value, places[value])
        rows = value.movedim(block.answer_dim(name), 0)
        parts.append(rows.reshape(len(rows), -1).double())
    return torch.cat(parts, dim=-1)


# --- Training data


@dataclass(frozen=True, eq=False)
class TrainingSet:
    """Validated training data of a model.

    ``datapoints`` are ``batch_shape x n x d``: a copy of those given, or these
    themselves, with their graph, where they require a gradient. ``feedback`` has
    comparisons first, at most one block of a kind, and none without rows.
    """

    datapoints: Tensor
    feedback: tuple[Feedback, ...]

    def __post_init__(self) -> None:
        """Validates the fields, and replaces them by those that a model works with.

        Datapoints are copied, unless they have a graph, and followed by points that
        answers need, whose indices the answers then have.
        """
        datapoints, feedback = self.datapoints, []
        blocks = checked_blocks(datapoints, self.feedback)
        if not datapoints.requires_grad:
            datapoints = datapoints.clone()
        # With the datapoints that answers need, such as positions on lines.
        for block in blocks:
            datapoints, placed = block.placed(datapoints)
            feedback.append(placed)
        object.__setattr__(self, "datapoints", datapoints)
        object.__setattr__(self, "feedback", tuple(feedback))

    @property
    def batch_shape(self) -> torch.Size:
        """The joint batch shape of datapoints and answers."""
        shapes = [block.batch_shape for block in self.feedback]
        return torch.broadcast_shapes(self.datapoints.shape[:-2], *shapes)

    @property
    def num_covariates(self) -> int:
        """The number of covariates of answers; 0 for none."""
        return max((block.num_covariates for block in self.feedback), default=0)

    @property
    def shapes(self) -> dict[str, tuple[int, ...]]:
        """The shapes of all tensors, by name."""
        shapes = {"datapoints": tuple(self.datapoints.shape)}
        for block in self.feedback:
            for name, value in vars(block).items():
                if isinstance(value, Tensor):
                    shapes[f"{type(block).__name__}.{name}"] = tuple(value.shape)
        return shapes

    @property
    def comparisons(self) -> Comparisons | None:
        """The block of comparisons, if there is one."""
        blocks = (block for block in self.feedback if isinstance(block, Comparisons))
        return next(blocks, None)

    @cached_property
    def distinct(self) -> DistinctPoints | None:
        """Places of the distinct datapoints, which is all that engines work on.

        None where all points are distinct, in batches, whose elements may have
        different numbers of them, and where each row is to have a gradient of its own.
        """
        points = self.datapoints
        if points.dim() > 2 or points.requires_grad:
            return None
        distinct = DistinctPoints(*distinct_rows(points))
        return None if len(distinct.first) == len(points) else distinct

    @cached_property
    def first_copies(self) -> Tensor | None:
        """The place of the first copy of each point of a batch, ``batch_shape x n``.

        None where there are no copies, no batch, or each row is to have its own
        gradient.
        """
        points = self.datapoints
        if points.dim() == 2 or points.requires_grad:
            return None
        n, flat = points.shape[-2], points.reshape(-1, points.shape[-1]).double()
        element = torch.arange(len(flat), device=flat.device) // n
        first, group = distinct_rows(torch.cat([element.unsqueeze(-1), flat], dim=-1))
        if len(first) == len(flat):
            return None
        return (first[group] - element * n).reshape(points.shape[:-1])

    @cached_property
    def answers(self) -> tuple[MergedAnswers, ...]:
        """The distinct answers of each block, about the datapoints as they are."""
        return self._merged(None)

    @cached_property
    def distinct_answers(self) -> tuple[MergedAnswers, ...]:
        """The distinct answers of each block, about the distinct datapoints."""
        distinct = self.distinct
        return self.answers if distinct is None else self._merged(distinct.inverse)

    def _merged(self, places: Tensor | None) -> tuple[MergedAnswers, ...]:
        return tuple(_merged_answers(block, places) for block in self.feedback)

    @cached_property
    def equal_rows(self) -> RowFinder:
        """Finds rows of these data that are equal up to their sign, once."""
        return RowFinder()

    def in_order_of(self, feedback: Sequence[Feedback]) -> Self:
        """Orders kinds of answers as other blocks do, and leaves out other kinds."""
        blocks = {type(block): block for block in self.feedback}
        ordered = [blocks[type(b)] for b in feedback if type(b) in blocks]
        return type(self)(self.datapoints, tuple(ordered))

    def followed_by(self, new_data: TrainingSet) -> Self:
        """Appends more answers, about more points; batch shapes broadcast.

        Indices of ``new_data`` count its points from 0, those of the result all points.
        """
        new_data = new_data.map_tensors(lambda t: t.to(self.datapoints.device))
        added = in_precision_of("X", new_data.datapoints, self.datapoints)
        points = _joined_points(self.datapoints, added)
        before = self.datapoints.shape[-2]
        blocks: dict[type[Feedback], Feedback] = {type(b): b for b in self.feedback}
        for block in new_data.feedback:
            kind, later = type(block), block.shifted(before)
            old = blocks.get(kind)
            blocks[kind] = later if old is None else old.followed_by(later)
        return type(self)(points, tuple(blocks.values()))

    def map_tensors(self, function: Callable[[Tensor], Tensor]) -> Self:
        """Applies a function to every tensor; returns itself where none changes."""
        points = function(self.datapoints)
        feedback = tuple(block.map_tensors(function) for block in self.feedback)
        blocks = zip(feedback, self.feedback, strict=True)
        if points is self.datapoints and all(new is old for new, old in blocks):
            return self
        return type(self)(points, feedback)


def _joined_points(first: Tensor, second: Tensor) -> Tensor:
    """Appends points to others; their batches broadcast."""
    try:
        return join_rows([first, second], along=-2)
    except RuntimeError as error:
        raise FeedbackError(
            f"Datapoints of shape {tuple(first.shape)} cannot be followed by "
            f"{tuple(second.shape)}: batch shapes must broadcast, and the number of "
            "features (the last dimension) must be the same."
        ) from error


def _join_batches(batch: torch.Size, block: Feedback) -> torch.Size:
    """Broadcasts the batch of a block with that of the others."""
    try:
        return torch.broadcast_shapes(batch, block.batch_shape)
    except RuntimeError as error:
        raise FeedbackError(
            f"{type(block).__name__} has batch shape {tuple(block.batch_shape)}, "
            f"which does not broadcast with {tuple(batch)} of the datapoints and of "
            "earlier feedback; give all the same batch shape, or none."
        ) from error


def checked_blocks(
    datapoints: Tensor, feedback: Sequence[Feedback]
) -> tuple[Feedback, ...]:
    """Checks blocks of answers about datapoints; comparisons first, none empty.

    Raises:
        FeedbackError: Two blocks of a kind, an index of no datapoint, batches that do
            not join, or other numbers of covariates.
    """
    _check_datapoints(datapoints)
    kinds = [type(block) for block in feedback]
    for kind in kinds:
        if kinds.count(kind) > 1:
            raise FeedbackError(
                f"feedback holds {kinds.count(kind)} blocks of {kind.__name__}; "
                "concatenate them into one, first.followed_by(second) (the "
                "comparisons= argument counts)."
            )
    blocks = without_empty(feedback)
    ordered = sorted(blocks, key=lambda b: not isinstance(b, Comparisons))
    batch = datapoints.shape[:-2]
    for block in ordered:
        block.check_indices(datapoints.shape[-2])
        batch = _join_batches(batch, block)
    if len(counts := {b.num_covariates for b in ordered} - {0}) > 1:
        raise FeedbackError(
            f"Blocks of answers have {sorted(counts)} covariates; give all the same "
            "ones, 0 where one is neutral, or none."
        )
    return tuple(ordered)


def _check_datapoints(datapoints: Tensor) -> None:
    """Checks that datapoints are finite numbers, and at least one of one feature."""
    check_finite("datapoints", check_points("datapoints", datapoints))
    if 0 in datapoints.shape:
        raise FeedbackError(
            f"datapoints has shape {tuple(datapoints.shape)}, expected "
            "batch_shape x n x d with at least one point and one feature."
        )


# --- What a user gives, as training data


def collect_feedback(
    comparisons: Tensor | Comparisons | None, feedback: Sequence[Feedback]
) -> tuple[Feedback, ...]:
    """Joins the ``comparisons=`` and ``feedback=`` arguments of a model to blocks.

    Wrong types are errors; indices are checked when there are datapoints. Comparisons
    come first, and blocks without answers are left out.
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
        return without_empty(blocks)
    if isinstance(comparisons, Feedback) and not isinstance(comparisons, Comparisons):
        raise FeedbackError(
            f"comparisons is one {type(comparisons).__name__}; pass it as "
            "feedback=[...]."
        )
    if not isinstance(comparisons, Comparisons):
        pairs = check_index_tensor("comparisons", comparisons, width=2)
        comparisons = Comparisons(pairs)
    return without_empty((comparisons, *blocks))


def without_empty(blocks: Iterable[Feedback]) -> tuple[Feedback, ...]:
    """Keeps the blocks of answers that say something."""
    return tuple(block for block in blocks if block.num_rows)


def collect_answers(
    answers: Tensor | Feedback | Sequence[Feedback],
) -> tuple[Feedback, ...]:
    """Makes a sequence of containers of ``Y`` of ``condition_on_observations``."""
    if isinstance(answers, Feedback):
        return (answers,)
    if isinstance(answers, Tensor):
        return (Comparisons(check_index_tensor("Y", answers, width=2)),)
    return collect_feedback(None, answers)


def replaced_data(
    old: TrainingSet | None,
    datapoints: Tensor | None,
    comparisons: Tensor | Comparisons | None,
    feedback: Sequence[Feedback] | None,
    strict: bool,
) -> TrainingSet:
    """Makes training data, with arguments that are not None in place of the old.

    It is for ``set_train_data`` of a model: answers that stay keep their indices, into
    new datapoints too. With ``strict`` all shapes must be as before.
    """
    if datapoints is None:
        if old is None:
            raise FeedbackError("There are no datapoints yet; pass datapoints=.")
        datapoints = old.datapoints
    elif old is not None and isinstance(datapoints, Tensor):
        datapoints = in_precision_of("datapoints", datapoints, old.datapoints)
    if comparisons is None and old is not None:
        comparisons = old.comparisons
    if feedback is None:
        blocks = () if old is None else old.feedback
        feedback = [b for b in blocks if not isinstance(b, Comparisons)]
    new = TrainingSet(datapoints, collect_feedback(comparisons, feedback))
    before = {} if old is None else old.shapes
    if strict and new.shapes != before:
        raise FeedbackError(
            f"strict=True, but the data have the shapes {new.shapes}, and those "
            f"before them {before}."
        )
    return new


# --- Data sets of BoTorch's protocol


class FeedbackDataset(SupervisedDataset):
    """Datapoints, ``n x d``, and containers of all answers about them.

    ``Y`` is zero: the answers are in ``feedback``. ``raters`` are ``n`` numbers of who
    met each datapoint, where that is to count.
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
        """Checks answers against the points.

        BoTorch wants a ``Y`` and the names of its columns; zeros stand in for it.
        """
        self.feedback = checked_blocks(datapoints, feedback)
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
        """Tells whether points, raters and answers are equal, and in the same order."""
        return (
            bool(super().__eq__(other))
            and _same(self.raters, other.raters)
            and len(self.feedback) == len(other.feedback)
            and all(map(_same, self.feedback, other.feedback))
        )

    def clone(self, deepcopy: bool = False, mask: Tensor | None = None) -> Self:
        """Copies the data, deeply or not; a mask is refused: answers connect points."""
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


def _same(first: Any, second: Any) -> bool:
    """Tells whether blocks of answers, or values of their fields, are equal."""
    if type(first) is not type(second):
        return False
    if isinstance(first, Feedback):
        return all(
            _same(value, vars(second)[name]) for name, value in vars(first).items()
        )
    return bool(
        torch.equal(first, second) if isinstance(first, Tensor) else first == second
    )


def _duels(indices: Tensor, ranks: Tensor) -> Tensor | Comparisons:
    """Makes comparisons of rankings of two items each, which may have equal ranks.

    Args:
        indices: Of the two items, ``batch_shape x m x 2``.
        ranks: 0 for the better, ``batch_shape x m x 2``; equal ones are a tie.

    Returns:
        Pairs, winner first; with the ties, where there are any, as `Comparisons`.
    """
    # Ranks (0, 1) keep the order and (1, 0) exchange it; ties are left out below.
    pairs = torch.gather(indices, dim=-1, index=ranks)
    tied = ranks[..., 0] == ranks[..., 1]
    if not bool(tied.any()):
        return pairs
    if tied.dim() > 1:
        raise UnsupportedFeedbackError(
            "Y has ties in a batch, of which each element may have other ones; make a "
            "model of each, or pass a FeedbackDataset with Comparisons(pairs, ties)."
        )
    return Comparisons(None if bool(tied.all()) else pairs[~tied], indices[tied])


def inputs_from_dataset(training_data: SupervisedDataset) -> dict[str, Any]:
    """Makes a model's arguments of a data set of BoTorch's, for `construct_inputs`.

    They are ``datapoints``, and ``feedback`` or ``comparisons``. ``Y`` of a
    ``RankingDataset`` holds the rank of each item, 0 for the best: two items give
    comparisons, a tie where their ranks are equal; more give ``Rankings``, and of those
    with equal ranks what `rankings_with_ties` makes.
    """
    if isinstance(training_data, FeedbackDataset):
        return {"datapoints": training_data.points, "feedback": training_data.feedback}
    if not isinstance(training_data, RankingDataset):
        raise UnsupportedFeedbackError(
            "A preference model needs a RankingDataset or a FeedbackDataset, got "
            f"{type(training_data).__name__}."
        )
    ranks = training_data.Y
    items = training_data._X
    assert isinstance(items, SliceContainer)
    if ranks.shape[-1] == 2:
        return {"datapoints": items.values, "comparisons": _duels(items.indices, ranks)}
    tied = (ranks.sort(dim=-1).values.diff(dim=-1) == 0).any(dim=-1)
    if bool(tied.any()) and ranks.dim() > 2:
        place = tied.nonzero()[0].tolist()
        raise UnsupportedFeedbackError(
            f"The ranking Y{place} = {ranks[tuple(place)].tolist()} has equal ranks in "
            "a batch, of which each element may have other ones; make a model of each."
        )
    if bool(tied.any()):
        feedback = rankings_with_ties(items.indices, ranks)
        return {"datapoints": items.values, "feedback": feedback}
    orders = torch.gather(items.indices, dim=-1, index=ranks.argsort(dim=-1))
    return {"datapoints": items.values, "feedback": (Rankings(orders),)}
