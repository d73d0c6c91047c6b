"""Tables of duels that were answered elsewhere."""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

from ax.core.experiment import Experiment
from ax.core.search_space import SearchSpace
from pandas import DataFrame, read_csv
from pandas.errors import ParserError

from botorch_pref.ax.given_values import is_missing
from botorch_pref.ax.space.catalogue import Catalogue
from botorch_pref.errors import ExperimentError

SIDES = ("winner", "loser")
"""Columns of items, or what the columns of their parameters begin with."""

_BESIDE = ("tie", "rater", "note", "seconds")
"""Further columns, which may be left out or empty."""


class TableRow(NamedTuple):
    """Row of a table of answers.

    Attributes:
        label: Of the row, to name in messages.
        options: The two designs, or their names in a catalogue, the winner first.
        said: What was said of them, and by whom.
    """

    label: Hashable
    options: list[Any]
    said: dict[str, Any]


def table_rows(
    answers: DataFrame | str | Path, items: DataFrame | None, experiment: Experiment
) -> Iterator[TableRow]:
    """Answers of a table, row by row.

    Args:
        answers: A table, or the path of a CSV file. With ``items`` it has the columns
            ``winner`` and ``loser``, which name rows of these, or of a catalogue if the
            experiment has one and there are no items; otherwise
            ``winner_<parameter>`` and ``loser_<parameter>`` for each parameter. Of a
            ``tie`` the two are in any order. ``rater``, ``note`` and ``seconds`` may be
            there too; raters that are numbers are kept as text.
        items: Designs, a row each, with a column for each parameter.
        experiment: Ax's.

    Yields:
        The answers, in the order of the table.

    Raises:
        ExperimentError: A column is missing or means nothing here, or a row names an
            item that there is none of.
    """
    table = _table(answers)
    if items is not None and not items.index.is_unique:
        twice = items.index[items.index.duplicated()][0]
        raise ExperimentError(f"items has {twice!r} twice; name each item once.")
    space = experiment.search_space
    named = items is not None or Catalogue.of(experiment) is not None
    _check_columns(table, named, space)
    for label, row in zip(table.index, table.to_dict("records"), strict=True):
        if named and items is None:
            # The names of a catalogue are designs.
            options = [row[side] for side in SIDES]
        else:
            options = [_design(label, row, side, items, space) for side in SIDES]
        yield TableRow(label, options, _said(label, row))


def _table(answers: DataFrame | str | Path) -> DataFrame:
    if isinstance(answers, DataFrame):
        return answers
    if not isinstance(answers, str | Path):
        raise ExperimentError(
            f"answers is a {type(answers).__name__}; give a table of pandas, or the "
            "path of a CSV file."
        )
    try:
        return read_csv(answers)
    except (OSError, ParserError, ValueError) as error:
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
    columns = [*known, *_BESIDE]
    if unknown := [column for column in table.columns if column not in columns]:
        raise ExperimentError(
            f"The answers have the columns {unknown}, which mean nothing here; there "
            f"can be {', '.join(columns)}"
            f"{'' if named else ', or winner and loser with items='}."
        )


def _design(
    label: Hashable,
    row: dict[Hashable, Any],
    side: str,
    items: DataFrame | None,
    space: SearchSpace,
) -> dict[str, Any]:
    if items is None:
        names = [name for name in space.parameters if f"{side}_{name}" in row]
        return {name: row[f"{side}_{name}"] for name in names}
    if row[side] not in items.index:
        raise ExperimentError(
            f"Row {label!r} of the answers has the {side} {row[side]!r}, which is no "
            "item; the index of items has their names."
        )
    return {str(name): value for name, value in items.loc[row[side]].items()}


def _said(label: Hashable, row: dict[Hashable, Any]) -> dict[str, Any]:
    beside = {
        name: row[name] for name in _BESIDE if name in row and not is_missing(row[name])
    }
    tie = beside.pop("tie", False)
    if tie not in (False, True):
        raise ExperimentError(
            f"Row {label!r} of the answers has the tie {tie!r}; give True or False."
        )
    if "rater" in beside:
        beside["rater"] = _name(beside["rater"])
    return {**({"tie": True} if tie else {"winner": 0}), **beside}


def _name(rater: Any) -> str:
    """A name, of a number that a column with gaps has made a fraction of too."""
    whole = isinstance(rater, float) and rater.is_integer()
    return str(int(rater) if whole else rater)
