"""Functions of one draw of the posterior: Thompson's, and believers'."""

from copy import deepcopy

import pytest
import torch
from acquisition.contract.closed_forms import X_REF, points
from botorch.exceptions.errors import UnsupportedError
from botorch.models import PairwiseGP, SingleTaskGP
from botorch.models.model import Model
from botorch.models.transforms import Normalize
from draws import uniform
from gpytorch.kernels import Kernel
from torch import Generator, Tensor

from botorch_pref.acquisition import (
    DuelingEUBO,
    DuelingHBEI,
    DuelingHBUCB,
    DuelingThompson,
    DuelingUCB,
    HallucinatedModel,
    champion,
    incumbent,
    thompson,
)
from botorch_pref.errors import FeedbackError
from botorch_pref.feedback import Ratings
from botorch_pref.inference import engine
from botorch_pref.likelihoods import BetaRatingLikelihood
from botorch_pref.models import (
    DuelKernel,
    EPPreferenceGP,
    LaplacePreferenceGP,
    SkewPreferenceGP,
    known_covariance,
)
from botorch_pref.models.known_covariance import covariance_with

PAIRS = torch.tensor([[2, 0], [2, 1], [3, 1]])


def draw(model: Model, seed: int) -> DuelingThompson:
    return DuelingThompson(model, X_REF, generator=torch.Generator().manual_seed(seed))


def test_one_instance_is_one_function(model: Model) -> None:
    X = points(6, 1)
    acquisition = draw(model, 1)
    value = acquisition(X)
    assert torch.equal(acquisition(X), value)
    torch.testing.assert_close(acquisition(X[2:4]), value[2:4])
    # The same function twice, but for the rounding of two shapes of products.
    at_reference = float(acquisition(X_REF.unsqueeze(0)).detach())
    assert at_reference == pytest.approx(0.0, abs=1e-12)
    assert torch.equal(deepcopy(acquisition)(X), value)


def test_the_generator_decides_and_the_global_one_is_left_alone(model: Model) -> None:
    X = points(6, 1)
    state = torch.get_rng_state()
    first, repeated, reseeded = (draw(model, seed)(X) for seed in (1, 1, 2))
    assert torch.equal(torch.get_rng_state(), state)
    assert torch.equal(first, repeated)
    assert not torch.allclose(first, reseeded, atol=1e-3)


def test_points_chosen_jointly_have_the_draws_of_a_batch_chosen_one_by_one(
    model: Model,
) -> None:
    X = points(3, 2)
    joint = draw(model, 1)
    value = joint(X)
    first, second = draw(model, 1), draw(model, 1)
    second.set_X_pending(X_REF + 0.1)
    expected = 0.5 * (first(X[:, :1]) + second(X[:, 1:]))
    torch.testing.assert_close(value, expected)
    torch.testing.assert_close(joint(X[:, :1]), first(X[:, :1]))
    torch.testing.assert_close(deepcopy(joint)(X), value)


def test_gradient_matches_finite_differences(model: Model) -> None:
    X = points(3, 1).requires_grad_()
    assert torch.autograd.gradcheck(draw(model, 4), X, eps=1e-6, atol=1e-6)


def test_a_batch_of_models_draws_a_function_each() -> None:
    X = uniform(2, 4, 2, seed=2)
    pairs = torch.tensor([[[2, 0], [2, 1]], [[0, 1], [0, 2]]])
    acquisition = draw(SkewPreferenceGP(X, pairs, num_draws=64), 0)
    values = acquisition(points(5, 1).unsqueeze(-3))
    assert values.shape == (5, 2)
    assert not torch.allclose(values[:, 0], values[:, 1], atol=1e-3)


def test_models_of_the_same_points_draw_a_function_each() -> None:
    """As fantasies of one question: a batch of answers, and one kernel."""
    pairs = torch.stack([PAIRS, PAIRS.flip(-1)])
    X = points(5, 1).unsqueeze(-3)
    together, apart = (
        draw(LaplacePreferenceGP(observed, pairs, covar_module=DuelKernel(2)), 0)(X)
        for observed in (points(4), points(4).expand(2, 4, 2))
    )
    assert together.shape == (5, 2)
    torch.testing.assert_close(together, apart)


