"""Experiments whose process is killed, and that go on in another one."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from espresso import better, create
from espresso_run import (
    INTERRUPTED,
    MODELS,
    QUESTIONS,
    outcome,
    play,
    settings,
)

from botorch_pref.ax import PreferenceExperiment

HERE = Path(__file__).parent


@pytest.fixture(scope="module")
def storage(tmp_path_factory) -> Path:
    return tmp_path_factory.mktemp("killed") / "espresso.db"


@pytest.fixture(scope="module")
def resumed(storage) -> dict:
    process = subprocess.run(
        [sys.executable, HERE / "espresso_run.py", storage],
        env=os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
        capture_output=True,
        text=True,
        check=False,
    )
    assert process.returncode == 0, process.stderr
    return json.loads(process.stdout)


@pytest.mark.slow
@pytest.mark.usefixtures("uncompiled")
@pytest.mark.parametrize("model", MODELS)
def test_a_killed_experiment_ends_as_one_that_was_not(resumed, model, tmp_path) -> None:
    experiment = create(tmp_path / "espresso.db", **settings(model))
    play(experiment, QUESTIONS)
    assert resumed[model] == outcome(experiment)
    space = experiment.experiment.search_space
    for trial in experiment.experiment.trials.values():
        for arm in trial.arms:
            assert space.check_membership(arm.parameters)
    assert space.check_membership(resumed[model][1])
    assert space.check_membership(resumed[model][2])


@pytest.mark.slow  # its experiments are played in processes of their own
@pytest.mark.usefixtures("resumed")
def test_killed_while_writing_an_answer_leaves_the_question_pending(storage) -> None:
    experiment = PreferenceExperiment.resume(INTERRUPTED, storage=storage)
    (question,) = experiment.pending
    assert question.index == 2
    assert experiment.experiment.lookup_data(trial_indices={2}).df.empty
    experiment.tell(question, winner=better(question))
    again = PreferenceExperiment.resume(INTERRUPTED, storage=storage)
    assert again.pending == []
    assert len(again.experiment.lookup_data(trial_indices={2}).df) == 2
    assert len(again.experiment.lookup_data().df) == 6
