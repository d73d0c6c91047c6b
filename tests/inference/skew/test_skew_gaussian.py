"""The exact posterior of boxed answers, against rejection, density and closed forms."""

import math

import pytest
import torch
from botorch.utils.probability import (
    TruncatedMultivariateNormal,
    UnifiedSkewNormal,
)
from gpytorch.distributions import MultivariateNormal
from truths.engines import expectation_propagation

from botorch_pref.feedback import Comparisons, Validity
from botorch_pref.inference.skew.coordinates import BoxCopula
from botorch_pref.inference.skew.posterior import BoxProblem
from botorch_pref.likelihoods import AffineProbitLikelihood, PairwiseProbitLikelihood
from botorch_pref.likelihoods.factors import joint_factors

POINTS = torch.tensor([0.0, 0.35, 0.8, 1.0], dtype=torch.float64)
MEAN = torch.tensor([0.4, -0.3, 0.1, 0.0], dtype=torch.float64)
NOISE, THRESHOLD = 0.05, 0.3
DRAWS = 8_192


def kernel(scale=1.5, lengthscale=0.5):
    gaps = (POINTS.unsqueeze(-1) - POINTS) / lengthscale
    return scale * torch.exp(-0.5 * gaps.square())


def comparisons(pairs, ties=None):
    likelihood = PairwiseProbitLikelihood(
        tie_threshold=None if ties is None else THRESHOLD
    ).double()
    likelihood.noise = NOISE
    if ties is not None:
        likelihood.tie_threshold = THRESHOLD
        ties = torch.tensor(ties)
    return likelihood, Comparisons(torch.tensor(pairs), ties)


def validity(indices, valid):
    likelihood = AffineProbitLikelihood().double()
    likelihood.noise = NOISE
    return likelihood, Validity(torch.tensor(indices), torch.tensor(valid))


PROBLEMS = {
    "two wins": lambda: [comparisons([[1, 0], [1, 2]])],
    "win and tie": lambda: [comparisons([[1, 0]], [[1, 2]])],
    "wins and failure": lambda: [comparisons([[1, 0], [2, 0]]), validity([1], [False])],
}
each_problem = pytest.mark.parametrize("blocks", PROBLEMS.values(), ids=PROBLEMS.keys())


def factors_of(blocks):
    return joint_factors([likelihood.factors(block, 4) for likelihood, block in blocks])


def solve(covar, mean, factors, draws=DRAWS, seed=0):
    approximation = expectation_propagation(covar, mean, factors)
    generator = torch.Generator().manual_seed(seed)
    result = BoxProblem(covar, mean, factors).sample(approximation, draws, generator)
    return approximation, result


def accepted_draws(covar, mean, factors, count=400_000):
    """Draws utilities from the prior whose noisy rows fall into the boxes."""
    generator = torch.Generator().manual_seed(7)
    root = torch.linalg.cholesky(covar)
    f = mean + torch.randn(count, 4, generator=generator, dtype=root.dtype) @ root.mT
    noise = torch.randn(
        count, factors.rows.num_rows, generator=generator, dtype=root.dtype
    )
    v = factors.rows.apply(f) + noise * factors.variance.sqrt()
    keep = ((v >= factors.lower) & (v <= factors.upper)).all(-1)
    return f[keep], v[keep], float(keep.double().mean())


