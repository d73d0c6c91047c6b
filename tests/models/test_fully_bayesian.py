"""Models averaged over hyper-parameters, against grids and models one by one."""

import copy
import importlib.util
import pickle
from importlib import import_module
from typing import Any

import numpy as np
import pytest
import torch
from botorch.acquisition.objective import ScalarizedPosteriorTransform
from botorch.fit import fit_fully_bayesian_model_nuts
from botorch.models.transforms.input import Normalize, Warp
from botorch.posteriors.fully_bayesian import GaussianMixturePosterior
from draws import uniform
from gpytorch.kernels import RBFKernel, ScaleKernel
from gpytorch.priors import GammaPrior, LogNormalPrior
from torch import Tensor

from botorch_pref import (
    BotorchPrefError,
    Choices,
    Comparisons,
    EPPreferenceGP,
    LaplacePreferenceGP,
    PairwiseProbitLikelihood,
    Validity,
    choice_probability,
    log_validity_probability,
)
from botorch_pref.inference.skew.sampler import effective_sample_size
from botorch_pref.models import (
    FullyBayesianEPPreferenceGP,
    FullyBayesianLaplacePreferenceGP,
    PreferenceGP,
)
from botorch_pref.models.fully_bayesian import FullyBayesianPreferenceGP

DOUBLE = torch.float64
KINDS = [
    (FullyBayesianEPPreferenceGP, EPPreferenceGP),
    (FullyBayesianLaplacePreferenceGP, LaplacePreferenceGP),
]
BOUNDS = torch.tensor([[0.0, 0.0], [1.0, 1.0]], dtype=DOUBLE)


POINTS = uniform(6, 2)
PAIRS = torch.tensor([[0, 1], [2, 1], [3, 4], [0, 4], [5, 3], [2, 5]])
NEW = uniform(4, 2, seed=5)
LIKELIHOOD: dict[str, Any] = {
    "tie_threshold": 0.4,
    "tie_threshold_prior": GammaPrior(2.0, 3.0),
    "noise_prior": GammaPrior(2.0, 2.0),
}
VALID = Validity(torch.tensor([0, 2]), torch.tensor([False, True]))


def build(cls: type[PreferenceGP], **kwargs: Any) -> PreferenceGP:
    """Makes a model with kernel, mean, noise and a threshold to learn."""
    arguments = {
        "feedback": [VALID],
        "likelihood": {Comparisons: PairwiseProbitLikelihood(**LIKELIHOOD)},
        "input_transform": Normalize(2, bounds=2 * BOUNDS),
    }
    pairs = Comparisons(PAIRS, ties=PAIRS[:1])
    return cls(POINTS, pairs, **(arguments | kwargs))


def draws(model: PreferenceGP, count: int) -> dict[str, Tensor]:
    """Draws values of the learned parameters, not far from where they are."""
    generator = torch.Generator().manual_seed(3)
    return {
        name: p.detach()
        + 0.5 * torch.randn(count, *p.shape, generator=generator, dtype=DOUBLE)
        for name, p in model.named_parameters()
        if p.requires_grad
    }


def ensemble(
    cls: type[FullyBayesianPreferenceGP], count: int = 3, **kwargs: Any
) -> FullyBayesianPreferenceGP:
    model = build(cls, **kwargs)
    model.load_mcmc_samples(draws(model, count))
    return model.eval()


def members(
    model: FullyBayesianPreferenceGP, cls: type[PreferenceGP], **kwargs: Any
) -> list[PreferenceGP]:
    """Makes a model of its own for each draw."""
    messages = []
    for i in range(model.num_mcmc_samples):
        member = build(cls, **kwargs)
        for name, parameter in member.named_parameters():
            value = model.get_parameter(name)
            if parameter.requires_grad:
                parameter.data = value.detach()[i]
        messages.append(member.eval())
    return messages


# --- Sampling


SCALE_PRIOR, LENGTH_PRIOR = GammaPrior(2.0, 0.5), LogNormalPrior(-0.5, 1.0)


def small_model(cls: type[PreferenceGP]) -> PreferenceGP:
    """Makes a model of two hyper-parameters: the output scale and one lengthscale."""
    base = RBFKernel(lengthscale_prior=LENGTH_PRIOR)
    kernel = ScaleKernel(base, outputscale_prior=SCALE_PRIOR)
    return cls(POINTS, torch.cat([PAIRS, PAIRS[:4]]), covar_module=kernel.double())


