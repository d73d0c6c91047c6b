"""Columns of what the two items of an answer have more or less of, such as length."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from botorch_pref.datasets.layout_words import (
    Reading,
    side_columns,
    words_of,
)
from botorch_pref.datasets.tables import CsvTable
from botorch_pref.errors import FeedbackError


@dataclass(frozen=True)
class Control:
    """Columns of differences, or columns of what the two items of a row have.

    Attributes:
        name: As a user writes it.
        parts: The column of how much more the first item has; or those of the first
            item and those of the second, whose numbers are added.
    """

    name: str
    parts: tuple[tuple[str, ...], ...]

    @property
    def columns(self) -> tuple[str, ...]:
        """All of them."""
        return tuple(column for part in self.parts for column in part)

    @property
    def formula(self) -> str:
        """Words for `differences` in a note to the user, by columns or their sums."""
        if len(self.parts) == 1:
            return "how much more the first item of a row has"
        if len(self.columns) == 2:
            first, second = self.columns
        else:
            first, second = (f"sum of {_parent(part[0])}" for part in self.parts)
        return f"({first} - {second}) / ({first} + {second})"

    def differences(self, table: CsvTable) -> list[float]:
        """Returns how much more the first item of each row has than the second.

        One column has it already. Of two columns it is their relative difference, from
        -1 to 1, as in the style control of Chatbot Arena (Li, Angelopoulos and Chiang
        2024): a hundred words more are much beside fifty, and little beside a thousand.
        Two zeros are equal.

        Raises:
            TableFaults: A cell has no number, or one of two columns a negative one.
        """
        if len(self.parts) == 1:
            return _numbers(table, self.columns[0])
        sums = []
        message = (
            "is negative, and a control of two columns divides by their sum: give a "
            "column of differences, the first item's less the second's"
        )
        for part in self.parts:
            values = [_numbers(table, name) for name in part]
            for name, numbers in zip(part, values, strict=True):
                negative = [row for row, number in enumerate(numbers) if number < 0]
                table.refuse(
                    name, ((row, f"{numbers[row]:g} {message}") for row in negative)
                )
            sums.append([sum(cells) for cells in zip(*values, strict=True)])
        pairs = zip(*sums, strict=True)
        return [(a - b) / (a + b) if a + b else 0.0 for a, b in pairs]


def _parent(column: str) -> str:
    """Returns the object that a value was in, as JSON has it."""
    return column.rpartition(".")[0]


def _family(pairs: Sequence[tuple[str, str]]) -> tuple[tuple[str, ...], ...]:
    """Gathers pairs of columns: all of the first item's, and all of the second's.

    ``header_count_a.h1`` and ``header_count_b.h1`` are a pair of the two objects
    ``header_count_a`` and ``header_count_b``, whose numbers a control adds. The result
    is empty unless all pairs are of the same two objects.
    """
    # Two levels of headings of one item, h1 and h2, are no pair.
    apart = [pair for pair in pairs if _parent(pair[0]) != _parent(pair[1])]
    parents = {(_parent(first), _parent(second)) for first, second in apart}
    return tuple(zip(*apart, strict=True)) if len(parents) == 1 else ()


def _numbers(table: CsvTable, column: str) -> list[float]:
    """Returns the numbers of a column, and refuses cells without one."""
    numbers = table.numbers(column)
    missing = (row for row, number in enumerate(numbers) if number is None)
    message = "has nothing: write a number, or leave the row out"
    table.refuse(column, ((row, message) for row in missing))
    return [number for number in numbers if number is not None]


def control_of(name: str, table: CsvTable, reading: Reading) -> Control:
    """Finds the columns of a control: two of both sides, or one of differences.

    ``length``, or the name of either column, means ``length_a`` and ``length_b``. Where
    there are no such two, it is the column of differences with that name, or the only
    two columns with the word among others, as ``text_length_a`` and ``text_length_b``.
    Columns within ``header_count_a`` and ``header_count_b``, as ``header_count_a.h1``,
    are added.

    Raises:
        FeedbackError: There are no such columns, several, or more than two items a row.
    """
    if not reading.sides:
        raise FeedbackError(
            f"{table.path} is read as {reading.description}, and --control compares "
            "the two items of a row: leave it out"
        )
    words = words_of(name)
    # The words of each pair of columns but for those of the sides.
    stems = {
        (first, second): stem
        for stem, first, second, _ in side_columns(table.header, reading.sides)
    }
    pairs = [pair for pair, stem in stems.items() if name in pair or stem == words]
    if not pairs and name in table.header:
        return Control(name, ((name,),))
    pairs = pairs or [pair for pair, stem in stems.items() if {*words} <= {*stem}]
    if len(pairs) == 1:
        return Control(name, tuple((column,) for column in pairs[0]))
    if family := _family(pairs):
        return Control(name, family)
    first, second = reading.sides[0]
    if pairs:
        listing = " and ".join(f"{a}, {b}" for a, b in pairs[:3])
        raise FeedbackError(
            f"--control {name} may be {listing}: name one of these columns"
        )
    raise FeedbackError(
        f"{table.path} has no columns for --control {name}: name two of them like "
        f"{name}_{first} and {name}_{second}, or one that has how much more the first "
        "item of a row has than the second"
    )
