"""Tables of answers, by designs and by the names of items."""

import pytest
from botorch.exceptions.warnings import InputDataWarning
from cases import in_turn
from espresso import create
from pandas import DataFrame
from parameters import choice, real, whole
from showing import A, B, C, short_report, triangle

from botorch_pref.ax import PreferenceExperiment
from botorch_pref.errors import ExperimentError

ITEMS = DataFrame([A, B, C], columns=["a", "b"], index=["x", "y", "z"])


@pytest.fixture
def path(tmp_path):
    return tmp_path / "triangle.db"


@pytest.fixture
def experiment(path) -> PreferenceExperiment:
    return triangle(path)


def whats(experiment: PreferenceExperiment) -> list[dict]:
    return [dict(question.standing.what) for question in experiment.log.questions]


def test_items_by_name(path) -> None:
    experiment = triangle(path)
    answers = DataFrame(
        {
            "winner": ["x", "y", "z"],
            "loser": ["y", "z", "x"],
            "tie": [False, None, True],
            "rater": ["ann", None, "bob"],
            "seconds": [1.5, float("nan"), 3],
        }
    )
    questions = experiment.record_table(answers, ITEMS)
    pairs = [(A, B), (B, C), (C, A)]
    for question, pair in zip(questions, pairs, strict=True):
        assert [tuple(option.values()) for option in question.options] == list(pair)
    assert whats(experiment) == [
        {"winner": 0, "rater": "ann", "seconds": 1.5},
        {"winner": 0},
        {"tie": True, "rater": "bob", "seconds": 3.0},
    ]
    again = PreferenceExperiment.resume("triangle", storage=path)
    assert again.pending == []
    one_by_one = triangle(path.with_stem("one"), seed=3)
    for pair, answer in zip(pairs, whats(experiment), strict=True):
        one_by_one.record([dict(zip("ab", p, strict=True)) for p in pair], **answer)
    columns = ["trial_index", "arm_name", "metric_name", "mean"]
    tables = [e.experiment.lookup_data().df[columns] for e in (again, one_by_one)]
    first, second = (t.sort_values(columns).reset_index(drop=True) for t in tables)
    assert first.equals(second)


def test_rows_without_any_cell_say_nothing(experiment) -> None:
    answers = DataFrame({"winner": ["x", None, "y"], "loser": ["y", None, "z"]})
    questions = experiment.record_table(answers, ITEMS)
    pairs = [[tuple(option.values()) for option in q.options] for q in questions]
    assert pairs == [[A, B], [B, C]]


@in_turn(
    "text",
    [
        "left,right,winner,rater\nx,y,left,ann\nz,y,right,bob\nx,y,skip,bob\n",
        "model_a,model_b,winner,rater\ny,x,x,ann\nz,y,y,bob\nx,x,x,bob\n",
        "home,home_score,away,away_score,rater\nx,2,y,1,ann\nz,0,y,3,bob\nx,,y,,bob\n",
        "a,b,is_a_better,rater\nx,y,1,ann\nz,y,0,bob\nz,y,,bob\n",
        "May\nmodel_a,model_b,verdict,rater\nx,y,A,ann\nz,y,[[B]],bob\nx,y,error,bob\n",
        "# of May\nWinner,Loser,rater\nx,y,ann\ny,z,bob\n,z,bob\n",
    ],
)
def test_a_file_of_two_items_may_have_any_layout(text, tmp_path) -> None:
    experiment = triangle(tmp_path / f"{text.encode().hex()[:40]}.db")
    file = tmp_path / "answers.csv"
    file.write_text(text, encoding="utf-8")
    with pytest.warns(InputDataWarning, match="Read as: .* Left out: 1 row"):
        questions = experiment.record_table(file, ITEMS)
    pairs = [[tuple(option.values()) for option in q.options] for q in questions]
    assert pairs == [[A, B], [B, C]]
    assert whats(experiment) == [
        {"winner": 0, "rater": "ann"},
        {"winner": 0, "rater": "bob"},
    ]
    file.write_text("1st,2nd,3rd\nx,y,z\n", encoding="utf-8")
    with pytest.raises(ExperimentError, match="of more than two items at once"):
        experiment.record_table(file, ITEMS)


