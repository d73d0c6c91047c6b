"""Slopes by central differences, and gradients that are compared with them."""

from collections.abc import Callable

import torch
from draws import uniform
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


def gradients(values: Tensor, points: Tensor) -> Tensor:
    """Computes the gradient of each of some values in the points, by autograd."""
    rows = [torch.autograd.grad(v, points, retain_graph=True)[0] for v in values]
    return torch.stack(rows)


def differences(
    function: Callable[[Tensor], Tensor], points: Tensor, step: float = 1e-3
) -> Tensor:
    """Computes the Jacobian from four values a coordinate, to fourth powers."""
    out = []
    with torch.no_grad():
        for i in range(points.numel()):
            unit = torch.zeros_like(points).flatten()
            unit[i] = step
            unit = unit.view_as(points)
            a, b, c, d = (function(points + k * unit) for k in (-2, -1, 1, 2))
            out.append((a - 8 * b + 8 * c - d) / (12 * step))
    return torch.stack(out, dim=-1).unflatten(-1, points.shape)


def assert_right(
    function: Callable[[Tensor], Tensor], points: Tensor, atol: float = 1e-5
) -> None:
    """Compares the gradients of a function's values with differences, not zero."""
    leaf = points.clone().requires_grad_()
    actual, expected = gradients(function(leaf), leaf), differences(function, points)
    torch.testing.assert_close(actual, expected, rtol=1e-5, atol=atol)
    assert expected.abs().amax() > 1e-2


def assert_right_along(
    function: Callable[[Tensor], Tensor], points: Tensor, atol: float = 1e-5
) -> None:
    """Compares in one direction that no two coordinates have the same part in."""
    direction = uniform(*points.shape, seed=8) - 0.5
    zero = torch.zeros(1, dtype=torch.float64)
    assert_right(lambda t: function(points + t * direction), zero, atol)
