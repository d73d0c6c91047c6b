"""Tables of answers: those that were given elsewhere, and those of an experiment."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from io import StringIO
from pathlib import Path
from typing import Any, NamedTuple

from ax.core.parameter import ParameterType
from ax.core.search_space import SearchSpace
from pandas import DataFrame, read_csv

from botorch_pref.ax.answers import Answer
from botorch_pref.ax.given import finite_number, is_missing, written
from botorch_pref.ax.kinds import INVALID, KINDS, ShownOptions
from botorch_pref.ax.log import Event, Log, LoggedQuestion
from botorch_pref.ax.log_store import file_content
from botorch_pref.ax.questions import record
from botorch_pref.ax.space.options import own_design
from botorch_pref.datasets.tables import decimal_point, separator_of
from botorch_pref.errors import ExperimentError

_SIDES = ("winner", "loser")
"""Columns of items, or what the columns of their parameters begin with."""

_CIRCUMSTANCES = ("rater", "note", "seconds")
"""Columns of who answered and how, which may be left out or empty."""

_KIND_COLUMNS = {kind.metric: kind.field for kind in KINDS} | {INVALID.metric: "valid"}
"""The column of each metric in a table with a row for each option."""

_FIRST = ("question", "option", "name")
"""The columns of such a table before those of parameters."""

_BESIDE = (
    *("chosen_by", *_CIRCUMSTANCES, "shown", "time", "cannot_compare"),
    *_KIND_COLUMNS.values(),
)
"""The columns after them."""

_TRUTHS = {"true": True, "1": True, "1.0": True, "false": False, "0": False}
_TRUTHS |= {"0.0": False, "": False}
"""Texts that are true or false."""

Row = tuple[str, Mapping[Hashable, Any]]
"""A row of a table, after the text that names it in messages."""


class TableRow(NamedTuple):
    """An answer of a table, and the texts that name its places in messages.

    ``options`` are designs or ids of a catalogue, the winner of a duel first; ``said``
    has fields of `Answer` and circumstances.
    """

    where: str
    options: list[Any]
    sources: list[str]
    said: dict[str, Any]


def record_table(
    log: Log, answers: DataFrame | str | Path, items: DataFrame | None
) -> None:
    """Records the answers of a table in its order.

    A table with the columns ``question`` and ``option`` has a row for each option, as
    `answer_table` makes it; others have a row for each duel.
    """
    before = len(log.questions)
    for row in _table_rows(answers, items, log):
        try:
            record(log, row.options, row.said)
        except ExperimentError as error:
            raise ExperimentError(f"{_wrong_place(row, log)}: {error}") from error
    if len(log.questions) == before:
        raise ExperimentError("The table of answers has no rows; give one an answer.")


def _wrong_place(row: TableRow, log: Log) -> str:
    for source, option in zip(row.sources, row.options, strict=True):
        try:
            own_design(log.space, log.catalogue, option)
        except ExperimentError:
            return source
    return row.where


def _table_rows(
    answers: DataFrame | str | Path, items: DataFrame | None, log: Log
) -> Iterator[TableRow]:
    from_file = isinstance(answers, str | Path)
    table = _table(answers)
    records = table.to_dict("records")
    labels = map(repr, table.index)
    name = Path(answers).name if isinstance(answers, str | Path) else "the answers"
    rows = [(f"Row {k} of {name}", row) for k, row in zip(labels, records, strict=True)]
    space, has_ids = log.space, log.catalogue is not None
    texts_of = space if from_file else None
    if {"question", "option"} <= {*table.columns}:
        if items is not None:
            raise ExperimentError(
                "The answers have a row for each option, with its parameters; leave "
                "out items."
            )
        columns = _parameter_columns(space)
        _check_known(table, [*_FIRST, *columns.values(), *_BESIDE])
        by_id = has_ids and "name" in table.columns
        for named, in_order in _questions(rows):
            designs = [
                row["name"] if by_id else _design(where, row, columns, texts_of)
                for where, row in in_order
            ]
            sources = [where for where, _ in in_order]
            yield TableRow(named, designs, sources, _said_of_options(named, in_order))
        return
    if items is not None:
        _check_items(items)
    _check_columns(table, items is not None or has_ids, space)
    if items is not None and from_file:
        # A file has the names of items as texts.
        items = items.set_axis([str(label) for label in items.index])
    for where, row in rows:
        if items is not None:
            options = [_item(where, row, side, items) for side in _SIDES]
        elif has_ids:
            options = [row[side] for side in _SIDES]
        else:
            sides = [{n: f"{side}_{n}" for n in space.parameters} for side in _SIDES]
            options = [_design(where, row, side, texts_of) for side in sides]
        said = {"tie": True} if _truth(where, row, "tie") else {"winner": 0}
        sources = [f"{where} ({side})" for side in _SIDES]
        yield TableRow(where, options, sources, {**said, **_circumstances(row)})


def _check_items(items: object) -> None:
    if not isinstance(items, DataFrame):
        raise ExperimentError(
            f"items is a {type(items).__name__}; give a table of pandas, whose index "
            "has the names of the items."
        )
    if not items.index.is_unique:
        twice = items.index[items.index.duplicated()][0]
        places = [i for i, label in enumerate(items.index) if label == twice]
        raise ExperimentError(
            f"items has {twice!r} twice, at {places[0]} and {places[1]} (counted from "
            "0); name each item once."
        )


def csv_table(text: str) -> DataFrame:
    """Table of a CSV file, whose cells are all texts, and whose first row has names.

    The index has the numbers of rows as a spreadsheet shows them. Rows in which every
    cell is empty, as spreadsheets leave them at the end, are left out. Cells are
    separated as `separator_of` says, and decimal commas become points.
    """
    header = StringIO(text, newline=None).readline()
    if not header.strip():
        raise ValueError("its first line is empty; give the columns names there")
    separator = separator_of(text)
    # Python's reader refuses cells of more than 131,072 characters, which a catalogue
    # or a note can have. "NA" and "007" are names, and two columns can have one name.
    table = read_csv(
        StringIO(text, newline=""),
        sep=separator,
        header=None,
        dtype=object,
        na_filter=False,
        skip_blank_lines=False,
    )
    names, *rows = table.to_numpy().tolist()
    found = {
        number: [decimal_point(cell, separator) for cell in row]
        for number, row in enumerate(rows, 2)
        if any(row)
    }
    return DataFrame([*found.values()], index=[*found], columns=names, dtype=object)


def _table(answers: DataFrame | str | Path) -> DataFrame:
    if isinstance(answers, DataFrame):
        return answers
    if not isinstance(answers, str | Path):
        raise ExperimentError(
            f"answers is a {type(answers).__name__}; give a table of pandas, or the "
            "path of a CSV file."
        )
    try:
        return csv_table(file_content(Path(answers)).decode("utf-8-sig"))
    except (OSError, ValueError) as error:
        said = str(error).strip()
        raise ExperimentError(f"{answers} cannot be read: {said}") from error


def _check_columns(table: DataFrame, named: bool, space: SearchSpace) -> None:
    known = [f"{side}_{name}" for side in _SIDES for name in space.parameters]
    if named:
        known = [*_SIDES]
        if missing := [side for side in _SIDES if side not in table.columns]:
            raise ExperimentError(
                f"The answers have no column {', '.join(missing)}, but "
                f"{', '.join(map(str, table.columns))}; add it."
            )
    instead = "" if named else ", or winner and loser with items="
    _check_known(table, [*known, "tie", *_CIRCUMSTANCES], instead)


def _check_known(table: DataFrame, known: Sequence[str], instead: str = "") -> None:
    columns = [*table.columns]
    if unknown := [column for column in columns if column not in known]:
        raise ExperimentError(
            f"The answers have the columns {unknown}, which mean nothing here; there "
            f"can be {', '.join(known)}{instead}."
        )
    if len(set(columns)) < len(columns):
        raise ExperimentError(
            f"The answers have columns of one name among {columns}; leave one out."
        )


def _design(
    where: str,
    row: Mapping[Hashable, Any],
    columns: Mapping[str, str],
    texts_of: SearchSpace | None,
) -> dict[str, Any]:
    """A design of a row, as far as the row has it.

    Cells are values, or texts of values of a space; empty texts are none then.
    """
    design = {name: row[column] for name, column in columns.items() if column in row}
    if texts_of is None:
        return design
    kinds = {name: p.parameter_type for name, p in texts_of.parameters.items()}
    return {
        name: _read(f"{where}, column {columns[name]}", kinds[name], cell)
        for name, cell in design.items()
        if cell != "" or kinds[name] is ParameterType.STRING
    }


def _read(where: str, kind: ParameterType, cell: str) -> Any:
    """The value of a text."""
    if kind is ParameterType.STRING:
        return cell
    if kind is ParameterType.BOOL:
        if cell.lower() in _TRUTHS:
            return _TRUTHS[cell.lower()]
        raise ExperimentError(f"{where}, is {written(cell)}; give true or false.")
    try:
        return _number(cell)
    except ValueError as error:
        raise ExperimentError(f"{where}, is {written(cell)}; give a number.") from error


def _number(text: str) -> int | float:
    """The number that a text says to everybody; to Python alone, 1_0 is ten."""
    if "_" in text:
        raise ValueError(f"{text!r:.80} is no number")
    # Not every integer can be a float.
    return int(text) if text.lstrip("+-").isdecimal() else float(text)


def _item(
    where: str, row: Mapping[Hashable, Any], side: str, items: DataFrame
) -> dict[str, Any]:
    if row[side] not in items.index:
        raise ExperimentError(
            f"{where} has the {side} {row[side]!r}, which is no item; give a name of "
            "the index of items."
        )
    return {str(name): value for name, value in items.loc[row[side]].items()}


def _circumstances(row: Mapping[Hashable, Any]) -> dict[str, Any]:
    """Rater, note and seconds of a row, where they are there."""
    known = {n: row[n] for n in _CIRCUMSTANCES if not _is_empty(row.get(n))}
    rater = known.get("rater")
    if rater is not None:
        # A column of numbers with gaps has made a fraction of a whole one.
        whole = isinstance(rater, float) and rater.is_integer()
        known["rater"] = str(int(rater) if whole else rater)
    if isinstance(seconds := known.get("seconds"), str):
        with suppress(ValueError):
            known["seconds"] = _number(seconds)
    return known


def _is_empty(cell: Any) -> bool:
    return is_missing(cell) or (isinstance(cell, str) and cell == "")


def _truth(where: str, row: Mapping[Hashable, Any], column: str) -> bool:
    cell = row.get(column)
    if _is_empty(cell):
        return False
    known = _TRUTHS.get(cell.lower()) if isinstance(cell, str) else cell
    if known not in (False, True):
        raise ExperimentError(
            f"{where} has the {column} {written(cell)}; give True or False."
        )
    return bool(known)


def _questions(rows: Iterable[Row]) -> Iterator[tuple[str, list[Row]]]:
    """The rows of each question in the order of its options, after the place of it."""
    questions: dict[Any, list[Row]] = {}
    for where, row in rows:
        questions.setdefault(row["question"], []).append((where, row))
    for number, found in questions.items():
        named = f"{found[0][0]} (question {number!r})"
        places = _places(named, "option", found)
        yield named, [found[i] for i in sorted(places, key=places.__getitem__)]


def _parameter_columns(space: SearchSpace) -> dict[str, str]:
    """The column of each parameter in a table with a row for each option."""
    return {
        name: f"{name}_parameter" if name in (*_FIRST, *_BESIDE) else name
        for name in space.parameters
    }


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
    valid = _numbers(_KIND_COLUMNS[INVALID.metric], rows)
    failed = tuple(place for place, value in valid.items() if value == 0)
    shown = ShownOptions(len(rows), failed)
    for kind in KINDS:
        column = _KIND_COLUMNS[kind.metric]
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
        order = _places(where, "shown", rows)
        said["order"] = sorted(order, key=order.__getitem__)
    return said


def _places(where: str, column: str, rows: Sequence[Row]) -> dict[int, float]:
    """A column that counts the rows of a question, in any order."""
    found = _numbers(column, rows)
    if sorted(found.values()) != [*range(len(rows))]:
        raise ExperimentError(
            f"{where} and the next have the {column} {[*found.values()]}; count the "
            "options of a question from 0, and give each question a number of its own "
            "where tables were put together."
        )
    return found


def _numbers(column: str, rows: Sequence[Row]) -> dict[int, float]:
    """The numbers of a column, by the place of the row, as far as there are any."""
    found = {}
    for place, (where, row) in enumerate(rows):
        cell = row.get(column)
        if _is_empty(cell):
            continue
        try:
            number = finite_number(_number(cell) if isinstance(cell, str) else cell)
        except ValueError:
            number = None
        if number is None:
            raise ExperimentError(
                f"{where} has the {column} {written(cell)}; give a number, or nothing."
            )
        found[place] = number
    return found


def answer_table(log: Log) -> DataFrame:
    """Answers that stand, in the order of the questions, in long form.

    Returns:
        A row for each option of each answered question, with the ``question``; the
        place of the ``option`` in the order in which it was shown, and its ``name``;
        the values of its parameters, whose columns end in ``_parameter`` where they
        would be called as others; who chose the question (``chosen_by``); who answered
        (``rater``), with a ``note`` and ``seconds``, and when (``time``); the place at
        which the option was on display (``shown``), where that is known;
        ``cannot_compare``; and for each kind of answer the value of the option, see
        `Answer.rows`: ``winner`` is 1 for the winner and 0 for the loser, ``tie`` 1 for
        each, ``ranking`` 1 for the best and 2 for the second, ``valid`` 0 for options
        that failed. Cells of which nothing was said are empty.
    """
    names = _parameter_columns(log.space)
    rows: list[dict[str, Any]] = []
    for question in log.questions:
        if question.standing is not None:
            rows += _rows(question, question.standing, names)
    return DataFrame(rows, columns=[*_FIRST, *names.values(), *_BESIDE])


def _rows(
    question: LoggedQuestion, told: Event, names: Mapping[str, str]
) -> list[dict[str, Any]]:
    """The rows of a question, one for each option."""
    values = Answer(**told.said).rows(len(question.options))
    order, nothing = question.display, told.what.get("cannot_compare", False)
    return [
        {
            **dict.fromkeys(_BESIDE),
            "question": question.index,
            "option": place,
            "name": option.name,
            **{names[name]: value for name, value in option.parameters.items()},
            "chosen_by": question.asked["chosen_by"],
            **{name: told.what.get(name) for name in _CIRCUMSTANCES},
            "shown": None if order is None else order.index(place),
            "time": told.time,
            "cannot_compare": nothing,
            **{_KIND_COLUMNS[metric]: by.get(place) for metric, by in values.items()},
        }
        for place, option in enumerate(question.options)
    ]
