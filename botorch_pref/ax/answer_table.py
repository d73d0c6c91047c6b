"""Tables of answers: those that were given elsewhere, and those of an experiment."""

from __future__ import annotations

import csv
from collections.abc import Callable, Collection, Hashable, Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import MAXYEAR, MINYEAR, datetime
from functools import partial
from io import StringIO
from pathlib import Path
from typing import Any, TypeVar

from ax.core.parameter import ParameterType
from botorch.exceptions.warnings import InputDataWarning
from pandas import NA, DataFrame, Series, read_csv

from botorch_pref.ax.answers import Answer
from botorch_pref.ax.given import finite_number, is_missing, written, wrong
from botorch_pref.ax.kinds import INVALID, KINDS, ShownOptions
from botorch_pref.ax.log import Log, moment
from botorch_pref.ax.log_store import file_content
from botorch_pref.ax.questions import KnownAnswers, record, taken
from botorch_pref.ax.space.options import checked_options, own_design
from botorch_pref.datasets.answer_files import read_duels
from botorch_pref.datasets.tables import (
    AMBIGUOUS,
    SEPARATOR_LINE,
    TRUTHS,
    decimal_point,
    grouped,
    number_of,
    separator_of,
    text_of,
)
from botorch_pref.errors import ExperimentError, FeedbackError, warn_caller

T = TypeVar("T")

_SIDES = ("winner", "loser")
"""Columns of items, or what the columns of their parameters begin with."""

_CIRCUMSTANCES = ("rater", "note", "seconds", "count")
"""Columns of who answered, how, and how often, which may be left out or empty."""

_KIND_COLUMNS = {kind: kind.field for kind in KINDS} | {INVALID: "valid"}
"""The column of each kind in a table with a row for each option."""

_FIRST = ("question", "option", "name")
_BESIDE = (
    *("chosen_by", *_CIRCUMSTANCES, "shown", "time", "cannot_compare"),
    *_KIND_COLUMNS.values(),
)
"""The columns of such a table before and after those of parameters."""

Row = tuple[str, Mapping[Hashable, Any]]
"""A row of a table, after the text that names it in messages."""

Asked = tuple[str, list[tuple[str, Any]], dict[str, Any], str | None]
"""An answer of a table: the text that names it in messages, its options, each after the
text that names it, what was said (fields of `Answer` and circumstances), and when."""


def _is_gap(cell: object) -> bool:
    """Whether a cell has nothing, also beside numbers of which pandas cannot ask."""
    return cell is None or cell is NA or (isinstance(cell, float) and cell != cell)


def record_table(
    log: Log, answers: DataFrame | str | Path, items: DataFrame | None
) -> None:
    """Records the answers of a table in its order, unless the log has them.

    A table with the columns ``question`` and ``option`` has a row for each option, as
    `answer_table` makes it; others have a row for each duel.
    """
    table, name, from_file = answers, "the answers", isinstance(answers, str | Path)
    if isinstance(answers, str | Path):
        name = Path(answers).name
        try:
            table = _table_of_file(log, Path(answers), items)
        except (OSError, ValueError, FeedbackError) as error:
            why = str(error).strip()
            raise ExperimentError(f"{answers} cannot be read: {why}") from error
    if not isinstance(table, DataFrame):
        raise ExperimentError(
            f"answers is a {type(answers).__name__}; give a table of pandas, or the "
            "path of a CSV file."
        )
    # As those of files, which spreadsheets leave at the end.
    table = table[~table.map(_is_gap).all(axis=1)]
    if table.empty:
        raise ExperimentError("The table of answers has no rows; give one an answer.")
    labels = map(repr, table.index)
    records = zip(labels, table.to_dict("records"), strict=True)
    rows = [(f"Row {label} of {name}", row) for label, row in records]
    read = _asked_of_options if _is_of_options(table) else _asked_of_duels
    known = KnownAnswers(log)
    design = _once_each(partial(own_design, log.space, log.catalogue))
    answer = _once_each(lambda given: taken(log, *given))
    for where, options, said, time in read(log, table, rows, items, from_file):
        designs = [_named(source, design, option) for source, option in options]
        what = _named(where, answer, (len(designs), said))
        _named(where, checked_options, designs)
        _named(where, partial(record, log, designs, what, time), known)


