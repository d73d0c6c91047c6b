"""Where a box is searched for something better: candidates, and maxima of draws."""

import math

import numpy as np
import pytest
import torch
from torch import Tensor

from botorch_pref import (
    DuelKernel,
    EPPreferenceGP,
    PairwiseProbitLikelihood,
)
from botorch_pref.errors import BotorchPrefError
from botorch_pref.evaluation import stopping_advice, stopping_candidates
from botorch_pref.evaluation.progress import NEAR, near_points, path_maxima

BOX = torch.tensor([[0.0], [1.0]], dtype=torch.double)


def column(*values: float) -> Tensor:
    return torch.tensor(values, dtype=torch.double).unsqueeze(-1)


@pytest.fixture(scope="module")
def model() -> EPPreferenceGP:
    """A few answers of a person who errs, and a prior that leaves more to be had."""
    kernel = DuelKernel(dim=1)
    kernel.outputscale, kernel.base_kernel.lengthscale = 8.0, 0.2
    pairs = torch.tensor([[1, 0], [1, 2], [2, 3]])
    return EPPreferenceGP(
        column(0.1, 0.4, 0.7, 0.9),
        pairs,
        covar_module=kernel,
        likelihood=PairwiseProbitLikelihood(),
    ).eval()


def on_grid(model: EPPreferenceGP, points: Tensor, number: int) -> np.ndarray:
    with torch.no_grad():
        joint = model.posterior(points)
    return np.random.default_rng(1).multivariate_normal(
        joint.mean.squeeze(-1).numpy(),
        joint.distribution.covariance_matrix.numpy(),
        number,
        method="eigh",
    )


@pytest.mark.slow
def test_they_are_those_of_a_fine_grid(model: EPPreferenceGP) -> None:
    points = column(0.4, 0.1, 0.9)
    starts = torch.linspace(0, 1, 9, dtype=torch.double).unsqueeze(-1)
    number = 128
    values, largest = path_maxima(model, points, starts, BOX, number)
    assert values.shape == (number, 3)
    assert largest.shape == (number,)
    grid = torch.linspace(0, 1, 101, dtype=torch.double).unsqueeze(-1)
    draws = on_grid(model, torch.cat([points, grid]), 20_000)
    truth = draws[:, 3:].max(1)
    for found, true in (
        (largest - values[:, 0], truth - draws[:, 0]),
        (values.amax(-1) - values.amin(-1), np.ptp(draws[:, :3], axis=1)),
    ):
        error = true.std() * math.sqrt(1 / number + 1 / len(true))
        # Random Fourier features are off by less than a hundredth of a deviation, and
        # what lies between the points of the grid by less than that.
        assert abs(float(found.mean()) - true.mean()) < 4 * error + 0.02 * true.std()


@pytest.mark.slow
def test_no_start_and_no_other_point_is_above_them(model: EPPreferenceGP) -> None:
    starts = torch.linspace(0, 1, 5, dtype=torch.double).unsqueeze(-1)
    values, largest = path_maxima(model, starts, starts, BOX, 64, seed=3)
    # `values` are those at the starts.
    assert bool((largest >= values.amax(-1)).all())
    fine = torch.linspace(0, 1, 201, dtype=torch.double).unsqueeze(-1)
    everywhere, again = path_maxima(model, fine, starts, BOX, 64, seed=3)
    assert torch.equal(largest, again)
    # Five starts may miss a hill; most are found, to the fineness of the grid.
    missed = everywhere.amax(-1) > largest + 1e-3
    assert float(missed.double().mean()) < 0.1


