"""The search space as optimisers take it: choices by number, and one-hot for models."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

import torch
from ax.adapter.transforms.base import Transform
from ax.core.observation import ObservationFeatures
from ax.core.parameter import (
    ChoiceParameter,
    Parameter,
    ParameterType,
    RangeParameter,
)
from ax.core.search_space import SearchSpace
from ax.core.types import TParamValue
from torch import Tensor

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