def test_botorch_models_with_paths_of_their_own() -> None:
    X = points(8)
    model = SingleTaskGP(X, (6 * X).sin().sum(-1, keepdim=True))
    assert bool(draw(model, 0)(points(6, 1)).isfinite().all())


def hallucinate(model: Model, seed: int = 0) -> HallucinatedModel:
    return HallucinatedModel(model, Generator().manual_seed(seed))


def moments(model: Model, X: Tensor) -> tuple[Tensor, Tensor]:
    posterior = model.posterior(X)
    covariance = posterior.distribution.covariance_matrix.detach()
    return posterior.mean.squeeze(-1).detach(), covariance


def test_gaussian_models_are_conditioned_on_utilities(gaussian_model: Model) -> None:
    """The textbook's conditional normal, given what was drawn at observed points."""
    (observed,) = gaussian_model.train_inputs
    believed, X = hallucinate(gaussian_model), points(5, 3)
    drawn, conditioned = moments(believed, observed)
    # Nothing but the jitter that PairwiseGP adds, 1e-6 of the output scale of 4.
    assert float(conditioned.abs().max()) < 4.1e-6
    all_points = torch.cat([X, observed.expand(5, -1, -1)], dim=-2)
    mean, covariance = moments(gaussian_model, all_points)
    weights = torch.linalg.solve(covariance[:, 3:, 3:], covariance[:, 3:, :3]).mT
    residual = (drawn - mean[:, 3:]).unsqueeze(-1)
    expected = mean[:, :3] + (weights @ residual).squeeze(-1)
    remaining = covariance[:, :3, :3] - weights @ covariance[:, 3:, :3]
    ours = moments(believed, X)
    torch.testing.assert_close(ours[0], expected, rtol=0.0, atol=1e-5)
    torch.testing.assert_close(ours[1], remaining, rtol=0.0, atol=1e-5)


def test_covariances_with_directions_are_those_of_the_joint_posterior() -> None:
    observed, X = points(4).squeeze(-2), points(5, 2, seed=3)
    # One rating is held for unlikely by the others: its site has no precision.
    ratings = Ratings(torch.tensor([2, 2, 2]), torch.tensor([0.99, 0.97, 0.02]))
    likelihood = BetaRatingLikelihood(precision=20.0)
    bent = EPPreferenceGP(observed, feedback=[ratings], likelihood=likelihood)
    bent.covar_module.outputscale = 2.0
    assert bent.eval().posterior_terms().widening is not None
    copied = EPPreferenceGP(torch.cat([observed, observed[:1]]), PAIRS)
    directions = torch.rand(4, 3, generator=Generator().manual_seed(5)).double()
    for model in (bent, copied, LaplacePreferenceGP(observed, PAIRS)):
        alone, covariances = covariance_with(model, observed, directions)(X)
        all_points = torch.cat([X, observed.expand(5, -1, -1)], dim=-2)
        mean, covariance = moments(model, all_points)
        expected = (
            mean[:, :2],
            covariance[:, :2, :2],
            covariance[:, :2, 2:] @ directions,
        )
        torch.testing.assert_close(
            (alone.means[0], alone.covariance, covariances),
            expected,
            rtol=1e-9,
            atol=1e-10,
        )


def test_a_believer_meets_the_observed_points_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    believed = hallucinate(EPPreferenceGP(points(4).squeeze(-2), PAIRS).eval())
    X, met = points(5, 2, seed=3), []
    believed.posterior(X)
    real = engine.cross_covariance

    def counted(kernel: Kernel, x: Tensor, observed: Tensor) -> Tensor:
        met.append(observed)
        return real(kernel, x, observed)

    for module in (known_covariance, engine):
        monkeypatch.setattr(module, "cross_covariance", counted)
    believed.posterior(X)
    assert len(met) == 1


