"""The start of an engine: sites found before, also among those of more answers."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import NamedTuple, Self

import torch
from torch import Tensor

from botorch_pref.likelihoods.factors.factors import Factors
from botorch_pref.linalg.joint_shape import join_rows
from botorch_pref.linalg.row_groups import row_groups
from botorch_pref.linalg.sparse_design import SparseDesign, stack_rows
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
        sources: Where their rows and those of the earlier answers go.
        moments: Of utilities at their points under the solution; None where it is no
            longer at hand.
    """

    factors: Factors
    sources: RowSources
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

    def followed_by(self, sources: RowSources, further: Sites) -> Self:
        """The start of all answers, from the starts of earlier and of further ones.

        Args:
            sources: Where the rows go.
            further: Sites of the further answers.
        """
        before = self.sites
        precision = carry_rows(sources, before.precision, further.precision, False)
        shift = carry_rows(sources, before.shift, further.shift, True)
        return replace(self, sites=Sites(precision, shift))


class RowSources(NamedTuple):
    """The places of earlier and of further rows among those of all answers.

    Attributes:
        places: ``batch_shape x (m + m')`` long, the place of each row among all, the
            earlier ones first; ``m''`` where it has none.
        sign: ``batch_shape x (m + m')``, -1 where the row that is there has the other
            sign.
        num_rows: ``m''``.
        batch_shape: Of all answers.
        complete: Whether every row has a place, and every place a row.
    """

    places: Tensor
    sign: Tensor
    num_rows: int
    batch_shape: torch.Size
    complete: bool


def row_sources(
    before: SparseDesign,
    further: SparseDesign,
    after: SparseDesign,
    kinds: tuple[Tensor, Tensor, Tensor] | None = None,
) -> RowSources:
    """The places of rows: equal ones go to one, others keep their order.

    Args:
        before: Rows of the earlier answers, ``m`` of them, about all points.
        further: Rows of the further answers, ``m'`` of them, about all points.
        after: Rows of all answers about all points, ``m''`` of them.
        kinds: For each of these numbers that are equal where rows may be.
    """
    all_rows = stack_rows([before, further, after])
    label = None if kinds is None else torch.cat(kinds)
    found = row_groups(all_rows, label)
    total, count = all_rows.num_rows, before.num_rows + further.num_rows
    if found is None:
        group = torch.arange(total, device=after.indices.device)
        sign = torch.ones_like(group)
    else:
        group, sign = found.group, found.sign
    mine, there = group[..., :count].contiguous(), group[..., count:]
    ordered, order = there.sort(dim=-1, stable=True)
    start, end = (
        torch.searchsorted(ordered.contiguous(), mine, right=right)
        for right in (False, True)
    )
    # Rows that are not one stay in their order.
    place = start + _rank(mine).minimum((end - start - 1).clamp_min(0))
    place = order.gather(-1, place.clamp_max(after.num_rows - 1))
    places = torch.where(end > start, place, after.num_rows)
    full = torch.cat([sign[..., count:], sign[..., :1]], dim=-1)
    taken = torch.zeros_like(full, dtype=torch.long)
    taken = taken.scatter_add(-1, places, torch.ones_like(places))
    return RowSources(
        places=places,
        sign=(sign[..., :count] * full.gather(-1, places)).to(after.coefficients),
        num_rows=after.num_rows,
        batch_shape=after.indices.shape[:-2],
        complete=not bool(taken[..., -1].any()) and bool((taken[..., :-1] > 0).all()),
    )


def _rank(values: Tensor) -> Tensor:
    """The number of equal values before each, along the last dimension."""
    ordered, order = values.sort(dim=-1, stable=True)
    ordered = ordered.contiguous()
    places = torch.arange(values.shape[-1], device=values.device).expand_as(order)
    rank = places - torch.searchsorted(ordered, ordered)
    return torch.empty_like(order).scatter(-1, order, rank)


def carry_rows(
    sources: RowSources, before: Tensor, further: Tensor, signed: bool
) -> Tensor:
    """Values of earlier and of further rows, added up in those of all.

    Args:
        sources: Of :func:`row_sources`.
        before: ``... x batch_shape x m``.
        further: ``... x batch_shape x m'``.
        signed: Whether they change sign with their row.

    Returns:
        ``... x batch_shape x m''``, zero for rows that come from none.
    """
    values = join_rows([before, further])
    values = values * sources.sign if signed else values
    batch = torch.broadcast_shapes(values.shape[:-1], sources.batch_shape)
    out = values.new_zeros(*batch, sources.num_rows + 1)
    index = sources.places.expand(*batch, -1)
    return out.scatter_add(-1, index, values.expand(*batch, -1))[..., :-1]
