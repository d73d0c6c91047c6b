"""Cross-validation of a model on its own answers."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import TYPE_CHECKING

import torch
from botorch.fit import fit_gpytorch_mll
from botorch.utils.transforms import is_ensemble
from torch import Generator, Tensor

from botorch_pref.errors import BotorchPrefError
from botorch_pref.evaluation.held_out.answer_scores import (
    HeldOutAnswers,
    answer_scores,
    by_kind,
)
from botorch_pref.feedback import Feedback
from botorch_pref.models import PreferenceGP, PreferenceMarginalLogLikelihood
from botorch_pref.numerics.argument_ranges import check_count

if TYPE_CHECKING:
    from pandas import DataFrame

Fit = Callable[[PreferenceGP], object]
"""Learns the hyper-parameters of a model, in place."""


def fit_by_evidence(model: PreferenceGP) -> None:
    """Maximises the model's own evidence.

    Args:
        model: Changed.
    """
    fit_gpytorch_mll(PreferenceMarginalLogLikelihood(model.likelihood, model))


def cross_validate_model(
    model: PreferenceGP,
    num_folds: int = 5,
    *,
    fit: Fit | None = fit_by_evidence,
    seed: int = 0,
) -> DataFrame:
    r"""Scores of a model's answers, each predicted from a part of the others.

    Answers of all kinds are dealt out to folds at random. For each fold a copy of the
    model learns from the other folds, with the same points, likelihoods, kernel and
    engine. The log-loss of a kind is

    .. math:: -\frac{1}{m} \sum_{i=1}^m \log p(y_i \mid D_{-i}) .

    Repeated answers fall into different folds, and then are easy to foresee; so are
    those of one rater. An answer with a count stays whole, and counts as often in the
    scores.

    Args:
        model: With answers, without batches. It stays as it is.
        num_folds: From 2 to the number of answers, where each is left out by itself.
        fit: Learns the hyper-parameters of each copy anew, from where the model's are;
            None keeps them.
        seed: Of the deal; the global random state stays as it is.

    Returns:
        See :func:`.answer_scores`.

    Raises:
        BotorchPrefError: There are not so many answers, or the model is a batch or an
            ensemble.
    """
    points = model.datapoints
    if points is None or len(model.batch_shape) > 0 or is_ensemble(model):
        raise BotorchPrefError(
            "The model has no answers of its own to be left out, or is a batch or an "
            "ensemble; give one model, with answers."
        )
    kinds = [block for _, block in by_kind(model.feedback)]
    counts = [_count(block) for block in kinds]
    check_count("num_folds", num_folds, at_least=2)
    if num_folds > sum(counts):
        raise BotorchPrefError(
            f"num_folds is {num_folds}, and there are {sum(counts)} answers."
        )
    deal = torch.randperm(sum(counts), generator=Generator().manual_seed(seed))
    folds = (deal % num_folds).split(counts)

    def parts() -> Iterator[HeldOutAnswers]:
        for number in range(num_folds):
            train = _some(kinds, [fold != number for fold in folds])
            copy = model.with_feedback(train)
            if fit is not None:
                fit(copy.train())
            test = _some(kinds, [fold == number for fold in folds])
            yield HeldOutAnswers(copy.eval(), test, points)

    return answer_scores(parts())


def _rows(mask: Tensor, tensor: Tensor) -> Tensor:
    return tensor[mask.to(tensor.device)]


def _count(block: Feedback) -> int:
    return len(block.answer_counts)


def _some(kinds: list[Feedback], masks: list[Tensor]) -> list[Feedback]:
    """The answers of each kind that a mask keeps, one block of a class."""
    found: dict[type[Feedback], Feedback] = {}
    for block, mask in zip(kinds, masks, strict=True):
        if not mask.any():
            continue
        kept = block.map_tensors(partial(_rows, mask))
        earlier = found.get(type(kept))
        found[type(kept)] = kept if earlier is None else earlier.followed_by(kept)
    return [*found.values()]
