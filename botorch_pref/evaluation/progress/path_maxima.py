"""Largest values in a box of functions that are drawn from a posterior."""

from __future__ import annotations

import torch
from botorch.generation.gen import gen_candidates_scipy
from botorch.models.model import Model
from botorch.sampling.pathwise import draw_matheron_paths
from botorch.utils.sampling import manual_seed
from torch import Tensor

RESTARTS = 3
"""Starts of each function that are followed uphill."""

STEPS = 100


def path_maxima(
    model: Model,
    points: Tensor,
    starts: Tensor,
    bounds: Tensor,
    num_paths: int,
    seed: int = 0,
) -> tuple[Tensor, Tensor]:
    """Draws functions from a posterior, and finds the largest value of each in a box.

    Of each function the best of the starts are followed uphill by L-BFGS-B, so that a
    value is that of a local maximum, at least as large as at every start.

    Args:
        model: A model that BoTorch draws Matheron paths of, see `DuelingThompson`;
            neither a batch nor an ensemble.
        points: ``n x d``.
        starts: ``m x d``, in the box.
        bounds: ``2 x d``.
        num_paths: Number of functions.
        seed: Of the functions; the global random state stays as it is.

    Returns:
        The functions' values at the points, ``num_paths x n``, and their largest
        values in the box, ``num_paths``.
    """
    box = bounds.to(starts)
    # BoTorch draws features from torch's global generators, here seeded and restored.
    with manual_seed(seed), torch.no_grad():
        paths = draw_matheron_paths(model, sample_shape=torch.Size([num_paths]))
    with torch.no_grad():
        values, at_starts = paths(points), paths(starts)
    best = at_starts.topk(min(RESTARTS, len(starts)), dim=-1).indices
    _, found = gen_candidates_scipy(
        starts[best],
        paths,  # type: ignore[arg-type]  # It takes any function of points.
        lower_bounds=box[0],
        upper_bounds=box[1],
        options={"maxiter": STEPS},
        use_parallel_mode=False,
    )
    largest = torch.maximum(found.detach(), at_starts.gather(-1, best)).amax(-1)
    return values, largest
