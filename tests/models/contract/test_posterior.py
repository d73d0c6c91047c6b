"""The posterior: dense formulas, duels, priors, transforms; what must not matter."""

import math
from typing import Any

import pytest
import torch
from botorch.acquisition.objective import (
    PosteriorTransform,
    ScalarizedPosteriorTransform,
)
from botorch.exceptions.errors import UnsupportedError
from botorch.models.transforms.input import InputStandardize, Normalize
from entries import Engine
from models.contract.duel_models import (
    DOUBLE,
    NEW,
    PAIRS,
    POINTS,
    RAW,
    VALID,
    assert_same_posterior,
    kernel,
    mixed,
    moments,
    uniform,
)
from torch import Tensor

from botorch_pref import (
    BotorchPrefError,
    PairwiseLogitLikelihood,
    PairwiseProbitLikelihood,
    SkewNormalPosterior,
    UnsupportedFeedbackError,
)
from botorch_pref.models import PreferenceGP


@pytest.mark.parametrize("num_points", [7, 12], ids=["points", "rows"])
def test_new_points_follow_from_those_of_answers_by_regression(
    engine: Engine, num_points: int
) -> None:
    """Utilities of the answers' points have their truths in inference and answers."""
    # 7 points and 11 rows are solved in points, 12 points and 11 rows in rows.
    points = torch.cat([POINTS, uniform(num_points - 7, 2, seed=9)])
    model = mixed(engine)
    model.set_train_data(points)
    x = torch.cat([NEW, points[:2]])
    with torch.no_grad():
        first_moments, second_moments = (
            moments(model.posterior(inputs)) for inputs in (points, x)
        )
        prior = kernel()(torch.cat([x, points])).to_dense()
    n = len(x)
    gain = torch.linalg.solve(prior[n:, n:], prior[n:, :n]).mT
    mean = 0.4 + gain @ (first_moments[0] - 0.4)
    covariance = prior[:n, :n] - gain @ (prior[n:, n:] - first_moments[1]) @ gain.mT
    torch.testing.assert_close(second_moments, (mean, covariance), rtol=0, atol=1e-7)


def test_t_batches_equal_loops(engine: Engine) -> None:
    model = engine(POINTS, PAIRS)
    x = uniform(3, 2, 4, 2, seed=2)
    mean, covariance = moments(model.posterior(x))
    assert mean.shape == (3, 2, 4), (
        f"means of 3 x 2 batches of 4 points have the shape {tuple(mean.shape)}"
    )
    for i in range(3):
        for j in range(2):
            moments_of_point = moments(model.posterior(x[i, j]))
            torch.testing.assert_close(mean[i, j], moments_of_point[0])
            torch.testing.assert_close(covariance[i, j], moments_of_point[1])


def test_outputs(engine: Engine) -> None:
    model = engine(POINTS, PAIRS)
    assert model.num_outputs == 1
    plain = moments(model.posterior(NEW))
    for copied in (model.posterior(NEW, output_indices=[0]), model.subset_output([0])):
        posterior = (
            copied if not isinstance(copied, PreferenceGP) else copied.posterior(NEW)
        )
        torch.testing.assert_close(moments(posterior), plain)
    with pytest.raises(UnsupportedError, match="output"):
        model.posterior(NEW, output_indices=[1])
    with pytest.raises(UnsupportedError, match="output"):
        model.subset_output([0, 1])


def test_observation_noise_adds_the_noise_of_one_item(engine: Engine) -> None:
    likelihood = PairwiseProbitLikelihood(0.25) if engine.boxed else None
    # Of the Gumbel noise behind a logistic answer.
    noise = 0.25 if engine.boxed else math.pi**2 / 6
    model = engine(POINTS, PAIRS, likelihood=likelihood)
    mean, covariance = moments(model.posterior(NEW))
    noisy = moments(model.posterior(NEW, observation_noise=True))
    torch.testing.assert_close(noisy[0], mean)
    torch.testing.assert_close(
        noisy[1], covariance + noise * torch.eye(4, dtype=DOUBLE)
    )
    levels = torch.tensor([0.1, 0.2, 0.3, 0.4], dtype=DOUBLE)
    noisy_moments = moments(
        model.posterior(NEW, observation_noise=levels.unsqueeze(-1))
    )
    torch.testing.assert_close(noisy_moments[1], covariance + torch.diag(levels))
    noisy_point = moments(
        model.posterior(NEW, observation_noise=levels[1:2].unsqueeze(-1))
    )
    torch.testing.assert_close(
        noisy_point[1], covariance + 0.2 * torch.eye(4, dtype=DOUBLE)
    )


