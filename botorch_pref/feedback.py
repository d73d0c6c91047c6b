"""Frozen, validated containers of what people say, one for each kind of answer."""

from __future__ import annotations

import dataclasses
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import KW_ONLY, dataclass
from typing import Any, ClassVar, NamedTuple, Self, cast

import torch
from torch import Tensor
from torch.nn.functional import pad

from botorch_pref.errors import FeedbackError

__all__ = [
    "Choices",
    "Comparisons",
    "Feedback",
    "Options",
    "OrdinalRatings",
    "Rankings",
    "Ratings",
    "Strengths",
    "Validity",
    "check_distinct",
    "check_index_tensor",
    "check_same_shape",
]

_PADDING = -1
# Double precision, in which counts are multiplied, has no larger whole numbers.
_MOST = 2**53


class Feedback(ABC):
    """A frozen, validated block of answers of one kind.

    Subclasses are frozen dataclasses of tensors whose indices point into the
    ``datapoints`` of a model. The tensors are copies, of integers as ``long``: what
    happens later to those that were given changes nothing here.

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
        """Copies the tensors and checks all fields, counts and covariates last."""
        for name, value in self._tensors().items():
            if value.layout is not torch.strided or value.is_meta:
                raise FeedbackError(
                    f"{self._label(name)} is a tensor of layout {value.layout} on "
                    f"{value.device}; give a dense one that has values, for example "
                    "with .to_dense()."
                )
            kept = value.clone() if _is_not_whole(value) else value.long().clone()
            object.__setattr__(self, name, kept)
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
        return torch.broadcast_shapes(*self._batch_shapes)

    @property
    def _batch_shapes(self) -> list[torch.Size]:
        return [v.shape[: self.answer_dim(n)] for n, v in self._tensors().items()]

    def answer_dim(self, name: str) -> int:
        """The dimension of a field that counts answers, from the end."""
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
        """All fields, of which those of several tables are in parts, one a table."""
        return self._fields()

    def _replaced(self, columns: Mapping[str, Any]) -> Self:
        """The same answers with some fields, or parts of fields, replaced."""
        return dataclasses.replace(self, **columns)  # type: ignore[type-var]

    @property
    def tables(self) -> dict[str | None, tuple[str, ...]]:
        """The fields that were given, by the field of their counts; None for no counts.

        The fields of one table have a row for each answer.
        """
        tensors = tuple(self._tensors())
        tables = self.counted or {None: tensors}
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
        m = like.shape[self.answer_dim(fields[0])]
        return torch.ones(m, dtype=torch.long, device=like.device)

    def _check_counts(self, name: str, fields: tuple[str, ...]) -> None:
        """Checks counts against the answers that they count, and makes them long."""
        of = getattr(self, fields[0])
        if of is None:
            raise FeedbackError(
                f"{self._label(name)} counts {fields[0]}, of which none are given."
            )
        counts = _checked_counts(self._label(name), getattr(self, name))
        shape = of.shape[: of.dim() + 1 + self.answer_dim(fields[0])]
        if counts.shape[-1:] != shape[-1:] or not _broadcast(counts.shape, shape):
            raise FeedbackError(
                f"{self._label(name)} has shape {tuple(counts.shape)}, but "
                f"{self._label(fields[0])} has answers of shape {tuple(shape)}: one "
                "count an answer."
            )
        object.__setattr__(self, name, counts)

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
        each = "option of each answer" if len(rows) > 1 else "answer, pairs before ties"
        if not isinstance(value, Tensor) or not value.is_floating_point():
            kind = getattr(value, "dtype", type(value).__name__)
            raise FeedbackError(
                f"{label} must be a floating point tensor with a row for each {each}, "
                f"got {kind}; use for example .double()."
            )
        least = 1 + len(rows)
        if value.dim() < least or value.shape[-least:-1] != rows or not value.numel():
            wanted = " x ".join(map(str, (*rows, "p")))
            raise FeedbackError(
                f"{label} has shape {tuple(value.shape)}, expected batch_shape x "
                f"{wanted}: p numbers for each {each}."
                + " What all options of an answer share would cancel."
                * (len(rows) > 1)
            )
        if where := _first(~value.isfinite()):
            raise FeedbackError(
                f"{label}{where} is {value[tuple(where)].item()}; give finite numbers, "
                "0 for what is neutral or not known."
            )

    def with_neutral_covariates(self, num_covariates: int, like: Tensor) -> Self:
        """The same answers with covariates of 0, where they have none.

        Args:
            num_covariates: ``p``.
            like: Has the dtype and device of the covariates.
        """
        if self.covariates is not None:
            return self
        zeros = like.new_zeros(*self._covariate_rows, num_covariates)
        return self._replaced({"covariates": zeros})

    def options(self) -> Options:
        """The options of all answers as points of their own, with their covariates."""
        raise NotImplementedError

    def _check_pairs(self, name: str) -> None:
        """Checks a field of pairs of different points."""
        label = self._label(name)
        check_distinct(label, check_index_tensor(label, getattr(self, name), width=2))

    def _check_one_each(self, name: str, of: str) -> None:
        """Checks that a field has one entry for each row of indices."""
        rows: Tensor = getattr(self, of)
        wide = of in self.wide_fields
        label = self._label(of) + (" without its last dimension" if wide else "")
        expected = rows.shape[:-1] if wide else rows.shape
        check_same_shape(self._label(name), getattr(self, name), expected, label)

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
                    behind = (slice(None),) * (-1 - self.answer_dim(name))
                    value = value[(..., places, *behind)] if size else None
                taken[name] = value
        return self._replaced(taken)

    def repeated(self, most: int) -> Self:
        """The same answers without counts, each as many rows as it counts.

        Raises:
            FeedbackError: There are more than ``most`` rows, or elements of a batch
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
        if total > most:
            raise FeedbackError(
                f"{type(self).__name__} counts {total} answers, which this likelihood "
                f"sees one by one: at most {most}. Use one that takes them together, "
                "such as PlackettLuceLikelihood of choices and rankings, or smaller "
                "counts."
            )
        places = [torch.arange(len(c)).to(c).repeat_interleave(c) for c in rows]
        return self._replaced(without).take(*places)

    def check_indices(self, num_points: int) -> None:
        """Checks that every answer is about one of the ``num_points`` datapoints.

        Raises:
            FeedbackError: An index is negative (and no padding) or not below ``n``.
        """
        for name in self.index_fields:
            indices = getattr(self, name)
            bad = (indices < (_PADDING if self.padded else 0)) | (indices >= num_points)
            if where := _first(bad):
                raise FeedbackError(
                    f"{self._label(name)}{where} is "
                    f"{int(indices[tuple(where)])}, but there are {num_points} "
                    f"datapoints: indices go from 0 to {num_points - 1}."
                )

    def map_tensors(self, function: Callable[[Tensor], Tensor]) -> Self:
        """The same answers with ``function`` applied to every tensor.

        The block itself is returned where the function gives back every tensor that it
        is given, as ``lambda t: t.cuda()`` does on the device.
        """
        given = self._tensors()
        fields = {name: function(value) for name, value in given.items()}
        if all(fields[name] is value for name, value in given.items()):
            return self
        return self._replaced(fields)

    def shifted(self, offset: int) -> Self:
        """The same answers with every index, but no padding, moved by an offset."""
        return self._moved(lambda indices: indices + offset)

    def reindexed(self, places: Tensor) -> Self:
        """The same answers about points in other places; padding stays.

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
        """Concatenation of these answers and those of another block.

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
        both = blocks[0]._columns(), blocks[1]._columns()
        for count, fields in self.counted.items():
            if any(given[str(count)] is not None for given in both):
                for block, given in zip(blocks, both, strict=True):
                    there = given[fields[0]] is not None
                    given[str(count)] = block._counts(count, fields) if there else None
        return self._replaced(
            {n: self._joined(n, mine, both[1][n]) for n, mine in both[0].items()}
        )

    def _joined(self, name: str, first: Any, second: Any) -> Any:
        if first is None or second is None:
            return second if first is None else first
        if isinstance(first, Tensor):
            return _concatenated(first, second, self.answer_dim(name))
        if first != second:
            raise FeedbackError(
                f"{self._label(name)} is {first} in one block and {second} in "
                "the other; answers on different scales cannot be one block."
            )
        return first


