"""Options that an acquisition function values most, for the next question."""

from __future__ import annotations

from typing import Any

import torch
from botorch.acquisition.acquisition import AcquisitionFunction
from botorch.models.model import Model
from torch import Tensor

from botorch_pref.acquisition import (
    DistinctOptions,
    DuelingEUBO,
    DuelingJointKG,
    FeasibilityWeighted,
    incumbent,
    likely_best,
)
from botorch_pref.acquisition.design_space import DesignSpace
from botorch_pref.acquisition.duels import observed_points
from botorch_pref.acquisition.exploring_rule import SMALLEST_DIFFERENCE
from botorch_pref.acquisition.knowledge_gradient import without_hopeless
from botorch_pref.acquisition.option_search import best_options
from botorch_pref.acquisition.unbeaten_rival import unbeaten_rival
from botorch_pref.asking.request import Request
from botorch_pref.models.answer_likelihoods import knows_duels
from botorch_pref.posteriors.gaussian import mean_at

_DESIGNS, _OPEN = 256, 24
"""Designs that one may choose in the end are of so many; options of open questions that
a joint choice allows for, at most: those that may be the best."""


def best_design(model: Model, space: DesignSpace, seed: int) -> Tensor:
    """Finds the best design so far of a space, ``1 x d``; see `next_question`.

    It is the incumbent, if that is in the space. Else it has the largest posterior mean
    of observed points that are in the space once columns that do not vary are set; or,
    where there are none, of the rows of the table or of 256 drawn designs.

    Args:
        model: Any BoTorch model with training inputs.
        space: The designs that it may be.
        seed: Of the drawn designs.
    """
    best = incumbent(model)
    if bool(space.allows(best)):
        return best
    moved = space.projected(observed_points(model))
    designs = moved[space.allows(moved)]
    if not len(designs):
        rows = space.rows
        designs = space.features(space.draw(_DESIGNS, seed)) if rows is None else rows
    return designs[mean_at(model, designs).argmax()].unsqueeze(0)


def best_there(request: Request, model: Model) -> Tensor:
    """Returns the best of the options beside, or else the best design, ``1 x d``."""
    if len(request.beside):
        return request.beside[mean_at(model, request.beside).argmax()].unsqueeze(0)
    if len(request.best):
        return request.best
    return best_design(model, request.space, request.draw_seed)


def present_options(request: Request, model: Model, best: Tensor) -> Tensor:
    """Returns the options that challengers join, ``k x d``.

    They are those beside, if there are any. Else they are the best design, and in a
    question of three options or more about the best an `unbeaten_rival`, unless the
    user says which the best design is.
    """
    if len(request.beside):
        return request.beside
    if request.size < 3 or request.goal != "best" or len(request.best):
        return best
    space, waiting = request.space, request.open_questions.flatten(0, 1)
    smallest_difference = SMALLEST_DIFFERENCE * space.widths
    rival = unbeaten_rival(model, space, best, waiting, smallest_difference)
    return torch.cat([best, rival])


def is_best_so_far(request: Request, best: Tensor) -> bool:
    """Tells whether ``best``, ``1 x d``, was observed, or is the user's ``best``."""
    return len(request.best) > 0 or bool((request.observed == best).all(-1).any())


def new_pair(request: Request, model: Model, rule: Any, best: Tensor) -> Tensor:
    """Chooses two new points, ``2 x d``.

    An answer is expected to each open question: all of their options are pending, and
    in their order.
    """
    # What cannot be judged teaches nothing; where values are utilities, the best stays.
    failure = float(mean_at(model, best)) if rule is DuelingEUBO else 0.0
    acquisition = _acquisition(rule(model), request, failure)
    _set_pending(acquisition, request.open_questions.flatten(0, 1))
    return _searched(acquisition, request, best[:0], 2, best)


def with_challengers(
    request: Request, model: Model, rule: Any, best: Tensor, options: Tensor
) -> Tensor:
    """Adds challengers one at a time to options, ``k x d``; returns ``size x d``."""
    acquisition = _acquisition(rule(model, X_ref=best), request)
    pending = _pending_options(request, model, best)
    while len(options) < request.size:
        _set_pending(acquisition, pending, _besides(best, options))
        challenger = _searched(acquisition, request, options, 1, best)
        options = torch.cat([options, challenger])
    return options


def with_joint_challengers(
    request: Request, model: Model, best: Tensor, options: Tensor
) -> Tensor:
    """Adds challengers, chosen jointly, to options, ``k x d``; returns ``size x d``.

    Where designs cannot be listed, those that hardly an answer would name are replaced.
    """
    space = request.space
    likely = likely_best(model, space.sample_near(best, _DESIGNS, request.draw_seed))
    choices = request.choices if len(request.choices) else likely
    value = DuelingJointKG(model, X_ref=best, choices=choices)
    # Where the utility is flat, the model tells no options apart: their designs have to
    # differ.
    acquisition = _acquisition(value, request, by_model=False)
    pending = _pending_options(request, model, best)
    _set_pending(acquisition, pending, _besides(best, options))
    centres, count = torch.cat([best, likely]), request.size - len(options)
    challengers = _searched(acquisition, request, options, count, centres)
    if space.designs() is None:
        challengers = without_hopeless(acquisition, challengers, options, likely)
    return torch.cat([options, challengers])


def _acquisition(
    value: AcquisitionFunction,
    request: Request,
    failure: float = 0.0,
    by_model: bool = True,
) -> DistinctOptions:
    """Weighs values by feasibility, and keeps from options that nobody can tell apart.

    Args:
        value: Of options.
        request: Has the model of feasibility, if there is one, and the space.
        failure: The value of options that cannot be judged.
        by_model: Whether the model says what can be told apart, if its likelihood
            knows. Else options differ that are a hundredth of the range apart in some
            column.
    """
    if request.feasibility_model is not None:
        value = FeasibilityWeighted(value, request.feasibility_model, failure)
    if by_model and knows_duels(value.model):
        return DistinctOptions(value)
    return DistinctOptions(value, SMALLEST_DIFFERENCE * request.space.widths)


def _besides(best: Tensor, options: Tensor) -> Tensor:
    """Returns the options that are not the best, ``1 x d``, their reference."""
    return options[(options != best).any(-1)]


def _set_pending(acquisition: AcquisitionFunction, *options: Tensor) -> None:
    """Keeps an acquisition function from options, ``n x d`` each."""
    pending = torch.cat(options)
    acquisition.set_X_pending(pending if len(pending) else None)


def _pending_options(request: Request, model: Model, best: Tensor) -> Tensor:
    """Returns options of open questions, ``n x d``, from which challengers keep away.

    That is whatever their question; but what was answered about is no new option.
    """
    pending = _besides(best, request.open_questions.flatten(0, 1)).unique(dim=0)
    return likely_best(model, pending, _OPEN) if len(pending) > _OPEN else pending


def _searched(
    acquisition: AcquisitionFunction,
    request: Request,
    options: Tensor,
    count: int,
    centres: Tensor,
) -> Tensor:
    """Finds the ``count x d`` most valuable ones to join options, ``k x d``.

    Half of the starts of the search are around ``centres``, ``n x d``.
    """
    return best_options(
        acquisition,
        request.space,
        count,
        centres,
        beside=options,
        open_questions=request.open_questions,
        seed=request.draw_seed + len(options),
    )
