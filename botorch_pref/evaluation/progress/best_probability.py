"""Probability that each of some points is the best of them."""

from __future__ import annotations

from typing import cast

import torch
from botorch.models.model import Model
from botorch.posteriors.torch import TorchPosterior
from botorch.sampling.get_sampler import get_sampler
from torch import Tensor
from torch.nn.functional import one_hot

NUM_SAMPLES = 4096


def best_probability(
    model: Model, points: Tensor, num_samples: int = NUM_SAMPLES, seed: int = 0
) -> Tensor:
    r"""Probability of each point to have the largest utility of all.

    .. math:: P\big(f(x_i) = \max_j f(x_j) \mid D\big),

    the share of joint posterior samples, quasi-random where there are not too many
    points for it, in which the point is the largest. A point and its copies share. The
    standard error of a probability ``p`` is at most ``sqrt(p (1 - p) / num_samples)``.

    Args:
        model: Any BoTorch model with one output.
        points: ``n x d``.
        num_samples: Number of joint samples.
        seed: Of the samples; the global random state stays as it is.

    Returns:
        ``n``, summing to 1; ``batch_shape x n`` for a batch of models.
    """
    distinct, point, copies = torch.unique(
        points, dim=0, return_inverse=True, return_counts=True
    )
    utilities = utility_samples(model, distinct, num_samples, seed)
    wins = one_hot(utilities.argmax(-1), len(distinct)).to(points)
    return (wins.mean(0) / copies)[..., point]


def utility_samples(
    model: Model, points: Tensor, num_samples: int, seed: int
) -> Tensor:
    """Joint posterior samples of utilities.

    Args:
        model: Any BoTorch model with one output.
        points: ``batch_shape x n x d``.
        num_samples: How many.
        seed: Of the base samples.

    Returns:
        ``num_samples x batch_shape x n``.
    """
    with torch.no_grad():
        posterior = cast("TorchPosterior", model.posterior(points))
        sampler = get_sampler(posterior, torch.Size([num_samples]), seed=seed)
        samples: Tensor = sampler(posterior)
        return samples.squeeze(-1)
