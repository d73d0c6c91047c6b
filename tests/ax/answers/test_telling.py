"""Answers: told once, told again, told wrongly, undone and withdrawn."""

import json

import pandas as pd
import pytest
from ax.core.trial_status import TrialStatus
from espresso import better, create
from showing import A, B, C, D, show, tell, triangle

from botorch_pref.ax import PreferenceExperiment, Question
from botorch_pref.errors import ExperimentError


@pytest.fixture
def experiment(tmp_path) -> PreferenceExperiment:
    return create(tmp_path / "espresso.db", num_levels=3)


def rows(experiment: PreferenceExperiment, index: int) -> dict[str, list[float]]:
    """Lists values of each metric, of the options as they were shown."""
    data = experiment.experiment.lookup_data(trial_indices={index}).df
    names = experiment.question(index).names
    metrics = data.set_index("arm_name").groupby("metric_name")["mean"]
    return {name: group.reindex(names).dropna().tolist() for name, group in metrics}


def test_the_same_answer_again_changes_nothing(experiment) -> None:
    question = experiment.ask(2)
    assert experiment.pending == [question]
    for answer in ({"winner": 1}, {"best": 1}, {"ranking": (1, 0)}):
        experiment.tell(question, **answer)
    assert experiment.pending == []
    experiment.tell(question.index, winner=1)
    assert rows(experiment, 0) == {"pairwise_pref_query": [0, 1]}
    assert len(experiment.experiment.trials[0]._properties["preference_events"]) == 2


def test_texts_that_no_file_keeps_are_refused(experiment) -> None:
    question = experiment.ask(2)
    for answer in ({"note": "a\0b"}, {"note": "\ud800"}, {"rater": "ann\0"}):
        with pytest.raises(ExperimentError, match=r"is '.*whole characters.*NUL"):
            experiment.tell(question, winner=0, **answer)
        with pytest.raises(ExperimentError, match="NUL"):
            experiment.record(question.options, winner=0, **answer)
        table = pd.DataFrame([{"winner": "x", "loser": "y", **answer}])
        items = pd.DataFrame([*question.options], index=["x", "y"])
        with pytest.raises(ExperimentError, match=r"Row 0 of the answers: .*NUL"):
            experiment.record_table(table, items)
    with pytest.raises(ExperimentError, match="rater is"):
        experiment.ask(2, rater="ann\0")
    assert len(experiment.log.events) == 1


def test_another_answer_is_an_error_until_the_first_is_taken_back(experiment) -> None:
    question = experiment.ask(2)
    experiment.tell(question, winner=1, ratings=[0.25, None])
    # Its options are 1 A and 1 B to people, and withdraw takes 0.
    answered = r"Question 1 \(index 0\) has the answer.*'winner': 1.*withdraw"
    with pytest.raises(ExperimentError, match=answered):
        experiment.tell(question, winner=0)
    with pytest.raises(ExperimentError, match="withdraw"):
        experiment.tell(question, winner=1)
    assert rows(experiment, 0)["preference_rating"] == [0.25]
    experiment.withdraw(question)
    assert rows(experiment, 0) == {}
    assert experiment.experiment.trials[0].status is TrialStatus.ABANDONED
    experiment.tell(question, tie=True)
    assert rows(experiment, 0) == {"preference_tie": [1, 1]}
    assert experiment.experiment.trials[0].status is TrialStatus.COMPLETED


def test_a_duel_that_cannot_be_compared(experiment) -> None:
    question = experiment.ask(2)
    experiment.tell(question, cannot_compare=True)
    experiment.tell(question, cannot_compare=True)
    trial = experiment.experiment.trials[0]
    assert trial.status is TrialStatus.ABANDONED
    assert trial.status_reason == "cannot compare"
    assert experiment.pending == []
    with pytest.raises(ExperimentError, match="withdraw"):
        experiment.tell(question, winner=0)
    with pytest.raises(ExperimentError, match="no answer yet"):
        experiment.recommend()


