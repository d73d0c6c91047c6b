"""Files of answers about items, in any layout that is known."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from botorch_pref.datasets.control_columns import Control, control_of
from botorch_pref.datasets.items import (
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
)
from botorch_pref.datasets.layouts import read_layout
from botorch_pref.datasets.pair_layouts import STRENGTHS
from botorch_pref.datasets.tables import (
    CsvTable,
    Fault,
    TableFaults,
    number_of,
    read_together,
    text_of,
)
from botorch_pref.errors import FeedbackError

if TYPE_CHECKING:
    from pandas import DataFrame


@dataclass(frozen=True)
class AnswerFile:
    """Answers of a file, see `read_answers`.

    Attributes:
        answers: The different ones in the order of their texts: the columns ``winner``,
            ``loser``, ``tie`` and ``count``; ``rater``, ``home``, ``choice``,
            ``both_bad`` and controls where the file says so. Of ratings the columns
            ``item`` and ``rating``, and ``rater`` where the file names some.
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
    controls: Sequence[str] = (),
) -> AnswerFile:
    """Reads a file of answers in any layout that `rank` reads.

    Rows in which an item meets itself, or that do not say who won, say nothing, and are
    left out. Equal answers are merged.

    Args:
        path: Of CSV, JSON, lines of JSON, or PrefLib's orders.
        named: Columns, where the header does not say which is which.
        home: The column of who was at home or shown first.
        controls: What the two items of a row have more or less of, see `control_of`:
            ``length`` of the columns ``length_a`` and ``length_b`` becomes the column
            ``control length``, how much more the winner has than the loser.

    Returns:
        ``answers`` as :func:`.rank_items` takes them, and how the file was read.

    Raises:
        FeedbackError: The file cannot be read; a `TableFaults` has all that is wrong.
    """
    path, named = Path(path), named or NamedColumns()
    if path.suffix.lower() in _PREFLIB:
        if home or controls or named != NamedColumns():
            raise FeedbackError(f"{path} has no columns, as PrefLib's files: name none")
        return _read_preflib(path)
    table = read_table(path)
    if home in (WINNER, LOSER) and LOSER in table.header:
        raise FeedbackError(
            f"--home is {home}, which says who won, not who was at home or shown "
            "first: name a column that does, with one of the two items in each cell"
        )
    table, repeated = _without_headers(table)
    if table.header and all(number_of(name) is not None for name in table.header):
        raise FeedbackError(
            f"{path} begins with numbers, {', '.join(table.header[:3])}, not with "
            "names of columns: add a line of names"
        )
    named.check(table)
    reading = read_layout(table, named)
    notes = [f"Read as: {reading.description}.", *repeated]
    notes += _notes_on_silence(table, reading.silent)
    table = table.without_rows(reading.silent)
    if not table.rows:
        raise _no_answer(table, notes[1:])
    count = named.count or next((n for n in table.header if n == COUNT), None)
    readings: list[Callable[[], Any]] = [lambda: reading.read(table)]
    if is_counted := count is not None and count not in reading.columns:
        readings.append(lambda: _read_counts(table, str(count)))
    if named.rater is not None:
        readings.append(lambda: table.texts(str(named.rater)))
    chosen = [control_of(name, table, reading) for name in dict.fromkeys(controls)]
    answers, *count_readings = read_together(*readings)
    if isinstance(answers, Ratings):
        if home is not None or is_counted:
            raise FeedbackError(f"{path} has ratings: leave out --home and --count")
        columns_read = {*reading.columns, named.rater}
        names = [name for name in table.header if name and name not in columns_read]
        return AnswerFile(_rating_table(answers), names, notes)
    if not answers.winner:
        raise _no_answer(table, notes[1:])
    columns = _columns(answers, count_readings[0] if is_counted else None)
    if named.rater is not None:
        columns[RATER] = [count_readings[-1][row] for row in answers.row]
    if home is not None:
        columns[HOME] = _read_home(table, home, answers)
    for control in chosen:
        columns[CONTROL + control.name] = _read_control(table, control, answers)
        notes.append(f"The control {control.name} is {control.formula}.")
    read = {*reading.columns, count, named.rater, home}
    read |= {name for control in chosen for name in control.columns}
    unread = dict.fromkeys(name for name in table.header if name and name not in read)
    return AnswerFile(merged_answers(columns), [*unread], notes)


