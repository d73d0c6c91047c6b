"""Factors of answers whose density is known by its values, and the rows they see."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property, partial, singledispatch
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
from botorch_pref.likelihoods.factors import GroupsOf, IntegratedFactors
from botorch_pref.linalg import SparseDesign, pair_rows, point_rows
from botorch_pref.linalg.sparse_design import RowGroups
from botorch_pref.numerics.bend_quadrature import bent_integral, density_bend
from botorch_pref.numerics.quadrature import LogDerivatives, TiltedMoments


class DensityFactors(IntegratedFactors):
    r"""Rows whose answers have a density :math:`p(y_i \mid z_i)` known by its values.

    Derivatives are those of automatic differentiation, so that the density must have
    three. Partitions are those of :func:`.bent_integral`, right within 1e-9 where the
    density is analytic. They hold for a density that, as a function of ``z``, has one
    peak, or rises or falls once, such as a win; with lapses and heavy tails too, and as
    far as that is within 116 deviations of the cavity. (An interval wide beside its
    noise bends twice: see :class:`BoxFactors`.)

    Args:
        rows: ``A``, m rows.
        log_density: ``z -> log p(y | z)``, elementwise: ``... x m`` to ``... x m``,
            where parameters may add batch dimensions before ``m``.
    """

    takes_counts = True

    def __init__(
        self, rows: SparseDesign, log_density: Callable[[Tensor], Tensor]
    ) -> None:
        self.rows = rows
        self._log_density = log_density

    def merged(self, counts: Tensor | None, groups_of: GroupsOf) -> DensityFactors:
        """Merges equal rows: a merged row has the product of its answers' densities."""
        groups = groups_of(self.rows)
        if groups is None and counts is None:
            return self
        rows = self.rows if groups is None else groups.merged(self.rows)
        product = partial(_log_product, self._log_density, counts, groups)
        return DensityFactors(rows, product)

    def log_prob(self, z: Tensor) -> LogDerivatives:
        """See base class."""
        return LogDerivatives(*self._derivatives(z, 2))

    def curvature_gradient(self, z: Tensor, weights: Tensor) -> Tensor:
        """See base class."""
        return weights * self._derivatives(z, 3)[3]

    def tilted(self, mean: Tensor, variance: Tensor) -> TiltedMoments:
        """See base class; see :func:`.bent_integral`, also for its warning."""
        shape = torch.broadcast_shapes(mean.shape, variance.shape, self._shape)
        arguments = (part.expand(shape) for part in (mean, variance, *self._bend))
        return bent_integral(self._value_and_slope, *arguments)

    def _value_and_slope(self, z: Tensor) -> tuple[Tensor, Tensor]:
        value, slope = self._derivatives(z, 1)
        return value, slope

    @cached_property
    def _at_zero(self) -> Tensor:
        coefficients = self.rows.coefficients
        with torch.enable_grad():
            return self._log_density(coefficients.new_zeros(coefficients.shape[:-1]))

    @property
    def _shape(self) -> torch.Size:
        """``batch_shape x m``."""
        return self._at_zero.shape

    @property
    def _is_learned(self) -> bool:
        """Whether parameters of the density require gradients."""
        return self._at_zero.requires_grad

    @cached_property
    def _bend(self) -> tuple[Tensor, Tensor]:
        """Positions where the densities bend, and the widths of the bends."""
        like = self.rows.coefficients.new_zeros(self._shape)
        return density_bend(self._log_density, like)

    def _derivatives(self, z: Tensor, order: int) -> list[Tensor]:
        """Computes the log density and its derivatives in ``z`` up to an order.

        They have a graph where gradients are recorded, and ``z`` or parameters of the
        density want some.
        """
        keep = torch.is_grad_enabled() and (z.requires_grad or self._is_learned)
        z = z.expand(torch.broadcast_shapes(z.shape, self._shape))
        with torch.enable_grad():
            latent = z if keep and z.requires_grad else z.detach().requires_grad_()
            derivatives = [self._log_density(latent)]
            for n in range(1, order + 1):
                derivatives.append(
                    _derivative(derivatives[-1], latent, keep or n < order)
                )
        return derivatives if keep else [value.detach() for value in derivatives]


def _log_product(
    log_density: Callable[[Tensor], Tensor],
    counts: Tensor | None,
    groups: RowGroups | None,
    z: Tensor,
) -> Tensor:
    """Sums log densities of answers over groups of equal rows, times their counts.

    ``z``, ``... x m``, has a value for each group; ``log_density`` takes one for each
    answer, ``... x M``. Without counts each answer was given once; without groups all
    rows differ.
    """
    log_densities = log_density(z if groups is None else groups.spread(z))
    log_densities = log_densities if counts is None else counts * log_densities
    return log_densities if groups is None else groups.total(log_densities)


def _derivative(value: Tensor, latent: Tensor, record: bool) -> Tensor:
    """Computes the elementwise derivative in a latent; 0 where it does not depend.

    With ``record`` it has a graph itself, from which a further derivative follows.
    """
    if not value.requires_grad:
        return torch.zeros_like(latent)
    (slope,) = torch.autograd.grad(
        value.sum(), latent, create_graph=record, materialize_grads=True
    )
    return slope


