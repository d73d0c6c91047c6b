"""Table of all answers, a row for each option."""

from __future__ import annotations

from typing import Any

from pandas import DataFrame

from botorch_pref.ax.answers.answer import checked_answer
from botorch_pref.ax.answers.answer_table import (
    BESIDE,
    CIRCUMSTANCES,
    FIRST,
    KIND_COLUMNS,
    parameter_columns,
)
from botorch_pref.ax.log import Event, Log, LoggedQuestion


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
