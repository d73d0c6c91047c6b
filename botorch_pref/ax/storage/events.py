"""The log of an experiment: all that was asked, said and undone, never rewritten."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime
from typing import Any

from ax.core.arm import Arm
from ax.core.base_trial import BaseTrial
from ax.core.batch_trial import BatchTrial
from ax.core.experiment import Experiment

from botorch_pref.ax.storage.log_head import LogHead
from botorch_pref.errors import StorageError

PROPERTY = "preference_events"
"""The property of Ax's trial that holds its events, in order."""

ASKED, TOLD, WITHDRAWN, UNDONE = "asked", "told", "withdrawn", "undone"

REPEATS = "repeats"
"""The part of an event that names the question that is asked again."""

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
        checksum: Of this and all before, see `LogHead`.
    """

    number: int
    trial: int
    kind: str
    time: str
    what: Mapping[str, Any] = field(default_factory=dict)
    checksum: str = ""

    def after(self, head: LogHead, trial: BaseTrial) -> LogHead:
        """Head of the log with this event.

        Args:
            head: Of the log without it.
            trial: Of the question, with its options.
        """
        contents = {k: v for k, v in asdict(self).items() if k != "checksum"}
        return head.followed_by(trial, contents, asks=self.kind == ASKED)

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
    head = LogHead.of(trial.experiment)
    time = datetime.now(UTC).isoformat(timespec="milliseconds")
    event = Event(head.events, trial.index, kind, time, what)
    head = event.after(head, trial)
    head.put(trial.experiment)
    kept = asdict(replace(event, checksum=head.checksum))
    trial._properties[PROPERTY] = [*trial._properties.get(PROPERTY, []), kept]


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


def check_checksums(experiment: Experiment) -> None:
    """Checks that everything is as it was written: settings, options and the log.

    Args:
        experiment: Ax's, as it was loaded, with a log that counts its events.

    Raises:
        StorageError: Something was changed, or is missing.
    """
    stored = LogHead.of(experiment)
    stored.check_parts(experiment)
    head = replace(stored, events=0, questions=0, checksum="")
    for event in events(experiment):
        trial = experiment.trials[event.trial]
        head = event.after(head, trial)
        if head.checksum != event.checksum:
            shown = [arm.parameters for arm in trial.arms]
            raise StorageError(
                f"Event {event.number} ({event.kind} at {event.time}: "
                f"{dict(event.what)}) or the options of trial {trial.index}, {shown}, "
                "are not what was written; something of it was changed or damaged."
            )
    if head != stored:
        raise StorageError(
            f"The log of {experiment.name!r} has {head.events} events, and "
            f"{stored.events} were written, or other ones; some were lost or changed."
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


def standing_answers(
    experiment: Experiment,
) -> Iterator[tuple[list[str], dict[str, Any]]]:
    """Answers that stand, after the names of the options in the order they were shown.

    Args:
        experiment: Ax's.

    Raises:
        StorageError: The log does not say what was shown.
    """
    for trial in experiment.trials.values():
        answer = standing_answer(trial)
        if answer is not None:
            assert isinstance(trial, BatchTrial)
            yield [arm.name for arm in options_shown(trial)], answer
