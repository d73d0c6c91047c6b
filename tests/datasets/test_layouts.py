"""Files of answers in the layouts that people have, read as their owners meant them."""

from pathlib import Path

import pytest
from cases import in_turn

from botorch_pref.datasets.answer_files import read_answers
from botorch_pref.datasets.layout_words import NamedColumns
from botorch_pref.errors import FeedbackError


def told(tmp_path: Path, text: str, name: str = "answers.csv", **named: str):
    """Reads answers of a file as tuples, and its notes."""
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
"""Answers of each of the files: a beat b twice, b and c are equal, c beat a."""


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
            "left against right, 1 or -1 in result for the first or second, 0 a tie",
        ),
        (
            "first,second,choice\na,b,1\nb,a,2\nb,c,0\na,c,2\n",
            "first against second, 1 or 2 in choice for the first or second, 0 a tie",
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
        "item,a,b,c\na,NA,2,0\nb,0,NA,1\nc,1,0,NA\n",
    ],
)
def test_counts_of_wins(tmp_path: Path, text: str) -> None:
    duels, _ = told(tmp_path, text)
    assert duels == [("a", ">", "b", 2), ("b", ">", "c", 1), ("c", ">", "a", 1)]


def choices(file) -> list[tuple]:
    """Lists choices and duels: the winner, all losers, and how often."""
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
        "option_a,option_b,option_c,option_d,best,worst\na,b,c,d,a,c\n",
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
        ("model_a,model_b,winner\na,b,0\nb,a,1\n", "is_model_a_better if 1 is"),
        ("5.0,4.0\n1,2\n", "begins with numbers, 5.0, 4.0, not with names"),
        ("king,rebel\na,b\n", "--first, --second, --winner.*header is king, rebel"),
        ("best,worst,o1,o2\na,b,a,b\nq,b,a,b\n", "line 3, column best: 'q' is none"),
        (
            "o1,o2,o3,best,worst\na,b,c,1,3\na,b,d,1,4\n",
            "line 3, column worst: '4' is none of 'a', 'b', 'd'",
        ),
        ("o1,o2,o3,best,worst\na,b,c,a,3\n", "line 2, column worst: '3' is none"),
        ("option1,option2,option3,choice\na,b,c,a\na,b,d,q\n", "line 3, .*'q' is none"),
        ("o1,o2,best,worst\nc,d,A,B\n", "best_name if .*or to best_place"),
        (
            "team1,team2,team3,score1,score2\na,b,c,1,2\n",
            "items in team1, team2, team3, and no column names the winner",
        ),
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


def test_a_winner_that_names_an_item_of_every_row_is_a_name(tmp_path: Path) -> None:
    # As a side, b would be the second item, which d shows that it is not.
    duels, _ = told(tmp_path, "model_a,model_b,winner\nb,c,b\nb,a,b\nd,b,d\n")
    assert duels == [("b", ">", "a", 1), ("b", ">", "c", 1), ("d", ">", "b", 1)]


@in_turn(
    ("header", "rows", "names", "sides"),
    [
        (
            "model_a,model_b,winner",
            "b,c,b\nb,a,b\na,b,b\n",
            [("b", ">", "a", 2), ("b", ">", "c", 1)],
            [("a", ">", "b", 1), ("b", ">", "a", 1), ("c", ">", "b", 1)],
        ),
        (
            "player1,player2,winner",
            "2,1,2\n",
            [("2", ">", "1", 1)],
            [("1", ">", "2", 1)],
        ),
        # Only the first row has a name; the other cells are sides.
        (
            "model_a,model_b,winner",
            "b,c,b\nc,d,a\n",
            None,
            [("c", ">", "b", 1), ("c", ">", "d", 1)],
        ),
    ],
)
def test_names_that_may_be_sides_wait_for_the_column_to_say_it(
    tmp_path: Path, header: str, rows: str, names: list | None, sides: list
) -> None:
    with pytest.raises(FeedbackError, match=r"line 2, .*to winner_name if .*r_side"):
        told(tmp_path, f"{header}\n{rows}")
    assert told(tmp_path, f"{header}_side\n{rows}")[0] == sides
    if names is None:
        with pytest.raises(FeedbackError, match="line 3, column winner_name: 'a' is"):
            told(tmp_path, f"{header}_name\n{rows}")
    else:
        assert told(tmp_path, f"{header}_name\n{rows}")[0] == names


