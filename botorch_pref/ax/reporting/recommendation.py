"""Recommendations, and designs that are near them."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any

import torch
from ax.adapter.cross_validation import _pairwise_kfold_train_test_split
from ax.core.arm import Arm
from ax.core.experiment import Experiment
from ax.core.observation import ObservationFeatures
from ax.core.parameter import ParameterType, RangeParameter
from ax.core.search_space import SearchSpace
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
from torch import Tensor

from botorch_pref.ax.generation.adapter import PreferenceAdapter
from botorch_pref.ax.generation.asking import derived_seed
from botorch_pref.ax.generation.strategy import model_spec
from botorch_pref.ax.given import written
from botorch_pref.ax.kinds import OBJECTIVE
from botorch_pref.ax.settings import Settings
from botorch_pref.ax.space.options import (
    SmallestDifference,
    squared_difference,
    whole_design,
)
from botorch_pref.errors import ExperimentError
from botorch_pref.evaluation.progress import near_points
from botorch_pref.evaluation.scores import HeldOutAnswers, answer_scores

LEVEL = 0.95
"""Probability of the intervals."""


def points_of(adapter: PreferenceAdapter, arms: list[Arm]) -> Tensor:
    """Arms as the model takes them.

    Args:
        adapter: Of the model.
        arms: Ax's.

    Returns:
        ``n x d``.
    """
    features = [ObservationFeatures(parameters=arm.parameters) for arm in arms]
    points: Tensor = adapter.transform_observation_features(features)
    return points


def utility_summary(posterior: Any) -> tuple[Tensor, Tensor, Tensor]:
    """Posterior means with the ends of central intervals of probability `LEVEL`.

    Args:
        posterior: Of utilities at ``q`` points, or of differences; of an ensemble, its
            mixture.

    Returns:
        Three vectors, ``q`` long.
    """
    tails = torch.tensor([(1 - LEVEL) / 2, (1 + LEVEL) / 2], dtype=torch.float64)
    lower, upper = posterior.quantile(tails).detach().squeeze(-1)
    mean = getattr(posterior, "mixture_mean", posterior.mean).detach().squeeze(-1)
    return mean, lower, upper


def representatives(
    arms: Sequence[Arm],
    utilities: Sequence[float],
    space: SearchSpace,
    smallest: SmallestDifference,
) -> list[int]:
    """The option that stands for each one and its near copies.

    From the largest utility downwards, an option stands for all that differ from it by
    less than the smallest difference and are not stood for yet.

    Args:
        arms: The options.
        utilities: Theirs.
        space: Ax's.
        smallest: See `Settings`.

    Returns:
        A place for each option, its own if it stands for itself.
    """
    found: dict[int, int] = {}
    for i in sorted(range(len(arms)), key=lambda i: -utilities[i]):
        if i in found:
            continue
        for j, arm in enumerate(arms):
            apart = squared_difference(
                space, smallest, arms[i].parameters, arm.parameters
            )
            if j not in found and apart < 1:
                found[j] = i
    return [found[i] for i in range(len(arms))]


def near_designs(
    space: SearchSpace, design: Mapping[str, Any], num_designs: int, seed: int
) -> list[Arm]:
    """Designs that differ a little in all parameters with a range, as near points do.

    Args:
        space: Ax's.
        design: The one they are around, of the space.
        num_designs: How many are drawn.
        seed: Of the draws.

    Returns:
        Those that satisfy the constraints; choices are those of the design.
    """
    tunable = space.tunable_parameters
    ranged = [p for p in tunable.values() if isinstance(p, RangeParameter)]
    if not ranged:
        return []
    shares = [_share(parameter, design[parameter.name]) for parameter in ranged]
    cube = torch.tensor([[0.0], [1.0]]).double().expand(2, len(ranged))
    point = torch.tensor([shares], dtype=torch.double)
    arms = []
    for row in near_points(point, cube, num_designs, seed).tolist():
        moved = {p.name: _value(p, share) for p, share in zip(ranged, row, strict=True)}
        kept = {name: design[name] for name in tunable}
        arms.append(Arm(parameters=whole_design(space, kept | moved)))
    return [arm for arm in arms if space.check_membership(arm.parameters)]


def _share(parameter: RangeParameter, value: float) -> float:
    """A value as a share of the range, on its scale."""
    lower, upper = float(parameter.lower), float(parameter.upper)
    if parameter.log_scale:
        return math.log(value / lower) / math.log(upper / lower)
    return (value - lower) / (upper - lower)


def _value(parameter: RangeParameter, share: float) -> int | float:
    """The value at a share of the range, rounded as the parameter is."""
    lower, upper = float(parameter.lower), float(parameter.upper)
    if parameter.log_scale:
        value = lower * (upper / lower) ** share
    else:
        value = lower + share * (upper - lower)
    if parameter.parameter_type is ParameterType.INT:
        return round(value)
    # Rounding must not leave the range.
    return min(max(float(parameter.cast(value)), lower), upper)


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


def cross_validation(adapter: PreferenceAdapter, num_folds: int) -> DataFrame:
    r"""Scores each answer under a model that was fitted without it.

    A fold is of whole questions (Ax's ``_pairwise_kfold_train_test_split``, which
    draws from NumPy's global generator); the hyper-parameters are learned anew without
    it. For the answers :math:`y_1 \dots y_m` of a kind, the log-loss is

    .. math:: -\frac{1}{m} \sum_{i=1}^m \log p(y_i \mid D_{-i}),

    in nats, of densities for strengths and ratings. Guessing costs 0.693 a duel, 1.099
    where ties are possible.

    Args:
        adapter: Fitted.
        num_folds: How many folds, from 2 to the number of answered questions, where
            each is left out by itself.

    Returns:
        See :func:`.answer_scores`.

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