def log_values(model: PreferenceGP) -> Tensor:
    kernel = model.covar_module
    lengthscale = kernel.base_kernel.lengthscale.view(-1)
    return torch.stack([kernel.outputscale, lengthscale], dim=-1).detach().log()


NUM_SAMPLES = 150


def sample(model: FullyBayesianPreferenceGP, count: int, thinning: int = 1) -> None:
    fit_fully_bayesian_model_nuts(
        model,
        max_tree_depth=2,
        warmup_steps=60,
        num_samples=count,
        thinning=thinning,
        disable_progbar=True,
        seed=2,
    )


@pytest.fixture(scope="module")
def sampled() -> FullyBayesianPreferenceGP:
    # JAX itself draws from NumPy's global generator when it is imported first.
    import_module("jax")
    model = small_model(FullyBayesianLaplacePreferenceGP)
    states = torch.random.get_rng_state(), str(np.random.get_state())  # noqa: NPY002
    sample(model, NUM_SAMPLES)
    assert torch.equal(torch.random.get_rng_state(), states[0])
    assert str(np.random.get_state()) == states[1]  # noqa: NPY002
    return model


def on_a_grid(size: int) -> tuple[Tensor, Tensor]:
    """Computes log values of two hyper-parameters, and posterior probabilities."""
    axes = [torch.linspace(*ends, size, dtype=DOUBLE) for ends in ((-4, 4), (-5, 4))]
    grid = torch.cartesian_prod(*axes)
    scale, length = grid.exp().T
    batch = torch.Size([len(grid)])
    kernel = ScaleKernel(RBFKernel(batch_shape=batch), batch_shape=batch).double()
    kernel.outputscale = scale
    kernel.base_kernel.lengthscale = length.view(-1, 1, 1)
    model = small_model(LaplacePreferenceGP)
    model.covar_module = kernel
    log_density = (
        model.log_evidence().detach()
        + SCALE_PRIOR.log_prob(scale)
        + LENGTH_PRIOR.log_prob(length)
        + grid.sum(-1)
    )
    return grid, log_density.softmax(0)


@pytest.mark.slow
def test_draws_have_the_posterior_of_a_grid(
    sampled: FullyBayesianPreferenceGP,
) -> None:
    """Means and quantiles within 4.5 standard errors of a correlated sample."""
    grid, weight = on_a_grid(32)
    chain = log_values(sampled)
    assert chain.shape == (NUM_SAMPLES, 2)
    size = effective_sample_size(chain.unsqueeze(1))
    assert size.min() > 15
    mean = weight @ grid
    sd = (weight @ (grid - mean).square()).sqrt()
    assert ((chain.mean(0) - mean).abs() < 4.5 * sd / size.sqrt()).all()
    for log_value, drawn in zip(grid.T, chain.T, strict=True):
        order = log_value.argsort()
        share = weight[order].cumsum(0)
        for level in (0.2, 0.5, 0.8):
            quantile = log_value[order[(share < level).sum()]]
            reached = weight[log_value <= quantile].sum()
            below = (drawn <= quantile).to(DOUBLE)
            spread = (
                reached * (1 - reached) / effective_sample_size(below.view(-1, 1))
            ).sqrt()
            assert (below.mean() - reached).abs() < 4.5 * spread


@pytest.mark.slow
def test_equal_seeds_give_equal_draws_and_a_second_fit_starts_anew(
    sampled: FullyBayesianPreferenceGP,
) -> None:
    again = copy.deepcopy(sampled)
    sample(again, 9, thinning=3)
    assert not again.training
    assert again.batch_shape == (3,)
    assert torch.equal(log_values(again), log_values(sampled)[:9:3])


def test_steps_to_where_rounding_leaves_no_evidence_are_rejected() -> None:
    model = FullyBayesianLaplacePreferenceGP(POINTS, PAIRS)
    nuts = model.pyro_model
    value, gradient = nuts._value_and_gradient(np.array([40.0, 10.0, 10.0]))
    assert value == -np.inf
    assert np.array_equal(gradient, np.zeros(3))
    value, gradient = nuts._value_and_gradient(np.zeros(3, dtype=np.float32))
    assert np.isfinite(value)
    assert value.dtype == gradient.dtype == np.float32


def test_parameters_without_a_prior_are_refused() -> None:
    model = FullyBayesianEPPreferenceGP(POINTS, Comparisons(PAIRS, ties=PAIRS[:1]))
    with pytest.raises(BotorchPrefError, match=r"No prior on .*raw_tie_threshold"):
        fit_fully_bayesian_model_nuts(model, disable_progbar=True)


