"""A preference experiment in Ax, in terms of questions and answers."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, Self

from ax.api.client import Client
from ax.core.experiment import Experiment
from ax.generation_strategy.generation_strategy import GenerationStrategy
from ax.utils.common.random import with_rng_seed
from pandas import DataFrame

from botorch_pref.asking.request import QuestionKind
from botorch_pref.ax import best_designs, existing, line_choice
from botorch_pref.ax import questions as telling
from botorch_pref.ax import report as reporting
from botorch_pref.ax.answer_table import record_table
from botorch_pref.ax.answers import checked_rater
from botorch_pref.ax.client import PreferenceClient
from botorch_pref.ax.creation import new_log
from botorch_pref.ax.events import UNDONE, WITHDRAWN, Chosen
from botorch_pref.ax.generation import question_choice
from botorch_pref.ax.generation.adapter import PreferenceAdapter
from botorch_pref.ax.hooks import register_classes
from botorch_pref.ax.log import Log
from botorch_pref.ax.questions import Design, Question
from botorch_pref.ax.space.context import (
    NO_CONTEXT,
    check_one_context,
    checked_context,
)
from botorch_pref.ax.space.options import own_design, own_options
from botorch_pref.ax.stored_experiment import StoredExperiment
from botorch_pref.ax.stored_log import one_at_a_time
from botorch_pref.ax.user_values import (
    argument_error,
    checked_integer,
    checked_truth,
)
from botorch_pref.errors import BotorchPrefError, ExperimentError


class PreferenceExperiment(StoredExperiment):
    """Preference experiment: asks questions, is told answers, recommends.

    All that is asked and said is an event of a log, which is kept in a database before
    ``ask`` and ``tell`` return. Ax's experiment is made from the log.

    `create`, `resume` and `read` make one. Threads that use experiments, the same or
    others, wait for each other.

    Args:
        stored: The log, as it is kept.
    """

    @classmethod
    def from_ax(
        cls,
        experiment: Experiment | Client,
        *,
        storage: str | Path,
        name: str | None = None,
        **settings: Any,
    ) -> Self:
        """Gives a new experiment in the space of one of Ax's own, which stays as it is.

        Comparisons that Ax's preference exploration has kept (of the two arms of a
        trial the metric ``pairwise_pref_query`` is 1 for the preferred one, 0 for the
        other) are recorded. The other arms are asked about first, in pending questions.

        Args:
            experiment: Ax's `Experiment`, or the `Client` of one.
            storage: See `create`.
            name: Of the new experiment; by default that of Ax's.
            settings: See `Settings`.

        Raises:
            ExperimentError: A parameter of a kind that no experiment here has, an arm
                outside the search space, or a trial that is no comparison of two.
            StorageError: There is an experiment of that name already.
        """
        register_classes()
        source = existing.ax_experiment(experiment)
        answered = existing.comparisons(source)
        log = new_log(
            source.name if name is None else name,
            existing.parameter_configs(source.search_space),
            existing.constraint_texts(source.search_space),
            None,
            settings,
            None,
        )
        for arm in source.arms_by_name.values():
            # Before anything is kept.
            own_design(log.space, None, arm.parameters)
        created = cls._create(log, storage)
        for pair in answered:
            created.record(pair, winner=0)
        uncompared = existing.uncompared_designs(source, answered)
        for group in existing.in_groups(uncompared, created.default_size):
            created.ask(options=group)
        return created

    @one_at_a_time
    def __repr__(self) -> str:
        """Shows name, storage, counts, model and acquisition function."""
        try:
            log = self.log
        except BotorchPrefError as error:
            return f"<{type(self).__name__}: {error}>"
        acquisition = self.settings.acquisition_of(self.default_size)
        return (
            f"<{type(self).__name__} {log.name!r} in {self._stored.place}: "
            f"{len(log.questions)} questions, {self.num_answers} answers, "
            f"{self.settings.model} with {acquisition}>"
        )

    @property
    def pending(self) -> list[Question]:
        """Questions that were asked and not answered, in the order they were asked."""
        log = self.log
        return [
            Question.from_logged(log, logged)
            for logged in log.questions
            if logged.pending
        ]

    def question(self, index: int) -> Question:
        """Returns a question that was asked, answered or not.

        Raises:
            ExperimentError: There is no question of this number.
        """
        log = self.log
        return Question.from_logged(log, telling.asked_question(log, index))

    @cached_property
    @one_at_a_time
    def default_size(self) -> int:
        """The number of options of a question where `ask` is given no other number.

        Four; two where the model takes neither the best nor a ranking of four, or where
        a person can tell fewer than eight designs apart.
        """
        return question_choice.usual_size(self.log)

    @one_at_a_time
    def ask(
        self,
        size: int | None = None,
        *,
        options: Sequence[Mapping[str, Any]] | None = None,
        rater: str | None = None,
        line: bool = False,
        plane: bool = False,
        context: Mapping[str, Any] | None = None,
    ) -> Question:
        """Returns the next question, pending until it is told, here or after a restart.

        Args:
            size: How many options to show; `default_size` unless it is given.
            options: Designs of a person's own, two or more, shown in this order instead
                of the model's; as many as ``size``, if that is given. Parameters that
                are fixed or derived may be left out.
            rater: The name of who is asked; nobody else can answer then.
            line: Whether to ask where somebody stops who moves along a line of designs,
                and tells the ``position``; ``options`` are its ends.
            plane: Whether to show a gallery: nine designs, or ``size=25``, in rows, in
                which two parameters of the recommended design move; somebody tells the
                ``best``. Before three answers, options are spread; where no plane has
                room, as at a corner of constraints, they are as without ``plane``.
            context: The values of parameters that are measured and not chosen, as
                ``{"room": "b"}``, which all options have. ``options`` may have them.

        Raises:
            ExperimentError: There are fewer options to show, or the search space does
                not have those that were given; or the model takes no positions, or
                nothing can move along a line or in a plane.
        """
        kind = _question_kind(line, plane, options)
        if line and size not in (None, 2):
            raise ExperimentError(f"size is {size}; a line has two ends, leave it out.")
        if size is None and plane:
            size = line_choice.PLANE_SIZE
        if size is not None:
            size = checked_integer("size", size, 2, telling.MOST_OPTIONS)
        rater, log = checked_rater(rater), self.log
        measured = NO_CONTEXT
        if options is None or context is not None:
            measured = checked_context(log.space, log.settings.context, context)
        # Choosing takes seconds, which are not spent on what cannot be kept.
        self._stored.check_writable()
        number = size or self.default_size
        line_choice.check_kind(log, kind, number)
        if options is None:
            chosen = line_choice.chosen_of_kind(
                self._stored.projection, kind, number, rater, measured
            )
        else:
            designs = own_options(log.space, log.catalogue, options, measured)
            chosen = Chosen(designs, line=line)
            if size not in (None, len(chosen.options)):
                raise ExperimentError(
                    f"size is {size}, and options has {len(chosen.options)}; leave out "
                    "size."
                )
            if line:
                line_choice.check_ends(log, designs)
            if measured:
                check_one_context([measured, *designs], log.settings.context)
        return self._add(lambda log: log.ask(chosen, rater))[0]

    def _add(self, change: Callable[[Log], object]) -> list[Question]:
        """Stores what a change adds to the log, and returns the new questions."""
        with self._stored.change() as log:
            before = len(log.questions)
            change(log)
        return [Question.from_logged(log, logged) for logged in log.questions[before:]]

    @one_at_a_time
    def tell(
        self,
        question: Question | int,
        *,
        rater: str | None = None,
        note: str | None = None,
        seconds: float | None = None,
        order: Sequence[int] | None = None,
        **fields: Any,
    ) -> None:
        """Keeps what the person said; telling the same again changes nothing.

        Args:
            question: The question, or its index.
            rater: The name of who answers; who was asked, if that is left out.
            note: A text to keep with the answer.
            seconds: How long it took.
            order: The options as they were on display, where that is not the order of
                the question, by which ``fields`` count.
            fields: See `Answer`; options are counted from 0.

        Raises:
            ExperimentError: There is no such question, it has another answer already
                or was asked of somebody else, this cannot be an answer to it, or the
                model takes no such answer.
        """
        around = {"rater": rater, "note": note, "seconds": seconds, "order": order}
        with self._stored.change() as log:
            logged = telling.asked_question(log, question)
            telling.tell(log, logged, {**fields, **around})

    @one_at_a_time
    def record(
        self,
        options: Sequence[Mapping[str, Any]],
        *,
        rater: str | None = None,
        **fields: Any,
    ) -> Question:
        """Keeps an answer that was given elsewhere, and returns its question.

        Args:
            options: What was compared, two designs or more, see `ask`.
            rater: The name of who answered.
            fields: See `tell`; and ``count``, how often the answer was given.

        Raises:
            ExperimentError: The search space does not have these designs, or this
                cannot be an answer about them.
        """
        designs = own_options(self.log.space, self.log.catalogue, options)
        answer = telling.answer_content(
            self.log, len(designs), {"rater": rater, **fields}
        )
        return self._add(lambda log: telling.record(log, designs, answer))[0]

    @one_at_a_time
    def record_table(
        self, answers: DataFrame | str | Path, items: DataFrame | None = None
    ) -> list[Question]:
        """Keeps answers from elsewhere, all or none, and returns their questions.

        An answer of `answers` or `write_answers` that the experiment has, or had, is
        not kept twice: it is recognised by its time, its options and what was said.

        Args:
            answers: Of pandas, or the path of a CSV file with commas. A table of duels
                has a row for each: the designs in ``winner_<parameter>`` and
                ``loser_<parameter>``, or their names in ``winner`` and ``loser``; then
                perhaps ``tie`` (True or False), ``rater``, ``note``, ``seconds``, and
                ``count``, how often the answer was given. A file whose rows name items
                of ``items`` or of the catalogue may have any layout of two items that
                ``rank`` reads; a warning says how it was read. One of `answers` or
                `write_answers` has a row for each option.
            items: Designs by name: a row each, with a column for each parameter. A
                catalogue needs none.

        Raises:
            ExperimentError: A column, or a row, says what cannot be; names it.
        """
        return self._add(lambda log: record_table(log, answers, items))

    @one_at_a_time
    def undo(
        self, question: Question | int | None = None, *, rater: str | None = None
    ) -> Question:
        """Takes back an answer, and returns its question, pending again.

        Called again, it takes back the answer that was given before. The log keeps what
        was said, and that it was undone.

        Args:
            question: The question, or its index; that of the last answer by default.
            rater: The name of the rater whose answer it is; None for any rater.

        Raises:
            ExperimentError: There is no such answer.
        """
        rater = checked_rater(rater)
        with self._stored.change() as log:
            undone = log.last_answer(rater)
            if question is not None:
                undone = telling.asked_question(log, question).standing
            if undone is None or rater not in (None, undone.rater):
                of_rater = "" if rater is None else f" of {rater!r}"
                to_question = "" if question is None else " to this question"
                raise ExperimentError(
                    f"There is no answer{of_rater}{to_question} that could be undone."
                )
            log.add(undone.question, UNDONE)
        return self.question(undone.question)

    @one_at_a_time
    def withdraw(self, question: Question | int) -> None:
        """Takes back a question, with its answer if it has one.

        Unlike after `undo` it is not pending; `tell` can still answer it.

        Args:
            question: The question, or its index.

        Raises:
            ExperimentError: There is no such question.
        """
        with self._stored.change() as log:
            logged = telling.asked_question(log, question)
            if not logged.withdrawn:
                log.add(logged.index, WITHDRAWN)

    @one_at_a_time
    def recommend(
        self,
        anywhere: bool = False,
        *,
        rater: str | None = None,
        context: Mapping[str, Any] | None = None,
    ) -> Design:
        """Returns the option with the largest posterior mean of the utility.

        Args:
            anywhere: Whether designs count that were never shown.
            rater: The rater whose utility counts, where raters share; None for the
                mean of all.
            context: Where the best one is wanted, see `ask`. Options that were shown
                elsewhere count as they would be there.

        Returns:
            The values by name; of a catalogue with the ``id`` of the row.

        Raises:
            ExperimentError: There is no answer yet, or none of that rater, or the
                answers of all are pooled; or the context is none of this experiment.
        """
        anywhere, log = checked_truth("anywhere", anywhere), self.log
        # None is refused where there are contexts; `fitted_adapter` takes it for all.
        checked_context(log.space, log.settings.context, context)
        adapter = self.fitted_adapter(rater=rater, context=context)
        if anywhere:
            best = best_designs.best_anywhere(self.log, adapter)
        else:
            best = best_designs.best_shown(adapter)
        catalogue = self.log.catalogue
        return Design(best, None if catalogue is None else catalogue.id_of(best))

    @one_at_a_time
    def predict(
        self, designs: Sequence[Mapping[str, Any]], *, rater: str | None = None
    ) -> DataFrame:
        """Predicts the utility of designs, shown or not.

        Utilities are relative: comparisons tell no more than their differences.

        Args:
            designs: Values of parameters by name; those that are fixed or derived may
                be left out. Of a catalogue, also ids of rows.
            rater: See `recommend`.

        Returns:
            A row for each design, in order, with the posterior ``mean`` and the
            standard ``deviation`` of its utility.

        Raises:
            ExperimentError: The search space does not have a design, or what
                `recommend` says.
        """
        space, catalogue = self.log.space, self.log.catalogue
        listing: object = designs
        if not isinstance(listing, Sequence) or isinstance(listing, str):
            raise argument_error("designs", listing, "a list of designs")
        checked = [own_design(space, catalogue, design) for design in listing]
        return best_designs.predictions(self.fitted_adapter(rater=rater), checked)

    @one_at_a_time
    def report(self, *, context: Mapping[str, Any] | None = None) -> reporting.Report:
        """Reports what to take, how sure that is, and tables of the answers so far.

        Args:
            context: Where it is to hold, see `ask`; by default that of the last answer.
                The report says which one.

        Raises:
            ExperimentError: There is no answer yet, or no such context.
        """
        log = self.log
        if context is not None:
            context = checked_context(log.space, log.settings.context, context)
        return reporting.preference_report(self._stored.projection, context)

    @one_at_a_time
    def cross_validate(self, num_folds: int = 5) -> DataFrame:
        """Computes scores of predictions of answers that the model has not seen.

        The answers are split into ``num_folds`` parts, each predicted from the
        others; see `cross_validation`.

        Raises:
            ExperimentError: There are fewer answers than folds.
        """
        adapter = self.fitted_adapter()
        with with_rng_seed(
            question_choice.derived_seed(self.settings, len(self.log.questions))
        ):
            return best_designs.cross_validation(adapter, num_folds)

    @one_at_a_time
    def fitted_adapter(
        self, *, rater: str | None = None, context: Mapping[str, Any] | None = None
    ) -> PreferenceAdapter:
        """Returns Ax's adapter, whose ``botorch_model`` is fitted to all answers.

        Arguments and errors are those of `recommend`; without a context, its designs
        may be in any.
        """
        name, log = checked_rater(rater), self.log
        number = None if name is None else log.known_rater(name)
        measured = NO_CONTEXT
        if context is not None:
            measured = checked_context(log.space, log.settings.context, context)
        projection = self._stored.projection
        return best_designs.fitted_adapter(projection, rater=number, context=measured)

    @property
    def generation_strategy(self) -> GenerationStrategy:
        """Ax's generation strategy, which chooses the next question for Ax."""
        choices = self.settings, self.log.position, self.default_size
        return question_choice.preference_generation_strategy(*choices)

    @one_at_a_time
    def client(self) -> Client:
        """Gives Ax's client of this experiment; its ``summarize`` shows no winners."""
        client = PreferenceClient(self.settings)
        client.set_experiment(self.experiment)
        client.set_generation_strategy(self.generation_strategy)
        return client


def _question_kind(line: bool, plane: bool, options: object) -> QuestionKind:
    """Returns the kind of a question by the arguments of `ask`, which are checked."""
    line, plane = checked_truth("line", line), checked_truth("plane", plane)
    if plane and (line or options is not None):
        rival = "line" if line else "options"
        raise ExperimentError(
            f"plane and {rival} are both there; a plane is one of its own designs, so "
            "leave out one of them."
        )
    return "line" if line else "plane" if plane else "options"
