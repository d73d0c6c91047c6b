"""Fields of answers about options, and the data as which they are kept."""

import json
from dataclasses import fields

import numpy as np
import pytest
from cases import in_turn

from botorch_pref.ax.answer_kinds import KINDS
from botorch_pref.ax.answers import Answer, checked_answer
from botorch_pref.errors import ExperimentError

DUEL = "pairwise_pref_query"


def test_every_field_is_of_the_kind_that_says_so() -> None:
    names = [field.name for field in fields(Answer) if field.name != "cannot_compare"]
    assert names == [kind.field for kind in KINDS]
    assert len({kind.metric for kind in KINDS}) == len(KINDS)


@in_turn(
    ("size", "answer", "rows"),
    [
        (2, {"winner": 1}, {DUEL: {0: 0, 1: 1}}),
        (2, {"tie": True}, {"preference_tie": {0: 1, 1: 1}}),
        (3, {"tie": True}, {"preference_tie": {0: 1, 1: 1, 2: 1}}),
        (2, {"cannot_compare": True}, {}),
        (2, {"strength": 0.8}, {"preference_strength": {0: 0.8, 1: 0.2}}),
        (2, {"position": 0.3}, {"preference_position": {0: 0.7, 1: 0.3}}),
        (2, {"position": 1}, {"preference_position": {0: 0.0, 1: 1.0}}),
        (3, {"best": 1}, {"preference_choice": {0: 0, 1: 1, 2: 0}}),
        (3, {"ranking": [2, 0, 1]}, {"preference_rank": {2: 1, 0: 2, 1: 3}}),
        (2, {"invalid": [1]}, {"preference_valid": {0: 1, 1: 0}}),
        (2, {"invalid": [1, 0]}, {"preference_valid": {0: 0, 1: 0}}),
        (2, {"levels": [2, None]}, {"preference_level": {0: 2}}),
        (2, {"ratings": [0.25, 0.5]}, {"preference_rating": {0: 0.25, 1: 0.5}}),
        (
            2,
            {"winner": 0, "invalid": []},
            {DUEL: {0: 1, 1: 0}, "preference_valid": {0: 1, 1: 1}},
        ),
        (
            4,
            {"ranking": [3, 0, 2], "invalid": [1]},
            {
                "preference_rank": {3: 1, 0: 2, 2: 3},
                "preference_valid": {0: 1, 1: 0, 2: 1, 3: 1},
            },
        ),
        (
            3,
            {"best": 2, "invalid": [0]},
            {DUEL: {1: 0, 2: 1}, "preference_valid": {0: 0, 1: 1, 2: 1}},
        ),
    ],
)
def test_answers_are_data_of_their_metrics(size, answer, rows) -> None:
    assert checked_answer(size, 5, **answer).rows(size) == rows


def test_the_same_said_in_other_ways_is_the_same_answer() -> None:
    winner = checked_answer(2, None, winner=1)
    assert checked_answer(2, None, best=1) == winner
    assert checked_answer(2, None, ranking=(1, 0)) == winner
    assert checked_answer(2, None, winner=1, tie=False, invalid=None) == winner
    assert checked_answer(2, None, winner=0) != winner
    assert checked_answer(3, None, invalid=[2, 0]) == checked_answer(
        3, None, invalid=(0, 2)
    )


@in_turn(
    ("size", "answer", "match"),
    [
        (2, {}, "says nothing"),
        (2, {"winner": 2}, "not one of \\[0, 1\\]"),
        (2, {"winner": -1}, "not one of"),
        (2, {"winner": True}, "not one of"),
        (2, {"winner": "0"}, "not one of"),
        (2, {"winner": 0, "tie": True}, "winner and tie"),
        (2, {"cannot_compare": True, "invalid": [0]}, "leave out invalid"),
        (2, {"winner": 0, "invalid": [0]}, "1 of the options are valid"),
        (3, {"winner": 0}, "two options.*give best or ranking"),
        (3, {"tie": True, "invalid": [0, 1]}, "tie, but 1 of the options"),
        (3, {"best": 1, "invalid": [1]}, "names option 1"),
        (3, {"ranking": [0, 1]}, "name all of"),
        (3, {"ranking": [0, 1, 1]}, "each option once"),
        (3, {"ranking": "012"}, "give a list"),
        (2, {"strength": 1.0}, "strictly between 0 and 1"),
        (2, {"strength": "much"}, "give a finite number"),
        (2, {"strength": 1 - 1e-12}, "between 0 and 1"),
        (2, {"ratings": [7, 3]}, r"1 to 10 give \(y - 0.5\) / 10"),
        (2, {"ratings": [0.5]}, "one for each"),
        (2, {"ratings": [None, None]}, "one for each"),
        (2, {"ratings": [0.5, float("nan")]}, "give a finite number"),
        (2, {"levels": [0, 5]}, "from 0 to 4"),
        (2, {"levels": [0, 1.5]}, "from 0 to 4"),
        (2, {"loser": 1}, "no loser"),
    ],
)
def test_what_cannot_be_said_is_refused(size, answer, match) -> None:
    with pytest.raises(ExperimentError, match=match):
        checked_answer(size, 5, **answer)


@in_turn("argument", ["tie", "cannot_compare"])
@in_turn("flag", ["no", "", 2, 1, 0, 1.0, [], [True], np.array(True), np.nan])
def test_only_booleans_are_true_or_false(argument, flag) -> None:
    with pytest.raises(ExperimentError, match=f"{argument} is .*True or False"):
        checked_answer(2, 5, **{argument: flag})


def test_false_says_nothing_of_any_type() -> None:
    checked = checked_answer(2, 5, winner=1)
    nothing = {"tie": np.False_, "cannot_compare": np.False_}
    assert checked_answer(2, 5, winner=1, **nothing) == checked
    with pytest.raises(ExperimentError, match="says nothing"):
        checked_answer(2, 5, **nothing)


def test_numbers_and_booleans_may_be_of_numpy() -> None:
    for numpys, plain in (
        ({"winner": np.int64(1)}, {"winner": 1}),
        ({"tie": np.True_}, {"tie": True}),
        ({"cannot_compare": np.True_}, {"cannot_compare": True}),
        ({"invalid": [np.uint8(1)]}, {"invalid": [1]}),
        ({"levels": [np.int32(4), None]}, {"levels": [4, None]}),
        ({"strength": np.float32(0.75)}, {"strength": 0.75}),
    ):
        answer = checked_answer(2, 5, **numpys)
        assert answer == checked_answer(2, 5, **plain)
        assert json.loads(json.dumps(answer.to_json())) == answer.to_json()


@in_turn(
    "answer",
    [
        *({"winner": winner} for winner in (False, 1.0, np.array(1), [1], np.bool_(1))),
        *({"invalid": winner} for winner in (False, 0, [0.0], [False], [np.array(0)])),
        *({"levels": [winner, None]} for winner in (1.0, "1", np.array(1), np.True_)),
        *({"strength": winner} for winner in (True, np.True_, np.array(0.5), [0.5])),
        {"winner": False, "levels": [1, 2]},
        {"ratings": [np.array(0.5), 0.5]},
    ],
)
def test_what_is_almost_a_number_is_refused_by_name(answer) -> None:
    name = next(iter(answer))
    with pytest.raises(ExperimentError, match=f"^{name} "):
        checked_answer(2, 5, **answer)


def test_levels_need_a_scale() -> None:
    with pytest.raises(ExperimentError, match="num_levels="):
        checked_answer(2, None, levels=[0, 1])
