"""Calls that the page and the widget make, in terms of JSON.

`docs/web.md` has a table of them: what each sends and gets.
"""

from __future__ import annotations

import json
import math
import time
import unicodedata
from collections.abc import Collection, Mapping
from contextlib import suppress
from dataclasses import fields
from typing import Any

from botorch_pref.ax import Answer, PreferenceExperiment, Question
from botorch_pref.ax.given import given_integer
from botorch_pref.ax.log import Event
from botorch_pref.ax.questions import MOST_OPTIONS
from botorch_pref.ax.settings import SHARE
from botorch_pref.errors import BotorchPrefError, ExperimentError
from botorch_pref.web import rendering
from botorch_pref.web.desk import QuestionDesk
from botorch_pref.web.worker import JSON, ModelWorker

# --- What is given

_LONGEST_NAME = 100
_LONGEST_NOTE = 2000
_NO_NAME = ("Cc", "Cs", "Zl", "Zp")
"""Categories of Unicode that are in no name: control characters, halves of others, and
what ends lines. Joiners and blanks of all kinds are in names."""

_ABOUT = ("question", "rater", "token", "experiment")
_KEYWORDS = (*(one.name for one in fields(Answer)), "note", "seconds")

PATIENCE = 8.0
"""Seconds after which a call for a question says that it is still being chosen."""


def given_object(body: bytes | bytearray) -> JSON:
    """The JSON object of a request's body, all of whose numbers are finite."""
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
    """The name of a rater; None for nobody in particular."""
    rater = given.get("rater")
    if rater is None:
        return None
    if not isinstance(rater, str):
        wrong = "is no text; enter a name."
    elif len(rater) > _LONGEST_NAME:
        wrong = f"has more than {_LONGEST_NAME} characters; enter a shorter one."
    elif any(unicodedata.category(character) in _NO_NAME for character in rater):
        wrong = "has characters that cannot be printed; enter it without them."
    else:
        # Phones differ in how they write an accent, and names in their blanks.
        return " ".join(unicodedata.normalize("NFC", rater).split()) or None
    raise rendering.AskError(f"The rater's name {wrong}", needs="name")


def given_patience(given: Mapping[str, Any]) -> float:
    """Seconds for which a call may wait, at most `PATIENCE`."""
    try:
        patience = float(given.get("patience", PATIENCE))
    # An integer may be too large for a float.
    except (TypeError, ValueError, OverflowError) as error:
        raise ExperimentError(
            f"patience is {given['patience']!r}; give seconds."
        ) from error
    # NaN is not less than anything.
    return patience if patience < PATIENCE else PATIENCE


def given_keywords(given: Mapping[str, Any]) -> JSON:
    """Keywords of ``tell``, beside which ``question`` and ``rater`` may be given."""
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
    """Designs of a person's own."""
    options = given.get("options")
    if isinstance(options, list) and all(isinstance(one, Mapping) for one in options):
        return options
    raise ExperimentError(
        "options is no list of designs; give two or more, each the values of its "
        "parameters by name."
    )


# --- The service

READS = ("question", "progress", "history", "form", "findings")
WRITES = ("answer", "skip", "undo", "own", "claim")
"""What a page or a widget may call: methods of `PreferenceService`."""

_AT_ONCE = 0.05
"""Seconds for which every call waits until the options are drawn."""


