"""Priors: default mean and kernel, the kernel of duels, the weights of covariates."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, cast

import torch
from botorch.exceptions.warnings import InputDataWarning
from botorch.models.utils.gpytorch_modules import get_covar_module_with_dim_scaled_prior
from gpytorch import Module
from gpytorch.constraints import GreaterThan, Positive
from gpytorch.kernels import Kernel, ScaleKernel
from gpytorch.means import ConstantMean, Mean, ZeroMean
from gpytorch.priors import GammaPrior, LogNormalPrior, MultivariateNormalPrior
from torch import Tensor
from torch.nn import Parameter

from botorch_pref.errors import FeedbackError, warn_caller
from botorch_pref.feedback import Feedback
from botorch_pref.likelihoods.protocol import (
    IN_LOGS,
    PositiveParameter,
    in_spreads,
    register_positive,
    register_prior,
)
from botorch_pref.linalg.covariance import join_rows
from botorch_pref.models.relevance_covariance import relevance_covariance
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
        covariance = relevance_covariance(
            first, second, lengthscale, agreements, raw_relevance
        )
        return covariance.squeeze((-2, -1)) if diag else covariance


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
