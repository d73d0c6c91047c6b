"""Base class of the places where experiments are kept."""

from __future__ import annotations

from abc import ABC, abstractmethod

from ax.core.base_trial import BaseTrial
from ax.core.experiment import Experiment


class Storage(ABC):
    """A place that keeps experiments; every write is kept whole or not at all."""

    @abstractmethod
    def create(self, experiment: Experiment) -> None:
        """Keeps a new experiment.

        Args:
            experiment: Ax's, named.

        Raises:
            StorageError: There is one of that name already, or it cannot be written.
        """

    @abstractmethod
    def save(self, experiment: Experiment, trials: list[BaseTrial]) -> None:
        """Keeps what changed in some trials, all of it or nothing.

        Args:
            experiment: Ax's.
            trials: Those that have more events, and new data and status.

        Raises:
            StorageError: It cannot be written, or another process has written since
                the experiment was loaded. What was kept before is left as it was.
        """

    @abstractmethod
    def load(self, name: str) -> Experiment:
        """The experiment as it was last kept.

        Args:
            name: Of the experiment.

        Raises:
            StorageError: There is none of that name, or it cannot be read.
        """
