"""Loaders of folders, on small files of the same format."""

import pytest

from benchmarks.published_answers import load_bigrams, load_cars
from botorch_pref.datasets import load_sushi
from botorch_pref.errors import FeedbackError

BIGRAMS = """user_id,trialId,bigram1,chosen_bigram,unchosen_bigram,sliderValue
unknown10,t1,ea,ea,xq,83
unknown2,t1,ea,xq,ea,-100
unknown10,t2,sd,sd,xq,0
unknown10,t3,gb,gb,sd,1
"""

CAR_ITEMS = """Item_ID,Body_Type,Transmission,Engin_Capacity,Fuel_Consumed
1,2,1,2.5,2
2,1,2,5.5,1
10,1,1,4.5,2
"""
CAR_ANSWERS = """User_ID,Item1_ID,Item2_ID, Is Control
1,10,1,0
1,2,10,0
1,1,10,1
7,1,2,0
"""

SET_A = ["ebi", "anago", "maguro", "ika", "uni"]
SET_A += ["ikura", "tamago", "toro", "tekka_maki", "kappa_maki"]
# As in the file of items: other sushi stand between those of set A.
ITEMS = [*SET_A[:5], "tako", *SET_A[5:8], "amaebi", *SET_A[8:]]


def sushi_items(items=ITEMS) -> str:
    return "".join(
        f"{i}\t{name}\t{int(i % 3 > 0)}\t{int(i == 7)}\t{i % 12}\t"
        f"{0.5 + i}\t{i / 8}\t{1 + i / 10}\t0.{i}\n"
        for i, name in enumerate(items)
    )


def write(folder, **files) -> None:
    for name, text in files.items():
        (folder / name).write_text(text, encoding="utf-8")


def write_bigrams(folder, text) -> None:
    write(folder, **{"processed_bigram_data.csv": text})


def write_cars(folder, items=CAR_ITEMS, answers=CAR_ANSWERS) -> None:
    write(folder, **{"items1.csv": items, "prefs1.csv": answers})


def write_sushi(folder, items, orders_a="10 1\n", orders_b="12 1\n") -> None:
    files = {"sushi3.idata": items}
    files["sushi3a.5000.10.order"] = orders_a
    files["sushi3b.5000.10.order"] = orders_b
    write(folder, **files)


def test_bigrams_keep_every_answer_and_its_strength(tmp_path) -> None:
    write_bigrams(tmp_path, BIGRAMS)
    data = load_bigrams(tmp_path)
    keys = {"ea": [0, 2, 1, 0], "gb": [1, 4, 2, 4], "sd": [1, 1, 1, 2]}
    keys["xq"] = [2, 1, 0, 0]
    won, lost = data.datapoints[data.feedback.pairs].unbind(-2)
    assert won.tolist() == [keys[k] for k in ("ea", "xq", "sd", "gb")]
    assert lost.tolist() == [keys[k] for k in ("xq", "ea", "xq", "sd")]
    assert len(data.datapoints) == 4
    # The squeeze by hand: y (n - 1) + 0.5 over n, n = 201 places of the slider.
    expected = [((s + 100) / 200 * 200 + 0.5) / 201 for s in (83, 100, 0, 1)]
    assert data.feedback.strengths.tolist() == pytest.approx(expected, rel=1e-15)
    assert data.feedback.strengths[2] == 0.5
    assert data.raters.tolist() == [0, 1, 0, 0]


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        (
            ",83",
            ",101",
            "line 2, column sliderValue: '101' is not an integer from -100",
        ),
        (",-100", ",-101", "line 3, column sliderValue: '-101'"),
        (",0\n", ",0.5\n", "line 4, column sliderValue: '0.5'"),
        (",83", ",", "line 2, column sliderValue: empty"),
        ("sliderValue", "slider", "lacks the column sliderValue"),
        ("gb,gb", "gb,gp", "bigram 'gp', which is not two keys of qwert"),
        ("gb,gb", "gb,gbb", "bigram 'gbb', which is not two keys"),
        ("sd,sd,xq", "sd,xq,xq", r"Strengths.pairs\[2\] compares point"),
    ],
)
def test_wrong_bigrams_are_named(tmp_path, old, new, message) -> None:
    assert old in BIGRAMS
    write_bigrams(tmp_path, BIGRAMS.replace(old, new))
    with pytest.raises(FeedbackError, match=message):
        load_bigrams(tmp_path)


def test_cars_leave_out_control_questions_and_put_column_two_first(tmp_path) -> None:
    write_cars(tmp_path)
    data = load_cars(tmp_path)
    assert data.datapoints.tolist() == [[2, 1, 2.5, 2], [1, 2, 5.5, 1], [1, 1, 4.5, 2]]
    assert data.comparisons.tolist() == [[2, 0], [1, 2], [0, 1]]
    assert data.raters.tolist() == [1, 1, 7]
    assert data.feature_names == (
        "body_type",
        "transmission",
        "engine_capacity",
        "fuel_consumed",
    )


