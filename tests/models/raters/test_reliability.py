"""The noise of each rater, against answers that are heard with that noise."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from gpytorch.kernels import LinearKernel
from torch import Tensor
from torch.special import ndtr
from truths.slopes import central_slopes

from botorch_pref import (
    Choices,
    Comparisons,
    EPPreferenceGP,
    FeedbackError,
    LaplacePreferenceGP,
    PairwiseProbitLikelihood,
    Rankings,
    SparsePreferenceGP,
)
from botorch_pref.likelihoods.factors import BoxFactors
from botorch_pref.models import (
    GroupUtility,
    PreferenceGP,
    ReliabilityKernel,
    rater_covar_module,
)
from botorch_pref.models.raters import at_raters, noise_curvature

DOUBLE = torch.float64
ENGINES = [EPPreferenceGP, LaplacePreferenceGP]
NOISE = torch.tensor([0.3, 1.0, 6.0], dtype=DOUBLE)
STIMULI = torch.tensor([[0.1], [0.4], [0.7]], dtype=DOUBLE)
RATERS = torch.arange(3)
PAIRS = torch.tensor(
    [[0, 1], [0, 2], [0, 1], [3, 4], [5, 4], [5, 3], [6, 8], [7, 6], [8, 7], [6, 8]]
)


def points() -> Tensor:
    """Lists every stimulus of the first rater, then of the second, and the third."""
    return at_raters(STIMULI, RATERS).reshape(3, 3, 2).transpose(0, 1).reshape(9, 2)


def kernel_of(noise: Tensor | None) -> Any:
    kernel = rater_covar_module(1, noisy_raters=None if noise is None else RATERS)
    kernel = kernel.double()
    kernel.kernels[0].outputscale = 4.0
    kernel.kernels[0].base_kernel.lengthscale = 0.5
    kernel.kernels[1].agreement = 0.6
    if noise is not None:
        kernel.kernels[2].noise = noise
    return kernel


class HeardWith(PairwiseProbitLikelihood):
    """Comparisons of which each is heard with a noise of its own."""

    def factors(self, feedback: Any, num_points: int) -> BoxFactors:
        factors = super().factors(feedback, num_points)
        of_row = NOISE[feedback.pairs[:, 0] // 3]
        return BoxFactors(factors.rows, 2 * of_row, factors.lower, factors.upper)


@pytest.mark.parametrize("kind", ENGINES)
def test_it_is_the_model_of_answers_heard_with_each_rater_s_noise(
    kind: type[PreferenceGP],
) -> None:
    scaled = kind(points(), PAIRS, covar_module=kernel_of(NOISE)).eval()
    truth = kind(
        points(), PAIRS, covar_module=kernel_of(None), likelihood=HeardWith()
    ).eval()
    with torch.no_grad():
        # An engine stops within 1e-6 posterior deviations.
        torch.testing.assert_close(
            scaled.log_evidence(), truth.log_evidence(), rtol=0, atol=1e-5
        )
        group, common = (GroupUtility(m, RATERS[1:]) for m in (scaled, truth))
        posterior, expected = group.posterior(STIMULI), common.posterior(STIMULI)
        torch.testing.assert_close(posterior.mean, expected.mean, rtol=0, atol=1e-5)
        torch.testing.assert_close(
            posterior.covariance_matrix, expected.covariance_matrix, rtol=0, atol=1e-5
        )
        first, second = STIMULI[:2], STIMULI[1:]
        torch.testing.assert_close(
            group.duel_probability(first, second),
            common.duel_probability(first, second),
            rtol=0,
            atol=1e-6,
        )
        # An answer of the third rater, whose noise is that of his difference.
        ends = [at_raters(X, RATERS[2:]) for X in (first, second)]
        difference = truth.duel_posterior(*ends)
        spread = (difference.variance + 2 * NOISE[2]).sqrt()
        torch.testing.assert_close(
            scaled.duel_probability(*ends, observation_noise=True),
            ndtr(difference.mean / spread).squeeze(-1),
            rtol=0,
            atol=1e-6,
        )


def assert_curvature_is_that_of_the_gradient(model: EPPreferenceGP) -> None:
    """Compares with differences of the evidence's gradient in each raw noise."""
    kernel: Any = model.covar_module.kernels[2]
    curvature, step = noise_curvature(model), 1e-3
    assert curvature is not None
    for rater in range(3):
        ends = []
        for sign in (1, -1):
            kernel.noise = NOISE * (sign * step * torch.eye(3)[rater].double()).exp()
            # The raw noise is the log noise in spreads, of 1 here.
            ends += torch.autograd.grad(model.log_evidence(), kernel.raw_noise)
        expected = (ends[0] - ends[1]) / (2 * step)
        torch.testing.assert_close(curvature[rater], expected, rtol=1e-3, atol=1e-4)


