"""Answers: told once, told again, told wrongly and taken back."""

import csv
import json

import pytest
from ax.core.trial_status import TrialStatus
from espresso import PARAMETERS, better, create

from botorch_pref.ax import PreferenceExperiment, Question
from botorch_pref.errors import ExperimentError


@pytest.fixture
def experiment(tmp_path) -> PreferenceExperiment:
    return create(tmp_path / "espresso.db", num_levels=3)


def rows(experiment: PreferenceExperiment, index: int) -> dict[str, list[float]]:
    """Values of each metric, of the options as they were shown."""
    data = experiment.experiment.lookup_data(trial_indices={index}).df
    names = experiment.question(index).names
    metrics = data.set_index("arm_name").groupby("metric_name")["mean"]
    return {name: group.reindex(names).dropna().tolist() for name, group in metrics}


def test_the_same_answer_again_changes_nothing(experiment) -> None:
    question = experiment.ask()
    for said in ({"winner": 1}, {"best": 1}, {"ranking": (1, 0)}):
        experiment.tell(question, **said)
    experiment.tell(question.index, winner=1)
    assert rows(experiment, 0) == {"pairwise_pref_query": [0, 1]}
    assert len(experiment.experiment.trials[0]._properties["preference_events"]) == 2


def test_another_answer_is_an_error_until_the_first_is_taken_back(experiment) -> None:
    question = experiment.ask()
    experiment.tell(question, winner=1, ratings=[0.25, None])
    with pytest.raises(ExperimentError, match=r"has the answer.*'winner': 1.*withdraw"):
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
    question = experiment.ask()
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


def test_a_question_is_taken_back_once(experiment) -> None:
    question = experiment.ask()
    experiment.withdraw(question)
    experiment.withdraw(question)
    assert experiment.pending == []
    kinds = [
        event["kind"]
        for event in experiment.experiment.trials[0]._properties["preference_events"]
    ]
    assert kinds == ["asked", "withdrawn"]


def test_answers_about_what_was_not_asked(experiment, tmp_path) -> None:
    with pytest.raises(ExperimentError, match="no question 0"):
        experiment.tell(0, winner=0)
    question = experiment.ask()
    with pytest.raises(ExperimentError, match="no question True"):
        experiment.tell(True, winner=0)
    with pytest.raises(ExperimentError, match="no question 1"):
        experiment.withdraw(1)
    with pytest.raises(ExperimentError, match="not one of \\[0, 1\\]"):
        experiment.tell(question, winner=2)
    with pytest.raises(ExperimentError, match="levels go from 0 to 2"):
        experiment.tell(question, levels=[3, 0])
    foreign = create(tmp_path / "other.db", seed=9).ask()
    with pytest.raises(ExperimentError, match="another experiment"):
        experiment.tell(foreign, winner=0)
    changed = Question(question.index, question.options[::-1])
    with pytest.raises(ExperimentError, match="other options"):
        experiment.tell(changed, winner=0)
    assert experiment.pending == [question]


def test_the_log_has_everything_in_order(experiment, tmp_path) -> None:
    first, second = experiment.ask(), experiment.ask(3)
    experiment.tell(second, ranking=[2, 0, 1])
    experiment.tell(first, winner=better(first))
    experiment.withdraw(second)
    again = PreferenceExperiment.resume("espresso", storage=tmp_path / "espresso.db")
    again.write_log(tmp_path / "log.csv")
    with (tmp_path / "log.csv").open(encoding="utf-8", newline="") as file:
        created, *log = csv.DictReader(file)
    assert json.loads(created["what"])["name"] == "espresso"
    assert [int(row["number"]) for row in log] == [0, 1, 2, 3, 4]
    assert [int(row["question"]) for row in log] == [0, 1, 1, 0, 1]
    kinds = ["asked", "asked", "told", "told", "withdrawn"]
    assert [row["kind"] for row in log] == kinds
    assert json.loads(log[2]["what"]) == {"ranking": [2, 0, 1]}
    assert len(json.loads(log[1]["what"])["options"]) == 3
    assert [row["time"] for row in log] == sorted(row["time"] for row in log)
    assert all(row["time"].endswith("+00:00") for row in log)


@pytest.mark.parametrize(
    ("settings", "match"),
    [
        ({"model": "PairwiseGP"}, "no model 'PairwiseGP'.*EPPreferenceGP"),
        ({"acquisition": "qEI"}, "no acquisition function 'qEI'.*DuelingEIIG"),
        ({"acquisition": "FeasibilityWeighted"}, "no acquisition function"),
        ({"initial": 0}, "initial is 0"),
        ({"seed": -1}, "seed is -1"),
        ({"seed": 1.5}, "seed is 1.5"),
        ({"minimise": True}, "no setting minimise"),
        ({"num_levels": 1}, "num_levels is 1"),
        ({"parameter_constraints": ["dose + water <= 3"]}, "search space"),
    ],
)
def test_settings_that_cannot_be(tmp_path, settings, match) -> None:
    with pytest.raises(ExperimentError, match=match):
        PreferenceExperiment.create(
            "espresso",
            storage=tmp_path / "espresso.db",
            **{"parameters": PARAMETERS, **settings},
        )
    assert list(tmp_path.iterdir()) == []
