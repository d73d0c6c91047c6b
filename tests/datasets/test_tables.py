"""Tables of items and of answers by their ids, and wide tables."""

from pathlib import Path

import pandas as pd
import pytest
import torch
from cases import in_turn
from pandas.testing import assert_frame_equal

from botorch_pref import EPPreferenceGP
from botorch_pref.datasets import ItemTable, load_csv
from botorch_pref.datasets.tables import CsvTable
from botorch_pref.errors import FeedbackError
from botorch_pref.evaluation import leaderboard

ITEMS = pd.DataFrame(
    {
        "price": [8.0, 12.0, 10.0, 8.0],
        "year": [2001, 1999, 2003, 2000],
        "grape": ["merlot", "pinot", "merlot", "riesling"],
        "size": pd.Categorical(["s", "l", "m", "s"], ["s", "m", "l"], ordered=True),
        "organic": [True, False, False, True],
        "country": "France",
    },
    index=["w1", "w2", "w3", "w4"],
)
ANSWERS = pd.DataFrame(
    {
        "winner": ["w2", "w1", "w3", "w2"],
        "loser": ["w1", "w4", "w2", "w4"],
        "tie": [False, True, False, False],
        "rater": ["eva", "bob", "bob", "eva"],
    }
)


def test_features_are_scaled_and_categories_one_hot() -> None:
    table = ItemTable.from_frame(ITEMS)
    expected = {
        "price": [0, 1, 0.5, 0],
        "year": [0.5, 0, 1, 0.25],
        "grape=merlot": [1, 0, 1, 0],
        "grape=pinot": [0, 1, 0, 0],
        "grape=riesling": [0, 0, 0, 1],
        "size": [0, 1, 0.5, 0],
        "organic": [1, 0, 0, 1],
    }
    assert table.names == ("w1", "w2", "w3", "w4")
    assert table.feature_names == tuple(expected)
    columns = torch.tensor([*expected.values()], dtype=torch.double)
    assert table.points.equal(columns.T)
    # Rows that became columns, or were mixed, hold numbers as objects.
    assert ItemTable.from_frame(ITEMS.astype({"price": object})).points.equal(columns.T)


def test_ids_that_look_alike_are_items_of_their_own() -> None:
    """As of a column of numbers and texts."""
    table = ItemTable.from_frame(pd.DataFrame(index=[1, "1", "01"]))
    assert table.points.tolist() == [[1, 0, 0], [0, 1, 0], [0, 0, 1]]
    assert table.feature_names == ("1", "1", "01")
    answers = pd.DataFrame({"winner": [1, "1"], "loser": ["01", "01"]})
    assert table.comparisons(answers).pairs.tolist() == [[0, 2], [1, 2]]


def test_answers_go_to_comparisons_and_back() -> None:
    table = ItemTable.from_frame(ITEMS)
    comparisons = table.comparisons(ANSWERS)
    assert comparisons.pairs.tolist() == [[1, 0], [2, 1], [1, 3]]
    assert comparisons.ties.tolist() == [[0, 3]]
    back = table.answers(comparisons)
    order = [0, 2, 3, 1]
    expected = ANSWERS.loc[order, ["winner", "loser", "tie"]].reset_index(drop=True)
    assert_frame_equal(back, expected)
    again = table.comparisons(back)
    assert again.pairs.equal(comparisons.pairs)
    assert again.ties.equal(comparisons.ties)
    only_ties = table.comparisons(ANSWERS[ANSWERS["tie"]])
    assert only_ties.pairs is None
    decided = table.comparisons(ANSWERS[["winner", "loser"]])
    assert decided.ties is None


def test_each_rater_has_points_of_an_own() -> None:
    table = ItemTable.from_frame(ITEMS)
    points, comparisons, raters = table.comparisons_by_rater(ANSWERS)
    assert raters == ("bob", "eva")

    def seen(rows):
        return [
            (table.names[int((table.points == x[:-1]).all(-1).nonzero())], int(x[-1]))
            for x in points[rows]
        ]

    assert [seen(pair) for pair in comparisons.pairs] == [
        [("w2", 1), ("w1", 1)],
        [("w3", 0), ("w2", 0)],
        [("w2", 1), ("w4", 1)],
    ]
    assert [seen(pair) for pair in comparisons.ties] == [[("w1", 0), ("w4", 0)]]
    # w2 and w4 and w1 were judged by both.
    assert points.shape == (7, 8)


