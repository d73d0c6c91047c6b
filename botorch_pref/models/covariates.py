r"""Covariates of answers: the position in which options were shown, a style, the time.

An option with the covariates ``c`` is heard as :math:`f(x) + c^T w`. The rows of all
answers become

.. math:: z = A f(X) + B w, \qquad w \sim N(0, \mathrm{diag}(s^2)),

so that the weights ``w`` stand behind the utilities of the points as ``p`` further
unknowns of every engine: independent of utilities under the prior, and not under the
posterior. Predictions of utilities and of duels are at covariates of 0.
"""

from __future__ import annotations

import torch
from gpytorch import Module
from gpytorch.priors import LogNormalPrior
from torch import Tensor

from botorch_pref.likelihoods.base import PositiveParameter, register_positive

_SCALE_SPREAD = 0.7


class CovariateWeights(Module):
    r"""The prior of covariates' weights, :math:`w \sim N(0, \mathrm{diag}(s^2))`.

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
        prior = LogNormalPrior(_SCALE_SPREAD**2, _SCALE_SPREAD)
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
