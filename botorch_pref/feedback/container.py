"""The base of all containers of answers: checks, counts, parts and wholes."""

from __future__ import annotations

import dataclasses
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from numbers import Integral
from typing import Any, ClassVar, NamedTuple, Self, cast

import torch
from torch import Generator, Tensor
from torch.nn.functional import pad

from botorch_pref.errors import FeedbackError

PADDING = -1
"""The index at the end of sets that are shorter than others."""

LARGEST_COVARIATE = 1e6
"""Covariates of which rounding leaves nothing of the utilities beside them are larger:
prior variances go with their squares."""

# Double precision, in which counts are multiplied, has no larger whole numbers.
_MOST = 2**53


class Feedback(ABC):
    """A frozen, validated block of answers of one kind.

    Subclasses are frozen dataclasses of tensors whose indices point into the
    ``datapoints`` of a model. The tensors are copies, of integers as ``long``: what
    happens later to those that were given changes nothing here. A block without rows,
    as a filter may leave it, says nothing: a model takes it for none.

    Fields that have a row for each of the same answers are a table. Comparisons have
    two, either of which may be absent: ``pairs`` with ``pair_counts``, and ``ties``
    with ``tie_counts``; choices and rankings have one. What is about all answers goes
    table by table: :attr:`answer_counts`, the covariates of duels, and the places that
    :meth:`take` is given.

    Attributes:
        relative: Whether only differences of utilities are seen.
        padded: Whether rows of indices may end in -1, for sets of unequal size.
        wide_fields: Names of the fields with several entries an answer,
            ``batch_shape x m x k``.
        deep_fields: Names of the fields with several rows an answer, ``batch_shape x m
            x k x p``. Tensors that are neither hold one entry an answer.
        covariates: Where and how the options of each answer were shown; None for no
            covariates. Comparisons, choices and rankings take them.
        counted: The fields of answers by the name of the field that says how often each
            was given. Empty for containers without counts.
    """

    relative: ClassVar[bool]
    padded: ClassVar[bool] = False
    wide_fields: ClassVar[tuple[str, ...]] = ()
    deep_fields: ClassVar[tuple[str, ...]] = ()
    covariates: Tensor | None = None
    counted: ClassVar[Mapping[str | None, tuple[str, ...]]] = {}

    def __post_init__(self) -> None:
        """Copies the tensors, integers as ``long``, and checks all fields.

        Counts and covariates come last: their shapes are compared with those of answers
        that `_check` has found right.
        """
        for name, value in self._tensors().items():
            if value.layout is not torch.strided or value.is_meta:
                raise FeedbackError(
                    f"{self._label(name)} is a tensor of layout {value.layout} on "
                    f"{value.device}; give a dense one that has values, for example "
                    "with .to_dense()."
                )
            copy = value.clone() if _is_not_whole(value) else value.long().clone()
            if name in self.index_fields:
                copy = _with_columns(copy, name in self.wide_fields)
            object.__setattr__(self, name, copy)
        self._check()
        for count, fields in self.counted.items():
            if count is not None and getattr(self, count) is not None:
                self._check_counts(count, fields)
        if self.covariates is not None:
            self._check_covariates()
        if not _broadcast(*self._batch_shapes):
            names = " and ".join(map(self._label, self.index_fields))
            shapes = " and ".join(str(tuple(shape)) for shape in self._batch_shapes)
            raise FeedbackError(
                f"{names} have batch shapes {shapes}, which do not broadcast; give "
                "both the same, or none."
            )

    def _check(self) -> None:  # noqa: B027 (a container outside may check by itself)
        """Checks the fields of answers, whose tensors are copies already."""

    @property
    @abstractmethod
    def index_fields(self) -> tuple[str, ...]:
        """Names of the fields that hold indices into ``datapoints``."""

    @property
    def batch_shape(self) -> torch.Size:
        """The batch shape of the answers."""
        shapes = {*self._batch_shapes}
        # Torch's own function takes as long as a product.
        return torch.broadcast_shapes(*shapes) if len(shapes) > 1 else shapes.pop()

    @property
    def _batch_shapes(self) -> list[torch.Size]:
        return [v.shape[: self.answer_dim(n)] for n, v in self._tensors().items()]

    def answer_dim(self, name: str) -> int:
        """Returns the dimension along which a field has its answers, from the end."""
        if name in self.deep_fields:
            return -3
        return -2 if name in self.wide_fields else -1

    def _label(self, name: str) -> str:
        return f"{type(self).__name__}.{name}"

    def _fields(self) -> dict[str, Any]:
        names = dataclasses.fields(self)  # type: ignore[arg-type]
        return {field.name: getattr(self, field.name) for field in names}

    def _tensors(self) -> dict[str, Tensor]:
        return {n: v for n, v in self._fields().items() if isinstance(v, Tensor)}

    def _columns(self) -> dict[str, Any]:
        """Returns all fields; those of several tables are in parts, one a table."""
        return self._fields()

    def _replaced(self, columns: Mapping[str, Any]) -> Self:
        """Replaces some fields, or parts of fields, of the answers."""
        return dataclasses.replace(self, **columns)  # type: ignore[type-var]

    @property
    def tables(self) -> dict[str | None, tuple[str, ...]]:
        """The fields of answers that were given, table by table.

        All fields of a table have one row for each of its answers, and the first field
        has the indices. The key of a table is the name of the field that counts its
        answers; None where a container has no such field.
        """
        tensors = tuple(self._tensors())
        tables = self.counted or {None: tensors}
        return {c: names for c, names in tables.items() if names[0] in tensors}

    @property
    def is_counted(self) -> bool:
        """Whether some answers have counts."""
        return any(getattr(self, name) is not None for name in self.counted if name)

    @property
    def num_rows(self) -> int:
        """The number ``m`` of rows of the container, each an answer with its count."""
        firsts = [names[0] for names in self.tables.values()]
        return sum(getattr(self, n).shape[self.answer_dim(n)] for n in firsts)

    @property
    def answer_counts(self) -> Tensor:
        """The counts of all answers, ``batch_shape x m`` long, table by table.

        The answers of comparisons are the pairs and then the ties. One answer with a
        count is one row of the container, and the sum is how many answers there are.
        """
        parts = [self._counts(*table) for table in self.tables.items()]
        batch = torch.broadcast_shapes(*(part.shape[:-1] for part in parts))
        return torch.cat([p.expand(*batch, p.shape[-1]) for p in parts], dim=-1)

    def _counts(self, name: str | None, fields: tuple[str, ...]) -> Tensor:
        """Returns the counts of one of `tables`; where it has none, ``m`` ones."""
        counts = None if name is None else getattr(self, name)
        if counts is not None:
            return cast("Tensor", counts)
        like: Tensor = getattr(self, fields[0])
        m = like.shape[self.answer_dim(fields[0])]
        return torch.ones(m, dtype=torch.long, device=like.device)

    def _check_counts(self, name: str, fields: tuple[str, ...]) -> None:
        """Checks counts against the answers that they count, and makes them long."""
        answers = getattr(self, fields[0])
        if answers is None:
            raise FeedbackError(
                f"{self._label(name)} counts {fields[0]}, of which none are given."
            )
        label, counts = self._label(name), getattr(self, name)
        is_tensor = isinstance(counts, Tensor) and not counts.is_complex()
        if not is_tensor or counts.dtype == torch.bool:
            kind = getattr(counts, "dtype", type(counts).__name__)
            raise FeedbackError(
                f"{label} must be a tensor of positive integers, one an answer, got "
                f"{kind}."
            )
        # Negated, so that NaN counts as wrong.
        bad = ~((counts >= 1) & (counts <= _MOST) & (counts == counts.round()))
        if place := first_place(bad):
            count = counts[tuple(place)].item()
            strength = " How strongly one is preferred, from 0 to 1, goes to Strengths."
            raise FeedbackError(
                f"{label}{place} is {count}; a count is how often an answer was given: "
                f"a whole number from 1 to {_MOST}. Leave out answers that nobody "
                f"gave.{strength if 0 < count < 1 else ''}"
            )
        shape = answers.shape[: answers.dim() + 1 + self.answer_dim(fields[0])]
        if counts.shape[-1:] != shape[-1:] or not _broadcast(counts.shape, shape):
            raise FeedbackError(
                f"{label} has shape {tuple(counts.shape)}, but "
                f"{self._label(fields[0])} has answers of shape {tuple(shape)}: one "
                "count an answer."
            )
        object.__setattr__(self, name, counts.long())

    @property
    def num_covariates(self) -> int:
        """``p``, the number of covariates; 0 where none are given."""
        return 0 if self.covariates is None else self.covariates.shape[-1]

    @property
    def _covariate_rows(self) -> torch.Size:
        """The shape of covariates without their batch and ``p``."""
        raise NotImplementedError

    def _check_covariates(self) -> None:
        """Checks for finite numbers, a row for each answer or each of its options."""
        label, value = self._label("covariates"), self.covariates
        rows = self._covariate_rows
        row_noun = (
            "option of each answer" if len(rows) > 1 else "answer, pairs before ties"
        )
        if not isinstance(value, Tensor) or not value.is_floating_point():
            kind = getattr(value, "dtype", type(value).__name__)
            raise FeedbackError(
                f"{label} must be a floating point tensor with a row for each "
                f"{row_noun}, got {kind}; use for example .double()."
            )
        min_dim = 1 + len(rows)
        if (
            value.dim() < min_dim
            or value.shape[-min_dim:-1] != rows
            or not value.shape[-1]
        ):
            wanted = " x ".join(map(str, (*rows, "p")))
            raise FeedbackError(
                f"{label} has shape {tuple(value.shape)}, expected batch_shape x "
                f"{wanted}: p numbers for each {row_noun}."
                + " What all options of an answer share would cancel."
                * (len(rows) > 1)
            )
        # Negated, so that NaN counts as wrong.
        if place := first_place(~(value.abs() <= LARGEST_COVARIATE)):
            raise FeedbackError(
                f"{label}{place} is {value[tuple(place)].item()}; give finite numbers "
                f"of at most {LARGEST_COVARIATE:g}, best standardised, and 0 for what "
                "is neutral or not known."
            )

    def with_neutral_covariates(self, num_covariates: int, like: Tensor) -> Self:
        """Adds covariates of 0 to the answers, where they have none.

        Args:
            num_covariates: ``p``.
            like: Has the dtype and device of the covariates.
        """
        if self.covariates is not None:
            return self
        zeros = like.new_zeros(*self._covariate_rows, num_covariates)
        return self._replaced({"covariates": zeros})

    def options(self) -> Options:
        """Returns the options of all answers as points, with their covariates."""
        raise NotImplementedError

    def _check_pairs(self, name: str) -> None:
        """Checks a field of pairs of different points."""
        label = self._label(name)
        check_distinct(label, check_index_tensor(label, getattr(self, name), width=2))

    def _check_one_a_row(self, name: str, index_field: str) -> None:
        """Checks that a field has one entry for each row of indices."""
        rows: Tensor = getattr(self, index_field)
        wide = index_field in self.wide_fields
        label = self._label(index_field) + (
            " without its last dimension" if wide else ""
        )
        expected = rows.shape[:-1] if wide else rows.shape
        if (shape := getattr(self, name).shape) != expected:
            raise FeedbackError(
                f"{self._label(name)} has shape {tuple(shape)}, but {label} has "
                f"{tuple(expected)}: one answer a row."
            )

    def take(self, *rows: Tensor) -> Self:
        """Takes some of the answers, with their counts.

        Args:
            rows: For each of :attr:`tables` the places of answers, ``m'`` long, or
                ``m`` booleans. At least one answer is left in all; a table without any
                is left out.
        """
        columns: dict[str, Any] = {}
        for (count, names), places in zip(self.tables.items(), rows, strict=True):
            size = int(places.sum()) if places.dtype == torch.bool else len(places)
            for name in (*names, *([count] if count else [])):
                value = getattr(self, name)
                if value is not None:
                    # All of the dimensions behind that of the answers.
                    behind = (slice(None),) * (-1 - self.answer_dim(name))
                    value = value[(..., places, *behind)] if size else None
                columns[name] = value
        return self._replaced(columns)

    def repeated(self, maximum: int) -> Self:
        """Repeats answers as many times as each counts, without counts.

        Likelihoods that see answers one by one take them so.

        Raises:
            FeedbackError: There are more than ``maximum`` rows, or elements of a batch
                have different counts.
        """
        rows, without = [], dict.fromkeys(map(str, self.counted))
        for table in self.tables.items():
            counts = self._counts(*table)
            of_all = counts.reshape(-1, counts.shape[-1])
            if bool((of_all != of_all[0]).any()):
                raise FeedbackError(
                    f"{self._label(str(table[0]))} differs between elements of the "
                    "batch; this likelihood takes counts that are the same in all."
                )
            rows.append(of_all[0])
        total = sum(int(counts.sum()) for counts in rows)
        if total > maximum:
            raise FeedbackError(
                f"{type(self).__name__} counts {total} answers, which this likelihood "
                f"sees one by one: at most {maximum}. Use one that takes them "
                "together, such as PlackettLuceLikelihood of choices and rankings, or "
                "smaller counts."
            )
        places = [torch.arange(len(c)).to(c).repeat_interleave(c) for c in rows]
        return self._replaced(without).take(*places)

    def placed(self, datapoints: Tensor) -> tuple[Tensor, Self]:
        """Appends further datapoints that a model needs, and notes their indices.

        Most answers need none: datapoints and answers come back as they are. A stop on
        a line is compared with other positions of the line, which become datapoints.

        Args:
            datapoints: ``batch_shape x n x d``, those that the answers are about.

        Returns:
            All datapoints, new ones last, and the answers with the new indices.
        """
        return datapoints, self

    def check_indices(self, num_points: int) -> None:
        """Checks that every answer is about one of the ``num_points`` datapoints.

        Raises:
            FeedbackError: An index is negative (and no padding) or not below ``n``.
        """
        for name in self.index_fields:
            indices = getattr(self, name)
            bad = (indices < (PADDING if self.padded else 0)) | (indices >= num_points)
            if place := first_place(bad):
                raise FeedbackError(
                    f"{self._label(name)}{place} is "
                    f"{int(indices[tuple(place)])}, but there are {num_points} "
                    f"datapoints: indices go from 0 to {num_points - 1}."
                )

    def map_tensors(self, function: Callable[[Tensor], Tensor]) -> Self:
        """Applies ``function`` to every tensor of the answers.

        The block itself is returned where the function gives back every tensor that it
        is given, as ``lambda t: t.cuda()`` does on the device.
        """
        tensors = self._tensors()
        fields = {name: function(value) for name, value in tensors.items()}
        if all(fields[name] is value for name, value in tensors.items()):
            return self
        return self._replaced(fields)

    def shifted(self, offset: int) -> Self:
        """Moves every index, but no padding, by an offset."""
        return self._moved(lambda indices: indices + offset)

    def reindexed(self, places: Tensor) -> Self:
        """Renumbers the points of the answers; padding stays.

        Args:
            places: ``n`` integers, the new place of each point.
        """
        return self._moved(lambda indices: places[indices])

    def _moved(self, place: Callable[[Tensor], Tensor]) -> Self:
        indices = {name: getattr(self, name) for name in self.index_fields}
        return self._replaced(
            {n: torch.where(v < 0, v, place(v)) for n, v in indices.items()}
        )

    def followed_by(self, other: Self) -> Self:
        """Concatenates these answers and those of another block.

        Args:
            other: Of the same kind, about the same ``datapoints``. Batch shapes
                broadcast; sets of unequal size are padded to the largest.

        Raises:
            FeedbackError: A block of another kind, batch shapes that do not broadcast,
                another number of covariates, or another scale (``num_levels``).
        """
        kind = type(self).__name__
        if type(other) is not type(self):
            raise FeedbackError(
                f"{kind} cannot be followed by {type(other).__name__}; give a model "
                "both in feedback=[...]."
            )
        if not _broadcast(self.batch_shape, other.batch_shape):
            raise FeedbackError(
                f"{kind} of batch shape {tuple(self.batch_shape)} cannot be followed "
                f"by batch shape {tuple(other.batch_shape)}, which does not broadcast "
                "with it; give both the same, or none."
            )
        blocks = _with_equal_covariates(self, other)
        columns = blocks[0]._columns(), blocks[1]._columns()
        # Where one block has counts, each answer of the other counts once.
        for count, fields in self.counted.items():
            if any(block_columns[str(count)] is not None for block_columns in columns):
                for block, block_columns in zip(blocks, columns, strict=True):
                    has_answers = block_columns[fields[0]] is not None
                    block_columns[str(count)] = (
                        block._counts(count, fields) if has_answers else None
                    )
        return self._replaced(
            {n: self._joined(n, mine, columns[1][n]) for n, mine in columns[0].items()}
        )

    def _joined(self, name: str, first: Any, second: Any) -> Any:
        """Joins a field of two blocks, the answers of the second behind the first's.

        A field that one block lacks, such as the ties, is the other block's. Where only
        one had counts or covariates, `followed_by` has added the other's before. What
        is no tensor, such as the number of levels, has to be the same in both.
        """
        if first is None or second is None:
            return second if first is None else first
        if isinstance(first, Tensor):
            return concatenated(first, second, self.answer_dim(name))
        if first != second:
            raise FeedbackError(
                f"{self._label(name)} is {first} in one block and {second} in "
                "the other; answers on different scales cannot be one block."
            )
        return first


