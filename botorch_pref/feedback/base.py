"""The base class of containers of answers, and checks of their fields."""

from __future__ import annotations

import dataclasses
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from typing import Any, ClassVar, Self, cast

import torch
from torch import Tensor
from torch.nn.functional import pad

from botorch_pref.errors import FeedbackError

PADDING = -1


def concatenate_answers(first: Tensor, second: Tensor, along: int) -> Tensor:
    """The answers of one tensor and then those of another, with batches broadcast.

    Args:
        first: ``batch_shape x m``, or ``batch_shape x m x k``.
        second: ``batch_shape' x m'``, or ``batch_shape' x m' x k'``.
        along: The dimension of answers: -1, or -2 where rows of k and k' indices are
            padded with -1 to the longer of the two.

    Returns:
        ``batch x (m + m')``, or ``batch x (m + m') x max(k, k')``.
    """
    if along == -2:
        widest = max(first.shape[-1], second.shape[-1])
        first, second = (
            pad(rows, (0, widest - rows.shape[-1]), value=PADDING)
            for rows in (first, second)
        )
    batch = torch.broadcast_shapes(first.shape[:along], second.shape[:along])
    parts = [rows.expand(*batch, *rows.shape[along:]) for rows in (first, second)]
    return torch.cat(parts, dim=along)


