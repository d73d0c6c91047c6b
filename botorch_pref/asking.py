"""The model that the library recommends for what people said."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from botorch.fit import fit_gpytorch_mll
from botorch.models.transforms.input import Normalize
from torch import Tensor

from botorch_pref.errors import FeedbackError
from botorch_pref.feedback import Choices, Comparisons, Feedback, Rankings
from botorch_pref.likelihoods import LapsingProbitLikelihood, PairwiseProbitLikelihood
from botorch_pref.models import (
    DuelKernel,
    EPPreferenceGP,
    GroupUtility,
    PreferenceMarginalLogLikelihood,
    rater_covar_module,
)
from botorch_pref.numerics.argument_ranges import check_kind
from botorch_pref.posteriors.gaussian import check_points

__all__ = ["default_model"]


def likelihood_of_duels(
    feedback: Sequence[Feedback],
) -> PairwiseProbitLikelihood | None:
    """The likelihood of duels that the library recommends beside these answers.

    Duels alone teach how precise a person is, and she may lapse. Choices and rankings
    share one fixed noise with duels, which the model has by default: None.

    Args:
        feedback: All answers, at most one container of a kind.
    """
    blocks = {type(block): block for block in feedback}
    if blocks.keys() & {Choices, Rankings}:
        return None
    if Comparisons not in blocks:
        return PairwiseProbitLikelihood.default_for(None)
    return LapsingProbitLikelihood.default_for(blocks[Comparisons], blocks)


def default_model(
    X: Tensor,
    feedback: Tensor | Feedback | Sequence[Feedback],
    *,
    bounds: Tensor | None = None,
    categorical: Sequence[Sequence[int]] | None = None,
    raters: Tensor | None = None,
) -> EPPreferenceGP | GroupUtility:
    """Fits the model that the library recommends for a person's answers.

    Expectation propagation under a `DuelKernel`, which expects that few inputs matter
    and mostly by themselves. Of duels alone it learns how precise the person is, and
    allows for lapses (`LapsingProbitLikelihood`). Questions and findings take it alike.

    Args:
        X: ``n x d`` designs that were shown, in the units of the user.
        feedback: What was said of them: pairs ``m x 2`` of rows of ``X``, the winner
            first; a container such as `Rankings`; or several, at most one of a kind.
        bounds: ``2 x d``, the lower and the upper end of each column; the unit cube by
            default. Columns of choices are from 0 to 1.
        categorical: The columns of each unordered choice, coded as zeros and a one.
        raters: ``n`` numbers, the rater who saw each row of ``X``: a design that two
            raters saw is two rows. What all raters share and what is each rater's is
            learned, and the model is the mean utility of all (`GroupUtility`).

    Returns:
        The fitted model, in evaluation mode.

    Raises:
        FeedbackError: Points, answers, bounds or raters that cannot be.
        UnsupportedFeedbackError: A kind of answers that expectation propagation does
            not take.
    """
    X = check_points("X", X)
    dim = X.shape[-1]
    if isinstance(feedback, Tensor):
        feedback = Comparisons(feedback)
    check_kind("feedback", feedback, Feedback, Sequence)
    blocks = [feedback] if isinstance(feedback, Feedback) else [*feedback]
    for block in blocks:
        check_kind("feedback", block, Feedback)
    choices = () if categorical is None else categorical
    kernel: Any = DuelKernel(dim, categorical=choices)
    transform = None
    if bounds is not None:
        columns = [*range(dim)]
        transform = Normalize(len(columns), indices=columns, bounds=_checked(bounds, X))
    points = X
    if raters is not None:
        points = torch.cat([X, _rater_column(raters, X)], dim=-1)
        kernel = rater_covar_module(dim, stimulus=kernel)
    duels = likelihood_of_duels(blocks)
    model = EPPreferenceGP(
        points,
        feedback=blocks,
        likelihood=None if duels is None else {Comparisons: duels},
        covar_module=kernel.to(X),
        input_transform=transform,
    )
    fit_gpytorch_mll(PreferenceMarginalLogLikelihood(model.likelihood, model))
    if raters is None:
        return model.eval()
    return GroupUtility(model.eval(), points[:, -1].unique())


def _checked(bounds: Tensor, X: Tensor) -> Tensor:
    is_right = isinstance(bounds, Tensor) and bounds.shape == (2, X.shape[-1])
    if not is_right or not bool((bounds.isfinite() & (bounds[0] < bounds[1])).all()):
        value = bounds.tolist() if isinstance(bounds, Tensor) else bounds
        raise FeedbackError(
            f"bounds is {value}; give a tensor, 2 x {X.shape[-1]}, the finite lower "
            "ends of the columns of X and then the upper ends, which are larger."
        )
    return bounds.to(X)


def _rater_column(raters: Tensor, X: Tensor) -> Tensor:
    check_kind("raters", raters, Tensor)
    if raters.shape != X.shape[:-1]:
        raise FeedbackError(
            f"raters has shape {tuple(raters.shape)}; give the number of the rater who "
            f"saw each of the {len(X)} rows of X."
        )
    return raters.to(X).unsqueeze(-1)
