"""Connected components of the graph whose edges are answers."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from botorch_pref.feedback import Feedback


def connected_components(num_points: int, feedback: Sequence[Feedback]) -> Tensor:
    """Numbers of the connected components into which answers join the points.

    An answer about several points joins them. Absolute answers, such as ratings, put
    all their points on one scale and join these. Utilities of points in different
    components are compared by the prior alone: a duel across them teaches most.

    Args:
        num_points: ``n``.
        feedback: Blocks of answers without batches, with indices below ``n``.

    Returns:
        ``n`` long: the number of each point's component, from 0, in the order of the
        first points.
    """
    edges = torch.cat([torch.empty(2, 0).long(), *map(_edges, feedback)], dim=-1)
    label = torch.arange(num_points)
    while True:
        least = label[edges].amin(0)
        new = label.clone()
        for ends in edges:
            new = new.scatter_reduce(0, ends, least, reduce="amin")
        new = new[new]
        if torch.equal(new, label):
            return torch.unique(label, return_inverse=True)[1]
        label = new


def _edges(block: Feedback) -> Tensor:
    """Edges between points of a block, ``2 x e``: a star for each answer."""
    fields = [getattr(block, name) for name in block.index_fields]
    groups = [field.cpu() for field in fields if field is not None]
    if not block.relative:
        groups = [torch.cat([group.flatten() for group in groups]).unsqueeze(0)]
    stars = []
    for group in groups:
        if group.dim() == 2:
            first = group[:, :1].expand_as(group)
            stars.append(torch.stack([first.flatten(), group.flatten()]))
    edges = torch.cat(stars, dim=-1)
    return edges[:, (edges >= 0).all(0)]
