"""One frozen, validated container for each kind of answer."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass
from typing import ClassVar

import torch
from torch import Tensor

from botorch_pref.errors import FeedbackError
from botorch_pref.feedback.base import (
    PADDING,
    Feedback,
    check_distinct,
    check_index_tensor,
    check_integers,
    check_padded_sets,
    check_same_shape,
    check_unit_interval,
)


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

    Raises:
        FeedbackError: Wrong type or shape, no rows at all, a point compared with
            itself, or a count that is not positive.
    """

    relative: ClassVar[bool] = True
    wide_fields: ClassVar[tuple[str, ...]] = ("pairs", "ties")
    counted: ClassVar[Mapping[str | None, tuple[str, ...]]] = {
        "pair_counts": ("pairs",),
        "tie_counts": ("ties",),
    }

    pairs: Tensor | None
    ties: Tensor | None = None
    _: KW_ONLY
    pair_counts: Tensor | None = None
    tie_counts: Tensor | None = None

    def __post_init__(self) -> None:
        """Validates the fields."""
        super().__post_init__()
        if self.pairs is None and self.ties is None:
            raise FeedbackError(
                "Comparisons has neither pairs nor ties; leave it out of the feedback."
            )
        for name in self.index_fields:
            label = f"Comparisons.{name}"
            value = check_index_tensor(label, getattr(self, name), width=2)
            check_distinct(label, value)
            object.__setattr__(self, name, value)
        self._check_counts()
        try:
            torch.broadcast_shapes(*self._batch_shapes)
        except RuntimeError as error:
            shapes = " and ".join(str(tuple(shape)) for shape in self._batch_shapes)
            raise FeedbackError(
                f"Comparisons.pairs and Comparisons.ties have batch shapes {shapes}, "
                "which do not broadcast; give both the same, or none."
            ) from error

    @property
    def index_fields(self) -> tuple[str, ...]:
        """See base class."""
        return tuple(n for n in ("pairs", "ties") if getattr(self, n) is not None)


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

    Raises:
        FeedbackError: Wrong type or shape, no rows, fewer than two items or an item
            twice in a set, padding before an item, a choice outside its set, or a
            count that is not positive.
    """

    relative: ClassVar[bool] = True
    padded: ClassVar[bool] = True
    wide_fields: ClassVar[tuple[str, ...]] = ("sets",)
    counted: ClassVar[Mapping[str | None, tuple[str, ...]]] = {
        "counts": ("sets", "chosen")
    }

    sets: Tensor
    chosen: Tensor
    _: KW_ONLY
    counts: Tensor | None = None

    def __post_init__(self) -> None:
        """Validates the fields."""
        super().__post_init__()
        sets = check_padded_sets("Choices.sets", self.sets, "set")
        chosen = check_integers(
            "Choices.chosen", self.chosen, "m", "indices into datapoints"
        )
        check_same_shape(
            "Choices.chosen", chosen, sets.shape[:-1], "Choices.sets without items"
        )
        outside = (sets != chosen.unsqueeze(-1)).all(-1) | (chosen < 0)
        if bool(outside.any()):
            where = outside.nonzero()[0].tolist()
            members = [i for i in sets[tuple(where)].tolist() if i >= 0]
            raise FeedbackError(
                f"Choices.chosen{where} is {int(chosen[tuple(where)])}, which is not "
                f"in its set {members}; give the index into datapoints, not the place "
                "in the set, or add the item to the set."
            )
        object.__setattr__(self, "sets", sets)
        object.__setattr__(self, "chosen", chosen)
        self._check_counts()

    @property
    def index_fields(self) -> tuple[str, ...]:
        """See base class."""
        return ("sets", "chosen")

    def answers_of_stages(self) -> Tensor:
        """The answer that each row of :meth:`stages` is of, ``m`` long."""
        return torch.arange(self.chosen.shape[-1], device=self.chosen.device)

    def stages(self) -> Tensor:
        """Every set with the chosen item in front.

        The form that ``Rankings.stages`` has too: in each row the first item was chosen
        from all items of the row.

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

    Raises:
        FeedbackError: Wrong type or shape, no rows, fewer than two items or an item
            twice in a ranking, padding before an item, or a count that is not positive.
    """

    relative: ClassVar[bool] = True
    padded: ClassVar[bool] = True
    wide_fields: ClassVar[tuple[str, ...]] = ("orders",)
    counted: ClassVar[Mapping[str | None, tuple[str, ...]]] = {"counts": ("orders",)}

    orders: Tensor
    _: KW_ONLY
    counts: Tensor | None = None

    def __post_init__(self) -> None:
        """Validates the fields."""
        super().__post_init__()
        orders = check_padded_sets("Rankings.orders", self.orders, "ranking")
        object.__setattr__(self, "orders", orders)
        self._check_counts()

    @property
    def index_fields(self) -> tuple[str, ...]:
        """See base class."""
        return ("orders",)

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
        """The stages of all rankings, and which of them there are in some batch."""
        k = self.orders.shape[-1]
        padded = torch.nn.functional.pad(self.orders, (0, k - 2), value=PADDING)
        stages = padded.unfold(-1, k, 1)
        is_stage = stages[..., 1] != PADDING
        stages = stages.masked_fill(~is_stage.unsqueeze(-1), PADDING).flatten(-3, -2)
        return stages, is_stage.flatten(-2).unsqueeze(0).flatten(end_dim=-2).any(0)


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

    relative: ClassVar[bool] = False

    indices: Tensor
    levels: Tensor
    num_levels: int

    def __post_init__(self) -> None:
        """Validates the fields."""
        super().__post_init__()
        indices = check_index_tensor("OrdinalRatings.indices", self.indices, width=None)
        levels = check_integers("OrdinalRatings.levels", self.levels, "m", "levels")
        check_same_shape(
            "OrdinalRatings.levels", levels, indices.shape, "OrdinalRatings.indices"
        )
        _check_num_levels(self.num_levels)
        bad = (levels < 0) | (levels >= self.num_levels)
        if bool(bad.any()):
            where = bad.nonzero()[0].tolist()
            raise FeedbackError(
                f"OrdinalRatings.levels{where} is {int(levels[tuple(where)])}, but "
                f"there are {self.num_levels} levels: count them from 0 to "
                f"{self.num_levels - 1}."
            )
        object.__setattr__(self, "indices", indices)
        object.__setattr__(self, "levels", levels)

    @property
    def index_fields(self) -> tuple[str, ...]:
        """See base class."""
        return ("indices",)


def _check_num_levels(num_levels: object) -> None:
    if not isinstance(num_levels, int) or isinstance(num_levels, bool):
        raise FeedbackError(
            "OrdinalRatings.num_levels must be an integer, got "
            f"{type(num_levels).__name__}; give the number of levels of the scale."
        )
    if num_levels < 2:
        raise FeedbackError(
            f"OrdinalRatings.num_levels is {num_levels}; a scale of fewer than two "
            "levels says nothing: give the number of levels of the scale."
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

    relative: ClassVar[bool] = True
    wide_fields: ClassVar[tuple[str, ...]] = ("pairs",)

    pairs: Tensor
    strengths: Tensor

    def __post_init__(self) -> None:
        """Validates the fields."""
        super().__post_init__()
        pairs = check_index_tensor("Strengths.pairs", self.pairs, width=2)
        check_distinct("Strengths.pairs", pairs)
        strengths = check_unit_interval("Strengths.strengths", self.strengths)
        check_same_shape(
            "Strengths.strengths",
            strengths,
            pairs.shape[:-1],
            "Strengths.pairs without its last dimension",
        )
        object.__setattr__(self, "pairs", pairs)

    @property
    def index_fields(self) -> tuple[str, ...]:
        """See base class."""
        return ("pairs",)


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

    relative: ClassVar[bool] = False

    indices: Tensor
    ratings: Tensor

    def __post_init__(self) -> None:
        """Validates the fields."""
        super().__post_init__()
        indices = check_index_tensor("Ratings.indices", self.indices, width=None)
        ratings = check_unit_interval("Ratings.ratings", self.ratings)
        check_same_shape("Ratings.ratings", ratings, indices.shape, "Ratings.indices")
        object.__setattr__(self, "indices", indices)

    @property
    def index_fields(self) -> tuple[str, ...]:
        """See base class."""
        return ("indices",)