def _table_of_file(log: Log, path: Path, items: DataFrame | None) -> DataFrame:
    """The table of a file; of answers that name items in any layout, the duels."""
    text = text_of(file_content(path))
    table = None if path.suffix.lower() in (".json", ".jsonl") else csv_table(text)
    by_name = items is not None or log.catalogue is not None
    if table is not None and (
        not by_name
        or _is_of_options(table)
        or {*_SIDES} & {*table.columns} == {*_SIDES}
    ):
        return _with_points(log, table, separator_of(text), items)
    table, notes = read_duels(path)
    warn_caller(" ".join(notes), InputDataWarning)
    return table


def _named(where: str, check: Callable[[Any], T], given: Any) -> T:
    """The result of a check, whose error says where in a table it was."""
    try:
        return check(given)
    except ExperimentError as error:
        raise ExperimentError(f"{where}: {error}") from error


def _once_each(check: Callable[[Any], T]) -> Callable[[Any], T]:
    """A check that is made once of equal cells: many rows are about few designs."""
    checked: dict[object, T] = {}

    def result(given: Any) -> T:
        try:
            key = _hashable(given)
            hash(key)
        # A cell may hold anything.
        except TypeError:
            return check(given)
        if key not in checked:
            checked[key] = check(given)
        return checked[key]

    return result


def _hashable(given: Any) -> object:
    """What equal values of the same types have in common."""
    if isinstance(given, dict):
        return tuple(given), tuple(map(_hashable, given.values()))
    if isinstance(given, tuple | list):
        return tuple(map(_hashable, given))
    # True is 1 for Python, and no number for an experiment.
    return type(given), given


def _is_of_options(table: DataFrame) -> bool:
    return {"question", "option"} <= {*table.columns}


def _with_points(
    log: Log, table: DataFrame, separator: str, items: object
) -> DataFrame:
    """A table of a file with decimal points; what can only be a text stays as it is."""
    parameters = log.space.parameters.items()
    kinds = {name: parameter.parameter_type for name, parameter in parameters}
    words = [name for name, kind in kinds.items() if kind is ParameterType.STRING]
    whole = [name for name, kind in kinds.items() if kind is ParameterType.INT]
    texts = {"rater", "note"}
    if _is_of_options(table):
        columns, of_ids = parameter_columns(kinds), {"name"}
        texts |= {columns[name] for name in words}
        integers = {columns[name] for name in whole}
    else:
        of_ids = {*_SIDES}
        texts |= {f"{side}_{name}" for side in _SIDES for name in words}
        integers = {f"{side}_{name}" for side in _SIDES for name in whole}
    ids = set() if log.catalogue is None else {*log.catalogue.rows}
    if isinstance(items, DataFrame):
        ids = {*map(str, items.index)}

    def pointed(column: Series[Any]) -> Series[Any]:
        if column.name in texts:
            return column
        kept = ids if column.name in of_ids else ()
        if column.name not in of_ids:
            cells = [*map(str, column)]
            if places := grouped(cells, separator, column.name in integers):
                place = places[0]
                raise ExperimentError(
                    f"Row {column.index[place]} has {cells[place]!r} in the column "
                    f"{column.name!r}, which {AMBIGUOUS}."
                )
        return column.map(
            lambda cell: cell if cell in kept else decimal_point(cell, separator)
        )

    return table.apply(pointed)


def _asked_of_options(
    log: Log, table: DataFrame, rows: list[Row], items: object, from_file: bool
) -> Iterator[Asked]:
    """The questions of a table with a row for each option."""
    if items is not None:
        raise ExperimentError("The answers have rows of options; leave out items.")
    columns = parameter_columns(log.space.parameters)
    _check_known(table, [*_FIRST, *columns.values(), *_BESIDE])
    by_id = log.catalogue is not None and "name" in table.columns
    questions: dict[Any, list[Row]] = {}
    for where, row in rows:
        questions.setdefault(row["question"], []).append((where, row))
    for number, found in questions.items():
        named = f"{found[0][0]} (question {number!r})"
        in_order = [found[i] for i in _order(named, "option", found)]
        options = [
            (at, row["name"] if by_id else _design(log, at, row, columns, from_file))
            for at, row in in_order
        ]
        said, time = _said_of_options(named, in_order), _time(found[0][1].get("time"))
        yield named, options, said, time


