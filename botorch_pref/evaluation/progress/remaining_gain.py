"""Expected gain in utility of the best of some candidates over one point."""

from __future__ import annotations

from typing import NamedTuple

import torch
from botorch.models.model import Model
from torch import Tensor

from botorch_pref.evaluation.progress.best_probability import (
    NUM_SAMPLES,
    utility_samples,
)


class RemainingGain(NamedTuple):
    """Expected gain in utility, with the standard error of its estimate.

    Attributes:
        expected: In units of utility, ``batch_shape``, at least 0.
        standard_error: Of independent samples; quasi-random ones are closer.
    """

    expected: Tensor
    standard_error: Tensor


def remaining_gain(
    model: Model,
    point: Tensor,
    candidates: Tensor,
    num_samples: int = NUM_SAMPLES,
    seed: int = 0,
) -> RemainingGain:
    r"""Expected gain of knowing the best of some candidates, over one point.

    .. math:: E\big[\max_{z \in Z \cup \{x\}} f(z) - f(x) \mid D\big],

    the expected simple regret of ``x`` among the candidates. It is 0 where nothing is
    left to be learned, and grows with the number of candidates: fill the space.

    Args:
        model: Any BoTorch model with one output.
        point: ``x``, ``batch_shape x 1 x d``.
        candidates: ``Z``, ``batch_shape x n x d``.
        num_samples: Number of joint samples.
        seed: Of the samples; the global random state stays as it is.

    Returns:
        The gain.
    """
    utilities = utility_samples(
        model, torch.cat([point, candidates], dim=-2), num_samples, seed
    )
    gain = utilities.amax(-1) - utilities[..., 0]
    return RemainingGain(gain.mean(0), gain.std(0) / num_samples**0.5)
