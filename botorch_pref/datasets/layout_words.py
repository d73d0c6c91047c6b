"""Answers and readings of layouts, and the words of columns that tell layouts."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, fields
from itertools import takewhile
from string import ascii_lowercase

from botorch_pref.datasets.tables import MISSING, UNNAMED, CsvTable

FIRST, SECOND, EQUAL, BOTH_BAD, SILENT = "first", "second", "tie", "both_bad", ""
"""Outcomes of an answer about two items; SILENT is no answer."""

EQUAL_WORDS = {"tie", "tied", "draw", "drawn", "equal", "same", "0.5"}
EQUAL_WORDS |= {"no preference", "no difference", "both", "neither", "both good"}
EQUAL_WORDS |= {"[[c]]"}
BAD_WORDS = {"tie (bothbad)", "tie(bothbad)", "bothbad", "both_bad", "both bad"}
ABSTAINED_WORDS = {"ignore", "skip", "skipped", "invalid", "error", "abstain"}
ABSTAINED_WORDS |= {
    "abstained",
    "unknown",
    "undecided",
    "unclear",
    "not sure",
    "no contest",
}
UNPLACED_WORDS = {"nc", "dnf", "dns", "dnq", "dq", "dsq", "wd", "ret"}
"""Texts for who has no place: not classified, did not finish and so on."""

SIDES = (
    *(("a", "b"), ("1", "2"), ("left", "right"), ("first", "second"), ("x", "y")),
    *(("home", "away"), ("white", "black"), ("one", "two"), ("i", "j"), ("0", "1")),
    *(("row", "column"), ("host", "guest"), ("reference", "candidate")),
    *(("home", "visitor"), ("attacker", "defender"), ("red", "blue"), ("r", "b")),
)
"""Words by which the names of two columns differ that are about two items."""

DECIDED = (
    *(("winner", "loser"), ("won", "lost"), ("better", "worse"), ("win", "lose")),
    *(("chosen", "rejected"), ("preferred", "rejected"), ("preferred", "other")),
    ("w", "l"),
)
"""The same, where they say who won."""

UNSURE_SIDES = {("r", "b"), ("w", "l"), ("red", "blue")}
"""Sides that name no items by themselves: numbers of wins and losses are W and L."""

ITEM_WORDS = (
    *("name", "model", "item", "team", "player", "option", "product", "system"),
    *("stimulus", "candidate", "method", "alternative", "generator", "condition"),
    *("image", "driver", "fighter", "object", "sample", "treatment", "movie", "film"),
    *("song", "book", "title", "entry", "project", "provider", "uri", "id"),
)
"""Words of columns that name items, the likeliest first."""

TEXT_WORDS = (
    *("response", "output", "answer", "completion", "generation"),
    *("responses", "outputs", "answers", "completions", "generations"),
)
"""Words of columns with what items wrote, of which two may be compared."""

OUTCOME_WORDS = (
    *("winner", "preferred", "preference", "better", "chosen", "choice", "outcome"),
    *("result", "win", "vote", "selected", "label", "judgment", "judgement"),
    *("verdict", "answer", "pref", "decision", "selection", "ftr"),
)
SCORE_WORDS = ("score", "goals", "points", "pts", "ft", "rating", "result", "runs")
COUNT_WORDS = ("count", "n", "freq", "frequency", "weight", "value", "times", "votes")
WIN_WORDS = {"win", "wins", "won"}
LIKING_WORDS = ("liking", "hedonic", "acceptance", "rating", "likert")
"""Words of columns that rate samples, whose position is that in which it was served."""
RANK_WORDS = ("rank", "ranking", "position", "place", "pos", "placing")
PERSON_WORDS = (
    *("assessor", "judge", "rater", "panelist", "subject", "participant"),
    *("respondent", "user", "voter", "worker", "annotator", "juror", "consumer"),
)
SESSION_WORDS = (
    *PERSON_WORDS,
    *("session", "race", "trial", "set", "question", "block", "ballot", "voting"),
)
"""Words of columns that say something, the likeliest first."""


@dataclass(frozen=True)
class NamedColumns:
    """Columns that a user names, where a header does not say it by itself.

    Attributes:
        first: Of the first of two items, or of the items of a long table.
        second: Of the second of two items.
        winner: That says who won.
        tie: Of truths: which answers are ties.
        count: How often an answer was given.
        rater: Who answered, or the category of a question.
        order: Of ranks, 1 for the best.
        rating: Of ratings, larger ones being better.
        first_won: The cell of ``winner`` where the first of two items won; no column.
    """

    first: str | None = None
    second: str | None = None
    winner: str | None = None
    tie: str | None = None
    count: str | None = None
    rater: str | None = None
    order: str | None = None
    rating: str | None = None
    first_won: str | None = None

    def columns(self) -> list[str]:
        """Returns the columns that are named."""
        options = (option.name for option in fields(self))
        names = (getattr(self, name) for name in options if name != "first_won")
        return [name for name in names if name is not None]

    def check(self, table: CsvTable) -> None:
        """Checks that a table has the columns."""
        for name in self.columns():
            table.cells(name)


@dataclass
class Answers:
    """Answers as rows: who won, who lost, whether they are equal, and the table's row.

    Rows with one ``choice`` are one choice of their winner from all of them. A choice
    of None is a duel. The ``sign`` is 1 where the winner, or an end of a tie, stands
    first in the table's row, and -1 where it stands second.
    """

    winner: list[str] = field(default_factory=list)
    loser: list[str] = field(default_factory=list)
    tie: list[bool] = field(default_factory=list)
    both_bad: list[bool] = field(default_factory=list)
    count: list[int] = field(default_factory=list)
    choice: list[str | None] = field(default_factory=list)
    sign: list[int] = field(default_factory=list)
    row: list[int] = field(default_factory=list)

    def add(
        self,
        row: int,
        winner: str,
        loser: str,
        *,
        outcome: str = FIRST,
        count: int = 1,
        choice: str | None = None,
    ) -> None:
        """Adds what a row says of two items.

        Args:
            row: Its place in the table.
            winner: The first item of the row; the one that won by default.
            loser: The second item.
            outcome: Who won: after `SECOND` the loser is the winner.
            count: How often it was answered.
            choice: The name of the choice from several that the row is a part of.
        """
        if outcome == SECOND:
            winner, loser = loser, winner
        self.winner.append(winner)
        self.loser.append(loser)
        self.tie.append(outcome in (EQUAL, BOTH_BAD))
        self.both_bad.append(outcome == BOTH_BAD)
        self.count.append(count)
        self.choice.append(choice)
        self.sign.append(-1 if outcome == SECOND else 1)
        self.row.append(row)

    def add_ranking(
        self, row: int, places: Sequence[Sequence[str]], count: int = 1
    ) -> bool:
        """Adds a ranking, best first, whose places may have several items.

        As Plackett and Luce have it, each item is chosen from itself and all behind;
        items of one place are each chosen from all of the place and all behind
        (Breslow 1974). Nothing is said about the order of the last place. Two items
        that share the only place are equal.

        Returns:
            Whether the ranking compares items.
        """
        behind = [item for place in places for item in place]
        if len(places) == 1 and len(behind) == 2:
            self.add(row, *behind, outcome=EQUAL, count=count)
            return True
        for place in places[:-1]:
            for item in place:
                beaten = [loser for loser in behind if loser != item]
                name = f"{len(self.row)} {item}" if len(beaten) > 1 else None
                for loser in beaten:
                    self.add(row, item, loser, count=count, choice=name)
            behind = behind[len(place) :]
        return len(places) > 1


@dataclass
class Ratings:
    """Ratings as rows: of an item, by a rater where some are named, and table rows."""

    item: list[str]
    rating: list[float]
    rater: list[str] | None
    row: list[int]

    def add(self, row: int, item: str, rater: str, rating: float) -> None:
        """Adds a rating; the rater is left out where the table names none."""
        self.item.append(item)
        self.rating.append(rating)
        self.row.append(row)
        if self.rater is not None:
            self.rater.append(rater)


@dataclass(frozen=True)
class Reading:
    """A way to read a table.

    Attributes:
        description: In words, after "read as".
        columns: That say something.
        read: What the rows of a table say, without those that are silent.
        silent: What is wrong with rows that say nothing, by their places.
        sides: Words by which columns about the first and the second item of a row
            differ; none where a row is about more than two.
    """

    description: str
    columns: tuple[str, ...]
    read: Callable[[CsvTable], Answers | Ratings]
    silent: dict[int, str] = field(default_factory=dict)
    sides: tuple[tuple[str, str], ...] = ()


def notes_on_lines(by_reason: dict[str, list[int]]) -> list[str]:
    """Writes a sentence for each reason for which lines were left out, for the user."""
    notes = []
    for reason, lines in by_reason.items():
        places = ", ".join(map(str, lines[:5])) + ", ..." * (len(lines) > 5)
        about = f"row{'s' * (len(lines) > 1)} {reason}"
        place = f"line{'s' * (len(lines) > 1)} {places}"
        notes += [f"Left out: {len(lines):,} {about} ({place})."] if lines else []
    return notes


ITSELF = "in which an item meets itself"
EMPTY = "without an item or a winner"


def words_of(name: str) -> tuple[str, ...]:
    """Lists the words of a column's name in lower case: ``model_a`` as ``ModelA``."""
    return tuple(re.findall(r"[^\W\d_]+|\d+", _PARTS.sub("_", name).lower()))


