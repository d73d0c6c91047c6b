"""The search space as optimisers take it, and options that can be told apart."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from random import Random

import torch
from ax.adapter.transforms.base import Transform
from ax.core.batch_trial import BatchTrial
from ax.core.experiment import Experiment
from ax.core.generator_run import GeneratorRun
from ax.core.observation import ObservationFeatures
from ax.core.parameter import ChoiceParameter, Parameter, ParameterType, RangeParameter
from ax.core.search_space import SearchSpace
from ax.core.trial_status import TrialStatus
from ax.core.types import TParamValue
from torch import Tensor

from botorch_pref.ax.log import REPEATS
from botorch_pref.ax.settings import Settings

MAX_DESIGNS = 10_000
"""Up to so many designs are valued one by one."""

_MAX_VALUES = 1_000
"""Whole numbers of more values are as good as continuous."""

Constraint = tuple[Tensor, Tensor, float]
"""BoTorch's: indices, coefficients, and what their sum must reach."""


@dataclass(frozen=True, eq=False)
class Coordinate:
    """Parameter of the search space as optimisers take it.

    Attributes:
        columns: Its features of the model.
        table: ``K x len(columns)``, the features of each of its ``K`` values; None of
            a continuous one, whose only feature it is itself.
    """

    columns: list[int]
    table: Tensor | None

    @property
    def is_category(self) -> bool:
        """Whether values are places in the table and not the feature itself."""
        return len(self.columns) > 1


@dataclass(frozen=True, eq=False)
class OptionSpace:
    """Search space of designs, one coordinate a parameter.

    Attributes:
        coordinates: Of the parameters that vary.
        num_columns: ``d``, the number of features of the model.
        rows: ``N x d``, the features of all designs that there are, where these are the
            rows of a table; otherwise None.
    """

    coordinates: tuple[Coordinate, ...]
    num_columns: int
    rows: Tensor | None = None

    def designs(self, constraints: Sequence[Constraint]) -> Tensor | None:
        """All designs, ``N x d``, if they are few enough to be valued one by one.

        Args:
            constraints: On features; designs that break one are left out.

        Returns:
            Their features; None where there are more than `MAX_DESIGNS`, or a number
            is continuous. The rows of a table are never too many.
        """
        points = self.rows
        if points is None:
            tables = [c.table for c in self.coordinates if c.table is not None]
            whole = len(tables) == len(self.coordinates)
            if not whole or prod(map(len, tables)) > MAX_DESIGNS:
                return None
            places = torch.cartesian_prod(*(torch.arange(len(t)) for t in tables))
            by_table = places.view(-1, len(tables)).T
            points = self._joined(
                [table[at] for table, at in zip(tables, by_table, strict=True)]
            )
        return points[satisfied(points, constraints)]

    def features(self, X: Tensor) -> Tensor:
        """Features of designs by their coordinates.

        Categories are places in their tables. Whole numbers of many values are rounded,
        with derivatives as if they were not.

        Args:
            X: ``batch_shape x c``.

        Returns:
            ``batch_shape x d``.
        """
        parts = []
        for number, coordinate in zip(X.unbind(-1), self.coordinates, strict=True):
            table = coordinate.table
            if table is None:
                parts.append(number.unsqueeze(-1))
            elif coordinate.is_category:
                parts.append(table[number.round().long()].to(X))
            else:
                nearest = (number.unsqueeze(-1) - table.T).abs().argmin(-1)
                rounded = table[nearest, 0]
                # Straight through: the derivative is that of the number.
                off = (rounded - number).detach()
                parts.append((number + off).unsqueeze(-1))
        return self._joined(parts)

    def coordinates_of(self, features: Tensor) -> Tensor:
        """Coordinates of designs without categories by their features.

        Args:
            features: ``batch_shape x d``.

        Returns:
            ``batch_shape x c``.
        """
        return features[..., [column for c in self.coordinates for column in c.columns]]

    def _joined(self, parts: Sequence[Tensor]) -> Tensor:
        order = [column for c in self.coordinates for column in c.columns]
        together = torch.cat(list(parts), dim=-1)
        return together[..., torch.tensor(order).argsort()]


