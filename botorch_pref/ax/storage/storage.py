"""Base class of the places where experiments are kept."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence

from ax.core.base_trial import BaseTrial
from ax.core.experiment import Experiment

from botorch_pref.errors import StorageError


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
    def save(self, experiment: Experiment, trials: Sequence[BaseTrial]) -> None:
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

    @abstractmethod
    def check_unchanged(self) -> None:
        """Checks that all of what was loaded last is what was written.

        What questions and answers depend on has checksums of its own, in every store.

        Raises:
            StorageError: It is not.
        """


def another_wrote(name: str) -> StorageError:
    """Error that says that a store is not what this process knows of it.

    Args:
        name: Of the experiment.
    """
    return StorageError(
        f"Another process has gone on with {name!r}. Nothing was written, and what it "
        "wrote is loaded: look at what is pending, and repeat."
    )