def test_a_catalogue_has_names_itself(path) -> None:
    experiment = PreferenceExperiment.create(
        "triangle", catalogue=ITEMS, storage=path, baseline="z"
    )
    answers = DataFrame({"winner": ["x", "y"], "loser": ["y", "z"]})
    first, second = experiment.record_table(answers)
    assert first.names == ("x", "y")
    assert second.names == ("y", "z")
    assert "z" in experiment.ask(2).names
    with pytest.raises(ExperimentError, match=r"Row 0 .*no row 'w'"):
        experiment.record_table(DataFrame({"winner": ["w"], "loser": ["x"]}))
    report = short_report(experiment)
    assert report.options.loc["z", "difference"] == 0
    again = PreferenceExperiment.resume("triangle", storage=path)
    assert again.undo() == second


def test_designs_in_a_file(tmp_path) -> None:
    experiment = create(tmp_path / "espresso.db")
    names = ("dose", "grind", "ratio", "bean", "cup")
    lines = [
        ",".join([f"{s}_{n}" for s in ("winner", "loser") for n in names] + ["rater"]),
        "17,1,2,b,2,17.5,0.3,3,a,4,7",
        "16,1,1,c,1,17,1,2,b,2,",
    ]
    (tmp_path / "answers.csv").write_text("\n".join(lines), encoding="utf-8")
    first, second = experiment.record_table(tmp_path / "answers.csv")
    design = {"dose": 17.0, "grind": 1.0, "ratio": 2, "bean": "b", "cup": 2}
    assert first.options[0] == second.options[1] == {**design, "machine": "lever"}
    assert whats(experiment) == [{"winner": 0, "rater": "7"}, {"winner": 0}]


@in_turn(
    ("changed", "match"),
    [
        ({"loser": ["y", "w"]}, "Row 1 of the answers has the loser 'w', which is no"),
        ({"loser": ["y", "x"]}, "Row 1 of the answers: .*both"),
        ({"tie": [True, "maybe"]}, "Row 1 .* tie 'maybe'"),
        ({"seconds": [1, -1]}, "Row 1 .*seconds is -1"),
        ({"count": [1, 0]}, "Row 1 .*count is 0"),
    ],
)
def test_a_table_that_cannot_be_leaves_nothing(changed, match, experiment) -> None:
    answers = DataFrame({"winner": ["x", "x"], "loser": ["y", "z"]} | changed)
    with pytest.raises(ExperimentError, match=match):
        experiment.record_table(answers, ITEMS)
    assert experiment.log.events == []


def test_columns_that_are_not_read_are_named(experiment) -> None:
    answers = DataFrame({"winner": ["x"], "loser": ["y"], "colour": ["red"], "n": [1]})
    with pytest.warns(InputDataWarning, match="were not read: 'colour', 'n'. There"):
        experiment.record_table(answers, ITEMS)
    assert whats(experiment) == [{"winner": 0}]


def test_tables_that_are_none(experiment, tmp_path) -> None:
    (tmp_path / "empty.csv").touch()
    for answers, items, match in (
        (tmp_path / "empty.csv", None, "its first line is empty"),
        (DataFrame({"winner": ["x"], "loser": ["y"]}), None, "or winner and loser"),
        (DataFrame({"winner": ["x"]}), ITEMS, "no column loser"),
        (DataFrame({"winner": [], "loser": []}), ITEMS, "no rows"),
        (DataFrame({"winner_a": [0.1]}), None, r"Row 0 of .*\(winner\): .*has no b"),
        (tmp_path / "none.csv", None, "cannot be read"),
        ([{"winner": "x"}], ITEMS, "answers is a list"),
        (
            DataFrame({"winner": ["x"], "loser": ["y"]}),
            {"x": {"a": 0.1}},
            "items is a dict",
        ),
        (
            DataFrame({"winner": ["x"], "loser": ["y"]}),
            ITEMS.rename(index={"z": "x"}),
            "'x' twice, at 0 and 2",
        ),
    ):
        with pytest.raises(ExperimentError, match=match):
            experiment.record_table(answers, items)