def option_space(
    search_space: SearchSpace,
    transforms: Sequence[Transform],
    columns: Sequence[str],
    rows: Tensor | None = None,
) -> OptionSpace:
    """The coordinates of a search space.

    Args:
        search_space: Ax's, of the experiment.
        transforms: Ax's, from its parameters to features of the model.
        columns: The names of these features, in order.
        rows: The features of all designs, where these are the rows of a table.
    """
    place = {column: i for i, column in enumerate(columns)}
    found = []
    for name, parameter in search_space.tunable_parameters.items():
        values = values_of(parameter)
        encoded = _encoded(transforms, name, values or [_some_number(parameter)])
        at = sorted(place[column] for column in encoded[0])
        table = [[features[columns[i]] for i in at] for features in encoded]
        exact = torch.tensor(table, dtype=torch.float64)
        found.append(Coordinate(at, None if values is None else exact))
    return OptionSpace(tuple(found), len(columns), rows)


def satisfied(points: Tensor, constraints: Sequence[Constraint]) -> Tensor:
    """Truth of all constraints at points, up to rounding.

    Args:
        points: ``N x d``.
        constraints: On features.
    """
    kept = torch.ones(len(points), dtype=torch.bool)
    for indices, coefficients, least in constraints:
        kept &= (points[:, indices] * coefficients).sum(-1) >= least - 1e-8
    return kept


def values_of(parameter: Parameter) -> list[TParamValue] | None:
    """All values of a parameter; None where they are too many.

    Args:
        parameter: Ax's, one that varies.
    """
    if isinstance(parameter, ChoiceParameter):
        return list(parameter.values)
    assert isinstance(parameter, RangeParameter)
    whole = parameter.parameter_type is ParameterType.INT
    if not whole or parameter.upper - parameter.lower >= _MAX_VALUES:
        return None
    return list(range(int(parameter.lower), int(parameter.upper) + 1))


def _some_number(parameter: Parameter) -> TParamValue:
    assert isinstance(parameter, RangeParameter)
    return parameter.lower


def _encoded(
    transforms: Sequence[Transform], name: str, values: Sequence[TParamValue]
) -> list[dict[str, float]]:
    """The features of each value of one parameter, by their names."""
    features = [ObservationFeatures(parameters={name: value}) for value in values]
    for transform in transforms:
        features = transform.transform_observation_features(features)
    return [
        {column: float(x) for column, x in each.parameters.items()}  # type: ignore[arg-type]
        for each in features
    ]