def test_truths_of_the_second_side_that_are_all_true(tmp_path: Path) -> None:
    duels, _ = told(tmp_path, "player1,player2,is_2_better\na,b,1\nc,d,1\n")
    assert duels == [("b", ">", "a", 1), ("d", ">", "c", 1)]


@in_turn(
    "rows",
    [
        "choice\na,b,c,a\nb,c,d,b\n,c,d,skip\n",
        "choice\na,b,c,1\nd,b,c,2\n",
        "choice\na,b,c,A\nd,c,b,C\n",
        "best\na,b,c,a\nb,c,d,b\n",
        "best place\na,b,c,1\nd,b,c,2\n",
    ],
)
def test_choices_from_all_columns_of_options(tmp_path: Path, rows: str) -> None:
    _, file = told(tmp_path, f"option1,option2,option3,{rows}")
    assert choices(file) == [("a", "bc", 1), ("b", "cd", 1)]
    assert file.unread == []


@in_turn(
    ("header", "row", "name", "place"),
    [
        ("option1,option2,option3,choice", "2,1,3,2\n", "2", "1"),
        ("option_a,option_b,option_c,choice", "B,A,C,B\n", "B", "A"),
    ],
)
def test_items_named_as_places_wait_for_the_column_to_say_it(
    tmp_path: Path, header: str, row: str, name: str, place: str
) -> None:
    with pytest.raises(FeedbackError, match=r"line 2, .*choice_name if .*e_place"):
        told(tmp_path, f"{header}\n{row}")
    _, file = told(tmp_path, f"{header}_name\n{row}")
    assert choices(file) == [(name, f"{place}{row[4]}", 1)]
    _, file = told(tmp_path, f"{header}_place\n{row}")
    assert choices(file) == [(place, f"{name}{row[4]}", 1)]


@in_turn("places", [("1", "3", "2"), ("A", "C", "B")])
def test_the_best_and_the_worst_by_their_places(tmp_path: Path, places) -> None:
    first, third, second = places
    rows = f"aa,bb,cc,{first},{third}\ndd,aa,cc,{first},{second}\n"
    _, file = told(tmp_path, f"option1,option2,option3,best,worst\n{rows}")
    expected = [("aa", "bbcc", 1), ("dd", "aacc", 1)]
    assert choices(file) == sorted([*expected, ("bb", "cc", 1), ("cc", "aa", 1)])


def test_one_score_says_no_winner(tmp_path: Path) -> None:
    text = "home,away,home_score,away_score\nA,B,1,2\nB,C,,1\nC,A,NA,1\nC,A,,\n"
    duels, file = told(tmp_path, text)
    assert duels == [("B", ">", "A", 1)]
    expected = "Left out: 3 rows without an item or a winner (lines 3, 4, 5)."
    assert file.notes[1:] == [expected]


@in_turn("above", ["\n", "# of 2026\n \n# again\n", "sep=,\n\n", ",,\n"])
def test_blank_lines_above_the_header_are_skipped(tmp_path: Path, above: str) -> None:
    duels, file = told(tmp_path, f"{above}winner,loser\nb,c\nc,c\n")
    assert duels == [("b", ">", "c", 1)]
    line = above.count("\n") + 3
    assert file.notes[1:] == [
        f"Left out: 1 row in which an item meets itself (line {line})."
    ]


