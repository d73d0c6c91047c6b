"""Calls that the page and the widget make, in terms of JSON.

`docs/calls.md` has a table of them: what each sends and gets.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Mapping
from contextlib import suppress
from itertools import islice
from typing import Any

from botorch_pref.ax import PreferenceExperiment, Question
from botorch_pref.ax.answer_kinds import POSITION, stop_place
from botorch_pref.ax.events import PERSON, Event
from botorch_pref.ax.generation.question_choice import has_designs_to_choose
from botorch_pref.ax.line_choice import PLANE_SIZE, check_kind
from botorch_pref.ax.questions import MOST_OPTIONS
from botorch_pref.ax.settings import SHARE
from botorch_pref.ax.space.context import Context, checked_context
from botorch_pref.ax.space.options import own_options
from botorch_pref.ax.user_values import checked_integer
from botorch_pref.errors import BotorchPrefError, ExperimentError
from botorch_pref.web import rendering
from botorch_pref.web.call_arguments import (
    EXTRA_KEYS,
    PATIENCE,
    AnswerConflictError,
    OtherExperimentError,
    answer_keywords,
    context_object,
    patience_seconds,
    rater_name,
)
from botorch_pref.web.media import Media
from botorch_pref.web.question_queue import QuestionQueue
from botorch_pref.web.repeated_calls import (
    again_if_refused,
    ask_once,
    is_answered,
    num_answers_of,
    undo_once,
    withdraw_unanswered,
)
from botorch_pref.web.texts import PageTexts
from botorch_pref.web.worker import JSON, ModelWorker

READS = ("question", "progress", "history", "form", "findings")
WRITES = ("answer", "skip", "undo", "own", "claim")
"""Calls that a page or a widget may make: methods of `PreferenceService`."""

MAX_ALIKE = 10
"""Questions in a row that are chosen anew as two of their options look the same."""

_DRAW_SECONDS = 0.05
"""Seconds for which every call waits until the options are drawn."""

_ANSWERED = "This question has an answer already, which is kept."


class PreferenceService:
    """Service of an experiment to a page or a widget: JSON in, JSON out.

    Each rater is asked one question at a time. Questions that are pending come first;
    further ones are asked ahead in a thread, so that the next one is there at once. An
    answer is stored before the call returns; the same answer again changes nothing.
    Threads may use it at once. ``separate_process`` says where models are fitted, see
    `ModelWorker`; see `make_app` and `Presenter` for the others.
    """

    def __init__(
        self,
        experiment: PreferenceExperiment,
        address: rendering.MediaAddress,
        *,
        show: rendering.Show | rendering.NumberTable | None = None,
        kinds: Collection[str] | None = None,
        size: int | None = None,
        plane: bool = False,
        texts: PageTexts | None = None,
        separate_process: bool = True,
    ) -> None:
        """Checks what is to be asked, and makes the parts; no process starts yet."""
        kind = rendering.page_kind(kinds, plane)
        if size is None and kind == "plane":
            size = PLANE_SIZE
        if size is None:
            # The usual number, or 2 where no wanted kind is of more.
            of_many = kinds is None or {"best", "ranking"} & set(kinds)
            size = experiment.default_size if of_many else 2
        size = checked_integer("size", size, 2, MOST_OPTIONS)
        log = experiment.log
        check_kind(log, kind, size)
        if not has_designs_to_choose(log, size):
            raise ExperimentError(
                f"size is {size}, and there are fewer designs that a person can tell "
                "apart; give a smaller size."
            )
        space, measured = log.space, experiment.settings.context
        units = show.units if isinstance(show, rendering.NumberTable) else {}
        self.experiment, self.name = experiment, experiment.log.name
        self._texts = texts or PageTexts()
        # Replies have it and calls bring it back, since an experiment that was made
        # anew under this name has other questions.
        self._mark = f"{self.name} of {log.definition.created}"
        fields = rendering.design_form(space, units)
        self._form = [field for field in fields if field["name"] not in measured]
        self._context_form = [field for field in fields if field["name"] in measured]
        # Questions of a person's own may show another number of options.
        self._wanted = None if kinds is None else [*kinds]
        offered = rendering.offered_kinds(experiment, size, kinds)
        self._kinds = {(size, kind == "line"): offered}
        self._presenter = rendering.Presenter(
            space, show, address, self._texts.table, measured
        )
        self._worker = ModelWorker(experiment, size, separate_process, kind)
        self._queue = QuestionQueue(
            experiment, self._worker, self._presenter, can_check=separate_process
        )
        self._num_alike = 0

    def open(self) -> None:
        """Prepares the process that the first rater would wait for."""
        self._worker.prepare(num_raters=1)

    def close(self) -> None:
        """Asks and draws no more; what is being chosen is given up."""
        self._queue.close()
        self._presenter.close()

    # What a page or a widget calls.

    def question(self, arguments: Mapping[str, Any]) -> JSON:
        """Returns the question that a rater is asked now, if it is there in time."""
        rater, until = (
            self._asker(arguments),
            time.monotonic() + patience_seconds(arguments),
        )
        question = self._queue.next_question(rater, until - time.monotonic())
        return self._question_reply(rater, question, until - time.monotonic())

    def answer(self, arguments: Mapping[str, Any]) -> JSON:
        """Stores an answer of the kinds that the question offers."""
        self._check_experiment(arguments)
        rater = rater_name(arguments)
        index: Any = arguments.get("question")
        keywords = answer_keywords(arguments)
        place = self._queue.place_of(rater, index)
        try:
            self._check_offered(index, keywords)
            again_if_refused(self.experiment.tell, index, rater=rater, **keywords)
        except ExperimentError as error:
            if not is_answered(self.experiment.log, index):
                raise
            # It was answered elsewhere, as by ``tell``, and may still be in a place.
            self._queue.remove(index)
            raise AnswerConflictError(_ANSWERED) from error
        self._queue.settle(place, index)
        return {"stored": index, "next": self._next_reply(rater)}

    def claim(self, arguments: Mapping[str, Any]) -> JSON:
        """Hands a rater the questions that were asked before the name was known.

        Another page that has one of them on display without a name may still answer it:
        the first answer counts.
        """
        rater = rater_name(arguments)
        if rater is None:
            raise ExperimentError("rater is missing; give the name that was entered.")
        self._queue.claim(rater)
        self._queue.enter(rater, self._stated_context(arguments))
        question = self._queue.next_question(rater, patience=0.0)
        return self._question_reply(rater, question)

    def skip(self, arguments: Mapping[str, Any]) -> JSON:
        """Withdraws a question that is not to be answered; again, nothing changes."""
        self._check_experiment(arguments)
        rater = rater_name(arguments)
        index: Any = arguments.get("question")
        place = self._queue.place_of(rater, index)
        if not self._queue.skip(place, index):
            raise AnswerConflictError(_ANSWERED)
        return {"skipped": index, "next": self._next_reply(rater)}

    def undo(self, arguments: Mapping[str, Any]) -> JSON:
        """Takes back what a rater did last, and puts the question on display again.

        With the number of that question, once however often the call arrives.
        """
        self._check_experiment(arguments)
        rater = rater_name(arguments)
        index: Any = arguments.get("question")
        place = self._queue.place(rater)
        index = self._queue.last_question(rater) if index is None else index
        if index is None:
            raise ExperimentError(
                "There is no answer of yours to undo; one that was given under a name "
                "is undone under that name."
            )
        question = again_if_refused(undo_once, self.experiment, rater, index)
        self._queue.display(place, question)
        return self._question_reply(rater, question, PATIENCE)

    def own(self, arguments: Mapping[str, Any]) -> JSON:
        """Asks about designs of a rater's own, and puts the question on display."""
        rater = self._asker(arguments)
        place = self._queue.place(rater)
        log = self.experiment.log
        options = arguments.get("options")
        designs = own_options(log.space, log.catalogue, options, place.context)
        rendering.check_looks(log.space, designs)
        question = again_if_refused(ask_once, self.experiment, rater, designs)
        self._queue.display(place, question)
        return self._question_reply(rater, question, PATIENCE)

    def progress(self, arguments: Mapping[str, Any]) -> JSON:
        """Counts how many answers there are, in all and of the rater, and whose."""
        rater, experiment = rater_name(arguments), self.experiment
        answers = [*experiment.log.answers()]
        return {
            "name": self._texts.title or self.name,
            "introduction": self._texts.introduction,
            "answered": len(answers),
            "yours": num_answers_of(experiment.log, rater),
            "pending": len(experiment.pending),
            "initial": self._worker.initial,
            "enough": self._shown_end(rater),
            "raters": sorted(
                {answer.rater for answer in answers if answer.rater is not None}
            ),
        }

    def history(self, arguments: Mapping[str, Any]) -> JSON:
        """Returns the last fifty answers of a rater, the latest first."""
        rater = rater_name(arguments)
        log = self.experiment.log
        answers = [answer for answer in log.answers() if answer.rater == rater]
        numbers = range(len(answers), 0, -1)
        entries = (
            {**self._history_entry(answer), "number": number}
            for number, answer in zip(numbers, answers, strict=True)
        )
        return {"answers": [*islice(entries, 50)]}

    def form(self, arguments: Mapping[str, Any]) -> JSON:
        """Returns the forms for a design of one's own, and for the context."""
        return {"fields": self._form, "context": self._context_form}

    def findings(self, arguments: Mapping[str, Any]) -> JSON:
        """Returns findings from the answers, for the person who runs the experiment.

        The recommended option has ``shown``, the contents that questions show of it,
        unless the user's function fails; questions say why it does.
        """
        findings = self._worker.findings(self._stated_context(arguments))
        recommended = findings["recommended"]
        question = self.experiment.question(recommended["question"])
        with suppress(ExperimentError):
            contents = self._presenter.shown(question) or []
            place = self._place_of_contents(question, recommended["place"])
            findings["recommended"] = {**recommended, "shown": contents[place]}
        return findings

    def media(self, index: int, option: int, part: int) -> Media:
        """Returns a picture, a sound or a film, for the address that the page asks for.

        It is a ``part`` of an ``option`` of the question ``index``, all counted from 0;
        for a line the options are the designs shown along it.
        """
        contents = self._presenter.contents(self.experiment.question(index)) or []
        parts = contents[option] if option < len(contents) else ()
        if part < len(parts) and isinstance(media := parts[part], Media):
            return media
        raise ExperimentError("There is no such picture, sound or film.")

    # What a call may say.

    def _check_experiment(self, arguments: Mapping[str, Any]) -> None:
        """Refuses a call that names another experiment, or brings another one's mark.

        At an address that asked about another one before, numbers of questions would be
        taken for those of this one. A call that names none is not refused.
        """
        about = arguments.get("experiment", self.name)
        if about not in (self.name, self._mark):
            raise OtherExperimentError(
                f"This is about a question of the experiment {str(about)[:100]}. "
                f"This page asks about {self.name} now.",
                experiment=self.name,
            )

    def _check_offered(self, index: int, keywords: JSON) -> None:
        """Refuses kinds of answers that whoever serves the page does not want.

        Those that the model does not take are refused by ``tell``.
        """
        if self._wanted is None:
            return
        offered = self._kinds_of(self.experiment.question(index))
        # None and false say nothing.
        kinds = [k for k, v in keywords.items() if v is not None and v is not False]
        if refused := [kind for kind in kinds if kind not in (*offered, *EXTRA_KEYS)]:
            raise ExperimentError(
                f"This question does not take {', '.join(refused)}; say one of "
                f"{', '.join(offered)}."
            )

    def _kinds_of(self, question: Question) -> tuple[str, ...]:
        """Returns the kinds of answers that a question offers."""
        key = len(question.options), question.is_line
        if key not in self._kinds:
            size, is_line = key
            request = self.experiment, size, self._wanted, is_line
            self._kinds[key] = rendering.wanted_kinds(*request)
        return self._kinds[key]

    # What is replied.

    def _asker(self, arguments: Mapping[str, Any]) -> str | None:
        """Returns the name of the rater who asks for a question; None without one.

        The context that the call states holds for the rater from now on. A name is
        needed where each rater has a utility.
        """
        rater = rater_name(arguments)
        if rater is None and self.experiment.settings.raters == SHARE:
            raise rendering.AskError("Everybody is asked under a name.", needs="name")
        self._queue.enter(rater, self._stated_context(arguments))
        return rater

    def _stated_context(self, arguments: Mapping[str, Any]) -> Context | None:
        """Returns the context that a call states; None where it states none.

        After the error for a wrong one, the page asks for another.
        """
        stated = context_object(arguments)
        if stated is None:
            return None
        log = self.experiment.log
        try:
            return checked_context(log.space, log.settings.context, stated)
        except ExperimentError as error:
            raise rendering.AskError(str(error), needs="context") from error

    def _next_reply(self, rater: str | None) -> JSON | None:
        """Returns the next question, to go with the reply to an answer or a skip.

        None where it is not there at once: the page calls for it then.
        """
        try:
            question = self._queue.next_question(rater, patience=0.0)
            reply = self._question_reply(rater, question)
            return None if reply["question"] is None else reply
        # The answer is stored; the call for the next question says what is wrong.
        except BotorchPrefError:
            return None

    def _question_reply(
        self, rater: str | None, question: Question | None, patience: float = 0.0
    ) -> JSON:
        """Returns a question for the page, if it is drawn within the patience.

        Else, and where it was withdrawn for another one (see `_replaces`), ``question``
        is None, and ``waited`` are the seconds for which the rater waits already.
        """
        contents = None
        if question is not None:
            try:
                contents = self._presenter.shown(question, max(patience, _DRAW_SECONDS))
                if contents is not None and self._replaces(question):
                    contents = None
            except ExperimentError as error:
                index = question.index
                raise rendering.AskError(str(error), question=index) from error
        if question is None or contents is None:
            return {"question": None, "waited": round(self._queue.waited(rater), 1)}
        return {
            "question": question.index,
            "number": num_answers_of(self.experiment.log, rater) + 1,
            "experiment": self._mark,
            "options": list(question.options),
            "shown": contents,
            "positions": (
                question.positions(rendering.MOST_POSITIONS)
                if question.is_line
                else None
            ),
            "prompt": self._texts.question,
            "kinds": self._kinds_of(question),
            "levels": self.experiment.num_levels,
            "rater": rater,
            "context": dict(question.context),
            "last": self._queue.last_question(rater),
        }

    def _replaces(self, question: Question) -> bool:
        """Withdraws a question of which two options look alike; tells whether it did.

        Another one is then chosen. A question about a person's own designs stays, and
        so do those that follow on `MAX_ALIKE` withdrawn in a row.
        """
        index = question.index
        chosen_by = self.experiment.log.questions[index].content.get("chosen_by")
        if not self._presenter.draws_alike(question):
            self._num_alike = 0
            return False
        if chosen_by == PERSON or self._num_alike >= MAX_ALIKE:
            return False
        self._num_alike += 1
        again_if_refused(withdraw_unanswered, self.experiment, index)
        self._queue.remove(index)
        return True

    def _history_entry(self, answer: Event) -> JSON:
        """Describes an answer for the history of a person."""
        question = self.experiment.question(answer.question)
        titles = self.experiment.titles
        try:
            contents = self._presenter.shown(question)
        except ExperimentError as error:
            # It could be shown when it was answered.
            designs = rendering.shown_designs(question)
            contents = [[rendering.text_content(str(error))] for _ in designs]
        options = self.experiment.log.questions[question.index].judged
        places = [*range(len(question.options))]
        if POSITION.field in answer.fields:
            # Where somebody stopped, and not the ends.
            places = [stop_place(answer.fields[POSITION.field])]
        parts = [self._place_of_contents(question, place) for place in places]
        return {
            "question": question.index,
            "options": [options[place].parameters for place in places],
            "titles": [titles[options[place].name] for place in places],
            "shown": [contents[part] for part in parts] if contents else contents,
            "said": answer.fields,
            "time": answer.time,
        }

    def _place_of_contents(self, question: Question, option: int) -> int:
        """Returns the place of an option among the shown contents of a question.

        Contents of a line are those of designs along it, and its options are the ends,
        0 and 1, and where somebody stopped between them, 2.
        """
        if not question.is_line:
            return option
        stopped = self.experiment.log.questions[question.index].standing
        position = float(option)
        if option == 2 and stopped is not None:
            position = stopped.fields[POSITION.field]
        return rendering.place_along(question, position)

    def _shown_end(self, rater: str | None) -> JSON | None:
        """Returns the best option for a page that says that it is enough; else None.

        What is ``shown`` of it is missing where it cannot be drawn at once.
        """
        enough = self._queue.end_for(rater)
        if enough is None:
            return None
        question = self.experiment.question(enough["question"])
        with suppress(ExperimentError):
            contents = self._presenter.shown(question, _DRAW_SECONDS)
            if contents is not None:
                place = self._place_of_contents(question, enough["place"])
                return {**enough, "shown": contents[place]}
        return enough
