"""Items of a table and answers about them by their ids."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from botorch_pref.datasets.data import pairs_and_ties
from botorch_pref.errors import FeedbackError
from botorch_pref.feedback import Comparisons

if TYPE_CHECKING:
    from pandas import DataFrame, Series

WINNER, LOSER, TIE, RATER = "winner", "loser", "tie", "rater"
"""The columns of a table of answers."""


@dataclass(frozen=True, eq=False)
class ItemTable:
    """Items with ids and features, as models take them.

    Attributes:
        names: The ids of the ``n`` items.
        points: ``n x d``, float64, each feature from 0 to 1.
        feature_names: ``d`` names.

    Raises:
        FeedbackError: An id is there twice, or names and points do not fit.
    """

    names: tuple[Hashable, ...]
    points: Tensor
    feature_names: tuple[str, ...]

    def __post_init__(self) -> None:
        """Checks that ids, points and names of features fit."""
        if len(set(self.names)) < len(self.names):
            twice = next(n for n in self.names if self.names.count(n) > 1)
            raise FeedbackError(f"The item {twice!r} is there twice; name each once.")
        shape = (len(self.names), len(self.feature_names))
        if self.points.shape != shape:
            raise FeedbackError(
                f"points is {tuple(self.points.shape)} for {shape[0]} names and "
                f"{shape[1]} feature_names; give a row a name and a column a feature."
            )

    @classmethod
    def from_frame(cls, items: DataFrame) -> ItemTable:
        """Items of a pandas table, with its index for ids.

        Numbers are scaled from 0 to 1 over the items; true and false are 1 and 0;
        ordered categories are scaled by their places; texts and other categories are
        one-hot. A column that is the same for all items is left out. Without any
        column, the ids are one-hot: items are known by their answers alone.

        Args:
            items: A row each item, with strings or numbers for an index.

        Raises:
            FeedbackError: An id that is missing or there twice, or a column with a gap
                or of another kind.
        """
        if items.index.hasnans:
            raise FeedbackError("An item has no id; give each row of the index one.")
        names = tuple(items.index.tolist())
        features: dict[str, list[float]] = {}
        for column in items.columns:
            features |= _features(items[column])
        if not items.shape[1]:
            for name in names:
                features[str(name)] = [float(name == other) for other in names]
        columns = [torch.tensor(c, dtype=torch.float64) for c in features.values()]
        points = torch.stack(columns, -1) if columns else torch.zeros(len(names), 0)
        return cls(names, points, tuple(features))

    def places(self, names: Sequence[Hashable]) -> Tensor:
        """Rows of items in `points`.

        Args:
            names: Their ids.

        Raises:
            FeedbackError: There is no such item.
        """
        place = {name: i for i, name in enumerate(self.names)}
        if unknown := [name for name in names if name not in place]:
            raise FeedbackError(
                f"There is no item {unknown[0]!r}; give ids as the table of items has "
                "them, as texts or as numbers."
            )
        return torch.tensor([place[name] for name in names], dtype=torch.long)

    def comparisons(self, answers: DataFrame) -> Comparisons:
        """Answers about `points`, whoever gave them.

        Args:
            answers: A row each answer, with the ids ``winner`` and ``loser``. Where
                ``tie`` is true the two are in any order. Other columns are not read.

        Raises:
            FeedbackError: A column or an item is missing, or an item meets itself.
        """
        winners, losers = (
            self.places(_column(answers, name).tolist()) for name in (WINNER, LOSER)
        )
        return pairs_and_ties(torch.stack([winners, losers], -1), _ties(answers))

    def comparisons_by_rater(
        self, answers: DataFrame
    ) -> tuple[Tensor, Comparisons, tuple[Hashable, ...]]:
        """Answers about items as raters see them, for `rater_covar_module`.

        Args:
            answers: See `comparisons`, with the names ``rater``.

        Returns:
            Points of the items that each rater judged, ``k x (d + 1)`` with the number
            of the rater in the last column; the answers about them; and the names of
            the raters in the order of their numbers.

        Raises:
            FeedbackError: See `comparisons`; or an answer has no rater.
        """
        raters = _column(answers, RATER)
        if raters.isna().any():
            row = answers.index[int(raters.isna().argmax())]
            raise FeedbackError(f"The answer {row!r} has no rater; name each.")
        names = tuple(sorted(set(raters.tolist()), key=str))
        number = {name: i for i, name in enumerate(names)}
        said = torch.tensor([number[name] for name in raters.tolist()])
        items = [self.places(_column(answers, n).tolist()) for n in (WINNER, LOSER)]
        seen = torch.stack([torch.stack([i, said], -1) for i in items], -2)
        distinct, pairs = torch.unique(seen.flatten(0, 1), dim=0, return_inverse=True)
        item, rater = distinct.unbind(-1)
        points = torch.cat([self.points[item], rater.to(self.points).unsqueeze(-1)], -1)
        return points, pairs_and_ties(pairs.view(-1, 2), _ties(answers)), names

    def answers(self, comparisons: Comparisons) -> DataFrame:
        """Table of answers about `points`, as `comparisons` reads it.

        Args:
            comparisons: Without batch dimensions; the ties come last. An answer with a
                count is as many rows.

        Raises:
            FeedbackError: They are about other points.
        """
        from pandas import DataFrame

        comparisons.check_indices(len(self.names))
        rows = [
            (self.names[winner], self.names[loser], tie)
            for block, tie in ((comparisons.pairs, False), (comparisons.ties, True))
            if block is not None
            for winner, loser in block.tolist()
        ]
        counts = comparisons.answer_counts.tolist()
        told = [row for row, n in zip(rows, counts, strict=True) for _ in range(n)]
        return DataFrame(told, columns=[WINNER, LOSER, TIE])


def _column(answers: DataFrame, name: str) -> Series[Any]:
    if name not in answers.columns:
        raise FeedbackError(
            f"The answers have no column {name!r}, but {[*answers.columns]}; add it."
        )
    return answers[name]


def _ties(answers: DataFrame) -> Tensor:
    """Truth of whether answers are ties, ``m``."""
    if TIE not in answers.columns:
        return torch.zeros(len(answers), dtype=torch.bool)
    said = answers[TIE].tolist()
    for label, tie in zip(answers.index, said, strict=True):
        if tie not in (True, False):
            raise FeedbackError(f"The answer {label!r} has the tie {tie!r}; say True.")
    return torch.tensor([bool(tie) for tie in said])


def category_features(name: str, values: Sequence[Any]) -> dict[str, list[float]]:
    """One-hot features ``name=level`` of a column; none where all values are equal."""
    levels = sorted(set(values), key=str)
    if len(levels) == 1:
        return {}
    return {f"{name}={lv}": [float(v == lv) for v in values] for lv in levels}


def _features(column: Series[Any]) -> dict[str, list[float]]:
    """Features of a column, by name."""
    from pandas import CategoricalDtype
    from pandas.api import types

    name = str(column.name)
    if column.isna().any():
        row = column.index[int(column.isna().argmax())]
        raise FeedbackError(f"The item {row!r} has no {name}; fill it in.")
    values, dtype = column.tolist(), column.dtype
    if isinstance(dtype, CategoricalDtype) and dtype.ordered:
        order = dtype.categories.tolist()
        values = [order.index(value) for value in values]
    elif not types.is_numeric_dtype(column) or isinstance(dtype, CategoricalDtype):
        if not all(isinstance(value, str | int | bool) for value in values):
            raise FeedbackError(
                f"The column {name} of the items holds {dtype}; give numbers, texts or "
                "categories, and leave out what is no feature."
            )
        return category_features(name, values)
    numbers = [float(value) for value in values]
    lower, upper = min(numbers), max(numbers)
    if not upper - lower < torch.inf:
        raise FeedbackError(f"The column {name} of the items is not finite.")
    if lower == upper:
        return {}
    return {name: [(number - lower) / (upper - lower) for number in numbers]}
