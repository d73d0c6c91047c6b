"""Boards of `python -m botorch_pref rank` against models and counts by hand."""

import errno
import io
import itertools
import os
import re
import subprocess
import sys
from html import escape
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from cases import in_turn
from matplotlib.figure import Figure
from torch import Generator

from botorch_pref.__main__ import main
from botorch_pref.acquisition import informative_pairs
from botorch_pref.commands import boards
from botorch_pref.commands import rank as command
from botorch_pref.commands.notes import notes_on_raters, sentence_of_biases
from botorch_pref.errors import FeedbackError
from botorch_pref.evaluation import rank_items
from botorch_pref.evaluation.answer_effects import PositionBias
from botorch_pref.evaluation.rater_consistency import contradictions
from botorch_pref.plotting import plot_leaderboard

NAMES = ["ash", "<b>oak</b>", "elm", "fir"]
UTILITIES = dict(zip(NAMES, [1.5, 0.5, -0.5, -1.5], strict=True))


def test_a_panel_of_twelve_tells_nine_wins_from_a_coin_and_eight_not() -> None:
    """As `docs/questions.md` says of six products, of which each pair is asked once."""
    for wins, told in ((8, False), (9, True)):
        pairs = itertools.combinations(range(6), 2)
        rows = [(i, j, wins if i == 0 else 6) for i, j in pairs]
        rows += [(j, i, 12 - count) for i, j, count in rows]
        answers = pd.DataFrame(rows, columns=["winner", "loser", "count"])
        board = rank_items(answers).board()
        assert board.index[0] in (0, "0")
        assert bool((board["most"].iloc[1:] < 0).all()) is told, wins


def played(games: int, seed: int = 0) -> list[tuple[str, str, str]]:
    """Draws answers of a person who errs: the two items and the winner or the tie."""
    generator = Generator().manual_seed(seed)
    rows = []
    for first, second in itertools.combinations(NAMES, 2):
        gap = UTILITIES[first] - UTILITIES[second]
        noise = torch.rand(games, generator=generator, dtype=torch.float64).logit()
        for difference in (gap + noise).tolist():
            answer = (
                "tie"
                if abs(difference) < 0.5
                else "model_a"
                if difference > 0
                else "model_b"
            )
            rows.append((first, second, answer))
    return rows


def run(tmp_path: Path, text: str, *options: str) -> pd.DataFrame:
    table = tmp_path / "answers.csv"
    table.write_text(text, encoding="utf-8")
    assert main(["rank", str(table), "--out", str(tmp_path / "out"), *options]) == 0
    return pd.read_csv(tmp_path / "out" / "leaderboard.csv").set_index("item")


def as_arena(rows: list[tuple[str, str, str]]) -> str:
    return "model_a,model_b,winner\n" + "\n".join(map(",".join, rows))


def as_counts(rows: list[tuple[str, str, str]]) -> str:
    """Writes the same answers with winners, losers, ties and counts."""
    lines = ["winner,loser,drawn,count"]
    for (first, second, answer), number in pd.Series(rows).value_counts().items():  # type: ignore[misc]
        ends = (second, first) if answer == "model_b" else (first, second)
        lines.append(",".join([*ends, str(answer == "tie").lower(), str(number)]))
    return "\n".join(lines)


@pytest.fixture(scope="module")
def board(tmp_path_factory: pytest.TempPathFactory) -> pd.DataFrame:
    return run(tmp_path_factory.mktemp("arena"), as_arena(played(40)))


def test_ranks_are_those_of_the_judge(board: pd.DataFrame) -> None:
    assert board.index.tolist() == NAMES
    assert board["rank"].tolist() == [1, 2, 3, 4]
    assert board["answers"].tolist() == [120] * 4
    truth = np.array([*UTILITIES.values()])
    # Above the mean, which is 0 of both. Three deviations of each.
    assert board["utility"].sum() == pytest.approx(0, abs=1e-9)
    deviation = (board["upper"] - board["lower"]) / (2 * 1.96)
    assert (abs(board["utility"] - truth) < 3 * deviation).all()
    # 40 duels of each pair: no interval is as wide as that of a level that is not seen.
    assert (deviation < 0.2).all()


def test_counts_and_columns_are_other_words_for_the_same(
    board: pd.DataFrame, tmp_path: Path
) -> None:
    counted = run(tmp_path, as_counts(played(40)), "--tie", "drawn")
    pd.testing.assert_frame_equal(counted, board, rtol=1e-5, atol=1e-8)


@pytest.mark.parametrize("column", [None, "host", "who"])
def test_the_table_in_python_has_the_numbers_of_the_command(
    tmp_path: Path, column: str | None
) -> None:
    lines = ["winner,loser,tie,count,host,who", "Kenya,Java,false,12,Kenya,x"]
    lines += ["Java,Kenya,false,4,Java,x", "Kenya,Sidamo,no,9,,y"]
    lines += ["Sidamo,Java,true,3,Java,y", "Kenya,Java,false,2,Kenya,x"]
    option = {None: (), "host": ("--home", "host"), "who": ("--rater", "who")}[column]
    table = run(tmp_path, "\n".join(lines), *option)
    answers = pd.read_csv(tmp_path / "answers.csv")
    answers["tie"] = answers["tie"] == "true"
    names = {"host": "home", "who": "rater"}
    columns = ["winner", "loser", "tie", "count", *([column] if column else [])]
    board = rank_items(answers[columns].rename(columns=names)).board()
    pd.testing.assert_frame_equal(board, table, check_names=False, rtol=1e-9)


def test_columns_that_say_nothing_are_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    # Else ties in a column of another name count as wins, and nobody is told.
    run(tmp_path, "winner,loser,draw,judge\na,b,true,Ann\nb,c,false,Ben\n")
    assert "Columns that were not read: draw, judge.\n" in capsys.readouterr().out
    run(tmp_path, "winner,loser,draw\na,b,true\nb,c,false\n", "--tie", "draw")
    run(tmp_path, "model_a,model_b,winner,tie\na,b,tie,\nb,c,model_a,\n")
    output = capsys.readouterr().out
    assert output.count("not read") == 1
    assert "not read: tie." in output


