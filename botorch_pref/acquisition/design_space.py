"""Designs that a question may show, by coordinates in which units do not matter."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cached_property
from math import prod
from typing import NamedTuple

import numpy as np
import torch
from botorch.utils.sampling import draw_sobol_samples, manual_seed
from torch import Tensor
from torch.nn.functional import one_hot

from botorch_pref.acquisition.polytopes import Frame
from botorch_pref.errors import FeedbackError

Constraint = tuple[Tensor, Tensor, float]
"""Indices of columns, their coefficients, and the right-hand side, as BoTorch's."""

_ROUNDING = 1e-6
"""The share of a range by which a design may be beyond bounds and constraints."""

_TRIES = (1, 32, 256)
"""Points that are drawn for each that is sought, until enough satisfy constraints."""

_SLICES = 64
"""The number of choices of listed values of which thin polytopes are sought."""

MAX_DESIGNS, _FEW_DESIGNS = 10_000, 256
"""The numbers of designs up to which all of a space can be listed, and always are."""


class Listed(NamedTuple):
    """A category, or a number of some values only.

    Attributes:
        columns: Its ``c`` columns.
        values: The ``v`` values that it may have in them, ``v x c``.
        amounts: What each value adds to the left sides of constraints, ``v x m``.
    """

    columns: list[int]
    values: Tensor
    amounts: Tensor