def test_noise_of_model_batches(engine: Engine) -> None:
    engine.needs_boxes()
    noise = torch.tensor([0.25, 1.5], dtype=DOUBLE)
    points = torch.stack([POINTS, POINTS.flip(0)])
    model = engine(points, PAIRS, likelihood=PairwiseProbitLikelihood(noise))
    x = uniform(5, 1, 2, 2, seed=4)
    clean = moments(model.posterior(x))[1]
    noisy = moments(model.posterior(x, observation_noise=True))[1]
    eye = torch.eye(2, dtype=DOUBLE)
    expected = noise[:, None, None] * eye
    torch.testing.assert_close(noisy - clean, expected.expand(5, 2, 2, 2))
    win = model.duel_probability(x[..., :1, :], x[..., 1:, :], observation_noise=True)
    for i in range(2):
        single = engine(points[i], PAIRS, likelihood=PairwiseProbitLikelihood(noise[i]))
        expected = single.duel_probability(
            x[:, 0, :1], x[:, 0, 1:], observation_noise=True
        )
        error = (win[:, i] - expected).detach().abs().max()
        assert error.item() < 1e-5 + 0.5 * engine.sampling_error, (
            f"noisy probabilities of model {i} in a batch are off by {error.item():.2g}"
        )


class _Recorder(PosteriorTransform):
    """Returns what it was called with."""

    def forward(self, posterior: Any, X: Tensor | None = None) -> Any:
        return posterior, X

    def evaluate(self, Y: Tensor, X: Tensor | None = None) -> Tensor:
        return Y


def test_posterior_transform_sees_the_posterior_and_untransformed_inputs(
    engine: Engine,
) -> None:
    model = engine(POINTS, PAIRS, input_transform=Normalize(2))
    posterior, x = model.posterior(NEW, posterior_transform=_Recorder())
    torch.testing.assert_close(moments(posterior), moments(model.posterior(NEW)))
    assert x is NEW, "a posterior transform is not given the untransformed inputs"


def test_a_scaled_posterior_is_of_the_same_kind(engine: Engine) -> None:
    model = engine(POINTS, PAIRS)
    plain = model.posterior(NEW)
    mean, covariance = moments(plain)
    weight = torch.tensor([-2.0], dtype=DOUBLE)
    transform = ScalarizedPosteriorTransform(weight, offset=0.7)
    posterior = model.posterior(NEW, posterior_transform=transform)
    assert type(posterior) is type(plain), (
        f"a scaled {type(plain).__name__} is a {type(posterior).__name__}"
    )
    scaled = moments(posterior)
    torch.testing.assert_close(scaled[0], 0.7 - 2 * mean)
    torch.testing.assert_close(scaled[1], 4 * covariance)
    if isinstance(plain, SkewNormalPosterior):
        torch.testing.assert_close(posterior.skewness, -plain.skewness)
    else:
        theirs = moments(transform(plain))
        torch.testing.assert_close(scaled, theirs)
    twice = ScalarizedPosteriorTransform(torch.ones(2, dtype=DOUBLE))
    with pytest.raises((RuntimeError, NotImplementedError)):
        model.posterior(NEW, posterior_transform=twice)


def test_gpytorchs_own_call(engine: Engine) -> None:
    model = mixed(engine)
    prior = model(*model.train_inputs)
    torch.testing.assert_close(prior.covariance_matrix, kernel()(POINTS).to_dense())
    torch.testing.assert_close(prior.mean, torch.full((7,), 0.4, dtype=DOUBLE))
    normal = model.eval()(NEW)
    posterior = model.posterior(NEW)
    torch.testing.assert_close(normal.mean, posterior.mean.squeeze(-1))
    torch.testing.assert_close(normal.covariance_matrix, posterior.covariance_matrix)


# --- Duels