@in_turn(
    ("text", "by_rater"),
    [
        (
            (
                "session_uuid,trial_id,age,rating_stimulus,rating_score,rating_time\n"
                "u,t,30,a,60,9\nu,t,30,b,40.5,8\nv,t,40,a,70,7\nv,t,40,b,NA,7\n"
            ),
            ("u t", "v t"),
        ),
        ("rater,item,rating\nu,a,60\nu,b,40.5\nv,a,70\nv,b,\n", ("u", "v")),
        ("rater,age,a,b\nu,30,60,40.5\nv,40,70,NA\n", ("u", "v")),
        ("stimulus,u,v\na,60,70\nb,40.5,\n", ("u", "v")),
        ("stimulus,u,v,mean\na,60,70,65\nb,40.5,,40.5\n", ("u", "v")),
    ],
)
def test_ratings_in_rows_and_columns(
    tmp_path: Path, text: str, by_rater: tuple[str, str]
) -> None:
    (tmp_path / "ratings.csv").write_text(text)
    table = read_answers(tmp_path / "ratings.csv").answers
    first, second = by_rater
    expected = [("a", 60.0, first), ("b", 40.5, first), ("a", 70.0, second)]
    rows = zip(table["item"], table["rating"], table["rater"], strict=True)
    assert sorted(rows) == sorted(expected)


def test_ratings_that_nobody_signed(tmp_path: Path) -> None:
    path = tmp_path / "ratings.csv"
    path.write_text("movie,stars,year\na,5,1990\nb,3,1991\na,4,1990\n")
    file = read_answers(path)
    assert [*file.answers.columns] == ["item", "rating"]
    assert file.answers["rating"].tolist() == [5.0, 3.0, 4.0]
    assert file.unread == ["year"]
    with pytest.raises(FeedbackError, match="leave out --home"):
        read_answers(path, home="year")


def test_a_judge_is_no_item_of_a_wide_ranking(tmp_path: Path) -> None:
    path = tmp_path / "answers.csv"
    path.write_text("judge,a,b,c\n1,2,1,3\n2,1,2,NA\n")
    file = read_answers(path)
    assert choices(file) == [("a", "b", 1), ("a", "c", 1), ("b", "ac", 1)]


def test_orders_with_the_head_of_older_files(tmp_path: Path) -> None:
    modern = tmp_path / "new.toc"
    modern.write_text(
        "# ALTERNATIVE NAME 1: a\n# ALTERNATIVE NAME 2: b\n# ALTERNATIVE NAME 3: c\n"
        "4: 2,{1,3}\n2: 1,3,2\n"
    )
    older = tmp_path / "old.toc"
    older.write_text("3\n1,a\n2,b\n3,c\n6,6,2\n4,2,{1,3}\n2,1,3,2\n")
    tables = [
        read_answers(path).answers.drop(columns="choice") for path in (modern, older)
    ]
    assert tables[0].equals(tables[1])


def test_results_of_chess_have_halves(tmp_path: Path) -> None:
    text = "White,Black,Result\na,b,1-0\na,c,0-1\nb,c,1/2-1/2\nc,b,\u00bd-\u00bd\n"
    duels, _ = told(tmp_path, text)
    assert [d for d in duels if d[1] == ">"] == [("a", ">", "b", 1), ("c", ">", "a", 1)]
    assert sum(d[3] for d in duels if d[1] == "=") == 2


def test_half_of_the_best_and_the_worst_is_an_answer(tmp_path: Path) -> None:
    path = tmp_path / "sets.csv"
    path.write_text("option1,option2,option3,best,worst\na,b,c,a,NA\na,b,c,NA,b\n")
    file = read_answers(path)
    expected = [("a", "b", 1), ("a", "bc", 1), ("c", "b", 1)]
    assert choices(file) == expected


def test_rows_without_a_true_outcome_are_counted(tmp_path: Path) -> None:
    text = "model_a,model_b,winner_model_a,winner_model_b\na,b,T,F\na,b,F,F\n"
    duels, file = told(tmp_path, text)
    assert duels == [("a", ">", "b", 1)]
    assert "Left out: 1 row without a true outcome (line 3)." in file.notes


def test_counts_of_groups_are_no_ratings(tmp_path: Path) -> None:
    path = tmp_path / "table.csv"
    path.write_text("user,brand,freq,rownames\nyes,x,19,1\nyes,m,29,2\nno,x,57,3\n")
    with pytest.raises(FeedbackError, match="no columns that say who won"):
        read_answers(path)
