"""Slopes by central differences."""

from collections.abc import Callable

import torch
from torch import Tensor


def central_slopes(
    function: Callable[[], Tensor], changed: Tensor, step: float
) -> Tensor:
    """Slopes of a function without arguments in each entry of what it looks at.

    Args:
        function: Its value is one number.
        changed: Is changed in place, and is as before in the end.
        step: To either side.
    """
    entries, slopes = changed.detach().view(-1), []
    for i, start in enumerate(entries.tolist()):
        ends = []
        for moved in (start + step, start - step):
            entries[i] = moved
            ends.append(float(function().detach()))
        entries[i] = start
        slopes.append((ends[0] - ends[1]) / (2 * step))
    return torch.tensor(slopes, dtype=torch.float64).view(changed.shape)
