"""Plackett-Luce in weight space behind BoTorch's interface."""

import copy
import itertools
import pickle
from functools import partial

import pytest
import torch
from botorch.fit import fit_gpytorch_mll
from botorch.models.transforms.input import InputStandardize
from botorch.sampling.pathwise import draw_matheron_paths
from draws import normal
from gpytorch.kernels import LinearKernel
from gpytorch.means import ZeroMean

from botorch_pref import (
    BotorchPrefError,
    Choices,
    Comparisons,
    FeedbackError,
    InferenceWarning,
    LaplacePreferenceGP,
    PairwiseLogitLikelihood,
    PlackettLuceLikelihood,
    PlackettLuceRegression,
    PreferenceMarginalLogLikelihood,
    Rankings,
    UnsupportedFeedbackError,
    Validity,
    VariationalPreferenceGP,
)
from botorch_pref.feedback.container import answer_folds
from botorch_pref.inference.weight_space import WeightEngine, laplace_weights
from botorch_pref.models.regression import stages_of

DOUBLE = torch.float64
PAIRS = torch.tensor([[0, 1], [3, 2], [5, 0], [0, 1]])
CHOICES = Choices(torch.tensor([[0, 1, 2, 5], [4, 3, 1, -1]]), torch.tensor([2, 4]))
RANKINGS = Rankings(torch.tensor([[3, 4, 5, 1], [2, 0, 3, -1]]))
GPS = {"variational": VariationalPreferenceGP, "laplace": LaplacePreferenceGP}
each_engine = pytest.mark.parametrize("inference", GPS)


def points(n=6, d=3, seed=0):
    return normal(n, d, seed=seed)


def model_of(inference, x=None, **settings):
    x = points() if x is None else x
    settings.setdefault("feedback", [CHOICES, RANKINGS])
    return PlackettLuceRegression(x, PAIRS, inference=inference, **settings)


def synthetic(num_sets=60, length=4, n=30, d=4):
    generator = torch.Generator().manual_seed(3)
    options = {"generator": generator, "dtype": DOUBLE}
    x, theta = torch.randn(n, d, **options), torch.randn(d, **options)
    sets = torch.rand(num_sets, n, generator=generator).topk(length).indices
    gumbel = -torch.log(-torch.log(torch.rand(num_sets, length, **options)))
    perceived = (x @ theta)[sets] + gumbel
    return x, Rankings(sets.gather(-1, perceived.argsort(-1, descending=True)))


@each_engine
@pytest.mark.parametrize("eta", [0.1, 3.0])
def test_it_is_the_gp_with_a_linear_kernel(inference, eta) -> None:
    kernel = LinearKernel().double()
    kernel.variance = 1 / eta
    gp = GPS[inference](
        points(),
        PAIRS,
        feedback=[CHOICES, RANKINGS],
        likelihood={
            Comparisons: PairwiseLogitLikelihood(),
            Choices: PlackettLuceLikelihood(),
            Rankings: PlackettLuceLikelihood(),
        },
        mean_module=ZeroMean(),
        covar_module=kernel,
    )
    model = model_of(inference, eta=eta)
    x, second_points = points(seed=7), points(seed=8)
    close = {"rtol": 1e-6, "atol": 1e-6}
    a, b = model.posterior(x), gp.posterior(x)
    torch.testing.assert_close(a.mean, b.mean.detach(), **close)
    torch.testing.assert_close(
        a.distribution.covariance_matrix,
        b.distribution.covariance_matrix.detach(),
        **close,
    )
    noisy = model.posterior(x, observation_noise=True)
    torch.testing.assert_close(
        noisy.variance,
        gp.posterior(x, observation_noise=True).variance.detach(),
        **close,
    )
    for noise in (False, True):
        torch.testing.assert_close(
            model.duel_probability(x, second_points, observation_noise=noise),
            gp.duel_probability(x, second_points, observation_noise=noise).detach(),
            **close,
        )
    torch.testing.assert_close(
        model.diagnostics()["log_evidence"], gp.diagnostics()["log_evidence"], **close
    )


def test_the_map_is_the_same_whatever_the_inference() -> None:
    map_estimates = [model_of(inference, eta=0.4).map_estimate() for inference in GPS]
    torch.testing.assert_close(*map_estimates)
    laplace = model_of("laplace", eta=0.4)
    torch.testing.assert_close(laplace.weights_mean, map_estimates[0])


