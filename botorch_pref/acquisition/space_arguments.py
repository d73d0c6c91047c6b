"""Arguments that say which designs there are, and of which options, checked."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from torch import Tensor

from botorch_pref.acquisition.design_space import Constraint, DesignSpace
from botorch_pref.errors import BotorchPrefError, FeedbackError
from botorch_pref.models.kernels import check_categorical
from botorch_pref.numerics.argument_checks import check_finite, check_kind, check_points


def checked_bounds(bounds: Tensor, like: Tensor) -> Tensor:
    """Checks bounds, and gives them the type of a point, ``1 x d``."""
    right = isinstance(bounds, Tensor) and bounds.shape == (2, like.shape[-1])
    if not right or not bool((bounds[0] <= bounds[1]).all() & bounds.isfinite().all()):
        values = bounds.tolist() if isinstance(bounds, Tensor) else bounds
        raise BotorchPrefError(
            f"bounds is {values!r}; give a tensor, 2 x {like.shape[-1]}, the finite "
            "lower ends of the columns and then the upper ends."
        )
    return bounds.to(like)


def checked_fixed_features(
    fixed: Mapping[int, float] | None, dim: int
) -> Mapping[int, float]:
    """Checks values of columns, by their indices, of points with ``dim`` columns."""
    values = {} if fixed is None else fixed
    columns = range(dim)
    if not isinstance(values, Mapping) or not all(
        column in columns for column in values
    ):
        raise BotorchPrefError(
            f"fixed_features is {values!r}; give values of columns by their indices, 0 "
            f"to {columns[-1]}."
        )
    for column, value in values.items():
        if not math.isfinite(value):
            raise BotorchPrefError(
                f"fixed_features[{column}] is {value}; give a finite number."
            )
    return values


def checked_constraints(
    name: str, constraints: Sequence[Constraint] | None
) -> list[Constraint]:
    """Checks constraints of BoTorch's form, and lists them: no entry for None."""
    entries = () if constraints is None else constraints
    right = isinstance(entries, Sequence) and not isinstance(entries, str)
    if not right or not all(
        isinstance(entry, tuple)
        and len(entry) == 3
        and all(isinstance(part, Tensor) for part in entry[:2])
        for entry in entries
    ):
        raise BotorchPrefError(
            f"{name} is {constraints!r}; give tuples (indices, coefficients, rhs), "
            "of which the first two are tensors."
        )
    return [*entries]


def space_of(
    bounds: Tensor,
    inequality_constraints: Sequence[Constraint] | None,
    discrete: Tensor | None,
    discrete_dims: Mapping[int, Sequence[float]] | None,
    categorical: Sequence[Sequence[int]] | None,
    fixed_features: Mapping[int, float] | None,
) -> DesignSpace:
    """Makes the space of designs that options may be, of arguments of `next_question`.

    It checks all of them. Of ``bounds``, ``2 x d``, it checks only that their ends
    differ: `checked_bounds` is for the rest.

    Raises:
        FeedbackError: Arguments that cannot be, no design, or one alone.
    """
    if not bool((bounds[0] < bounds[1]).all()):
        raise FeedbackError(
            f"bounds is {bounds.tolist()}; give upper ends that are larger than the "
            "lower ones, and fixed_features for what does not vary."
        )
    dim = bounds.shape[-1]
    groups = () if categorical is None else categorical
    check_categorical(groups, dim)
    if discrete is not None:
        discrete = checked_designs("discrete", discrete, bounds[0])
    space = DesignSpace.from_bounds(
        bounds,
        inequality_constraints=checked_constraints(
            "inequality_constraints", inequality_constraints
        ),
        categorical=groups,
        discrete_dims=_checked_values(discrete_dims, bounds, groups),
        fixed_features=checked_fixed_features(fixed_features, dim),
        rows=discrete,
    )
    frame = space.frame
    if frame is not None and not frame.axes.shape[-1] and not space.listed:
        (design,) = space.features(frame.centre.unsqueeze(0)).tolist()
        raise FeedbackError(
            f"inequality_constraints leave one design, {design}, and nothing to "
            "choose; loosen them."
        )
    return space


def _checked_values(
    discrete_dims: Mapping[int, Sequence[float]] | None,
    bounds: Tensor,
    categorical: Sequence[Sequence[int]],
) -> Mapping[int, Sequence[float]]:
    """Checks ``discrete_dims``: different values of columns, within their bounds.

    The columns are of no category; of None it makes no values.
    """
    values = {} if discrete_dims is None else discrete_dims
    category_columns = {column for group in categorical for column in group}
    columns = {*range(bounds.shape[-1])} - category_columns
    if not isinstance(values, Mapping) or not values.keys() <= columns:
        raise FeedbackError(
            f"discrete_dims is {values!r}; give values of columns by their indices, "
            f"of {sorted(columns)}."
        )
    for column, numbers in values.items():
        table = bounds.new_tensor([*numbers])
        low, high = bounds[:, column]
        inside = bool(((table >= low) & (table <= high)).all())
        if not len(table) or len(table.unique()) < len(table) or not inside:
            raise FeedbackError(
                f"discrete_dims of column {column} are {[*numbers]}; give one or more "
                f"different values from {float(low):g} to {float(high):g}."
            )
    return values


def checked_designs(name: str, points: Tensor, like: Tensor) -> Tensor:
    """Checks finite points, ``n x d``, of as many columns as ``like`` has."""
    points = check_finite(name, check_points(name, points, like, len(like)))
    if points.dim() != 2 or not len(points):
        raise FeedbackError(
            f"{name} has shape {tuple(points.shape)}; give n x {len(like)}, with one "
            "point or more."
        )
    return points.to(like)


def checked_pending(pending: Tensor | None, size: int, like: Tensor) -> Tensor:
    """Checks open questions, ``k x size x d``; of None it makes no question."""
    if pending is None:
        return like.new_zeros(0, size, len(like))
    check_kind("pending", pending, Tensor)
    if pending.dim() != 3 or pending.shape[1:] != (size, len(like)):
        raise FeedbackError(
            f"pending has shape {tuple(pending.shape)}; give the options of questions "
            f"without answers, k x {size} x {len(like)}."
        )
    return check_finite("pending", pending.to(like))
