"""Recommendations, and how well the model predicts answers that it has not seen."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from typing import Any

from ax.adapter.cross_validation import _pairwise_kfold_train_test_split
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
from pandas import DataFrame
from pandas.api.types import is_integer

from botorch_pref.ax.generation.adapter import PreferenceAdapter
from botorch_pref.ax.generation.asking import derived_seed
from botorch_pref.ax.generation.strategy import model_spec
from botorch_pref.ax.given import written
from botorch_pref.ax.kinds import OBJECTIVE
from botorch_pref.ax.settings import Settings
from botorch_pref.errors import ExperimentError
from botorch_pref.evaluation.scores import HeldOutAnswers, answer_scores


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

    Its ``gen`` maximises the acquisition function, for the rater of a number where
    raters share, or the mean of all.

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
    """The options shown so far with the largest posterior mean."""
    means, _ = adapter.generator.predict(adapter.datapoints)
    return dict(adapter.arms[int(means.squeeze(-1).argmax())].parameters)


def best_anywhere(
    experiment: Experiment, settings: Settings, adapter: PreferenceAdapter
) -> TParameterization:
    """The point of the search space with the largest posterior mean.

    Rounding can cost some of what was found, or leave the constraints; then the best
    shown is better.
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


def cross_validation(adapter: PreferenceAdapter, num_folds: int) -> DataFrame:
    r"""Scores each answer under a model that was fitted without it.

    A fold is of whole questions (Ax's ``_pairwise_kfold_train_test_split``, which
    draws from NumPy's global generator); the hyper-parameters are learned anew without
    it. For the answers :math:`y_1 \dots y_m` of a kind, the log-loss is

    .. math:: -\frac{1}{m} \sum_{i=1}^m \log p(y_i \mid D_{-i}),

    in nats, of densities for strengths and ratings. Guessing costs 0.693 a duel, 1.099
    where ties are possible.

    The table is that of :func:`.answer_scores`.

    Raises:
        ExperimentError: There are not so many answered questions.
    """
    data = adapter.get_training_data()
    # A question that nothing was said of has no data to be held out.
    answered = set(data.observation_data.index.get_level_values("trial_index"))
    if not is_integer(num_folds) or num_folds not in range(2, len(answered) + 1):
        raise ExperimentError(
            f"num_folds is {written(num_folds)}; there are {len(answered)} answered "
            "questions, give a number from 2 to that."
        )
    folds = _pairwise_kfold_train_test_split(
        num_folds, data.filter_by_trial_index(answered)
    )

    def parts() -> Iterator[HeldOutAnswers]:
        for fold in folds:
            model: Any = adapter.model_of(adapter.dataset_of(fold.training_data))
            held_out = adapter.dataset_of(fold.test_data)
            yield HeldOutAnswers(model, held_out.feedback, held_out.points)

    return answer_scores(parts())
