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

from botorch_pref.ax.answer_kinds import INVALID, KINDS, ShownOptions
from botorch_pref.ax.answers import Answer
from botorch_pref.ax.events import moment
from botorch_pref.ax.log import Log
from botorch_pref.ax.log_store import file_content
from botorch_pref.ax.questions import KnownAnswers, answer_content, record
from botorch_pref.ax.space.options import checked_options, own_design
from botorch_pref.ax.user_values import (
    argument_error,
    finite_number,
    is_missing,
    quoted,
)
from botorch_pref.datasets.answer_files import read_duels
from botorch_pref.datasets.table_files import OBJECTS
from botorch_pref.datasets.tables import (
    AMBIGUOUS,
    SEPARATOR_LINE,
    TRUTHS,
    decimal_point,
    grouped,
    number_of,
    separator_of,
    split_above_header,
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
    """Tells whether a cell is empty, also one with a number that pandas refuses."""
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
    # Spreadsheets leave empty rows at the end.
    table = table[~table.map(_is_gap).all(axis=1)]
    if table.empty:
        raise ExperimentError("The table of answers has no rows; give one an answer.")
    labels = map(repr, table.index)
    records = zip(labels, table.to_dict("records"), strict=True)
    rows = [(f"Row {label} of {name}", row) for label, row in records]
    questions_of = (
        _questions_of_options if _is_of_options(table) else _questions_of_duels
    )
    earlier = KnownAnswers(log)
    design = _once_each(partial(own_design, log.space, log.catalogue))
    answer = _once_each(lambda size_and_fields: answer_content(log, *size_and_fields))
    for row_name, options, fields, time in questions_of(
        log, table, rows, items, from_file
    ):
        designs = [_with_row_name(source, design, option) for source, option in options]
        parts = _with_row_name(row_name, answer, (len(designs), fields))
        _with_row_name(row_name, checked_options, designs)
        _with_row_name(row_name, partial(record, log, designs, parts, time), earlier)


def _table_of_file(log: Log, path: Path, items: DataFrame | None) -> DataFrame:
    """Reads the table of a file, with decimal points, for `record_table`.

    `read_duels` finds out the layout of a file that is no CSV file, or whose rows name
    items in other columns than `record_table` has; a warning says how it was read.
    """
    num_above, text = split_above_header(text_of(file_content(path)))
    table = None
    if path.suffix.lower() not in OBJECTS:
        table = csv_table(text, num_above)
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


def _with_row_name(row_name: str, check: Callable[[Any], T], argument: Any) -> T:
    """Returns the result of a check, whose error says where in a table it was."""
    try:
        return check(argument)
    except ExperimentError as error:
        raise ExperimentError(f"{row_name}: {error}") from error


def _once_each(check: Callable[[Any], T]) -> Callable[[Any], T]:
    """Makes a check that runs once for equal cells: many rows are about few designs.

    They share its result, which must not be changed. An error is not remembered.
    """
    checked: dict[object, T] = {}

    def result(argument: Any) -> T:
        """Looks the argument up before it is checked."""
        try:
            key = _key(argument)
            hash(key)
        # A cell may hold anything.
        except TypeError:
            return check(argument)
        if key not in checked:
            checked[key] = check(argument)
        return checked[key]

    return result


def _key(value: Any) -> object:
    """Returns what equal values of the same types have in common."""
    if isinstance(value, dict):
        return tuple(value), tuple(map(_key, value.values()))
    if isinstance(value, tuple | list):
        return tuple(map(_key, value))
    # True is 1 for Python, and no number for an experiment.
    return type(value), value


def _is_of_options(table: DataFrame) -> bool:
    return {"question", "option"} <= {*table.columns}


def _with_points(
    log: Log, table: DataFrame, separator: str, items: object
) -> DataFrame:
    """Writes decimal commas of a file's table as points, but in cells that are texts.

    Texts are raters, notes, values of parameters that are texts, and ids of ``items``
    or of the catalogue.
    """
    parameters = log.space.parameters.items()
    kinds = {name: parameter.parameter_type for name, parameter in parameters}
    words = [name for name, kind in kinds.items() if kind is ParameterType.STRING]
    integer_names = [name for name, kind in kinds.items() if kind is ParameterType.INT]
    texts = {"rater", "note"}
    if _is_of_options(table):
        columns, of_ids = parameter_columns(kinds), {"name"}
        texts |= {columns[name] for name in words}
        integers = {columns[name] for name in integer_names}
    else:
        of_ids = {*_SIDES}
        texts |= {f"{side}_{name}" for side in _SIDES for name in words}
        integers = {f"{side}_{name}" for side in _SIDES for name in integer_names}
    ids = set() if log.catalogue is None else {*log.catalogue.rows}
    if isinstance(items, DataFrame):
        ids = {*map(str, items.index)}
    return table.apply(
        lambda column: (
            column
            if column.name in texts
            else _pointed(
                column,
                separator,
                column.name in integers,
                ids if column.name in of_ids else None,
            )
        )
    )


def _pointed(
    column: Series[Any], separator: str, is_integer: bool, ids: set[str] | None
) -> Series[Any]:
    """Writes decimal commas of a column as points, but in cells that are ``ids``.

    Raises:
        ExperimentError: The column has no ids, and a number of which it is not known
            whether the sign in it is a decimal one or groups thousands.
    """
    if ids is None:
        cells = [*map(str, column)]
        if places := grouped(cells, separator, is_integer):
            place = places[0]
            raise ExperimentError(
                f"Row {column.index[place]} has {cells[place]!r} in the column "
                f"{column.name!r}, which {AMBIGUOUS}."
            )
    id_texts = ids or ()
    return column.map(
        lambda cell: cell if cell in id_texts else decimal_point(cell, separator)
    )


def _questions_of_options(
    log: Log, table: DataFrame, rows: list[Row], items: object, from_file: bool
) -> Iterator[Asked]:
    """Yields the answers of a table with a row for each option, see `Asked`.

    A question has the rows of one number, in the order of the column ``option``.
    """
    if items is not None:
        raise ExperimentError("The answers have rows of options; leave out items.")
    columns = parameter_columns(log.space.parameters)
    _check_columns(table, [*_FIRST, *columns.values(), *_BESIDE])
    by_id = log.catalogue is not None and "name" in table.columns
    questions: dict[Any, list[Row]] = {}
    for row_name, row in rows:
        questions.setdefault(row["question"], []).append((row_name, row))
    for number, option_rows in questions.items():
        question_name = f"{option_rows[0][0]} (question {number!r})"
        in_order = [
            option_rows[i] for i in _order(question_name, "option", option_rows)
        ]
        options = [
            (
                row_name,
                row["name"]
                if by_id
                else _design(log, row_name, row, columns, from_file),
            )
            for row_name, row in in_order
        ]
        fields, time = (
            _fields_of_options(question_name, in_order),
            _time(option_rows[0][1].get("time")),
        )
        yield question_name, options, fields, time


def _questions_of_duels(
    log: Log, table: DataFrame, rows: list[Row], items: object, from_file: bool
) -> Iterator[Asked]:
    """Yields the answers of a table with a row for each duel, see `Asked`.

    The winner is the first option. The table has no times.
    """
    _check_items(items)
    columns = [f"{side}_{name}" for side in _SIDES for name in log.space.parameters]
    by_name = items is not None or log.catalogue is not None
    if by_name:
        columns = [*_SIDES]
        if missing := [side for side in _SIDES if side not in table.columns]:
            raise ExperimentError(
                f"The answers have no column {', '.join(missing)}, but "
                f"{', '.join(map(str, table.columns))}; add it."
            )
    instead = "" if by_name else ", or winner and loser with items="
    if not by_name and not {*columns} & {*table.columns}:
        raise ExperimentError(
            f"The answers have the columns {', '.join(map(quoted, table.columns))}, "
            f"and none with a parameter; there can be {', '.join(columns)}{instead}."
        )
    _check_columns(table, [*columns, "tie", *_CIRCUMSTANCES], instead)
    # A file has the names of items as texts.
    designs = {
        str(label) if from_file else label: {str(n): value for n, value in row.items()}
        for label, row in (items.iterrows() if isinstance(items, DataFrame) else ())
    }

    def option(row_name: str, row: Mapping[Hashable, Any], side: str) -> Any:
        """Reads an option of a row: a design, or the id of a catalogue's row."""
        if not by_name:
            of_side = {name: f"{side}_{name}" for name in log.space.parameters}
            return _design(log, row_name, row, of_side, from_file)
        if items is None:
            return row[side]
        if row[side] not in designs:
            raise ExperimentError(
                f"{row_name} has the {side} {row[side]!r}, which is no item; give a "
                "name of the index of items."
            )
        return designs[row[side]]

    for row_name, row in rows:
        options = [
            (f"{row_name} ({side})", option(row_name, row, side)) for side in _SIDES
        ]
        fields = {"tie": True} if _truth(row_name, row, "tie") else {"winner": 0}
        yield row_name, options, {**fields, **_circumstances(row)}, None


def _check_items(items: object) -> None:
    """Checks that items are a table with different names."""
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


def csv_table(text: str, num_above: int = 0) -> DataFrame:
    """Reads a CSV file: all cells are texts, and the first row has names.

    The index has the numbers of rows as a spreadsheet shows them, of which
    ``num_above`` are above the text. Rows in which every cell is empty, as spreadsheets
    leave them at the end, are left out. Cells are separated as `separator_of` says.
    """
    # Excel's line "sep=;" is above the names.
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
    numbered = enumerate(rows, 2 + above + num_above)
    filled = {number: row for number, row in numbered if any(row)}
    return DataFrame([*filled.values()], index=[*filled], columns=names, dtype=object)


def csv_content(table: DataFrame) -> bytes:
    """Returns the content of a CSV file with a table."""
    # Unquoted, separators in names could outnumber the commas, see `separator_of`.
    has_separators = any({*";\t"} & {*str(name)} for name in table.columns)
    quoting: Any = csv.QUOTE_ALL if has_separators else csv.QUOTE_MINIMAL
    # A cell that has either half of this end of a line is quoted.
    text: str = table.to_csv(index=False, lineterminator="\r\n", quoting=quoting)
    return text.encode()


def _check_columns(
    table: DataFrame, columns_read: Sequence[str], instead: str = ""
) -> None:
    """Warns of columns that are not read, and refuses two of one name."""
    columns = [*table.columns]
    if unread := [column for column in columns if column not in columns_read]:
        remainder = f" and {len(unread) - 10} more" if len(unread) > 10 else ""
        warn_caller(
            f"Columns of the answers that were not read: "
            f"{', '.join(map(quoted, unread[:10]))}{remainder}. There can be "
            f"{', '.join(columns_read)}{instead}.",
            InputDataWarning,
        )
    if len(set(columns)) < len(columns):
        raise ExperimentError(
            f"The answers have columns of one name among {columns}; leave one out."
        )


def parameter_columns(
    names: Collection[str], reserved: Collection[str] = (*_FIRST, *_BESIDE)
) -> dict[str, str]:
    """Gives the column of each parameter in a table that has ``reserved`` columns.

    It has the name of the parameter, and ends in ``_parameter`` where another column is
    called so. Tables are written and read by these names.
    """
    columns = {}
    for name in names:
        column, used = name, {*reserved}
        while column in used:
            column += "_parameter"
            used |= {*names}
        columns[name] = column
    return columns


def _design(
    log: Log,
    row_name: str,
    row: Mapping[Hashable, Any],
    columns: Mapping[str, str],
    from_file: bool,
) -> dict[str, Any]:
    """Returns a design of a row, as far as the row has it.

    Cells of a file are texts. An empty one leaves its parameter out, unless values of
    the parameter are texts.
    """
    cells = {name: row[column] for name, column in columns.items() if column in row}
    if not from_file:
        return cells
    design: dict[str, Any] = {}
    for name, cell in cells.items():
        kind = log.space.parameters[name].parameter_type
        if kind is ParameterType.STRING:
            design[name] = cell
        elif cell != "":
            of_bool = kind is ParameterType.BOOL
            design[name] = TRUTHS.get(cell.lower()) if of_bool else _number(cell)
            if design[name] is None:
                wanted = "true or false" if of_bool else "a number"
                raise argument_error(
                    f"{row_name}, column {columns[name]},", cell, wanted
                )
    return design


def _number(text: str) -> int | float | None:
    """Returns the number in a text, or None; integers keep digits that no float has."""
    number = number_of(text)
    with suppress(ValueError):
        return None if number is None else int(text)
    return number


def _circumstances(row: Mapping[Hashable, Any]) -> dict[str, Any]:
    """Returns rater, note, seconds and count of a row, where they are there."""
    stated = {n: row[n] for n in _CIRCUMSTANCES if not _is_empty(row.get(n))}
    rater = stated.get("rater")
    if rater is not None:
        # A column of numbers with gaps has made a fraction of a whole one.
        is_integer = isinstance(rater, float) and rater.is_integer()
        stated["rater"] = str(int(rater) if is_integer else rater)
    for name in ("seconds", "count"):
        cell = stated.get(name)
        if isinstance(cell, str) and (number := _number(cell)) is not None:
            stated[name] = number
    # A column of whole numbers with gaps is one of fractions.
    if isinstance(stated.get("count"), float) and stated["count"].is_integer():
        stated["count"] = int(stated["count"])
    return stated


def _time(cell: object) -> str | None:
    """Gives the time of a cell that `answer_table` wrote; None of others, such as days.

    An answer that is read a second time is recognised by it. Times of the calendar's
    first and last year, which not all time zones have whole, are None too.
    """
    with suppress(ValueError, OverflowError):
        if isinstance(cell, str):
            time = datetime.fromisoformat(cell)
            if cell == moment(time) and MINYEAR < time.year < MAXYEAR:
                return cell
    return None


def _is_empty(cell: Any) -> bool:
    return is_missing(cell) or (isinstance(cell, str) and cell == "")


def _truth(row_name: str, row: Mapping[Hashable, Any], column: str) -> bool:
    """Reads True or False in a cell; an empty one is False."""
    cell = row.get(column)
    if _is_empty(cell):
        return False
    truth = TRUTHS.get(cell.lower()) if isinstance(cell, str) else cell
    if truth not in (False, True):
        raise ExperimentError(
            f"{row_name} has the {column} {quoted(cell)}; give True or False."
        )
    return bool(truth)


def _fields_of_options(row_name: str, rows: Sequence[Row]) -> dict[str, Any]:
    """Returns fields of `Answer` and circumstances by the rows of a question.

    Values of options are read back to what was said, and refused where no answer has
    them. The rows are in the order of the options.
    """
    for column in (*_CIRCUMSTANCES, "cannot_compare"):
        cells = [row.get(column) for _, row in rows]
        if len({"" if _is_empty(cell) else str(cell) for cell in cells}) > 1:
            raise ExperimentError(
                f"{row_name} and the next have the {column} {quoted(cells)}; give all "
                "options of the question the same."
            )
    first = rows[0][1]
    fields = _circumstances(first)
    valid = _numbers(_KIND_COLUMNS[INVALID], rows)
    failed = [place for place, value in valid.items() if value == 0]
    shown_options = ShownOptions(len(rows), failed)
    for kind, column in _KIND_COLUMNS.items():
        values = _numbers(column, rows)
        if not values:
            continue
        fields[kind.field] = kind.said_by(values, shown_options)
        if kind.encode(fields[kind.field], shown_options) != values:
            raise ExperimentError(
                f"{row_name} and the next have the {column} {[*values.values()]}, "
                "which no answer gives to its options; answers() shows what answers "
                "give."
            )
    if _truth(row_name, first, "cannot_compare"):
        fields["cannot_compare"] = True
    if any(not _is_empty(row.get("shown")) for _, row in rows):
        fields["order"] = _order(row_name, "shown", rows)
    return fields


def _order(row_name: str, column: str, rows: Sequence[Row]) -> list[int]:
    """Returns the places of rows in the order of a column that counts them."""
    numbers = _numbers(column, rows)
    if sorted(numbers.values()) != [*range(len(rows))]:
        raise ExperimentError(
            f"{row_name} and the next have the {column} {[*numbers.values()]}; count "
            "the options of a question from 0, and give each question a number of its "
            "own where tables were put together."
        )
    return sorted(numbers, key=numbers.__getitem__)


def _numbers(column: str, rows: Sequence[Row]) -> dict[int, float]:
    """Reads the numbers of a column by the places of rows, where there are any."""
    numbers = {}
    for place, (row_name, row) in enumerate(rows):
        cell = row.get(column)
        if not _is_empty(cell):
            number = finite_number(_number(cell) if isinstance(cell, str) else cell)
            if number is None:
                raise ExperimentError(
                    f"{row_name} has the {column} {quoted(cell)}; give a number, or "
                    "nothing."
                )
            numbers[place] = number
    return numbers


def answer_table(log: Log) -> DataFrame:
    """Returns answers that stand, in the order of the questions: a row for each option.

    It has the ``question``; the place of the ``option`` in the order of the question,
    and its ``name``; its parameters, whose columns end in ``_parameter`` where they
    would be called as others; who chose the question (``chosen_by``); who answered
    (``rater``), with a ``note`` and ``seconds``, how often (``count``), and when
    (``time``); the place at which the option was on display (``shown``), where that is
    known; ``cannot_compare``; and for each kind of answer the value of the option, see
    `Answer.rows`: ``winner`` is 1 for the winner and 0 for the loser, ``tie`` 1 for
    each, ``ranking`` 1 for the best and 2 for the second, ``valid`` 0 for options that
    failed. Cells of which nothing was said are empty.
    """
    columns, rows = parameter_columns(log.space.parameters), []
    for question in log.questions:
        answer, order = question.standing, question.display
        if answer is None:
            continue
        values = Answer(**answer.fields).rows(len(question.options))
        rows += [
            {
                "question": question.index,
                "option": place,
                "name": option.name,
                **{columns[name]: v for name, v in option.parameters.items()},
                "chosen_by": question.content["chosen_by"],
                **{name: answer.what.get(name) for name in _CIRCUMSTANCES},
                "count": answer.count,
                "shown": None if order is None else order.index(place),
                "time": answer.time,
                "cannot_compare": answer.what.get("cannot_compare", False),
                **{
                    column: values.get(kind.metric, {}).get(place)
                    for kind, column in _KIND_COLUMNS.items()
                },
            }
            for place, option in enumerate(question.options)
        ]
    return DataFrame(rows, columns=[*_FIRST, *columns.values(), *_BESIDE])
