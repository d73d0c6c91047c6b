"""Points that stand for a box in the advice to stop."""

import math

import pytest
import torch
from torch import Tensor

from botorch_pref import Comparisons, EPPreferenceGP, PairwiseProbitLikelihood
from botorch_pref.errors import BotorchPrefError
from botorch_pref.evaluation import stopping_advice, stopping_candidates
from botorch_pref.evaluation.progress import NEAR, near_points

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


def six_dimensional_hill(X: Tensor) -> Tensor:
    return -(X - 0.5).square().sum(-1)


def test_in_six_dimensions_only_those_nearby_see_that_more_is_to_be_had() -> None:
    generator = torch.Generator().manual_seed(0)
    X = torch.rand(60, 6, generator=generator, dtype=torch.double)
    X[0] = 0.5 + 0.04 * torch.tensor([1.0, -1.0, 1.0, -1.0, 1.0, -1.0])
    order = six_dimensional_hill(X).argsort(descending=True)
    pairs = torch.stack([order[:-1], order[1:]], -1)
    against = torch.stack([order[:1].expand(59), order[1:]], -1)
    model = EPPreferenceGP(
        X,
        Comparisons(torch.cat([pairs, against])),
        likelihood=PairwiseProbitLikelihood(noise=1e-6),
    )
    model.covar_module.base_kernel.lengthscale = 1.0
    best, cube = X[order[:1]], torch.tensor([[0.0], [1.0]]).double().expand(2, 6)
    spread = torch.rand(256, 6, generator=generator, dtype=torch.double)
    assert stopping_advice(model, spread, recommended=best).confidence > 0.9
    # What is better is: the best point is 0.1 from the top of the hill.
    near = stopping_candidates(best, cube)
    assert six_dimensional_hill(near).max() > six_dimensional_hill(best)
    assert stopping_advice(model, near, recommended=best).confidence < 0.1


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
