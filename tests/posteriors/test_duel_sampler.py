"""Duels drawn from posteriors, against probabilities in closed form."""

import itertools
import random

import numpy as np
import pytest
import torch
from botorch.models.pairwise_gp import PairwiseGP
from botorch.posteriors.gpytorch import GPyTorchPosterior
from draws import uniform
from gpytorch.distributions import MultivariateNormal

from botorch_pref import SkewNormalPosterior
from botorch_pref.posteriors import DuelSampler
from botorch_pref.posteriors.gaussian import duels_between

DOUBLE = torch.float64
MEAN = torch.tensor([0.3, 0.0, 0.6], dtype=DOUBLE)
ROOT = torch.tensor([[0.8, 0, 0], [0.3, 0.6, 0], [-0.2, 0.4, 0.9]], dtype=DOUBLE)
COVARIANCE = ROOT @ ROOT.mT
SHIFTS = torch.linspace(-1.5, 1.5, 64, dtype=DOUBLE).unsqueeze(-1)


def gaussian(batch: tuple[int, ...] = ()) -> GPyTorchPosterior:
    covariance = COVARIANCE.expand(*batch, 3, 3)
    return GPyTorchPosterior(MultivariateNormal(MEAN.expand(*batch, 3), covariance))


def skew(batch: tuple[int, ...] = ()) -> SkewNormalPosterior:
    means = MEAN + SHIFTS * torch.tensor([0.0, 0.5, -1.0], dtype=DOUBLE)
    means = means.reshape(64, *[1] * len(batch), 3).expand(64, *batch, 3)
    return SkewNormalPosterior(means, COVARIANCE.expand(*batch, 3, 3))


POSTERIORS = pytest.mark.parametrize("posterior", [gaussian, skew])


def test_every_pair_is_won_by_the_larger_utility() -> None:
    utilities = uniform(4, 2, 5, 1)
    duels = duels_between(utilities)
    assert duels.shape == (4, 2, 10, 2)
    for i, j in itertools.product(range(4), range(2)):
        u = utilities[i, j, :, 0].tolist()
        expected = [
            [a, b] if u[a] > u[b] else [b, a]
            for a, b in itertools.combinations(range(5), 2)
        ]
        assert duels[i, j].tolist() == expected


@POSTERIORS
def test_wins_are_as_frequent_as_they_are_probable(posterior) -> None:
    count = 4096
    duels = DuelSampler(torch.Size([count]))(posterior())
    means = posterior().component_means if posterior is skew else MEAN[None]
    for k, (a, b) in enumerate(itertools.combinations(range(3), 2)):
        variance = COVARIANCE[a, a] + COVARIANCE[b, b] - 2 * COVARIANCE[a, b]
        wins = torch.special.ndtr((means[:, a] - means[:, b]) / variance.sqrt())
        share = (duels[:, k, 0] == a).double().mean()
        # Independent draws would be 0.008 off; Sobol points, a few times less.
        assert abs(float(share - wins.mean())) < 0.004


def legacy_state() -> list[int]:
    """Reads the global state of NumPy, which BoTorch's pairwise samplers seed."""
    return np.random.get_state()[1].tolist()  # noqa: NPY002


@POSTERIORS
def test_equal_seeds_equal_answers_and_no_global_state(posterior) -> None:
    before = torch.get_rng_state(), legacy_state(), random.getstate()
    first = DuelSampler(torch.Size([64]))(posterior())
    assert torch.equal(first, DuelSampler(torch.Size([64]), seed=0)(posterior()))
    assert not torch.equal(first, DuelSampler(torch.Size([64]), seed=1)(posterior()))
    assert torch.equal(torch.get_rng_state(), before[0])
    assert legacy_state() == before[1]
    assert random.getstate() == before[2]


@POSTERIORS
def test_elements_of_a_batch_get_equal_answers(posterior) -> None:
    sampler = DuelSampler(torch.Size([64]), seed=3)
    alone = sampler(posterior())
    batch = DuelSampler(torch.Size([64]), seed=3)(posterior((5, 2)))
    assert batch.shape == (64, 5, 2, 3, 2)
    assert torch.equal(batch, alone[:, None, None].expand_as(batch))
    # The same sampler, as acquisition functions use it.
    assert torch.equal(sampler(posterior((5, 2))), batch)
    assert torch.equal(sampler(posterior()), alone)


def test_botorchs_pairwise_gp_takes_them() -> None:
    points = torch.rand(6, 2, generator=torch.Generator().manual_seed(1)).double()
    model = PairwiseGP(points, torch.tensor([[0, 1], [2, 3], [4, 5]]))
    model.eval()
    new = points[:2] + 0.3
    fantasy = model.fantasize(new, sampler=DuelSampler(torch.Size([3])))
    drawn = DuelSampler(torch.Size([3]))(model.posterior(new))
    assert torch.equal(fantasy.comparisons[:, -1], drawn[:, 0] + 6)
