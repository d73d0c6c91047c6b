"""An experiment of Ax's own, brought along: space, arms and comparisons."""

from pathlib import Path

import pandas as pd
import pytest
from ax.api.client import Client
from ax.api.configs import ChoiceParameterConfig, RangeParameterConfig
from ax.core.arm import Arm
from ax.core.data import Data
from ax.core.experiment import Experiment
from ax.core.metric import Metric
from ax.core.parameter import ParameterType, RangeParameter
from ax.core.search_space import SearchSpace

from botorch_pref.ax import PreferenceExperiment
from botorch_pref.errors import ExperimentError, StorageError

QUERY = "pairwise_pref_query"


def client() -> Client:
    """Makes a client of an experiment with parameters of every kind, and three arms."""
    made = Client()
    made.configure_experiment(
        name="brew",
        parameters=[
            RangeParameterConfig(name="dose", parameter_type="float", bounds=(14, 22)),
            RangeParameterConfig(
                name="minutes", parameter_type="float", bounds=(1, 32), scaling="log"
            ),
            RangeParameterConfig(name="shots", parameter_type="int", bounds=(1, 3)),
            ChoiceParameterConfig(
                name="bean", parameter_type="str", values=["a", "b"], is_ordered=False
            ),
        ],
        parameter_constraints=["dose + shots <= 23"],
    )
    for dose, bean in ((15.0, "a"), (17.0, "b"), (19.0, "a")):
        design = {"dose": dose, "minutes": 4.0, "shots": 1, "bean": bean}
        made.attach_trial(design)
    return made


def test_the_space_and_the_arms_of_a_client_are_there(tmp_path: Path) -> None:
    source = client()
    before = source._experiment.search_space
    mine = PreferenceExperiment.from_ax(source, storage=tmp_path / "brew.db")
    assert mine.log.name == "brew"
    space = mine.log.space
    assert {n: str(p) for n, p in space.parameters.items()} == {
        n: str(p) for n, p in before.parameters.items()
    }
    assert [str(c) for c in space.parameter_constraints] == [
        str(c) for c in before.parameter_constraints
    ]
    (question,) = mine.pending
    assert [option["dose"] for option in question.options] == [15.0, 17.0, 19.0]
    mine.tell(question, best=1)
    assert mine.recommend()["dose"] == 17.0
    # Ax's stays as it is, and the copy is kept.
    assert len(source._experiment.trials) == 3
    again = PreferenceExperiment.resume("brew", storage=tmp_path / "brew.db")
    assert again.version == mine.version
    with pytest.raises(StorageError, match="brew"):
        PreferenceExperiment.from_ax(source, storage=tmp_path / "brew.db")
    other = PreferenceExperiment.from_ax(
        source, storage=tmp_path / "brew.db", name="second", seed=4
    )
    assert other.settings.seed == 4


def explored(*pairs: tuple[float, float], wrong: bool = False) -> Experiment:
    """Comparisons of two as Ax's preference exploration keeps them."""
    space = SearchSpace([RangeParameter("x", ParameterType.FLOAT, 0, 1)])
    experiment = Experiment(space, name="pe", tracking_metrics=[Metric(QUERY)])
    for winner, loser in pairs:
        trial = experiment.new_batch_trial()
        # The winner is not the first one.
        trial.add_arms_and_weights([Arm({"x": loser}), Arm({"x": winner})])
        trial.mark_running(no_runner_required=True)
        rows = [
            {
                "trial_index": trial.index,
                "arm_name": arm.name,
                "metric_name": QUERY,
                "metric_signature": QUERY,
                "mean": float(arm.parameters["x"] == winner or wrong),
                "sem": 0.0,
            }
            for arm in trial.arms
        ]
        experiment.attach_data(Data(df=pd.DataFrame(rows)))
        trial.mark_completed()
    return experiment


def test_comparisons_are_recorded(tmp_path: Path) -> None:
    source = explored((0.7, 0.2), (0.6, 0.9), (0.6, 0.1))
    mine = PreferenceExperiment.from_ax(source, storage=tmp_path / "pe.db")
    assert not mine.pending
    told = [
        (question.options[0]["x"], question.options[1]["x"], answer.fields)
        for answer in reversed([*mine.log.answers()])
        for question in [mine.question(answer.question)]
    ]
    assert told == [
        (winner, loser, {"winner": 0})
        for winner, loser in ((0.7, 0.2), (0.6, 0.9), (0.6, 0.1))
    ]


def test_what_cannot_be_brought_along_is_named(tmp_path: Path) -> None:
    storage = tmp_path / "none.db"
    outside = client()._experiment
    outside.new_trial().add_arm(
        Arm({"dose": 30.0, "minutes": 4.0, "shots": 1, "bean": "a"})
    )
    digits = Experiment(
        SearchSpace([RangeParameter("x", ParameterType.FLOAT, 0, 1, digits=2)])
    )
    for source, message in (
        (7, "give Ax's Experiment or Client"),
        (Client(), "configure_experiment"),
        (outside, "30.0"),
        (digits, "'x' has digits"),
        (explored((0.7, 0.2), wrong=True), "Trial 0 has"),
    ):
        with pytest.raises(ExperimentError, match=message):
            PreferenceExperiment.from_ax(source, storage=storage, name="n")
    assert not storage.exists()
