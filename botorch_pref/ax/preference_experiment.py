"""A preference experiment in Ax, in terms of questions and answers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Self

from ax.core.generator_run import GeneratorRun
from pandas import DataFrame

from botorch_pref.ax import telling
from botorch_pref.ax.answers.answer import Answer
from botorch_pref.ax.answers.answer_table import table_rows
from botorch_pref.ax.answers.circumstances import checked_rater
from botorch_pref.ax.answers.taken_answers import check_taken
from botorch_pref.ax.exchange import add_events, given_names, read_file, retold
from botorch_pref.ax.experiment_view import ExperimentView
from botorch_pref.ax.generation.checked_options import (
    check_first_question,
    check_options,
)
from botorch_pref.ax.generation.chosen_question import chosen_question
from botorch_pref.ax.given_values import given_integer, given_truth, written
from botorch_pref.ax.kept_log import KeptLog, checked_log, good_part
from botorch_pref.ax.log import (
    UNDONE,
    WITHDRAWN,
    Definition,
    Draft,
    Log,
    parameter_to_json,
)
from botorch_pref.ax.log_store import LogStore
from botorch_pref.ax.one_at_a_time import one_at_a_time
from botorch_pref.ax.projection import ask_run
from botorch_pref.ax.question import MOST_OPTIONS, Question
from botorch_pref.ax.registration import register_classes
from botorch_pref.ax.settings import SHORT_WALKS, Settings
from botorch_pref.ax.setup import (
    ParameterConfig,
    check_same_space,
    check_with_parameters,
    checked_space,
    new_experiment,
)
from botorch_pref.ax.space.catalogue import catalogue_parameters, check_alone
from botorch_pref.ax.space.own_options import own_options
from botorch_pref.ax.whole_file import given_path
from botorch_pref.errors import ExperimentError


class PreferenceExperiment(ExperimentView):
    """Preference experiment: asks questions, is told answers, recommends.

    All that is asked and said is an event of a log, which is kept in a database before
    ``ask`` and ``tell`` return. Ax's experiment is made from the log.

    `create`, `resume` and `read` make one. Threads that use experiments, the same or
    others, wait for each other.

    Args:
        kept: The log of the experiment.
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
            storage: The path of an SQLite file, or the URL of a database.
            num_levels: How many levels there are, if answers are levels of a scale.
            settings: See `Settings`: ``model``, ``acquisition``, ``initial``, ``seed``,
                ``baseline`` and options.

        Raises:
            ExperimentError: A setting or parameter that cannot be.
            StorageError: There is an experiment of that name already.
        """
        register_classes()
        if num_levels is not None:
            num_levels = given_integer("num_levels", num_levels, 2)
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
        blank = new_experiment(
            name, parameters, parameter_constraints, num_levels, chosen, rows
        )
        check_first_question(blank, Settings.of(blank))
        definition = Definition.new(
            name,
            parameters or [],
            parameter_constraints,
            num_levels,
            Settings.of(blank),
            rows,
        )
        return cls._created(Log(definition), storage)

    @classmethod
    def _created(cls, log: Log, storage: str | Path) -> Self:
        store = LogStore(storage)
        store.create(log)
        return cls(KeptLog(log, store))

    @classmethod
    @one_at_a_time
    def resume(
        cls,
        name: str,
        *,
        storage: str | Path,
        parameters: Sequence[ParameterConfig] | None = None,
        parameter_constraints: Sequence[str] = (),
        read_only: bool = False,
    ) -> Self:
        """An experiment as it was left, however it was left.

        Args:
            name: Of the experiment.
            storage: Where it was created.
            parameters: If given, they must be those of the experiment.
            parameter_constraints: Theirs.
            read_only: Whether to open it to be read, also if it is damaged. Then it has
                every event that is what was written and can have happened, `damage`
                says what was left out, and `copy` writes the good part to a storage
                where one can go on. Where the stored parameters are damaged too,
                ``parameters`` take their place.

        Raises:
            ExperimentError: The search space has changed.
            StorageError: There is no such experiment, or it cannot be read.
        """
        register_classes()
        check_with_parameters(parameters, parameter_constraints)
        store = LogStore(storage)
        if given_truth("read_only", read_only):
            given = None
            if parameters is not None:
                checked = checked_space(parameters, parameter_constraints)
                given = [parameter_to_json(config) for config in checked]
            log, damage = good_part(store, name, given, parameter_constraints)
            return cls(KeptLog(log, None, damage))
        log = checked_log(store, name)
        if parameters is not None:
            check_same_space(log.blank, parameters, parameter_constraints)
        return cls(KeptLog(log, store))

    @classmethod
    @one_at_a_time
    def read(
        cls, path: str | Path, *, storage: str | Path, name: str | None = None
    ) -> Self:
        """A new experiment from a file of `write_json` or `write_log`.

        Args:
            path: Of the file; a name that ends in ``.csv`` is that of a table.
            storage: Where the experiment is kept from now on, see `create`.
            name: Of the new experiment; that of the old one by default.

        Raises:
            StorageError: The file is not what was written, or the storage has such an
                experiment already.
        """
        register_classes()
        return cls._created(read_file(given_path("path", path), name), storage)

    @one_at_a_time
    def copy(
        self,
        *,
        storage: str | Path,
        name: str | None = None,
        parameters: Sequence[ParameterConfig] | None = None,
        parameter_constraints: Sequence[str] = (),
        rename: Mapping[str, str] | None = None,
    ) -> Self:
        """A new experiment with all that was asked and said in this one.

        Args:
            storage: Where the new one is kept, see `create`.
            name: Of the new one; the same by default.
            parameters: Those of the new one, such as wider ranges; by default the same.
            parameter_constraints: Theirs.
            rename: New names of parameters, by their old ones.

        Raises:
            ExperimentError: The new search space does not have an option that was
                shown; the message names the event.
            StorageError: It cannot be written.
        """
        check_with_parameters(parameters, parameter_constraints)
        copied = retold(
            self._kept.log,
            name=name,
            parameters=parameters,
            constraints=parameter_constraints,
            rename=given_names(rename),
        )
        return self._created(copied, storage)

    @one_at_a_time
    def merge(self, other: PreferenceExperiment) -> list[Question]:
        """Adds all that was asked and said in another experiment, or nothing.

        Args:
            other: An experiment whose options this search space has. It stays as it is.

        Returns:
            The questions that were added, which are numbered on.

        Raises:
            ExperimentError: This experiment cannot have one of the events; names it.
            StorageError: They cannot be kept.
        """
        if not isinstance(other, PreferenceExperiment):
            raise ExperimentError(
                f"other is {written(other)}; give a PreferenceExperiment, as resume "
                "returns one."
            )
        log = self._kept.log
        before = len(log.questions)
        together = Log(log.definition)
        together.append(log.events)
        draft = Draft(log)
        draft.events = add_events(together, other._kept.log, {})
        if draft.events:
            self._kept.keep(draft)
        return [Question.of_logged(log, asked) for asked in log.questions[before:]]

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
        # Choosing takes seconds, which are not spent on what cannot be kept.
        self._kept.store_to_write()
        if options is None:
            run, order = chosen_question(self.experiment, self.settings, size, rater)
        else:
            run, order = own_options(self._kept.log.blank, options), None
        return self._ask_about(run, rater, order)

    def _ask_about(
        self, run: GeneratorRun, rater: str | None, order: list[int] | None
    ) -> Question:
        """Asks about options that were chosen, see `ask_run`."""
        draft = Draft(self._kept.log)
        index = ask_run(draft, run, rater, order)
        return self._kept_questions(draft, [index])[0]

    def _kept_questions(self, draft: Draft, indices: list[int]) -> list[Question]:
        """Questions of a draft, which is kept."""
        self._kept.keep(draft)
        log = draft.log
        return [Question.of_logged(log, log.questions[index]) for index in indices]

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
        log = self._kept.log
        asked = telling.asked_question(log, question)
        around = telling.circumstances_of(
            asked, rater=rater, note=note, seconds=seconds, order=order
        )
        answer = telling.new_answer(log, asked, around, said)
        if answer is not None:
            draft = Draft(log)
            telling.tell(draft, asked.index, answer, around)
            self._kept.keep(draft)

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
        log = self._kept.log
        answer = telling.RecordedAnswer.checked(log, options, {"rater": rater, **said})
        draft = Draft(log)
        return self._kept_questions(draft, [answer.add_to(draft)])[0]

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
        log = self._kept.log
        rows = table_rows(answers, items, log.blank)
        recorded, draft = telling.recorded_answers(log, rows), Draft(log)
        return self._kept_questions(draft, [one.add_to(draft) for one in recorded])

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
        draft = Draft(self._kept.log)
        index = telling.last_answered(draft.log, checked_rater(rater)).index
        draft.add(index, UNDONE)
        return self._kept_questions(draft, [index])[0]

    @one_at_a_time
    def withdraw(self, question: Question | int) -> None:
        """Takes an answer back, or a question that is not to be answered.

        The log keeps both. The question may be told anew.

        Args:
            question: The question, or its index.

        Raises:
            ExperimentError: There is no such question.
        """
        draft = Draft(self._kept.log)
        asked = telling.asked_question(draft.log, question)
        if not asked.withdrawn:
            draft.add(asked.index, WITHDRAWN)
            self._kept.keep(draft)
