"""Utilities of groups of raters, against importance sampling and dense algebra."""

from functools import cache

import pytest
import torch
from botorch.acquisition.objective import ScalarizedPosteriorTransform
from botorch.exceptions.errors import UnsupportedError
from botorch.models.transforms.input import Normalize
from cases import in_turn
from torch import Tensor

from botorch_pref import (
    BotorchPrefError,
    DuelingEIIG,
    DuelingUCB,
    EPPreferenceGP,
    LaplacePreferenceGP,
    PairwiseProbitLikelihood,
    SkewPreferenceGP,
    incumbent,
)
from botorch_pref.models import PreferenceGP
from botorch_pref.models.raters import GroupUtility, at_raters, rater_covar_module

DOUBLE = torch.float64
ENGINES = [LaplacePreferenceGP, EPPreferenceGP, SkewPreferenceGP]
AGREEMENT = 0.6


def make_model(
    kind: type[PreferenceGP],
    noise: float = 0.5,
    input_transform: Normalize | None = None,
) -> PreferenceGP:
    """Three raters, two with answers of four stimuli each, one of two."""
    kernel = rater_covar_module(1).double()
    kernel.kernels[0].base_kernel.lengthscale = 0.4
    kernel.kernels[0].outputscale = 2.0
    kernel.kernels[1].agreement = AGREEMENT
    stimuli = torch.tensor([0.0, 0.3, 0.6, 1.0], dtype=DOUBLE)
    numbers = torch.tensor([0, 0, 0, 0, 1, 1, 1, 1, 2, 2], dtype=DOUBLE)
    datapoints = torch.stack([stimuli.repeat(3)[:10], numbers], dim=-1)
    pairs = torch.tensor([[1, 0], [1, 3], [2, 3], [6, 4], [5, 7], [6, 5], [8, 9]])
    return kind(
        datapoints,
        pairs,
        covar_module=kernel,
        likelihood=PairwiseProbitLikelihood(noise=noise),
        input_transform=input_transform,
    ).eval()


STIMULI = torch.tensor([[0.1], [0.5], [0.6]], dtype=DOUBLE)
RATERS = torch.arange(3.0, dtype=DOUBLE)


@cache
def importance_sample(numbers: tuple[float, ...]) -> tuple[Tensor, Tensor, float]:
    """Mean and covariance of the group's utility by weighted draws of the prior."""
    model, raters = make_model(EPPreferenceGP), torch.tensor(numbers).double()
    points = torch.cat([model.train_inputs[0], at_raters(STIMULI, raters)])
    covariance = model.covar_module(points).to_dense().detach()
    values, vectors = torch.linalg.eigh(covariance)
    generator = torch.Generator().manual_seed(3)
    draws = torch.randn(400_000, len(points), generator=generator, dtype=DOUBLE)
    f = draws @ (vectors * values.clamp_min(0).sqrt()).T
    winners, losers = model.comparisons.T
    # Two noises of variance 0.5 on each difference.
    weights = torch.special.ndtr(f[:, winners] - f[:, losers]).prod(-1)
    weights = weights / weights.sum()
    mean_utility = f[:, 10:].reshape(len(f), len(STIMULI), len(raters)).mean(-1)
    mean = weights @ mean_utility
    centred = mean_utility - mean
    size = float(1 / weights.square().sum())
    return mean, (weights * centred.T) @ centred, size


@pytest.mark.parametrize(
    "raters", [RATERS, RATERS[2:], torch.tensor([9.0])], ids=["all", "one", "new"]
)
@pytest.mark.parametrize("kind", [EPPreferenceGP, SkewPreferenceGP])
def test_moments_by_importance_sampling(
    kind: type[PreferenceGP], raters: Tensor
) -> None:
    mean, covariance, size = importance_sample(tuple(raters.tolist()))
    posterior = GroupUtility(make_model(kind), raters).posterior(STIMULI)
    deviation = covariance.diagonal().sqrt()
    # Four standard errors of the reference (over 20,000 effective draws) and of the
    # 1,024 draws of SkewGP, whose answers explain less than the whole variance;
    # EP is biased by at most 0.02 deviations here.
    bound = 4 / size**0.5 + (4 / 1024**0.5 * 0.7 if kind is SkewPreferenceGP else 0.02)
    assert size > 20_000
    error = (posterior.mean.squeeze(-1).detach() - mean) / deviation
    assert float(error.abs().max()) < bound
    scale = deviation[:, None] * deviation
    error = (posterior.covariance_matrix.detach() - covariance) / scale
    assert float(error.abs().max()) < 0.06


@in_turn("kind", ENGINES)
def test_one_rater_is_the_model_at_his_number(kind: type[PreferenceGP]) -> None:
    model = make_model(kind)
    own = model.posterior(torch.cat([STIMULI, torch.ones(3, 1).double()], dim=-1))
    group = GroupUtility(model, torch.tensor([1])).posterior(STIMULI)
    assert type(group) is type(own)
    torch.testing.assert_close(group.mean, own.mean)
    torch.testing.assert_close(group.covariance_matrix, own.covariance_matrix)