@each_problem
@pytest.mark.parametrize("by_quantiles", [True, False], ids=["quantiles", "rows"])
def test_posterior_agrees_with_rejection_from_the_prior(
    blocks, by_quantiles, monkeypatch
) -> None:
    """In both coordinates, whichever would be faster."""
    monkeypatch.setattr(BoxCopula, "suits", lambda *_: by_quantiles)
    covar, factors = kernel(), factors_of(blocks())
    factors.lower, factors.upper = factors.lower.detach(), factors.upper.detach()
    _, result = solve(covar, MEAN, factors)
    f, v, probability = accepted_draws(covar, MEAN, factors)
    assert result.latent.converged
    error = 4.5 * math.sqrt(1 / len(f) + 1 / DRAWS)
    # The truncated v: mean, deviation, and never outside of its box.
    spread = v.std(0)
    assert bool((result.truncated >= factors.lower).all())
    assert bool((result.truncated <= factors.upper).all())
    assert float(((result.truncated.mean(0) - v.mean(0)) / spread).abs().max()) < error
    assert float((result.truncated.std(0) / spread - 1).abs().max()) < 1.5 * error
    # The third moment of one draw varies by sqrt(15), for a normal, and what truncation
    # makes of v is far more.
    got, want = (
        ((x - x.mean(0)) / spread).pow(3).mean(0) for x in (result.truncated, v)
    )
    assert float((got - want).abs().max()) < math.sqrt(15) * error
    assert float(want.abs().max()) > 2 * math.sqrt(15) * error
    # Utilities: a mixture of Gaussians with means m + K w and one covariance.
    means = MEAN + (covar @ result.weights).mT
    root = covar @ result.factor.root()
    shared = covar - root @ root.mT
    total = shared + torch.cov(means.mT)
    deviation = f.std(0)
    assert float(((means.mean(0) - f.mean(0)) / deviation).abs().max()) < error
    exact = torch.cov(f.mT)
    scale = deviation.unsqueeze(-1) * deviation
    assert float(((total - exact) / scale).abs().max()) < 1.5 * error
    # The exact evidence is the probability of the answers.
    generator = torch.Generator().manual_seed(5)
    problem = BoxProblem(covar, MEAN, factors)
    got = problem.log_evidence(result, generator)
    sampling = math.sqrt((1 - probability) / probability / 400_000)
    # Importance weights have a relative variance below 0.1 on so few answers.
    allowed = 4.5 * (sampling + math.sqrt(0.1 / DRAWS))
    assert float(got.detach()) == pytest.approx(math.log(probability), abs=allowed)


def orthant(covar, noise):
    """Computes P(two rows with zero mean win): 1/4 + asin(rho) / (2 pi)."""
    a = torch.tensor([[-1.0, 1, 0, 0], [0, 1, -1, 0]], dtype=torch.float64)
    gamma = a @ covar @ a.mT + 2 * noise * torch.eye(2, dtype=torch.float64)
    rho = gamma[0, 1] / (gamma[0, 0] * gamma[1, 1]).sqrt()
    return torch.log(0.25 + torch.asin(rho) / (2 * math.pi))


@pytest.mark.slow
def test_evidence_and_gradient_of_an_orthant_in_closed_form() -> None:
    likelihood, block = comparisons([[1, 0], [1, 2]])
    raw = likelihood.raw_noise.requires_grad_()
    logs = torch.tensor([math.log(1.5), math.log(0.5)], dtype=torch.float64)
    logs.requires_grad_()
    covar, mean = kernel(*logs.exp()), torch.zeros(4, dtype=torch.float64)
    factors = likelihood.factors(block, 4)
    want = orthant(covar, likelihood.noise)
    exact = torch.autograd.grad(want, [logs, raw], retain_graph=True)
    values, gradients = [], []
    for seed in range(16):
        _, result = solve(covar, mean, factors, draws=6_144, seed=seed)
        generator = torch.Generator().manual_seed(100 + seed)
        value = BoxProblem(covar, mean, factors).log_evidence(result, generator)
        gradients.append(
            torch.cat(
                [
                    g.reshape(-1)
                    for g in torch.autograd.grad(value, [logs, raw], retain_graph=True)
                ]
            )
        )
        values.append(value.detach())
    for got, expected in (
        (torch.stack(values).unsqueeze(-1), want.detach().reshape(1)),
        (torch.stack(gradients), torch.cat([e.reshape(-1) for e in exact])),
    ):
        # Student's t with 15 degrees of freedom is beyond 4.9 with probability 2e-4.
        error = 4.9 * got.std(0) / 4
        assert bool(((got.mean(0) - expected).abs() <= error).all())
        # And the error is small enough that a missing term would show.
        assert float(error.max()) < 0.1 * float(expected.abs().max())