_PARTS = re.compile(
    r"(?<=[a-z])(?=[A-Z])|(?<=[A-Z])(?!(?<=I)D)(?=[A-Z][a-z])|(?<=ID)(?=[a-z])"
)
"""Places between words of capitals: ``TeamID|winner``, ``W|Team``."""


def names_items(column: str) -> bool | None:
    """Tells by a column's name whether its cells, which may be either, are item names.

    Returns:
        True for names, as in ``winner_name``; False for sides and places of items, as
        in ``winner_side``; None where the name does not say it.
    """
    words = {*words_of(column)}
    if words & {"name", "id"}:
        return True
    return False if words & {"side", "place"} else None


def option_columns(header: Sequence[str]) -> list[str]:
    """Finds three or more numbered or lettered columns of items; empty without such.

    They are those of a set from which one is chosen, in the order of their marks.
    """
    families: dict[tuple[str, ...], dict[str, str]] = {}
    for name in header:
        *stem, mark = words_of(name) or ("",)
        if stem and {*stem} <= {*ITEM_WORDS, *TEXT_WORDS}:
            families.setdefault(tuple(stem), {})[mark] = name
    for family in families.values():
        for marks in (map(str, range(1, len(family) + 1)), ascii_lowercase):
            columns = [family[m] for m in takewhile(family.__contains__, marks)]
            if len(columns) > 2:
                return columns
    return []


