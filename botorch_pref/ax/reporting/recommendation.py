"""The best options as far as the answers tell."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

from ax.core.experiment import Experiment
from ax.core.observation import ObservationFeatures
from ax.core.types import TParameterization
from ax.utils.common.constants import Keys
from ax.utils.common.random import with_rng_seed
from botorch.acquisition.acquisition import AcquisitionFunction
from botorch.acquisition.analytic import PosteriorMean
from botorch.acquisition.input_constructors import acqf_input_constructor
from botorch.exceptions.errors import CandidateGenerationError
from botorch.models.model import Model

from botorch_pref.ax.answers.kinds.winner import OBJECTIVE
from botorch_pref.ax.generation.asking import derived_seed
from botorch_pref.ax.generation.generation_strategy import model_spec
from botorch_pref.ax.generation.preference_adapter import PreferenceAdapter
from botorch_pref.ax.settings import Settings


class UtilityMean(PosteriorMean):
    """BoTorch's posterior mean, of a utility, which is never weighted."""


@acqf_input_constructor(UtilityMean)
def _construct_inputs(model: Model) -> dict[str, Any]:
    return {"model": model}


def fitted_adapter(
    experiment: Experiment,
    settings: Settings,
    acquisition_class: type[AcquisitionFunction] = UtilityMean,
    rater: int | None = None,
) -> PreferenceAdapter:
    """Ax's adapter with the model of all answers so far, fitted from scratch.

    Args:
        experiment: Ax's, with at least one answer.
        settings: Of the experiment.
        acquisition_class: What the adapter's ``gen`` maximises.
        rater: The number of the one whose utility counts, where raters share; None for
            the mean of all.

    Raises:
        ExperimentError: There is no answer.
    """
    spec = model_spec(settings, acquisition_class, rater)
    with with_rng_seed(derived_seed(settings, len(experiment.trials))):
        spec.fit(experiment)
    adapter = spec.fitted_adapter
    assert isinstance(adapter, PreferenceAdapter)
    return adapter


def best_shown(adapter: PreferenceAdapter) -> TParameterization:
    """The options shown so far with the largest posterior mean.

    Args:
        adapter: See `fitted_adapter`.
    """
    means, _ = adapter.generator.predict(adapter.datapoints)
    return dict(adapter.arms[int(means.squeeze(-1).argmax())].parameters)


def best_anywhere(
    experiment: Experiment, settings: Settings, adapter: PreferenceAdapter
) -> TParameterization:
    """The point of the search space with the largest posterior mean.

    Rounding can cost some of what was found, or leave the constraints; then the best
    shown is better.

    Args:
        experiment: Ax's.
        settings: Of the experiment.
        adapter: See `fitted_adapter`.
    """
    options: Any = {Keys.OPTIMIZER_KWARGS.value: settings.optimizer_options}
    candidates = [best_shown(adapter)]
    # Ax rounds categories by NumPy's global generator, also where it only predicts.
    with with_rng_seed(derived_seed(settings, len(experiment.trials))):
        with suppress(CandidateGenerationError):
            run = adapter.gen(1, model_gen_options=options)
            candidates += [dict(arm.parameters) for arm in run.arms]
        space = experiment.search_space
        feasible = [c for c in candidates if space.check_membership(c)]
        features = [ObservationFeatures(parameters=c) for c in feasible]
        means, _ = adapter.predict(features)
    best = max(range(len(feasible)), key=means[OBJECTIVE].__getitem__)
    return feasible[best]