def test_ids_that_are_numbers_alone_make_a_leaderboard() -> None:
    table = ItemTable.from_frame(pd.DataFrame(index=[30, 10, 20]))
    assert table.points.equal(torch.eye(3, dtype=torch.double))
    answers = pd.DataFrame(
        {"winner": [10] * 4 + [20] * 3, "loser": [20] * 4 + [30] * 3}
    )
    model = EPPreferenceGP(table.points, table.comparisons(answers)).eval()
    board = leaderboard(model, table.points, table.names)
    assert board.index.tolist() == [10, 20, 30]


@in_turn(
    ("change", "message"),
    [
        (lambda t: pd.concat([t, t.iloc[:1]]), "'w1' is there twice"),
        (lambda t: t.rename(index={"w1": None}), "has no id"),
        (lambda t: t.rename(columns={"year": "price"}), "column 'price' twice"),
        # As a file that was written with its index is read.
        (lambda t: t.rename_axis("Unnamed: 0").reset_index(), "index_col=0"),
        (lambda t: t.assign(price=[1.0, None, 2.0, 3.0]), "'w2' has no price"),
        (lambda t: t.assign(price=[1.0, float("inf"), 2.0, 3.0]), "not finite"),
        (lambda t: t.assign(year=pd.to_datetime(["2020"] * 4)), "holds datetime"),
        (lambda t: t.assign(year=[1j, 2.0, 3.0, 4.0]), "year of the items holds compl"),
        (lambda t: t.set_index(["price", "year"]), "has 2 levels; join"),
        (
            lambda t: t.assign(**{"grape=merlot": [1, 2, 3, 4]}),
            "feature 'grape=merlot'",
        ),
        (
            lambda t: t.assign(year=pd.Series([1, "1", 2, 3], t.index, dtype=object)),
            "year has '1' in two types",
        ),
    ],
)
def test_what_is_no_table_of_items(change, message) -> None:
    with pytest.raises(FeedbackError, match=message):
        ItemTable.from_frame(change(ITEMS))


@in_turn(
    ("change", "message"),
    [
        (lambda a: a.drop(columns="loser"), "no column 'loser'"),
        (lambda a: a.replace("w4", "w9"), "loser of the answer 1: .* no item 'w9'"),
        (
            lambda a: a.replace("w1", " W1"),
            "of the answer 1: .* no item 'W1', but 'w1'",
        ),
        (lambda a: a.assign(loser=["w1", None, "w2", "w4"]), "1 has no loser"),
        (lambda a: a.assign(tie=["no", "yes", "no", "no"]), "tie 'no'; say True or"),
        (lambda a: a.assign(rater=["eva", None, "bob", "eva"]), "1 has no rater"),
        (
            lambda a: a.assign(loser=["w1", "w4", "w3", "w4"]),
            "2 compares 'w3' with itself",
        ),
        (lambda a: a.assign(count=[1, 0, 1, 1]), "1 has the count 0"),
        (lambda a: a.assign(count=[10**20, 1, 1, 1]), "0 has the count 10000"),
    ],
)
def test_what_are_no_answers(change, message) -> None:
    with pytest.raises(FeedbackError, match=message):
        ItemTable.from_frame(ITEMS).comparisons_by_rater(change(ANSWERS))


def test_a_letter_in_another_coding_is_shown_by_its_codes() -> None:
    table = ItemTable.from_frame(pd.DataFrame(index=["Caf\u00e9", "Tea"]))
    frame = pd.DataFrame({"winner": ["Cafe\u0301"], "loser": ["Tea"]})
    with pytest.raises(FeedbackError, match=r"'Cafe\\u0301', but 'Caf\\xe9'"):
        table.comparisons(frame)


HEADER = "rater,winner_price,winner_time,loser_time,note,loser_price\n"


def write(folder: Path, text: str) -> Path:
    path = folder / "choices.csv"
    path.write_text(text, encoding="utf-8")
    return path


def test_columns_are_matched_by_name(tmp_path: Path) -> None:
    data = load_csv(
        write(tmp_path, HEADER + "bob,32,130,115,x,40\nann,40,115,150,,32.5\n")
    )
    assert data.feature_names == ("price", "time")
    assert data.winners.tolist() == [[32.0, 130.0], [40.0, 115.0]]
    assert data.losers.tolist() == [[40.0, 115.0], [32.5, 150.0]]
    assert data.raters is not None
    assert data.raters.tolist() == [1, 0]
    assert len(data.datapoints) == 3