def _with_equal_covariates(first: Feedback, second: Feedback) -> tuple[Feedback, ...]:
    """Both with as many covariates, which are 0 where one has none."""
    given = [b.covariates for b in (first, second) if b.covariates is not None]
    if not given:
        return first, second
    counts = {covariates.shape[-1] for covariates in given}
    if len(counts) > 1:
        raise FeedbackError(
            f"{first._label('covariates')} has {first.num_covariates} columns in one "
            f"block and {second.num_covariates} in the other; give all answers the "
            "same covariates, 0 where one is neutral."
        )
    (p,) = counts
    return tuple(b.with_neutral_covariates(p, given[0]) for b in (first, second))


def _concatenated(first: Tensor, second: Tensor, along: int) -> Tensor:
    """The answers of two tensors, batches broadcast and sets padded to the longer."""
    if along == -3:
        widest = max(first.shape[-2], second.shape[-2])
        first, second = (
            pad(rows, (0, 0, 0, widest - rows.shape[-2])) for rows in (first, second)
        )
    if along == -2:
        widest = max(first.shape[-1], second.shape[-1])
        first, second = (
            pad(rows, (0, widest - rows.shape[-1]), value=_PADDING)
            for rows in (first, second)
        )
    batch = torch.broadcast_shapes(first.shape[:along], second.shape[:along])
    parts = [rows.expand(*batch, *rows.shape[along:]) for rows in (first, second)]
    return torch.cat(parts, dim=along)


