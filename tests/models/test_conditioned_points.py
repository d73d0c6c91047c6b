"""Gradients of posteriors in the points that they are conditioned on.

The truth is the difference of two models of moved points, solved anew.
"""

from collections.abc import Sequence
from typing import Any

import pytest
import torch
from botorch.models.transforms.input import Normalize
from entries import Cell
from gpytorch.kernels import Kernel, LinearKernel, RBFKernel, ScaleKernel
from gpytorch.means import LinearMean
from models.cell_models import UNLIKELY, build, each_cell, takes
from registry import CELLS
from torch import Tensor
from truths.answers import PAIRS, POINTS
from truths.slopes import assert_right, assert_right_along, gradients

from botorch_pref import (
    EPPreferenceGP,
    LaplacePreferenceGP,
    SkewPreferenceGP,
    VariationalPreferenceGP,
)
from botorch_pref.models import PreferenceGP

DOUBLE = torch.float64
GAUSSIAN = [EPPreferenceGP, LaplacePreferenceGP, VariationalPreferenceGP]
NEW = torch.tensor([[0.15], [0.4], [0.9]], dtype=DOUBLE)
FIRST = PAIRS.new_tensor([[0, 1]])

each_gaussian = pytest.mark.parametrize("cls", GAUSSIAN, ids=lambda c: c.__name__)


def kernel() -> Kernel:
    """Makes a kernel whose variances move with the points, too."""
    module = ScaleKernel(RBFKernel()).double()
    module.outputscale, module.base_kernel.lengthscale = 2.0, 0.5
    return LinearKernel().double() + module


def statistics(model: PreferenceGP) -> Tensor:
    """Computes numbers that all moments, and a probability, have a part in."""
    posterior = model.posterior(NEW)
    mean, covariance = posterior.mean.squeeze(-1), posterior.covariance_matrix
    w = torch.tensor([1.0, -2.0, 0.5], dtype=DOUBLE)
    duel = model.duel_probability(NEW[:1], NEW[1:2])
    spread = ((covariance @ w.cos()) * w.sin()).sum(-1)
    return torch.stack([(mean @ w).sum(), spread.sum(), duel.sum()])


@each_cell
@each_gaussian
def test_every_kind_of_answer(cls: type[PreferenceGP], cell: Cell) -> None:
    if not takes(cls, cell):
        pytest.skip("The engine does not take these answers.")
    assert_right_along(lambda x: statistics(build(cls, [cell], x)), POINTS)


@pytest.mark.parametrize(
    ("cls", "cells"),
    [
        (EPPreferenceGP, UNLIKELY),
        (LaplacePreferenceGP, UNLIKELY),
        (EPPreferenceGP, [CELLS[3], CELLS[1], CELLS[10]]),
        (LaplacePreferenceGP, [CELLS[1], CELLS[5]]),
        (VariationalPreferenceGP, [CELLS[1], CELLS[6]]),
    ],
)
def test_several_kinds_and_answers_that_are_unlikely(cls: Any, cells: Any) -> None:
    assert_right_along(lambda x: statistics(build(cls, cells, x)), POINTS)


@each_gaussian
def test_more_points_than_answers_and_a_mean(cls: Any) -> None:
    mean = LinearMean(1).double()
    mean.weights.data.fill_(1.3)
    pairs = torch.tensor([[0, 1], [3, 1], [2, 4]])
    points = torch.cat([POINTS, NEW + 0.03])

    def function(x: Tensor) -> Tensor:
        return statistics(cls(x, pairs, covar_module=kernel(), mean_module=mean))

    assert_right(function, points)


@each_gaussian
def test_through_an_input_transform(cls: Any) -> None:
    def function(x: Tensor) -> Tensor:
        transform = Normalize(1, bounds=torch.tensor([[-1.0], [3.0]]).double())
        model = cls(x, PAIRS, covar_module=kernel(), input_transform=transform)
        evidence = model.eval().log_evidence()
        return torch.cat([statistics(model), evidence.unsqueeze(0)])

    # A copy of a point moves by itself.
    assert_right(function, torch.cat([POINTS, POINTS[:1]]))