class Options(NamedTuple):
    r"""The options of answers as points of their own, ``N`` in all.

    An option is heard as :math:`f(x) + c^T w`, with its point ``x``, its covariates
    ``c`` and the covariates' weights ``w``.

    Attributes:
        block: The same answers about options instead of points, without covariates.
        points: ``batch_shape x N`` long, the point of each option.
        covariates: ``batch_shape x N x p``. In a comparison those of the answer go to
            the first option of the pair, and the second has zeros.
    """

    block: Feedback
    points: Tensor
    covariates: Tensor


def _with_equal_covariates(first: Feedback, second: Feedback) -> tuple[Feedback, ...]:
    """Adds covariates of 0 to a block without any, as many as the other block has.

    Raises:
        FeedbackError: Both blocks have covariates, and not the same number of them.
    """
    tables = [b.covariates for b in (first, second) if b.covariates is not None]
    if not tables:
        return first, second
    counts = {covariates.shape[-1] for covariates in tables}
    if len(counts) > 1:
        raise FeedbackError(
            f"{first._label('covariates')} has {first.num_covariates} columns in one "
            f"block and {second.num_covariates} in the other; give all answers the "
            "same covariates, 0 where one is neutral."
        )
    (number,) = counts
    return tuple(b.with_neutral_covariates(number, tables[0]) for b in (first, second))


