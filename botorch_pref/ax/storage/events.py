"""The log of an experiment: all that was asked, said and undone, never rewritten."""

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

ASKED, TOLD, WITHDRAWN, UNDONE = "asked", "told", "withdrawn", "undone"

PERSON = "person"
"""Who chose the options of a person's own."""

CIRCUMSTANCES = ("rater", "note", "seconds", "order")
"""What an event of an answer has beside what was said."""


@dataclass(frozen=True)
class Event:
    """Something that happened to a question.

    Attributes:
        number: The event's place in the experiment, from 0.
        trial: The number of the question.
        kind: ``asked``, ``told``, ``withdrawn`` or ``undone``.
        time: In UTC, ISO 8601.
        what: Of a question the names of the arms in the order they were shown, who
            chose them (Ax's name of a generator, or ``person``), and perhaps the rater
            who is asked; of an answer what was said, and `CIRCUMSTANCES`.
    """

    number: int
    trial: int
    kind: str
    time: str
    what: Mapping[str, Any] = field(default_factory=dict)

    @property
    def said(self) -> dict[str, Any]:
        """Fields of an answer that say something."""
        return {k: v for k, v in self.what.items() if k not in CIRCUMSTANCES}

    @property
    def circumstances(self) -> dict[str, Any]:
        """Rater, note and the like, of an answer."""
        return {k: v for k, v in self.what.items() if k in CIRCUMSTANCES}


def record(trial: BaseTrial, kind: str, **what: Any) -> None:
    """Appends an event to the log.

    Args:
        trial: Of the question.
        kind: See `Event`.
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
    """Checks that the log of an experiment goes on from the stored one.

    Args:
        experiment: Ax's, about to be stored.
        stored: The properties of its trials that are stored.

    Raises:
        StorageError: Another process has stored something since it was loaded.
    """
    kept = [e for properties in stored for e in (properties or {}).get(PROPERTY, [])]
    kept.sort(key=lambda event: event["number"])
    now = [asdict(event) for event in events(experiment)]
    if len(kept) >= len(now) or kept != now[: len(kept)]:
        raise StorageError(
            f"Another process has gone on with {experiment.name!r}. Nothing was "
            "written, and what it wrote is loaded: look at what is pending, and repeat."
        )


def standing_event(trial: BaseTrial) -> Event | None:
    """Event of the answer that stands, neither withdrawn nor undone; None without one.

    Args:
        trial: Of the question.
    """
    happened = events_of(trial)
    return happened[-1] if happened and happened[-1].kind == TOLD else None


def standing_answer(trial: BaseTrial) -> dict[str, Any] | None:
    """Answer that stands, as it was said; None without one.

    Args:
        trial: Of the question.
    """
    event = standing_event(trial)
    return None if event is None else event.said


def asked_rater(trial: BaseTrial) -> str | None:
    """The name of the rater whom a question was asked; None for whoever answers.

    Args:
        trial: Of the question.
    """
    asked = events_of(trial)[:1]
    return asked[0].what.get("rater") if asked else None


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
