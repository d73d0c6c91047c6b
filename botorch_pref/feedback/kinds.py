"""Frozen, validated containers of what people say, one for each kind of answer."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass
from typing import Any, ClassVar, Self

import torch
from torch import Tensor
from torch.nn.functional import pad

from botorch_pref.errors import FeedbackError
from botorch_pref.feedback.container import (
    PADDING,
    Feedback,
    Options,
    check_index_tensor,
    concatenated,
    first_place,
    integer_tensor,
)

# --- Answers that compare


@dataclass(frozen=True, eq=False)
class Comparisons(Feedback):
    """Duels with a winner, and duels that ended in a tie.

    Repeated answers and answers that contradict each other are legal. The same answer
    given many times may be one row with a count: the pair ``[0, 1]`` with a count of
    1,000 says what a thousand rows ``[0, 1]`` say.

    Attributes:
        pairs: ``batch_shape x m x 2`` integers, winner first; None, or no rows, if all
            duels were ties.
        ties: ``batch_shape x t x 2`` integers, in any order; None, or no rows, for no
            ties. The likelihood of ties needs a tie threshold.
        pair_counts: ``batch_shape x m`` integers, how often each pair was answered so;
            None for once.
        tie_counts: ``batch_shape x t`` integers, how often each tie was; None for once.
        covariates: ``batch_shape x (m + t) x p``, rows of pairs before those of ties:
            in what the first option of a pair was shown differently from the second. A
            duel then sees :math:`f_a - f_b + c^T w`. For example 1 where the first was
            shown first, and -1 where it was shown second; None for no covariates.

    Raises:
        FeedbackError: Wrong type or shape, neither pairs nor ties, a point compared
            with itself, a count that is not positive, or a covariate that is not
            finite.
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

    def __post_init__(self) -> None:
        """Sets empty pairs beside ties to None, and ties beside pairs, then checks."""
        for name, count, partner in (
            ("ties", "tie_counts", "pairs"),
            ("pairs", "pair_counts", "ties"),
        ):
            value, counts = getattr(self, name), getattr(self, count)
            is_empty = isinstance(value, Tensor) and not value.numel()
            if is_empty and getattr(self, partner) is not None:
                object.__setattr__(self, name, None)
                if isinstance(counts, Tensor) and not counts.numel():
                    object.__setattr__(self, count, None)
        super().__post_init__()

    def _check(self) -> None:
        """Checks that there are duels, each of two different points."""
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
        covariate_names = dict(
            zip(("pairs", "ties"), _COVARIATES_OF_DUELS, strict=True)
        )
        base_tables = super().tables
        return {
            count: (*names, covariate_names[names[0]])
            for count, names in base_tables.items()
        }

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
        """See base class; covariates of pairs and of ties are one field.

        Where one of these two parts is replaced, the other has to be given, too.
        """
        fields = dict(columns)
        if not fields.keys().isdisjoint(_COVARIATES_OF_DUELS):
            won, tied = (fields.pop(name, None) for name in _COVARIATES_OF_DUELS)
            has_both = won is not None and tied is not None
            single_table = tied if won is None else won
            fields["covariates"] = (
                concatenated(won, tied, -2) if has_both else single_table
            )
        return super()._replaced(fields)

    def options(self) -> Options:
        """See base class: answer ``i`` has the options ``2 i`` and ``2 i + 1``.

        Pairs come before ties. The covariates of an answer are a difference, of the
        first option to the second: the first one gets them, and the second gets zeros.
        """
        assert self.covariates is not None, "asked for where there are covariates"
        index_tables = {name: getattr(self, name) for name in self.index_fields}
        pairs = list(index_tables.values())
        every = pairs[0] if len(pairs) == 1 else concatenated(pairs[0], pairs[1], -2)
        numbers = torch.arange(2 * every.shape[-2], device=every.device).view(-1, 2)
        sizes = [rows.shape[-2] for rows in pairs]
        numbered = zip(index_tables.items(), numbers.split(sizes), strict=True)
        about = {
            name: option_numbers.expand(rows.shape)
            for (name, rows), option_numbers in numbered
        }
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
        FeedbackError: Wrong type or shape, fewer than two items or an item
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
        """Checks that each chosen item is in its set."""
        _check_padded_sets("Choices.sets", self.sets, "set")
        integer_tensor("Choices.chosen", self.chosen, "m", "indices into datapoints")
        self._check_one_a_row("chosen", "sets")
        outside = (self.sets != self.chosen.unsqueeze(-1)).all(-1) | (self.chosen < 0)
        if place := first_place(outside):
            members = [i for i in self.sets[tuple(place)].tolist() if i >= 0]
            raise FeedbackError(
                f"Choices.chosen{place} is {int(self.chosen[tuple(place)])}, which is "
                f"not in its set {members}; give the index into datapoints, not the "
                "place in the set, or add the item to the set."
            )

    @property
    def _covariate_rows(self) -> torch.Size:
        return self.sets.shape[-2:]

    def options(self) -> Options:
        """See base class: options are numbered set by set, also at padding."""
        numbers = _option_numbers(self.sets)
        place = (self.sets == self.chosen.unsqueeze(-1)).long().argmax(-1, keepdim=True)
        chosen = numbers.gather(-1, place).squeeze(-1)
        about = Choices(numbers, chosen, counts=self.counts)
        return _set_options(about, self.sets, self.covariates)

    def answers_of_stages(self) -> Tensor:
        """Returns for each row of :meth:`stages` its answer's index, ``m`` long."""
        return torch.arange(self.chosen.shape[-1], device=self.chosen.device)

    def stages(self) -> Tensor:
        """Puts the chosen item of every set in front.

        As in ``Rankings.stages``, the first item of a row was chosen from all of it.

        Returns:
            ``batch_shape x m x k`` long, the chosen item, the others in the order of
            ``sets``, then -1.
        """
        others_last = (self.sets != self.chosen.unsqueeze(-1)).long()
        return self.sets.gather(-1, others_last.argsort(dim=-1, stable=True))


