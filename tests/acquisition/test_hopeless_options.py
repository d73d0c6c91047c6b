"""Options that are hardly ever the best of their question, or copies, give way."""

from __future__ import annotations

from typing import Any

import torch
from botorch.acquisition import AcquisitionFunction
from draws import uniform
from torch import Tensor

from botorch_pref import (
    Choices,
    DuelKernel,
    EPPreferenceGP,
    PairwiseProbitLikelihood,
)
from botorch_pref.acquisition import DistinctOptions, DuelingJointKG
from botorch_pref.acquisition.design_space import DesignSpace
from botorch_pref.acquisition.knowledge_gradient import without_hopeless
from botorch_pref.acquisition.option_search import best_options


def hill(X: Tensor) -> Tensor:
    """Computes a utility with its top in the middle; nobody would take the corner."""
    return -9 * (X - 0.5).square().sum(-1)


def chances(model: EPPreferenceGP, X: Tensor) -> Tensor:
    """Estimates P(best of X) by a hundred thousand draws."""
    posterior = model.posterior(X)
    mean, root = (
        posterior.mean.squeeze(-1),
        torch.linalg.cholesky(
            posterior.covariance_matrix + 1e-8 * torch.eye(len(X)).double()
        ),
    )
    normal = torch.randn(
        100_000, len(X), generator=torch.Generator().manual_seed(0)
    ).double()
    best = (mean + normal @ root.mT).argmax(-1)
    return torch.bincount(best, minlength=len(X)) / len(best)


def test_a_hopeless_option_gives_way_to_one_that_may_be_the_best() -> None:
    X = uniform(48, 2, seed=0)
    sets = torch.arange(48).view(-1, 4)
    answers = Choices(sets, sets[torch.arange(12), hill(X)[sets].argmax(-1)])
    model = EPPreferenceGP(X, feedback=[answers], covar_module=DuelKernel(2)).eval()
    order = model.posterior(X).mean.squeeze(-1).argsort(descending=True)
    best, likely = X[order[:1]], X[order[:12]]
    corner = torch.zeros(1, 2).double()
    options = torch.cat([likely[1:2], corner, likely[2:3]])
    with torch.no_grad():
        before = chances(model, torch.cat([options, best]))
        value = DistinctOptions(DuelingJointKG(model, best, choices=likely), 0.01)
        found = without_hopeless(
            value, options, best, likely, torch.Generator().manual_seed(1)
        )
        after = chances(model, torch.cat([found, best]))
    assert float(before[1]) < 0.005, "the corner is hopeless"
    # A thousand draws know a chance of 0.01 within 0.003.
    assert float(after[1]) > 0.005
    assert torch.equal(found[[0, 2]], options[[0, 2]]), "the others stay"
    assert len(torch.cat([found, best]).unique(dim=0)) == 4
    again = without_hopeless(value, found, best, likely)
    assert torch.equal(again, found), "options that may be the best stay"


def test_what_an_erring_person_would_name_at_times_stays() -> None:
    """Its utility is never the largest, but that is heard with much noise."""
    X = uniform(400, 2, seed=0)
    sets = torch.arange(400).view(-1, 4)
    answers = Choices(sets, sets[torch.arange(100), hill(X)[sets].argmax(-1)])
    likelihood = PairwiseProbitLikelihood(noise=100.0)
    model = EPPreferenceGP(
        X, feedback=[answers], covar_module=DuelKernel(2), likelihood=likelihood
    ).eval()
    order = model.posterior(X).mean.squeeze(-1).argsort(descending=True)
    best, likely = X[order[:1]], X[order[:12]]
    corner = torch.zeros(1, 2).double()
    options = torch.cat([likely[1:2], corner, likely[2:3]])
    generator = torch.Generator().manual_seed(1)
    with torch.no_grad():
        shares = chances(model, torch.cat([options, best]))
        value = DistinctOptions(DuelingJointKG(model, best, choices=likely), 0.01)
        found = without_hopeless(value, options, best, likely, generator)
    assert float(shares[1]) < 0.002, "without noise the corner is hopeless"
    assert torch.equal(found, options), "the noise of the person is left out"


class Uphill(AcquisitionFunction):
    """The sum of all inputs of all options, which is largest in one corner."""

    def __init__(self) -> None:
        any_model: Any = None
        super().__init__(any_model)

    def forward(self, X: Tensor) -> Tensor:
        """Values options, whoever else climbs to the same corner."""
        return X.sum((-2, -1))


def test_options_that_climb_to_the_same_corner_are_different() -> None:
    bounds = torch.tensor([[0.0, -2.0], [1.0, 2.0]], dtype=torch.double)
    corner = bounds[1:]
    for beside, in_corner in ((corner[:0], 1), (corner, 0)):
        options = best_options(
            Uphill(),
            DesignSpace.from_bounds(bounds),
            3,
            corner[:0],
            beside=beside,
            open_questions=torch.empty(0, 4, 2, dtype=torch.double),
            seed=0,
        )
        assert len(torch.cat([options, beside]).unique(dim=0)) == 3 + len(beside)
        assert int((options == corner).all(-1).sum()) == in_corner
        # A thousand designs are everywhere, and the most valuable ones are taken.
        assert float(options.sum(-1).min()) > 3 - 0.1 * 5
