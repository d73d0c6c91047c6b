"""Files of answers in the layouts that people have, read as their owners meant them."""

from pathlib import Path

import pytest
from cases import in_turn

from botorch_pref.datasets.answer_files import read_answers
from botorch_pref.datasets.layout_words import NamedColumns
from botorch_pref.errors import FeedbackError


def told(tmp_path: Path, text: str, name: str = "answers.csv", **named: str):
    """Answers of a file as tuples, and its notes."""
    path = tmp_path / name
    path.write_text(text, encoding="utf-8")
    file = read_answers(path, NamedColumns(**named))
    rows = file.answers.to_dict("records")
    duels = [
        (row["winner"], "=" if row["tie"] else ">", row["loser"], row["count"])
        for row in rows
    ]
    return sorted(duels), file


WON = [("a", ">", "b", 2), ("b", "=", "c", 1), ("c", ">", "a", 1)]
"""What each of the files says: a beat b twice, b and c are equal, c beat a."""


@in_turn(
    ("text", "message"),
    [
        (
            "winner,loser,tie,count\na,b,0,2\nb,c,1,1\nc,a,0,\n",
            "winner against loser, winner being the better one",
        ),
        (
            (
                "winner_id,winner_name,loser_id,loser_name,tie\n1,a,2,b,\n1,a,2,b,\n"
                "2,b,3,c,yes\n3,c,1,a,\n"
            ),
            "winner_name against loser_name, winner_name being the better one",
        ),
        (
            "model_a,model_b,winner\na,b,model_a\nb,a,model_b\nb,c,tie\na,c,model_b\n",
            "model_a against model_b, the side that won in winner",
        ),
        (
            "Item A;Item B;Preferred\na;b;A\nb;a;B\nb;c;tie\nc;a;A\n",
            "Item A against Item B, the side that won in Preferred",
        ),
        (
            "ID1,ID2,better_id\na,b,a\nb,a,a\nb,c,same\na,c,c\n",
            "ID1 against ID2, the winner named in better_id",
        ),
        (
            "HomeTeam,AwayTeam,FTR\na,b,H\nb,a,A\nb,c,D\na,c,A\n",
            "HomeTeam against AwayTeam, the side that won in FTR",
        ),
        (
            "a,b,is_a_selected,note\na,b,1,\nb,a,0,\nc,a,1,\n",
            None,
        ),
        (
            "left,right,result\na,b,1\nb,a,-1\nb,c,0\na,c,-1\n",
            "left against right, 1 or -1 in result for the first or second",
        ),
        (
            "first,second,choice\na,b,1\nb,a,2\nb,c,0\na,c,2\n",
            "first against second, 1 or 2 in choice for the first or second",
        ),
        (
            (
                "model_a,model_b,winner_model_a,winner_model_b,winner_tie\n"
                "a,b,1,0,0\nb,a,0,1,0\nb,c,0,0,1\na,c,0,1,0\n"
            ),
            (
                "model_a against model_b, the true one of winner_model_a, "
                "winner_model_b, winner_tie"
            ),
        ),
        (
            (
                "home_team,away_team,home_score,away_score\na,b,2,1\nb,a,0,1\nb,c,1,1\n"
                "a,c,0,3\na,b,NA,NA\n"
            ),
            (
                "home_team against away_team, the higher of home_score and away_score "
                "winning"
            ),
        ),
        (
            "Team 1,FT,Team 2\na,2-1,b\nb,0-1,a\nb,1-1,c\na,0-3,c\n",
            "Team 1 against Team 2, the higher score of FT winning",
        ),
        (
            (
                '[{"model_a": "a", "model_b": "b", "winner": "a"}, {"model_a": "b", '
                '"model_b": "a", "winner": "a"}, {"model_a": "b", "model_b": "c", '
                '"winner": "tie", "scores": {"x": 1}}, {"model_a": "a", '
                '"model_b": "c", "winner": "c"}, {"model_a": "a", "model_b": "c", '
                '"winner": null}]'
            ),
            "model_a against model_b, the winner named in winner",
        ),
    ],
)
def test_two_items_a_row(tmp_path: Path, text: str, message: str | None) -> None:
    name = "answers.json" if text.startswith("[") else "answers.csv"
    duels, file = told(tmp_path, text, name)
    if message is None:
        assert duels == [WON[0], WON[2]]
        return
    unordered = [(*sorted(d[:3:2]), d[1], d[3]) if d[1] == "=" else d for d in duels]
    expected = [(*sorted(d[:3:2]), d[1], d[3]) if d[1] == "=" else d for d in WON]
    assert sorted(unordered, key=str) == sorted(expected, key=str)
    assert file.notes[0] == f"Read as: {message}."


@in_turn(
    "text",
    [
        ",a,b,c\na,,2,0\nb,0,-,1\nc,1,,0\n".replace("-", ""),
        "row,column,count\na,a,0\na,b,2\nb,a,0\nb,c,1\nc,a,1\na,c,0\n",
        "home.team,away.team,home.wins,away.wins\na,b,2,0\nc,b,0,1\nc,a,1,0\n",
        "a:b,a:c,b:c\n1,-1,1\n1,NA,NA\n",
    ],
)
def test_counts_of_wins(tmp_path: Path, text: str) -> None:
    duels, _ = told(tmp_path, text)
    assert duels == [("a", ">", "b", 2), ("b", ">", "c", 1), ("c", ">", "a", 1)]


