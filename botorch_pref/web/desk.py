"""Desk where raters are asked, answer, skip and undo."""

from __future__ import annotations

import time
from collections import defaultdict, deque
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from threading import Condition
from typing import Any

from botorch_pref.ax import PreferenceExperiment, Question
from botorch_pref.ax.kept_log import one_at_a_time
from botorch_pref.ax.log import UNDONE, WITHDRAWN, Event, Log
from botorch_pref.ax.space.options import own_options
from botorch_pref.errors import ExperimentError, StorageError
from botorch_pref.web.rendering import check_looks
from botorch_pref.web.worker import ModelWorker


class AnswerConflictError(ExperimentError):
    """Answer to a question that has another answer or rater, or an undo too late."""


# --- What the log says


def answer_to_undo(log: Log, rater: str | None) -> int | None:
    """The number of the question whose answer a rater can undo.

    None if there is none, or if nobody in particular (None) asks and the last answer of
    all is that of somebody with a name.
    """
    last = log.last_answer(rater)
    return last.question if last is not None and last.rater == rater else None


def is_answered(log: Log, index: int) -> bool:
    """Whether there is such a question, and it has an answer that stands."""
    asked = index in range(len(log.questions))
    return asked and log.questions[index].standing is not None


# --- Calls that change the log once, however often they arrive


@one_at_a_time
def withdraw_unanswered(experiment: PreferenceExperiment, index: int) -> bool:
    """Withdraws a question unless it has an answer by now; whether it did."""
    if is_answered(experiment.log, index):
        return False
    experiment.withdraw(index)
    return True


@one_at_a_time
def undo_once(
    experiment: PreferenceExperiment, rater: str | None, index: int
) -> Question:
    """Undoes the last answer of a rater, unless that has been done by now.

    Returns the question, which has no answer any more; one that was skipped had none.
    """
    question, log = experiment.question(index), experiment.log
    taken_back = log.questions[index].events[-1].kind in (UNDONE, WITHDRAWN)
    if taken_back and question.rater in (None, rater):
        return question
    if answer_to_undo(log, rater) != index:
        raise AnswerConflictError(
            "You answered or skipped another question after this one, so this answer "
            "is kept. Undo the later one first."
        )
    return experiment.undo(rater=rater)


@one_at_a_time
def ask_once(
    experiment: PreferenceExperiment,
    rater: str | None,
    options: Sequence[Mapping[str, Any]],
) -> Question:
    """A question about these options, which is asked unless it is pending already."""
    # The order of display does not count.
    for pending in experiment.pending:
        if (pending.rater, len(pending.options)) == (rater, len(options)) and all(
            option in pending.options for option in options
        ):
            return pending
    return experiment.ask(options=options, rater=rater)


# --- The desk

AHEAD = 1
"""Questions asked for a rater beyond the one on display."""

MAX_RATERS = 500
"""People who are asked: a name costs two questions, and anybody can make names up."""


@dataclass
class RaterPlace:
    """Place of one rater."""

    # The one that is on display, and those that follow.
    questions: deque[Question] = field(default_factory=deque)
    # Since the last answer, the latest last.
    skipped: list[Question] = field(default_factory=list)
    # By a clock that never goes back; None while there is a question.
    waiting_since: float | None = None
    # Why the last question could not be asked.
    error: Exception | None = None
    # The place that took this one over.
    heir: RaterPlace | None = None

    @property
    def present(self) -> RaterPlace:
        """The place that stands for this one now."""
        return self if self.heir is None else self.heir.present

    @property
    def in_need(self) -> bool:
        """Whether somebody is asked here, and there are too few questions."""
        asked = self.questions or self.waiting_since is not None
        return self.error is None and len(self.questions) < 1 + AHEAD and bool(asked)


def _without(questions: deque[Question], index: int) -> deque[Question]:
    return deque(question for question in questions if question.index != index)


_ANSWERED = "This question has an answer already, which is kept."