def test_learned_input_transforms_are_refused() -> None:
    # The models would share one transform, whose parameters a batch cannot broadcast.
    prior = LogNormalPrior(0.0, 0.75)
    warp = Warp(2, [0], concentration0_prior=prior, concentration1_prior=prior)
    model = FullyBayesianEPPreferenceGP(POINTS, PAIRS, input_transform=warp)
    with pytest.raises(BotorchPrefError, match=r"learns .*concentration0.*fit_gpyt"):
        fit_fully_bayesian_model_nuts(model, disable_progbar=True)
    warp.requires_grad_(False)
    model.pyro_model  # noqa: B018 (builds the density)


def test_the_mean_has_a_prior_by_default() -> None:
    model = build(FullyBayesianEPPreferenceGP)
    assert "mean_module.mean_prior" in [name for name, *_ in model.named_priors()]
    pickle.loads(pickle.dumps(model))


def test_a_missing_sampler_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    find_spec = importlib.util.find_spec
    monkeypatch.setattr(
        "botorch_pref.models.fully_bayesian.find_spec",
        lambda name: None if name == "numpyro" else find_spec(name),
    )
    with pytest.raises(ImportError, match=r"need numpyro.*botorch-pref\[fully-bay"):
        FullyBayesianEPPreferenceGP(POINTS, PAIRS)


def test_before_sampling_there_is_no_posterior() -> None:
    model = FullyBayesianEPPreferenceGP(POINTS, PAIRS)
    for call in (
        lambda: model.posterior(NEW),
        lambda: model.duel_probability(NEW, NEW),
        lambda: model.num_mcmc_samples,
    ):
        with pytest.raises(BotorchPrefError, match="fit_fully_bayesian_model_nuts"):
            call()
    assert model.batch_shape == ()


# --- The ensemble


@pytest.mark.parametrize(("cls", "member"), KINDS)
def test_posterior_is_the_mixture_of_its_models(cls: Any, member: Any) -> None:
    model = ensemble(cls)
    X = uniform(5, 4, 2, seed=7)
    posterior = model.posterior(X)
    assert isinstance(posterior, GaussianMixturePosterior)
    assert model.batch_shape == (3,)
    assert posterior.mean.shape == (5, 3, 4, 1)
    alone = members(model, member)
    means = torch.stack([m.posterior(X).mean for m in alone], dim=-3)
    variances = torch.stack([m.posterior(X).variance for m in alone], dim=-3)
    torch.testing.assert_close(posterior.mean, means, rtol=0, atol=1e-6)
    torch.testing.assert_close(posterior.variance, variances, rtol=0, atol=1e-6)
    mean = means.mean(-3)
    variance = (variances + means.square()).mean(-3) - mean.square()
    torch.testing.assert_close(posterior.mixture_mean, mean, rtol=0, atol=1e-6)
    torch.testing.assert_close(posterior.mixture_variance, variance, rtol=0, atol=1e-6)
    evidences = torch.stack([m.log_evidence() for m in alone])
    torch.testing.assert_close(model.log_evidence(), evidences, rtol=0, atol=1e-6)
    # Two dimensions, and values of the mixture's distribution function.
    flat = model.posterior(NEW)
    median = flat.quantile(torch.tensor(0.5, dtype=DOUBLE))
    standard = (median - flat.mean) / flat.variance.sqrt()
    share = torch.special.ndtr(standard).mean(-3)
    torch.testing.assert_close(share, torch.full_like(share, 0.5), rtol=0, atol=1e-5)


@pytest.mark.parametrize("noise", [False, True])
def test_duels_are_averaged(noise: bool) -> None:
    cls, member = KINDS[0]
    model = ensemble(cls)
    first, second = uniform(5, 4, 2, seed=7), uniform(5, 4, 2, seed=8)
    won = model.duel_probability(first, second, observation_noise=noise)
    alone = [m.duel_probability(first, second, noise) for m in members(model, member)]
    torch.testing.assert_close(won, torch.stack(alone).mean(0), rtol=0, atol=1e-6)
    won = model.duel_probability(first[0], second[0], observation_noise=noise)
    alone = [
        m.duel_probability(first[0], second[0], noise) for m in members(model, member)
    ]
    torch.testing.assert_close(won, torch.stack(alone).mean(0), rtol=0, atol=1e-6)
    difference = model.duel_posterior(first, second)
    assert isinstance(difference, GaussianMixturePosterior)
    means = [m.duel_posterior(first, second).mean for m in members(model, member)]
    torch.testing.assert_close(
        difference.mean, torch.stack(means, dim=-3), rtol=0, atol=1e-6
    )