@pytest.mark.parametrize("size", [3, 4, 6])
def test_bouchards_bound_overstates_weak_preferences(size) -> None:
    # At equal utilities and without spread the bound is
    # f_c - min_a [a + sum_j log(1 + e^(f_j - a))], whose curvature is s (1 - s) with
    # s = 1 / k where the softmax has 1 / k: weights are k / (k - 1) times the mode.
    x = torch.linspace(-1, 1, size, dtype=DOUBLE)
    counts = (12_000 / size * (1 + 0.05 * x)).round().long()
    chosen = torch.arange(size).repeat_interleave(counts)
    choices = Choices(torch.arange(size).expand(len(chosen), -1), chosen)
    model = PlackettLuceRegression(
        x.unsqueeze(-1), feedback=[choices], inference="variational", eta=1e-3
    )
    ratio = float(model.weights_mean / model.map_estimate())
    # The next terms are of the size of the squared utilities and their variance.
    assert ratio == pytest.approx(size / (size - 1), rel=0.01)


@each_engine
def test_eta_learned_is_where_the_evidence_is_largest(inference) -> None:
    x, answers = synthetic()
    model = PlackettLuceRegression(x, feedback=[answers], inference=inference)
    fit_gpytorch_mll(PreferenceMarginalLogLikelihood(model.likelihood, model))
    best, evidence = model.eta.item(), model.log_evidence().item()
    for factor in (0.3, 0.8, 1.25, 3.0):
        model.eta = best * factor
        assert model.log_evidence().item() < evidence
    fixed = PlackettLuceRegression(x, feedback=[answers], inference=inference, eta=2.0)
    fixed.raw_eta.requires_grad_(False)
    assert fixed.eta.item() == pytest.approx(2.0)
    assert not fixed.log_evidence().requires_grad


def test_the_posterior_follows_eta() -> None:
    model = model_of("laplace")
    before = model.weights_mean.norm()
    model.eta = 100.0
    assert model.weights_mean.norm() < 0.2 * before


def log_loss(model, answers):
    """Minus the mean log probability of all comparisons, one by one."""
    losses = []
    for order in answers.orders.tolist():
        for i, winner in enumerate(order):
            for loser in order[i + 1 :]:
                x = model.datapoints
                p = model.duel_probability(
                    x[[winner]], x[[loser]], observation_noise=True
                )
                losses.append(-p.log())
    return torch.cat(losses).mean()


@pytest.mark.slow
def test_cross_validation_by_hand() -> None:
    inference = "laplace"
    x, answers = synthetic(num_sets=12)
    etas = torch.tensor([0.01, 1.0, 30.0])
    model = PlackettLuceRegression(x, feedback=[answers], inference=inference)
    table = model.cross_validate_eta(
        etas, num_folds=3, generator=torch.Generator().manual_seed(5)
    )
    folds = list(answer_folds([answers], 3, torch.Generator().manual_seed(5)))
    for eta, got in zip(etas, table.log_losses, strict=True):
        losses = [
            log_loss(
                PlackettLuceRegression(
                    x, feedback=train, inference=inference, eta=eta.item()
                ),
                held_out[0],
            )
            for train, held_out in folds
        ]
        # Folds of equal size.
        torch.testing.assert_close(got, torch.stack(losses).mean(), rtol=1e-5, atol=0)
    assert model.eta.item() == pytest.approx(etas[table.log_losses.argmin()].item())


@pytest.mark.filterwarnings("ignore:PlackettLuceRegression has few answers")
def test_folds_weigh_by_their_comparisons_and_counts() -> None:
    """Of unequal size, and each ranking as often as it was given."""
    x, answers = synthetic(num_sets=5)
    rankings = Rankings(answers.orders, counts=torch.tensor([1, 7, 2, 1, 4]))
    etas = torch.tensor([0.1, 3.0])
    table = PlackettLuceRegression(x, feedback=[rankings]).cross_validate_eta(
        etas, num_folds=2, generator=torch.Generator().manual_seed(5)
    )
    for eta, got in zip(etas.tolist(), table.log_losses.tolist(), strict=True):
        total, number = 0.0, 0
        for train, (held_out,) in answer_folds(
            [rankings], 2, torch.Generator().manual_seed(5)
        ):
            model = PlackettLuceRegression(x, feedback=train, eta=eta)
            counts = held_out.answer_counts.tolist()
            for order, count in zip(held_out.orders.tolist(), counts, strict=True):
                for first, second in itertools.combinations(order, 2):
                    p = model.duel_probability(
                        x[[first]], x[[second]], observation_noise=True
                    )
                    total -= count * float(p.detach().log())
                    number += count
        assert got == pytest.approx(total / number, rel=1e-5)


