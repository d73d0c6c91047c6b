"""Duels of points that are nearly, or exactly, the same."""

import pytest
import torch
from botorch.posteriors import GPyTorchPosterior
from draws import normal
from entries import Engine
from gpytorch.distributions import MultivariateNormal
from gpytorch.kernels import LinearKernel
from linear_operator import to_linear_operator
from models.contract.duel_models import (
    DOUBLE,
    NEW,
    PAIRS,
    POINTS,
    assert_same_posterior,
    kernel,
    uniform,
)
from torch import Tensor

from botorch_pref import (
    BetaRatingLikelihood,
    EPPreferenceGP,
    PlackettLuceRegression,
    Ratings,
    incumbent,
)
from botorch_pref.models import PreferenceGP

DISTANCES = 10.0 ** -torch.arange(1.0, 13.0)
X = uniform(1, 2, seed=11)
ALONG = torch.tensor([[0.6, -0.8]], dtype=DOUBLE)


def away(distances: Tensor, x: Tensor = X) -> Tensor:
    """Places points at these distances from one."""
    return x + distances.to(x).unsqueeze(-1) * ALONG.to(x)


def probabilities(
    model: PreferenceGP | PlackettLuceRegression, near: Tensor, noisy: bool = False
) -> tuple[Tensor, Tensor]:
    x = X.to(near)
    with torch.no_grad():
        return (
            model.duel_probability(near, x, observation_noise=noisy),
            model.duel_probability(x, near, observation_noise=noisy),
        )


def precise_ratings() -> EPPreferenceGP:
    """Makes ratings with posterior variances far below those of the prior."""
    ratings = Ratings(torch.arange(7), torch.linspace(0.2, 0.8, 7, dtype=DOUBLE))
    likelihood = BetaRatingLikelihood(1e5)
    return EPPreferenceGP(
        POINTS, feedback=[ratings], likelihood=likelihood, covar_module=kernel()
    )


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.filterwarnings("ignore::botorch.exceptions.InputDataWarning")
def test_one_of_the_two_wins(engine: Engine, dtype: torch.dtype) -> None:
    model = engine(POINTS.to(dtype), PAIRS)
    for noisy in (False, True):
        win, loss = probabilities(model, away(DISTANCES).to(dtype), noisy)
        assert bool(win.isfinite().all()), (
            f"probabilities of near duplicates are {win.tolist()}"
        )
        exact = 16 * torch.finfo(dtype).eps
        torch.testing.assert_close(win + loss, torch.ones_like(win), rtol=0, atol=exact)


def test_probabilities_go_to_a_half_smoothly(engine: Engine) -> None:
    check_smooth(engine(POINTS, PAIRS, covar_module=kernel()))


def test_precise_answers_go_to_a_half_smoothly() -> None:
    check_smooth(precise_ratings())


def check_smooth(model: PreferenceGP) -> None:
    grid = torch.logspace(-1, -12, 441, dtype=DOUBLE)
    win, _ = probabilities(model, away(grid))
    assert abs(float(win[0]) - 0.5) > 0.05, (
        f"at a distance of 0.1 a win has {float(win[0])}: there is nothing to fade"
    )
    torch.testing.assert_close(
        win[-1], win.new_tensor(0.5), rtol=0, atol=1e-3, check_dtype=False
    )
    # A fortieth of a decade; a coin's toss between 0 and 1 without resolution.
    assert float(win.diff().abs().max()) < 0.02, (
        f"the probability of a win jumps by {float(win.diff().abs().max()):.3f} on the "
        "way to a half"
    )


@pytest.mark.parametrize("distance", [1e-4, 1e-12])
def test_near_duplicates_are_almost_duplicates(engine: Engine, distance: float) -> None:
    """Three points that are close, compared with others and with each other."""
    away = torch.tensor([[0.0, 0.0], [1.0, 0.0], [0.0, 1.0]], dtype=DOUBLE)
    pairs = torch.tensor([[0, 3], [4, 1], [2, 5], [0, 1], [2, 0], [1, 2]])
    near, equal_model = (
        engine(torch.cat([X + d * away, POINTS[1:4]]), pairs, covar_module=kernel())
        for d in (distance, 0.0)
    )
    # Utilities of points at this distance differ by about five distances in deviation.
    allowed = 20 * distance + 1e-6
    assert_same_posterior(
        engine, near.posterior(NEW), equal_model.posterior(NEW), allowed
    )
    evidences = [model.train().log_evidence() for model in (near, equal_model)]
    torch.testing.assert_close(*evidences, rtol=0, atol=allowed)


