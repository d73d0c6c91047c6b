"""Source of the questions of an experiment."""

from __future__ import annotations

from contextlib import suppress

from botorch_pref.ax import PreferenceExperiment, Question
from botorch_pref.ax.asking_elsewhere import ask_chosen, packed_choice, packed_state
from botorch_pref.errors import ExperimentError
from botorch_pref.web.modelling.model_worker import ModelWorker

_LEAD = 5
"""Answers before the model chooses at which its process starts, which takes seconds."""


class QuestionSource:
    """Source of questions: the spread's from here, the model's from the worker.

    Args:
        experiment: Whose questions they are.
        worker: Of the experiment.
        size: How many options a question shows.
    """

    def __init__(
        self, experiment: PreferenceExperiment, worker: ModelWorker, size: int
    ) -> None:
        self._experiment = experiment
        self._worker = worker
        self._size = size
        self._closed = False

    def prepare(self, num_raters: int) -> None:
        """Starts the worker's process in time for the first question of the model.

        Args:
            num_raters: How many people answer.
        """
        initial = self._experiment.settings.initial
        if self._worker.num_answers + num_raters + _LEAD >= initial:
            self._worker.start()

    def ask(self, rater: str | None, num_raters: int) -> Question:
        """The next question.

        Args:
            rater: Who is asked.
            num_raters: How many people answer.

        Raises:
            BotorchPrefError: There is none, or it cannot be kept, or the source was
                closed meanwhile.
        """
        self.prepare(num_raters)
        due = self._worker.num_answers >= self._experiment.settings.initial
        # The worker starts a process that has ended again, and gives up after a few.
        while due and self._worker.awaited():
            with suppress(EOFError):
                state = packed_state(self._experiment)
                choice = self._worker.elsewhere(packed_choice, state, self._size, rater)
                return ask_chosen(self._experiment, choice, rater)
        if self._closed:
            raise ExperimentError("No more questions are asked: this is being closed.")
        return self._worker.here(lambda: self._experiment.ask(self._size, rater=rater))

    def close(self) -> None:
        """Ends the worker's process, also for who waits for it now."""
        self._closed = True
        self._worker.close()
