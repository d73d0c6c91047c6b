"""The pairs of points that duel, in an order that does not depend on who is first."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from botorch_pref.posteriors.difference import resolved_variance
from botorch_pref.posteriors.moments import Moments, contrast


class DuelPairs(NamedTuple):
    """Pairs of points in the order of their coordinates.

    What is computed of a pair is then the same, to the last digit, whichever of the two
    is asked about. Each pair is a batch element of its own: covariances of pairs are
    not needed.

    Attributes:
        points: ``q x batch_shape x 2 x d``.
        sign: ``q x batch_shape``: 1 where the first point is the first one given, -1
            where it is the second.
        equal: ``q x batch_shape``: whether the two points are the same.
    """

    points: Tensor
    sign: Tensor
    equal: Tensor

    def differences(
        self, moments: Moments, prior_variance: Tensor
    ) -> tuple[Tensor, Tensor]:
        """Means and variances of first less second utilities, as they were given.

        Args:
            moments: Of utilities at the points; their batch may end in more dimensions
                than that of the pairs.
            prior_variance: Prior variances there, ``... x 2``.

        Returns:
            Means, ``num_components x q x batch_shape``, zero for equal points, with the
            gradient of a difference; and variances that rounding does not hide,
            ``q x batch_shape``.
        """
        of_pairs = contrast(moments, 1)
        means, variance = of_pairs.means.squeeze(-1), of_pairs.covariance[..., 0, 0]
        room = [1] * (variance.dim() - self.sign.dim())
        sign, equal = (t.reshape(*t.shape, *room) for t in (self.sign, self.equal))
        # A matrix product may sum equal rows in different orders. Their means then
        # differ by a rounding, which is as large as the variance that is left.
        means = torch.where(equal, means - means.detach(), means * sign)
        return means, resolved_variance(variance, prior_variance.sum(-1))


def duel_pairs(X1: Tensor, X2: Tensor, num_batch_dims: int = 0) -> DuelPairs:
    """Pairs of points, the one with the smaller first different coordinate first.

    Args:
        X1: ``batch_shape x q x d``.
        X2: Broadcastable with ``X1``.
        num_batch_dims: Of the model: batches of pairs get as many at least, in front,
            for the model would take pairs for its batch.
    """
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
