"""Table of all answers, a row for each option."""

from __future__ import annotations

from typing import Any

from pandas import DataFrame

from botorch_pref.ax.answers.answer import KINDS, checked_answer
from botorch_pref.ax.answers.kinds.invalid import Invalid
from botorch_pref.ax.log import Event, Log, LoggedQuestion

_COLUMNS = {kind.metric: kind.field for kind in KINDS} | {Invalid.metric: "valid"}
"""The column of each metric."""

_BESIDE = ("rater", "note", "seconds")


def answer_table(log: Log) -> DataFrame:
    """Answers that stand, in the order of the questions, in long form.

    Args:
        log: Of the experiment.

    Returns:
        A row for each option of each answered question: the ``question``; the place of
        the ``option`` in the order in which it was shown, and its ``name``; the values
        of its parameters, whose columns end in ``_parameter`` where they would be
        called as others; who chose the question (``chosen_by``); who answered
        (``rater``), with a ``note`` and ``seconds``, and when (``time``);
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
    said = list(dict.fromkeys(_COLUMNS.values()))
    beside = ["chosen_by", *_BESIDE, "time", "cannot_compare", *said]
    first = ["question", "option", "name"]
    taken = {*first, *beside}
    names = {
        name: f"{name}_parameter" if name in taken else name
        for name in log.blank.search_space.parameters
    }
    table = [
        {
            **{column: row[column] for column in first},
            **{names[name]: value for name, value in row["parameters"].items()},
            **{column: row.get(column) for column in beside},
        }
        for row in rows
    ]
    return DataFrame(table, columns=[*first, *names.values(), *beside])


def _rows(
    question: LoggedQuestion, told: Event, num_levels: int | None
) -> list[dict[str, Any]]:
    """The rows of a question, one for each option."""
    size = len(question.options)
    answer = checked_answer(size, num_levels, **told.said)
    values = answer.rows(size)
    return [
        {
            "question": question.index,
            "option": place,
            "name": option.name,
            "parameters": option.parameters,
            "chosen_by": question.events[0].what["chosen_by"],
            **{name: told.what.get(name) for name in _BESIDE},
            "time": told.time,
            "cannot_compare": answer.cannot_compare,
            **{_COLUMNS[metric]: by.get(place) for metric, by in values.items()},
        }
        for place, option in enumerate(question.options)
    ]
