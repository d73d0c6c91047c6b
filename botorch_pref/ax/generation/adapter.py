"""Ax's adapter between experiments and preference models."""

from __future__ import annotations

from typing import Any

import torch
from ax.adapter.data_utils import ExperimentData
from ax.adapter.torch import TorchAdapter
from ax.adapter.transforms.base import Transform
from ax.core.arm import Arm
from ax.core.base_trial import BaseTrial
from ax.core.generator_run import GeneratorRun
from ax.core.observation import ObservationFeatures
from ax.core.optimization_config import OptimizationConfig
from ax.core.parameter import ChoiceParameter, RangeParameter
from ax.core.search_space import SearchSpace, SearchSpaceDigest
from ax.core.trial_status import TrialStatus
from ax.core.types import TCandidateMetadata, TParameterization
from ax.generators.torch.botorch_modular.generator import BoTorchGenerator
from ax.generators.types import TConfig
from ax.utils.common.constants import Keys
from botorch.acquisition.input_constructors import get_acqf_input_constructor
from botorch.models.model import Model
from botorch.utils.datasets import SupervisedDataset
from torch import Tensor

from botorch_pref.ax.answers import arms_and_raters, feedback_dataset
from botorch_pref.ax.generation.acquisition import PreferenceAcquisition, QuestionToFind
from botorch_pref.ax.generation.option_space import ToldApart, option_space
from botorch_pref.ax.kinds import OBJECTIVE, number_of_levels
from botorch_pref.ax.raters import raters_of_trials
from botorch_pref.ax.settings import smallest_difference_of
from botorch_pref.ax.space.catalogue import Catalogue
from botorch_pref.ax.space.options import column_widths
from botorch_pref.feedback import Feedback
from botorch_pref.models import GroupUtility
from botorch_pref.models.data import FeedbackDataset


class CatalogueRows(Transform):
    """Designs replaced by the nearest row of the catalogue, where there is one.

    Numbers differ by shares of their range, ordered categories by places, others by 1.
    """

    no_op_for_experiment_data = True

    def __init__(
        self, search_space: SearchSpace | None = None, *args: Any, **kwargs: Any
    ) -> None:
        super().__init__(search_space, *args, **kwargs)
        assert search_space is not None
        adapter = self.adapter
        found = None if adapter is None else Catalogue.of(adapter._experiment)
        self._rows = [] if found is None else [*found.rows.values()]
        self._space = search_space.clone()
        placed = [self._placed(row) for row in self._rows]
        self._numbers = torch.stack(placed) if placed else torch.zeros(0, 0)

    def untransform_observation_features(
        self, observation_features: list[ObservationFeatures]
    ) -> list[ObservationFeatures]:
        """The features of rows.

        Args:
            observation_features: In the units of the search space; changed in place.
        """
        if self._rows:
            for features in observation_features:
                if self._space.parameters.keys() <= features.parameters.keys():
                    features.parameters = self._nearest(features.parameters)
        return observation_features

    def _nearest(self, given: TParameterization) -> TParameterization:
        off = (self._numbers - self._placed(given)).square().sum(-1)
        return dict(self._rows[int(off.argmin())])

    def _placed(self, given: TParameterization) -> Tensor:
        """Coordinates of a design between which distances are counted."""
        parts: list[float] = []
        for name, parameter in self._space.parameters.items():
            value: Any = given[name]
            if isinstance(parameter, RangeParameter):
                lower, upper = float(parameter.lower), float(parameter.upper)
                parts.append((value - lower) / (upper - lower))
            elif isinstance(parameter, ChoiceParameter):
                values = parameter.values
                if parameter.is_ordered:
                    parts.append(values.index(value) / (len(values) - 1))
                else:
                    parts += [(value == other) / 2**0.5 for other in values]
        return torch.tensor(parts, dtype=torch.float64)


