"""Recommended designs after the loop: the largest posterior mean anywhere."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import NamedTuple

import torch
from botorch.acquisition.analytic import PosteriorMean
from botorch.exceptions.warnings import InputDataWarning
from botorch.models.model import Model
from botorch.optim.optimize import optimize_acqf
from botorch.optim.parameter_constraints import evaluate_feasibility
from botorch.utils.sampling import manual_seed
from torch import Tensor

from botorch_pref.acquisition.design_space import Constraint, DesignSpace
from botorch_pref.acquisition.duels import (
    better_probability,
    champion,
    incumbent,
    observed_points,
)
from botorch_pref.acquisition.line_search import nearby_stop
from botorch_pref.acquisition.option_search import (
    Climb,
    climbed_options,
    in_portions,
)
from botorch_pref.acquisition.space_arguments import (
    checked_bounds,
    checked_constraints,
    checked_fixed_features,
    space_of,
)
from botorch_pref.errors import FeedbackError, warn_caller
from botorch_pref.models.answer_likelihoods import check_unbatched
from botorch_pref.numerics.argument_checks import checked_arguments


class Recommendation(NamedTuple):
    """A point to take.

    Attributes:
        point: ``1 x d``, in the units of the user.
        mean: The posterior mean of its utility.
        chance: P(f(point) > f(incumbent)): the probability that it is better than the
            `incumbent`, the observed point that is most likely the best. A half where
            it is that point.
    """

    point: Tensor
    mean: float
    chance: float


@checked_arguments
def recommend(
    model: Model,
    bounds: Tensor,
    *,
    fixed_features: Mapping[int, float] | None = None,
    inequality_constraints: Sequence[Constraint] | None = None,
    equality_constraints: Sequence[Constraint] | None = None,
    discrete: Tensor | None = None,
    discrete_dims: Mapping[int, Sequence[float]] | None = None,
    categorical: Sequence[Sequence[int]] | None = None,
    num_restarts: int = 8,
    raw_samples: int = 512,
    seed: int = 0,
) -> Recommendation:
    r"""Returns the point of a space with the largest posterior mean of the utility.

    .. math:: x^* = \arg\max_{x \in B} E[f(x) \mid D],

    found by BoTorch's ``optimize_acqf`` on its ``PosteriorMean``; where designs are
    rows, or columns have some values only, by the search of `next_question`. One of
    the starts is the `champion`, if it is in the space, so that no observed point there
    has a larger mean. Where the person who answers about lines stopped last so near to
    this point that no hand tells the two apart, the result is that stop. With the
    utility of one rater it may be his last stop, with the mean of several none.

    Args:
        model: Any BoTorch model with training inputs and one output: without batches,
            or an ensemble, of which the means are averaged.
        bounds: ``2 x d``, the lower and the upper end of each column.
        fixed_features: Values of columns, by their indices from 0; where the bounds do
            not have them, as of a context, the recommended point is beyond these.
        inequality_constraints: Tuples ``(indices, coefficients, rhs)``, each for
            ``sum(coefficients * x[indices]) >= rhs``.
        equality_constraints: The same with ``=``.
        discrete: ``N x d``, the designs that there are, see `next_question`.
        discrete_dims: The values that a column may have, by its index from 0.
        categorical: The columns of each unordered choice, coded as zeros and a one.
        num_restarts: How many starts are led uphill.
        raw_samples: How many points the starts are chosen from.
        seed: Of these points. The global random state stays as it is.

    Returns:
        The point, the mean of its utility, and the chance that it beats the incumbent.

    Raises:
        BotorchPrefError: The model is a batch, or bounds that are none of its points.
        FeedbackError: The model has no training inputs, or no answers; or no design
            satisfies the arguments.

    Warns:
        InputDataWarning: All observed points are below the bounds of some column, or
            above, as where points are in the unit cube and bounds are not.
    """
    check_unbatched(model)
    best_point = champion(model)
    if getattr(model, "feedback", None) == ():
        raise FeedbackError(
            "The model has no answers yet, by which one point would be better than "
            "another; give it some, comparisons= or feedback=."
        )
    bounds = checked_bounds(bounds, best_point)
    _warn_of_other_units(bounds, observed_points(model))
    equalities = checked_constraints("equality_constraints", equality_constraints)
    inequalities = checked_constraints("inequality_constraints", inequality_constraints)
    search: Callable[[], Tensor]
    if discrete is None and discrete_dims is None and categorical is None:
        limits = bounds, fixed_features, inequalities, equalities
        numbers = num_restarts, raw_samples, seed
        search = partial(_recommended_of_box, model, best_point, *limits, *numbers)
    else:
        # Two inequalities make an equality.
        opposite = [(i, -weights, -rhs) for i, weights, rhs in equalities]
        all_limits = [*inequalities, *equalities, *opposite]
        space = space_of(
            bounds, all_limits, discrete, discrete_dims, categorical, fixed_features
        )
        climb = Climb(num_restarts, raw_samples)
        search = partial(recommended_of_space, model, space, seed, climb)
    with manual_seed(seed):
        point = search()
    with torch.no_grad():
        mean = PosteriorMean(model)(point)
        chance = better_probability(model, point, incumbent(model))
    return Recommendation(point, float(mean), float(chance))


def _in_box(
    bounds: Tensor,
    fixed_features: Mapping[int, float] | None,
    inequalities: list[Constraint],
    equalities: list[Constraint],
    points: Tensor,
) -> Tensor:
    """Sets columns of points that are fixed, and keeps the points of the box.

    `recommend` may start at these, or take one for its result. Points and result are
    ``n x d``; the result may have no row. Other arguments are as in `recommend`.
    """
    points = points.clone()
    fixed = checked_fixed_features(fixed_features, points.shape[-1])
    for column, value in fixed.items():
        points[..., column] = value
    feasible = ((points >= bounds[0]) & (points <= bounds[1])).all(-1)
    feasible &= evaluate_feasibility(points.unsqueeze(-2), inequalities, equalities)
    return points[feasible]


def _in_space(space: DesignSpace, points: Tensor) -> Tensor:
    """Sets columns of points that do not vary, and keeps the designs of the space.

    `recommend` may start at these, or take one for its result. Points and result are
    ``n x d``; the result may have no row.
    """
    designs = space.projected(points)
    return designs[space.allows(designs)]


def _recommended_of_box(
    model: Model,
    best_point: Tensor,
    bounds: Tensor,
    fixed_features: Mapping[int, float] | None,
    inequalities: list[Constraint],
    equalities: list[Constraint],
    num_restarts: int,
    raw_samples: int,
    seed: int,
) -> Tensor:
    """Finds the point of a box with the largest posterior mean, for `recommend`.

    One of the ``num_restarts`` starts is the ``best_point``, ``1 x d``, if it is in the
    box. Where a person stopped last on a line so near to the point that no hand tells
    the two apart, it is that stop (`nearby_stop`). The result is ``1 x d``.
    """
    within = partial(_in_box, bounds, fixed_features, inequalities, equalities)
    start = within(best_point)
    point, _ = optimize_acqf(
        PosteriorMean(model),
        bounds,
        q=1,
        num_restarts=num_restarts,
        raw_samples=raw_samples,
        options={"seed": seed},
        inequality_constraints=inequalities or None,
        equality_constraints=equalities or None,
        fixed_features=fixed_features,
        batch_initial_conditions=start.unsqueeze(0) if len(start) else None,
    )
    widths = torch.where(bounds[0] < bounds[1], bounds[1] - bounds[0], 1.0)
    stop = within(nearby_stop(model, point, widths))
    return stop if len(stop) else point


def recommended_of_space(
    model: Model, space: DesignSpace, seed: int, climb: Climb | None = None
) -> Tensor:
    """Finds the design of a space with the largest posterior mean, for `recommend`.

    It is the best of all designs where these can be listed, else of what a search finds
    and the best observed one. Where a person stopped last on a line so near to it that
    no hand tells the two apart, it is that stop (`nearby_stop`).

    Args:
        model: Any BoTorch model with training inputs, and no batch.
        space: The designs.
        seed: Of the starts of the search, which draws from the global generator too: a
            caller seeds that.
        climb: Settings of the search.

    Returns:
        ``1 x d``.
    """
    value, designs = PosteriorMean(model), space.designs()
    if designs is None:
        start = _in_space(space, champion(model))
        climbed = climbed_options(value, space, 1, start, seed=seed, climb=climb)
        designs = torch.cat([start, climbed])
    means = in_portions(value, designs.unsqueeze(-2))
    best = designs[means.argmax()].unsqueeze(0)
    stop = _in_space(space, nearby_stop(model, best, space.widths))
    return stop if len(stop) else best


def _warn_of_other_units(bounds: Tensor, points: Tensor) -> None:
    """Warns where all observed points, ``n x d``, are on one side of a column's bounds.

    A column whose bounds are one value, such as that of a context, does not count.
    """
    low, high = points.amin(0), points.amax(0)
    apart = (low > bounds[1]) | (high < bounds[0])
    apart &= bounds[0] < bounds[1]
    if bool(apart.any()):
        column = int(apart.nonzero()[0])
        warn_caller(
            f"Column {column} of bounds goes from {float(bounds[0, column]):.4g} to "
            f"{float(bounds[1, column]):.4g}, and observed points have values from "
            f"{float(low[column]):.4g} to {float(high[column]):.4g} there: the model "
            "knows little of such points. Are the bounds in the units of the points?",
            InputDataWarning,
        )
