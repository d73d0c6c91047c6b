"""Words of people and of models that judge for who won of two items."""

from pathlib import Path

import pytest
from cases import in_turn

from botorch_pref.datasets import NamedColumns, read_answers
from botorch_pref.errors import FeedbackError

SAID = [("x", ">", "y", 2), ("y", ">", "x", 1), ("y", "=", "x", 1)]
"""Answers of each file: x won twice as the first, y as the second, then a tie."""


def reading(tmp_path: Path, text: str, name: str = "answers.csv", **named: str):
    """Reads the duels of a file in the order of their texts, and its notes."""
    path = tmp_path / name
    path.write_text(text, encoding="utf-8")
    file = read_answers(path, NamedColumns(**named))
    rows = file.answers[["winner", "loser", "tie", "count"]].to_numpy().tolist()
    return [(w, "=" if tie else ">", x, n) for w, x, tie, n in rows], file.notes


@in_turn(
    ("header", "first", "second", "tie"),
    [
        ("R_fighter,B_fighter,Winner", "Red", "Blue", "draw"),
        ("model_a,model_b,verdict", "[[A]]", "[[B]]", "[[C]]"),
        ("model_a,model_b,score", "A>B", "B>>A", "A=B"),
        ("model_a,model_b,label", "Response A", "Response B", "neither"),
        ("model_1,model_2,winner", "output (1)", "output (2)", "both"),
    ],
)
def test_words_for_the_first_and_the_second(
    tmp_path: Path, header: str, first: str, second: str, tie: str
) -> None:
    rows = f"x,y,{first}\nx,y,{first}\nx,y,{second}\ny,x,{tie}\n"
    named = {"winner": "score"} if header.endswith("score") else {}
    duels, _ = reading(tmp_path, f"{header}\n{rows}", **named)
    assert sorted(duels) == sorted(SAID)


@in_turn(
    ("codes", "first_won"),
    [("1012", "1"), ("0013", "0"), ("1123", "1"), ("0012", "0"), ("2210", "2")],
)
def test_codes_of_which_one_is_named(
    tmp_path: Path, codes: str, first_won: str
) -> None:
    # Of 1, 0, 1, 2 the file has a tie at 0, as 1 and 2 are the first and the second.
    if codes == "1012":
        rows = "x,y,1\nx,y,1\nx,y,2\ny,x,0\n"
    else:
        pairs = ["x,y", "x,y", "x,y", "y,x"]
        rows = "".join(f"{p},{c}\n" for p, c in zip(pairs, codes, strict=True))
    duels, notes = reading(tmp_path, f"a,b,selection\n{rows}", first_won=first_won)
    assert sorted(duels) == sorted(SAID)
    assert f"{first_won} is the first" in notes[0]


def test_words_of_which_one_is_named(tmp_path: Path) -> None:
    rows = "x,y,Ja\nx,y,ja\nx,y,nein\ny,x,draw\nx,y,skip\n"
    duels, _ = reading(tmp_path, f"a,b,label\n{rows}", winner="label", first_won="ja")
    assert sorted(duels) == sorted(SAID)
    with pytest.raises(
        FeedbackError, match=r"no 'no' in the column label.*'ja', 'nein'"
    ):
        reading(tmp_path, f"a,b,label\n{rows}", winner="label", first_won="no")


def test_one_and_nought_are_asked_about_once(tmp_path: Path) -> None:
    text = "a,b,selection\nx,y,0\ny,x,0\nx,y,1\n"
    with pytest.raises(
        FeedbackError, match=r"1 and 0 in selection: name .* is_a_better"
    ):
        reading(tmp_path, text)
    with pytest.raises(FeedbackError, match=r"line 2, .*; name .* --first-won of rank"):
        reading(tmp_path, text, winner="selection")


def test_several_people_answer_in_a_row(tmp_path: Path) -> None:
    text = "model_1,model_2,winner1,winner2,winner3\nx,y,model_1,,model_1\n"
    text += "x,y,,model_2,\ny,x,tie,NA,\nx,y,,,\n"
    duels, notes = reading(tmp_path, text)
    assert sorted(duels) == sorted(SAID)
    assert notes[1:] == ["Left out: 1 row without an item or a winner (line 5)."]


def test_columns_of_winners_and_losers_begin_with_letters(tmp_path: Path) -> None:
    text = "Season,WTeamID,WScore,LTeamID,LScore,WLoc\n2003,7,84,9,70,N\n"
    assert reading(tmp_path, text)[0] == [("7", ">", "9", 1)]
    text = "round,teamIDwinner,lgIDwinner,teamIDloser,lgIDloser,wins\nWS,7,A,9,N,4\n"
    assert reading(tmp_path, text)[0] == [("7", ">", "9", 1)]
    # A table of standings has no duels.
    with pytest.raises(FeedbackError, match="no columns that say who won"):
        reading(tmp_path, "team,wins,losses,W,L\nx,3,1,a,b\ny,1,3,b,a\n")


def test_fights_that_were_won_before_are_no_outcome(tmp_path: Path) -> None:
    text = "R_fighter,B_fighter,Winner,R_wins,B_wins,R_streak\nx,y,Red,3,9,1\n"
    assert reading(tmp_path, text)[0] == [("x", ">", "y", 1)]


@in_turn(
    ("score", "won"),
    [
        ('{"ht": [0, 1], "ft": [2, 1]}', [("x", ">", "y", 1)]),
        ('{"ft": [0, 0]}', [("x", "=", "y", 1)]),
    ],
)
def test_scores_at_full_time_within_an_object(
    tmp_path: Path, score: str, won: list
) -> None:
    text = f'{{"matches": [{{"team1": "x", "team2": "y", "score": {score}}}], "n": 1}}'
    assert reading(tmp_path, text, "games.json")[0] == won


def test_games_of_chess(tmp_path: Path) -> None:
    tags = '[White "x"]\n[WhiteElo "9"]\n[Black "y, \\"z\\""]\n[BlackElo "8"]\n'
    ends = ("1-0", "0-1", "1/2-1/2", "*")
    games = [f'{tags}[Result "{end}"]\n\n1. e4 e5 {end}\n\n' for end in ends]
    duels, notes = reading(tmp_path, "".join(games), "games.pgn")
    z = 'y, "z"'
    assert sorted(duels) == sorted(
        [("x", ">", z, 1), (z, ">", "x", 1), ("x", "=", z, 1)]
    )
    assert notes[1:] == ["Left out: 1 row without an item or a winner (line 25)."]