def numbered_columns(header: Sequence[str]) -> dict[tuple[str, ...], dict[int, str]]:
    """Groups columns that differ by one number, by their words with ``#`` for it.

    In each group they are by that number.
    """
    families: dict[tuple[str, ...], dict[int, str]] = {}
    for name in header:
        words = words_of(name)
        numbers = [word for word in words if word.isdigit()]
        if len(numbers) == 1 and len(words) > 1:
            family = tuple("#" if word.isdigit() else word for word in words)
            families.setdefault(family, {}).setdefault(int(numbers[0]), name)
    return families


def columns_with(header: Iterable[str], words: Sequence[str]) -> Iterator[str]:
    """Yields columns with one of some words in their names, the likeliest first.

    The order of the words counts, then that names with fewer words are likelier. A
    column with two of the words comes twice.
    """
    header = [name for name in header if name]
    bare = {name: words_of(name) for name in header}
    for word in words:
        yield from sorted(
            (n for n in header if word in bare[n]), key=lambda n: len(bare[n])
        )


def side_columns(
    header: Sequence[str], sides: Sequence[tuple[str, str]]
) -> Iterator[tuple[tuple[str, ...], str, str, tuple[str, str]]]:
    """Yields pairs of columns that differ by a side, as ``name_a`` and ``name_b``.

    Each comes as the words that both names have, the two columns, and the side: the
    word of the first column and that of the second.
    """
    # Reversed: of columns with the same words, the first one counts.
    bare = {words_of(name): name for name in reversed(header) if name}
    for name in header:
        parts = words_of(name)
        for place, word in enumerate(parts):
            for side in sides:
                partner = (*parts[:place], side[1], *parts[place + 1 :])
                if word == side[0] and partner in bare and bare[partner] != name:
                    yield parts[:place] + parts[place + 1 :], name, bare[partner], side


def item_columns(
    table: CsvTable, sides: Sequence[tuple[str, str]]
) -> tuple[str, str, tuple[str, str]] | None:
    """Finds the two columns that name items, and the words by which they differ.

    None where no two columns with words of items differ by a side alone.
    """
    candidates, of_items = [], (*ITEM_WORDS, *TEXT_WORDS)
    for words, first, second, side in side_columns(table.header, sides):
        if {*words} <= {*of_items} and (words or side not in UNSURE_SIDES):
            # Columns without other words are the likeliest.
            place = max(map(of_items.index, words), default=-1)
            candidates.append((place, first, second, side))
    # The first of those that are as likely.
    return min(candidates, key=lambda c: c[0])[1:] if candidates else None


def silent_rows(
    table: CsvTable,
    first: str,
    second: str,
    outcomes: Sequence[str],
    *,
    needs_all: bool = False,
) -> dict[int, str]:
    """Finds rows that say nothing of two items, and what is wrong with each.

    Args:
        table: The rows.
        first: Column of the first item.
        second: Column of the second item.
        outcomes: Columns that say who won.
        needs_all: Whether a gap in any one of these makes a row silent; else they all
            have to be gaps.
    """
    silences = any if needs_all else all
    silent = dict[int, str]()
    sides = zip(table.cells(first), table.cells(second), strict=True)
    for row, (a, b) in enumerate(sides):
        if a in UNNAMED or b in UNNAMED:
            silent[row] = EMPTY
        elif a == b:
            silent[row] = ITSELF
    columns = [table.cells(column) for column in outcomes]
    words = MISSING | ABSTAINED_WORDS
    # A million rows have a handful of different cells.
    gaps = {c for cells in columns for c in {*cells} if c.casefold() in words}
    if gaps:
        for row, cells in enumerate(zip(*columns, strict=True)):
            if silences(cell in gaps for cell in cells):
                silent[row] = EMPTY
    return silent
