"""The density of answers that see one number each."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial, singledispatch
from typing import Any

import torch
from torch import Tensor
from torch.distributions import Bernoulli, Distribution

from botorch_pref.errors import UnsupportedFeedbackError
from botorch_pref.feedback import (
    Comparisons,
    Feedback,
    OrdinalRatings,
    Ratings,
    Strengths,
    Validity,
)
from botorch_pref.likelihoods.factors import DensityFactors
from botorch_pref.linalg.sparse_design import SparseDesign, pair_rows, point_rows


def answer_density(
    feedback: Feedback,
    num_points: int,
    conditional: Callable[[Tensor], Distribution],
    like: Tensor,
) -> DensityFactors:
    """Factors with the density of each answer given its latent value.

    Args:
        feedback: Answers that see a difference of two utilities, or one utility.
        num_points: ``n``, the number of datapoints.
        conditional: The answer's distribution given ``z``. Its parameters are broadcast
            against the last dimensions of ``z``.
        like: A tensor whose dtype and device the rows take.

    Raises:
        UnsupportedFeedbackError: Answers of another kind, or ties; or what
            ``conditional`` returns is no distribution of one answer for each ``z``.
    """
    rows, answers = seen_answers(feedback, num_points, like)
    counted = isinstance(feedback, Comparisons | Validity | OrdinalRatings)
    return DensityFactors(rows, partial(_log_density, conditional, counted, answers))


@singledispatch
def seen_answers(
    feedback: Feedback, num_points: int, like: Tensor
) -> tuple[SparseDesign, Tensor]:
    """Rows of utilities that each answer sees, and the values that it says.

    Args:
        feedback: Answers.
        num_points: ``n``, the number of datapoints.
        like: A tensor whose dtype and device the rows take.

    Returns:
        ``A``, m rows, and ``batch_shape x m`` values of the answer's distribution.
    """
    raise UnsupportedFeedbackError(
        f"{type(feedback).__name__} sees no single number of the utilities; give the "
        "likelihood factors() of its own."
    )


@seen_answers.register
def _(
    feedback: Comparisons, num_points: int, like: Tensor
) -> tuple[SparseDesign, Tensor]:
    if feedback.ties is not None:
        raise UnsupportedFeedbackError(
            "A likelihood that says who wins has no probability for ties; use "
            "PairwiseProbitLikelihood(tie_threshold=...), or give the likelihood "
            "factors() of its own."
        )
    assert feedback.pairs is not None, "comparisons without ties have pairs"
    rows = pair_rows(feedback.pairs, num_points, like)
    return rows, like.new_ones(feedback.pairs.shape[:-1])


@seen_answers.register
def _(
    feedback: Strengths, num_points: int, like: Tensor
) -> tuple[SparseDesign, Tensor]:
    return pair_rows(feedback.pairs, num_points, like), feedback.strengths.to(like)


@seen_answers.register
def _(feedback: Validity, num_points: int, like: Tensor) -> tuple[SparseDesign, Tensor]:
    return point_rows(feedback.indices, num_points, like), feedback.valid.to(like)


@seen_answers.register
def _(
    feedback: OrdinalRatings, num_points: int, like: Tensor
) -> tuple[SparseDesign, Tensor]:
    return point_rows(feedback.indices, num_points, like), feedback.levels


@seen_answers.register
def _(feedback: Ratings, num_points: int, like: Tensor) -> tuple[SparseDesign, Tensor]:
    return point_rows(feedback.indices, num_points, like), feedback.ratings.to(like)


def _log_density(
    conditional: Callable[[Tensor], Distribution],
    counted: bool,
    answers: Tensor,
    z: Tensor,
) -> Tensor:
    """Log densities, ``... x m``; parameters see ``m`` as their first dimension."""
    latent, said = z.movedim(-1, 0), answers.movedim(-1, 0)
    said = said.reshape(len(said), *[1] * (latent.dim() - said.dim()), *said.shape[1:])
    distribution = conditional(latent)
    _check_conditional(distribution, latent)
    if counted and not _is_discrete(distribution):
        raise UnsupportedFeedbackError(
            "forward() of a likelihood of answers yes and no, or of levels, returns a "
            f"discrete distribution; {type(distribution).__name__} has a density."
        )
    return _log_probability(distribution, said).movedim(0, -1)


def _check_conditional(distribution: object, latent: Tensor) -> None:
    """Checks that there is one distribution of one answer for each latent value."""
    if not isinstance(distribution, Distribution):
        raise UnsupportedFeedbackError(
            "forward() of a likelihood returns a torch.distributions.Distribution, for "
            f"example Bernoulli(probs=...); got {type(distribution).__name__}."
        )
    shape = distribution.batch_shape
    if distribution.event_shape or not _broadens(shape, latent.shape):
        raise UnsupportedFeedbackError(
            "forward() of a likelihood returns one distribution of one number for each "
            f"of its arguments; for arguments of shape {tuple(latent.shape)} it "
            f"returned {type(distribution).__name__} with batch_shape {tuple(shape)} "
            f"and event_shape {tuple(distribution.event_shape)}."
        )


def _is_discrete(distribution: Distribution) -> bool:
    try:
        support: Any = distribution.support
    except NotImplementedError:  # of one's own, which need not say
        return True
    return bool(support.is_discrete)


def _broadens(shape: torch.Size, given: torch.Size) -> bool:
    """Whether a shape is a given one, but for wider batches."""
    return len(shape) == len(given) and all(
        size in (1, found) for size, found in zip(given, shape, strict=True)
    )


def _log_probability(distribution: Distribution, said: Tensor) -> Tensor:
    if not isinstance(distribution, Bernoulli) or "logits" in vars(distribution):
        return distribution.log_prob(said)
    # Torch's own is cut off where the probability given is below the rounding of 1.
    yes = distribution.probs
    given = torch.where(said > 0.5, yes, 1 - yes)
    return given.clamp_min(torch.finfo(yes.dtype).tiny).log()