def test_equal_points_win_half() -> None:
    for model in (precise_ratings(), PlackettLuceRegression(POINTS, PAIRS)):
        for x in (X, torch.zeros_like(X)):
            half = model.duel_probability(x, x)
            torch.testing.assert_close(half, torch.full_like(half, 0.5))


@pytest.mark.parametrize("n", range(12, 17))
def test_equal_points_win_half_to_the_last_digit(n: int) -> None:
    """Whatever the order in which a matrix product sums the rows of the two."""
    points = uniform(n, 2)
    chain = torch.stack([torch.arange(n - 1), torch.arange(1, n)], dim=-1)
    model = EPPreferenceGP(points, chain, covar_module=kernel())
    model.covar_module.base_kernel.lengthscale = 5.0
    model.covar_module.outputscale = 1e4
    model.likelihood.noise = 1e-4
    x = points.clone().requires_grad_()
    half = model.duel_probability(x, points)
    assert bool((half == 0.5).all()), (
        f"equal points win {half.tolist()}, not a half to the last digit"
    )
    (gradient,) = torch.autograd.grad(half.sum(), x)
    assert bool((gradient != 0).any()), (
        "the probability of equal points has no gradient"
    )


@pytest.mark.parametrize("noisy", [False, True])
def test_a_linear_utility_is_right_where_it_is_resolved(noisy: bool) -> None:
    """The sign of ``w'd`` alone decides, whatever the distance is."""
    line = LinearKernel(ard_num_dims=2).double()
    model = EPPreferenceGP(POINTS, PAIRS, covar_module=line)
    unit = torch.eye(2, dtype=DOUBLE)
    posterior = model.posterior(unit)
    slope = (ALONG @ posterior.mean).squeeze().detach()
    spread = (ALONG @ posterior.covariance_matrix @ ALONG.mT).squeeze().detach()
    for distance in (1e-1, 1e-2, 1e-3, 1e-4, 1e-5):
        win, _ = probabilities(model, away(torch.tensor([distance])), noisy)
        noise = 2 * float(model.likelihood.noise) if noisy else 0.0
        truth = torch.special.ndtr(
            distance * slope / (distance**2 * spread + noise).sqrt()
        )
        # What is added for rounding, beside the variance itself.
        doubt = 64 * torch.finfo(DOUBLE).eps / distance**2
        assert float(win) == pytest.approx(float(truth), rel=1e-9 + doubt), (
            f"at a distance of {distance:g} a win has {float(win)}, not {float(truth)}"
        )


@pytest.mark.parametrize("inference", ["variational", "laplace"])
def test_a_regression_is_right_down_to_the_rounding_of_features(
    inference: str,
) -> None:
    model = PlackettLuceRegression(POINTS, PAIRS, inference=inference)
    slope = (ALONG @ model.weights_mean).squeeze()
    spread = (ALONG @ model.weights_covariance @ ALONG.mT).squeeze()
    truth = torch.special.ndtr(slope / spread.sqrt()).detach()
    win, loss = probabilities(model, away(DISTANCES))
    torch.testing.assert_close(win + loss, torch.ones_like(win), rtol=0, atol=1e-15)
    # The points themselves are rounded, to 1e-16 of a distance of 1e-12.
    torch.testing.assert_close(win, truth.expand(12), rtol=0, atol=1e-3)
    torch.testing.assert_close(win[:8], truth.expand(8), rtol=0, atol=1e-7)
    # A shift by less than a feature's rounding.
    win, _ = probabilities(model, X * (1 + 1e-16 * ALONG))
    assert abs(float(win) - 0.5) < 0.25 * abs(float(truth) - 0.5), (
        f"a shift below rounding wins {float(win)}, nearer to {float(truth)} than to a "
        "half"
    )


class _Duplicates(EPPreferenceGP):
    """Five points that rounding alone tells apart, one that is better, one as good."""

    def posterior(self, X: Tensor, *_: object, **__: object) -> GPyTorchPosterior:
        rounding = 1e-15 * normal(8, 7, seed=4)
        covariance = torch.eye(7, dtype=DOUBLE) + rounding[1:] + rounding[1:].mT
        covariance[:5, :5] += 1 - torch.eye(5, dtype=DOUBLE)
        mean = rounding[0]
        mean[5] += 0.4
        return GPyTorchPosterior(
            MultivariateNormal(mean, to_linear_operator(covariance))
        )


def test_rounding_does_not_choose_the_incumbent() -> None:
    torch.testing.assert_close(incumbent(_Duplicates(POINTS, PAIRS)), POINTS[5:6])
