"""Where expectation propagation starts with answers that are new."""

from __future__ import annotations

from typing import Any, cast

import torch
from torch import Tensor

from botorch_pref.inference.ep.assumed_density import assumed_density_sites
from botorch_pref.likelihoods.factors.joint_factors import joint_factors
from botorch_pref.models.data.training_set import TrainingSet
from botorch_pref.models.preference_gp import PreferenceGP


@torch.no_grad()
def expected_sites(model: PreferenceGP, more: TrainingSet) -> tuple[Tensor, Tensor]:
    """Sites of further answers under a model's posterior.

    From here instead of from empty sites the sweeps end one to ten earlier: an empty
    site's first step is the only one at first, and the reactions to it look as if it
    had been too long.

    Args:
        model: In eval mode, with a posterior.
        more: Answers, and the points that they are about.

    Returns:
        Precisions and shifts, each ``batch_shape x m``.
    """
    # Not an ensemble's own, which is of points that all members share.
    moments = PreferenceGP._moments(model, more.datapoints)
    posterior: Any = model._make_posterior(moments)
    factors = cast("Any", joint_factors(model._factor_blocks(more)))
    mean = posterior.mean.squeeze(-1)
    return assumed_density_sites(factors, mean, posterior.covariance_matrix)
