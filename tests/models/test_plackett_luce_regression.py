"""Plackett-Luce in weight space behind BoTorch's interface."""

import pickle

import pytest
import torch
from botorch.fit import fit_gpytorch_mll
from botorch.models.transforms.input import InputStandardize
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
from botorch_pref.inference import laplace_weights as laplace_module
from botorch_pref.models.set_folds import set_folds
from botorch_pref.models.stages import comparisons_of, stages_of

DOUBLE = torch.float64
PAIRS = torch.tensor([[0, 1], [3, 2], [5, 0], [0, 1]])
CHOICES = Choices(torch.tensor([[0, 1, 2, 5], [4, 3, 1, -1]]), torch.tensor([2, 4]))
RANKINGS = Rankings(torch.tensor([[3, 4, 5, 1], [2, 0, 3, -1]]))
GPS = {"variational": VariationalPreferenceGP, "laplace": LaplacePreferenceGP}
each_engine = pytest.mark.parametrize("inference", GPS)


def points(n=6, d=3, seed=0):
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(n, d, generator=generator, dtype=DOUBLE)


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
    heard = (x @ theta)[sets] + gumbel
    return x, Rankings(sets.gather(-1, heard.argsort(-1, descending=True)))


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
    x, other = points(seed=7), points(seed=8)
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
            model.duel_probability(x, other, observation_noise=noise),
            gp.duel_probability(x, other, observation_noise=noise).detach(),
            **close,
        )
    torch.testing.assert_close(
        model.diagnostics()["log_evidence"], gp.diagnostics()["log_evidence"], **close
    )


def test_the_map_is_the_same_whatever_the_inference() -> None:
    both = [model_of(inference, eta=0.4).map_estimate() for inference in GPS]
    torch.testing.assert_close(*both)
    laplace = model_of("laplace", eta=0.4)
    torch.testing.assert_close(laplace.weights_mean, both[0])


def test_duels_against_draws_of_the_weights() -> None:
    model = model_of("laplace", eta=0.5)
    x, other = points(seed=7), points(seed=8)
    generator = torch.Generator().manual_seed(0)
    white = torch.randn(200_000, 3, generator=generator, dtype=DOUBLE)
    theta = (
        model.weights_mean + white @ torch.linalg.cholesky(model.weights_covariance).mT
    )
    gap = theta @ (x - other).mT
    for noise, wins in ((False, (gap > 0).double()), (True, gap.sigmoid())):
        torch.testing.assert_close(
            model.duel_probability(x, other, observation_noise=noise),
            wins.mean(0),
            rtol=0,
            # Four standard errors of a Bernoulli variable.
            atol=4 * 0.5 / 200_000**0.5,
        )
    assert model.duel_probability(x[:1], x[:1]).item() == 0.5


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


@each_engine
def test_cross_validation_by_hand(inference) -> None:
    x, answers = synthetic(num_sets=12)
    etas = torch.tensor([0.01, 1.0, 30.0])
    model = PlackettLuceRegression(x, feedback=[answers], inference=inference)
    table = model.cross_validate_eta(
        etas, num_folds=3, generator=torch.Generator().manual_seed(5)
    )
    folds = list(set_folds([answers], 3, torch.Generator().manual_seed(5)))
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


def test_folds_hold_every_answer_out_once() -> None:
    blocks = [Comparisons(PAIRS), CHOICES, RANKINGS]
    folds = list(set_folds(blocks, 4, torch.Generator().manual_seed(0)))
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
        with pytest.raises(FeedbackError, match=f"num_folds={number} of 8"):
            list(set_folds(blocks, number, torch.Generator()))


def test_comparisons_of_a_ranking_are_all_its_pairs() -> None:
    pairs = comparisons_of(stages_of([Rankings(torch.tensor([[2, 0, 1]]))]))
    found = {tuple(pair) for pair in pairs.tolist() if pair[0] >= 0}
    assert found == {(2, 0), (2, 1), (0, 1)}


@each_engine
def test_batches_of_answers_learn_an_eta_each(inference) -> None:
    orders = torch.tensor([[[0, 1, 2], [3, 4, -1]], [[2, 5, -1], [4, 1, 0]]])
    batch = PlackettLuceRegression(
        points(), feedback=[Rankings(orders)], inference=inference
    )
    assert batch.eta.shape == (2,)
    batch.eta = torch.tensor([0.5, 2.0])
    for i in range(2):
        alone = PlackettLuceRegression(
            points(),
            feedback=[Rankings(orders[i])],
            inference=inference,
            eta=batch.eta[i].item(),
        )
        torch.testing.assert_close(
            batch.weights_mean[i], alone.weights_mean, rtol=0, atol=1e-6
        )
        torch.testing.assert_close(
            batch.posterior(points(seed=2)).mean[i],
            alone.posterior(points(seed=2)).mean,
            rtol=0,
            atol=1e-6,
        )


def test_inputs_are_transformed_and_the_model_pickles() -> None:
    x = 3 + 10 * points()
    transform = InputStandardize(3)
    model = model_of("variational", x, input_transform=transform)
    plain = model_of("variational", (x - x.mean(0)) / x.std(0))
    torch.testing.assert_close(model.weights_mean, plain.weights_mean)
    new = points(seed=4)
    expected = plain.posterior((new - x.mean(0)) / x.std(0)).mean
    torch.testing.assert_close(model.posterior(new).mean, expected)
    again = pickle.loads(pickle.dumps(model))
    torch.testing.assert_close(again.posterior(new).mean, expected)


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
    with pytest.raises(UnsupportedFeedbackError, match="variational and laplace"):
        PlackettLuceRegression(x, PAIRS, inference="ep")
    with pytest.raises(FeedbackError, match="eta must be positive"):
        PlackettLuceRegression(x, PAIRS, eta=0.0)
    with pytest.raises(BotorchPrefError, match="no answers"):
        PlackettLuceRegression(x).log_evidence()


def test_a_warning_where_it_did_not_converge(monkeypatch) -> None:
    monkeypatch.setattr(laplace_module, "_MAX_ITERATIONS", 0)
    with pytest.warns(InferenceWarning, match="did not converge"):
        model_of("laplace").diagnostics()