@pytest.mark.parametrize("separator", [";", "\t"])
def test_a_table_of_a_spreadsheet_that_writes_decimal_commas(
    separator, tmp_path
) -> None:
    lines = ["winner_a,winner_b,loser_a,loser_b,note", "0,5|1|0|2,5e-1|5,0 or 1"]
    text = "\n".join(lines).replace("|", separator)
    header = lines[0].replace(",", separator)
    text = text.replace(lines[0], header)
    (tmp_path / "t.csv").write_text(text, encoding="utf-8")
    experiment = triangle(tmp_path / "triangle.db")
    experiment.record_table(tmp_path / "t.csv")
    records = experiment.answers()
    assert records[["a", "b"]].to_numpy().tolist() == [[0.5, 1.0], [0.0, 0.25]]
    assert records["note"].tolist() == ["5,0 or 1"] * 2


@pytest.mark.parametrize("separator", [";", "\t"])
def test_names_with_more_separators_than_columns_come_back(separator, tmp_path) -> None:
    dose = real(f"dose{35 * separator}g")
    first, second = (
        PreferenceExperiment.create(
            name, parameters=[dose], storage=tmp_path / f"{name}.db"
        )
        for name in ("first", "second")
    )
    first.record([{dose.name: 0.5}, {dose.name: 0.25}], winner=1, note='a "b", c')
    path = tmp_path / "answers.csv"
    first.write_answers(path)
    (question,) = second.record_table(path)
    assert question.options == ({dose.name: 0.5}, {dose.name: 0.25})
    assert whats(second) == [{"winner": 1, "note": 'a "b", c'}]


def test_texts_that_look_like_numbers_keep_their_commas(tmp_path) -> None:
    """The answer was kept twice, the second time of a rater "1.2" with a note "1.5"."""
    cups = choice("cup", ["0,5", "1,5"], is_ordered=True)
    experiment = PreferenceExperiment.create(
        "cups", parameters=[real("dose"), cups], storage=tmp_path / "cups.db"
    )
    options = [{"dose": 0.5, "cup": "0,5"}, {"dose": 0.25, "cup": "1,5"}]
    experiment.record(options, winner=0, rater="1,2", note="1,5")
    answers, path = experiment.answers(), tmp_path / "cups.csv"
    answers.to_csv(path, sep=";", decimal=",", index=False)
    assert experiment.record_table(path) == []
    lines = ["winner_dose;winner_cup;loser_dose;loser_cup", "0,5;1,5;0,5;0,5"]
    path.write_text("\n".join(lines))
    (duel,) = experiment.record_table(path)
    assert duel.options == tuple({"dose": 0.5, "cup": cup} for cup in ("1,5", "0,5"))


def test_ids_that_look_like_numbers_keep_their_commas(tmp_path) -> None:
    """Other ids that are numbers may have got commas from a spreadsheet."""
    doses = DataFrame({"dose": [0.1, 0.5, 0.9]}, index=["1,5", "2.5", "none"])
    experiment = PreferenceExperiment.create(
        "doses", catalogue=doses, storage=tmp_path / "doses.db"
    )
    experiment.record(["1,5", "none"], winner=0)
    path = tmp_path / "doses.csv"
    experiment.answers().to_csv(path, sep=";", decimal=",", index=False)
    assert experiment.record_table(path) == []
    path.write_text("winner;loser\n2,5;1,5\n")
    free = PreferenceExperiment.create(
        "free", parameters=[real("dose")], storage=tmp_path / "free.db"
    )
    for tested, items in ((experiment, None), (free, doses)):
        (duel,) = tested.record_table(path, items)
        assert duel.options == ({"dose": 0.5}, {"dose": 0.1})