def test_choices_and_validity_are_averaged() -> None:
    cls, member = KINDS[0]
    sets = torch.tensor([[0, 1, 2]])
    blocks = [Choices(sets, sets[:, 0]), VALID]
    model, X = ensemble(cls, feedback=blocks), uniform(5, 4, 2, seed=7)
    alone = members(model, member, feedback=blocks)
    for points in (X, X[0]):
        probabilities = [choice_probability(m, points) for m in alone]
        chosen = choice_probability(model, points)
        torch.testing.assert_close(
            chosen, torch.stack(probabilities).mean(0), rtol=0, atol=0.02
        )
        probabilities = [log_validity_probability(m, points).exp() for m in alone]
        valid = log_validity_probability(model, points).exp()
        torch.testing.assert_close(valid, torch.stack(probabilities).mean(0))


def test_observation_noise_and_transforms() -> None:
    model = ensemble(FullyBayesianEPPreferenceGP)
    X = uniform(5, 4, 2, seed=7)
    plain = model.posterior(X)
    noisy_posterior = model.posterior(X, observation_noise=True)
    noise = model.likelihood.noise
    torch.testing.assert_close(
        noisy_posterior.variance,
        plain.variance + noise.view(3, 1, 1),
        rtol=1e-9,
        atol=0,
    )
    points = uniform(5, 4, 1, seed=9)
    noisy_posterior = model.posterior(X, observation_noise=points)
    torch.testing.assert_close(
        noisy_posterior.variance,
        plain.variance + points.unsqueeze(-3),
        rtol=1e-9,
        atol=0,
    )
    double = ScalarizedPosteriorTransform(torch.tensor([2.0], dtype=DOUBLE))
    doubled = model.posterior(X, posterior_transform=double)
    assert isinstance(doubled, GaussianMixturePosterior)
    torch.testing.assert_close(doubled.mixture_mean, 2 * plain.mixture_mean)


def test_conditioning_is_that_of_each_model() -> None:
    cls, member = KINDS[0]
    model = ensemble(cls)
    X, Y = uniform(2, 2, seed=11), torch.tensor([[1, 0]])
    new = model.condition_on_observations(X, Y)
    assert new.batch_shape == (3,)
    alone = [m.condition_on_observations(X, Y) for m in members(model, member)]
    means = torch.stack([m.posterior(NEW).mean for m in alone])
    torch.testing.assert_close(new.posterior(NEW).mean, means, rtol=0, atol=1e-5)
    # Fantasies: X without, Y with the dimension of the ensemble.
    X = uniform(5, 2, 2, seed=12)
    Y = torch.stack([Y, Y, Y.flip(-1)]).expand(4, 5, 3, 1, 2)
    new = model.condition_on_observations(X, Y)
    assert new.batch_shape == (4, 5, 3)
    batch_mean = new.posterior(NEW.expand(4, 5, 4, 2)).mean
    fantasy = members(model, member)[2].condition_on_observations(X, Y[0, :, 2])
    torch.testing.assert_close(
        batch_mean[1, :, 2], fantasy.posterior(NEW).mean, rtol=0, atol=1e-5
    )


def test_copies_and_states_keep_the_draws() -> None:
    model = ensemble(FullyBayesianEPPreferenceGP)
    expected = model.posterior(NEW).mean
    fresh = build(FullyBayesianEPPreferenceGP)
    fresh.load_state_dict(model.state_dict())
    larger = ensemble(FullyBayesianEPPreferenceGP, count=5)
    larger.load_state_dict(model.state_dict())
    for twin in (
        copy.deepcopy(model),
        pickle.loads(pickle.dumps(model)),
        fresh.eval(),
        larger.eval(),
    ):
        assert twin.num_mcmc_samples == 3
        torch.testing.assert_close(twin.posterior(NEW).mean, expected)
    # Back to a model that was not sampled, and on to another type.
    model.load_state_dict(build(FullyBayesianEPPreferenceGP).state_dict())
    assert model.batch_shape == ()
    assert larger.pyro_model.start.dtype == DOUBLE
    torch.testing.assert_close(larger.pyro_model.start, fresh.pyro_model.start)


def test_without_answers_nothing_is_sampled() -> None:
    model = FullyBayesianEPPreferenceGP(torch.eye(3, 2, dtype=torch.double))
    with pytest.raises(BotorchPrefError, match=r"no answers.*comparisons="):
        fit_fully_bayesian_model_nuts(model, warmup_steps=2, num_samples=2)