@pytest.mark.parametrize("batch", [(), (2,)])
def test_many_sets_of_points_are_given_the_draw_as_one_is(
    monkeypatch: pytest.MonkeyPatch, batch: tuple[int, ...]
) -> None:
    """More sets than are worked out at once, of one model and of a batch of two."""
    monkeypatch.setattr(thompson, "_TOGETHER", 4)
    observed = points(4).expand(*batch, 4, -1) + 0.1 * torch.rand(*batch, 1, 1).double()
    believed = hallucinate(EPPreferenceGP(observed, PAIRS))
    X = points(15, 2, seed=3).unflatten(0, (5, 3))
    sets = X if not batch else X.unsqueeze(2).expand(5, 3, 2, 2, -1)
    mean, covariance = moments(believed, sets)
    for i, j in ((0, 0), (2, 1), (4, 2)):
        alone = moments(believed, X[i, j])
        torch.testing.assert_close(mean[i, j], alone[0])
        torch.testing.assert_close(covariance[i, j], alone[1])
    # What is one for both models may be given once.
    again = moments(believed, X.unsqueeze(2) if batch else X)
    torch.testing.assert_close(again, (mean, covariance))


def test_several_kernels_of_the_same_points_are_given_a_draw_each() -> None:
    kernel = DuelKernel(2, batch_shape=torch.Size([2])).double()
    kernel.outputscale = torch.tensor([1.0, 3.0]).double()
    X, observed = points(5, 2, seed=3), points(4).squeeze(-2)
    believed = hallucinate(EPPreferenceGP(observed, PAIRS, covar_module=kernel))
    mean, covariance = moments(believed, X)
    for i in (0, 4):
        alone = moments(believed, X[i])
        torch.testing.assert_close(mean[i], alone[0])
        torch.testing.assert_close(covariance[i], alone[1])


def test_a_believer_follows_what_is_loaded_into_it() -> None:
    X, observed = points(5, 2, seed=3), points(4).squeeze(-2)
    believed, second_believer = (
        hallucinate(EPPreferenceGP(observed, PAIRS), i) for i in (0, 1)
    )
    believed.posterior(X)
    second_believer.model.covar_module.outputscale = 3.0
    second_believer = hallucinate(second_believer.model, 1)
    believed.load_state_dict(second_believer.state_dict())
    torch.testing.assert_close(moments(believed, X), moments(second_believer, X))


def test_a_believer_in_train_mode_teaches_no_input_transform() -> None:
    X, observed = 3 * points(5, 2, seed=3), points(4).squeeze(-2)
    model = EPPreferenceGP(observed, PAIRS, input_transform=Normalize(2))
    believed = hallucinate(model)
    expected = moments(believed, X)
    believed.train()
    torch.testing.assert_close(moments(believed, X), expected, rtol=0, atol=0)


@pytest.mark.slow
@pytest.mark.parametrize("kind", [EPPreferenceGP, PairwiseGP])
def test_draws_have_the_posterior_of_the_model(kind: type[Model]) -> None:
    """Means over draws scatter as the variance that was drawn says."""
    model, X, count = kind(points(4), PAIRS), points(2, seed=6), 150
    generator = Generator().manual_seed(0)
    means = torch.stack(
        [moments(HallucinatedModel(model, generator), X)[0] for _ in range(count)]
    )
    mean, covariance = moments(model, X)
    drawn = covariance - moments(hallucinate(model), X)[1]
    error = (drawn.diagonal() / count).sqrt()
    assert bool(((means.mean(0) - mean).abs() < 4 * error).all())
    # The variance of a variance of normal draws is 2 / count of its square; that of a
    # covariance is no more.
    allowed = 4 * (2 / count) ** 0.5 * drawn.diagonal().amax()
    assert float((means.T.cov() - drawn).abs().max()) < float(allowed)


def test_the_exact_posterior_is_one_component_everywhere(
    skew_model: SkewPreferenceGP,
) -> None:
    X = points(5, 3)
    posterior = skew_model.posterior(X)
    chosen = set()
    for seed in range(40):
        mean, covariance = moments(hallucinate(skew_model, seed), X)
        torch.testing.assert_close(covariance, posterior.component_covariance.detach())
        matches = (posterior.component_means == mean).all(-1).all(-1)
        assert int(matches.sum()) == 1
        chosen.add(int(matches.nonzero()))
    # Forty of 1,024 hardly ever coincide, and reach both halves.
    assert len(chosen) > 30
    count = len(posterior.component_means)
    assert min(chosen) < count / 4
    assert max(chosen) > 3 * count / 4