def test_density_is_that_of_the_unified_skew_normal() -> None:
    """BoTorch's density of the utilities given two wins, at several points."""
    blocks = PROBLEMS["two wins"]()
    covar, factors = kernel(), factors_of(blocks)
    _, result = solve(covar, MEAN, factors)
    a = factors.rows.apply_matrix(torch.eye(4, dtype=torch.float64))
    places = torch.tensor([0, 1])
    gamma = a @ covar @ a.mT + torch.diag(factors.variance.detach())
    above_zero = torch.tensor([[0.0, math.inf]] * 2, dtype=torch.float64)
    skew = UnifiedSkewNormal(
        trunc=TruncatedMultivariateNormal(a @ MEAN, gamma, bounds=above_zero),
        gauss=MultivariateNormal(MEAN[places], covar[places][:, places]),
        cross_covariance_matrix=(a @ covar)[:, places],
    )
    means = (MEAN + (covar @ result.weights).mT)[:, places]
    root = (covar @ result.factor.root())[places]
    shared = covar[places][:, places] - root @ root.mT
    # A mixture of components with the draws' means.
    values = torch.tensor([[-0.5, 0.5], [0.0, 0.3], [0.4, 1.2], [1.0, 0.6]]).double()
    components = torch.distributions.MultivariateNormal(means.unsqueeze(1), shared)
    densities = components.log_prob(values).exp()
    got, error = densities.mean(0), densities.std(0) / math.sqrt(DRAWS)
    want = skew.log_prob(values).exp()
    assert bool(((got - want).abs() <= 4.5 * error).all())
    assert bool((error < 0.05 * want).all())


def test_one_tie_in_closed_form() -> None:
    """Gradients in the threshold and the noise, which only the factors see."""
    likelihood = PairwiseProbitLikelihood(tie_threshold=THRESHOLD).double()
    raws = [likelihood.raw_tie_threshold, likelihood.raw_noise.requires_grad_()]
    covar = kernel()
    variance = covar[0, 0] - 2 * covar[0, 1] + covar[1, 1] + 2 * likelihood.noise
    gap, delta = MEAN[1] - MEAN[0], likelihood.tie_threshold
    ends = [torch.special.ndtr((x - gap) / variance.sqrt()) for x in (delta, -delta)]
    want = (ends[0] - ends[1]).log()
    exact = torch.autograd.grad(want, raws, retain_graph=True)
    block = Comparisons(None, torch.tensor([[1, 0]]))
    factors = likelihood.factors(block, 4)
    _, result = solve(covar, MEAN, factors)
    generator = torch.Generator().manual_seed(1)
    got = BoxProblem(covar, MEAN, factors).log_evidence(result, generator)
    gradients = torch.autograd.grad(got, raws)
    assert float(got.detach()) == pytest.approx(
        float(want.detach()), abs=4.5 / math.sqrt(DRAWS)
    )
    for gradient, expected in zip(gradients, exact, strict=True):
        # The score of a draw varies by less than itself.
        tolerance = 4.5 / math.sqrt(DRAWS) * (1 + abs(float(expected)))
        assert float(gradient) == pytest.approx(float(expected), abs=tolerance)


def test_batches_have_their_own_posteriors() -> None:
    """Two means in one batch: each as exact as alone, with one stream of draws."""
    factors = factors_of(PROBLEMS["two wins"]())
    means = torch.stack([MEAN, -2 * MEAN])
    covar = kernel().expand(2, 4, 4)
    _, result = solve(covar, means, factors)
    generator = torch.Generator().manual_seed(1)
    evidence = BoxProblem(covar, means, factors).log_evidence(result, generator)
    for i in range(2):
        f, _, probability = accepted_draws(kernel(), means[i], factors)
        got = means[i] + (kernel() @ result.weights[i]).mT.mean(0)
        error = 4.5 * math.sqrt(1 / len(f) + 1 / DRAWS)
        assert float(((got - f.mean(0)) / f.std(0)).abs().max()) < error
        sampling = math.sqrt((1 - probability) / probability / 400_000)
        assert float(evidence[i].detach()) == pytest.approx(
            math.log(probability), abs=4.5 * (sampling + math.sqrt(0.1 / DRAWS))
        )
