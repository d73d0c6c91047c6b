"""Knowledge gradient of several options: regression, enumeration of answers, limits."""

from itertools import permutations

import pytest
import torch
from acquisition.contract.closed_forms import ONE, SEVERAL, X_REF, points
from botorch.models import SingleTaskGP
from botorch.models.model import Model
from botorch.posteriors import GPyTorchPosterior
from botorch.posteriors.posterior import Posterior
from gpytorch.distributions import MultivariateNormal
from gpytorch.means import LinearMean
from linear_operator import to_linear_operator
from torch import Generator, Tensor

from botorch_pref.acquisition import DuelingJointEUBO, DuelingJointKG, likely_best
from botorch_pref.feedback import Comparisons, Rankings
from botorch_pref.likelihoods import (
    OrdinalProbitLikelihood,
    PairwiseLogitLikelihood,
    PairwiseProbitLikelihood,
)
from botorch_pref.models import (
    DuelKernel,
    EPPreferenceGP,
    LaplacePreferenceGP,
    PreferenceGP,
    SkewPreferenceGP,
)
from botorch_pref.models.derived_model import DerivedModel
from botorch_pref.numerics.mixtures import expected_positive_part
from botorch_pref.posteriors.gaussian import Moments, WeightedMoments


def value_of(model: Model, kind: type = DuelingJointKG) -> DuelingJointEUBO:
    return kind(model, X_REF, Generator().manual_seed(0))


@pytest.mark.parametrize("likelihood", [PairwiseProbitLikelihood(0.3), "logit"])
@pytest.mark.parametrize("q", [1, 3])
@pytest.mark.parametrize("num_choices", [0, 5])
def test_the_mean_of_what_is_heard_is_that_of_a_regression(
    linear_utility,
    monkeypatch: pytest.MonkeyPatch,
    likelihood,
    q: int,
    num_choices: int,
) -> None:
    """Weights from values that are heard up to a constant, by the normal equations."""
    if likelihood == "logit":
        likelihood = PairwiseLogitLikelihood()
    noise, count = float(likelihood.observation_variance), 2**14
    model, X = linear_utility(ONE, 0.7, likelihood), points(4, q)
    monkeypatch.setattr(DuelingJointKG, "DRAWS", count)
    choices = points(num_choices, seed=5)
    num_chosen = choices if num_choices else None
    value = DuelingJointKG(model, X_REF, Generator().manual_seed(0), num_chosen)(X)
    now = ((choices - X_REF) @ ONE.T).clamp_min(0.0).sum(-1)
    now = float(now.max()) if num_choices else 0.0
    generator = Generator().manual_seed(7)
    weights = ONE + 0.7 * torch.randn(count, 2, generator=generator).double()
    errors = noise**0.5 * torch.randn(count, q + 1, generator=generator).double()
    questions = torch.cat([X, X_REF.expand(4, 1, 2)], 1)
    for expected, options in zip(value, questions, strict=True):
        perceived = weights @ options.T + errors
        centred = options - options.mean(0)
        precision = torch.eye(2).double() / 0.49 + centred.T @ centred / noise
        pull = ONE / 0.49 + perceived @ centred / noise
        regression = torch.linalg.solve(precision, pull.T).T
        chosen = torch.cat([options[:-1], choices])
        gain = (regression @ (chosen - X_REF).T).amax(-1).clamp_min(0.0)
        error = gain.std() / count**0.5
        assert abs(expected - (gain.mean() - now)) < 4 * 2**0.5 * error


def test_what_no_answer_could_choose_is_worth_nothing(linear_utility) -> None:
    """A choice that is far better than all options stays the choice."""
    model = linear_utility(ONE, 0.1, PairwiseProbitLikelihood(0.3))
    far = torch.tensor([[9.0, -9.0]]).double()
    value = DuelingJointKG(model, X_REF, Generator().manual_seed(0), far)(points(4, 3))
    torch.testing.assert_close(value, torch.zeros(4).double(), rtol=0.0, atol=1e-9)