def _asked_of_duels(
    log: Log, table: DataFrame, rows: list[Row], items: object, from_file: bool
) -> Iterator[Asked]:
    """The questions of a table with a row for each duel."""
    _check_items(items)
    known = [f"{side}_{name}" for side in _SIDES for name in log.space.parameters]
    by_name = items is not None or log.catalogue is not None
    if by_name:
        known = [*_SIDES]
        if missing := [side for side in _SIDES if side not in table.columns]:
            raise ExperimentError(
                f"The answers have no column {', '.join(missing)}, but "
                f"{', '.join(map(str, table.columns))}; add it."
            )
    instead = "" if by_name else ", or winner and loser with items="
    if not by_name and not {*known} & {*table.columns}:
        raise ExperimentError(
            f"The answers have the columns {', '.join(map(written, table.columns))}, "
            f"and none with a parameter; there can be {', '.join(known)}{instead}."
        )
    _check_known(table, [*known, "tie", *_CIRCUMSTANCES], instead)
    # A file has the names of items as texts.
    designs = {
        str(label) if from_file else label: {str(n): value for n, value in row.items()}
        for label, row in (items.iterrows() if isinstance(items, DataFrame) else ())
    }

    def option(where: str, row: Mapping[Hashable, Any], side: str) -> Any:
        if not by_name:
            columns = {name: f"{side}_{name}" for name in log.space.parameters}
            return _design(log, where, row, columns, from_file)
        if items is None:
            return row[side]
        if row[side] not in designs:
            raise ExperimentError(
                f"{where} has the {side} {row[side]!r}, which is no item; give a name "
                "of the index of items."
            )
        return designs[row[side]]

    for where, row in rows:
        options = [(f"{where} ({side})", option(where, row, side)) for side in _SIDES]
        said = {"tie": True} if _truth(where, row, "tie") else {"winner": 0}
        yield where, options, {**said, **_circumstances(row)}, None


def _check_items(items: object) -> None:
    if items is not None and not isinstance(items, DataFrame):
        raise ExperimentError(
            f"items is a {type(items).__name__}; give a table of pandas, whose index "
            "has the names of the items."
        )
    if items is not None and not items.index.is_unique:
        twice = items.index[items.index.duplicated()][0]
        first, second, *_ = (items.index == twice).nonzero()[0]
        raise ExperimentError(
            f"items has {twice!r} twice, at {first} and {second} (counted from 0); "
            "name each item once."
        )


def csv_table(text: str) -> DataFrame:
    """Table of a CSV file, whose cells are all texts, and whose first row has names.

    The index has the numbers of rows as a spreadsheet shows them. Rows in which every
    cell is empty, as spreadsheets leave them at the end, are left out. Cells are
    separated as `separator_of` says.
    """
    above = 1 if SEPARATOR_LINE.match(text) else 0
    header = StringIO(text, newline=None).readlines()[above : above + 1]
    if not header or not header[0].strip():
        raise ValueError("its first line is empty; give the columns names there")
    # Python's reader refuses cells of more than 131,072 characters, which a catalogue
    # or a note can have. "NA" and "007" are names, and two columns can have one name.
    table = read_csv(
        StringIO(text, newline=""),
        sep=separator_of(text),
        header=None,
        dtype=object,
        na_filter=False,
        skip_blank_lines=False,
        skiprows=above,
    )
    names, *rows = table.to_numpy().tolist()
    found = {number: row for number, row in enumerate(rows, 2 + above) if any(row)}
    return DataFrame([*found.values()], index=[*found], columns=names, dtype=object)


