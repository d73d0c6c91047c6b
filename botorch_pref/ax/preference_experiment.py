"""A preference experiment in Ax, in terms of questions and answers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Self

from pandas import DataFrame

from botorch_pref.ax.answers import taking_back, telling
from botorch_pref.ax.answers.answer import Answer
from botorch_pref.ax.answers.answer_table import table_rows
from botorch_pref.ax.answers.circumstances import checked_rater
from botorch_pref.ax.answers.recorded_answer import RecordedAnswer, recorded_answers
from botorch_pref.ax.answers.taken_answers import check_taken
from botorch_pref.ax.experiment_view import ExperimentView
from botorch_pref.ax.generation.checked_options import (
    check_first_question,
    check_options,
)
from botorch_pref.ax.generation.chosen_question import chosen_question
from botorch_pref.ax.given_values import given_integer
from botorch_pref.ax.kept_experiment import checked_load
from botorch_pref.ax.one_at_a_time import one_at_a_time
from botorch_pref.ax.question import MOST_OPTIONS, Question
from botorch_pref.ax.registration import register_classes
from botorch_pref.ax.settings import SHORT_WALKS, Settings
from botorch_pref.ax.setup import ParameterConfig, check_same_space, new_experiment
from botorch_pref.ax.space.catalogue import catalogue_parameters, check_alone
from botorch_pref.ax.space.own_options import own_options
from botorch_pref.ax.storage.log_head import LogHead
from botorch_pref.ax.storage.storage_place import storage_at


class PreferenceExperiment(ExperimentView):
    """Preference experiment: asks questions, is told answers, recommends.

    Everything is kept in Ax's experiment: a question is a batch trial, which runs until
    it is answered, its options are arms, answers are data of metrics, one for each kind
    of answer. What is said is kept before ``ask`` and ``tell`` return.

    `create` and `resume` make one. Threads that use experiments, the same or others,
    wait for each other.

    Args:
        experiment: Ax's, as it is stored.
        settings: How questions are chosen.
        storage: Where the experiment is kept.
    """

    @classmethod
    @one_at_a_time
    def create(
        cls,
        name: str,
        *,
        parameters: Sequence[ParameterConfig] | None = None,
        parameter_constraints: Sequence[str] = (),
        catalogue: DataFrame | None = None,
        storage: str | Path,
        num_levels: int | None = None,
        **settings: Any,
    ) -> Self:
        """A new experiment, kept at once.

        Args:
            name: Of the experiment.
            parameters: Ax's.
            parameter_constraints: Linear ones, as Ax takes them, for example
                ``"dose + ratio <= 25"``.
            catalogue: A table in place of parameters: options are its rows, its columns
                their features, and its index their ids.
            storage: A path of an SQLite file; a path that ends in ``.json``; or the URL
                of a database.
            num_levels: How many levels there are, if answers are levels of a scale.
            settings: See `Settings`: ``model``, ``acquisition``, ``initial``, ``seed``,
                ``baseline`` and options.

        Raises:
            ExperimentError: A setting or parameter that cannot be.
            StorageError: There is an experiment of that name already.
        """
        register_classes()
        if parameter_constraints:
            settings.setdefault("optimizer_options", SHORT_WALKS)
        rows = None
        if catalogue is not None:
            check_alone(parameters, parameter_constraints)
            rows, parameters = catalogue_parameters(catalogue)
            # Every row is a design of its own.
            settings.setdefault("smallest_difference", 0.0)
        chosen = Settings.from_arguments(settings)
        check_taken(chosen, Answer(winner=0), 2, num_levels)
        check_options(chosen)
        experiment = new_experiment(
            name, parameters, parameter_constraints, num_levels, chosen, rows
        )
        check_first_question(experiment, Settings.of(experiment))
        LogHead.of_new(experiment).put(experiment)
        place = storage_at(storage)
        place.create(experiment)
        return cls(experiment, Settings.of(experiment), place)

    @classmethod
    @one_at_a_time
    def resume(
        cls,
        name: str,
        *,
        storage: str | Path,
        parameters: Sequence[ParameterConfig] | None = None,
        parameter_constraints: Sequence[str] = (),
    ) -> Self:
        """An experiment as it was left, however it was left.

        Args:
            name: Of the experiment.
            storage: Where it was created.
            parameters: If given, they must be those of the experiment.
            parameter_constraints: Theirs.

        Raises:
            ExperimentError: The search space or the objective has changed.
            StorageError: There is no such experiment, or it cannot be read.
        """
        register_classes()
        place = storage_at(storage)
        experiment = checked_load(name, place)
        if parameters is not None:
            check_same_space(experiment, parameters, parameter_constraints)
        return cls(experiment, Settings.of(experiment), place)

    @one_at_a_time
    def ask(
        self,
        size: int = 2,
        *,
        options: Sequence[Mapping[str, Any]] | None = None,
        rater: str | None = None,
    ) -> Question:
        """The next question, pending until it is told, here or after a restart.

        Args:
            size: How many options to show.
            options: Designs of a person's own, two or more, shown as they are and in
                this order instead of what the model would choose. Parameters that are
                fixed or derived from others may be left out.
            rater: The name of who is asked; nobody else can answer then.

        Raises:
            ExperimentError: There are not so many options to show, or the search space
                does not have those of one's own.
        """
        size = given_integer("size", size, 2, MOST_OPTIONS)
        rater = checked_rater(rater)
        if options is None:
            run, order = chosen_question(self.experiment, self.settings, size, rater)
        else:
            run, order = own_options(self.experiment, options), None
        trial = self._kept.keep(
            lambda experiment: telling.ask_about(experiment, run, rater, order)
        )
        return Question.of_trial(trial)

    @one_at_a_time
    def tell(
        self,
        question: Question | int,
        *,
        rater: str | None = None,
        note: str | None = None,
        seconds: float | None = None,
        order: Sequence[int] | None = None,
        **said: Any,
    ) -> None:
        """Keeps what the person said; telling the same again changes nothing.

        Args:
            question: The question, or its index.
            rater: The name of who answers; who was asked, if that is left out.
            note: Whatever else there is to keep about the answer.
            seconds: How long it took.
            order: The options in the order in which they were on display, where that
                is not the order of the question; ``said`` counts by the question's.
            said: See `Answer`; options are counted from 0.

        Raises:
            ExperimentError: There is no such question, it has another answer already
                or was asked of somebody else, this cannot be an answer to it, or the
                model takes no such answer.
        """
        trial = telling.asked_trial(self.experiment, question)
        around = telling.circumstances_of(
            trial, rater=rater, note=note, seconds=seconds, order=order
        )
        answer = telling.new_answer(trial, self.settings, around, said)
        if answer is not None:
            self._kept.keep(lambda _: telling.give_answer(trial, answer, around))

    @one_at_a_time
    def record(
        self,
        options: Sequence[Mapping[str, Any]],
        *,
        rater: str | None = None,
        **said: Any,
    ) -> Question:
        """Keeps an answer that was given elsewhere, like any other.

        Args:
            options: What was compared, two designs or more, see `ask`.
            rater: The name of who answered.
            said: See `tell`.

        Returns:
            The question that it is kept under.

        Raises:
            ExperimentError: The search space does not have these designs, or this
                cannot be an answer about them.
        """
        answer = RecordedAnswer.checked(
            self.experiment, self.settings, options, {"rater": rater, **said}
        )
        return Question.of_trial(self._kept.keep(answer.added_to))

    @one_at_a_time
    def record_table(
        self, answers: DataFrame | str | Path, items: DataFrame | None = None
    ) -> list[Question]:
        """Keeps a table of answers that were given elsewhere, all of them or none.

        Args:
            answers: Of pandas, or the path of a CSV file; a row an answer. The columns
                ``winner_<parameter>`` and ``loser_<parameter>`` have the two designs;
                or ``winner`` and ``loser`` name them, given ``items``. Further columns
                may be ``tie`` (True for equally good ones), ``rater``, ``note`` and
                ``seconds``.
            items: Designs by name: a row each, with a column for each parameter. A
                catalogue needs none.

        Returns:
            The questions that they are kept under.

        Raises:
            ExperimentError: A column, or a row, says what cannot be.
        """
        rows = table_rows(answers, items, self.experiment)
        kept = recorded_answers(self.experiment, self.settings, rows)
        trials = self._kept.keep(
            lambda experiment: [answer.added_to(experiment) for answer in kept]
        )
        return [Question.of_trial(trial) for trial in trials]

    @one_at_a_time
    def undo(self, *, rater: str | None = None) -> Question:
        """Withdraws the last answer, so that its question is pending again.

        Once more, and the answer before is withdrawn too. The log keeps what was said,
        and that it was undone.

        Args:
            rater: Whose last answer; None for anybody's.

        Returns:
            The question, to be told anew.

        Raises:
            ExperimentError: There is no answer left.
        """
        trial = taking_back.last_answered(self.experiment, checked_rater(rater))
        self._kept.keep(lambda _: taking_back.undo_answer(trial))
        return Question.of_trial(trial)

    @one_at_a_time
    def withdraw(self, question: Question | int) -> None:
        """Takes an answer back, or a question that is not to be answered.

        The log keeps both. The question may be told anew.

        Args:
            question: The question, or its index.

        Raises:
            ExperimentError: There is no such question.
        """
        trial = telling.asked_trial(self.experiment, question)
        if not taking_back.is_taken_back(trial):
            self._kept.keep(lambda _: taking_back.take_back(trial))