class QuestionDesk:
    """Desk of an experiment: one question at a time for each rater.

    Questions are asked ahead in a thread, so that the next one is there at once. An
    answer is stored before the call returns; the same answer again changes nothing.
    Threads may use it at once.

    Questions that are pending come first. The worker chooses further ones, for each of
    which ``prepare`` is called before it is on the desk.
    """

    def __init__(
        self,
        experiment: PreferenceExperiment,
        worker: ModelWorker,
        prepare: Callable[[Question], object],
    ) -> None:
        self.experiment = experiment
        self._worker = worker
        self._prepare = prepare
        self._places: defaultdict[str | None, RaterPlace] = defaultdict(RaterPlace)
        # Questions of nobody in particular: the first who comes gets them.
        self._unowned: deque[Question] = deque()
        for question in experiment.pending:
            owned = question.rater is not None
            queue = self._places[question.rater].questions if owned else self._unowned
            queue.append(question)
        self._changed = Condition()
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="ask")
        self._at_work = self._closing = False
        self._put_away_so_far = 0

    def question(self, rater: str | None, patience: float) -> Question | None:
        """The question that a rater is asked now; the same until it is answered.

        None if it is still being chosen after ``patience`` seconds. Raises the reason
        where none can be asked; the next call tries again.
        """
        with self._changed:
            place = self._place(rater)
            self._give_unowned(place)
            if not place.questions and place.waiting_since is None:
                place.waiting_since = time.monotonic()
            self._ask_ahead()
            self._changed.wait_for(
                lambda: place.questions or place.error is not None, patience
            )
            if place.questions:
                return place.questions[0]
            if place.error is not None:
                error, place.error = place.error, None
                raise error
            return None

    def waited(self, rater: str | None) -> float:
        """Seconds for which a rater has waited for a question."""
        with self._changed:
            since = self._place(rater).waiting_since
            return 0.0 if since is None else time.monotonic() - since

    def answer(self, rater: str | None, index: Any, said: Mapping[str, Any]) -> None:
        """Stores an answer, by keywords of ``tell``, once however often it arrives."""
        place = self._place_of(rater, index)
        try:
            self._tell(rater, index, said)
        except ExperimentError as error:
            if not is_answered(self.experiment.log, index):
                raise
            self._put_away(index)
            raise AnswerConflictError(_ANSWERED) from error
        with self._changed:
            place.present.skipped.clear()
        self._put_away(index)

    def claim(self, rater: str) -> None:
        """Hands a rater the questions that were asked before the name was known.

        Another page that has one of them on display without a name may still answer it:
        the first answer counts.
        """
        with self._changed:
            place, nameless = self._place(rater), self._places.pop(None, None)
            if nameless is not None:
                place.questions.extendleft(reversed(nameless.questions))
                place.skipped.extend(nameless.skipped)
                nameless.heir = place
            self._ask_ahead()

    def skip(self, rater: str | None, index: Any) -> None:
        """Withdraws a question. Skipping it again changes nothing."""
        place = self._place_of(rater, index)
        with self._changed:
            # A page that was open before a restart comes with its question first.
            self._give_unowned(place)
        skipped = withdraw_unanswered(self.experiment, index)
        with self._changed:
            # Two taps at once skip it once.
            for question in place.present.questions:
                if skipped and question.index == index:
                    place.present.skipped.append(question)
        self._put_away(index)
        if not skipped:
            raise AnswerConflictError(_ANSWERED)

    def last(self, rater: str | None) -> int | None:
        """The number of the question that a rater answered or skipped last.

        See `answer_to_undo` for when it is None.
        """
        with self._changed:
            skipped = self._place(rater).skipped
            if skipped:
                return skipped[-1].index
        return answer_to_undo(self.experiment.log, rater)

    def undo(self, rater: str | None, index: Any = None) -> Question:
        """Takes back what a rater did last, and puts the question on display again.

        With the number of that question, once however often the call arrives; by
        default it is the `last` one, which is another one when this is called again.
        """
        with self._changed:
            place = self._place(rater)
        index = self.last(rater) if index is None else index
        if index is None:
            raise ExperimentError(
                "There is no answer of yours to undo; one that was given under a name "
                "is undone under that name."
            )
        question = undo_once(self.experiment, rater, index)
        self._display(place, question)
        return question

    def ask_own(
        self, rater: str | None, options: Sequence[Mapping[str, Any]]
    ) -> Question:
        """A question about designs of a rater's own, which is on display at once."""
        with self._changed:
            place = self._place(rater)
        log = self.experiment.log
        designs = own_options(log.space, log.catalogue, options)
        check_looks(log.space, designs)
        question = ask_once(self.experiment, rater, designs)
        self._display(place, question)
        return question

    def answers(self) -> list[Event]:
        """All answers that stand, the latest first."""
        return [*self.experiment.log.answers()]

    def close(self) -> None:
        """Asks no more; what the process of models is choosing is given up."""
        with self._changed:
            self._closing = True
        self._worker.close()
        self._thread.shutdown(cancel_futures=True)

    def _tell(self, rater: str | None, index: int, said: Mapping[str, Any]) -> None:
        try:
            self.experiment.tell(index, rater=rater, **said)
        except StorageError:
            # Another process has written, which the experiment has read by now.
            self.experiment.tell(index, rater=rater, **said)

    # The lock is held by all that call what follows.

    def _place(self, rater: str | None) -> RaterPlace:
        """The place of a rater, made if there is room."""
        if rater not in self._places and len(self._places) >= MAX_RATERS:
            raise ExperimentError(
                f"{MAX_RATERS} people answer already; serve the page again for others."
            )
        return self._places[rater]

    def _give_unowned(self, place: RaterPlace) -> None:
        """Gives a place that has no question one that is for whoever comes first."""
        if not place.questions and self._unowned:
            place.questions.append(self._unowned.popleft())

    def _ask_ahead(self) -> None:
        """Sets the thread to work, if there is work."""
        self._changed.notify_all()
        idle = not self._at_work and not self._closing
        if idle and self._in_need() is not None:
            self._at_work = True
            self._thread.submit(self._ask)

    def _in_need(self) -> tuple[str | None, RaterPlace] | None:
        """The rater who has waited longest, or else one with too few questions."""
        needy = [one for one in self._places.items() if one[1].in_need]
        return min(
            needy,
            key=lambda one: (len(one[1].questions), one[1].waiting_since or 0.0),
            default=None,
        )

    # These take the lock.

    def _place_of(self, rater: str | None, index: Any) -> RaterPlace:
        """The place of a rater who answers or skips a question that is no other's."""
        self.experiment.question(index)
        with self._changed:
            place = self._place(rater)
            asked = [q for place in self._places.values() for q in place.questions]
            # A question of nobody in particular is for the first who answers it.
            if any(q.index == index and q.rater not in (None, rater) for q in asked):
                raise AnswerConflictError("This question was asked of somebody else.")
            return place

    def _display(self, place: RaterPlace, question: Question) -> None:
        """Puts a question without an answer on display."""
        with self._changed:
            place, index = place.present, question.index
            self._unowned = _without(self._unowned, index)
            place.questions = _without(place.questions, index)
            place.questions.appendleft(question)
            place.skipped = [one for one in place.skipped if one.index != index]
            self._changed.notify_all()

    def _put_away(self, index: int) -> None:
        """Takes a question off the desk, and sees to it that others are asked."""
        with self._changed:
            for place in self._places.values():
                place.questions = _without(place.questions, index)
                # A question that could not be asked beside this one may be now.
                place.error = None
            self._unowned = _without(self._unowned, index)
            self._put_away_so_far += 1
            self._ask_ahead()

    def _ask(self) -> None:
        """Asks until every rater has enough, in the thread."""
        while True:
            with self._changed:
                found = self._in_need()
                if found is None or self._closing:
                    self._at_work = False
                    return
                before, num_raters = self._put_away_so_far, len(self._places)
            rater, place = found
            try:
                question = self._worker.ask(rater, num_raters)
                self._prepare(question)
            # The rater who waits is told the reason; nobody waits for this thread.
            except Exception as error:
                with self._changed:
                    if before == self._put_away_so_far:
                        place.present.error = error
                    self._changed.notify_all()
                continue
            with self._changed:
                place.present.questions.append(question)
                place.present.waiting_since = None
                self._changed.notify_all()
