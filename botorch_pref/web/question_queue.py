"""Questions that wait for raters: who is asked what, chosen ahead in a thread."""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from threading import Condition
from typing import Any

from botorch_pref.ax import PreferenceExperiment, Question
from botorch_pref.ax.space.context import Context
from botorch_pref.web.call_arguments import AnswerConflictError
from botorch_pref.web.rater_places import RaterPlace, RaterPlaces
from botorch_pref.web.rendering import AskError, Presenter
from botorch_pref.web.repeated_calls import (
    again_if_refused,
    answer_to_undo,
    is_outdated,
    withdraw_unanswered,
)
from botorch_pref.web.worker import JSON, LOGGER, ModelWorker

FIRST_CHECK, CHECK_GROWTH = 10, 1.25
"""Answers of the first look whether more questions are worth it, and by how much they
grow until the next one: all looks together take as long as a few of the last."""


class QuestionQueue:
    """Questions of an experiment that wait for raters, each asked one at a time.

    Questions that are pending come first; further ones are asked ahead in a thread.
    Threads may use it at once.

    Args:
        experiment: Whose log has the questions.
        worker: Chooses them.
        presenter: Begins to draw what is asked ahead.
        can_check: Whether the thread looks if more questions are worth it.
    """

    def __init__(
        self,
        experiment: PreferenceExperiment,
        worker: ModelWorker,
        presenter: Presenter,
        *,
        can_check: bool,
    ) -> None:
        """Puts what is pending in the places of raters; the thread has no work yet."""
        self.experiment = experiment
        self._worker, self._presenter = worker, presenter
        self._measured = experiment.settings.context
        self._places = RaterPlaces(experiment.pending)
        # The lock of the places and of all below, by which calls wait for questions.
        self._changed = Condition()
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="ask")
        self._at_work = self._closing = False
        self._num_removed = 0
        self._can_check, self._next_check = can_check, FIRST_CHECK
        self._enough: JSON | None = None

    def close(self) -> None:
        """Asks no more, and closes the worker: what is being chosen is given up."""
        with self._changed:
            self._closing = True
        self._worker.close()
        self._thread.shutdown(cancel_futures=True)

    # Where raters are.

    def place(self, rater: str | None) -> RaterPlace:
        """Returns the place of a rater, made if there is room."""
        with self._changed:
            return self._places.of(rater)

    def place_of(self, rater: str | None, index: Any) -> RaterPlace:
        """Returns the place of a rater, unless the question is somebody else's."""
        # Refuses what is the number of no question.
        self.experiment.question(index)
        with self._changed:
            place = self._places.of(rater)
            if self._places.is_of_another(rater, index):
                raise AnswerConflictError("This question was asked of somebody else.")
            return place

    def claim(self, rater: str) -> None:
        """Hands a rater what was asked before the name was known."""
        with self._changed:
            self._places.claim(rater)

    def enter(self, rater: str | None, context: Context | None) -> None:
        """Takes a context for what a rater is asked from now on; None for the last one.

        Questions that wait in another one are withdrawn.
        """
        with self._changed:
            place = self._places.of(rater)
            if context is not None and context != place.context:
                place.context, place.error = context, None
            if len(place.context) < len(self._measured):
                names = ", ".join(self._measured)
                raise AskError(
                    f"Say what {names} is: it is measured, and not chosen.",
                    needs="context",
                )
            moved = [q for q in place.questions if q.context != place.context]
            for question in moved:
                place.remove(question.index)
        # Without the lock, which every call needs: this writes to the storage.
        for question in moved:
            again_if_refused(withdraw_unanswered, self.experiment, question.index)

    # What raters are asked, and what becomes of it.

    def next_question(self, rater: str | None, patience: float) -> Question | None:
        """Returns the question that a rater is asked now; None while it is chosen.

        Raises the reason where none can be asked; the next call tries again.
        """
        for question in self._taken_outdated(rater):
            again_if_refused(withdraw_unanswered, self.experiment, question.index)
        with self._changed:
            place = self._places.of(rater)
            if not place.questions and place.waiting_since is None:
                place.waiting_since = time.monotonic()
            self._ask_ahead()
            self._changed.wait_for(lambda: place.questions or place.error, patience)
            if place.questions:
                # Until it is answered it is not replaced by one that is less outdated.
                place.displayed = place.questions[0].index
                return place.questions[0]
            error, place.error = place.error, None
            if error is not None:
                raise error
            return None

    def _taken_outdated(self, rater: str | None) -> list[Question]:
        """Takes questions from a rater's place that are too old to be displayed now.

        The caller withdraws them. What is on display already stays there.
        """
        experiment, outdated = self.experiment, list[Question]()
        with self._changed:
            place = self._places.of(rater)
            self._places.give_unowned(place)
            while place.questions:
                index = place.questions[0].index
                if index == place.displayed or not is_outdated(experiment.log, index):
                    break
                # Until the model chooses, no question depends on answers.
                if experiment.num_answers < self._worker.initial:
                    break
                outdated.append(place.questions.popleft())
                self._places.give_unowned(place)
        return outdated

    def waited(self, rater: str | None) -> float:
        """Returns for how many seconds a rater waits for a question already."""
        with self._changed:
            since = self._places.of(rater).waiting_since
        return 0.0 if since is None else time.monotonic() - since

    def settle(self, place: RaterPlace, index: int) -> None:
        """Removes a question that the rater of a place has answered."""
        with self._changed:
            # From now on an undo is about this answer, and not about a skip before it.
            place.present.skipped.clear()
        self.remove(index)

    def skip(self, place: RaterPlace, index: int) -> bool:
        """Withdraws a question unless it has an answer by now; tells whether it did."""
        with self._changed:
            # After a restart, what a page still displays may be nobody's: in its
            # rater's place the skip can be undone.
            self._places.give_unowned(place)
        skipped = again_if_refused(withdraw_unanswered, self.experiment, index)
        with self._changed:
            # Two taps at once skip it once.
            for question in place.present.questions:
                if skipped and question.index == index:
                    place.present.skipped.append(question)
        self.remove(index)
        return skipped

    def last_question(self, rater: str | None) -> int | None:
        """Returns the number of the question that an undo brings back, or None.

        It is the last one that the rater skipped since an answer, or else answered.
        """
        with self._changed:
            skipped = self._places.of(rater).skipped
            if skipped:
                return skipped[-1].index
        return answer_to_undo(self.experiment.log, rater)

    def display(self, place: RaterPlace, question: Question) -> None:
        """Puts a question without an answer on display."""
        with self._changed:
            self._places.display(place, question)
            self._changed.notify_all()

    def remove(self, index: int) -> None:
        """Removes a question from all places, and sees to it that others are asked."""
        with self._changed:
            self._places.remove(index)
            self._num_removed += 1
            self._ask_ahead()

    # The thread.

    def _ask_ahead(self) -> None:
        """Sets the thread to work, if there is work; the caller holds the lock."""
        self._changed.notify_all()
        idle = not self._at_work and not self._closing
        if idle and (self._places.needy() or self._check_is_due()):
            self._at_work = True
            self._thread.submit(self._ask)

    def _ask(self) -> None:
        """Asks questions, in the thread, until nobody needs one or it is closed."""
        while True:
            with self._changed:
                needy = self._places.needy()
                if self._closing or not (needy or self._check_is_due()):
                    # In the same lock as the look at places: `_ask_ahead` sets the
                    # thread to work again for whoever comes later.
                    self._at_work = False
                    return
                num_raters, num_removed = len(self._places), self._num_removed
            if needy:
                self._ask_needy(needy, num_raters, num_removed)
            else:
                self._check_end()

    def _ask_needy(
        self,
        needy: Sequence[tuple[str | None, RaterPlace]],
        num_raters: int,
        num_removed: int,
    ) -> None:
        """Asks the raters who need questions, or notes why the first cannot be asked.

        Args:
            needy: The raters with their places, all in one context.
            num_raters: How many raters there are.
            num_removed: How many questions had been removed when they were listed.
        """
        raters, context = [rater for rater, _ in needy], needy[0][1].context
        try:
            questions = again_if_refused(self._worker.ask, raters, num_raters, context)
            for question in questions:
                self._presenter.prepare(question)
            # Raters may have gone elsewhere while their questions were chosen.
            for question in self._give([place for _, place in needy], questions):
                again_if_refused(withdraw_unanswered, self.experiment, question.index)
        # The rater who waits is told the reason; nobody waits for this thread.
        except Exception as error:
            with self._changed:
                # After a removal meanwhile, asking again may succeed.
                if num_removed == self._num_removed:
                    needy[0][1].present.error = error
                self._changed.notify_all()

    def _give(
        self, places: Sequence[RaterPlace], questions: Sequence[Question]
    ) -> list[Question]:
        """Gives places their questions; returns those that none took, to be withdrawn.

        A place refuses a question whose context is not its own any more.
        """
        with self._changed:
            self._changed.notify_all()
            # The worker may have asked the first raters alone.
            return [
                question
                for place, question in zip(places, questions, strict=False)
                if not self._places.give(place, question)
            ]

    # When it is enough.

    def _check_is_due(self) -> bool:
        """Tells whether to look by now if more questions are worth it.

        The look takes long fits. Where these have no process of their own, as in a
        notebook, which they would hold up, it is never due.
        """
        answers = self.experiment.num_answers
        begun = answers >= self._worker.initial
        return self._can_check and begun and answers >= self._next_check

    def _check_end(self) -> None:
        """Looks whether more questions are worth it; notes what was found if not.

        The note is `_enough`, of which `end_for` makes what the page says.
        """
        answers = self.experiment.num_answers
        # Before the look, which may fail and is not tried again at once.
        self._next_check = max(answers + 1, math.ceil(CHECK_GROWTH * answers))
        try:
            findings = self._worker.findings()
        # Who runs the experiment sees why on the page of findings; nobody waits.
        except Exception as error:
            LOGGER.warning("No look whether it is enough: %s", error)
            return
        self._enough = None
        if dict(findings["summary"]).get("stop") is True:
            best = findings["recommended"]
            row = next(r for r in findings["options"] if r["name"] == best["name"])
            circumstances = {"answers": answers, "context": findings["context"]}
            self._enough = {**best, **circumstances, "chance": row["best"]}

    def end_for(self, rater: str | None) -> JSON | None:
        """Returns the best option for a rater if more questions are not worth it.

        None if that was found in another context than the rater's, or of answers of
        which some were undone.
        """
        enough, context = self._enough, self._places.context_of(rater)
        if enough is None or enough["context"] != context:
            return None
        is_undone = self.experiment.num_answers < enough["answers"]
        return None if is_undone else enough