class PreferenceAdapter(TorchAdapter):
    """Ax's adapter, with one model of the utility for all metrics of answers.

    ``gen(n)`` gives the ``n`` options of one question. An acquisition function with a
    reference point gives ``n - 1`` challengers, and the reference is the first option;
    one without chooses all ``n`` jointly.
    """

    def _convert_experiment_data(
        self,
        experiment_data: ExperimentData,
        outcomes: list[str],
        parameters: list[str],
        search_space_digest: SearchSpaceDigest | None = None,
    ) -> tuple[
        list[SupervisedDataset], list[str], list[list[TCandidateMetadata]] | None
    ]:
        dataset = self._feedback_dataset(experiment_data, parameters)
        return [dataset], [OBJECTIVE], None

    def _feedback_dataset(
        self, experiment_data: ExperimentData, parameters: list[str]
    ) -> FeedbackDataset:
        num_levels = number_of_levels(self._experiment)
        raters = raters_of_trials(self._experiment)
        return feedback_dataset(experiment_data, parameters, num_levels, raters)

    @property
    def _botorch_generator(self) -> BoTorchGenerator:
        assert isinstance(self.generator, BoTorchGenerator)
        return self.generator

    @property
    def dataset(self) -> FeedbackDataset:
        """The answers as the model takes them, about transformed points."""
        (dataset,) = self._botorch_generator.surrogate.training_data
        assert isinstance(dataset, FeedbackDataset)
        return dataset

    @property
    def datapoints(self) -> Tensor:
        """The points that were judged, transformed, ``n x d``, each once."""
        _, rows = self._arms_and_rows()
        first = [rows.index(place) for place in range(max(rows) + 1)]
        return self.dataset.X[first]

    @property
    def arms(self) -> list[Arm]:
        """The arm of each datapoint."""
        names, _ = self._arms_and_rows()
        return [self._experiment.arms_by_name[name] for name in names]

    @property
    def feedback(self) -> list[Feedback]:
        """All answers, about `datapoints`, whoever gave them."""
        _, rows = self._arms_and_rows()
        return [block.reindexed(torch.tensor(rows)) for block in self.dataset.feedback]

    def _arms_and_rows(self) -> tuple[list[str], list[int]]:
        """The names of arms, and the place among them for each row of the data set."""
        raters = raters_of_trials(self._experiment) or {}
        rows = arms_and_raters(self._training_data, raters)
        place = {name: i for i, name in enumerate(dict.fromkeys(n for n, _ in rows))}
        return [*place], [place[name] for name, _ in rows]

    def dataset_of(self, experiment_data: ExperimentData) -> FeedbackDataset:
        """Some of the answers as the model takes them, about transformed points.

        Args:
            experiment_data: A part of ``get_training_data()``.
        """
        transformed, _, _ = self._transform_inputs_for_cv(experiment_data, [])
        return self._feedback_dataset(transformed, self.parameters)

    def model_of(self, dataset: FeedbackDataset) -> Model:
        """The adapter's model, fitted from scratch to other answers.

        Args:
            dataset: See `dataset_of`.

        Returns:
            The model, of ``dataset.points``: of all raters, where they share.
        """
        generator = self._botorch_generator
        surrogate = generator.surrogate.clone_reset()
        surrogate.fit([dataset], generator.search_space_digest)
        model = surrogate.model
        return model.rater_model if isinstance(model, GroupUtility) else model

    def gen(
        self,
        n: int,
        search_space: SearchSpace | None = None,
        optimization_config: OptimizationConfig | None = None,
        pending_observations: dict[str, list[ObservationFeatures]] | None = None,
        fixed_features: ObservationFeatures | None = None,
        model_gen_options: TConfig | None = None,
    ) -> GeneratorRun:
        """The options of one question.

        Args:
            n: How many.
            search_space: See base class.
            optimization_config: See base class.
            pending_observations: Not used: the adapter looks up which options are asked
                about and unanswered.
            fixed_features: See base class.
            model_gen_options: See base class.
        """
        options = dict(model_gen_options or {})
        options[Keys.AX_ACQUISITION_KWARGS.value] = {
            QuestionToFind.OPTION: self._question(n)
        }

        def generate(n: int) -> GeneratorRun:
            return super(PreferenceAdapter, self).gen(
                n,
                search_space=search_space,
                optimization_config=optimization_config,
                # Ax's include what was withdrawn and what was answered.
                pending_observations=self._unanswered(),
                fixed_features=fixed_features,
                model_gen_options=options,
            )

        if n == 1:
            return generate(1)
        if self._chooses_all():
            return generate(n)
        run = generate(n - 1)
        return _with_arm_first(self._reference_arm(), run)

    def _question(self, size: int) -> QuestionToFind:
        """Task of the generator.

        Args:
            size: How many options the question has; 1 for one design, no question.
        """
        space = self._experiment.search_space
        transforms = [*self.transforms.values()]
        rows = self._catalogue_points()
        options = option_space(space, transforms, self.parameters, rows)
        if size == 1:
            return QuestionToFind(options, None)
        trials = self._experiment.trials.values()
        questions = [trial for trial in trials if len(trial.arms_by_name) == size]
        pending = [trial for trial in questions if trial.status.is_running]
        given = smallest_difference_of(self._experiment)
        widths = column_widths(space, given, self.parameters)
        return QuestionToFind(
            options,
            ToldApart(
                torch.tensor(widths, dtype=torch.float64),
                self._points_of(questions, size),
                self._points_of(pending, size),
            ),
        )

    def _catalogue_points(self) -> Tensor | None:
        """The rows of the catalogue as the model takes them, ``N x d``."""
        catalogue = Catalogue.of(self._experiment)
        if catalogue is None:
            return None
        points: Tensor = self.transform_observation_features(
            [ObservationFeatures(parameters=dict(r)) for r in catalogue.rows.values()]
        )
        return points

    def _points_of(self, questions: list[BaseTrial], size: int) -> Tensor:
        """The options of questions as the model takes them, ``K x size x d``."""
        arms = [arm for q in questions for arm in q.arms_by_name.values()]
        if not arms:
            return torch.zeros(0, size, len(self.parameters), dtype=torch.float64)
        points: Tensor = self.transform_observation_features(
            [ObservationFeatures.from_arm(arm) for arm in arms]
        )
        return points.unflatten(0, (len(questions), size))

    def _chooses_all(self) -> bool:
        """Whether the acquisition function values pairs, not challengers."""
        generator = self._botorch_generator
        acquisition_class = generator.botorch_acqf_class
        construct = get_acqf_input_constructor(acquisition_class)
        options = generator._botorch_acqf_options
        acquisition = acquisition_class(
            **construct(model=self.botorch_model, **options)
        )
        return getattr(acquisition, "X_ref", None) is None

    def _reference_arm(self) -> Arm:
        """The observed arm that the challengers were chosen to meet."""
        acquisition = self._botorch_generator._acquisition
        assert isinstance(acquisition, PreferenceAcquisition)
        assert acquisition.reference is not None
        same = (self.datapoints == acquisition.reference).all(-1)
        return self.arms[int(same.nonzero()[0])]

    def _unanswered(self) -> dict[str, list[ObservationFeatures]]:
        """Options of pending questions that no answer is about yet."""
        answered = set(self.arms)
        pending = {
            arm.name: arm
            for trial in self._experiment.trials_by_status[TrialStatus.RUNNING]
            for arm in trial.arms
            if arm not in answered
        }
        return {
            OBJECTIVE: [ObservationFeatures.from_arm(arm) for arm in pending.values()]
        }


def _with_arm_first(arm: Arm, run: GeneratorRun) -> GeneratorRun:
    """The same run with one more arm, unless it has that arm already."""
    return GeneratorRun(
        arms=[arm.clone(), *run.arms],
        optimization_config=run.optimization_config,
        search_space=run.search_space,
        fit_time=run.fit_time,
        gen_time=run.gen_time,
        generator_key=run._generator_key,
        generator_kwargs=run._generator_kwargs,
        adapter_kwargs=run._adapter_kwargs,
        gen_metadata=run.gen_metadata,
    )
