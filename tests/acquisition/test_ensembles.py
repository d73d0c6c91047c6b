"""Models that average over their hyper-parameters: the mean over their members."""

import pytest
import torch
from acquisition.contract.closed_forms import each, points
from entries import Acquisition
from torch import Generator, Tensor

from botorch_pref.acquisition import (
    HallucinatedModel,
)
from botorch_pref.models import EPPreferenceGP

pytest.importorskip("numpyro")

from botorch_pref.models import (
    FullyBayesianEPPreferenceGP,
)

PAIRS = torch.tensor([[2, 0], [2, 1], [3, 1], [2, 3]])


def ensemble(count: int = 3) -> FullyBayesianEPPreferenceGP:
    model = FullyBayesianEPPreferenceGP(points(4), PAIRS)
    generator = Generator().manual_seed(5)
    draws = {}
    for name, parameter in model.named_parameters():
        if parameter.requires_grad:
            step = torch.randn(count, *parameter.shape, generator=generator)
            draws[name] = parameter.detach() + step.double()
    model.load_mcmc_samples(draws)
    return model.eval()


def members(model: FullyBayesianEPPreferenceGP) -> list[EPPreferenceGP]:
    found = []
    for i in range(model.num_mcmc_samples):
        member = EPPreferenceGP(points(4), PAIRS)
        for name, parameter in member.named_parameters():
            if parameter.requires_grad:
                parameter.data = model.get_parameter(name).detach()[i]
        found.append(member.eval())
    return found


@each()
def test_values_are_the_mean_over_members(kind: Acquisition) -> None:
    model, X, pending = ensemble(), points(5, 2, seed=6), points(1, seed=8)
    reference = points(1, seed=9)

    def value(one: EPPreferenceGP) -> Tensor:
        acquisition = kind(one, reference)
        acquisition.set_X_pending(pending)
        return acquisition(X)

    alone = torch.stack([value(member) for member in members(model)]).mean(0)
    torch.testing.assert_close(value(model), alone, rtol=1e-4, atol=1e-5)


@each(pairs=True)
def test_open_questions_are_those_of_each_member(kind: Acquisition) -> None:
    model, X, pending = ensemble(), points(5, 2, seed=6), points(3, seed=8)

    def value(one: EPPreferenceGP) -> Tensor:
        acquisition = kind(one)
        acquisition.set_X_pending(pending)
        return acquisition(X)

    alone = torch.stack([value(member) for member in members(model)]).mean(0)
    torch.testing.assert_close(value(model), alone, rtol=1e-4, atol=1e-5)


def test_each_member_believes_a_draw_of_its_own() -> None:
    model, X = ensemble(), points(5, 3, seed=6)
    believed = HallucinatedModel(model, Generator().manual_seed(0))
    ours = believed.posterior(X).distribution.covariance_matrix
    assert ours.shape == (5, 3, 3, 3)
    for i, member in enumerate(members(model)):
        alone = HallucinatedModel(member).posterior(X).distribution.covariance_matrix
        torch.testing.assert_close(ours[:, i], alone, rtol=1e-3, atol=1e-4)