def test_duel_posterior_is_the_difference_of_the_joint_posterior(
    engine: Engine,
) -> None:
    model = mixed(engine)
    x, point, points = NEW[:2], NEW[3:], uniform(2, 2, seed=7)
    for reference, sign in (
        (point, torch.tensor([[1, 0, -1], [0, 1, -1]])),
        (points, torch.tensor([[1, 0, -1, 0], [0, 1, 0, -1]])),
    ):
        mean, covariance = moments(model.posterior(torch.cat([x, reference])))
        contrast = sign.to(mean)
        duel = model.duel_posterior(x, reference)
        torch.testing.assert_close(duel.mean.squeeze(-1), contrast @ mean)
        expected = contrast @ covariance @ contrast.T
        torch.testing.assert_close(duel.covariance_matrix, expected)
        # A t-batch of the same gives the same.
        batch = model.duel_posterior(x.expand(3, 2, 2), reference)
        torch.testing.assert_close(batch.covariance_matrix[1], expected)


def test_a_point_differs_from_itself_by_nothing(engine: Engine) -> None:
    model = engine(POINTS, PAIRS)
    half = torch.full((4,), 0.5, dtype=DOUBLE)
    torch.testing.assert_close(model.duel_probability(NEW, NEW), half)
    noisy = model.duel_probability(NEW, NEW, observation_noise=True)
    torch.testing.assert_close(noisy, half)
    duel = model.duel_posterior(NEW, NEW[1:2])
    samples = duel.rsample(torch.Size([3]))
    assert samples[:, 1].abs().max().item() < 1e-7, (
        f"samples of a point less itself are {samples[:, 1].flatten().tolist()}"
    )
    joint_samples = model.posterior(NEW[[0, 1, 0]]).rsample(torch.Size([3]))
    torch.testing.assert_close(joint_samples[:, 0], joint_samples[:, 2])


@pytest.mark.parametrize("logit", [False, True], ids=["probit", "logit"])
def test_duel_probabilities_are_those_of_samples(engine: Engine, logit: bool) -> None:
    if logit and not engine.logit:
        pytest.skip("The engine does not take this likelihood.")
    if not logit:
        engine.needs_boxes()
    likelihood = PairwiseLogitLikelihood() if logit else PairwiseProbitLikelihood(0.3)
    model = engine(POINTS, PAIRS, likelihood=likelihood, covar_module=kernel())
    first, second = NEW[:3], NEW[3:]
    count = 40_000
    with torch.random.fork_rng():
        torch.manual_seed(0)
        samples = model.posterior(NEW).rsample(torch.Size([count])).squeeze(-1)
    difference = samples[:, :3] - samples[:, 3:]
    for noise, per_sample in (
        (False, (difference > 0).double()),
        (True, likelihood(difference).probs.detach()),
    ):
        win = model.duel_probability(first, second, observation_noise=noise)
        loss = model.duel_probability(second, first, observation_noise=noise)
        torch.testing.assert_close(win + loss, torch.ones_like(win))
        standard_error = per_sample.std(0) / count**0.5
        assert bool(((win - per_sample.mean(0)).abs() < 5 * standard_error).all()), (
            f"wins {win.tolist()} are not within 5 standard errors of "
            f"{per_sample.mean(0).tolist()}, those of samples"
        )
    # The batch of all pairs, and a single reference.
    grid = model.duel_probability(NEW.unsqueeze(1), NEW)
    torch.testing.assert_close(grid + grid.T, torch.ones_like(grid))
    torch.testing.assert_close(
        grid[:3, 3:], model.duel_probability(first, second).unsqueeze(-1)
    )


def test_a_model_of_validity_alone_has_no_answers_to_duels(engine: Engine) -> None:
    engine.needs_boxes()
    model = engine(POINTS, feedback=[VALID])
    assert model.duel_probability(NEW[:1], NEW[1:2]).shape == (1,)
    with pytest.raises(UnsupportedFeedbackError, match=r"likelihood=.*Comparisons"):
        model.duel_probability(NEW[:1], NEW[1:2], observation_noise=True)
    with pytest.raises(UnsupportedFeedbackError, match=r"likelihood=.*Comparisons"):
        model.condition_on_observations(NEW, torch.tensor([[0, 1]]))


# --- Without answers, the prior alone