# --- Checks of fields


def _first(bad: Tensor) -> list[int]:
    """The place of the first True; empty where there is none."""
    return bad.nonzero()[0].tolist() if bool(bad.any()) else []


def _broadcast(*shapes: torch.Size) -> bool:
    try:
        torch.broadcast_shapes(*shapes)
    except RuntimeError:
        return False
    return True


def _is_not_whole(value: Tensor) -> bool:
    """Whether a tensor is not of an integer dtype."""
    return value.is_floating_point() or value.is_complex() or value.dtype == torch.bool


def check_index_tensor(name: str, value: object, width: int | None) -> Tensor:
    """The value of a field of indices as a ``long`` tensor.

    Args:
        name: The field in messages, for example ``Comparisons.pairs``.
        value: ``batch_shape x m x width`` integers.
        width: How many indices an answer has, or None for a vector of indices.

    Raises:
        FeedbackError: It is something else, or has no rows.
    """
    shape = "m" if width is None else f"m x {width}"
    value = _integers(name, value, shape, "indices into datapoints")
    min_dim = 1 if width is None else 2
    if value.dim() < min_dim or (width is not None and value.shape[-1] != width):
        raise FeedbackError(
            f"{name} has shape {tuple(value.shape)}, expected batch_shape x {shape}."
        )
    if value.numel() == 0:
        raise FeedbackError(f"{name} has no rows; pass None where nothing was said.")
    return value


def check_same_shape(name: str, value: Tensor, expected: torch.Size, of: str) -> None:
    """Checks that there is one answer for each row of indices.

    Args:
        name: The field of the answers, for example ``Ratings.ratings``.
        value: The answers.
        expected: The shape of the rows.
        of: The field of the rows, for example ``Ratings.indices``.

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
        name: The field in messages.
        pairs: ``batch_shape x m x 2``.

    Raises:
        FeedbackError: Both indices of a row are the same.
    """
    if where := _first(pairs[..., 0] == pairs[..., 1]):
        raise FeedbackError(
            f"{name}{where} compares point {int(pairs[(*where, 0)])} with itself, "
            "which says nothing; remove the row. (Two different points with equal "
            "coordinates are fine.)"
        )


def _integers(name: str, value: object, shape: str, meaning: str) -> Tensor:
    """The value of a field of integers as ``long``; shapes are without a batch."""
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


def _checked_counts(name: str, value: object) -> Tensor:
    """Checks that counts are positive whole numbers, and makes them ``long``."""
    if not isinstance(value, Tensor) or value.is_complex() or value.dtype == torch.bool:
        kind = getattr(value, "dtype", type(value).__name__)
        raise FeedbackError(
            f"{name} must be a tensor of positive integers, one an answer, got {kind}."
        )
    # Negated, so that NaN counts as wrong.
    bad = ~((value >= 1) & (value <= _MOST) & (value == value.round()))
    if where := _first(bad):
        raise FeedbackError(
            f"{name}{where} is {value[tuple(where)].item()}; a count is how often an "
            f"answer was given: a whole number from 1 to {_MOST}. Leave out answers "
            "that nobody gave."
        )
    return value.long()