class PreferenceService:
    """Service of an experiment to a page or a widget: JSON in, JSON out.

    ``apart`` says whether models are fitted in a process of their own. Of the others
    see `make_app`, and `Presenter`.
    """

    def __init__(
        self,
        experiment: PreferenceExperiment,
        address: rendering.MediaAddress,
        *,
        show: rendering.Show | rendering.NumberTable | None = None,
        kinds: Collection[str] | None = None,
        size: int | None = None,
        apart: bool = True,
    ) -> None:
        if size is None:
            # The usual number, or 2 where no wanted kind is of more.
            of_many = kinds is None or {"best", "ranking"} & set(kinds)
            size = experiment.default_size if of_many else 2
        size = given_integer("size", size, 2, MOST_OPTIONS)
        space = experiment.experiment.search_space
        units = show.units if isinstance(show, rendering.NumberTable) else {}
        self.name = experiment.experiment.name
        self._form = rendering.design_form(space, units)
        # Questions of a person's own may show another number of options.
        self._kinds = {size: rendering.offered_kinds(experiment, size, kinds)}
        self._num_levels = experiment.num_levels
        self._presenter = rendering.Presenter(space, show, address)
        self._worker = ModelWorker(experiment, size, apart)
        self._desk = QuestionDesk(experiment, self._worker, self._presenter.prepare)

    def open(self) -> None:
        """Prepares the process that the first rater would wait for."""
        self._worker.prepare(num_raters=1)

    def close(self) -> None:
        """Ends what chooses questions and what draws options."""
        self._desk.close()
        self._presenter.close()

    def question(self, given: Mapping[str, Any]) -> JSON:
        """The question that a rater is asked now, if it is there in time."""
        rater, until = self._asker(given), time.monotonic() + given_patience(given)
        question = self._desk.question(rater, until - time.monotonic())
        return self._asked(rater, question, until - time.monotonic())

    def claim(self, given: Mapping[str, Any]) -> JSON:
        """Hands a rater the question that was asked before the name was known."""
        rater = given_rater(given)
        if rater is None:
            raise ExperimentError("rater is missing; give the name that was entered.")
        self._desk.claim(rater)
        return self._asked(rater, self._desk.question(rater, patience=0.0))

    def answer(self, given: Mapping[str, Any]) -> JSON:
        """Stores an answer, to this ``experiment`` where its name is given."""
        rater, index = given_rater(given), given.get("question")
        about = given.get("experiment", self.name)
        if about != self.name:
            raise ExperimentError(
                f"This answer is to a question of the experiment {str(about)[:100]}. "
                f"This page asks about {self.name} now."
            )
        self._desk.answer(rater, index, given_keywords(given))
        return {"stored": index, "next": self._next(rater)}

    def skip(self, given: Mapping[str, Any]) -> JSON:
        """Withdraws a question that is not to be answered."""
        rater, index = given_rater(given), given.get("question")
        self._desk.skip(rater, index)
        return {"skipped": index, "next": self._next(rater)}

    def undo(self, given: Mapping[str, Any]) -> JSON:
        """Takes back what a rater did last; with the number of that question, once."""
        rater = given_rater(given)
        undone = self._desk.undo(rater, given.get("question"))
        return self._asked(rater, undone, PATIENCE)

    def own(self, given: Mapping[str, Any]) -> JSON:
        """A question about designs of a rater's own."""
        rater = self._asker(given)
        own = self._desk.ask_own(rater, given_options(given))
        return self._asked(rater, own, PATIENCE)

    def progress(self, given: Mapping[str, Any]) -> JSON:
        """How many answers there are, in all and of the rater, and whose."""
        rater, experiment = given_rater(given), self._desk.experiment
        answers = self._desk.answers()
        return {
            "name": self.name,
            "answered": len(answers),
            "yours": sum(one.rater == rater for one in answers),
            "pending": len(experiment.pending),
            "initial": experiment.settings.initial,
            "raters": sorted({one.rater for one in answers if one.rater is not None}),
        }

    def history(self, given: Mapping[str, Any]) -> JSON:
        """The last fifty answers of a rater, the latest first."""
        rater = given_rater(given)
        mine = [one for one in self._desk.answers() if one.rater == rater]
        return {"answers": [self._answered(one) for one in mine[:50]]}

    def form(self, given: Mapping[str, Any]) -> JSON:
        """The form for a design of one's own."""
        return {"fields": self._form}

    def findings(self, given: Mapping[str, Any]) -> JSON:
        """Findings from the answers, for the person who runs the experiment.

        The recommended option is ``shown`` as questions show it; without it where the
        user's function fails, which its questions say.
        """
        found = self._worker.findings()
        where = found["recommended"]
        with suppress(ExperimentError):
            shown = self._presenter.shown(
                self._desk.experiment.question(where["question"])
            )
            assert shown is not None
            found["recommended"] = {**where, "shown": shown[where["place"]]}
        return found

    def media(self, index: int, option: int, part: int) -> rendering.Media:
        """A picture, a sound or a film: one part of an option as it is shown."""
        found = self._presenter.contents(self._desk.experiment.question(index))
        assert found is not None
        shown = found[option] if option < len(found) else ()
        if part < len(shown) and isinstance(media := shown[part], rendering.Media):
            return media
        raise ExperimentError("There is no such picture, sound or film.")

    def _asker(self, given: Mapping[str, Any]) -> str | None:
        """The name of the rater who asks for a question."""
        rater = given_rater(given)
        if rater is None and self._desk.experiment.settings.raters == SHARE:
            raise rendering.AskError(
                "Everybody here is asked under a name.", needs="name"
            )
        return rater

    def _next(self, rater: str | None) -> JSON | None:
        """The next question if it is there at once; else None."""
        try:
            found = self._asked(rater, self._desk.question(rater, patience=0.0))
            return None if found["question"] is None else found
        # The answer is stored; the call for the next question says what is wrong.
        except BotorchPrefError:
            return None

    def _asked(
        self, rater: str | None, question: Question | None, patience: float = 0.0
    ) -> JSON:
        """A question as the page takes it, if it can be shown within the patience."""
        shown = None if question is None else self._shown(question, patience)
        if question is None or shown is None:
            return {"question": None, "waited": round(self._desk.waited(rater), 1)}
        size = len(question.options)
        if size not in self._kinds:
            self._kinds[size] = rendering.offered_kinds(self._desk.experiment, size)
        return {
            "question": question.index,
            "experiment": self.name,
            "options": list(question.options),
            "shown": shown,
            "kinds": self._kinds[size],
            "levels": self._num_levels,
            "rater": rater,
            "last": self._desk.last(rater),
        }

    def _shown(self, question: Question, patience: float) -> list[list[JSON]] | None:
        try:
            return self._presenter.shown(question, max(patience, _AT_ONCE))
        except ExperimentError as error:
            raise rendering.AskError(str(error), question=question.index) from error

    def _answered(self, answer: Event) -> JSON:
        experiment = self._desk.experiment
        question = experiment.question(answer.question)
        try:
            shown = self._presenter.shown(question)
        except ExperimentError as error:
            # It could be shown when it was answered.
            shown = [[rendering.text_content(str(error))] for _ in question.options]
        return {
            "question": question.index,
            "options": list(question.options),
            "titles": [experiment.titles[name] for name in question.names],
            "shown": shown,
            "said": answer.said,
            "time": answer.time,
        }