@in_turn("kind", ENGINES[1:])
def test_gradients_of_acquisition_functions(kind: type[PreferenceGP]) -> None:
    group = GroupUtility(make_model(kind), RATERS)
    reference = torch.tensor([[0.45]], dtype=DOUBLE)
    functions = [DuelingUCB(group, reference), DuelingEIIG(group, reference)]
    X = torch.tensor([[[0.12]], [[0.83]]], dtype=DOUBLE, requires_grad=True)
    for function in functions:
        (gradient,) = torch.autograd.grad(function(X).sum(), X)
        with torch.no_grad():
            slope = (function(X + 1e-5) - function(X - 1e-5)) / 2e-5
        torch.testing.assert_close(gradient.flatten(), slope, rtol=1e-5, atol=1e-7)


@in_turn("kind", ENGINES)
def test_t_batches_are_independent(kind: type[PreferenceGP]) -> None:
    group = GroupUtility(make_model(kind), RATERS)
    X = torch.rand(2, 3, 4, 1, generator=torch.Generator().manual_seed(0)).double()
    together = group.posterior(X)
    assert together.mean.shape == (2, 3, 4, 1)
    apart = group.posterior(X[1, 2])
    torch.testing.assert_close(together.mean[1, 2], apart.mean)
    torch.testing.assert_close(
        together.covariance_matrix[1, 2], apart.covariance_matrix
    )
    negate = ScalarizedPosteriorTransform(-torch.ones(1, dtype=DOUBLE))
    negated = group.posterior(X, posterior_transform=negate)
    assert type(negated) is type(together)
    torch.testing.assert_close(negated.mean, -together.mean)
    torch.testing.assert_close(negated.covariance_matrix, together.covariance_matrix)


def test_the_incumbent_is_a_stimulus_as_it_was_given() -> None:
    transform = Normalize(2, bounds=torch.tensor([[-1.0, 0.0], [3.0, 2.0]]).double())
    model = make_model(EPPreferenceGP, input_transform=transform)
    group = GroupUtility(model, RATERS)
    (stimuli,) = group.train_inputs
    torch.testing.assert_close(
        stimuli, torch.tensor([0.0, 0.3, 0.6, 1.0]).to(stimuli)[:, None]
    )
    mean = group.posterior(stimuli).mean.flatten()
    # Equal deviations would make the best mean the likeliest winner; here they are
    # close, and the best mean leads by far.
    assert torch.equal(incumbent(group), stimuli[mean.argmax()][None])


def test_what_makes_no_group_is_refused() -> None:
    model = make_model(EPPreferenceGP)
    with pytest.raises(BotorchPrefError, match="at least one rater"):
        GroupUtility(model, torch.zeros(0))
    with pytest.raises(BotorchPrefError, match="left for the stimulus"):
        GroupUtility(model, torch.zeros(3, 2))
    with pytest.raises(BotorchPrefError, match=r"raters holds \[nan\]"):
        GroupUtility(model, torch.tensor([0.0, torch.nan]))
    with pytest.raises(UnsupportedError, match="gives no answers"):
        GroupUtility(model, RATERS).posterior(STIMULI, observation_noise=True)


@in_turn("kind", ENGINES[1:])
def test_duels_of_a_group_are_those_of_its_posterior(kind) -> None:
    model = GroupUtility(make_model(kind), RATERS)
    first, second = STIMULI[:2], STIMULI[2:]
    torch.manual_seed(0)
    draws = model.posterior(STIMULI).rsample(torch.Size([40_000])).squeeze(-1)
    differences = draws[:, :2] - draws[:, 2:]
    share = (differences > 0).double().mean(0)
    found = model.duel_probability(first, second)
    # Three standard errors of a share of 40,000.
    assert (found - share).abs().max() < 3 * 0.5 / 200
    torch.testing.assert_close(
        found + model.duel_probability(second, first), 1 + 0 * found
    )
    posterior = model.duel_posterior(first, second)
    sizes = posterior.variance.squeeze(-1).sqrt()
    gap = (posterior.mean.squeeze(-1) - differences.mean(0)).abs() / sizes
    assert gap.max() < 4 / 200
    # The relative standard error of a variance is the root of 2 / 40,000.
    assert (sizes.square() / differences.var(0) - 1).abs().max() < 4 * 0.0071


def test_an_answer_of_a_group_is_that_of_one_of_its_raters() -> None:
    model = make_model(EPPreferenceGP)
    group = GroupUtility(model, RATERS[:2])
    each = [
        model.duel_probability(
            at_raters(STIMULI[:2], RATERS[[r]]),
            at_raters(STIMULI[2:], RATERS[[r]]),
            observation_noise=True,
        )
        for r in range(2)
    ]
    found = group.duel_probability(STIMULI[:2], STIMULI[2:], observation_noise=True)
    torch.testing.assert_close(found, (each[0] + each[1]) / 2)


@in_turn("kind", ENGINES)
def test_a_group_of_one_duels_as_this_rater(kind) -> None:
    model = make_model(kind)
    alone = GroupUtility(model, RATERS[[1]])
    pairs = [at_raters(X, RATERS[[1]]) for X in (STIMULI[:2], STIMULI[2:])]
    for noise in (False, True):
        found = alone.duel_probability(STIMULI[:2], STIMULI[2:], noise)
        torch.testing.assert_close(found, model.duel_probability(*pairs, noise))
