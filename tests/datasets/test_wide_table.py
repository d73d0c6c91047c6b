from pathlib import Path

import pandas as pd
import pytest
import torch

from botorch_pref.datasets import ItemTable, load_csv
from botorch_pref.errors import FeedbackError

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
        ("winner_a,loser_a\nnan,2\n", "line 2, column winner_a: 'nan' is not finite"),
        ("winner_a,loser_a\n1,-inf\n", "column loser_a: '-inf' is not finite"),
        ("winner_a,loser_a\n1,2\n2,2.0\n", "line 3: winner and loser have the same"),
        ("winner_a,loser_a\nred,red\nred,red\n", "no feature that differs"),
        ("winner_a,loser_a,tie\n1,2,maybe\n", "line 2, column tie: 'maybe' is neither"),
        ("rater,winner_a,loser_a\n,1,2\n", "line 2, column rater: empty cell"),
    ],
)
def test_what_is_wrong_is_named(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(FeedbackError, match=message):
        load_csv(write(tmp_path, text))


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
    expected, found = table.comparisons(answers), data.feedback
    for block in ("pairs", "ties"):
        rows, wanted = getattr(found, block), getattr(expected, block)
        assert torch.equal(points[rows], table.points[wanted])
    assert data.tie is not None
    subset = data.subset(torch.tensor([1, 2]))
    assert subset.tie is not None
    assert subset.tie.tolist() == [True, False]