def test_a_ranking_is_worth_nearly_what_hearing_is() -> None:
    """Every ranking of three options is heard by EP, as often as it would be given."""
    X, won = points(8), torch.tensor([[0, 1], [2, 3], [4, 5], [6, 7]])

    def learned(points: Tensor, rankings: list[int] | None) -> EPPreferenceGP:
        rankings_heard = (
            [] if rankings is None else [Rankings(torch.tensor([rankings]))]
        )
        model = EPPreferenceGP(points, feedback=[Comparisons(won), *rankings_heard])
        model.covar_module.base_kernel.lengthscale = 0.5
        model.covar_module.outputscale = 10.0
        return model.eval()

    new = points(2, seed=11)
    options = torch.cat([new, X_REF])
    model, every = learned(X, None), torch.cat([X, options])
    posterior = model.posterior(options)
    drawn = posterior.rsample(torch.Size([2**15])).squeeze(-1)
    drawn = drawn + torch.randn(drawn.shape, generator=Generator().manual_seed(1))
    ranking = drawn.argsort(-1, descending=True)
    truth = 0.0
    for order in permutations(range(3)):
        share = float((ranking == torch.tensor(order)).all(-1).double().mean())
        answered_model = learned(every, [8 + place for place in order])
        with torch.no_grad():
            mean = answered_model.posterior(options).mean.squeeze(-1)
        truth += share * max(float((mean[:2] - mean[2]).amax()), 0.0)
    with torch.no_grad():
        value = float(value_of(model)(new))
        without_noise = float(value_of(model, DuelingJointEUBO)(new))
    assert 0.85 * value < truth < value < without_noise


@pytest.mark.parametrize("silent", [None, OrdinalProbitLikelihood(3)])
def test_between_an_answer_without_noise_and_one_that_says_nothing(
    linear_utility, monkeypatch: pytest.MonkeyPatch, silent
) -> None:
    X, count = points(5, 1), 2**14
    monkeypatch.setattr(DuelingJointKG, "DRAWS", count)
    gains = ((X - X_REF) @ ONE.T).flatten()
    deviation = 0.7 * torch.linalg.vector_norm(X - X_REF, dim=-1).flatten()
    without = expected_positive_part(gains.unsqueeze(0), deviation.square())
    for likelihood in (silent, PairwiseProbitLikelihood(1e-9)):
        value = value_of(linear_utility(ONE, 0.7, likelihood))(X)
        torch.testing.assert_close(value, without, rtol=1e-3, atol=1e-4)
    nothing = value_of(linear_utility(ONE, 0.7, PairwiseProbitLikelihood(1e9)))(X)
    torch.testing.assert_close(nothing, gains.clamp_min(0.0), rtol=0.0, atol=1e-3)


def test_a_mixture_counts_by_its_mean_and_covariance(linear_utility) -> None:
    """The weights of all components have the mean and the covariance of one."""
    X, likelihood = points(5, 3), PairwiseProbitLikelihood(0.3)
    around = SEVERAL - SEVERAL.mean(0)
    covariance = 0.49 * torch.eye(2).double() + around.T @ around / len(SEVERAL)
    root = torch.linalg.cholesky(covariance)
    center = torch.linalg.solve(root, SEVERAL.mean(0)).unsqueeze(0)
    mixture = linear_utility(center, 1.0, likelihood)
    value = DuelingJointKG(mixture, X_REF @ root, Generator().manual_seed(0))(X @ root)
    mixed = value_of(linear_utility(SEVERAL, 0.7, likelihood))(X)
    torch.testing.assert_close(mixed, value)


class MomentsOnly(Model):
    """The Gaussian with the mean and the covariance of another model's mixture."""

    num_outputs = 1

    def __init__(self, model: PreferenceGP) -> None:
        super().__init__()
        self.model, self.likelihood = model, model.likelihood

    @property
    def batch_shape(self) -> torch.Size:
        return torch.Size()

    def posterior(self, X: Tensor, **_: object) -> Posterior:
        mixture = self.model.posterior(X)
        means = mixture.component_means.movedim(0, -1)
        around = means - means.mean(-1, keepdim=True)
        between = torch.einsum("...is,...js->...ij", around, around) / means.shape[-1]
        covariance = to_linear_operator(mixture.component_covariance + between)
        return GPyTorchPosterior(MultivariateNormal(means.mean(-1), covariance))