def test_folds_hold_every_answer_out_once() -> None:
    blocks = [Comparisons(PAIRS), CHOICES, RANKINGS]
    folds = list(answer_folds(blocks, 4, torch.Generator().manual_seed(0)))
    everything = stages_of(blocks).tolist()
    held_out = []
    for train, test in folds:
        parts = [stages_of(part) for part in (train, test)]
        parts = [
            torch.nn.functional.pad(p, (0, 4 - p.shape[-1]), value=-1).tolist()
            for p in parts
        ]
        assert sorted(parts[0] + parts[1]) == sorted(everything)
        held_out += parts[1]
    assert sorted(held_out) == sorted(everything)
    for number in (1, 9):
        with pytest.raises(FeedbackError, match=f"num_folds is {number}, .* 8"):
            list(answer_folds(blocks, number, torch.Generator()))


@each_engine
def test_batches_of_answers_learn_an_eta_each(inference) -> None:
    orders = torch.tensor([[[0, 1, 2], [3, 4, -1]], [[2, 5, -1], [4, 1, 0]]])
    batch = PlackettLuceRegression(
        points(), feedback=[Rankings(orders)], inference=inference
    )
    assert batch.eta.shape == (2,)
    batch.eta = torch.tensor([0.5, 2.0])
    together = batch.posterior(points(seed=2))
    for i in range(2):
        alone = PlackettLuceRegression(
            points(),
            feedback=[Rankings(orders[i])],
            inference=inference,
            eta=batch.eta[i].item(),
        ).posterior(points(seed=2))
        close = {"rtol": 0, "atol": 1e-6}
        torch.testing.assert_close(together.mean[i], alone.mean, **close)
        torch.testing.assert_close(together.variance[i], alone.variance, **close)


@each_engine
def test_batches_of_points_broadcast(inference) -> None:
    model = model_of(inference)
    x = torch.stack([points(4, seed=s) for s in range(6)]).reshape(3, 2, 4, 3)
    batch = model.posterior(x)
    assert batch.mean.shape == batch.variance.shape == (3, 2, 4, 1)
    assert batch.rsample(torch.Size([5])).shape == (5, 3, 2, 4, 1)
    element_posterior = model.posterior(x[2, 1])
    torch.testing.assert_close(batch.mean[2, 1], element_posterior.mean)
    torch.testing.assert_close(
        batch.distribution.covariance_matrix[2, 1],
        element_posterior.distribution.covariance_matrix,
    )


def raw_points():
    return 3 + 10 * points()


@each_engine
def test_single_precision_and_back(inference) -> None:
    x, new = raw_points(), raw_points() + 1
    model = model_of(inference, x, input_transform=InputStandardize(3))
    mean, deviation = model.posterior(new).mean, model.posterior(new).variance.sqrt()
    model.to(torch.float32)
    single = model.posterior(new.float())
    assert single.mean.dtype == single.variance.dtype == torch.float32
    # Where single precision stops: the root of its rounding, in deviations.
    for got in (single.mean.double(), model.double().posterior(new).mean):
        assert ((got - mean) / deviation).abs().max() < 1e-3
    model.train()
    torch.testing.assert_close(model.train_inputs[0], x.float().double())


@each_engine
def test_gradients_in_the_points_are_those_of_finite_differences(inference) -> None:
    model = model_of(inference, raw_points(), input_transform=InputStandardize(3))
    reference = raw_points()[:1]

    def statistic(x):
        posterior = model.posterior(x)
        duel = model.duel_posterior(x, reference)
        return (
            posterior.mean.sum()
            + posterior.distribution.covariance_matrix.sin().sum()
            + duel.variance.sin().sum()
            + model.duel_probability(x, reference, observation_noise=True).sum()
        )

    x = (3 + 10 * points(2, seed=4)).requires_grad_()
    assert torch.autograd.gradcheck(statistic, (x,))


def test_function_draws_have_the_moments_of_the_posterior() -> None:
    model = model_of("laplace", raw_points(), input_transform=InputStandardize(3))
    x, count = raw_points()[:4] + 1, 20_000
    with torch.random.fork_rng():
        torch.manual_seed(0)
        path = draw_matheron_paths(model, torch.Size([count]))
    values = path(x).detach()
    posterior = model.posterior(x)
    mean, variance = posterior.mean.squeeze(-1), posterior.variance.squeeze(-1)
    assert ((values.mean(0) - mean).abs() < 5 * (variance / count).sqrt()).all()
    spread = (variance[:, None] * variance).sqrt()
    error = values.T.cov() - posterior.distribution.covariance_matrix
    # The standard error of a covariance is at most sqrt(2 / count) of this.
    assert (error.abs() < 5 * spread * (2 / count) ** 0.5).all()