def _check_padded_sets(name: str, value: object, noun: str) -> None:
    """Checks that every row names at least two different items, then padding."""
    rows = _integers(name, value, "m x k", "indices into datapoints")
    if rows.dim() < 2:
        raise FeedbackError(
            f"{name} has shape {tuple(rows.shape)}, expected batch_shape x m x k, one "
            f"{noun} a row."
        )
    if 0 in rows.shape[:-1]:
        raise FeedbackError(
            f"{name} has no rows; leave the block out where nothing was said."
        )
    if where := _first(rows < _PADDING):
        raise FeedbackError(
            f"{name}{where} is {int(rows[tuple(where)])}, which is no index; pad short "
            f"{noun}s with {_PADDING} at the end of the row."
        )
    if where := _first((rows[..., :-1] == _PADDING) & (rows[..., 1:] != _PADDING)):
        raise FeedbackError(
            f"{name}{where} is padding ({_PADDING}) before an item; put the padding at "
            "the end of the row."
        )
    sizes = (rows != _PADDING).sum(-1)
    if where := _first(sizes < 2):
        items = "no items" if int(sizes[tuple(where)]) == 0 else "one item"
        raise FeedbackError(
            f"{name}{where} has {items}; a {noun} of fewer than two says nothing: "
            "remove the row."
        )
    ordered = rows.sort(-1).values
    twice = (ordered[..., 1:] == ordered[..., :-1]) & (ordered[..., 1:] != _PADDING)
    if where := _first(twice):
        raise FeedbackError(
            f"{name}{where[:-1]} names point {int(ordered[tuple(where)])} twice in one "
            f"{noun}; name every item once. (Two different points with equal "
            "coordinates are fine.)"
        )


def _check_unit_interval(name: str, value: object) -> None:
    """Checks numbers strictly inside (0, 1): a Beta density is 0 or infinite there."""
    if not isinstance(value, Tensor) or not value.is_floating_point():
        kind = getattr(value, "dtype", type(value).__name__)
        raise FeedbackError(
            f"{name} must be a floating point tensor with entries in (0, 1), got "
            f"{kind}; scale the answers, for example (answer - low) / (high - low)."
        )
    # Negated, so that NaN counts as outside.
    outside = ~((value > 0) & (value < 1))
    if where := _first(outside):
        raise FeedbackError(
            f"{name}{where} is {float(value[tuple(where)])}, not strictly between 0 "
            f"and 1 ({int(outside.sum())} such answers). "
            "Remove answers that are not finite; move a scale that includes its ends "
            "inside with (y (n - 1) + 0.5) / n, y from 0 to 1 and n the number of "
            "answers (Smithson and Verkuilen 2006)."
        )


# --- Kinds of answers


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