@dataclass(frozen=True, eq=False)
class Rankings(Feedback):
    """Rankings of items, best first, of equal or different lengths.

    Where items share places, `rankings_with_ties` makes answers of them.

    Attributes:
        orders: ``batch_shape x m x k`` integers, at least two different items a row,
            best first; shorter rankings end in -1.
        counts: ``batch_shape x m`` integers, how often each answer was given; None for
            once.
        covariates: ``batch_shape x m x k x p``, those of each option in the order of
            ``orders``; anything finite at padding. None for no covariates.

    Raises:
        FeedbackError: Wrong type or shape, fewer than two items or an item
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
        """See base class: options are numbered ranking by ranking, also at padding."""
        about = Rankings(_option_numbers(self.orders), counts=self.counts)
        return _set_options(about, self.orders, self.covariates)

    def stages(self) -> Tensor:
        r"""Breaks the rankings into choices of the best, the second best and so on.

        A ranking :math:`a_1 \succ \dots \succ a_k` breaks into k - 1 stages: choose
        :math:`a_1` from all, :math:`a_2` from the rest, up to :math:`a_{k-1}` from the
        last two (Guo et al. 2020, eq. 4).

        Returns:
            ``batch_shape x s x k`` long, where :math:`s \le m (k - 1)`; in each row the
            first item was chosen from all items of the row, which ends in -1. A
            ranking's stages follow each other. A ranking shorter than ``k`` has fewer
            stages: where some element of the batch has a stage and another one has
            not, the row of the latter is -1 throughout; where none has it, the row is
            left out.
        """
        stages, is_stage = self._padded_stages()
        return stages[..., is_stage, :]

    def answers_of_stages(self) -> Tensor:
        """Returns for each row of :meth:`stages` its ranking's index, ``s`` long."""
        _, is_stage = self._padded_stages()
        k, m = self.orders.shape[-1], self.orders.shape[-2]
        answers = torch.arange(m, device=is_stage.device).repeat_interleave(k - 1)
        return answers[is_stage]

    def _padded_stages(self) -> tuple[Tensor, Tensor]:
        """Returns ``k - 1`` rows for each ranking, and which of them have a stage.

        Returns:
            ``batch_shape x m (k - 1) x k`` items, -1 throughout where a ranking has no
            such stage; and ``m (k - 1)`` bools, true where some element of the batch
            has it.
        """
        k = self.orders.shape[-1]
        # Stage i is the order from item i on, at its end filled up to k items.
        padded = pad(self.orders, (0, k - 2), value=PADDING)
        stages = padded.unfold(-1, k, 1)
        # The last item alone is no choice.
        is_stage = stages[..., 1] != PADDING
        stages = stages.masked_fill(~is_stage.unsqueeze(-1), PADDING).flatten(-3, -2)
        return stages, is_stage.flatten(-2).unsqueeze(0).flatten(end_dim=-2).any(0)


