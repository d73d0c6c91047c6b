"""R-hat and effective sizes of processes that are known, and when there is enough."""

import math

import pytest
import torch
from draws import normal

from botorch_pref.inference.skew.sampler import (
    effective_sample_size,
    out_of_reach,
    reached,
    split_r_hat,
    worst_row,
)


def autoregressive(rho, steps, chains, batch=(), seed=0):
    """Draws stationary AR(1) chains with variance 1: autocorrelation ``rho^t``."""
    noise = normal(steps, chains, *batch, seed=seed)
    draws = [noise[0]]
    for innovation in noise[1:]:
        draws.append(rho * draws[-1] + math.sqrt(1 - rho**2) * innovation)
    return torch.stack(draws)


@pytest.mark.parametrize("rho", [-0.4, 0.0, 0.3, 0.6, 0.9])
def test_effective_size_of_autoregressive_chains(rho) -> None:
    # sum over lags of rho^|t| = (1 + rho) / (1 - rho).
    steps, chains, repeats = 1_000, 8, 64
    sizes = effective_sample_size(autoregressive(rho, steps, chains, (repeats,)))
    expected = steps * chains * (1 - rho) / (1 + rho)
    assert sizes.shape == (repeats,)
    # Truncating at the first negative pair overestimates times by a few percent, and
    # the estimate of one run scatters by some sqrt(lags summed / draws).
    assert float(sizes.mean()) == pytest.approx(expected, rel=0.06)
    assert float(sizes.std()) < 0.15 * expected


def test_size_follows_a_direct_sum_over_lags() -> None:
    """The transform agrees with the autocovariance by its definition."""
    draws = autoregressive(0.7, 41, 3, seed=5)
    chains = torch.cat([draws[:20], draws[-20:]], dim=1)
    centred = chains - chains.mean(0)
    covariance = torch.stack(
        [(centred[: 20 - t] * centred[t:]).sum(0).mean() / 20 for t in range(20)]
    )
    within = chains.var(0).mean()
    total = within * 19 / 20 + chains.mean(0).var()
    rho = 1 - (within - covariance) / total
    rho[0] = 1.0
    time, smallest = -1.0, math.inf
    for pair in rho.view(-1, 2).sum(1).tolist():
        if pair < 0:
            break
        smallest = min(smallest, pair)
        time += 2 * smallest
    assert float(effective_sample_size(draws)) == pytest.approx(120 / time, rel=1e-10)


def test_r_hat_of_independent_draws_is_one() -> None:
    steps, chains = 500, 8
    draws = normal(steps, chains, 200, seed=1)
    r_hat = split_r_hat(draws)
    # var+ / W - 1 = (B / W - 1) / N, with B / W about chi2(15) / 15.
    noise = 0.5 * math.sqrt(2 / 15) / 250
    largest, mean = float((r_hat - 1).abs().max()), float((r_hat - 1).mean().abs())
    assert largest < 5 * noise, "some R-hat of independent draws is not 1"
    assert mean < 5 * noise / math.sqrt(200), "R-hat of independent draws is biased"


def test_r_hat_of_separated_chains() -> None:
    """Chains at different places: R-hat^2 tends to 1 + var(places) / W."""
    draws = autoregressive(0.0, 4_000, 4)
    shift = torch.tensor([-1.0, 1.0, -1.0, 1.0], dtype=torch.float64)
    places = torch.cat([shift, shift]).var()
    expected = math.sqrt(1 + float(places))
    assert float(split_r_hat(draws + shift)) == pytest.approx(expected, rel=0.02)
    # Nothing but the places counts: about one draw a chain.
    assert float(effective_sample_size(draws + 100 * shift)) < 20


def test_stuck_chains() -> None:
    places = torch.tensor([0.0, 1.0, 2.0], dtype=torch.float64)
    stuck = places.expand(50, 3)
    assert float(split_r_hat(stuck)) == math.inf
    assert float(effective_sample_size(stuck)) < 8
    constant = torch.ones(50, 3, dtype=torch.float64)
    assert split_r_hat(constant).isnan()
    assert effective_sample_size(constant).isnan()


@pytest.mark.parametrize("steps", [4, 5, 7, 50])
def test_batches_equal_one_at_a_time(steps) -> None:
    draws = autoregressive(0.5, steps, 6, (2, 3))
    for function in (split_r_hat, effective_sample_size):
        together = function(draws)
        assert together.shape == (2, 3)
        for i in range(2):
            for j in range(3):
                torch.testing.assert_close(together[i, j], function(draws[:, :, i, j]))


def test_invariant_to_place_and_scale_in_single_precision() -> None:
    draws = autoregressive(0.3, 200, 8)
    moved = (100.0 + 5.0 * draws).float()
    torch.testing.assert_close(
        effective_sample_size(moved).double(),
        effective_sample_size(draws),
        rtol=1e-2,
        atol=0.0,
    )
    torch.testing.assert_close(
        split_r_hat(moved).double(), split_r_hat(draws), rtol=1e-4, atol=0.0
    )


@pytest.mark.parametrize("function", [split_r_hat, effective_sample_size])
def test_too_few_steps(function) -> None:
    with pytest.raises(ValueError, match="at least 4 steps"):
        function(torch.zeros(3, 2))


def of(value: float) -> torch.Tensor:
    return torch.tensor(value, dtype=torch.float64)


def test_the_worst_row_is_the_one_that_forgets_most_slowly() -> None:
    """Chains ``x' = c x + sqrt(1 - c^2) e`` have (1 - c) / (1 + c) of their steps."""
    c = torch.tensor([0.0, 0.8, 0.5], dtype=torch.float64)
    noise = normal(2000, 16, 3)
    steps = [noise[0]]
    for e in noise[1:]:
        steps.append(c * steps[-1] + (1 - c.square()).sqrt() * e)
    rows, free = torch.stack(steps), torch.zeros(3, dtype=torch.bool)
    _, size = worst_row(rows, free)
    assert size.item() == pytest.approx(2000 * 16 * 0.2 / 1.8, rel=0.2)
    _, size = worst_row(rows, torch.tensor([False, True, False]))
    assert size.item() == pytest.approx(2000 * 16 * 0.5 / 1.5, rel=0.2)
    r_hat, size = worst_row(rows, ~free)
    assert r_hat.item() == 1.0
    assert size.item() == math.inf
    far = rows + 2 * torch.arange(16, dtype=torch.float64)[:, None]
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
