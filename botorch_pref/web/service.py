"""Calls that the page and the widget make, in terms of JSON."""

from __future__ import annotations

import json
import math
import time
import unicodedata
from collections.abc import Callable, Collection, Mapping
from dataclasses import fields
from typing import Any

from botorch_pref.ax import Answer, PreferenceExperiment, Question
from botorch_pref.ax.settings import SHARE
from botorch_pref.errors import BotorchPrefError, ExperimentError
from botorch_pref.web.contents import Media, NumberTable, Presenter, Show
from botorch_pref.web.desk import QuestionDesk
from botorch_pref.web.rendering import (
    AskError,
    MediaAddress,
    QuestionRenderer,
    design_form,
    offered_kinds,
)
from botorch_pref.web.worker import ModelWorker, QuestionSource

_LONGEST_NAME = 100
_LONGEST_NOTE = 2000
_NO_NAME = ("Cc", "Cs", "Zl", "Zp")
"""Categories of Unicode that are in no name: control characters, halves of others, and
what ends lines. Joiners and blanks of all kinds are in names."""
_ABOUT = ("question", "rater", "token", "experiment")
_KEYWORDS = (*(one.name for one in fields(Answer)), "note", "seconds")


def given_object(body: bytes | bytearray) -> dict[str, Any]:
    """The JSON object of a request's body, all of whose numbers are finite.

    Args:
        body: As it was sent.

    Raises:
        ExperimentError: It is something else.
    """
    try:
        given = json.loads(body, parse_constant=_finite, parse_float=_finite)
    except (ValueError, RecursionError) as error:
        raise ExperimentError(f"The body is not JSON: {error}.") from error
    if not isinstance(given, dict):
        raise ExperimentError("The body is no JSON object.")
    return given


def _finite(text: str) -> float:
    """A number, which may be too large for a float or none at all."""
    number = float(text)
    if not math.isfinite(number):
        raise ValueError(f"the number {text[:_LONGEST_NAME]} is not finite")
    return number


def given_rater(given: Mapping[str, Any]) -> str | None:
    """The name of a rater; None for nobody in particular.

    Args:
        given: With ``rater``, or without.

    Raises:
        AskError: It is no text, or too long, or cannot be printed.
    """
    rater = given.get("rater")
    if rater is None:
        return None
    if not isinstance(rater, str):
        raise AskError("The rater's name is no text; enter a name.", needs="name")
    if len(rater) > _LONGEST_NAME:
        raise AskError(
            f"The rater's name has more than {_LONGEST_NAME} characters; enter a "
            "shorter one.",
            needs="name",
        )
    if any(unicodedata.category(character) in _NO_NAME for character in rater):
        raise AskError(
            "The rater's name has characters that cannot be printed; enter it without "
            "them.",
            needs="name",
        )
    # Phones differ in how they write an accent, and names in their blanks.
    return " ".join(unicodedata.normalize("NFC", rater).split()) or None


def given_index(given: Mapping[str, Any]) -> int:
    """The number of a question.

    Args:
        given: With ``question``.

    Raises:
        ExperimentError: It is none.
    """
    index = given.get("question")
    if not isinstance(index, int) or isinstance(index, bool):
        raise ExperimentError(
            f"question is {index!r}; give the number of the question that is answered."
        )
    return index


def given_patience(given: Mapping[str, Any], most: float) -> float:
    """Seconds for which a call may wait.

    Args:
        given: With ``patience``, or without.
        most: If nothing else is given, and at most.

    Raises:
        ExperimentError: It is no number.
    """
    try:
        patience = float(given.get("patience", most))
    # No float is as large as an integer can be.
    except (TypeError, ValueError, OverflowError) as error:
        raise ExperimentError(
            f"patience is {given['patience']!r}; give seconds."
        ) from error
    # What is not a number is not less either.
    return patience if patience < most else most


def given_keywords(given: Mapping[str, Any]) -> dict[str, Any]:
    """Keywords of ``tell``.

    Args:
        given: With ``question`` and ``rater`` beside them.

    Raises:
        ExperimentError: There are others.
    """
    said = {k: v for k, v in given.items() if k not in _ABOUT}
    if unknown := sorted(set(said) - set(_KEYWORDS)):
        raise ExperimentError(
            f"An answer has no {', '.join(unknown)[:_LONGEST_NAME]}; say one of "
            f"{', '.join(_KEYWORDS)}."
        )
    note = said.get("note")
    if isinstance(note, str) and len(note) > _LONGEST_NOTE:
        raise ExperimentError(f"The note is longer than {_LONGEST_NOTE} characters.")
    if isinstance(note, str) and any(unicodedata.category(c) == "Cs" for c in note):
        raise ExperimentError(f"The note {note[:_LONGEST_NAME]!r} is no text.")
    return said


def given_options(given: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """Designs of a person's own.

    Args:
        given: With ``options``.

    Raises:
        ExperimentError: They are no list of designs.
    """
    options = given.get("options")
    if not isinstance(options, list) or not all(
        isinstance(option, Mapping) for option in options
    ):
        raise ExperimentError(
            "options is no list of designs; give two or more, each the values of its "
            "parameters by name."
        )
    return options


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
        question = None if trial is None else Question.of_trial(trial)
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
