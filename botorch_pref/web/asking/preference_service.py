"""Calls that the page and the widget make, in terms of JSON."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Mapping
from typing import Any

from botorch_pref.ax import PreferenceExperiment, Question
from botorch_pref.ax.projection import batch
from botorch_pref.ax.settings import SHARE
from botorch_pref.errors import BotorchPrefError, ExperimentError
from botorch_pref.web.asking.ask_error import AskError
from botorch_pref.web.asking.design_form import design_form
from botorch_pref.web.asking.given_json import (
    given_index,
    given_keywords,
    given_options,
    given_patience,
    given_rater,
)
from botorch_pref.web.asking.offered_kinds import offered_kinds
from botorch_pref.web.asking.question_desk import QuestionDesk
from botorch_pref.web.asking.question_renderer import MediaAddress, QuestionRenderer
from botorch_pref.web.modelling.model_worker import ModelWorker
from botorch_pref.web.modelling.question_source import QuestionSource
from botorch_pref.web.showing.content import Media
from botorch_pref.web.showing.number_table import NumberTable
from botorch_pref.web.showing.presenter import Presenter, Show

PATIENCE = 8.0
"""Seconds after which a call for a question says that it is still being chosen."""

JSON = dict[str, Any]


class PreferenceService:
    """Service of an experiment to a page or a widget: JSON in, JSON out.

    Args:
        experiment: Whose questions are answered.
        address: Where a browser finds media.
        show: See `Presenter`.
        kinds: See `offered_kinds`.
        size: How many options a question shows.
        apart: Whether models are fitted in a process of their own, see `ModelWorker`.

    Raises:
        ExperimentError: The model does not take one of the kinds.
    """

    def __init__(
        self,
        experiment: PreferenceExperiment,
        address: MediaAddress,
        *,
        show: Show | NumberTable | None = None,
        kinds: Collection[str] | None = None,
        size: int = 2,
        apart: bool = True,
    ) -> None:
        space = experiment.experiment.search_space
        presenter = Presenter(space, show)
        offered = {size: offered_kinds(experiment, size, kinds)}
        self._renderer = QuestionRenderer(experiment, presenter, address, offered)
        self._initial = experiment.settings.initial
        units = show.units if isinstance(show, NumberTable) else {}
        self._form = design_form(space, units)
        self.name = experiment.experiment.name
        self._names_needed = experiment.settings.raters == SHARE
        self._worker = ModelWorker(experiment, apart)
        self._source = QuestionSource(experiment, self._worker, size)
        self.desk = QuestionDesk(experiment, self._source, presenter.prepare)

    def open(self) -> None:
        """Prepares the process that the first rater would await."""
        self._source.prepare(num_raters=1)

    def question(self, given: Mapping[str, Any]) -> JSON:
        """The question that a rater is asked now.

        Args:
            given: ``rater``, and ``patience`` in seconds if it is not `PATIENCE`.

        Returns:
            ``question``, its number, ``options``, their parameters, ``shown``, what is
            shown of each, ``kinds``, and ``last``, the number of the question that
            ``undo`` would bring back, or None; or ``question`` None and ``waited`` in
            seconds while it is being chosen or drawn.

        Raises:
            AskError: It needs a name, or cannot be shown.
        """
        rater, patience = self._asker(given), given_patience(given, PATIENCE)
        until = time.monotonic() + patience
        question = self.desk.question(rater, patience)
        return self._asked(rater, question, until - time.monotonic())

    def claim(self, given: Mapping[str, Any]) -> JSON:
        """Hands a rater what was asked before the name was known.

        Args:
            given: ``rater``.

        Returns:
            See `question`.

        Raises:
            ExperimentError: There is no name.
        """
        rater = given_rater(given)
        if rater is None:
            raise ExperimentError("rater is missing; give the name that was entered.")
        self.desk.claim(rater)
        return self._asked(rater, self.desk.question(rater, patience=0.0))

    def answer(self, given: Mapping[str, Any]) -> JSON:
        """Stores an answer.

        Args:
            given: ``question``, ``rater``, and keywords of ``tell``; and perhaps the
                name of the ``experiment``, which must be this one then.

        Returns:
            ``stored``, the number of the question, and ``next``, see `question`.
        """
        rater, index = given_rater(given), given_index(given)
        about = given.get("experiment", self.name)
        if about != self.name:
            raise ExperimentError(
                f"This answer is to a question of the experiment {str(about)[:100]}. "
                f"This page asks about {self.name} now."
            )
        self.desk.answer(rater, index, given_keywords(given))
        return {"stored": index, "next": self._next(rater)}

    def skip(self, given: Mapping[str, Any]) -> JSON:
        """Withdraws a question that is not to be answered.

        Args:
            given: ``question`` and ``rater``.

        Returns:
            ``skipped``, the number of the question, and ``next``, see `question`.
        """
        rater, index = given_rater(given), given_index(given)
        self.desk.skip(rater, index)
        return {"skipped": index, "next": self._next(rater)}

    def undo(self, given: Mapping[str, Any]) -> JSON:
        """Takes back what a rater did last.

        Args:
            given: ``rater``, and ``question``, the number of what was the ``last`` one.
                Sent again, it undoes nothing more; without ``question`` it does.

        Returns:
            See `question`.

        Raises:
            AnswerConflictError: Another question was answered or skipped since.
        """
        rater = given_rater(given)
        named = given.get("question") is not None
        undone = self.desk.undo(rater, given_index(given) if named else None)
        return self._asked(rater, undone, PATIENCE)

    def own(self, given: Mapping[str, Any]) -> JSON:
        """A question about designs of a rater's own.

        Args:
            given: ``rater`` and ``options``.

        Returns:
            See `question`.
        """
        rater = self._asker(given)
        own = self.desk.ask_own(rater, given_options(given))
        return self._asked(rater, own, PATIENCE)

    def progress(self, given: Mapping[str, Any]) -> JSON:
        """Progress of the experiment.

        Args:
            given: ``rater``.

        Returns:
            The experiment's ``name``, how many answers are ``answered`` in all and
            ``yours``, how many questions are ``pending``, how many answers the model
            needs before it chooses (``initial``), and the names of all ``raters``.
        """
        rater, experiment = given_rater(given), self.desk.experiment
        answers = self.desk.answers()
        return {
            "name": self.name,
            "answered": len(answers),
            "yours": sum(one.rater == rater for one in answers),
            "pending": len(experiment.pending),
            "initial": self._initial,
            "raters": sorted({one.rater for one in answers if one.rater is not None}),
        }

    def history(self, given: Mapping[str, Any]) -> JSON:
        """The answers of a rater.

        Args:
            given: ``rater``.

        Returns:
            ``answers``, the latest first: for each the question's number, ``options``
            and what was ``shown``, what was ``said``, and when (``time``).
        """
        answers = self.desk.answers()
        mine = [one for one in answers if one.rater == given_rater(given)]
        return {"answers": [self._renderer.answered(one) for one in mine[:50]]}

    def form(self, given: Mapping[str, Any]) -> JSON:
        """The form for a design of one's own.

        Args:
            given: Nothing.
        """
        return {"fields": self._form}

    def findings(self, given: Mapping[str, Any]) -> JSON:
        """Findings from the answers, for who runs the experiment.

        Args:
            given: Nothing.
        """
        return self._worker.findings()

    def media(self, index: int, option: int, part: int) -> Media:
        """A picture, a sound or a film of a question.

        Args:
            index: The number of the question.
            option: The place of the option.
            part: The place of the part in what is shown of it.

        Raises:
            ExperimentError: There is no such thing.
        """
        trial = self.desk.experiment.experiment.trials.get(index)
        question = None if trial is None else Question.of_trial(batch(trial))
        found = question and self._renderer.media(question, option, part)
        if not found:
            raise ExperimentError("There is no such picture, sound or film.")
        return found

    def close(self) -> None:
        """Ends what chooses questions and what draws options."""
        self.desk.close()
        self._renderer.close()

    def _asker(self, given: Mapping[str, Any]) -> str | None:
        """Name of who is asked."""
        rater = given_rater(given)
        if rater is None and self._names_needed:
            raise AskError("Everybody here is asked under a name.", needs="name")
        return rater

    def _next(self, rater: str | None) -> JSON | None:
        """The next question if it is there at once; else None."""
        try:
            found = self._asked(rater, self.desk.question(rater, patience=0.0))
            return None if found["question"] is None else found
        # What was sent is stored; who asks for the question hears what is wrong.
        except BotorchPrefError:
            return None

    def _asked(
        self, rater: str | None, question: Question | None, patience: float = 0.0
    ) -> JSON:
        asked = None if question is None else self._renderer.asked(question, patience)
        if asked is None:
            return {"question": None, "waited": round(self.desk.waited(rater), 1)}
        return {**asked, "rater": rater, "last": self.desk.last(rater)}


CALLS: dict[str, Callable[[PreferenceService, Mapping[str, Any]], JSON]] = {
    "question": PreferenceService.question,
    "answer": PreferenceService.answer,
    "skip": PreferenceService.skip,
    "claim": PreferenceService.claim,
    "undo": PreferenceService.undo,
    "own": PreferenceService.own,
    "progress": PreferenceService.progress,
    "history": PreferenceService.history,
    "form": PreferenceService.form,
    "findings": PreferenceService.findings,
}
"""What a page or a widget may call, by name."""
