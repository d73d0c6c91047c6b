"""Designs that a question may show, and the search for the best of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from math import comb, prod
from typing import Any
from warnings import catch_warnings, filterwarnings

import torch
from botorch.acquisition.acquisition import AcquisitionFunction
from botorch.exceptions.errors import InfeasibilityError
from botorch.optim.initializers import initialize_q_batch
from botorch.optim.optimize import optimize_acqf
from botorch.utils.sampling import draw_sobol_samples, get_polytope_samples
from torch import Tensor
from torch.nn.functional import one_hot

from botorch_pref.acquisition.recommendation import Constraint
from botorch_pref.acquisition.rules import DistinctOptions, WrappedAcquisition
from botorch_pref.errors import FeedbackError

RESTARTS, RAW_SAMPLES = 8, 512
"""Starts that are led uphill, and questions from which they are chosen."""

_TURNS = 4
"""Of the continuous coordinates and those of listed values, at most."""

_LISTED, _EXCHANGED, _CHUNK = 20_000, 4, 2_048
"""Questions about rows that are all valued; sets from which rows are exchanged where
there are more; questions that are valued side by side."""

_FEW_DESIGNS = 256
"""Designs by lists of values alone that are searched as a table."""

_ROUNDING = 1e-6
"""Of shares of ranges, by which a design may be beyond bounds and constraints."""


@dataclass(frozen=True, eq=False)
class DesignSpace:
    r"""Designs by ``c`` coordinates: shares of ranges, then places in lists of values.

    Units do not matter to a search by coordinates. A category, and a number that has
    some values only, is one coordinate, the place of its value among those that are
    allowed. Whatever is fixed is none.

    Attributes:
        base: ``d``, the values of all columns that do not vary, and 0 elsewhere.
        columns: ``k``, the columns of numbers of any value that vary.
        bounds: ``2 x k``, the ends of these columns.
        listed: Of each category and each number of some values only that varies, its
            ``c`` columns, and its ``v`` values in them, ``v x c``.
        limits: ``A`` (``m x k``) and ``b`` (``m``) of constraints :math:`A z \ge b` of
            the shares.
        rows: All designs, ``N x d``, where they are a table, or few because all columns
            have some values only; None elsewhere.
    """

    base: Tensor
    columns: Tensor
    bounds: Tensor
    listed: tuple[tuple[list[int], Tensor], ...]
    limits: tuple[Tensor, Tensor]
    rows: Tensor | None = None

    @classmethod
    def of(
        cls,
        bounds: Tensor,
        *,
        inequality_constraints: Sequence[Constraint] = (),
        categorical: Sequence[Sequence[int]] = (),
        discrete_dims: Mapping[int, Sequence[float]] | None = None,
        fixed_features: Mapping[int, float] | None = None,
        rows: Tensor | None = None,
    ) -> DesignSpace:
        """The designs within bounds, constraints, categories and fixed features.

        All arguments are of right types and columns; see `next_question`.

        Raises:
            FeedbackError: A category has no allowed value, a constraint is about one
                or about a number of some values only, or no row of the table is a
                design.
        """
        fixed = {} if fixed_features is None else fixed_features
        base = torch.zeros_like(bounds[0])
        for column, value in fixed.items():
            base[column] = value
        listed = []
        for group in categorical:
            values = _allowed_values(group, fixed)
            places = torch.tensor([[*group].index(column) for column in values])
            listed.append(([*group], one_hot(places, len(group)).to(base)))
        for column, steps in ({} if discrete_dims is None else discrete_dims).items():
            if column not in fixed:
                listed.append(([column], base.new_tensor([*steps]).unsqueeze(-1)))
        for list_columns, table in listed:
            if len(table) == 1:
                base[list_columns] = table[0]
        in_lists = {column for list_columns, _ in listed for column in list_columns}
        listed = [
            (list_columns, table) for list_columns, table in listed if len(table) > 1
        ]
        numbers = [*range(len(base))]
        numbers = [c for c in numbers if c not in in_lists and c not in fixed]
        A = torch.zeros(len(inequality_constraints), len(base)).to(base)
        for row, (indices, coefficients, _) in zip(
            A, inequality_constraints, strict=True
        ):
            row.index_add_(0, indices.long(), coefficients.to(base))
        concerned = in_lists & {*A.ne(0).any(0).nonzero().flatten().tolist()}
        if concerned:
            raise FeedbackError(
                f"inequality_constraints is about column {min(concerned)}, which is of "
                "a category or of discrete_dims; constrain other columns, and leave "
                "out values of these."
            )
        b = base.new_tensor([float(rhs) for _, _, rhs in inequality_constraints])
        b = b - A @ base
        ends, A = bounds[:, numbers], A[:, numbers]
        if bool((b[varies := ~A.any(-1)] > _ROUNDING).any()):
            raise FeedbackError(
                "inequality_constraints do not hold for fixed_features "
                f"{dict(fixed)}; fix other values, or loosen them."
            )
        A, b = A[~varies], b[~varies]
        limits = A * (ends[1] - ends[0]), b - A @ ends[0]
        columns = torch.tensor(numbers, dtype=torch.long)
        if not numbers and not listed:
            raise FeedbackError(
                f"There is one design, {base.tolist()}, and nothing is left to choose; "
                "fix fewer columns by fixed_features, or give more values of "
                "discrete_dims."
            )
        space = cls(base, columns, ends, tuple(listed), limits)
        if rows is None:
            number = prod(len(table) for _, table in listed)
            is_table = not numbers and number <= _FEW_DESIGNS
            return replace(space, rows=space.listed_designs()) if is_table else space
        rows = rows[space.allows(rows)].unique(dim=0)
        if not len(rows):
            raise FeedbackError(
                "discrete has no row within bounds, inequality_constraints, "
                "categorical and fixed_features; give rows in the units of bounds."
            )
        return replace(space, rows=rows)

    def listed_designs(self) -> Tensor:
        """All designs of a space without numbers of any value, ``N x d``."""
        places = [torch.arange(len(table)) for _, table in self.listed]
        Z = torch.cartesian_prod(*places).view(-1, len(places))
        return self.features(Z.to(self.base))

    def rows_besides(self, options: Tensor, count: int) -> Tensor:
        """The rows, at least ``count``, that are none of some options, ``j x d``.

        Raises:
            FeedbackError: They are fewer.
        """
        assert self.rows is not None, "the space is a table"
        rows = self.rows[~(self.rows.unsqueeze(-2) == options).all(-1).any(-1)]
        if len(rows) < count:
            raise FeedbackError(
                f"There are {len(rows)} designs besides those that the question has; "
                f"it needs {count} of them. Give more, by discrete or discrete_dims, "
                "or a smaller size."
            )
        return rows

    @property
    def num_parameters(self) -> int:
        """Number of coordinates, ``c``."""
        return len(self.columns) + len(self.listed)

    @property
    def inequalities(self) -> list[Constraint]:
        """The constraints of the shares, as BoTorch has them."""
        places = torch.arange(len(self.columns))
        pairs = zip(*self.limits, strict=True)
        return [(places, row, float(bound)) for row, bound in pairs]

    def features(self, coordinates: Tensor) -> Tensor:
        """Designs ``... x d`` by their coordinates, ``... x c``."""
        shares, places = coordinates.tensor_split([len(self.columns)], -1)
        X = self.base.expand(*coordinates.shape[:-1], -1).clone()
        low, high = self.bounds
        X[..., self.columns] = low + shares * (high - low)
        for place, (columns, table) in zip(places.unbind(-1), self.listed, strict=True):
            X[..., columns] = table[place.round().long()].to(X)
        return X

    def coordinates(self, X: Tensor) -> Tensor:
        """Coordinates ``... x c`` of designs, ``... x d``."""
        low, high = self.bounds
        shares = (X[..., self.columns] - low) / (high - low)
        places = [
            (X[..., columns].unsqueeze(-2) - table).square().sum(-1).argmin(-1)
            for columns, table in self.listed
        ]
        return torch.cat([shares, *(place.unsqueeze(-1).to(X) for place in places)], -1)

    def moved(self, X: Tensor) -> Tensor:
        """Designs with the columns that do not vary as they have to be."""
        in_lists = (column for columns, _ in self.listed for column in columns)
        varying = [*self.columns.tolist(), *in_lists]
        moved = self.base.expand_as(X).clone()
        moved[..., varying] = X[..., varying]
        return moved

    def allows(self, X: Tensor) -> Tensor:
        """Whether designs are of this space, ``...`` of ``... x d``."""
        Z = self.coordinates(X)
        allowed = (Z >= -_ROUNDING).all(-1) & self._satisfies(Z)
        allowed &= (Z[..., : len(self.columns)] <= 1 + _ROUNDING).all(-1)
        # Values are those of the lists, and what is fixed is as it has to be.
        again = self.features(Z)
        allowed &= ((again - X).abs() <= _ROUNDING * (1 + X.abs())).all(-1)
        if self.rows is not None:
            allowed &= (X.unsqueeze(-2) == self.rows).all(-1).any(-1)
        return allowed

    def draw(self, count: int, seed: int) -> Tensor:
        """Designs of a Sobol sequence by coordinates, ``count x c``.

        In a polytope that hardly any point of the sequence falls into, of a random
        walk.

        Raises:
            FeedbackError: No design satisfies the constraints.
        """
        for times in (1, 32):
            Z = self._sobol(times * count, seed)
            Z = Z[self._satisfies(Z)]
            if len(Z) >= count:
                return Z[:count]
        Z = self._sobol(count, seed)
        cube = torch.tensor([[0.0], [1.0]]).to(Z).expand(2, len(self.columns))
        try:
            walk = get_polytope_samples(
                count, cube, self.inequalities, seed=seed, n_burnin=512, n_thinning=4
            )
        except (InfeasibilityError, ValueError) as error:
            raise FeedbackError(
                "inequality_constraints leave no room within bounds and "
                f"fixed_features; loosen them. {error}"
            ) from error
        return torch.cat([walk.to(Z), Z[:, len(self.columns) :]], -1)

    def _sobol(self, count: int, seed: int) -> Tensor:
        cube = torch.tensor([[0.0], [1.0]]).to(self.base).expand(2, self.num_parameters)
        Z = draw_sobol_samples(cube, count, 1, seed=seed).squeeze(-2)
        for place, (_, table) in enumerate(self.listed, len(self.columns)):
            number = (Z[:, place] * len(table)).floor()
            Z[:, place] = number.clamp_max(len(table) - 1)
        return Z

    def _satisfies(self, coordinates: Tensor) -> Tensor:
        A, b = self.limits
        shares = coordinates[..., : len(self.columns)]
        room = _ROUNDING * (1 + A.abs().sum(-1))
        return (shares @ A.T >= b - room).all(-1)

    def near(self, centres: Tensor, designs: Tensor) -> Tensor:
        """Designs between ``centres`` and others, mostly near the centres.

        Between two that satisfy constraints all do. Half of the listed values stay.
        Both are coordinates, ``n x c``.
        """
        share = torch.rand(len(designs), 1).to(designs) ** 3
        mixed = torch.lerp(centres, designs, share)
        k, is_kept = len(self.columns), torch.rand(designs.shape) < 0.5
        mixed[:, k:] = torch.where(is_kept, centres, designs)[:, k:]
        return mixed

    def sample_near(self, point: Tensor, count: int, seed: int) -> Tensor:
        """Designs anywhere and around one, ``1 x d``, and that one; of a table all."""
        if self.rows is not None:
            return self.rows
        anywhere, second_draw = self.draw(count, seed).tensor_split(2)
        centre = self.coordinates(point).expand_as(second_draw)
        Z = torch.cat([anywhere, self.near(centre, second_draw)])
        return torch.cat([self.features(Z), point.to(self.base)])


def _allowed_values(group: Sequence[int], fixed: Mapping[int, float]) -> list[int]:
    """Columns of a category that may be its one."""
    chosen = [column for column in group if fixed.get(column) == 1]
    values = chosen or [column for column in group if column not in fixed]
    wrong = [c for c in group if fixed.get(c, 0) not in (0, 1)]
    if wrong or len(chosen) > 1 or not values:
        raise FeedbackError(
            f"fixed_features leaves no value of the category {[*group]}; fix its "
            "columns at zeros and at most a one."
        )
    return values


class _ByCoordinates(WrappedAcquisition):
    """The value of options by their coordinates, ``batch_shape x q x c``."""

    def __init__(
        self, acquisition: AcquisitionFunction, features: Callable[[Tensor], Tensor]
    ) -> None:
        super().__init__(acquisition)
        self._features = features

    def forward(self, X: Tensor) -> Tensor:
        value: Tensor = self.acquisition(self._features(X))
        return value


def best_options(
    acquisition: AcquisitionFunction,
    space: DesignSpace,
    size: int,
    centres: Tensor,
    *,
    beside: Tensor,
    open_questions: Tensor,
    seed: int,
) -> Tensor:
    """The options, chosen jointly, that an acquisition function values most.

    Args:
        acquisition: Values options, ``batch_shape x size x d``.
        space: Where they are.
        size: Number of options.
        centres: ``n x d``, designs of the space around which half of the starts are.
        beside: ``j x d``, options of the question that are there already.
        open_questions: ``k x s x d``, which are not to be asked again. A search of a
            continuous space does not meet them by chance.
        seed: Of the starts.

    Returns:
        ``size x d``.
    """
    if space.rows is not None:
        rows = space.rows_besides(beside, size)
        return _best_rows(acquisition, rows, size, beside, open_questions)
    anywhere = space.draw(RAW_SAMPLES * size, seed)
    first, second_draw = anywhere.tensor_split(2)
    places = torch.randint(len(centres), (len(second_draw),))
    near = space.near(space.coordinates(centres)[places], second_draw)
    # Some are anywhere, some near, and some have options of both kinds.
    drawn = torch.cat([first, near])[torch.randperm(len(anywhere))]
    starts = torch.cat([near, first, drawn]).unflatten(0, (-1, size))
    value = _ByCoordinates(acquisition, space.features)
    with torch.no_grad():
        values = torch.cat([value(part) for part in starts.split(_CHUNK)])
    starts, _ = initialize_q_batch(starts, values, RESTARTS)
    return space.features(_climbed(value, space, starts))


def _climbed(value: _ByCoordinates, space: DesignSpace, starts: Tensor) -> Tensor:
    """The best coordinates from some starts, ``size x c``.

    Listed values have no slope: they stay where the others climb, and then each value
    of each is tried.
    """
    cube = torch.zeros(2, space.num_parameters).to(starts)
    cube[1] = 1.0
    for place, (_, table) in enumerate(space.listed, len(space.columns)):
        cube[1, place] = len(table) - 1
    options: dict[str, Any] = {"batch_limit": RESTARTS}
    inner = value.acquisition
    if isinstance(inner, DistinctOptions) and not space.inequalities:
        options |= inner.optimizer_options
    for _ in range(_TURNS):
        with catch_warnings():
            # Under constraints BoTorch gives SciPy an option of another method.
            filterwarnings("ignore", "Unknown solver options: tol")
            # A step that starts where it could end finds nothing better.
            filterwarnings("ignore", "Optimization failed", RuntimeWarning)
            candidate, _ = optimize_acqf(
                value,
                cube,
                q=starts.shape[-2],
                num_restarts=len(starts),
                batch_initial_conditions=starts,
                inequality_constraints=space.inequalities or None,
                options=options,
            )
        swapped = _with_other_values(space, candidate)
        if not len(swapped):
            break
        with torch.no_grad():
            reached = value(candidate.unsqueeze(0))
            swaps = torch.cat([value(part) for part in swapped.split(_CHUNK)])
        if not bool((swaps > reached).any()):
            break
        starts = swapped[swaps.topk(min(RESTARTS, len(swaps))).indices]
    return candidate.clamp(cube[0], cube[1])


def _with_other_values(space: DesignSpace, options: Tensor) -> Tensor:
    """Options ``m x size x c`` that differ in one listed value of ``size x c``."""
    changed = [options.unsqueeze(0)[:0]]
    for place, (_, table) in enumerate(space.listed, len(space.columns)):
        for row in range(len(options)):
            alternatives = options.repeat(len(table), 1, 1)
            alternatives[:, row, place] = torch.arange(len(table)).to(alternatives)
            changed.append(
                alternatives[alternatives[:, row, place] != options[row, place]]
            )
    return torch.cat(changed)


def _best_rows(
    acquisition: AcquisitionFunction,
    rows: Tensor,
    size: int,
    beside: Tensor,
    open_questions: Tensor,
) -> Tensor:
    """The most valuable set of different rows of a table, ``size x d``.

    All sets are valued where they are few. Of more, each option is exchanged in turn
    from a few sets, until none is worth more.
    """

    def valued(places: Tensor) -> Tensor:
        X = rows[places]
        joint_options = torch.cat([X, beside.expand(len(X), -1, -1)], -2)
        is_equal = (joint_options[:, None, :, None] == open_questions[:, None]).all(-1)
        is_open = is_equal.any(-1).all(-1).any(-1)
        ordered = places.sort(-1).values
        is_open |= (ordered[:, 1:] == ordered[:, :-1]).any(-1)
        with torch.no_grad():
            parts = [acquisition(part) for part in X.split(_CHUNK)]
        return torch.cat(parts).masked_fill(is_open, -torch.inf)

    number = len(rows)
    if comb(number, size) <= _LISTED:
        places = torch.tensor([*combinations(range(number), size)]).view(-1, size)
        values = valued(places)
        value, places = values.max(), places[values.argmax()]
    else:
        drawn = torch.rand(RAW_SAMPLES, number).topk(size).indices
        values, first = valued(drawn).topk(_EXCHANGED)
        ends = [
            _exchanged(valued, *end, number)
            for end in zip(values, drawn[first], strict=True)
        ]
        value, places = max(ends, key=lambda end: float(end[0]))
    if not bool(value > -torch.inf):
        raise FeedbackError(
            "pending has all questions that the designs make; wait for an answer."
        )
    return rows[places]


def _exchanged(
    valued: Callable[[Tensor], Tensor], value: Tensor, places: Tensor, number: int
) -> tuple[Tensor, Tensor]:
    """The end of exchanges of one place of a set, turn after turn, and its value."""
    turn, unchanged = 0, 0
    while unchanged < len(places):
        alternatives = places.repeat(number, 1)
        alternatives[:, turn] = torch.arange(number)
        values = valued(alternatives)
        best = int(values.argmax())
        if bool(values[best] > value):
            value, places, unchanged = values[best], alternatives[best], 0
        turn, unchanged = (turn + 1) % len(places), unchanged + 1
    return value, places