def test_four_that_cannot_be_compared_or_are_not_to_be(experiment) -> None:
    compared, withdrawn, answered = (experiment.ask() for _ in range(3))
    assert len(compared.options) == 4
    with pytest.raises(ExperimentError, match=r"winner is about two.*best or ranking"):
        experiment.tell(compared, winner=3)
    with pytest.raises(ExperimentError, match=r"option 3, which failed by invalid"):
        experiment.tell(compared, best=3, invalid=[3])
    experiment.tell(compared, cannot_compare=True)
    experiment.withdraw(withdrawn)
    experiment.tell(answered, best=3)
    duel = experiment.ask(2)
    experiment.tell(duel, tie=True)
    trials = experiment.experiment.trials.values()
    done, gone = TrialStatus.COMPLETED, TrialStatus.ABANDONED
    assert [trial.status for trial in trials] == [gone, gone, done, done]
    assert rows(experiment, answered.index) == {"preference_choice": [0, 0, 0, 1]}
    assert rows(experiment, compared.index) == rows(experiment, withdrawn.index) == {}
    assert experiment.undo() == duel


def test_a_question_is_taken_back_once(experiment) -> None:
    question = experiment.ask(2)
    experiment.withdraw(question)
    experiment.withdraw(question)
    assert experiment.pending == []
    assert kinds(experiment, 0) == ["asked", "withdrawn"]


def test_answers_about_what_was_not_asked(experiment, tmp_path) -> None:
    with pytest.raises(ExperimentError, match="no question with the index 0"):
        experiment.tell(0, winner=0)
    question = experiment.ask(2)
    with pytest.raises(ExperimentError, match="question is True; give a Question"):
        experiment.tell(True, winner=0)
    with pytest.raises(ExperimentError, match="no question with the index 1"):
        experiment.withdraw(1)
    with pytest.raises(ExperimentError, match="not one of \\[0, 1\\]"):
        experiment.tell(question, winner=2)
    with pytest.raises(ExperimentError, match="from 0 to 2, and 0 is the lowest"):
        experiment.tell(question, levels=[3, 0])
    foreign = create(tmp_path / "other.db", seed=9).ask(2)
    with pytest.raises(ExperimentError, match="another experiment"):
        experiment.tell(foreign, winner=0)
    changed = Question(question.index, question.options[::-1])
    with pytest.raises(ExperimentError, match="other options"):
        experiment.tell(changed, winner=0)
    assert experiment.pending == [question]


def test_the_log_has_everything_in_order(experiment, tmp_path) -> None:
    first, second = experiment.ask(2), experiment.ask(3)
    experiment.tell(second, ranking=[2, 0, 1])
    experiment.tell(first, winner=better(first))
    experiment.withdraw(second)
    again = PreferenceExperiment.resume("espresso", storage=tmp_path / "espresso.db")
    again.write_json(tmp_path / "log.json")
    stored = json.loads((tmp_path / "log.json").read_text(encoding="utf-8"))
    log = stored["events"]
    assert stored["definition"]["name"] == "espresso"
    assert [row["number"] for row in log] == [0, 1, 2, 3, 4]
    assert [row["question"] for row in log] == [0, 1, 1, 0, 1]
    kinds = ["asked", "asked", "told", "told", "withdrawn"]
    assert [row["kind"] for row in log] == kinds
    assert log[2]["what"] == {"ranking": [2, 0, 1]}
    assert len(log[1]["what"]["options"]) == 3
    assert [row["time"] for row in log] == sorted(row["time"] for row in log)
    assert all(row["time"].endswith("+00:00") for row in log)


def kinds(experiment: PreferenceExperiment, index: int) -> list[str]:
    properties = experiment.experiment.trials[index]._properties
    return [event["kind"] for event in properties["preference_events"]]


def data(experiment: PreferenceExperiment):
    columns = ["trial_index", "arm_name", "metric_name", "mean"]
    return experiment.experiment.lookup_data().df[columns].sort_values(columns)


def test_the_last_answer_is_undone_and_told_anew(tmp_path) -> None:
    path = tmp_path / "triangle.db"
    experiment = triangle(path)
    tell(experiment, [A, B], winner=0)
    before = data(experiment)
    question = show(experiment, B, C)
    experiment.tell(question, winner=1)
    later = show(experiment, C, D)
    assert experiment.undo() == question
    assert experiment.pending == [question, later]
    resumed = PreferenceExperiment.resume("triangle", storage=path)
    assert resumed.pending == [question, later]
    assert data(resumed).reset_index(drop=True).equals(before.reset_index(drop=True))
    trial = resumed.experiment.trials[question.index]
    assert trial.status is TrialStatus.RUNNING
    assert trial.time_completed is None
    resumed.tell(question, winner=0)
    again = PreferenceExperiment.resume("triangle", storage=path)
    assert kinds(again, question.index) == ["asked", "told", "undone", "told"]
    assert again.pending == [later]
    winners = data(again).query("trial_index == 1 and mean == 1")["arm_name"]
    assert winners.tolist() == [again.experiment.trials[1].arms[0].name]


