"""Ax's experiment in memory, as it is stored."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import TypeVar

from ax.core.batch_trial import BatchTrial
from ax.core.experiment import Experiment

from botorch_pref.ax.answers.agreement import check_agreement
from botorch_pref.ax.settings import Settings
from botorch_pref.ax.setup import check_objective
from botorch_pref.ax.storage.events import check_checksums, check_log
from botorch_pref.ax.storage.log_head import LogHead
from botorch_pref.ax.storage.storage import Storage
from botorch_pref.errors import BotorchPrefError, ExperimentError, StorageError

Changed = TypeVar("Changed", BatchTrial, list[BatchTrial])


class KeptExperiment:
    """Ax's experiment, which is in memory what is stored, or nothing.

    A change that could not be written has not happened: the experiment is loaded
    again. As long as that fails too there is none to go on with, so that nothing is
    ever built on what was not written.

    Args:
        experiment: Ax's, as it is stored.
        storage: Where it is kept.

    Attributes:
        storage: See above.
    """

    def __init__(self, experiment: Experiment, storage: Storage) -> None:
        self._name = experiment.name
        self._stored: Experiment | None = experiment
        self.storage = storage

    @property
    def experiment(self) -> Experiment:
        """Ax's experiment, as it is stored.

        Raises:
            ExperimentError: Somebody added trials to Ax's experiment. What is stored
                is loaded again.
            StorageError: A write failed, and what is stored still cannot be read.
        """
        if self._stored is None:
            try:
                self._stored = checked_load(self._name, self.storage)
            except StorageError as error:
                raise StorageError(
                    f"The last change of {self._name!r} could not be written, and what "
                    f"is stored cannot be read: {error} Once it can, repeat."
                ) from error
        experiment = self._stored
        if len(experiment.trials) != LogHead.of(experiment).questions:
            self._stored = None
            raise ExperimentError(
                f"Trials were added to Ax's experiment of {self._name!r}, or removed. "
                "They are not kept, and what is stored is loaded again: add questions "
                "by ask, and answers that were given elsewhere by record."
            )
        return experiment

    def keep(self, change: Callable[[Experiment], Changed]) -> Changed:
        """Changes the experiment and writes that, or neither.

        Args:
            change: Changes trials of Ax's experiment, each with an event more or
                several, and returns them.

        Returns:
            The trial, or the trials.

        Raises:
            StorageError: It cannot be written, or another process has written since.
        """
        experiment = self.experiment
        try:
            changed = change(experiment)
            trials = [changed] if isinstance(changed, BatchTrial) else changed
            self.storage.save(experiment, trials)
        except BaseException:
            self._stored = None
            # What happened is worth more than that loading fails too, which the next
            # use will say.
            with suppress(Exception):
                self._stored = checked_load(self._name, self.storage)
            raise
        return changed


def checked_load(name: str, storage: Storage) -> Experiment:
    """Ax's experiment as it was last kept, checked to be complete.

    Args:
        name: Of the experiment.
        storage: Where it is kept.

    Raises:
        ExperimentError: The objective has changed.
        StorageError: There is none of that name, it cannot be read, or it does not
            agree with its log.
    """
    experiment = storage.load(name)
    try:
        Settings.of(experiment)
        check_log(experiment)
        check_agreement(experiment)
        check_objective(experiment)
        check_checksums(experiment)
    except BotorchPrefError:
        raise
    except Exception as error:
        # Data that are damaged fail in all kinds of ways.
        raise StorageError(
            f"{name!r} is stored, but cannot be read: {error!r}. It is left as it is."
        ) from error
    storage.check_unchanged()
    return experiment
