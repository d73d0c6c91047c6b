"""The covariance of the kernel of relevances, with closed and blockwise gradients."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.autograd import Function
from torch.nn.functional import logsigmoid, pad

from botorch_pref.linalg.covariance import join_rows, joint_shape

_FEW_ENTRIES, _BLOCK_ENTRIES, _GRAPH_ENTRIES = 2**13, 2**15, 2**17
"""Correlations by all inputs up to which these are computed at once, since torch takes
longer to start an operation than to do it; those by one input that are computed at a
time beyond, since more leave the cache; and those by all inputs that are stored for a
gradient, since to compute more of them again takes less time than to read them."""


def _num_entries(x1: Tensor, x2: Tensor, raw_relevance: Tensor) -> int:
    """Counts the correlations by all inputs of two sets of points."""
    batch = joint_shape(x1.shape[:-2], x2.shape[:-2], raw_relevance.shape[:-1])
    return batch.numel() * x1.shape[-2] * x2.shape[-2] * raw_relevance.shape[-1]


def relevance_covariance(
    x1: Tensor,
    x2: Tensor,
    lengthscale: Tensor | None,
    agreements: Tensor | None,
    raw_relevance: Tensor,
) -> Tensor:
    """Computes the covariance of `.RelevanceKernel`, ``batch_shape x q x m``.

    Args:
        x1: Numbers of points, ``batch_shape x q x k``.
        x2: ``batch_shape x m x k``; the same object as ``x1`` if the points are.
        lengthscale: Of the numbers, ``batch_shape x 1 x k``; None without numbers.
        agreements: Whether choices agree, ``batch_shape x c x q x m``, 1 or 0; None
            without choices.
        raw_relevance: Log odds of relevances, ``batch_shape x n``, of numbers first.
    """
    inputs = x1, x2, lengthscale, agreements, raw_relevance
    has_graph = torch.is_grad_enabled() and any(
        part is not None and part.requires_grad for part in inputs
    )
    if not has_graph:
        return _covariance_by_blocks(*inputs)
    is_stored = _num_entries(x1, x2, raw_relevance) <= _GRAPH_ENTRIES
    function = _RelevanceCovariance if is_stored else _RecomputedCovariance
    covariance: Tensor = function.apply(*inputs)
    return covariance


class _Shares(NamedTuple):
    r"""Numbers of each input, ``batch_shape x n x 1 x 1``.

    Attributes:
        relevance: :math:`r_i`.
        irrelevance: :math:`1 - r_i`, also where rounding makes :math:`r_i` 1.
        first: :math:`r_i \prod_{j < i} (1 - r_j) / T` with the total :math:`T = 1 -
            \prod_j (1 - r_j)`, the share of sets of which the input is the first.
    """

    relevance: Tensor
    irrelevance: Tensor
    first: Tensor

    @classmethod
    def of(cls, raw: Tensor) -> _Shares:
        r"""Makes the shares from log odds ``raw`` of relevances, ``batch_shape x n``.

        A share is :math:`s_i = r_i \prod_{j < i} (1 - r_j) / T`, of sets of inputs of
        which ``i`` is the first; ``T`` is the sum of their numerators.
        """
        raw = raw[..., None, None]
        irrelevance, log_relevance = (-raw).sigmoid(), logsigmoid(raw)
        # In multiples of the largest: so ``T`` is no 0 where all relevances underflow.
        largest = log_relevance.detach().amax(-3, keepdim=True)
        multiple = (log_relevance - largest).exp()
        first = multiple * _products_before(irrelevance)
        return cls(raw.sigmoid(), irrelevance, first / first.sum(-3, keepdim=True))


def _products_before(factors: Tensor) -> Tensor:
    """Multiplies the factors of all earlier inputs, ``... x n x 1 x 1``."""
    first = torch.ones_like(factors[..., :1, :, :])
    return torch.cat([first, factors[..., :-1, :, :]], -3).cumprod(-3)


class _Correlations(NamedTuple):
    r"""Correlations of two points by each input, and what they are made of.

    Attributes:
        offset: :math:`u_i = \sqrt 5 (x_i - x_i') / \ell_i` of numbers, ``batch_shape x
            k x q x m``; None without numbers.
        slope: :math:`(1 + |u_i|) e^{-|u_i|}`; :math:`d k_i / d u_i` is this times
            :math:`-u_i / 3`.
        value: :math:`k_i` of all inputs, ``batch_shape x n x q x m``.
    """

    offset: Tensor | None
    slope: Tensor | None
    value: Tensor

    @classmethod
    def of(
        cls,
        x1: Tensor,
        x2: Tensor,
        lengthscale: Tensor | None,
        agreements: Tensor | None,
    ) -> _Correlations:
        r"""Computes :math:`k_i` of all inputs: Matern-5/2 of numbers, then of choices.

        With :math:`u = \sqrt 5 (x - x') / \ell` the first is :math:`(1 + |u| + u^2 /
        3) e^{-|u|}`; those of choices are ``agreements``, 1 or 0. The arguments are
        those of `relevance_covariance`.
        """
        if lengthscale is None:
            assert agreements is not None, "inputs are numbers or choices"
            return cls(None, None, agreements)
        rate = math.sqrt(5) / lengthscale
        offset = (x1 * rate).mT.unsqueeze(-1) - (x2 * rate).mT.unsqueeze(-2)
        distance = offset.abs()
        decay = (-distance).exp()
        falling = distance * decay
        slope = decay + falling
        value = torch.addcmul(slope, falling, distance, value=1 / 3)
        if agreements is not None:
            value = join_rows([value, agreements], -3)
        return cls(offset, slope, value)


def _sums_over_sets(value: Tensor, factor: Tensor, first: Tensor) -> list[Tensor]:
    r"""Sums the kernel's terms over all sets among the first 0, 1, ... ``n`` inputs.

    They are :math:`D_0 = 0` and :math:`D_i = s_i k_i + a_i D_{i-1}`, with correlations
    :math:`k_i` (``value``), factors :math:`a_i = 1 - r_i + r_i k_i` and the shares
    :math:`s_i` (``first``) of sets of which an input is the first; the last is the
    kernel. No term is negative, so that all digits stay where relevances are small, and
    where they are 1. Correlations and factors are ``... x n x q x m``.
    """
    terms = (first * value).unbind(-3)
    sums = [torch.zeros_like(terms[0])]
    for term, of_input in zip(terms, factor.unbind(-3), strict=True):
        sums.append(torch.addcmul(term, of_input, sums[-1]))
    return sums


def _covariance_by_blocks(
    x1: Tensor,
    x2: Tensor,
    lengthscale: Tensor | None,
    agreements: Tensor | None,
    raw_relevance: Tensor,
) -> Tensor:
    """Computes the kernel without a graph, some points of ``x1`` at a time.

    The arguments are those of `relevance_covariance`. Where both sets of points are one
    object the covariance is symmetric, and half of it is computed.
    """
    batch = joint_shape(x1.shape[:-2], x2.shape[:-2], raw_relevance.shape[:-1])
    num_rows, num_columns = x1.shape[-2], x2.shape[-2]
    shares = _Shares.of(raw_relevance)
    if _num_entries(x1, x2, raw_relevance) <= _FEW_ENTRIES:
        value = _Correlations.of(x1, x2, lengthscale, agreements).value
        factor = torch.addcmul(shares.irrelevance, shares.relevance, value)
        return _sums_over_sets(value, factor, shares.first)[-1]
    is_symmetric = x1 is x2
    size = max(1, _BLOCK_ENTRIES // (batch.numel() * num_columns))
    dtype = torch.result_type(x1, raw_relevance)
    shape = *batch, num_rows, num_columns
    covariance = torch.empty(shape, dtype=dtype, device=x1.device)
    for start in range(0, num_rows, size):
        rows = slice(start, start + size)
        columns = slice(rows.stop if is_symmetric else None)
        agreeing = None if agreements is None else agreements[..., rows, columns]
        block = covariance[..., rows, columns]
        points = x1[..., rows, :], x2[..., columns, :]
        _fill_block(block, *points, lengthscale, agreeing, shares)
        if is_symmetric:
            covariance[..., :start, rows] = block[..., :start].mT
    return covariance


def _fill_block(
    block: Tensor,
    x1: Tensor,
    x2: Tensor,
    lengthscale: Tensor | None,
    agreements: Tensor | None,
    shares: _Shares,
) -> None:
    """Computes a ``block`` of the kernel in place, one input after the other.

    Other arguments are those of `relevance_covariance`, and the shares of its inputs.
    Sums over sets are those of `_sums_over_sets`.
    """
    correlations: list[Tensor] = []
    distance, scratch = torch.empty_like(block), torch.empty_like(block)
    numbers = 0 if lengthscale is None else x1.shape[-1]
    if lengthscale is not None:
        rate = math.sqrt(5) / lengthscale
        first, second = (x1 * rate).unbind(-1), (x2 * rate).unbind(-1)
    if agreements is not None:
        correlations = [*agreements.unbind(-3)]
    parts = zip(*(part.unbind(-3) for part in shares), strict=True)
    for place, (relevance, irrelevance, share) in enumerate(parts):
        if place < numbers:
            # As `_Correlations` does, in two matrices.
            ends = first[place].unsqueeze(-1), second[place].unsqueeze(-2)
            torch.sub(*ends, out=distance).abs_()
            torch.neg(distance, out=scratch).exp_()
            value = distance.addcmul_(distance, distance, value=1 / 3)
            value = value.add_(1.0).mul_(scratch)
        else:
            value = correlations[place - numbers]
        if place == 0:
            torch.mul(share, value, out=block)
            continue
        # D = (1 - r) D + (s + r D) k, of the sum D before.
        torch.addcmul(share, relevance, block, out=scratch).mul_(value)
        torch.addcmul(scratch, irrelevance, block, out=block)


class _RelevanceCovariance(Function):
    r"""The kernel of relevances, with its derivatives in closed form.

    With the factors :math:`a_i = 1 - r_i + r_i k_i`, their products :math:`A_i =
    \prod_{j \ne i} a_j`, the products :math:`M_i = \prod_{j \ne i} (1 - r_j)` and the
    total :math:`T = 1 - \prod_j (1 - r_j)` the derivatives of the kernel ``k`` are

    .. math::
        \frac{\partial k}{\partial k_i} = \frac{r_i}{T} A_i, \qquad
        \frac{\partial k}{\partial \operatorname{logit} r_i}
        = \frac{r_i}{T} (1 - r_i) \big((1 - k) M_i - (1 - k_i) A_i\big) .

    Nothing is divided by a factor, which may be 0: with the sum :math:`D_{i - 1}` over
    sets of earlier inputs :math:`\frac{r_i}{T} A_i = (\frac{r_i}{T} \prod_{j < i} (1 -
    r_j) + r_i D_{i - 1}) \prod_{j > i} a_j`. Autograd would record some forty matrices
    of points. The arguments are those of `relevance_covariance`.
    """

    @staticmethod
    def forward(
        ctx: Any,
        x1: Tensor,
        x2: Tensor,
        lengthscale: Tensor | None,
        agreements: Tensor | None,
        raw_relevance: Tensor,
    ) -> Tensor:
        """Computes the covariance, ``batch_shape x q x m``, and saves parts of it.

        The gradient unpacks them by their order.
        """
        shares = _Shares.of(raw_relevance)
        correlations = _Correlations.of(x1, x2, lengthscale, agreements)
        value = correlations.value
        factor = torch.addcmul(shares.irrelevance, shares.relevance, value)
        *sums, covariance = _sums_over_sets(value, factor, shares.first)
        inputs = x1, x2, lengthscale, agreements, raw_relevance
        parts = factor, torch.stack(sums, -3), covariance
        ctx.save_for_backward(*inputs, *correlations, *shares, *parts)
        return covariance

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        """Computes gradients in the inputs from that in the covariance, ``gradient``.

        Formulas are those of the class; None stands for what is not wanted. Where the
        result is differentiated again, autograd computes it, at the cost that the
        closed form saves.
        """
        inputs, saved = ctx.saved_tensors[:5], ctx.saved_tensors[5:]
        if torch.is_grad_enabled():
            return _recorded_gradients(inputs, ctx.needs_input_grad, gradient)
        x1, x2, lengthscale, agreements, raw_relevance = inputs
        (offset, slope, value), shares = saved[:3], _Shares(*saved[3:6])
        factor, sums, covariance = saved[6:]
        # The gradient times the factors of all later inputs.
        later = [gradient.expand_as(covariance)]
        for of_input in reversed(factor.unbind(-3)[1:]):
            later.append(later[-1] * of_input)
        # The gradient in each correlation ``k_i``, by ``s_i + r_i D_{i - 1}`` with the
        # shares ``first`` and the ``sums`` over sets of earlier inputs.
        of_correlation = torch.addcmul(shares.first, shares.relevance, sums)
        of_correlation = of_correlation * torch.stack(later[::-1], -3)
        of_relevance = of_agreements = of_lengthscale = None
        if ctx.needs_input_grad[4]:
            # ``first * behind`` is r_i / T times 1 - r_j of all other inputs j.
            behind = _products_before(shares.irrelevance.flip(-3)).flip(-3)
            lacking = (gradient * (1 - covariance)).sum((-2, -1), keepdim=True)
            change = shares.first * behind * lacking.unsqueeze(-3)
            change = change - (of_correlation * (1 - value)).sum((-2, -1), keepdim=True)
            of_relevance = (shares.irrelevance * change).squeeze((-2, -1))
            of_relevance = of_relevance.sum_to_size(raw_relevance.shape)
        if ctx.needs_input_grad[3]:
            of_agreements = of_correlation[..., -agreements.shape[-3] :, :, :]
            of_agreements = of_agreements.sum_to_size(agreements.shape)
        if lengthscale is None:
            return None, None, None, of_agreements, of_relevance
        # Minus 3 times the gradient in the offsets ``u``.
        bend = offset * slope * of_correlation[..., : offset.shape[-3], :, :]
        if ctx.needs_input_grad[2]:
            total = (bend * offset).sum((-2, -1)).unsqueeze(-2) / (3 * lengthscale)
            of_lengthscale = total.sum_to_size(lengthscale.shape)
        rate = math.sqrt(5) / (3 * lengthscale)
        of_points = (
            (bend.sum(along).mT * (sign * rate)).sum_to_size(points.shape)
            if is_wanted
            else None
            for points, along, sign, is_wanted in zip(
                (x1, x2), (-1, -2), (-1, 1), ctx.needs_input_grad[:2], strict=True
            )
        )
        return *of_points, of_lengthscale, of_agreements, of_relevance


class _RecomputedCovariance(Function):
    """The kernel of relevances of many points, which its gradient computes once more.

    The gradients of `_RelevanceCovariance` are summed over blocks of points: what that
    saves of all points would leave the cache.
    """

    @staticmethod
    def forward(ctx: Any, *inputs: Any) -> Tensor:
        """Computes the covariance, ``batch_shape x q x m``, and saves the arguments."""
        ctx.save_for_backward(*inputs)
        ctx.is_symmetric = inputs[0] is inputs[1]
        return _covariance_by_blocks(*inputs)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        """Computes gradients in the inputs from that in the covariance, ``gradient``.

        Entries of one set of points are twice in the covariance but for its diagonal:
        those on one side of it have the gradients of both.
        """
        inputs = ctx.saved_tensors
        if torch.is_grad_enabled():
            return _recorded_gradients(inputs, ctx.needs_input_grad, gradient)
        are_wanted = _with_numbers(inputs, ctx.needs_input_grad)
        leaves: list[Any] = [
            None if part is None else part.detach().requires_grad_(is_wanted)
            for part, is_wanted in zip(inputs, are_wanted, strict=True)
        ]
        x1, x2, lengthscale, agreements, raw_relevance = leaves
        wanted = [
            x for x, is_wanted in zip(leaves, are_wanted, strict=True) if is_wanted
        ]
        sums, num_rows = [torch.zeros_like(leaf) for leaf in wanted], x1.shape[-2]
        of_row = _num_entries(x1, x2, raw_relevance) // num_rows
        size = max(1, _GRAPH_ENTRIES // of_row)
        for start in range(0, num_rows, size):
            rows = slice(start, start + size)
            columns = slice(rows.stop if ctx.is_symmetric else None)
            of_block = gradient[..., rows, columns]
            if ctx.is_symmetric:
                above = gradient[..., :start, rows].mT
                of_block = of_block + pad(above, (0, of_block.shape[-1] - start))
            with torch.enable_grad():
                agreeing = (
                    None if agreements is None else agreements[..., rows, columns]
                )
                points = x1[..., rows, :], x2[..., columns, :]
                block = _RelevanceCovariance.apply(
                    *points, lengthscale, agreeing, raw_relevance
                )
            of_part = torch.autograd.grad(block, wanted, of_block)
            for total, part in zip(sums, of_part, strict=True):
                total += part
        gradients = iter(sums)
        return tuple(next(gradients) if is_wanted else None for is_wanted in are_wanted)


def _recorded_gradients(
    inputs: Sequence[Any], are_wanted: Sequence[bool], gradient: Tensor
) -> tuple[Tensor | None, ...]:
    """Computes what `_RelevanceCovariance.backward` returns, to differentiate it again.

    Where a caller asks for gradients with ``create_graph=True``, autograd computes them
    from ``gradient``, that in a covariance made anew from the inputs with their graph.
    They are None for inputs that are not wanted.
    """
    # Points may be one object twice, or some of them made of others. A view of each has
    # its gradient alone, and not what flows through the others.
    inputs = [None if part is None else part.view_as(part) for part in inputs]
    x1, x2, lengthscale, agreements, raw_relevance = inputs
    shares = _Shares.of(raw_relevance)
    value = _Correlations.of(x1, x2, lengthscale, agreements).value
    factor = shares.irrelevance + shares.relevance * value
    covariance = _sums_over_sets(value, factor, shares.first)[-1]
    are_wanted = _with_numbers(inputs, are_wanted)
    pairs = zip(inputs, are_wanted, strict=True)
    wanted = [part for part, is_wanted in pairs if is_wanted]
    gradients = iter(
        torch.autograd.grad(covariance, wanted, gradient, create_graph=True)
    )
    return tuple(next(gradients) if is_wanted else None for is_wanted in are_wanted)


def _with_numbers(inputs: Sequence[Any], are_wanted: Sequence[bool]) -> list[bool]:
    """Tells which inputs, of those wanted, have a gradient.

    Where all inputs are choices, points have no numbers to differentiate.
    """
    pairs = zip(inputs, are_wanted, strict=True)
    return [is_wanted and part.numel() > 0 for part, is_wanted in pairs]