def test_raters_are_optional_and_a_byte_order_mark_is_no_column(tmp_path: Path) -> None:
    data = load_csv(write(tmp_path, "\ufeffwinner_a,loser_a\n1,2\n"))
    assert data.raters is None
    assert data.feature_names == ("a",)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "header is empty"),
        ("price,time\n1,2\n", "no feature columns.*price, time"),
        ("winner_a,loser_a,winner_b\n1,2,3\n", "lacks the column loser_b"),
        ("winner_a,loser_a,loser_b\n1,2,3\n", "lacks the column winner_b"),
        ("winner_a,loser_a,loser_a\n1,2,3\n", "column loser_a twice"),
        ("winner_a,loser_a\n", "no rows below its header"),
        ("winner_a,loser_a\n1,2\n1,\n", "line 3, column loser_a: empty cell"),
        ("winner_a,loser_a\n1,2\n1\n", "line 3, column loser_a: empty cell"),
        ("winner_a,loser_a\nred,2\n", "line 2, column winner_a: 'red' is not a number"),
        ("winner_a,loser_a\n1_0,2\n", "line 2, column winner_a: '1_0' is not a number"),
        ("winner_a,loser_a\nnan,2\n", "line 2, column winner_a: 'nan' is not finite"),
        ("winner_a,loser_a\n1,-inf\n", "column loser_a: '-inf' is not finite"),
        ("winner_a,loser_a\n1,2\n2,2.0\n", "line 3: winner and loser have the same"),
        ("winner_a,loser_a\nred,red\nred,red\n", "no feature that differs"),
        ("winner_a,loser_a,tie\n1,2,maybe\n", "line 2, column tie: 'maybe' is neither"),
        ("rater,winner_a,loser_a\n,1,2\n", "line 2, column rater: empty cell"),
        ('winner_a,loser_a\n"1,5",2\n', "column winner_a: '1,5' is not a number"),
        ("winner_a;loser_a\n1,5;2,5,0\n", "column loser_a: '2,5,0' is not a number"),
        ("winner_a,loser_a\n" + 200_000 * "1" + ",2\n", "read from line 2 on: field"),
        # All rows behind an open quote would be one cell of the last answer.
        ('winner_a,loser_a\nb,c\n\na,"b\nc,a\n', "read from line 4 on: unexpected end"),
        ('winner_a,loser_a\n"a"b,c\n', "read from line 2 on: ',' expected"),
    ],
)
def test_what_is_wrong_is_named(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(FeedbackError, match=message):
        load_csv(write(tmp_path, text))


@pytest.mark.parametrize("separator", [";", "\t"])
def test_spreadsheets_with_decimal_commas_are_read(
    tmp_path: Path, separator: str
) -> None:
    rows = [
        '"winner_price, EUR"|"loser_price, EUR"|winner_seat|loser_seat',
        "1,5|-,25|aisle, left|window",
        "2|1,25e1|window|aisle, left",
    ]
    text = "\r\n".join(rows).replace("|", separator)
    data = load_csv(write(tmp_path, text))
    assert data.feature_names == ("price, EUR", "seat=aisle, left", "seat=window")
    assert data.winners.tolist() == [[1.5, 1, 0], [2, 0, 1]]
    assert data.losers.tolist() == [[-0.25, 0, 1], [12.5, 1, 0]]


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        (["950\t1,200", "1,100\t980"], "'1,[12]00' may be in"),
        (["950\t1,200", "1,5\t980"], None),
        (["950;1,200", "1,100;980"], None),
        (["950\t1.200"], None),
    ],
)
def test_a_mark_of_thousands_is_no_decimal_comma(tmp_path, rows, message) -> None:
    """Between tabs, where no other cell shows which it is."""
    separator = ";" if ";" in rows[0] else "\t"
    text = "\n".join([f"winner_p{separator}loser_p", *rows])
    if message:
        with pytest.raises(FeedbackError, match=message):
            load_csv(write(tmp_path, text))
        return
    assert load_csv(write(tmp_path, text)).losers[0].tolist() == [1.2]


