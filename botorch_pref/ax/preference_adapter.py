"""How Ax hands answers to a preference model, and asks it for duels."""

from __future__ import annotations

from inspect import Parameter, signature
from typing import Any

from ax.adapter.data_utils import ExperimentData
from ax.adapter.torch import TorchAdapter
from ax.core.arm import Arm
from ax.core.generator_run import GeneratorRun
from ax.core.observation import ObservationFeatures
from ax.core.optimization_config import OptimizationConfig
from ax.core.search_space import SearchSpace, SearchSpaceDigest
from ax.core.types import TCandidateMetadata
from ax.generators.torch.botorch_modular.generator import BoTorchGenerator
from ax.generators.types import TConfig
from ax.utils.common.constants import Keys
from botorch.acquisition.acquisition import AcquisitionFunction
from botorch.utils.datasets import SupervisedDataset
from torch import Tensor

from botorch_pref.acquisition.incumbent import incumbent
from botorch_pref.ax.answer_metrics import DUEL, LEVEL, NUM_LEVELS
from botorch_pref.ax.feedback_data import feedback_dataset


class PreferenceAdapter(TorchAdapter):
    """Ax's adapter, with one model of the utility for all metrics of answers.

    ``gen(n)`` gives the ``n`` options of one question. An acquisition function that
    needs a reference point gives ``n - 1`` challengers of the incumbent, which is the
    first option. One that does not gives both options of a duel, optimised jointly; of
    larger sets it gives challengers too.
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
        dataset, self._arm_names = feedback_dataset(
            experiment_data, parameters, self._num_levels
        )
        return [dataset], [DUEL], None

    @property
    def _num_levels(self) -> int | None:
        metric = self._experiment.metrics.get(LEVEL)
        return None if metric is None else metric.properties.get(NUM_LEVELS)

    @property
    def _botorch_generator(self) -> BoTorchGenerator:
        assert isinstance(self.generator, BoTorchGenerator)
        return self.generator

    @property
    def datapoints(self) -> Tensor:
        """The points of the model, transformed, ``n x d``."""
        return self._botorch_generator.surrogate.training_data[0].X

    @property
    def arms(self) -> list[Arm]:
        """The arm of each datapoint."""
        return [self._experiment.arms_by_name[name] for name in self._arm_names]

    def incumbent_arm(self) -> tuple[Arm, Tensor]:
        """The arm most likely to be better than others, and its point, ``1 x d``."""
        point = incumbent(self.botorch_model)
        same = (self.datapoints == point).all(-1)
        return self.arms[int(same.nonzero()[0])], point

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
            pending_observations: See base class.
            fixed_features: See base class.
            model_gen_options: See base class.
        """
        options = dict(model_gen_options or {})

        def generate(n: int) -> GeneratorRun:
            return super(PreferenceAdapter, self).gen(
                n,
                search_space=search_space,
                optimization_config=optimization_config,
                pending_observations=pending_observations,
                fixed_features=fixed_features,
                model_gen_options=options,
            )

        acquisition_class = self._botorch_generator.botorch_acqf_class
        chooses_pairs = not needs_reference(acquisition_class)
        if n == 1:
            return generate(1)
        if n == 2 and chooses_pairs:
            _add(options, Keys.OPTIMIZER_KWARGS, {"sequential": False})
            return generate(2)
        arm, point = self.incumbent_arm()
        _add(options, Keys.ACQF_KWARGS, {"X_ref": point})
        return _with_arm_first(arm, generate(n - 1))


def needs_reference(acquisition_class: type[AcquisitionFunction]) -> bool:
    """Whether it values challengers of a reference point only.

    Args:
        acquisition_class: With a parameter ``X_ref``: of a challenger if it is
            required, of challengers and pairs if it may be left out; without one: of
            pairs.
    """
    X_ref = signature(acquisition_class).parameters.get("X_ref")
    return X_ref is not None and X_ref.default is Parameter.empty


def _add(options: TConfig, key: Keys, more: dict[str, Any]) -> None:
    given: Any = options.get(key.value, {})
    options[key.value] = {**more, **given}


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
