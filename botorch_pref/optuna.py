"""Sampler for preferential studies of optuna-dashboard, on a model of this package."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property, partial
from random import Random, SystemRandom
from typing import Any
from warnings import catch_warnings, filterwarnings, warn

import torch
from botorch.acquisition.acquisition import AcquisitionFunction
from botorch.fit import fit_gpytorch_mll
from botorch.models.transforms.input import NumericToCategoricalEncoding
from botorch.optim.optimize import optimize_acqf, optimize_acqf_discrete
from botorch.optim.optimize_mixed import optimize_acqf_mixed_alternating
from botorch.utils.sampling import manual_seed
from torch import Tensor
from torch.nn.functional import one_hot

from botorch_pref.acquisition import (
    DistinctOptions,
    DuelingExploringEIIG,
    FeasibilityWeighted,
    incumbent,
    incumbent_index,
)
from botorch_pref.errors import ExperimentError
from botorch_pref.feedback import Comparisons, Feedback, Validity
from botorch_pref.models import (
    DuelKernel,
    EPPreferenceGP,
    PreferenceMarginalLogLikelihood,
)
from botorch_pref.numerics.argument_ranges import checked_arguments

try:
    from optuna.distributions import BaseDistribution, CategoricalDistribution
    from optuna.samplers import BaseSampler, RandomSampler
    from optuna.study import Study
    from optuna.trial import FrozenTrial, TrialState
    from optuna_dashboard.preferential import PreferentialStudy
    from optuna_dashboard.preferential._system_attrs import get_skipped_trial_ids
except ImportError as error:
    raise ImportError(
        f"The sampler for optuna needs {error.name}: "
        "pip install 'botorch-pref[optuna]'",
        name=error.name,
    ) from error

__all__ = ["PreferenceSampler"]

_MOST_LISTED = 1_000
"""Whole numbers and steps of more values are searched as if they were continuous."""

_MOST_DESIGNS = 10_000
"""Up to so many designs are valued one by one."""


class PreferenceSampler(BaseSampler):
    """Sampler that proposes the next trial of a preferential study.

    It takes the place of optuna-dashboard's ``PreferentialGPSampler``::

        from optuna_dashboard.preferential import create_study

        study = create_study(n_generate=4, sampler=PreferenceSampler(seed=0))

    After each answer an `EPPreferenceGP` with a `DuelKernel` is fitted to all pairs of
    a better and a worse trial. The next trial is the one that `DuelingExploringEIIG` in
    `DistinctOptions` prefers beside the trials that are shown: those that have lost to
    none and were not skipped. Where trials failed or were skipped, a second model
    learns where that happens, and `FeasibilityWeighted` turns the search away from it.

    Numbers are shares of their range on their scale, whole numbers and steps are
    searched as such, and choices are one-hot. The model has the parameters that all
    compared trials have, in the range of the latest of them. Other parameters, as of
    conditional search spaces, and all parameters before the first answer are drawn at
    random, as optuna's own samplers do it. An answer that names the worst of several
    trials counts as one answer for each pair, as optuna-dashboard stores it.

    Args:
        seed: Of all draws, together with the number of the trial: a study that is
            loaded with the same seed goes on as if it had not stopped. None for one
            from the operating system.

    Raises:
        ExperimentError: On use, in a study that is not preferential, or in which a
            trial is better than itself.
    """

    @checked_arguments
    def __init__(self, seed: int | None = None) -> None:
        self._seed = SystemRandom().getrandbits(32) if seed is None else seed
        self._warned: set[str] = set()

    def reseed_rng(self) -> None:
        """Takes a new seed, as optuna asks for in each of several processes."""
        self._seed = SystemRandom().getrandbits(32)

    def infer_relative_search_space(
        self, study: Study, trial: FrozenTrial
    ) -> dict[str, BaseDistribution]:
        """The parameters that the model chooses, by name; none before an answer."""
        return _Answers.of(study).distributions

    def sample_relative(
        self,
        study: Study,
        trial: FrozenTrial,
        search_space: dict[str, BaseDistribution],
    ) -> dict[str, Any]:
        """The values of these parameters that the model proposes, by name."""
        if not search_space:
            return {}
        answers, space = _Answers.of(study), _Space(search_space)
        # BoTorch draws from torch's global generator, here seeded and restored.
        with manual_seed(self._seed_of(trial.number)):
            return space.params(_best(_acquisition(answers, space, trial), space))

    def sample_independent(
        self,
        study: Study,
        trial: FrozenTrial,
        param_name: str,
        param_distribution: BaseDistribution,
    ) -> Any:
        """A value at random of a parameter that the model does not choose.

        After the first answer a warning names each such parameter, once.
        """
        known = _Answers.of(study).distributions
        if known and not {param_name} <= known.keys() | self._warned:
            self._warned.add(param_name)
            warn(
                f"{param_name!r} is not in all trials that were compared, and is drawn "
                "at random; suggest it in each trial if the model is to choose it.",
                stacklevel=2,
            )
        draws = RandomSampler(self._seed_of(trial.number, param_name))
        return draws.sample_independent(study, trial, param_name, param_distribution)

    def best_trial(self, study: PreferentialStudy) -> FrozenTrial:
        """The trial that is most likely better than the others: see `incumbent`.

        ``study.best_trials`` has all trials that no other one was called better than.

        Raises:
            ExperimentError: There is no answer, or the trials that were compared have
                no parameter in common that varies.
        """
        answers = _Answers.of(study._study)
        if not answers.compared:
            raise ExperimentError(
                f"Study {study.study_name!r} has no answer yet, hence no best trial; "
                "call report_preference first."
            )
        if not answers.distributions:
            raise ExperimentError(
                f"The trials of study {study.study_name!r} that were compared have no "
                "parameter in common that varies, and so no model tells the best; take "
                "study.best_trials, which have lost to none."
            )
        model = _utility(answers, _Space(answers.distributions))
        return answers.compared[int(incumbent_index(model))]

    def _seed_of(self, *draw: object) -> int:
        return Random(repr((self._seed, *draw))).getrandbits(32)


@dataclass(frozen=True)
class _Answers:
    """Trials of a study by what is known of them, and who beat whom.

    ``pairs`` are places in ``compared``, the better trial first; ``shown`` trials have
    lost to none; ``unfit`` ones failed or were skipped.
    """

    compared: list[FrozenTrial]
    pairs: list[tuple[int, int]]
    shown: list[FrozenTrial]
    unfit: list[FrozenTrial]

    @staticmethod
    def of(study: Study) -> _Answers:
        attributes = study._storage.get_study_system_attrs(study._study_id)
        if not attributes.get("preference:is_preferential"):
            raise ExperimentError(
                f"Study {study.study_name!r} is not preferential, and nothing but "
                "preferences is read by PreferenceSampler; make it with create_study "
                "of optuna_dashboard.preferential."
            )
        # Answers first: the trials that they name are then there.
        answers = PreferentialStudy(study).get_preferences(deepcopy=False)
        trials = study.get_trials(deepcopy=False)
        # In an order that does not depend on the database's.
        pairs = sorted((better.number, worse.number) for better, worse in answers)
        for better, worse in pairs:
            if better == worse:
                raise ExperimentError(
                    f"Trial {better} was reported as better than itself; remove this "
                    "answer from the history of the study."
                )
        numbers = sorted({number for pair in pairs for number in pair})
        place = {number: i for i, number in enumerate(numbers)}
        skipped = get_skipped_trial_ids(attributes)
        failed = TrialState.FAIL
        unfit = [t for t in trials if t.state == failed or t._trial_id in skipped]
        out = {worse for _, worse in pairs} | {trial.number for trial in unfit}
        waiting = TrialState.COMPLETE, TrialState.RUNNING
        return _Answers(
            [trials[number] for number in numbers],
            [(place[better], place[worse]) for better, worse in pairs],
            [t for t in trials if t.state in waiting and t.number not in out],
            unfit,
        )

    @cached_property
    def distributions(self) -> dict[str, BaseDistribution]:
        """Those of parameters that all compared trials have, of the latest, by name."""
        if not self.compared:
            return {}
        shared = set.intersection(*(set(t.distributions) for t in self.compared))
        latest = self.compared[-1].distributions
        return {n: latest[n] for n in sorted(shared) if not latest[n].single()}


@dataclass(frozen=True)
class _Space:
    """Parameters as coordinates: the place of a choice, the share of a range."""

    distributions: dict[str, BaseDistribution]

    def having_all(self, trials: list[FrozenTrial]) -> list[FrozenTrial]:
        return [t for t in trials if self.distributions.keys() <= t.params.keys()]

    def points(self, trials: list[FrozenTrial]) -> Tensor:
        """Coordinates of trials, ``n x d``."""
        of = self.distributions.items()
        rows = [[_coordinate(d, t.params[name]) for name, d in of] for t in trials]
        return torch.tensor(rows, dtype=torch.double).view(-1, len(of))

    def params(self, point: Tensor) -> dict[str, Any]:
        """Values of parameters by their names, of coordinates ``1 x d``."""
        named = zip(self.distributions.items(), point.flatten().tolist(), strict=True)
        return {name: _value(d, coordinate) for (name, d), coordinate in named}

    @cached_property
    def listed(self) -> dict[int, list[float]]:
        """All coordinates of choices, whole numbers and steps, by columns."""
        listed = enumerate(map(_coordinates, self.distributions.values()))
        return {column: values for column, values in listed if values}

    @cached_property
    def sizes(self) -> dict[int, int]:
        """Numbers of values of choices, by columns."""
        of, kind = enumerate(self.distributions.values()), CategoricalDistribution
        return {i: len(d.choices) for i, d in of if isinstance(d, kind)}


def _coordinate(distribution: Any, value: Any) -> float:
    number = float(distribution.to_internal_repr(value))
    if isinstance(distribution, CategoricalDistribution):
        return number
    low, high = float(distribution.low), float(distribution.high)
    if distribution.log:
        return math.log(number / low) / math.log(high / low)
    return (number - low) / (high - low)


def _value(distribution: Any, coordinate: float) -> Any:
    """The value that is nearest to a coordinate."""
    if isinstance(distribution, CategoricalDistribution):
        return distribution.to_external_repr(round(coordinate))
    low, high = float(distribution.low), float(distribution.high)
    number = low + coordinate * (high - low)
    if distribution.log:
        number = low * (high / low) ** coordinate
    if distribution.step is not None:
        number = low + round((number - low) / distribution.step) * distribution.step
    return distribution.to_external_repr(min(max(number, low), high))


def _coordinates(distribution: Any) -> list[float]:
    """Coordinates of all values of choices, steps and whole numbers, if few enough."""
    if isinstance(distribution, CategoricalDistribution):
        return [float(place) for place in range(len(distribution.choices))]
    if distribution.step is None:
        return []
    number = round((distribution.high - distribution.low) / distribution.step)
    if number >= _MOST_LISTED:
        return []
    values = (distribution.low + i * distribution.step for i in range(number))
    return [*(_coordinate(distribution, value) for value in values), 1.0]


def _fitted(space: _Space, trials: list[FrozenTrial], said: Feedback) -> EPPreferenceGP:
    """The model of what was said of trials, at its best hyper-parameters."""
    dim, sizes, encoding = len(space.distributions), space.sizes, None
    if sizes:
        encoders: dict[int, Any]
        encoders = {i: partial(one_hot, num_classes=size) for i, size in sizes.items()}
        encoding = NumericToCategoricalEncoding(dim, sizes, encoders)
    duels = isinstance(said, Comparisons)
    num_features = dim + sum(size - 1 for size in sizes.values())
    model = EPPreferenceGP(
        space.points(trials),
        feedback=[said],
        covar_module=DuelKernel(num_features) if duels else None,
        input_transform=encoding,
    )
    fit_gpytorch_mll(PreferenceMarginalLogLikelihood(model.likelihood, model))
    return model


def _utility(answers: _Answers, space: _Space) -> EPPreferenceGP:
    return _fitted(space, answers.compared, Comparisons(torch.tensor(answers.pairs)))


def _acquisition(
    answers: _Answers, space: _Space, trial: FrozenTrial
) -> AcquisitionFunction:
    """The value of a trial beside those that are shown."""
    model = _utility(answers, space)
    others = [t for t in space.having_all(answers.shown) if t.number != trial.number]
    shown, reference = space.points(others), incumbent(model)
    if others:
        with torch.no_grad():
            posterior: Any = model.posterior(shown)
        order = posterior.mean.flatten().argsort(descending=True)
        reference, shown = shown[order[:1]], shown[order[1:]]
    value: AcquisitionFunction = DuelingExploringEIIG(model, reference)
    unfit = space.having_all(answers.unfit)
    if unfit:
        fit = [t for t in answers.compared if t not in unfit]
        labels = torch.arange(len(fit) + len(unfit)) < len(fit)
        said = Validity(torch.arange(len(labels)), labels)
        value = FeasibilityWeighted(value, _fitted(space, fit + unfit, said))
    value = DistinctOptions(value)
    value.set_X_pending(shown if len(shown) else None)
    return value


def _best(acquisition: AcquisitionFunction, space: _Space) -> Tensor:
    """The coordinates, ``1 x d``, that the acquisition function values most."""
    listed, dim = space.listed, len(space.distributions)
    if len(listed) == dim and math.prod(map(len, listed.values())) <= _MOST_DESIGNS:
        values = [torch.tensor(listed[i], dtype=torch.double) for i in range(dim)]
        designs = torch.cartesian_prod(*values).view(-1, dim)
        return optimize_acqf_discrete(acquisition, 1, designs)[0]
    upper = [listed.get(i, [1.0])[-1] for i in range(dim)]
    bounds = torch.tensor([[0.0] * dim, upper], dtype=torch.double)
    with catch_warnings():
        # A search that starts where it could end finds nothing better.
        filterwarnings("ignore", "Optimization failed", RuntimeWarning)
        if not listed:
            # The best duels are often with a near neighbour of the reference.
            near: dict[str, Any] = {"sample_around_best": True}
            return optimize_acqf(acquisition, bounds, 1, 4, 256, options=near)[0]
        return optimize_acqf_mixed_alternating(
            acquisition,
            bounds,
            discrete_dims={i: v for i, v in listed.items() if i not in space.sizes},
            cat_dims={i: v for i, v in listed.items() if i in space.sizes},
            num_restarts=8,
            raw_samples=512,
            # Starts come from draws: relaxed categories mean nothing.
            options={"initialization_strategy": "random", "num_spray_points": 0},
        )[0]
