"""The head of a log: how many events it has, and a checksum of everything so far."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any, Self

from ax.core.base_trial import BaseTrial
from ax.core.batch_trial import BatchTrial
from ax.core.experiment import Experiment
from ax.storage.json_store.encoder import object_to_json

from botorch_pref.ax.storage.checksums import checksum
from botorch_pref.errors import StorageError

PROPERTY = "preference_log"
"""The property of Ax's experiment that holds the head of its log."""


@dataclass(frozen=True)
class LogHead:
    """Head of the log of an experiment, stored with each event.

    Attributes:
        events: How many there are.
        questions: How many of them asked.
        checksum: Of all events and of the options that they showed, each over the one
            before.
        parts: Checksums of what does not change, by its name.
    """

    events: int
    questions: int
    checksum: str
    parts: Mapping[str, str]

    @classmethod
    def of_new(cls, experiment: Experiment) -> Self:
        """Head of an empty log.

        Args:
            experiment: Ax's, with everything that does not change from now on.
        """
        return cls(0, 0, "", _parts(experiment))

    @classmethod
    def of(cls, experiment: Experiment) -> Self:
        """Head of the log of an experiment.

        Args:
            experiment: Ax's.

        Raises:
            StorageError: It has none that could be read.
        """
        return cls.of_property(experiment._properties.get(PROPERTY))

    @classmethod
    def of_property(cls, stored: Any) -> Self:
        """Head of a log from the property that holds it.

        Args:
            stored: The value of `PROPERTY`.

        Raises:
            StorageError: It is no head of a log.
        """
        try:
            head = cls(**stored)
        except TypeError as error:
            raise StorageError(f"The head of the log cannot be read: {error}") from None
        counts = (head.events, head.questions)
        if not all(type(count) is int and count >= 0 for count in counts):
            raise StorageError(f"The head of the log is damaged: {head}")
        return head

    def put(self, experiment: Experiment) -> None:
        """Makes this the head of the log of an experiment.

        Args:
            experiment: Ax's; changed.
        """
        experiment._properties[PROPERTY] = asdict(self)

    def followed_by(
        self, trial: BaseTrial, event: Mapping[str, Any], asks: bool
    ) -> Self:
        """Head after one event more.

        Args:
            trial: Of the event.
            event: As it is stored, without its checksum.
            asks: Whether it asks a question, so that it stands for the options too.
        """
        return replace(
            self,
            events=self.events + 1,
            questions=self.questions + asks,
            checksum=checksum(self.checksum, event, *(_shown(trial) if asks else ())),
        )

    def check_parts(self, experiment: Experiment) -> None:
        """Checks that what does not change has not changed.

        Args:
            experiment: Ax's.

        Raises:
            StorageError: It has.
        """
        now = _parts(experiment)
        if now != self.parts:
            differs = [name for name in now if now[name] != self.parts.get(name)]
            raise StorageError(
                f"{experiment.name!r} was created with other {' and '.join(differs)}; "
                "what is stored was changed or damaged."
            )


def _shown(trial: BaseTrial) -> list[Any]:
    """Options of a question, with the states of their generators."""
    assert isinstance(trial, BatchTrial)
    options = {arm.name: arm.parameters for arm in trial.arms}
    return [options, [run._generator_state_after_gen for run in trial.generator_runs]]


def _parts(experiment: Experiment) -> dict[str, str]:
    space, config = experiment.search_space, experiment.optimization_config
    settings = {k: v for k, v in experiment._properties.items() if k != PROPERTY}
    parts = {
        "settings": settings,
        "parameters": {p.name: object_to_json(p) for p in space.parameters.values()},
        "constraints": [object_to_json(c) for c in space.parameter_constraints],
        "metrics": {m.name: object_to_json(m) for m in experiment.metrics.values()},
        "objective": None if config is None else object_to_json(config.objective),
        "name": experiment.name,
    }
    return {name: checksum(part) for name, part in parts.items()}
