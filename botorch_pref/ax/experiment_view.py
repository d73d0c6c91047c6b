"""View of a preference experiment: its questions and what they taught."""

from __future__ import annotations

from pathlib import Path

from ax.api.client import Client
from ax.core.experiment import Experiment
from ax.generation_strategy.generation_strategy import GenerationStrategy
from ax.utils.common.random import with_rng_seed
from pandas import DataFrame

from botorch_pref.ax.answers.circumstances import checked_rater
from botorch_pref.ax.exchange import save_to_ax, write_csv, write_json
from botorch_pref.ax.generation.asking import derived_seed
from botorch_pref.ax.generation.generation_strategy import (
    preference_generation_strategy,
)
from botorch_pref.ax.generation.preference_adapter import PreferenceAdapter
from botorch_pref.ax.given_values import given_truth
from botorch_pref.ax.kept_log import KeptLog
from botorch_pref.ax.log import TOLD
from botorch_pref.ax.one_at_a_time import one_at_a_time
from botorch_pref.ax.question import Design, Question
from botorch_pref.ax.raters import known_rater
from botorch_pref.ax.reporting.answer_table import answer_table
from botorch_pref.ax.reporting.cross_validation import cross_validation
from botorch_pref.ax.reporting.recommendation import (
    best_anywhere,
    best_shown,
    fitted_adapter,
)
from botorch_pref.ax.reporting.report import Report, preference_report
from botorch_pref.ax.telling import asked_question
from botorch_pref.ax.whole_file import given_path, replace_file
from botorch_pref.errors import BotorchPrefError


