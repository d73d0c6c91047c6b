"""Files as people leave them: every row is an answer, or counted, or named."""

import re
from pathlib import Path

import pytest
from cases import in_turn
from hypothesis import given
from hypothesis import strategies as st

from botorch_pref.datasets import NamedColumns, read_answers
from botorch_pref.datasets.answer_files import read_duels
from botorch_pref.datasets.items import names_alike
from botorch_pref.errors import FeedbackError

ITEMS = st.sampled_from(["x", "y", " y ", "z", "", "NA", '"a, b"'])
VERDICTS = st.sampled_from(["a", "B", "tie", "", "NA", "skip", " A "])
NUMBERS = st.sampled_from(["1", "2", "4.5", "", "NA", "-"])
PLACES = st.permutations(["w", "x", "y", "z"]).flatmap(
    lambda items: st.integers(0, 4).map(
        lambda number: [*items[:number], *[""] * (4 - number)]
    )
)


def left_out(text: str) -> int:
    """Returns how many rows sentences say to be left out."""
    counts = re.findall(r"Left out: ([\d,]+) row", text)
    return sum(int(count.replace(",", "")) for count in counts)


def reading(path: Path, lines: list[str]) -> tuple[int, int]:
    """Returns how many answers a file has, and how many rows it leaves out."""
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    try:
        file = read_answers(path)
    except FeedbackError as error:
        if "has no answer. Left out:" not in str(error):
            raise
        return 0, left_out(str(error))
    answers = file.answers
    number = answers["count"].sum() if "count" in answers else len(answers)
    return int(number), left_out(" ".join(file.notes))


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("answers") / "answers.csv"


@given(st.lists(st.tuples(ITEMS, ITEMS, VERDICTS), min_size=1), st.booleans())
def test_every_row_of_two_items_is_an_answer_or_counted(path, rows, repeats) -> None:
    header = "model_a,model_b,winner"
    cells = [",".join(row) for row in rows]
    # One cell of a file says that it has sides.
    cells += ["x,y,A"] + [header] * repeats
    num_blank = cells.count(",,")
    number, silent = reading(path, [header, *cells])
    assert number + silent == len(cells) - num_blank


@given(st.lists(st.tuples(st.sampled_from("uvw"), ITEMS, NUMBERS), min_size=1))
def test_every_rating_is_read_or_counted(path, rows) -> None:
    cells = [*(",".join(row) for row in rows), "u,x,3"]
    number, silent = reading(path, ["rater,item,rating", *cells])
    assert number + silent == len(cells)


