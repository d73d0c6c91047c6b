"""The link that the dueling acquisition functions take from a model."""

from types import SimpleNamespace

import pytest
import torch
from botorch.models.likelihoods import pairwise as botorch_pairwise
from gpytorch.likelihoods import GaussianLikelihood, Likelihood
from torch import Tensor

from botorch_pref.errors import UnsupportedFeedbackError
from botorch_pref.likelihoods import (
    AffineProbitLikelihood,
    PairwiseBetaLikelihood,
    PairwiseLogitLikelihood,
    PairwiseProbitLikelihood,
    PlackettLuceLikelihood,
)
from botorch_pref.models.predictions import model_link


def link_of(likelihood: Likelihood):
    return model_link(SimpleNamespace(likelihood=likelihood))


@pytest.mark.parametrize(
    "likelihood", [PairwiseProbitLikelihood(noise=0.3), PairwiseLogitLikelihood()]
)
def test_the_links_of_our_likelihoods(likelihood: Likelihood) -> None:
    difference = torch.linspace(-3, 3, 13)
    expected = likelihood(difference).probs
    ours = link_of(likelihood).win_probability(difference, torch.zeros_like(difference))
    torch.testing.assert_close(ours, expected)


def test_the_link_of_sets_is_that_of_a_set_of_two() -> None:
    difference = torch.linspace(-3, 3, 13)
    pair = torch.stack([difference, torch.zeros_like(difference)], dim=-1)
    likelihood = PlackettLuceLikelihood()
    ours = link_of(likelihood).win_probability(difference, torch.zeros_like(difference))
    torch.testing.assert_close(ours, likelihood(pair).probs[..., 0])


@pytest.mark.parametrize(
    "likelihood",
    [
        botorch_pairwise.PairwiseProbitLikelihood(),
        botorch_pairwise.PairwiseLogitLikelihood(),
    ],
)
def test_the_links_of_botorch(likelihood: Likelihood) -> None:
    """Inside the range to which BoTorch clamps its differences."""

    def theirs(difference: Tensor) -> Tensor:
        utility = torch.stack([difference, torch.zeros_like(difference)], dim=-1)
        return likelihood.p(utility, torch.tensor([[1.0, -1.0]])).squeeze(-1)

    difference = torch.linspace(-3, 3, 13)
    ours = link_of(likelihood).win_probability(difference, torch.zeros_like(difference))
    torch.testing.assert_close(ours, theirs(difference), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(
    "likelihood",
    [GaussianLikelihood(), AffineProbitLikelihood(), PairwiseBetaLikelihood(), None],
)
def test_a_likelihood_without_duels_is_refused(likelihood) -> None:
    with pytest.raises(UnsupportedFeedbackError, match=type(likelihood).__name__):
        link_of(likelihood)
