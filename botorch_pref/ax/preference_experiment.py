"""A preference experiment in Ax, in terms of questions and answers."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Self

from ax.api.client import Client
from ax.core.experiment import Experiment
from ax.core.trial_status import TrialStatus
from ax.core.types import TParameterization
from ax.generation_strategy.generation_strategy import GenerationStrategy
from ax.utils.common.random import with_rng_seed
from pandas import DataFrame

from botorch_pref.ax.answers import telling
from botorch_pref.ax.answers.answer import Answer
from botorch_pref.ax.answers.kinds.option_levels import number_of_levels
from botorch_pref.ax.answers.taken_answers import check_taken
from botorch_pref.ax.generation.asking import (
    derived_seed,
    next_options,
    shown_order,
)
from botorch_pref.ax.generation.generation_strategy import (
    preference_generation_strategy,
)
from botorch_pref.ax.generation.preference_adapter import PreferenceAdapter
from botorch_pref.ax.given_values import given_integer, given_truth
from botorch_pref.ax.kept_experiment import KeptExperiment, checked_load
from botorch_pref.ax.one_at_a_time import one_at_a_time
from botorch_pref.ax.question import Question
from botorch_pref.ax.registration import register_classes
from botorch_pref.ax.reporting.cross_validation import cross_validation
from botorch_pref.ax.reporting.recommendation import (
    best_anywhere,
    best_shown,
    fitted_adapter,
)
from botorch_pref.ax.reporting.report import Report, preference_report
from botorch_pref.ax.settings import SHORT_WALKS, Settings
from botorch_pref.ax.setup import ParameterConfig, check_same_space, new_experiment
from botorch_pref.ax.storage.event_table import write_log
from botorch_pref.ax.storage.json_storage import write_json
from botorch_pref.ax.storage.storage import Storage
from botorch_pref.ax.storage.storage_place import storage_at


class PreferenceExperiment:
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

    def __init__(
        self, experiment: Experiment, settings: Settings, storage: Storage
    ) -> None:
        self._kept = KeptExperiment(experiment, storage)
        self.settings = settings

    @property
    @one_at_a_time
    def experiment(self) -> Experiment:
        """Ax's experiment, as it is stored.

        Raises:
            StorageError: A write failed, and what is stored still cannot be read.
        """
        return self._kept.experiment

    @classmethod
    @one_at_a_time
    def create(
        cls,
        name: str,
        *,
        parameters: Sequence[ParameterConfig],
        parameter_constraints: Sequence[str] = (),
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
            storage: A path of an SQLite file; a path that ends in ``.json``; or the URL
                of a database.
            num_levels: How many levels there are, if answers are levels of a scale.
            settings: See `Settings`: ``model``, ``acquisition``, ``initial``, ``seed``
                and options.

        Raises:
            ExperimentError: A setting or parameter that cannot be.
            StorageError: There is an experiment of that name already.
        """
        register_classes()
        if parameter_constraints:
            settings.setdefault("optimizer_options", SHORT_WALKS)
        chosen = Settings.from_arguments(settings)
        check_taken(chosen, Answer(winner=0), 2, num_levels)
        experiment = new_experiment(
            name, parameters, parameter_constraints, num_levels, chosen
        )
        place = storage_at(storage)
        place.create(experiment)
        return cls(experiment, chosen, place)

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
    def ask(self, size: int = 2) -> Question:
        """The next question, pending until it is told, here or after a restart.

        Args:
            size: How many options to show.

        Raises:
            ExperimentError: There are not so many options to show.
        """
        size = given_integer("size", size, 2)
        run = next_options(self.experiment, self.settings, size)
        order = shown_order(self.experiment, self.settings, size)
        trial = self._kept.keep(
            lambda experiment: telling.ask_about(experiment, run, order)
        )
        return Question.of_trial(trial)

    @one_at_a_time
    def tell(self, question: Question | int, **said: Any) -> None:
        """Keeps what the person said; telling the same again changes nothing.

        Args:
            question: The question, or its index.
            said: See `Answer`; options are counted from 0.

        Raises:
            ExperimentError: There is no such question, it has another answer already,
                this cannot be an answer to it, or the model takes no such answer.
        """
        trial = telling.asked_trial(self.experiment, question)
        answer = telling.new_answer(trial, self.settings, said)
        if answer is not None:
            self._kept.keep(lambda _: telling.give_answer(trial, answer))

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
        if not telling.is_taken_back(trial):
            self._kept.keep(lambda _: telling.take_back(trial))

    @one_at_a_time
    def recommend(self, anywhere: bool = False) -> TParameterization:
        """The options with the largest posterior mean of the utility.

        Args:
            anywhere: Of the whole search space, not only of those that were shown.

        Raises:
            ExperimentError: There is no answer yet.
        """
        anywhere = given_truth("anywhere", anywhere)
        adapter = self.fitted_adapter()
        if anywhere:
            return best_anywhere(self.experiment, self.settings, adapter)
        return best_shown(adapter)

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
    def fitted_adapter(self) -> PreferenceAdapter:
        """Ax's adapter with the model of all answers: ``botorch_model``, ``predict``.

        Raises:
            ExperimentError: There is no answer yet.
        """
        return fitted_adapter(self.experiment, self.settings)

    @property
    @one_at_a_time
    def pending(self) -> list[Question]:
        """Questions that were asked and not answered, in the order they were asked."""
        running = self.experiment.trials_by_status[TrialStatus.RUNNING]
        in_order = sorted(running, key=lambda trial: trial.index)
        return [Question.of_trial(telling.batch(trial)) for trial in in_order]

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
        """Ax's client of this experiment, for Ax's summaries and analyses."""
        client = Client()
        client.set_experiment(self.experiment)
        client.set_generation_strategy(self.generation_strategy)
        return client

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
