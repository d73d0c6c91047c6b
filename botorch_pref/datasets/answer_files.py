"""Files of answers about items, in any layout that is known."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from botorch_pref.datasets.control_columns import Control, control_of
from botorch_pref.datasets.items import (
    CATEGORY,
    CHOICE,
    CONTROL,
    COUNT,
    HOME,
    ITEM,
    LOSER,
    MOST_COUNTED,
    RATER,
    RATING,
    TIE,
    WINNER,
)
from botorch_pref.datasets.layout_words import (
    BOTH_BAD,
    Answers,
    NamedColumns,
    Ratings,
    Reading,
    notes_on_lines,
)
from botorch_pref.datasets.layouts import read_layout
from botorch_pref.datasets.pair_outcomes import STRENGTHS
from botorch_pref.datasets.preflib import PREFLIB, read_orders
from botorch_pref.datasets.table_files import read_table
from botorch_pref.datasets.tables import (
    LINE,
    CsvTable,
    Fault,
    TableFaults,
    number_of,
    read_together,
)
from botorch_pref.errors import FeedbackError

if TYPE_CHECKING:
    from pandas import DataFrame, Series


@dataclass(frozen=True)
class AnswerFile:
    """Answers of a file, see `read_answers`.

    Attributes:
        answers: The different ones in the order of their texts: the columns ``winner``,
            ``loser``, ``tie`` and ``count``; ``rater``, ``category``, ``home``,
            ``choice``, ``both_bad`` and controls where the file says so. Of ratings the
            columns ``item`` and ``rating``, and ``rater`` where the file names some.
        unread: Columns of the file that say nothing here.
        notes: Sentences on how the file was read, and on rows that say nothing.
    """

    answers: DataFrame
    unread: list[str]
    notes: list[str]


def read_answers(
    path: str | Path,
    named: NamedColumns | None = None,
    *,
    home: str | None = None,
    category: str | None = None,
    controls: Sequence[str] = (),
) -> AnswerFile:
    """Reads a file of answers in any layout that `rank` reads.

    Rows in which an item meets itself, or that do not say who won, say nothing, and are
    left out. Equal answers are merged.

    Args:
        path: Of CSV, JSON, lines of JSON, or PrefLib's orders.
        named: Columns, where the header does not say which is which.
        home: The column of who was at home or shown first.
        category: The column of the kind of question.
        controls: What the two items of a row have more or less of, see `control_of`:
            ``length`` of the columns ``length_a`` and ``length_b`` becomes the column
            ``control length``, how much more the winner has than the loser.

    Returns:
        ``answers`` as :func:`.rank_items` takes them, and how the file was read.

    Raises:
        FeedbackError: The file cannot be read; a `TableFaults` has all that is wrong.
    """
    path, named = Path(path), named or NamedColumns()
    if path.suffix.lower() in PREFLIB:
        if home or category or controls or named != NamedColumns():
            raise FeedbackError(f"{path} has no columns, as PrefLib's files: name none")
        answers, notes = read_orders(path)
        return AnswerFile(merged_answers(_columns(answers, None)), [], notes)
    table = _with_names(
        read_table(path), [*named.columns(), *controls, *([home] if home else [])]
    )
    if home in (WINNER, LOSER) and LOSER in table.header:
        raise FeedbackError(
            f"--home is {home}, which says who won, not who was at home or shown "
            "first: name a column that does, with one of the two items in each cell"
        )
    table, repeated = _without_headers(table)
    named.check(table)
    reading = read_layout(table, named)
    notes = [f"Read as: {reading.description}.", *repeated]
    notes += _notes_on_silence(table, reading.silent)
    table = table.without_rows(reading.silent)
    if not table.rows:
        raise _no_answer(table, notes[1:])
    count = named.count or next((n for n in table.header if n == COUNT), None)
    groups = {RATER: named.rater, CATEGORY: category}
    further = _FurtherColumns(
        None if count in reading.columns else count,
        {name: column for name, column in groups.items() if column},
        home,
        [control_of(name, table, reading) for name in dict.fromkeys(controls)],
    )
    content, columns = further.read(table, reading)
    unread = further.unread(table, reading)
    if isinstance(content, Ratings):
        return AnswerFile(_rating_table(content), unread, notes)
    if not content.winner:
        raise _no_answer(table, notes[1:])
    notes += [f"The control {c.name} is {c.formula}." for c in further.controls]
    return AnswerFile(merged_answers(columns), unread, notes)


@dataclass(frozen=True)
class _FurtherColumns:
    """Columns of a table beside those by which its layout tells the answers.

    Attributes:
        count: Of how often an answer was given.
        groups: Of raters and categories.
        home: Of who was at home.
        controls: What the two items have more or less of.
    """

    count: str | None
    groups: dict[str, str]
    home: str | None
    controls: list[Control]

    def read(
        self, table: CsvTable, reading: Reading
    ) -> tuple[Answers | Ratings, dict[str, list[Any]]]:
        """Reads rows and further columns.

        One error has the faults of rows, counts and groups; who was at home and
        controls need the answers, and are read after them.

        Args:
            table: Without silent rows.
            reading: The way in which the layout reads rows.

        Returns:
            The content of the rows, and the columns of a table of answers: no columns
            if the rows have ratings, or if no row has an answer.
        """
        readings: list[Callable[[], Any]] = [lambda: reading.read(table)]
        if self.count is not None:
            readings.append(partial(_read_counts, table, self.count))
        readings += [partial(table.texts, column) for column in self.groups.values()]
        answers, *group_columns = read_together(*readings)
        if isinstance(answers, Ratings):
            if self.home or CATEGORY in self.groups or self.count is not None:
                raise FeedbackError(
                    f"{table.path} has ratings: leave out --home, --category and "
                    "--count"
                )
            return answers, {}
        if not answers.winner:
            return answers, {}
        # In the order of the readings: counts, then the groups.
        counts = None if self.count is None else group_columns.pop(0)
        columns = _columns(answers, counts)
        for name, texts in zip(self.groups, group_columns, strict=True):
            columns[name] = [texts[row] for row in answers.row]
        if self.home is not None:
            columns[HOME] = _read_home(table, self.home, answers)
        for control in self.controls:
            columns[CONTROL + control.name] = _read_control(table, control, answers)
        return answers, columns

    def unread(self, table: CsvTable, reading: Reading) -> list[str]:
        """Lists the columns that nothing here reads, each once, to tell the user."""
        read = {*reading.columns, self.count, *self.groups.values(), self.home}
        read |= {name for control in self.controls for name in control.columns}
        return [*dict.fromkeys(n for n in table.header if n and n not in read)]


def _with_names(table: CsvTable, names: Sequence[str]) -> CsvTable:
    """Returns a table whose columns are named as a user names them.

    Where a user names all by numbers, or by ``line`` for the numbers of lines, columns
    are numbered from 1, and the first line is a row; but it stays the header if it has
    all these numbers beside a name in words.

    Args:
        table: The rows, below a line that may be one of them.
        names: Of columns, as a user gives them.

    Raises:
        FeedbackError: The first line is numbers, and a user gives no numbers; or it is
            a header, and a user gives numbers that are not in it.
    """
    by_number = all(name.isdigit() or name == LINE for name in names)
    # Numbers that the first line has may still be those of columns: 1 and 2 of 1,2,1,3.
    is_row = bool(table.header) and None not in map(number_of, table.header)
    if not names or not by_number or ({*names} <= {*table.header} and not is_row):
        if is_row:
            raise FeedbackError(
                f"{table.path} begins with numbers, {', '.join(table.header[:3])}, not "
                "with names of columns: give their numbers, as --first 1 --second 2 "
                "--winner 3; or --first line where each line has ratings of an item"
            )
        return table
    numbered = table.without_header()
    if table.rows and _has_names(table, numbered.without_rows([0])):
        raise FeedbackError(
            f"{table.path} has names of columns, {', '.join(table.header[:3])}: give "
            f"them, not {', '.join(names)}"
        )
    return numbered.with_lines() if LINE in names else numbered


def _has_names(table: CsvTable, numbered: CsvTable) -> bool:
    """Tells whether the first line of a table is a header, and not one of the rows.

    It is where a word stands above numbers, or where its words make a layout.

    Args:
        table: The rows below that line.
        numbered: The same with numbers for names.
    """
    words = [i for i, name in enumerate(table.header, 1) if number_of(name) is None]
    if any(numbered.is_numeric(str(place)) for place in words):
        return True
    try:
        read_layout(table, NamedColumns())
    except FeedbackError:
        return False
    return bool(words)


def read_duels(path: Path) -> tuple[DataFrame, list[str]]:
    """Reads the duels of a file in its order, with further columns of the file.

    An experiment attaches the duels, and reads from the further columns the rater and
    other circumstances.

    Returns:
        The columns ``winner``, ``loser``, ``tie`` and, where the layout counts, also
        ``count``, then all others as texts, by the lines of the file; and sentences on
        how it was read, and on rows that say nothing.

    Raises:
        FeedbackError: The file cannot be read, or has choices from more than two.
    """
    from pandas import DataFrame

    table, notes = _without_headers(read_table(path))
    reading = read_layout(table, NamedColumns())
    notes = [f"Read as: {reading.description}.", *notes]
    notes += _notes_on_silence(table, reading.silent)
    table = table.without_rows(reading.silent)
    answers = reading.read(table)
    if isinstance(answers, Ratings):
        raise FeedbackError(
            f"{path} is read as {reading.description}, not as duels: give rows with a "
            "question and an option, as answers() has them, or record the items of "
            "each rater, in an experiment by record(items, ratings=..., rater=...)"
        )
    if not answers.winner:
        raise _no_answer(table, notes[1:])
    if any(choice is not None for choice in answers.choice):
        raise FeedbackError(
            f"{path} is read as {reading.description}, of more than two items at "
            "once: give rows with a question and an option, as answers() has them"
        )
    columns: dict[str, list[Any]] = {
        WINNER: answers.winner,
        LOSER: answers.loser,
        TIE: answers.tie,
    }
    if max(answers.count) > 1:
        columns[COUNT] = answers.count
    for name in table.header:
        if name and name not in reading.columns and name not in columns:
            cells = table.cells(name)
            columns[name] = [cells[row] for row in answers.row]
    return DataFrame(columns, index=[table.lines[row] for row in answers.row]), notes


def _without_headers(table: CsvTable) -> tuple[CsvTable, list[str]]:
    """Returns a table without rows that repeat its header, as joined files have them.

    Beside it stand sentences for the user on such rows.
    """
    header = [name for name in table.header if name]
    rows = [
        row
        for row, cells in enumerate(table.rows)
        if [cell.strip() for cell in cells if cell.strip()] == header
    ]
    notes = _notes_on_silence(table, dict.fromkeys(rows, "of names of columns"))
    return table.without_rows(rows), notes


def _rating_table(ratings: Ratings) -> DataFrame:
    """Makes the table of ratings that `rank_items` takes."""
    from pandas import DataFrame

    columns: dict[str, list[Any]] = {ITEM: ratings.item, RATING: ratings.rating}
    if ratings.rater is not None:
        columns[RATER] = ratings.rater
    return DataFrame(columns)


def merged_answers(columns: dict[str, list[Any]]) -> DataFrame:
    """Makes the table of the different answers, with the sums of their counts.

    It is in the order of their texts, so that the order of a file's rows is no matter.

    Args:
        columns: Of a table of answers with a ``count``.
    """
    from pandas import DataFrame

    answers = DataFrame(columns)
    if CHOICE in answers:
        answers[CHOICE] = _choices_by_content(answers)
    keys = [name for name in answers.columns if name != COUNT]
    merged = answers.groupby(keys, sort=False, dropna=False)[COUNT].sum().reset_index()
    return merged.sort_values(keys, ignore_index=True)


def _choices_by_content(answers: DataFrame) -> Series[Any]:
    """Names choices by what they are, so that equal ones merge.

    Args:
        answers: All rows of one choice have the same ``choice``, which so far names a
            place in the file.

    Returns:
        A name for all choices of one option from the same others, which agree in all
        further columns; None for duels.
    """
    from pandas import concat

    sets = answers.groupby(CHOICE)[LOSER].agg(lambda losers: repr(sorted(losers)))
    shared_columns = [n for n in answers.columns if n not in (LOSER, COUNT, CHOICE)]
    contents = concat([answers[shared_columns], answers[CHOICE].map(sets)], axis=1)
    names = contents.groupby([*shared_columns, CHOICE], dropna=False).ngroup()
    return names.astype(str).where(answers[CHOICE].notna(), None)


def _columns(answers: Answers, counts: list[int] | None) -> dict[str, list[Any]]:
    """Returns the columns of a table of answers: winner, loser, tie and count at least.

    Args:
        answers: Each has a count, which is 1 unless the layout counts answers, as that
            of a matrix does.
        counts: The column of counts in the file, by which the counts of each row's
            answers are multiplied; None without such a column.
    """
    number = answers.count
    if counts is not None:
        number = [n * counts[row] for n, row in zip(number, answers.row, strict=True)]
    columns: dict[str, list[Any]] = {
        WINNER: answers.winner,
        LOSER: answers.loser,
        TIE: answers.tie,
        COUNT: number,
    }
    if any(choice is not None for choice in answers.choice):
        columns[CHOICE] = answers.choice
    if any(answers.both_bad):
        columns[BOTH_BAD] = answers.both_bad
    return columns


def _no_answer(table: CsvTable, notes: list[str]) -> FeedbackError:
    return FeedbackError(
        f"{table.path} has no answer. {' '.join(notes)} Give rows in which one of two "
        "different items won."
    )


def _notes_on_silence(table: CsvTable, silent: dict[int, str]) -> list[str]:
    """Writes sentences on rows that say nothing, with their lines in the file.

    Args:
        table: All rows.
        silent: What is wrong with rows, by their places.
    """
    by_reason: dict[str, list[int]] = {}
    for row, reason in sorted(silent.items()):
        by_reason.setdefault(reason, []).append(table.lines[row])
    return notes_on_lines(by_reason)


def _read_counts(table: CsvTable, column: str) -> list[int]:
    """Reads how often each row's answer was given; once where a cell is empty."""
    cells = table.cells(column)
    numbers = {cell: number_of(cell.replace(",", ".")) for cell in {*cells}}
    fractions = {cell for cell, n in numbers.items() if n is not None and 0 < n < 1}
    message = "is no number of answers: count whole ones"
    table.refuse(
        column,
        (
            (row, f"{cell!r} {message}{STRENGTHS}")
            for row, cell in enumerate(cells)
            if cell in fractions
        ),
    )
    counts = table.integers(column, 1, MOST_COUNTED, empty=1)
    if sum(counts) > MOST_COUNTED:
        message = f"counts {sum(counts)} answers, and the command ranks by at most "
        fault = Fault(0, "", f"{message}{MOST_COUNTED}: give smaller counts")
        raise TableFaults(table.path, [fault])
    return counts


def _read_home(table: CsvTable, column: str, answers: Answers) -> list[str | None]:
    """Reads which item of each answer was at home; None on neutral ground."""
    cells = table.cells(column)
    faults, home = [], []
    for row, a, b in zip(answers.row, answers.winner, answers.loser, strict=True):
        name = cells[row]
        if name and name not in (a, b):
            message = f"{name!r} is neither {a!r} nor {b!r}: correct it, or empty it"
            faults.append((row, message))
        home.append(name or None)
    table.refuse(column, faults)
    return home


def _read_control(table: CsvTable, control: Control, answers: Answers) -> list[float]:
    """Returns how much more the winner of each answer has than the loser."""
    control_values = control.differences(table)
    signs = zip(answers.row, answers.sign, strict=True)
    return [sign * control_values[row] for row, sign in signs]
