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

# Beside the time of creation, of which Ax reads the value and nothing else. As a
# property it would be part of the experiment, which would differ from
# the one that was written.
_START = b'{"time_created": {"preference_file": "'
_AFTER = len(_START) + 64


@dataclass(frozen=True)
class ExperimentText:
    """Text of an experiment as Ax's JSON storage writes it, in parts.

    Encoding takes Ax milliseconds for each trial, and joining texts next to nothing.

    Attributes:
        trials: The text of each trial, by its number, as an item of a dictionary.
        data: The same of the data of each trial that has some.
    """

    trials: Mapping[str, bytes]
    data: Mapping[str, bytes]

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
        trials, data = stored["trials"], stored["data_by_trial"]
        return cls(
            {index: _item(index, trial) for index, trial in trials.items()},
            {index: _item(index, found) for index, found in data.items()},
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
            texts[index] = _item(index, object_to_json(trial))
            data.pop(index, None)
            found = part_of_experiment(experiment, [trial]).data
            if not found.empty:
                # By a time stamp, which is always the same.
                data[index] = _item(index, object_to_json({0: found}))
        return type(self)(texts, data)

    def whole(self, experiment: Experiment) -> bytes:
        """All of the text, with a checksum of it at its start.

        Args:
            experiment: Ax's, whose trials and data are in this text.
        """
        encoded = object_to_json(part_of_experiment(experiment))
        created = json.dumps(encoded.pop("time_created")).encode()
        del encoded["trials"], encoded["data_by_trial"]
        after = b"".join(
            [
                b'", ',
                created[1:],
                b', "trials": {',
                b", ".join(self.trials.values()),
                b'}, "data_by_trial": {',
                b", ".join(self.data.values()),
                b"}, ",
                json.dumps(encoded).encode()[1:],
            ]
        )
        return b"".join([_START, _digest(after), after])


def is_whole(text: bytes) -> bool:
    """Whether a text is one that `ExperimentText.whole` made, to the last letter.

    Args:
        text: Of a file.
    """
    return text[:_AFTER] == _START + _digest(text[_AFTER:])


def _digest(text: bytes) -> bytes:
    return sha256(text).hexdigest().encode()


def _item(index: str, value: Any) -> bytes:
    return f"{json.dumps(index)}: {json.dumps(value)}".encode()
