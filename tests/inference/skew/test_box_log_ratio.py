"""The log ratio of boxed factors to their sites, in every tail."""

import math

import pytest
import torch
from botorch.utils.probability.utils import log_ndtr
from draws import normal

from botorch_pref.inference.skew.coordinates import box_log_ratio
from botorch_pref.numerics.normal import interval_derivatives

INF = math.inf
LOWER = torch.tensor([0.0, -INF, -0.5, 1.0], dtype=torch.float64)
UPPER = torch.tensor([INF, 0.3, 0.5, INF], dtype=torch.float64)
VARIANCE = torch.tensor([0.5, 1e-4, 0.2, 3.0], dtype=torch.float64)
SHIFT = torch.tensor([0.3, -2.0, 0.0, 1.0], dtype=torch.float64)
PRECISION = torch.tensor([0.1, 5.0, 0.7, 0.0], dtype=torch.float64)
TERMS = (VARIANCE, LOWER, UPPER, SHIFT, PRECISION)


def by_definition(z):
    """Sums row by row; ``log_ndtr`` is BoTorch's."""
    scale = VARIANCE.sqrt()
    below, above = ((LOWER - z) / scale).unbind(-1), ((UPPER - z) / scale).unbind(-1)
    log = torch.stack(
        [
            log_ndtr(-below[0]),
            log_ndtr(above[1]),
            interval_derivatives(below[2], above[2])[0],
            log_ndtr(-below[3]),
        ],
        dim=-1,
    )
    return (log - SHIFT * z + 0.5 * PRECISION * z.square()).sum(-1)


@pytest.mark.parametrize("scale", [0.1, 1.0, 10.0, 800.0])
def test_value_and_gradient(scale) -> None:
    """The short way through ``erfc`` and the tail's agree with the definition."""
    z = scale * normal(50, 4)
    z.requires_grad_()
    expected = by_definition(z)
    (gradient,) = torch.autograd.grad(expected.sum(), z)
    value, slope = box_log_ratio(*TERMS)(z.detach())
    torch.testing.assert_close(value, expected.detach(), rtol=1e-11, atol=1e-11)
    torch.testing.assert_close(slope, gradient, rtol=1e-9, atol=1e-9)


def test_either_side_of_the_tail() -> None:
    """One sample in the far tail sends all through the accurate branch."""
    ratio = box_log_ratio(*TERMS)
    near = torch.zeros(1, 4, dtype=torch.float64)
    far = torch.full((1, 4), -90.0, dtype=torch.float64)
    joint, _ = ratio(torch.cat([near, far]))
    torch.testing.assert_close(joint[:1], ratio(near)[0], rtol=1e-12, atol=1e-12)


def test_batches_with_ends_of_their_own() -> None:
    """A row that is two-sided in one element only is treated right in both."""
    lower = torch.tensor([[0.0, -0.5], [0.0, 0.0]], dtype=torch.float64)
    upper = torch.tensor([[INF, 0.5], [0.2, INF]], dtype=torch.float64)
    terms = [t[:2].expand(2, 2) for t in (VARIANCE, SHIFT, PRECISION)]
    z = normal(7, 2, 2, seed=2)
    value, slope = box_log_ratio(terms[0], lower, upper, *terms[1:])(z)
    for i in range(2):
        alone = box_log_ratio(
            terms[0][i], lower[i], upper[i], terms[1][i], terms[2][i]
        )(z[:, i])
        torch.testing.assert_close(value[:, i], alone[0])
        torch.testing.assert_close(slope[:, i], alone[1])