@pytest.mark.parametrize(
    ("file", "old", "new", "message"),
    [
        ("items", "4.5", "big", "line 4, column Engin_Capacity: 'big' is not a number"),
        ("answers", "7,1,2,0", "7,1,3,0", "line 5, column Item2_ID: .* no item '3'"),
        ("answers", "7,1,2,0", "7,1,2,2", "line 5, column Is Control: '2' is not"),
        ("answers", "7,1,2,0", "x,1,2,0", "line 5, column User_ID: 'x' is not an int"),
        ("answers", "7,1,2,0", "7,1,1,0", r"comparisons\[3\] compares point 0 with"),
    ],
)
def test_wrong_cars_are_named(tmp_path, file, old, new, message) -> None:
    texts = {"items": CAR_ITEMS, "answers": CAR_ANSWERS}
    assert old in texts[file]
    write_cars(tmp_path, **(texts | {file: texts[file].replace(old, new)}))
    with pytest.raises(FeedbackError, match=message):
        load_cars(tmp_path)


def test_a_table_without_rows_is_refused(tmp_path) -> None:
    write_bigrams(tmp_path, BIGRAMS.splitlines(keepends=True)[0])
    with pytest.raises(FeedbackError, match="no rows below its header"):
        load_bigrams(tmp_path)
    with pytest.raises(FileNotFoundError):
        load_cars(tmp_path)


def test_sushi_of_set_b_are_those_of_the_file(tmp_path) -> None:
    write_sushi(tmp_path, sushi_items(), orders_b="12 1\n0 3 11 4 0\n0 2 5 9\n")
    data = load_sushi(tmp_path, "b")
    assert data.feedback.orders.tolist() == [[11, 4, 0], [5, 9, -1]]
    assert data.raters.tolist() == [0, 1]
    assert len(data.feature_names) == 20
    row = dict(zip(data.feature_names, data.datapoints[7].tolist(), strict=True))
    assert [name for name in row if row[name] == 1.0 and "_" in name] == [
        "style_other",
        "major_other",
        "minor_roe",
    ]
    assert [row[name] for name in ("lightness", "eaten", "price", "sold")] == [
        7.5,
        0.875,
        1.7,
        0.7,
    ]


def test_sushi_of_set_a_are_found_by_name(tmp_path) -> None:
    write_sushi(tmp_path, sushi_items(), orders_a="10 1\n0 10 5 0 3 4 6 9 8 1 7 2\n")
    data = load_sushi(tmp_path, "a")
    assert data.datapoints.shape == (10, 20)
    ranked = data.datapoints[data.feedback.orders[0]]
    lightness = ranked[:, data.feature_names.index("lightness")]
    best_first = [SET_A[i] for i in (5, 0, 3, 4, 6, 9, 8, 1, 7, 2)]
    assert lightness.tolist() == [0.5 + ITEMS.index(name) for name in best_first]


@pytest.mark.parametrize(
    ("items", "orders", "message"),
    [
        (sushi_items(ITEMS[:11]), "10 1\n", "lacks kappa_maki of set A"),
        (sushi_items()[2:], "10 1\n", "idata, line 1: expected 9 fields"),
        (
            sushi_items().replace("11.5", "?"),
            "10 1\n",
            "line 12: .* the last four numbers",
        ),
        (sushi_items(), "12 1\n0 2 0 1\n", "line 1: expected '10 1'"),
        (sushi_items(), "", "line 1: expected '10 1' for 10 items, got ''"),
        (sushi_items(), "10 1\n0 2 0 1\n0 3 0 1\n", "line 3: expected 0, the number"),
        (sushi_items(), "10 1\n1 2 0 1\n", "line 2: expected 0"),
        (sushi_items(), "10 1\n0 2 0 -1\n", "line 2: expected 0"),
        (sushi_items(), "10 1\n\n", "line 2: expected 0"),
        (sushi_items(), "10 1\n0 2 0 10\n", r"Rankings.orders\[0, 1\] is 10"),
        (sushi_items(), "10 1\n0 3 0 1 0\n", r"Rankings.orders\[0\] names point 0"),
        (sushi_items(), "10 1\n", "no rankings"),
    ],
)
def test_wrong_sushi_are_named(tmp_path, items, orders, message) -> None:
    write_sushi(tmp_path, items, orders_a=orders)
    with pytest.raises(FeedbackError, match=message):
        load_sushi(tmp_path, "a")


def test_there_are_two_sets_of_sushi(tmp_path) -> None:
    with pytest.raises(FeedbackError, match="choose the set 'a' or 'b'"):
        load_sushi(tmp_path, "c")
