"""Options that differ enough to be told apart, and questions that were not asked."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True)
class ToldApart:
    r"""Smallest differences, and the questions that were asked.

    Two options differ by

    .. math:: r^2(x, y) = \sum_j \Big( \frac{x_j - y_j}{w_j} \Big)^2,

    with the smallest difference :math:`w_j` of each feature; below 1 nobody can tell
    them apart. A question repeats another one where each option of either has one of
    the other that it cannot be told from.

    Attributes:
        widths: ``d``, the smallest differences.
        asked: ``K x s x d``, the options of earlier questions of the same size.
        pending: ``P x s x d``, those of them that are unanswered.
        reference: ``k x d``, options of the question that are not chosen, the reference
            point first; or None.
        others: ``k x d``, points that an option must differ from besides.
    """

    widths: Tensor
    asked: Tensor
    pending: Tensor
    reference: Tensor | None = None
    others: Tensor | None = None

    def smallest_gap(self, options: Tensor) -> Tensor:
        """Squared difference of the two options that differ least.

        Args:
            options: ``batch_shape x m x d``, those of the question that are chosen.

        Returns:
            ``batch_shape``.
        """
        size = options.shape[-2]
        whole = self._whole(options)
        if self.others is not None:
            others = self.others.expand(*options.shape[:-2], *self.others.shape)
            whole = torch.cat([whole, others], dim=-2)
        squared = self._squared(options, whole)
        own = torch.eye(size, whole.shape[-2], dtype=torch.bool, device=options.device)
        return squared.masked_fill(own, torch.inf).flatten(-2).amin(-1)

    def times_asked(self, options: Tensor) -> Tensor:
        """Number of earlier questions that a question repeats.

        Args:
            options: See `smallest_gap`.

        Returns:
            ``batch_shape`` integers.
        """
        return (self._gaps(options, self.asked) < _SAME).sum(-1)

    def is_pending(self, options: Tensor) -> Tensor:
        """Whether a question repeats one that is not answered yet.

        Args:
            options: See `smallest_gap`.
        """
        return (self._gaps(options, self.pending) < _SAME).any(-1)

    def novelty(self, options: Tensor) -> Tensor:
        """Squared difference from the earlier question that is most alike.

        Args:
            options: See `smallest_gap`.

        Returns:
            ``batch_shape``; infinite where no question was asked.
        """
        gaps = self._gaps(options, self.asked)
        if gaps.shape[-1] == 0:
            return gaps.new_full(gaps.shape[:-1], torch.inf)
        return gaps.amin(-1)

    def _whole(self, options: Tensor) -> Tensor:
        """The chosen options and the reference."""
        if self.reference is None:
            return options
        reference = self.reference.expand(*options.shape[:-2], *self.reference.shape)
        return torch.cat([options, reference], dim=-2)

    def _gaps(self, options: Tensor, questions: Tensor) -> Tensor:
        """Squared differences from questions, ``batch_shape x K``."""
        whole = self._whole(options)
        count, size, _ = questions.shape
        squared = self._squared(whole, questions.flatten(0, 1))
        matched = squared.unflatten(-1, (count, size))
        there, back = matched.amin(-1).amax(-2), matched.amin(-3).amax(-1)
        return torch.maximum(there, back)

    def _squared(self, first: Tensor, second: Tensor) -> Tensor:
        """Squared differences of all pairs, ``batch_shape x n x k``."""
        apart = (first.unsqueeze(-2) - second.unsqueeze(-3)) / self.widths
        return apart.square().sum(-1)


_SAME = 1 - 1e-6
"""Squared difference below which two options are one, up to rounding."""


def can_be_told(squared: Tensor) -> Tensor:
    """Whether squared differences are large enough.

    Args:
        squared: See `ToldApart.smallest_gap`.
    """
    return squared >= _SAME
