"""Source of the questions of an experiment, here or from another process."""

from __future__ import annotations

from botorch_pref.ax import PreferenceExperiment, Question
from botorch_pref.ax.asking_elsewhere import ask_chosen, packed_state
from botorch_pref.ax.naming.names import acquisition_classes, model_classes
from botorch_pref.web.asking.answer_history import answered_questions
from botorch_pref.web.asking.choosing_process import ChoosingProcess

_PACKAGE = __name__.partition(".")[0]


class QuestionSource:
    """Source of questions.

    One person reads while a model is fitted: the next question is chosen here, ahead.
    Where several people answer, somebody always waits for a question and somebody else
    answers one, and fits hold up all that happens in their process: another one
    chooses, as soon as the model does and that process is ready.

    Args:
        experiment: Whose questions they are.
        size: How many options a question shows.
    """

    def __init__(self, experiment: PreferenceExperiment, size: int) -> None:
        self._experiment = experiment
        self._size = size
        self._process: ChoosingProcess | None = None
        # Classes of a user's own are not known elsewhere.
        settings = experiment.settings
        classes = (
            model_classes()[settings.model],
            acquisition_classes()[settings.acquisition],
        )
        modules = [one.__module__.partition(".")[0] for one in classes]
        self._can_move = modules == [_PACKAGE, _PACKAGE]

    def ask(self, rater: str | None, num_raters: int) -> Question:
        """The next question.

        Args:
            rater: Who is asked.
            num_raters: How many people answer.

        Raises:
            BotorchPrefError: There is none, or it cannot be kept.
        """
        if self._can_move and num_raters > 1 and self._process is None:
            answers = len(answered_questions(self._experiment.experiment))
            # It starts while the last questions of the spread are answered.
            if answers + num_raters >= self._experiment.settings.initial:
                self._process = ChoosingProcess()
        if self._process is None or not self._process.ready:
            return self._experiment.ask(self._size, rater=rater)
        try:
            state = packed_state(self._experiment)
            choice = self._process.choose(state, self._size, rater)
        except EOFError:
            self.close()
            self._can_move = False
            return self._experiment.ask(self._size, rater=rater)
        return ask_chosen(self._experiment, choice, rater)

    def close(self) -> None:
        """Ends the other process if there is one."""
        if self._process is not None:
            self._process.close()
            self._process = None