def csv_content(table: DataFrame) -> bytes:
    """Content of a CSV file with a table."""
    # Unquoted, separators in names could outnumber the commas, see `separator_of`.
    has_others = any({*";\t"} & {*str(name)} for name in table.columns)
    quoting: Any = csv.QUOTE_ALL if has_others else csv.QUOTE_MINIMAL
    # A cell that has either half of this end of a line is quoted.
    text: str = table.to_csv(index=False, lineterminator="\r\n", quoting=quoting)
    return text.encode()


def _check_known(table: DataFrame, known: Sequence[str], instead: str = "") -> None:
    columns = [*table.columns]
    if unread := [column for column in columns if column not in known]:
        more = f" and {len(unread) - 10} more" if len(unread) > 10 else ""
        warn_caller(
            f"Columns of the answers that were not read: "
            f"{', '.join(map(written, unread[:10]))}{more}. There can be "
            f"{', '.join(known)}{instead}.",
            InputDataWarning,
        )
    if len(set(columns)) < len(columns):
        raise ExperimentError(
            f"The answers have columns of one name among {columns}; leave one out."
        )


def parameter_columns(
    names: Collection[str], own: Collection[str] = (*_FIRST, *_BESIDE)
) -> dict[str, str]:
    """The column of each parameter in a table that has columns of its ``own``."""
    columns = {}
    for name in names:
        column, taken = name, {*own}
        while column in taken:
            column += "_parameter"
            taken |= {*names}
        columns[name] = column
    return columns


def _design(
    log: Log,
    where: str,
    row: Mapping[Hashable, Any],
    columns: Mapping[str, str],
    from_file: bool,
) -> dict[str, Any]:
    """A design of a row, as far as the row has it.

    Cells of a file are texts of values; empty ones are none unless texts are values.
    """
    found = {name: row[column] for name, column in columns.items() if column in row}
    if not from_file:
        return found
    design: dict[str, Any] = {}
    for name, cell in found.items():
        kind = log.space.parameters[name].parameter_type
        if kind is ParameterType.STRING:
            design[name] = cell
        elif cell != "":
            of_bool = kind is ParameterType.BOOL
            design[name] = TRUTHS.get(cell.lower()) if of_bool else _number(cell)
            if design[name] is None:
                wanted = "true or false" if of_bool else "a number"
                raise wrong(f"{where}, column {columns[name]},", cell, wanted)
    return design


def _number(text: str) -> int | float | None:
    """The number that a text says; integers keep digits that no float has."""
    number = number_of(text)
    with suppress(ValueError):
        return None if number is None else int(text)
    return number


def _circumstances(row: Mapping[Hashable, Any]) -> dict[str, Any]:
    """Rater, note, seconds and count of a row, where they are there."""
    known = {n: row[n] for n in _CIRCUMSTANCES if not _is_empty(row.get(n))}
    rater = known.get("rater")
    if rater is not None:
        # A column of numbers with gaps has made a fraction of a whole one.
        whole = isinstance(rater, float) and rater.is_integer()
        known["rater"] = str(int(rater) if whole else rater)
    for name in ("seconds", "count"):
        cell = known.get(name)
        if isinstance(cell, str) and (number := _number(cell)) is not None:
            known[name] = number
    # A column of whole numbers with gaps is one of fractions.
    if isinstance(known.get("count"), float) and known["count"].is_integer():
        known["count"] = int(known["count"])
    return known


def _time(cell: object) -> str | None:
    """The time of a cell that `answer_table` wrote; None of others, such as days.

    Nor of the calendar's first and last year, which not all time zones have whole.
    """
    with suppress(ValueError, OverflowError):
        if isinstance(cell, str):
            time = datetime.fromisoformat(cell)
            if cell == moment(time) and MINYEAR < time.year < MAXYEAR:
                return cell
    return None


def _is_empty(cell: Any) -> bool:
    return is_missing(cell) or (isinstance(cell, str) and cell == "")


def _truth(where: str, row: Mapping[Hashable, Any], column: str) -> bool:
    cell = row.get(column)
    if _is_empty(cell):
        return False
    known = TRUTHS.get(cell.lower()) if isinstance(cell, str) else cell
    if known not in (False, True):
        raise ExperimentError(
            f"{where} has the {column} {written(cell)}; give True or False."
        )
    return bool(known)


