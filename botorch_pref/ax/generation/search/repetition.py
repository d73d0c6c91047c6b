"""Questions that are asked again to see whether answers are consistent."""

from __future__ import annotations

from collections import Counter
from random import Random

from ax.core.batch_trial import BatchTrial
from ax.core.experiment import Experiment
from ax.core.generator_run import GeneratorRun
from ax.core.trial_status import TrialStatus

from botorch_pref.ax.log import REPEATS
from botorch_pref.ax.settings import Settings

REPEAT = "Repeat"
"""The chooser of such a question, in the log."""


def question_again(
    experiment: Experiment, settings: Settings, size: int, seed: int
) -> GeneratorRun | None:
    """The options of an answered question that is to be asked again, now and then.

    Each answered question is asked again once at most, and not as the very next one.

    Args:
        experiment: Ax's.
        settings: Of the experiment; its ``repeat_rate`` is how often.
        size: How many options.
        seed: That decides whether, and which.

    Returns:
        None where another question is to be asked.
    """
    completed = experiment.trial_indices_by_status[TrialStatus.COMPLETED]
    draws = Random(seed)
    if len(completed) < settings.initial or draws.random() >= settings.repeat_rate:
        return None
    trials = [*experiment.trials.values()]
    shown = [frozenset(trial.arms_by_name) for trial in trials]
    times = Counter(shown)
    once = [
        trial
        for trial, options in zip(trials[:-1], shown, strict=False)
        if trial.index in completed and len(options) == size and times[options] == 1
    ]
    if not once:
        return None
    chosen = draws.choice(once)
    assert isinstance(chosen, BatchTrial)
    return GeneratorRun(
        [arm.clone() for arm in chosen.arms],
        generator_key=REPEAT,
        gen_metadata={REPEATS: chosen.index},
    )
