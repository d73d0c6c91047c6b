"""Any acquisition function, kept to points that are probably valid."""

from __future__ import annotations

import math

import torch
from botorch.acquisition.acquisition import AcquisitionFunction
from botorch.utils.transforms import t_batch_mode_transform
from torch import Tensor

from botorch_pref.acquisition.point_arguments import takes_points
from botorch_pref.acquisition.wrappers.wrapped_acquisition import WrappedAcquisition
from botorch_pref.models.predictions.validity_probability import (
    log_validity_probability,
)
from botorch_pref.models.preference_gp import PreferenceGP
from botorch_pref.numerics.argument_ranges import checked_arguments

_SLOPE = 0.3


class ChanceConstrained(WrappedAcquisition):
    r"""The worth of points that are valid with at least a given probability.

    With :math:`P` the least probability among the ``q`` points that the point is valid,

    .. math:: \Big(\alpha(X) + \sqrt{1 + \alpha(X)^2}\Big)\, s(P)
        \;\; \text{if } P \ge level, \qquad \log P - \log level \;\; \text{else},

    which orders points that satisfy the chance constraint as :math:`\alpha` does, puts
    each of them above all others, and leads the others towards it: where no point
    satisfies it, the one that is most likely to be valid is best. So that optimisers
    meet a slope and no cliff, :math:`s` rises from 0 at the level to 1 three tenths of
    the way, in :math:`\log P`, from there to certainty. Unlike
    `FeasibilityWeighted`, no promise buys a trial that is likely to fail. The
    probability is the model's: it holds as far as the model does, and is not that of
    the whole run.

    Pending points are passed on; their own validity is not weighed.

    Args:
        acquisition: Any, of any model.
        feasibility_model: A model with `Validity`, for example
            ``EPPreferenceGP(X, feedback=[Validity(indices, valid)])``.
        level: The least probability of a valid trial, in (0, 1).

    Raises:
        ValueError: The level is no probability between 0 and 1.
        UnsupportedFeedbackError: The model knows nothing of validity.
    """

    @checked_arguments
    def __init__(
        self,
        acquisition: AcquisitionFunction,
        feasibility_model: PreferenceGP,
        level: float = 0.9,
    ) -> None:
        super().__init__(acquisition)
        if not 0.0 < level < 1.0:
            raise ValueError(
                f"level is {level}; give the least probability of a valid trial, "
                "between 0 and 1, such as 0.9."
            )
        self.feasibility_model = feasibility_model
        self.level = level

    @takes_points
    @t_batch_mode_transform()  # type: ignore[arg-type]
    def forward(self, X: Tensor) -> Tensor:
        """The constrained value.

        Args:
            X: ``batch_shape x q x d``.

        Returns:
            ``batch_shape``, broadcast with the batches of both models; positive where
            the constraint holds with something to spare.
        """
        log_valid = log_validity_probability(self.feasibility_model, X).amin(-1)
        margin = log_valid - math.log(self.level)
        value = self.acquisition(X)
        # value + sqrt(1 + value^2), without cancellation where value is negative.
        worth = torch.asinh(value).exp()
        rise = (margin / (_SLOPE * -math.log(self.level))).clamp(0.0, 1.0)
        return torch.where(margin >= 0, worth * rise * (2 - rise), margin)
