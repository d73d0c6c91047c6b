"""The likelihood of ratings on ordered levels."""

from __future__ import annotations

from collections.abc import Collection
from types import NoneType
from typing import ClassVar

import torch
from botorch.utils.probability.utils import ndtr
from gpytorch.priors import NormalPrior, Prior
from torch import Tensor
from torch.distributions import Categorical
from torch.nn.functional import pad

from botorch_pref.errors import FeedbackError
from botorch_pref.feedback import Feedback, OrdinalRatings
from botorch_pref.likelihoods import protocol
from botorch_pref.likelihoods.factors import BoxFactors
from botorch_pref.linalg.covariance import joint_shape
from botorch_pref.linalg.sparse_design import point_rows
from botorch_pref.numerics.argument_checks import check_count, check_kind, number_tensor

# Deviations a priori: of log gaps of cut points; of the first, in those of noise.
_LOG_GAP_SPREAD, _FIRST_SPREAD = 1.0, 10.0


@protocol.register_likelihood
class OrdinalProbitLikelihood(protocol.GaussianNoise[OrdinalRatings]):
    r"""Ordinal probit likelihood: levels between cut points of a noisy utility.

    .. math::
        P(\mathrm{level}_i = k \mid f_i) = \Phi\Big(\frac{b_{k+1} - f_i}{\sigma_o}\Big)
        - \Phi\Big(\frac{b_k - f_i}{\sigma_o}\Big), \qquad
        -\infty = b_0 < b_1 < \dots < b_{K} = \infty

    for levels 0 to ``K - 1``, higher is better (Chu and Ghahramani 2005, "Gaussian
    processes for ordinal regression", section 2.1). Cut points are learned and stay in
    order: the parameters are the first one and the logarithms of the gaps. Together
    with a learned constant mean only their differences are identified.

    Args:
        num_levels: ``K``, at least 2; None where ``cutpoints`` say it.
        noise: :math:`\sigma_o^2`, positive. Fixed unless it has a prior.
        cutpoints: Initial :math:`b_1 \dots b_{K-1}`, increasing. By default quantiles
            at which a normal of twice the noise's deviation is in each level alike.
        noise_prior: A prior on the noise, which is then learned.
        cutpoints_prior: A prior on the cut points. By default the logarithms of gaps
            are within about 1 of the initial ones, and the first is hardly bound.

    Raises:
        FeedbackError: The noise is not positive, cut points do not increase, or their
            number contradicts ``num_levels``.
    """

    explains: ClassVar = {OrdinalRatings: BoxFactors}

    def __init__(
        self,
        num_levels: int | None = None,
        *,
        noise: float | Tensor = 1.0,
        cutpoints: Tensor | None = None,
        noise_prior: Prior | None = None,
        cutpoints_prior: Prior | None = None,
    ) -> None:
        """Registers noise and cut points, whose default prior is about initial values.

        That prior is on raw values: the first cut point, and logarithms of gaps.
        """
        super().__init__()
        protocol.register_positive(self, "noise", noise, noise_prior)
        check_kind("cutpoints_prior", cutpoints_prior, Prior, NoneType)
        start = _initial_cutpoints(num_levels, cutpoints, self.noise.detach())
        self.register_parameter("raw_cutpoints", torch.nn.Parameter(_to_raw(start)))
        if cutpoints_prior is not None:
            protocol.register_prior(self, "cutpoints", cutpoints_prior)
        else:
            # Without it a level that nobody used would have no width after a fit.
            raw = self.raw_cutpoints.detach().clone()
            spread = torch.full_like(raw, _LOG_GAP_SPREAD)
            spread[..., 0] = _FIRST_SPREAD * float(self.noise.detach().max()) ** 0.5
            protocol.register_prior(self, "raw_cutpoints", NormalPrior(raw, spread))

    @classmethod
    def default_for(
        cls, feedback: Feedback | None, kinds: Collection[type[Feedback]] = ()
    ) -> OrdinalProbitLikelihood:
        """Makes the likelihood of a model whose user named none, by the ratings."""
        assert isinstance(feedback, OrdinalRatings), "defaults follow from ratings"
        return cls(feedback.num_levels)

    @property
    def batch_shape(self) -> torch.Size:
        """See base class; cut points may be in batches where the noise is not."""
        return joint_shape(super().batch_shape, self.raw_cutpoints.shape[:-1])

    @property
    def num_levels(self) -> int:
        """``K``, the number of levels."""
        return self.raw_cutpoints.shape[-1] + 1

    @property
    def cutpoints(self) -> Tensor:
        """``batch_shape x (K - 1)``, increasing."""
        first, gaps = self.raw_cutpoints[..., :1], self.raw_cutpoints[..., 1:]
        return torch.cat([first, gaps.exp()], dim=-1).cumsum(-1)

    @cutpoints.setter
    def cutpoints(self, value: Tensor) -> None:
        start = _initial_cutpoints(self.num_levels, value, self.noise.detach())
        self.initialize(raw_cutpoints=_to_raw(start).expand_as(self.raw_cutpoints))

    @property
    def _ends(self) -> Tensor:
        """All K + 1 ends of the intervals."""
        ends = self.cutpoints.new_full((*self.cutpoints.shape[:-1], 1), torch.inf)
        return torch.cat([-ends, self.cutpoints, ends], dim=-1)

    def factors(self, feedback: OrdinalRatings, num_points: int) -> BoxFactors:
        """Makes boxes of ratings: a noisy utility between the ends of its level.

        Raises:
            FeedbackError: The ratings have another number of levels.
        """
        if feedback.num_levels != self.num_levels:
            raise FeedbackError(
                f"OrdinalRatings has {feedback.num_levels} levels, but the likelihood "
                f"has {self.num_levels}; build it with "
                f"OrdinalProbitLikelihood({feedback.num_levels})."
            )
        ends, noise = self._ends, self.noise.unsqueeze(-1)
        batch = torch.broadcast_shapes(
            ends.shape[:-1], noise.shape[:-1], feedback.batch_shape
        )
        ends = ends.expand(*batch, -1)
        none = ends.new_full((*batch, 1), torch.inf)
        # Not the difference of cut points, which cancels where all are far from zero.
        gaps = self.raw_cutpoints[..., 1:].exp().expand(*batch, -1)
        width = torch.cat([none, gaps, none], dim=-1)
        levels = feedback.levels.expand(*batch, -1)
        return BoxFactors(
            point_rows(feedback.indices, num_points, ends),
            noise.expand(*batch, levels.shape[-1]),
            ends.gather(-1, levels),
            ends.gather(-1, levels + 1),
            width=width.gather(-1, levels),
        )

    def level_probabilities(self, mean: Tensor, variance: Tensor) -> Tensor:
        """Computes probabilities ``... x K`` of the levels of a Gaussian utility.

        Args:
            mean: Of the utility, any shape.
            variance: Of the utility, broadcastable with ``mean``.
        """
        scale = (self.noise + variance).sqrt().unsqueeze(-1)
        # Without the infinite ends, whose derivatives would be infinity times zero.
        x = (self.cutpoints - mean.unsqueeze(-1)) / scale
        below = pad(pad(ndtr(x), (1, 0)), (0, 1), value=1.0)
        above = pad(pad(ndtr(-x), (1, 0), value=1.0), (0, 1))
        # Levels above the utility by their upper tails, which keep their digits.
        is_above = pad(x > 0, (1, 0))
        return torch.where(is_above, -above.diff(dim=-1), below.diff(dim=-1))

    def forward(self, function_samples: Tensor) -> Categorical:
        """See base class: the distribution of the level of a point."""
        exactly = torch.zeros_like(function_samples)
        return Categorical(probs=self.level_probabilities(function_samples, exactly))


