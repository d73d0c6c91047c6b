"""Controls of answers: which columns of a file they are, and how they are coded."""

from pathlib import Path

import pytest
from cases import in_turn

from botorch_pref.datasets.answer_files import read_answers
from botorch_pref.errors import FeedbackError


def controlled(tmp_path: Path, text: str, name: str) -> dict[tuple[str, str], float]:
    """Reads how much more the winner has than the loser, by the names of both."""
    path = tmp_path / "answers.csv"
    path.write_text(text)
    rows = read_answers(path, controls=[name]).answers.to_dict("records")
    return {(row["winner"], row["loser"]): row[f"control {name}"] for row in rows}


SIDES = "model_a,model_b,winner,{},{}\na,b,model_a,30,10\na,c,model_b,30,10\n"
SIDES += "b,c,tie,0,0\n"
MORE = {("a", "b"): 0.5, ("c", "a"): -0.5, ("b", "c"): 0.0}
"""Difference that a file says of the winner: (30 - 10) / 40, less for a loser."""


@in_turn(
    ("columns", "name"),
    [
        (("length_a", "length_b"), "length"),
        (("length_a", "length_b"), "length_b"),
        (("a_length", "b_length"), "length"),
        (("length_left", "length_right"), "length"),
        (
            (
                "conv_metadata.sum_assistant_a_tokens",
                "conv_metadata.sum_assistant_b_tokens",
            ),
            "tokens",
        ),
    ],
)
def test_the_columns_of_both_sides_are_found(
    tmp_path: Path, columns: tuple[str, str], name: str
) -> None:
    assert controlled(tmp_path, SIDES.format(*columns), name) == MORE


def test_all_words_of_a_column_come_before_some_of_them(tmp_path: Path) -> None:
    text = "model_a,model_b,winner,words_a,words_b,bold_words_a,bold_words_b\n"
    text += "a,b,model_a,3,1,2,6\n"
    assert controlled(tmp_path, text, "words") == {("a", "b"): 0.5}
    assert controlled(tmp_path, text, "bold") == {("a", "b"): -0.5}


def test_counts_within_objects_are_added(tmp_path: Path) -> None:
    # The human preferences of LMArena count headings by their levels.
    objects = "m.head_a.h1,m.head_a.h2,m.head_b.h1,m.head_b.h2"
    text = f"model_a,model_b,winner,{objects}\na,b,model_a,1,2,0,1\n"
    for name in ("head", "m.head"):
        assert controlled(tmp_path, text, name) == {("a", "b"): 0.5}


def test_winners_and_losers_have_columns_of_theirs(tmp_path: Path) -> None:
    text = "winner,loser,winner_length,loser_length\na,b,30,10\nc,a,10,30\nb,c,0,0\n"
    assert controlled(tmp_path, text, "length") == MORE


def test_one_column_has_the_lead_of_the_first_item(tmp_path: Path) -> None:
    text = "model_a,model_b,winner,warmer\na,b,model_a,-2\na,c,model_b,3\n"
    assert controlled(tmp_path, text, "warmer") == {("a", "b"): -2, ("c", "a"): -3}


@in_turn(
    ("text", "name", "message"),
    [
        (
            SIDES.format("red", "blue"),
            "length",
            "two of them like length_a and length_b",
        ),
        (
            (
                "model_a,model_b,winner,long_words_a,long_words_b,bold_words_a,"
                "bold_words_b\na,b,tie,1,1,1,1\n"
            ),
            "words",
            "may be long_words_a, long_words_b and bold_words_a, bold_words_b: name",
        ),
        (
            SIDES.format("size_a", "size_b") + "a,b,tie,1,\n",
            "size",
            "line 5, column size_b: has nothing",
        ),
        (
            SIDES.format("size_a", "size_b") + "a,b,tie,1,inf\n",
            "size",
            "line 5, column size_b: 'inf' is no finite number",
        ),
        (
            SIDES.format("size_a", "size_b") + "a,b,tie,-1,3\n",
            "size",
            "line 5, column size_a: -1 is negative",
        ),
        (
            "judge,item,rank,size\n1,a,1,3\n1,b,2,3\n1,c,3,4\n",
            "size",
            "compares the two items of a row",
        ),
        (
            "winner,loser,size_a,size_b\na,b,1,2\n",
            "size",
            "like size_winner and size_loser",
        ),
    ],
)
def test_what_is_no_control_is_refused(
    tmp_path: Path, text: str, name: str, message: str
) -> None:
    with pytest.raises(FeedbackError) as refusal:
        controlled(tmp_path, text, name)
    assert message in str(refusal.value)