@dataclass(frozen=True, eq=False)
class Comparisons(Feedback):
    """Duels with a winner, and duels that ended in a tie.

    Repeated answers and answers that contradict each other are legal. The same answer
    given many times may be one row with a count: the pair ``[0, 1]`` with a count of
    1,000 says what a thousand rows ``[0, 1]`` say.

    Attributes:
        pairs: ``batch_shape x m x 2`` integers, winner first; None if all duels were
            ties.
        ties: ``batch_shape x t x 2`` integers, in any order; None for no ties. The
            likelihood then needs a tie threshold.
        pair_counts: ``batch_shape x m`` integers, how often each pair was answered so;
            None for once.
        tie_counts: ``batch_shape x t`` integers, how often each tie was; None for once.
        covariates: ``batch_shape x (m + t) x p``, rows of pairs before those of ties:
            in what the first option of a pair was shown differently from the second. A
            duel then sees :math:`f_a - f_b + c^T w`. For example 1 where the first was
            shown first, and -1 where it was shown second; None for no covariates.

    Raises:
        FeedbackError: Wrong type or shape, no rows at all, a point compared with
            itself, a count that is not positive, or a covariate that is not finite.
    """

    relative = True
    wide_fields = ("pairs", "ties", "covariates", "pair_covariates", "tie_covariates")
    counted: ClassVar[Mapping[str | None, tuple[str, ...]]] = {
        "pair_counts": ("pairs",),
        "tie_counts": ("ties",),
    }

    pairs: Tensor | None
    ties: Tensor | None = None
    _: KW_ONLY
    pair_counts: Tensor | None = None
    tie_counts: Tensor | None = None
    covariates: Tensor | None = None

    def _check(self) -> None:
        if self.pairs is None and self.ties is None:
            raise FeedbackError(
                "Comparisons has neither pairs nor ties; leave it out of the feedback."
            )
        for name in self.index_fields:
            self._check_pairs(name)

    @property
    def index_fields(self) -> tuple[str, ...]:
        """See base class."""
        return tuple(n for n in ("pairs", "ties") if getattr(self, n) is not None)

    @property
    def tables(self) -> dict[str | None, tuple[str, ...]]:
        """See base class; with the covariates of either kind of duel."""
        own = dict(zip(("pairs", "ties"), _COVARIATES_OF_DUELS, strict=True))
        given = super().tables
        return {count: (*names, own[names[0]]) for count, names in given.items()}

    @property
    def _num_pairs(self) -> int:
        return 0 if self.pairs is None else self.pairs.shape[-2]

    @property
    def pair_covariates(self) -> Tensor | None:
        """Covariates of the pairs, ``batch_shape x m x p``."""
        if self.covariates is None or self.pairs is None:
            return None
        return self.covariates[..., : self._num_pairs, :]

    @property
    def tie_covariates(self) -> Tensor | None:
        """Covariates of the ties, ``batch_shape x t x p``."""
        if self.covariates is None or self.ties is None:
            return None
        return self.covariates[..., self._num_pairs :, :]

    @property
    def _covariate_rows(self) -> torch.Size:
        num_ties = 0 if self.ties is None else self.ties.shape[-2]
        return torch.Size([self._num_pairs + num_ties])

    def _columns(self) -> dict[str, Any]:
        columns = self._fields()
        del columns["covariates"]
        return columns | {name: getattr(self, name) for name in _COVARIATES_OF_DUELS}

    def _replaced(self, columns: Mapping[str, Any]) -> Self:
        fields = dict(columns)
        if not fields.keys().isdisjoint(_COVARIATES_OF_DUELS):
            won, tied = (fields.pop(name, None) for name in _COVARIATES_OF_DUELS)
            both = won is not None and tied is not None
            one = tied if won is None else won
            fields["covariates"] = _concatenated(won, tied, -2) if both else one
        return super()._replaced(fields)

    def options(self) -> Options:
        """See base class."""
        assert self.covariates is not None, "asked for where there are covariates"
        given = {name: getattr(self, name) for name in self.index_fields}
        pairs = list(given.values())
        every = pairs[0] if len(pairs) == 1 else _concatenated(pairs[0], pairs[1], -2)
        numbers = torch.arange(2 * every.shape[-2], device=every.device).view(-1, 2)
        sizes = [rows.shape[-2] for rows in pairs]
        numbered = zip(given.items(), numbers.split(sizes), strict=True)
        about = {name: own.expand(rows.shape) for (name, rows), own in numbered}
        second = torch.zeros_like(self.covariates)
        return Options(
            self._replaced({**about, "covariates": None}),
            every.flatten(-2),
            torch.stack([self.covariates, second], dim=-2).flatten(-3, -2),
        )


_COVARIATES_OF_DUELS = ("pair_covariates", "tie_covariates")


