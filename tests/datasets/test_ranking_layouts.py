"""Files of rankings, of sets with ranks or scores, and of judges in a column each."""

from pathlib import Path

import pandas as pd
import pytest
from cases import in_turn

from botorch_pref.datasets import NamedColumns, read_answers
from botorch_pref.errors import FeedbackError


def reading(tmp_path: Path, text: str, **named: str):
    """Reads the choices and duels of a file, and its notes."""
    path = tmp_path / "answers.csv"
    path.write_text(text, encoding="utf-8")
    file = read_answers(path, NamedColumns(**named))
    answers = file.answers
    if "choice" not in answers:
        answers = answers.assign(choice=None)
    sets = [
        row if pd.isna(choice) else choice for row, choice in answers["choice"].items()
    ]
    duels = []
    for _, rows in answers.groupby(sets):
        tied, count = rows[["tie", "count"]].iloc[0]
        losers = "".join(sorted(rows["loser"]))
        duels.append((rows["winner"].iloc[0], "=" if tied else ">", losers, count))
    return sorted(duels), file.notes


A_BEST, B_SECOND = ("a", ">", "bc", 1), ("b", ">", "c", 1)


@in_turn(
    ("text", "named"),
    [
        # The Workshop on Machine Translation: systems of a sentence, and their ranks.
        (
            (
                "judgeId,system1Number,system1Id,system2Number,system2Id,system3Id,"
                "system1rank,system2rank,system3rank\nu,-1,b,-1,c,a,2,3,1\n"
            ),
            {},
        ),
        ("team1,team2,team3,score1,score2,score3\nb,c,a,5,1,9\n", {}),
        ("1st Place,1st Place(%),2nd Place,2nd Place(%),3rd Place\na,5,b,3,c\n", {}),
        (",V1,V2,V3\n1,a,b,c\n", {"order": "V1"}),
        # A driver and the team of two drivers; the last one did not finish.
        (
            "Track,Position,Driver,Team\nx,1,a,t\nx,2,b,t\nx,3,c,u\nx,DNF,d,u\n",
            {"rater": "Track"},
        ),
        ("judge,item,rank\n1,a,1\n1,b,2\n1,c,3\n2,d,1\n", {}),
    ],
)
def test_one_ranking_in_many_forms(tmp_path: Path, text: str, named: dict) -> None:
    duels, _ = reading(tmp_path, text, **named)
    assert duels == [A_BEST, B_SECOND]


def test_columns_of_ranks_are_not_ratings(tmp_path: Path) -> None:
    text = "skater,judge1,judge2,judge3\na,1,1,2\nb,2,3,1\nc,3,2,3\n"
    duels, notes = reading(tmp_path, text)
    # Two judges chose a from all.
    expected = [("a", ">", "bc", 2), B_SECOND, ("c", ">", "b", 1)]
    assert duels == sorted([*expected, ("a", ">", "c", 1), ("b", ">", "ac", 1)])
    about = "a column for each judge (judge1, judge2, judge3)"
    assert notes == [f"Read as: ranks of each skater, {about}."]


def test_a_few_people_give_two_items_one_rank(tmp_path: Path) -> None:
    strict = [f"{voter};1;2;3\n" for voter in range(9)]
    duels, notes = reading(tmp_path, f"\ufeffN;a;b;c\n{''.join(strict)}9;1;1;2\n")
    # Item a was chosen from all ten times, b from all once.
    expected = [("a", ">", "bc", 10), ("b", ">", "ac", 1), ("b", ">", "c", 9)]
    assert duels == expected
    assert len(notes) == 1


def test_places_that_everybody_shares_compare_nothing(tmp_path: Path) -> None:
    text = "judge,item,rank\n1,a,1\n1,b,1\n1,c,1\n2,a,1\n2,b,1\n3,a,1\n"
    duels, notes = reading(tmp_path, text)
    assert duels == [("a", "=", "b", 1)]
    assert notes[1:] == [
        "Left out: 3 rows in which all items share a place (lines 2, 3, 4).",
        "Left out: 1 row of less than two items (line 7).",
    ]


def test_an_item_of_a_set_is_there_once(tmp_path: Path) -> None:
    text = "item1,item2,item3,rank1,rank2,rank3\na,b,c,1,2,3\na,a,b,1,2,3\n"
    with pytest.raises(FeedbackError, match="line 3, column item1: 'a' is there twice"):
        reading(tmp_path, text)


def test_the_position_of_a_sample_is_no_rank_beside_its_liking(tmp_path: Path) -> None:
    path = tmp_path / "panel.csv"
    rows = ["p1,381,1,8,3", "p1,527,2,4,2", "p2,527,1,5,4", "p2,381,2,9,3"]
    head = "Panelist,Sample,Position,Overall Liking,JAR Sweetness"
    path.write_text("\n".join([head, *rows]))
    file = read_answers(path)
    assert file.answers.to_numpy().tolist() == [
        ["381", 8.0, "p1"],
        ["527", 4.0, "p1"],
        ["527", 5.0, "p2"],
        ["381", 9.0, "p2"],
    ]
    assert file.unread == ["Position", "JAR Sweetness"]
    # Without a rating it is the place that was won.
    path.write_text("\n".join(["Panelist,Sample,Position", *(r[:8] for r in rows)]))
    assert "Position of each Sample" in read_answers(path).notes[0]