@pytest.mark.parametrize("num_choices", [0, 5])
def test_no_component_of_a_mixture_is_made(
    skew_model: PreferenceGP, monkeypatch: pytest.MonkeyPatch, num_choices: int
) -> None:
    """Of many questions, each of a thousand components would fill the memory."""
    choices = points(num_choices, seed=5) if num_choices else None
    value, truth = (
        DuelingJointKG(believer, X_REF, Generator().manual_seed(0), choices)
        for believer in (skew_model, MomentsOnly(skew_model))
    )
    questions = points(6, 3).requires_grad_()
    expected = truth(questions)
    (slope,) = torch.autograd.grad(expected.sum(), questions)
    monkeypatch.setattr(WeightedMoments, "means_of", None)
    values = value(questions)
    torch.testing.assert_close(values, expected)
    torch.testing.assert_close(torch.autograd.grad(values.sum(), questions)[0], slope)


def test_it_has_the_gradient_of_its_draws(skew_model: Model) -> None:
    value = value_of(skew_model)
    source = Generator().manual_seed(0)
    choosing = DuelingJointKG(skew_model, X_REF, source, points(4, seed=5))
    for function in (value, choosing):
        assert torch.autograd.gradcheck(function, points(3, 2).requires_grad_())
    alike = value(X_REF.expand(1, 2, 2))
    torch.testing.assert_close(alike, torch.zeros(1).double(), rtol=0.0, atol=1e-6)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_options_that_nearly_coincide_have_a_value_in_either_precision(
    linear_utility, dtype: torch.dtype
) -> None:
    likelihood = PairwiseProbitLikelihood(1e-8).to(dtype)
    model = linear_utility(ONE.to(dtype), 1e3, likelihood)
    value = DuelingJointKG(model, X_REF.to(dtype), Generator().manual_seed(0))
    near = X_REF + torch.tensor([[0.0, 1e-7], [1e-7, 0.0], [0.3, 0.3]])
    value_near = value(near.to(dtype).unsqueeze(0))
    assert bool((value_near.isfinite() & (value_near > 0)).all())


@pytest.mark.parametrize("apart", [1e-3, 1e-5, 1e-8, 0.0])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_rounding_of_a_posterior_without_noise_does_no_harm(
    dtype: torch.dtype, apart: float
) -> None:
    """Options move their value by no more than their utilities move, near a datum."""
    X = torch.cat([points(8), X_REF]).to(dtype)
    model = SingleTaskGP(X, X.sum(-1, keepdim=True)).eval()
    value = DuelingJointKG(model, X_REF.to(dtype), Generator().manual_seed(0))
    around = torch.randn(20, 4, 2, generator=Generator().manual_seed(1)).to(dtype)
    options = (X_REF.to(dtype) + apart * around).requires_grad_()
    values = value(options)
    (gradient,) = torch.autograd.grad(values.sum(), options)
    assert bool((values >= 0).all())
    # Utilities rise by sqrt(2) a unit, and deviations by no more than a few.
    assert float(gradient.abs().max()) < 100


def test_points_are_likely_best_as_often_as_in_draws(model: Model) -> None:
    """The maxima of a posterior's own draws, counted; repeats show in a batch."""
    X, count = points(6, seed=2), 2**13
    likely_points = likely_best(
        model, X.unsqueeze(0), count + 1, Generator().manual_seed(0)
    )
    counted = (likely_points.squeeze(0)[:, None] == X).all(-1)
    with torch.no_grad():
        posterior = model.posterior(X)
        drawn = posterior.rsample(torch.Size([count])).squeeze(-1).argmax(-1)
        best = posterior.mean.argmax()
    assert counted.sum() == count + 1
    assert counted[:, best].any()
    share = torch.bincount(drawn, minlength=6) / count
    error = (2 * share * (1 - share) / count).sqrt() + 2 / count
    assert ((counted.sum(0) / count - share).abs() < 4 * error).all()


def test_likely_best_points_are_different(model: Model) -> None:
    X = points(6, seed=2)
    for candidates in (X, torch.cat([X, X])):
        likely_points = likely_best(model, candidates, 64, Generator().manual_seed(0))
        assert len(likely_points.unique(dim=0)) == len(likely_points) < 6
    (mean,) = likely_best(model, X, 1)
    assert mean.equal(X[model.posterior(X).mean.argmax()])