@dataclass(frozen=True, eq=False)
class DesignSpace:
    r"""Designs by ``c`` coordinates: shares of ranges, then places in lists of values.

    Units do not matter to a search by coordinates. A category, and a number that has
    some values only, is one coordinate, the place of its value among those that are
    allowed. A column with a fixed value has no coordinate.

    Attributes:
        base: ``d``, the values of all columns that do not vary, and 0 elsewhere.
        columns: ``k``, the columns of numbers that vary, of any value or on a grid.
        bounds: ``2 x k``, the ends of these columns.
        listed: Each category and each number of some values only that varies.
        limits: ``A`` (``m x k``) and ``b`` (``m``) of constraints :math:`A z + a \ge b`
            of the shares :math:`z`, with the sum :math:`a` of the amounts of values.
        rows: All designs, ``N x d``, where they are a table, or few because all columns
            have some values only; None elsewhere.
        grids: The values, in order, of each number that has many, by its column. No
            constraint is about such a number.
    """

    base: Tensor
    columns: Tensor
    bounds: Tensor
    listed: tuple[Listed, ...]
    limits: tuple[Tensor, Tensor]
    rows: Tensor | None = None
    grids: Mapping[int, Tensor] = field(default_factory=dict)

    @classmethod
    def from_bounds(
        cls,
        bounds: Tensor,
        *,
        inequality_constraints: Sequence[Constraint] = (),
        categorical: Sequence[Sequence[int]] = (),
        discrete_dims: Mapping[int, Sequence[float]] | None = None,
        fixed_features: Mapping[int, float] | None = None,
        rows: Tensor | None = None,
    ) -> DesignSpace:
        """Makes the space within bounds, constraints, categories and fixed features.

        All arguments are of right types and columns; see `next_question`.

        Raises:
            FeedbackError: A category has no allowed value, a constraint is about one,
                nothing varies, or no row of the table is a design.
        """
        fixed = {} if fixed_features is None else fixed_features
        base = torch.zeros_like(bounds[0])
        for column, value in fixed.items():
            base[column] = value
        tables = _tables(base, categorical, discrete_dims, fixed)
        A, b = _left_and_right(base, inequality_constraints, categorical)
        for columns, values in tables:
            if len(values) == 1:
                base[columns] = values[0]
        in_tables = {column for columns, _ in tables for column in columns}
        numbers = [c for c in range(len(base)) if c not in in_tables | fixed.keys()]
        tables = [(columns, values) for columns, values in tables if len(values) > 1]
        if not numbers and not tables:
            raise FeedbackError(
                f"There is one design, {base.tolist()}, and nothing is left to choose; "
                "fix fewer columns by fixed_features, or give more values of "
                "discrete_dims."
            )
        varying = [*numbers, *(column for columns, _ in tables for column in columns)]
        # What does not vary goes to the right sides.
        b = b - A @ base
        is_fixed = ~A[:, varying].any(-1)
        if bool((b[is_fixed] > _ROUNDING).any()):
            raise FeedbackError(
                "inequality_constraints do not hold for fixed_features "
                f"{dict(fixed)}; fix other values, or loosen them."
            )
        A, b = A[~is_fixed], b[~is_fixed]
        low, high = ends = bounds[:, numbers]
        # Constraints on shares of ranges: A (low + z (high - low)) >= b.
        shares = A[:, numbers]
        space = cls(
            base,
            torch.tensor(numbers, dtype=torch.long),
            ends,
            tuple(Listed(c, values, values @ A[:, c].T) for c, values in tables),
            (shares * (high - low), b - shares @ low),
        )
        return space._with_rows(rows)

    def _with_rows(self, rows: Tensor | None) -> DesignSpace:
        """Returns the space with a table of its designs, if it is to have one.

        Of ``rows`` from a user, ``N x d``, it has those that are designs, each once;
        without rows all designs where these are at most 256.
        """
        if rows is None:
            designs = self.designs()
            is_few = designs is not None and len(designs) <= _FEW_DESIGNS
            rows = designs if is_few else None
        else:
            rows = rows[self.allows(rows)].unique(dim=0)
        if rows is not None and not len(rows):
            raise FeedbackError(
                "No design is within bounds, inequality_constraints, categorical, "
                "discrete_dims and fixed_features; loosen them, and give rows of "
                "discrete in the units of bounds."
            )
        return self if rows is None else replace(self, rows=rows)

    @property
    def num_parameters(self) -> int:
        """Number of coordinates, ``c``."""
        return len(self.columns) + len(self.listed)

    @property
    def widths(self) -> Tensor:
        """The range of each column, ``d``; 1 where it has one value."""
        widths = torch.ones_like(self.base)
        widths[self.columns] = self.bounds[1] - self.bounds[0]
        for listed in self.listed:
            spread = listed.values.amax(0) - listed.values.amin(0)
            widths[listed.columns] = torch.where(spread > 0, spread, 1.0)
        return widths

    @property
    def is_box(self) -> bool:
        """Whether all columns vary, and all numbers within the bounds are designs."""
        limited = self.listed or self.grids or len(self.limits[1])
        all_vary = len(self.columns) == len(self.base)
        return all_vary and not limited and self.rows is None

    @property
    def limits_lists(self) -> bool:
        """Whether a constraint is about a column that has a list of values."""
        return any(bool(listed.amounts.any()) for listed in self.listed)

    @cached_property
    def frame(self) -> Frame | None:
        """Frame of the shares that constraints allow, if less than 1 % of the cube.

        None elsewhere, and where a constraint is about a column that has a list of
        values: its place in the list is no share of a range.
        """
        A, b = (part.double().cpu() for part in self.limits)
        if not len(b) or self.limits_lists:
            return None
        # Constraints are ``A z >= b`` here, and ``A z <= b`` of a frame.
        try:
            frame = Frame.from_thin(-A, -b, _cube(A.shape[-1]))
        except FeedbackError as error:
            raise FeedbackError(
                "inequality_constraints leave no room within bounds and "
                f"fixed_features; loosen them. {error}"
            ) from error
        return None if frame is None else frame.to(self.base.device)

    def features(self, coordinates: Tensor) -> Tensor:
        """Makes designs ``... x d`` of coordinates, ``... x c``, see the class.

        Numbers are rounded to their grids, with derivatives as if they were not, and
        places in lists of values to whole ones.
        """
        shares, places = coordinates.tensor_split([len(self.columns)], -1)
        X = self.base.expand(*coordinates.shape[:-1], -1).clone()
        low, high = self.bounds
        # A sum may end beyond the upper end: -0.49 + (0.31 + 0.49) > 0.31.
        X[..., self.columns] = torch.lerp(low, high, shares)
        for column, grid in self.grids.items():
            number = X[..., column].clone()
            middles = (grid[1:] + grid[:-1]) / 2
            nearest = grid[torch.bucketize(number.detach(), middles)]
            X[..., column] = number + (nearest - number).detach()
        for place, listed in zip(places.unbind(-1), self.listed, strict=True):
            X[..., listed.columns] = listed.values[place.round().long()].to(X)
        return X

    def coordinates(self, X: Tensor) -> Tensor:
        """Finds coordinates ``... x c`` of designs, ``... x d``, see the class.

        Where a design has values that are not listed, it has the place of the nearest.
        """
        low, high = self.bounds
        shares = (X[..., self.columns] - low) / (high - low)
        places = [
            (X[..., listed.columns].unsqueeze(-2) - listed.values)
            .square()
            .sum(-1)
            .argmin(-1)
            for listed in self.listed
        ]
        return torch.cat([shares, *(place.unsqueeze(-1).to(X) for place in places)], -1)

    def projected(self, X: Tensor) -> Tensor:
        """Sets columns that do not vary to their values in copies of designs.

        So a design that was observed elsewhere may be one of this space.
        """
        in_lists = (column for listed in self.listed for column in listed.columns)
        varying = [*self.columns.tolist(), *in_lists]
        projected = self.base.expand_as(X).clone()
        projected[..., varying] = X[..., varying]
        return projected

    def same(self, first: Tensor, second: Tensor) -> Tensor:
        """Tells which designs, ``n x d`` and ``m x d``, rounding alone parts."""
        gaps = (first.unsqueeze(-2) - second).abs()
        return (gaps <= _ROUNDING * self.widths).all(-1)

    def rounded_into_bounds(self, X: Tensor) -> Tensor:
        """Moves numbers that rounding left beyond their bounds to these, in copies."""
        moved = X.clone()
        moved[..., self.columns] = X[..., self.columns].clamp(*self.bounds)
        return moved

    def allows(self, X: Tensor) -> Tensor:
        """Tells whether designs are of this space, ``...`` of ``... x d``."""
        Z = self.coordinates(X)
        allowed = (Z >= -_ROUNDING).all(-1) & self.satisfies(Z)
        allowed &= (Z[..., : len(self.columns)] <= 1 + _ROUNDING).all(-1)
        # Values are those of the lists, and what is fixed is as it has to be.
        again = self.features(Z)
        allowed &= ((again - X).abs() <= _ROUNDING * (1 + X.abs())).all(-1)
        if self.rows is not None:
            allowed &= (X.unsqueeze(-2) == self.rows).all(-1).any(-1)
        return allowed

    def right_sides(self, coordinates: Tensor) -> Tensor:
        """Computes what shares of ranges have to add to each constraint, ``... x m``.

        That is ``b - a`` of the constraints ``A z >= b - a`` on shares ``z``, with the
        amounts ``a`` that listed values of the designs add.
        """
        b = self.limits[1]
        places = coordinates[..., len(self.columns) :]
        for place, listed in zip(places.unbind(-1), self.listed, strict=True):
            b = b - listed.amounts[place.round().long()].to(b)
        return b.expand(*coordinates.shape[:-1], -1)

    def satisfies(self, coordinates: Tensor) -> Tensor:
        """Tells whether designs by coordinates satisfy all constraints, ``...``."""
        A, _ = self.limits
        shares = coordinates[..., : len(self.columns)]
        room = _ROUNDING * (1 + A.abs().sum(-1))
        return (shares @ A.T >= self.right_sides(coordinates) - room).all(-1)

    def designs(self, limit: int = MAX_DESIGNS) -> Tensor | None:
        """Lists all designs, ``N x d``; None where these are infinite or too many.

        A table is listed whatever its length. Other spaces are where every number has a
        list or a grid of values, and at most ``limit`` combinations of values are left
        before constraints exclude some.
        """
        if self.rows is not None:
            return self.rows
        is_stepped = [column in self.grids for column in self.columns.tolist()]
        counts = [len(grid) for grid in self.grids.values()]
        counts += [len(listed.values) for listed in self.listed]
        if not all(is_stepped) or prod(counts) > limit:
            return None
        low, high = self.bounds
        parts = [
            (self.grids[column] - low[i]) / (high[i] - low[i])
            for i, column in enumerate(self.columns.tolist())
        ]
        parts += [torch.arange(len(v.values)).to(self.base) for v in self.listed]
        Z = torch.cartesian_prod(*parts).view(-1, self.num_parameters)
        return self.features(Z[self.satisfies(Z)])

    def rows_besides(self, options: Tensor, count: int) -> Tensor:
        """Lists the designs that are not among some options, at least ``count``.

        Raises:
            FeedbackError: There are fewer of them.
        """
        designs = self.designs()
        assert designs is not None, "the designs can be listed"
        rows = designs[~(designs.unsqueeze(-2) == options).all(-1).any(-1)]
        if len(rows) < count:
            number = "is 1 design" if len(rows) == 1 else f"are {len(rows)} designs"
            raise FeedbackError(
                f"There {number} besides those that the question has; it needs "
                f"{count}. Give more, by discrete or discrete_dims, or a smaller size."
            )
        return rows

    def draw(self, count: int, seed: int) -> Tensor:
        """Draws designs by coordinates, ``count x c``, from a Sobol sequence.

        Where hardly any point of the sequence satisfies the constraints, shares are
        mixtures of the vertices of a polytope. Where listed values add to constraints,
        each choice of these has a polytope.

        Raises:
            FeedbackError: No design satisfies the constraints.
        """
        Z = self._sobol(count, seed)
        if self.frame is not None:
            with manual_seed(seed):
                shares = self.frame.mixtures(count)
            return torch.cat([shares.to(Z), Z[:, len(self.columns) :]], -1)
        for times in _TRIES:
            tried = self._sobol(times * count, seed)
            Z = tried[self.satisfies(tried)]
            if len(Z) >= count:
                return Z[:count]
        if len(self.columns):
            Z = torch.cat([Z, self._sliced(tried, count, seed)])
        if not len(Z):
            raise FeedbackError(
                f"No design of {_TRIES[-1] * count} satisfies inequality_constraints "
                "within bounds and fixed_features; loosen them."
            )
        # Where there is next to no room, some are the same.
        return Z[torch.arange(count) % len(Z)]

    def _sliced(self, tried: Tensor, count: int, seed: int) -> Tensor:
        """Draws designs where trying found too few that satisfy the constraints.

        Each choice of listed values among the coordinates ``tried``, ``n x c``, leaves
        a polytope of shares, a slice. Mixtures of the vertices of slices that are not
        empty are drawn, for the first `_SLICES` choices. The result is at least
        ``count x c``, or empty.
        """
        (A, _), k = self.limits, len(self.columns)
        # Shares add at most the sum of positive coefficients.
        within = A.clamp_min(0).sum(-1) >= self.right_sides(tried) - _ROUNDING
        slices = tried[within.all(-1)]
        _, first = np.unique(slices[:, k:].cpu().numpy(), axis=0, return_index=True)
        slices, frames = slices[np.sort(first)[:_SLICES]], []
        for place, b in zip(slices[:, k:], self.right_sides(slices), strict=True):
            with suppress(FeedbackError):
                rows, ends = -A.double().cpu(), -b.double().cpu()
                frame = Frame.from_constraints(rows, ends, _cube(k))
                frames.append((frame, place))
        number = -(-count // max(len(frames), 1))
        with manual_seed(seed):
            drawn = [
                torch.cat(
                    [frame.mixtures(number).to(place), place.repeat(number, 1)], -1
                )
                for frame, place in frames
            ]
        # Slices take turns.
        return torch.stack(drawn, 1).flatten(0, 1) if drawn else tried[:0]

    def _sobol(self, count: int, seed: int) -> Tensor:
        """Draws coordinates of a scrambled Sobol sequence, whatever constraints are.

        They are ``count x c``, shares in [0, 1] and then whole places in lists. Longer
        sequences of a seed begin with the shorter ones.
        """
        cube = _cube(self.num_parameters).to(self.base)
        Z = draw_sobol_samples(cube, count, 1, seed=seed).squeeze(-2)
        for place, listed in enumerate(self.listed, len(self.columns)):
            number = (Z[:, place] * len(listed.values)).floor()
            Z[:, place] = number.clamp_max(len(listed.values) - 1)
        return Z

    def mix(self, centres: Tensor, designs: Tensor) -> Tensor:
        """Mixes ``centres`` and other designs, mostly near the centres.

        Draws are from the global generator, which callers seed.
        What lies between two designs that satisfy constraints satisfies them too. Each
        listed value is the centre's with probability one half. Where constraints refuse
        a mixture, the result is the other design.
        Centres and results are coordinates, ``n x c``.
        """
        share = torch.rand(len(designs), 1).to(designs) ** 3
        mixed = torch.lerp(centres, designs, share)
        k, is_kept = len(self.columns), torch.rand(designs.shape).to(designs) < 0.5
        mixed[:, k:] = torch.where(is_kept, centres, designs)[:, k:]
        return torch.where(self.satisfies(mixed).unsqueeze(-1), mixed, designs)

    def sample_near(self, point: Tensor, count: int, seed: int) -> Tensor:
        """Draws designs anywhere and around ``point``, ``1 x d``, and adds the point.

        Where designs can be listed, all are of the list, and nothing is added: the
        first half of ``count`` are the nearest ones, and the others random. ``seed`` is
        that of a Sobol sequence of designs anywhere; what is random besides is drawn
        from the global generator.
        """
        designs = self.designs()
        if designs is not None:
            order = torch.cdist(point.to(designs), designs).squeeze(0).argsort()
            near, distant = order.tensor_split([count // 2])
            anywhere = distant[torch.randperm(len(distant))[: count - len(near)]]
            return designs[torch.cat([near, anywhere])]
        first, second = self.draw(count, seed).tensor_split(2)
        centre = self.coordinates(point).expand_as(second)
        Z = torch.cat([first, self.mix(centre, second)])
        return torch.cat([self.features(Z), point.to(self.base)])


def _cube(dim: int) -> Tensor:
    return torch.tensor([[0.0], [1.0]], dtype=torch.double).expand(2, dim)


def _tables(
    base: Tensor,
    categorical: Sequence[Sequence[int]],
    discrete_dims: Mapping[int, Sequence[float]] | None,
    fixed: Mapping[int, float],
) -> list[tuple[list[int], Tensor]]:
    """Lists the columns of each category and of each number with a list of values.

    With them are the values, ``v x c`` in the ``c`` columns, of the type of ``base``:
    zeros and a one of a category, without those that ``fixed`` excludes; numbers in
    rising order. Fixed numbers are left out.
    """
    tables = []
    for group in categorical:
        columns = _allowed_values(group, fixed)
        places = torch.tensor([[*group].index(column) for column in columns])
        tables.append(([*group], one_hot(places, len(group)).to(base)))
    for column, steps in ({} if discrete_dims is None else discrete_dims).items():
        if column not in fixed:
            tables.append(([column], base.new_tensor(sorted(steps)).unsqueeze(-1)))
    return tables


def _left_and_right(
    base: Tensor,
    constraints: Sequence[Constraint],
    categorical: Sequence[Sequence[int]],
) -> tuple[Tensor, Tensor]:
    r"""Makes ``A`` (``m x d``) and ``b`` (``m``) of constraints :math:`A x \ge b`.

    An index that a constraint names twice counts with the sum of its coefficients.

    Raises:
        FeedbackError: A constraint is about a column of a category.
    """
    A = torch.zeros(len(constraints), len(base)).to(base)
    for row, (indices, coefficients, _) in zip(A, constraints, strict=True):
        row.index_add_(0, indices.long().to(base.device), coefficients.to(base))
    limited = {*A.ne(0).any(0).nonzero().flatten().tolist()}
    concerned = limited & {column for group in categorical for column in group}
    if concerned:
        raise FeedbackError(
            f"inequality_constraints is about column {min(concerned)}, which is of a "
            "category; constrain other columns, and leave out values of this one."
        )
    return A, base.new_tensor([float(rhs) for _, _, rhs in constraints])


def _allowed_values(group: Sequence[int], fixed: Mapping[int, float]) -> list[int]:
    """Lists the columns of a category that may have its one, by what is fixed."""
    chosen = [column for column in group if fixed.get(column) == 1]
    values = chosen or [column for column in group if column not in fixed]
    wrong = [c for c in group if fixed.get(c, 0) not in (0, 1)]
    if wrong or len(chosen) > 1 or not values:
        raise FeedbackError(
            f"fixed_features leaves no value of the category {[*group]}; fix its "
            "columns at zeros and at most a one."
        )
    return values
