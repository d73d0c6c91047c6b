"""The log of an experiment: every question, answer and withdrawal, never rewritten."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from typing import Any

from ax.core.arm import Arm
from ax.core.base_trial import BaseTrial
from ax.core.batch_trial import BatchTrial
from ax.core.experiment import Experiment

from botorch_pref.errors import StorageError

PROPERTY = "preference_events"
"""The property of Ax's trial that holds its events, in order."""

ASKED, TOLD, WITHDRAWN = "asked", "told", "withdrawn"


@dataclass(frozen=True)
class Event:
    """Something that happened to a question.

    Attributes:
        number: The event's place in the experiment, from 0.
        trial: The number of the question.
        kind: ``asked``, ``told`` or ``withdrawn``.
        time: In UTC, ISO 8601.
        what: Of a question the names of the arms in the order they were shown, and
            Ax's name of the generator that chose them; of an answer what was said.
    """

    number: int
    trial: int
    kind: str
    time: str
    what: Mapping[str, Any] = field(default_factory=dict)


def record(trial: BaseTrial, kind: str, **what: Any) -> None:
    """Appends an event to the log.

    Args:
        trial: Of the question.
        kind: ``asked``, ``told`` or ``withdrawn``.
        what: See `Event`.
    """
    number = sum(1 for _ in events(trial.experiment))
    time = datetime.now(UTC).isoformat(timespec="milliseconds")
    event = asdict(Event(number, trial.index, kind, time, what))
    trial._properties[PROPERTY] = [*trial._properties.get(PROPERTY, []), event]


def events_of(trial: BaseTrial) -> list[Event]:
    """Everything that happened to a question, in order.

    Args:
        trial: Of the question.

    Raises:
        StorageError: The trial has no log that could be read.
    """
    try:
        found = [Event(**event) for event in trial._properties.get(PROPERTY, [])]
    except (AttributeError, TypeError) as error:
        raise StorageError(
            f"The log of trial {trial.index} cannot be read: {error}"
        ) from error
    for event in found:
        numbered = isinstance(event.number, int) and event.trial == trial.index
        if not (numbered and isinstance(event.what, Mapping)):
            raise StorageError(f"The log of trial {trial.index} has a damaged {event}.")
    return found


def events(experiment: Experiment) -> Iterator[Event]:
    """Everything that happened in an experiment, in order.

    Args:
        experiment: Ax's.

    Raises:
        StorageError: The log of some trial cannot be read.
    """
    found = [
        event for trial in experiment.trials.values() for event in events_of(trial)
    ]
    return iter(sorted(found, key=lambda event: event.number))


def check_log(experiment: Experiment) -> None:
    """Checks that the log counts every event once.

    Args:
        experiment: Ax's, as it was loaded.

    Raises:
        StorageError: It does not, or cannot be read.
    """
    numbers = [event.number for event in events(experiment)]
    if numbers != list(range(len(numbers))):
        raise StorageError(
            f"The log of {experiment.name!r} has the events {numbers}, which should "
            "count from 0; some were lost or changed."
        )


def check_nothing_else_happened(
    experiment: Experiment, stored: Iterable[Mapping[str, Any] | None]
) -> None:
    """Checks that an experiment is the stored one and one event more.

    Args:
        experiment: Ax's, about to be stored.
        stored: The properties of its trials that are stored.

    Raises:
        StorageError: Another process has stored something since it was loaded.
    """
    kept = sum(len((properties or {}).get(PROPERTY, [])) for properties in stored)
    if kept + 1 != sum(1 for _ in events(experiment)):
        raise StorageError(
            f"Another process has gone on with {experiment.name!r}. Nothing was "
            "written, and what it wrote is loaded: look at what is pending, and repeat."
        )


def standing_answer(trial: BaseTrial) -> dict[str, Any] | None:
    """Latest answer to a question that was not withdrawn, as it was recorded.

    Args:
        trial: Of the question.
    """
    answer = None
    for event in events_of(trial):
        if event.kind != ASKED:
            answer = dict(event.what) if event.kind == TOLD else None
    return answer


def options_shown(trial: BatchTrial) -> list[Arm]:
    """The arms of a question in the order they were shown.

    Args:
        trial: Of the question.

    Raises:
        StorageError: The log does not say, or names other arms.
    """
    for event in events_of(trial):
        if event.kind == ASKED:
            names = event.what["options"]
            if sorted(names) == sorted(trial.arms_by_name):
                return [trial.arms_by_name[name] for name in names]
    raise StorageError(
        f"The log of trial {trial.index} does not say which options it showed; it is "
        "no question that PreferenceExperiment.ask asked, or it was changed."
    )
