"""Predictions: links, chances of being chosen or valid, and answers not yet here."""

import math
from types import SimpleNamespace

import pytest
import torch
from botorch.models.likelihoods import pairwise as botorch_pairwise
from botorch.models.transforms.input import Normalize
from gpytorch.likelihoods import GaussianLikelihood, Likelihood
from gpytorch.means import ConstantMean
from models.cell_models import PARTS, made
from registry import CELLS
from scipy.stats import norm
from torch import Tensor
from truths.answers import POINTS, log_probabilities
from truths.slopes import central_slopes

from botorch_pref import (
    AffineProbitLikelihood,
    Choices,
    Comparisons,
    EPPreferenceGP,
    LaplacePreferenceGP,
    PairwiseBetaLikelihood,
    Rankings,
    SkewPreferenceGP,
    UnsupportedFeedbackError,
    Validity,
)
from botorch_pref.likelihoods import ProbitLink
from botorch_pref.models import (
    PreferenceGP,
    choice_probability,
    log_validity_probability,
)
from botorch_pref.models.answer_likelihoods import model_link
from botorch_pref.models.predictions import awaiting_answers
from botorch_pref.posteriors import Moments, SkewNormalPosterior, gaussian_posterior
from botorch_pref.posteriors.gaussian import shared_covariance_mixture


def link_of(likelihood: Likelihood):
    return model_link(SimpleNamespace(likelihood=likelihood))