def test_prior_in_train_mode() -> None:
    model = model_of("laplace", eta=0.25)
    model.train()
    x = model.train_inputs[0]
    torch.testing.assert_close(model(x).covariance_matrix.detach(), x @ x.mT / 0.25)
    model.eval()
    torch.testing.assert_close(model(x).mean.unsqueeze(-1), model.posterior(x).mean)


def test_what_it_does_not_take() -> None:
    x = points()
    valid = Validity(torch.tensor([0]), torch.tensor([True]))
    ties = Comparisons(None, PAIRS)
    with pytest.raises(UnsupportedFeedbackError, match="does not take Validity"):
        PlackettLuceRegression(x, feedback=[valid])
    with pytest.raises(FeedbackError, match="ties"):
        PlackettLuceRegression(x, ties)
    with pytest.raises(UnsupportedFeedbackError, match="laplace, ep, variational"):
        PlackettLuceRegression(x, PAIRS, inference="nuts")
    with pytest.raises(FeedbackError, match="eta must be positive"):
        PlackettLuceRegression(x, PAIRS, eta=0.0)
    with pytest.raises(BotorchPrefError, match="no answers"):
        PlackettLuceRegression(x).log_evidence()


def test_a_warning_where_it_did_not_converge() -> None:
    model = model_of("laplace")
    model.engine = WeightEngine(partial(laplace_weights, max_iterations=0))
    with pytest.warns(InferenceWarning, match="did not converge"):
        model.diagnostics()


def test_derivatives_in_conditioned_points_are_refused() -> None:
    points = torch.rand(4, 2, generator=torch.Generator().manual_seed(0)).double()
    model = PlackettLuceRegression(points, torch.tensor([[0, 1], [2, 3]]))
    new_points = points[:2].clone().requires_grad_()
    fantasy = model.condition_on_observations(new_points, torch.tensor([[1, 0]]))
    with pytest.raises(BotorchPrefError, match="detach"):
        fantasy.posterior(points)
    with torch.no_grad():
        detached = model.condition_on_observations(new_points, torch.tensor([[1, 0]]))
        mean = fantasy.posterior(points).mean
        torch.testing.assert_close(mean, detached.posterior(points).mean)


@each_engine
def test_copies_and_states_keep_data_transform_and_predictions(inference) -> None:
    x = raw_points()
    model = model_of(inference, x, eta=0.3, input_transform=InputStandardize(3))
    plain = model_of(inference, (x - x.mean(0)) / x.std(0), eta=0.3)
    fresh = copy.deepcopy(model)
    loaded = model_of(inference, x, eta=9.0, input_transform=InputStandardize(3))
    stale = loaded.weights_mean
    assert (stale - model.weights_mean).abs().max() > 0.05
    loaded.load_state_dict(model.state_dict())
    new = raw_points() + 1
    expected = plain.posterior((new - x.mean(0)) / x.std(0)).mean
    used = (copy.deepcopy(model), pickle.loads(pickle.dumps(model)))
    for tested in (model, fresh, loaded, *used):
        torch.testing.assert_close(tested.posterior(new).mean, expected)
        torch.testing.assert_close(tested.datapoints, x)
        tested.train()
        torch.testing.assert_close(tested.train_inputs[0], x)
        torch.testing.assert_close(tested.log_evidence(), plain.log_evidence())


@each_engine
def test_weights_follow_the_transform_of_a_loaded_state(inference) -> None:
    x = raw_points()
    offset, scale = torch.tensor([1.0, -2.0, 0.5]).double(), 5.0
    scaled_model = model_of(inference, scale * x, input_transform=InputStandardize(3))
    model = model_of(inference, x, input_transform=InputStandardize(3))
    before = model.posterior(x).mean
    model.load_state_dict(scaled_model.state_dict())
    plain = model_of(inference, (x - scale * x.mean(0)) / (scale * x.std(0)))
    new = x + offset
    expected = plain.posterior((new - scale * x.mean(0)) / (scale * x.std(0))).mean
    torch.testing.assert_close(model.posterior(new).mean, expected)
    assert (model.posterior(x).mean - before).abs().max() > 0.1