def read_duels(path: Path) -> tuple[DataFrame, list[str]]:
    """Reads the duels of a file in its order, beside the columns that say no winner.

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
            "question and an option, as answers() has them"
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
            cells = table.texts(name, may_be_empty=True)
            columns[name] = [cells[row] for row in answers.row]
    return DataFrame(columns, index=[table.lines[row] for row in answers.row]), notes


def _without_headers(table: CsvTable) -> tuple[CsvTable, list[str]]:
    """Returns a table without rows that repeat its header, as joined files have."""
    header = [name for name in table.header if name]
    rows = [
        row
        for row, cells in enumerate(table.rows)
        if [cell.strip() for cell in cells if cell.strip()] == header
    ]
    notes = _notes_on_silence(table, dict.fromkeys(rows, "of names of columns"))
    return table.without_rows(rows), notes


def read_table(path: Path) -> CsvTable:
    """Reads a table of a CSV file, or of a list or lines of JSON objects."""
    if path.suffix.lower() in (".json", ".jsonl", ".ndjson"):
        return _read_json(path)
    return CsvTable.read(path)


def _read_json(path: Path) -> CsvTable:
    try:
        text = text_of(path.read_bytes())
        if path.suffix.lower() == ".json":
            records = json.loads(text)
            if isinstance(records, dict):
                lists = [value for value in records.values() if _is_records(value)]
                records = lists[0] if len(lists) == 1 else records
        else:
            records = [json.loads(line) for line in text.splitlines() if line.strip()]
    except ValueError as error:
        raise FeedbackError(f"{path} cannot be read: {error}") from error
    if not _is_records(records):
        raise FeedbackError(
            f"{path} has no list of objects, one for each answer; give one, or a table"
        )
    header = [*dict.fromkeys(name.strip() for record in records for name in record)]
    rows = [[_text_of_value(record.get(name)) for name in header] for record in records]
    return CsvTable(path, ",", header, [*range(1, len(rows) + 1)], rows)


def _is_records(value: object) -> bool:
    return (
        isinstance(value, list)
        and bool(value)
        and all(isinstance(record, dict) for record in value)
    )


def _text_of_value(value: object) -> str:
    if value is None:
        return ""
    return value if isinstance(value, str) else json.dumps(value)


def _rating_table(ratings: Ratings) -> DataFrame:
    """Returns the columns of ratings."""
    from pandas import DataFrame

    columns: dict[str, list[Any]] = {ITEM: ratings.item, RATING: ratings.rating}
    if ratings.rater is not None:
        columns[RATER] = ratings.rater
    return DataFrame(columns)


def merged_answers(columns: dict[str, list[Any]]) -> DataFrame:
    """Returns the different answers, with their counts, in the order of their texts."""
    from pandas import DataFrame

    answers = DataFrame(columns)
    keys = [name for name in answers.columns if name != COUNT]
    merged = answers.groupby(keys, sort=False, dropna=False)[COUNT].sum().reset_index()
    return merged.sort_values(keys, ignore_index=True)


def _columns(answers: Answers, counts: list[int] | None) -> dict[str, list[Any]]:
    """Returns the columns of a table of answers."""
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
    """Returns sentences on rows that say nothing."""
    by_reason: dict[str, list[int]] = {}
    for row, reason in sorted(silent.items()):
        by_reason.setdefault(reason, []).append(row)
    return [
        f"Left out: {len(rows):,} row{'s' * (len(rows) > 1)} {reason} "
        f"({_lines(table, rows)})."
        for reason, rows in by_reason.items()
    ]


def _lines(table: CsvTable, rows: list[int]) -> str:
    lines = [str(table.lines[row]) for row in rows[:5]]
    ellipsis = ", ..." if len(rows) > len(lines) else ""
    return f"line{'s' * (len(rows) > 1)} {', '.join(lines)}{ellipsis}"


def _read_counts(table: CsvTable, column: str) -> list[int]:
    """Returns how often each answer was given; once where a cell is empty."""
    cells = table.texts(column, may_be_empty=True)
    numbers = {cell: number_of(cell.replace(",", ".")) for cell in {*cells}}
    share = {cell for cell, n in numbers.items() if n is not None and 0 < n < 1}
    message = "is no number of answers: count whole ones"
    table.refuse(
        column,
        (
            (row, f"{cell!r} {message}{STRENGTHS}")
            for row, cell in enumerate(cells)
            if cell in share
        ),
    )
    counts = table.integers(column, 1, MOST_COUNTED, empty=1)
    if sum(counts) > MOST_COUNTED:
        message = f"counts {sum(counts)} answers, and the command ranks by at most "
        fault = Fault(0, "", f"{message}{MOST_COUNTED}: give smaller counts")
        raise TableFaults(table.path, [fault])
    return counts


def _read_home(table: CsvTable, column: str, answers: Answers) -> list[str | None]:
    """Returns who of each answer was at home; None on neutral ground."""
    cells = table.texts(column, may_be_empty=True)
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
    more = control.differences(table)
    signs = zip(answers.row, answers.sign, strict=True)
    return [sign * more[row] for row, sign in signs]


# --- PrefLib

_PREFLIB = {".soc", ".soi", ".toc", ".toi"}
_NAME = re.compile(r"#\s*ALTERNATIVE NAME\s+(\d+)\s*:\s*(.*)", re.IGNORECASE)


def _read_preflib(path: Path) -> AnswerFile:
    """Reads orders of numbered alternatives, ``count: 3,{1,2},4``, as PrefLib's.

    The names are in the comments above. Alternatives that an order lacks are not
    compared (https://preflib.github.io/PrefLib-Jekyll/format).
    """
    try:
        lines = text_of(path.read_bytes()).splitlines()
    except ValueError as error:
        raise FeedbackError(f"{path} cannot be read: {error}") from error
    names, answers, faults = dict[str, str](), Answers(), list[Fault]()
    orders, header = 0, _older_header(lines)
    for number, line in enumerate(lines, 1):
        if number <= header:
            if match := _OLDER_NAME.match(line):
                names[match[1]] = match[2].strip() or match[1]
        elif match := _NAME.match(line):
            names[match[1]] = match[2].strip() or match[1]
        elif line.strip() and not line.startswith("#"):
            try:
                # Files of before 2022 have a comma behind the count.
                text = line.replace(",", ":", 1) if header else line
                count, places = _order_of(text, names)
            except ValueError as error:
                faults.append(Fault(number, "", f"{error}: correct it"))
                continue
            orders += count
            answers.add_ranking(number, places, count)
    if faults:
        raise TableFaults(path, faults)
    if not answers.winner:
        raise FeedbackError(
            f"{path} has no orders of two alternatives; give lines such as 3: 1,{{2,4}}"
        )
    description = f"Read as: {orders:,} orders of PrefLib's, best first"
    return AnswerFile(merged_answers(_columns(answers, None)), [], [f"{description}."])


_OLDER_NAME = re.compile(r"\s*(\d+)\s*,\s*(.*)")


def _older_header(lines: list[str]) -> int:
    """Counts the lines of a head as PrefLib had it: a number, names, and sums."""
    if not lines or not re.fullmatch(r"\s*\d+\s*", lines[0]):
        return 0
    return int(lines[0]) + 2


def _order_of(line: str, names: dict[str, str]) -> tuple[int, list[list[str]]]:
    """Returns how often an order was given, and its places."""
    count, mark, order = line.partition(":")
    if not mark or not re.fullmatch(r"\s*[1-9]\d*\s*", count):
        raise ValueError(f"{line!r} does not begin with how often the order was given")
    groups = re.findall(r"\{([^{}]*)\}|(\d+)", order)
    places = [re.findall(r"\d+", several or single) for several, single in groups]
    places = [place for place in places if place]
    numbers = [item for place in places for item in place]
    remainder = re.sub(r"[\d\s,{}]", "", order)
    if remainder or len({*numbers}) < len(numbers):
        raise ValueError(f"{line!r} is no order of numbers, each there once")
    if unknown := [item for item in numbers if item not in names]:
        raise ValueError(f"there is no ALTERNATIVE NAME {unknown[0]} above")
    return int(count), [[names[item] for item in place] for place in places]
