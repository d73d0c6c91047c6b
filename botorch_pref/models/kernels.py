"""Priors: default mean and kernel, the kernel of duels, the weights of covariates."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple, cast

import torch
from botorch.exceptions.warnings import InputDataWarning
from botorch.models.utils.gpytorch_modules import get_covar_module_with_dim_scaled_prior
from gpytorch import Module
from gpytorch.constraints import GreaterThan, Positive
from gpytorch.kernels import Kernel, ScaleKernel
from gpytorch.means import ConstantMean, Mean, ZeroMean
from gpytorch.priors import GammaPrior, LogNormalPrior, MultivariateNormalPrior
from torch import Tensor
from torch.autograd import Function
from torch.nn import Parameter
from torch.nn.functional import logsigmoid, pad

from botorch_pref.errors import FeedbackError, warn_caller
from botorch_pref.feedback import Feedback
from botorch_pref.likelihoods.protocol import (
    IN_LOGS,
    PositiveParameter,
    in_spreads,
    register_positive,
    register_prior,
)
from botorch_pref.linalg.covariance import join_rows, joint_shape
from botorch_pref.numerics.argument_checks import (
    check_count,
    checked_arguments,
)


def default_mean_module(feedback: Sequence[Feedback], batch_shape: torch.Size) -> Mean:
    """Makes a mean of zero where only differences are seen, else a learned constant."""
    if all(block.relative for block in feedback):
        return ZeroMean(batch_shape=batch_shape)
    return ConstantMean(batch_shape=batch_shape)


def default_covar_module(dim: int | None, batch_shape: torch.Size) -> Kernel:
    """Makes a scaled RBF-ARD kernel with BoTorch's dimension-scaled lengthscale prior.

    Both kinds of scale are optimised in log space, where the evidence of comparisons is
    closer to quadratic: fits need a third as many evaluations as in BoTorch's. The
    output scale says how far utilities spread beside the noise of the answers, with
    BoTorch's prior. With a ``dim`` of None all features share one lengthscale.
    """
    base = get_covar_module_with_dim_scaled_prior(
        ard_num_dims=1 if dim is None else dim, batch_shape=batch_shape
    )
    start = base.lengthscale.detach()
    lower = float(base.raw_lengthscale_constraint.lower_bound)
    base.register_constraint("raw_lengthscale", GreaterThan(lower, **IN_LOGS))
    base.lengthscale = start
    prior = GammaPrior(2.0, 0.15)
    kernel = ScaleKernel(
        base,
        batch_shape=batch_shape,
        outputscale_prior=prior,
        outputscale_constraint=Positive(**IN_LOGS),
    )
    kernel.outputscale = prior.mode
    return kernel


_FEW_DIMS = 6
_SHORTEST = 0.025


class RelevanceKernel(Kernel):
    r"""Functions of few inputs, summed over all sets of inputs by how likely each is.

    If input :math:`i` matters with the probability :math:`r_i`, its relevance, then
    :math:`S` is the set of inputs that matter with the probability :math:`p_S =
    \prod_{i \in S} r_i \prod_{i \notin S} (1 - r_i)`. The kernel is the covariance of
    :math:`\sum_S f_S`, where :math:`f_S` is a function of the inputs in :math:`S` alone
    with the variance :math:`p_S`, over all sets but the empty one:

    .. math:: k(x, x') \propto \sum_{S \ne \emptyset} p_S \prod_{i \in S} k_i(x_i, x_i')
        = \prod_i \big(1 - r_i + r_i k_i(x_i, x_i')\big) - \prod_i (1 - r_i),

    divided by its value at :math:`x = x'`. Small relevances leave main effects, large
    ones the product of all :math:`k_i`; an input whose relevance is 0 does nothing, in
    no interaction either (compare the additive kernels of Duvenaud et al. 2011 and the
    functional analysis of variance of Durrande et al. 2013).

    For a number, :math:`k_i` is the Matern-5/2 kernel. For an unordered choice, whose
    options are columns of zeros and a one, it is 1 between equal options and 0 else:
    options are exchangeable.

    Up to constants the log densities of the priors are

    .. math:: -\frac{(\log \ell_i - \log m)^2}{2 \lambda^2}, \qquad
        \operatorname{logit} r \sim N\big(\operatorname{logit} \min(c / n, 1/2) \, 1,
        \; \tau^2 I + \gamma^2 1 1^T\big)

    for ``n`` inputs: a function of the sum depends on about ``c`` inputs, or half of
    all, before any answer; single relevances spread around that by :math:`\tau` in
    their log odds, and all together by :math:`\gamma`.

    Args:
        dim: Number of features, after any input transform.
        batch_shape: Of the model; empty by default.
        categorical: The columns of each unordered choice, coded as zeros and a one.
        lengthscale: The mode :math:`m` in the unit cube.
        lengthscale_spread: :math:`\lambda`.
        expected_inputs: :math:`c`, how many inputs a function of the sum depends on.
        relevance_spread: :math:`\tau`.
        share_spread: :math:`\gamma`.

    Raises:
        FeedbackError: There are no features, a choice has fewer than two columns, or
            one that is no feature or of two choices, or a number cannot be.
    """

    lengthscale = PositiveParameter()

    @checked_arguments
    def __init__(
        self,
        dim: int,
        batch_shape: torch.Size | None = None,
        *,
        categorical: Sequence[Sequence[int]] = (),
        lengthscale: float = 0.5,
        lengthscale_spread: float = 0.5,
        expected_inputs: float = 3.0,
        relevance_spread: float = 1.0,
        share_spread: float = 1.5,
    ) -> None:
        """Checks the settings, and registers lengthscales and relevances with priors.

        Both start at a mode of their priors. Only numbers have lengthscales; relevances
        are of numbers and then of choices.
        """
        check_count("dim", dim, at_least=1)
        if not _SHORTEST < lengthscale < math.inf:
            raise FeedbackError(
                f"lengthscale is {lengthscale}; give a finite number above {_SHORTEST}."
            )
        _check_positive(
            lengthscale_spread=lengthscale_spread,
            expected_inputs=expected_inputs,
            relevance_spread=relevance_spread,
            share_spread=share_spread,
        )
        check_categorical(categorical, dim)
        batch = torch.Size() if batch_shape is None else batch_shape
        self.dim, self.categorical = dim, [list(columns) for columns in categorical]
        coded = {column for columns in categorical for column in columns}
        self.numbers = [column for column in range(dim) if column not in coded]
        super().__init__(batch_shape=batch)
        if self.numbers:
            raw = torch.zeros(*batch, 1, len(self.numbers), dtype=torch.float64)
            self.register_parameter("raw_lengthscale", Parameter(raw))
            constraint = GreaterThan(_SHORTEST, **in_spreads(lengthscale_spread))
            self.register_constraint("raw_lengthscale", constraint)
            prior = _around(lengthscale, lengthscale_spread)
            register_prior(self, "lengthscale", prior)
            self.lengthscale = lengthscale
        inputs = len(self.numbers) + len(self.categorical)
        of_relevance = _relevance_prior(
            inputs, expected_inputs, relevance_spread, share_spread
        )
        start = of_relevance.mean.expand(*batch, inputs).clone()
        self.register_parameter("raw_relevance", Parameter(start))
        register_prior(self, "raw_relevance", of_relevance)

    @property
    def relevance(self) -> Tensor:
        """:math:`r`, of numbers and then of choices, ``batch_shape x n``."""
        return self.raw_relevance.sigmoid()

    def inputs_of(self, columns: Sequence[int]) -> list[int]:
        """Lists the places in `relevance` of inputs with any of these columns."""
        of_inputs = [
            *({column} for column in self.numbers),
            *map(set, self.categorical),
        ]
        return [i for i, of_input in enumerate(of_inputs) if of_input & {*columns}]

    def forward(
        self, x1: Tensor, x2: Tensor, diag: bool = False, **params: Any
    ) -> Tensor:
        """Computes the covariance of points ``batch_shape x q x dim``.

        It is the sum over sets of inputs that the class describes. Columns of numbers
        have lengthscales. Two points have the same option of a choice where the product
        of the choice's columns, zeros and a one, is 1.
        """
        raw_relevance = self.raw_relevance
        lengthscale = self.lengthscale if self.numbers else None
        if diag:
            # Each pair of points is a batch of its own.
            x1, x2 = x1.unsqueeze(-2), x2.unsqueeze(-2)
            raw_relevance = raw_relevance.unsqueeze(-2)
            lengthscale = None if lengthscale is None else lengthscale.unsqueeze(-3)
        agreements = None
        if self.categorical:
            products = (
                x1[..., columns] @ x2[..., columns].mT for columns in self.categorical
            )
            agreements = join_rows([product.unsqueeze(-3) for product in products], -3)
        first, second = x1, x2
        if self.categorical:
            first = x1[..., self.numbers]
            # Of one set of points it stays one.
            second = first if x1 is x2 else x2[..., self.numbers]
        inputs = first, second, lengthscale, agreements, raw_relevance
        has_graph = torch.is_grad_enabled() and any(
            part is not None and part.requires_grad for part in inputs
        )
        covariance: Tensor
        if not has_graph:
            covariance = _covariance_by_blocks(*inputs)
        elif _num_entries(first, second, raw_relevance) <= _GRAPH_ENTRIES:
            covariance = _RelevanceCovariance.apply(*inputs)
        else:
            covariance = _RecomputedCovariance.apply(*inputs)
        return covariance.squeeze((-2, -1)) if diag else covariance


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
        those of `_RelevanceCovariance`.
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


_FEW_ENTRIES, _BLOCK_ENTRIES, _GRAPH_ENTRIES = 2**13, 2**15, 2**17
"""Correlations by all inputs up to which these are computed at once, since torch takes
longer to start an operation than to do it; those by one input that are computed at a
time beyond, since more leave the cache; and those by all inputs that are stored for a
gradient, since to compute more of them again takes less time than to read them."""


def _num_entries(x1: Tensor, x2: Tensor, raw_relevance: Tensor) -> int:
    """Counts the correlations by all inputs of two sets of points."""
    batch = joint_shape(x1.shape[:-2], x2.shape[:-2], raw_relevance.shape[:-1])
    return batch.numel() * x1.shape[-2] * x2.shape[-2] * raw_relevance.shape[-1]


def _covariance_by_blocks(
    x1: Tensor,
    x2: Tensor,
    lengthscale: Tensor | None,
    agreements: Tensor | None,
    raw_relevance: Tensor,
) -> Tensor:
    """Computes the kernel without a graph, some points of ``x1`` at a time.

    The arguments are those of `_RelevanceCovariance`. Where both sets of points are one
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

    Other arguments are those of `_RelevanceCovariance`, and the shares of its inputs.
    Sums over sets are those of `_sums_over_sets`.
    """
    correlations: list[Tensor] = []
    distance, other = torch.empty_like(block), torch.empty_like(block)
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
            torch.neg(distance, out=other).exp_()
            value = distance.addcmul_(distance, distance, value=1 / 3)
            value = value.add_(1.0).mul_(other)
        else:
            value = correlations[place - numbers]
        if place == 0:
            torch.mul(share, value, out=block)
            continue
        # D = (1 - r) D + (s + r D) k, of the sum D before.
        torch.addcmul(share, relevance, block, out=other).mul_(value)
        torch.addcmul(other, irrelevance, block, out=block)


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
    of points.

    Inputs are the numbers of points, ``batch_shape x q x k`` and ``batch_shape x m x
    k``, and their lengthscales, ``batch_shape x 1 x k``, None without numbers; whether
    choices agree, ``batch_shape x c x q x m``, None without choices; and the log odds
    of relevances, ``batch_shape x n``.
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

    Its arguments and its result are those of `_RelevanceCovariance`, whose gradients it
    sums over blocks of points. What that saves would leave the cache.
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
        """Computes the covariance, ``batch_shape x q x m``, and saves the arguments."""
        inputs = x1, x2, lengthscale, agreements, raw_relevance
        ctx.save_for_backward(*inputs)
        ctx.is_symmetric = x1 is x2
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


def check_categorical(categorical: object, dim: int) -> None:
    """Checks the argument for columns that code unordered choices by zeros and a one.

    Each is one of ``dim`` columns and of one choice, and a choice has two or more.
    """
    choices = [_members(choice) for choice in _members(categorical)]
    columns = [column for choice in choices for column in choice]
    are_columns = all(type(c) is int and 0 <= c < dim for c in columns)
    # Options are compared by products of their columns: of a single one, two equal
    # options of 0 would count as different.
    have_options = all(len(choice) > 1 for choice in choices)
    if not are_columns or not have_options or len({*columns}) < len(columns):
        raise FeedbackError(
            f"categorical is {categorical!r}; give the two or more columns of each "
            f"choice, from 0 to {dim - 1}, each column once, as in [(0, 1, 2)]."
        )


def _members(value: object) -> list[Any]:
    """Lists the members of a sequence; the value itself if it is none, or a text."""
    is_sequence = isinstance(value, Sequence) and not isinstance(value, str)
    return [*cast("Sequence[Any]", value)] if is_sequence else [value]


class DuelKernel(ScaleKernel):
    r"""The prior of a person's utility: a sum of functions of few inputs each.

    A `RelevanceKernel` times an output scale :math:`s`. People's utilities are mostly
    sums of few main effects. A product of stationary kernels expects interactions of
    all inputs: it foresees the answers of real people worse, and after questions that
    it chose, it says that parameters matter which do nothing. A sum of main effects
    alone misleads the search where inputs interact, and tens of chosen answers do not
    say that they do. So a function of the sum is expected to depend on three inputs
    (``docs/models.md`` has the figures).

    Up to a constant the log density of the prior of the output scale is

    .. math:: -\frac{(\log s - \log v)^2}{2 \lambda^2}, \qquad
        v = \frac{6 \, m}{\max(d, 6)} .

    Beyond six features the mode :math:`v` falls, because noise is a share of the range
    of the utility to a person: that of a sum of :math:`d` parts is :math:`d` times the
    range of one, and its variance only :math:`d` times the variance. Duels of points
    that each meet once say nothing about :math:`v`, and with 10 in 20 dimensions the
    answers of a person who errs are trusted too much (`docs/acquisition.md`).

    Points are in the unit cube; the noise is that of the likelihood, 1 for a person who
    errs and less for one who does not.

    Args:
        dim: Number of features, after any input transform.
        batch_shape: Of the model; empty by default.
        categorical: The columns of each unordered choice, coded as zeros and a one.
        lengthscale: The mode of the lengthscales, at which they start.
        outputscale: :math:`m`, the mode of the output scale of up to six features.
        outputscale_spread: :math:`\lambda`.

    Raises:
        FeedbackError: There are no features, a mode or a spread is not positive, or
            that of lengthscales not above 0.025, the least lengthscale, or columns of
            choices are not among the features.
    """

    @checked_arguments
    def __init__(
        self,
        dim: int,
        batch_shape: torch.Size | None = None,
        *,
        categorical: Sequence[Sequence[int]] = (),
        lengthscale: float = 0.5,
        outputscale: float = 10.0,
        outputscale_spread: float = 1.0,
    ) -> None:
        """Makes the relevance kernel, and the output scale's prior around its mode.

        Beyond six features the mode falls; the output scale starts at it.
        """
        _check_positive(outputscale=outputscale, outputscale_spread=outputscale_spread)
        batch = torch.Size() if batch_shape is None else batch_shape
        base = RelevanceKernel(
            dim, batch, categorical=categorical, lengthscale=lengthscale
        )
        scale = outputscale * min(1.0, _FEW_DIMS / dim)
        super().__init__(
            base,
            batch_shape=batch,
            outputscale_prior=_around(scale, outputscale_spread),
            outputscale_constraint=Positive(**in_spreads(outputscale_spread)),
        )
        self.outputscale = scale

    def __call__(self, x1: Tensor, *args: Any, **params: Any) -> Any:
        """See base class; an error where features are not as many as lengthscales."""
        dim = self.base_kernel.dim
        active_dims = self.active_dims
        num_features = x1.shape[-1] if x1.dim() > 1 else 1
        if active_dims is not None:
            num_features = len(active_dims)
        if num_features != dim:
            raise FeedbackError(
                f"The points have {num_features} features and DuelKernel {dim}; "
                f"make it with dim={num_features}."
            )
        return super().__call__(x1, *args, **params)


def _check_positive(**numbers: float) -> None:
    """Checks that settings, by name, are positive and finite."""
    for name, number in numbers.items():
        if not 0 < number < math.inf:
            raise FeedbackError(f"{name} is {number}; give a positive finite number.")


def _relevance_prior(
    inputs: int, expected_inputs: float, relevance_spread: float, share_spread: float
) -> MultivariateNormalPrior:
    """Makes a prior of the log odds that inputs matter, which share an unknown level.

    At its mean as many inputs matter as are expected, but no more than half of them.
    Log odds vary by ``relevance_spread`` each and by ``share_spread`` together.
    """
    share = min(expected_inputs / inputs, 0.5)
    covariance = relevance_spread**2 * torch.eye(inputs, dtype=torch.float64)
    return MultivariateNormalPrior(
        torch.full((inputs,), math.log(share / (1 - share)), dtype=torch.float64),
        covariance + share_spread**2,
    )


def _around(mode: float, spread: float) -> LogNormalPrior:
    """Makes a prior whose density of the value is Gaussian in logs around a mode."""
    return LogNormalPrior(math.log(mode) + spread**2, spread)


# A fit of 60 duels in two features finds as much from ranges of 20 as from those of 1,
# less from 30, and from 100 on nothing: every point is a surprise where it starts.
_WIDE = 10.0


def warn_of_wide_ranges(points: Tensor, kernel: str) -> None:
    """Warns of a range far beyond the lengthscales at which a fit starts.

    Args:
        points: Transformed, ``batch_shape x n x d``.
        kernel: The name of the kernel, whose prior is for the unit cube.
    """
    points = points.detach().flatten(0, -2)
    widest = float((points.amax(0) - points.amin(0)).amax())
    if widest > _WIDE:
        warn_caller(
            f"A feature has a range of {widest:.3g}, and {kernel} is for the unit "
            "cube; pass input_transform=Normalize(d, bounds=...) of "
            "botorch.models.transforms.input, or a covar_module of your own.",
            InputDataWarning,
        )


_WEIGHT_SPREAD = 0.7


class CovariateWeights(Module):
    r"""The prior of covariates' weights, :math:`w \sim N(0, \mathrm{diag}(s^2))`.

    An option with the covariates ``c`` counts as :math:`f(x) + c^T w`. The rows of
    all answers become :math:`z = A f(X) + B w`: the weights are ``p`` further unknowns
    behind the utilities of the points, independent of them under the prior. Predictions
    of utilities and of duels are at covariates of 0.

    One weight says next to nothing about its own scale ``s``, and the most probable
    scale of a weight near 0 is 0, which would leave it an interval of no width. The
    prior of each scale is therefore narrow in its logarithm and has its mode at 1, the
    deviation of the noise of one item: up to a constant, its log density is
    :math:`-(\log s)^2 / (2 \cdot 0.7^2)`. It is meant for covariates of about -1 to 1;
    standardise others. Where ``w`` is small the most probable scale is no less than
    about 0.6, and takes little from what the answers say.

    Args:
        num_covariates: ``p``.
        batch_shape: Of the model.
    """

    scale = PositiveParameter()

    def __init__(self, num_covariates: int, batch_shape: torch.Size) -> None:
        super().__init__()
        prior = LogNormalPrior(_WEIGHT_SPREAD**2, _WEIGHT_SPREAD)
        start = torch.ones(*batch_shape, num_covariates, dtype=torch.float64)
        register_positive(self, "scale", start, prior)

    @property
    def batch_shape(self) -> torch.Size:
        """The batch shape of the scales."""
        return self.raw_scale.shape[:-1]

    @property
    def num_covariates(self) -> int:
        """``p``."""
        return self.raw_scale.shape[-1]

    @property
    def covariance(self) -> Tensor:
        """``diag(s^2)``, ``batch_shape x p x p``."""
        return torch.diag_embed(self.scale.square())