@pytest.mark.parametrize(
    "likelihood",
    [
        botorch_pairwise.PairwiseProbitLikelihood(),
        botorch_pairwise.PairwiseLogitLikelihood(),
    ],
)
def test_the_links_of_botorch(likelihood: Likelihood) -> None:
    """Inside the range to which BoTorch clamps its differences."""
    difference = torch.linspace(-3, 3, 13)
    utility = torch.stack([difference, torch.zeros_like(difference)], dim=-1)
    theirs = likelihood.p(utility, torch.tensor([[1.0, -1.0]])).squeeze(-1)
    ours = link_of(likelihood).win_probability(difference, torch.zeros_like(difference))
    torch.testing.assert_close(ours, theirs, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(
    "likelihood",
    [GaussianLikelihood(), AffineProbitLikelihood(), PairwiseBetaLikelihood(), None],
)
def test_a_likelihood_without_duels_is_refused(likelihood) -> None:
    with pytest.raises(UnsupportedFeedbackError, match=type(likelihood).__name__):
        link_of(likelihood)


# --- Choices

OF_SETS = [p for p in PARTS if isinstance(p.values[1].feedback, Choices | Rankings)]


@pytest.mark.parametrize(("engine", "cell"), OF_SETS)
def test_options_are_chosen_as_often_as_draws_say(engine, cell) -> None:
    """Within four standard errors of the draws of both."""
    model, law = made(engine, cell), cell.likelihood().double()
    X = torch.tensor([[0.1], [0.5], [0.8], [0.95]], dtype=torch.float64)
    got = choice_probability(model, X, num_samples=2048).detach()
    with torch.random.fork_rng(), torch.no_grad():
        torch.manual_seed(2)
        utilities = model.posterior(X).rsample(torch.Size([20_000])).squeeze(-1)
    each_of_them = Choices(torch.arange(4).expand(4, 4), torch.arange(4))
    likelihoods = log_probabilities(utilities, each_of_them, law).exp()
    error = 4 * likelihoods.std(0) * (20_000**-0.5 + 2048**-0.5)
    assert bool(((got - likelihoods.mean(0)).abs() < error).all())
    assert float(got.sum()) == pytest.approx(1.0, abs=1e-9)


@pytest.mark.parametrize("engine", [EPPreferenceGP, SkewPreferenceGP])
def test_it_has_gradients_where_it_is_evaluated(engine) -> None:
    model = made(engine, CELLS[3])
    X = torch.tensor([[0.1], [0.5], [0.8]], dtype=torch.float64, requires_grad=True)
    (gradient,) = torch.autograd.grad(choice_probability(model, X)[1], X)
    want = central_slopes(lambda: choice_probability(model, X)[1], X, 1e-5)
    torch.testing.assert_close(gradient, want, rtol=1e-4, atol=1e-7)


def test_a_model_of_duels_alone_knows_of_no_sets() -> None:
    duels = EPPreferenceGP(POINTS, Comparisons(torch.tensor([[0, 1]])))
    with pytest.raises(UnsupportedFeedbackError, match="choices or rankings"):
        choice_probability(duels, POINTS[:3])


# --- Validity

DOUBLE = torch.float64
TAKING = [LaplacePreferenceGP, EPPreferenceGP, SkewPreferenceGP]
TRIED = torch.tensor([[0.1], [0.35], [0.5], [0.8], [0.95]], dtype=DOUBLE)


def make_model(kind: type[PreferenceGP], noise: float = 0.7) -> PreferenceGP:
    mean = ConstantMean()
    mean.initialize(constant=0.4)
    valid = torch.tensor([True, True, True, False, False])
    model = kind(
        TRIED,
        feedback=[Validity(torch.arange(5), valid)],
        likelihood=AffineProbitLikelihood(noise),
        mean_module=mean,
        input_transform=Normalize(1, bounds=torch.tensor([[0.0], [2.0]]).double()),
    )
    model.covar_module.base_kernel.lengthscale = 0.15
    model.covar_module.outputscale = 3.0
    return model.eval()


ASKED = torch.tensor([[[0.0], [0.6]], [[0.5], [1.7]], [[0.9], [0.2]]], dtype=DOUBLE)


@pytest.mark.parametrize("kind", TAKING)
def test_the_mean_of_the_likelihood_over_the_posterior(
    kind: type[PreferenceGP],
) -> None:
    """By the likelihood's own ``forward`` on a grid under the posterior's density."""
    model = make_model(kind)
    t = torch.linspace(-20, 20, 801, dtype=DOUBLE)
    step = t[1] - t[0]
    expected = []
    for x in ASKED.reshape(-1, 1, 1):
        posterior = model.posterior(x)
        if kind is SkewPreferenceGP:
            density = posterior.density(t).flatten()
        else:
            scale = posterior.variance.sqrt()
            standard = torch.distributions.Normal(posterior.mean, scale)
            density = standard.log_prob(t).exp().flatten()
        valid = model.likelihood.forward(t).probs
        expected.append((valid * density).sum() * step)
    actual = log_validity_probability(model, ASKED).exp()
    # The sum of a smooth density at steps far below its width is exact.
    torch.testing.assert_close(
        actual.flatten(), torch.stack(expected), rtol=1e-7, atol=1e-9
    )


@pytest.mark.parametrize("kind", TAKING)
def test_the_gradient_of_validity(kind: type[PreferenceGP]) -> None:
    model = make_model(kind)
    points = ASKED.clone().requires_grad_(True)
    (gradient,) = torch.autograd.grad(
        log_validity_probability(model, points).sum(), points
    )
    with torch.no_grad():
        slope = log_validity_probability(model, ASKED + 1e-5)
        slope = (slope - log_validity_probability(model, ASKED - 1e-5)) / 2e-5
    torch.testing.assert_close(gradient.squeeze(-1), slope, rtol=1e-5, atol=1e-8)


def test_a_batch_of_models() -> None:
    """Batches of points broadcast in front of those of models."""
    batch = torch.stack([TRIED, TRIED.flip(0) * 0.9])
    valid = torch.tensor([True, True, True, False, False])
    together = EPPreferenceGP(batch, feedback=[Validity(torch.arange(5), valid)])
    actual = log_validity_probability(together, ASKED.unsqueeze(1))
    assert actual.shape == (3, 2, 2)
    for index, points in enumerate(batch):
        alone = EPPreferenceGP(points, feedback=[Validity(torch.arange(5), valid)])
        expected = log_validity_probability(alone, ASKED)
        torch.testing.assert_close(actual[:, index], expected, rtol=1e-6, atol=1e-6)


def test_a_hopeless_point_keeps_its_gradient() -> None:
    model = make_model(EPPreferenceGP, noise=1e-4)
    model.mean_module.initialize(constant=-200.0)
    point = torch.tensor([[3.0]], dtype=DOUBLE, requires_grad=True)
    value = log_validity_probability(model, point)
    (gradient,) = torch.autograd.grad(value.sum(), point)
    assert float(value.detach().exp()) == 0
    assert bool(value.isfinite().all())
    assert bool(gradient.isfinite().all())


def test_a_shared_utility_has_one_too(answers: tuple[Tensor, Tensor]) -> None:
    points, pairs = answers
    validity = Validity(torch.tensor([0, 1]), torch.tensor([True, False]))
    model = EPPreferenceGP(points, pairs, feedback=[validity])
    log_valid = log_validity_probability(model, points[:2])
    assert bool(log_valid[0] > log_valid[1])
    with pytest.raises(UnsupportedFeedbackError, match="no likelihood for Validity"):
        log_validity_probability(EPPreferenceGP(points, pairs), points)


@pytest.fixture
def answers() -> tuple[Tensor, Tensor]:
    return TRIED, torch.tensor([[0, 1], [1, 2], [3, 4]])


# --- Awaited answers

DOUBLE = torch.double
LINK = ProbitLink(0.3)
ONE = torch.tensor([0]), torch.tensor([2])
TWO = torch.tensor([0, 1]), torch.tensor([2, 3])


def random_moments(*batch: int, components: int = 1, points: int = 5) -> Moments:
    generator = torch.Generator().manual_seed(3)
    root = torch.randn(*batch, points, points, generator=generator, dtype=DOUBLE)
    means = torch.randn(components, *batch, points, generator=generator, dtype=DOUBLE)
    return Moments(means, root @ root.mT)


def answer_moments(moments: Moments) -> list[tuple[float, Tensor, Tensor]]:
    """Computes probability, mean and second moment of each answer of `ONE`.

    Given the difference of its options the utilities of a component are Gaussian,
    linear in the difference, which is integrated on a grid.
    """
    covariance = moments.covariance
    row = torch.zeros(len(covariance), dtype=DOUBLE)
    row[ONE[0]], row[ONE[1]] = 1.0, -1.0
    variance = float(row @ covariance @ row)
    slope = covariance @ row / variance
    residual_covariance = covariance - variance * torch.outer(slope, slope)
    errors = []
    for sign in (1, -1):
        parts = []
        for mean in moments.means:
            step = torch.linspace(-12, 12, 2_001, dtype=DOUBLE) * math.sqrt(variance)
            weight = torch.from_numpy(norm.pdf(step, scale=math.sqrt(variance)))
            noise = math.sqrt(2 * LINK.noise)
            cdf = norm.cdf(sign * (float(mean @ row) + step.numpy()) / noise)
            weight = weight * torch.from_numpy(cdf)
            f = mean + step.unsqueeze(-1) * slope
            second = f.unsqueeze(-1) * f.unsqueeze(-2) + residual_covariance
            integrals = [
                torch.trapezoid(values.flatten(1).T * weight, step)
                for values in (torch.ones_like(f[:, :1]), f, second)
            ]
            parts.append(torch.cat(integrals))
        p, first, second = (
            torch.stack(parts).mean(0).split([1, len(row), len(row) ** 2])
        )
        errors.append((float(p), first / p, second.view(len(row), -1) / p))
    return errors


def test_one_duel_leaves_the_covariance_that_is_expected_after_its_answer() -> None:
    moments = random_moments()
    expected = sum(
        p * (second - torch.outer(first, first))
        for p, first, second in answer_moments(moments)
    )
    after = awaiting_answers(gaussian_posterior(moments), LINK, *ONE)
    means, covariance = shared_covariance_mixture(after)
    torch.testing.assert_close(means, moments.means)
    torch.testing.assert_close(covariance, expected, rtol=1e-8, atol=1e-9)


def dense_conditioning(moments: Moments, noise: list[float]) -> Tensor:
    """Computes the covariance after differences of `TWO` were seen with noise."""
    A = torch.zeros(2, moments.covariance.shape[-1], dtype=DOUBLE)
    A[0, 0] = A[1, 1] = 1.0
    A[0, 2] = A[1, 3] = -1.0
    total = moments.covariance + moments.means.T.cov(correction=0)
    row_covariance = A @ total @ A.T + torch.tensor(noise, dtype=DOUBLE).diag()
    return total - total @ A.T @ row_covariance.inverse() @ A @ total


@pytest.mark.parametrize("components", [1, 4])
def test_several_duels_are_seen_with_noise(components: int) -> None:
    moments = random_moments(components=components)
    noise = []
    for first, second in zip(*TWO, strict=True):
        means = moments.means[:, first] - moments.means[:, second]
        C = moments.covariance
        within = float(C[first, first] + C[second, second] - 2 * C[first, second])
        scale = math.sqrt(2 * LINK.noise + within)
        wins = norm.cdf(means / scale)
        slope = norm.pdf(means / scale).mean() / scale
        shift = float(((means - means.mean()).numpy() * wins).mean()) + within * slope
        variance = within + float(means.var(correction=0))
        learned = shift**2 / (wins.mean() * (1 - wins.mean()))
        noise.append(variance**2 / learned - variance)
    # A sign tells less than the noisy difference itself.
    assert min(noise) > 2 * LINK.noise
    mixture = SkewNormalPosterior(moments.means, moments.covariance)
    before = gaussian_posterior(moments) if components == 1 else mixture
    after = awaiting_answers(before, LINK, *TWO)
    means, covariance = shared_covariance_mixture(after)
    assert isinstance(after, SkewNormalPosterior) == (components > 1)
    torch.testing.assert_close(means.mean(0), moments.mean)
    total = covariance + means.T.cov(correction=0)
    torch.testing.assert_close(total, dense_conditioning(moments, noise))
    assert float(torch.linalg.eigvalsh(covariance).min()) > 0


def test_a_mixture_is_as_sure_of_the_difference_as_the_answer_makes_it() -> None:
    moments = random_moments(components=4)
    row = torch.tensor([1.0, 0.0, -1.0, 0.0, 0.0], dtype=DOUBLE)
    expected = sum(
        p * float(row @ second @ row - (first @ row) ** 2)
        for p, first, second in answer_moments(moments)
    )
    before = SkewNormalPosterior(moments.means, moments.covariance)
    means, covariance = shared_covariance_mixture(awaiting_answers(before, LINK, *ONE))
    row_variance = row @ covariance @ row + (means @ row).var(correction=0)
    assert float(row_variance) == pytest.approx(expected, rel=1e-7)


@pytest.mark.parametrize("components", [1, 3])
def test_awaited_answers_of_a_batch(components: int) -> None:
    moments = random_moments(2, 3, components=components)
    noise = torch.tensor([0.1, 0.5, 2.0], dtype=DOUBLE)
    before = SkewNormalPosterior(moments.means, moments.covariance)
    after = awaiting_answers(before, ProbitLink(noise), *TWO)
    for i in range(2):
        for j in range(3):
            element_posterior = SkewNormalPosterior(
                moments.means[:, i, j], moments.covariance[i, j]
            )
            alone = awaiting_answers(
                element_posterior, ProbitLink(float(noise[j])), *TWO
            )
            expected = alone.component_covariance
            torch.testing.assert_close(after.component_covariance[i, j], expected)
            torch.testing.assert_close(
                after.component_means[:, i, j], alone.component_means
            )


def test_the_same_options_and_the_same_duel_again() -> None:
    """A duel of a point with itself teaches nothing; a second answer less."""
    moments = random_moments()
    itself = torch.tensor([0]), torch.tensor([0])
    before = gaussian_posterior(moments)
    for link in (LINK, ProbitLink(0.0)):
        unmoved = awaiting_answers(before, link, *itself).covariance_matrix
        torch.testing.assert_close(unmoved, moments.covariance)
        remaining_moments = [
            awaiting_answers(before, link, *(x.repeat(n) for x in ONE))
            for n in (1, 2, 3)
        ]
        variances = [
            float(p.variance[0] + p.variance[2] - 2 * p.covariance_matrix[0, 2])
            for p in remaining_moments
        ]
        gains = -torch.tensor(variances).diff()
        assert bool((gains > 0).all())
        assert gains[1] < gains[0]
