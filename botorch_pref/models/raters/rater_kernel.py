"""Kernels over stimuli and the raters who judge them."""

from __future__ import annotations

from typing import Any

import torch
from gpytorch.constraints import Interval
from gpytorch.kernels import Kernel, ProductKernel
from gpytorch.priors import NormalPrior
from torch import Tensor

from botorch_pref.models.default_prior import default_covar_module

# A normal of this deviation on the log odds is nearly flat in the agreement itself: its
# density stays within 9 % of 1 on (0.1, 0.9) and falls to 0 at both ends, where
# a handful of answers would otherwise put the estimate.
_LOG_ODDS_DEVIATION = 1.6


class AgreementKernel(Kernel):
    r"""Covariance between raters who are known by number only.

    .. math:: k(u, u') = \rho + (1 - \rho) \, 1[u = u'],

    so that the utility of rater :math:`u` is
    :math:`\sqrt\rho \, g(x) + \sqrt{1 - \rho} \, h_u(x)`: something all share and
    something of his own, independent draws of the same process. :math:`\rho`, the
    *agreement*, is the correlation of two raters' utilities: with 1 they are one
    person, with 0 they have nothing to do with each other.

    One parameter for any number of raters, where a free covariance between them
    (GPyTorch's ``IndexKernel``) has some for each: it is identified by a few answers
    per rater, and it says what a rater without any answers prefers.

    Args:
        batch_shape: Of the model.
        active_dims: The column with the rater's number.
    """

    has_lengthscale = False

    def __init__(
        self,
        batch_shape: torch.Size | None = None,
        active_dims: tuple[int, ...] | None = None,
    ) -> None:
        shape = torch.Size() if batch_shape is None else batch_shape
        super().__init__(batch_shape=shape, active_dims=active_dims)
        self.register_parameter("raw_agreement", torch.nn.Parameter(torch.zeros(shape)))
        self.register_constraint("raw_agreement", Interval(0.0, 1.0))
        prior = NormalPrior(0.0, _LOG_ODDS_DEVIATION)
        self.register_prior("agreement_prior", prior, _log_odds, _set_log_odds)

    @property
    def agreement(self) -> Tensor:
        r""":math:`\rho`, of the model's batch shape, in (0, 1)."""
        return self.raw_agreement_constraint.transform(self.raw_agreement)

    @agreement.setter
    def agreement(self, value: float | Tensor) -> None:
        tensor = torch.as_tensor(value).to(self.raw_agreement)
        raw = self.raw_agreement_constraint.inverse_transform(tensor)
        self.initialize(raw_agreement=raw.expand_as(self.raw_agreement))

    def forward(
        self, x1: Tensor, x2: Tensor, diag: bool = False, **params: Any
    ) -> Tensor:
        """See base class.

        Args:
            x1: ``batch_shape x n x 1`` numbers of raters.
            x2: ``batch_shape x n' x 1``.
            diag: Whether only the covariances of equal rows are wanted.
            params: Ignored.
        """
        if diag:
            same = (x1 == x2).all(-1)
            agreement = self.agreement.unsqueeze(-1)
        else:
            same = (x1.unsqueeze(-2) == x2.unsqueeze(-3)).all(-1)
            agreement = self.agreement[..., None, None]
        return torch.where(same, 1.0, agreement)


# At module level, so that they pickle.
def _log_odds(module: AgreementKernel) -> Tensor:
    return module.raw_agreement


def _set_log_odds(module: AgreementKernel, value: Tensor) -> None:
    module.initialize(raw_agreement=value)


def rater_covar_module(
    stimulus_dim: int,
    *,
    rater_dim: int | None = None,
    batch_shape: torch.Size | None = None,
) -> ProductKernel:
    r"""A kernel for answers of several people: stimulus times rater.

    .. math:: k\big((x, u), (x', u')\big) = k(x, x') \, k(u, u')

    (Jensen and Nielsen 2014, equation 14). Points carry the rater in their last
    columns. The stimulus has the package's default kernel. The rater has

    - by default one column with a number, and :class:`AgreementKernel`. Numbers need
      not be known beforehand: one never seen is a person about whom nothing is known;
    - with ``rater_dim`` that many columns of features and an RBF-ARD kernel of unit
      scale over them: people alike in these features have like utilities, and people
      equal in them have one.

    Give it as ``covar_module=`` to any model.

    Args:
        stimulus_dim: Number of leading columns that describe the stimulus.
        rater_dim: Number of columns after them that describe the rater.
        batch_shape: Of the model.
    """
    shape = torch.Size() if batch_shape is None else batch_shape
    stimulus = default_covar_module(stimulus_dim, shape)
    stimulus.active_dims = torch.arange(stimulus_dim)
    if rater_dim is None:
        return ProductKernel(stimulus, AgreementKernel(shape, (stimulus_dim,)))
    rater = default_covar_module(rater_dim, shape).base_kernel
    rater.active_dims = torch.arange(stimulus_dim, stimulus_dim + rater_dim)
    return ProductKernel(stimulus, rater)
