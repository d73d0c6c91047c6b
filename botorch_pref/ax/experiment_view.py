"""View of a preference experiment: its questions and what they taught."""

from __future__ import annotations

from pathlib import Path

from ax.api.client import Client
from ax.core.experiment import Experiment
from ax.core.trial_status import TrialStatus
from ax.generation_strategy.generation_strategy import GenerationStrategy
from ax.utils.common.random import with_rng_seed
from pandas import DataFrame

from botorch_pref.ax.answers import telling
from botorch_pref.ax.answers.circumstances import checked_rater
from botorch_pref.ax.answers.kinds.option_levels import number_of_levels
from botorch_pref.ax.answers.raters import known_rater, rater_numbers
from botorch_pref.ax.generation.asking import derived_seed
from botorch_pref.ax.generation.generation_strategy import (
    preference_generation_strategy,
)
from botorch_pref.ax.generation.preference_adapter import PreferenceAdapter
from botorch_pref.ax.given_values import given_truth
from botorch_pref.ax.kept_experiment import KeptExperiment
from botorch_pref.ax.one_at_a_time import one_at_a_time
from botorch_pref.ax.question import Design, Question
from botorch_pref.ax.reporting.answer_table import answer_table
from botorch_pref.ax.reporting.cross_validation import cross_validation
from botorch_pref.ax.reporting.recommendation import (
    best_anywhere,
    best_shown,
    fitted_adapter,
)
from botorch_pref.ax.reporting.report import Report, preference_report
from botorch_pref.ax.settings import Settings
from botorch_pref.ax.storage.event_table import write_log
from botorch_pref.ax.storage.events import standing_event
from botorch_pref.ax.storage.json_storage import write_json
from botorch_pref.ax.storage.storage import Storage
from botorch_pref.ax.storage.whole_file import replace_file
from botorch_pref.errors import BotorchPrefError


class ExperimentView:
    """View of a preference experiment that changes nothing.

    Args:
        experiment: Ax's, as it is stored.
        settings: How questions are chosen.
        storage: Where the experiment is kept.
    """

    def __init__(
        self, experiment: Experiment, settings: Settings, storage: Storage
    ) -> None:
        self._kept = KeptExperiment(experiment, storage)
        self.settings = settings

    @one_at_a_time
    def __repr__(self) -> str:
        """Name, storage, numbers of questions and answers, and what asks them."""
        try:
            trials = self.experiment.trials.values()
        except BotorchPrefError as error:
            return f"<{type(self).__name__}: {error}>"
        answers = sum(standing_event(trial) is not None for trial in trials)
        return (
            f"<{type(self).__name__} {self.experiment.name!r} in {self._kept.storage}: "
            f"{len(trials)} questions, {answers} answers, {self.settings.model} with "
            f"{self.settings.acquisition}>"
        )

    @property
    @one_at_a_time
    def experiment(self) -> Experiment:
        """Ax's experiment, as it is stored.

        Raises:
            StorageError: A write failed, and what is stored still cannot be read.
        """
        return self._kept.experiment

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
        running = self.experiment.trials_by_status[TrialStatus.RUNNING]
        in_order = sorted(running, key=lambda trial: trial.index)
        return [Question.of_trial(telling.batch(trial)) for trial in in_order]

    @property
    @one_at_a_time
    def raters(self) -> list[str]:
        """The names of those who have answered, in the order of their first answers."""
        return [*rater_numbers(self.experiment)]

    @property
    @one_at_a_time
    def num_levels(self) -> int | None:
        """Number of levels of the scale; None without a scale."""
        return number_of_levels(self.experiment)

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
        return answer_table(self.experiment)

    @one_at_a_time
    def write_answers(self, path: str | Path) -> None:
        """Writes the table of `answers` as CSV.

        Args:
            path: Of the file; replaced, whole, if there is one.

        Raises:
            StorageError: It cannot be written.
        """
        replace_file(Path(path), self.answers().to_csv(index=False).encode())

    @one_at_a_time
    def write_json(self, path: str | Path) -> None:
        """Writes the whole experiment to a file that Ax reads too.

        Args:
            path: Of the file; ``resume(name, storage=path)`` goes on from there.

        Raises:
            StorageError: It cannot be written.
        """
        write_json(self.experiment, Path(path))

    @one_at_a_time
    def write_log(self, path: str | Path) -> None:
        """Writes the log of all questions, answers and withdrawals as CSV.

        Args:
            path: Of the file; replaced if there is one.

        Raises:
            StorageError: It cannot be written.
        """
        write_log(self.experiment, Path(path))
