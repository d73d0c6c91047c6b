import math

import pytest
import torch

from botorch_pref.inference.skew.sampler import out_of_reach, reached, worst_row

DOUBLE = torch.float64


def of(value: float) -> torch.Tensor:
    return torch.tensor(value, dtype=DOUBLE)


def test_the_worst_row_is_the_one_that_forgets_most_slowly() -> None:
    """Chains ``x' = c x + sqrt(1 - c^2) e`` have (1 - c) / (1 + c) of their steps."""
    generator = torch.Generator().manual_seed(0)
    c = torch.tensor([0.0, 0.8, 0.5], dtype=DOUBLE)
    noise = torch.randn(2000, 16, 3, generator=generator, dtype=DOUBLE)
    steps = [noise[0]]
    for e in noise[1:]:
        steps.append(c * steps[-1] + (1 - c.square()).sqrt() * e)
    rows, free = torch.stack(steps), torch.zeros(3, dtype=torch.bool)
    _, size = worst_row(rows, free)
    assert size.item() == pytest.approx(2000 * 16 * 0.2 / 1.8, rel=0.2)
    _, size = worst_row(rows, torch.tensor([False, True, False]))
    assert size.item() == pytest.approx(2000 * 16 * 0.5 / 1.5, rel=0.2)
    r_hat, size = worst_row(rows, ~free)
    assert (r_hat.item(), size.item()) == (1.0, math.inf)
    far = rows + 2 * torch.arange(16, dtype=DOUBLE)[:, None]
    assert worst_row(far, free)[0].item() > 5


@pytest.mark.parametrize(
    ("r_hat", "size", "is_enough"),
    [(1.04, 100, True), (1.06, 100, False), (1.04, 99, False), (1.0, math.inf, True)],
)
def test_both_targets_count(r_hat: float, size: float, is_enough: bool) -> None:
    assert bool(reached(of(r_hat), of(size), 100)) is is_enough


@pytest.mark.parametrize(
    ("r_hat", "size", "longer", "is_out"),
    [
        # Excesses of 0.5 / 4 and 0.5 / 8, where 0.1 may still turn out to be 0.05.
        (1.5, 1000, 4, True),
        (1.5, 1000, 8, False),
        # Sizes of 200 and 400 of 500, where 250 may still turn out to be 500.
        (1.0, 50, 4, True),
        (1.0, 50, 8, False),
    ],
)
def test_a_forecast_ends_what_would_not_be_enough(
    r_hat: float, size: float, longer: int, is_out: bool
) -> None:
    assert bool(out_of_reach(of(r_hat), of(size), 500, longer)) is is_out