@given(st.lists(PLACES, min_size=1))
def test_every_ranking_compares_items_or_is_counted(path, rankings) -> None:
    lines = [f"{row},{','.join(items)}" for row, items in enumerate(rankings)]
    number, silent = reading(path, ["voter,1st,2nd,3rd,4th", *lines, "v,x,y,z,w"])
    compared = [len(items) - items.count("") for items in [*rankings, ["x"] * 4]]
    # Of n items n - 1 are chosen; a choice from n has n - 1 rows.
    assert number == sum(n * (n - 1) // 2 for n in compared)
    assert silent == sum(n < 2 for n in compared)


@in_turn(
    ("content", "winner", "loser"),
    [
        ("\ufeffwinner,loser\nx,y\n", "x", "y"),
        ("winner\tloser\nü\ty\n".encode("utf-16"), "ü", "y"),
        ("# coding: latin-1\nwinner,loser\nü,y\n".encode("latin-1"), "ü", "y"),
        ("Tasting of May\nwinner;loser\nx;y\n", "x", "y"),
        ('"Tasting; of May";;\nmodel_a;model_b;winner\nx;y;B\n', "y", "x"),
        (",Results,\nmodel_a,model_b,winner\nx,y,a\n", "x", "y"),
        (" Winner , LOSER \n x , y \n", "x", "y"),
        ('winner,loser\n"a, b","c ""d"""\n', "a, b", 'c "d"'),
        ('winner\tloser\n5" disk\ta "b\n', '5" disk', 'a "b'),
        ("winner,loser,,\nx,y,,\n,,,\n", "x", "y"),
        ("winner,loser\r\nx,y", "x", "y"),
    ],
)
def test_what_spreadsheets_and_editors_leave(
    path: Path, content: str | bytes, winner: str, loser: str
) -> None:
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    file = read_answers(path)
    (row,) = file.answers.to_dict("records")
    assert (row["winner"], row["loser"], row["count"]) == (winner, loser, 1)
    assert len(file.notes) == 1


@in_turn(
    ("content", "match"),
    [
        (b"winner,loser\nx,y\n\xfc,y\n", "can't decode byte 0xfc.*, in line 3; save"),
        (b"# coding: kion\nwinner,loser\nx,y\n", "unknown encoding: kion; save it"),
        (b'winner,loser\nx,"y\n', "from line 2 on"),
        (b"winner,loser\nx,y\nx,y,z\n", "line 3: 3 cells, and the header has 2"),
        (b'winner,loser,count\nx,y,"1,000"\n', "line 2, column count: '1,000' is not"),
    ],
)
def test_lines_that_cannot_be_read_are_named(
    path: Path, content: bytes, match: str
) -> None:
    path.write_bytes(content)
    with pytest.raises(FeedbackError, match=match):
        read_answers(path)


def test_a_line_that_is_no_object_is_named(tmp_path: Path) -> None:
    path = tmp_path / "answers.jsonl"
    path.write_text('{"winner": "x", "loser": "y"}\n\n{"winner": "y",\n')
    with pytest.raises(FeedbackError, match="line 3 is no object of JSON"):
        read_answers(path)


def test_names_that_look_alike_are_found() -> None:
    names = ["Tea", "tea", "te\u200ba", "caf\u00e9", "cafe\u0301", "a  b", "a b", "1.0"]
    assert names_alike([*names, "1", "q"]) == [
        ["Tea", "tea", "te\u200ba"],
        ["caf\u00e9", "cafe\u0301"],
        ["a  b", "a b"],
        ["1.0", "1"],
    ]


def test_columns_that_nobody_reads_may_have_one_name(path: Path) -> None:
    path.write_text("a,b,winner,n,n\nx,y,a,1,2\n")
    assert read_answers(path).unread == ["n"]


def test_thousands_of_columns(path: Path) -> None:
    names = [f"item {number}" for number in range(3_000)]
    path.write_text(f"rater,{','.join(names)}\nu{',3' * 3_000}\nv{',4' * 3_000}\n")
    table = read_answers(path).answers
    assert len(table) == 6_000
    assert {*table["item"]} == {*names}


# --- Tables without names of columns


@in_turn(
    ("text", "named", "expected"),
    [
        ("x,y,x\ny,z,y\n", {"first": "1", "second": "2", "winner": "3"}, "xy yz"),
        ("u\tx\ty\tA\n", {"first": "2", "second": "3", "winner": "4"}, "xy"),
        # The first row has all three numbers, too.
        (
            "1,2,1,3\n2,3,3,3\n",
            {"first": "1", "second": "2", "winner": "3"},
            "12 32",
        ),
        (
            "7,y,2\n7,z,1\n7,z,2\n",
            {"first": "1", "second": "2", "winner": "3"},
            "7z y7 z7",
        ),
    ],
)
def test_columns_by_their_numbers(
    path: Path, text: str, named: dict, expected: str
) -> None:
    path.write_text(text)
    answers = read_answers(path, NamedColumns(**named)).answers
    ends = answers["winner"] + answers["loser"]
    assert sorted(ends) == expected.split()


def test_opinions_by_line_and_subject_as_in_itu_t_p910(path: Path) -> None:
    path.write_text("5.0,4.0,nan\n1.0,2.0,3.0\n")
    with pytest.raises(FeedbackError, match=r"begins with numbers.*--first line"):
        read_answers(path)
    columns = ["item", "rater", "rating"]
    by_item, by_rater = (
        read_answers(path, NamedColumns(**named)).answers.to_dict("list")
        for named in ({"first": "line"}, {"rater": "line"})
    )
    ratings = [(1, 1, 5.0), (1, 2, 4.0), (2, 1, 1.0), (2, 2, 2.0), (2, 3, 3.0)]
    expected = [(str(line), str(number), value) for line, number, value in ratings]
    assert sorted(zip(*map(by_item.get, columns), strict=True)) == expected
    columns = ["rater", "item", "rating"]
    assert sorted(zip(*map(by_rater.get, columns), strict=True)) == expected


@in_turn(
    "text", ["winner,loser\nx,y\n", "who,what,how\nu,x,3\nv,x,4\n", "a,b,n\nx,y,1\n"]
)
def test_numbers_are_not_for_columns_with_names(path: Path, text: str) -> None:
    path.write_text(text)
    with pytest.raises(
        FeedbackError, match=r"has names of columns, .*: give them, not"
    ):
        read_answers(path, NamedColumns(first="1", second="2"))


VIDEO = "{{'content_id': 0, 'asset_id': {}, 'path': '/yuv/{}', 'os': {}}}"


def test_data_sets_of_sureal_are_read_and_not_run(tmp_path: Path) -> None:
    # https://github.com/Netflix/sureal: ratings by place or by name of the subject, and
    # pairs by subject and the number of the other video.
    path = tmp_path / "dataset.py"
    ratings = ["a.yuv", [5, 4]], ["b.yuv", {"1": 2, "2": 1}]
    pairs = ["a.yuv", {("Ann ", 1): 1, ("Ben", 1): 0}], ["b.yuv", {("Cem", 0): 0.5}]
    answers = []
    for videos in (ratings, pairs):
        listing = [VIDEO.format(i, *video) for i, video in enumerate(videos)]
        text = (
            "import sys\nsys.exit('ran')\n" + f"dis_videos = [{', '.join(listing)}]\n"
        )
        path.write_text(text)
        answers.append(read_answers(path, NamedColumns(rater="rater")).answers)
    assert answers[0].to_numpy().tolist() == [
        *(["a.yuv", 5.0, "1"], ["a.yuv", 4.0, "2"]),
        *(["b.yuv", 2.0, "1"], ["b.yuv", 1.0, "2"]),
    ]
    rows = answers[1][["winner", "loser", "tie", "rater"]].to_numpy().tolist()
    assert sorted(rows, key=lambda row: row[3]) == [
        ["a.yuv", "b.yuv", False, "Ann"],
        ["b.yuv", "a.yuv", False, "Ben"],
        ["b.yuv", "a.yuv", True, "Cem"],
    ]
    path.write_text("ref_videos = []\n")
    with pytest.raises(FeedbackError, match="no dis_videos, as data sets of sureal"):
        read_answers(path)
    unclear = ["a.yuv", {("Ann", 1): 0.7}], ["b.yuv", []]
    lost = ["a.yuv", {("Ann", 7): 1}], ["b.yuv", []]
    for videos, words in (unclear, "has 0.7 from Ann beside b.yuv"), (lost, "Error: 7"):
        listing = [VIDEO.format(i, *video) for i, video in enumerate(videos)]
        path.write_text(f"dis_videos = [{', '.join(listing)}]\n")
        with pytest.raises(FeedbackError, match=words):
            read_answers(path)
    path.write_text("dis_videos = [{'path': 'a.yuv'}]\n")
    with pytest.raises(FeedbackError, match="objects with asset_id, path and os"):
        read_answers(path)


def test_pickles_are_refused_with_what_to_do(tmp_path: Path) -> None:
    path = tmp_path / "answers.pkl"
    path.write_bytes(b"\x80\x04.")
    with pytest.raises(FeedbackError, match="is a pickle, which may run any code"):
        read_answers(path)


def test_a_file_of_ratings_is_no_table_of_duels_but_can_be_recorded(tmp_path) -> None:
    path = tmp_path / "ratings.csv"
    path.write_text("rater,item,rating\nAnn,a,7\nAnn,b,4\nBen,a,8\nBen,b,6\n")
    with pytest.raises(FeedbackError, match=r"record\(items, ratings=..., rater=...\)"):
        read_duels(path)