@pytest.mark.slow
def test_the_advice_searches_the_whole_box(model: EPPreferenceGP) -> None:
    best, shown = column(0.4), column(0.1, 0.4, 0.7, 0.9)
    state = torch.random.get_rng_state()
    options = {"recommended": best, "shown": shown, "gain_tolerance": 0.3}
    candidates = column(0.35, 0.45, 0.8)
    advice = stopping_advice(model, candidates, bounds=BOX, **options)
    assert torch.equal(state, torch.random.get_rng_state())
    assert advice == stopping_advice(model, candidates, bounds=BOX, **options)
    grid = torch.linspace(0, 1, 101, dtype=torch.double).unsqueeze(-1)
    draws = on_grid(model, torch.cat([best, shown, grid]), 20_000)
    gain, extent = draws.max(1) - draws[:, 0], np.ptp(draws[:, 1:5], axis=1)
    error = 4 / math.sqrt(128)
    assert abs(advice.expected_gain - gain.mean()) < error * gain.std()
    little = (gain < 0.3 * extent).mean()
    assert abs(advice.gain_confidence - little) < error * math.sqrt(
        little * (1 - little)
    )
    # Three candidates alone leave most of it out.
    alone = stopping_advice(model, candidates, **options)
    assert alone.expected_gain < 0.8 * gain.mean()


def test_an_ensemble_is_refused(
    monkeypatch: pytest.MonkeyPatch, model: EPPreferenceGP
) -> None:
    monkeypatch.setattr(type(model), "_is_ensemble", True)
    with pytest.raises(BotorchPrefError, match="bounds are given for an ensemble"):
        stopping_advice(model, column(0.4), bounds=BOX)


BOUNDS = torch.tensor([[-1.0, 0.0, 10.0], [1.0, 5.0, 20.0]], dtype=torch.double)


def test_a_half_is_all_over_the_box_and_the_others_are_nearby() -> None:
    best = torch.tensor([[0.0, 2.5, 15.0]], dtype=torch.double)
    found = stopping_candidates(best, BOUNDS, 768)
    assert found.shape == (768, 3)
    shares = (found - BOUNDS[0]) / (BOUNDS[1] - BOUNDS[0])
    cells = (shares[:384] * 4).floor().long() @ torch.tensor([16, 4, 1])
    # Scrambled Sobol points: 256 of them fall into 64 cells by fours.
    assert torch.bincount(cells[:256], minlength=64).tolist() == [4] * 64
    for i, deviation in enumerate(NEAR):
        z = (shares[384 + 128 * i : 512 + 128 * i] - 0.5) / deviation
        # Truncated at 5 deviations or more. Of 128 points, were they independent.
        assert abs(float(z.square().mean()) - 1) < 4 * math.sqrt(2 / 384)


def test_they_stay_in_the_box_and_leave_the_random_state_alone() -> None:
    corner = BOUNDS[:1].clone()
    before = torch.random.get_rng_state()
    first, second = (near_points(corner, BOUNDS, 10, seed=3) for _ in range(2))
    assert torch.equal(torch.random.get_rng_state(), before)
    assert torch.equal(first, second)
    assert len(first) == 10
    assert bool(((first >= BOUNDS[0]) & (first <= BOUNDS[1])).all())
    assert not torch.equal(first, near_points(corner, BOUNDS, 10, seed=4))


def test_fewer_than_two_are_refused() -> None:
    best = BOUNDS.mean(0, keepdim=True)
    assert stopping_candidates(best, BOUNDS, 2).shape == (2, 3)
    with pytest.raises(BotorchPrefError, match="num_candidates is 1"):
        stopping_candidates(best, BOUNDS, 1)


@pytest.mark.parametrize("shift", [[2.0, 0.0, 0.0], [0.0, 0.0, -6.0], [math.nan] * 3])
def test_what_is_recommended_is_one_point_of_the_box(shift: list[float]) -> None:
    best = BOUNDS.mean(0, keepdim=True)
    with pytest.raises(BotorchPrefError, match="recommended is"):
        stopping_candidates(best + torch.tensor(shift), BOUNDS)
    with pytest.raises(BotorchPrefError, match="give one point, 1 x 3"):
        stopping_candidates(BOUNDS, BOUNDS)


def test_an_input_of_one_value_keeps_it() -> None:
    bounds = BOUNDS.clone()
    bounds[:, 1] = 5.0
    assert bool((stopping_candidates(bounds[:1], bounds)[:, 1] == 5).all())