def choices(file) -> list[tuple]:
    """Choices and duels: the winner, all losers, and how often."""
    answers = file.answers
    found = []
    if "choice" in answers:
        for _, rows in answers[answers["choice"].notna()].groupby("choice"):
            ((winner, count),) = {*zip(rows["winner"], rows["count"], strict=True)}
            found.append((winner, "".join(sorted(rows["loser"])), count))
        answers = answers[answers["choice"].isna()]
    found += zip(answers["winner"], answers["loser"], answers["count"], strict=True)
    return sorted(found)


@in_turn(
    ("text", "name"),
    [
        ("judge,product,rank\n1,a,1\n1,b,2\n1,c,3\n2,b,1\n2,c,2\n2,d,\n", "a.csv"),
        ("1st,2nd,3rd\na,b,c\nb,c,\n", "a.csv"),
        ("rank_1,rank_2,rank_3\na,b,c\nb,c,NA\n", "a.csv"),
        (
            (
                "# ALTERNATIVE NAME 1: a\n# alternative name 2: b\n"
                "#ALTERNATIVE NAME 3:c\n1: 1,2,3\n1: 2,3\n"
            ),
            "a.soi",
        ),
    ],
)
def test_rankings_are_choices_of_the_best(tmp_path: Path, text: str, name: str) -> None:
    _, file = told(tmp_path, text, name)
    assert choices(file) == [("a", "bc", 1), ("b", "c", 2)]


def test_ranks_of_columns(tmp_path: Path) -> None:
    _, file = told(tmp_path, "tea,milk,wine\n2,1,3\n1,2,3\n")
    expected = [("milk", "teawine", 1), ("milk", "wine", 1), ("tea", "milkwine", 1)]
    assert choices(file) == sorted([*expected, ("tea", "wine", 1)])


def test_shared_places_are_chosen_from_their_place_and_all_behind(
    tmp_path: Path,
) -> None:
    names = "".join(f"# ALTERNATIVE NAME {i}: {n}\n" for i, n in enumerate("abcd", 1))
    _, file = told(tmp_path, names + "3: 1,{2,3},4\n2: 4,{1,2,3}\n", "a.toc")
    assert choices(file) == sorted(
        [("a", "bcd", 3), ("b", "cd", 3), ("c", "bd", 3), ("d", "abc", 2)]
    )


@in_turn(
    "text",
    [
        "Item1,Item2,Item3,Item4,BestItem,WorstItem\na,b,c,d,a,c\n",
        # The options are the rest of the set.
        "best,worst,option1,option2\na,c,b,d\n",
    ],
)
def test_the_best_and_the_worst_of_a_set(tmp_path: Path, text: str) -> None:
    _, file = told(tmp_path, text)
    assert choices(file) == [("a", "bcd", 1), ("b", "c", 1), ("d", "c", 1)]


def test_columns_may_be_named(tmp_path: Path) -> None:
    text = "king,rebel,king_hand,who,times\na,b,x,a,2\nc,a,y,c,1\n"
    named = {"first": "king", "second": "rebel", "winner": "who", "count": "times"}
    duels, _ = told(tmp_path, text, **named)
    assert duels == [("a", ">", "b", 2), ("c", ">", "a", 1)]
    text = (
        "king_1,king_2,rebel_1,rebel_2,king_result\na,,b,,win\na,,b,,win\nc,,a,,loss\n"
    )
    named = {"first": "king_1", "second": "rebel_1", "winner": "king_result"}
    duels, _ = told(tmp_path, text, **named)
    assert duels == [("a", ">", "b", 2), ("a", ">", "c", 1)]
    text = "taster,jam,liked\nx,a,1\nx,b,2\ny,b,1\ny,a,2\n"
    duels, file = told(tmp_path, text, first="jam", order="liked", rater="taster")
    assert duels == [("a", ">", "b", 1), ("b", ">", "a", 1)]
    assert file.answers["rater"].tolist() == ["x", "y"]


@in_turn(
    ("text", "match"),
    [
        ("model_a,model_b,winner\na,b,0\nb,a,1\n", "is_model_a_better if 1 is for"),
        ("5.0,4.0\n1,2\n", "begins with numbers, 5.0, 4.0, not with names"),
        ("king,rebel\na,b\n", "--first, --second, --winner.*header is king, rebel"),
        ("best,worst,o1,o2\na,b,a,b\nq,b,a,b\n", "line 3, column best: 'q' is none"),
        ("judge,item,rank\n1,a,1\n1,a,2\n", "'a' is there twice in one ranking"),
        ("home,away,score\na,b,2-1\na,b,?\na,b,1-1\n", "line 3.*no score such as 2-1"),
        (
            "model_a,model_b,winner_model_a,winner_model_b\na,b,1,1\n",
            "two outcomes are true",
        ),
    ],
)
def test_what_cannot_be_read_is_named(tmp_path: Path, text: str, match: str) -> None:
    with pytest.raises(FeedbackError, match=match):
        told(tmp_path, text)


@in_turn(
    ("text", "match"),
    [
        ("# ALTERNATIVE NAME 1: a\n1 1,2\n", "line 2: .*how often"),
        ("# ALTERNATIVE NAME 1: a\n1: 1,2\n", "no ALTERNATIVE NAME 2"),
        ("# ALTERNATIVE NAME 1: a\n1: 1,1\n", "each there once"),
        ("# ALTERNATIVE NAME 1: a\n1: 1\n", "no orders of two"),
    ],
)
def test_orders_that_are_none_are_named(tmp_path: Path, text: str, match: str) -> None:
    with pytest.raises(FeedbackError, match=match):
        told(tmp_path, text, "a.soc")
