"""Worker that fits the models of an experiment."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from threading import Lock
from typing import Any, ParamSpec, TypeVar

from botorch_pref.ax import PreferenceExperiment
from botorch_pref.ax.asking_elsewhere import packed_state
from botorch_pref.ax.naming.names import acquisition_classes, model_classes
from botorch_pref.web.modelling.experiment_findings import (
    experiment_findings,
    findings_of,
)
from botorch_pref.web.modelling.model_notes import ModelNotes, run_noted
from botorch_pref.web.modelling.model_process import ModelProcess

P = ParamSpec("P")
T = TypeVar("T")

_PACKAGE = __name__.partition(".")[0]
_TRIALS = 3
"""Processes that end one after the other, before models are fitted without one."""

_LOST = "The process that fits models has ended, as for want of memory; "
_AGAIN = _LOST + "it is started again."
_WITHOUT = _LOST + (
    f"after {_TRIALS} in a row they are fitted in the process that serves, and answers "
    "may wait for them."
)


class ModelWorker:
    """Worker that fits models, in a process of its own: answers wait for no fit.

    A process that ends, as for want of memory, is started again; where several end one
    after the other, as where none can be started, models are fitted here, and so are
    those of a user's own, which another process does not know. What they warn of is
    noted.

    Threads may use it at once.

    Args:
        experiment: Whose models they are.
        apart: Whether to do so. In a notebook cells run beside it, and warnings are
            theirs as well: all work is done there as if by a cell.
    """

    def __init__(self, experiment: PreferenceExperiment, apart: bool = True) -> None:
        self.experiment = experiment
        self._apart = apart
        self._notes = ModelNotes()
        self._process: ModelProcess | None = None
        self._ended_in_a_row = 0
        self._lock = Lock()
        self._findings_turn = Lock()
        self._found: tuple[str, dict[str, Any]] | None = None
        settings = experiment.settings
        classes = (
            model_classes()[settings.model],
            acquisition_classes()[settings.acquisition],
        )
        modules = [one.__module__.partition(".")[0] for one in classes]
        self._can_move = apart and modules == [_PACKAGE, _PACKAGE]

    @property
    def num_answers(self) -> int:
        """Number of answers that stand."""
        return self.experiment.num_answers

    def start(self) -> ModelProcess | None:
        """Starts the other process if there is none; None if there cannot be one."""
        with self._lock:
            if self._process is None and self._can_move:
                try:
                    self._process = ModelProcess()
                except OSError:
                    self._can_move = False
            return self._process

    def awaited(self) -> bool:
        """Whether the other process is ready, once that is known.

        It is started, and started again, if need be.
        """
        while (process := self.start()) is not None:
            if process.started():
                return True
            self._replace(process)
        return False

    def elsewhere(self, job: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """The result of a job in the other process, which was `awaited`.

        Args:
            job: A function of a module of this package.
            args: Of the function.
            kwargs: Of the function.

        Raises:
            BotorchPrefError: Of the job.
            EOFError: There is no other process, or it has ended.
        """
        process, notes = self._process, list[str]()
        try:
            if process is None:
                raise EOFError("There is no process that fits models.")
            result = process.run(notes, job, *args, **kwargs)
        except EOFError:
            self._replace(process)
            raise
        else:
            self._ended_in_a_row = 0
            return result
        finally:
            self._notes.add(notes)

    def here(self, job: Callable[[], T]) -> T:
        """The result of a job in this process.

        Args:
            job: Fits models, or asks what they say.

        Raises:
            RuntimeError: A user's model would end the process.
        """
        notes: list[str] = []
        try:
            return run_noted(notes, job) if self._apart else job()
        # What ends a script ends no server, and no thread that others wait for.
        except SystemExit as error:
            raise RuntimeError(f"A model has raised SystemExit: {error}") from error
        finally:
            self._notes.add(notes)

    def findings(self) -> dict[str, Any]:
        """Findings from the answers so far, see `experiment_findings`.

        Returns:
            Also ``warnings``: what models warned of since the start, each a ``text``
            and how many ``times``.

        Raises:
            ExperimentError: There is no answer yet.
        """
        # Who asks at the same time gets the same.
        with self._findings_turn:
            now = self.experiment.version
            if self._found is None or self._found[0] != now:
                self._found = (now, self._new_findings())
            return {**self._found[1], "warnings": self._notes.to_json()}

    def _new_findings(self) -> dict[str, Any]:
        while self.num_answers and self.awaited():
            with suppress(EOFError):
                return self.elsewhere(findings_of, packed_state(self.experiment))
        experiment = self.experiment
        return self.here(
            lambda: experiment_findings(experiment.experiment, experiment.settings)
        )

    def _replace(self, process: ModelProcess | None) -> None:
        """Lets the next `start` replace a process that has ended, if there were few.

        Nothing changes for one that was closed, or that another thread has replaced.
        """
        with self._lock:
            if process is None or self._process is not process:
                return
            self._process = None
            self._ended_in_a_row += 1
            self._can_move = self._ended_in_a_row < _TRIALS
            self._notes.add([_AGAIN if self._can_move else _WITHOUT])
        process.close()

    def close(self) -> None:
        """Ends the other process if there is one; further work is done here."""
        with self._lock:
            self._can_move = False
            process, self._process = self._process, None
        if process is not None:
            process.close()