def answer_density(
    feedback: Feedback,
    num_points: int,
    conditional: Callable[[Tensor], Distribution],
    like: Tensor,
) -> DensityFactors:
    """Makes factors with the density of each answer given its latent value.

    The ``conditional`` takes latent values ``m x ...``, against whose last dimensions
    its parameters broadcast. Ties are an `UnsupportedFeedbackError`; so is, once the
    density is computed, anything but one distribution of one answer for each value.
    """
    rows, answers = seen_answers(feedback, num_points, like)
    must_be_discrete = isinstance(feedback, Comparisons | Validity | OrdinalRatings)
    log_density = partial(_log_density, conditional, must_be_discrete, answers)
    return DensityFactors(rows, log_density)


Seen = tuple[SparseDesign, Tensor]
"""Rows of utilities, and the value that an answer gives each."""


@singledispatch
def seen_answers(feedback: Feedback, num_points: int, like: Tensor) -> Seen:
    """Makes the rows of utilities that each answer sees, and lists what it says.

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
def _seen_comparisons(feedback: Comparisons, num_points: int, like: Tensor) -> Seen:
    """Makes rows of winner less loser, each with the answer 1, a win; refuses ties."""
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
def _seen_strengths(feedback: Strengths, num_points: int, like: Tensor) -> Seen:
    return pair_rows(feedback.pairs, num_points, like), feedback.strengths.to(like)


@seen_answers.register
def _seen_validity(feedback: Validity, num_points: int, like: Tensor) -> Seen:
    return point_rows(feedback.indices, num_points, like), feedback.valid.to(like)


@seen_answers.register
def _seen_levels(feedback: OrdinalRatings, num_points: int, like: Tensor) -> Seen:
    return point_rows(feedback.indices, num_points, like), feedback.levels


@seen_answers.register
def _seen_ratings(feedback: Ratings, num_points: int, like: Tensor) -> Seen:
    return point_rows(feedback.indices, num_points, like), feedback.ratings.to(like)


def _log_density(
    conditional: Callable[[Tensor], Distribution],
    must_be_discrete: bool,
    answers: Tensor,
    z: Tensor,
) -> Tensor:
    """Computes log densities of answers, ``... x m``, by a likelihood's distribution.

    Answers are ``batch_shape x m``. The ``conditional`` takes ``z`` with ``m`` in
    front, so that its parameters broadcast against the batch. Each ``z``, ``... x m``,
    has to have one distribution of one number.
    """
    latent, values = z.movedim(-1, 0), answers.movedim(-1, 0)
    values = values.reshape(
        len(values), *[1] * (latent.dim() - values.dim()), *values.shape[1:]
    )
    distribution = conditional(latent)
    _check_conditional(distribution, latent)
    if must_be_discrete and not _is_discrete(distribution):
        raise UnsupportedFeedbackError(
            "forward() of a likelihood of answers yes and no, or of levels, returns a "
            f"discrete distribution; {type(distribution).__name__} has a density."
        )
    return _log_probability(distribution, values).movedim(0, -1)


def _check_conditional(distribution: object, latent: Tensor) -> None:
    """Checks for one distribution of one answer for each latent value."""
    if not isinstance(distribution, Distribution):
        raise UnsupportedFeedbackError(
            "forward() of a likelihood returns a torch.distributions.Distribution, for "
            f"example Bernoulli(probs=...); got {type(distribution).__name__}."
        )
    shape, latent_shape = distribution.batch_shape, latent.shape
    # Parameters may have wider batches.
    fits = len(shape) == len(latent_shape) and all(
        latent_size in (1, distribution_size)
        for latent_size, distribution_size in zip(latent_shape, shape, strict=True)
    )
    if distribution.event_shape or not fits:
        raise UnsupportedFeedbackError(
            "forward() of a likelihood returns one distribution of one number for each "
            f"of its arguments; for arguments of shape {tuple(latent.shape)} it "
            f"returned {type(distribution).__name__} with batch_shape {tuple(shape)} "
            f"and event_shape {tuple(distribution.event_shape)}."
        )


def _is_discrete(distribution: Distribution) -> bool:
    """Tells whether a distribution is of discrete numbers; True without a support."""
    try:
        support: Any = distribution.support
    except NotImplementedError:  # a user's class need not have a support
        return True
    return bool(support.is_discrete)


def _log_probability(distribution: Distribution, values: Tensor) -> Tensor:
    """Computes log probabilities or densities of values.

    Of a Bernoulli made with ``probs``, a small probability of a 1 keeps all digits.
    """
    if not isinstance(distribution, Bernoulli) or "logits" in vars(distribution):
        return distribution.log_prob(values)
    # Torch's log_prob clamps ``probs`` to [eps, 1 - eps].
    yes = distribution.probs
    probability = torch.where(values > 0.5, yes, 1 - yes)
    return probability.clamp_min(torch.finfo(yes.dtype).tiny).log()