@each_gaussian
def test_a_point_that_beats_its_own_copy(cls: Any) -> None:
    """It says nothing where it is, but a win as soon as one of them moves."""
    points = torch.cat([POINTS, POINTS[1:2]])
    pairs = torch.tensor([[0, 1], [2, 3], [4, 1]])

    def function(x: Tensor) -> Tensor:
        model = cls(x, pairs, covar_module=kernel())
        return torch.cat([statistics(model), model.log_evidence().unsqueeze(0)])

    assert_right(function, points)


def conditioned(
    model: PreferenceGP, X: Tensor, answers: Sequence[Tensor]
) -> PreferenceGP:
    for pairs in answers:
        model = model.condition_on_observations(X, pairs)
    return model


@pytest.mark.slow
@each_gaussian
def test_conditioning_on_candidates_and_sampled_answers(cls: Any) -> None:
    """Batches as in look-ahead: two fantasies of each of three candidate pairs."""
    model = cls(POINTS, PAIRS, covar_module=kernel())
    model.posterior(NEW)
    X = torch.linspace(-0.2, 1.3, 6, dtype=DOUBLE).view(3, 2, 1)
    answers = torch.stack([FIRST, FIRST.flip(-1)]).unsqueeze(1).expand(2, 3, 1, 2)

    def function(x: Tensor) -> Tensor:
        fantasy = model.condition_on_observations(x.expand(2, 3, 2, 1), answers)
        mean = fantasy.posterior(NEW).mean
        assert mean.shape == (2, 3, 3, 1)
        best = mean.amax((-2, -1)).mean(0).sum()
        return torch.stack([best, fantasy.posterior(NEW).variance.sum()])

    assert_right(function, X)


def test_draws_of_fantasies_move_as_expectation_propagation() -> None:
    """In batches of candidates and answers; of two answers it is nearly exact."""
    X = torch.linspace(-0.2, 1.3, 6, dtype=DOUBLE).view(3, 2, 1)
    answers = torch.stack([FIRST, FIRST.flip(-1)]).unsqueeze(1).expand(2, 3, 1, 2)
    slopes = []
    for cls, options in ((EPPreferenceGP, {}), (SkewPreferenceGP, {"num_draws": 4096})):
        model = cls(POINTS, FIRST, covar_module=kernel(), **options)
        x = X.clone().requires_grad_()
        fantasy = model.condition_on_observations(x.expand(2, 3, 2, 1), answers)
        posterior = fantasy.posterior(NEW)
        values = torch.stack([posterior.mean[0].sum(), posterior.variance[1].sum()])
        slopes.append(gradients(values, x))
    exact, drawn = slopes
    assert exact.abs().amax() > 0.5
    torch.testing.assert_close(drawn, exact, rtol=0, atol=6 / 64)


@each_gaussian
def test_conditioning_twice(cls: Any) -> None:
    model = cls(POINTS, PAIRS, covar_module=kernel())

    def function(x: Tensor) -> Tensor:
        # Answers about copies of a point are merged where no gradient is wanted.
        once = conditioned(model, x, [FIRST])
        twice = conditioned(once, x + 0.01, [FIRST.flip(-1)])
        return statistics(conditioned(twice, x - 0.01, [FIRST]))

    assert_right(function, NEW[:2] + 0.1)


@each_gaussian
def test_nothing_cached_has_a_graph(cls: Any) -> None:
    points = POINTS.clone().requires_grad_()
    model = cls(points, PAIRS, covar_module=kernel())
    first = torch.autograd.grad(model.posterior(NEW).mean.sum(), points)
    second = torch.autograd.grad(model.posterior(NEW).mean.sum(), points)
    torch.testing.assert_close(first, second)
    with torch.no_grad():
        constant = model.posterior(NEW)
    assert not constant.mean.requires_grad
    torch.testing.assert_close(
        model.posterior(NEW).mean.detach(), constant.mean, rtol=0, atol=0
    )
