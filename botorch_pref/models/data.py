"""What a model is trained on: distinct points, and what was said of them."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Sequence
from copy import deepcopy
from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple, Self, TypeVar

import torch
from botorch.exceptions.warnings import InputDataWarning, _get_single_precision_warning
from torch import Tensor
from torch.nn import Module

from botorch_pref.errors import FeedbackError
from botorch_pref.feedback import Comparisons, Feedback, check_index_tensor
from botorch_pref.linalg.sparse_design import RowFinder, distinct_rows
from botorch_pref.posteriors.difference import resolved_variance
from botorch_pref.posteriors.gaussian import Moments, contrast

ModuleT = TypeVar("ModuleT", bound=Module)


def copy_of_modules(model: ModuleT) -> ModuleT:
    """A copy with modules and parameters of its own that shares all else.

    Nothing changes data and results in place, and no copy of a graph can be made.

    Args:
        model: The model.
    """
    shared = {
        id(part): part
        for part in vars(model).values()
        if not isinstance(part, dict | set)
    }
    return deepcopy(model, shared)


class DistinctPoints(NamedTuple):
    """Positions of the distinct rows of a matrix of points.

    Attributes:
        first: ``n_distinct`` indices of the first occurrence of each distinct point.
        inverse: ``n`` indices into ``first``.
    """

    first: Tensor
    inverse: Tensor


def distinct_points(datapoints: Tensor) -> DistinctPoints | None:
    """Finds duplicates, so that engines work on distinct points only.

    Duplicates are legal anyway (nothing is inverted); counting them once is a matter of
    cost: 5,000 comparisons of 100 items may come as 10,000 datapoints.

    Args:
        datapoints: ``batch_shape x n x d``.

    Returns:
        The distinct points, or None where there is nothing to gain: all are distinct,
        there are batches (whose counts would differ), or a gradient in each row is
        wanted.
    """
    if datapoints.dim() > 2 or datapoints.requires_grad:
        return None
    _, inverse = torch.unique(datapoints, dim=0, return_inverse=True)
    count = int(inverse.max()) + 1
    n = datapoints.shape[0]
    if count == n:
        return None
    first = torch.full((count,), n, device=inverse.device)
    positions = torch.arange(n, device=inverse.device)
    first = first.scatter_reduce(0, inverse, positions, reduce="amin")
    return DistinctPoints(first=first, inverse=inverse)


def first_copies(datapoints: Tensor) -> Tensor | None:
    """The first point that equals it, for each point of a batch.

    Answers about either are then about one row. All points stay: elements of a batch
    may have different numbers of copies.

    Args:
        datapoints: ``batch_shape x n x d``.

    Returns:
        ``batch_shape x n`` long; None where there are no copies, no batch, or a
        gradient in each row is wanted.
    """
    if datapoints.dim() == 2 or datapoints.requires_grad:
        return None
    n = datapoints.shape[-2]
    flat = datapoints.reshape(-1, datapoints.shape[-1]).double()
    element = torch.arange(len(flat), device=flat.device) // n
    first, group = distinct_rows(torch.cat([element.unsqueeze(-1), flat], dim=-1))
    if len(first) == len(flat):
        return None
    return (first[group] - element * n).reshape(datapoints.shape[:-1])


class DuelPairs(NamedTuple):
    """Pairs of points in the order of their coordinates.

    What is computed of a pair is then the same, to the last digit, whichever of the two
    is asked about. Each pair is a batch element of its own: covariances of pairs are
    not needed.

    Attributes:
        points: ``q x batch_shape x 2 x d``.
        sign: ``q x batch_shape``: 1 where the first point is the first one given, -1
            where it is the second.
        equal: ``q x batch_shape``: whether the two points are the same.
    """

    points: Tensor
    sign: Tensor
    equal: Tensor

    def differences(
        self, moments: Moments, prior_variance: Tensor
    ) -> tuple[Tensor, Tensor]:
        """Means and variances of first less second utilities, as they were given.

        Args:
            moments: Of utilities at the points; their batch may end in more dimensions
                than that of the pairs.
            prior_variance: Prior variances there, ``... x 2``.

        Returns:
            Means, ``num_components x q x batch_shape``, zero for equal points, with the
            gradient of a difference; and variances that rounding does not hide,
            ``q x batch_shape``.
        """
        of_pairs = contrast(moments, 1)
        means, variance = of_pairs.means.squeeze(-1), of_pairs.covariance[..., 0, 0]
        room = [1] * (variance.dim() - self.sign.dim())
        sign, equal = (t.reshape(*t.shape, *room) for t in (self.sign, self.equal))
        # A matrix product may sum equal rows in different orders. Their means then
        # differ by a rounding, which is as large as the variance that is left.
        means = torch.where(equal, means - means.detach(), means * sign)
        return means, resolved_variance(variance, prior_variance.sum(-1))


def duel_pairs(X1: Tensor, X2: Tensor, num_batch_dims: int = 0) -> DuelPairs:
    """Pairs of points, the one with the smaller first different coordinate first.

    Args:
        X1: ``batch_shape x q x d``.
        X2: Broadcastable with ``X1``.
        num_batch_dims: Of the model: batches of pairs get as many at least, in front,
            for the model would take pairs for its batch.
    """
    X1, X2 = torch.broadcast_tensors(X1, X2)
    gap = (X1 - X2).detach()
    decides = (gap != 0).to(torch.uint8).argmax(-1, keepdim=True)
    swapped = gap.gather(-1, decides) > 0
    points = torch.stack(
        [torch.where(swapped, X2, X1), torch.where(swapped, X1, X2)], dim=-2
    )
    sign = 1 - 2 * swapped.squeeze(-1).to(gap)
    equal = (gap == 0).all(-1)
    room = (1,) * (num_batch_dims + 3 - points.dim())
    points = points.reshape(room + points.shape).movedim(-3, 0)
    sign, equal = (t.reshape(room + t.shape).movedim(-1, 0) for t in (sign, equal))
    return DuelPairs(points, sign, equal)


_UNEQUAL = 100.0
_CUBE_EDGE = 0.01


def check_training_inputs(
    inputs: tuple[Tensor, ...], own: tuple[Tensor, ...]
) -> Tensor:
    """Checks that a model in train mode is called with its training inputs.

    Args:
        inputs: What it is called with.
        own: Its ``train_inputs``.

    Returns:
        The inputs, ``batch_shape x n x d``.

    Raises:
        FeedbackError: They differ, or there are none.
    """
    if not own:
        raise FeedbackError(
            "A model without datapoints cannot be trained; pass datapoints= and "
            "comparisons=, or call eval() for predictions of the prior."
        )
    if len(inputs) != 1 or not _equal(inputs[0], own[0]):
        raise FeedbackError(
            "In train mode a model takes its training inputs only; call eval() for "
            "predictions at other points."
        )
    return inputs[0]


def check_training_targets(targets: Tensor | None, own: Tensor | None) -> None:
    """Checks that an objective is asked for with the model's own comparisons.

    Args:
        targets: ``batch_shape x m x 2``, winner first; None for no check.
        own: The model's ``train_targets``.

    Raises:
        FeedbackError: They differ.
    """
    if targets is not None and (own is None or not _equal(targets, own)):
        raise FeedbackError(
            "The objective is that of the model's own comparisons, and these differ "
            "from them; set_train_data(comparisons=...) replaces them."
        )


def warn_of_single_precision(datapoints: Tensor) -> None:
    """Warns of datapoints in single precision, as all of BoTorch's models do.

    Args:
        datapoints: Of a model that is made.
    """
    if datapoints.dtype == torch.float32:
        text = _get_single_precision_warning(str(datapoints.dtype))
        warnings.warn(text, InputDataWarning, stacklevel=3)


def warn_of_unequal_scales(points: Tensor) -> None:
    """Warns of features whose ranges differ much, of which one leaves the unit cube.

    The lengthscales of the default kernel start equal, and their prior is for a cube:
    from ranges of 1, 500 and 0.001 a fit finds nothing. In the cube a small range may
    be meant.

    Args:
        points: ``batch_shape x n x d``, after any input transform.
    """
    points = points.detach().flatten(0, -2)
    low, high = points.amin(0), points.amax(0)
    ranges = (high - low)[high > low]
    outside = bool((low < -_CUBE_EDGE).any() or (high > 1 + _CUBE_EDGE).any())
    if outside and len(ranges) > 1 and ranges.amax() > _UNEQUAL * ranges.amin():
        warnings.warn(
            f"The features have ranges from {float(ranges.amin()):.3g} to "
            f"{float(ranges.amax()):.3g}, and the default kernel is for the unit cube; "
            "pass input_transform=Normalize(d, bounds=...) of "
            "botorch.models.transforms.input, or a covar_module of your own.",
            InputDataWarning,
            stacklevel=3,
        )


def _equal(a: Tensor, b: Tensor) -> bool:
    """Whether two tensors hold the same, at no cost where they are the same."""
    return a is b or (a.shape == b.shape and bool((a == b).all()))


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