class AnswerFold(NamedTuple):
    """Answers to learn from, and answers held out."""

    train: list[Feedback]
    held_out: list[Feedback]


def answer_folds(
    blocks: Sequence[Feedback], num_folds: int, generator: Generator
) -> Iterator[AnswerFold]:
    """Yields folds of answers, dealt out at random; sizes differ by one at most.

    An answer with a count stays whole, as one. Each side of a fold, for training
    and for testing, lists only the blocks that have answers there.
    """
    sizes = [block.num_rows for block in blocks]
    check_num_folds(num_folds, sum(sizes), "answers")
    order = torch.randperm(sum(sizes), generator=generator)
    parts = (order % num_folds).split(sizes)
    for number in range(num_folds):
        fold = AnswerFold([], [])
        for block, part in zip(blocks, parts, strict=True):
            for side, keep in zip(fold, (part != number, part == number), strict=True):
                if keep.any():
                    # Rows are counted table by table, and taken so.
                    tables = block.tables.items()
                    rows = [block._counts(*table).shape[-1] for table in tables]
                    side.append(block.take(*keep.split(rows)))
        yield fold


def check_num_folds(num_folds: object, number: int, noun: str) -> None:
    """Checks that ``num_folds`` is from 2 to a number of answers, raters or items."""
    if not isinstance(num_folds, Integral) or not 2 <= int(num_folds) <= number:
        raise FeedbackError(
            f"num_folds is {num_folds!r}, and there are {number} {noun}: choose "
            f"between 2 and {number}."
        )