def test_what_is_known_is_left_alone(linear_utility) -> None:
    """Three points determine a linear utility of two inputs: nothing is left."""

    class Observed(linear_utility):
        train_inputs = (points(3, seed=4),)

    believed = hallucinate(Observed(torch.tensor([[1.0, -2.0]]).double(), 0.5))
    X = points(6)
    mean, covariance = moments(believed, X)
    assert float(covariance.abs().max()) < 1e-10
    weights = torch.linalg.lstsq(X[:2], mean[:2]).solution
    torch.testing.assert_close(mean, X @ weights)
    certain = hallucinate(Observed(torch.tensor([[1.0, -2.0]]).double(), 0.0))
    torch.testing.assert_close(moments(certain, X)[0], X @ X.new_tensor([1.0, -2.0]))


def test_the_draw_is_of_the_generator_and_stays(model: Model) -> None:
    X, state = points(4, 2), torch.get_rng_state()
    believed = hallucinate(model)
    first = believed.posterior(X).mean
    assert torch.equal(believed.posterior(X).mean, first)
    torch.testing.assert_close(believed.posterior(X[1:2]).mean, first[1:2])
    assert torch.equal(hallucinate(model).posterior(X).mean, first)
    assert not torch.allclose(hallucinate(model, 1).posterior(X).mean, first)
    assert torch.equal(torch.get_rng_state(), state)


@pytest.mark.parametrize("kind", [PairwiseGP, EPPreferenceGP, SkewPreferenceGP])
def test_inputs_are_as_the_user_gives_them(kind: type[Model]) -> None:
    X = torch.tensor([[100.0, 3.0], [200.0, 1.0], [300.0, 2.0]], dtype=torch.double)
    pairs = torch.tensor([[1, 0], [1, 2]])
    believed = hallucinate(kind(X, pairs, input_transform=Normalize(d=2)).eval())
    assert torch.equal(believed.train_inputs[0], X)
    best = champion(believed)
    assert torch.equal(best[0], X[int(believed.posterior(X).mean.argmax())])


@pytest.mark.parametrize("batch", [(), (2,)])
def test_each_of_a_batch_of_models_has_a_draw_of_its_own(
    batch: tuple[int, ...],
) -> None:
    """Fantasies of one question have answers of a batch about the same points."""
    pairs = torch.stack([PAIRS, PAIRS.flip(-1)])
    model = EPPreferenceGP(points(4).expand(*batch, 4, 2), pairs)
    X = points(5, 3)
    together = moments(hallucinate(model), X.unsqueeze(-3))
    assert together[0].shape == (5, 2, 3)
    for i in range(2):
        alone = moments(hallucinate(EPPreferenceGP(points(4), pairs[i])), X)
        torch.testing.assert_close(together[1][:, i], alone[1], rtol=1e-5, atol=1e-6)


def test_they_are_eubo_and_ucb_under_the_draw(model: Model) -> None:
    X, believed, best = points(6, 1), hallucinate(model), incumbent(model)
    generators = [Generator().manual_seed(0) for _ in range(2)]
    improvement = DuelingHBEI(model, generator=generators[0])
    bound = DuelingHBUCB(model, level=0.8, generator=generators[1])
    assert torch.equal(improvement.X_ref, best)
    assert torch.equal(bound.X_ref, best)
    torch.testing.assert_close(improvement(X), DuelingEUBO(believed, best)(X))
    torch.testing.assert_close(bound(X), DuelingUCB(believed, best, 0.8)(X))
    (observed,) = model.train_inputs
    best_drawn = moments(believed, observed)[0].argmax()
    assert torch.equal(champion(believed)[0], observed[best_drawn])


def test_what_it_has_not_is_refused(model: Model) -> None:
    believed = hallucinate(model)
    with pytest.raises(UnsupportedError, match="HallucinatedModel gives no answers"):
        believed.posterior(X_REF, observation_noise=True)
    with pytest.raises(UnsupportedError, match="one output"):
        believed.posterior(X_REF, output_indices=[1])
    with pytest.raises(FeedbackError, match="observed points"):
        HallucinatedModel(PairwiseGP(None, None))
