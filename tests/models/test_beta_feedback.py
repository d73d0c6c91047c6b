"""Models of strengths and ratings against draws from the prior, and their fit."""

import math

import pytest
import torch
from botorch.fit import fit_gpytorch_mll
from botorch.sampling.pathwise import draw_matheron_paths

from botorch_pref.errors import InferenceWarning
from botorch_pref.feedback import Comparisons, Ratings, Strengths, Validity
from botorch_pref.likelihoods import BetaRatingLikelihood, PairwiseBetaLikelihood
from botorch_pref.models import (
    EPPreferenceGP,
    LaplacePreferenceGP,
    PreferenceMarginalLogLikelihood,
)

POINTS = torch.tensor([[0.1], [0.35], [0.6], [0.95]], dtype=torch.float64)
NEW = torch.tensor([[0.2], [0.5], [1.3]], dtype=torch.float64)

PLAIN = (
    Strengths(torch.tensor([[0, 1], [2, 1], [3, 0]]), torch.tensor([0.7, 0.6, 0.35])),
    Ratings(torch.tensor([1, 3]), torch.tensor([0.3, 0.6])),
)
# The last strength and the last rating are held for unlikely by the rest.
SURPRISING = (
    Strengths(
        torch.tensor([[0, 1], [0, 1], [2, 1], [0, 1]]),
        torch.tensor([0.99, 0.99, 0.7, 0.02]),
    ),
    Ratings(torch.tensor([2, 2, 2]), torch.tensor([0.99, 0.97, 0.02])),
    Comparisons(torch.tensor([[3, 0], [2, 3]])),
    Validity(torch.tensor([3]), torch.tensor([True])),
)

# The largest error of means in posterior deviations, of deviations relative to them,
# and of the log evidence, over points with answers and without.
ACCURACY = {EPPreferenceGP: 0.02, LaplacePreferenceGP: 0.15}
each_engine = pytest.mark.parametrize("engine", ACCURACY)


def build(engine, blocks, precision=8.0, scale=2.0):
    model = engine(
        POINTS,
        feedback=blocks,
        likelihood={
            Strengths: PairwiseBetaLikelihood(precision),
            Ratings: BetaRatingLikelihood(precision),
        },
    )
    model.covar_module.outputscale = scale
    model.covar_module.base_kernel.lengthscale = 0.4
    if hasattr(model.mean_module, "constant"):
        model.mean_module.constant = 0.2
    return model.requires_grad_(False)


def log_probability(likelihood, block, f):
    """Of a block of answers: torch's own densities where there are any."""
    if isinstance(block, Strengths):
        z = f[:, block.pairs[:, 0]] - f[:, block.pairs[:, 1]]
        return likelihood(z).log_prob(block.strengths.double()).sum(-1)
    if isinstance(block, Ratings):
        answer = likelihood(f[:, block.indices])
        return answer.log_prob(block.ratings.double()).sum(-1)
    factors = likelihood.factors(block, f.shape[-1])
    return factors.log_prob(factors.rows.apply(f)).value.sum(-1)


def from_prior(model, blocks, points, count=200_000):
    """Draws of utilities at the data and at new points, and their log weights."""
    n = len(POINTS)
    everything = torch.cat([POINTS, points])
    covar = model.covar_module(everything).to_dense()
    generator = torch.Generator().manual_seed(5)
    root = torch.linalg.cholesky(covar + 1e-10 * torch.eye(len(everything)))
    normal = torch.randn(
        count, len(everything), generator=generator, dtype=torch.float64
    )
    f = model.mean_module(everything) + normal @ root.mT
    log_weight = torch.zeros(count, dtype=torch.float64)
    for block in blocks:
        likelihood = model.likelihoods[type(block).__name__]
        log_weight += log_probability(likelihood, block, f[:, :n])
    return f[:, n:], log_weight


@each_engine
def test_posterior_and_evidence_against_weighted_draws_of_the_prior(engine) -> None:
    blocks = SURPRISING
    model = build(engine, blocks)
    everywhere = torch.cat([NEW, POINTS + 1e-4])
    f, log_weight = from_prior(model, blocks, everywhere)
    weight = torch.softmax(log_weight, 0)
    size = float(1 / weight.square().sum())
    mean = weight @ f
    centred = f - mean
    covariance = (weight.unsqueeze(-1) * centred).mT @ centred
    deviation = covariance.diagonal().sqrt()
    posterior = model.posterior(everywhere)
    got = posterior.mean.squeeze(-1)
    spread = posterior.variance.squeeze(-1).sqrt()
    tolerance = ACCURACY[engine] + 4 / math.sqrt(size)
    assert float(((got - mean) / deviation).abs().max()) < tolerance
    assert float((spread / deviation - 1).abs().max()) < tolerance
    gap = posterior.distribution.covariance_matrix - covariance
    gap = gap / deviation / deviation.unsqueeze(-1)
    assert float(gap.abs().max()) < 2 * tolerance
    evidence = float(torch.logsumexp(log_weight, 0)) - math.log(len(f))
    assert float(model.log_evidence()) == pytest.approx(evidence, abs=tolerance)
    assert model.diagnostics()["converged"]
    assert bool((model.solution().sites.precision < 0).any())