def _initial_cutpoints(
    num_levels: int | None, cutpoints: Tensor | None, noise: Tensor
) -> Tensor:
    """Returns the user's cut points, checked, or ones of equally likely levels.

    They are ``... x (K - 1)``. The ``noise`` is that of the likelihood, and levels are
    equally likely of a utility with twice the noise's deviation.
    """
    if num_levels is not None:
        check_count("OrdinalProbitLikelihood: num_levels", num_levels, at_least=2)
    if cutpoints is None:
        if num_levels is None:
            raise FeedbackError(
                "OrdinalProbitLikelihood needs num_levels of at least 2, or cutpoints; "
                "pass OrdinalProbitLikelihood(num_levels)."
            )
        share = torch.arange(1, num_levels).to(noise) / num_levels
        return 2 * noise.sqrt().unsqueeze(-1) * torch.special.ndtri(share)
    cutpoints = number_tensor("cutpoints", cutpoints, noise.dtype, noise.device)
    if cutpoints.dim() == 0 or 0 in cutpoints.shape:
        raise FeedbackError("cutpoints must hold at least one number, got none.")
    if num_levels is not None and cutpoints.shape[-1] != num_levels - 1:
        raise FeedbackError(
            f"{num_levels} levels have {num_levels - 1} cut points, got "
            f"{cutpoints.shape[-1]}."
        )
    if not bool(cutpoints.isfinite().all() & (cutpoints.diff(dim=-1) > 0).all()):
        raise FeedbackError(
            f"cutpoints must be finite and increase, got {cutpoints.tolist()}."
        )
    return cutpoints


def _to_raw(cutpoints: Tensor) -> Tensor:
    """Returns the first cut point and the logarithms of the gaps."""
    return torch.cat([cutpoints[..., :1], cutpoints.diff(dim=-1).log()], dim=-1)