def rankings_with_ties(items: Tensor, ranks: Tensor) -> tuple[Feedback, ...]:
    r"""Translates rankings in which items may share places to answers of models.

    A ranking without shared places is one of `Rankings`. Where only the last of
    several places is shared, each item ahead of it is the best of itself and all items
    behind it, one of `Choices`. In other rankings each place is compared twice with the
    next one, by different items as far as a place has two, or once where both places
    have one item. The items of a place tie, each with the next and the last with the
    first. All pairs, as if each had been judged anew, would say far more than the
    person did.

    Args:
        items: ``m x k`` integers, at least two different items a row; shorter rows end
            in -1.
        ranks: ``m x k`` numbers, smaller for better items and equal for those that
            share a place; anything at padding.

    Returns:
        Rankings, choices and comparisons, as far as there are any.

    Raises:
        FeedbackError: Items that are no rankings, or ranks of another shape or NaN.
    """
    _check_padded_sets("items", items, "ranking")
    shapes = [tuple(table.shape) for table in (items, ranks)]
    if len(shapes[0]) != 2 or shapes[0] != shapes[1]:
        raise FeedbackError(
            f"items has shape {shapes[0]} and ranks {shapes[1]}; give both m x k."
        )
    if nan_place := first_place(ranks.isnan() & (items != PADDING)):
        raise FeedbackError(f"ranks{nan_place} is NaN; leave out what was not ranked.")
    # Padding goes to the end, in a place of its own.
    ranks, order = ranks.double().masked_fill(items < 0, torch.inf).sort(stable=True)
    items = items.gather(-1, order)
    # Whether an item is the first of its place, and the number of its place from 0.
    first = torch.ones_like(items, dtype=torch.bool)
    first[:, 1:] = ranks.diff() > 0
    place = first.cumsum(-1) - 1
    # How many items a place has, with an empty place behind the last one.
    sizes = torch.zeros(len(items), items.shape[-1] + 1).to(items)
    sizes.scatter_add_(-1, place, (items >= 0).long())
    shared = sizes.amax(-1) > 1
    answers: list[Feedback] = []
    if not shared.all():
        answers.append(Rankings(items[~shared]))
    if shared.any():
        items, place, sizes, first = (t[shared] for t in (items, place, sizes, first))
        answers += _with_shared_places(items, place, sizes, first)
    return tuple(answers)


