"""A kernel for finding the best design by few answers."""

from __future__ import annotations

import math
from typing import Any

import torch
from gpytorch.constraints import GreaterThan, Positive
from gpytorch.kernels import MaternKernel, ScaleKernel
from gpytorch.priors import LogNormalPrior
from torch import Tensor

from botorch_pref.errors import FeedbackError
from botorch_pref.numerics.argument_ranges import checked_arguments

_IN_LOGS: Any = {"transform": torch.exp, "inv_transform": torch.log}
_LENGTHSCALE_SPREAD = 0.4
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
        -\frac{(\log s - \log 10)^2}{2 \cdot 0.7^2}, \qquad
        m = e^{\sqrt 2 - 3} \sqrt d .

    The mode :math:`m` is that of BoTorch's prior, the default of this package's models;
    what is narrower is the spread. With hundreds of answers, or where features may not
    matter, take the default. Points are in the unit cube; the noise is that of the
    likelihood, 1 for a person who errs and less for one who does not.

    Args:
        dim: Number of features, after any input transform.
        batch_shape: Of the model; empty by default.
    """

    @checked_arguments
    def __init__(self, dim: int, batch_shape: torch.Size | None = None) -> None:
        batch = torch.Size() if batch_shape is None else batch_shape
        lengthscale = math.exp(math.sqrt(2) - 3) * math.sqrt(dim)
        base = MaternKernel(
            nu=2.5,
            ard_num_dims=dim,
            batch_shape=batch,
            lengthscale_prior=_around(lengthscale, _LENGTHSCALE_SPREAD),
            lengthscale_constraint=GreaterThan(_SHORTEST, **_IN_LOGS),
        )
        base.lengthscale = lengthscale
        super().__init__(
            base,
            batch_shape=batch,
            outputscale_prior=_around(_SCALE, _SCALE_SPREAD),
            outputscale_constraint=Positive(**_IN_LOGS),
        )
        self.outputscale = _SCALE

    def forward(self, x1: Tensor, x2: Tensor, *args: Any, **params: Any) -> Any:
        """Covariances of utilities; see base class.

        Args:
            x1: ``batch_shape x n x d``.
            x2: ``batch_shape x m x d``.
            *args: See base class.
            **params: See base class.

        Raises:
            FeedbackError: There are more or fewer features than lengthscales.
        """
        dim = self.base_kernel.ard_num_dims
        if x1.shape[-1] != dim:
            raise FeedbackError(
                f"The points have {x1.shape[-1]} features and DuelKernel {dim}; make "
                f"it with dim={x1.shape[-1]}."
            )
        return super().forward(x1, x2, *args, **params)


def _around(mode: float, spread: float) -> LogNormalPrior:
    """Prior whose density of the value itself is Gaussian in logs around a mode."""
    return LogNormalPrior(math.log(mode) + spread**2, spread)
