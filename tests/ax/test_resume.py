"""Experiments whose process is killed, and that go on in another one."""

import os
import signal
from collections.abc import Callable
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import pytest
from espresso import QUICK_FIT, better, create, play

from botorch_pref.ax import PreferenceExperiment, log_store

pytestmark = [
    pytest.mark.slow,
    pytest.mark.filterwarnings(
        "ignore:This process .* is multi-threaded", "ignore:os.fork.. was called"
    ),
]
SPREAD, QUESTIONS = 3, 5
FEW_DRAWS = {"warmup_steps": 2, "num_samples": 2, "thinning": 1, "max_tree_depth": 1}
# One that is fitted, one that draws, and one that samples: others are like these.
MODELS: dict[str, dict[str, Any]] = {
    "EPPreferenceGP": {"fit_options": QUICK_FIT},
    "SkewPreferenceGP": {
        "model_options": {"num_draws": 64},
        "fit_options": QUICK_FIT,
        "initial": SPREAD + 1,
    },
    "SparsePreferenceGP": {
        "model_options": {"num_inducing": 4},
        "fit_options": QUICK_FIT,
        "initial": SPREAD + 1,
    },
    # Sampling takes its time: one question of it is enough.
    "FullyBayesianEPPreferenceGP": {"fit_options": FEW_DRAWS, "initial": SPREAD + 1},
}


def killed(*_args: object, **_kwargs: object) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def killed_after(act: Callable[..., object], *args: Any) -> None:
    """Runs in a process of its own, which is killed in the end."""
    process = get_context("fork").Process(target=act, args=args)
    process.start()
    process.join()
    assert process.exitcode == -signal.SIGKILL


def half(path: Path, settings: dict[str, Any]) -> None:
    experiment = create(path, **settings)
    play(experiment, SPREAD)
    experiment.ask(2)
    killed()


def outcome(experiment: PreferenceExperiment) -> list[Any]:
    questions = range(len(experiment.log.questions))
    options = [experiment.question(index).options for index in questions]
    if experiment.settings.model.startswith("FullyBayesian"):
        return [options, options[-1][0]]
    return [options, experiment.recommend(anywhere=True)]


@pytest.mark.usefixtures("uncompiled")
@pytest.mark.parametrize("model", MODELS)
def test_a_killed_experiment_ends_as_one_that_was_not(model, tmp_path) -> None:
    settings = {"model": model, "initial": SPREAD, "seed": 3, **MODELS[model]}
    killed_after(half, tmp_path / "killed.db", settings)
    resumed = PreferenceExperiment.resume("espresso", storage=tmp_path / "killed.db")
    (question,) = resumed.pending
    resumed.tell(question, winner=better(question))
    play(resumed, QUESTIONS)
    full_run = create(tmp_path / "whole.db", **settings)
    play(full_run, QUESTIONS)
    options, best = outcome(resumed)
    assert [options, best] == outcome(full_run)
    assert full_run.experiment.search_space.check_membership(best)


def interrupted(path: Path) -> None:
    experiment = create(path)
    play(experiment, 2)
    question = experiment.ask(2)
    # After the head of the log is written and before the event is.
    log_store._insert = killed
    experiment.tell(question, winner=better(question))


def test_killed_while_writing_an_answer_leaves_the_question_pending(tmp_path) -> None:
    path = tmp_path / "espresso.db"
    killed_after(interrupted, path)
    experiment = PreferenceExperiment.resume("espresso", storage=path)
    (question,) = experiment.pending
    assert question.index == 2
    assert experiment.num_answers == 2
    experiment.tell(question, winner=better(question))
    again = PreferenceExperiment.resume("espresso", storage=path)
    assert again.pending == []
    assert len(again.experiment.lookup_data().df) == 6
