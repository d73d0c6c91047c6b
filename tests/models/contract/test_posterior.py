"""The posterior itself: dense formulas, batches, noise, transforms, gradients."""

import math
from typing import Any

import pytest
import torch
from botorch.acquisition.objective import (
    PosteriorTransform,
    ScalarizedPosteriorTransform,
)
from botorch.exceptions.errors import UnsupportedError
from botorch.models.transforms.input import Normalize
from entries import Engine
from models.contract.duel_models import (
    DOUBLE,
    NEW,
    PAIRS,
    POINTS,
    answers,
    assert_same_posterior,
    full,
    kernel,
    mixed,
    moments,
    number,
    uniform,
)
from torch import Tensor
from truths.gaussian_posteriors import rows_of

from botorch_pref import (
    PairwiseProbitLikelihood,
    SkewNormalPosterior,
)
from botorch_pref.models.preference_gp import PreferenceGP


@pytest.mark.parametrize("num_points", [7, 12], ids=["points", "rows"])
def test_posterior_is_that_of_dense_formulas(engine: Engine, num_points: int) -> None:
    # 7 points and 11 rows are solved in points, 12 points and 11 rows in rows.
    points = torch.cat([POINTS, uniform(num_points - 7, 2, seed=9)])
    engine = engine.with_draws(16_384)
    model = mixed(engine)
    model.set_train_data(points)
    x = torch.cat([NEW, points[:2]])
    with torch.no_grad():
        actual = moments(model.posterior(x))
        joint = torch.cat([points, x])
        covariance = kernel()(joint).to_dense()
    pairs, validity = full(engine)
    threshold = 0.5 if engine.boxed else 0.0
    rows = rows_of(pairs, *validity or [None], threshold, (0.3, 0.7), len(joint))
    mean = torch.full((len(joint),), 0.4, dtype=DOUBLE)
    truth = engine.reference(covariance, mean, rows)
    n = len(points)
    expected = truth[0][n:], truth[1][n:, n:]
    assert_same_posterior(engine, actual, expected)


def test_t_batches_equal_loops(engine: Engine) -> None:
    model = engine(POINTS, PAIRS)
    x = uniform(3, 2, 4, 2, seed=2)
    mean, covariance = moments(model.posterior(x))
    assert mean.shape == (3, 2, 4)
    for i in range(3):
        for j in range(2):
            one = moments(model.posterior(x[i, j]))
            torch.testing.assert_close(mean[i, j], one[0])
            torch.testing.assert_close(covariance[i, j], one[1])


@pytest.mark.parametrize("own_kernel", [False, True], ids=["batched", "shared"])
def test_model_batches_broadcast_and_equal_loops(
    engine: Engine, own_kernel: bool
) -> None:
    points = uniform(2, 7, 2, seed=3)
    pairs = torch.stack([answers(points[0], 5), answers(points[1], 5, seed=2)])
    arguments = {"covar_module": kernel()} if own_kernel else {}
    model = engine(points, pairs, **arguments)
    assert model.batch_shape == (2,)
    x = uniform(5, 1, 3, 2, seed=4)
    posterior = model.posterior(x)
    assert posterior.mean.shape == (5, 2, 3, 1)
    assert posterior.variance.shape == (5, 2, 3, 1)
    assert posterior.rsample(torch.Size([6])).shape == (6, 5, 2, 3, 1)
    mean, covariance = moments(posterior)
    for i in range(2):
        single = engine(points[i], pairs[i], **arguments)
        batch = mean[:, i], covariance[:, i]
        assert_same_posterior(engine, batch, single.posterior(x[:, 0]))


def test_one_set_of_points_with_batches_of_answers(engine: Engine) -> None:
    pairs = torch.stack([PAIRS, PAIRS.flip(-1)])
    model = engine(torch.cat([POINTS, POINTS[:1]]), pairs)
    mean, covariance = moments(model.posterior(NEW))
    assert mean.shape == (2, 4)
    for i in range(2):
        single = engine(POINTS, pairs[i])
        assert_same_posterior(engine, (mean[i], covariance[i]), single.posterior(NEW))


def test_outputs(engine: Engine) -> None:
    model = engine(POINTS, PAIRS)
    assert model.num_outputs == 1
    plain = moments(model.posterior(NEW))
    for same in (model.posterior(NEW, output_indices=[0]), model.subset_output([0])):
        posterior = same if not isinstance(same, PreferenceGP) else same.posterior(NEW)
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
    given = moments(model.posterior(NEW, observation_noise=levels.unsqueeze(-1)))
    torch.testing.assert_close(given[1], covariance + torch.diag(levels))
    one = moments(model.posterior(NEW, observation_noise=levels[1:2].unsqueeze(-1)))
    torch.testing.assert_close(one[1], covariance + 0.2 * torch.eye(4, dtype=DOUBLE))


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
        assert number(error) < 1e-5 + 0.5 * engine.sampling_error


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
    assert x is NEW


def test_a_scaled_posterior_is_of_the_same_kind(engine: Engine) -> None:
    model = engine(POINTS, PAIRS)
    plain = model.posterior(NEW)
    mean, covariance = moments(plain)
    weight = torch.tensor([-2.0], dtype=DOUBLE)
    transform = ScalarizedPosteriorTransform(weight, offset=0.7)
    posterior = model.posterior(NEW, posterior_transform=transform)
    assert type(posterior) is type(plain)
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


def test_posterior_mean_and_variance_have_the_right_gradient(engine: Engine) -> None:
    model = mixed(engine)

    def statistic(x: Tensor) -> Tensor:
        posterior = model.posterior(x)
        return posterior.mean.sum() + (posterior.covariance_matrix.sin()).sum()

    assert torch.autograd.gradcheck(statistic, (NEW.clone().requires_grad_(),))
