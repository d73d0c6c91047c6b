"""Sampler for preferential studies of optuna-dashboard, on a model of this package."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate
from random import Random, SystemRandom
from typing import Any
from warnings import warn

import torch
from botorch.models.model import Model
from torch import Tensor

from botorch_pref.acquisition import incumbent, incumbent_index
from botorch_pref.asking import default_model, next_question
from botorch_pref.errors import ExperimentError
from botorch_pref.feedback import Validity
from botorch_pref.models import EPPreferenceGP
from botorch_pref.numerics.argument_checks import checked_arguments

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
"""Most designs that are valued one by one."""


class PreferenceSampler(BaseSampler):
    """Sampler that proposes the next trial of a preferential study.

    It takes the place of optuna-dashboard's ``PreferentialGPSampler``::

        from optuna_dashboard.preferential import create_study

        study = create_study(n_generate=4, sampler=PreferenceSampler(seed=0))

    After each answer `default_model` is fitted to all pairs of a better and a worse
    trial. The next trial is the one that `next_question` chooses beside the trials that
    are shown: those that have lost to none and were not skipped. Where trials failed or
    were skipped, a second model learns where that happens, and the search is turned
    away from it.

    Numbers are shares of their range on their scale, whole numbers and steps are
    searched as such, and choices are unordered. The model has the parameters that all
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
        """Returns the parameters that the model chooses; none before an answer."""
        return _Answers.of(study).distributions

    def sample_relative(
        self,
        study: Study,
        trial: FrozenTrial,
        search_space: dict[str, BaseDistribution],
    ) -> dict[str, Any]:
        """Proposes values of these parameters by the model, by name."""
        if not search_space:
            return {}
        answers, space = _Answers.of(study), _Space(search_space)
        point = _next_point(answers, space, trial, self._seed_of(trial.number))
        return space.params(point)

    def sample_independent(
        self,
        study: Study,
        trial: FrozenTrial,
        param_name: str,
        param_distribution: BaseDistribution,
    ) -> Any:
        """Draws a value at random of a parameter that the model does not choose.

        After the first answer a warning names each such parameter, once.
        """
        distributions = _Answers.of(study).distributions
        if distributions and not {param_name} <= distributions.keys() | self._warned:
            self._warned.add(param_name)
            warn(
                f"{param_name!r} is not in all trials that were compared, and is drawn "
                "at random; suggest it in each trial if the model is to choose it.",
                stacklevel=2,
            )
        draws = RandomSampler(self._seed_of(trial.number, param_name))
        return draws.sample_independent(study, trial, param_name, param_distribution)

    def best_trial(self, study: PreferentialStudy) -> FrozenTrial:
        """Returns the trial most likely better than the others: see `incumbent`.

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
        """Reads the answers of a preferential study."""
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
            compared=[trials[number] for number in numbers],
            pairs=[(place[better], place[worse]) for better, worse in pairs],
            shown=[t for t in trials if t.state in waiting and t.number not in out],
            unfit=unfit,
        )

    @cached_property
    def distributions(self) -> dict[str, BaseDistribution]:
        """Latest distributions of the parameters that all compared trials have."""
        if not self.compared:
            return {}
        shared = set.intersection(*(set(t.distributions) for t in self.compared))
        latest = self.compared[-1].distributions
        return {n: latest[n] for n in sorted(shared) if not latest[n].single()}


@dataclass(frozen=True)
class _Space:
    """Parameters as columns: a place in a range, 0 to 1; a choice one-hot.

    Each parameter has more than one value: a choice is what has several columns.
    """

    distributions: dict[str, BaseDistribution]

    def having_all(self, trials: list[FrozenTrial]) -> list[FrozenTrial]:
        """Keeps trials that have all parameters."""
        return [t for t in trials if self.distributions.keys() <= t.params.keys()]

    @cached_property
    def columns(self) -> dict[str, list[int]]:
        """The columns of each parameter."""
        widths = [
            len(d.choices) if isinstance(d, CategoricalDistribution) else 1
            for d in self.distributions.values()
        ]
        ends = accumulate(widths)
        spans = zip(self.distributions, ends, widths, strict=True)
        return {name: [*range(end - width, end)] for name, end, width in spans}

    @cached_property
    def num_columns(self) -> int:
        """Number of columns of all parameters."""
        return sum(map(len, self.columns.values()))

    def points(self, trials: list[FrozenTrial]) -> Tensor:
        """Codes trials as points, ``n x d``: shares of ranges, and choices one-hot."""
        X = torch.zeros(len(trials), self.num_columns, dtype=torch.double)
        for row, trial in zip(X, trials, strict=True):
            for name, distribution in self.distributions.items():
                columns = self.columns[name]
                coordinate = _coordinate(distribution, trial.params[name])
                if len(columns) > 1:
                    row[columns[round(coordinate)]] = 1.0
                else:
                    row[columns] = coordinate
        return X

    def params(self, point: Tensor) -> dict[str, Any]:
        """Reads values of parameters from columns, ``d``, by their names."""
        values = {}
        for name, distribution in self.distributions.items():
            columns = point[self.columns[name]]
            choice = len(columns) > 1
            coordinate = float(columns.argmax()) if choice else float(columns)
            values[name] = _value(distribution, coordinate)
        return values

    @cached_property
    def categorical(self) -> list[list[int]]:
        """The columns of choices."""
        return [columns for columns in self.columns.values() if len(columns) > 1]

    @cached_property
    def discrete_dims(self) -> dict[int, list[float]]:
        """Values of whole numbers and of steps, from 0 to 1, by their columns."""
        return {
            self.columns[name][0]: values
            for name, distribution in self.distributions.items()
            if (values := _shares(distribution))
        }

    @cached_property
    def designs(self) -> Tensor | None:
        """All designs, ``N x d``, to be valued one by one.

        None where there are more than `_MOST_DESIGNS`, or where values of a parameter
        are not listed: those of real numbers, or of a thousand steps or more.
        """
        tables = [torch.eye(len(columns)).double() for columns in self.categorical]
        lists = [torch.tensor(v)[:, None].double() for v in self.discrete_dims.values()]
        columns = [*self.categorical, *([column] for column in self.discrete_dims)]
        number = math.prod(map(len, tables + lists))
        if len(columns) < len(self.columns) or number > _MOST_DESIGNS:
            return None
        places = [torch.arange(len(table)) for table in tables + lists]
        chosen = torch.cartesian_prod(*places).view(-1, len(places))
        X = torch.zeros(number, self.num_columns, dtype=torch.double)
        for place, table, dims in zip(chosen.T, tables + lists, columns, strict=True):
            X[:, dims] = table[place]
        return X


def _coordinate(distribution: Any, value: Any) -> float:
    """Returns the share of a range at which a value lies, or the number of a choice.

    Of a logarithmic range it is the share of the range of the logarithm.
    """
    number = float(distribution.to_internal_repr(value))
    if isinstance(distribution, CategoricalDistribution):
        return number
    low, high = float(distribution.low), float(distribution.high)
    if distribution.log:
        return math.log(number / low) / math.log(high / low)
    return (number - low) / (high - low)


def _value(distribution: Any, coordinate: float) -> Any:
    """Returns the value at a coordinate, see `_coordinate`, or the nearest there is."""
    if isinstance(distribution, CategoricalDistribution):
        return distribution.to_external_repr(round(coordinate))
    low, high = float(distribution.low), float(distribution.high)
    number = low + coordinate * (high - low)
    if distribution.log:
        number = low * (high / low) ** coordinate
    if distribution.step is not None:
        number = low + round((number - low) / distribution.step) * distribution.step
    return distribution.to_external_repr(min(max(number, low), high))


def _shares(distribution: Any) -> list[float]:
    """Lists the shares of a range at which whole numbers or steps lie, 0 to 1.

    The list is empty where there are more than `_MOST_LISTED`, and for other values.
    """
    if isinstance(distribution, CategoricalDistribution) or distribution.step is None:
        return []
    number = round((distribution.high - distribution.low) / distribution.step)
    if number >= _MOST_LISTED:
        return []
    values = (distribution.low + i * distribution.step for i in range(number))
    # The last one is 1, without rounding.
    return [*(_coordinate(distribution, value) for value in values), 1.0]


def _utility(answers: _Answers, space: _Space) -> Model:
    """Fits the utility to pairs of trials, the better one of each pair first."""
    return default_model(
        space.points(answers.compared),
        torch.tensor(answers.pairs),
        categorical=space.categorical,
    )


def _validity(answers: _Answers, space: _Space) -> EPPreferenceGP | None:
    """Fits the probability that a trial neither fails nor is skipped.

    The search is led to where it is large. None while no trial has failed or was
    skipped.
    """
    unfit = space.having_all(answers.unfit)
    if not unfit:
        return None
    valid = [t for t in answers.compared if t not in unfit]
    labels = torch.arange(len(valid) + len(unfit)) < len(valid)
    model = default_model(
        space.points(valid + unfit),
        Validity(torch.arange(len(labels)), labels),
        categorical=space.categorical,
    )
    assert isinstance(model, EPPreferenceGP), "without raters it is no GroupUtility"
    return model


def _next_point(
    answers: _Answers, space: _Space, trial: FrozenTrial, seed: int
) -> Tensor:
    """Chooses the point, ``d``, of a trial to show beside those that are shown.

    Where none is shown, it is to meet the best one.
    """
    model, designs = _utility(answers, space), space.designs
    # The trial itself runs already, and is none of those beside it.
    running = [t for t in space.having_all(answers.shown) if t.number != trial.number]
    beside = space.points(running).unique(dim=0) if running else incumbent(model)
    if designs is not None and len(beside) >= len(designs):
        # All designs are shown already: the best of them meets one again.
        beside = incumbent(model)
    question = next_question(
        model,
        torch.tensor([[0.0], [1.0]]).double().expand(2, space.num_columns),
        len(beside) + 1,
        discrete=designs,
        discrete_dims=None if designs is not None else space.discrete_dims,
        categorical=space.categorical,
        beside=beside,
        feasibility_model=_validity(answers, space),
        seed=seed,
    )
    # The options are those that are shown and one other, in any order.
    is_new = (question.options.unsqueeze(-2) != beside).any(-1).all(-1)
    return question.options[is_new.nonzero()[0, 0]]
