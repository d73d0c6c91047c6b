"""Largest values of functions drawn from a posterior, against draws on a grid."""

import math

import numpy as np
import pytest
import torch
from torch import Tensor

from botorch_pref.errors import BotorchPrefError
from botorch_pref.evaluation import stopping_advice
from botorch_pref.evaluation.progress import path_maxima
from botorch_pref.likelihoods import PairwiseProbitLikelihood
from botorch_pref.models import DuelKernel, EPPreferenceGP

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


def test_they_are_those_of_a_fine_grid(model: EPPreferenceGP) -> None:
    points = column(0.4, 0.1, 0.9)
    starts = torch.linspace(0, 1, 9, dtype=torch.double).unsqueeze(-1)
    number = 512
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
