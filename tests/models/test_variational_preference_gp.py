"""The variational model: its likelihoods, its fit and what it refuses."""

import math

import pytest
import torch

from botorch_pref import (
    Choices,
    PairwiseLogitLikelihood,
    PlackettLuceLikelihood,
    Rankings,
    VariationalPreferenceGP,
)

DOUBLE = torch.float64
PAIRS = torch.tensor([[0, 1], [3, 2], [4, 0]])
CHOICES = Choices(torch.tensor([[0, 1, 2], [3, 2, 4]]), torch.tensor([2, 3]))
RANKINGS = Rankings(torch.tensor([[3, 4, 0, 1], [2, 0, 1, -1]]))


def points():
    generator = torch.Generator().manual_seed(0)
    return torch.rand(5, 2, generator=generator, dtype=DOUBLE)


def test_logistic_likelihoods_by_default() -> None:
    model = VariationalPreferenceGP(points(), PAIRS, feedback=[CHOICES, RANKINGS])
    assert type(model.likelihoods["Comparisons"]) is PairwiseLogitLikelihood
    assert type(model.likelihoods["Choices"]) is PlackettLuceLikelihood
    assert model.likelihoods["Rankings"] is model.likelihoods["Choices"]


def test_a_ranking_is_its_stages() -> None:
    x = points()
    ranked = VariationalPreferenceGP(x, feedback=[Rankings(torch.tensor([[3, 4, 0]]))])
    staged = VariationalPreferenceGP(
        x,
        torch.tensor([[4, 0]]),
        feedback=[Choices(torch.tensor([[0, 3, 4]]), torch.tensor([3]))],
    )
    torch.testing.assert_close(ranked.posterior(x).mean, staged.posterior(x).mean)
    torch.testing.assert_close(ranked.log_evidence(), staged.log_evidence())


@pytest.mark.parametrize("count", [1, 40])
def test_one_pair_against_jaakkola_and_jordan_by_hand(count) -> None:
    model = VariationalPreferenceGP(points(), PAIRS[:1].repeat(count, 1))
    pair = points()[:2]
    prior = model.covar_module(pair).to_dense().detach()
    v = (prior[0, 0] + prior[1, 1] - 2 * prior[0, 1]).item()
    zeta = 1.0
    for _ in range(2000):
        variance = 1 / (1 / v + count * math.tanh(zeta / 2) / (2 * zeta))
        mean = variance * count / 2
        zeta = math.sqrt(variance + mean**2)
    difference = model.duel_posterior(pair[:1], pair[1:])
    assert difference.mean.item() == pytest.approx(mean, rel=1e-6)
    assert difference.variance.item() == pytest.approx(variance, rel=1e-6)
