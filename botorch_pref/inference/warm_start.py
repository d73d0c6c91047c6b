"""The start of an engine: sites found before, also among those of more answers."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import NamedTuple, Self

import torch
from torch import Tensor
from torch.nn.functional import pad

from botorch_pref.likelihoods.factors.factors import Factors
from botorch_pref.linalg.sparse_design import SparseDesign
from botorch_pref.posteriors.moments import Moments


class Sites(NamedTuple):
    r"""Gaussian sites :math:`\exp(\nu_i z_i - \tau_i z_i^2 / 2)` of rows of utilities.

    Attributes:
        precision: :math:`\tau`, ``batch_shape x m``.
        shift: :math:`\nu`, ``batch_shape x m``.
    """

    precision: Tensor
    shift: Tensor


class FurtherAnswers(NamedTuple):
    """Answers that join those of a solution.

    Attributes:
        factors: Of the further answers, about their own points.
        sources: Where the rows of all answers come from, see :func:`row_sources`,
            ``batch_shape x m``.
        moments: Of utilities at their points under the solution; None where it is no
            longer at hand.
    """

    factors: Factors
    sources: Tensor
    moments: Moments | None = None


@dataclass(frozen=True)
class WarmStart:
    """A start of an engine other than the prior.

    Attributes:
        sites: Of an earlier solution.
    """

    sites: Sites

    def at_other_parameters(self) -> Self:
        """The part that holds where hyper-parameters have changed."""
        return self

    def followed_by(self, sources: Tensor, further: Sites) -> Self:
        """The start of all answers, from the starts of earlier and of further ones.

        Args:
            sources: Of the rows of all answers, see :func:`row_sources`.
            further: Sites of the further answers.
        """
        pairs = zip(self.sites, further, strict=True)
        return replace(self, sites=Sites(*(carry_rows(sources, *p) for p in pairs)))


def row_sources(
    before: SparseDesign, further: SparseDesign, after: SparseDesign
) -> Tensor:
    """Source of each row when further answers, about further points, join.

    Rows about the first ``before.num_points`` points only are earlier ones, in their
    order, wherever more answers of the same kind, or wider sets, put them; all others
    are further ones.

    Args:
        before: Rows of the earlier answers, ``m`` of them.
        further: Rows of the further answers about their own points, ``m'`` of them.
        after: Rows of all answers about all points, ``m''`` of them.

    Returns:
        ``batch_shape x m''`` long, places among the rows of ``before`` followed by
        those of ``further``; ``m + m'`` for rows that are padding.
    """
    earlier = (after.indices < before.num_points).all(-1) & _is_row(after)
    later = (after.indices >= before.num_points).all(-1) & _is_row(after)
    from_before = _place_of_each(earlier, _is_row(before))
    from_further = _place_of_each(later, _is_row(further)) + before.num_rows
    sources = torch.where(earlier, from_before, from_further)
    nowhere = before.num_rows + further.num_rows
    return torch.where(earlier | later, sources, nowhere)


def carry_rows(sources: Tensor, before: Tensor, further: Tensor) -> Tensor:
    """Values of earlier and of further rows as values of all.

    Args:
        sources: Of :func:`row_sources`, ``batch_shape x m''``.
        before: ``... x batch_shape x m``.
        further: ``... x batch_shape x m'``.

    Returns:
        ``... x batch_shape x m''``, zero for rows that are padding.
    """
    batch = torch.broadcast_shapes(
        before.shape[:-1], further.shape[:-1], sources.shape[:-1]
    )
    both = [values.expand(*batch, values.shape[-1]) for values in (before, further)]
    values = pad(torch.cat(both, dim=-1), (0, 1))
    return values.gather(-1, sources.expand(*batch, sources.shape[-1]))


def _is_row(rows: SparseDesign) -> Tensor:
    """Whether a row is one, rather than padding, ``batch_shape x m``."""
    return (rows.coefficients != 0).any(-1)


def _place_of_each(where: Tensor, there: Tensor) -> Tensor:
    """Place of the i-th True of ``there`` at the i-th True of ``where``."""
    places = (~there).long().argsort(dim=-1, stable=True)
    batch = torch.broadcast_shapes(where.shape[:-1], there.shape[:-1])
    rank = (where.cumsum(-1) - 1).clamp(0, places.shape[-1] - 1)
    places = places.expand(*batch, places.shape[-1])
    return places.gather(-1, rank.expand(*batch, rank.shape[-1]))
