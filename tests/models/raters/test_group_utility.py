"""Utilities of groups of raters, against dense algebra."""

import pytest
import torch
from botorch.acquisition.objective import ScalarizedPosteriorTransform
from botorch.exceptions.errors import UnsupportedError
from botorch.models.transforms.input import Normalize
from cases import in_turn
from gpytorch.kernels import RBFKernel
from torch import Tensor

from botorch_pref import (
    BotorchPrefError,
    DuelingEIIG,
    DuelingUCB,
    EPPreferenceGP,
    FeedbackError,
    LaplacePreferenceGP,
    PairwiseProbitLikelihood,
    SkewNormalPosterior,
    SkewPreferenceGP,
    incumbent,
)
from botorch_pref.acquisition import HallucinatedModel, champion
from botorch_pref.acquisition.duels import shown_points
from botorch_pref.models import GroupUtility, PreferenceGP, rater_covar_module
from botorch_pref.models.rater_groups import at_raters

DOUBLE = torch.float64
ENGINES = [LaplacePreferenceGP, EPPreferenceGP, SkewPreferenceGP]
AGREEMENT = 0.6


def make_model(
    kind: type[PreferenceGP],
    noise: float = 0.5,
    input_transform: Normalize | None = None,
) -> PreferenceGP:
    """Makes three raters, two with answers of four stimuli each, one of two."""
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
PAIRS = torch.tensor([[1, 0], [4, 3], [7, 10], [8, 2]])


@in_turn("raters", [RATERS, RATERS[1:2], torch.tensor([9.0]).double()])
@in_turn("kind", ENGINES)
def test_moments_are_those_of_the_mean_over_raters(kind, raters: Tensor) -> None:
    """Of all of them, of one, and of one whom nobody has met."""
    model, count = make_model(kind), len(raters)
    posterior = model.posterior(at_raters(STIMULI, raters))
    mean_of = torch.full((1, count), 1 / count, dtype=DOUBLE)
    average = torch.block_diag(*[mean_of] * len(STIMULI))
    group = GroupUtility(model, raters)
    mixture, covariance = (
        group.posterior(STIMULI),
        average @ posterior.covariance_matrix,
    )
    assert type(mixture) is type(posterior)
    torch.testing.assert_close(mixture.mean, average @ posterior.mean)
    torch.testing.assert_close(mixture.covariance_matrix, covariance @ average.T)
    contrast = torch.tensor([[1.0, 0.0, -1.0], [0.0, 1.0, -1.0]], dtype=DOUBLE)
    duel = group.duel_posterior(STIMULI[:2], STIMULI[2:])
    torch.testing.assert_close(duel.mean, contrast @ mixture.mean)
    expected = contrast @ mixture.covariance_matrix @ contrast.T
    torch.testing.assert_close(duel.covariance_matrix, expected)
    won = group.duel_probability(STIMULI[:2], STIMULI[2:])
    if isinstance(duel, SkewNormalPosterior):
        expected = duel.cdf(torch.zeros(1, 1).double())
    else:
        expected = torch.special.ndtr(-duel.mean / duel.variance.sqrt())
    torch.testing.assert_close(1 - won, expected.flatten())


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


def test_the_incumbent_was_shown_to_a_rater() -> None:
    """Two raters compared items at 0 and .5; a third item nobody was shown."""
    items = torch.tensor([[1.0], [0.5], [0.0]], dtype=DOUBLE)
    kernel = rater_covar_module(1).double()
    kernel.kernels[0].base_kernel.lengthscale = 2.0
    pairs = torch.tensor([[2, 4], [3, 5]])
    model = EPPreferenceGP(at_raters(items, RATERS[:2]), pairs, covar_module=kernel)
    group = GroupUtility(model.eval(), RATERS[:2])
    (stimuli,) = group.train_inputs
    assert stimuli.flatten().tolist() == [0.0, 0.5, 1.0]
    assert group.posterior(stimuli).mean.argmax() == 2
    believed = HallucinatedModel(group, torch.Generator().manual_seed(0))
    for derived in (group, believed):
        assert shown_points(derived, stimuli).tolist() == [True, True, False]
    assert champion(group).item() == incumbent(group).item() == 0.5
    # Of two sets of answers about the same points, each has its own.
    stacked = torch.stack([pairs, torch.tensor([[0, 4], [1, 5]])])
    batch = EPPreferenceGP(at_raters(items, RATERS[:2]), stacked).eval()
    visible = shown_points(GroupUtility(batch, RATERS[:2]), stimuli)
    assert visible.tolist() == [[True, True, False], [True, False, True]]


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