@each_engine
def test_predicted_answers_are_those_of_weighted_draws(engine) -> None:
    """From the model's own posterior: equations 45 and 53 end to end."""
    model = build(engine, PLAIN)
    f, log_weight = from_prior(model, PLAIN, NEW)
    weight = torch.softmax(log_weight, 0)
    error = ACCURACY[engine] + 4 * float(weight.square().sum().sqrt())
    rating = model.likelihoods["Ratings"]
    posterior = model.posterior(NEW)
    moments = posterior.mean.squeeze(-1), posterior.variance.squeeze(-1)
    want = weight @ torch.special.ndtr(f / math.sqrt(2))
    torch.testing.assert_close(
        rating.expected_answer(*moments), want, rtol=0, atol=error
    )
    strength = model.likelihoods["Strengths"]
    duel = model.duel_posterior(NEW[:1], NEW[1:2])
    moments = duel.mean.squeeze(-1), duel.variance.squeeze(-1)
    generator = torch.Generator().manual_seed(7)
    index = torch.multinomial(weight, 100_000, True, generator=generator)
    torch.manual_seed(0)
    answer = strength(f[index, 0] - f[index, 1]).sample()
    error += 4 / math.sqrt(len(answer))
    assert float(strength.expected_answer(*moments)) == pytest.approx(
        float(answer.mean()), abs=error
    )
    share = float((answer > 0.5).double().mean())
    assert float(strength.preference_probability(*moments)) == pytest.approx(
        share, abs=error
    )


@pytest.mark.slow
def test_function_draws_have_the_widened_covariance() -> None:
    model = build(EPPreferenceGP, SURPRISING)
    torch.manual_seed(2)
    with torch.no_grad():
        draws = torch.cat(
            [
                draw_matheron_paths(model, torch.Size([2_000]))(NEW)
                for _ in range(6)  # of features, whose own error is 0.02 at 2,048
            ]
        )
    posterior = model.posterior(NEW)
    deviation = posterior.variance.squeeze(-1).sqrt()
    gap = (draws.mean(0) - posterior.mean.squeeze(-1)) / deviation
    assert float(gap.abs().max()) < 0.05
    assert float((draws.std(0) / deviation - 1).abs().max()) < 0.04
    terms = model.posterior_terms()
    narrow = torch.cat([terms.root, terms.widening], dim=-1)
    assert narrow.isfinite().all()
    # What is widened is more than the tolerance of this test.
    k = model.covar_module(NEW, POINTS).to_dense()
    extra = (k @ terms.widening).square().sum(-1) / deviation.square()
    assert float(extra.max()) > 0.1


@pytest.mark.slow
def test_impossible_answers_make_ep_say_that_it_failed() -> None:
    """Precise answers that contradict each other: no Gaussian has their moments."""
    pairs = torch.tensor([[0, 1], [0, 2], [1, 3], [1, 0], [2, 3], [3, 0]])
    answers = torch.tensor([0.99, 0.01, 0.98, 0.97, 0.99, 0.96])
    blocks = (Strengths(pairs, answers),)
    model = build(EPPreferenceGP, blocks, precision=500.0, scale=200.0)
    with pytest.warns(InferenceWarning, match="did not converge"):
        model.diagnostics()
    assert not model.diagnostics()["converged"]
    assert model.diagnostics()["residual"] > 1e-3
    # Laplace finds a mode.
    model = build(LaplacePreferenceGP, blocks, precision=500.0, scale=200.0)
    assert model.diagnostics()["converged"]


@each_engine
@pytest.mark.parametrize("precision", [1e3, 1e4])
def test_precise_answers_are_found_again_from_another_prior(engine, precision) -> None:
    """Sites are then so stiff that their rounding hides what steps gain.

    A fit starts from the solution before and may learn so large a precision. A model
    that does not converge warns, and warnings are errors.
    """
    generator = torch.Generator().manual_seed(1)
    draws = torch.rand(17, generator=generator, dtype=torch.float64)
    model = engine(
        draws[:12].reshape(6, 2),
        feedback=[Ratings(torch.arange(5), 0.02 + 0.5 * draws[12:])],
        likelihood=BetaRatingLikelihood(precision=precision, noise=0.4),
    )
    for lengthscale in (0.3, 0.1, 1.0, 0.5, 2.0):
        model.covar_module.base_kernel.lengthscale = lengthscale
        warm = model.log_evidence().detach()
        model.set_train_data()
        # Weights are a difference of numbers 1e4 times as large.
        assert float(model.log_evidence().detach() - warm) == pytest.approx(0, abs=1e-5)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("engine", "seed"),
    [(EPPreferenceGP, 0), (LaplacePreferenceGP, 0), (LaplacePreferenceGP, 3)],
)
def test_answers_without_noise_fit_by_default(engine, seed) -> None:
    """No precision is too large for them, but for the prior; warnings are errors."""
    generator = torch.Generator().manual_seed(seed)
    x = torch.rand(25, 1, generator=generator, dtype=torch.float64)
    truth = math.sqrt(2) * torch.sin(5 * x.squeeze(-1))
    rated = torch.special.ndtr(truth / math.sqrt(2))
    model = engine(x, feedback=[Ratings(torch.arange(25), rated)])
    fit_gpytorch_mll(PreferenceMarginalLogLikelihood(model.likelihood, model))
    assert model.diagnostics()["converged"]
    posterior = model.posterior(x)
    off = (posterior.mean.detach() - truth.unsqueeze(-1)).abs()
    assert float((off / posterior.variance.detach().sqrt()).max()) < 4
    # For each factor of e in the precision the evidence gains half a nat for each
    # answer at most, which the exponential prior takes back.
    precision = model.likelihoods["Ratings"].precision.item()
    assert 1e4 < precision < 25 / 2 * 3e4
    # A thousandth of the scale is then as much as anybody can say.
    assert float(off.max()) < 0.01