def _with_shared_places(
    items: Tensor, place: Tensor, sizes: Tensor, first: Tensor
) -> list[Feedback]:
    """Makes choices and comparisons of rankings, each with a place of several items.

    `rankings_with_ties` says which ranking makes which.

    Args:
        items: ``m x k``, best first, then -1.
        place: The number of the place of each item, ``m x k``.
        sizes: How many items each place has, ``m x (k + 1)``, 0 behind the last one.
        first: Whether an item is the first of its place, ``m x k``.
    """
    last = (sizes > 0).sum(-1, keepdim=True) - 1
    alone = sizes.gather(-1, place) == 1
    # Rankings of several places, of which only the last has several items.
    first_few = (alone | (place >= last)).all(-1) & (last.squeeze(-1) > 0)
    answers: list[Feedback] = []
    if first_few.any():
        rankings = Rankings(items[first_few])
        # The number of each stage in its ranking: those of the last place say nothing.
        answer = rankings.answers_of_stages()
        number = torch.arange(len(answer)).to(answer)
        number -= torch.searchsorted(answer, answer)
        stages = rankings.stages()[number < last[first_few, 0][answer]]
        answers.append(Choices(stages, stages[:, 0]))
    # Of each item: where its place begins, its number there, the size of the place, and
    # that of the place before.
    position = torch.arange(items.shape[-1]).to(items).expand_as(items)
    start = torch.where(first, position, 0).cummax(-1).values
    number, size = position - start, sizes.gather(-1, place)
    before = torch.where(place > 0, sizes.gather(-1, (place - 1).clamp_min(0)), 0)
    is_item = items >= 0

    def edges(mask: Tensor, partner_column: Tensor) -> Tensor:
        """Pairs items with those in other columns of their rows, ``e x 2``."""
        rows, columns = mask.nonzero(as_tuple=True)
        ends = items[rows, columns], items[rows, partner_column[rows, columns]]
        return torch.stack(ends, dim=-1)

    # Neighbouring places are compared twice, or once where both have one item: the
    # first two items of a place lose one each, a single one to the first two before it.
    compared = is_item & (before > 0) & ~first_few.unsqueeze(-1) & (number < 2)
    previous = start - before
    lost = [
        edges(compared, previous + number % before.clamp_min(1)),
        edges(compared & (size == 1) & (before > 1), previous + 1),
    ]
    # Of two, one tie is the ring.
    in_ring = is_item & ((size > 2) | ((size == 2) & (number == 0)))
    ties = edges(in_ring, start + (number + 1) % size.clamp_min(1))
    return [*answers, Comparisons(torch.cat(lost).flip(-1), ties)]


def _option_numbers(sets: Tensor) -> Tensor:
    """Numbers the places of padded sets, ``batch_shape x m x k``, row by row from 0.

    Padding is counted, too, but -1 stands in place of its number.
    """
    numbers = torch.arange(sets.shape[-2:].numel(), device=sets.device)
    return torch.where(sets < 0, PADDING, numbers.view(sets.shape[-2:]))


def _set_options(block: Feedback, sets: Tensor, covariates: Tensor | None) -> Options:
    assert covariates is not None, "asked for where there are covariates"
    points = sets.flatten(-2).clamp_min(0)
    return Options(block, points, covariates.flatten(-3, -2))


def _check_padded_sets(name: str, value: object, noun: str) -> None:
    """Checks that every row names at least two different items, then padding."""
    rows = integer_tensor(name, value, "m x k", "indices into datapoints")
    if rows.dim() < 2:
        raise FeedbackError(
            f"{name} has shape {tuple(rows.shape)}, expected batch_shape x m x k, one "
            f"{noun} a row."
        )
    if place := first_place(rows < PADDING):
        raise FeedbackError(
            f"{name}{place} is {int(rows[tuple(place)])}, which is no index; pad short "
            f"{noun}s with {PADDING} at the end of the row."
        )
    if place := first_place((rows[..., :-1] == PADDING) & (rows[..., 1:] != PADDING)):
        raise FeedbackError(
            f"{name}{place} is padding ({PADDING}) before an item; put the padding at "
            "the end of the row."
        )
    sizes = (rows != PADDING).sum(-1)
    if place := first_place(sizes < 2):
        items = "no items" if int(sizes[tuple(place)]) == 0 else "one item"
        raise FeedbackError(
            f"{name}{place} has {items}; a {noun} of fewer than two says nothing: "
            "remove the row."
        )
    ordered = rows.sort(-1).values
    twice = (ordered[..., 1:] == ordered[..., :-1]) & (ordered[..., 1:] != PADDING)
    if place := first_place(twice):
        raise FeedbackError(
            f"{name}{place[:-1]} names point {int(ordered[tuple(place)])} twice in one "
            f"{noun}; name every item once. (Two different points with equal "
            "coordinates are fine.)"
        )


