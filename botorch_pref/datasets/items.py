"""Items with ids and features, and answers that name them, in tables of pandas."""

from __future__ import annotations

import re
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass
from numbers import Real
from typing import TYPE_CHECKING, Any
from unicodedata import category, normalize

import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from botorch_pref.datasets.data import distinct_items, pairs_and_ties
from botorch_pref.errors import FeedbackError
from botorch_pref.feedback import Choices, Comparisons, Feedback
from botorch_pref.numerics.argument_checks import check_kind

if TYPE_CHECKING:
    from pandas import DataFrame, Series

WINNER, LOSER, TIE, RATER, COUNT = "winner", "loser", "tie", "rater", "count"
HOME, CHOICE, CATEGORY = "home", "choice", "category"
ITEM, RATING = "item", "rating"
"""The columns of a table of answers."""

CONTROL = "control "
"""Begins the name of a column that says how much more the winner has of something."""

MOST_COUNTED = 2**53
"""Double precision, in which counts are multiplied, has no larger whole numbers."""


@dataclass(frozen=True, eq=False)
class ItemTable:
    """Items with ids and features, as models take them.

    Attributes:
        names: The ids of the ``n`` items.
        points: ``n x d``, float64, each of the ``feature_names`` from 0 to 1.

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
        """Returns items of a pandas table, with its index for ids.

        Numbers are scaled from 0 to 1 over the items; true and false are 1 and 0;
        ordered categories are scaled by their places; texts and other categories are
        one-hot. A column that is the same for all items is left out. Without any
        column, the ids are one-hot: items are known by their answers alone.

        Raises:
            FeedbackError: An id that is missing or there twice, or a column with a gap,
                of another kind or without a name.
        """
        if message := unread_index(items.columns):
            raise FeedbackError(message)
        columns = [*map(str, items.columns)]
        if twice := [name for name in columns if columns.count(name) > 1]:
            raise FeedbackError(
                f"The items have the column {twice[0]!r} twice; drop one."
            )
        if items.index.nlevels > 1:
            raise FeedbackError(
                f"The index of the items has {items.index.nlevels} levels; join them "
                "to one id an item."
            )
        if items.index.hasnans:
            raise FeedbackError("An item has no id; give each row of the index one.")
        names = tuple(map(trimmed, items.index.tolist()))
        if not items.shape[1]:
            # Not by `category_features`, which refuses the ids 1 and "1" in one table.
            ids = torch.eye(len(names), dtype=torch.float64)
            return cls(names, ids, tuple(map(str, names)))
        features: dict[str, list[float]] = {}
        for column in items.columns:
            encoded = _features(items[column])
            if shared_names := [*(encoded.keys() & features.keys())]:
                raise FeedbackError(
                    f"Two columns of the items make the feature {shared_names[0]!r}; "
                    f"rename the column {column!r}."
                )
            features |= encoded
        values = [torch.tensor(c, dtype=torch.float64) for c in features.values()]
        points = torch.stack(values, -1) if values else torch.zeros(len(names), 0)
        return cls(names, points, tuple(features))

    @classmethod
    def from_answers(cls, answers: DataFrame) -> ItemTable:
        """Lists items that answers name, in the order of their texts, by ids alone.

        Args:
            answers: With the ids ``winner`` and ``loser``.

        Raises:
            FeedbackError: A column or an id is missing, or there is no answer.
        """
        from pandas import DataFrame

        answers = tidy_answers(answers)
        sides = (_column(answers, side).tolist() for side in (WINNER, LOSER))
        named = {name for side in sides for name in side}
        if not named:
            raise FeedbackError("There are no answers, which name items; give some.")
        return cls.from_frame(DataFrame(index=sorted(named, key=str)))

    @property
    def is_ids(self) -> bool:
        """Whether the points are nothing but ids, one-hot."""
        return self.feature_names == tuple(map(str, self.names))

    @property
    def has_features(self) -> bool:
        """Whether items differ in anything but their ids."""
        return bool(self.feature_names) and not self.is_ids

    def with_ids(self) -> ItemTable:
        """Returns the items with their ids, one-hot, behind their features.

        A kernel of features plus a linear one of the last ``n`` columns, which is the
        identity, gives each item something of its own beside what its features say:
        items with the same features then differ by their answers.
        """
        ids = torch.eye(len(self.names), dtype=self.points.dtype)
        points = torch.cat([self.points, ids], dim=-1)
        features = *self.feature_names, *map(str, self.names)
        return ItemTable(self.names, points, features)

    def places(self, names: Sequence[Hashable]) -> Tensor:
        """Returns rows of items in `points`, by their ids.

        Raises:
            FeedbackError: There is no such item.
        """
        place = {name: i for i, name in enumerate(self.names)}
        if unknown := [name for name in names if name not in place]:
            raise FeedbackError(self._no_item(unknown[0]))
        return torch.tensor([place[name] for name in names], dtype=torch.long)

    def _no_item(self, name: Hashable) -> str:
        """Writes the error that no item has a name, and which one looks like it."""
        alike = [item for item in self.names if as_read(item) == as_read(name)]
        if not alike:
            return (
                f"There is no item {name!r}; give ids as the table of items has them, "
                "as texts or as numbers."
            )
        # Their codes, for some differ in nothing that can be seen.
        return (
            f"There is no item {name!a}, but {alike[0]!a}, which differs in "
            "type, capitals, spaces, zeros or coding of letters; write one for both."
        )

    def comparisons(self, answers: DataFrame) -> Comparisons:
        """Returns answers about `points`, whoever gave them.

        Args:
            answers: A row each answer, with the ids ``winner`` and ``loser``. Where
                ``tie`` is true the two are in any order; ``count`` says how often the
                answer was given, once where it says nothing; ``home`` has the id of
                the one that was at home or shown first, and nothing where neither was.
                It becomes a covariate: 1 for a winner at home, -1 for a loser. So do
                columns such as ``control length``: how much more of it the winner has
                than the loser. Other columns are not read, nor are rows without any
                cell, and white space around names.

        Raises:
            FeedbackError: A column or an item is missing, an item meets itself, or
                another one was at home.
        """
        answers = tidy_answers(answers)
        return _comparisons(self._compared(answers), answers)

    def _compared(self, answers: DataFrame) -> Tensor:
        """Returns the rows in `points` of each answer's items, ``m x 2``, winner first.

        It refuses answers about items that are not here, or about one and itself.
        """
        item_names = set(self.names)
        for column in (WINNER, LOSER):
            names = _column(answers, column)
            if item_names.issuperset(names):
                continue
            row, name = next((r, n) for r, n in names.items() if n not in item_names)
            raise FeedbackError(
                f"The {column} of the answer {row!r}: {self._no_item(name)}"
            )
        sides = [self.places(answers[column].tolist()) for column in (WINNER, LOSER)]
        pairs = torch.stack(sides, dim=-1)
        if (itself := pairs[:, 0] == pairs[:, 1]).any():
            row = int(itself.nonzero()[0])
            raise FeedbackError(
                f"The answer {answers.index.tolist()[row]!r} compares "
                f"{answers[WINNER].iloc[row]!r} with itself; drop it."
            )
        return pairs

    def comparisons_by_rater(
        self, answers: DataFrame
    ) -> tuple[Tensor, Comparisons, tuple[Hashable, ...]]:
        """Returns answers about items of one rater each, for `rater_covar_module`.

        The answers are as in `comparisons`, with the raters' names in ``rater``.

        Returns:
            Points of the items that each rater judged, ``k x (d + 1)`` with the number
            of the rater in the last column; the answers about them; and the names of
            the raters in the order of their numbers.
        """
        answers = tidy_answers(answers)
        names = group_names(answers, RATER)
        points, pairs = self._of_groups(self._compared(answers), answers)
        return points, _comparisons(pairs, answers), names

    def _of_groups(self, pairs: Tensor, answers: DataFrame) -> tuple[Tensor, Tensor]:
        """Makes a point of each item in each category and for each rater that answered.

        Args:
            pairs: Rows in `points` of each answer's items, ``m x 2``.
            answers: With the columns ``category``, ``rater`` or both.

        Returns:
            Points with the features of the item, then the numbers of the category and
            of the rater in the order of `group_names`; and the rows of each answer's
            two points, ``m x 2``, winner first.
        """
        columns = [pairs]
        # Kernels take the rater for the last column.
        for name in (CATEGORY, RATER):
            if name in answers.columns:
                place = {group: i for i, group in enumerate(group_names(answers, name))}
                numbers = torch.tensor([place[group] for group in answers[name]])
                columns.append(numbers.unsqueeze(-1).expand_as(pairs))
        distinct, pairs = distinct_items(torch.stack(columns, dim=-1))
        points = torch.cat([self.points[distinct[:, 0]], distinct[:, 1:]], dim=-1)
        return points, pairs

    def feedback(
        self, answers: DataFrame
    ) -> tuple[Tensor, tuple[Feedback, ...], tuple[Hashable, ...]]:
        """Makes duels and choices about items, of raters and categories if named.

        Rows of ``answers`` with the same ``choice`` are one choice of their ``winner``
        from it and their losers; those without any are duels, see `comparisons`.

        Returns:
            `points`, with the numbers of the category and of the rater in the last
            columns where answers name some; a container of each kind; and the names of
            the raters, none where no answer names one.

        Raises:
            FeedbackError: As `comparisons`; or a choice with two winners, counts or
                raters, with a tie, or with somebody at home.
        """
        answers = tidy_answers(answers)
        raters: tuple[Hashable, ...] = ()
        points, pairs = self.points, self._compared(answers)
        if {RATER, CATEGORY} & {*answers.columns}:
            points, pairs = self._of_groups(pairs, answers)
        if RATER in answers.columns:
            raters = group_names(answers, RATER)
        if CHOICE not in answers.columns:
            return points, (_comparisons(pairs, answers),), raters
        is_duel = torch.tensor(answers[CHOICE].isna().tolist())
        blocks: list[Feedback] = []
        if is_duel.any():
            duels = answers[answers[CHOICE].isna()]
            blocks.append(_comparisons(pairs[is_duel], duels))
        if not is_duel.all():
            choices = answers[answers[CHOICE].notna()]
            blocks.append(_choices(pairs[~is_duel], choices))
        return points, tuple(blocks), raters

    def answers(self, comparisons: Comparisons) -> DataFrame:
        """Returns the table of answers about `points`, as `comparisons` reads it.

        Args:
            comparisons: Without batch dimensions; the ties come last. An answer with a
                count is as many rows. Covariates are left out.

        Raises:
            FeedbackError: They are about other points.
        """
        from pandas import DataFrame

        comparisons.check_indices(len(self.names))
        single = comparisons.repeated(int(comparisons.answer_counts.sum()))
        rows = [
            (*(self.names[item] for item in pair), tie)
            for block, tie in ((single.pairs, False), (single.ties, True))
            for pair in (() if block is None else block.tolist())
        ]
        return DataFrame(rows, columns=[WINNER, LOSER, TIE])


def _comparisons(pairs: Tensor, answers: DataFrame) -> Comparisons:
    """Returns answers about `m x 2` pairs of points, winners first."""
    return pairs_and_ties(pairs, _ties(answers), _counts(answers), _covariates(answers))


def _choices(pairs: Tensor, answers: DataFrame) -> Choices:
    """Merges rows into choices: those with one ``choice`` are of one set.

    Args:
        pairs: The points of the winner and one loser of each row, ``m x 2``.
        answers: The same rows; equal choices become one with the sum of their counts.
    """
    from pandas import factorize

    if HOME in answers.columns and answers[HOME].notna().any():
        raise FeedbackError(
            "A choice from several has somebody at home; leave the column home out."
        )
    if controls := control_columns(answers):
        raise FeedbackError(
            f"A choice from several has {controls[0]!r}, which compares two items; "
            "leave the column out."
        )
    ties, counts = _ties(answers), _counts(answers)
    codes, names = factorize(answers[CHOICE])
    choice = torch.tensor(codes)
    # The first row of each choice, with which the others have to agree.
    first = torch.full((len(names),), len(codes))
    first.scatter_reduce_(0, choice, torch.arange(len(codes)), "amin")
    consistent = pairs[:, 0] == pairs[first[choice], 0]
    if counts is not None:
        consistent &= counts == counts[first[choice]]
    if not bool((consistent & ~ties).all()):
        row = int((~consistent | ties).nonzero()[0])
        raise FeedbackError(
            f"The answer {answers.index.tolist()[row]!r} of the choice "
            f"{answers[CHOICE].tolist()[row]!r} is a tie, or has another winner, rater "
            "or count than the first; give all rows of a choice the same."
        )
    order = choice.argsort(stable=True)
    losers = pairs[order, 1].split(choice.bincount().tolist())
    # Sorted, so that a set in two orders is one.
    sets = [
        torch.cat([winner, beaten.sort().values])
        for winner, beaten in zip(pairs[first, :1], losers, strict=True)
    ]
    padded = pad_sequence(sets, batch_first=True, padding_value=-1)
    distinct, place = padded.unique(dim=0, return_inverse=True)
    number = (
        torch.ones(len(names), dtype=torch.long) if counts is None else counts[first]
    )
    total = torch.zeros(len(distinct), dtype=torch.long).index_add_(0, place, number)
    return Choices(distinct, distinct[:, 0], counts=total)


def group_names(answers: DataFrame, column: str) -> tuple[Hashable, ...]:
    """Lists the raters or categories of answers in the order of their numbers."""
    return tuple(sorted({*_column(answers, column)}, key=str))


def answer_totals(answers: DataFrame, number: Series[Any]) -> Series[float]:
    """Sums a ``number`` of each answer over the answers about each item, by name.

    So a column of counts becomes how many answers each item has. A choice from several
    has a row for each loser, and counts once for its winner.
    """
    once = number
    if CHOICE in answers.columns:
        again = answers[CHOICE].notna() & answers.duplicated([WINNER, CHOICE])
        once = number.where(~again, 0)
    won = once.groupby(answers[WINNER]).sum()
    return won.add(number.groupby(answers[LOSER]).sum(), fill_value=0)


def trimmed(name: Any) -> Any:
    """Returns a name without white space around it, which nobody sees."""
    return name.strip() if isinstance(name, str) else name


def tidy_answers(answers: DataFrame) -> DataFrame:
    """Tidies a user's table of answers, as the reading of a file does.

    Rows without any cell are left out, names lose white space around them, and a count
    that is missing is 1. Pandas makes floats of whole numbers with gaps, and counts
    become whole again. The user's table stays as it is.
    """
    from pandas import DataFrame

    check_kind("answers", answers, DataFrame)
    answers = answers.dropna(how="all")
    tidy: dict[str, list[Any]] = {}
    for name in {WINNER, LOSER, RATER, CATEGORY, HOME}.intersection(answers.columns):
        cells = answers[name].tolist()
        trim = [trimmed(cell) for cell in cells]
        if any(
            cell is not unchanged for cell, unchanged in zip(trim, cells, strict=True)
        ):
            tidy[name] = trim
    if COUNT in answers.columns and answers[COUNT].dtype.kind == "f":
        counts = answers[COUNT].fillna(1)
        if (counts % 1 == 0).all():
            tidy[COUNT] = [int(count) for count in counts]
    return answers.assign(**tidy) if tidy else answers


def _column(answers: DataFrame, name: str) -> Series[Any]:
    """Returns a column of answers, and refuses a table without it or a gap in it."""
    if name not in answers.columns:
        raise FeedbackError(
            f"The answers have no column {name!r}, but {[*answers.columns]}; add it."
        )
    column = answers[name]
    if column.isna().any():
        row = answers.index[int(column.isna().argmax())]
        raise FeedbackError(f"The answer {row!r} has no {name}; name it or drop it.")
    return column


def _ties(answers: DataFrame) -> Tensor:
    """Tells of each answer whether it is a tie, ``m`` bools."""
    if TIE not in answers.columns:
        return torch.zeros(len(answers), dtype=torch.bool)
    values = answers[TIE].tolist()
    if answers[TIE].dtype == bool:
        return torch.tensor(values)
    gaps = answers[TIE].isna()
    for label, tie, gap in zip(answers.index, values, gaps, strict=True):
        # Gaps first: to compare pandas.NA with a truth is an error.
        if gap or tie not in (True, False):
            raise FeedbackError(
                f"The answer {label!r} has the tie {tie!r}; say True or False."
            )
    return torch.tensor([bool(tie) for tie in values])


def _counts(answers: DataFrame) -> Tensor | None:
    """Gives how often answers were given, ``m``; None where the table does not say."""
    if COUNT not in answers.columns:
        return None
    values = answers[COUNT].tolist()
    for label, count in zip(answers.index, values, strict=True):
        if not isinstance(count, int) or not 1 <= count <= MOST_COUNTED:
            raise FeedbackError(
                f"The answer {label!r} has the count {count!r}; give a whole number "
                f"from 1 to {MOST_COUNTED}."
            )
    return torch.tensor(values)


def control_columns(answers: DataFrame) -> list[str]:
    """Lists the columns of controls, see `CONTROL`."""
    return [name for name in map(str, answers.columns) if name.startswith(CONTROL)]


def _covariates(answers: DataFrame) -> Tensor | None:
    """Returns covariates of answers, ``m x p``; None without any.

    They are what the winner has more than the loser: 1, 0 or -1 for being at home, in
    the first column if answers have a column ``home``, then the controls.
    """
    columns = [_at_home(answers)] if HOME in answers.columns else []
    for name in control_columns(answers):
        values = torch.tensor(answers[name].to_numpy(float, na_value=torch.nan))
        if not values.isfinite().all():
            row = int((~values.isfinite()).nonzero()[0])
            raise FeedbackError(
                f"The answer {answers.index.tolist()[row]!r} has the {name} "
                f"{float(values[row])}; give a finite number, or drop the answer."
            )
        columns.append(values.unsqueeze(-1))
    return torch.cat(columns, dim=-1) if columns else None


def _at_home(answers: DataFrame) -> Tensor:
    """Returns 1 where a winner was at home, -1 where a loser was, else 0, ``m x 1``."""
    # One by one: pandas compares neither gaps of nullable columns nor categories.
    sides = (answers[name].tolist() for name in (HOME, WINNER, LOSER))
    rows = zip(answers.index, answers[HOME].notna(), *sides, strict=True)
    signs = []
    for label, has_home, home, *contestants in rows:
        if has_home and home not in contestants:
            raise FeedbackError(
                f"The answer {label!r} has {home!r} at home, which is "
                "neither its winner nor its loser; name one of them, or None."
            )
        signs.append(1.0 - 2.0 * contestants.index(home) if has_home else 0.0)
    return torch.tensor(signs, dtype=torch.double).unsqueeze(-1)


def unread_index(columns: Iterable[Hashable]) -> str:
    """Writes the message that ids were read as a feature; empty where they were not.

    An index without a name is written as a column that has none.
    """
    unnamed = [name for name in map(str, columns) if name.startswith("Unnamed: ")]
    if not unnamed:
        return ""
    return (
        f"The table has the column {unnamed[0]!r}, which pandas makes of one without a "
        "name: drop it, or read the file with pandas.read_csv(path, index_col=0) where "
        "it has the ids."
    )


def category_features(name: str, values: Sequence[Any]) -> dict[str, list[float]]:
    """Makes one-hot features ``name=level``; none where all values are equal."""
    levels = sorted(set(values), key=str)
    if len(levels) == 1:
        return {}
    texts = [*map(str, levels)]
    if twice := [text for text in texts if texts.count(text) > 1]:
        raise FeedbackError(
            f"The column {name} has {twice[0]!r} in two types, as 1 and '1' are; write "
            "all values in one."
        )
    return {f"{name}={lv}": [float(v == lv) for v in values] for lv in levels}


def _features(column: Series[Any]) -> dict[str, list[float]]:
    """Makes features from 0 to 1 of a column of items, by name.

    Numbers and ordered categories become one feature, texts and other categories one
    for each level, one-hot; a column that is the same for all items becomes none.
    """
    from pandas import CategoricalDtype

    name = str(column.name)
    if column.isna().any():
        row = column.index[int(column.isna().argmax())]
        raise FeedbackError(f"The item {row!r} has no {name}; fill it in.")
    values, dtype = column.tolist(), column.dtype
    is_category = isinstance(dtype, CategoricalDtype)
    if is_category and dtype.ordered:
        order = dtype.categories.tolist()
        values = [order.index(value) for value in values]
    elif is_category or not all(isinstance(value, Real) for value in values):
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


def as_read(name: Hashable) -> str:
    """Returns a name without what readers overlook: equal for names that look alike.

    They overlook capitals, invisible characters, repeated spaces and the coding of
    letters. A whole number loses its leading zeros and a decimal part of zeros: pandas
    writes 25 as 25.0 where its column has gaps.
    """
    text = normalize("NFKC", str(name)).casefold()
    # Controls, and formats: copies from web pages have spaces without a width.
    characters = (
        character
        for character in text
        if character.isspace() or category(character) not in ("Cc", "Cf")
    )
    look = " ".join("".join(characters).split())
    integer = re.fullmatch(r"0*([0-9]+)(\.0+)?", look)
    return integer[1] if integer else look


def names_alike(names: Iterable[Hashable]) -> list[list[Hashable]]:
    """Returns groups of names that look alike, see `as_read`."""
    alike: dict[str, list[Hashable]] = {}
    for name in names:
        alike.setdefault(as_read(name), []).append(name)
    return [group for group in alike.values() if len(group) > 1]
