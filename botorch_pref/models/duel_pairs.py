"""Pairs of points in duels: in one order whichever comes first, and drawn winners."""

from __future__ import annotations

from typing import Any, NamedTuple, cast

import torch
from botorch.posteriors.posterior import Posterior
from botorch.sampling.base import MCSampler
from botorch.sampling.pairwise_samplers import PairwiseMCSampler
from botorch.utils.transforms import is_ensemble
from torch import Tensor

from botorch_pref.posteriors import Moments, contrast
from botorch_pref.posteriors.gaussian import duels_between, resolved_variance


class DuelPairs(NamedTuple):
    """Pairs of points in the order of their coordinates, ``q x batch_shape x 2 x d``.

    So results are the same to the last digit whichever of the two is asked about. Each
    pair is a batch element of its own. ``sign`` is -1 where the two were given the
    other way round, ``equal`` says where they are the same, both ``q x batch_shape``.
    """

    points: Tensor
    sign: Tensor
    equal: Tensor

    def differences(
        self, moments: Moments, prior_variance: Tensor
    ) -> tuple[Tensor, Tensor]:
        """Computes means and variances of first less second utilities, in asked order.

        The moments and prior variances are those at the points; their batch may end in
        more dimensions than that of the pairs. Means, ``num_components x q x
        batch_shape``, are zero for equal points, with the gradient of a difference;
        variances, ``q x batch_shape``, are above what rounding hides.
        """
        of_pairs = contrast(moments, 1)
        means, variance = of_pairs.means.squeeze(-1), of_pairs.covariance[..., 0, 0]
        room = [1] * (variance.dim() - self.sign.dim())
        sign, equal = (t.reshape(*t.shape, *room) for t in (self.sign, self.equal))
        # A matrix product may sum equal rows in different orders. Their means then
        # differ by a rounding, which is as large as the variance that is left.
        means = torch.where(equal, means - means.detach(), means * sign)
        return means, resolved_variance(variance, prior_variance.sum(-1))


def duel_pairs(X1: Tensor, X2: Tensor, model: Any) -> DuelPairs:
    """Orders the two points of each duel, the same whichever of them comes first.

    P(a beats b) and P(b beats a) are then one computation, and sum to one. The first is
    the point with the smaller value in the first coordinate in which both differ. The
    points become ``q x batch_shape x 2 x d``. The batch gets ones in front, up to as
    many dimensions as the model's without its ensemble's members: else the model would
    take ``q`` for a dimension of its batch.
    """
    num_batch_dims = model._num_batch_dims - is_ensemble(model)
    X1, X2 = torch.broadcast_tensors(X1, X2)
    gap = (X1 - X2).detach()
    decides = (gap != 0).to(torch.uint8).argmax(-1, keepdim=True)
    swapped = gap.gather(-1, decides) > 0
    points = torch.stack(
        [torch.where(swapped, X2, X1), torch.where(swapped, X1, X2)], dim=-2
    )
    sign = 1 - 2 * swapped.squeeze(-1).to(gap)
    equal = (gap == 0).all(-1)
    room = (1,) * (num_batch_dims + 3 - points.dim())
    points = points.reshape(room + points.shape).movedim(-3, 0)
    sign, equal = (t.reshape(room + t.shape).movedim(-1, 0) for t in (sign, equal))
    return DuelPairs(points, sign, equal)


def fantasy_duels(sampler: MCSampler, posterior: Posterior) -> Tensor:
    """Draws answers to the duels of q points, from a posterior with the answers' noise.

    With two points answers have the probability that the model gives them, exactly so
    under a probit likelihood without ties. The duels of more points share one draw of
    each utility but count as independent, as in BoTorch's ``PairwiseGP``. Returned are
    ``sample_shape x batch_shape x m x 2`` long, winner first.
    """
    if not isinstance(sampler, PairwiseMCSampler):
        # Of utilities, or of integers, which are pairs already.
        drawn = sampler(posterior)
        return duels_between(drawn) if drawn.is_floating_point() else drawn
    # Of BoTorch's the utilities only: its pairs (0.18.1) have the loser first, where
    # models expect the winner, and cost NumPy its global state.
    utilities: Any = super(PairwiseMCSampler, sampler)
    duels = duels_between(utilities.forward(posterior))
    count = cast("int | None", sampler.max_num_comparisons)
    if count is None:
        return duels
    generator = torch.Generator().manual_seed(sampler.seed)
    order = torch.randperm(duels.shape[-2], generator=generator).to(duels.device)
    return duels[..., order[:count], :]
