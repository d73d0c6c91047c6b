"""The price of near options, point by point."""

import pytest
import torch

from botorch_pref.acquisition.wrappers import nearness

SQUARED = torch.tensor([0.0, 0.25, 1.0, 1.5, 1.5625, 9.0], dtype=torch.double)


@pytest.mark.parametrize(("free", "full"), [(1.0, 0.0), (1.5625, 1.0)])
def test_it_is_the_square_of_what_is_missing(free: float, full: float) -> None:
    expected = [max(0.0, free - r) ** 2 / (free - full) ** 2 for r in SQUARED.tolist()]
    assert nearness(SQUARED, free, full).tolist() == pytest.approx(expected, abs=1e-15)
    at = torch.tensor([free, full], dtype=torch.double, requires_grad=True)
    price = nearness(at, free, full)
    assert price.tolist() == [0.0, 1.0]
    (slope,) = torch.autograd.grad(price.sum(), at)
    assert slope.tolist() == pytest.approx([0.0, -2 / (free - full)])
