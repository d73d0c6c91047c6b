"""Answers as a table."""

import math

import pandas as pd
import pytest
from parameters import choice, real

from botorch_pref.ax import PreferenceExperiment


@pytest.fixture(scope="module")
def told(tmp_path_factory) -> PreferenceExperiment:
    experiment = PreferenceExperiment.create(
        "told",
        parameters=[
            real("tie"),
            choice("bean", ["a", "b", "c"], is_ordered=False),
        ],
        storage=tmp_path_factory.mktemp("told") / "told.db",
        num_levels=5,
        initial=20,
    )
    answers = [
        (2, {"winner": 1, "rater": "eva", "note": "sour", "seconds": 3.0}),
        (2, {"tie": True, "invalid": []}),
        (3, {"ranking": [2, 0], "invalid": [1], "levels": [4, None, 0]}),
        (2, {"cannot_compare": True}),
        (2, {"strength": 0.8}),
        (3, {"best": 1}),
    ]
    for size, answer in answers:
        experiment.tell(experiment.ask(size), **answer)
    experiment.ask(2)
    withdrawn = experiment.ask(2)
    experiment.tell(withdrawn, winner=0)
    experiment.withdraw(withdrawn)
    return experiment


def column(table: pd.DataFrame, question: int, name: str) -> list:
    values = table[table["question"] == question][name].tolist()
    return [None if isinstance(v, float) and math.isnan(v) else v for v in values]


def test_each_option_has_what_was_said_of_it(told) -> None:
    table = told.answers()
    assert table["question"].tolist() == [0, 0, 1, 1, 2, 2, 2, 3, 3, 4, 4, 5, 5, 5]
    assert column(table, 2, "option") == [0, 1, 2]
    assert column(table, 0, "winner") == [0, 1]
    assert column(table, 0, "rater") == ["eva", "eva"]
    assert column(table, 0, "note") == ["sour", "sour"]
    assert column(table, 0, "seconds") == [3.0, 3.0]
    assert column(table, 0, "tie") == [None, None]
    assert column(table, 1, "tie") == [1, 1]
    assert column(table, 1, "valid") == [1, 1]
    assert column(table, 2, "ranking") == [None, None, None]
    # The ranking of two that did not fail is a winner.
    assert column(table, 2, "winner") == [0, None, 1]
    assert column(table, 2, "valid") == [1, 0, 1]
    assert column(table, 2, "levels") == [4, None, 0]
    assert column(table, 3, "cannot_compare") == [True, True]
    assert column(table, 4, "strength") == pytest.approx([0.8, 0.2])
    assert column(table, 5, "best") == [0, 1, 0]
    assert set(table["chosen_by"]) == {"Sobol"}


def test_options_are_in_the_order_in_which_they_were_shown(told) -> None:
    table = told.answers()
    for index in range(6):
        options = told.question(index).options
        assert column(table, index, "bean") == [option["bean"] for option in options]
        # A parameter that is called as a column has another name.
        assert column(table, index, "tie_parameter") == [o["tie"] for o in options]


def test_columns_of_parameters_that_are_called_as_each_other(tmp_path) -> None:
    def create(name: str) -> PreferenceExperiment:
        return PreferenceExperiment.create(
            name,
            parameters=[real("tie"), real("tie_parameter")],
            storage=tmp_path / "named.db",
        )

    told, second_experiment = create("told"), create("other")
    options = [{"tie": 0.1, "tie_parameter": 0.2}, {"tie": 0.3, "tie_parameter": 0.4}]
    told.record(options, winner=1)
    table = told.answers()
    assert column(table, 0, "tie_parameter_parameter") == [0.1, 0.3]
    assert column(table, 0, "tie_parameter") == [0.2, 0.4]
    (question,) = second_experiment.record_table(table)
    assert [*question.options] == options


def test_without_answers_there_are_the_columns(tmp_path) -> None:
    experiment = PreferenceExperiment.create(
        "none",
        parameters=[real("x")],
        storage=tmp_path / "none.db",
    )
    table = experiment.answers()
    assert table.empty
    assert {"question", "option", "name", "x", "winner"} <= set(table.columns)
