"""An option that won all its answers, and that a model yet holds for worse."""

from __future__ import annotations

import torch
from botorch.models.model import Model
from torch import Tensor

from botorch_pref.acquisition.design_space import DesignSpace
from botorch_pref.acquisition.duels import better_probability, observed_points
from botorch_pref.feedback import (
    Choices,
    Comparisons,
    Feedback,
    LineChoices,
    Rankings,
    Validity,
)
from botorch_pref.models.derived_model import DerivedModel


def unbeaten_rival(
    model: Model,
    space: DesignSpace,
    best: Tensor,
    waiting: Tensor,
    smallest_difference: Tensor,
    *,
    disbelief: float = 0.25,
) -> Tensor:
    r"""Finds an unbeaten option that a model hardly believes in, to meet the best.

    An option is unbeaten if it won an answer, nobody ever preferred another one to it,
    and it never failed. The prior is smooth: of an option that won among poor ones
    alone, far from the good ones, it makes an error of the person or a small success.
    Where

    .. math:: P\big(f(x) > f(x_b) \mid D\big) < \text{disbelief}

    no search shows it again, and a second, narrower hump is never found. So of the
    unbeaten options with so small a probability the one with the smallest joins the
    best design of the next question. It is beaten there, or the model learns
    (`docs/logbook/unbeaten.md`).

    Args:
        model: Any. One that does not tell its answers has no unbeaten options.
        space: The designs that may be shown.
        best: ``x_b``, ``1 x d``, which is in the question.
        waiting: ``k x d``, options that wait for an answer.
        smallest_difference: ``d``, the smallest differences :math:`\delta_i` of columns
            that somebody could tell. A rival differs from the best and from what waits
            by :math:`\sum_i (x_i - x_i')^2 / \delta_i^2 \ge 1`.
        disbelief: The probability of being better than the best below which a search
            gives an option up.

    Returns:
        ``1 x d``; or ``0 x d`` where there is no such option.
    """
    rivals = _unbeaten_points(model)
    in_question = torch.cat([best, waiting])
    gaps = (rivals.unsqueeze(-2) - in_question) / smallest_difference
    differs = (gaps.square().sum(-1) >= 1).all(-1)
    rivals = rivals[differs & space.allows(rivals)]
    if not len(rivals):
        return best[:0]
    with torch.no_grad():
        chance = better_probability(model, rivals, best)
    return rivals[chance.argmin()].unsqueeze(0)[chance.amin().unsqueeze(0) < disbelief]


def _unbeaten_points(model: Model) -> Tensor:
    """Lists the unbeaten points of a model, ``m x d``, each once."""
    points = observed_points(model)
    distinct, place = torch.unique(points, dim=0, return_inverse=True)
    won, lost = (
        torch.zeros(len(distinct)).to(points).index_add(0, place, marks.to(points)) > 0
        for marks in _winners_and_losers(model)
    )
    return distinct[won & ~lost]


def _winners_and_losers(model: Model) -> tuple[Tensor, Tensor]:
    """Tells which observed points won an answer, and which lost one, ``n`` each.

    The members of an ensemble have the same answers. A derived model has those of the
    model behind it.
    """
    if isinstance(model, DerivedModel):
        won, lost = _winners_and_losers(model._source)
        return model.of_own_points(won), model.of_own_points(lost)
    points = observed_points(model)
    won, lost = torch.zeros(2, len(points), dtype=torch.bool, device=points.device)
    for block in getattr(model, "feedback", ()):
        answers = _preferred_first(block)
        if answers is not None:
            winners, losers = answers.split([1, answers.shape[-1] - 1], dim=-1)
            won[winners.flatten()] = True
            lost[losers[losers >= 0]] = True
        if isinstance(block, Validity):
            # What could not be judged is not worth showing again.
            lost[block.indices[~block.valid]] = True
        if isinstance(block, LineChoices):
            # Who stopped elsewhere left the ends.
            is_passed = torch.stack([block.chosen > 0, block.chosen < 1], dim=-1)
            lost[block.lines[is_passed]] = True
    return won, lost


def _preferred_first(block: Feedback) -> Tensor | None:
    """Lists the points of each answer, the preferred one first; None of other kinds."""
    if isinstance(block, Comparisons):
        return block.pairs
    if isinstance(block, Choices):
        return block.stages()
    return block.orders if isinstance(block, Rankings) else None