@dataclass(frozen=True)
class ToldApart:
    r"""Smallest differences, and the questions that were asked.

    Two options differ by

    .. math:: r^2(x, y) = \sum_j \Big( \frac{x_j - y_j}{w_j} \Big)^2,

    with the smallest difference :math:`w_j` of each feature; below 1 nobody can tell
    them apart. A question repeats another one where each option of either has one of
    the other that it cannot be told from.

    Attributes:
        widths: ``d``, the smallest differences.
        asked: ``K x s x d``, the options of earlier questions of the same size.
        pending: ``P x s x d``, those of them that are unanswered.
        reference: ``k x d``, options of the question that are not chosen, the reference
            point first; or None.
        others: ``k x d``, points that an option must differ from besides.
    """

    widths: Tensor
    asked: Tensor
    pending: Tensor
    reference: Tensor | None = None
    others: Tensor | None = None

    def smallest_gap(self, options: Tensor) -> Tensor:
        """Squared difference of the two options that differ least.

        Args:
            options: ``batch_shape x m x d``, those of the question that are chosen.

        Returns:
            ``batch_shape``.
        """
        size = options.shape[-2]
        whole = self._whole(options)
        if self.others is not None:
            others = self.others.expand(*options.shape[:-2], *self.others.shape)
            whole = torch.cat([whole, others], dim=-2)
        squared = self._squared(options, whole)
        own = torch.eye(size, whole.shape[-2], dtype=torch.bool, device=options.device)
        return squared.masked_fill(own, torch.inf).flatten(-2).amin(-1)

    def times_asked(self, options: Tensor) -> Tensor:
        """Number of earlier questions that a question repeats.

        Args:
            options: See `smallest_gap`.

        Returns:
            ``batch_shape`` integers.
        """
        return (self._gaps(options, self.asked) < _SAME).sum(-1)

    def is_pending(self, options: Tensor) -> Tensor:
        """Whether a question repeats one that is not answered yet.

        Args:
            options: See `smallest_gap`.
        """
        return (self._gaps(options, self.pending) < _SAME).any(-1)

    def novelty(self, options: Tensor) -> Tensor:
        """Squared difference from the earlier question that is most alike.

        Args:
            options: See `smallest_gap`.

        Returns:
            ``batch_shape``; infinite where no question was asked.
        """
        gaps = self._gaps(options, self.asked)
        if gaps.shape[-1] == 0:
            return gaps.new_full(gaps.shape[:-1], torch.inf)
        return gaps.amin(-1)

    def _whole(self, options: Tensor) -> Tensor:
        """The chosen options and the reference."""
        if self.reference is None:
            return options
        reference = self.reference.expand(*options.shape[:-2], *self.reference.shape)
        return torch.cat([options, reference], dim=-2)

    def _gaps(self, options: Tensor, questions: Tensor) -> Tensor:
        """Squared differences from questions, ``batch_shape x K``."""
        whole = self._whole(options)
        count, size, _ = questions.shape
        squared = self._squared(whole, questions.flatten(0, 1))
        matched = squared.unflatten(-1, (count, size))
        there, back = matched.amin(-1).amax(-2), matched.amin(-3).amax(-1)
        return torch.maximum(there, back)

    def _squared(self, first: Tensor, second: Tensor) -> Tensor:
        """Squared differences of all pairs, ``batch_shape x n x k``."""
        apart = (first.unsqueeze(-2) - second.unsqueeze(-3)) / self.widths
        return apart.square().sum(-1)


_SAME = 1 - 1e-6
"""Squared difference below which two options are one, up to rounding."""


def can_be_told(squared: Tensor) -> Tensor:
    """Whether squared differences are large enough.

    Args:
        squared: See `ToldApart.smallest_gap`.
    """
    return squared >= _SAME


REPEAT = "Repeat"
"""The chooser of such a question, in the log."""


def question_again(
    experiment: Experiment, settings: Settings, size: int, seed: int
) -> GeneratorRun | None:
    """The options of an answered question that is to be asked again, now and then.

    Each answered question is asked again once at most, and not as the very next one.

    Args:
        experiment: Ax's.
        settings: Of the experiment; its ``repeat_rate`` is how often.
        size: How many options.
        seed: That decides whether, and which.

    Returns:
        None where another question is to be asked.
    """
    completed = experiment.trial_indices_by_status[TrialStatus.COMPLETED]
    draws = Random(seed)
    if len(completed) < settings.initial or draws.random() >= settings.repeat_rate:
        return None
    trials = [*experiment.trials.values()]
    shown = [frozenset(trial.arms_by_name) for trial in trials]
    times = Counter(shown)
    once = [
        trial
        for trial, options in zip(trials[:-1], shown, strict=False)
        if trial.index in completed and len(options) == size and times[options] == 1
    ]
    if not once:
        return None
    chosen = draws.choice(once)
    assert isinstance(chosen, BatchTrial)
    return GeneratorRun(
        [arm.clone() for arm in chosen.arms],
        generator_key=REPEAT,
        gen_metadata={REPEATS: chosen.index},
    )
