"""Designs of a person's own, asked about or recorded, and who answers."""

import pytest
from cases import in_turn
from espresso import create
from parameters import real
from showing import A, B, C, triangle

from botorch_pref.ax import PreferenceExperiment
from botorch_pref.errors import ExperimentError, StorageError

DESIGN = {"dose": 17, "grind": 1.0, "ratio": 2.0, "bean": "b", "cup": 4}


def options(*points: tuple[float, float]) -> list[dict[str, float]]:
    return [{"a": a, "b": b} for a, b in points]


@pytest.fixture
def path(tmp_path):
    return tmp_path / "triangle.db"


@pytest.fixture
def espresso(tmp_path) -> PreferenceExperiment:
    return create(tmp_path / "espresso.db")


def test_own_designs_are_shown_as_they_are(path) -> None:
    experiment = triangle(path)
    question = experiment.ask(options=options(B, A, C))
    assert list(question.options) == options(B, A, C)
    experiment.tell(question, ranking=[2, 0, 1])
    again = experiment.ask(options=options(A, B))
    assert list(again.options) == options(A, B)
    resumed = PreferenceExperiment.resume("triangle", storage=path)
    assert resumed.pending == [again]


def test_another_number_of_own_designs_than_was_asked_for_is_refused(path) -> None:
    experiment = triangle(path)
    designs = options(A, B)
    with pytest.raises(ExperimentError, match="size is 3, and options has 2; leave"):
        experiment.ask(3, options=designs)
    assert experiment.pending == []
    assert experiment.ask(2, options=designs).options == tuple(designs)


def test_values_get_the_types_of_the_search_space(espresso) -> None:
    second_design = {**DESIGN, "ratio": 3, "machine": "lever"}
    first, second = espresso.ask(options=[DESIGN, second_design]).options
    assert first == {**DESIGN, "machine": "lever"}
    assert type(first["dose"]) is float
    assert type(first["ratio"]) is int
    assert second == second_design


@in_turn(
    ("changed", "match"),
    [
        (
            {"dose": 23},
            "search space: dose is 23.0, and should be a number from 14 to 22",
        ),
        ({"dose": 20, "ratio": 4}, r"search space: dose \+ ratio <= 21 should hold"),
        ({"dose": "17"}, "dose is '17', and should be a number"),
        ({"ratio": 2.5}, "ratio is 2.5, and should be a whole number"),
        ({"bean": "d"}, "search space: bean is 'd', and should be 'a' or 'b' or 'c'"),
        ({"machine": "pump"}, "machine is 'pump', and should be 'lever'"),
        ({"water": 1}, "no parameter 'water'; there are dose"),
        ({"dose": None}, "dose has no value, and should be a number"),
    ],
)
def test_a_design_that_cannot_be_is_refused(changed, match, espresso) -> None:
    with pytest.raises(ExperimentError, match=match):
        espresso.ask(options=[DESIGN, {**DESIGN, **changed}])
    assert espresso.pending == []


def test_a_number_between_steps_is_refused_in_few_words(tmp_path) -> None:
    experiment = PreferenceExperiment.create(
        "bread",
        parameters=[real("flour", 400, 600, step_size=10)],
        storage=tmp_path / "bread.db",
    )
    expected = "flour is 483.0, and should be 400.0, 410.0, 420.0 and so on to 600.0$"
    with pytest.raises(ExperimentError, match=expected):
        experiment.ask(options=[{"flour": 483}, {"flour": 480}])


@in_turn(
    ("options", "match"),
    [
        ([], "options has 0"),
        ([DESIGN], "options has 1"),
        ([DESIGN, {**DESIGN, "dose": 17.0}], "0 and 1 are both"),
        ([DESIGN, {"dose": 17}], "has no bean, cup, grind, ratio"),
        ([DESIGN, 3], "A design is 3"),
        (DESIGN, "give a list of two or more designs"),
        ("ab", "give a list of two or more designs"),
    ],
)
def test_options_that_are_none_are_refused(options, match, espresso) -> None:
    for act in (
        lambda: espresso.ask(options=options),
        lambda: espresso.record(options, winner=0),
    ):
        with pytest.raises(ExperimentError, match=match):
            act()
    assert espresso.log.events == []


