"""Kernels of a crowd: what people share, and tastes that a few factors explain."""

from __future__ import annotations

from typing import Any, cast

import torch
from gpytorch.constraints import Interval, Positive
from gpytorch.kernels import Kernel
from gpytorch.priors import NormalPrior
from torch import Tensor

from botorch_pref.errors import FeedbackError
from botorch_pref.likelihoods.protocol import (
    PositiveParameter,
    in_spreads,
    register_prior,
)
from botorch_pref.linalg.covariance import dense_covariance
from botorch_pref.linalg.sparse_design import distinct_rows
from botorch_pref.models.kernels import default_covar_module
from botorch_pref.models.raters import ReliabilityKernel
from botorch_pref.numerics.argument_checks import (
    check_count,
    check_finite,
    check_points,
    checked_arguments,
)


class CrowdKernel(Kernel):
    r"""Covariance of utilities that people share in part.

    .. math:: k\big((x, u), (x', u')\big) = s_u s_{u'} \, \big(k_t(x, x')
        + 1[u = u'] \, k_h(x, x')\big)

    The last column of a point is the number of its rater. The scales :math:`s_u` are 1,
    or one over the deviations of noises that are learned. Any model takes this kernel;
    :class:`.CrowdPreferenceGP` computes with it for thousands of raters.

    Args:
        shared: :math:`k_t`, of the columns of items.
        own: :math:`k_h`, of the same columns.
        reliability: Of raters who answer with more or less noise.

    Raises:
        FeedbackError: One of them is no kernel.
    """

    has_lengthscale = False

    @checked_arguments
    def __init__(
        self,
        shared: Kernel,
        own: Kernel,
        reliability: ReliabilityKernel | None = None,
    ) -> None:
        """Registers the parts, which `CrowdPreferenceGP` also evaluates one by one."""
        super().__init__()
        self.shared, self.own, self.reliability = shared, own, reliability

    def scales(self, numbers: Tensor) -> Tensor:
        """Returns one over the noise deviation of each rater, ``batch_shape x n``."""
        if self.reliability is None:
            return torch.ones_like(numbers)
        return self.reliability.deviations(numbers).reciprocal()

    def forward(
        self, x1: Tensor, x2: Tensor, diag: bool = False, **params: Any
    ) -> Tensor:
        """Computes the shared covariance, plus that of tastes for pairs of one rater.

        Both are multiplied by the scales of the two raters. Points are ``batch_shape x
        n x (d + 1)``, with the number of the rater in the last column.
        """
        first, second = x1[..., :-1], x2[..., :-1]
        first_scale, second_scale = (self.scales(x[..., -1]) for x in (x1, x2))
        if diag:
            scale = first_scale * second_scale
            same_rater = x1[..., -1] == x2[..., -1]
            shared, taste = (
                k(first, second, diag=True) for k in (self.shared, self.own)
            )
        else:
            scale = first_scale.unsqueeze(-1) * second_scale.unsqueeze(-2)
            same_rater = same_raters(x1, x2)
            shared, taste = (
                dense_covariance(k, first, second) for k in (self.shared, self.own)
            )
        return cast("Tensor", scale * (shared + torch.where(same_rater, taste, 0.0)))


def same_raters(x1: Tensor, x2: Tensor) -> Tensor:
    """Tells which of ``n`` and ``n'`` points have one rater, ``... x n x n'``."""
    return x1[..., -1].unsqueeze(-1) == x2[..., -1].unsqueeze(-2)


_LEAST_OWN = 1e-3
_LOG_SPREAD = 1.6
_START, _SPREAD = 0.3, 1.0
"""Deviations of the factors before a fit and of their prior, beside a noise of 1."""