@dataclass(frozen=True, eq=False)
class Choices(Feedback):
    """Sets of items and the best of each.

    Nothing is said about the order of the others. Sets may differ in size.

    Attributes:
        sets: ``batch_shape x m x k`` integers, at least two different items a row;
            shorter sets end in -1.
        chosen: ``batch_shape x m`` integers: which of the datapoints was chosen. An
            index into ``datapoints``, as in ``sets``, not a place in the set.
        counts: ``batch_shape x m`` integers, how often each answer was given; None for
            once.
        covariates: ``batch_shape x m x k x p``, those of each option in the order of
            ``sets``; anything finite at padding. None for no covariates.

    Raises:
        FeedbackError: Wrong type or shape, no rows, fewer than two items or an item
            twice in a set, padding before an item, a choice outside its set, a count
            that is not positive, or a covariate that is not finite.
    """

    relative = True
    padded = True
    index_fields = ("sets", "chosen")
    wide_fields = ("sets",)
    deep_fields = ("covariates",)
    counted: ClassVar[Mapping[str | None, tuple[str, ...]]] = {
        "counts": ("sets", "chosen", "covariates")
    }

    sets: Tensor
    chosen: Tensor
    _: KW_ONLY
    counts: Tensor | None = None
    covariates: Tensor | None = None

    def _check(self) -> None:
        _check_padded_sets("Choices.sets", self.sets, "set")
        _integers("Choices.chosen", self.chosen, "m", "indices into datapoints")
        self._check_one_each("chosen", "sets")
        outside = (self.sets != self.chosen.unsqueeze(-1)).all(-1) | (self.chosen < 0)
        if where := _first(outside):
            members = [i for i in self.sets[tuple(where)].tolist() if i >= 0]
            raise FeedbackError(
                f"Choices.chosen{where} is {int(self.chosen[tuple(where)])}, which is "
                f"not in its set {members}; give the index into datapoints, not the "
                "place in the set, or add the item to the set."
            )

    @property
    def _covariate_rows(self) -> torch.Size:
        return self.sets.shape[-2:]

    def options(self) -> Options:
        """See base class."""
        numbers = _option_numbers(self.sets)
        place = (self.sets == self.chosen.unsqueeze(-1)).long().argmax(-1, keepdim=True)
        chosen = numbers.gather(-1, place).squeeze(-1)
        about = Choices(numbers, chosen, counts=self.counts)
        return _set_options(about, self.sets, self.covariates)

    def answers_of_stages(self) -> Tensor:
        """The answer that each row of :meth:`stages` is of, ``m`` long."""
        return torch.arange(self.chosen.shape[-1], device=self.chosen.device)

    def stages(self) -> Tensor:
        """Every set with the chosen item in front.

        As in ``Rankings.stages``, the first item of a row was chosen from all of it.

        Returns:
            ``batch_shape x m x k`` long: the chosen item, the others in the order of
            ``sets``, then -1.
        """
        others_last = (self.sets != self.chosen.unsqueeze(-1)).long()
        return self.sets.gather(-1, others_last.argsort(dim=-1, stable=True))


@dataclass(frozen=True, eq=False)
class Rankings(Feedback):
    """Rankings of items, best first, of equal or different lengths.

    Attributes:
        orders: ``batch_shape x m x k`` integers, at least two different items a row,
            best first; shorter rankings end in -1.
        counts: ``batch_shape x m`` integers, how often each answer was given; None for
            once.
        covariates: ``batch_shape x m x k x p``, those of each option in the order of
            ``orders``; anything finite at padding. None for no covariates.

    Raises:
        FeedbackError: Wrong type or shape, no rows, fewer than two items or an item
            twice in a ranking, padding before an item, a count that is not positive,
            or a covariate that is not finite.
    """

    relative = True
    padded = True
    index_fields = ("orders",)
    wide_fields = ("orders",)
    deep_fields = ("covariates",)
    counted: ClassVar[Mapping[str | None, tuple[str, ...]]] = {
        "counts": ("orders", "covariates")
    }

    orders: Tensor
    _: KW_ONLY
    counts: Tensor | None = None
    covariates: Tensor | None = None

    def _check(self) -> None:
        _check_padded_sets("Rankings.orders", self.orders, "ranking")

    @property
    def _covariate_rows(self) -> torch.Size:
        return self.orders.shape[-2:]

    def options(self) -> Options:
        """See base class."""
        about = Rankings(_option_numbers(self.orders), counts=self.counts)
        return _set_options(about, self.orders, self.covariates)

    def stages(self) -> Tensor:
        r"""The rankings as choices of the best, the second best and so on.

        A ranking :math:`a_1 \succ \dots \succ a_k` breaks into k - 1 stages: choose
        :math:`a_1` from all, :math:`a_2` from the rest, up to :math:`a_{k-1}` from the
        last two (Guo et al. 2020, eq. 4).

        Returns:
            ``batch_shape x s x k`` long, where :math:`s \le m (k - 1)`; in each row the
            first item was chosen from all items of the row, which ends in -1. A
            ranking's stages follow each other. A ranking shorter than ``k`` has fewer
            stages: rows without a stage are left out where no batch has one, else they
            are -1 throughout. So without batch dimensions there are none.
        """
        stages, there = self._padded_stages()
        return stages[..., there, :]

    def answers_of_stages(self) -> Tensor:
        """The ranking that each row of :meth:`stages` is of, ``s`` long."""
        _, there = self._padded_stages()
        k, m = self.orders.shape[-1], self.orders.shape[-2]
        answers = torch.arange(m, device=there.device).repeat_interleave(k - 1)
        return answers[there]

    def _padded_stages(self) -> tuple[Tensor, Tensor]:
        """The stages of all rankings, and which of them some element of a batch has."""
        k = self.orders.shape[-1]
        padded = pad(self.orders, (0, k - 2), value=_PADDING)
        stages = padded.unfold(-1, k, 1)
        is_stage = stages[..., 1] != _PADDING
        stages = stages.masked_fill(~is_stage.unsqueeze(-1), _PADDING).flatten(-3, -2)
        return stages, is_stage.flatten(-2).unsqueeze(0).flatten(end_dim=-2).any(0)


