"""Points that stand for a box where the best of it is sought beside one point."""

from __future__ import annotations

import torch
from botorch.utils.sampling import (
    draw_sobol_samples,
    manual_seed,
    sample_truncated_normal_perturbations,
)
from torch import Tensor

from botorch_pref.errors import BotorchPrefError

NUM_CANDIDATES = 512
NEAR = (0.1, 0.03, 0.01)
"""Deviations of points near another one, in ranges of the inputs."""


def stopping_candidates(
    recommended: Tensor,
    bounds: Tensor,
    num_candidates: int = NUM_CANDIDATES,
    seed: int = 0,
) -> Tensor:
    """Candidates for the advice to stop: a half all over a box, the others nearby.

    What could be better than a recommended point is on another hill, or further up on
    its own. In several dimensions no number of points all over the box comes near
    enough to it to show the second.

    Args:
        recommended: ``1 x d``, in the box.
        bounds: ``2 x d``, lower and upper ends.
        num_candidates: ``n``, at least 2.
        seed: Of the points; the global random state stays as it is.

    Returns:
        ``n x d``: points of a scrambled Sobol sequence, then those of `near_points`.

    Raises:
        BotorchPrefError: Fewer than two candidates, or no point of the box.
    """
    if num_candidates < 2:
        raise BotorchPrefError(
            f"num_candidates is {num_candidates}; give at least 2, one all over the "
            "box and one nearby."
        )
    box = bounds.to(recommended)
    # What was brought back from another scale may be off by rounding.
    slack = 1e-6 * (box[1] - box[0])
    inside = (recommended >= box[0] - slack) & (recommended <= box[1] + slack)
    if recommended.shape != (1, bounds.shape[-1]) or not inside.all():
        raise BotorchPrefError(
            f"recommended is {recommended.tolist()}; give one point, 1 x "
            f"{bounds.shape[-1]}, within the bounds {bounds.tolist()}."
        )
    far = num_candidates // 2
    spread = draw_sobol_samples(box, far, 1, seed=seed).squeeze(-2)
    near = near_points(recommended, box, num_candidates - far, seed)
    return torch.cat([spread, near])


def near_points(point: Tensor, bounds: Tensor, num_points: int, seed: int) -> Tensor:
    """Points around another one, Gaussian within a box.

    A tenth, three hundredths and a hundredth of the range away in each input, a third
    of the points each.

    Args:
        point: ``1 x d``.
        bounds: ``2 x d``.
        num_points: ``n``.
        seed: Of the points; the global random state stays as it is.

    Returns:
        ``n x d``.
    """
    counts = [len(range(i, num_points, len(NEAR))) for i in range(len(NEAR))]
    box = bounds.to(point)
    # BoTorch draws from torch's global generator, here seeded and restored.
    with manual_seed(seed):
        rings = [
            sample_truncated_normal_perturbations(point, count, deviation, box)
            for count, deviation in zip(counts, NEAR, strict=True)
            if count > 0
        ]
    # An input whose range is one value has no share of it to move by.
    return torch.cat(rings).clamp(box[0], box[1])
