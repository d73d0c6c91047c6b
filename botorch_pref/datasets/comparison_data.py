"""Tables of comparisons: features of the winners and of the losers."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from botorch_pref.errors import FeedbackError
from botorch_pref.feedback import Comparisons


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

        Items with exactly the same features are one item: a utility is a function of
        the features. A pair of two such items therefore says nothing and is refused.

        Args:
            winners: `m x d` features of the winners.
            losers: `m x d` features of the losers.
            feature_names: `d` names.
            raters: `m` long ids, if known.
            tie: `m` bools, true where neither won.

        Returns:
            The comparisons over the distinct items.

        Raises:
            FeedbackError: If a feature is not finite or a winner equals its loser; the
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
        datapoints, inverse = torch.unique(
            torch.cat([winners, losers]), dim=0, return_inverse=True
        )
        comparisons = inverse.reshape(2, -1).T.contiguous()
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
        pairs, ties = self.comparisons[self.decided], self.comparisons[~self.decided]
        return Comparisons(
            pairs if len(pairs) else None, ties=ties if len(ties) else None
        )

    @property
    def winners(self) -> Tensor:
        """`m x d` features of the winners, or of the first of two equal ones."""
        return self.datapoints[self.comparisons[:, 0]]

    @property
    def losers(self) -> Tensor:
        """`m x d` features of the losers, or of the second of two equal ones."""
        return self.datapoints[self.comparisons[:, 1]]

    def subset(self, rows: Tensor) -> ComparisonData:
        """The comparisons of some rows, over the items that they mention.

        Args:
            rows: Long indices of comparisons, or a bool mask of length `m`.

        Returns:
            The smaller table; items that no row mentions are left out.
        """
        kept, inverse = torch.unique(self.comparisons[rows], return_inverse=True)
        raters = None if self.raters is None else self.raters[rows]
        tie = None if self.tie is None else self.tie[rows]
        return ComparisonData(
            self.datapoints[kept], inverse, self.feature_names, raters, tie
        )


def _refuse_rows(bad: Tensor, what: str) -> None:
    if bad.any():
        row = int(bad.nonzero()[0])
        raise FeedbackError(f"comparison {row} {what} ({int(bad.sum())} such rows)")
