"""Questions that another process chooses, of an experiment that this one keeps."""

from __future__ import annotations

import pickle

from ax.core.experiment import Experiment
from ax.core.generator_run import GeneratorRun

from botorch_pref.ax.experiment import PreferenceExperiment
from botorch_pref.ax.generation.asking import chosen_question
from botorch_pref.ax.kept_log import one_at_a_time
from botorch_pref.ax.questions import Question
from botorch_pref.ax.settings import Settings


@one_at_a_time
def packed_state(experiment: PreferenceExperiment) -> bytes:
    """State of an experiment, from which another process can choose."""
    return pickle.dumps((experiment.experiment, experiment.settings))


def unpacked_state(state: bytes) -> tuple[Experiment, Settings]:
    """Ax's experiment, and how its questions are chosen."""
    experiment, settings = pickle.loads(state)
    return experiment, settings


def packed_choice(state: bytes, size: int, rater: str | None) -> bytes:
    """Choice of the next question, which is that of ``ask`` in the same state."""
    experiment, settings = unpacked_state(state)
    return pickle.dumps(chosen_question(experiment, settings, size, rater))


@one_at_a_time
def ask_chosen(
    experiment: PreferenceExperiment, choice: bytes, rater: str | None
) -> Question:
    """The question that another process has chosen, which is pending now."""
    run: GeneratorRun
    order: list[int] | None
    run, order = pickle.loads(choice)
    return experiment._ask_about(run, rater, order)