def concatenated(first: Tensor, second: Tensor, along: int) -> Tensor:
    """Concatenates answers, with batches broadcast and sets padded to the longer.

    Indices of shorter sets end in -1 then, and covariates in 0.

    Args:
        first: A number, a row or a matrix for each answer.
        second: The same of other answers.
        along: The dimension of the answers accordingly, -1, -2 or -3.
    """
    if along == -3:
        widest = max(first.shape[-2], second.shape[-2])
        first, second = (
            pad(rows, (0, 0, 0, widest - rows.shape[-2])) for rows in (first, second)
        )
    if along == -2:
        widest = max(first.shape[-1], second.shape[-1])
        first, second = (
            pad(rows, (0, widest - rows.shape[-1]), value=PADDING)
            for rows in (first, second)
        )
    batch = torch.broadcast_shapes(first.shape[:along], second.shape[:along])
    parts = [rows.expand(*batch, *rows.shape[along:]) for rows in (first, second)]
    return torch.cat(parts, dim=along)


# --- Checks of fields


def first_place(bad: Tensor) -> list[int]:
    """Finds the place of the first True; empty where there is none."""
    return bad.nonzero()[0].tolist() if bool(bad.any()) else []


def _broadcast(*shapes: torch.Size) -> bool:
    """Tells whether shapes broadcast with each other."""
    try:
        torch.broadcast_shapes(*shapes)
    except RuntimeError:
        return False
    return True


