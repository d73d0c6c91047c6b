"""Answers that are undone: their questions are pending again, the log has all."""

import pytest
from ax.core.trial_status import TrialStatus
from showing import A, B, C, D, show, tell, triangle

from botorch_pref.ax import PreferenceExperiment
from botorch_pref.errors import ExperimentError


@pytest.fixture(params=["triangle.db"])
def path(request, tmp_path):
    return tmp_path / request.param


def kinds(experiment: PreferenceExperiment, index: int) -> list[str]:
    properties = experiment.experiment.trials[index]._properties
    return [event["kind"] for event in properties["preference_events"]]


def data(experiment: PreferenceExperiment):
    columns = ["trial_index", "arm_name", "metric_name", "mean"]
    return experiment.experiment.lookup_data().df[columns].sort_values(columns)


def test_the_last_answer_is_undone_and_told_anew(path) -> None:
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


def test_undo_goes_back_answer_by_answer(path) -> None:
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
    assert (
        PreferenceExperiment.resume(
            "triangle", storage=tmp_path / "triangle.db"
        ).pending
        == []
    )


def test_each_rater_undoes_answers_of_her_own(path) -> None:
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


def test_an_undone_record_is_asked(tmp_path) -> None:
    experiment = triangle(tmp_path / "triangle.db")
    pair = [{"a": a, "b": b} for a, b in (A, B)]
    question = experiment.record(pair, winner=0)
    assert experiment.undo() == question
    assert experiment.pending == [question]
