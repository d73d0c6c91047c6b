"""The search space as optimisers take it, and options that can be told apart."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from math import prod
from typing import Any

import torch
from ax.adapter.adapter_utils import (
    extract_inequality_constraints,
    extract_search_space_digest,
)
from ax.adapter.transforms.base import Transform
from ax.core.observation import ObservationFeatures
from ax.core.search_space import SearchSpace
from torch import Tensor

from botorch_pref.ax.space.options import all_values, few_values
from botorch_pref.ax.space.polytope import Frame
from botorch_pref.evaluation.progress import near_points

MAX_DESIGNS = 10_000
"""Up to so many designs are valued one by one."""

_MAX_VALUES = 1_000
"""Whole numbers of more values are as good as continuous."""


@dataclass(frozen=True, eq=False)
class Coordinate:
    """Parameter of the search space as optimisers take it.

    ``columns`` are its features of the model; ``table`` has those of each of its ``K``
    values, ``K x len(columns)``. A continuous one is its only feature, without a table.
    """

    columns: list[int]
    table: Tensor | None

    @property
    def is_category(self) -> bool:
        """Whether values are places in the table and not the feature itself."""
        return len(self.columns) > 1

    def rounded(self, number: Tensor) -> Tensor:
        """The value that is nearest to a number, which is no category."""
        if self.table is None:
            return number
        nearest = (number.unsqueeze(-1) - self.table.T).abs().argmin(-1)
        return self.table[nearest, 0]


@dataclass(frozen=True, eq=False)
class OptionSpace:
    r"""Search space of designs, one coordinate for each parameter that varies.

    ``bounds`` (``2 x d``) and ``constraints`` :math:`A x \le b` (``m x d`` and ``m``)
    are those of the features of the model. ``rows`` (``N x d``) has the features of all
    designs where these are the rows of a table.
    """

    coordinates: tuple[Coordinate, ...]
    bounds: Tensor
    constraints: tuple[Tensor, Tensor] | None = None
    rows: Tensor | None = None

    @property
    def is_box(self) -> bool:
        """Whether all numbers within the bounds are designs."""
        stepped = any(c.table is not None for c in self.coordinates)
        return not stepped and self.constraints is None and self.rows is None

    def allows(self, points: Tensor) -> Tensor:
        """Truth of all constraints at points ``N x d``, up to rounding."""
        if self.constraints is None:
            return torch.ones(len(points), dtype=torch.bool)
        A, b = self.constraints
        return (points @ A.T <= b + 1e-8).all(-1)

    def designs(self) -> Tensor | None:
        """All designs, ``N x d``, if they are few enough to be valued one by one.

        None where there are more than `MAX_DESIGNS`, or a number is continuous. The
        rows of a table are never too many.
        """
        if self.rows is not None:
            return self.rows[self.allows(self.rows)]
        counts = [0 if c.table is None else len(c.table) for c in self.coordinates]
        if 0 in counts or prod(counts) > MAX_DESIGNS:
            return None
        values = [self.values(i) for i in range(len(counts))]
        points = self.features(torch.cartesian_prod(*values).view(-1, len(counts)))
        return points[self.allows(points)]

    def values(self, place: int) -> Tensor:
        """All values of a coordinate that is not continuous, in order."""
        coordinate = self.coordinates[place]
        assert coordinate.table is not None
        if coordinate.is_category:
            return torch.arange(len(coordinate.table)).double()
        return coordinate.table[:, 0].sort().values

    def features(self, X: Tensor) -> Tensor:
        """Features of designs, ``... x d``, by their coordinates, ``... x c``.

        Categories are places in their tables. Whole numbers of many values are rounded,
        with derivatives as if they were not.
        """
        parts = []
        for number, coordinate in zip(X.unbind(-1), self.coordinates, strict=True):
            if coordinate.is_category:
                assert coordinate.table is not None
                parts.append(coordinate.table[number.round().long()].to(X))
            else:
                # Straight through: the derivative is that of the number.
                off = (coordinate.rounded(number) - number).detach()
                parts.append((number + off).unsqueeze(-1))
        order = [column for c in self.coordinates for column in c.columns]
        return torch.cat(parts, dim=-1)[..., torch.tensor(order).argsort()]

    def coordinates_of(self, features: Tensor) -> Tensor:
        """Coordinates of designs without categories by their features."""
        return features[..., [c.columns[0] for c in self.coordinates]]

    def near(self, point: Tensor, num_designs: int, seed: int) -> Tensor:
        """Designs around one, ``1 x d``, that satisfy constraints: see `near_points`.

        Numbers and ordered values move by shares of their range, categories stay.
        """
        moved = near_points(point, self.bounds, num_designs, seed)
        for coordinate in self.coordinates:
            columns = coordinate.columns
            if coordinate.is_category:
                moved[:, columns] = point[:, columns]
            else:
                moved[:, columns[0]] = coordinate.rounded(moved[:, columns[0]])
        return moved[self.allows(moved)]

    @cached_property
    def coordinate_bounds(self) -> Tensor:
        """``2 x c``."""
        bounds = self.coordinates_of(self.bounds).clone()
        for i, coordinate in enumerate(self.coordinates):
            if coordinate.is_category:
                bounds[:, i] = self.values(i)[[0, -1]].to(bounds)
        return bounds

    @cached_property
    def coordinate_constraints(self) -> tuple[Tensor, Tensor] | None:
        """The constraints of coordinates: none of them is about a category."""
        if self.constraints is None:
            return None
        A, b = self.constraints
        return self.coordinates_of(A), b

    @cached_property
    def frame(self) -> Frame | None:
        """Frame of a thin or flat polytope, in which starts are not found by trying."""
        if self.coordinate_constraints is None:
            return None
        return Frame.of_thin(*self.coordinate_constraints, self.coordinate_bounds)


def option_space(
    search_space: SearchSpace,
    transforms: Sequence[Transform],
    columns: list[str],
    rows_of_table: Tensor | None = None,
) -> OptionSpace:
    """The search space of features that Ax's transforms make, whose names are columns.

    ``rows_of_table`` are the features of all designs, where these are the rows of a table.
    """
    place = {column: i for i, column in enumerate(columns)}
    found = []
    for name, parameter in search_space.tunable_parameters.items():
        continuous = not few_values(parameter, _MAX_VALUES)
        # Of a continuous one any number does.
        lowest: Any = getattr(parameter, "lower", None)
        values = [lowest] if continuous else all_values(parameter)
        designs = [ObservationFeatures(parameters={name: value}) for value in values]
        for transform in transforms:
            designs = transform.transform_observation_features(designs)
        at = sorted(place[column] for column in designs[0].parameters)
        rows: Any = [[each.parameters[columns[i]] for i in at] for each in designs]
        table = torch.tensor(rows, dtype=torch.float64)
        found.append(Coordinate(at, None if continuous else table))
    transformed = search_space.clone()
    for transform in transforms:
        transformed = transform.transform_search_space(transformed)
    bounds = extract_search_space_digest(transformed, columns).bounds
    limits = extract_inequality_constraints(transformed.parameter_constraints, columns)
    if limits is not None:
        A, b = (torch.from_numpy(part).double() for part in limits)
    return OptionSpace(
        tuple(found),
        torch.tensor(bounds, dtype=torch.float64).T,
        None if limits is None else (A, b.flatten()),
        rows_of_table,
    )


@dataclass(frozen=True)
class ToldApart:
    r"""Smallest differences, and the questions that were asked.

    Two options differ by

    .. math:: r^2(x, y) = \sum_j \Big( \frac{x_j - y_j}{w_j} \Big)^2,

    with the smallest difference :math:`w_j` of each feature; below 1 nobody can tell
    them apart. A question repeats another one where each option of either has one of
    the other that it cannot be told from. The options of a question that are chosen are
    ``batch_shape x m x d``.

    Attributes:
        widths: ``d``, the smallest differences.
        asked: ``K x s x d``, the options of earlier questions of the same size.
        pending: ``P x s x d``, those of them that are unanswered.
        reference: ``k x d``, options of the question that are there already.
        others: ``k x d``, points that an option must differ from besides.
    """

    widths: Tensor
    asked: Tensor
    pending: Tensor
    reference: Tensor | None = None
    others: Tensor | None = None

    def smallest_gap(self, options: Tensor) -> Tensor:
        """Squared difference of the two options that differ least, ``batch_shape``."""
        whole = _joined(_joined(options, self.reference), self.others)
        squared = self._squared(options, whole)
        own = torch.eye(*squared.shape[-2:], dtype=torch.bool, device=options.device)
        return squared.masked_fill(own, torch.inf).flatten(-2).amin(-1)

    def times_asked(self, options: Tensor) -> Tensor:
        """Number of earlier questions that a question repeats, ``batch_shape``."""
        return (~can_be_told(self._gaps(options, self.asked))).sum(-1)

    def is_pending(self, options: Tensor) -> Tensor:
        """Whether a question repeats one that is not answered yet, ``batch_shape``."""
        return (~can_be_told(self._gaps(options, self.pending))).any(-1)

    def novelty(self, options: Tensor) -> Tensor:
        """Squared difference from the earlier question that is most alike."""
        gaps = self._gaps(options, self.asked)
        # Infinite where no question was asked.
        return torch.nn.functional.pad(gaps, (0, 1), value=torch.inf).amin(-1)

    def _gaps(self, options: Tensor, questions: Tensor) -> Tensor:
        """Squared differences from questions, ``batch_shape x K``."""
        whole = _joined(options, self.reference)
        squared = self._squared(whole, questions.flatten(0, 1))
        matched = squared.unflatten(-1, questions.shape[:2])
        there, back = matched.amin(-1).amax(-2), matched.amin(-3).amax(-1)
        return torch.maximum(there, back)

    def _squared(self, first: Tensor, second: Tensor) -> Tensor:
        """Squared differences of all pairs, ``batch_shape x n x k``."""
        apart = (first.unsqueeze(-2) - second.unsqueeze(-3)) / self.widths
        return apart.square().sum(-1)


def _joined(options: Tensor, more: Tensor | None) -> Tensor:
    """The options and some more points, for each batch."""
    if more is None:
        return options
    return torch.cat([options, more.expand(*options.shape[:-2], *more.shape)], dim=-2)


def can_be_told(squared: Tensor) -> Tensor:
    """Whether squared differences are at least 1, up to rounding."""
    return squared >= 1 - 1e-6
