"""Utilities of groups of raters, against importance sampling and dense algebra."""

import math

import pytest
import torch
from botorch.acquisition import PosteriorMean, qLogExpectedImprovement
from botorch.acquisition.objective import ScalarizedPosteriorTransform
from botorch.acquisition.preference import AnalyticExpectedUtilityOfBestOption
from botorch.exceptions.errors import UnsupportedError
from botorch.models.transforms.input import Normalize
from botorch.optim import optimize_acqf
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
from botorch_pref.models.preference_gp import PreferenceGP
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


def importance_sample(raters: Tensor) -> tuple[Tensor, Tensor, float]:
    """Mean and covariance of the group's utility by weighted draws of the prior."""
    model = make_model(EPPreferenceGP)
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
    mean, covariance, size = importance_sample(raters.double())
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


@pytest.mark.parametrize("kind", ENGINES)
def test_a_new_rater_gets_what_all_share(kind: type[PreferenceGP]) -> None:
    """Every mean is ``m + K(x, X) w``; of the shared part K is ``rho k(x, X)``."""
    model = make_model(kind)
    points = model.train_inputs[0]
    mean = model.posterior(points).mean
    prior = model.covar_module(points).to_dense()
    weights = torch.linalg.solve(prior, mean)
    stimulus_kernel = model.covar_module.kernels[0]
    shared = AGREEMENT * stimulus_kernel(STIMULI, points).to_dense() @ weights

    def predict(*numbers: float) -> Tensor:
        group = GroupUtility(model, torch.tensor(numbers))
        return group.posterior(STIMULI).mean

    close = {"rtol": 1e-6, "atol": 1e-6}
    torch.testing.assert_close(predict(17.0), shared, **close)
    torch.testing.assert_close(predict(17.0, 4.0), shared, **close)
    own = sum(predict(float(r)) for r in range(3)) / 3
    torch.testing.assert_close(predict(0.0, 1.0, 2.0), own, **close)
    # What is known of one new rater is less than of the mean of many.
    variances = [
        GroupUtility(model, torch.arange(5.0, 5.0 + count)).posterior(STIMULI).variance
        for count in (1, 2, 50)
    ]
    assert bool((variances[0] > variances[1]).all())
    assert bool((variances[1] > variances[2]).all())


@pytest.mark.parametrize("kind", ENGINES)
def test_one_rater_is_the_model_at_his_number(kind: type[PreferenceGP]) -> None:
    model = make_model(kind)
    own = model.posterior(torch.cat([STIMULI, torch.ones(3, 1).double()], dim=-1))
    group = GroupUtility(model, torch.tensor([1])).posterior(STIMULI)
    assert type(group) is type(own)
    torch.testing.assert_close(group.mean, own.mean)
    torch.testing.assert_close(group.covariance_matrix, own.covariance_matrix)


@pytest.mark.parametrize("kind", ENGINES)
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


@pytest.mark.parametrize("kind", ENGINES)
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


@pytest.mark.parametrize("kind", ENGINES)
def test_the_consensus_is_optimised(kind: type[PreferenceGP]) -> None:
    group = GroupUtility(make_model(kind), RATERS)
    grid = torch.linspace(0, 1, 201, dtype=DOUBLE)[:, None, None]
    bounds = torch.tensor([[0.0], [1.0]], dtype=DOUBLE)
    if kind is SkewPreferenceGP:
        function = qLogExpectedImprovement(group, best_f=0.0)
    else:
        function = PosteriorMean(group)
    best = function(grid).max().detach()
    torch.manual_seed(0)
    _, value = optimize_acqf(function, bounds, q=1, num_restarts=3, raw_samples=16)
    assert float(value) > float(best) - 1e-4
    if kind is not SkewPreferenceGP:
        pair = AnalyticExpectedUtilityOfBestOption(group)
        X = torch.rand(5, 2, 1, dtype=DOUBLE, generator=torch.manual_seed(0))
        assert bool((pair(X) > group.posterior(X).mean.amax((-1, -2))).all())


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


def test_it_follows_the_model() -> None:
    model = make_model(EPPreferenceGP)
    group = GroupUtility(model, RATERS)
    with torch.no_grad():
        before = group.posterior(STIMULI).mean
        model.covar_module.kernels[0].outputscale = 5.0
        after = group.posterior(STIMULI).mean
    assert float((after - before).abs().max()) > 0.1


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


def test_pooling_beats_strangers_and_one_mind() -> None:
    """Eight raters of a known prior answer six of 36 duels; four others none.

    With the true hyper-parameters the model of all raters is the best prediction there
    is on average, over many answers: log-loss is a proper score.
    """
    generator = torch.Generator().manual_seed(11)
    kernel = rater_covar_module(1).double()
    kernel.kernels[0].base_kernel.lengthscale = 0.25
    kernel.kernels[0].outputscale = 8.0
    kernel.kernels[1].agreement = 0.7
    stimuli = torch.linspace(0, 1, 9, dtype=DOUBLE)[:, None]
    points = at_raters(stimuli, torch.arange(12)).reshape(9, 12, 2).transpose(0, 1)
    points = points.reshape(-1, 2)
    covariance = kernel(points).to_dense().detach()
    root = torch.linalg.cholesky(covariance + 1e-8 * torch.eye(len(points)))
    utility = root @ torch.randn(len(points), generator=generator, dtype=DOUBLE)
    order = torch.rand(12, 36, generator=generator).argsort(-1)
    pairs = torch.combinations(torch.arange(9))[order]
    pairs = pairs + 9 * torch.arange(12)[:, None, None]
    truth = torch.special.ndtr(
        (utility[pairs[..., 0]] - utility[pairs[..., 1]]) / 2**0.5
    )
    won = torch.rand(truth.shape, generator=generator, dtype=DOUBLE) < truth
    answers = torch.where(won[..., None], pairs, pairs.flip(-1))[:8, :6].reshape(-1, 2)

    def log_loss(agreement: float, raters: slice, duels: slice) -> float:
        """The expected one, over the answer that each duel would get."""
        kernel.kernels[1].agreement = agreement
        model = EPPreferenceGP(points, answers, covar_module=kernel).eval()
        first, second = points[pairs[raters, duels]].unbind(-2)
        with torch.no_grad():
            win = model.duel_probability(first, second, observation_noise=True)
            lose = model.duel_probability(second, first, observation_noise=True)
        p = truth[raters, duels]
        return -float((p * win.log() + (1 - p) * lose.log()).mean())

    held_out = slice(8), slice(6, None)
    pooled = log_loss(0.7, *held_out)
    assert pooled < log_loss(1e-9, *held_out) - 0.02  # separate models
    assert pooled < log_loss(1 - 1e-9, *held_out) - 0.02  # one utility for all
    # Raters who have not answered: the consensus is better than nothing known, and
    # better than to take them for one person with the others.
    new = slice(8, None), slice(None)
    assert log_loss(0.7, *new) < math.log(2) - 0.05
    assert log_loss(0.7, *new) < log_loss(1 - 1e-9, *new) - 0.02


@pytest.mark.parametrize("kind", ENGINES)
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


@pytest.mark.parametrize("kind", ENGINES)
def test_a_group_of_one_duels_as_this_rater(kind) -> None:
    model = make_model(kind)
    alone = GroupUtility(model, RATERS[[1]])
    pairs = [at_raters(X, RATERS[[1]]) for X in (STIMULI[:2], STIMULI[2:])]
    for noise in (False, True):
        found = alone.duel_probability(STIMULI[:2], STIMULI[2:], noise)
        torch.testing.assert_close(found, model.duel_probability(*pairs, noise))