def _said_of_options(where: str, rows: Sequence[Row]) -> dict[str, Any]:
    """Fields of `Answer` and circumstances by the rows of a question."""
    for column in (*_CIRCUMSTANCES, "cannot_compare"):
        cells = [row.get(column) for _, row in rows]
        if len({"" if _is_empty(cell) else str(cell) for cell in cells}) > 1:
            raise ExperimentError(
                f"{where} and the next have the {column} {written(cells)}; give all "
                "options of the question the same."
            )
    first = rows[0][1]
    said = _circumstances(first)
    valid = _numbers(_KIND_COLUMNS[INVALID], rows)
    failed = [place for place, value in valid.items() if value == 0]
    shown = ShownOptions(len(rows), failed)
    for kind, column in _KIND_COLUMNS.items():
        values = _numbers(column, rows)
        if not values:
            continue
        said[kind.field] = kind.said_by(values, shown)
        if kind.encode(said[kind.field], shown) != values:
            raise ExperimentError(
                f"{where} and the next have the {column} {[*values.values()]}, which "
                "no answer gives to its options; answers() shows what answers give."
            )
    if _truth(where, first, "cannot_compare"):
        said["cannot_compare"] = True
    if any(not _is_empty(row.get("shown")) for _, row in rows):
        said["order"] = _order(where, "shown", rows)
    return said


def _order(where: str, column: str, rows: Sequence[Row]) -> list[int]:
    """The places of rows in the order of a column that counts them."""
    found = _numbers(column, rows)
    if sorted(found.values()) != [*range(len(rows))]:
        raise ExperimentError(
            f"{where} and the next have the {column} {[*found.values()]}; count the "
            "options of a question from 0, and give each question a number of its own "
            "where tables were put together."
        )
    return sorted(found, key=found.__getitem__)


def _numbers(column: str, rows: Sequence[Row]) -> dict[int, float]:
    """The numbers of a column, by the place of the row, as far as there are any."""
    found = {}
    for place, (where, row) in enumerate(rows):
        cell = row.get(column)
        if not _is_empty(cell):
            number = finite_number(_number(cell) if isinstance(cell, str) else cell)
            if number is None:
                raise ExperimentError(
                    f"{where} has the {column} {written(cell)}; give a number, or "
                    "nothing."
                )
            found[place] = number
    return found


def answer_table(log: Log) -> DataFrame:
    """Answers that stand, in the order of the questions: a row for each option.

    It has the ``question``; the place of the ``option`` in the order of the question,
    and its ``name``; its parameters, whose columns end in ``_parameter`` where they
    would be called as others; who chose the question (``chosen_by``); who answered
    (``rater``), with a ``note`` and ``seconds``, how often (``count``), and when
    (``time``); the place at which the option was on display (``shown``), where that is
    known;
    ``cannot_compare``; and for each kind of answer the value of the option, see
    `Answer.rows`: ``winner`` is 1 for the winner and 0 for the loser, ``tie`` 1 for
    each, ``ranking`` 1 for the best and 2 for the second, ``valid`` 0 for options that
    failed. Cells of which nothing was said are empty.
    """
    columns, rows = parameter_columns(log.space.parameters), []
    for question in log.questions:
        told, order = question.standing, question.display
        if told is None:
            continue
        values = Answer(**told.said).rows(len(question.options))
        rows += [
            {
                "question": question.index,
                "option": place,
                "name": option.name,
                **{columns[name]: v for name, v in option.parameters.items()},
                "chosen_by": question.asked["chosen_by"],
                **{name: told.what.get(name) for name in _CIRCUMSTANCES},
                "count": told.count,
                "shown": None if order is None else order.index(place),
                "time": told.time,
                "cannot_compare": told.what.get("cannot_compare", False),
                **{
                    column: values.get(kind.metric, {}).get(place)
                    for kind, column in _KIND_COLUMNS.items()
                },
            }
            for place, option in enumerate(question.options)
        ]
    return DataFrame(rows, columns=[*_FIRST, *columns.values(), *_BESIDE])