@dataclass(frozen=True, eq=False)
class Strengths(Feedback):
    """Strengths of preference for the first of two items over the second.

    Attributes:
        pairs: ``batch_shape x m x 2`` integers.
        strengths: ``batch_shape x m``, strictly between 0 and 1: above 0.5 the first is
            preferred (the v of Jensen and Nielsen 2014), below 0.5 the second.

    Raises:
        FeedbackError: Wrong type or shape, a point compared with itself, or a
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
        self._check_one_a_row("strengths", "pairs")


def _check_unit_interval(name: str, value: object) -> None:
    """Checks for numbers strictly inside (0, 1), where a log Beta density is finite."""
    if not isinstance(value, Tensor) or not value.is_floating_point():
        kind = getattr(value, "dtype", type(value).__name__)
        raise FeedbackError(
            f"{name} must be a floating point tensor with entries in (0, 1), got "
            f"{kind}; scale the answers, for example (answer - low) / (high - low)."
        )
    # Negated, so that NaN counts as outside.
    outside = ~((value > 0) & (value < 1))
    if place := first_place(outside):
        raise FeedbackError(
            f"{name}{place} is {float(value[tuple(place)])}, not strictly between 0 "
            f"and 1 ({int(outside.sum())} such answers). "
            "Remove answers that are not finite; move a scale that includes its ends "
            "inside with (y (n - 1) + 0.5) / n, y from 0 to 1 and n the number of "
            "answers (Smithson and Verkuilen 2006)."
        )


# --- Answers about one point


@dataclass(frozen=True, eq=False)
class Validity(Feedback):
    """Labels of trials as valid or failed.

    On the shared utility (Benavoli et al. 2021, section 3.2): a valid point has utility
    above zero, a failed one below.

    Attributes:
        indices: ``batch_shape x m`` integers.
        valid: ``batch_shape x m`` booleans.

    Raises:
        FeedbackError: Wrong type or shape.
    """

    relative = False
    index_fields = ("indices",)

    indices: Tensor
    valid: Tensor

    def _check(self) -> None:
        """Checks indices and booleans."""
        check_index_tensor("Validity.indices", self.indices, width=None)
        if not isinstance(self.valid, Tensor) or self.valid.dtype != torch.bool:
            kind = getattr(self.valid, "dtype", type(self.valid).__name__)
            raise FeedbackError(
                f"Validity.valid must be a tensor of booleans, got {kind}; "
                "use for example labels == 1."
            )
        self._check_one_a_row("valid", "indices")


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
        FeedbackError: Wrong type or shape, or a level that the scale lacks.
    """

    relative = False
    index_fields = ("indices",)

    indices: Tensor
    levels: Tensor
    num_levels: int

    def _check(self) -> None:
        """Checks indices, and levels that are on the scale."""
        check_index_tensor("OrdinalRatings.indices", self.indices, width=None)
        levels = integer_tensor("OrdinalRatings.levels", self.levels, "m", "levels")
        self._check_one_a_row("levels", "indices")
        count: object = self.num_levels
        if not isinstance(count, int) or isinstance(count, bool) or count < 2:
            raise FeedbackError(
                f"OrdinalRatings.num_levels is {count!r}; give the number of levels of "
                "the scale, an integer of at least 2."
            )
        if place := first_place((levels < 0) | (levels >= count)):
            raise FeedbackError(
                f"OrdinalRatings.levels{place} is {int(levels[tuple(place)])}, but "
                f"there are {count} levels: count them from 0 to {count - 1}."
            )


@dataclass(frozen=True, eq=False)
class Ratings(Feedback):
    """Ratings of points on a continuous scale from 0 to 1.

    Attributes:
        indices: ``batch_shape x m`` integers.
        ratings: ``batch_shape x m``, strictly between 0 and 1; higher is better.

    Raises:
        FeedbackError: Wrong type or shape, or a rating that is not strictly
            between 0 and 1.
    """

    relative = False
    index_fields = ("indices",)

    indices: Tensor
    ratings: Tensor

    def _check(self) -> None:
        check_index_tensor("Ratings.indices", self.indices, width=None)
        _check_unit_interval("Ratings.ratings", self.ratings)
        self._check_one_a_row("ratings", "indices")
