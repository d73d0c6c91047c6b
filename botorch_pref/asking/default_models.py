"""The model that the library recommends for what people said."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

import torch
from botorch.fit import fit_gpytorch_mll
from botorch.models.transforms.input import Normalize
from gpytorch.priors import GammaPrior
from torch import Tensor

from botorch_pref.errors import FeedbackError
from botorch_pref.feedback import (
    Choices,
    Comparisons,
    Feedback,
    Rankings,
    Ratings,
    Strengths,
)
from botorch_pref.likelihoods import (
    BetaRatingLikelihood,
    LapsingProbitLikelihood,
    PairwiseBetaLikelihood,
    PairwiseProbitLikelihood,
)
from botorch_pref.likelihoods.protocol import PreferenceLikelihood
from botorch_pref.models import (
    DuelKernel,
    EPPreferenceGP,
    GroupUtility,
    PreferenceGP,
    PreferenceMarginalLogLikelihood,
    rater_covar_module,
)
from botorch_pref.numerics.argument_checks import (
    check_kind,
    check_points,
)

__all__ = ["default_model"]


def likelihoods_of_people(
    feedback: Sequence[Feedback],
    model_class: type[PreferenceGP] = EPPreferenceGP,
    chosen: Collection[type[Feedback]] = (),
) -> dict[type[Feedback], PreferenceLikelihood[Any]]:
    """Chooses likelihoods of a person's answers that models do not take by themselves.

    How precise a person is has a prior among people, and her answers teach it. Duels,
    choices and rankings share one noise, which is fixed where ties are said beside
    choices or rankings. Who answers duels alone may also lapse. Who rates, or says how
    much better, does not repeat herself: the precision of her scale has the prior
    Gamma(2, 0.05), most probably 20, an error of a ninth of the scale in its middle.

    Args:
        feedback: All answers, at most one container of a kind.
        model_class: The model. Others than EP have their own likelihoods.
        chosen: Kinds of which the user chose likelihoods: then models have their own of
            the others.
    """
    blocks = {type(block): block for block in feedback}
    likelihoods: dict[type[Feedback], PreferenceLikelihood[Any]] = {}
    if not blocks.keys() & {Comparisons, Choices, Rankings}:
        # The questions to come are duels.
        default = model_class.default_likelihoods[Comparisons]
        likelihoods[Comparisons] = default.default_for(None)
    if chosen or model_class is not EPPreferenceGP:
        return likelihoods
    duels = blocks.get(Comparisons)
    if blocks.keys() & {Choices, Rankings}:
        shared = PairwiseProbitLikelihood.default_for(duels, blocks)
        # The threshold of ties is fixed then, and a noise that is learned beside it
        # would shrink until ties say nothing: their ratio alone counts.
        if not isinstance(duels, Comparisons) or duels.ties is None:
            shared.learn_noise()
        likelihoods[Comparisons] = shared
    elif duels is not None:
        lapsing = LapsingProbitLikelihood.default_for(duels, blocks)
        likelihoods[Comparisons] = lapsing
    precision = GammaPrior(2.0, 0.05)
    if Ratings in blocks:
        likelihoods[Ratings] = BetaRatingLikelihood(precision_prior=precision)
    if Strengths in blocks:
        likelihoods[Strengths] = PairwiseBetaLikelihood(precision_prior=precision)
    return likelihoods


def default_model(
    X: Tensor,
    feedback: Tensor | Feedback | Sequence[Feedback],
    *,
    bounds: Tensor | None = None,
    categorical: Sequence[Sequence[int]] | None = None,
    raters: Tensor | None = None,
) -> EPPreferenceGP | GroupUtility:
    """Fits the model that the library recommends for a person's answers.

    Expectation propagation under a `DuelKernel`, which expects a sum of functions of
    few inputs. It learns how precise the person is, and of duels alone it allows for
    lapses (`LapsingProbitLikelihood`). Questions take it as it is; findings average
    over all hyper-parameters that explain the answers (`plausible_models`), because the
    most probable ones are surer than the answers are.

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
    bounds = None if bounds is None else _checked(bounds, X)
    choices = () if categorical is None else categorical
    kernel: Any = DuelKernel(dim, categorical=choices)
    for choice in choices:
        _check_coded(X, bounds, [*choice])
    transform = None
    if bounds is not None:
        columns = [*range(dim)]
        transform = Normalize(len(columns), indices=columns, bounds=bounds)
    points = X
    if raters is not None:
        points = torch.cat([X, _rater_column(raters, X)], dim=-1)
        kernel = rater_covar_module(dim, stimulus=kernel)
    model = EPPreferenceGP(
        points,
        feedback=blocks,
        likelihood=likelihoods_of_people(blocks),
        covar_module=kernel.to(X),
        input_transform=transform,
    )
    fit_gpytorch_mll(PreferenceMarginalLogLikelihood(model.likelihood, model))
    if raters is None:
        return model.eval()
    return GroupUtility(model.eval(), points[:, -1].unique())


def _checked(bounds: Tensor, X: Tensor) -> Tensor:
    """Checks the bounds of a model's designs, ``2 x d``; returns them in their type."""
    is_right = isinstance(bounds, Tensor) and bounds.shape == (2, X.shape[-1])
    if not is_right or not bool((bounds.isfinite() & (bounds[0] < bounds[1])).all()):
        value = bounds.tolist() if isinstance(bounds, Tensor) else bounds
        raise FeedbackError(
            f"bounds is {value!r}; give a tensor, 2 x {X.shape[-1]}, the finite lower "
            "ends of the columns of X and then the upper ends, which are larger."
        )
    return bounds.to(X)


def _check_coded(X: Tensor, bounds: Tensor | None, columns: list[int]) -> None:
    """Checks that a choice is coded as zeros and a one, which its bounds leave so.

    The ``columns`` of designs ``X``, ``n x d``, are those of one choice; without bounds
    designs stay as they are.
    """
    values = X[:, columns]
    is_coded = ((values == 0) | (values == 1)).all(-1) & (values.sum(-1) == 1)
    if not bool(is_coded.all()):
        row = int(is_coded.logical_not().nonzero()[0, 0])
        raise FeedbackError(
            f"X[{row}] has {values[row].tolist()} in the columns {columns} of a "
            "choice; give a one for its option and zeros."
        )
    if bounds is not None and bounds[:, columns].unique(dim=-1).T.tolist() != [[0, 1]]:
        raise FeedbackError(
            f"bounds of the columns {columns} of a choice are "
            f"{bounds[:, columns].tolist()}; give 0 and 1 for each."
        )


def _rater_column(raters: Tensor, X: Tensor) -> Tensor:
    """Checks the raters of designs, ``n`` numbers; makes the column behind them."""
    check_kind("raters", raters, Tensor)
    if raters.shape != X.shape[:-1]:
        raise FeedbackError(
            f"raters has shape {tuple(raters.shape)}; give the number of the rater who "
            f"saw each of the {len(X)} rows of X."
        )
    return raters.to(X).unsqueeze(-1)