def test_the_pairs_to_ask_about_next_are_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = "winner,loser\na,b\na,b\na,b\nb,c\nc,b\nd,c\n"
    run(tmp_path, text, "--next", "2")
    told = capsys.readouterr().out
    answers = pd.DataFrame(
        {"winner": [*"aaabcd"], "loser": [*"bbbcbc"]}, dtype="object"
    )
    ranking = rank_items(answers)
    names, points = ranking.items.names, ranking.items.points
    pairs = informative_pairs(ranking.utility(), 2, X=points).tolist()
    lines = "".join(f"  {names[i]} against {names[j]}\n" for i, j in pairs)
    assert f"of which the first says most:\n{lines}" in told
    assert "--next is 0" in refused(tmp_path, capsys, text, "--next", "0")
    # Four items make six pairs: who asks for more gets the board and all of them.
    run(tmp_path, text, "--next", "7")
    output = capsys.readouterr().out
    assert "Ask next about these pairs, all 6 that there are, of which" in output
    assert len(re.findall(r"^  [a-d] against [a-d]$", output, re.M)) == 6
    # Rankings say as well which duel would say most.
    ranked = "judge,item,rank\n1,a,1\n1,b,2\n1,c,3\n2,a,1\n2,c,2\n2,b,3\n"
    run(tmp_path, ranked, "--next", "1")
    assert "  b against c\n" in capsys.readouterr().out


def test_both_bad_is_a_tie_and_its_share_is_told(tmp_path: Path) -> None:
    rows = [
        ("a", "b", "tie (bothbad)"),
        ("a", "b", "model_a"),
        ("a", "c", "model_a"),
        ("c", "b", "tie"),
    ]
    table = run(tmp_path, as_arena(rows))
    assert table["both_bad"].to_dict() == pytest.approx(
        {"a": 1 / 3, "b": 1 / 3, "c": 0}
    )
    rows[0] = ("a", "b", "tie")
    (tmp_path / "tie").mkdir()
    tied = run(tmp_path / "tie", as_arena(rows))
    pd.testing.assert_frame_equal(table.drop(columns="both_bad"), tied)


def test_no_share_is_told_of_an_item_without_answers(tmp_path: Path) -> None:
    lines = ["model_a,model_b,winner,kind", "a,b,tie (bothbad),x", "a,c,model_a,y"]
    run(tmp_path, "\n".join(lines), "--category", "kind")
    page = (tmp_path / "out" / "leaderboard.html").read_text()
    assert "nan" not in page.partition('<h2 id="figure">')[0]
    # The boards of both kinds, that of all, the ranks of all three, and the figure.
    places = re.findall(r'href="#([^"]+)"', page)
    assert len(places) == 5
    assert places == re.findall(r'<h2 id="([^"]+)"', page)


def league(games: int, seed: int = 1) -> list[tuple[str, str, str]]:
    """Games of everybody at home against everybody, where being there adds 0.8."""
    generator = Generator().manual_seed(seed)
    rows = []
    for first, second in itertools.permutations(NAMES, 2):
        gap = UTILITIES[first] - UTILITIES[second] + 0.8
        noise = torch.rand(games, generator=generator, dtype=torch.float64).logit()
        answers = [
            "home" if difference > 0 else "away"
            for difference in (gap + noise).tolist()
        ]
        # Strong teams are at home more often: who leaves home out is misled.
        num_games = games if first in NAMES[:2] else games // 4
        rows += [(first, second, answer) for answer in answers[:num_games]]
    return rows


def most_likely_home(rows: list[tuple[str, str, str]]) -> tuple[float, float]:
    """Computes Bradley and Terry's home advantage by Newton, and its deviation."""
    design = np.zeros((len(rows), len(NAMES) + 1))
    for row, (first, second, _) in zip(design, rows, strict=True):
        row[[NAMES.index(first), NAMES.index(second), -1]] = 1, -1, 1
    won = np.array([answer == "home" for *_, answer in rows])
    weights = np.zeros(len(NAMES) + 1)
    for _ in range(20):
        share = 1 / (1 + np.exp(-design @ weights))
        information = (design.T * share * (1 - share)) @ design
        weights += np.linalg.pinv(information) @ design.T @ (won - share)
    return weights[-1], np.linalg.pinv(information)[-1, -1] ** 0.5


