"""Function draws against the posterior that they are drawn from."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from botorch.acquisition.thompson_sampling import PathwiseThompsonSampling
from botorch.models import PairwiseGP
from botorch.models.model import Model
from botorch.models.transforms import Normalize
from botorch.optim import optimize_acqf
from botorch.posteriors import GPyTorchPosterior
from botorch.sampling.pathwise import (
    draw_matheron_paths,
    gen_kernel_features,
    get_matheron_path_model,
)
from botorch.sampling.pathwise.features.maps import FeatureMap
from botorch.utils.sampling import manual_seed
from draws import uniform
from gpytorch.kernels import (
    Kernel,
    LinearKernel,
    MaternKernel,
    ProductKernel,
    RBFKernel,
    ScaleKernel,
)
from torch import Tensor

from botorch_pref.acquisition import DuelingThompson
from botorch_pref.errors import BotorchPrefError, FeedbackError
from botorch_pref.feedback import Ratings, Validity
from botorch_pref.likelihoods import AffineProbitLikelihood, BetaRatingLikelihood
from botorch_pref.models import (
    EPPreferenceGP,
    FullyBayesianEPPreferenceGP,
    GroupUtility,
    LaplacePreferenceGP,
    PlackettLuceRegression,
    SkewPreferenceGP,
    VariationalPreferenceGP,
    rater_covar_module,
)
from botorch_pref.models.raters import at_raters

NUM_FEATURE_SETS, PER_SET = 40, 100
PAIRS = torch.tensor([[0, 1], [2, 1], [3, 4], [0, 4], [5, 3], [2, 5], [0, 1]])


def points(count: int, seed: int) -> Tensor:
    return 10 * uniform(count, 2, seed=seed)


def samples(model: Model, X: Tensor, sets: int = NUM_FEATURE_SETS) -> Tensor:
    with manual_seed(11), torch.no_grad():
        shape = torch.Size([PER_SET])
        return torch.cat([draw_matheron_paths(model, shape)(X) for _ in range(sets)])


def covariance_of(posterior: Any) -> Tensor:
    if isinstance(posterior, GPyTorchPosterior):
        return posterior.distribution.covariance_matrix
    return posterior.covariance_matrix


SCALE = 3.0
"""The output scale of most models below."""


def check_sample(
    values: Tensor, mean: Tensor, covariance: Tensor, scale: float = SCALE
) -> None:
    """Compares by five standard errors, of the sample and of feature sets.

    One set of 2,048 features is off by about 1 / sqrt(2048) output scales.
    """
    mean, covariance = mean.squeeze(-1).detach(), covariance.detach()
    variance, count = covariance.diagonal(), len(values)
    feature_error = scale / (2048 * count / PER_SET) ** 0.5
    mean_error = (values.mean(0) - mean).abs()
    assert bool((mean_error < 5 * (variance / count).sqrt() + feature_error).all())
    spread = (variance[:, None] * variance + covariance.square()).sqrt()
    error = (values.T.cov() - covariance).abs()
    assert bool((error < 5 * spread / count**0.5 + 5 * feature_error).all())


def check_moments(model: Model, X: Tensor) -> None:
    posterior = model.posterior(X)
    check_sample(
        samples(model, X),
        posterior.mean,
        covariance_of(posterior),
        float(model.covar_module.outputscale.detach()),
    )


@pytest.mark.parametrize(
    "kind", [PairwiseGP, LaplacePreferenceGP, EPPreferenceGP, SkewPreferenceGP]
)
def test_moments_are_those_of_the_posterior(kind: type[Model]) -> None:
    X = points(6, 1)
    model = kind(X, PAIRS, input_transform=Normalize(d=2)).eval()
    check_moments(model, torch.cat([X[:3], points(3, 2)]))


def test_matern_kernel_with_a_learned_mean_and_absolute_answers() -> None:
    X = points(6, 1) / 10
    model = EPPreferenceGP(
        X,
        PAIRS,
        feedback=[Validity(torch.tensor([0, 1]), torch.tensor([True, False]))],
        covar_module=ScaleKernel(MaternKernel(nu=2.5, ard_num_dims=2)),
    ).eval()
    model.mean_module.constant.data.fill_(1.5)
    check_moments(model, torch.cat([X[:3], points(3, 2) / 10]))


def main_effects() -> Kernel:
    """Makes two terms with unequal scales, each of a column of its own."""
    first = ScaleKernel(RBFKernel(active_dims=[0])).double()
    second = ScaleKernel(MaternKernel(active_dims=[1])).double()
    first.outputscale, second.outputscale = 2.0, 0.5
    first.base_kernel.lengthscale, second.base_kernel.lengthscale = 0.5, 0.3
    return first + second


def scaled_sum() -> Kernel:
    kernel = ScaleKernel(main_effects()).double()
    kernel.outputscale = 1.5
    return kernel


def sum_times_kernel() -> Kernel:
    kernel = main_effects() * RBFKernel().double()
    kernel.kernels[1].lengthscale = 0.8
    return kernel


@pytest.mark.parametrize("build", [main_effects, scaled_sum, sum_times_kernel])
def test_sums_of_kernels_have_draws(build: Callable[[], Kernel]) -> None:
    X, new = points(6, 1) / 10, points(4, 3) / 10
    model = EPPreferenceGP(X, PAIRS, covar_module=build()).eval()
    posterior = model.posterior(new)
    # Features of an unequal part of the variance err by twice as much.
    scale = 2 * float(model.covar_module(new[:1]).to_dense().detach())
    covariance = covariance_of(posterior)
    check_sample(samples(model, new), posterior.mean, covariance, scale)


def test_features_of_a_product_are_sines_and_cosines_of_one_phase() -> None:
    """So their squares add up to the variance, 1, whatever frequencies are drawn."""
    kernel = ProductKernel(
        RBFKernel(active_dims=[0]),
        MaternKernel(2.5, active_dims=[1]),
        RBFKernel(active_dims=[1]),
    ).double()
    with manual_seed(0), torch.no_grad():
        features = gen_kernel_features(kernel, num_inputs=2, num_outputs=64)
        norms = features(points(7, seed=1)).square().sum(-1)
    torch.testing.assert_close(norms, torch.ones_like(norms), atol=1e-12, rtol=0.0)


def test_a_kernel_without_features_is_named() -> None:
    kernel = ScaleKernel(LinearKernel() + RBFKernel())
    model = EPPreferenceGP(points(6, 1) / 10, PAIRS, covar_module=kernel.double())
    with pytest.raises(BotorchPrefError, match=r"\(LinearKernel, RBFKernel\)"):
        draw_matheron_paths(model.eval(), torch.Size())


def test_without_answers_draws_are_the_priors() -> None:
    model = EPPreferenceGP(points(6, 1)).eval()
    check_moments(model, points(4, 2))


def test_without_datapoints_the_error_says_so() -> None:
    with pytest.raises(FeedbackError, match="datapoints"):
        draw_matheron_paths(EPPreferenceGP(), torch.Size())


# --- Batches, ensembles, raters


def answers(model_class: Any, X: Tensor, **kwargs: Any) -> Any:
    """Makes a model with a kernel whose output scale is modest beside the noise."""
    batch = X.shape[:-2]
    base = RBFKernel(ard_num_dims=X.shape[-1], batch_shape=batch)
    kernel = ScaleKernel(base, batch_shape=batch).double()
    kernel.outputscale, base.lengthscale = SCALE, 0.5
    return model_class(X, PAIRS, **({"covar_module": kernel} | kwargs)).eval()


@pytest.mark.parametrize("kind", [VariationalPreferenceGP, SkewPreferenceGP])
def test_batches_of_models_have_draws_each(kind: type[Model]) -> None:
    X = torch.stack([points(6, 1), points(6, 2)]) / 10
    model, new = answers(kind, X), points(4, 3) / 10
    values = samples(model, new, sets=20)
    assert values.shape == (20 * PER_SET, 2, 4)
    posterior = model.posterior(new.expand(2, 4, 2))
    covariances = covariance_of(posterior)
    for i in range(2):
        check_sample(values[:, i], posterior.mean[i], covariances[i])
    # Draws of different models are independent.
    joint = values.transpose(1, 2).flatten(-2).T.corrcoef().view(4, 2, 4, 2)
    assert joint[:, 0, :, 1].abs().max() < 5 / len(values) ** 0.5


def rated(kind: Any, by_features: bool, **kwargs: Any) -> Any:
    """Makes six points in the unit square, met by three raters."""
    raters = torch.tensor([0.0, 1.0, 2.0, 0.0, 1.0, 2.0]).double().unsqueeze(-1)
    kernel = rater_covar_module(2, rater_dim=1 if by_features else None).double()
    stimulus, rater = kernel.kernels
    stimulus.outputscale, stimulus.base_kernel.lengthscale = SCALE, 0.5
    if not by_features:
        rater.agreement = 0.4
    X = torch.cat([points(6, 1) / 10, raters], dim=-1)
    return kind(X, PAIRS, covar_module=kernel, **kwargs).eval()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "by_features"), [(EPPreferenceGP, True), (SkewPreferenceGP, False)]
)
def test_raters_have_the_draws_of_their_posterior(kind: Any, by_features: bool) -> None:
    model = rated(kind, by_features)
    stimuli = points(3, 3) / 10
    # A rater who answered, another, and one never met; equal stimuli once.
    raters = torch.tensor([[0.0], [1.0], [7.0]]).double()
    first_points, second_points = (
        at_raters(stimuli[:1], raters),
        at_raters(stimuli[1:], raters[:1]),
    )
    new = torch.cat([first_points, second_points])
    values, posterior = samples(model, new, sets=20), model.posterior(new)
    check_sample(values, posterior.mean, covariance_of(posterior))
    group = GroupUtility(model, raters)
    values, posterior = samples(group, stimuli, sets=20), group.posterior(stimuli)
    check_sample(values, posterior.mean, covariance_of(posterior))


@pytest.mark.slow
def test_groups_of_raters_with_noises_have_the_draws_of_their_posterior() -> None:
    numbers = torch.arange(3.0, dtype=torch.double)
    kernel = rater_covar_module(2, noisy_raters=numbers).double()
    stimulus, rater, noise = kernel.kernels
    stimulus.outputscale, stimulus.base_kernel.lengthscale = SCALE, 0.5
    rater.agreement, noise.noise = 0.4, torch.tensor([0.3, 1.0, 6.0])
    X = torch.cat([points(6, 1) / 10, numbers.repeat(2).unsqueeze(-1)], dim=-1)
    model = EPPreferenceGP(X, PAIRS, covar_module=kernel).eval()
    group, stimuli = GroupUtility(model, numbers), points(3, 3) / 10
    values, posterior = samples(group, stimuli, sets=20), group.posterior(stimuli)
    check_sample(values, posterior.mean, covariance_of(posterior))


# --- The skewness of SkewGP, and what is exact


def skewed_model() -> SkewPreferenceGP:
    feedback = [Validity(torch.tensor([0, 1]), torch.tensor([True, False]))]
    likelihood = {Validity: AffineProbitLikelihood(0.02)}
    return answers(
        SkewPreferenceGP, points(6, 1) / 10, feedback=feedback, likelihood=likelihood
    )


class ExactFeatures(FeatureMap):
    """Features of a kernel that are exact at some points and their rows."""

    def __init__(self, kernel: Any, points: Tensor) -> None:
        super().__init__()
        self.points = points
        values, vectors = torch.linalg.eigh(kernel(points).to_dense())
        self.rows = (vectors * values.clamp_min(0).sqrt()).detach()
        self.batch_shape, self.num_outputs = kernel.batch_shape, len(points)
        self.input_transform = self.output_transform = None

    def forward(self, x: Tensor) -> Tensor:
        return self.rows[torch.cdist(x, self.points).argmin(-1)]


def widened_model() -> EPPreferenceGP:
    """Makes a model in which one rating, held for unlikely, has no precision."""
    ratings = Ratings(torch.tensor([2, 2, 2]), torch.tensor([0.99, 0.97, 0.02]))
    likelihood = BetaRatingLikelihood(20.0)
    model = EPPreferenceGP(points(6, 1) / 10, feedback=[ratings], likelihood=likelihood)
    model.covar_module.outputscale = 2.0
    (X,) = model.eval().train_inputs
    with torch.no_grad():
        k = model.covar_module(X[2:3], X).to_dense()
        widening = (k @ model.posterior_terms().widening).square().sum()
        assert widening > 0.1 * model.posterior(X[2:3]).variance.squeeze()
    return model


@pytest.mark.parametrize("build", [skewed_model, widened_model])
def test_only_the_features_of_the_prior_approximate(
    build: Callable[[], Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """With exact features the moments are right within standard errors alone."""
    model, new = build(), points(4, 3) / 10
    joint = torch.cat([model.train_inputs[0], new])
    name = "botorch_pref.models.pathwise"
    exact = ExactFeatures(model.covar_module, joint)
    monkeypatch.setattr(f"{name}.gen_kernel_features", lambda *_, **__: exact)
    monkeypatch.setattr(f"{name}._NUM_FEATURES", exact.num_outputs)
    count = 200_000
    with manual_seed(5), torch.no_grad():
        values = draw_matheron_paths(model, torch.Size([count]))(joint)
    posterior = model.posterior(joint)
    check_sample(values, posterior.mean, posterior.covariance_matrix, scale=0.0)
    third = ((values - values.mean(0)) / values.std(0)).pow(3).mean(0)
    skewness = getattr(posterior, "skewness", torch.zeros(1))
    # The deviation of a third moment is that of a normal, sqrt(15 / n), or a bit more.
    error = 6 * (15 / count) ** 0.5
    assert (third - skewness.squeeze(-1)).abs().max() < error


# --- BoTorch's Thompson sampling


def plackett_luce() -> PlackettLuceRegression:
    return PlackettLuceRegression(points(6, 1) / 10, PAIRS).eval()


def sampled_ensemble() -> FullyBayesianEPPreferenceGP:
    model = FullyBayesianEPPreferenceGP(points(6, 1) / 10, PAIRS)
    scales = torch.tensor([0.5, 1.5, 1.0]).double()
    model.load_mcmc_samples({"covar_module.raw_outputscale": scales})
    return model.eval()


THOMPSON: dict[str, Callable[[], Model]] = {
    cls.__name__: lambda cls=cls: answers(
        cls, points(6, 1) / 10, input_transform=Normalize(2)
    )
    for cls in (
        LaplacePreferenceGP,
        EPPreferenceGP,
        SkewPreferenceGP,
        VariationalPreferenceGP,
    )
}
THOMPSON |= {
    "PlackettLuceRegression": plackett_luce,
    "GroupUtility": lambda: GroupUtility(
        rated(EPPreferenceGP, False), torch.tensor([0.0, 1.0, 5.0]).double()
    ),
    "ensemble": sampled_ensemble,
    "prior": lambda: EPPreferenceGP(points(6, 1) / 10).eval(),
}


@pytest.mark.parametrize("name", THOMPSON)
def test_thompson_sampling_of_botorch_runs(name: str) -> None:
    model = THOMPSON[name]()
    bounds = torch.tensor([[0.0, 0.0], [1.0, 1.0]]).double()
    acquisition = PathwiseThompsonSampling(model)
    with manual_seed(3):
        X, value = optimize_acqf(
            acquisition, bounds, q=2, num_restarts=2, raw_samples=32
        )
    new = points(40, 4).view(20, 2, 2) / 10
    assert value > acquisition(new).max() - 1e-6
    # Every member of the batch maximises a draw of its own.
    torch.testing.assert_close(acquisition(X), value.reshape(1))
    path = acquisition.samples
    values = path(new.unsqueeze(-2)).squeeze(-2)
    chosen = acquisition.select_from_ensemble_models(values).squeeze(-1)
    torch.testing.assert_close(acquisition(new), chosen.sum(-1))
    assert (chosen[:, 0] - chosen[:, 1]).abs().max() > 0.1
    x = new[:2].clone().requires_grad_()
    assert torch.autograd.gradcheck(acquisition, (x,), eps=1e-6, atol=1e-4)


@pytest.mark.parametrize("name", THOMPSON)
def test_path_models_evaluate_any_shape(name: str) -> None:
    model = THOMPSON[name]()
    members = model.batch_shape
    with manual_seed(3):
        path_model = get_matheron_path_model(model)
        several = get_matheron_path_model(model, sample_shape=torch.Size([5]))
    X = points(12, 4).view(3, 4, 2) / 10
    together = path_model(X)
    assert together.shape == (3, *members, 4, 1)
    torch.testing.assert_close(path_model(X[1]), together[1])
    assert several(X[0]).shape == (5, *members, 4, 1)
    torch.testing.assert_close(several(X[0])[..., 2:, :], several(X[0, 2:]))


def test_dueling_thompson_runs_on_groups() -> None:
    group = THOMPSON["GroupUtility"]()
    X_ref = points(1, 5) / 10
    generator = torch.Generator().manual_seed(0)
    acquisition = DuelingThompson(group, X_ref, generator)
    X = points(3, 4).view(3, 1, 2) / 10
    values = acquisition(X)
    assert values.shape == (3,)
    assert values.unique().numel() == 3
    torch.testing.assert_close(acquisition(X_ref.unsqueeze(0)), torch.zeros(1).double())


@pytest.mark.slow
def test_dueling_thompson_draws_a_member_of_an_ensemble() -> None:
    """Wins of the challenger are as frequent as the mixture says."""
    model = sampled_ensemble()
    pair = points(2, 6) / 10
    expected = model.duel_probability(pair[:1], pair[1:]).item()
    wins, members, count = 0, set(), 150
    for seed in range(count):
        generator = torch.Generator().manual_seed(seed)
        acquisition = DuelingThompson(model, pair[1:], generator)
        wins += int(acquisition(pair[:1]) > 0)
        members.add(acquisition._members[0])
    assert members == {0, 1, 2}
    # Four and a half standard errors.
    spread = (expected * (1 - expected) / count) ** 0.5
    assert abs(wins / count - expected) < 4.5 * spread
    X = points(3, 4).view(3, 1, 2) / 10
    torch.testing.assert_close(acquisition(X)[1:2], acquisition(X[1:2]))