def test_duels_of_other_features_are_refused() -> None:
    """One column would stand for all that the other side has."""
    points = torch.eye(3, dtype=DOUBLE)[:2]
    kernel = rater_covar_module(2)
    model = EPPreferenceGP(points, torch.tensor([[0, 1]]), covar_module=kernel)
    group = GroupUtility(model, RATERS[:1])
    for noisy in (False, True):
        with pytest.raises(FeedbackError, match=r"X2 has shape \(1, 1\), .* q x 2"):
            group.duel_probability(points[:, :2], points[:1, :1], noisy)
    with pytest.raises(FeedbackError, match=r"X_ref has shape \(1, 1\), .* q x 2"):
        group.duel_posterior(points[:, :2], points[:1, :1])
    with pytest.raises(FeedbackError, match=r"X1 has shape \(2, 2\) and X2 \(3, 2\)"):
        group.duel_probability(points[:, :2], points[[0, 1, 0], :2])


def test_an_answer_of_a_group_is_that_of_one_of_its_raters() -> None:
    model = make_model(EPPreferenceGP)
    group = GroupUtility(model, RATERS[:2])
    probabilities = [
        model.duel_probability(
            at_raters(STIMULI[:2], RATERS[[r]]),
            at_raters(STIMULI[2:], RATERS[[r]]),
            observation_noise=True,
        )
        for r in range(2)
    ]
    probability = group.duel_probability(
        STIMULI[:2], STIMULI[2:], observation_noise=True
    )
    torch.testing.assert_close(probability, (probabilities[0] + probabilities[1]) / 2)


class SizedKernel(RBFKernel):
    """Keeps the largest number of points that it was asked about."""

    largest = 0

    def forward(self, x1: Tensor, x2: Tensor, diag: bool = False, **params) -> Tensor:
        self.largest = max(self.largest, x1.shape[-2])
        return super().forward(x1, x2, diag=diag, **params)


def test_a_group_needs_no_covariance_of_the_utilities_of_all() -> None:
    kernel = rater_covar_module(1, stimulus=SizedKernel()).double()
    items = torch.linspace(0, 1, 5, dtype=DOUBLE).unsqueeze(-1)
    model = EPPreferenceGP(at_raters(items, RATERS), PAIRS, covar_module=kernel).eval()
    model.solution()
    kernel.kernels[0].largest = 0
    X = torch.rand(40, 1, generator=torch.Generator().manual_seed(0)).double()
    with torch.no_grad():
        GroupUtility(model, RATERS).posterior(X)
    assert kernel.kernels[0].largest == len(X), "each stimulus counts once, not thrice"


def test_a_kernel_that_is_no_product_predicts_a_group_by_all_its_members() -> None:
    """The sum of two kernels, each of which is a product of stimulus and rater."""
    kernel = (rater_covar_module(1) + rater_covar_module(1)).double()
    items = torch.linspace(0, 1, 5, dtype=DOUBLE).unsqueeze(-1)
    model = EPPreferenceGP(at_raters(items, RATERS), PAIRS, covar_module=kernel).eval()
    posterior = GroupUtility(model, RATERS).posterior(STIMULI)
    of_all = model.posterior(at_raters(STIMULI, RATERS))
    average = torch.eye(3, dtype=DOUBLE).repeat_interleave(3, dim=-1) / 3
    torch.testing.assert_close(posterior.mean, average @ of_all.mean)
    covariance = average @ of_all.covariance_matrix @ average.T
    torch.testing.assert_close(posterior.covariance_matrix, covariance)