def _is_not_whole(value: Tensor) -> bool:
    """Tells whether a tensor is not of an integer dtype."""
    return value.is_floating_point() or value.is_complex() or value.dtype == torch.bool


def check_index_tensor(name: str, value: object, width: int | None) -> Tensor:
    """Checks the value of a field of indices, and returns it as a ``long`` tensor.

    Args:
        name: The field in messages, for example ``Comparisons.pairs``.
        value: ``batch_shape x m x width`` integers, or ``batch_shape x m``.
        width: How many indices an answer has; None for the latter shape.

    Raises:
        FeedbackError: The value is something else.
    """
    if isinstance(value, Tensor):
        value = _with_columns(value, width is not None)
    shape = "m" if width is None else f"m x {width}"
    value = integer_tensor(name, value, shape, "indices into datapoints")
    min_dim = 1 if width is None else 2
    if value.dim() < min_dim or (width is not None and value.shape[-1] != width):
        raise FeedbackError(
            f"{name} has shape {tuple(value.shape)}, expected batch_shape x {shape}."
        )
    return value


def _with_columns(indices: Tensor, wide: bool) -> Tensor:
    """Turns a tensor without entries into zero rows of indices, of type ``long``.

    ``torch.tensor([])`` is of floats and has no columns: where answers have several
    indices (``wide``), it becomes ``0 x 2``. A tensor with entries, or with rows, stays
    as it is.
    """
    dim = -2 if wide else -1
    if indices.numel() or (indices.dim() >= -dim and indices.shape[dim]):
        return indices
    width = [max(indices.shape[-1], 2) if indices.dim() > 1 else 2] if wide else []
    return indices.new_zeros(*indices.shape[:dim], 0, *width, dtype=torch.long)


def check_distinct(name: str, pairs: Tensor) -> None:
    """Checks that no point is compared with itself.

    Args:
        name: The field in messages.
        pairs: ``batch_shape x m x 2``.

    Raises:
        FeedbackError: Both indices of a row are the same.
    """
    if place := first_place(pairs[..., 0] == pairs[..., 1]):
        raise FeedbackError(
            f"{name}{place} compares point {int(pairs[(*place, 0)])} with itself, "
            "which says nothing; remove the row. (Two different points with equal "
            "coordinates are fine.)"
        )


def integer_tensor(name: str, value: object, shape: str, meaning: str) -> Tensor:
    """Checks a field of integers and makes it ``long``; ``shape`` omits the batch."""
    if not isinstance(value, Tensor):
        raise FeedbackError(
            f"{name} must be a tensor of integers of shape batch_shape x {shape}, got "
            f"{type(value).__name__}; use torch.tensor(...)."
        )
    if _is_not_whole(value):
        raise FeedbackError(
            f"{name} holds {meaning} but has dtype {value.dtype}; pass "
            "integers, for example with .long()."
        )
    return value.long()
