"""Rankings in which options share places."""

import pytest
from showing import A, B, C, D, short_report, show, tell, triangle

from botorch_pref.ax.answer_kinds import preferred
from botorch_pref.ax.answers import checked_answer
from botorch_pref.errors import ExperimentError


def test_they_are_said_in_lists() -> None:
    answer = checked_answer(4, None, ranking=[0, [2, 1], 3])
    assert answer.to_json() == {"ranking": [0, [1, 2], 3]}
    (ranks,) = answer.rows(4).values()
    assert ranks == {0: 1, 1: 2, 2: 2, 3: 4}
    decided, tied = preferred(answer.to_json(), 4)
    assert {*decided} == {(0, 1), (0, 2), (0, 3), (1, 3), (2, 3)}
    assert tied == [(1, 2)]
    for ranking in ([[0], [1, 2], [3]], (0, (1, 2), 3), [0, [1, 2], [], 3]):
        assert checked_answer(4, None, ranking=ranking) == answer
    assert checked_answer(3, None, ranking=[[2, 0, 1]]) == checked_answer(
        3, None, tie=True
    )
    assert checked_answer(2, None, ranking=[[1], 0]).winner == 1
    for wrong, match in (
        ([0, [1, 2]], "name all of"),
        ([0, [1, 2], 2, 3], "each option once"),
        ([0, [1, "2"], 3], "not one of"),
        (7, "give a list"),
    ):
        with pytest.raises(ExperimentError, match=match):
            checked_answer(4, None, ranking=wrong)


def test_an_experiment_learns_and_keeps_them(tmp_path) -> None:
    experiment = triangle(tmp_path / "triangle.db")
    tell(experiment, [A, B, C, D], ranking=[2, [0, 1], 3])
    tell(experiment, [B, C, D], ranking=[1, 0, 2])
    table = experiment.answers()
    assert table["ranking"].tolist() == [2, 2, 1, 4, 2, 1, 3]
    adapter = experiment.fitted_adapter()
    points = {tuple(arm.parameters.values()): i for i, arm in enumerate(adapter.arms)}
    a, b, c, d = (points[option] for option in (A, B, C, D))
    duels, rankings = adapter.feedback
    assert sorted(duels.pairs.tolist()) == sorted([[c, a], [c, b], [a, d], [b, d]])
    assert duels.ties.tolist() == [[a, b]]
    assert rankings.orders.tolist() == [[c, b, d]]
    # Through a file, and back.
    experiment.write_answers(tmp_path / "answers.csv")
    copied = triangle(tmp_path / "other.db")
    copied.record_table(tmp_path / "answers.csv")
    answers = [question.standing.fields for question in copied.log.questions]
    assert answers == [{"ranking": [2, [0, 1], 3]}, {"ranking": [1, 0, 2]}]
    report = short_report(experiment).options
    titles = {
        option: experiment.titles[arm.name]
        for arm in adapter.arms
        for option in [tuple(arm.parameters.values())]
    }
    assert report.loc[titles[A], ["wins", "losses", "ties"]].tolist() == [1, 1, 1]


def test_the_first_few_are_chosen_and_the_rest_tie(tmp_path) -> None:
    experiment = triangle(tmp_path / "triangle.db")
    tell(experiment, [A, B, C, D], ranking=[2, [0, 1, 3]])
    adapter = experiment.fitted_adapter()
    points = {tuple(arm.parameters.values()): i for i, arm in enumerate(adapter.arms)}
    a, b, c, d = (points[option] for option in (A, B, C, D))
    duels, choices = adapter.feedback
    assert duels.pairs is None
    assert {frozenset(pair) for pair in duels.ties.tolist()} == {
        frozenset(pair) for pair in ((a, b), (b, d), (d, a))
    }
    assert choices.chosen.tolist() == [c]
    assert sorted(choices.sets.tolist()[0]) == sorted([a, b, c, d])


def test_a_model_without_ties_says_so(tmp_path) -> None:
    experiment = triangle(
        tmp_path / "triangle.db",
        model_options={"likelihood": "PlackettLuceLikelihood"},
        model="VariationalPreferenceGP",
    )
    question = show(experiment, A, B, C)
    with pytest.raises(ExperimentError, match="does not take"):
        experiment.tell(question, ranking=[0, [1, 2]])
    experiment.tell(question, ranking=[0, 1, 2])
