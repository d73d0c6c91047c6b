"""Desk where raters are asked, answer, skip and undo."""

from __future__ import annotations

import time
from collections import defaultdict, deque
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from threading import Condition
from typing import Any

from botorch_pref.ax import PreferenceExperiment, Question
from botorch_pref.errors import ExperimentError, StorageError
from botorch_pref.web.asking.answer_conflict import AnswerConflictError
from botorch_pref.web.asking.answer_history import (
    AnsweredQuestion,
    answered_questions,
    is_answered,
    withdraw_unanswered,
)
from botorch_pref.web.asking.rater_place import RaterPlace
from botorch_pref.web.modelling.question_source import QuestionSource

AHEAD = 1
"""Questions asked for a rater beyond the one on display."""

MAX_RATERS = 500
"""People who are asked: a name costs two questions, and anybody can make names up."""


class QuestionDesk:
    """Desk of an experiment: one question at a time for each rater.

    Questions are asked ahead in a thread, so that the next one is there at once. What
    is told is stored before the call returns; telling it again changes nothing.
    Threads may use it at once.

    Args:
        experiment: Whose questions they are. Those that are pending come first.
        source: Of further ones.
        prepare: Called with each of them before it is on the desk.
    """

    def __init__(
        self,
        experiment: PreferenceExperiment,
        source: QuestionSource,
        prepare: Callable[[Question], object],
    ) -> None:
        self.experiment = experiment
        self._source = source
        self._prepare = prepare
        self._places: defaultdict[str | None, RaterPlace] = defaultdict(RaterPlace)
        self._unowned: deque[Question] = deque()
        self._changed = Condition()
        self._worker = ThreadPoolExecutor(1, thread_name_prefix="ask")
        self._at_work = self._closing = False
        self._put_away_so_far = 0
        for question in experiment.pending:
            owned = question.rater is not None
            queue = self._places[question.rater].questions if owned else self._unowned
            queue.append(question)

    def question(self, rater: str | None, patience: float) -> Question | None:
        """The question that a rater is asked now; the same until it is answered.

        Args:
            rater: Who is asked; None for nobody in particular.
            patience: How many seconds to wait for it.

        Returns:
            The question; None if it is still being chosen.

        Raises:
            BotorchPrefError: None can be asked. The next call tries again.
            ExperimentError: There are `MAX_RATERS` others.
        """
        with self._changed:
            place = self._place(rater)
            if not place.questions and self._unowned:
                place.questions.append(self._unowned.popleft())
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
        """Seconds for which a rater has waited for a question.

        Args:
            rater: Who waits.
        """
        with self._changed:
            since = self._place(rater).waiting_since
            return 0.0 if since is None else time.monotonic() - since

    def answer(self, rater: str | None, index: int, said: Mapping[str, Any]) -> None:
        """Stores an answer, once however often it arrives.

        Args:
            rater: Who answers.
            index: The number of the question.
            said: Keywords of ``tell``.

        Raises:
            AnswerConflictError: The question has another answer, or is another rater's.
            ExperimentError: This cannot be an answer to it.
            StorageError: It could not be stored.
        """
        with self._changed:
            place = self._place(rater)
            on_desk = [q for p in self._places.values() for q in p.questions]
            # What nobody in particular was asked is for whoever answers first.
            if any(q.index == index and q.rater not in (None, rater) for q in on_desk):
                raise AnswerConflictError(
                    f"Question {index} was asked of somebody else."
                )
        try:
            self._told(rater, index, said)
        except ExperimentError as error:
            if not is_answered(self.experiment.experiment, index):
                raise
            self._put_away(index)
            raise AnswerConflictError(str(error)) from error
        with self._changed:
            place.present.skipped.clear()
        self._put_away(index)

    def claim(self, rater: str) -> None:
        """Hands a rater the questions that were asked before the name was known.

        Whoever has one of them on display without a name may still answer it: the first
        answer counts.

        Args:
            rater: Whose page was without a name until now.

        Raises:
            ExperimentError: There are `MAX_RATERS` others.
        """
        with self._changed:
            place, nameless = self._place(rater), self._places.pop(None, None)
            if nameless is not None:
                place.take_over(nameless)
            self._ask_ahead()

    def _place(self, rater: str | None) -> RaterPlace:
        """The place of a rater, made if there is room; the lock is held."""
        if rater not in self._places and len(self._places) >= MAX_RATERS:
            raise ExperimentError(
                f"{MAX_RATERS} people answer already; serve the page again for others."
            )
        return self._places[rater]

    def _put_away(self, index: int) -> None:
        """Takes a question off the desk, and sees to it that others are asked."""
        with self._changed:
            for place in self._places.values():
                place.remove(index)
                # What could not be asked beside this question may be now.
                place.error = None
            self._put_away_so_far += 1
            self._unowned = deque(q for q in self._unowned if q.index != index)
            self._ask_ahead()

    def _told(self, rater: str | None, index: int, said: Mapping[str, Any]) -> None:
        try:
            self.experiment.tell(index, rater=rater, **said)
        except StorageError:
            # Another process has written, which the experiment has read by now.
            self.experiment.tell(index, rater=rater, **said)

    def skip(self, rater: str | None, index: int) -> None:
        """Withdraws a question that a rater does not want to answer.

        Args:
            rater: Who skips.
            index: The number of the question; nothing happens if it is not theirs.
        """
        with self._changed:
            place = self._place(rater)
            found = [q for q in place.questions if q.index == index]
        for question in found:
            skipped = withdraw_unanswered(self.experiment, question)
            with self._changed:
                # Two taps at once skip it once.
                if skipped and index in place.present.indices:
                    place.present.skipped.append(question)
            self._put_away(index)

    def undo(self, rater: str | None) -> Question:
        """Takes back what a rater did last: an answer or a skipped question.

        Args:
            rater: Who undoes.

        Returns:
            The question, which is on display again.

        Raises:
            ExperimentError: The rater has answered and skipped nothing.
        """
        with self._changed:
            place = self._place(rater)
            if place.skipped:
                question = place.skipped.pop()
                place.questions.appendleft(question)
                return question
        answers = self.answers()
        if rater is None and answers and answers[0].rater is not None:
            raise ExperimentError(
                "The last answer is that of a rater with a name; undo it there."
            )
        question = self.experiment.undo(rater=rater)
        with self._changed:
            place = place.present
            place.remove(question.index)
            place.questions.appendleft(question)
            self._changed.notify_all()
        return question

    def ask_own(
        self, rater: str | None, options: Sequence[Mapping[str, Any]]
    ) -> Question:
        """A question about designs of a rater's own, which is on display at once.

        Args:
            rater: Whose designs they are.
            options: Parameters of each, by name.

        Raises:
            ExperimentError: The search space has no such designs.
        """
        with self._changed:
            place = self._place(rater)
        question = self.experiment.ask(options=options, rater=rater)
        with self._changed:
            place.present.questions.appendleft(question)
            self._changed.notify_all()
        return question

    def answers(self) -> list[AnsweredQuestion]:
        """All answers that stand, the latest first."""
        return answered_questions(self.experiment.experiment)

    def close(self) -> None:
        """Asks no more; what is chosen by another process is given up."""
        with self._changed:
            self._closing = True
        self._source.close()
        self._worker.shutdown(cancel_futures=True)

    def _ask_ahead(self) -> None:
        """Sets the worker to work, if there is any; the lock is held."""
        self._changed.notify_all()
        if not self._at_work and not self._closing and self._in_need() is not None:
            self._at_work = True
            self._worker.submit(self._ask)

    def _in_need(self) -> tuple[str | None, RaterPlace] | None:
        """The rater who has waited longest, or else one with too few questions."""
        needy = [one for one in self._places.items() if one[1].lacks(1 + AHEAD)]
        return min(
            needy,
            key=lambda one: (len(one[1].questions), one[1].waiting_since or 0.0),
            default=None,
        )

    def _ask(self) -> None:
        """Asks until every rater has enough, in the worker's thread."""
        while True:
            with self._changed:
                found = self._in_need()
                if found is None or self._closing:
                    self._at_work = False
                    return
                before = self._put_away_so_far
            rater, place = found
            try:
                question = self._source.ask(rater, len(self._places))
                self._prepare(question)
            # Whoever waits is told; nobody waits for this thread.
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