def test_many_options_are_not_fitted_to_the_draws() -> None:
    """Led uphill, a question of many is worth nearly as much by other draws."""
    X = torch.rand(12, 4, generator=Generator().manual_seed(2)).double()
    won = torch.tensor([[0, 1], [2, 3], [4, 5], [6, 7]])
    model = EPPreferenceGP(X, won).eval()
    model.covar_module.base_kernel.lengthscale = 0.4
    kept_value, second_value = (
        DuelingJointKG(model, X[:1], Generator().manual_seed(seed)) for seed in (0, 1)
    )
    options = X[1:].clone().requires_grad_()
    climb = torch.optim.Adam([options], 0.05, maximize=True)
    for _ in range(40):
        climb.zero_grad()
        kept_value(options).sum().backward()
        climb.step()
        options.data.clamp_(0.0, 1.0)
    assert kept_value(options) < 1.1 * second_value(options)


def test_a_value_does_not_depend_on_what_was_valued_before() -> None:
    """Five new options, of which one is pending then: the draws of four new ones."""
    X = torch.rand(6, 2, generator=Generator().manual_seed(2)).double()
    model = EPPreferenceGP(X, torch.tensor([[0, 1], [2, 3]])).eval()
    used, fresh = (
        DuelingJointKG(model, X[:1], Generator().manual_seed(0)) for _ in range(2)
    )
    used(X[1:])
    for value in (used, fresh):
        value.set_X_pending(X[5:])
    assert used(X[1:5]).equal(fresh(X[1:5]))


class JointOnly(DerivedModel):
    """Another model's posterior, of which only joint ones are known."""

    def __init__(self, model: PreferenceGP) -> None:
        super().__init__()
        self.model, self.likelihood = model, model.likelihood

    @property
    def _source(self) -> Model:
        return self.model

    @property
    def train_inputs(self) -> tuple[Tensor]:
        return (self.model.datapoints,)

    def moments(self, X: Tensor) -> Moments:
        return self.model.moments(X)

    def make_posterior(self, moments: Moments) -> Posterior:
        return self.model.make_posterior(moments)


@pytest.mark.parametrize(
    "engine", [EPPreferenceGP, LaplacePreferenceGP, SkewPreferenceGP]
)
@pytest.mark.parametrize("batch", [(), (3,)])
def test_choices_count_as_in_their_joint_posterior_with_the_options(
    engine: type[PreferenceGP], batch: tuple[int, ...]
) -> None:
    """Also after the model has learned more, and other choices were loaded."""
    generator = Generator().manual_seed(2)

    def drawn(*shape: int) -> Tensor:
        return torch.rand(*shape, 2, generator=generator, dtype=torch.double)

    kernel = DuelKernel(2, torch.Size(batch))
    model = engine(
        drawn(*batch, 6), torch.tensor([[0, 1], [2, 3]]), covar_module=kernel
    )
    choices, second_choices = drawn(4), drawn(4)
    split, joint = (
        DuelingJointKG(believer, drawn(1) * 0, Generator().manual_seed(0), choices)
        for believer in (model, JointOnly(model))
    )
    questions = drawn(5, *batch, 3).requires_grad_()
    for change in (
        lambda: None,
        lambda: kernel.initialize(outputscale=3.0),
        lambda: [value.choices.copy_(second_choices) for value in (split, joint)],
    ):
        change()
        both_values = [value(questions) for value in (split, joint)]
        slopes = [
            torch.autograd.grad(result.sum(), questions) for result in both_values
        ]
        torch.testing.assert_close(*both_values)
        torch.testing.assert_close(*slopes)


def test_choices_count_by_the_prior_that_the_model_has_now() -> None:
    """Without answers, after its mean has changed."""
    model = EPPreferenceGP(points(4), mean_module=LinearMean(2).double()).eval()
    choices = points(5, seed=5)
    split, joint = (
        DuelingJointKG(believer, X_REF, Generator().manual_seed(0), choices)
        for believer in (model, JointOnly(model))
    )
    for weights in ([[2.0], [-1.0]], [[-3.0], [1.0]]):
        model.mean_module.initialize(weights=torch.tensor(weights).double())
        questions = points(5, 3)
        torch.testing.assert_close(split(questions), joint(questions))


def test_it_can_be_moved_to_another_precision_after_use() -> None:
    model = EPPreferenceGP(points(4), torch.tensor([[0, 1], [2, 3]])).eval()
    value = DuelingJointKG(model, X_REF, Generator().manual_seed(0), points(5, seed=5))
    before = value(points(5, 3))
    after = value.float()(points(5, 3).float())
    assert after.dtype == torch.float32
    torch.testing.assert_close(after.double(), before, rtol=1e-3, atol=1e-4)
