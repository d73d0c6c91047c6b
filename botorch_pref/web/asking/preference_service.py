"""Calls that the page and the widget make, in terms of JSON."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Any

from botorch_pref.ax import PreferenceExperiment, Question
from botorch_pref.errors import ExperimentError
from botorch_pref.web.asking.answer_history import AnsweredQuestion
from botorch_pref.web.asking.design_form import design_form
from botorch_pref.web.asking.experiment_findings import experiment_findings
from botorch_pref.web.asking.given_json import (
    given_index,
    given_keywords,
    given_options,
    given_patience,
    given_rater,
)
from botorch_pref.web.asking.offered_kinds import offered_kinds
from botorch_pref.web.asking.question_desk import QuestionDesk
from botorch_pref.web.showing.content import Content, Media
from botorch_pref.web.showing.number_table import NumberTable
from botorch_pref.web.showing.presenter import Presenter, Show

PATIENCE = 8.0
"""Seconds after which a call for a question says that it is still being chosen."""

JSON = dict[str, Any]
MediaAddress = Callable[[int, int, int, Media], str]
"""Address of a part of an option of a question, by their numbers."""


class PreferenceService:
    """Service of an experiment to a page or a widget: JSON in, JSON out.

    Args:
        experiment: Whose questions are answered.
        address: Where a browser finds media.
        show: See `Presenter`.
        kinds: See `offered_kinds`.
        size: How many options a question shows.

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
    ) -> None:
        space = experiment.experiment.search_space
        self._address = address
        self._presenter = Presenter(space, show)
        self._kinds = {size: offered_kinds(experiment, size, kinds)}
        self._num_levels = experiment.num_levels
        self._initial = experiment.settings.initial
        units = show.units if isinstance(show, NumberTable) else {}
        self._form = design_form(space, units)
        self.name = experiment.experiment.name
        self.desk = QuestionDesk(experiment, size)

    def question(self, given: Mapping[str, Any]) -> JSON:
        """The question that a rater is asked now.

        Args:
            given: ``rater``, and ``patience`` in seconds if it is not `PATIENCE`.

        Returns:
            ``question``, its number, ``options``, their parameters, ``shown``, what is
            shown of each, and ``kinds``; or ``question`` None and ``waited`` in seconds
            while it is being chosen.
        """
        rater, patience = given_rater(given), given_patience(given, PATIENCE)
        return self._asked(rater, self.desk.question(rater, patience))

    def answer(self, given: Mapping[str, Any]) -> JSON:
        """Stores an answer.

        Args:
            given: ``question``, ``rater``, and keywords of ``tell``.

        Returns:
            ``stored``, the number of the question, and ``next``, see `question`.
        """
        rater, index = given_rater(given), given_index(given)
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
            given: ``rater``.

        Returns:
            See `question`.
        """
        rater = given_rater(given)
        return self._asked(rater, self.desk.undo(rater))

    def own(self, given: Mapping[str, Any]) -> JSON:
        """A question about designs of a rater's own.

        Args:
            given: ``rater`` and ``options``.

        Returns:
            See `question`.
        """
        rater = given_rater(given)
        return self._asked(rater, self.desk.ask_own(rater, given_options(given)))

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
        return {"answers": [self._answered(one) for one in mine[:50]]}

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
        return experiment_findings(self.desk.experiment)

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
        if trial is not None:
            contents = self._presenter.contents(Question.of_trial(trial))  # type: ignore[arg-type]
            if option < len(contents) and part < len(contents[option]):
                found = contents[option][part]
                if isinstance(found, Media):
                    return found
        raise ExperimentError("There is no such picture, sound or film.")

    def _next(self, rater: str | None) -> JSON | None:
        """The next question if it is there at once; else None."""
        question = self.desk.question(rater, patience=0.0)
        return None if question is None else self._asked(rater, question)

    def _asked(self, rater: str | None, question: Question | None) -> JSON:
        if question is None:
            return {"question": None, "waited": round(self.desk.waited(rater), 1)}
        size = len(question.options)
        if size not in self._kinds:
            self._kinds[size] = offered_kinds(self.desk.experiment, size)
        return {
            "question": question.index,
            "rater": rater,
            "options": list(question.options),
            "shown": self._shown(question),
            "kinds": self._kinds[size],
            "levels": self._num_levels,
        }

    def _shown(self, question: Question) -> list[list[JSON]]:
        """Contents of each option, as the page takes them."""

        def part(option: int, place: int, content: Content) -> JSON:
            return content.to_json(
                lambda media: self._address(question.index, option, place, media)
            )

        return [
            [part(option, place, content) for place, content in enumerate(contents)]
            for option, contents in enumerate(self._presenter.contents(question))
        ]

    def _answered(self, answered: AnsweredQuestion) -> JSON:
        return {
            "question": answered.question.index,
            "options": list(answered.question.options),
            "shown": self._shown(answered.question),
            "said": answered.said,
            "time": answered.time,
        }


CALLS: dict[str, Callable[[PreferenceService, Mapping[str, Any]], JSON]] = {
    "question": PreferenceService.question,
    "answer": PreferenceService.answer,
    "skip": PreferenceService.skip,
    "undo": PreferenceService.undo,
    "own": PreferenceService.own,
    "progress": PreferenceService.progress,
    "history": PreferenceService.history,
    "form": PreferenceService.form,
    "findings": PreferenceService.findings,
}
"""What a page or a widget may call, by name."""