# Double precision, in which counts are multiplied, has no larger whole numbers.
_MOST = 2**53


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
        counted: The fields of answers by the name of the field that says how often each
            was given. Empty for containers without counts.
    """

    relative: ClassVar[bool]
    padded: ClassVar[bool] = False
    wide_fields: ClassVar[tuple[str, ...]] = ()
    counted: ClassVar[Mapping[str | None, tuple[str, ...]]] = {}

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

    @property
    def tables(self) -> dict[str | None, tuple[str, ...]]:
        """The fields that there are, by the field of their counts; None for no counts.

        The fields of one table have a row for each answer.
        """
        tensors = [n for n, v in self._fields().items() if isinstance(v, Tensor)]
        tables = self.counted or {None: tuple(tensors)}
        return {c: names for c, names in tables.items() if names[0] in tensors}

    @property
    def is_counted(self) -> bool:
        """Whether some answers have counts."""
        return any(getattr(self, name) is not None for name in self.counted if name)

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
        given = None if name is None else getattr(self, name)
        if given is not None:
            return cast("Tensor", given)
        like: Tensor = getattr(self, fields[0])
        m = like.shape[-2 if fields[0] in self.wide_fields else -1]
        return torch.ones(m, dtype=torch.long, device=like.device)

    def _check_counts(self) -> None:
        """Checks the counts and makes them ``long``; after the fields of answers."""
        kind = type(self).__name__
        for name, fields in self.counted.items():
            counts = getattr(self, str(name))
            if counts is None:
                continue
            label, of = f"{kind}.{name}", getattr(self, fields[0])
            if of is None:
                raise FeedbackError(f"{label} counts {fields[0]}, but there are none.")
            counts = _whole_numbers(label, counts)
            shape = of.shape[: -1 if fields[0] in self.wide_fields else None]
            if counts.shape[-1:] != shape[-1:] or not _broadcast(counts.shape, shape):
                raise FeedbackError(
                    f"{label} has shape {tuple(counts.shape)}, but {kind}.{fields[0]} "
                    f"has answers of shape {tuple(shape)}: one count an answer."
                )
            object.__setattr__(self, str(name), counts)

    def take(self, *rows: Tensor) -> Self:
        """Some of the answers, with their counts.

        Args:
            rows: For each of :attr:`tables` the places of answers, ``m'`` long, or
                ``m`` booleans. At least one answer is left in all; a table without any
                is left out.
        """
        taken: dict[str, Any] = {}
        for (count, names), places in zip(self.tables.items(), rows, strict=True):
            size = int(places.sum()) if places.dtype == torch.bool else len(places)
            for name in (*names, *([count] if count else [])):
                value = getattr(self, name)
                if value is not None:
                    wide = (slice(None),) * (name in self.wide_fields)
                    value = value[(..., places, *wide)] if size else None
                taken[name] = value
        return dataclasses.replace(self, **taken)  # type: ignore[type-var]

    def repeated(self, most: int) -> Self:
        """The same answers without counts, each as many rows as it counts.

        Args:
            most: How many rows there may be.

        Raises:
            FeedbackError: There are more, or elements of a batch have different counts.
        """
        rows, without = [], dict.fromkeys(map(str, self.counted))
        for table in self.tables.items():
            counts = self._counts(*table)
            of_all = counts.reshape(-1, counts.shape[-1])
            if bool((of_all != of_all[0]).any()):
                raise FeedbackError(
                    f"{type(self).__name__}.{table[0]} differs between elements of the "
                    "batch; this likelihood takes counts that are the same in all."
                )
            rows.append(of_all[0])
        total = sum(int(counts.sum()) for counts in rows)
        if total > most:
            raise FeedbackError(
                f"{type(self).__name__} counts {total} answers, which this likelihood "
                f"sees one by one: at most {most}. Use one that takes them together, "
                "such as PlackettLuceLikelihood of choices and rankings, or smaller "
                "counts."
            )
        places = [torch.arange(len(c)).to(c).repeat_interleave(c) for c in rows]
        return dataclasses.replace(self, **without).take(*places)  # type: ignore[type-var]

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
        both = self._fields(), other._fields()
        for count, fields in self.counted.items():
            if any(given[str(count)] is not None for given in both):
                for block, given in zip((self, other), both, strict=True):
                    there = given[fields[0]] is not None
                    given[str(count)] = block._counts(count, fields) if there else None
        joined = {n: self._joined(n, mine, both[1][n]) for n, mine in both[0].items()}
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


def _whole_numbers(name: str, value: object) -> Tensor:
    """Checks that counts are positive whole numbers, and makes them ``long``."""
    if not isinstance(value, Tensor) or value.is_complex() or value.dtype == torch.bool:
        kind = getattr(value, "dtype", type(value).__name__)
        raise FeedbackError(
            f"{name} must be a tensor of positive integers, one an answer, got {kind}."
        )
    if not value.is_floating_point():
        # Small integers cannot be compared with the largest count.
        value = value.long()
    # Negated, so that NaN counts as wrong.
    bad = ~((value >= 1) & (value <= _MOST) & (value == value.round()))
    if bool(bad.any()):
        where = bad.nonzero()[0].tolist()
        raise FeedbackError(
            f"{name}{where} is {value[tuple(where)].item()}; a count is how often an "
            f"answer was given: a whole number from 1 to {_MOST}. Leave out answers "
            "that nobody gave."
        )
    return value.long()


def _broadcast(counts: torch.Size, answers: torch.Size) -> bool:
    try:
        torch.broadcast_shapes(counts, answers)
    except RuntimeError:
        return False
    return True


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


def check_padded_sets(name: str, value: object, noun: str) -> Tensor:
    """Checks that every row names at least two different items, then padding.

    Args:
        name: What to call the field in messages, for example ``Choices.sets``.
        value: What was given: ``batch_shape x m x k``.
        noun: What a row is, for example ``set``.

    Returns:
        The value as a ``long`` tensor.

    Raises:
        FeedbackError: Not integers, another shape, no rows, a negative number other
            than -1, padding before an item, fewer than two items in a row, or an item
            twice in a row.
    """
    rows = check_integers(name, value, "m x k", "indices into datapoints")
    if rows.dim() < 2:
        raise FeedbackError(
            f"{name} has shape {tuple(rows.shape)}, expected batch_shape x m x k, one "
            f"{noun} a row."
        )
    if 0 in rows.shape[:-1]:
        raise FeedbackError(
            f"{name} has no rows; leave the block out where nothing was said."
        )
    negative = rows < PADDING
    if bool(negative.any()):
        where = negative.nonzero()[0].tolist()
        raise FeedbackError(
            f"{name}{where} is {int(rows[tuple(where)])}, which is no index; pad short "
            f"{noun}s with {PADDING} at the end of the row."
        )
    _check_padding_is_last(name, rows)
    _check_two_items(name, rows, noun)
    _check_no_repeats(name, rows, noun)
    return rows


def _check_padding_is_last(name: str, rows: Tensor) -> None:
    early = (rows[..., :-1] == PADDING) & (rows[..., 1:] != PADDING)
    if bool(early.any()):
        where = early.nonzero()[0].tolist()
        raise FeedbackError(
            f"{name}{where} is padding ({PADDING}) before an item; put the padding at "
            "the end of the row."
        )


def _check_two_items(name: str, rows: Tensor, noun: str) -> None:
    sizes = (rows != PADDING).sum(-1)
    if bool((sizes < 2).any()):
        where = (sizes < 2).nonzero()[0].tolist()
        items = "no items" if int(sizes[tuple(where)]) == 0 else "one item"
        raise FeedbackError(
            f"{name}{where} has {items}; a {noun} of fewer than two says nothing: "
            "remove the row."
        )


def _check_no_repeats(name: str, rows: Tensor, noun: str) -> None:
    ordered = rows.sort(-1).values
    twice = (ordered[..., 1:] == ordered[..., :-1]) & (ordered[..., 1:] != PADDING)
    if bool(twice.any()):
        *where, column = twice.nonzero()[0].tolist()
        raise FeedbackError(
            f"{name}{where} names point {int(ordered[(*where, column)])} twice in one "
            f"{noun}; name every item once. (Two different points with equal "
            "coordinates are fine.)"
        )


def check_unit_interval(name: str, value: object) -> Tensor:
    """Checks that a field is a floating point tensor inside (0, 1).

    The ends are refused because a Beta density is 0 or infinite there.

    Args:
        name: What to call it in messages, for example ``Ratings.ratings``.
        value: What was given.

    Returns:
        The value.

    Raises:
        FeedbackError: Not a floating point tensor, or an entry that is not finite or
            not strictly between 0 and 1.
    """
    if not isinstance(value, Tensor) or not value.is_floating_point():
        kind = getattr(value, "dtype", type(value).__name__)
        raise FeedbackError(
            f"{name} must be a floating point tensor with entries in (0, 1), got "
            f"{kind}; scale the answers, for example (answer - low) / (high - low)."
        )
    # Negated, so that NaN counts as outside.
    outside = ~((value > 0) & (value < 1))
    if bool(outside.any()):
        where = outside.nonzero()[0].tolist()
        answer = float(value[tuple(where)])
        raise FeedbackError(
            f"{name}{where} is {answer}, not strictly between 0 and 1 "
            f"({int(outside.sum())} such answers). "
            "Remove answers that are not finite; move a scale that includes its ends "
            "inside with (y (n - 1) + 0.5) / n, y from 0 to 1 and n the number of "
            "answers (Smithson and Verkuilen 2006)."
        )
    return value