class TasteKernel(Kernel):
    r"""Covariance of tastes that a few factors explain for the most part.

    .. math::
        h_u(x) = \sum_{k=1}^R w_{uk} v_k(x) + s \, e_u(x), \qquad w_{uk} \sim N(0, 1),

    as in crowdGPPL (Simpson and Gurevych 2020): each factor :math:`v_k` is a utility of
    the items that some people like and others dislike, drawn from a Gaussian process of
    kernel ``g``, and so is what is left, :math:`e_u`. The factors are learned with the
    evidence, as ``V = L B`` for :math:`L L' = g(Z, Z)` and a standard normal prior of
    ``B``; at other items they are what ``g`` expects. With a base kernel :math:`k_0` of
    variance one,

    .. math:: k_h(x, x') = v(x)' v(x') + s^2 g(x, x'), \qquad
        g(x, x') = (1 - \delta) \, k_0(x, x') + \delta \, 1[x = x'] .

    The ``nugget`` :math:`\delta` is the share of an item that its features do not
    explain; its log odds have a normal prior, as has the logarithm of the ``scale``
    :math:`s^2`.

    Args:
        items: ``Z``, ``n x d``, different ones.
        rank: ``R``.
        base_kernel: :math:`k_0`. Default: that of the default kernel, without scale.
        seed: Of the factors before a fit, where factors of zero would stay zero.

    Raises:
        FeedbackError: The rank is no positive integer, or the items are no finite
            points, all different.
    """

    has_lengthscale = False
    items: Tensor
    nugget = PositiveParameter()
    r""":math:`\delta`."""
    scale = PositiveParameter()
    """``s^2``."""

    @checked_arguments
    def __init__(
        self,
        items: Tensor,
        rank: int = 5,
        *,
        base_kernel: Kernel | None = None,
        seed: int = 0,
    ) -> None:
        """Draws the factors ``B``, and registers them, the nugget and the scale.

        All have normal priors: of the factors themselves, of the log odds of the nugget
        and of the log of the scale, which start at about 1/2 and at 1.
        """
        super().__init__()
        check_count("rank", rank, at_least=1)
        items = check_finite("items", check_points("items", items))
        usable = items.dim() == 2 and items.numel() > 0
        if not usable or len(distinct_rows(items)[0]) < len(items):
            raise FeedbackError(
                f"items has shape {tuple(items.shape)}; give n x d, at least one row "
                "and none of them twice (items.unique(dim=0) has each once)."
            )
        self.register_buffer("items", items.detach().clone())
        default: Any = default_covar_module(items.shape[-1], torch.Size())
        self.base_kernel = default.base_kernel if base_kernel is None else base_kernel
        generator = torch.Generator().manual_seed(seed)
        start = _START * torch.randn(len(items), rank, generator=generator)
        self.register_parameter("factors", torch.nn.Parameter(start.to(items)))
        register_prior(self, "factors", NormalPrior(0.0, _SPREAD))
        for raw, constraint in (
            ("raw_nugget", Interval(_LEAST_OWN, 1.0)),
            ("raw_scale", Positive(**in_spreads(1.0))),
        ):
            self.register_parameter(raw, torch.nn.Parameter(items.new_zeros(())))
            self.register_constraint(raw, constraint)
            register_prior(self, raw, NormalPrior(0.0, _LOG_SPREAD))

    def similarity(self, x1: Tensor, x2: Tensor) -> Tensor:
        r"""Computes the similarity of items, ``batch_shape x n x n'``.

        :math:`g(x, x') = (1 - \delta) k_0(x, x') + \delta 1[x = x']` with the nugget
        :math:`\delta`, the share of an item that its features do not explain.
        """
        same_item = (x1.unsqueeze(-2) == x2.unsqueeze(-3)).all(-1)
        base = dense_covariance(self.base_kernel, x1, x2)
        return (1 - self.nugget) * base + torch.where(same_item, self.nugget, 0.0)

    def factor_utilities(self, x: Tensor) -> Tensor:
        r"""Computes what each factor gives to items, ``batch_shape x n x R``.

        With the learned ``factors`` ``B`` and :math:`L L' = g(Z, Z)` at the kernel's
        own items ``Z`` that is :math:`v(x) = g(x, Z) L^{-T} B`: ``L B`` at ``Z``, and
        elsewhere the mean given these of a Gaussian process with the covariance ``g``.
        """
        if x.shape[-1] != self.items.shape[-1]:
            raise FeedbackError(
                f"TasteKernel has items of {self.items.shape[-1]} features, and the "
                f"model has some of {x.shape[-1]}; give it items as the model has "
                "them, without the number of the rater."
            )
        root = torch.linalg.cholesky(self.similarity(self.items, self.items))
        weights = torch.linalg.solve_triangular(root.mT, self.factors, upper=True)
        return self.similarity(x, self.items) @ weights

    def forward(
        self, x1: Tensor, x2: Tensor, diag: bool = False, **params: Any
    ) -> Tensor:
        r"""Computes the covariance of a taste, :math:`v(x)' v(x') + s^2 g(x, x')`.

        The first part is by the factors, the second is the ``scale`` times the
        similarity. Points are ``batch_shape x n x d`` items, without raters.
        """
        first, second = self.factor_utilities(x1), self.factor_utilities(x2)
        if diag:
            similarity = (1 - self.nugget) * self.base_kernel(x1, x2, diag=True)
            similarity = similarity + torch.where((x1 == x2).all(-1), self.nugget, 0.0)
            return (first * second).sum(-1) + self.scale * similarity
        return first @ second.mT + self.scale * self.similarity(x1, x2)