def test_undo_goes_back_answer_by_answer(tmp_path) -> None:
    path = tmp_path / "triangle.db"
    experiment = triangle(path)
    first, second = show(experiment, A, B), show(experiment, B, C)
    experiment.tell(second, cannot_compare=True)
    experiment.tell(first, tie=True)
    assert experiment.undo() == first
    assert experiment.undo() == second
    with pytest.raises(ExperimentError, match="no answer that could be undone"):
        experiment.undo()
    resumed = PreferenceExperiment.resume("triangle", storage=path)
    assert resumed.pending == [first, second]
    assert resumed.experiment.trials[1].status_reason is None
    # Told anew, it is the last one again.
    resumed.tell(second, winner=0)
    resumed.tell(first, winner=0)
    assert resumed.undo() == first


def test_what_was_withdrawn_is_no_answer_to_undo(tmp_path) -> None:
    experiment = triangle(tmp_path / "triangle.db")
    tell(experiment, [A, B], winner=0)
    tell(experiment, [B, C], winner=0)
    experiment.withdraw(1)
    assert experiment.undo().index == 0
    experiment.withdraw(0)
    assert kinds(experiment, 0) == ["asked", "told", "undone", "withdrawn"]
    assert experiment.pending == []


def test_each_rater_undoes_answers_of_her_own(tmp_path) -> None:
    path = tmp_path / "triangle.db"
    experiment = triangle(path)
    for rater, pair in (("ann", (A, B)), ("bob", (B, C)), ("bob", (A, C))):
        question = experiment.ask(
            options=[{"a": a, "b": b} for a, b in pair], rater=rater
        )
        experiment.tell(question, winner=0)
    assert experiment.undo(rater="ann").index == 0
    assert experiment.undo(rater="bob").index == 2
    with pytest.raises(ExperimentError, match="no answer of 'ann'"):
        experiment.undo(rater="ann")
    with pytest.raises(ExperimentError, match="rater is 7"):
        experiment.undo(rater=7)
    assert [question.rater for question in experiment.pending] == ["ann", "bob"]


def test_a_rater_has_one_name_however_an_accent_is_written(tmp_path) -> None:
    experiment = triangle(tmp_path / "triangle.db")
    composed, decomposed = "Jos\u00e9 Sol", " Jose\u0301   Sol "
    question = experiment.ask(
        options=[{"a": a, "b": b} for a, b in (A, B)], rater=decomposed
    )
    experiment.tell(question, winner=0, rater=composed)
    row = {"winner_a": B[0], "winner_b": B[1], "loser_a": C[0], "loser_b": C[1]}
    experiment.record_table(pd.DataFrame([{**row, "rater": decomposed}]))
    assert experiment.raters == [composed]
    assert experiment.undo(rater=decomposed).index == 1
    assert experiment.undo(question, rater=decomposed).rater == composed


def test_the_answer_to_a_question_is_undone(tmp_path) -> None:
    experiment = triangle(tmp_path / "triangle.db")
    pairs = {"ann": (A, B), "bob": (B, C)}
    first, last = (
        experiment.record([{"a": a, "b": b} for a, b in pair], rater=name, winner=0)
        for name, pair in pairs.items()
    )
    with pytest.raises(ExperimentError, match="no answer of 'bob' to this question"):
        experiment.undo(first, rater="bob")
    assert experiment.pending == []
    assert experiment.undo(first, rater="ann") == first
    assert experiment.pending == [first]
    with pytest.raises(ExperimentError, match="no answer to this question"):
        experiment.undo(first.index)
    with pytest.raises(ExperimentError, match="There is no question with the index 7"):
        experiment.undo(7)
    assert experiment.undo() == last


def test_an_undone_record_is_asked(tmp_path) -> None:
    experiment = triangle(tmp_path / "triangle.db")
    pair = [{"a": a, "b": b} for a, b in (A, B)]
    question = experiment.record(pair, winner=0)
    assert experiment.undo() == question
    assert experiment.pending == [question]
