"""Priors: default mean and kernel, the kernel of duels, the weights of covariates."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial
from typing import Any, ClassVar

import torch
from botorch.exceptions.warnings import InputDataWarning
from botorch.models.utils.gpytorch_modules import get_covar_module_with_dim_scaled_prior
from gpytorch import Module
from gpytorch.constraints import GreaterThan, Positive
from gpytorch.kernels import Kernel, MaternKernel, ScaleKernel
from gpytorch.means import ConstantMean, Mean, ZeroMean
from gpytorch.priors import GammaPrior, LogNormalPrior
from torch import Tensor

from botorch_pref.errors import FeedbackError, warn_caller
from botorch_pref.feedback import Feedback
from botorch_pref.likelihoods.base import PositiveParameter, register_positive
from botorch_pref.numerics.argument_ranges import check_count, checked_arguments

IN_LOGS: Any = {"transform": torch.exp, "inv_transform": torch.log}


def _exp(spread: float, raw: Tensor) -> Tensor:
    return torch.exp(spread * raw)


def _log(spread: float, value: Tensor) -> Tensor:
    return torch.log(value) / spread


def in_spreads(spread: float) -> dict[str, Any]:
    """Keywords of a constraint whose raw value is the logarithm in a prior's spreads.

    Priors then have equal curvatures where a fit starts: it takes a fifth less work.
    """
    return {"transform": partial(_exp, spread), "inv_transform": partial(_log, spread)}


def default_mean_module(feedback: Sequence[Feedback], batch_shape: torch.Size) -> Mean:
    """Zero where only differences are seen, else a learned constant."""
    if all(block.relative for block in feedback):
        return ZeroMean(batch_shape=batch_shape)
    return ConstantMean(batch_shape=batch_shape)


def default_covar_module(dim: int | None, batch_shape: torch.Size) -> Kernel:
    """A scaled RBF-ARD kernel with BoTorch's dimension-scaled lengthscale prior.

    Both kinds of scale are optimised in log space, where the evidence of comparisons is
    closer to quadratic: a third of the evaluations of BoTorch's parametrisation. The
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


_LENGTHSCALE_SPREAD = 0.4
_FEW_DIMS = 6
_SCALE, _SCALE_SPREAD = 10.0, 0.7
_SHORTEST = 0.025


class DuelKernel(ScaleKernel):
    r"""A Matern-5/2 kernel whose scales a few answers cannot carry far.

    The evidence of some tens of duels says little about lengthscales, and its optimum
    wanders: towards 0, where every point is a surprise, or so far up that utilities are
    all but linear and the best point is in a corner. A person who errs makes it worse.
    The priors of the lengthscales :math:`\ell` and of the output scale :math:`s` are
    therefore narrow in their logarithms: up to constants, the log densities are

    .. math:: -\frac{(\log \ell_i - \log m)^2}{2 \cdot 0.4^2}, \qquad
        -\frac{(\log s - \log v)^2}{2 \cdot 0.7^2}, \qquad
        m = e^{\sqrt 2 - 3} \sqrt{\min(d, 6)}, \qquad v = \frac{60}{\max(d, 6)} .

    Up to six features the mode :math:`m` is that of BoTorch's prior, the default of
    this package's models; what is narrower is the spread. BoTorch's grows on, to 1.6 in
    64 dimensions, with which a few tens of duels find less (`docs/acquisition.md`).

    From six features on the mode :math:`v` falls, because noise is felt as a share of
    the range of the utility: that of a sum of :math:`d` parts is :math:`d` times the
    range of one, and its variance only :math:`d` times the variance. Duels of points
    that each meet once say nothing about :math:`v`, and with 10 in 20 dimensions the
    answers of a person who errs are trusted too much (`docs/acquisition.md`).

    With hundreds of answers, or where features may not matter, take the default of the
    models. Points are in the unit cube; the noise is that of the likelihood, 1 for a
    person who errs and less for one who does not.

    Args:
        dim: Number of features, after any input transform.
        batch_shape: Of the model; empty by default.
        lengthscale: The mode ``m``, at which lengthscales start; the above by default.

    Raises:
        FeedbackError: There are no features, or the mode is not above 0.025, the least
            lengthscale.
    """

    scales_base: ClassVar[bool] = True
    """That it is an output scale times its base kernel, as `dense_covariance` asks."""

    @checked_arguments
    def __init__(
        self,
        dim: int,
        batch_shape: torch.Size | None = None,
        *,
        lengthscale: float | None = None,
    ) -> None:
        check_count("dim", dim, at_least=1)
        batch = torch.Size() if batch_shape is None else batch_shape
        if lengthscale is None:
            lengthscale = math.exp(math.sqrt(2) - 3) * math.sqrt(min(dim, _FEW_DIMS))
        if not _SHORTEST < lengthscale < math.inf:
            raise FeedbackError(
                f"lengthscale is {lengthscale}; give a finite number above {_SHORTEST}."
            )
        base = MaternKernel(
            nu=2.5,
            ard_num_dims=dim,
            batch_shape=batch,
            lengthscale_prior=_around(lengthscale, _LENGTHSCALE_SPREAD),
            lengthscale_constraint=GreaterThan(
                _SHORTEST, **in_spreads(_LENGTHSCALE_SPREAD)
            ),
        )
        base.lengthscale = lengthscale
        scale = _SCALE * min(1.0, _FEW_DIMS / dim)
        super().__init__(
            base,
            batch_shape=batch,
            outputscale_prior=_around(scale, _SCALE_SPREAD),
            outputscale_constraint=Positive(**in_spreads(_SCALE_SPREAD)),
        )
        self.outputscale = scale

    def __call__(self, x1: Tensor, *args: Any, **params: Any) -> Any:
        """See base class; an error where features are not as many as lengthscales."""
        dim = self.base_kernel.ard_num_dims
        own = self.active_dims
        given = len(own) if own is not None else x1.shape[-1] if x1.dim() > 1 else 1
        if given != dim:
            raise FeedbackError(
                f"The points have {given} features and DuelKernel {dim}; make it with "
                f"dim={given}."
            )
        return super().__call__(x1, *args, **params)


def _around(mode: float, spread: float) -> LogNormalPrior:
    """Prior whose density of the value itself is Gaussian in logs around a mode."""
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

    An option with the covariates ``c`` is heard as :math:`f(x) + c^T w`. The rows of
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