@pytest.mark.parametrize("separator", [";", "\t"])
@pytest.mark.parametrize("count", ["1,000", "1.000", "12.000", "2.500.000"])
def test_no_count_is_divided_by_a_thousand(tmp_path, separator, count) -> None:
    text = f"winner|loser|count\na|b|{count}\nb|c|12,0\n".replace("|", separator)
    table = CsvTable.read(write(tmp_path, text))
    with pytest.raises(FeedbackError, match=f"line 2, column count: '{count}' may be"):
        table.integers("count", 1)
    assert CsvTable.read(write(tmp_path, text.replace(count, "7"))).integers(
        "count", 1
    ) == [7, 12]


def test_a_file_of_another_encoding_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "latin.csv"
    path.write_bytes("winner_a,loser_a\nröd,blå\n".encode("latin-1"))
    with pytest.raises(FeedbackError, match=r"latin.csv cannot be read.*UTF-8"):
        load_csv(path)
    path.write_bytes("winner_a,loser_a\nr,b\n".encode("utf-16-be"))
    with pytest.raises(FeedbackError, match=r"null characters, as UTF-16 has; save"):
        load_csv(path)


def test_a_missing_file_is_an_os_error(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        load_csv(tmp_path / "absent.csv")


def test_ties_and_categories_are_read_as_an_item_table_reads_them(
    tmp_path: Path,
) -> None:
    items = pd.DataFrame(
        {"price": [30.0, 40.0, 35.0], "seat": ["window", "aisle", "middle"]},
        index=["a", "b", "c"],
    )
    answers = pd.DataFrame(
        {
            "winner": ["a", "b", "c", "a"],
            "loser": ["b", "c", "a", "c"],
            "tie": [False, True, False, True],
        }
    )
    wide = pd.DataFrame(
        {
            f"{side}_{name}": items.loc[answers[side], name].to_numpy()
            for side in ("winner", "loser")
            for name in items.columns
        }
    )
    wide.assign(tie=["false", "TRUE", "", "1"]).to_csv(
        tmp_path / "wide.csv", index=False
    )
    data, table = load_csv(tmp_path / "wide.csv"), ItemTable.from_frame(items)
    assert data.feature_names == table.feature_names
    # The item table scales the price, which has a range from 30 to 40.
    points = data.datapoints.clone()
    points[:, 0] = (points[:, 0] - 30) / 10
    expected, actual = table.comparisons(answers), data.feedback
    for block in ("pairs", "ties"):
        rows, wanted = getattr(actual, block), getattr(expected, block)
        assert torch.equal(points[rows], table.points[wanted])
    assert data.tie is not None
    subset = data.subset(torch.tensor([1, 2]))
    assert subset.tie is not None
    assert subset.tie.tolist() == [True, False]


def test_who_was_at_home_is_a_covariate_of_the_winner() -> None:
    answers = ANSWERS.assign(home=["w2", None, "w2", "w2"])
    actual = ItemTable.from_frame(ITEMS).comparisons(answers)
    assert actual.pair_covariates is not None
    assert actual.tie_covariates is not None
    assert actual.pair_covariates.tolist() == [[1.0], [-1.0], [1.0]]
    assert actual.tie_covariates.tolist() == [[0.0]]
    # As read with dtype_backend="numpy_nullable", and as categories.
    for typed in (answers.convert_dtypes(), answers.astype({"home": "category"})):
        typed = typed.assign(winner=typed["winner"].astype("category"))
        again = ItemTable.from_frame(ITEMS).comparisons(typed)
        assert again.covariates is not None
        assert again.covariates.equal(actual.covariates)
    gap = pd.array([True, None, False, False], dtype="boolean")
    with pytest.raises(FeedbackError, match=r"answer 1 has the tie <NA>; say True"):
        ItemTable.from_frame(ITEMS).comparisons(answers.assign(tie=gap))
    with pytest.raises(FeedbackError, match=r"answer 1 has 'w3' at home.*or None"):
        ItemTable.from_frame(ITEMS).comparisons(answers.assign(home="w3")[1:])


def test_a_line_by_which_excel_names_the_separator_is_no_header(tmp_path: Path) -> None:
    """Whatever the header has more of; errors count it as a line."""
    path = tmp_path / "answers.csv"
    path.write_text("sep=;\r\nwinner;loser, if any\r\nA;B\r\n", encoding="utf-8")
    table = CsvTable.read(path)
    assert table.header == ["winner", "loser, if any"]
    assert table.lines == [3]
    assert table.rows == [["A", "B"]]
