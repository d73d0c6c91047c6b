"""Renderer of questions and answers, in terms of JSON."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from botorch_pref.ax import PreferenceExperiment, Question
from botorch_pref.errors import ExperimentError
from botorch_pref.web.asking.answer_history import AnsweredQuestion
from botorch_pref.web.asking.ask_error import AskError
from botorch_pref.web.asking.offered_kinds import offered_kinds
from botorch_pref.web.showing.content import Content, Contents, Media, Text
from botorch_pref.web.showing.presenter import Presenter

JSON = dict[str, Any]
MediaAddress = Callable[[int, int, int, Media], str]
"""Address of a part of an option of a question, by their numbers."""

_AT_ONCE = 0.05
"""Seconds for which also those wait who wait for nothing."""


class QuestionRenderer:
    """Renderer of the questions of an experiment, and of the answers to them.

    Args:
        experiment: Whose questions they are.
        presenter: Of what is shown of an option.
        address: Where a browser finds media.
        kinds: Keywords of ``tell`` that are offered, by the number of options; for
            other numbers all that the model takes.
    """

    def __init__(
        self,
        experiment: PreferenceExperiment,
        presenter: Presenter,
        address: MediaAddress,
        kinds: Mapping[int, tuple[str, ...]],
    ) -> None:
        self._experiment = experiment
        self._presenter = presenter
        self._address = address
        self._kinds = dict(kinds)
        self._name = experiment.experiment.name
        self._num_levels = experiment.num_levels

    def asked(self, question: Question, patience: float) -> JSON | None:
        """A question as the page takes it.

        Args:
            question: Of the experiment.
            patience: How many seconds to wait for what is shown of its options.

        Returns:
            The question; None while that is in the making.

        Raises:
            AskError: It cannot be shown.
        """
        try:
            # What is made in no time at all is awaited.
            contents = self._presenter.contents(question, max(patience, _AT_ONCE))
        except ExperimentError as error:
            raise AskError(str(error), question=question.index) from error
        if contents is None:
            return None
        size = len(question.options)
        if size not in self._kinds:
            self._kinds[size] = offered_kinds(self._experiment, size)
        return {
            "question": question.index,
            "experiment": self._name,
            "options": list(question.options),
            "shown": self._shown(question, contents),
            "kinds": self._kinds[size],
            "levels": self._num_levels,
        }

    def answered(self, answered: AnsweredQuestion) -> JSON:
        """An answer as the page takes it.

        Args:
            answered: Of the experiment. Where its options cannot be shown any more, the
                reason is.
        """
        question = answered.question
        try:
            contents = self._contents(question)
        except ExperimentError as error:
            contents = [(Text(str(error)),)] * len(question.options)
        return {
            "question": question.index,
            "options": list(question.options),
            "shown": self._shown(question, contents),
            "said": answered.said,
            "time": answered.time,
        }

    def media(self, question: Question, option: int, part: int) -> Media | None:
        """A picture, a sound or a film of a question; None if there is no such thing.

        Args:
            question: Of the experiment.
            option: The place of the option.
            part: The place of the part in what is shown of it.

        Raises:
            ExperimentError: It cannot be shown any more.
        """
        contents = self._contents(question)
        if option >= len(contents) or part >= len(contents[option]):
            return None
        found = contents[option][part]
        return found if isinstance(found, Media) else None

    def close(self) -> None:
        """Draws no more."""
        self._presenter.close()

    def _contents(self, question: Question) -> list[Contents]:
        """Contents of a question, however long it takes."""
        contents = self._presenter.contents(question)
        assert contents is not None
        return contents

    def _shown(self, question: Question, contents: list[Contents]) -> list[list[JSON]]:
        def part(option: int, place: int, content: Content) -> JSON:
            return content.to_json(
                lambda media: self._address(question.index, option, place, media)
            )

        return [
            [part(option, place, content) for place, content in enumerate(shown)]
            for option, shown in enumerate(contents)
        ]
