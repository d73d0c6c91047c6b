"""The lower bounds of logistic and softmax factors, alone and together."""

from __future__ import annotations

from collections.abc import Sequence
from functools import singledispatch

import torch
from torch import Tensor

from botorch_pref.errors import UnsupportedFeedbackError
from botorch_pref.inference.variational.bouchard import BouchardBound
from botorch_pref.inference.variational.gaussian_bound import Bound
from botorch_pref.inference.variational.jaakkola_jordan import JaakkolaJordanBound
from botorch_pref.likelihoods.factors.factors import Factors
from botorch_pref.likelihoods.factors.joint_factors import JointFactors
from botorch_pref.likelihoods.factors.logit_factors import LogitFactors
from botorch_pref.likelihoods.factors.plackett_luce_factors import PlackettLuceFactors
from botorch_pref.likelihoods.factors.stage_items import in_some_element
from botorch_pref.linalg.joint_shape import joint_shape
from botorch_pref.linalg.sparse_design import SparseDesign, pair_rows, stack_rows


class JointBound(Bound):
    """Several bounds, one under another.

    Args:
        blocks: At least one.
    """

    def __init__(self, blocks: Sequence[Bound]) -> None:
        self._blocks = blocks
        self.rows = stack_rows([block.rows for block in blocks])
        self._sizes = [block.rows.num_rows for block in blocks]
        self._lengths = [block.num_parameters for block in blocks]
        self.num_parameters = sum(self._lengths)

    def _rows_of(self, values: Tensor) -> Sequence[Tensor]:
        return values.split(self._sizes, dim=-1)

    def _parts(self, parameters: Tensor) -> Sequence[Tensor]:
        return parameters.split(self._lengths, dim=-1)

    def best(self, mean: Tensor, variance: Tensor) -> Tensor:
        """See base class."""
        moments = zip(
            self._blocks, self._rows_of(mean), self._rows_of(variance), strict=True
        )
        return torch.cat([b.best(m, v) for b, m, v in moments], dim=-1)

    def curvature(
        self, parameters: Tensor, mean: Tensor, variance: Tensor
    ) -> tuple[Tensor, SparseDesign | None]:
        """See base class."""
        parts = zip(
            self._blocks,
            self._parts(parameters),
            self._rows_of(mean),
            self._rows_of(variance),
            strict=True,
        )
        results = [block.curvature(p, m, v) for block, p, m, v in parts]
        groups = [group for _, group in results if group is not None]
        return _join([c for c, _ in results]), stack_rows(groups) if groups else None

    def sites(self, parameters: Tensor) -> tuple[Tensor, Tensor]:
        """See base class."""
        parts = zip(self._blocks, self._parts(parameters), strict=True)
        tau, nu = zip(*(block.sites(part) for block, part in parts), strict=True)
        return _join(tau), _join(nu)

    def intercept(self, parameters: Tensor) -> Tensor:
        """See base class."""
        parts = zip(self._blocks, self._parts(parameters), strict=True)
        values = [block.intercept(part) for block, part in parts]
        return torch.stack(torch.broadcast_tensors(*values)).sum(0)


def _join(parts: Sequence[Tensor]) -> Tensor:
    batch = joint_shape(*(part.shape[:-1] for part in parts))
    return torch.cat([p.expand(*batch, p.shape[-1]) for p in parts], dim=-1)


def stage_bound(
    stages: Tensor, num_points: int, like: Tensor, counts: Tensor | None = None
) -> Bound:
    """Jaakkola and Jordan's bound of pairs and Bouchard's of larger sets.

    Args:
        stages: ``batch_shape x L x k`` long, the chosen point first, padded with -1.
        num_points: ``n``.
        like: A tensor whose dtype and device the rows take.
        counts: How often each set was chosen from so, ``batch_shape x L``; None for
            once.
    """
    sizes = (stages >= 0).sum(-1, keepdim=True)
    is_pair = in_some_element(sizes.squeeze(-1) == 2, 1)
    blocks: list[Bound] = []
    if bool(is_pair.any()):
        pairs, paired = stages[..., is_pair, :2], sizes[..., is_pair, :] == 2
        rows = pair_rows(torch.where(paired, pairs, 0), num_points, like)
        rows = SparseDesign(rows.indices, rows.coefficients * paired, num_points)
        wins = paired.squeeze(-1).to(like)
        wins = wins if counts is None else wins * counts[..., is_pair]
        blocks.append(JaakkolaJordanBound(rows, wins, torch.zeros_like(wins)))
    if bool((sizes > 2).any()):
        larger = torch.where(sizes > 2, stages, -1)
        blocks.append(BouchardBound(larger, num_points, like, counts))
    return blocks[0] if len(blocks) == 1 else JointBound(blocks)


@singledispatch
def bound_of(factors: Factors) -> Bound:
    """The lower bound of some factors.

    Args:
        factors: Logistic or softmax factors, or both.

    Raises:
        UnsupportedFeedbackError: Factors of another kind.
    """
    raise UnsupportedFeedbackError(
        f"{type(factors).__name__} has no Gaussian lower bound here; use Laplace or EP."
    )


@bound_of.register
def _(factors: LogitFactors) -> Bound:
    return JaakkolaJordanBound(factors.rows, factors.wins, factors.losses)


@bound_of.register
def _(factors: PlackettLuceFactors) -> Bound:
    return stage_bound(
        factors.stages,
        factors.rows.num_points,
        factors.rows.coefficients,
        factors.counts,
    )


@bound_of.register
def _(factors: JointFactors) -> Bound:
    return JointBound([bound_of(block) for block in factors.blocks])