@in_turn(
    ("text", "match"),
    [
        ("0_5,1,1,1", "Row 2 of t.csv, column winner_a, is '0_5'; give a number"),
        ("1,1,0,0\n\n,,,\n1,1,1,1", "Row 5 of t.csv: Options 0 and 1 are both"),
        ('1,1,"0,5",0', "Row 2 of t.csv, column loser_a, is '0,5'; give a number"),
        ("1,1,much,1", "Row 2 of t.csv, column loser_a, is 'much'; give a number"),
        ("1,1,0,0\n1,0,9,9", r"Row 3 of t.csv \(loser\): .*a is 9.0, and should be"),
        ("1,1,0,0\n1,0,,0", r"Row 3 of t.csv \(loser\): .*has no a; give"),
        ("1,1,0,0\n1,1,1,1", "Row 3 of t.csv: Options 0 and 1 are both"),
        ("1,1,0,0,0", "Expected 4 fields in line 2, saw 5"),
        ("question,option,a,b,winner\n7,0,1,1,1\n7,1,0,0,1", "Row 2 of t.csv .*'7'"),
        # Two tables put together.
        (
            "question,option,a,b,winner" + "\n7,0,1,1,1\n7,1,0,0,0" * 2,
            r"Row 2 of t.csv \(question '7'\).* option .*a number of its own",
        ),
    ],
)
def test_what_is_wrong_in_a_file_is_found_by_its_row(
    text, match, experiment, tmp_path
) -> None:
    if not text.startswith(("winner", "question")):
        text = f"winner_a,winner_b,loser_a,loser_b\n{text}"
    (tmp_path / "t.csv").write_text(text, encoding="utf-8")
    with pytest.raises(ExperimentError, match=match):
        experiment.record_table(tmp_path / "t.csv")
    assert experiment.log.events == []


@pytest.mark.parametrize(
    ("text", "match"),
    [
        (
            "950\t1,200\t2\t1",
            r"Row 2 has '1,200' in the column 'loser_p', which",
        ),
        ("950\t1,5\t1,000\t1", "Row 2 has '1,000' in the column 'winner_n'"),
        ("950;1,200;1.000;1", "Row 2 has '1.000' in the column 'winner_n'"),
    ],
)
def test_a_mark_of_thousands_is_no_decimal_comma(text, match, tmp_path) -> None:
    experiment = PreferenceExperiment.create(
        "thousands",
        parameters=[real("p", 1, 5000), whole("n", 1, 5000)],
        storage=tmp_path / "thousands.db",
    )
    separator = ";" if ";" in text else "\t"
    header = separator.join(["winner_p", "loser_p", "winner_n", "loser_n"])
    (tmp_path / "t.csv").write_text(f"{header}\n{text}\n", encoding="utf-8")
    with pytest.raises(ExperimentError, match=match):
        experiment.record_table(tmp_path / "t.csv")
    assert experiment.log.events == []


def test_a_table_of_another_coding_is_told_which_to_take(experiment, tmp_path) -> None:
    text = "winner_a,winner_b,loser_a,loser_b,note\n1,1,0,0,schön\n"
    (tmp_path / "t.csv").write_text(text, encoding="cp1252")
    with pytest.raises(ExperimentError, match=r"cannot be read: .*; save it .* UTF-8"):
        experiment.record_table(tmp_path / "t.csv")
    (tmp_path / "t.csv").write_text(text.replace("ö", "o"), encoding="utf-16-le")
    with pytest.raises(ExperimentError, match=r"null characters, .*; save it .* UTF-8"):
        experiment.record_table(tmp_path / "t.csv")
    (tmp_path / "t.csv").write_text(text, encoding="utf-8-sig")
    experiment.record_table(tmp_path / "t.csv")
    assert experiment.answers()["note"].tolist() == ["schön"] * 2