def test_the_curvature_of_the_evidence_in_the_noises() -> None:
    """Also where rows share noise."""
    grid = torch.linspace(-1, 1, 11, dtype=DOUBLE).unsqueeze(-1)
    answers = (
        Comparisons(PAIRS, torch.tensor([[6, 7]]), covariates=grid),
        Choices(torch.tensor([[0, 1, 2], [6, 7, 8]]), torch.tensor([1, 8])),
        Rankings(torch.tensor([[3, 5, 4]])),
    )
    model = EPPreferenceGP(points(), feedback=answers, covar_module=kernel_of(NOISE))
    assert_curvature_is_that_of_the_gradient(model)
    for unlike in (
        LaplacePreferenceGP(points(), PAIRS, covar_module=kernel_of(NOISE)),
        EPPreferenceGP(points(), PAIRS, covar_module=kernel_of(NOISE) + LinearKernel()),
    ):
        assert noise_curvature(unlike) is None


@pytest.mark.parametrize("kind", ENGINES)
def test_equal_noises_are_the_noise_of_the_likelihood(kind: type[PreferenceGP]) -> None:
    answers = (
        Comparisons(PAIRS[:6], torch.tensor([[6, 7]])),
        Choices(torch.tensor([[0, 1, 2], [6, 7, 8]]), torch.tensor([1, 8])),
        Rankings(torch.tensor([[3, 5, 4]])),
    )
    # Laplace's engine does not take what is heard once for three options.
    heard_answers = answers if kind is EPPreferenceGP else answers[:1]
    evidences = []
    for kernel, noise in (
        (kernel_of(torch.full((3,), 2.5)), 1.0),
        (kernel_of(None), 2.5),
    ):
        # A tie threshold is in deviations of the noise.
        likelihood = PairwiseProbitLikelihood(noise, 0.4 * noise**0.5)
        model = kind(
            points(), feedback=heard_answers, covar_module=kernel, likelihood=likelihood
        )
        evidences.append(float(model.log_evidence().detach()))
    assert evidences[0] == pytest.approx(evidences[1], abs=1e-5)


@pytest.mark.parametrize("kind", [*ENGINES, SparsePreferenceGP])
def test_the_gradient_in_each_noise_is_that_of_the_evidence(kind: Any) -> None:
    kernel = kernel_of(NOISE)
    model = kind(points(), PAIRS, covar_module=kernel)
    raw = kernel.kernels[2].raw_noise
    (gradient,) = torch.autograd.grad(model.log_evidence(), raw)
    want = central_slopes(model.log_evidence, raw, 1e-3)
    # The third derivative, of order one, and the engine's 1e-6 over the step.
    torch.testing.assert_close(gradient, want, rtol=0, atol=1e-3)


def test_a_new_rater_has_the_noise_of_the_median() -> None:
    kernel = ReliabilityKernel(torch.tensor([7, 2]), spread=0.5).double()
    assert kernel.raters.tolist() == [2, 7]
    kernel.noise = torch.tensor([4.0, 0.25])
    numbers = torch.tensor([[7.0], [3.0], [2.0]], dtype=DOUBLE)
    expected = torch.tensor([2.0, 1.0, 0.5], dtype=DOUBLE)
    torch.testing.assert_close(
        kernel(numbers).to_dense(), expected.outer(expected), rtol=1e-9, atol=0
    )
    torch.testing.assert_close(kernel(numbers, diag=True), expected.square())
    (_, _, prior, closure, _), *_ = kernel.named_priors()
    # The log noise over its spread is a standard normal variable.
    raw = torch.tensor([math.log(4) / 0.5, math.log(0.25) / 0.5], dtype=DOUBLE)
    torch.testing.assert_close(closure(kernel), raw)
    assert prior.loc == 0
    assert prior.scale == 1
    wrong = [torch.empty(0), torch.tensor([1, 1]), torch.ones(2, 1)]
    for raters in (*wrong, torch.tensor([0, math.nan]), torch.tensor([math.inf])):
        with pytest.raises(FeedbackError, match="number of each rater"):
            ReliabilityKernel(raters)
    for spread in (0.0, -1.0, math.nan, math.inf):
        with pytest.raises(FeedbackError, match="give a positive finite number"):
            ReliabilityKernel(RATERS, spread=spread)
    with pytest.raises(FeedbackError, match="leave out rater_dim or noisy_raters"):
        rater_covar_module(2, rater_dim=1, noisy_raters=torch.arange(2))


def test_numbers_that_single_precision_would_round_are_known() -> None:
    """Each rater has the noise of his own number, as the points hold it."""
    numbers = torch.tensor([0.1, 2.0**24, 2.0**24 + 1], dtype=DOUBLE)
    kernel = ReliabilityKernel(numbers).double()
    kernel.noise = NOISE
    torch.testing.assert_close(kernel.deviations(numbers), NOISE.sqrt())


def test_who_has_no_noise_of_his_own_has_no_part_in_the_curvature() -> None:
    """Beside answers of a number that is not known."""
    stranger = torch.cat([STIMULI, torch.full((3, 1), 9.0, dtype=DOUBLE)], dim=-1)
    pairs = torch.cat([PAIRS, torch.tensor([[9, 10], [11, 10], [9, 11], [10, 9]])])
    joined = torch.cat([points(), stranger])
    model = EPPreferenceGP(joined, pairs, covar_module=kernel_of(NOISE))
    assert_curvature_is_that_of_the_gradient(model)