def test_home_advantage_is_the_most_likely_one_in_every_layout(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = league(100)
    mean, deviation = most_likely_home(rows)
    text = "date;home;away;winner\n" + "\n".join("1,5;" + ";".join(r) for r in rows)
    table = run(tmp_path, text, "--home", "home")
    output = capsys.readouterr().out
    match = re.search(r"adds (\S+) to the utility \(95 %: (\S+) to (\S+)\)", output)
    assert match is not None
    expected = [mean, mean - 1.96 * deviation, mean + 1.96 * deviation]
    # Rounded to two digits, and drawn to 0 by a prior of deviation 1 or so.
    assert [*map(float, match.groups())] == pytest.approx(expected, abs=0.02)
    assert f"wins {100 / (1 + np.exp(-mean)):.0f} % of the duels" in output
    page = (tmp_path / "out" / "leaderboard.html").read_text()
    assert f"adds {match[1]}" in page
    lines = ["winner,loser,host"]
    for first, second, answer in rows:
        ends = (first, second) if answer == "home" else (second, first)
        lines.append(",".join([*ends, first]))
    again = run(tmp_path, "\n".join(lines), "--home", "host")
    pd.testing.assert_frame_equal(again, table, rtol=1e-5, atol=1e-8)
    assert match[0] in capsys.readouterr().out
    # The best two, mostly at home, are thought too good without it.
    blind = run(tmp_path, text)
    assert blind["utility"][NAMES[1]] > table["utility"][NAMES[1]] + 0.05


def test_a_control_is_told_and_its_board_is_that_of_python(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rng = np.random.default_rng(0)
    lines, rows = ["model_a,model_b,winner,length_a,length_b"], []
    for first, second in itertools.permutations(NAMES, 2):
        for a, b in rng.integers(1, 100, (20, 2)).tolist():
            more = (a - b) / (a + b)
            gap = UTILITIES[first] - UTILITIES[second] + 2 * more
            won = gap + rng.logistic() > 0
            ends = (first, second) if won else (second, first)
            rows.append((*ends, more if won else -more))
            lines.append(f"{first},{second},{ends[0]},{a},{b}")
    table = run(tmp_path, "\n".join(lines), "--control", "length")
    columns = ["winner", "loser", "control length"]
    ranking = rank_items(pd.DataFrame(rows, columns=columns))
    board = ranking.board()
    pd.testing.assert_frame_equal(board, table, check_names=False, rtol=1e-6)
    printed = capsys.readouterr().out
    formula = "(length_a - length_b) / (length_a + length_b)"
    assert f"The control length is {formula}." in printed
    effect = ranking.controls().loc["length"]
    sentence = (
        f"A standard deviation more of length ({effect['deviation']:.3g}) adds "
        f"{effect['utility']:+.2f} to the utility (95 %: {effect['lower']:+.2f} to "
        f"{effect['upper']:+.2f})"
    )
    assert sentence in printed
    assert sentence in (tmp_path / "out" / "leaderboard.html").read_text()


@pytest.mark.parametrize("style", [["style"], ["--control", "style"]])
def test_controls_may_be_listed_or_repeated(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], style: list[str]
) -> None:
    rows = ["x,y,x,3,1,2,5", "y,x,y,2,7,4,4", "x,y,y,5,1,1,3", "y,x,x,4,4,2,1"]
    header = "model_a,model_b,winner,length_a,length_b,style_a,style_b"
    run(tmp_path, "\n".join([header, *rows]), "--control", "length", *style)
    printed = capsys.readouterr().out
    for name in ("length", "style"):
        assert f"A standard deviation more of {name}" in printed


def test_what_home_adds_does_not_stretch_the_axis_of_utilities(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    mean = np.linspace(3, -3, 500)
    table = pd.DataFrame({"utility": mean, "lower": mean - 0.1, "upper": mean + 0.1})
    for name in ["rank", "rank_lower", "rank_upper", "answers"]:
        table[name] = range(1, 501)
    table[["win_rate", "best", "least", "most", "better"]] = 0.5
    home = PositionBias((0.3, 0.2, 0.4), (0.57, 0.55, 0.6))
    drawn = []

    def plot(*arguments: Any) -> Any:
        drawn.append(plot_leaderboard(*arguments))
        return drawn[-1]

    monkeypatch.setattr(boards, "plot_leaderboard", plot)
    boards.write_boards(boards.Ranking({None: table}, [], home), "", tmp_path)
    # The sixtieth item, the last that is drawn, is far above what home adds.
    assert drawn[0].get_xlim()[0] > table["lower"][59] - 0.1 > 2
    below = drawn[0].figure.get_supxlabel()
    assert "first: +0.30 (95 %: +0.20 to +0.40)" in below


def test_a_caption_stands_below_the_figure(tmp_path: Path) -> None:
    caption = "Trees <of> Europe, " + "rated " * 40
    run(tmp_path, PLAIN, "--caption", caption)
    page = (tmp_path / "out" / "leaderboard.html").read_text()
    assert f"<figcaption>{escape(caption)}</figcaption>" in page
    # Texts are paths, which matplotlib names in comments.
    drawn = (tmp_path / "out" / "leaderboard.svg").read_text()
    assert "Europe, rated rated" in drawn


def test_a_full_disk_leaves_the_files_of_before(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    run(tmp_path, "winner,loser\na,b\n")
    before = {path.name: path.read_bytes() for path in (tmp_path / "out").iterdir()}
    assert len(before) == 5

    def cut_off(figure: Figure, path: Path, **options: object) -> None:
        path.write_bytes(b"half a picture")
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(Figure, "savefig", cut_off)
    table = tmp_path / "answers.csv"
    table.write_text("winner,loser\nb,a\n")
    assert main(["rank", str(table), "--out", str(tmp_path / "out")]) == 2
    assert "No space left" in capsys.readouterr().err
    after = {path.name: path.read_bytes() for path in (tmp_path / "out").iterdir()}
    assert after == before


def test_files_are_written_where_nobody_reads_what_is_printed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    before = run(tmp_path, "winner,loser\na,b\n")
    (tmp_path / "out" / "leaderboard.csv").unlink()

    def closed(_: object) -> None:
        raise BrokenPipeError(errno.EPIPE, "Broken pipe")

    monkeypatch.setattr(command, "print_boards", closed)
    table = str(tmp_path / "answers.csv")
    assert main(["rank", table, "--out", str(tmp_path / "out")]) == 141
    assert not capsys.readouterr().err
    after = pd.read_csv(tmp_path / "out" / "leaderboard.csv").set_index("item")
    pd.testing.assert_frame_equal(after, before)


def test_a_closed_pipe_ends_it_in_silence(tmp_path: Path) -> None:
    table = tmp_path / "answers.csv"
    table.write_text("winner,loser\na,b\n")
    read, write = os.pipe()
    os.close(read)
    command = [sys.executable, "-m", "botorch_pref", "rank", str(table)]
    with os.fdopen(write, "w") as pipe:
        ended = subprocess.run(
            [*command, "--out", str(tmp_path / "out")],
            stdout=pipe,
            stderr=subprocess.PIPE,
            timeout=300,
            check=False,
        )
    assert ended.returncode == 141
    assert ended.stderr == b""
    assert (tmp_path / "out" / "leaderboard.csv").exists()


def test_all_faults_of_a_file_are_named_at_once(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = ["a,b,Model_C,0,x", "a,b,model_a,2,", "b,a,Z,one,y", "c,a,tie,3,y"]
    text = "model_a,model_b,winner,count,who\n" + "\n".join(rows)
    lines = refused(tmp_path, capsys, text, "--rater", "who").splitlines()
    assert lines[0].endswith("answers.csv has 5 faults:")
    assert [line.split(": ")[0] for line in lines[1:]] == [
        "  line 2, column count",
        "  line 2, column winner",
        "  line 3, column who",
        "  line 4, column count",
        "  line 4, column winner",
    ]
    # As it stands in the file.
    assert "'Model_C' is none of" in lines[2]
    many_faults = "winner,loser,count\n" + 30 * "a,b,0\n"
    lines = refused(tmp_path, capsys, many_faults).splitlines()
    assert len(lines) == 22
    assert lines[-1] == "  and 10 more"


def test_rows_that_say_nothing_are_left_out_and_counted(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    head = "model_a,model_b,winner,note,note"
    rows = ["a,b,model_a,,", "b,b,model_a,,", "a,c,,,", head, "b,c,draw,,", "c,c,,,"]
    lines = ["# voted in May", "# by everybody", head, *rows]
    table = run(tmp_path, "\n".join(lines))
    assert table["answers"].to_dict() == {"a": 1, "b": 2, "c": 1}
    output = capsys.readouterr().out
    assert "Left out: 1 row of names of columns (line 7)." in output
    assert "Left out: 1 row in which an item meets itself (line 5)." in output
    assert "Left out: 2 rows without an item or a winner (lines 6, 9)." in output
    assert "Columns that were not read: note." in output
    plain = run(tmp_path, "winner,loser,tie\na,b,No\nb,c,YES\n,c,no\n")
    output = capsys.readouterr().out
    assert plain["answers"].to_dict() == {"a": 1, "b": 2, "c": 1}
    assert "2 answers about 3 items, 1 of them a tie." in output


def test_items_that_won_or_lost_all_are_told(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Their posteriors are skewed, and the intervals of the board are not."""
    run(tmp_path, "winner,loser,tie\na,b,no\na,c,no\nb,c,no\nd,c,no\nd,b,yes\n")
    output = capsys.readouterr().out
    assert "'a' won all; 'c' lost all: answers bound such utilities on one" in output
    run(tmp_path, "winner,loser\na,b\nb,c\nc,a\n")
    assert "won all" not in capsys.readouterr().out
    # A choice from three is one answer about its winner, however many lost.
    head = "option_a,option_b,option_c,choice\n"
    run(tmp_path, head + "a,b,c,a\na,b,d,a\na,c,d,c\nd,b,c,d\n")
    output = capsys.readouterr().out
    assert "won all" not in output, "a was chosen twice, and lost once"
    assert "'b' lost all: answers bound" in output
    run(tmp_path, head + "a,b,c,a\na,b,d,a\nb,c,d,c\nd,b,c,d\nc,b,d,b\n")
    assert "'a' won all: answers bound" in capsys.readouterr().out


def test_names_that_stand_for_nothing_are_told(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = "a,b,NA\nNaN,b,NA\nb,NA,x\na,b,x\n"
    run(tmp_path, f"winner,loser,who\n{rows}", "--rater", "who")
    output = capsys.readouterr().out
    assert "Left out: 2 rows without an item or a winner (lines 3, 4)." in output
    assert "2 answers about 2 items." in output
    assert "'NA' is among the raters: where that stands for" in output
    run(tmp_path, "winner,loser\nNanna,b\n")
    assert "Left out" not in capsys.readouterr().out


def test_a_board_is_no_wider_than_the_terminal(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "100")
    name = "begin" + 300 * " long" + " end"
    run(tmp_path, f"winner,loser\n{name},b\n")
    rows = capsys.readouterr().out.split("rank  95 %")[1].splitlines()[:3]
    # Names often differ in their ends alone.
    assert re.search("  begin long.*….* end  ", rows[1])
    assert max(map(len, rows)) <= 100


def test_a_file_is_no_folder_for_boards(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "out").write_text("")
    assert "out, a file: give a folder" in refused(tmp_path, capsys, PLAIN)


def test_an_interrupt_ends_it_in_silence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def interrupted(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(command, "rank_items", interrupted)
    table = tmp_path / "answers.csv"
    table.write_text("winner,loser\na,b\n")
    assert main(["rank", str(table), "--out", str(tmp_path / "out")]) == 130
    assert capsys.readouterr() == ("", "")


def test_neutral_ground_says_nothing_of_home(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = "winner,loser,tie,host,who\na,b,false,,x\nb,a,true,,y\nb,c,false,,x\n"
    plain = run(tmp_path, text, "--rater", "who")
    assert "at home" not in capsys.readouterr().out
    neutral = run(tmp_path, text, "--home", "host", "--rater", "who")
    pd.testing.assert_frame_equal(neutral, plain, rtol=1e-4, atol=1e-6)
    assert "adds +0.00 to the utility" in capsys.readouterr().out


@pytest.mark.parametrize("option", ["--rater", "--category"])
def test_groups_share_and_differ(tmp_path: Path, option: str) -> None:
    lines = ["winner,loser,who,count", "a,b,ann,9", "b,c,ann,9", "a,c,ann,9"]
    lines += ["c,b,bob,4", "b,a,bob,4", "c,a,bob,4"]
    table = run(tmp_path, "\n".join(lines), option, "who")
    if option == "--rater":
        assert table.index.tolist() == ["a", "b", "c"]
        return
    assert table["board"].unique().tolist() == ["all", "ann", "bob"]
    bob = table[table["board"] == "bob"]
    assert bob.index.tolist() == ["c", "b", "a"]
    assert bob["answers"].tolist() == [8, 8, 8]
    page = (tmp_path / "out" / "leaderboard.html").read_text()
    # Those of the three boards, and one of the ranks of all.
    assert page.count("<table>") == 4


def test_raters_who_answer_at_random_are_listed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Four hear the utilities, one none of them; ties are said too."""
    lines = ["model_a,model_b,winner,who"]
    for seed, rater in enumerate(["ann", "bob", "cem", "dan"]):
        lines += [",".join([*row, rater]) for row in played(12, seed)]
    for number, pair in enumerate([*itertools.combinations(NAMES, 2)] * 12):
        lines.append(",".join([*pair, ("model_a", "model_b")[number % 12 < 6], "zed"]))
    table = run(tmp_path, "\n".join(lines), "--rater", "who", "--reliability")
    assert table.index.tolist() == NAMES
    raters = pd.read_csv(tmp_path / "out" / "raters.csv", index_col="rater")
    assert raters["answers"].to_dict() == dict.fromkeys(raters.index, 72)
    assert raters.index[raters["outlier"]].tolist() == ["zed"]
    assert raters["noise"].idxmax() == "zed"
    listed = rf"\nzed +72 +{raters['noise']['zed']:.2f} .*True "
    assert re.search(listed, capsys.readouterr().out)
    page = (tmp_path / "out" / "leaderboard.html").read_text().partition('id="raters"')
    assert f"<td>72</td><td>zed</td><td>{raters['noise']['zed']:.2f}</td>" in page[2]
    assert page[2].count("<td>yes</td>") == 1
    command = ["rank", str(tmp_path / "answers.csv"), "--reliability"]
    assert main(command) == 2
    assert "name their column by --rater" in capsys.readouterr().err
    alone = tmp_path / "alone.csv"
    alone.write_text("winner,loser,who\na,b,x\nb,c,x\n")
    out = tmp_path / "nothing"
    command = ["rank", str(alone), "--rater", "who", "--reliability", "--out", str(out)]
    assert main(command) == 2
    assert "the column who of alone.csv names one" in capsys.readouterr().err
    assert not out.exists()
    # The next ranking, which knows no raters, leaves nothing of this one behind.
    run(tmp_path, PLAIN)
    assert not (tmp_path / "out" / "raters.csv").exists()
    assert 'id="raters"' not in (tmp_path / "out" / "leaderboard.html").read_text()


def test_of_many_raters_the_noisiest_are_printed(
    capsys: pytest.CaptureFixture[str],
) -> None:
    noise = np.random.default_rng(0).permutation(25) + 1.0
    raters = pd.DataFrame({"answers": 7, "noise": noise})
    boards.print_raters(raters)
    head, _, *rows, more = capsys.readouterr().out.splitlines()
    assert (
        head == "Raters: noise of answers, 1 for the typical rater; the noisiest first:"
    )
    assert [float(row.split()[-1]) for row in rows] == [*range(25, 5, -1)]
    assert more == "... and 5 more, in the files"


def test_files_of_others_stay_where_boards_are_written(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The answers were lost where they had the name of a board."""
    out = tmp_path / "out"
    out.mkdir()
    for name in ("leaderboard.csv", "raters.csv"):
        (out / name).write_text(PLAIN)
        command = ["rank", str(out / name), "--out", str(out)]
        assert main(command) == 2
        assert "give --out another folder" in capsys.readouterr().err
        assert (out / name).read_text() == PLAIN
    run(tmp_path, PLAIN)
    assert (out / "raters.csv").read_text() == PLAIN


def test_ranks_in_categories_stand_side_by_side(tmp_path: Path) -> None:
    rows = ["a,b,x,9", "b,c,x,9", "a,c,x,9", "b,a,y,9", "c,b,y,9", "c,a,y,9"]
    text = "\n".join(["winner,loser,kind,count", *rows])
    table = run(tmp_path, text, "--category", "kind").reset_index()
    page = (tmp_path / "out" / "leaderboard.html").read_text()
    section = page.partition('id="side-by-side"')[2].partition("</table>")[0]
    assert "<th>all answers</th><th>item</th><th>x</th><th>y</th>" in section
    cells = [re.findall("<td>(.*?)</td>", row) for row in section.splitlines()[3:]]
    for _, name, *ranks in cells:
        of_item = table[table["item"] == name].set_index("board")["rank"]
        stated = [int(rank.split()[0]) for rank in ranks]
        assert stated == [of_item["x"], of_item["y"]]
    assert len(cells) == 3


def test_a_category_called_all_has_a_board_of_its_own(tmp_path: Path) -> None:
    lines = ["winner,loser,kind", "a,b,all", "a,b,all", "b,a,other"]
    table = run(tmp_path, "\n".join(lines), "--category", "kind")
    assert table["board"].unique().tolist() == ["all answers", "all", "other"]
    assert table.groupby("board")["answers"].max().to_dict() == {
        "all answers": 3,
        "all": 2,
        "other": 1,
    }


def test_answers_that_cannot_be_kept_are_not_fitted(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(command, "rank_items", pytest.fail)
    table, out = tmp_path / "answers.csv", tmp_path / "out"
    table.write_text("winner,loser\na,b\n")
    out.write_text("a file, no folder")
    assert main(["rank", str(table), "--out", str(out)]) == 2
    assert "out" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("kinds", "message"),
    [(10, ""), (30, "3,000 pairs of an item and a group"), (41, "are 4,100 pairs")],
)
def test_a_long_wait_is_told_before_it_and_one_too_long_refused(
    kinds: int,
    message: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def stop(*arguments: object, **options: object) -> None:
        raise FeedbackError("fitted")

    monkeypatch.setattr(command, "rank_items", stop)
    # All of 100 items are compared in each category.
    table = tmp_path / "answers.csv"
    rows = [f"{i},{i + 1},k{kind}" for i in range(99) for kind in range(kinds)]
    table.write_text("\n".join(["winner,loser,kind", *rows]))
    out = tmp_path / "out"
    options = ["--category", "kind", "--out"]
    assert main(["rank", str(table), *options, str(out)]) == 2
    assert out.exists() == (kinds <= 40)
    output = capsys.readouterr()
    assert message in output.out + output.err
    assert ("fitted" in output.err) == (kinds <= 40)
    assert ("takes 11 minutes or more" in output.out) == (kinds == 30)
    # Thresholds of ties take longer.
    ties = [f"{row},true" for row in rows]
    table.write_text("\n".join(["winner,loser,kind,tie", *ties]))
    assert main(["rank", str(table), *options, str(tmp_path)]) == 2
    assert ("takes 49 minutes or more" in capsys.readouterr().out) == (kinds == 30)


def test_characters_without_a_font_are_told_once(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    # From U+10FFF0 on they are of private use: no font has them.
    name = "".join(chr(0x10FFF0 + place) for place in range(12))
    run(tmp_path, f"winner,loser\n{name},b\n{name},c\n")
    output = capsys.readouterr().out
    assert output.count("No font on this computer has") == 1
    assert "and 2 more: the figure" in output


def test_a_terminal_in_another_coding_shows_the_codes_of_letters(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    terminal = io.BytesIO()
    monkeypatch.setattr("sys.stdout", io.TextIOWrapper(terminal, encoding="cp1252"))
    assert run(tmp_path, "winner,loser\n抹茶,café\n").index.tolist() == ["抹茶", "café"]
    sys.stdout.flush()
    assert b"\\u62b9\\u8336" in terminal.getvalue()
    assert b"caf\xe9" in terminal.getvalue()


def test_columns_stand_under_each_other_in_a_terminal(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    # Two wide characters take four columns, and so do four letters with an accent.
    tea, coffee = "抹茶", "cafe\u0301"
    run(tmp_path, as_arena([(tea, coffee, "model_a")]))
    printed = capsys.readouterr().out.splitlines()
    head = next(place for place, row in enumerate(printed) if "utility" in row)
    column = printed[head].index("utility") - len("item")
    for row in printed[head + 1 : head + 3]:
        name = tea if tea in row else coffee
        utility = row[column + len(name) :][: len("utility")]
        assert utility.lstrip() == f"{float(utility):+.2f}"
        assert row[column + len(name) - 2 :].startswith("  ")


def test_a_name_of_two_lines_is_printed_in_one(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    name = "Yirga\nCheffe"
    assert name in run(tmp_path, f'winner,loser\n"{name}",b\n').index
    printed = capsys.readouterr().out
    assert "  Yirga Cheffe  " in printed
    assert "No font" not in printed


def test_features_rank_items_without_answers(tmp_path: Path) -> None:
    items = tmp_path / "items.csv"
    items.write_text("id,size\n" + "\n".join(f"{i},{i}" for i in range(5)))
    # No answer is about 2, which lies between 1 and 3.
    text = "winner,loser,count\n1,0,30\n4,3,30\n3,1,30\n"
    table = run(tmp_path, text, "--items", str(items))
    table.index = table.index.astype(str)
    assert table.index.tolist() == [*"43210"]
    assert table["answers"]["2"] == 0


def test_items_with_the_same_features_differ_by_what_answers_say(
    tmp_path: Path,
) -> None:
    items = tmp_path / "items.csv"
    items.write_text("id,size\na,1\nb,1\nc,2\nd,2\n")
    text = "winner,loser,count\na,b,90\nb,a,30\nc,d,90\nd,c,30\na,c,60\nc,a,60\n"
    table = run(tmp_path, text, "--items", str(items))
    gap = table["utility"]["a"] - table["utility"]["b"]
    # Three wins to one, and a prior that hardly holds against 120 duels.
    assert gap == pytest.approx(np.log(3), abs=0.2)
    assert table["utility"]["c"] - table["utility"]["d"] == pytest.approx(gap, abs=0.05)


def test_the_page_escapes_names_and_needs_no_other_file(
    board: pd.DataFrame, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run(tmp_path, as_arena(played(3)))
    page = (tmp_path / "out" / "leaderboard.html").read_text()
    assert "&lt;b&gt;oak&lt;/b&gt;" in page
    assert "<b>oak" not in page
    assert "http" not in page
    # On a phone the table fades where columns are hidden.
    assert "animation-timeline: scroll(self inline)" in page
    assert (tmp_path / "out" / "leaderboard.png").stat().st_size > 10_000
    assert b"<svg" in (tmp_path / "out" / "leaderboard.svg").read_bytes()
    assert (tmp_path / "out" / "leaderboard.pdf").read_bytes().startswith(b"%PDF")
    assert "To cite it: The botorch_pref authors (2026). botorch_pref: " in page
    assert "18 answers about 4 items" in capsys.readouterr().out


def test_groups_that_no_answer_joins_are_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run(tmp_path, "winner,loser\na,b\nc,d\n")
    output = capsys.readouterr().out
    assert (
        "connect 2 groups of items: between groups the ranks are the prior's" in output
    )


def test_cells_that_spreadsheets_leave_empty_say_nothing(tmp_path: Path) -> None:
    items = tmp_path / "items.csv"
    items.write_text("id,size,\na,1,\nb,2,\n,,\n")
    table = run(tmp_path, "winner,loser,\na,b,\n,,\n,,\n", "--items", str(items))
    assert table["answers"].to_dict() == {"a": 1, "b": 1}


def test_names_that_may_be_misspelt_are_told(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    accents = ["M\u00fcnchen", "Mu\u0308nchen"]
    item_names = [f"item {place}" for place in range(18)]
    names = [*accents, "Ajax", "ajax", *item_names]
    pairs = itertools.pairwise([*names, *names[:2]])
    text = "".join(f"{a},{b},2\n" for a, b in pairs) + "item 0,Ajacks,1\n"
    run(tmp_path, "winner,loser,count\n" + text)
    output = capsys.readouterr().out
    assert r"'Mu\u0308nchen' and 'M\xfcnchen'" in output
    assert "'Ajax' and 'ajax'" in output
    assert "In one answer alone: 'Ajacks'." in output
    # A space without a width, as web pages have them.
    run(tmp_path, "winner,loser\nOslo\u200b,Bergen\nBergen,Oslo\n")
    assert r"'Oslo' and 'Oslo\u200b'" in capsys.readouterr().out
    # Ids of a column with gaps, as pandas writes them beside one without.
    run(tmp_path, "winner,loser\n25,3.0\n3,10.0\n025,100\n2.5,25.0\n")
    output = capsys.readouterr().out
    assert "differ only in capitals, spaces, zeros or coding" in output
    assert "of their own: '025' and '25' and '25.0'; '3' and '3.0'." in output
    run(tmp_path, as_arena(played(3)))
    output = capsys.readouterr().out
    assert "of their own" not in output
    assert "In one answer" not in output


def test_a_small_tasting_with_names_misspelt(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    lines = ["winner,loser,taster,count"]
    names = ["Barolo 2015", "Barolo 2016", "Nebbiolo", "Primitivo"]
    lines += [f"{a},{b},Eva,3" for a, b in itertools.permutations(names[1:], 2)]
    lines += ["Primitivo,Nebiolo,eva,1", "Barolo 2015,Primitivo,Bob,1"]
    run(tmp_path, "\n".join(lines), "--rater", "taster")
    output = capsys.readouterr().out
    assert "In one answer alone: 'Nebiolo'." in output
    assert "are raters of their own: 'Eva' and 'eva'." in output


def test_raters_who_contradict_each_other_or_themselves_are_told(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pairs = [*itertools.combinations("abcd", 2)]
    rows = [f"{a},{b},{who}" for who in "xyz" for a, b in pairs * 2]
    rows += [f"{b},{a},contrary" for a, b in pairs * 2]
    rows += [f"{a},{b},coin\n{b},{a},coin" for a, b in pairs * 2]
    run(tmp_path, "\n".join(["winner,loser,who", *rows]), "--rater", "who")
    output = capsys.readouterr().out
    assert (
        "'contrary' answers against the others: with most of them in 0 of 12" in output
    )
    # Of four answers about each of six pairs, four of the six pairs of answers differ.
    assert "'coin' answers as a coin does: of 36 such pairs 24 contradict" in output
    # Those of the others, who gave each answer twice, are six each.
    assert "Of 60 pairs of answers of one rater about the same two items, 24 " in output
    assert "a coin 30." in output
    assert "'x' answers" not in output
    run(tmp_path, "winner,loser,who\na,b,x\nb,a,y\nb,c,x\n", "--rater", "who")
    assert "The two raters agree on 0 of 1 answers" in capsys.readouterr().out


def test_coins_are_named_beside_people_who_err() -> None:
    # A coin stays above the limit with a probability of 0.95, so that fewer than 15 of
    # 20 have one of 0.0003; half of them contradict themselves in less than a half.
    rng = np.random.default_rng(0)
    utility, shape = np.linspace(-1.5, 1.5, 8), (5, 600)
    coins = people = 0
    for _ in range(20):
        first = rng.integers(8, size=shape)
        second = (first + rng.integers(1, 8, size=shape)) % 8
        chance = 1 / (1 + np.exp(utility[second] - utility[first]))
        chance[0] = 0.5
        is_won = rng.uniform(size=shape) < chance
        columns = {
            "winner": np.where(is_won, first, second).ravel(),
            "loser": np.where(is_won, second, first).ravel(),
            "rater": np.repeat(["coin", "x", "y", "z", "w"], shape[1]),
        }
        answers = pd.DataFrame(columns).assign(tie=False, count=1)
        notes = notes_on_raters(answers, contradictions(answers, np.full(3000, 0.5)))
        named = [note.split("'")[1] for note in notes if "as a coin does" in note]
        coins += "coin" in named
        people += len(named) - ("coin" in named)
    assert coins >= 15
    assert people <= 2


def test_what_adds_most_is_told_without_the_sentence_before() -> None:
    # Sentences of controls may stand between this one and that of being first.
    columns = {"utility": [0.1, 0.7], "lower": [-0.1, 0.5], "upper": [0.3, 0.9]}
    sentence = sentence_of_biases(pd.DataFrame(columns, index=["ann", "dan"]))
    assert sentence == (
        "Being first adds most with 'dan', +0.70 (95 %: +0.50 to +0.90), and least "
        "with 'ann', +0.10 (95 %: -0.10 to +0.30)."
    )
    columns |= {"upper": [0.6, 0.9]}
    sentence = sentence_of_biases(pd.DataFrame(columns, index=["ann", "dan"]))
    assert sentence.endswith("the answers leave open whether raters differ in it.")


def test_a_coin_is_compared_with_the_other_rater_alone() -> None:
    answers = pd.DataFrame({"winner": [*"aa"], "loser": [*"bb"], "rater": [*"xy"]})
    table = pd.DataFrame(
        {"repeated": [80, 20], "contradicted": [44, 1], "expected": [19.0, 4.0]},
        index=[*"xy"],
    )
    # Of all 100 pairs 45 contradict each other, which for a coin is nothing unusual.
    *_, named = notes_on_raters(answers.assign(tie=False, count=1), table)
    assert named.startswith("'x' answers as a coin does: of 80 such pairs 44")


def test_two_raters_who_mostly_agree_are_not_told_apart() -> None:
    rows = ["abx", "bcx", "acx", "aby", "bcy", "cay"]
    columns = ["winner", "loser", "rater"]
    answers = pd.DataFrame([[*row] for row in rows], columns=columns)
    answers = answers.assign(tie=False, count=1)
    table = contradictions(answers, np.full(6, 0.5))
    assert notes_on_raters(answers, table) == []
    # Turned round, two of three answers differ.
    answers.loc[3, ["winner", "loser"]] = [*"ba"]
    [note] = notes_on_raters(answers, table)
    assert note.startswith("The two raters agree on 1 of 3 answers")


def test_two_raters_who_repeat_questions_disagree_in_the_answers_of_both() -> None:
    # In three of his four answers the first one agrees, and the second in one of six.
    rows = ["abx", "cdx", "aby", "dcy"]
    columns = ["winner", "loser", "rater"]
    answers = pd.DataFrame([[*row] for row in rows], columns=columns)
    table = pd.DataFrame(
        {"repeated": 0, "contradicted": 0, "expected": 0.0}, index=[*"xy"]
    )
    # However often the second one says so, he disagrees with one answer of the first.
    for times in (5, 50):
        answers = answers.assign(tie=False, count=[3, 1, 1, times])
        assert notes_on_raters(answers, table) == []
    # Both disagree on most once the first one repeats the other question.
    answers["count"] = [1, 3, 1, 5]
    [note] = notes_on_raters(answers, table)
    assert note.startswith("The two raters agree on 1 of 4 answers")


def test_no_rater_is_named_a_coin_whom_nobody_differs_from() -> None:
    answers = pd.DataFrame({"winner": [*"ab"], "loser": [*"ba"], "rater": [*"xx"]})
    answers = answers.assign(tie=False, count=40)
    for raters in ("x", "xy"):
        table = pd.DataFrame(
            {"repeated": 100, "contradicted": 50, "expected": 49.0}, index=[*raters]
        )
        [note] = notes_on_raters(answers, table)
        assert note.endswith(f"a coin {50 * len(raters)}.")


def test_an_item_may_be_left_out(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    # Only through c, whom b beats often, is b ahead of a.
    text = "winner,loser,count\na,b,3\nb,a,2\nb,c,20\nc,a,20\n"
    board = run(tmp_path, text, "--without", "c", "--title", "Two of <three>")
    assert board.index.tolist() == ["a", "b"]
    expected = "Without 'c', among the other items these move: a from 2 to 1, b from 1"
    assert expected in capsys.readouterr().out
    page = (tmp_path / "out" / "leaderboard.html").read_text()
    assert "<h1>Two of &lt;three&gt;</h1>" in page
    # The first item is not compared with itself.
    assert page.count("<td></td><td></td>") == 1
    assert "--without is d" in refused(tmp_path, capsys, text, "--without", "d")
    assert "leaves no answer" in refused(
        tmp_path, capsys, text, *("--without", "a", "--without", "b")
    )


def test_an_item_with_features_may_be_left_out(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """It stays on the board by its features, but is none of the others."""
    items = tmp_path / "items.csv"
    items.write_text("id,size\na,1\nb,2\nc,3\n")
    text = "winner,loser,count\na,b,3\nb,a,2\nb,c,20\nc,a,20\n"
    options = ("--items", str(items), "--without", "c")
    board = run(tmp_path, text, *options)
    assert board["answers"].to_dict() == {"a": 5, "b": 5, "c": 0}
    expected = "Without 'c', among the other items these move: a from 2 to 1, b from 1"
    assert f"{expected} to 2." in capsys.readouterr().out
    # All answers are ranked as well, for the places before.
    items.write_text("id,size\na,1\nb,2\n")
    message = refused(tmp_path, capsys, text, *options)
    assert "items.csv lacks the item 'c', which an answer names: add it" in message


def test_ratings_have_a_board(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = "judge,Kenya,Java,Sidamo\nann,5,3,4\nbob,4,2,4\ncem,5,4,3\n"
    board = run(tmp_path, text, "--top", "1")
    output = capsys.readouterr().out
    assert "9 ratings of 3 items by 3 raters." in output
    assert board.index.tolist() == ["Kenya", "Sidamo", "Java"]
    # What shrinks to the mean of all, 34 / 9, is between it and the mean of the item.
    assert 34 / 9 < board["rating"]["Kenya"] < 14 / 3
    assert "win_rate" not in board
    assert "<th>rating</th>" in (tmp_path / "out" / "leaderboard.html").read_text()
    assert "leave out --next" in refused(tmp_path, capsys, text, "--next", "1")


def test_spreads_of_ratings_are_named_as_such(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Three raters whose means are 2 apart have a spread of about 2 around theirs."""
    levels = {"ann": 1, "bob": 3, "cem": 5}
    rows = [
        (item, rater, level + place % 3)
        for rater, level in levels.items()
        for place, item in enumerate("abcd")
    ]
    ratings = pd.DataFrame(rows, columns=["item", "rater", "rating"])
    run(tmp_path, ratings.to_csv(index=False), "--rater", "rater")
    items, raters, noise = (scale**0.5 for scale in rank_items(ratings).scales)
    assert raters == pytest.approx(2, rel=0.2), "the spread of 1, 3 and 5 is 2"
    sentence = (
        "12 ratings of 4 items by 3 raters. Spreads, in points of the ratings, are "
        f"standard deviations: items {items:.2f} around their mean, raters "
        f"{raters:.2f} around theirs, as some rate higher than others, and ratings "
        f"{noise:.2f} around what item and rater explain."
    )
    assert sentence in capsys.readouterr().out, "it is not said what the numbers are"
    run(tmp_path, ratings[["item", "rating"]].to_csv(index=False))
    output = capsys.readouterr().out
    assert "around what the item explains." in output, "there is no rater to explain"
    assert "raters" not in output, "one speaks of raters where none is named"


def test_the_first_are_settled_or_not(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    clear = "winner,loser,count\na,b,50\na,c,50\nb,c,20\nc,b,18\n"
    run(tmp_path, clear, "--top", "1", "--next", "1")
    output = capsys.readouterr().out
    assert "The first one is the best with a probability of 100 %: this is" in output
    assert "No pair is left to ask about: the first 1 are settled." in output
    run(tmp_path, clear, "--top", "2", "--next", "1")
    output = capsys.readouterr().out
    assert "this is not settled, 2 items may or may not be among them" in output
    assert "about this pair, to settle the first 2:\n  b against c\n" in output
    run(tmp_path, clear, "--top", "2", "--next", "3")
    only = "about this pair, the only one, to settle the first 2:\n  b against c\n"
    assert only in capsys.readouterr().out
    assert "give fewer" in refused(tmp_path, capsys, clear, "--top", "3")


def test_a_utility_that_rounds_to_nothing_has_no_sign(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run(tmp_path, "winner,loser,tie\na,b,true\nb,c,true\n")
    assert "+0.00" in (output := capsys.readouterr().out)
    assert "-0.00" not in output
    assert "-0.00" not in (tmp_path / "out" / "leaderboard.html").read_text()


def test_items_without_answers_are_no_group(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    items = tmp_path / "items.csv"
    items.write_text("id,size\na,1\nb,2\nc,3\nd,4\ne,5\n")
    run(tmp_path, "winner,loser\na,b\n", "--items", str(items))
    assert "connect" not in capsys.readouterr().out
    run(tmp_path, "winner,loser\na,b\nc,d\n", "--items", str(items))
    assert "connect 2 groups" in capsys.readouterr().out


def refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], text: str, *options: str
) -> str:
    """Returns what is said of a table that cannot be ranked."""
    table = tmp_path / "answers.csv"
    table.write_text(text)
    assert main(["rank", str(table), "--out", str(tmp_path / "out"), *options]) == 2
    return capsys.readouterr().err


PLAIN = "winner,loser\na,b\n"


@in_turn(
    ("text", "options", "wrong"),
    [
        ("winner,loser\na,a\n", "", "no answer. Left out: 1 row in which an item"),
        ("winner,loser\na,\n", "", "1 row without an item or a winner (line 2)"),
        (
            "winner,lost\na,b\n",
            "",
            "--count, --rater, --order and --rating; the header is winner, lost",
        ),
        ("", "", "the header is empty"),
        (
            "home_team,away_team,home_score\na,b,1\n",
            "",
            "no columns that say who won: winner and loser; or two columns of items",
        ),
        ("winner,loser,tie\na,b,So\n", "", "column tie: 'So' is neither"),
        ("winner,loser,count\na,b,0\n", "", "column count: '0' is not"),
        (f"winner,loser,count\na,b,{5000 * '9'}\n", "", "999' is not an integer"),
        (PLAIN, "--rater who", "lacks the column who"),
        ("model_a,model_b,winner\na,b,c\n", "", "line 2, column winner: 'c' is none"),
        ("model_a,model_b,winner,d\na,b,tie,1\n", "--tie d", "leave out --tie"),
        (
            "home,away,winner\na,b,C\n",
            "",
            "'C' is none of home, away, the name of either, tie",
        ),
        ("home,away,winner\na,b,0.7\n", "", "botorch_pref.Strengths"),
        ("winner,loser,count\na,b,0.7\n", "", "botorch_pref.Strengths"),
        ("home,away,winner\na,a,draw\n", "", "1 row in which an item meets itself"),
        (
            "item,rating,judge\na,1,x\nb,2,x\n",
            "--control judge",
            "compares the two items of a row: leave it out",
        ),
        (
            "item,rating\na,1\nb,inf\n",
            "",
            "line 3, column rating: 'inf' is no finite number",
        ),
        (
            "judge,trial,item,rating\nx,,a,1\n,,b,2\n",
            "",
            "line 3, column judge: has no rater: write who rated",
        ),
        (PLAIN, "--home winner", "who won, not who was at home"),
        (
            "winner,loser,at\na,b,\na,b,c\n",
            "--home at",
            "line 3, column at: 'c' is neither 'a' nor 'b'",
        ),
        ("winner,loser,winner\na,b,c\n", "", "has the column winner twice"),
        (
            "winner,loser\na,b\nPie, hot,b\n",
            "",
            "line 3: 3 cells, and the header has 2",
        ),
        (f"winner,loser,count\na,b,{2**53}\nb,a,1\n", "", "counts 9007199254740993"),
    ],
)
def test_a_wrong_table_is_refused_by_line_and_column(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    text: str,
    options: str,
    wrong: str,
) -> None:
    assert wrong in refused(tmp_path, capsys, text, *options.split())
    assert not (tmp_path / "out").exists()


@in_turn(
    ("items", "wrong"),
    [
        ("", "items.csv is empty"),
        ("id,size\na,1\n", "items.csv lacks the item 'b'"),
        ("id,size\na,1\nb,2\na,3\n", "items.csv, line 4, column id: 'a' is there"),
        ("id,size\na,1\nB,2\n", "add it, or write 'B' for 'b'"),
        ("id,size\na,1\nb,1\n", "items.csv has no feature in which items differ"),
        ("id,size,size\na,1,2\nb,2,1\n", "items.csv has the column size twice"),
        ("id,size\na,1\nb,2 kg\n", "line 3, column size: '2 kg' is not a number"),
        ("id,size,\na,1,\nb,2,x\n", "cells in column 3, which has no name"),
    ],
)
def test_wrong_features_are_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], items: str, wrong: str
) -> None:
    file = tmp_path / "items.csv"
    file.write_text(items)
    assert wrong in refused(tmp_path, capsys, PLAIN, "--items", str(file))


def test_wrong_workers_are_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert "--jobs is 0" in refused(tmp_path, capsys, PLAIN, "--jobs", "0")
    assert not (tmp_path / "out").exists()
    pytest.importorskip("distributed", reason="dask is not installed")
    message = refused(tmp_path, capsys, PLAIN, "--scheduler", "nowhere")
    assert "tcp://HOST:PORT" in message
    assert not (tmp_path / "out").exists()
