"""Answers with their points and raters, and folds of them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Generic, TypeVar

import torch
from torch import Generator, Tensor

from botorch_pref.errors import FeedbackError
from botorch_pref.feedback import Comparisons, Feedback
from botorch_pref.feedback.container import check_num_folds


@dataclass(frozen=True)
class ComparisonData:
    """Comparisons between items with named features.

    Attributes:
        datapoints: `n x d` features of the distinct items, in their natural units.
        comparisons: `m x 2` long indices into `datapoints`, the winner first.
        feature_names: `d` names, one a column of `datapoints`.
        raters: `m` long ids of who answered, or `None` where that is not known.
        tie: `m` bools, true of a pair that is equally good, in any order; `None` where
            no pair is.
    """

    datapoints: Tensor
    comparisons: Tensor
    feature_names: tuple[str, ...]
    raters: Tensor | None = None
    tie: Tensor | None = None

    @classmethod
    def from_pairs(
        cls,
        winners: Tensor,
        losers: Tensor,
        feature_names: tuple[str, ...],
        raters: Tensor | None = None,
        tie: Tensor | None = None,
    ) -> ComparisonData:
        """Collects the distinct items of `m` pairs.

        A utility is a function of the features, so items with the same features are one
        item. Features of winners and of losers are `m x d`; for the rest see the class.

        Raises:
            FeedbackError: A feature is not finite or a winner equals its loser; the
                message names the first such row.
        """
        if winners.shape != losers.shape or winners.ndim != 2:
            raise FeedbackError(
                "winners and losers must both be m x d, but are "
                f"{tuple(winners.shape)} and {tuple(losers.shape)}"
            )
        if len(winners) == 0:
            raise FeedbackError("there are no comparisons: give at least one row")
        _refuse_rows(
            ~(winners.isfinite() & losers.isfinite()).all(-1),
            "has a feature that is NaN or infinite: remove the row or fill it in",
        )
        _refuse_rows(
            (winners == losers).all(-1),
            "compares an item with itself (all features are equal): remove the row or "
            "add the feature in which the two differ",
        )
        datapoints, comparisons = distinct_items(torch.stack([winners, losers], 1))
        if tie is not None and not tie.any():
            tie = None
        return cls(datapoints, comparisons, feature_names, raters, tie)

    def __len__(self) -> int:
        return self.comparisons.shape[0]

    @property
    def decided(self) -> Tensor:
        """`m` bools, false where the two are equally good."""
        if self.tie is None:
            return torch.ones(len(self), dtype=torch.bool)
        return ~self.tie

    @property
    def feedback(self) -> Comparisons:
        """The answers as models take them, about `datapoints`."""
        return pairs_and_ties(self.comparisons, ~self.decided)

    @property
    def winners(self) -> Tensor:
        """`m x d` features of the winners, or of the first of two equal ones."""
        return self.datapoints[self.comparisons[:, 0]]

    @property
    def losers(self) -> Tensor:
        """`m x d` features of the losers, or of the second of two equal ones."""
        return self.datapoints[self.comparisons[:, 1]]

    def subset(self, rows: Tensor) -> ComparisonData:
        """Takes comparisons of rows, by indices or a mask, and their items alone.

        So a fold has only what it is about; the items are renumbered.
        """
        items, inverse = torch.unique(self.comparisons[rows], return_inverse=True)
        raters = None if self.raters is None else self.raters[rows]
        tie = None if self.tie is None else self.tie[rows]
        item_points = self.datapoints[items]
        return ComparisonData(item_points, inverse, self.feature_names, raters, tie)


def _refuse_rows(bad: Tensor, message: str) -> None:
    if bad.any():
        row = int(bad.nonzero()[0])
        raise FeedbackError(f"comparison {row} {message} ({int(bad.sum())} such rows)")


Kind = TypeVar("Kind", bound=Feedback)


@dataclass(frozen=True, eq=False)
class FeedbackData(Generic[Kind]):
    """Answers of one kind about items with named features.

    Attributes:
        datapoints: `n x d` features of the distinct items, in their natural units.
        feedback: `m` answers about them, without batch dimensions.
        feature_names: `d` names, one a column of `datapoints`.
        raters: `m` long ids of who answered, or `None` where that is not known.

    Raises:
        FeedbackError: Answers with batch dimensions or ties, an index that is out of
            range, or raters or names that do not fit.
    """

    datapoints: Tensor
    feedback: Kind
    feature_names: tuple[str, ...]
    raters: Tensor | None = None

    def __post_init__(self) -> None:
        """Checks that answers, names and raters fit together."""
        num_points, num_features = self.datapoints.shape
        if self.feedback.batch_shape:
            raise FeedbackError(
                f"feedback has batch shape {tuple(self.feedback.batch_shape)}; a table "
                "holds one list of answers: give one table a batch."
            )
        if isinstance(self.feedback, Comparisons) and self.feedback.ties is not None:
            raise FeedbackError(
                "feedback holds ties beside pairs, so its rows are not one list: give "
                "each a table."
            )
        self.feedback.check_indices(num_points)
        if len(self.feature_names) != num_features:
            raise FeedbackError(
                f"there are {len(self.feature_names)} feature_names for the "
                f"{num_features} columns of datapoints: give one a column."
            )
        if self.raters is not None and self.raters.shape != (len(self),):
            raise FeedbackError(
                f"raters has shape {tuple(self.raters.shape)} for {len(self)} answers: "
                "give one id an answer."
            )

    def __len__(self) -> int:
        return self.feedback.num_rows

    def subset(self, rows: Tensor) -> FeedbackData[Kind]:
        """Takes answers of rows, by indices or a mask, and their items alone.

        So a fold has only what it is about; the items are renumbered.
        """
        chosen = self.feedback.take(rows)
        indices = [getattr(chosen, name).flatten() for name in chosen.index_fields]
        items = torch.cat(indices).unique()
        # Sets of unequal size end in -1.
        items = items[items >= 0]
        places = torch.zeros(len(self.datapoints), dtype=torch.long)
        places[items] = torch.arange(len(items))
        raters = None if self.raters is None else self.raters[rows]
        moved = chosen.reindexed(places)
        return FeedbackData(self.datapoints[items], moved, self.feature_names, raters)


def pairs_and_ties(
    pairs: Tensor,
    tie: Tensor,
    counts: Tensor | None = None,
    covariates: Tensor | None = None,
) -> Comparisons:
    """Returns comparisons of `m x 2` pairs, winner first, of which some are ties.

    Each was given as often as its count says, or once. Covariates are `m x p`.
    """
    parts = [(rows, bool(rows.any())) for rows in (~tie, tie)]
    won, tied = (pairs[rows] if has_rows else None for rows, has_rows in parts)
    often: list[Tensor | None] = [
        counts[rows] if has_rows and counts is not None else None
        for rows, has_rows in parts
    ]
    if covariates is not None:
        # `Comparisons` has rows of pairs before those of ties.
        covariates = torch.cat([covariates[~tie], covariates[tie]])
    return Comparisons(
        won, tied, pair_counts=often[0], tie_counts=often[1], covariates=covariates
    )


def distinct_items(features: Tensor) -> tuple[Tensor, Tensor]:
    """Merges items with the same features, which a utility cannot tell apart.

    Returns:
        `n x d` distinct rows of `... x d` features, sorted; and for each of the given
        rows the index of its distinct row, `...`.
    """
    flat = features.reshape(-1, features.shape[-1])
    datapoints, inverse = torch.unique(flat, dim=0, return_inverse=True)
    return datapoints, inverse.reshape(features.shape[:-1])


def assign_folds(
    data: ComparisonData | FeedbackData[Any], num_folds: int, generator: Generator
) -> Tensor:
    """Gives the fold of each answer, `m` numbers from 0.

    Where raters are known, all answers of one rater fall in one fold, and folds differ
    by at most one rater; else by at most one answer. A rater's answers resemble each
    other, so that folds by answer would test on people already met; these folds ask how
    well the answers of a new person are predicted.

    Args:
        data: The answers.
        num_folds: At least 2 and at most the number of raters, or of answers where
            raters are not known.
        generator: Source of the shuffle.

    Raises:
        FeedbackError: There are fewer groups than folds.
    """
    raters = torch.arange(len(data)) if data.raters is None else data.raters
    groups = torch.unique(raters, return_inverse=True)[1]
    num_groups = int(groups.max()) + 1
    noun = "answers" if data.raters is None else "raters"
    check_num_folds(num_folds, num_groups, noun)
    fold_of_group = torch.empty(num_groups, dtype=torch.long)
    shuffled = torch.randperm(num_groups, generator=generator)
    fold_of_group[shuffled] = torch.arange(num_groups) % num_folds
    return fold_of_group[groups]
