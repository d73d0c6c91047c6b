"""Drivers of a preference: the effect of each feature on the utility."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from botorch.models.model import Model
from torch import Generator, Tensor

QUANTILES = (0.05, 0.95)
"""The range of each feature over which its effect is told."""


@dataclass(frozen=True)
class FeatureEffect:
    """Partial dependence of the utility on one feature.

    Attributes:
        name: Name of the feature.
        values: `g` increasing values of the feature.
        mean: `g` mean changes of the utility against the first value.
        deviation: `g` posterior standard deviations of these changes.
    """

    name: str
    values: Tensor
    mean: Tensor
    deviation: Tensor


def feature_effect(
    model: Model,
    datapoints: Tensor,
    names: tuple[str, ...],
    feature: int,
    generator: Generator,
    num_values: int = 25,
    num_background: int = 16,
) -> FeatureEffect:
    """Partial dependence of the utility on one feature: a mean over the others.

    With `b` items drawn from the data and `x_b[v]` item `b` with its feature set to
    `v`, the effect at `v` is `mean_b f(x_b[v]) - mean_b f(x_b[v_1])` (Friedman, 2001,
    eq. 53). It is linear in `f`, so the posterior's joint mean and covariance give its
    own; the differences leave out the level of the utility, which comparisons never
    show.

    Args:
        model: A model with a joint posterior.
        datapoints: `n x d` items in the units that the model takes.
        names: `d` names.
        feature: Which feature moves.
        generator: Source of the drawn items.
        num_values: Number of values `g`, between the quantiles 0.05 and 0.95.
        num_background: Number of items averaged over.

    Returns:
        The effect over the range of the feature.
    """
    ends = datapoints[:, feature].quantile(datapoints.new_tensor(QUANTILES))
    values = torch.linspace(0, 1, num_values).to(ends) * (ends[1] - ends[0]) + ends[0]
    drawn = torch.randint(len(datapoints), (num_background,), generator=generator)
    X = datapoints[drawn].expand(num_values, -1, -1).clone()
    X[..., feature] = values[:, None]
    averaging = torch.eye(num_values).to(X) - torch.eye(num_values).to(X)[0]
    contrast = (averaging / num_background).repeat_interleave(num_background, dim=-1)
    with torch.no_grad():
        # Any: BoTorch's base class declares neither mean nor covariance.
        posterior: Any = model.posterior(X.flatten(end_dim=1))
        mean = contrast @ posterior.mean.squeeze(-1)
        covariance = contrast @ posterior.covariance_matrix @ contrast.T
    deviation = covariance.diagonal().clamp_min(0).sqrt()
    return FeatureEffect(names[feature], values, mean, deviation)
