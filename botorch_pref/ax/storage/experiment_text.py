"""Text of an experiment in JSON, of which only what changed is encoded anew."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from hashlib import sha256
from typing import Any, Self

from ax.core.base_trial import BaseTrial
from ax.core.experiment import Experiment
from ax.storage.json_store.encoder import object_to_json

from botorch_pref.ax.storage.part_of_experiment import part_of_experiment

CHECKSUM = "preference_file"
"""The property of a stored experiment that holds the checksum of its file."""

_START = f'{{"properties": {{"{CHECKSUM}": "'
_DIGITS = 64
_AFTER = len(_START) + _DIGITS


@dataclass(frozen=True)
class ExperimentText:
    """Text of an experiment as Ax's JSON storage writes it, in parts.

    Encoding takes Ax milliseconds for each trial, and joining texts next to nothing.

    Attributes:
        trials: The text of each trial, by its number.
        data: The text of the data of each trial that has some.
    """

    trials: Mapping[str, str]
    data: Mapping[str, str]

    @classmethod
    def of(cls, experiment: Experiment) -> Self:
        """Text of a whole experiment.

        Args:
            experiment: Ax's.
        """
        return cls({}, {}).changed(experiment, experiment.trials.values())

    @classmethod
    def of_stored(cls, stored: Mapping[str, Any]) -> Self:
        """Text of an experiment that was read.

        Args:
            stored: What JSON says; not changed.
        """
        return cls(
            {index: json.dumps(trial) for index, trial in stored["trials"].items()},
            {
                index: json.dumps(data)
                for index, data in stored["data_by_trial"].items()
            },
        )

    def changed(self, experiment: Experiment, trials: Iterable[BaseTrial]) -> Self:
        """Text of an experiment of which some trials have changed.

        Args:
            experiment: Ax's.
            trials: What differs from this text.
        """
        texts, data = dict(self.trials), dict(self.data)
        for trial in trials:
            index = str(trial.index)
            texts[index] = json.dumps(object_to_json(trial))
            data.pop(index, None)
            found = part_of_experiment(experiment, [trial]).data
            if not found.empty:
                # By a time stamp, which is always the same.
                data[index] = json.dumps(object_to_json({0: found}))
        return type(self)(texts, data)

    def whole(self, experiment: Experiment) -> str:
        """All of the text, with a checksum of it at its start.

        Args:
            experiment: Ax's, whose trials and data are in this text.
        """
        encoded = object_to_json(part_of_experiment(experiment))
        properties = json.dumps(encoded.pop("properties"))
        texts = {key: json.dumps(value) for key, value in encoded.items()}
        texts["trials"], texts["data_by_trial"] = (
            _joined(self.trials),
            _joined(self.data),
        )
        # Settings are never left out, so that there is something to put it before.
        after = f'", {properties[1:]}, {_joined(texts)[1:]}'
        return f"{_START}{_digest(_START + after)}{after}"


def is_whole(text: str) -> bool:
    """Whether a text is one that `ExperimentText.whole` made, to the last letter.

    Args:
        text: Of a file.
    """
    without = text[: len(_START)] + text[_AFTER:]
    return text.startswith(_START) and text[len(_START) : _AFTER] == _digest(without)


def _digest(text: str) -> str:
    return sha256(text.encode()).hexdigest()


def _joined(texts: Mapping[str, str]) -> str:
    items = (f"{json.dumps(key)}: {text}" for key, text in texts.items())
    return f"{{{', '.join(items)}}}"