@pytest.mark.parametrize("with_points", [False, True], ids=["nothing", "points"])
@pytest.mark.parametrize("transform", [False, True], ids=["plain", "normalised"])
def test_without_answers_it_predicts_the_prior(
    engine: Engine, with_points: bool, transform: bool
) -> None:
    bounds = torch.tensor([[0.0, 0.0], [2.0, 4.0]], dtype=DOUBLE)
    model = engine(
        POINTS if with_points else None,
        covar_module=kernel(),
        input_transform=Normalize(2, bounds=bounds) if transform else None,
    )
    assert model.num_outputs == 1
    assert model.train_targets is None
    posterior = model.posterior(NEW.expand(3, 4, 2))
    x = NEW / bounds[1] if transform else NEW
    prior = kernel()(x).to_dense().expand(3, 4, 4)
    torch.testing.assert_close(posterior.covariance_matrix, prior)
    torch.testing.assert_close(posterior.mean, torch.zeros(3, 4, 1, dtype=DOUBLE))
    assert model.diagnostics()["converged"], (
        "a model without answers says that it did not converge"
    )
    with pytest.raises(BotorchPrefError, match="no feedback"):
        model.train().log_evidence()


# --- Input transforms


@pytest.mark.parametrize("query_first", [False, True], ids=["fresh", "trained"])
def test_a_learned_normalisation_is_that_of_the_data(
    engine: Engine, query_first: bool
) -> None:
    low, high = RAW.amin(0), RAW.amax(0)
    model = engine(RAW, PAIRS, input_transform=Normalize(2))
    plain = engine((RAW - low) / (high - low), PAIRS)
    if query_first:
        model.train()
        torch.testing.assert_close(model.log_evidence(), plain.log_evidence())
    x = 30 * NEW - 7
    expected = plain.posterior((x - low) / (high - low))
    assert_same_posterior(engine, model.posterior(x), expected, 1e-6)
    torch.testing.assert_close(model.datapoints, RAW)
    torch.testing.assert_close(model.train_inputs[0], (RAW - low) / (high - low))
    model.train()
    torch.testing.assert_close(model.train_inputs[0], RAW)
    torch.testing.assert_close(model.log_evidence(), plain.log_evidence())
    assert_same_posterior(engine, model.posterior(x), expected, 1e-6)


def test_new_data_in_eval_mode_are_untransformed(engine: Engine) -> None:
    model = engine(RAW, PAIRS, input_transform=Normalize(2)).eval()
    model.set_train_data(model.datapoints, PAIRS.flip(-1))
    expected = engine(RAW, PAIRS.flip(-1), input_transform=Normalize(2))
    assert_same_posterior(engine, model.posterior(RAW), expected.posterior(RAW))
    torch.testing.assert_close(model.datapoints, RAW)
    # The bounds stay those that were learned.
    bounds = Normalize(2, bounds=torch.stack([RAW.amin(0), RAW.amax(0)]))
    pair = torch.tensor([[2, 5]])
    model.set_train_data(RAW[:6], pair)
    expected = engine(RAW[:6], pair, input_transform=bounds)
    assert_same_posterior(engine, model.posterior(RAW), expected.posterior(RAW))
    model.train()
    torch.testing.assert_close(model.train_inputs[0], RAW[:6])


def test_duplicates_count_in_a_learned_standardisation(engine: Engine) -> None:
    points = torch.cat([RAW, RAW[:3]])
    model = engine(points, PAIRS, input_transform=InputStandardize(2))
    model.train()
    model.log_evidence()
    torch.testing.assert_close(model.input_transform.means, points.mean(0)[None])
    standard = (points - points.mean(0)) / points.std(0)
    x = 30 * NEW - 7
    expected = engine(standard, PAIRS).posterior((x - points.mean(0)) / points.std(0))
    assert_same_posterior(engine, model.posterior(x), expected)


# --- What must not matter


def test_a_point_against_its_own_copy_says_nothing(engine: Engine) -> None:
    points = torch.cat([POINTS, POINTS[:1]])
    with_copy = torch.cat([PAIRS, torch.tensor([[0, 7], [7, 0], [0, 7]])])
    model = engine(points, with_copy, covar_module=kernel())
    plain = engine(POINTS, PAIRS, covar_module=kernel())
    assert_same_posterior(engine, model.posterior(NEW), plain.posterior(NEW))
    # Three answers with probability one half each.
    expected = plain.log_evidence() - 3 * torch.tensor(2.0, dtype=DOUBLE).log()
    torch.testing.assert_close(model.train().log_evidence(), expected)