def _option_numbers(sets: Tensor) -> Tensor:
    """A number for each place of padded sets, and -1 at padding."""
    numbers = torch.arange(sets.shape[-2:].numel(), device=sets.device)
    return torch.where(sets < 0, _PADDING, numbers.view(sets.shape[-2:]))


def _set_options(block: Feedback, sets: Tensor, covariates: Tensor | None) -> Options:
    assert covariates is not None, "asked for where there are covariates"
    points = sets.flatten(-2).clamp_min(0)
    return Options(block, points, covariates.flatten(-3, -2))


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

    relative = False
    index_fields = ("indices",)

    indices: Tensor
    valid: Tensor

    def _check(self) -> None:
        check_index_tensor("Validity.indices", self.indices, width=None)
        if not isinstance(self.valid, Tensor) or self.valid.dtype != torch.bool:
            kind = getattr(self.valid, "dtype", type(self.valid).__name__)
            raise FeedbackError(
                f"Validity.valid must be a tensor of booleans, got {kind}; "
                "use for example labels == 1."
            )
        self._check_one_each("valid", "indices")


@dataclass(frozen=True, eq=False)
class OrdinalRatings(Feedback):
    """Ratings of points on a scale of ordered levels.

    Attributes:
        indices: ``batch_shape x m`` integers.
        levels: ``batch_shape x m`` integers from 0 to ``num_levels - 1``; higher is
            better.
        num_levels: The number of levels of the scale, at least 2, those that nobody
            used included.

    Raises:
        FeedbackError: Wrong type or shape, no rows, or a level that the scale lacks.
    """

    relative = False
    index_fields = ("indices",)

    indices: Tensor
    levels: Tensor
    num_levels: int

    def _check(self) -> None:
        check_index_tensor("OrdinalRatings.indices", self.indices, width=None)
        levels = _integers("OrdinalRatings.levels", self.levels, "m", "levels")
        self._check_one_each("levels", "indices")
        count: object = self.num_levels
        if not isinstance(count, int) or isinstance(count, bool) or count < 2:
            raise FeedbackError(
                f"OrdinalRatings.num_levels is {count!r}; give the number of levels of "
                "the scale, an integer of at least 2."
            )
        if where := _first((levels < 0) | (levels >= count)):
            raise FeedbackError(
                f"OrdinalRatings.levels{where} is {int(levels[tuple(where)])}, but "
                f"there are {count} levels: count them from 0 to {count - 1}."
            )


@dataclass(frozen=True, eq=False)
class Strengths(Feedback):
    """Strengths of preference for the first of two items over the second.

    Attributes:
        pairs: ``batch_shape x m x 2`` integers.
        strengths: ``batch_shape x m``, strictly between 0 and 1: above 0.5 the first is
            preferred (the v of Jensen and Nielsen 2014), below 0.5 the second.

    Raises:
        FeedbackError: Wrong type or shape, no rows, a point compared with itself, or a
            strength that is not strictly between 0 and 1.
    """

    relative = True
    index_fields = ("pairs",)
    wide_fields = ("pairs",)

    pairs: Tensor
    strengths: Tensor

    def _check(self) -> None:
        self._check_pairs("pairs")
        _check_unit_interval("Strengths.strengths", self.strengths)
        self._check_one_each("strengths", "pairs")


@dataclass(frozen=True, eq=False)
class Ratings(Feedback):
    """Ratings of points on a continuous scale from 0 to 1.

    Attributes:
        indices: ``batch_shape x m`` integers.
        ratings: ``batch_shape x m``, strictly between 0 and 1; higher is better.

    Raises:
        FeedbackError: Wrong type or shape, no rows, or a rating that is not strictly
            between 0 and 1.
    """

    relative = False
    index_fields = ("indices",)

    indices: Tensor
    ratings: Tensor

    def _check(self) -> None:
        check_index_tensor("Ratings.indices", self.indices, width=None)
        _check_unit_interval("Ratings.ratings", self.ratings)
        self._check_one_each("ratings", "indices")
