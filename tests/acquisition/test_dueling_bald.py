"""Information of an answer, against quadrature, sampling and BoTorch's estimate."""

import math

import pytest
import torch
from botorch.acquisition.preference import (
    PairwiseBayesianActiveLearningByDisagreement,
)
from botorch.models.model import Model
from botorch.utils.sampling import manual_seed
from torch import Tensor

from botorch_pref.acquisition import DuelingBALD, DuelingEIIG
from botorch_pref.likelihoods import DuelLink, LogitLink, ProbitLink

X_REF = torch.tensor([[0.4, 0.6]], dtype=torch.double)
ONE = torch.tensor([[1.0, -2.0]], dtype=torch.double)
SEVERAL = torch.tensor([[1.0, -2.0], [4.0, 1.0], [-3.0, 0.5]], dtype=torch.double)
# Of the closed form of the probit's expected entropy, in nats.
ENTROPY_ERROR = 8.1e-8


def points(*shape: int, seed: int = 3) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.rand(*shape, 2, generator=generator, dtype=torch.double)


def entropy(p: Tensor) -> Tensor:
    return -(torch.xlogy(p, p) + torch.xlogy(1 - p, 1 - p))


def test_gaussian_models_agree_with_botorch_within_its_sampling_error(
    gaussian_model: Model,
) -> None:
    """BoTorch's estimate has the link Phi(u), which is a noise of a half per item."""
    X, count = points(10, 2), 2**16
    estimate = PairwiseBayesianActiveLearningByDisagreement(
        gaussian_model, num_samples=count
    )
    with manual_seed(0):
        theirs = estimate(X)
    ours = DuelingBALD(gaussian_model, link=ProbitLink(0.5))(X)
    # An entropy in [0, log 2] has a standard deviation of at most half of that.
    allowed = 4 * 0.5 * math.log(2) / math.sqrt(count)
    torch.testing.assert_close(ours, theirs, rtol=0.0, atol=allowed)


def test_it_is_the_information_term_of_eiig(model: Model) -> None:
    X = points(6, 1)
    plain, eiig = DuelingBALD(model, X_REF)(X), DuelingEIIG(model, X_REF, k=0.0)(X)
    torch.testing.assert_close(plain, eiig, rtol=0.0, atol=0.0)
    pairs = torch.cat([X, X_REF.expand(6, 1, 2)], dim=-2)
    torch.testing.assert_close(DuelingBALD(model)(pairs), plain, rtol=1e-6, atol=1e-7)


@pytest.mark.parametrize("link", [ProbitLink(0.5), LogitLink()])
def test_nothing_is_learned_from_what_is_known(link: DuelLink, linear_utility) -> None:
    same = X_REF.expand(1, 2, 2)
    unsure = DuelingBALD(linear_utility(ONE, 2.0), link=link)
    assert float(unsure(same)) == pytest.approx(0.0, abs=ENTROPY_ERROR)
    certain = DuelingBALD(linear_utility(ONE, 0.0), link=link)
    assert float(certain(points(6, 2)).abs().max()) <= ENTROPY_ERROR
    apart = torch.tensor([[[800.0, 0.0], [0.0, 0.0]]], dtype=torch.double)
    apart.requires_grad_()
    sure = DuelingBALD(linear_utility(ONE, 0.01), link=link)(apart)
    assert float(sure.detach()) == pytest.approx(0.0, abs=1e-12)
    (gradient,) = torch.autograd.grad(sure, apart)
    assert bool(gradient.isfinite().all())


@pytest.mark.parametrize("link", [ProbitLink(0.5), LogitLink()])
def test_an_open_question_between_very_different_points_tells_one_bit(
    link: DuelLink, linear_utility
) -> None:
    flat = torch.zeros(1, 2, dtype=torch.double)
    value = DuelingBALD(linear_utility(flat, 1e8), link=link)(points(6, 2))
    torch.testing.assert_close(
        value, torch.full_like(value, math.log(2)), rtol=0.0, atol=1e-7
    )


def test_noise_of_the_answers_hides_information(linear_utility) -> None:
    X = points(20, 2)
    values = [
        DuelingBALD(linear_utility(SEVERAL), link=ProbitLink(noise))(X)
        for noise in (0.01, 0.1, 1.0, 10.0)
    ]
    for less, more in zip(values[1:], values[:-1], strict=True):
        assert bool((less < more).all())
    assert float(torch.stack(values).max()) < math.log(2)
