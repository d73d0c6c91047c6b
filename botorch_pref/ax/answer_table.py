"""Tables of answers: those that were given elsewhere, and those of an experiment."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping, Sequence
from io import StringIO
from pathlib import Path
from typing import Any, NamedTuple

from ax.core.experiment import Experiment
from ax.core.parameter import Parameter, ParameterType
from ax.core.search_space import SearchSpace
from pandas import DataFrame, read_csv

from botorch_pref.ax.answers import KINDS, checked_answer
from botorch_pref.ax.given import finite_number, is_missing, written
from botorch_pref.ax.kinds import Invalid, ShownOptions
from botorch_pref.ax.log import Event, Log, LoggedQuestion
from botorch_pref.ax.space.catalogue import Catalogue
from botorch_pref.errors import ExperimentError

SIDES = ("winner", "loser")
"""Columns of items, or what the columns of their parameters begin with."""

CIRCUMSTANCES = ("rater", "note", "seconds")
"""Columns of who answered and how, which may be left out or empty."""

_BESIDE = ("tie", *CIRCUMSTANCES)
"""Further columns of duels, which may be left out or empty."""

KIND_COLUMNS = {kind.metric: kind.field for kind in KINDS} | {Invalid.metric: "valid"}
"""The column of each metric in a table with a row for each option."""

FIRST = ("question", "option", "name")
"""The columns of such a table before those of parameters."""

BESIDE = (
    "chosen_by",
    *CIRCUMSTANCES,
    "shown",
    "time",
    "cannot_compare",
    *dict.fromkeys(KIND_COLUMNS.values()),
)
"""The columns after them."""

_TRUTHS = {"true": True, "1": True, "1.0": True, "false": False, "0": False}
_TRUTHS |= {"0.0": False, "": False}
"""Texts that are true or false."""


class TableRow(NamedTuple):
    """An answer of a table.

    Attributes:
        label: Of its row, or the first of its rows, to name in messages.
        options: The designs, or their names in a catalogue; of duels the winner first.
        said: What was said of them, and by whom.
    """

    label: Hashable
    options: list[Any]
    said: dict[str, Any]


def table_rows(
    answers: DataFrame | str | Path, items: DataFrame | None, experiment: Experiment
) -> Iterator[TableRow]:
    """Answers of a table, one by one.

    Args:
        answers: A table, or the path of a CSV file: one that ``answers`` or
            ``write_answers`` made, with a row for each option; or one of duels, a row
            each. With ``items`` a table of duels has the columns ``winner`` and
            ``loser``, which name rows of these, or of a catalogue if the experiment has
            one and there are no items; otherwise ``winner_<parameter>`` and
            ``loser_<parameter>`` for each parameter. Of a ``tie`` the two are in any
            order. ``rater``, ``note`` and ``seconds`` may be there too; raters that are
            numbers are kept as text.
        items: Designs, a row each, with a column for each parameter.
        experiment: Ax's.

    Yields:
        The answers, in the order of the table.

    Raises:
        ExperimentError: A column is missing or means nothing here, or a row names an
            item that there is none of.
    """
    from_file = isinstance(answers, str | Path)
    table = _table(answers)
    if {"question", "option"} <= {*table.columns}:
        if items is not None:
            raise ExperimentError(
                "The answers have a row for each option, with its parameters; leave "
                "out items."
            )
        yield from _long_rows(table, experiment, from_file)
        return
    if items is not None and not items.index.is_unique:
        twice = items.index[items.index.duplicated()][0]
        raise ExperimentError(f"items has {twice!r} twice; name each item once.")
    space = experiment.search_space
    named = items is not None or Catalogue.of(experiment) is not None
    _check_columns(table, named, space)
    if items is not None and from_file:
        # A file has the names of items as texts.
        items = items.set_axis([str(name) for name in items.index])
    for label, row in zip(table.index, table.to_dict("records"), strict=True):
        if named and items is None:
            # The names of a catalogue are designs.
            options = [row[side] for side in SIDES]
        elif items is not None:
            options = [_item(label, row, side, items) for side in SIDES]
        else:
            columns = (
                {name: f"{s}_{name}" for name in space.parameters} for s in SIDES
            )
            options = [_design(row, each, space, from_file) for each in columns]
        yield TableRow(label, options, _said_of_duel(label, row))


def parameter_columns(space: SearchSpace) -> dict[str, str]:
    """The column of each parameter in a table with a row for each option.

    Args:
        space: Ax's.
    """
    return {
        name: f"{name}_parameter" if name in (*FIRST, *BESIDE) else name
        for name in space.parameters
    }


def csv_table(text: str) -> DataFrame:
    """Table of what a CSV file has, its cells all texts.

    Args:
        text: Of the file; its first row names the columns.

    Raises:
        ValueError: It is no table.
    """
    if not text.partition("\n")[0].strip():
        raise ValueError("its first line is empty; give the columns names there")
    # Python's reader refuses cells of more than 131,072 characters, which a catalogue
    # or a note can have. "NA" and "007" are names, and two columns can have one name.
    table = read_csv(
        StringIO(text, newline=""), header=None, dtype=object, na_filter=False
    )
    header, *rows = table.to_numpy().tolist()
    return DataFrame(rows, columns=header, dtype=object)


def _table(answers: DataFrame | str | Path) -> DataFrame:
    if isinstance(answers, DataFrame):
        return answers
    if not isinstance(answers, str | Path):
        raise ExperimentError(
            f"answers is a {type(answers).__name__}; give a table of pandas, or the "
            "path of a CSV file."
        )
    try:
        return csv_table(Path(answers).read_bytes().decode("utf-8-sig"))
    except (OSError, ValueError) as error:
        raise ExperimentError(f"{answers} cannot be read: {error}") from error


def _check_columns(table: DataFrame, named: bool, space: SearchSpace) -> None:
    known = [f"{side}_{name}" for side in SIDES for name in space.parameters]
    if named:
        known = [*SIDES]
        if missing := [side for side in SIDES if side not in table.columns]:
            raise ExperimentError(
                f"The answers have no column {', '.join(missing)}; there are "
                f"{', '.join(map(str, table.columns))}."
            )
    instead = "" if named else ", or winner and loser with items="
    _check_known(table, [*known, *_BESIDE], instead)


def _check_known(table: DataFrame, known: Sequence[str], instead: str = "") -> None:
    columns = [*table.columns]
    if unknown := [column for column in columns if column not in known]:
        raise ExperimentError(
            f"The answers have the columns {unknown}, which mean nothing here; there "
            f"can be {', '.join(known)}{instead}."
        )
    if len(set(columns)) < len(columns):
        raise ExperimentError(f"The answers have columns of one name among {columns}.")


def _design(
    row: Mapping[Hashable, Any],
    columns: Mapping[str, str],
    space: SearchSpace,
    from_file: bool,
) -> dict[str, Any]:
    """A design of a row, as far as the row has it."""
    found = {name: row[column] for name, column in columns.items() if column in row}
    if not from_file:
        return found
    parameters = space.parameters
    return {
        name: _read(parameters[name], cell)
        for name, cell in found.items()
        if cell != "" or parameters[name].parameter_type is ParameterType.STRING
    }


def _read(parameter: Parameter, cell: str) -> Any:
    """A cell of a file as a value; as it is where it is none."""
    if parameter.parameter_type is ParameterType.BOOL:
        return _TRUTHS.get(cell.lower(), cell)
    if parameter.parameter_type is ParameterType.STRING:
        return cell
    try:
        # Not every integer can be a float.
        return int(cell) if cell.lstrip("+-").isdecimal() else float(cell)
    except ValueError:
        return cell


def _item(
    label: Hashable, row: Mapping[Hashable, Any], side: str, items: DataFrame
) -> dict[str, Any]:
    if row[side] not in items.index:
        raise ExperimentError(
            f"Row {label!r} of the answers has the {side} {row[side]!r}, which is no "
            "item; the index of items has their names."
        )
    return {str(name): value for name, value in items.loc[row[side]].items()}


def _said_of_duel(label: Hashable, row: Mapping[Hashable, Any]) -> dict[str, Any]:
    tie = _truth(label, row, "tie")
    return {**({"tie": True} if tie else {"winner": 0}), **_circumstances(row)}


def _circumstances(row: Mapping[Hashable, Any]) -> dict[str, Any]:
    """Rater, note and seconds of a row, where they are there."""
    known = {n: row[n] for n in CIRCUMSTANCES if n in row and not _is_empty(row[n])}
    if "rater" in known:
        known["rater"] = _name(known["rater"])
    if isinstance(known.get("seconds"), str):
        known["seconds"] = _number(known["seconds"])
    return known


def _is_empty(cell: Any) -> bool:
    return is_missing(cell) or (isinstance(cell, str) and cell == "")


def _truth(label: Hashable, row: Mapping[Hashable, Any], column: str) -> bool:
    cell = row.get(column)
    if _is_empty(cell):
        return False
    known = _TRUTHS.get(cell.lower()) if isinstance(cell, str) else cell
    if known not in (False, True):
        raise ExperimentError(
            f"Row {label!r} of the answers has the {column} {written(cell)}; give True "
            "or False."
        )
    return bool(known)


def _name(rater: Any) -> str:
    """A name, of a number that a column with gaps has made a fraction of too."""
    whole = isinstance(rater, float) and rater.is_integer()
    return str(int(rater) if whole else rater)


def _number(cell: Any) -> Any:
    """A cell as a number; as it is where it is none."""
    try:
        number = finite_number(float(cell) if isinstance(cell, str) else cell)
    except ValueError:
        return cell
    return cell if number is None else number


Row = tuple[Hashable, Mapping[Hashable, Any]]


def _long_rows(
    table: DataFrame, experiment: Experiment, from_file: bool
) -> Iterator[TableRow]:
    """Answers of a table with a row for each option."""
    space = experiment.search_space
    columns = parameter_columns(space)
    _check_known(table, [*FIRST, *columns.values(), *BESIDE])
    by_id = Catalogue.of(experiment) is not None and "name" in table.columns
    questions: dict[Any, list[Row]] = {}
    for label, row in zip(table.index, table.to_dict("records"), strict=True):
        questions.setdefault(row["question"], []).append((label, row))
    for number, rows in questions.items():
        where = f"Question {number!r} of the answers"
        places = _places(where, "option", rows)
        in_order = [rows[i] for i in sorted(places, key=places.__getitem__)]
        options: list[Any] = [
            row["name"] if by_id else _design(row, columns, space, from_file)
            for _, row in in_order
        ]
        yield TableRow(rows[0][0], options, _said_of_options(where, in_order))


def _said_of_options(where: str, rows: Sequence[Row]) -> dict[str, Any]:
    """Fields of `Answer` and `Circumstances` by the rows of a question."""
    for column in (*CIRCUMSTANCES, "cannot_compare"):
        cells = [row.get(column) for _, row in rows]
        if len({"" if _is_empty(cell) else str(cell) for cell in cells}) > 1:
            raise ExperimentError(
                f"{where} has the {column} {written(cells)}; give all its options the "
                "same."
            )
    label, first = rows[0]
    said = _circumstances(first)
    valid = _numbers(where, KIND_COLUMNS[Invalid.metric], rows)
    failed = tuple(place for place, value in valid.items() if value == 0)
    shown = ShownOptions(len(rows), failed)
    for kind in KINDS:
        column = KIND_COLUMNS[kind.metric]
        values = _numbers(where, column, rows)
        if not values:
            continue
        said[kind.field] = kind.said_by(values, shown)
        if kind.encode(said[kind.field], shown) != values:
            raise ExperimentError(
                f"{where} has the {column} {[*values.values()]}, which no answer gives "
                "to its options; answers() shows what answers give."
            )
    if _truth(label, first, "cannot_compare"):
        said["cannot_compare"] = True
    if any(not _is_empty(row.get("shown")) for _, row in rows):
        order = _places(where, "shown", rows)
        said["order"] = sorted(order, key=order.__getitem__)
    return said


def _places(where: str, column: str, rows: Sequence[Row]) -> dict[int, float]:
    """A column that counts the rows of a question, in any order."""
    found = _numbers(where, column, rows)
    if sorted(found.values()) != [*range(len(rows))]:
        raise ExperimentError(
            f"{where} has the {column} {[*found.values()]}; count its options from 0."
        )
    return found


def _numbers(where: str, column: str, rows: Sequence[Row]) -> dict[int, float]:
    """The numbers of a column, by the place of the row, as far as there are any."""
    found = {}
    for place, (_, row) in enumerate(rows):
        cell = row.get(column)
        if _is_empty(cell):
            continue
        number = finite_number(_number(cell))
        if number is None:
            raise ExperimentError(
                f"{where} has the {column} {written(cell)}; give a number, or nothing."
            )
        found[place] = number
    return found


def answer_table(log: Log) -> DataFrame:
    """Answers that stand, in the order of the questions, in long form.

    Args:
        log: Of the experiment.

    Returns:
        A row for each option of each answered question: the ``question``; the place of
        the ``option`` in the order in which it was shown, and its ``name``; the values
        of its parameters, whose columns end in ``_parameter`` where they would be
        called as others; who chose the question (``chosen_by``); who answered
        (``rater``), with a ``note`` and ``seconds``, and when (``time``); the place at
        which the option was on display (``shown``), where that was said;
        ``cannot_compare``; and for each kind of answer what it says of the option, by
        the values of `Answer.rows`: ``winner`` is 1 for the winner and 0 for the loser,
        ``tie`` 1 for both, ``ranking`` 1 for the best and 2 for the second, ``valid`` 0
        for what failed.
        Nothing where nothing was said.
    """
    rows: list[dict[str, Any]] = []
    for question in log.questions:
        if question.standing is not None:
            rows += _rows(question, question.standing, log.num_levels)
    names = parameter_columns(log.blank.search_space)
    table = [
        {
            **{column: row[column] for column in FIRST},
            **{names[name]: value for name, value in row["parameters"].items()},
            **{column: row.get(column) for column in BESIDE},
        }
        for row in rows
    ]
    return DataFrame(table, columns=[*FIRST, *names.values(), *BESIDE])


def _rows(
    question: LoggedQuestion, told: Event, num_levels: int | None
) -> list[dict[str, Any]]:
    """The rows of a question, one for each option."""
    size = len(question.options)
    answer = checked_answer(size, num_levels, **told.said)
    values, order = answer.rows(size), told.what.get("order")
    return [
        {
            "question": question.index,
            "option": place,
            "name": option.name,
            "parameters": option.parameters,
            "chosen_by": question.events[0].what["chosen_by"],
            **{name: told.what.get(name) for name in CIRCUMSTANCES},
            "shown": order.index(place) if order else None,
            "time": told.time,
            "cannot_compare": answer.cannot_compare,
            **{KIND_COLUMNS[metric]: by.get(place) for metric, by in values.items()},
        }
        for place, option in enumerate(question.options)
    ]