def test_an_answer_from_elsewhere_is_kept_like_any_other(path) -> None:
    asked, recorded = triangle(path), triangle(path.with_stem("recorded"), seed=1)
    question = asked.ask(options=options(A, B), rater="ann")
    asked.tell(question, winner=1, levels=None, note="sweet", seconds=2, order=(1, 0))
    recorded_question = recorded.record(
        options(A, B), rater="ann", winner=1, note="sweet", seconds=2.0, order=[1, 0]
    )
    assert recorded_question == question
    tables = [e.experiment.lookup_data().df for e in (asked, recorded)]
    assert tables[0].equals(tables[1])
    first, second = (
        e.experiment.trials[0]._properties["preference_events"]
        for e in (asked, recorded)
    )
    unhashed = {"time": ""}
    # All but where it was answered.
    assert second[0]["what"].pop("elsewhere")
    for first_event, second_event in zip(first, second, strict=True):
        assert first_event | unhashed == second_event | unhashed
    assert first[1]["what"] == {
        "winner": 1,
        "rater": "ann",
        "note": "sweet",
        "seconds": 2.0,
        "order": [1, 0],
    }
    again = PreferenceExperiment.resume("triangle", storage=path.with_stem("recorded"))
    assert again.pending == []
    again.record(options(B, C), tie=True)
    assert len(again.experiment.trials) == 2


def test_a_recorded_answer_that_cannot_be_leaves_nothing_behind(path) -> None:
    experiment = triangle(path)
    for answer in ({"winner": 2}, {}, {"levels": [0, 1]}, {"winner": 0, "rater": ""}):
        with pytest.raises(ExperimentError):
            experiment.record(options(A, B), **answer)
    assert len(experiment.experiment.trials) == 0
    resumed = PreferenceExperiment.resume("triangle", storage=path)
    resumed.record(options(A, B), winner=0)
    with pytest.raises(StorageError, match="Another process"):
        experiment.record(options(B, C), winner=0)
    assert len(experiment.experiment.trials) == 1


def test_who_is_asked_answers(path) -> None:
    experiment = triangle(path)
    anns = experiment.ask(options=options(A, B), rater="ann")
    anybodys = experiment.ask(options=options(A, C))
    assert anns.rater == "ann"
    assert anybodys.rater is None
    resumed = PreferenceExperiment.resume("triangle", storage=path)
    assert resumed.pending == [anns, anybodys]
    with pytest.raises(ExperimentError, match="asked of 'ann', and 'bob' answers"):
        resumed.tell(anns, rater="bob", winner=0)
    resumed.tell(anns, winner=0)
    resumed.tell(anns, rater="ann", winner=0)
    resumed.tell(anybodys, rater="bob", winner=0)
    with pytest.raises(ExperimentError, match=r"has the answer.*'rater': 'bob'"):
        resumed.tell(anybodys, rater="ann", winner=0)
    whats = [
        trial._properties["preference_events"][1]["what"]
        for trial in resumed.experiment.trials.values()
    ]
    assert [question_record["rater"] for question_record in whats] == ["ann", "bob"]


@pytest.fixture
def asked(path) -> PreferenceExperiment:
    experiment = triangle(path)
    experiment.ask(options=options(A, B))
    return experiment


@in_turn(
    ("circumstances", "match"),
    [
        ({"rater": " "}, "rater is ' '"),
        ({"rater": "half \ud800"}, "rater is 'half"),
        ({"note": "half \ud800"}, "note is 'half"),
        ({"rater": "null \0"}, "rater is 'null"),
        ({"note": "null \0"}, "note is 'null"),
        ({"seconds": -1}, "seconds is -1"),
        ({"order": [0]}, r"order is \[0\]; name each of the 2 options"),
        ({"order": [0, 2]}, "order names option 2"),
        ({"order": [0, 0]}, "name each option once"),
    ],
)
def test_circumstances_that_cannot_be_are_refused(circumstances, match, asked) -> None:
    with pytest.raises(ExperimentError, match=match):
        asked.tell(0, winner=0, **circumstances)
    assert [question.index for question in asked.pending] == [0]