class ExperimentView:
    """View of a preference experiment that changes nothing.

    Args:
        kept: The log of the experiment.
    """

    def __init__(self, kept: KeptLog) -> None:
        self._kept = kept
        self.settings = kept.log.settings

    @one_at_a_time
    def __repr__(self) -> str:
        """Name, storage, numbers of questions and answers, and what asks them."""
        try:
            log = self._kept.log
        except BotorchPrefError as error:
            return f"<{type(self).__name__}: {error}>"
        answers = sum(question.standing is not None for question in log.questions)
        return (
            f"<{type(self).__name__} {log.name!r} in {self._kept.place}: "
            f"{len(log.questions)} questions, {answers} answers, {self.settings.model} "
            f"with {self.settings.acquisition}>"
        )

    @property
    @one_at_a_time
    def experiment(self) -> Experiment:
        """Ax's experiment, made from the log, for Ax's tools and to be read.

        It has everything that was asked and said when it is taken from here: take it
        anew after that.

        Raises:
            ExperimentError: Somebody added trials to it. It is made anew.
            StorageError: A write failed, and what is stored still cannot be read.
        """
        return self._kept.experiment

    @property
    def damage(self) -> list[str]:
        """Parts of a damaged experiment that were left out, a line each."""
        return [*self._kept.damage]

    @one_at_a_time
    def recommend(self, anywhere: bool = False, *, rater: str | None = None) -> Design:
        """The options with the largest posterior mean of the utility.

        Args:
            anywhere: Of the whole search space, not only of those that were shown.
            rater: Whose utility, where raters share; None for the mean of all.

        Returns:
            The values by name; of a catalogue with the ``id`` of the row.

        Raises:
            ExperimentError: There is no answer yet, or none of that rater, or the
                answers of all are pooled.
        """
        anywhere = given_truth("anywhere", anywhere)
        adapter = self.fitted_adapter(rater=rater)
        if anywhere:
            best = best_anywhere(self.experiment, self.settings, adapter)
        else:
            best = best_shown(adapter)
        return Design.of(self.experiment, best)

    @one_at_a_time
    def report(self) -> Report:
        """Report on the answers so far: two small tables.

        Raises:
            ExperimentError: There is no answer yet.
        """
        return preference_report(self.experiment, self.settings)

    @one_at_a_time
    def cross_validate(self, num_folds: int = 5) -> DataFrame:
        """Scores of the model's predictions of answers that it has not seen.

        Args:
            num_folds: How many parts the questions are split into, each predicted from
                the others.

        Returns:
            See `cross_validation`.

        Raises:
            ExperimentError: There are fewer answered questions than folds.
        """
        adapter = self.fitted_adapter()
        with with_rng_seed(derived_seed(self.settings, len(self.experiment.trials))):
            return cross_validation(adapter, num_folds)

    @one_at_a_time
    def fitted_adapter(self, *, rater: str | None = None) -> PreferenceAdapter:
        """Ax's adapter with the model of all answers: ``botorch_model``, ``predict``.

        Args:
            rater: Whose utility, where raters share; None for the mean of all.

        Raises:
            ExperimentError: See `recommend`.
        """
        name = checked_rater(rater)
        number = None if name is None else known_rater(self.experiment, name)
        return fitted_adapter(self.experiment, self.settings, rater=number)

    @property
    @one_at_a_time
    def pending(self) -> list[Question]:
        """Questions that were asked and not answered, in the order they were asked."""
        log = self._kept.log
        return [
            Question.of_logged(log, asked) for asked in log.questions if asked.pending
        ]

    @one_at_a_time
    def question(self, index: int) -> Question:
        """A question that was asked, answered or not.

        Args:
            index: Its number.

        Raises:
            ExperimentError: There is no such question.
        """
        log = self._kept.log
        return Question.of_logged(log, asked_question(log, index))

    @property
    @one_at_a_time
    def num_answers(self) -> int:
        """Number of answers that stand."""
        asked = self._kept.log.questions
        return sum(question.standing is not None for question in asked)

    @property
    @one_at_a_time
    def version(self) -> str:
        """Checksum of all that was asked and said, another one after each event."""
        return self._kept.log.head

    @property
    @one_at_a_time
    def raters(self) -> list[str]:
        """The names of those who have answered, in the order of their first answers."""
        told = (event.rater for event in self._kept.log.events if event.kind == TOLD)
        return [*dict.fromkeys(name for name in told if name is not None)]

    @property
    @one_at_a_time
    def num_levels(self) -> int | None:
        """Number of levels of the scale; None without a scale."""
        return self._kept.log.num_levels

    @property
    def generation_strategy(self) -> GenerationStrategy:
        """Ax's generation strategy, which chooses the next question for Ax."""
        return preference_generation_strategy(self.settings)

    @one_at_a_time
    def client(self) -> Client:
        """Ax's client of this experiment, for what Ax has for all experiments.

        Its ``summarize`` shows no winners, and after the first answer of another kind
        only the questions that were answered so; `answers` has all of them.
        """
        client = Client()
        client.set_experiment(self.experiment)
        client.set_generation_strategy(self.generation_strategy)
        return client

    @one_at_a_time
    def answers(self) -> DataFrame:
        """Table of the answers that stand: a row for each option, with its parameters.

        Returns:
            See `answer_table`.
        """
        return answer_table(self._kept.log)

    @one_at_a_time
    def write_answers(self, path: str | Path) -> None:
        """Writes the table of `answers` as CSV.

        Args:
            path: Of the file; replaced, whole, if there is one.

        Raises:
            StorageError: It cannot be written.
        """
        # A cell that has either half of this end of a line is quoted.
        text = self.answers().to_csv(index=False, lineterminator="\r\n")
        replace_file(given_path("path", path), text.encode())

    @one_at_a_time
    def write_json(self, path: str | Path) -> None:
        """Writes the whole experiment as JSON: what it is, and its log.

        Args:
            path: Of the file, which `read` reads; replaced, whole, if there is one.

        Raises:
            StorageError: It cannot be written.
        """
        write_json(self._kept.log, given_path("path", path))

    @one_at_a_time
    def write_log(self, path: str | Path) -> None:
        """Writes the whole experiment as CSV: what it is, then its log, a row an event.

        Args:
            path: Of the file, which `read` reads if its name ends in ``.csv``;
                replaced, whole, if there is one.

        Raises:
            StorageError: It cannot be written.
        """
        write_csv(self._kept.log, given_path("path", path))

    @one_at_a_time
    def save_to_ax(self, place: str | Path) -> None:
        """Writes Ax's experiment to Ax's own storage, for Ax's tools to open.

        Nothing here reads it again; this experiment goes on where it is.

        Args:
            place: A path that ends in ``.json``; another path, of an SQLite file; or
                the URL of a database.

        Raises:
            StorageError: It cannot be written, or the database has an experiment of
                that name.
        """
        given_path("place", place)
        save_to_ax(self.experiment, str(place))
