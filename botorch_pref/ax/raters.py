"""Raters of an experiment, by name and by number."""

from __future__ import annotations

from ax.core.experiment import Experiment

from botorch_pref.ax.log import TOLD
from botorch_pref.ax.projection import events, standing_event
from botorch_pref.ax.settings import PROPERTY, SHARE
from botorch_pref.errors import ExperimentError


def rater_numbers(experiment: Experiment) -> dict[str, int]:
    """Numbers of the raters who have answered, by name, in the order of the answers.

    Args:
        experiment: Ax's.
    """
    told = (e.what.get("rater") for e in events(experiment) if e.kind == TOLD)
    names = dict.fromkeys(name for name in told if name is not None)
    return {name: number for number, name in enumerate(names)}


def raters_of_trials(experiment: Experiment) -> dict[int, int] | None:
    """Number of the rater of each answer that stands, by trial.

    Args:
        experiment: Ax's, also one that is no preference experiment of ours.

    Returns:
        None where answers are pooled.
    """
    stored = (experiment._properties or {}).get(PROPERTY, {})
    if stored.get("raters") != SHARE:
        return None
    numbers = rater_numbers(experiment)
    standing = map(standing_event, experiment.trials.values())
    return {
        event.question: numbers[event.what["rater"]]
        for event in standing
        if event is not None
    }


def number_of_rater(experiment: Experiment, rater: str | None) -> int | None:
    """Number of a rater whose own utility counts; None for what all have in common.

    Args:
        experiment: Ax's.
        rater: The name, also of somebody who has not answered yet.

    Returns:
        Somebody new has the next number: nothing but what others let expect is known.
    """
    if rater is None or raters_of_trials(experiment) is None:
        return None
    numbers = rater_numbers(experiment)
    return numbers.get(rater, len(numbers))


def known_rater(experiment: Experiment, rater: str) -> int:
    """Number of a rater who has answered, and is told from others.

    Args:
        experiment: Ax's.
        rater: The name.

    Raises:
        ExperimentError: The answers are pooled, or there are none of that rater.
    """
    if raters_of_trials(experiment) is None:
        raise ExperimentError(
            f"The answers of {experiment.name!r} are pooled, so that {rater!r} has no "
            f"utility of one's own; create an experiment with raters={SHARE!r}."
        )
    numbers = rater_numbers(experiment)
    if rater not in numbers:
        raise ExperimentError(
            f"There are no answers of {rater!r}; there are some of "
            f"{', '.join(map(repr, numbers)) or 'nobody'}."
        )
    return numbers[rater]
